//! CUT: a thread that helps to sweep takes a dead entry out of the middle of a list, while the
//! shard's owner opens that list.
//!
//! Who races: the helper; the owner, which opens the bucket or the round, or closes; a handle that
//! moves the timer before the dead entry; a reader. Asserted: what lives fires on its tick or is
//! found, the dead entry is freed once, and nobody looks at it after that.

use std::sync::Arc;

use loom_tests::{Fate, Hand, Timer, World, check, collect, fate, has_run, wheel};
use tickless_core::doorbell::Bell;
use tickless_core::sync::{JoinHandle, thread};
use tickless_core::time::Tick;

/// Three timers of one list, due at `deadline`: the one in the middle is dead. A sweep is wanted.
struct Littered {
    world: Arc<World>,
    hands: [Hand; 3],
    before: Option<Timer>,
    /// The payloads of those that live.
    ids: [usize; 2],
}

/// Without a depot, a seat that is given up is dead, and its memory goes to the allocator.
fn littered(slots: u32, [deadline, now]: [u64; 2], turn: Option<u64>) -> Littered {
    let world = World::with(wheel(slots, 1), Bell::None, 0);
    world.make_levels();
    // The first timer of each hand goes to the same lane.
    let mut hands = [(); 3].map(|()| Hand::new(&world));
    let behind = hands[0].schedule_detached(deadline, now).expect("it is not closed");
    let [dead, before] =
        [1, 2].map(|i| hands[i].schedule(deadline, now).expect("it is not closed"));
    if let Some(turn) = turn {
        hands[1].schedule_detached(turn, 0).expect("it is not closed");
        world.turn(turn);
    }
    assert!(hands[1].cancel(dead));
    hands[1].clear();
    assert_eq!(world.shared.all_counters.dead(), 1);
    world.shard.ask_for_sweep();
    let ids = [before.id(), behind];
    Littered { world, hands, before: Some(before), ids }
}

fn help(world: &Arc<World>) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || _ = world.shard.help_sweep(&world.shared))
}

/// After all threads have returned: the dead entry is gone.
fn end(world: &World, mut hand: Hand, before: Option<Timer>, now: u64) {
    world.turn_until_idle(now);
    world.check(now);
    hand.detach(before);
    assert_eq!(world.shared.all_counters.dead(), 0);
}

#[test]
fn a_bucket_opens_while_an_entry_is_cut_out_of_it() {
    check(1, || {
        let Littered { world, hands: [_one, _two, hand], before, ids } = littered(2, [1, 0], None);
        let helper = help(&world);
        world.turn(1);
        assert!(ids.into_iter().all(has_run));
        helper.join().unwrap();
        end(&world, hand, before, 1);
    });
}

/// The same; it is the owner that comes in between.
#[test]
fn an_entry_is_cut_out_of_a_bucket_while_that_opens() {
    check(1, || {
        let Littered { world, hands: [_one, _two, hand], before, ids } = littered(2, [1, 0], None);
        let owner = world.clone();
        let owner = thread::spawn(move || _ = owner.turn(1));
        world.shard.help_sweep(&world.shared);
        owner.join().unwrap();
        assert!(ids.into_iter().all(has_run));
        end(&world, hand, before, 1);
    });
}

/// The helper is about to cut. The owner has passed the entry before, and comes to the dead one.
/// (The helper goes first, and the model does each step of the owner: so one preemption is enough.)
#[test]
fn an_owner_comes_across_an_entry_that_is_about_to_be_cut() {
    check(1, || {
        let Littered { world, hands: [_one, _two, mut hand], before, ids } =
            littered(2, [1, 0], None);
        let World { shard, shared, .. } = &*world;
        let mut owner = shard.owner().lock().unwrap();
        shard.read_notices(&mut owner, shared);
        let helper = help(&world);
        thread::yield_now();
        let now = shard.begin(Tick::new(1));
        assert!(shard.open_due(&mut owner, shared, now));
        assert!(!shard.flush(&mut owner, shared, 1), "it has passed one entry");
        helper.join().unwrap();
        assert!(shard.flush(&mut owner, shared, usize::MAX));
        drop(owner);
        assert_eq!(world.stop(), 2);
        assert!(ids.into_iter().all(|id| fate(id) == Some(Fate::Returned)));
        hand.detach(before);
        assert_eq!(world.shared.all_counters.dead(), 0);
    });
}

