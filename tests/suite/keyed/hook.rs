//! What may happen between the two steps of a call, made to happen: the hook of an engine that its
//! caller drives runs when a timer is on the engine and not yet under its key.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::token::{Fates, Token};
use tickless::{Driver, Engine, ManualClock, Task};
use tickless_keyed::{IfAbsentReason, KeyedTimers, ResetError, Scheduled, TtlMap};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

thread_local! {
    /// What an engine returned that a hook has stopped.
    static RETURNED: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
}

/// Something to do in a hook.
type Act = Box<dyn FnOnce(&Timers) + Send>;

type Timers = KeyedTimers<u32>;

/// Timers whose hook does what is planned, call by call.
struct Rig {
    timers: Timers,
    engine: Engine,
    /// For the hook, which the engine keeps.
    shared: Arc<Mutex<Option<Timers>>>,
    planned: Arc<Mutex<Vec<Act>>>,
    hooks: Arc<AtomicUsize>,
    fates: Fates,
}

fn run(token: Token) -> impl FnOnce() + Send + 'static {
    move || token.run()
}

/// The reaper comes by.
fn turn(timers: &Timers) {
    timers.engine().turn(0).unwrap();
}

impl Rig {
    fn new(max_pending: u64) -> Rig {
        let shared: Arc<Mutex<Option<Timers>>> = Arc::default();
        let (planned, hooks) = (Arc::new(Mutex::new(Vec::<Act>::new())), Arc::default());
        let (timers_there, planned_there) = (shared.clone(), planned.clone());
        let hooks_there: Arc<AtomicUsize> = Arc::clone(&hooks);
        let hook = move |_| {
            let timers = timers_there.lock().unwrap().clone();
            let act = planned_there.lock().unwrap().pop();
            if let (Some(timers), Some(act)) = (timers, act) {
                hooks_there.fetch_add(1, Ordering::SeqCst);
                act(&timers);
            }
        };
        let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
        let builder = builder.max_pending(max_pending).driver(Driver::Caller);
        let engine = builder.on_earlier(hook).build().unwrap();
        let timers = KeyedTimers::with_engine(&engine);
        *shared.lock().unwrap() = Some(timers.clone());
        Rig { timers, engine, shared, planned, hooks, fates: Fates::new(4) }
    }

    /// Lets the next hooks do this, in that order.
    fn plan<const N: usize>(&self, acts: [fn(&Timers); N]) {
        turn(&self.timers);
        self.hooks.store(0, Ordering::SeqCst);
        let acts = acts.into_iter().rev().map(|act| -> Act { Box::new(act) });
        *self.planned.lock().unwrap() = acts.collect();
    }

    /// Asserts that all of it was done.
    #[track_caller]
    fn assert_done(&self, hooks: usize) {
        assert!(self.planned.lock().unwrap().is_empty());
        assert_eq!(self.hooks.load(Ordering::SeqCst), hooks);
    }

    fn waiting(&self, number: usize) {
        let task = run(self.fates.token(number));
        self.timers.schedule_keyed(7, HOUR, task).unwrap();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        *self.shared.lock().unwrap() = None;
    }
}

#[test]
fn a_timer_that_is_due_before_it_is_under_its_key_runs_when_it_is() {
    let rig = Rig::new(9);
    rig.waiting(0);
    rig.plan([turn, turn, turn]);
    let task = run(rig.fates.token(1));
    let scheduled = rig.timers.schedule_keyed(7, Duration::ZERO, task).unwrap();
    assert_eq!(scheduled, Scheduled::Replaced);
    rig.assert_done(3);
    assert_eq!((rig.fates.of(0), rig.fates.of(1)), ((0, 1), (0, 0)));
    assert!(rig.timers.contains_key(&7));
    turn(&rig.timers);
    assert_eq!((rig.fates.of(1), rig.timers.len(), rig.engine.len()), ((1, 1), 0, 0));
    let stats = rig.engine.stats();
    assert_eq!((stats.scheduled, stats.cancelled, stats.fired), (2, 1, 1), "it counts once");
    rig.engine.check().unwrap();
}

