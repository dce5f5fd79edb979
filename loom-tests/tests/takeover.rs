//! TAKEOVER: another thread takes the role of a shard from a thread that is busy with a task.
//!
//! Who races: a turn that hands payloads over, one or two threads that take over, stoppers, and a
//! thread that waits for the role. Asserted: each payload is handed over or returned exactly once
//! (the ledger's account), by whichever thread; the handler is there while anybody may look at it;
//! counters have one writer at a time; every stopper gets to the end; a thread that took a shard
//! over is woken; and no hand-over goes unwatched.

use std::iter;
use std::time::Duration;

use loom_tests::{
    Event, Hand, Handler, Payload, Server, TICK, Wanted, World, check, has_run, on_thread,
    refuse_fences, wheel,
};
use tickless_core::dispatch::InHand;
use tickless_core::doorbell::{Alarm, Bell, Parker};
use tickless_core::reaper::{Ending, Found, NEVER_NS, Role, Spin, Waited, Watch};
use tickless_sync::{Arc, AtomicBool, Counter, Ordering, UnsafeCell, thread};

#[test]
fn each_payload_runs_once_whichever_thread_hands_it_over() {
    check(3, || {
        let world = World::with_due(3);
        let taker = on_thread(&world, |world| world.take_over(1));
        let report = world.turn(1).unwrap();
        let taken_over = taker.join().unwrap();
        assert_eq!(report.taken_over, taken_over.is_some());
        assert_eq!(report.fired + taken_over.unwrap_or(0), 3);
        assert!((0..3).all(has_run));
        // The shard is as it was: others take turns.
        let mut hand = Hand::new(&world);
        let id = hand.schedule_detached(2, 1).unwrap();
        world.turn_until_idle(2);
        assert!(has_run(id));
    });
}

#[test]
fn of_two_who_take_over_each_gets_what_the_one_before_left() {
    check(1, || {
        let world = World::with_due(3);
        let takers = [(); 2].map(|()| on_thread(&world, |world| world.take_over(1)));
        world.turn(1);
        takers.into_iter().for_each(|taker| _ = taker.join().unwrap());
        assert!((0..3).all(has_run));
    });
}

/// Who has claimed under a light fence keeps the rest; who fences in full may lose it.
#[test]
fn each_payload_runs_once_though_the_system_refuses_to_fence() {
    let taken = Arc::new(Counter::new(0));
    let count = taken.clone();
    check(2, move || {
        let world = World::with_due(3);
        let taker = on_thread(&world, |world| {
            refuse_fences();
            // The first refusal tells those who claim.
            (0..2).filter_map(|_| world.take_over(1)).sum::<usize>()
        });
        let report = world.turn(1).unwrap();
        assert_eq!(report.fired + taker.join().unwrap(), 3);
        assert!((0..3).all(has_run));
        // ORDER: Relaxed - it is read when all is over.
        count.fetch_add(u64::from(report.taken_over), Ordering::Relaxed);
    });
    assert!(!cfg!(loom) || taken.load(Ordering::Relaxed) > 0, "a refusal is not for ever");
}

#[test]
fn what_a_stop_meets_in_a_takeover_runs_or_comes_back() {
    check(2, || {
        let world = World::with_due(2);
        let taker = on_thread(&world, |world| world.take_over(1));
        let stopper = on_thread(&world, World::stop);
        world.turn(1);
        let returned = stopper.join().unwrap();
        taker.join().unwrap();
        assert_eq!([0, 1].into_iter().filter(|&id| !has_run(id)).count(), returned);
    });
}

#[test]
fn who_waits_for_the_role_gets_it_from_the_one_that_took_it_over() {
    check(2, || {
        let world = World::with_due(2);
        let taker = on_thread(&world, |world| world.take_over(1));
        let waiting = on_thread(&world, |world| world.turn(1).is_some());
        world.turn(1);
        taker.join().unwrap();
        assert!(waiting.join().unwrap());
        assert!([0, 1].into_iter().all(has_run));
    });
}

/// A handler that is looked at while payloads are handed over, and written to when it is dropped.
struct Watched(UnsafeCell<()>);

// SAFETY: that all looks come before its end is what the model shows.
unsafe impl Sync for Watched {}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}

type Watching = Ending<Payload, Watched>;

/// A hand-over that takes a while: the handler is looked at when it begins and when it ends.
fn hand_over(ending: &Watching) {
    let Some(mut role) = ending.take_role(0) else { return };
    let (handler, in_hand) = role.parts();
    in_hand.open(1, 0);
    handler.0.with(|_| ());
    let is_taken_over = in_hand.close().is_err();
    handler.0.with(|_| ());
    assert_eq!(role.parts().1.is_taken_over(), is_taken_over);
}

