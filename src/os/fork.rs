//! Forks: a child process has the memory of its parent and, of its threads, the one that forked.
//!
//! The system tells of a fork that the C library makes. Of one that goes past it (a bare `clone`)
//! nobody hears, and after `vfork` and `posix_spawn` nothing of ours runs.
//!
//! *Tested by*: `tests/fork.rs`.

/// Has each child of this process call `handler` before `fork` returns there; it may do what a
/// signal handler may. `false`: the system had no memory for that.
#[cfg(unix)]
pub fn tell_of_forks(handler: extern "C" fn()) -> bool {
    // SAFETY: the handler is a function of this program and takes nothing.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
}

/// There are no forks.
#[cfg(not(unix))]
pub fn tell_of_forks(_handler: extern "C" fn()) -> bool {
    true
}
