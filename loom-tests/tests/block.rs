//! BLOCK: threads give entries back to their block, which serves the next timers or is freed.
//!
//! Who races: threads that each give back an entry of one block of two, one that takes what is
//! free, one that looks through the list, one that closes it. Asserted: an entry is one thread's at
//! a time, with all earlier use of it over; the block is freed once, with all use of it over, and
//! does not leak (the checker reports each).

use std::sync::Arc;

use loom_tests::{Hand, World, check, collect, has_run, wheel};
use tickless_core::entry::{Block, BlockList, Entry, Given, after_readers, read, waiting};
use tickless_core::memory::{Blocks, MOST_WAITING, Memory};
use tickless_sync::thread;

/// An engine's blocks, of two entries each, and the entries of one of them.
fn blocks() -> (Arc<Blocks<u32>>, [Memory<u32>; 2]) {
    let blocks = Arc::new(Blocks::of(1, 2, 2));
    let mut entries = Vec::new();
    blocks.take_entries(&mut entries);
    let Ok(entries) = entries.try_into() else { panic!("a new block is all free") };
    (blocks, entries)
}

/// Uses an entry as its only holder does.
fn touch(memory: &Memory<u32>) {
    let entry = memory.entry();
    // SAFETY: a `Memory` holds its entry alone.
    unsafe { entry.as_ref().put_payload(7) };
    // SAFETY: as above, and the payload is put.
    assert_eq!(unsafe { entry.as_ref().take_payload() }, 7);
}

fn give(blocks: &Blocks<u32>, entry: Memory<u32>) {
    touch(&entry);
    // SAFETY: it is one of theirs.
    unsafe { blocks.give(&mut vec![entry]) };
}

/// Takes what is free of a block, or a new one. Returns how many entries there were.
fn take_and_give(blocks: &Blocks<u32>) -> usize {
    let mut entries = Vec::new();
    blocks.take_entries(&mut entries);
    let taken = entries.len();
    entries.iter().for_each(touch);
    // SAFETY: they are theirs.
    unsafe { blocks.give(&mut entries) };
    taken
}

#[test]
fn the_last_of_two_that_know_no_list_frees_the_block() {
    check(3, || {
        let (_blocks, [one, two]) = blocks();
        let giver = thread::spawn(move || {
            touch(&one);
            // SAFETY: it is this thread's, and there are no readers.
            unsafe { Entry::free(one.entry()) };
        });
        touch(&two);
        // SAFETY: as above.
        unsafe { Entry::free(two.entry()) };
        giver.join().unwrap();
    });
}

#[test]
fn what_one_gives_back_another_takes_while_the_rest_comes_back() {
    check(2, || {
        let (blocks, [one, two]) = blocks();
        let [giver, taker] = [blocks.clone(), blocks.clone()];
        let giver = thread::spawn(move || give(&giver, one));
        let taker = thread::spawn(move || take_and_give(&taker));
        give(&blocks, two);
        giver.join().unwrap();
        assert!((1..=2).contains(&taker.join().unwrap()));
        while blocks.trim() {}
        assert_eq!(blocks.listed(), 0, "it came back whole, whoever had the list");
    });
}

#[test]
fn a_block_is_whole_or_has_its_last_entry_out_when_the_list_is_looked_through() {
    check(1, || {
        let (blocks, [one, two]) = blocks();
        let mut others = Vec::new();
        blocks.take_entries(&mut others);
        // It is listed now.
        give(&blocks, one);
        let giver = blocks.clone();
        let giver = thread::spawn(move || give(&giver, two));
        // Each time, the list is looked through.
        others.into_iter().for_each(|other| give(&blocks, other));
        while blocks.trim() {}
        giver.join().unwrap();
        while blocks.trim() {}
        assert_eq!(blocks.listed(), 0, "both are whole, and whoever missed it has said so");
    });
}

#[test]
fn a_block_that_comes_back_while_the_lists_are_closed_is_freed() {
    check(3, || {
        let (blocks, [one, two]) = blocks();
        give(&blocks, one);
        let giver = blocks.clone();
        let giver = thread::spawn(move || give(&giver, two));
        blocks.close();
        drop(blocks);
        giver.join().unwrap();
    });
}

