//! A timer of the system that any thread can set; and an alarm: a sleep by such a timer, and a
//! counter of rings.
//!
//! A timer is a file. A runtime's reactor can wait for it (`doorbell/alarm.rs`), and an alarm does.
//!
//! An alarm does what parking a thread does not. A parked thread sleeps by the monotonic clock,
//! which stands still while the machine is suspended: a timer that came due during the suspension
//! would be late by the rest of the sleep. And only the thread itself says how long it parks. An
//! alarm waits for two files instead, without polling: a timer that uses the right clock, and a
//! counter of rings.
//!
//! A third file, an epoll instance, notes when one of the two has something new. It is
//! *edge-triggered*: each ring and each time that comes is noted, whether or not those before were
//! read, and a wait takes the notes off. So the two files are never read, and a sleep that a ring
//! or the set time ends is one system call. If the timer is set anew, a note of the time before is
//! void.
//!
//! *Owner*: one thread sleeps; any thread rings; who sets it, the caller decides.
//!
//! *Orderings*: DOORBELL, TAKEOVER. It takes the place of the thread's parking, and works like it:
//! the counter keeps a ring that comes before the sleep, which then ends at once. The system orders
//! what came before a ring before what comes after the sleep that the ring ends.
//!
//! *Tested by*: the unit tests below, `tests/alone/boottime.rs`,
//! `tests/realtime/idle.rs`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::write;
use rustix::time::{
    Itimerspec, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// The clock of a timer or an alarm. `Boottime` counts the time during which the machine is
/// suspended, `Monotonic` does not. A sleep by `Realtime`, the wall clock, ends when that clock is
/// set to the time or past it, and takes longer when it is set back.
pub use rustix::time::TimerfdClockId as AlarmClock;

/// A time by a clock of the system, and a file that becomes readable when it has come. Any thread
/// may set it. Nobody reads the file: when the time is set anew, it has not come yet.
#[derive(Debug)]
pub struct TimerFile {
    file: OwnedFd,
}

/// Wakes one thread, when it is rung or at a set time.
#[derive(Debug)]
pub struct AlarmFiles {
    timer: TimerFile,
    rings: OwnedFd,
    /// Notes the rings, and that the set time has come.
    notes: OwnedFd,
}

// === impl TimerFile ===

impl TimerFile {
    /// A timer by `clock`. It is not set, and takes a file descriptor.
    ///
    /// # Errors
    /// The system refuses, for example because too many files are open.
    pub fn new(clock: AlarmClock) -> io::Result<TimerFile> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(TimerFile { file: timerfd_create(clock, flags)? })
    }

    /// Sets the time, by the timer's clock (`None`: it does not come). Forgets an earlier one, also
    /// if it has come.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set(&self, at: Option<Duration>) -> io::Result<()> {
        // A time of zero would disarm it.
        let at = at.map_or(Duration::ZERO, |at| at.max(Duration::from_nanos(1)));
        let it_value = Timespec::try_from(at).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.file, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}

impl AsRawFd for TimerFile {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

// === impl AlarmFiles ===

impl AlarmFiles {
    /// An alarm by `clock`. It is not set, and takes three file descriptors.
    ///
    /// # Errors
    /// As [`TimerFile::new`].
    pub fn new(clock: AlarmClock) -> io::Result<AlarmFiles> {
        let timer = TimerFile::new(clock)?;
        let rings = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let notes = epoll::create(CreateFlags::CLOEXEC)?;
        for file in [&timer.file, &rings] {
            // Which of them it was makes no difference.
            epoll::add(&notes, file, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        }
        Ok(AlarmFiles { timer, rings, notes })
    }

    /// Ends the sleep that is under way, or else the next one.
    pub fn ring(&self) {
        // This fails only if the counter is at its maximum, which takes 2^64 rings.
        let _ = write(&self.rings, &1_u64.to_ne_bytes());
    }

    /// Sleeps until rung, or until the alarm's clock shows `until` (`None`: until rung).
    /// Returns at once if the system refuses. Only for an alarm that no other thread sets.
    pub fn sleep(&self, until: Option<Duration>) {
        if self.set(until).is_ok() {
            self.wait(None);
        }
    }

    /// Sleeps until rung, until the time that was set, or until `timeout` has passed; returns
    /// at once if one of the first two came before, or if the system refuses. Forgets both.
    pub fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // A signal ends the sleep early, which does no harm.
        let Some(timeout) = timeout else { return self.take_notes(None) };
        // (A wait for the notes themselves takes a timeout of nanoseconds only from Linux 5.11 on.)
        let mut notes = [PollFd::new(&self.notes, PollFlags::IN)];
        if poll(&mut notes, Some(&timeout)).is_ok_and(|ready| ready > 0) {
            self.take_notes(Some(&Timespec::default()));
        }
    }

