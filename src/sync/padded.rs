//! A value on cache lines of its own.

use std::ops::Deref;

/// Keeps `T` away from its neighbours: 128 bytes, because x86 fetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
