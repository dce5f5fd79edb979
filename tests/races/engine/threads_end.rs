//! Threads that end: what their thread-locals may still do to an engine when they are dropped.

use std::cell::RefCell;
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::threads::spawn;
use tickless::{BindError, Driver, Engine, Handle, ManualClock, StopError};

const HOUR: Duration = Duration::from_secs(3600);

/// What a thread's last deed saw.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    bound: Result<(), BindError>,
    /// The shard that a timer went to which was scheduled right after.
    shard: usize,
    cancelled: bool,
    moved: bool,
}

/// Uses its engine in every way there is when the thread that has it ends.
struct LastDeed {
    engine: Engine,
    handles: Vec<Handle>,
    report: mpsc::Sender<Seen>,
}

impl Drop for LastDeed {
    fn drop(&mut self) {
        let bound = self.engine.bind_thread(2);
        self.engine.schedule_detached(HOUR * 1000, || ()).unwrap();
        let is_it = |timer: &&tickless::PendingTimer| {
            timer.deadline.is_some_and(|deadline| deadline > self.engine.now() + HOUR * 900)
        };
        let shard = self.engine.snapshot().iter().find(is_it).unwrap().shard;
        let cancelled = self.handles.pop().unwrap().cancel();
        let mut moving = self.handles.pop().unwrap();
        let moved = moving.reset(HOUR / 1000).is_ok() && moving.reset(HOUR * 2).is_ok();
        drop(self.handles.pop().unwrap());
        drop(self.handles.pop().unwrap().cancel_on_drop());
        let _ = self.report.send(Seen { bound, shard, cancelled, moved });
    }
}

thread_local! {
    static LAST: RefCell<Option<LastDeed>> = const { RefCell::new(None) };
}

/// What the thread-local of a thread sees that was there before the thread used the engine, or not.
fn see(is_there_first: bool) -> Seen {
    let builder = Engine::builder().shards(4).driver(Driver::Caller);
    let engine = builder.manual_clock(&ManualClock::new()).build().unwrap();
    let (report, seen) = mpsc::channel();
    let handles = (0..4).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
    let deed = LastDeed { engine: engine.clone(), handles, report };
    let user = move || {
        let engine = deed.engine.clone();
        let used = move || {
            engine.bind_thread(1).unwrap();
            engine.schedule_detached(HOUR, || ()).unwrap();
        };
        if is_there_first {
            LAST.set(Some(deed));
            used();
        } else {
            used();
            LAST.set(Some(deed));
        }
    };
    spawn(user).join().unwrap();
    engine.check().unwrap();
    // The one that was moved, the one that was let go, and two that were scheduled.
    assert_eq!((engine.len(), engine.stats().cancelled), (4, 2));
    engine.stop().unwrap();
    seen.recv().unwrap()
}

#[test]
fn a_thread_local_that_goes_before_what_the_thread_keeps_uses_the_engine_as_ever() {
    assert_eq!(see(false), Seen { bound: Ok(()), shard: 2, cancelled: true, moved: true });
}

#[test]
fn a_thread_local_that_goes_after_what_the_thread_keeps_is_told_that_it_cannot_bind() {
    let seen = see(true);
    assert_eq!(seen.bound, Err(BindError::ThreadEnds));
    assert!(seen.cancelled && seen.moved, "all else works: {seen:?}");
}

// --- the engine's own threads ---

/// Does something when its thread ends.
struct AtTheEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.take().unwrap()();
    }
}

/// Has the only thread of `engine` do `deed` when it ends.
fn at_the_end_of_its_thread(engine: &Engine, deed: impl FnOnce() + Send + 'static) {
    thread_local!(static DEED: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });
    let (done, is_done) = mpsc::channel();
    let task = move || {
        DEED.with_borrow_mut(|place| *place = Some(AtTheEnd(Some(Box::new(deed)))));
        done.send(()).unwrap();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    is_done.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_thread_of_an_engine_that_ends_is_told_that_it_cannot_wait_for_the_engine() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let (refuse, refused) = mpsc::channel();
    let same = engine.clone();
    at_the_end_of_its_thread(&engine, move || refuse.send(same.stop().err()).unwrap());
    let (stop, stopped) = mpsc::channel();
    spawn(move || stop.send(engine.stop().map(|left| left.len())));
    assert_eq!(refused.recv_timeout(PATIENCE), Ok(Some(StopError::InsideTask)));
    assert_eq!(stopped.recv_timeout(PATIENCE), Ok(Ok(0)), "they wait for each other");
}

#[test]
fn a_thread_of_an_engine_that_ends_may_drop_the_last_of_it() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let (hold, go_on) = mpsc::channel::<()>();
    let (gone, is_gone) = mpsc::channel();
    let last = engine.clone();
    at_the_end_of_its_thread(&engine, move || {
        go_on.recv_timeout(PATIENCE).unwrap();
        drop(last);
        gone.send(()).unwrap();
    });
    // It waits for the tasks, but not for the thread.
    assert_eq!(engine.stop_within(PATIENCE).unwrap().running, 0);
    drop(engine);
    hold.send(()).unwrap();
    assert_eq!(is_gone.recv_timeout(PATIENCE), Ok(()));
}