#[test]
fn one_that_is_refused_because_its_key_was_taken_meanwhile_does_not_run() {
    let rig = Rig::new(9);
    rig.plan([
        |timers| {
            // It finds nothing under the key, and nothing runs.
            turn(timers);
            assert!(!timers.contains_key(&7));
        },
        |timers| {
            timers.schedule_keyed(7, HOUR, || ()).unwrap();
            turn(timers);
        },
    ]);
    let task = run(rig.fates.token(0));
    let refused = rig.timers.schedule_if_absent(7, Duration::ZERO, task).unwrap_err();
    assert_eq!(refused.reason(), IfAbsentReason::Occupied);
    rig.assert_done(2);
    turn(&rig.timers);
    assert_eq!((rig.fates.of(0), rig.timers.len(), rig.engine.len()), ((0, 0), 1, 1));
    refused.into_payload().run();
    rig.engine.check().unwrap();
}

/// Takes all the room that the engine has.
fn fill(timers: &Timers) {
    turn(timers);
    while timers.engine().schedule_detached(2 * HOUR, || ()).is_ok() {}
}

#[test]
fn an_engine_that_is_full_or_stopped_when_a_timer_comes_again_leaves_the_other_waiting() {
    let rig = Rig::new(5);
    rig.waiting(0);
    rig.plan([fill]);
    match rig.timers.schedule_keyed(7, Duration::ZERO, run(rig.fates.token(1))) {
        Err(error) if error.is_full() => error.into_payload().run(),
        other => panic!("{other:?}"),
    }
    rig.assert_done(1);
    assert_eq!((rig.fates.of(0), rig.fates.of(1)), ((0, 0), (1, 1)));
    assert!(rig.timers.cancel(&7), "it waits as before");

    let rig = Rig::new(5);
    rig.waiting(0);
    // What it returned is kept: dropped, it would take the timer along.
    rig.plan([|timers| {
        turn(timers);
        RETURNED.set(timers.engine().stop().unwrap());
    }]);
    match rig.timers.schedule_keyed(7, Duration::ZERO, run(rig.fates.token(1))) {
        Err(error) if error.is_stopped() => error.into_payload().run(),
        other => panic!("{other:?}"),
    }
    assert_eq!((rig.fates.of(0), rig.fates.of(1)), ((0, 0), (1, 1)));
    assert!(rig.timers.cancel(&7), "it waits as before");
}

#[test]
fn a_timer_that_is_moved_to_now_and_is_due_before_that_is_known_runs_when_it_is() {
    let rig = Rig::new(9);
    rig.waiting(0);
    rig.plan([turn, turn]);
    assert_eq!(rig.timers.reset(&7, Duration::ZERO), Ok(()));
    rig.assert_done(2);
    assert_eq!((rig.fates.of(0), rig.timers.len(), rig.engine.len()), ((0, 0), 1, 1));
    turn(&rig.timers);
    assert_eq!((rig.fates.of(0), rig.timers.len(), rig.engine.len()), ((1, 1), 0, 0));
    let stats = rig.engine.stats();
    assert_eq!((stats.scheduled, stats.cancelled, stats.fired), (2, 1, 1), "moved once");
    rig.engine.check().unwrap();
}

#[test]
fn a_timer_that_is_moved_and_cancelled_meanwhile_is_gone() {
    let rig = Rig::new(9);
    rig.waiting(0);
    rig.plan([|timers| assert!(timers.cancel(&7))]);
    assert_eq!(rig.timers.reset(&7, MS), Err(ResetError::Absent));
    rig.assert_done(1);
    assert_eq!((rig.fates.of(0), rig.timers.len(), rig.engine.len()), ((0, 1), 0, 0));
}

