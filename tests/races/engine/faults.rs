//! Faults: payloads that panic while they are dropped, wherever that is; tasks, hooks and threads
//! that do to their engine what nobody expects. Nothing is lost by it, and nothing aborts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use support::account::{Book, Fate, Item};
use support::boxed::Boxed;
use support::mpsc;
use support::planned::{Planned, panic_as_planned, quietly};
// One that ThreadSanitizer can follow.
use support::account;
use support::patience::PATIENCE;
use support::scaled;
use support::threads::spawn;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, State, StopError};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// In a payload: its drop always panics, after it counted itself.
struct Bomb {
    item: Item,
    /// Closes its channel when all bombs are gone.
    _alive: Option<mpsc::Sender<()>>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        // The item is dropped all the same, while this unwinds.
        panic_as_planned();
    }
}

fn bomb(book: &Book, delay: Duration) -> Boxed {
    Boxed::new(Bomb { item: book.item(delay), _alive: None })
}

fn run_all(batch: Batch<'_, Boxed>) {
    batch.for_each(|bomb| bomb.get::<Bomb>().item.run());
}

fn threaded() -> Engine<Boxed> {
    quietly();
    Builder::new().shards(2).build_with_handler(run_all).unwrap()
}

fn by_hand() -> Engine<Boxed> {
    on(&ManualClock::new())
}

fn on(clock: &ManualClock) -> Engine<Boxed> {
    quietly();
    Builder::new().shards(2).manual_clock(clock).build_with_handler(run_all).unwrap()
}

/// What `f` panicked with was planned.
fn panics(f: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(f)).unwrap_err().is::<Planned>());
}

// === payloads whose drop panics ===

#[test]
fn a_dropped_engine_drops_every_payload_although_each_panics_at_it() {
    for engine in [threaded(), by_hand()] {
        let book = Book::new(1000);
        for n in 0..1000 {
            let delay = HOUR * (1 + n % 100);
            engine.schedule_detached(delay, bomb(&book, delay)).unwrap();
        }
        drop(engine);
        assert_eq!(book.close().dropped, 1000);
    }
}

#[test]
fn an_engine_that_goes_in_a_panic_drops_payloads_that_panic() {
    for engine in [threaded(), by_hand()] {
        let book = Book::new(100);
        let unwinds = || {
            let engine = engine;
            (0..100).for_each(|_| engine.schedule_detached(HOUR, bomb(&book, HOUR)).unwrap());
            panic_as_planned();
        };
        panics(unwinds);
        assert_eq!(book.close().dropped, 100);
    }
}