    /// Waits until there is a note, or until `timeout` has passed, and takes both notes off.
    fn take_notes(&self, timeout: Option<&Timespec>) {
        let mut notes = [const { MaybeUninit::uninit() }; 2];
        let _ = epoll::wait(&self.notes, &mut notes, timeout);
    }

    /// Sets the timer: the sleep that is under way, or else the next one, ends when the alarm's
    /// clock shows `until` (`None`: not because of the timer). Forgets an earlier setting.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set(&self, until: Option<Duration>) -> io::Result<()> {
        self.timer.set(until)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::os::{self, boottime};
    use crate::sync::{Arc, thread};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(1 << 40);

    #[test]
    fn a_sleep_ends_when_it_is_time_and_not_before() {
        let alarm = AlarmFiles::new(AlarmClock::Boottime).unwrap();
        for ms in [0, 1, 20] {
            let until = boottime().unwrap() + Duration::from_millis(ms);
            alarm.sleep(Some(until));
            assert!(boottime().unwrap() >= until);
        }
        alarm.sleep(Some(Duration::ZERO));
    }

    #[test]
    fn a_ring_ends_the_sleep_that_comes_after_it_and_one_only() {
        let alarm = AlarmFiles::new(AlarmClock::Boottime).unwrap();
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
        let [there, back] =
            [(); 2].map(|()| Arc::new(AlarmFiles::new(AlarmClock::Boottime).unwrap()));
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
        let alarm = AlarmFiles::new(AlarmClock::Boottime).unwrap();
        let soon = boottime().unwrap() + Duration::from_millis(1);
        alarm.sleep(Some(soon));
        let later = soon + Duration::from_millis(15);
        alarm.sleep(Some(later));
        assert!(boottime().unwrap() >= later);
    }

    #[test]
    fn a_sleep_ends_at_the_time_that_another_thread_sets_and_not_before() {
        let alarm = Arc::new(AlarmFiles::new(AlarmClock::Monotonic).unwrap());
        let now = || os::monotonic().unwrap();
        for (ms, timeout) in [(1, None), (10, None), (3, Some(LONG)), (3, Some(Duration::MAX))] {
            let until = now() + Duration::from_millis(ms);
            let setter = alarm.clone();
            let setter = thread::spawn(move || setter.set(Some(until)).unwrap());
            alarm.wait(timeout);
            assert!(now() >= until);
            setter.join().unwrap();
        }
        let until = now() + Duration::from_millis(3);
        alarm.wait(Some(Duration::from_millis(3)));
        assert!(now() >= until, "what ended a sleep is forgotten");
        // A time that has passed ends a sleep at once, and so does one that was set before it.
        alarm.set(Some(now())).unwrap();
        alarm.wait(None);
    }

    /// Sets a time that is past, and returns when the system has noted that it has come.
    fn set_past(alarm: &AlarmFiles) {
        alarm.set(Some(os::monotonic().unwrap())).unwrap();
        let mut timer = [PollFd::new(&alarm.timer.file, PollFlags::IN)];
        while !poll(&mut timer, None).is_ok_and(|ready| ready > 0) {}
    }

    #[test]
    fn each_time_and_each_ring_is_new_though_none_is_ever_read() {
        let alarm = AlarmFiles::new(AlarmClock::Monotonic).unwrap();
        let now = || os::monotonic().unwrap();
        for timeout in [None, Some(LONG)] {
            for _ in 0..100 {
                // Without a note of it, this would wait for ever.
                set_past(&alarm);
                alarm.wait(timeout);
                alarm.ring();
                alarm.wait(timeout);
                // Both end one sleep.
                set_past(&alarm);
                alarm.ring();
                alarm.wait(timeout);
            }
            let until = now() + Duration::from_millis(2);
            alarm.wait(Some(Duration::from_millis(2)));
            assert!(now() >= until, "what ended a sleep is forgotten");
        }
    }

    #[test]
    fn a_time_that_comes_between_two_sleeps_is_void_if_another_is_set() {
        let alarm = AlarmFiles::new(AlarmClock::Monotonic).unwrap();
        let now = || os::monotonic().unwrap();
        for timeout in [None, Some(LONG)] {
            set_past(&alarm);
            let until = now() + Duration::from_millis(3);
            alarm.set(Some(until)).unwrap();
            alarm.wait(timeout);
            assert!(now() >= until);
        }
    }
}
