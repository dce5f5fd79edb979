//! Memory that is used when it is gone, beyond its end, freed twice, or never freed.

use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::sync::{Arc, mpsc};
use std::thread;

use tickless::Task;
use tickless_core::entry::Entry;
use tickless_core::inbox::Lanes;

use crate::walk::walk_lanes;

const ENGINE: u32 = 1;

/// Two entries on one lane, the first of which is taken last.
fn two_entries(lanes: &Lanes<Entry<u64>>) -> [NonNull<Entry<u64>>; 2] {
    [(); 2].map(|()| {
        let entry = Entry::allocate(ENGINE);
        // SAFETY: it is fresh, and stays allocated until it is taken (or so it ought to).
        unsafe { lanes.push(entry, 0) }.expect("nobody closes");
        entry
    })
}

/// An entry is freed while another thread has still to walk over it.
pub(crate) fn use_after_free() {
    let lanes = Arc::new(Lanes::default());
    let [first, last] = two_entries(&lanes);
    let ((walking, has_begun), (free, is_freed)) = (mpsc::channel(), mpsc::channel());
    let walker = thread::spawn(move || {
        let mut walk = walk_lanes(&lanes);
        walk.next().expect("the last comes first");
        walking.send(()).unwrap();
        is_freed.recv().unwrap();
        black_box(walk.next());
    });
    has_begun.recv().unwrap();
    // SAFETY: none, and that is the bug: the walk holds it.
    unsafe { Entry::free(first) };
    free.send(()).unwrap();
    walker.join().unwrap();
    // SAFETY: it was taken and is held by nobody.
    unsafe { Entry::free(last) };
}

/// A payload is put into an entry that was allocated for a smaller one.
pub(crate) fn out_of_bounds() {
    let small: NonNull<Entry<u64>> = Entry::allocate(ENGINE);
    let large: NonNull<Entry<[u64; 16]>> = small.cast();
    // SAFETY: none, and that is the bug: it is not there as a whole.
    unsafe { large.as_ref().put_payload([7; 16]) };
    // SAFETY: it is held by nobody.
    unsafe { Entry::free(small) };
}

/// Two holders of one task each think that it is theirs alone.
pub(crate) fn double_free() {
    // Too large for the task itself: it is boxed.
    let ballast = [7_u64; 8];
    let task = Task::new(move || {
        black_box(ballast);
    });
    // SAFETY: none, and that is the bug.
    let again = unsafe { ptr::read(&task) };
    drop(task);
    drop(again);
}

/// Nobody lets go of an entry.
pub(crate) fn leak() {
    let allocate = || {
        let entry: NonNull<Entry<u64>> = Entry::allocate(ENGINE);
        black_box(entry.addr());
    };
    // On a thread of its own, so that no copy of the pointer stays on this one's stack.
    thread::spawn(allocate).join().unwrap();
}

/// A list of entries, one of which has the list in its payload.
struct Circle {
    lanes: Lanes<Entry<Arc<Circle>>>,
}

/// What a task captured keeps the list alive that the task is on.
pub(crate) fn circle() {
    let close = || {
        let circle = Arc::new(Circle { lanes: Lanes::default() });
        let entry = Entry::allocate(ENGINE);
        // SAFETY: it is fresh and held by nobody else.
        unsafe { entry.as_ref().put_payload(circle.clone()) };
        // SAFETY: as above; it stays allocated for ever.
        unsafe { circle.lanes.push(entry, 0) }.expect("nobody closes");
    };
    thread::spawn(close).join().unwrap();
}

/// All of the above as it ought to be.
pub(crate) fn nothing() {
    let lanes = Arc::new(Lanes::default());
    two_entries(&lanes);
    let walk = move || {
        for entry in walk_lanes(&lanes) {
            // SAFETY: the walk has gone on to the next, and nobody else holds this one.
            unsafe { Entry::free(entry) };
        }
    };
    thread::spawn(walk).join().unwrap();
    let circle = Arc::new(Circle { lanes: Lanes::default() });
    let entry = Entry::allocate(ENGINE);
    // SAFETY: it is fresh and held by nobody else.
    unsafe { entry.as_ref().put_payload(circle.clone()) };
    // SAFETY: as above; it stays allocated until it is taken.
    unsafe { circle.lanes.push(entry, 0) }.expect("nobody closes");
    for entry in walk_lanes(&circle.lanes) {
        // SAFETY: the taker has the payload, once.
        drop(unsafe { entry.as_ref().take_payload() });
        // SAFETY: nobody holds it any more.
        unsafe { Entry::free(entry) };
    }
}
