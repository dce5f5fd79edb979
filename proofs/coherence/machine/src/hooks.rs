//! What the compiler calls before each access to memory, if it instruments a program as it does for
//! ThreadSanitizer, whose runtime this replaces. So memory is counted that `sync` does not tell of:
//! what a vector or a hash table has, reference counts, other crates.
//!
//! The instrumentation leaves the standard library out, except what is compiled with its users, and
//! the allocator. No other core runs before these accesses.

use std::arch::asm;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{self, Ordering::SeqCst};

use crate::{CORE, Site};

/// The address to which the calling function returns. The function keeps a frame pointer: this
/// crate is compiled so where the hooks are used.
macro_rules! caller {
    () => {{
        let address: usize;
        // SAFETY: the word above a frame is the address to which its function returns.
        unsafe { asm!("mov {}, [rbp + 8]", out(reg) address, options(readonly, nostack)) };
        address
    }};
}

fn tell(at: *const c_void, bytes: usize, writes: bool, code: usize) {
    if let Some((machine, core)) = CORE.get() {
        machine.directory().access(core, at.addr(), bytes, writes, &Site::Code(code));
    }
}

macro_rules! plain {
    ($($name:ident $bytes:literal $writes:literal;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(at: *const c_void) {
            tell(at, $bytes, $writes, caller!());
        }
    )*};
}

plain! {
    __tsan_read1 1 false; __tsan_read2 2 false; __tsan_read4 4 false;
    __tsan_read8 8 false; __tsan_read16 16 false;
    __tsan_write1 1 true; __tsan_write2 2 true; __tsan_write4 4 true;
    __tsan_write8 8 true; __tsan_write16 16 true;
    __tsan_unaligned_read2 2 false; __tsan_unaligned_read4 4 false;
    __tsan_unaligned_read8 8 false; __tsan_unaligned_read16 16 false;
    __tsan_unaligned_write2 2 true; __tsan_unaligned_write4 4 true;
    __tsan_unaligned_write8 8 true; __tsan_unaligned_write16 16 true;
}

macro_rules! atomics {
    ($($Type:ident $int:ty: $load:ident $store:ident $swap:ident $cas:ident
       $($fetch:ident $method:ident)*;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $load(at: *const $int, _order: i32) -> $int {
            tell(at.cast(), size_of::<$int>(), false, caller!());
            // SAFETY: the program loads from there.
            unsafe { atomic::$Type::from_ptr(at.cast_mut()) }.load(SeqCst)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $store(at: *mut $int, value: $int, _order: i32) {
            tell(at.cast(), size_of::<$int>(), true, caller!());
            // SAFETY: the program stores there.
            unsafe { atomic::$Type::from_ptr(at) }.store(value, SeqCst);
        }

        #[unsafe(no_mangle)]
        extern "C" fn $swap(at: *mut $int, value: $int, _order: i32) -> $int {
            tell(at.cast(), size_of::<$int>(), true, caller!());
            // SAFETY: the program swaps there.
            unsafe { atomic::$Type::from_ptr(at) }.swap(value, SeqCst)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $cas(at: *mut $int, from: $int, to: $int, _done: i32, _failed: i32) -> $int {
            tell(at.cast(), size_of::<$int>(), true, caller!());
            // SAFETY: the program exchanges there.
            let word = unsafe { atomic::$Type::from_ptr(at) };
            word.compare_exchange(from, to, SeqCst, SeqCst).unwrap_or_else(|now| now)
        }

        $(#[unsafe(no_mangle)]
        extern "C" fn $fetch(at: *mut $int, value: $int, _order: i32) -> $int {
            tell(at.cast(), size_of::<$int>(), true, caller!());
            // SAFETY: the program changes what is there.
            unsafe { atomic::$Type::from_ptr(at) }.$method(value, SeqCst)
        })*
    )*};
}

atomics! {
    AtomicU8 u8: __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange
        __tsan_atomic8_compare_exchange_val
        __tsan_atomic8_fetch_add fetch_add __tsan_atomic8_fetch_sub fetch_sub
        __tsan_atomic8_fetch_and fetch_and __tsan_atomic8_fetch_or fetch_or
        __tsan_atomic8_fetch_xor fetch_xor __tsan_atomic8_fetch_nand fetch_nand;
    AtomicU16 u16: __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange
        __tsan_atomic16_compare_exchange_val
        __tsan_atomic16_fetch_add fetch_add __tsan_atomic16_fetch_sub fetch_sub
        __tsan_atomic16_fetch_and fetch_and __tsan_atomic16_fetch_or fetch_or
        __tsan_atomic16_fetch_xor fetch_xor __tsan_atomic16_fetch_nand fetch_nand;
    AtomicU32 u32: __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange
        __tsan_atomic32_compare_exchange_val
        __tsan_atomic32_fetch_add fetch_add __tsan_atomic32_fetch_sub fetch_sub
        __tsan_atomic32_fetch_and fetch_and __tsan_atomic32_fetch_or fetch_or
        __tsan_atomic32_fetch_xor fetch_xor __tsan_atomic32_fetch_nand fetch_nand;
    AtomicU64 u64: __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange
        __tsan_atomic64_compare_exchange_val
        __tsan_atomic64_fetch_add fetch_add __tsan_atomic64_fetch_sub fetch_sub
        __tsan_atomic64_fetch_and fetch_and __tsan_atomic64_fetch_or fetch_or
        __tsan_atomic64_fetch_xor fetch_xor __tsan_atomic64_fetch_nand fetch_nand;
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    let code = caller!();
    tell(from, bytes, false, code);
    tell(to, bytes, true, code);
    // SAFETY: the program copies this.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), bytes) };
    to
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    let code = caller!();
    tell(from, bytes, false, code);
    tell(to, bytes, true, code);
    // SAFETY: the program moves this.
    unsafe { ptr::copy(from.cast::<u8>(), to.cast(), bytes) };
    to
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_memset(to: *mut c_void, value: i32, bytes: usize) -> *mut c_void {
    tell(to, bytes, true, caller!());
    // SAFETY: the program fills this.
    unsafe { ptr::write_bytes(to.cast::<u8>(), value as u8, bytes) };
    to
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_thread_fence(_order: i32) {
    atomic::fence(SeqCst);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_signal_fence(_order: i32) {
    atomic::compiler_fence(SeqCst);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_init() {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_func_entry(_caller: *const c_void) {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_func_exit() {}
