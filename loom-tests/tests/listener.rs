//! DOORBELL, where the shard is served by a task of a runtime: the task leaves its waker, takes the
//! notes of the rings, looks ahead or runs a turn, publishes when it needs the next, and waits; a
//! producer posts a notice, reads when the task will come, notes its ring and wakes the task.
//!
//! A task that waits by a timer of the system does the same with that in the place of its waker: it
//! sets the timer, leaves the bell, takes the notes, and waits; a ring sets the timer to the
//! present. The system's part is a lock here.
//!
//! Who races: one or two producers and the task, or two tasks of which one comes after the other.
//! Time passes by itself up to a near tick, and no further.
//! Asserted: no wake-up is lost; one that were would leave all threads blocked, which the checker
//! reports as a deadlock.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom_tests::{Hand, World, check, on_thread, wheel};
use tickless_core::doorbell::{Bell, Hook, Listener, Listening, Setting};
use tickless_core::sync::{Condvar, Mutex, UnsafeCell, park, thread, wait};
use tickless_core::time::Tick;

/// The waker of a task: its thread sleeps until it is woken.
struct Unparks {
    thread: thread::Thread,
    /// Written before the waker is left, and read by those who wake.
    made: UnsafeCell<()>,
}

// SAFETY: that the listener orders the accesses is what the models show.
unsafe impl Sync for Unparks {}

impl Unparks {
    /// A waker for the calling thread.
    fn waker() -> Waker {
        let made = UnsafeCell::new(());
        made.with_mut(|_| ());
        Waker::from(Arc::new(Unparks { thread: thread::current(), made }))
    }
}

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.made.with(|_| ());
        self.thread.unpark();
    }
}

/// A world without threads, and what a task listens to.
fn listened_to() -> (Arc<World>, Arc<Listener>) {
    let listener = Arc::new(Listener::new(1));
    let hook = {
        let listener = listener.clone();
        Hook::new(move || listener.ring(0))
    };
    let world = World::with(wheel(4, 1), Bell::Hook(hook), 1);
    world.make_levels();
    (world, listener)
}

/// The task's sleep ends if it is until this tick, or before. A longer one lasts until it is rung.
const NEAR: Tick = Tick::new(2);

const FAR: u64 = 3;

/// Serves the shard, as the task that an engine has for that, until `wanted` timers have fired.
fn listen(world: &World, listening: &mut Listening, fired: &mut usize, wanted: usize) {
    serve(world, listening, true, fired, wanted);
}

/// The same for a task that has `more` to do at first, or not.
fn serve(
    world: &World,
    listening: &mut Listening,
    mut more: bool,
    fired: &mut usize,
    wanted: usize,
) {
    let waker = Unparks::waker();
    let (mut now, mut next) = (Tick::ZERO, Tick::NEVER);
    while *fired < wanted {
        let rings = listening.hear(&waker);
        if rings.take(0) && !more {
            match world.look_ahead() {
                Some(report) => (more, next) = (report.busy, report.next),
                None => more = true,
            }
        } else if !more && next <= NEAR {
            (more, now) = (true, now.max(next));
        } else if !more {
            park(None);
        }
        if more {
            world.shard.doorbell().retract();
            let report = world.turn(now.get()).unwrap();
            *fired += report.fired;
            world.shard.doorbell().publish(report.next);
            (more, next) = (report.busy || world.shard.has_notices(), report.next);
        }
    }
}

/// A thread with a task that ends when `wanted` timers have fired.
fn task(world: &Arc<World>, listener: Arc<Listener>, wanted: usize) -> thread::JoinHandle<()> {
    on_thread(world, move |world| {
        listen(world, &mut listener.listen().unwrap(), &mut 0, wanted);
    })
}

/// Without a shard, whose fences would order the same.
#[test]
fn a_ring_is_noted_or_finds_the_waker() {
    check(3, || {
        let listener = Arc::new(Listener::new(1));
        let mut listening = listener.listen().unwrap();
        let task = thread::spawn(move || {
            let waker = Unparks::waker();
            while !listening.hear(&waker).take(0) {
                park(None);
            }
        });
        listener.ring(0);
        task.join().unwrap();
    });
}

