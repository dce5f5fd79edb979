//! BUCKET-PUSH: many threads push on a list, one takes all of it.
//!
//! Who races: two or three producers and the taker. Asserted: each node is taken exactly once,
//! and its content is visible to the taker (the checker reports an unordered access).

use std::ptr::{self, NonNull};
use std::sync::Arc;

use loom_tests::check;
use tickless_core::entry::Linked;
use tickless_core::inbox::{Lanes, OwnLanes, Tray};
use tickless_sync::{self as sync, AtomicPtr, Life, UnsafeCell, thread};

/// A node with something in it that is not atomic.
struct Node {
    next: AtomicPtr<Node>,
    value: UnsafeCell<u32>,
    life: Life,
}

// SAFETY: a node has one link.
unsafe impl Linked for Node {
    fn next(&self) -> &AtomicPtr<Node> {
        &self.next
    }
}

fn push(lanes: &Lanes<Node>, value: u32, turn: usize) {
    let node = Box::new(Node {
        next: AtomicPtr::new(ptr::null_mut()),
        value: UnsafeCell::new(value),
        life: Life::begin(),
    });
    // SAFETY: a box is not null; it stays allocated until `free`.
    let pushed = unsafe { lanes.push(NonNull::new_unchecked(Box::into_raw(node)), turn) };
    pushed.expect("nobody closes");
}

/// Takes everything, as an owner does: node by node.
fn take(lanes: &Lanes<Node>, mut each: impl FnMut(NonNull<Node>)) {
    let tray = Tray::wide();
    let tray: &Tray<Node> = &tray;
    tray.begin(0);
    // SAFETY: the tray is this thread's, and nobody else takes.
    let mut at = unsafe { tray.take(lanes, &OwnLanes::default()) };
    while let Some(node) = tray.peek(&at) {
        // SAFETY: the tray is this thread's, and showed the node.
        unsafe { tray.pass(&mut at, node) };
        each(node);
    }
}

/// Takes everything, frees it, and answers what was in it.
fn free(lanes: &Lanes<Node>) -> Vec<u32> {
    let mut values = Vec::new();
    take(lanes, |node| {
        // SAFETY: the taker holds it.
        let this = unsafe { node.as_ref() };
        this.life.end();
        // SAFETY: as above.
        values.push(this.value.with_mut(|value| unsafe { *value }));
        // SAFETY: it came from a box, and nobody else holds it.
        sync::free(unsafe { Box::from_raw(node.as_ptr()) });
    });
    values
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn assert_all(mut values: Vec<u32>, expected: &[u32]) {
    values.sort_unstable();
    assert_eq!(values, expected);
}

#[test]
fn each_node_is_taken_once_and_with_what_is_in_it() {
    check(3, || {
        let lanes = Arc::new(Lanes::default());
        let threads = [1, 2].map(|value| {
            let lanes = lanes.clone();
            thread::spawn(move || {
                push(&lanes, value, 0);
                push(&lanes, value + 2, 0);
            })
        });
        let mut values = free(&lanes);
        join(threads);
        values.extend(free(&lanes));
        assert_all(values, &[1, 2, 3, 4]);
    });
}

#[test]
fn three_producers_on_two_lanes() {
    check(3, || {
        let lanes = Arc::new(Lanes::default());
        let threads = [1, 2, 3].map(|value| {
            let lanes = lanes.clone();
            thread::spawn(move || push(&lanes, value, value as usize))
        });
        let mut values = free(&lanes);
        join(threads);
        values.extend(free(&lanes));
        assert_all(values, &[1, 2, 3]);
    });
}

#[test]
fn what_was_taken_may_be_pushed_again_at_once() {
    check(3, || {
        let lanes = Arc::new(Lanes::default());
        push(&lanes, 0, 0);
        let threads = [1, 2].map(|value| {
            let lanes = lanes.clone();
            thread::spawn(move || push(&lanes, value, 0))
        });
        take(&lanes, |node| {
            // SAFETY: it was passed, so its link was read, and the taker holds it.
            unsafe { lanes.push(node, 0) }.expect("nobody closes");
        });
        join(threads);
        assert_all(free(&lanes), &[0, 1, 2]);
    });
}
