//! A runtime of tokio's to measure on, and the CPU time of the process.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// What the process has used so far.
pub fn cpu() -> Duration {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes a `timespec`, and this is one.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        assert_eq!(failed, 0, "the system tells a process's CPU time");
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    panic!("only Unix systems tell what a process has used");
}

/// A runtime with this number of threads.
pub fn runtime(threads: u64) -> Runtime {
    let runtime = match threads {
        1 => Builder::new_current_thread().enable_time().build(),
        _ => Builder::new_multi_thread().worker_threads(threads as usize).enable_time().build(),
    };
    runtime.expect("a runtime starts")
}