fn schedule_while_listening<const N: usize>(bound: usize) {
    check(bound, || {
        let (world, listener) = listened_to();
        let hands = [(); N].map(|()| Hand::new(&world));
        let task = task(&world, listener, N);
        let producers = hands
            .map(|mut hand| thread::spawn(move || (hand.schedule_detached(0, 0).unwrap(), hand)));
        task.join().unwrap();
        drop(producers.map(|producer| producer.join().unwrap()));
    });
}

#[test]
fn a_task_that_waits_hears_of_a_timer() {
    schedule_while_listening::<1>(3);
}

#[test]
fn a_task_that_waits_hears_of_two_producers() {
    schedule_while_listening::<2>(0);
}

/// The task sleeps for what is due later, or looks when it is rung for that, or has not begun.
#[test]
fn a_task_that_sleeps_hears_of_an_earlier_timer() {
    check(3, || {
        let (world, listener) = listened_to();
        let [mut far, mut near] = [(); 2].map(|()| Hand::new(&world));
        far.schedule_detached(FAR, 0).unwrap();
        let task = task(&world, listener, 1);
        let near = thread::spawn(move || (near.schedule_detached(1, 0).unwrap(), near));
        task.join().unwrap();
        drop((far, near.join().unwrap()));
        world.pass(NEAR.get() + 1, FAR);
    });
}

/// The first ring is for what is due later, and an earlier timer comes while the task looks ahead.
#[test]
fn a_task_that_looks_ahead_hears_of_an_earlier_timer() {
    check(0, || {
        let (world, listener) = listened_to();
        let hands = [FAR, 1].map(|due| (due, Hand::new(&world)));
        let task = task(&world, listener, 1);
        let producers = hands.map(|(due, mut hand)| {
            thread::spawn(move || (hand.schedule_detached(due, 0).unwrap(), hand))
        });
        task.join().unwrap();
        drop(producers.map(|producer| producer.join().unwrap()));
        world.pass(NEAR.get() + 1, FAR);
    });
}

/// The task has slept for a crowd that is no more, and publishes a later time. The producer that
/// has read the time before rings nobody.
#[test]
fn a_task_that_sleeps_longer_finds_what_came_before_it_said_so() {
    check(3, || {
        let (world, listener) = listened_to();
        let [mut far, mut near] = [(); 2].map(|()| Hand::new(&world));
        far.schedule_detached(FAR, 0).unwrap();
        assert_eq!(world.turn(0).unwrap().next, Tick::new(FAR));
        world.shard.doorbell().publish(NEAR);
        let mut listening = listener.listen().unwrap();
        listener.ring(0);
        let task = on_thread(&world, move |world| serve(world, &mut listening, false, &mut 0, 1));
        let near = thread::spawn(move || (near.schedule_detached(NEAR.get(), 0).unwrap(), near));
        task.join().unwrap();
        drop((far, near.join().unwrap()));
        world.pass(NEAR.get() + 1, FAR);
    });
}

/// The first is there before anyone listens, and the second comes at any time.
#[test]
fn a_task_hears_of_what_came_while_nobody_listened() {
    check(2, || {
        let (world, listener) = listened_to();
        let [mut one, mut two] = [(); 2].map(|()| Hand::new(&world));
        one.schedule_detached(0, 0).unwrap();
        let task = on_thread(&world, move |world| {
            let mut fired = 0;
            for wanted in 1..=2 {
                let mut listening = listener.listen().expect("the one before has ended");
                listen(world, &mut listening, &mut fired, wanted);
            }
        });
        let producer = thread::spawn(move || (two.schedule_detached(0, 0).unwrap(), two));
        task.join().unwrap();
        drop((one, producer.join().unwrap()));
    });
}

/// A timer of the system, for which a reactor waits.
struct Timer {
    state: Mutex<TimerState>,
    came: Condvar,
}

struct TimerState {
    at: u64,
    /// The task has seen it come.
    is_seen: bool,
}

impl Timer {
    fn new() -> Arc<Timer> {
        let state = Mutex::new(TimerState { at: u64::MAX, is_seen: false });
        Arc::new(Timer { state, came: Condvar::new() })
    }

    fn set(&self, at: u64) {
        *self.state.lock().unwrap() = TimerState { at, is_seen: false };
        self.came.notify_all();
    }

    /// Whether it has come since the task has last seen that, or will before it is seen.
    fn has_come(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let has_come = state.is_new();
        state.is_seen |= has_come;
        has_come
    }

    fn wait_for(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.is_new() {
            state = wait(&self.came, &self.state, state);
        }
    }
}

