//! An alarm: a sleep that counts the time during which the machine is suspended.
//!
//! A thread that is parked sleeps by the monotonic clock, which stands still meanwhile: what came
//! due during the suspension would be late by as much as had been left of the sleep. An alarm
//! waits for two files instead, without polling: a timer of the system that goes by the right
//! clock, and a counter of rings.
//!
//! *Owner*: one thread sleeps; anyone rings.
//!
//! *Orderings*: DOORBELL, as the thread's parking in its place: the counter keeps a ring that comes
//! before the sleep, which then ends at once. The system orders what came before a ring before
//! what comes after the sleep that it ends.
//!
//! *Tested by*: `tests/boottime.rs`.

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Alarm;
#[cfg(target_os = "linux")]
pub use linux::Alarm;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr;
    use std::time::Duration;

    /// Wakes one thread, when it is rung or when it is time.
    #[derive(Debug)]
    pub struct Alarm {
        /// Can be read from when the time has come that it is set to.
        timer: OwnedFd,
        /// Can be read from when somebody has rung since it was read last.
        rings: OwnedFd,
    }

    impl Alarm {
        /// An alarm that is not set. It takes two file descriptors.
        ///
        /// # Errors
        /// What the system says: there are too many files open, for example.
        pub fn new() -> io::Result<Alarm> {
            // SAFETY: both calls take numbers and touch no memory of ours.
            let timer = owned(unsafe {
                libc::timerfd_create(libc::CLOCK_BOOTTIME, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK)
            })?;
            // SAFETY: as above.
            let rings = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
            Ok(Alarm { timer, rings })
        }

        /// Ends the sleep that is under way, or else the next one.
        pub fn ring(&self) {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: the bytes live through the call, which reads as many as there are. It can
            // only fail where the counter is at its end, and then the sleep ends as well.
            unsafe { libc::write(self.rings.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }

        /// Sleeps until rung, or until [`boottime`](crate::os::boottime) shows `until` (`None`:
        /// until rung). Where the system refuses, it returns at once.
        pub fn sleep(&self, until: Option<Duration>) {
            if self.set(until).is_ok() && self.wait().is_ok() {
                self.forget_rings();
            }
        }

        /// Sets the timer, whose having gone off before is forgotten with that.
        fn set(&self, until: Option<Duration>) -> io::Result<()> {
            // A time of zero would mean none.
            let at = until.map_or(Duration::ZERO, |until| until.max(Duration::from_nanos(1)));
            let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let at = libc::timespec {
                tv_sec: libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: at.subsec_nanos() as _,
            };
            let spec = libc::itimerspec { it_interval: once, it_value: at };
            // SAFETY: the descriptor is open, and what is pointed to lives through the call.
            succeeded(unsafe {
                libc::timerfd_settime(
                    self.timer.as_raw_fd(),
                    libc::TFD_TIMER_ABSTIME,
                    &raw const spec,
                    ptr::null_mut(),
                )
            })
        }

        fn wait(&self) -> io::Result<()> {
            let readable = |file: &OwnedFd| libc::pollfd {
                fd: file.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let mut files = [readable(&self.timer), readable(&self.rings)];
            loop {
                // SAFETY: the array is as long as said and lives through the call.
                let found = unsafe { libc::poll(files.as_mut_ptr(), files.len() as _, -1) };
                match succeeded(found) {
                    // A signal was handled meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    outcome => return outcome,
                }
            }
        }

        fn forget_rings(&self) {
            let mut count = [0_u8; 8];
            // SAFETY: the bytes live through the call, which writes as many as there are at most.
            // It fails where nobody has rung.
            unsafe { libc::read(self.rings.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        }
    }

    fn succeeded(outcome: libc::c_int) -> io::Result<()> {
        if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn owned(file: libc::c_int) -> io::Result<OwnedFd> {
        succeeded(file)?;
        // SAFETY: the system has just opened it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::io;
    use std::time::Duration;

    /// There is none here.
    #[derive(Debug)]
    pub enum Alarm {}

    impl Alarm {
        /// Not supported here.
        ///
        /// # Errors
        /// Always.
        pub fn new() -> io::Result<Alarm> {
            Err(io::Error::from(io::ErrorKind::Unsupported))
        }

        /// Never called.
        pub fn ring(&self) {
            match *self {}
        }

        /// Never called.
        pub fn sleep(&self, _until: Option<Duration>) {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::os::boottime;
    use crate::sync::{Arc, thread};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(1 << 40);

    #[test]
    fn a_sleep_ends_when_it_is_time_and_not_before() {
        let alarm = Alarm::new().unwrap();
        for ms in [0, 1, 20] {
            let until = boottime().unwrap() + Duration::from_millis(ms);
            alarm.sleep(Some(until));
            assert!(boottime().unwrap() >= until);
        }
        alarm.sleep(Some(Duration::ZERO));
    }

    #[test]
    fn a_ring_ends_the_sleep_that_comes_after_it_and_one_only() {
        let alarm = Alarm::new().unwrap();
        for until in [None, Some(Duration::MAX), Some(LONG)] {
            (0..3).for_each(|_| alarm.ring());
            alarm.sleep(until);
        }
        let until = boottime().unwrap() + Duration::from_millis(5);
        alarm.sleep(Some(until));
        assert!(boottime().unwrap() >= until, "a ring that was answered is forgotten");
    }

    #[test]
    fn a_ring_ends_the_sleep_that_is_under_way() {
        let [there, back] = [(); 2].map(|()| Arc::new(Alarm::new().unwrap()));
        let echo = {
            let (there, back) = (there.clone(), back.clone());
            thread::spawn(move || {
                for _ in 0..1000 {
                    there.sleep(None);
                    back.ring();
                }
            })
        };
        for _ in 0..1000 {
            there.ring();
            back.sleep(Some(boottime().unwrap() + LONG));
        }
        echo.join().unwrap();
    }

    #[test]
    fn a_time_that_was_set_is_forgotten_with_the_sleep() {
        let alarm = Alarm::new().unwrap();
        let soon = boottime().unwrap() + Duration::from_millis(1);
        alarm.sleep(Some(soon));
        let later = soon + Duration::from_millis(15);
        alarm.sleep(Some(later));
        assert!(boottime().unwrap() >= later);
    }
}
