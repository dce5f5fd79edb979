//! BUCKET-READ: a reader walks the buckets under a guard, while they are flushed and their
//! entries reused or given back to the allocator.
//!
//! Who races: a reader, a producer and the reaper, who takes buckets into its hands, puts rounds
//! aside and sweeps lists in place. Asserted: the reader looks at no memory that was freed, or that
//! is freed beside it (the checker reports both); it sees a timer that is pending throughout, and
//! once, in one look if it is not re-filed.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use loom_tests::{Fate, Hand, Timer, World, check, collect, fate, wheel};
use tickless_core::doorbell::Bell;
use tickless_core::entry::{self, Entry};
use tickless_core::time::Tick;
use tickless_sync::{IS_CHECKED, thread};

fn read_in_thread(world: &Arc<World>) -> thread::JoinHandle<Vec<Tick>> {
    let world = world.clone();
    thread::spawn(move || world.scan(9))
}

#[test]
fn a_reader_sees_nothing_that_was_given_back_to_the_allocator() {
    check(1, || {
        // Without depots memory goes straight back.
        let world = World::with(wheel(2, 1), Bell::None, 0);
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let reader = read_in_thread(&world);
        world.turn(1);
        hand.detach(timer);
        hand.clear();
        collect();
        let found = reader.join().unwrap();
        assert!(found.len() <= 1);
    });
}

/// The reader stands on an entry that fires, is reused at once, and is pushed in front of one
/// that was not there when the reader came: in the same slot, by the same thread or another.
fn reuse_under_a_reader(bound: usize, by_another: bool) {
    check(bound, move || {
        let world = World::new(wheel(2, 1));
        let [mut hand, mut other] = [Hand::new(&world), Hand::new(&world)];
        let timer = hand.schedule(1, 0).unwrap();
        // So that the next one goes to the first one's lane.
        hand.schedule_detached(2, 1).unwrap();
        let reader = read_in_thread(&world);
        let push_fresh = move || (other.schedule_detached(3, 2), other);
        world.turn(1);
        hand.detach(timer);
        if by_another {
            let producer = thread::spawn(push_fresh);
            hand.schedule_detached(3, 2);
            drop(producer.join().unwrap());
        } else {
            push_fresh();
            hand.schedule_detached(3, 2);
        }
        reader.join().unwrap();
        world.check(1);
    });
}

#[test]
fn a_reader_may_stand_on_an_entry_that_is_reused() {
    reuse_under_a_reader(1, false);
}

#[test]
fn a_reader_may_follow_a_link_that_is_being_written() {
    reuse_under_a_reader(0, true);
}

#[test]
fn a_reader_finds_what_is_pending_throughout_behind_what_is_being_pushed() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        hand.schedule_detached(1, 0);
        let reader = read_in_thread(&world);
        // One on the other lane, one before the first timer.
        hand.schedule_detached(1, 0);
        hand.schedule_detached(1, 0);
        let found = reader.join().unwrap();
        assert!((1..=3).contains(&found.len()));
        assert_eq!(world.scan(4).len(), 3);
    });
}

#[test]
fn a_reader_may_find_what_was_not_there_when_it_came_and_is_re_filed() {
    check(1, || {
        let world = World::new(wheel(2, 2));
        let mut hand = Hand::new(&world);
        let reader = read_in_thread(&world);
        hand.schedule_detached(3, 0);
        world.turn(2);
        let found = reader.join().unwrap();
        assert!(found.iter().all(|&deadline| deadline == Tick::new(3)));
        assert_eq!(world.scan(4).len(), 1);
        world.check(2);
    });
}

#[test]
fn a_reader_meets_two_producers_a_canceller_and_a_flush() {
    check(0, || {
        let world = World::with(wheel(2, 1), Bell::None, 4);
        let [mut one, mut two] = [(); 2].map(|()| Hand::provided(&world));
        let timer = two.schedule(1, 0);
        let reader = read_in_thread(&world);
        let one = thread::spawn(move || (one.schedule_detached(1, 0), one));
        let two = thread::spawn(move || (two.cancel(timer), two.schedule_detached(2, 1), two));
        world.turn(1);
        assert!(reader.join().unwrap().len() <= 3);
        let _one = one.join().unwrap();
        let (cancelled, _, _two) = two.join().unwrap();
        assert_eq!(fate(0) == Some(Fate::Cancelled), cancelled);
        world.pass(1, 2);
    });
}