#[test]
fn the_handler_is_there_until_the_one_that_lost_its_role_has_returned() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let ending = Arc::new(Ending::new(1, Watched(UnsafeCell::new(())), |_| false));
        let [holder, taker] = [ending.clone(), ending.clone()];
        let holder = thread::spawn(move || hand_over(&holder));
        let taker = thread::spawn(move || {
            let seen = taker.progress(0);
            if let Some(mut role) = seen.and_then(|seen| taker.take_over(0, seen, || ())) {
                role.parts().0.0.with(|_| ());
            }
        });
        // The role is all that counts here: there is no shard to close.
        ending.stop(&[], &world.shared, drop);
        assert!(matches!(ending.wait(None), Waited::Over) && ending.roles_left() == 0);
        holder.join().unwrap();
        taker.join().unwrap();
    });
}

/// A world in whose shard a hand-over begins that never comes further. Only a thread that takes
/// over hears the bell.
fn with_a_stuck_task(end: impl FnOnce(&Arc<World>)) {
    let world = World::with(wheel(2, 1), Bell::Thread(Parker::new()), 1);
    world.make_levels();
    let mut role: Role<'_, _, _> = world.ending.take_role(0).unwrap();
    role.parts().1.open(1, 0);
    end(&world);
    let is_taken_over = role.parts().1.close().is_err();
    assert!(is_taken_over || world.ending.is_stopping());
}

#[test]
fn who_took_a_shard_over_is_woken_for_a_timer() {
    check(3, || {
        with_a_stuck_task(|world| {
            let mut hand = Hand::new(world);
            let reaper = world.succeed_in_thread(1, vec![0]);
            hand.schedule_detached(0, 0).unwrap();
            reaper.join().unwrap();
            assert!(has_run(0));
        });
    });
}

#[test]
fn who_took_a_shard_over_is_woken_for_a_stop() {
    check(3, || {
        with_a_stuck_task(|world| {
            let reaper = world.succeed_in_thread(1, vec![]);
            world.stop_at_once();
            reaper.join().unwrap();
        });
    });
}

/// A watcher's place, and what the watcher of that place does: it looks, and sleeps until called.
fn watch_of_one() -> Arc<Watch> {
    Arc::new(Watch::new(Duration::from_nanos(1)))
}

/// A watcher that sleeps for ever once it has looked in vain, and returns when it has found an open
/// hand-over.
fn watcher(
    watch: &Arc<Watch>,
    is_open: impl Fn() -> bool + Send + 'static,
) -> thread::JoinHandle<()> {
    let this = watch.clone();
    thread::spawn(move || {
        loop {
            this.publish(NEVER_NS);
            if is_open() {
                return;
            }
            this.sleep(None);
        }
    })
}

/// Looks at the hand-over under way. By the clock, a tick passes in each task. Returns whether the
/// task that is seen had begun at the time since which it is said to run.
fn looks_true(world: &World) -> bool {
    let Found::Stuck(seen, since_ns) = world.look_at() else { return true };
    let claimed = seen.word() & 0xFFFF;
    since_ns >= TICK.as_nanos() as u64 * claimed.saturating_sub(1)
}

/// Two threads look, of which one is slow.
#[test]
fn a_task_is_not_said_to_run_since_before_it_began() {
    check(2, || {
        let world = World::with_due(3);
        let looker = on_thread(&world, looks_true);
        let (tasks, untrue) = (Counter::new(0), Counter::new(0));
        // (A panic would be the task's.)
        let look = || _ = untrue.fetch_add(u64::from(!looks_true(&world)), Ordering::Relaxed);
        world.turn_with(1, || {
            // ORDER: Relaxed, all - one thread counts.
            let is_last = tasks.fetch_add(1, Ordering::Relaxed) == 2;
            if is_last {
                look();
            }
            // The other one may look at this task as well, and go on with that later.
            thread::yield_now();
            if is_last {
                look();
            }
            world.advance(1);
        });
        assert!(looker.join().unwrap());
        assert_eq!(untrue.load(Ordering::Relaxed), 0);
        assert!((0..3).all(has_run));
    });
}

/// Takes the shard over from a hand-over that comes no further.
fn taken(world: &World) -> Role<'_, Payload, Handler> {
    let seen = world.ending.progress(0).expect("the hand_over of the last holder is open");
    world.ending.take_over(0, seen, || ()).expect("it has come no further")
}

/// The task of the thread that took the shard over is stuck as well.
#[test]
fn who_took_a_shard_over_may_lose_it_in_turn() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let mut first = world.ending.take_role(0).unwrap();
        first.parts().1.open(1, 0);
        let taker = on_thread(&world, |world| {
            let mut second = taken(world);
            second.parts().1.open(1, 0);
            drop(taken(world));
            assert!(second.parts().1.close().is_err());
        });
        // Somebody looks meanwhile. (The random scheduler refuses a body in which nothing runs
        // beside anything.)
        let _ = world.ending.progress(0);
        taker.join().unwrap();
        assert!(first.parts().1.close().is_err());
        drop(first);
        assert!(world.ending.try_take_role(0).is_some(), "the last one has given it back");
    });
}

