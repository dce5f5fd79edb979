//! Wakers that panic: in `clone`, in `wake`, in `drop`. The sleep, its timer and the engine are as
//! good afterwards as before.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use support::hands::engine_by_hand;
use support::planned::{panic_as_planned, quietly};
use support::polling::{bell, poll};
use tickless::Engine;

const MS: Duration = Duration::from_millis(1);

/// A task whose wakers panic where they are told to.
#[derive(Default)]
struct Touchy {
    in_clone: AtomicBool,
    in_wake: AtomicBool,
    in_drop: AtomicBool,
    woken: AtomicU32,
    /// Wakers that live.
    live: AtomicI64,
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

fn panic_if(told: &AtomicBool) {
    if told.load(Ordering::SeqCst) {
        panic_as_planned();
    }
}

/// # Safety
/// `task` is a reference that is borrowed.
unsafe fn borrow(task: *const ()) -> ManuallyDrop<Arc<Touchy>> {
    // SAFETY: the caller says so.
    ManuallyDrop::new(unsafe { Arc::from_raw(task.cast()) })
}

/// # Safety
/// As a waker's vtable asks.
unsafe fn clone(task: *const ()) -> RawWaker {
    // SAFETY: the caller says so.
    let task = unsafe { borrow(task) };
    panic_if(&task.in_clone);
    task.live.fetch_add(1, Ordering::SeqCst);
    RawWaker::new(Arc::into_raw((*task).clone()).cast(), &VTABLE)
}

/// # Safety
/// As a waker's vtable asks.
unsafe fn wake(task: *const ()) {
    // SAFETY: the caller gives the reference away.
    let task: Arc<Touchy> = unsafe { Arc::from_raw(task.cast()) };
    task.live.fetch_sub(1, Ordering::SeqCst);
    panic_if(&task.in_wake);
    task.woken.fetch_add(1, Ordering::SeqCst);
}

/// # Safety
/// As a waker's vtable asks.
unsafe fn wake_by_ref(task: *const ()) {
    // SAFETY: the caller says so.
    unsafe { borrow(task) }.woken.fetch_add(1, Ordering::SeqCst);
}

/// # Safety
/// As a waker's vtable asks.
unsafe fn drop_waker(task: *const ()) {
    // SAFETY: the caller gives the reference away.
    let task: Arc<Touchy> = unsafe { Arc::from_raw(task.cast()) };
    task.live.fetch_sub(1, Ordering::SeqCst);
    panic_if(&task.in_drop);
}

fn touchy() -> (Arc<Touchy>, Waker) {
    quietly();
    let task = Arc::new(Touchy { live: AtomicI64::new(1), ..Touchy::default() });
    // SAFETY: the functions keep count of references as a waker asks.
    let waker = unsafe { Waker::new(Arc::into_raw(task.clone()).cast(), &VTABLE) };
    (task, waker)
}

/// Runs `f` with a switch on, in which it panics.
fn panics<R>(told: &AtomicBool, f: impl FnOnce() -> R) {
    told.store(true, Ordering::SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    told.store(false, Ordering::SeqCst);
}

fn assert_sound(engine: &Engine) {
    assert_eq!(engine.len(), 0);
    engine.check().unwrap();
}

#[test]
fn a_clone_that_panics_at_the_first_poll_schedules_nothing() {
    let (engine, (task, waker)) = (engine_by_hand(), touchy());
    let mut sleep = engine.sleep(MS);
    panics(&task.in_clone, || poll(&mut sleep, &waker));
    assert_eq!((engine.len(), task.live.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    engine.advance(MS).unwrap();
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
    assert_eq!(task.woken.load(Ordering::SeqCst), 1);
    assert_sound(&engine);
}

#[test]
fn a_clone_that_panics_at_a_later_poll_leaves_the_sleep_as_it_was() {
    let (engine, (task, waker), (other, others)) = (engine_by_hand(), touchy(), bell());
    for is_ready_later in [false, true] {
        let mut sleep = engine.sleep(MS);
        assert_eq!(poll(&mut sleep, &others), Poll::Pending);
        let before = other.woken();
        panics(&task.in_clone, || poll(&mut sleep, &waker));
        if is_ready_later {
            assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        }
        engine.advance(MS).unwrap();
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(()));
        assert_eq!(other.woken() - before, u32::from(!is_ready_later));
    }
    assert_eq!((task.live.load(Ordering::SeqCst), Arc::strong_count(&other)), (1, 2));
    assert_sound(&engine);
}

#[test]
fn a_wake_up_that_panics_is_counted_and_takes_nobody_else_down() {
    let (engine, (task, waker), (other, others)) = (engine_by_hand(), touchy(), bell());
    let mut sleeps = [(); 10].map(|()| engine.sleep(MS));
    for (n, sleep) in sleeps.iter_mut().enumerate() {
        let waker = if n % 2 == 0 { &waker } else { &others };
        assert_eq!(poll(sleep, waker), Poll::Pending);
    }
    task.in_wake.store(true, Ordering::SeqCst);
    assert_eq!(engine.advance(MS), Ok(10));
    task.in_wake.store(false, Ordering::SeqCst);
    assert_eq!((engine.stats().panicked, other.woken()), (5, 5));
    assert_eq!(task.live.load(Ordering::SeqCst), 1);
    for sleep in &mut sleeps {
        assert_eq!(poll(sleep, &waker), Poll::Ready(()));
        sleep.reset(MS);
        assert_eq!(poll(sleep, &waker), Poll::Pending);
    }
    assert_eq!(engine.advance(MS), Ok(10));
    assert_eq!(task.woken.load(Ordering::SeqCst), 10);
    assert_sound(&engine);
}

#[test]
fn the_drop_of_a_replaced_waker_that_panics_leaves_the_new_one_in_place() {
    let (engine, (task, waker), (other, others)) = (engine_by_hand(), touchy(), bell());
    let mut sleep = engine.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    panics(&task.in_drop, || poll(&mut sleep, &others));
    assert_eq!(task.live.load(Ordering::SeqCst), 1);
    engine.advance(MS).unwrap();
    assert_eq!((other.woken(), task.woken.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(poll(&mut sleep, &others), Poll::Ready(()));
    assert_sound(&engine);
}

#[test]
fn a_drop_that_panics_with_its_sleep_cancels_the_timer_all_the_same() {
    let (engine, (task, waker)) = (engine_by_hand(), touchy());
    let mut sleep = engine.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    panics(&task.in_drop, || drop(sleep));
    assert_eq!((engine.stats().cancelled, task.live.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(engine.advance(MS), Ok(0));
    assert_sound(&engine);
}

#[test]
fn a_wake_up_that_panics_while_an_engine_goes_ends_there() {
    let (engine, (task, waker)) = (engine_by_hand(), touchy());
    let mut sleep = engine.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    task.in_wake.store(true, Ordering::SeqCst);
    drop(engine);
    assert_eq!(task.live.load(Ordering::SeqCst), 1);
    drop(sleep);
}