/// The producer pushes onto the list of another shard, with an entry that fired in its own shard
/// and on which a reader may still stand. If it found there a first entry that was freed before the
/// reader came (nothing orders it after the other owner, who took that), it would write a link to
/// it. (A stop takes entries by the same steps as a turn.)
#[test]
fn an_entry_that_fired_and_comes_back_links_to_nothing_that_was_freed_before() {
    check(0, || {
        let freed_from = World::new(wheel(2, 1));
        let read_in = World::beside(&freed_from);
        let [mut hand, mut producer] = [Hand::new(&freed_from), Hand::new(&read_in)];
        let timer = hand.schedule(1, 0).unwrap();
        let comes_back = producer.schedule(1, 0).unwrap();
        // So that the next one goes to the first one's lane.
        producer.schedule_detached(2, 1).unwrap();
        let producer = {
            let (freed_from, read_in) = (freed_from.clone(), read_in.clone());
            thread::spawn(move || {
                read_in.turn(1);
                producer.detach(comes_back);
                producer.turn_to(&freed_from);
                producer.schedule_detached(3, 2);
                producer
            })
        };
        // The writer goes first: see "Who goes first" in the README.
        fire_and_free(&freed_from, &timer);
        let reader = read_in_thread(&read_in);
        assert!(reader.join().unwrap().len() <= 2);
        let _producer = producer.join().unwrap();
    });
}

/// Fires `timer`, and frees its entry after those who read now.
fn fire_and_free(world: &World, timer: &Timer) {
    world.turn(1);
    let fired = NonNull::from(timer.entry());
    // SAFETY: this is the end of the handle.
    assert!(unsafe { Entry::let_go(fired) }, "the list had let go");
    // SAFETY: so it is held here alone.
    unsafe { entry::after_readers(move || Entry::free(fired)) };
    collect();
}

/// As above, with an entry that was dead, and that a sweep has cut out of a round. (In a list, a
/// reader follows no link of an entry that was cut out.)
#[test]
fn an_entry_that_was_swept_and_comes_back_links_to_nothing_that_was_freed_before() {
    check(1, || {
        let freed_from = World::with(wheel(4, 1), Bell::None, 1);
        let read_in = World::beside(&freed_from);
        let timer = Hand::new(&freed_from).schedule(1, 0).unwrap();
        let mut hand = Hand::new(&read_in);
        let dead = hand.schedule(5, 4);
        // Seats that fill the depot, and open too late for others.
        let mut other = Hand::new(&read_in);
        let seats = [(); 4].map(|()| other.schedule(7, 4));
        seats.into_iter().for_each(|timer| _ = other.cancel(timer));
        other.schedule_detached(1, 0);
        other.clear();
        // It fires, and the one of the next round is put aside.
        read_in.turn(1);
        let address = |timer: &Timer| ptr::from_ref(timer.entry()).addr();
        let unlinked = dead.as_ref().map(address);
        hand.cancel(dead);
        hand.clear();
        // The memory in the depot. The notice and the dead entry fill the owner's magazine.
        (0..6).for_each(|_| _ = other.schedule_detached(7, 4));
        other.schedule_detached(6, 4);
        read_in.shard.ask_for_sweep();
        let mut producer = Hand::new(&freed_from);
        let swept = read_in.clone();
        let producer = thread::spawn(move || {
            swept.turn_until_idle(1);
            let again = producer.schedule(5, 2).unwrap();
            // (On threads of the system there is more memory, and room for more seats.)
            assert!(!IS_CHECKED || Some(address(&again)) == unlinked, "it was swept");
            producer.detach(again);
            producer
        });
        // The writer goes first: see "Who goes first" in the README.
        fire_and_free(&freed_from, &timer);
        let reader = read_in_thread(&read_in);
        reader.join().unwrap();
        let _producer = producer.join().unwrap();
    });
}

/// How many of what was found is due then.
fn due_at(found: &[Tick], deadline: u64) -> usize {
    found.iter().filter(|&&found| found == Tick::new(deadline)).count()
}

/// Timers of the present, both on one lane: each hand begins with the first.
fn two_on_a_lane(world: &Arc<World>) -> [(Hand, Timer); 2] {
    [(), ()].map(|()| {
        let mut hand = Hand::new(world);
        let timer = hand.schedule(1, 0).unwrap();
        (hand, timer)
    })
}

