//! DOORBELL, where the shard is served by a task of a runtime: the task leaves its waker, takes the
//! notes of the rings, looks ahead or runs a turn, publishes when it needs the next, and waits; a
//! producer posts a notice, reads when the task will come, notes its ring and wakes the task.
//!
//! Or the task waits for a timer of the system, which a ring makes come earlier: the task runs a
//! turn when the timer has come, sets it, and takes the notes. The system's part is a lock here.
//!
//! Who races: one or two producers and the task, or two tasks of which one comes after the other.
//! Time passes by itself up to a near tick, and no further.
//! Asserted: no wake-up is lost; one that were would leave all threads blocked, which the checker
//! reports as a deadlock.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom_tests::{Hand, World, check, on_thread, wheel};
use tickless_core::doorbell::{Bell, Hook, Listener, Listening, Timer};
use tickless_core::time::Tick;
use tickless_sync::{Condvar, Mutex, UnsafeCell, park, thread, wait};

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
        Hook::new(move || listener.ring(0, 0))
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
        listener.ring(0, 0);
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
        listener.ring(0, 0);
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
    check(1, || {
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

/// A timer of the system, for which a reactor waits. (Time and ticks are the same here.)
struct SystemTimer {
    state: Mutex<TimerState>,
    came: Condvar,
}

struct TimerState {
    at: u64,
    /// The task has seen it come.
    is_seen: bool,
}

impl Timer for SystemTimer {
    fn set(&self, at: u64) {
        *self.state.lock().unwrap() = TimerState { at, is_seen: false };
        self.came.notify_all();
    }
}

impl SystemTimer {
    fn new() -> SystemTimer {
        let state = Mutex::new(TimerState { at: u64::MAX, is_seen: false });
        SystemTimer { state, came: Condvar::new() }
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

type Earliest = tickless_core::doorbell::Earliest<SystemTimer>;

/// A world without threads, what a task listens to, and the timer that it waits for.
fn with_timer() -> (Arc<World>, Arc<Listener>, Arc<Earliest>) {
    let timer = Arc::new(Earliest::new(SystemTimer::new()));
    let listener = Arc::new(Listener::new(1).with_timer(Some(timer.clone())));
    let hook = {
        let listener = listener.clone();
        Hook::for_due(move |due: Tick| listener.ring(0, due.get()))
    };
    let world = World::with(wheel(4, 1), Bell::Hook(hook), 1);
    world.make_levels();
    (world, listener, timer)
}

/// As [`serve`], for a task that waits for a timer.
fn serve_by_timer(
    world: &World,
    listening: &Listening,
    timer: &Earliest,
    fired: &mut usize,
    wanted: usize,
) {
    let (mut more, mut has_come) = (true, false);
    let (mut now, mut next) = (Tick::ZERO, Tick::NEVER);
    while *fired < wanted {
        let is_over = timer.timer().has_come();
        has_come |= is_over;
        let is_rung = listening.rings().take(0);
        if is_over {
            now = NEAR;
            more |= is_rung || next <= now;
        } else if is_rung && !more {
            match world.look_ahead() {
                Some(report) => (more, next) = (report.busy, report.next),
                None => more = true,
            }
        } else if !more {
            timer.timer().wait_for();
            continue;
        }
        if more {
            world.shard.doorbell().retract();
            let report = world.turn(now.get()).unwrap();
            *fired += report.fired;
            world.shard.doorbell().publish(report.next);
            (more, next) = (report.busy || world.shard.has_notices(), report.next);
        }
        if !more {
            let at = if next == Tick::NEVER { u64::MAX } else { next.get() };
            timer.wait(at, std::mem::take(&mut has_come));
        }
    }
}

/// Producers of timers that are due then, beside such a task. Some time passes by itself.
fn schedule_beside_a_timer<const N: usize>(bound: usize, due: [u64; N]) {
    check(bound, move || {
        let (world, listener, timer) = with_timer();
        let hands = due.map(|due| (due, Hand::new(&world)));
        let task = on_thread(&world, move |world| {
            serve_by_timer(world, &listener.listen().unwrap(), &timer, &mut 0, N);
        });
        let producers = hands.map(|(due, mut hand)| {
            thread::spawn(move || (hand.schedule_detached(due, 0).unwrap(), hand))
        });
        task.join().unwrap();
        drop(producers.map(|producer| producer.join().unwrap()));
    });
}

#[test]
fn a_task_that_waits_for_a_timer_hears_of_another() {
    schedule_beside_a_timer(3, [0]);
}

#[test]
fn a_task_that_waits_for_a_timer_comes_when_it_is_due() {
    schedule_beside_a_timer(3, [NEAR.get()]);
}

#[test]
fn a_task_that_waits_for_a_timer_hears_of_two_producers() {
    schedule_beside_a_timer(0, [1, NEAR.get()]);
}

/// The timer is set for what is due later, or is about to be.
#[test]
fn a_timer_that_is_set_comes_earlier_for_what_is_due_earlier() {
    check(2, || {
        let (world, listener, timer) = with_timer();
        let [mut far, mut near] = [(); 2].map(|()| Hand::new(&world));
        far.schedule_detached(FAR, 0).unwrap();
        let task = on_thread(&world, move |world| {
            serve_by_timer(world, &listener.listen().unwrap(), &timer, &mut 0, 1);
        });
        let near = thread::spawn(move || (near.schedule_detached(1, 0).unwrap(), near));
        task.join().unwrap();
        drop((far, near.join().unwrap()));
        world.pass(NEAR.get() + 1, FAR);
    });
}

/// Without a shard: two ring, and the task wants nothing more when the timer comes for one of them.
#[test]
fn each_ring_is_noted_or_makes_the_timer_come() {
    check(3, || {
        let timer = Arc::new(Earliest::new(SystemTimer::new()));
        let listener = Arc::new(Listener::new(2).with_timer(Some(timer.clone())));
        let listening = listener.listen().unwrap();
        let task = thread::spawn(move || {
            let mut heard = [false; 2];
            loop {
                let has_come = timer.timer().has_come();
                (0..2).for_each(|shard| heard[shard] |= listening.rings().take(shard));
                match heard {
                    [true, true] => break,
                    _ if has_come => timer.wait(u64::MAX, true),
                    _ => timer.timer().wait_for(),
                }
            }
        });
        let other = listener.clone();
        let other = thread::spawn(move || other.ring(1, NEAR.get()));
        listener.ring(0, 1);
        task.join().unwrap();
        other.join().unwrap();
    });
}

/// Without a shard: another ring, for what is due later, comes at any time. The timer of that one
/// never comes.
#[test]
fn the_timer_comes_for_what_is_due_first() {
    check(3, || {
        let timer = Arc::new(Earliest::new(SystemTimer::new()));
        let listener = Arc::new(Listener::new(2).with_timer(Some(timer.clone())));
        let listening = listener.listen().unwrap();
        let task = thread::spawn(move || {
            while !listening.rings().take(0) {
                match timer.timer().has_come() {
                    true => timer.wait(FAR + 1, true),
                    false => timer.timer().wait_for(),
                }
            }
        });
        let other = listener.clone();
        let other = thread::spawn(move || other.ring(1, FAR));
        listener.ring(0, 1);
        task.join().unwrap();
        other.join().unwrap();
    });
}
