//! The system's fence on all processors (`membarrier`), for the model checker.
//!
//! The checker cannot fence for another thread. What such a fence does to a thread with a *light*
//! one in it is a choice of two: it came before, and the thread sees what was stored before it; or
//! it came after, and sees what the thread stored before. So each thread has a word, which its
//! light fences change, and which each heavy one changes too: whichever change comes first, the
//! other sees. Two light fences are changes of two words, and do not meet. Neither does a light one
//! meet a fence of any other kind: the checker's fences are of no word.
//!
//! *Owner*: any thread of a model. What is no part of the model lies in cells: all threads of a
//! model are one thread of the system.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use loom::sync::atomic::{AtomicU64, Ordering};

/// As many as the checker lets a model have.
const MOST_THREADS: usize = 5;

struct Barriers {
    answer: Rc<AtomicU64>,
    /// Changed by each heavy fence, before it looks which threads there are.
    heavy: AtomicU64,
    light: [AtomicU64; MOST_THREADS],
    /// How many threads have a word.
    threads: Cell<usize>,
    refuses: Cell<bool>,
}

::std::thread_local! {
    static BARRIERS: RefCell<Option<Rc<Barriers>>> = const { RefCell::new(None) };
}

loom::thread_local! {
    /// The number of the thread's word.
    static OWN: Cell<Option<usize>> = Cell::new(None);
}

/// An interleaving begins, in which the system fences if it is asked.
pub fn begin_iteration() {
    let barriers = Barriers {
        answer: Rc::new(AtomicU64::new(1)),
        heavy: AtomicU64::new(0),
        light: [(); MOST_THREADS].map(|()| AtomicU64::new(0)),
        threads: Cell::new(0),
        refuses: Cell::new(false),
    };
    BARRIERS.set(Some(Rc::new(barriers)));
}

/// What the engine knows of the system.
pub fn answer() -> Rc<AtomicU64> {
    barriers().answer.clone()
}

/// From now on the system refuses.
pub fn refuse() {
    barriers().refuses.set(true);
}

/// A fence that pairs with those of `fence_all` alone.
pub fn light() {
    let barriers = barriers();
    let own = OWN.with(Cell::get).unwrap_or_else(|| {
        let own = barriers.threads.replace(barriers.threads.get() + 1);
        OWN.with(|place| place.set(Some(own)));
        // ORDER: Acquire - a heavy fence that does not find the word came before this.
        barriers.heavy.fetch_add(0, Ordering::Acquire);
        own
    });
    // ORDER: AcqRel - see the header.
    barriers.light[own].fetch_add(1, Ordering::AcqRel);
}

/// Fences on all processors. Returns `false` if the system refuses.
pub fn fence_all() -> bool {
    let barriers = barriers();
    if barriers.refuses.get() {
        return false;
    }
    // ORDER: AcqRel, both - see the header.
    barriers.heavy.fetch_add(1, Ordering::AcqRel);
    for light in &barriers.light[..barriers.threads.get()] {
        light.fetch_add(1, Ordering::AcqRel);
    }
    true
}

fn barriers() -> Rc<Barriers> {
    BARRIERS.with_borrow(Clone::clone).expect("an interleaving has begun")
}
