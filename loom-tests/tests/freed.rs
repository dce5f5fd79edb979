//! BUCKET-READ, for a reader of a single list: it sees nothing that was freed.
//!
//! Who races: a reader and an owner, who takes the list and gives its entries back to the allocator
//! or pushes them elsewhere. Asserted: the reader looks at no memory that was freed, or that is
//! freed beside it (the checker reports both).

use std::ptr::NonNull;
use std::sync::Arc;

use loom_tests::{Hand, World, check, collect, wheel};
use tickless_core::doorbell::Bell;
use tickless_core::entry::{self, Entry, Phase};
use tickless_core::inbox::{self, LANES, Lanes, OwnLanes, Walk};
use tickless_core::time::Tick;
use tickless_sync::thread;

/// A new entry, pushed on the first lane.
fn push_new(lanes: &Lanes<Entry<()>>) -> NonNull<Entry<()>> {
    let entry = Entry::allocate(0);
    // SAFETY: it is new, so it is held here alone, and is freed when it was taken.
    unsafe { lanes.push(entry, 0) }.expect("nobody closes");
    entry
}

/// Takes everything, and does `each` with an entry as soon as it has passed it.
fn take(lanes: &Lanes<Entry<()>>, mut each: impl FnMut(NonNull<Entry<()>>)) {
    let tray: &inbox::Tray<Entry<()>> = &inbox::Tray::wide();
    tray.begin(0);
    // SAFETY: the tray is this thread's, and nobody else takes.
    let mut at = unsafe { tray.take(lanes, &OwnLanes::default()) };
    while let Some(entry) = tray.peek(&at) {
        // SAFETY: the tray is this thread's, and showed the entry.
        unsafe { tray.pass(&mut at, entry) };
        each(entry);
    }
}

/// Follows the lanes as a scan does, each to its end.
fn read_lanes<T>(lanes: &Lanes<Entry<T>>) {
    let reader = entry::read();
    let guard = reader.guard();
    for first in (0..LANES).map(|lane| lanes.lane(lane).first(guard)) {
        // The checker reports if one was freed.
        Walk::from(first, guard).for_each(drop);
    }
}

fn free_after_readers(entry: NonNull<Entry<()>>) {
    // SAFETY: the caller took it, so it is held here alone and in no list any more.
    unsafe { entry::after_readers(move || Entry::free(entry)) };
}

/// As the model of two shards in `bucket_read`; the other owner is the reader.
#[test]
fn an_entry_that_is_pushed_elsewhere_links_to_nothing_that_was_freed_before() {
    check(3, || {
        let [others, read_in] = [(); 2].map(|()| Arc::new(Lanes::default()));
        push_new(&others);
        push_new(&read_in);
        let reader = {
            let (others, read_in) = (others.clone(), read_in.clone());
            thread::spawn(move || {
                take(&others, free_after_readers);
                collect();
                read_lanes(&read_in);
            })
        };
        take(&read_in, |entry| {
            // SAFETY: it was taken, so it is held here alone.
            unsafe { others.push(entry, 0) }.expect("nobody closes");
        });
        reader.join().unwrap();
        take(&others, free_after_readers);
    });
}

#[test]
fn an_entry_that_waits_in_a_tray_links_to_nothing_that_was_freed_before() {
    check(3, || {
        let [others, read_in] = [(); 2].map(|()| Arc::new(Lanes::default()));
        let freed = push_new(&others);
        let waits = push_new(&others);
        let mut taken = Vec::new();
        take(&others, |entry| taken.push(entry));
        assert_eq!(taken, [waits, freed]);
        free_after_readers(freed);
        collect();
        push_new(&read_in);
        let reader = {
            let read_in = read_in.clone();
            thread::spawn(move || read_lanes(&read_in))
        };
        // What is taken is put on the chain of the one that waits: a narrow tray has one here.
        let aside: &inbox::Tray<Entry<()>> = &inbox::Tray::narrow();
        // SAFETY: it was taken, so it is held here alone.
        let put_aside = |entry| unsafe { aside.give(entry, 0) };
        put_aside(waits);
        take(&read_in, put_aside);
        reader.join().unwrap();
        let mut at = aside.open();
        while let Some(entry) = aside.peek(&at) {
            // SAFETY: the tray is this thread's, and showed the entry.
            unsafe { aside.pass(&mut at, entry) };
            // SAFETY: the reader is gone.
            unsafe { Entry::free(entry) };
        }
    });
}

