//! A latch: an event that comes once, and that any number of threads and tasks may wait for.
//!
//! A thread that wants to wait leaves a *waiter* (something to be woken) at a *place*, and the
//! thread that opens the latch takes each waiter and wakes it. A latch without waiters is one word.
//! A place is allocated when a waiter comes and no place is free; it is freed with the latch. So
//! there are at most as many places as there were waiters at one time.
//!
//! ```text
//! place:   free ──watch──► taken ──watch──► watched ──leave──► taken ──leave──► free
//!            └────────────────┴───────open────┴──────────────────┴──► over
//! ```
//!
//! *Owner*: one thread opens the latch, once. Any thread watches, and leaves the place that it got.
//! No call waits for another thread.
//!
//! *Invariants*
//! - A place is linked once, in front of the others, and stays until the latch is dropped.
//! - The cell of a place belongs to the thread that took the place. The cell of a watched place
//!   belongs to nobody; who replaces `WATCHED` has it.
//! - The mark of the open latch is in the word that links the places. So a place that is linked
//!   before the latch opens is found by the opener, and no place is linked after that.
//!
//! *Orderings*: LATCH. Opening releases all that the opener did before, to each thread that finds
//! the latch open. A watched place passes its waiter to the opener, and a free place its cell to
//! the next thread that takes it.
//!
//! *Tested by*: the unit test below, `loom-tests/tests/latch.rs`.

use std::ptr;

use crate::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};

/// An event that comes once. `W` is what is left to be woken.
pub struct Latch<W> {
    /// The place that was linked last. The lowest bit of the address says that the latch is open.
    head: AtomicPtr<WaiterNode<W>>,
}

/// Where a waiter is left.
struct WaiterNode<W> {
    state: AtomicU32,
    waiter: UnsafeCell<Option<W>>,
    /// Its position among the places; the first has number zero.
    number: u32,
    next: *mut WaiterNode<W>,
}

/// A place that a thread may take.
const FREE: u32 = 0;
/// A thread has the place, and writes or clears it.
const TAKEN: u32 = 1;
/// The place has a waiter.
const WATCHED: u32 = 2;
/// The latch is open, and its opener has been here.
const OVER: u32 = 3;

/// The bit of an address that marks an open latch.
const OPEN: usize = 1;

const _: () =
    assert!(align_of::<WaiterNode<()>>() > OPEN, "the lowest bit of a place's address is free");

// SAFETY: the only content is waiters, which pass from one thread to another.
unsafe impl<W: Send> Send for Latch<W> {}
// SAFETY: a place's cell is reached only by the thread that has the place (see the invariants).
unsafe impl<W: Send> Sync for Latch<W> {}

// === impl Latch ===

impl<W> Latch<W> {
    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        // ORDER(LATCH): Acquire - pairs with the CAS in `open`.
        is_open(self.head.load(Ordering::Acquire))
    }

    /// Opens the latch, and calls `wake` with each waiter. One thread calls this, once.
    #[inline]
    pub fn open(&self, wake: impl FnMut(W)) {
        let mark = |head: *mut WaiterNode<W>| Some(marked(head));
        // ORDER(LATCH): AcqRel - Release to each thread that finds the latch open; Acquire pairs
        // with the CAS in `link`, for the places and their waiters.
        let opened = self.head.fetch_update(Ordering::AcqRel, Ordering::Relaxed, mark);
        let head = opened.unwrap_or_else(|head| head);
        debug_assert!(!is_open(head), "a latch opens once");
        if !head.is_null() {
            wake_all(head, wake);
        }
    }

    /// Leaves a waiter, which the opener takes. Returns the number of the place; `None`: the latch
    /// is open, and the waiter was dropped.
    pub fn watch(&self, waiter: W) -> Option<u32> {
        // ORDER(LATCH): Acquire - pairs with the CAS in `link`, for the places; and with that in
        // `open`.
        let head = self.head.load(Ordering::Acquire);
        if is_open(head) {
            return None;
        }
        for place in places(head) {
            // ORDER(LATCH): Acquire - pairs with the CAS in `leave` that freed the place.
            if place.replace(FREE, TAKEN, Ordering::Acquire) {
                // SAFETY: this thread has the place.
                place.waiter.with_mut(|cell| unsafe { *cell = Some(waiter) });
                // ORDER(LATCH): Release - passes the waiter to the opener.
                if place.replace(TAKEN, WATCHED, Ordering::Release) {
                    return Some(place.number);
                }
                // The opener was here, and nobody else comes.
                // SAFETY: this thread has the place.
                drop(place.waiter.with_mut(|cell| unsafe { (*cell).take() }));
                return None;
            }
        }
        self.link(head, waiter)
    }

    /// Links a new place with a waiter.
    fn link(&self, mut head: *mut WaiterNode<W>, waiter: W) -> Option<u32> {
        let (state, waiter) = (AtomicU32::new(WATCHED), UnsafeCell::new(Some(waiter)));
        let mut place = Box::new(WaiterNode { state, waiter, number: 0, next: ptr::null_mut() });
        loop {
            if is_open(head) {
                return None;
            }
            place.next = head;
            place.number = places(head).next().map_or(0, |next| next.number + 1);
            let (number, linked) = (place.number, Box::into_raw(place));
            // ORDER(LATCH): Release - publishes the place and the waiter, to the opener and to
            // other watchers; Acquire - sees the place that was linked meanwhile, or that the
            // latch is open.
            match self.head.compare_exchange(head, linked, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(other) => head = other,
            }
            // SAFETY: it came from `into_raw`, and was not linked.
            place = unsafe { Box::from_raw(linked) };
        }
    }

    /// Takes the waiter of a place back, and frees the place. `None`: the opener has it.
    pub fn leave(&self, number: u32) -> Option<W> {
        // ORDER(LATCH): Acquire - pairs with the CAS in `link`, for the places.
        let head = unmarked(self.head.load(Ordering::Acquire));
        let place = places(head).find(|place| place.number == number)?;
        // ORDER(LATCH): Acquire - pairs with the CAS in `watch` that left the waiter, whichever
        // thread that was.
        if !place.replace(WATCHED, TAKEN, Ordering::Acquire) {
            return None;
        }
        // SAFETY: this thread has the place.
        let waiter = place.waiter.with_mut(|cell| unsafe { (*cell).take() });
        // ORDER(LATCH): Release - passes the cell to the thread that takes the place next. If the
        // opener was here, the place stays over: nobody may watch it.
        place.replace(TAKEN, FREE, Ordering::Release);
        waiter
    }
}

