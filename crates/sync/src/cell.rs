//! Cells and freed memory in builds without loom.

/// `UnsafeCell` with the model checker's interface, so that all builds share one body.
#[derive(Debug)]
#[repr(transparent)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

/// Under loom this watches memory that is freed by hand. Here it does nothing.
#[derive(Debug)]
pub struct Life;

/// Frees a box whose [`Life`] has ended, or a box of values that each own one.
pub use std::mem::{drop as free, drop as free_slice};

/// Frees memory whose [`Life`] has ended.
pub use std::alloc::dealloc as deallocate;

// === impl UnsafeCell ===

impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Lends the content to a reader. The owning type decides who may call this, and when.
    #[inline]
    #[cfg_attr(coherence, track_caller)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(coherence)]
        super::coherence::touch(self, false);
        f(self.0.get())
    }

    /// Lends the content to a writer. The owning type decides who may call this, and when.
    #[inline]
    #[cfg_attr(coherence, track_caller)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(coherence)]
        super::coherence::touch(self, true);
        f(self.0.get())
    }
}

// === impl Life ===

impl Life {
    /// Starts with the memory.
    #[inline]
    pub const fn begin() -> Life {
        Life
    }

    /// Notes that the memory is looked at.
    #[inline]
    pub const fn look(&self) {}

    /// Notes that the memory is about to be freed.
    #[inline]
    pub const fn end(&self) {}
}
