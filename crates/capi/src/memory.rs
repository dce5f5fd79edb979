//! Memory that is put aside for when there is none: so that calls say so, where Rust aborts.
//!
//! Rust's collections end the process if the allocator fails. So that of this library has a
//! *reserve*: pages that nobody uses. When the system refuses memory, they go back to it, and it is
//! asked again. From then on, calls that begin something fail ([`check`]), until the reserve can be
//! put aside again. What is under way, what ends something, and the engine's threads have the
//! reserve meanwhile. If that is not enough, the process ends: so it may in a stop of many timers,
//! which are collected in one piece of memory.
//!
//! *Owner*: any thread.
//!
//! *Tested by*: `tests/c/environment.c`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::failure::{Failure, TICKLESS_E_NOMEM};

/// The system's allocator, with the reserve.
#[derive(Debug)]
struct WithReserve;

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

const RESERVE: usize = 1 << 20;

/// The pages; null before there is an engine, and while memory is short.
static KEPT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Whether the system has refused memory since the reserve was put aside.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Puts the reserve aside, if it is not there.
///
/// # Errors
/// There is no memory.
pub(crate) fn keep() -> Result<(), Failure> {
    // ORDER: Relaxed - what it leads to is not read.
    if KEPT.load(Ordering::Relaxed).is_null() { put_aside() } else { check() }
}

/// Before something begins that may need memory.
///
/// # Errors
/// There is none, and there was none lately.
#[inline]
pub(crate) fn check() -> Result<(), Failure> {
    // ORDER: Relaxed - a hint: a thread that finds no memory has used the reserve, or ends the
    // process.
    if IS_SHORT.load(Ordering::Relaxed) { put_aside() } else { Ok(()) }
}

#[cold]
fn put_aside() -> Result<(), Failure> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, wherever there is room.
    let pages = unsafe { libc::mmap(ptr::null_mut(), RESERVE, access, kind, -1, 0) };
    if pages == libc::MAP_FAILED {
        return Err(Failure::new(TICKLESS_E_NOMEM, format_args!("there is no memory")));
    }
    // ORDER: Relaxed - before the swap: who takes these pages says after that that memory is short.
    IS_SHORT.store(false, Ordering::Relaxed);
    // ORDER: AcqRel - publishes that it is not short, to who takes the pages.
    release(KEPT.swap(pages, Ordering::AcqRel));
    Ok(())
}

/// Gives the reserve to the system, which has refused memory.
#[cold]
fn fall_back() {
    // ORDER: AcqRel - pairs with that of `put_aside`.
    release(KEPT.swap(ptr::null_mut(), Ordering::AcqRel));
    // ORDER: Relaxed - as in `check`.
    IS_SHORT.store(true, Ordering::Relaxed);
}

/// Unmaps pages that nobody else has any more.
fn release(pages: *mut c_void) {
    if !pages.is_null() {
        // SAFETY: they were mapped by `put_aside`, and taken out by one thread, the caller.
        unsafe { libc::munmap(pages, RESERVE) };
    }
}

/// What the system says, and if that is no, what it says when it has the reserve.
#[inline]
fn or_from_reserve(ask: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = ask();
    if !memory.is_null() {
        return memory;
    }
    fall_back();
    ask()
}

// SAFETY: everything is passed on to the system's allocator; what is done besides allocates nothing
// and does not unwind.
unsafe impl GlobalAlloc for WithReserve {
    /// # Safety
    /// As the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        or_from_reserve(|| unsafe { System.alloc(layout) })
    }

    /// # Safety
    /// As the trait says.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        or_from_reserve(|| unsafe { System.alloc_zeroed(layout) })
    }

    /// # Safety
    /// As the trait says.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on to the caller. A realloc that fails leaves the memory as it is.
        or_from_reserve(|| unsafe { System.realloc(memory, layout, size) })
    }

    /// # Safety
    /// As the trait says.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}
