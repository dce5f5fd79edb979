//! Places for timers that stay where they are: futures are built in them and polled in place.

use std::pin::Pin;

/// A fixed number of pinned places.
#[derive(Debug)]
pub(crate) struct Slots<T>(Pin<Box<[T]>>);

// === impl Slots ===

impl<T: Default> Slots<T> {
    /// That many empty ones.
    pub(crate) fn new(count: usize) -> Slots<T> {
        let slots: Vec<T> = (0..count).map(|_| T::default()).collect();
        Slots(slots.into_boxed_slice().into())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// One of them.
    #[inline]
    pub(crate) fn at(&mut self, index: usize) -> Pin<&mut T> {
        // SAFETY: an element of a pinned slice does not move while the slice does not, and
        // nothing else lends one out.
        unsafe { self.0.as_mut().map_unchecked_mut(|slots| &mut slots[index]) }
    }
}