#[test]
fn a_reader_finds_what_a_bounded_turn_leaves_in_hand() {
    check(1, || {
        let world = World::new(wheel(2, 1));
        let [(mut one, first), (mut two, second)] = two_on_a_lane(&world);
        let reader = read_in_thread(&world);
        world.turn_at_most(1, 1);
        let found = reader.join().unwrap();
        assert!((1..=2).contains(&due_at(&found, 1)), "{found:?}");
        assert_eq!(world.scan(9).len(), 1);
        world.check(1);
        one.detach(first);
        two.detach(second);
    });
}

/// The reader stands on an entry in hand when that fires, and is used again in the same slot.
#[test]
fn a_reader_finds_what_is_in_hand_though_what_it_stands_on_is_used_again() {
    check(2, || {
        let world = World::new(wheel(2, 1));
        let [(mut one, first), (mut two, second)] = two_on_a_lane(&world);
        // On the other lane, so that its chain has to move to the front as well.
        let third = one.schedule(1, 0).unwrap();
        world.turn_at_most(1, 1);
        let served = world.clone();
        let owner = thread::spawn(move || {
            served.turn_at_most(1, 1);
            [first, second].into_iter().for_each(|timer| two.detach(timer));
            two.schedule_detached(3, 2);
            two
        });
        let found = world.scan(9);
        let _two = owner.join().unwrap();
        let lasting = [0, 1, 2].into_iter().filter(|&id| !loom_tests::has_run(id)).count();
        assert!(due_at(&found, 1) >= lasting, "{found:?} of {lasting}");
        world.check(1);
        one.detach(third);
    });
}

/// A bucket holds two rounds; the first fires, and the second is put aside for its opening.
#[test]
fn a_reader_finds_what_belongs_to_another_round_while_it_is_put_aside() {
    check(1, || {
        let world = World::new(wheel(2, 1));
        // On one lane: what is put aside is behind what fires.
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        one.schedule_detached(3, 2);
        two.schedule_detached(1, 0);
        let reader = read_in_thread(&world);
        world.turn(1);
        let found = reader.join().unwrap();
        assert_eq!(due_at(&found, 3), 1, "{found:?}");
        world.check(1);
    });
}

/// A dead entry lies between two living ones, in the middle of a list or first: it is unlinked
/// where it is, and the reader that stands on it goes on. (If its memory serves the next timer
/// meanwhile, the reader begins with the list again: `crates/core/src/shard/scan/tests.rs`.)
fn sweep_under_a_reader(dead: usize, has_depots: bool) {
    check(1, move || {
        let slots = if has_depots { 4 } else { 2 };
        let world = World::with(wheel(slots, 1), Bell::None, has_depots.into());
        // On one lane, each by a hand that begins.
        let mut hands = [(); 3].map(|()| Hand::new(&world));
        let mut timers = [0, 1, 2].map(|i: usize| hands[i].schedule(1, 0));
        if has_depots {
            // Seats that fill the depot, and open too late for others.
            let mut keeper = Hand::new(&world);
            let seats = [(); 4].map(|()| keeper.schedule(3, 0));
            seats.into_iter().for_each(|timer| _ = keeper.cancel(timer));
        }
        hands[dead].cancel(timers[dead].take());
        hands[dead].clear();
        // (On threads of the system the depot has room for it.)
        assert!(!IS_CHECKED || world.shared.all_counters.dead() == 1);
        world.shard.ask_for_sweep();
        let reader = read_in_thread(&world);
        world.turn_until_idle(0);
        assert!(!IS_CHECKED || world.shared.all_counters.dead() == 0, "it was swept");
        collect();
        if has_depots {
            Hand::new(&world).schedule_detached(2, 0);
        }
        let found = reader.join().unwrap();
        assert_eq!(due_at(&found, 1), 2, "{found:?}");
        world.check(0);
        for (hand, timer) in hands.iter_mut().zip(timers) {
            hand.detach(timer);
        }
    });
}

#[test]
fn a_reader_gets_past_what_is_unlinked_in_the_middle_of_a_list() {
    sweep_under_a_reader(1, false);
}

#[test]
fn a_reader_gets_past_what_is_unlinked_at_the_head_of_a_list() {
    sweep_under_a_reader(2, false);
}

#[test]
fn a_reader_gets_past_what_is_unlinked_while_another_timer_takes_memory() {
    sweep_under_a_reader(1, true);
}

