//! Structs that begin with their size, as the caller's header knew it, so that they can grow.
//!
//! No header has a struct that is smaller than in the first version. A smaller size is a mistake,
//! for example that of a pointer to the struct, and is refused. Fields of later versions that the
//! caller's struct does not have are zero, which is the default of each field. What this library
//! does not know must be zero in a struct that it reads, and becomes zero in one that it writes.

use std::ptr;

use crate::failure::{Failure, TICKLESS_E_ARGUMENT};

/// A struct that begins with its size.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, it has no padding, and all zeroes are a value.
pub(crate) unsafe trait HasSize: Copy {
    /// The size of the struct in the first version of the interface: a number, which stays as it
    /// is when the struct grows. Of later versions, each has a size that is greater.
    const FIRST_SIZE: usize;
}

const WORD: usize = size_of::<usize>();

/// No struct of ours will ever be as large.
const SIZE_MAX: usize = 4096;

/// Reads a struct of whichever version.
///
/// # Safety
/// `from` points to as many bytes as its first field says.
pub(crate) unsafe fn read<T: HasSize>(from: *const T) -> Result<T, Failure> {
    // SAFETY: the size is there, as the caller promises.
    let size = unsafe { size_of_struct(from) }?;
    let known = size.min(size_of::<T>());
    let bytes = from.cast::<u8>();
    for at in known..size {
        // SAFETY: it is below the size.
        if unsafe { bytes.add(at).read() } != 0 {
            let why = format_args!("byte {at} is set, and {} are known", size_of::<T>());
            return Err(Failure::new(TICKLESS_E_ARGUMENT, why));
        }
    }
    // SAFETY: zeroes are a value, as the trait promises.
    let mut value: T = unsafe { std::mem::zeroed() };
    // SAFETY: both have that many bytes; whatever they are is a value, since they are numbers.
    unsafe { ptr::copy_nonoverlapping(bytes, (&raw mut value).cast(), known) };
    Ok(value)
}

/// Writes a struct of whichever version. Its size stays as the caller has set it.
///
/// # Safety
/// `to` points to as many bytes as its first field says.
pub(crate) unsafe fn write<T: HasSize>(to: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: the size is there, as the caller promises.
    let size = unsafe { size_of_struct(to) }?;
    let known = size.min(size_of::<T>());
    let (from, bytes) = (ptr::from_ref(value).cast::<u8>(), to.cast::<u8>());
    // SAFETY: both have that many bytes, after the size.
    unsafe { ptr::copy_nonoverlapping(from.add(WORD), bytes.add(WORD), known - WORD) };
    // SAFETY: the rest is below the size as well.
    unsafe { ptr::write_bytes(bytes.add(known), 0, size - known) };
    Ok(())
}

/// # Safety
/// `of` points to a size.
unsafe fn size_of_struct<T: HasSize>(of: *const T) -> Result<usize, Failure> {
    // SAFETY: as the caller promises.
    let size = unsafe { of.cast::<usize>().read() };
    if !(T::FIRST_SIZE..=SIZE_MAX).contains(&size) || size % WORD != 0 {
        let why = format_args!("the field size must be the size of the struct, and is {size}");
        return Err(Failure::new(TICKLESS_E_ARGUMENT, why));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that has grown by a field since its first version.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: it is `repr(C)`, numbers of eight bytes.
    unsafe impl HasSize for Grown {
        const FIRST_SIZE: usize = 16;
    }

    #[test]
    fn a_struct_of_the_first_version_lacks_what_came_later_and_keeps_what_is_behind_it() {
        let mut older = Grown { size: 16, first: 3, second: 7 };
        // SAFETY: it has that size, and more.
        let known = unsafe { read(&raw const older) }.expect("the size is that of a version");
        assert_eq!(known, Grown { size: 16, first: 3, second: 0 });
        // SAFETY: as above.
        unsafe { write(&raw mut older, &Grown { size: 0, first: 4, second: 5 }) }
            .expect("as above");
        assert_eq!(older, Grown { size: 16, first: 4, second: 7 });
    }

    #[test]
    fn a_size_below_the_first_versions_is_refused() {
        for size in [0, 1, 8, 15, 23, SIZE_MAX + 1, usize::MAX] {
            let mut wrong = Grown { size, first: 3, second: 7 };
            // SAFETY: only the size is read.
            assert!(unsafe { read(&raw const wrong) }.is_err(), "{size}");
            // SAFETY: as above.
            assert!(unsafe { write(&raw mut wrong, &Grown { ..wrong }) }.is_err(), "{size}");
        }
    }
}
