//! What other systems do without. Each request is refused, and its caller has another way.
//!
//! *Tested by*: the crate's tests with `--cfg elsewhere` (`ci/targets.sh`).

use std::io;
use std::time::Duration;

/// No thread is pinned on this system.
#[derive(Clone, Debug)]
pub struct Cpus;

impl Cpus {
    /// None are known.
    pub fn allowed() -> Cpus {
        Cpus
    }

    /// Not supported here.
    ///
    /// # Errors
    /// Always.
    pub fn pin_to(&self, _index: usize) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// A system's wake-ups are as exact as they are.
pub fn ask_for_exact_wakeups() {}

/// This system cannot fence on all processors.
pub fn fence_all() -> bool {
    false
}

/// Of use only to set alarms.
pub fn monotonic() -> Option<Duration> {
    None
}

/// Not supported here.
///
/// # Errors
/// Always.
pub fn boottime() -> io::Result<Duration> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// The clocks of timers and alarms elsewhere.
#[derive(Clone, Copy, Debug)]
pub enum AlarmClock {
    /// It does not count the time during which the machine is suspended.
    Monotonic,
    /// It does.
    Boottime,
    /// The wall clock.
    Realtime,
}

/// No timer can be made on this system.
#[derive(Debug)]
pub enum TimerFile {}

impl TimerFile {
    /// Not supported here.
    ///
    /// # Errors
    /// Always.
    pub fn new(_clock: AlarmClock) -> io::Result<TimerFile> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn set(&self, _at: Option<Duration>) -> io::Result<()> {
        match *self {}
    }
}

#[cfg(target_os = "linux")]
impl std::os::fd::AsRawFd for TimerFile {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        match *self {}
    }
}

/// No alarm can be made on this system.
#[derive(Debug)]
pub enum AlarmFiles {}

impl AlarmFiles {
    /// Not supported here.
    ///
    /// # Errors
    /// Always.
    pub fn new(_clock: AlarmClock) -> io::Result<AlarmFiles> {
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

    /// Never called.
    pub fn wait(&self, _timeout: Option<Duration>) {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn set(&self, _until: Option<Duration>) -> io::Result<()> {
        match *self {}
    }
}