/// The watcher can take over no more until a thread is back: it sleeps, or sees that.
#[test]
fn a_watcher_hears_that_a_thread_is_back() {
    check(3, || {
        let watch = watch_of_one();
        let is_back = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (watch, is_back) = (watch.clone(), is_back.clone());
            thread::spawn(move || {
                loop {
                    watch.publish(NEVER_NS);
                    // ORDER: Relaxed - the call orders it, which is what is shown.
                    if is_back.load(Ordering::Relaxed) {
                        return;
                    }
                    watch.sleep(None);
                }
            })
        };
        // ORDER: Relaxed - as above.
        is_back.store(true, Ordering::Relaxed);
        watch.call();
        watcher.join().unwrap();
    });
}

/// The watcher has taken the shard over, and sleeps until the stuck thread is back, which counts as
/// a role until then.
#[test]
fn who_is_back_from_a_stuck_task_calls_the_watcher() {
    check(2, || {
        let world = World::with(wheel(2, 1), Bell::Thread(Parker::new()), 1);
        world.make_levels();
        Hand::new(&world).schedule_detached(0, 0).unwrap();
        let watch = Arc::new(Watch::new(Duration::from_nanos(1)));
        let taken = Event::new();
        let reaper = {
            let (world, watch, taken) = (world.clone(), watch.clone(), taken.clone());
            thread::spawn(move || {
                let worlds = [&*world];
                let wanted = Wanted::new(&[]);
                Server::new(&worlds, 0, &wanted).watched(&watch, &taken).lead(Spin::NEVER);
            })
        };
        let watcher = {
            let (world, watch) = (world.clone(), watch.clone());
            thread::spawn(move || {
                let until = |is_so: &dyn Fn() -> bool| loop {
                    watch.publish(NEVER_NS);
                    if is_so() {
                        return;
                    }
                    watch.sleep(None);
                };
                let takes_over = || {
                    let seen = iter::from_fn(|| world.ending.progress(0));
                    let mut roles = seen.filter_map(|seen| world.ending.take_over(0, seen, || ()));
                    roles.next().is_some()
                };
                until(&takes_over);
                taken.comes();
                until(&|| world.ending.roles_left() == 1);
            })
        };
        watcher.join().unwrap();
        world.stop_at_once();
        reaper.join().unwrap();
    });
}

#[test]
fn a_hand_over_finds_the_watcher_or_is_found() {
    check(3, || {
        let watch = watch_of_one();
        // The watcher is awake: that is what a reaper reads that reads late.
        watch.publish(0);
        let mut in_hand = InHand::<u8>::default();
        let hand_over = in_hand.hand_over().clone();
        let watcher = watcher(&watch, move || hand_over.progress().is_some());
        in_hand.open(1, 0);
        watch.begun(0, false);
        watcher.join().unwrap();
        in_hand.close().unwrap();
    });
}

/// An alarm of the system's: it goes off when the model says so.
struct Bedside {
    is_set: AtomicBool,
    parker: Parker,
}

struct Remote(Arc<Bedside>);

impl Bedside {
    /// Time passes: an alarm that is set goes off.
    fn pass(&self) {
        // ORDER: AcqRel - the system orders what came before the call that sets it.
        if self.is_set.swap(false, Ordering::AcqRel) {
            self.ring();
        }
    }

    fn ring(&self) {
        self.parker.ring();
    }
}

impl Alarm for Remote {
    fn set(&self, at_ns: Option<u64>) {
        // ORDER: AcqRel - as above.
        self.0.is_set.swap(at_ns.is_some(), Ordering::AcqRel);
    }

    fn ring(&self) {
        self.0.ring();
    }

    fn sleep(&self, _: Option<Duration>) {
        self.0.parker.sleep(None);
    }
}

/// A turn of the leader, up to the hand-over.
fn lead(watch: &Watch, in_hand: &mut InHand<u8>) {
    watch.set_alarm(0);
    in_hand.open(1, 0);
    watch.begun(0, true);
}

/// The watcher sleeps. A task is over before it looks, or while it does; the next one is stuck. The
/// time comes for which the alarm was set first, at any moment or never, and in the end all time
/// passes.
#[test]
fn a_stuck_task_is_found_by_the_alarm() {
    check(3, || {
        let is_set = AtomicBool::new(false);
        let alarm = Arc::new(Bedside { is_set, parker: Parker::new() });
        let watch = Watch::new(Duration::from_nanos(1));
        let watch = Arc::new(watch.with_alarm(Some(Box::new(Remote(alarm.clone())))));
        let [mut quick, mut stuck] = [(); 2].map(|()| InHand::<u8>::default());
        let hand_over = stuck.hand_over().clone();
        let watcher = watcher(&watch, move || hand_over.progress().is_some());
        let time = {
            let alarm = alarm.clone();
            thread::spawn(move || alarm.pass())
        };
        lead(&watch, &mut quick);
        quick.close().unwrap();
        watch.take_alarm_back(NEVER_NS);
        lead(&watch, &mut stuck);
        time.join().unwrap();
        alarm.pass();
        watcher.join().unwrap();
        stuck.close().unwrap();
    });
}
