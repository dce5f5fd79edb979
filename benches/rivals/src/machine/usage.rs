//! CPU time, context switches and pauses, of the process or of the calling thread.

use std::mem::MaybeUninit;
use std::ops::Sub;

/// What was used up to some moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu_ns: u64,
    /// Times that a thread gave its CPU up by itself.
    pub(crate) switches: u64,
    /// Times that the system made a thread wait: for a page, or for another thread on its CPU.
    pub(crate) pauses: u64,
}

// === impl Usage ===

impl Usage {
    /// Of the whole process.
    pub(crate) fn of_process() -> Usage {
        Usage::of(libc::RUSAGE_SELF)
    }

    /// Of the calling thread.
    pub(crate) fn of_thread() -> Usage {
        Usage::of(libc::RUSAGE_THREAD)
    }

    fn of(who: libc::c_int) -> Usage {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a `rusage` that may be written.
        let status = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
        assert_eq!(status, 0, "getrusage knows the process and its threads");
        // SAFETY: it was zeroed, which is a valid `rusage`, and then filled in.
        let usage = unsafe { usage.assume_init() };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Usage {
            cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            switches: usage.ru_nvcsw as u64,
            pauses: (usage.ru_minflt + usage.ru_majflt + usage.ru_nivcsw) as u64,
        }
    }
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, earlier: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            switches: self.switches.saturating_sub(earlier.switches),
            pauses: self.pauses.saturating_sub(earlier.pauses),
        }
    }
}