#[test]
fn an_engine_whose_last_clone_goes_inside_a_task_drops_payloads_that_panic() {
    quietly();
    for _ in 0..10 {
        let book = Book::new(100);
        let engine = Engine::builder().shards(2).build().unwrap();
        let (alive, receiver) = mpsc::channel();
        for n in 0..100 {
            let bomb = Bomb { item: book.item(HOUR), _alive: Some(alive.clone()) };
            engine.bind_thread(n % 2).unwrap();
            engine.schedule_detached(HOUR, move || bomb.item.run()).unwrap();
        }
        drop(alive);
        let only = Arc::new(OnceLock::new());
        let inside = only.clone();
        let (go_on, wait) = mpsc::channel::<()>();
        let task = move || {
            wait.recv_timeout(PATIENCE).unwrap();
            drop(Arc::into_inner(inside).and_then(OnceLock::into_inner));
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        only.set(engine).unwrap();
        drop(only);
        go_on.send(()).unwrap();
        let closed = receiver.recv_timeout(PATIENCE);
        assert_eq!(closed, Err(mpsc::RecvTimeoutError::Disconnected), "all are dropped");
        assert_eq!(book.close().dropped, 100);
    }
}

#[test]
fn what_stop_returned_panics_where_it_is_dropped_and_the_engine_stays_stopped() {
    for engine in [threaded(), by_hand()] {
        let book = Book::new(11);
        let schedule = |_| engine.schedule(HOUR, bomb(&book, HOUR)).unwrap();
        let handles: Vec<Handle<Boxed>> = (0..10).map(schedule).collect();
        for bomb in engine.stop().unwrap() {
            panics(|| drop(bomb));
        }
        assert!(handles.iter().all(|handle| handle.state() == State::Stopped));
        drop(handles);
        let refused = engine.schedule_detached(HOUR, bomb(&book, HOUR)).unwrap_err();
        panics(|| drop(refused));
        drop(engine);
        assert_eq!(book.close().dropped, 11);
    }
}

#[test]
fn what_a_full_engine_refuses_panics_at_its_caller_and_takes_no_room() {
    quietly();
    let builder = Builder::new().shards(1).max_pending(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(run_all).unwrap();
    let book = Book::new(41);
    for _ in 0..20 {
        let handle = engine.schedule(HOUR, bomb(&book, HOUR)).unwrap();
        let refused = engine.schedule_detached(HOUR, bomb(&book, HOUR)).unwrap_err();
        panics(|| drop(refused));
        panics(|| drop(handle.cancel_on_drop()));
        assert_eq!(engine.len(), 0, "it is cancelled all the same, and its room is free");
        engine.check().unwrap();
    }
    assert_eq!(engine.stats().cancelled, 20);
    assert_eq!(book.close().made, 40);
}

/// One thread: ThreadSanitizer has nothing to see.
#[cfg(not(tsan))]
#[test]
fn resets_sweeps_and_cascades_drop_no_payload() {
    let clock = ManualClock::new();
    let (engine, book) = (on(&clock), Book::by_hand(&clock, 5_000));
    let schedule = |_| engine.schedule(HOUR * 64, bomb(&book, HOUR * 64)).unwrap();
    let mut handles: Vec<Handle<Boxed>> = (0..5_000).map(schedule).collect();
    for hours in [32, 16, 96] {
        assert!(handles.iter_mut().all(|handle| handle.reset(HOUR * hours).is_ok()));
    }
    // The cancelled half is dropped here and now, the seats are swept by turns that are clean.
    for handle in handles.split_off(2500) {
        panics(|| assert!(handle.cancel()));
    }
    assert_eq!(engine.advance(HOUR * 90), Ok(0));
    engine.check().unwrap();
    assert_eq!((engine.stats().panicked, engine.len()), (0, 2500));
    assert_eq!(engine.advance(HOUR * 6), Ok(2500));
    let stats = engine.stats();
    assert_eq!((stats.panicked, stats.fired, stats.cancelled), (2500, 2500, 2500));
    assert_eq!(book.close().ran, 2500);
}

#[test]
fn payloads_that_panic_where_they_run_kill_no_reaper_and_hide_no_other() {
    let engine = threaded();
    let book = Book::new(2000);
    let schedule = |n: u64| {
        let delay = Duration::from_micros(n * 10);
        engine.schedule(delay, bomb(&book, delay)).unwrap()
    };
    let handles: Vec<Handle<Boxed>> = (0..2000).map(schedule).collect();
    let mut cancelled = 0;
    for (n, handle) in handles.into_iter().enumerate() {
        if n % 2 == 0 {
            cancelled += u64::from(catch_unwind(AssertUnwindSafe(|| handle.cancel())).is_err());
        }
    }
    while !engine.is_empty() {
        thread::yield_now();
    }
    assert!(engine.stop().unwrap().is_empty(), "both reapers are alive to be stopped");
    let stats = engine.stats();
    assert_eq!((stats.cancelled, stats.fired), (cancelled, 2000 - cancelled));
    assert_eq!(stats.panicked, stats.fired);
    assert_eq!(book.close().ran, stats.fired);
}

// === tasks that turn on their engine or on themselves ===

fn closures(shards: usize) -> Engine {
    Engine::builder().shards(shards).manual_clock(&ManualClock::new()).build().unwrap()
}

#[test]
fn a_task_that_resets_or_cancels_itself_finds_that_it_has_fired() {
    let engine = closures(1);
    let (sender, outcomes) = mpsc::channel();
    for is_cancel in [false, true] {
        let own = Arc::new(OnceLock::<Mutex<Handle>>::new());
        let (inside, sender) = (own.clone(), sender.clone());
        let task = move || {
            let own = Arc::into_inner(inside).and_then(OnceLock::into_inner).unwrap();
            let mut own = own.into_inner().unwrap();
            assert_eq!(own.state(), State::Fired);
            assert!(own.reset(HOUR).is_err() && own.reset(Duration::ZERO).is_err());
            sender.send(is_cancel && own.cancel()).unwrap();
        };
        let handle = engine.schedule(MS, task).unwrap();
        assert!(own.set(Mutex::new(handle)).is_ok());
        drop(own);
        assert_eq!(engine.advance(MS), Ok(1));
        assert_eq!(outcomes.try_recv(), Ok(false));
    }
    assert_eq!(engine.advance(HOUR * 2), Ok(0), "nothing is left of either");
    assert_eq!((engine.stats().panicked, engine.len()), (0, 0));
}

#[test]
fn a_task_that_cancels_all_others_wins_those_that_were_not_handed_over_yet() {
    // All are due at one time: those of its own batch have been handed over with it.
    const MANY: u64 = 2000;
    let (engine, book) = (closures(1), Book::new(MANY));
    let schedule = |_| {
        let item = book.item(Duration::ZERO);
        engine.schedule(MS, move || item.run()).unwrap()
    };
    let others: Vec<Handle> = (0..MANY).map(schedule).collect();
    let (report, outcome) = mpsc::channel();
    // A bucket's lists are opened from the latest timer on.
    let task = move || {
        let won = others.into_iter().map(Handle::cancel).filter(|&won| won).count();
        report.send(won as u64).unwrap();
    };
    engine.schedule_detached(MS, task).unwrap();
    let fired = engine.advance(MS).unwrap() as u64;
    let won = outcome.try_recv().unwrap();
    assert!(won > 0, "there is more than one batch of them");
    assert_eq!(fired, 1 + MANY - won);
    let sums = book.close();
    assert_eq!((sums.ran, sums.dropped), (MANY - won, won));
    assert_eq!(engine.stats().cancelled, won);
}

#[test]
fn tasks_that_stop_drop_and_reschedule_their_engine_while_it_stops_are_all_accounted_for() {
    let rounds = scaled(100).clamp(5, 20);
    for round in 0..rounds {
        let book = Book::new(3000);
        let builder = Engine::builder().shards(2).tick(Duration::from_micros(100));
        let engine = builder.build().unwrap();
        for n in 0..1000 {
            let (inner, book) = (engine.clone(), book.clone());
            let first = book.item(Duration::ZERO);
            let task = move || {
                first.run();
                assert_eq!(inner.stop().err(), Some(StopError::InsideTask));
                let delay = Duration::from_micros(n % 7 * 50);
                let again = book.item(delay);
                // What comes back in the error is dropped, and in the book as such.
                drop(inner.schedule_detached(delay, move || again.run()));
                drop(inner);
            };
            engine.schedule_detached(Duration::from_micros(n), task).unwrap();
        }
        while engine.stats().fired < round * 1000 / rounds {
            thread::yield_now();
        }
        drop(engine.stop().unwrap());
        let stats = engine.stats();
        assert_eq!((stats.panicked, stats.pending), (0, 0));
        assert_eq!(stats.scheduled, stats.fired + stats.returned);
        let sums = book.close();
        assert_eq!(sums.ran, stats.fired);
        assert!(sums.dropped >= stats.returned, "{sums:?} {stats:?}");
    }
}

#[test]
fn a_thread_that_panics_cancels_by_its_guards_and_detaches_by_its_handles() {
    quietly();
    let clock = ManualClock::new();
    let builder = Builder::new().shards(1).manual_clock(&clock);
    let engine = builder.build_with_handler(account::run_all).unwrap();
    let book = Book::by_hand(&clock, 200);
    let (inner, items) = (engine.clone(), book.clone());
    let user = move || {
        let schedule = |_| items.schedule(&inner, MS).unwrap();
        let _handles: Vec<_> = (0..100).map(schedule).collect();
        let guard = |_| inner.schedule(MS, items.item(MS)).unwrap().cancel_on_drop();
        let _guards: Vec<_> = (0..100).map(guard).collect();
        panic_as_planned();
    };
    assert!(spawn(user).join().unwrap_err().is::<Planned>());
    engine.check().unwrap();
    assert_eq!((engine.stats().cancelled, engine.len()), (100, 100));
    assert_eq!(engine.advance(MS), Ok(100));
    let sums = book.close();
    assert_eq!((sums.ran, sums.dropped), (100, 100));
}

// === hooks ===

/// An engine whose hook does `deed` to it, once it is there and as long as the deed says so.
fn hooked(deed: impl Fn(&Engine<Item>) + Send + Sync + 'static) -> Engine<Item> {
    let place = Arc::new(OnceLock::<Engine<Item>>::new());
    let inside = place.clone();
    let hook = move |_| {
        if let Some(engine) = inside.get() {
            deed(engine);
        }
    };
    let builder = Builder::new().shards(2).manual_clock(&ManualClock::new()).on_earlier(hook);
    let engine = builder.build_with_handler(account::run_all).unwrap();
    engine.turn(0).unwrap();
    engine.turn(1).unwrap();
    assert!(place.set(engine.clone()).is_ok());
    engine
}

#[test]
fn a_hook_that_stops_its_engine_in_the_midst_of_a_schedule_gets_what_was_pending() {
    let book = Book::new(13);
    let returned = Arc::new(Mutex::new(Vec::new()));
    let by_hook = returned.clone();
    let stop = move |engine: &Engine<Item>| {
        if engine.len() >= 10 {
            let items = engine.stop().unwrap();
            by_hook
                .lock()
                .unwrap()
                .extend(items.into_iter().map(|item| item.meets(Fate::Returned)));
        }
    };
    let engine = hooked(stop);
    // Each is due before all others, so that each rings.
    let schedule = |n: u32| book.schedule(&engine, MS * (1000 - 50 * n)).ok();
    let timers: Vec<_> = (0..12_u32).map_while(schedule).collect();
    assert!(timers.len() >= 10, "{}", timers.len());
    assert!(book.schedule(&engine, MS).unwrap_err().is_stopped());
    assert!(timers.iter().all(|timer| timer.state() == State::Stopped));
    assert!(timers.into_iter().all(|timer| !timer.cancel()));
    assert_eq!(book.stop(&engine), 0);
    book.close().agree_with(engine.stats());
}

#[test]
fn a_hook_that_is_rung_by_a_stop_may_stop_as_well() {
    let book = Book::new(10);
    let returned = Arc::new(Mutex::new(0));
    let by_hook = returned.clone();
    let items = book.clone();
    let stop = move |engine: &Engine<Item>| {
        if engine.len() == 10 {
            *by_hook.lock().unwrap() += items.stop(engine);
        }
    };
    let engine = hooked(stop);
    (0..10).for_each(|_| book.schedule_detached(&engine, HOUR).unwrap());
    let by_us = book.stop(&engine);
    assert_eq!(by_us + *returned.lock().unwrap(), 10);
    book.close().agree_with(engine.stats());
}