/// The link of the entry before is written anew.
#[test]
fn what_comes_before_is_filed_elsewhere_while_an_entry_is_cut() {
    check(1, || {
        let Littered { world, hands: [_one, _two, mut hand], mut before, ids } =
            littered(4, [1, 0], None);
        assert!(hand.reset(&mut before, 2, 0));
        let helper = help(&world);
        world.turn(1);
        assert!(has_run(ids[1]));
        world.turn(2);
        assert!(has_run(ids[0]));
        helper.join().unwrap();
        end(&world, hand, before, 2);
    });
}

#[test]
fn what_comes_before_is_moved_while_an_entry_is_cut() {
    check(1, || {
        let Littered { world, hands: [_one, _two, mut hand], mut before, ids } =
            littered(4, [1, 0], None);
        let helper = help(&world);
        let mover = thread::spawn(move || {
            hand.reset(&mut before, 2, 0);
            (hand, before)
        });
        world.turn(1);
        assert!(has_run(ids[1]));
        let (hand, before) = mover.join().unwrap();
        helper.join().unwrap();
        world.turn(2);
        assert!(has_run(ids[0]));
        end(&world, hand, before, 2);
    });
}

/// The bucket opens, is filled for its next round, and opens again.
#[test]
fn a_bucket_opens_twice_while_an_entry_is_cut_out_of_it() {
    check(1, || {
        let Littered { world, hands: [mut one, mut two, hand], before, ids } =
            littered(2, [1, 0], None);
        let helper = help(&world);
        world.turn(1);
        let next = [&mut one, &mut two].map(|hand| hand.schedule_detached(3, 2).unwrap());
        world.turn(3);
        assert!(ids.into_iter().chain(next).all(has_run));
        helper.join().unwrap();
        end(&world, hand, before, 3);
    });
}

/// The helper goes on to the next bucket, where another dead entry is.
#[test]
fn a_bucket_opens_that_was_swept() {
    check(1, || {
        let Littered { world, hands: [mut one, mut two, hand], before, ids } =
            littered(4, [1, 0], None);
        let behind = one.schedule_detached(2, 0).unwrap();
        let dead = two.schedule(2, 0).unwrap();
        assert!(two.cancel(dead));
        two.clear();
        let owner = world.clone();
        let owner = thread::spawn(move || owner.turn_at(1..=2));
        (0..3).for_each(|_| _ = world.shard.help_sweep(&world.shared));
        owner.join().unwrap();
        assert!(ids.into_iter().chain([behind]).all(has_run));
        end(&world, hand, before, 2);
    });
}

/// The owner ends a cut, and the helper would begin the next one, in the next bucket. (The owner
/// does no more than that, so that the model is small.)
#[test]
fn the_next_cut_waits_for_an_owner_that_ends_one() {
    check(2, || {
        let Littered { world, hands: [mut one, mut two, mut hand], before, ids } =
            littered(4, [1, 0], None);
        let behind = one.schedule_detached(2, 0).unwrap();
        let dead = two.schedule(2, 0).unwrap();
        let next = hand.schedule_detached(2, 0).unwrap();
        assert!(two.cancel(dead));
        two.clear();
        world.shard.read_notices(&mut world.shard.owner().lock().unwrap(), &world.shared);
        let owner = world.clone();
        let owner = thread::spawn(move || {
            let World { shard, shared, .. } = &*owner;
            let now = shard.begin(Tick::new(1));
            assert!(shard.open_due(&mut shard.owner().lock().unwrap(), shared, now));
        });
        (0..2).for_each(|_| _ = world.shard.help_sweep(&world.shared));
        owner.join().unwrap();
        world.turn_at(1..=2);
        assert!(ids.into_iter().chain([behind, next]).all(has_run));
        end(&world, hand, before, 2);
    });
}