#[test]
fn a_timer_that_is_moved_and_replaced_meanwhile_passes_the_move_on() {
    let rig = Rig::new(9);
    rig.waiting(0);
    rig.plan([|timers| {
        assert_eq!(timers.schedule_keyed(7, HOUR, || ()).unwrap(), Scheduled::Replaced);
    }]);
    let soon = rig.engine.now() + 5 * MS;
    assert_eq!(rig.timers.reset(&7, 5 * MS), Ok(()));
    assert_eq!((rig.timers.deadline(&7), rig.fates.of(0)), (Some(soon), (0, 1)));
    assert_eq!((rig.timers.len(), rig.engine.len()), (1, 1));
    rig.engine.check().unwrap();
}

#[test]
fn of_two_that_move_a_timer_at_once_the_one_who_asked_last_prevails() {
    let rig = Rig::new(9);
    rig.waiting(0);
    rig.plan([|timers| assert_eq!(timers.reset(&7, 3 * MS), Ok(()))]);
    let start = rig.engine.now();
    assert_eq!(rig.timers.reset(&7, 5 * MS), Ok(()));
    assert_eq!(rig.timers.deadline(&7), Some(start + 3 * MS), "it asked while we were at it");
    assert_eq!((rig.timers.len(), rig.engine.len()), (1, 1));
    rig.engine.advance(3 * MS).unwrap();
    assert_eq!(rig.fates.of(0), (1, 1));
    rig.engine.check().unwrap();
}

#[test]
fn a_move_that_an_engine_refuses_the_second_time_leaves_the_timer_where_it_was() {
    let rig = Rig::new(5);
    rig.waiting(0);
    let due = rig.timers.deadline(&7);
    rig.plan([fill]);
    assert_eq!(rig.timers.reset(&7, Duration::ZERO), Err(ResetError::Full));
    rig.assert_done(1);
    assert_eq!((rig.timers.deadline(&7), rig.fates.of(0)), (due, (0, 0)));
    rig.engine.advance(HOUR).unwrap();
    assert_eq!((rig.fates.of(0), rig.timers.len()), ((1, 1), 0));
}

#[test]
fn a_ticket_that_a_stop_returns_before_its_timer_is_under_its_key_has_not_fired() {
    let rig = Rig::new(10);
    rig.engine.schedule_detached(MS, || ()).unwrap();
    rig.engine.advance(MS).unwrap();
    let counts = || {
        let stats = rig.engine.stats();
        (stats.scheduled, stats.fired, stats.returned)
    };
    assert_eq!(counts(), (1, 1, 0));
    rig.plan([|timers| drop(timers.engine().stop())]);
    let refused = rig.timers.schedule_keyed(7, MS, || ()).unwrap_err();
    assert!(refused.is_stopped());
    rig.assert_done(1);
    assert_eq!(counts(), (2, 1, 1));
}

#[test]
fn an_extension_does_not_bring_back_an_entry_that_a_lookup_has_found_over() {
    type Map = TtlMap<u32, &'static str>;
    for is_look in [true, false] {
        let place: Arc<Mutex<Option<Map>>> = Arc::default();
        let (clock, in_hook) = (ManualClock::new(), place.clone());
        let clock_there = clock.clone();
        let hook = move |_| {
            // Another thread is between the steps of this one's call.
            let Some(map) = in_hook.lock().unwrap().take() else { return };
            assert!(map.insert(7, "new", MS).unwrap().is_some());
            clock_there.advance(3 * MS);
            assert_eq!(map.get(&7), None, "its time has come");
        };
        let builder = Engine::builder().shards(1).manual_clock(&clock);
        let engine = builder.on_earlier(hook).build().unwrap();
        let map = Map::with_engine(&engine, |_, _| ());
        map.insert(7, "old", HOUR).unwrap();
        engine.turn(0).unwrap();
        *place.lock().unwrap() = Some(map.clone());
        let extended = match is_look {
            true => map.get_and_extend(&7, HOUR / 2).map(drop),
            false => map.extend(&7, HOUR / 2),
        };
        assert!(place.lock().unwrap().is_none(), "the hook was called");
        assert_eq!((extended, map.get(&7)), (Err(ResetError::Absent), None));
    }
}
