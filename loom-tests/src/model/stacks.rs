//! Stacks of the model checker's threads, which are used again.
//!
//! Each interleaving has a stack for each of its threads. Loom maps them, protects a page of each
//! and unmaps them, a hundred thousand times in a model: with the page faults, this takes two
//! fifths of a model's time. So the functions of the C library by which it does that are replaced
//! in the models' programs, and keep what they map as a stack. All other mappings go to the system.
//! Those of the C library itself are not made through these functions.
//!
//! *Invariant*: what is in `STACKS` was mapped here as a stack of that length, and is still mapped.
//! Nobody uses what is free.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;

use libc::{MAP_ANON, MAP_FAILED, MAP_PRIVATE, MAP_STACK, PROT_READ, PROT_WRITE, off_t, size_t};

/// The address and length of each stack.
struct Stacks {
    used: Vec<(usize, size_t)>,
    free: Vec<(usize, size_t)>,
}

impl Stacks {
    /// The address of a free stack of this length, which is in use from now on.
    fn reuse(&mut self, length: size_t) -> Option<usize> {
        let index = self.free.iter().position(|stack| stack.1 == length)?;
        let stack = self.free.swap_remove(index);
        self.used.push(stack);
        Some(stack.0)
    }
}

static STACKS: Mutex<Stacks> = Mutex::new(Stacks { used: Vec::new(), free: Vec::new() });

/// Maps memory, as the C library's function of this name does. A stack may be one that was unmapped
/// before: then its lowest page is still protected, and it has the contents that it had.
///
/// # Safety
///
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_stack = address.is_null()
        && protection == PROT_READ | PROT_WRITE
        && flags == MAP_PRIVATE | MAP_ANON | MAP_STACK;
    let mut stacks = is_stack.then(|| STACKS.lock().expect("nothing panics with the lock"));
    if let Some(stack) = stacks.as_mut().and_then(|stacks| stacks.reuse(length)) {
        return ptr::with_exposed_provenance_mut(stack);
    }
    // SAFETY: the caller's arguments, in the order in which the system wants them.
    let result =
        unsafe { libc::syscall(libc::SYS_mmap, address, length, protection, flags, file, offset) };
    // The address, or -1, which is `MAP_FAILED`.
    let mapped = ptr::with_exposed_provenance_mut(result as usize);
    if let Some(stacks) = stacks.as_mut().filter(|_| mapped != MAP_FAILED) {
        stacks.used.push((mapped.expose_provenance(), length));
    }
    mapped
}

/// Unmaps memory, as the C library's function of this name does. A stack is kept.
///
/// # Safety
///
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    {
        let mut stacks = STACKS.lock().expect("nothing panics with the lock");
        if let Some(index) = stacks.used.iter().position(|&stack| stack == (address.addr(), length))
        {
            let stack = stacks.used.swap_remove(index);
            stacks.free.push(stack);
            return 0;
        }
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { libc::syscall(libc::SYS_munmap, address, length) };
    c_int::try_from(result).expect("0 or -1")
}
