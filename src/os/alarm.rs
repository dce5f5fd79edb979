//! An alarm: a sleep that counts the time during which the machine is suspended.
//!
//! A parked thread sleeps by the monotonic clock, which stands still while the machine is
//! suspended: a timer that came due during the suspension would be late by the rest of the sleep.
//! An alarm waits for two files instead, without polling: a timer of the system that uses the right
//! clock, and a counter of rings.
//!
//! *Owner*: one thread sleeps; any thread rings.
//!
//! *Orderings*: DOORBELL. It takes the place of the thread's parking, and works like it: the
//! counter keeps a ring that comes before the sleep, which then ends at once. The system orders
//! what came before a ring before what comes after the sleep that the ring ends.
//!
//! *Tested by*: `tests/boottime.rs`.

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Alarm;
#[cfg(target_os = "linux")]
pub use linux::Alarm;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::io::{Errno, read, retry_on_intr, write};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    /// Wakes one thread, when it is rung or at a set time.
    #[derive(Debug)]
    pub struct Alarm {
        /// Readable once the set time has come.
        timer: OwnedFd,
        /// Readable if the alarm was rung since this was read last.
        rings: OwnedFd,
    }

    impl Alarm {
        /// An alarm that is not set. It takes two file descriptors.
        ///
        /// # Errors
        /// The system refuses, for example because too many files are open.
        pub fn new() -> io::Result<Alarm> {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
            let rings = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Alarm { timer, rings })
        }

        /// Ends the sleep that is under way, or else the next one.
        pub fn ring(&self) {
            // This fails only if the counter is at its maximum, and then the sleep ends as well.
            let _ = write(&self.rings, &1_u64.to_ne_bytes());
        }

        /// Sleeps until rung, or until [`boottime`](crate::os::boottime) shows `until` (`None`:
        /// until rung). Returns at once if the system refuses.
        pub fn sleep(&self, until: Option<Duration>) {
            if self.set(until).is_ok() && self.wait().is_ok() {
                // This fails if nobody has rung.
                let _ = read(&self.rings, &mut [0; 8]);
            }
        }

        /// Sets the timer. Forgets an expiration that nobody has read.
        fn set(&self, until: Option<Duration>) -> Result<(), Errno> {
            // A time of zero would disarm it.
            let at = until.map_or(Duration::ZERO, |until| until.max(Duration::from_nanos(1)));
            let it_value =
                Timespec::try_from(at).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            let once = Itimerspec { it_interval: Timespec::default(), it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).map(drop)
        }

        fn wait(&self) -> Result<usize, Errno> {
            let mut files = [&self.timer, &self.rings].map(|file| PollFd::new(file, PollFlags::IN));
            retry_on_intr(|| poll(&mut files, None))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::io;
    use std::time::Duration;

    /// No alarm can be made on this system.
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
        assert!(boottime().unwrap() >= until, "a ring that ended a sleep is forgotten");
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
