//! Payloads that two threads touch with nothing between them that would order it. Who comes first
//! is decided by relaxed accesses, which order nothing, so that the report does not depend on luck.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread;

use tickless_core::entry::Entry;
use tickless_core::inbox::{Lanes, OwnLanes};

use crate::walk::{walk, walk_lanes};

const ENGINE: u32 = 1;

/// An entry that goes to another thread.
struct Sent(NonNull<Entry<u64>>);

// SAFETY: what is done to the entry is each bug's own business.
unsafe impl Send for Sent {}

fn entry_with(payload: u64) -> Sent {
    let entry = Entry::allocate(ENGINE);
    // SAFETY: it is fresh and held by nobody else.
    unsafe { entry.as_ref().put_payload(payload) };
    Sent(entry)
}

fn take(entry: &Sent) -> u64 {
    // SAFETY: as far as the caller can tell, it is the only owner of the payload.
    unsafe { entry.0.as_ref().take_payload() }
}

fn free(entry: Sent) {
    // SAFETY: every thread that used it has been joined.
    unsafe { Entry::free(entry.0) };
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

/// A payload is taken without the exchange of the state word that would make it one's own, while
/// its producer puts another.
pub(crate) fn plain_access() {
    let entry = entry_with(1);
    let (seen, has_taken) = (Sent(entry.0), Arc::new(AtomicBool::new(false)));
    let flag = has_taken.clone();
    let other = thread::spawn(move || {
        let value = take(&seen);
        flag.store(true, Ordering::Relaxed);
        value
    });
    wait_for(&has_taken);
    // SAFETY: none, and that is the bug: it is not ours alone.
    unsafe { entry.0.as_ref().put_payload(2) };
    assert_eq!(other.join().unwrap(), 1);
    free(entry);
}

/// An entry is handed to another thread by a store that publishes nothing but itself.
pub(crate) fn relaxed_publication() {
    hand_over(Ordering::Relaxed, Ordering::Relaxed);
}

fn hand_over(store: Ordering, load: Ordering) {
    let place: Arc<AtomicPtr<Entry<u64>>> = Arc::new(AtomicPtr::new(ptr::null_mut()));
    let seen = place.clone();
    let other = thread::spawn(move || {
        loop {
            if let Some(entry) = NonNull::new(seen.load(load)) {
                return take(&Sent(entry));
            }
            thread::yield_now();
        }
    });
    let entry = entry_with(7);
    place.store(entry.0.as_ptr(), store);
    assert_eq!(other.join().unwrap(), 7);
    free(entry);
}

/// Two threads each take themselves for the owner of a shard's own lists: one files an entry anew
/// that the other had filed, and has looked at.
pub(crate) fn two_owners() {
    let (lanes, entry) = (Arc::new(OwnLanes::default()), entry_with(1));
    // SAFETY: this thread is the owner, so far, and the entry stays allocated.
    unsafe { lanes.push(entry.0, 0) };
    let (others, has_refiled) = (lanes.clone(), Arc::new(AtomicBool::new(false)));
    let flag = has_refiled.clone();
    let second = thread::spawn(move || {
        for entry in walk(&Lanes::default(), &others).map(Sent) {
            assert_eq!(take(&entry), 1);
            // SAFETY: none, and that is the bug: another owner is at it.
            unsafe { entry.0.as_ref().put_payload(2) };
            // SAFETY: as above.
            unsafe { others.push(entry.0, 0) };
        }
        flag.store(true, Ordering::Relaxed);
    });
    wait_for(&has_refiled);
    // Its own lists are read relaxed by their owner: nothing of the other's work is acquired.
    let found: Vec<u64> = walk(&Lanes::default(), &lanes).map(|entry| take(&Sent(entry))).collect();
    assert_eq!(found, [2]);
    second.join().unwrap();
    free(entry);
}

/// The same as it ought to be.
pub(crate) fn nothing() {
    hand_over(Ordering::Release, Ordering::Acquire);
    let (lanes, entry) = (Arc::new(Lanes::default()), entry_with(1));
    let taker = lanes.clone();
    let (found, is_taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begin, done) = (found.clone(), is_taken.clone());
    let second = thread::spawn(move || {
        wait_for(&begin);
        let taken: Vec<u64> = walk_lanes(&taker).map(|entry| take(&Sent(entry))).collect();
        assert_eq!(taken, [1]);
        done.store(true, Ordering::Relaxed);
    });
    // SAFETY: it is ours alone and stays allocated until it is taken, and longer.
    unsafe { lanes.push(entry.0, 0) }.expect("nobody closes");
    found.store(true, Ordering::Relaxed);
    wait_for(&is_taken);
    second.join().unwrap();
    free(entry);
}