/// Takes and wakes each waiter, for the opener.
#[cold]
fn wake_all<W>(head: *mut WaiterNode<W>, mut wake: impl FnMut(W)) {
    for place in places(head) {
        // ORDER(LATCH): AcqRel - Acquire pairs with the CAS in `watch`, for the waiter; Release to
        // the thread that finds its place over, and so the latch open.
        if place.state.swap(OVER, Ordering::AcqRel) == WATCHED {
            // SAFETY: this thread replaced `WATCHED`.
            place.waiter.with_mut(|cell| unsafe { (*cell).take() }).into_iter().for_each(&mut wake);
        }
    }
}

/// A latch that is not open, and that nobody watches.
impl<W> Default for Latch<W> {
    fn default() -> Latch<W> {
        Latch { head: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<W> Drop for Latch<W> {
    fn drop(&mut self) {
        // ORDER: Relaxed - nobody else has the latch any more.
        let mut head = unmarked(self.head.load(Ordering::Relaxed));
        while !head.is_null() {
            // SAFETY: it came from a box, and is reached through the latch alone.
            let place = unsafe { Box::from_raw(head) };
            head = place.next;
        }
    }
}

debug! { impl[W] Latch[W] { is_open = |this| this.is_open() } }

// === impl WaiterNode ===

impl<W> WaiterNode<W> {
    /// Replaces one state by another, if the place is in it.
    fn replace(&self, from: u32, to: u32, order: Ordering) -> bool {
        // ORDER(LATCH): Acquire - pairs with the swap of the opener, if that is why the place is in
        // another state. The other ordering is explained where this is called.
        self.state.compare_exchange(from, to, order, Ordering::Acquire).is_ok()
    }
}

/// The places that can be reached from `head`, which was read from a latch that is borrowed.
fn places<'a, W: 'a>(head: *mut WaiterNode<W>) -> impl Iterator<Item = &'a WaiterNode<W>> {
    let mut next = unmarked(head).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: a place that was linked stays allocated as long as its latch, and its link does
        // not change.
        let place = unsafe { next.as_ref() }?;
        next = place.next;
        Some(place)
    })
}

fn is_open<W>(head: *mut WaiterNode<W>) -> bool {
    head.addr() & OPEN != 0
}

fn marked<W>(head: *mut WaiterNode<W>) -> *mut WaiterNode<W> {
    head.map_addr(|addr| addr | OPEN)
}

fn unmarked<W>(head: *mut WaiterNode<W>) -> *mut WaiterNode<W> {
    head.map_addr(|addr| addr & !OPEN)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_waiter_is_woken_once_and_places_are_used_again() {
        let latch = Latch::default();
        assert_eq!(
            (latch.watch('a'), latch.watch('b'), latch.watch('c')),
            (Some(0), Some(1), Some(2))
        );
        assert_eq!(latch.leave(1), Some('b'));
        assert_eq!(latch.leave(1), None, "the place is free");
        assert_eq!(latch.leave(7), None, "there is no such place");
        assert_eq!(latch.watch('d'), Some(1));
        assert!(!latch.is_open());
        let mut woken = Vec::new();
        latch.open(|waiter| woken.push(waiter));
        woken.sort_unstable();
        assert_eq!(woken, ['a', 'c', 'd']);
        assert!(latch.is_open());
        assert_eq!((latch.watch('e'), latch.leave(0)), (None, None));
    }

    #[test]
    fn a_latch_that_never_opens_drops_its_waiters() {
        let token = std::sync::Arc::new(());
        let latch = Latch::default();
        assert_eq!(latch.watch(token.clone()), Some(0));
        drop(latch);
        assert_eq!(std::sync::Arc::strong_count(&token), 1);
    }
}