impl TimerState {
    fn is_new(&self) -> bool {
        self.at <= NEAR.get() && !self.is_seen
    }
}

/// A ring.
impl Wake for Timer {
    fn wake(self: Arc<Self>) {
        self.set(0);
    }
}

/// As [`serve`], by a timer.
fn serve_by_timer(world: &World, listening: &mut Listening, fired: &mut usize, wanted: usize) {
    let timer = Timer::new();
    let bell = Waker::from(timer.clone());
    let mut setting = Setting::default();
    let (mut more, mut now, mut next) = (true, Tick::ZERO, Tick::NEVER);
    while *fired < wanted {
        let has_come = timer.has_come();
        if has_come {
            setting.came();
        }
        let is_rung = listening.hear(&bell).take(0);
        if has_come && next <= NEAR {
            (more, now) = (true, now.max(next));
        }
        if is_rung && !more {
            match world.look_ahead() {
                Some(report) => (more, next) = (report.busy, report.next),
                None => more = true,
            }
        } else if !has_come && !more {
            timer.wait_for();
            continue;
        }
        if more {
            world.shard.doorbell().retract();
            let report = world.turn(now.get()).unwrap();
            *fired += report.fired;
            world.shard.doorbell().publish(report.next);
            (more, next) = (report.busy || world.shard.has_notices(), report.next);
        }
        if !more && next != Tick::NEVER {
            setting.set(next.get(), |at| Ok::<(), ()>(timer.set(at))).unwrap();
        }
    }
}

/// A thread with such a task that ends when `wanted` timers have fired.
fn task_by_timer(
    world: &Arc<World>,
    listener: Arc<Listener>,
    wanted: usize,
) -> thread::JoinHandle<()> {
    on_thread(world, move |world| {
        serve_by_timer(world, &mut listener.listen().unwrap(), &mut 0, wanted);
    })
}

/// Without a shard. The task sets its timer at any time.
#[test]
fn a_ring_is_noted_or_ends_the_wait() {
    check(3, || {
        let listener = Arc::new(Listener::new(1));
        let mut listening = listener.listen().unwrap();
        let task = thread::spawn(move || {
            let (timer, mut setting) = (Timer::new(), Setting::default());
            let bell = Waker::from(timer.clone());
            let mut times = [FAR + 1, FAR].into_iter();
            loop {
                if timer.has_come() {
                    setting.came();
                }
                if listening.hear(&bell).take(0) {
                    break;
                }
                match times.next() {
                    Some(at) => setting.set(at, |at| Ok::<(), ()>(timer.set(at))).unwrap(),
                    None => timer.wait_for(),
                }
            }
        });
        listener.ring(0);
        task.join().unwrap();
    });
}

fn schedule_beside_a_timer<const N: usize>(bound: usize, due: [u64; N]) {
    check(bound, move || {
        let (world, listener) = listened_to();
        let hands = due.map(|due| (due, Hand::new(&world)));
        let task = task_by_timer(&world, listener, N);
        let producers = hands.map(|(due, mut hand)| {
            thread::spawn(move || (hand.schedule_detached(due, 0).unwrap(), hand))
        });
        task.join().unwrap();
        drop(producers.map(|producer| producer.join().unwrap()));
    });
}

#[test]
fn a_task_that_waits_by_a_timer_hears_of_another() {
    schedule_beside_a_timer(3, [0]);
}

#[test]
fn a_task_that_waits_by_a_timer_sets_it_for_what_is_due_later() {
    schedule_beside_a_timer(3, [NEAR.get()]);
}

#[test]
fn a_task_that_waits_by_a_timer_hears_of_two_producers() {
    schedule_beside_a_timer(0, [1, NEAR.get()]);
}

/// The timer is set for what is due later, when the task is rung or has begun.
#[test]
fn a_timer_that_is_set_is_set_anew_for_what_is_due_earlier() {
    check(2, || {
        let (world, listener) = listened_to();
        let [mut far, mut near] = [(); 2].map(|()| Hand::new(&world));
        far.schedule_detached(FAR, 0).unwrap();
        let task = task_by_timer(&world, listener, 1);
        let near = thread::spawn(move || (near.schedule_detached(1, 0).unwrap(), near));
        task.join().unwrap();
        drop((far, near.join().unwrap()));
        world.pass(NEAR.get() + 1, FAR);
    });
}