/// The level and the segment are made under the reader.
#[test]
fn a_reader_finds_buckets_as_they_were_made() {
    check(2, || {
        let world = World::build_bare(wheel(4, 2));
        let reader = read_in_thread(&world);
        let mut hand = Hand::new(&world);
        hand.schedule_detached(9, 0);
        assert!(due_at(&reader.join().unwrap(), 9) <= 1);
        assert_eq!(world.scan(9), [Tick::new(9)]);
    });
}

/// The head of a list is dead, and somebody pushes on it while it is unlinked.
#[test]
fn what_is_pushed_while_the_head_of_a_list_is_unlinked_is_not_lost() {
    check(3, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        let [mut hand, mut other] = [Hand::new(&world), Hand::new(&world)];
        let timer = hand.schedule(1, 0);
        hand.cancel(timer);
        hand.clear();
        world.shard.ask_for_sweep();
        // On the same lane, both: the lanes are two.
        let push = move || ([1, 1].map(|due| other.schedule_detached(due, 0)), other);
        let producer = thread::spawn(push);
        world.turn_until_idle(0);
        let (ids, _other) = producer.join().unwrap();
        world.check(0);
        world.pass(0, 1);
        assert!(ids.into_iter().flatten().all(loom_tests::has_run));
    });
}

/// A dead entry of a list is unlinked, and its memory serves a timer on another list of the bucket.
struct Another {
    world: Arc<World>,
    hands: [Hand; 3],
    timers: [Option<Timer>; 3],
    other: Hand,
    unlinked: Option<usize>,
}

impl Another {
    fn new(dead: usize) -> Another {
        let world = World::with(wheel(4, 2), Bell::None, 1);
        // On one lane, each by a hand that begins.
        let mut hands = [(); 3].map(|()| Hand::new(&world));
        let mut timers = [0, 1, 2].map(|i: usize| hands[i].schedule(9, 0));
        // Seats that fill the depot, and open too late for others.
        let mut other = Hand::new(&world);
        let seats = [(); 4].map(|()| other.schedule(13, 0));
        seats.into_iter().for_each(|timer| _ = other.cancel(timer));
        // The third notice, so that the dead entry fills the owner's second magazine.
        other.schedule_detached(5, 0);
        other.clear();
        world.turn_until_idle(0);
        let unlinked = timers[dead].as_ref().map(|timer| ptr::from_ref(timer.entry()).addr());
        hands[dead].cancel(timers[dead].take());
        hands[dead].clear();
        // The memory in the depot.
        (0..2).for_each(|_| _ = other.schedule_detached(13, 0));
        world.shard.ask_for_sweep();
        Another { world, hands, timers, other, unlinked }
    }

    /// Schedules with the memory of the entry that was swept.
    fn use_again(other: &mut Hand, unlinked: Option<usize>) {
        let again = other.schedule(10, 0).unwrap();
        let address = ptr::from_ref(again.entry()).addr();
        // (On threads of the system there is more memory, and room for more seats.)
        assert!(!IS_CHECKED || Some(address) == unlinked, "it was swept");
        other.detach(again);
    }

    /// The end: what a reader has found meanwhile.
    fn end(mut self, found: &[Tick]) {
        assert_eq!(due_at(found, 9), 2, "{found:?}");
        for (hand, timer) in self.hands.iter_mut().zip(self.timers) {
            hand.detach(timer);
        }
    }
}

/// The reader knows that the entry comes next, and has not looked at it yet.
fn another_list_under_a_reader(bound: usize, dead: usize) {
    check(bound, move || {
        let mut it = Another::new(dead);
        let read = it.world.clone();
        let reader = thread::spawn(move || read.scan(32));
        it.world.turn_until_idle(0);
        Another::use_again(&mut it.other, it.unlinked);
        it.end(&reader.join().unwrap());
    });
}

/// The reader sees old links and the entry's new word. It runs the body, since it fences as it
/// begins; and the owner has a thread of its own, since it fences for what comes after.
#[test]
fn a_reader_is_not_led_to_another_list_by_what_another_thread_files_there() {
    check(2, || {
        let it = Another::new(1);
        let Another { world, hands, timers, mut other, unlinked } = it;
        let swept = world.clone();
        let producer = thread::spawn(move || {
            thread::spawn(move || swept.turn_until_idle(0)).join().unwrap();
            Another::use_again(&mut other, unlinked);
            other
        });
        let found = world.scan(32);
        let other = producer.join().unwrap();
        Another { world, hands, timers, other, unlinked }.end(&found);
    });
}

