//! Forks: a child process has its parent's memory and, of the parent's threads, the one that
//! forked.
//!
//! The C library reports the forks that it makes. Nothing reports a fork that bypasses it (a bare
//! `clone`), and after `vfork` and `posix_spawn` none of our code runs.
//!
//! *Tested by*: `tests/fork.rs`.

/// Makes each child of this process call `handler` before `fork` returns there. The handler may do
/// only what a signal handler may. Returns `false` if the system has no memory for that.
#[cfg(unix)]
pub fn tell_of_forks(handler: extern "C" fn()) -> bool {
    // SAFETY: the handler is a function of this program and takes nothing.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
}

/// There are no forks on this system.
#[cfg(not(unix))]
pub fn tell_of_forks(_handler: extern "C" fn()) -> bool {
    true
}
