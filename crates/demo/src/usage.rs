//! What the process has used: CPU time, and wake-ups of the threads that serve timers.

use std::time::Duration;

/// Of the whole process, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Voluntary context switches: a thread gave its core up to wait for something.
    pub(crate) switches: u64,
}

impl Usage {
    /// `None` where the system does not tell.
    #[cfg(unix)]
    pub(crate) fn now() -> Option<Usage> {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is valid for writes of one rusage.
        let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        if answer != 0 {
            return None;
        }
        // SAFETY: all zeroes is a valid rusage, and the call has filled it in.
        let usage = unsafe { usage.assume_init() };
        let duration = |time: libc::timeval| {
            let seconds = Duration::from_secs(u64::try_from(time.tv_sec).ok()?);
            Some(seconds + Duration::from_micros(u64::try_from(time.tv_usec).ok()?))
        };
        let cpu = duration(usage.ru_utime)? + duration(usage.ru_stime)?;
        Some(Usage { cpu, switches: u64::try_from(usage.ru_nvcsw).ok()? })
    }

    #[cfg(not(unix))]
    pub(crate) fn now() -> Option<Usage> {
        None
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}
