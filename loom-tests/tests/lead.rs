//! LEAD, and DOORBELL between the threads of a group: one thread sleeps for several shards, and
//! others serve single shards beside it.
//!
//! Who races: the leader, a thread that serves beside it or takes its place, a producer, and a
//! stopper. Asserted: one thread at a time has the doorbell; every timer runs, on whichever shard
//! and thread; nobody sleeps for ever.

use std::sync::Arc;
use std::time::Duration;

use loom_tests::{Hand, Server, TICK, Wanted, World, check, has_run, wheel};
use tickless_core::doorbell::{Alarm, Bell, Parker};
use tickless_core::reaper::{Lead, Spin};
use tickless_core::time::ManualClock;
use tickless_sync::{JoinHandle, UnsafeCell, thread};

/// What the leader has alone, in place of a doorbell.
struct Led {
    lead: Lead,
    bell: UnsafeCell<()>,
}

// SAFETY: that only the thread that keeps the lead has the cell is what the model shows.
unsafe impl Sync for Led {}

impl Led {
    fn publish(&self) {
        self.bell.with_mut(|_| ());
    }
}

#[test]
fn one_thread_at_a_time_leads() {
    check(3, || {
        let led = Arc::new(Led { lead: Lead::default(), bell: UnsafeCell::new(()) });
        assert!(led.lead.take(0));
        let takers = [1, 2].map(|number| {
            let led = led.clone();
            thread::spawn(move || {
                let leads = led.lead.take_from(0, number) || led.lead.take(number);
                if leads {
                    led.publish();
                }
                leads
            })
        });
        led.publish();
        led.lead.lend(0);
        let is_back = led.lead.reclaim(0);
        if is_back {
            led.publish();
            led.lead.give_up(0);
        }
        let others = takers.map(|taker| taker.join().unwrap()).into_iter().filter(|&leads| leads);
        assert!(others.count() <= 1);
        assert!(is_back || !led.lead.reclaim(0));
    });
}

/// Two shards with a bell for the thread that leads.
fn two_shards() -> [Arc<World>; 2] {
    World::pair(wheel(2, 1), Bell::Thread(Parker::new()), &ManualClock::new())
}

/// A sleep during which time passes: if it has an end, it is over at once.
struct Passing {
    hand: ManualClock,
    until: UnsafeCell<Option<u64>>,
    parker: Parker,
}

// SAFETY: the leader alone sets it and sleeps, which is what the model shows.
unsafe impl Sync for Passing {}

impl Alarm for Passing {
    fn set(&self, at_ns: Option<u64>) {
        // SAFETY: as above; the checker reports accesses that nothing orders.
        self.until.with_mut(|until| unsafe { *until = at_ns });
    }

    fn ring(&self) {
        self.parker.ring();
    }

    fn sleep(&self, _: Option<Duration>) {
        // SAFETY: as above.
        match self.until.with(|until| unsafe { *until }) {
            Some(at_ns) => {
                let left = Duration::from_nanos(at_ns).saturating_sub(self.hand.elapsed());
                self.hand.advance(left);
            }
            None => self.parker.sleep(None),
        }
    }
}

