//! Voluntary context switches of threads other than the bench's own: a reaper's wake-ups.

use std::collections::HashSet;
use std::fs;

/// Threads whose switches count: all that are there but those named.
pub(crate) struct Others {
    own: HashSet<String>,
}

// === impl Others ===

impl Others {
    /// Every thread but the calling one.
    pub(crate) fn than_this() -> Others {
        // SAFETY: has no preconditions.
        let own = unsafe { libc::gettid() };
        Others { own: HashSet::from([own.to_string()]) }
    }

    /// Their voluntary context switches up to now.
    pub(crate) fn switches(&self) -> u64 {
        let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0 };
        let others =
            tasks.flatten().filter(|task| !self.own.contains(&*task.file_name().to_string_lossy()));
        others
            .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
            .map(|status| switches_in(&status))
            .sum()
    }
}

/// The number on the line that the kernel calls `voluntary_ctxt_switches`.
fn switches_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn voluntary_switches_are_told_from_the_others() {
    let status = "Name:\tx\nvoluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t7\n";
    assert_eq!(switches_in(status), 41);
    assert_eq!(switches_in("Name:\tx\n"), 0);
}
