//! Directed tests of races: in the middle of one thread's call, at each of its accesses to shared
//! memory in turn, another thread makes a whole call (`meanwhile`).

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::thread;
use std::time::{Duration, Instant};

use tickless::{Batch, Builder, Engine, Handle, ManualClock};

use super::{count, until_reached};
use crate::meanwhile::{self, Came};

const NS: Duration = Duration::from_nanos(1);

/// A far time for an engine with threads.
const FAR: Duration = Duration::from_secs(3600);

/// A task that nobody runs again.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Nobody>) {}
}

/// An engine that is driven by the test, and what its threads do to each other.
struct Scene {
    engine: Engine<u32>,
    clock: ManualClock,
    /// The handle of the timer that the race is about.
    handle: Mutex<Option<Handle<u32>>>,
}

impl Scene {
    /// The smallest wheel, in which entries are re-filed all the time and slots have several
    /// rounds; with a timer that is due after `after`.
    fn with_timer(after: u32) -> Arc<Scene> {
        Scene::of(Builder::new().slots(2).reach(2), after)
    }

    fn of(builder: Builder, after: u32) -> Arc<Scene> {
        let clock = ManualClock::new();
        let builder = builder.shards(1).tick(NS).exact_below(0).manual_clock(&clock);
        let engine = builder.build_with_handler(|batch: Batch<'_, u32>| batch.for_each(drop));
        let engine = engine.expect("the configuration is valid");
        let handle = engine.schedule(NS * after, 0).expect("there is no limit");
        Arc::new(Scene { engine, clock, handle: Mutex::new(Some(handle)) })
    }

    fn take(&self) -> Handle<u32> {
        self.handle.lock().expect("nothing panics here").take().expect("it is still there")
    }

    fn cancel(&self) {
        let _ = self.take().cancel();
    }

    fn let_go(&self) {
        drop(self.take());
    }

    fn reset(&self, after: u32) {
        let mut handle = self.take();
        let _ = handle.reset(NS * after);
        *self.handle.lock().expect("nothing panics here") = Some(handle);
    }

    fn schedule(&self, after: u32) {
        self.engine.schedule_detached(NS * after, 1).expect("there is no limit");
    }

    fn turn(&self) {
        self.engine.turn(0).expect("it is driven here");
    }

    fn turn_after(&self, after: u32) {
        self.clock.advance(NS * after);
        self.turn();
    }

    /// Each timer that there was has ended, once.
    fn end(&self) {
        drop(self.handle.lock().expect("nothing panics here").take());
        drop(self.engine.stop().expect("this is no task"));
        let stats = self.engine.stats();
        let ended = stats.fired + stats.cancelled + stats.returned;
        assert_eq!((stats.scheduled, stats.pending), (ended, 0), "{stats:?}");
    }
}

/// As [`meanwhile::at_each`], for what asserts by itself.
fn at_each(mut order: impl FnMut(usize) -> Came) {
    let Ok(()) = meanwhile::at_each(|n| Ok::<_, Infallible>(order(n)));
}

/// Has `first` make its call, with `second`'s in the middle of it, at each of its accesses in turn.
fn race(
    scene: impl Fn() -> Arc<Scene>,
    first: impl Fn(&Scene),
    second: impl Fn(&Scene) + Copy + Send + 'static,
) {
    at_each(|n| {
        let scene = scene();
        let other = scene.clone();
        meanwhile::arrange(n, || (), move || second(&other));
        first(&scene);
        let came = meanwhile::end();
        if came == Came::Not {
            second(&scene);
        }
        scene.end();
        came
    });
}

pub(super) fn a_turn_in_a_cancel() {
    race(|| Scene::with_timer(9), Scene::cancel, |scene| scene.turn_after(2));
    race(|| Scene::with_timer(9), Scene::cancel, |scene| scene.turn_after(9));
}

pub(super) fn a_turn_in_a_reset() {
    for (due, later) in [(9, 11), (9, 9), (9, 1)] {
        race(|| Scene::with_timer(due), |scene| scene.reset(later), |scene| scene.turn_after(2));
        race(|| Scene::with_timer(due), |scene| scene.reset(later), |scene| scene.turn_after(9));
    }
}

pub(super) fn a_turn_as_a_handle_is_let_go() {
    race(|| Scene::with_timer(9), Scene::let_go, |scene| scene.turn_after(2));
    race(|| Scene::with_timer(9), Scene::let_go, |scene| scene.turn_after(9));
}

pub(super) fn holders_in_a_turn() {
    for late in [2, 9, 11] {
        let turn = |scene: &Scene| scene.turn_after(late);
        race(|| Scene::with_timer(9), turn, Scene::cancel);
        race(|| Scene::with_timer(9), turn, Scene::let_go);
        race(|| Scene::with_timer(9), turn, |scene| scene.reset(40));
    }
}

/// The thread that had cancelled a timer has ended, and another one takes the seat.
pub(super) fn a_seat_taken_in_a_turn() {
    let with_seat = || {
        let scene = Scene::with_timer(9);
        thread::scope(|scope| _ = scope.spawn(|| scene.cancel()));
        scene
    };
    race(with_seat, |scene| scene.turn_after(9), |scene| scene.schedule(40));
}

/// Each poll is by another task, while the bucket opens under the sleep.
pub(super) fn a_turn_in_a_poll() {
    fn poll(sleep: Pin<&mut tickless::future::Sleep>) {
        let waker = Arc::new(Nobody).into();
        let _ = sleep.get_mut().poll_elapsed(&mut Context::from_waker(&waker));
    }
    at_each(|n| {
        let clock = ManualClock::new();
        let builder = Engine::builder().shards(1).tick(NS).slots(2).reach(2).exact_below(0);
        let engine = builder.manual_clock(&clock).build().expect("the configuration is valid");
        let mut sleep = pin!(engine.sleep(NS * 9));
        poll(sleep.as_mut());
        let (other, clock) = (engine.clone(), clock.clone());
        let turn = move || {
            clock.advance(NS * 6);
            other.turn(0).expect("it is driven here");
        };
        meanwhile::arrange(n, || (), turn);
        poll(sleep.as_mut());
        meanwhile::end()
    });
}

/// The timer is re-filed to another bucket.
pub(super) fn a_turn_in_a_snapshot() {
    let snapshot = |scene: &Scene| drop(scene.engine.snapshot());
    race(|| Scene::with_timer(1_000), snapshot, |scene| scene.turn_after(999));
}

/// Closes the notices and then each bucket, while a timer is on its way to one of them.
pub(super) fn a_stop_in_a_schedule() {
    fn schedule(scene: &Scene) {
        // The stop may refuse it.
        let _ = scene.engine.schedule_detached(NS * 300, 1);
    }
    let scene = || Scene::of(Builder::new().slots(512).reach(512), 9);
    race(scene, schedule, |scene| drop(scene.engine.stop()));
}

/// Calls `f` with each number in turn, again and again, until all of the events were reached since
/// this was called. Where `f` leaves other threads time for what they are to do, it is the time that
/// it is given: more in each round.
fn until_reached_in_rounds(events: &[&str], mut f: impl FnMut(usize, Duration)) {
    const LONGEST: usize = 200;
    let (mut numbers, mut patience) = ((0..LONGEST).cycle(), Duration::from_micros(200));
    until_reached(events, || {
        let n = numbers.next().expect("it has no end");
        if n == 0 {
            patience *= 2;
        }
        f(n, patience);
    });
}

/// An engine of one shard with one thread, which has nothing to do for a long time.
fn engine() -> Engine {
    let engine = Engine::builder().shards(1).build().expect("the configuration is valid");
    engine.schedule_detached(FAR, || ()).expect("there is no limit");
    engine
}

/// Fires a timer, which tells when it fires.
fn fire(engine: &Engine) -> Receiver<()> {
    let (fired, is_fired) = mpsc::channel();
    engine.schedule_detached(NS, move || _ = fired.send(())).expect("there is no limit");
    is_fired
}

/// The reaper is called when it has made up its mind to sleep.
pub(super) fn a_call_before_a_sleep() {
    let engine = engine();
    until_reached_in_rounds(&["SleepCalledOff"], |n, _| {
        let (called, is_called) = mpsc::channel();
        let other = engine.clone();
        let call = move || _ = called.send(fire(&other));
        // On the reaper's thread.
        let task = move || meanwhile::arrange(n, || (), call);
        engine.schedule_detached(NS, task).expect("there is no limit");
        let is_fired = is_called.recv().expect("the reaper goes on");
        is_fired.recv().expect("the timer fires");
    });
}

/// A thread has let another one lead, because its own shard takes long. The leader comes to that
/// shard when the turn has just ended, and its role is not free yet.
pub(super) fn a_leader_while_a_turn_ends() {
    let builder = Engine::builder().shards(2).reapers(1, 2).takeover(FAR);
    let engine = builder.build().expect("the configuration is valid");
    until_reached_in_rounds(&["RoleBusy"], |n, patience| {
        let (done, is_done) = mpsc::channel();
        let other = engine.clone();
        let (busy, passed) = (count("RoleBusy"), count("LeadPassed"));
        let call = move || {
            other.bind_thread(0).expect("there is such a shard");
            other.schedule_detached(NS, || ()).expect("there is no limit");
            let begin = Instant::now();
            while count("RoleBusy") == busy && begin.elapsed() < patience {
                thread::yield_now();
            }
        };
        let slow = move || {
            thread::sleep(Duration::from_millis(2));
            if count("LeadPassed") > passed {
                meanwhile::arrange(n, || (), call);
            }
            let _ = done.send(());
        };
        engine.bind_thread(0).expect("there is such a shard");
        engine.schedule_detached(NS, slow).expect("there is no limit");
        engine.bind_thread(1).expect("there is such a shard");
        engine.schedule_detached(NS, || ()).expect("there is no limit");
        is_done.recv().expect("the timer fires");
    });
}