#[test]
fn a_reader_is_not_led_to_another_list_by_what_is_unlinked_in_the_middle() {
    another_list_under_a_reader(2, 1);
}

#[test]
fn a_reader_is_not_led_to_another_list_by_what_is_unlinked_at_the_head() {
    another_list_under_a_reader(1, 2);
}

/// Two dead entries that follow each other in a list are unlinked, and the memory of the second one
/// serves a timer on another list of the bucket. The reader knows that this one comes next, and the
/// link that says so stays as it was.
#[test]
fn a_reader_is_not_led_to_another_list_by_what_was_unlinked_before() {
    check(1, || {
        let world = World::with(wheel(4, 1), Bell::None, 1);
        // On one lane, each by a hand that begins.
        let mut hands = [(); 3].map(|()| Hand::new(&world));
        let mut timers = [0, 1, 2].map(|i: usize| hands[i].schedule(1, 0));
        // Seats that fill the depot, and open too late for others. With one more push, what comes
        // later goes to the other lane.
        let mut other = Hand::new(&world);
        other.schedule_detached(3, 0);
        let seats = [(); 4].map(|()| other.schedule(3, 0));
        seats.into_iter().for_each(|timer| _ = other.cancel(timer));
        other.clear();
        world.turn_until_idle(0);
        let address = |timer: &Timer| ptr::from_ref(timer.entry()).addr();
        let unlinked = timers[1].as_ref().map(address);
        for dead in [1, 2] {
            hands[dead].cancel(timers[dead].take());
            hands[dead].clear();
        }
        // The memory in the depot.
        (0..2).for_each(|_| _ = other.schedule_detached(3, 0));
        world.shard.ask_for_sweep();
        let swept = world.clone();
        let owner = thread::spawn(move || {
            swept.turn_until_idle(0);
            let again = other.schedule(5, 2).unwrap();
            // (On threads of the system there is more memory, and room for more seats.)
            let is_unlinked = Some(address(&again)) == unlinked;
            assert!(!IS_CHECKED || is_unlinked, "it was swept");
            (again, other)
        });
        let found = world.scan(9);
        let (again, mut other) = owner.join().unwrap();
        assert_eq!(due_at(&found, 1), 1, "{found:?}");
        other.detach(again);
        hands[0].detach(timers[0].take());
    });
}

/// A dead entry is unlinked in the middle of a round that is put aside, and its memory serves
/// another timer. A reader that stands on it loses what comes behind, and looks again.
#[test]
fn a_reader_that_loses_a_part_of_a_round_looks_again() {
    check(1, || {
        let world = World::with(wheel(4, 1), Bell::None, 1);
        world.make_levels();
        // On one lane, each by a hand that begins.
        let mut hands = [(); 3].map(|()| Hand::new(&world));
        let mut timers = [0, 1, 2].map(|i: usize| hands[i].schedule(5, 4));
        // Seats that fill the depot, and open too late for others.
        let mut other = Hand::new(&world);
        let seats = [(); 4].map(|()| other.schedule(7, 4));
        seats.into_iter().for_each(|timer| _ = other.cancel(timer));
        other.schedule_detached(1, 0);
        other.clear();
        // It fires, and those of the next round are put aside.
        world.turn(1);
        let address = |timer: &Timer| ptr::from_ref(timer.entry()).addr();
        let unlinked = timers[1].as_ref().map(address);
        hands[1].cancel(timers[1].take());
        hands[1].clear();
        // The memory in the depot. The notice and the dead entry fill the owner's magazine.
        (0..6).for_each(|_| _ = other.schedule_detached(7, 4));
        other.schedule_detached(6, 4);
        world.shard.ask_for_sweep();
        let swept = world.clone();
        let owner = thread::spawn(move || {
            swept.turn_until_idle(1);
            let mut last = Hand::new(&swept);
            let again = [(); 4].map(|()| last.schedule(7, 4));
            let is_again = |timer: &Timer| Some(address(timer)) == unlinked;
            // (On threads of the system there is more memory, and room for more seats.)
            assert!(!IS_CHECKED || again.iter().flatten().any(is_again), "it was swept");
            again.into_iter().for_each(|timer| last.detach(timer));
        });
        let found = world.scan_in(world.shard.passes(), 32);
        owner.join().unwrap();
        assert_eq!(due_at(&found, 5), 2, "{found:?}");
        for (hand, timer) in hands.iter_mut().zip(timers) {
            hand.detach(timer);
        }
    });
}
