//! Keys, tasks and what they panic with that all panic when they are dropped: each call does the
//! rest of its work, and one panic goes on.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::keyed_timers::by_hand;
use support::planned::{Planned, panic_as_planned, quietly};
use tickless_keyed::Scheduled;

const MS: Duration = Duration::from_millis(1);

/// Panics when it is dropped.
struct Bomb {
    _alive: Arc<()>,
}

/// A key of which each instance panics when it is dropped while it is armed.
struct Key {
    number: u32,
    is_armed: Arc<AtomicBool>,
    _alive: Arc<()>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_as_planned();
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if self.is_armed.load(Ordering::SeqCst) {
            panic_as_planned();
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// Keys, and how many things of a test are alive.
struct Rig {
    is_armed: Arc<AtomicBool>,
    alive: Arc<()>,
}

impl Rig {
    fn new() -> Rig {
        quietly();
        Rig { is_armed: Arc::default(), alive: Arc::default() }
    }

    fn key(&self, number: u32) -> Key {
        Key { number, is_armed: self.is_armed.clone(), _alive: self.alive.clone() }
    }

    /// A task that panics when it is dropped, with something that does so too; or when it runs.
    fn task(&self) -> impl FnOnce() + Send + 'static {
        let bomb = Bomb { _alive: self.alive.clone() };
        // Runs or not, it goes with a bomb.
        let captured = OnDrop(Some(bomb));
        move || drop(captured)
    }

    fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    fn disarm(&self) {
        self.is_armed.store(false, Ordering::SeqCst);
    }

    fn alive(&self) -> usize {
        Arc::strong_count(&self.alive) - 1
    }
}

/// Panics with a bomb when it is dropped.
struct OnDrop(Option<Bomb>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(bomb) = self.0.take() {
            resume_unwind(Box::new(bomb));
        }
    }
}

/// Runs `f`, which panics, with a bomb or as planned.
fn panics<R>(f: impl FnOnce() -> R) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it did not panic") };
    match panic.downcast::<Bomb>() {
        Ok(bomb) => assert!(catch_unwind(AssertUnwindSafe(|| drop(bomb))).is_err()),
        Err(panic) => assert!(panic.is::<Planned>()),
    }
}

#[test]
fn what_is_refused_goes_although_its_key_panics() {
    let (timers, engine) = by_hand::<Key>();
    let rig = Rig::new();
    timers.schedule_keyed(rig.key(1), MS, || ()).unwrap();
    let (other, alive) = (rig.key(1), rig.alive());
    let task = rig.task();
    rig.arm();
    panics(|| timers.schedule_if_absent(other, MS, task).is_ok());
    rig.disarm();
    assert_eq!((timers.len(), engine.len(), rig.alive()), (1, 1, alive - 1));
}

#[test]
fn all_are_cancelled_although_each_task_panics_with_a_bomb() {
    let (timers, engine) = by_hand::<Key>();
    let rig = Rig::new();
    for number in 0..10 {
        timers.schedule_keyed(rig.key(number), MS, rig.task()).unwrap();
    }
    panics(|| timers.retain(|key| key.number >= 7));
    assert_eq!((timers.len(), engine.len()), (3, 3));
    rig.arm();
    panics(|| timers.cancel_all());
    assert_eq!((timers.len(), engine.len()), (0, 0));
    assert_eq!(engine.advance(MS), Ok(0));
}

#[test]
fn with_the_last_clone_all_are_called_off_although_each_key_and_task_panics() {
    let (timers, engine) = by_hand::<Key>();
    let rig = Rig::new();
    for number in 0..10 {
        timers.schedule_keyed(rig.key(number), MS, rig.task()).unwrap();
    }
    rig.arm();
    drop(timers);
    assert_eq!((engine.len(), engine.advance(MS)), (0, Ok(0)));
}

#[test]
fn a_replaced_timer_goes_although_both_of_its_keys_panic() {
    for ends in [0, 1, 2] {
        let (timers, engine) = by_hand::<Key>();
        let rig = Rig::new();
        timers.schedule_keyed(rig.key(1), MS, || ()).unwrap();
        // From here on the table has one key, and the timer another.
        let replaced = timers.schedule_keyed(rig.key(1), MS, || ()).unwrap();
        assert_eq!(replaced, Scheduled::Replaced);
        let key = rig.key(1);
        rig.arm();
        match ends {
            0 => panics(|| timers.cancel(&key)),
            1 => panics(|| timers.take(&key).is_some()),
            _ => assert_eq!(engine.advance(MS), Ok(1)),
        }
        assert_eq!((timers.len(), engine.len(), rig.alive()), (0, 0, 1));
        assert_eq!(engine.stats().panicked, u64::from(ends == 2));
        rig.disarm();
    }
}

#[test]
fn a_task_that_panics_with_a_bomb_under_keys_that_panic_is_one_panic_to_the_engine() {
    let (timers, engine) = by_hand::<Key>();
    let rig = Rig::new();
    timers.schedule_keyed(rig.key(1), MS, || ()).unwrap();
    timers.schedule_keyed(rig.key(1), MS, rig.task()).unwrap();
    timers.schedule_keyed(rig.key(2), MS, rig.task()).unwrap();
    rig.arm();
    assert_eq!(engine.advance(MS), Ok(2));
    assert_eq!((engine.stats().panicked, timers.len()), (2, 0));
}

#[test]
fn a_task_that_is_replaced_goes_although_it_and_its_key_panic() {
    let (timers, engine) = by_hand::<Key>();
    let rig = Rig::new();
    for _ in 0..2 {
        timers.schedule_keyed(rig.key(1), MS, || ()).unwrap();
    }
    timers.schedule_keyed(rig.key(2), MS, rig.task()).unwrap();
    rig.arm();
    panics(|| timers.schedule_keyed(rig.key(2), 2 * MS, || ()));
    assert_eq!((timers.len(), engine.len()), (2, 2));
    engine.advance(2 * MS).unwrap();
    assert_eq!(engine.stats().panicked, 2, "by their keys");
}
