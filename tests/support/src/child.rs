//! Child processes that run a closure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `f` in a child process, which ends with it: nothing of the test harness runs there.
///
/// # Panics
/// The child panicked, died, or did not come back in time.
#[track_caller]
pub fn in_a_child(what: &str, f: impl FnOnce()) {
    // SAFETY: the child runs `f`, which the tests below hold to what works after a fork, and ends
    // without going back.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process could be made");
    if child == 0 {
        let code = i32::from(catch_unwind(AssertUnwindSafe(f)).is_err());
        // SAFETY: it ends the process at once.
        unsafe { libc::_exit(code) };
    }
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the number lives through the call, and the child is ours.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            break;
        }
        if begin.elapsed() > PATIENCE {
            // SAFETY: the child is ours and has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("{what}: the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(libc::WIFEXITED(status), "{what}: the child died of {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "{what}: the child panicked");
}
