//! Children of which the C library tells nobody: those of `_Fork` and a bare `clone`.
//!
//! Of other forks the engine is told, and refuses what would wait. In these it would wait for
//! threads that do not exist. So a call that is about to wait looks at the process's number.
//!
//! *Tested by*: `tests/c/process.c`.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{Failure, TICKLESS_E_FORKED};

/// The process that makes engines; 0: none yet.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// Remembers the process that makes an engine.
///
/// # Errors
/// It is a child of which nobody was told. Locks of the C library may be locked there for ever.
pub(crate) fn remember() -> Result<(), Failure> {
    // ORDER: Relaxed, twice - a number; a child has one thread when it sets it.
    let (old, failed) = (Ordering::Relaxed, Ordering::Relaxed);
    match KNOWN.compare_exchange(0, process::id(), old, failed) {
        Err(_) => check(),
        Ok(_) => {
            // SAFETY: the handler only asks for a number, and stores it.
            unsafe { libc::pthread_atfork(None, None, Some(follow)) };
            Ok(())
        }
    }
}

/// Before a wait.
///
/// # Errors
/// As for [`remember`].
#[cold]
pub(crate) fn check() -> Result<(), Failure> {
    // ORDER: Relaxed - as above.
    let known = KNOWN.load(Ordering::Relaxed);
    if known == 0 || known == process::id() {
        return Ok(());
    }
    let why = format_args!("process {known} was cloned, without a call of fork");
    Err(Failure::new(TICKLESS_E_FORKED, why))
}

/// In a child of which we are told.
extern "C" fn follow() {
    // ORDER: Relaxed - as above.
    KNOWN.store(process::id(), Ordering::Relaxed);
}
