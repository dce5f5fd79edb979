//! A timerfd in an epoll set, as an event loop has it.

use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, Result};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// What a thread waits on.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    set: OwnedFd,
}

// === impl Alarm ===

impl Alarm {
    pub(super) fn new() -> Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, &timer, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Alarm { timer, set })
    }

    /// From any thread: [`wait`](Alarm::wait) returns at that time, or never.
    pub(super) fn set(&self, at: Option<Instant>) {
        // Zero would switch it off.
        let least = Duration::from_nanos(1);
        let left = at.map(|at| at.saturating_duration_since(Instant::now()).max(least));
        let left = left.unwrap_or(Duration::ZERO);
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec::try_from(left).expect("no delay of the bench is that long"),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
            .expect("the timer exists and the time is valid");
    }

    /// Sleeps until the time that was set last. The next `set` clears the event.
    pub(super) fn wait(&self) {
        let nothing =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        match epoll::wait(&self.set, &mut [nothing], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll: {error}"),
        }
    }
}
