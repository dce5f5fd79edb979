//! Children of which the C library tells nobody: those of `_Fork` and a bare `clone`.
//!
//! Of other forks the engine is told, and refuses what would wait, and to schedule. In these it
//! would wait for threads that do not exist, and what is scheduled would never fire. The kernel
//! zeroes a page in each child, by whichever call it is made (`MADV_WIPEONFORK`, Linux 4.14). A
//! mark lies there, which a child of which we are told sets again. Where the kernel has no such
//! pages, such children are not noticed.
//!
//! *Owner*: any thread looks. The mark is set before a page is published, and in a child that has
//! one thread.
//!
//! *Tested by*: `tests/c/process.c`.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::failure::{Failure, TICKLESS_E_FORKED};

/// Where the mark is. Before there is an engine: a word that no child finds zeroed.
static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const NO_PAGE).cast_mut());

static NO_PAGE: AtomicU64 = AtomicU64::new(1);

/// Makes the mark for this process, which makes an engine.
///
/// # Errors
/// It is a child of which nobody was told. Locks of the C library may be locked there for ever.
pub(crate) fn remember() -> Result<(), Failure> {
    let none = (&raw const NO_PAGE).cast_mut();
    // ORDER: Relaxed - whether there is one; what it leads to is looked at below.
    if MARK.load(Ordering::Relaxed) == none {
        if let Some(page) = make_page() {
            // SAFETY: the handler only stores a number.
            unsafe { libc::pthread_atfork(None, None, Some(follow)) };
            // ORDER: Release, Relaxed - pairs with the Acquire in `is_untold`: the mark is set.
            let (to, failed) = (Ordering::Release, Ordering::Relaxed);
            if MARK.compare_exchange(none, page, to, failed).is_err() {
                // SAFETY: it was made above, and nobody has seen it.
                unsafe { libc::munmap(page.cast(), PAGE) };
            }
        }
    }
    check()
}

/// Before a wait, or where the engine's threads are counted upon.
///
/// # Errors
/// As for [`remember`].
#[inline]
pub(crate) fn check() -> Result<(), Failure> {
    if is_untold() { Err(untold()) } else { Ok(()) }
}

#[inline]
fn is_untold() -> bool {
    // ORDER: Acquire - pairs with the Release in `remember`.
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: it leads to a static, or to a page that stays.
    // ORDER: Relaxed - it changes only where there is one thread.
    unsafe { &*mark }.load(Ordering::Relaxed) == 0
}

#[cold]
fn untold() -> Failure {
    Failure::new(TICKLESS_E_FORKED, format_args!("the process was cloned, without a call of fork"))
}

/// The least that the kernel can zero.
const PAGE: usize = 4096;

/// A page with a mark, which the kernel zeroes in children. `None` if it cannot.
#[cold]
fn make_page() -> Option<*mut AtomicU64> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, wherever there is room.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the memory is that of the call above.
    if unsafe { libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above.
        unsafe { libc::munmap(page, PAGE) };
        return None;
    }
    let mark = page.cast::<AtomicU64>();
    // SAFETY: it is memory for a number, which nobody else knows.
    unsafe { mark.write(AtomicU64::new(1)) };
    Some(mark)
}

/// In a child of which we are told.
extern "C" fn follow() {
    // ORDER: Relaxed, twice - the child has one thread.
    let mark = MARK.load(Ordering::Relaxed);
    // SAFETY: as in `is_untold`.
    unsafe { &*mark }.store(1, Ordering::Relaxed);
}