/// Then the memory of what the sweep knows goes to the allocator: more than the owner keeps.
#[test]
fn a_bucket_opens_in_which_a_sweep_has_paused() {
    check(1, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        world.make_levels();
        let mut hand = Hand::new(&world);
        let ids = [(); 8].map(|()| hand.schedule_detached(1, 0).unwrap());
        world.shard.ask_for_sweep();
        let owner = world.clone();
        let owner = thread::spawn(move || _ = owner.turn(1));
        (0..3).for_each(|_| _ = world.shard.help_sweep(&world.shared));
        owner.join().unwrap();
        assert!(ids.into_iter().all(has_run));
        end(&world, hand, None, 1);
    });
}

#[test]
fn a_reader_finds_what_lives_while_an_entry_is_cut() {
    check(1, || {
        let Littered { world, hands: [_one, _two, hand], before, .. } = littered(2, [1, 0], None);
        let helper = help(&world);
        assert_eq!(world.scan(16).len(), 2);
        helper.join().unwrap();
        end(&world, hand, before, 1);
    });
}

/// Of one preemption it is not done after minutes.
#[test]
#[cfg(not(loom))]
fn a_reader_sees_nothing_of_a_cut_beside_an_opening() {
    check(loom_tests::TOO_BIG, || {
        let Littered { world, hands: [_one, _two, hand], before, .. } = littered(2, [1, 0], None);
        let helper = help(&world);
        let reader = world.clone();
        let reader = thread::spawn(move || reader.scan(16).len());
        world.turn(1);
        assert!(reader.join().unwrap() <= 2);
        helper.join().unwrap();
        end(&world, hand, before, 1);
    });
}

#[test]
fn a_shard_is_stopped_while_an_entry_is_cut() {
    check(1, || {
        let Littered { world, hands: [_one, _two, mut hand], before, ids } =
            littered(2, [1, 0], None);
        let helper = help(&world);
        assert_eq!(world.stop(), 2);
        helper.join().unwrap();
        assert!(ids.into_iter().all(|id| fate(id) == Some(Fate::Returned)));
        hand.detach(before);
        assert_eq!(world.shared.all_counters.dead(), 0);
    });
}

/// What the shard gives up then goes to the allocator, except for the entry on which the helper
/// stands.
#[test]
fn a_shard_is_stopped_while_a_helper_stands_in_a_list() {
    check(1, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        let mut hand = Hand::new(&world);
        hand.schedule_detached(1, 0).unwrap();
        world.shard.ask_for_sweep();
        let stopper = world.clone();
        let stopper = thread::spawn(move || {
            assert_eq!(stopper.stop(), 1);
            collect();
        });
        world.shard.help_sweep(&world.shared);
        stopper.join().unwrap();
    });
}

/// The three belong to a later round of the bucket, and were put aside.
#[test]
fn a_round_opens_while_an_entry_is_cut_out_of_it() {
    check(1, || {
        let Littered { world, hands: [_one, _two, hand], before, ids } =
            littered(2, [3, 2], Some(1));
        let helper = help(&world);
        world.turn(3);
        assert!(ids.into_iter().all(has_run));
        helper.join().unwrap();
        end(&world, hand, before, 3);
    });
}

/// The same; it is the owner that comes in between.
#[test]
fn an_entry_is_cut_out_of_a_round_while_that_opens() {
    check(1, || {
        let Littered { world, hands: [_one, _two, hand], before, ids } =
            littered(2, [3, 2], Some(1));
        let owner = world.clone();
        let owner = thread::spawn(move || _ = owner.turn(3));
        world.shard.help_sweep(&world.shared);
        owner.join().unwrap();
        assert!(ids.into_iter().all(has_run));
        end(&world, hand, before, 3);
    });
}

#[test]
fn a_round_opens_in_which_a_sweep_has_paused() {
    check(1, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        world.make_levels();
        let mut hand = Hand::new(&world);
        let ids = [(); 8].map(|()| hand.schedule_detached(3, 2).unwrap());
        hand.schedule_detached(1, 0).unwrap();
        world.turn(1);
        world.shard.ask_for_sweep();
        let owner = world.clone();
        let owner = thread::spawn(move || _ = owner.turn(3));
        (0..3).for_each(|_| _ = world.shard.help_sweep(&world.shared));
        owner.join().unwrap();
        assert!(ids.into_iter().all(has_run));
        end(&world, hand, None, 3);
    });
}