/// It is shown as moving until its list lets go of it. Then its handle may free it.
#[test]
fn an_entry_that_ends_is_shown_until_its_list_lets_go_and_no_longer() {
    check(1, || {
        let lanes = Lanes::default();
        let tray: Arc<inbox::Tray<Entry<()>>> = Arc::new(inbox::Tray::wide());
        let entry = Entry::allocate(0);
        let place = wheel(2, 1).place(Tick::new(1), Tick::ZERO);
        // SAFETY: it is new, so it is held here alone.
        unsafe { entry.as_ref().put_payload(()) };
        // SAFETY: as above; the payload is put.
        unsafe { entry.as_ref().make_pending(Tick::new(1), place, 0, true) };
        // SAFETY: as above, and it is freed when it was taken.
        unsafe { lanes.push(entry, 0) }.expect("nobody closes");
        tray.begin(0);
        // SAFETY: the tray is this thread's, and nobody else takes.
        let mut at = unsafe { tray.take(&lanes, &OwnLanes::default()) };
        // SAFETY: as above, and the tray shows the entry.
        unsafe { tray.set_moving(entry) };
        // SAFETY: the tray is this thread's, and shows the entry.
        unsafe { tray.pass(&mut at, entry) };
        let (handle, read_in) = (Shown(entry), tray.clone());
        let handle = thread::spawn(move || {
            let Shown(entry) = { handle };
            // SAFETY: this thread has the handle.
            if unsafe { Entry::let_go(entry) } {
                free_after_readers(entry);
            }
            collect();
            let look = |_, entry: &Entry<()>| {
                // The checker reports if it was freed.
                entry.word();
                true
            };
            read_in.read_moving(entry::read().guard(), look);
        });
        let mine = loop {
            // SAFETY: this thread has the list's bit, as long as the entry is pending.
            let word = unsafe { entry.as_ref() }.word();
            // SAFETY: as above, and the word was read from it.
            let end = unsafe { Entry::end(entry, word, Phase::Fired, || tray.set_moved(), drop) };
            if let Some(mine) = end {
                break mine;
            }
        };
        if mine {
            free_after_readers(entry);
        }
        handle.join().unwrap();
    });
}

/// An entry that its handle's thread looks at.
struct Shown(NonNull<Entry<()>>);

// SAFETY: what is shared of an entry is atomic, and its holders decide by its word who frees it.
unsafe impl Send for Shown {}

/// The shard gives it back, as `bucket_read` has it for a reader that looks everywhere.
#[test]
fn a_reader_of_a_list_sees_nothing_that_was_given_back_to_the_allocator() {
    check(0, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let place = world.shard.wheel().geometry().place(Tick::new(1), Tick::ZERO);
                read_lanes(&world.shard.wheel().bucket(place).unwrap().lanes);
            })
        };
        world.turn(1);
        hand.detach(timer);
        hand.clear();
        collect();
        reader.join().unwrap();
    });
}

/// So with what is in the depots when the engine's memory goes.
#[test]
fn a_reader_of_a_list_sees_nothing_of_the_depots_that_was_freed() {
    check(1, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        assert!(hand.cancel(timer));
        hand.clear();
        let ender = {
            let world = world.clone();
            thread::spawn(move || {
                world.stop();
                world.shared.dismantle();
                collect();
            })
        };
        let place = world.shard.wheel().geometry().place(Tick::new(1), Tick::ZERO);
        read_lanes(&world.shard.wheel().get(place).expect("it is there").lanes);
        ender.join().unwrap();
    });
}

/// A vacancy is shown as moving until its list is about to let go of it: then the thread that keeps
/// the seat may free it, and a reader that comes later finds it nowhere.
#[test]
fn a_seat_that_is_freed_when_its_list_has_let_go_is_not_shown_any_more() {
    check(1, || {
        let world = World::with(wheel(2, 2), Bell::None, 0);
        let mut hand = Hand::new(&world);
        // On level 2, so that it is not due when its bucket opens.
        let timer = hand.schedule(3, 0).unwrap();
        assert!(hand.cancel(timer));
        let keeper = {
            let world = world.clone();
            thread::spawn(move || {
                hand.clear();
                collect();
                assert!(world.scan(9).is_empty());
            })
        };
        world.turn(2);
        keeper.join().unwrap();
    });
}
