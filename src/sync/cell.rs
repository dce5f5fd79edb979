//! Cells and freed memory where no model checker watches them.

/// `UnsafeCell` with the model checker's interface, so that all worlds share one body.
#[derive(Debug)]
#[repr(transparent)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

/// Where the model checker watches memory that is freed by hand; nothing elsewhere.
#[derive(Debug)]
pub struct Life;

/// Frees a box whose [`Life`] has ended.
#[inline]
pub fn free<T>(value: Box<T>) {
    drop(value);
}

/// Drops and frees things that a [`Life`] each belongs to, which ends as they are dropped.
#[inline]
pub fn free_slice<T>(values: Box<[T]>) {
    drop(values);
}

// === impl UnsafeCell ===

impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Lends the content to a reader. Who may call it when is the owning type's business.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Lends the content to a writer. Who may call it when is the owning type's business.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

// === impl Life ===

impl Life {
    /// Begins with the memory.
    #[inline]
    pub const fn begin() -> Life {
        Life
    }

    /// The memory is looked at.
    #[inline]
    pub const fn look(&self) {}

    /// The memory is about to be freed.
    #[inline]
    pub const fn end(&self) {}
}