/// The sweep has paused in a later round, and comes to one through which the owner is going. Again,
/// the owner has passed the entry before, and comes to the dead one.
#[test]
fn a_sweep_comes_to_a_round_that_is_open() {
    check(1, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        world.make_levels();
        let mut hands = [(); 4].map(|()| Hand::new(&world));
        // These are in one lane, and the round has them in this order.
        let [first, before] = [0, 1].map(|i| hands[i].schedule_detached(3, 2).unwrap());
        let dead = hands[2].schedule(3, 2).unwrap();
        let behind = hands[3].schedule_detached(3, 2).unwrap();
        // These are in the lane that the owner passes first: the later round is made, and swept,
        // before the other one.
        hands[2].schedule_detached(1, 0).unwrap();
        let later = [0, 1].map(|i| hands[i].schedule_detached(5, 4).unwrap());
        world.turn(1);
        assert!(hands[2].cancel(dead));
        hands[2].clear();
        world.shard.ask_for_sweep();
        world.shard.help_sweep(&world.shared);
        let World { shard, shared, .. } = &*world;
        let mut owner = shard.owner().lock().unwrap();
        let now = shard.begin(Tick::new(3));
        assert!(shard.open_due(&mut owner, shared, now));
        assert!(!shard.flush(&mut owner, shared, 1), "it has passed one entry");
        let helper = help(&world);
        thread::yield_now();
        assert!(!shard.flush(&mut owner, shared, 2), "it has passed one more");
        helper.join().unwrap();
        assert!(shard.flush(&mut owner, shared, usize::MAX));
        drop(owner);
        assert_eq!(world.stop(), 5);
        let mut ids = [first, before, behind].into_iter().chain(later);
        assert!(ids.all(|id| fate(id) == Some(Fate::Returned)));
        assert_eq!(world.shared.all_counters.dead(), 0);
    });
}

/// Of two who help, one sweeps at a time; one goes on where the other has paused. (One preemption
/// more takes minutes.)
#[test]
fn two_help_while_a_bucket_opens() {
    check(0, || {
        let Littered { world, hands: [_one, _two, hand], before, ids } = littered(2, [1, 0], None);
        let helpers = [(); 2].map(|()| help(&world));
        world.turn(1);
        assert!(ids.into_iter().all(has_run));
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
        end(&world, hand, before, 1);
    });
}

/// The owner sweeps where the helper has paused, and opens what was swept.
#[test]
fn a_helper_and_the_owner_take_turns() {
    check(1, || {
        let Littered { world, hands: [_one, _two, hand], before, ids } = littered(4, [2, 0], None);
        let helper = help(&world);
        world.turn(1);
        world.turn(2);
        assert!(ids.into_iter().all(has_run));
        helper.join().unwrap();
        end(&world, hand, before, 2);
    });
}

/// The dead entry comes first in a list that the owner pushes on, and then another before it.
#[test]
fn who_helps_leaves_the_first_of_the_owners_own_list() {
    check(1, || {
        let world = World::with(wheel(4, 1), Bell::None, 0);
        world.make_levels();
        let [mut one, mut two] = [(); 2].map(|()| Hand::new(&world));
        let (mut dead, mut moved) = (one.schedule(1, 0), two.schedule(2, 0));
        // Both are re-filed there, one after the other.
        assert!(one.reset(&mut dead, 3, 0) && two.reset(&mut moved, 3, 0));
        world.turn(1);
        assert!(one.cancel(dead));
        one.clear();
        world.shard.ask_for_sweep();
        let helper = help(&world);
        world.turn(2);
        helper.join().unwrap();
        world.turn(3);
        let moved = moved.unwrap();
        assert!(has_run(moved.id()));
        end(&world, two, Some(moved), 3);
    });
}