#[test]
fn who_has_the_list_sees_that_a_block_is_whole_when_all_use_of_it_is_over() {
    check(3, || {
        let (block, mut list) = (Block::<u32>::allocate(1, 2, 0), BlockList::empty());
        // SAFETY: it was just allocated, and is all this thread's.
        let entries: Vec<_> = unsafe { block.entries().map(|entry| Memory::new(entry)) }.collect();
        let Ok([one, two]) = <[_; 2]>::try_from(entries) else { panic!("there are two") };
        // SAFETY: it is this thread's, and there are no readers.
        assert_eq!(unsafe { block.give(one.entry().as_ref().bit(), true) }, Given::Listed);
        // SAFETY: it has just become listed.
        unsafe { list.push(block) };
        let looker = thread::spawn(move || {
            // SAFETY: it is listed, and this thread has the list.
            let is_whole = unsafe { block.is_whole() };
            if is_whole {
                list.pop().expect("it is in the list");
                // SAFETY: it was found whole.
                unsafe { block.free() };
            }
            is_whole
        });
        // The writer goes first: see "Which thread goes first" in the README.
        touch(&two);
        // SAFETY: it is this thread's, and there are no readers.
        assert_eq!(unsafe { block.give(two.entry().as_ref().bit(), false) }, Given::WholeInList);
        if !looker.join().unwrap() {
            // SAFETY: it is whole now, and the thread that had the list has left it.
            unsafe { block.free() };
        }
    });
}

/// As a handle does that outlives its engine.
#[test]
fn who_is_late_gives_back_without_the_lists() {
    check(3, || {
        let (blocks, [one, two]) = blocks();
        give(&blocks, one);
        let late = thread::spawn(move || {
            touch(&two);
            // SAFETY: it is this thread's, and there are no readers.
            unsafe { Entry::free(two.entry()) };
        });
        blocks.close();
        drop(blocks);
        late.join().unwrap();
    });
}

/// Each thread finds the lists locked, or lists the block, or finds that it has all of it.
#[test]
fn three_who_give_back_at_once_list_the_block_once_or_free_it() {
    check(2, || {
        let block = Block::<u32>::allocate(1, 3, 1);
        let blocks = Arc::new(Blocks::of(1, 3, 3));
        // SAFETY: it was just allocated, and is all this thread's.
        let entries: Vec<_> = unsafe { block.entries().map(|entry| Memory::new(entry)) }.collect();
        let Ok([one, two, three]) = <[_; 3]>::try_from(entries) else { panic!("there are three") };
        let others = [one, two].map(|entry| {
            let blocks = blocks.clone();
            thread::spawn(move || give(&blocks, entry))
        });
        give(&blocks, three);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(take_and_give(&blocks) == 3);
    });
}

/// In a shard: the two are timers. Their handle and the reaper let go of them.
#[test]
fn the_block_of_two_timers_is_freed_when_nobody_has_either() {
    check(1, || {
        let world = World::of_blocks(wheel(2, 1), 2);
        let mut hand = Hand::new(&world);
        let kept = hand.schedule(1, 0);
        hand.schedule_detached(1, 0).unwrap();
        let handle = thread::spawn(move || {
            hand.detach(kept);
            hand.clear();
            collect();
            hand
        });
        world.turn(1);
        world.stop();
        collect();
        drop(handle.join().unwrap());
        assert!(has_run(0) && has_run(1));
    });
}

/// While a reader stands still, a block that comes back whole is listed in place of being freed.
#[test]
fn a_whole_block_that_stays_is_listed_and_serves_others_or_is_freed() {
    check(1, || {
        let (blocks, [one, two]) = blocks();
        let reader = read();
        while waiting() < MOST_WAITING {
            // SAFETY: it frees nothing.
            unsafe { after_readers(|| ()) };
        }
        [&one, &two].into_iter().for_each(touch);
        // SAFETY: they are of one of its blocks.
        unsafe { blocks.give(&mut vec![one, two]) };
        assert_eq!(blocks.listed(), 1, "it stays");
        drop(reader);
        // Who ends the engine finds it whole, while another takes memory.
        let taker = blocks.clone();
        let taker = thread::spawn(move || take_and_give(&taker));
        blocks.close();
        assert!(taker.join().unwrap() > 0);
        drop(blocks);
    });
}