/// Thread number `number`, which does `this` with a server.
fn server(
    worlds: &[Arc<World>; 2],
    number: usize,
    wanted: &Arc<Wanted>,
    this: impl FnOnce(&[Arc<World>; 2], &Server<'_>) + Send + 'static,
) -> JoinHandle<()> {
    let (worlds, wanted) = (worlds.clone(), wanted.clone());
    thread::spawn(move || {
        let both = [&*worlds[0], &*worlds[1]];
        this(&worlds, &Server::new(&both, number, &wanted));
    })
}

/// Serves the second shard beside the leader, if nobody does at the moment.
fn serve_beside(worlds: &[Arc<World>; 2], server: &Server<'_>) {
    if let Some(role) = worlds[1].ending.try_take_role(0) {
        server.succeed(1, role, false);
    }
}

/// Alone: it is awake, and not rung for, or it is about to sleep, and looks who asks.
#[test]
fn a_leader_that_falls_asleep_finds_a_timer_of_whichever_shard() {
    for shard in [0, 1] {
        check(2, move || {
            let worlds = two_shards();
            let wanted = Arc::new(Wanted::new(&[0]));
            let mut hand = Hand::new(&worlds[shard]);
            let leader = server(&worlds, 0, &wanted, |_, it| it.lead(Spin::NEVER));
            let is_filed = hand.schedule_detached(0, 0).is_some();
            leader.join().unwrap();
            assert!(is_filed && has_run(0));
        });
    }
}

#[test]
fn a_timer_is_found_by_the_thread_beside_the_leader_or_wakes_the_leader() {
    check(1, || {
        let worlds = two_shards();
        let wanted = Arc::new(Wanted::new(&[0]));
        let mut hand = Hand::new(&worlds[1]);
        let leader = server(&worlds, 0, &wanted, |_, it| it.lead(Spin::NEVER));
        let beside = server(&worlds, 1, &wanted, serve_beside);
        let producer = thread::spawn(move || (hand.schedule_detached(0, 0), hand));
        leader.join().unwrap();
        beside.join().unwrap();
        assert!(producer.join().unwrap().0.is_some_and(has_run));
    });
}

/// The thread has given the shard back. It may be stuck with another one next, so it looks at once.
#[test]
fn a_timer_wakes_the_leader_though_that_has_left_its_shard_to_a_thread() {
    check(1, || {
        let worlds = two_shards();
        let wanted = Arc::new(Wanted::new(&[0]));
        let mut hand = Hand::new(&worlds[1]);
        let leader = server(&worlds, 0, &wanted, |_, it| it.lead(Spin::NEVER));
        let beside = {
            let (worlds, wanted) = (worlds.clone(), wanted.clone());
            thread::spawn(move || {
                let both = [&*worlds[0], &*worlds[1]];
                if let Some(role) = worlds[1].ending.try_take_role(0) {
                    Server::new(&both, 1, &wanted).stuck_after_a_turn().succeed(1, role, false);
                }
            })
        };
        let producer = thread::spawn(move || (hand.schedule_detached(0, 0), hand));
        leader.join().unwrap();
        beside.join().unwrap();
        assert!(producer.join().unwrap().0.is_some_and(has_run));
    });
}

#[test]
fn the_leader_sleeps_no_longer_than_until_the_time_that_a_thread_beside_it_leaves() {
    check(1, || {
        let (hand, until) = (ManualClock::new(), UnsafeCell::new(None));
        let passing = Passing { hand: hand.clone(), until, parker: Parker::new() };
        let bell = Bell::Alarm(Box::new(passing));
        let worlds = World::pair(wheel(4, 1), bell, &hand);
        let wanted = Arc::new(Wanted::new(&[3]));
        let id = Hand::new(&worlds[1]).schedule_detached(3, 0).unwrap();
        let leader = server(&worlds, 0, &wanted, |_, it| it.lead(Spin::NEVER));
        let beside = server(&worlds, 1, &wanted, serve_beside);
        leader.join().unwrap();
        beside.join().unwrap();
        assert!(has_run(id));
    });
}

/// The leader waits for a time that does not come; the thread beside leaves one before it, which
/// does.
#[test]
fn a_leader_that_waits_in_user_space_sees_the_time_that_a_thread_beside_it_leaves() {
    check(1, || {
        let hand = ManualClock::new();
        let worlds = World::pair(wheel(4, 1), Bell::Thread(Parker::new()), &hand);
        let wanted = Arc::new(Wanted::new(&[1]));
        Hand::new(&worlds[0]).schedule_detached(3, 0).unwrap();
        let id = Hand::new(&worlds[1]).schedule_detached(1, 0).unwrap();
        let spin = Spin::before(TICK * 50, 1.0);
        let leader = server(&worlds, 0, &wanted, |_, it| it.lead(spin));
        let beside = server(&worlds, 1, &wanted, serve_beside);
        beside.join().unwrap();
        hand.advance(TICK);
        leader.join().unwrap();
        assert!(has_run(id));
    });
}

#[test]
fn who_takes_a_stuck_leaders_place_serves_all_its_shards() {
    check(2, || {
        let worlds = two_shards();
        let wanted = Arc::new(Wanted::new(&[0, 0]));
        let ids = [Hand::new(&worlds[0]).schedule_detached(0, 0).unwrap()];
        let mut hand = Hand::new(&worlds[1]);
        let leader = server(&worlds, 0, &wanted, |_, it| it.lead(Spin::NEVER));
        let taker = server(&worlds, 1, &wanted, |worlds, it| {
            let ending = &worlds[0].ending;
            let seen = ending.progress(0);
            let mut leads = false;
            let lost = || {
                worlds[0].group.begin_stuck(0, 0);
                leads = worlds[0].group.take_lead_from(0, 1);
            };
            if let Some(role) = seen.and_then(|seen| ending.take_over(0, seen, lost)) {
                it.succeed(0, role, leads);
            }
        });
        let id = hand.schedule_detached(0, 0).unwrap();
        leader.join().unwrap();
        taker.join().unwrap();
        assert!(ids.into_iter().chain([id]).all(has_run));
    });
}

#[test]
fn a_stop_ends_the_leader_and_the_thread_beside_it() {
    check(2, || {
        let worlds = two_shards();
        let wanted = Arc::new(Wanted::new(&[]));
        let leader = server(&worlds, 0, &wanted, |_, it| it.lead(Spin::NEVER));
        let beside = server(&worlds, 1, &wanted, serve_beside);
        worlds.iter().for_each(|world| _ = world.stop_at_once());
        leader.join().unwrap();
        beside.join().unwrap();
    });
}
