//! A program without the standard library that runs both wheels.
//!
//! It has a panic handler of its own, of which there can be only one: it does not compile if the
//! wheel, or a crate that the wheel depends on, brings the standard library with it.
//!
//! *Tested by*: `ci/no_std.sh` runs it, and sees it fail with the feature that does bring it.

#![no_std]
#![no_main]

#[cfg(feature = "std")]
extern crate std;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};
use core::panic::PanicInfo;
use core::ptr;

use tickless_wheel::{HashedWheel, Tick, TimingWheel, Wheel};

#[link(name = "c")]
unsafe extern "C" {
    safe fn abort() -> !;
    safe fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    /// # Safety
    /// `block` came from `aligned_alloc` and is not used any more.
    unsafe fn free(block: *mut c_void);
}

/// The allocator of the C library.
struct Memory;

#[global_allocator]
static MEMORY: Memory = Memory;

// SAFETY: blocks come from the C library and go back to it; it aligns them as it is told.
unsafe impl GlobalAlloc for Memory {
    /// # Safety
    /// As the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let align = layout.align().max(size_of::<*mut u8>());
        aligned_alloc(align, layout.size().next_multiple_of(align)).cast()
    }

    /// # Safety
    /// As the trait says.
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the block came from `alloc`, as the caller promises.
        unsafe { free(block.cast()) };
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    abort();
}

// The compiled `alloc` names it, for programs that unwind.
// SAFETY: nothing unwinds here, so it is never called. No other function has its name.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Three timers, of which one is cancelled, one popped and one fires.
fn story(mut wheel: impl TimingWheel<u32>) {
    let one = wheel.insert(Tick::new(10), 1);
    wheel.insert(Tick::new(70_000), 2);
    let three = wheel.insert(Tick::new(30), 3);
    assert_eq!(wheel.cancel(one), Some(1));
    assert_eq!(wheel.pop_due(Tick::new(40)), Some((three, Tick::new(30), 3)));
    let mut sum = 0;
    while let Some(wake_up) = wheel.next_expiration() {
        wheel.advance(wake_up, |_, _, payload| sum += payload);
    }
    assert_eq!((sum, wheel.len()), (2, 0));
}

// SAFETY: this is the function that the C library's start calls; no other has its name.
#[unsafe(no_mangle)]
extern "C" fn main(_: c_int, arguments: *const *const u8) -> c_int {
    assert!(!ptr::eq(arguments, ptr::null()));
    story(Wheel::default());
    story(HashedWheel::default());
    0
}
