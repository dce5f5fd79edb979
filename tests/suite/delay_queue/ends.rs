//! Delay queues whose engine stops, goes, or has no room; whose wakers or items panic; and who may
//! have one.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use support::hands::engine_by_hand;
use support::planned::{panic_as_planned, quietly};
use support::polling::{bell, poll};
use support::queued::{ms, queued};
use tickless::future::{DelayQueue, SleepError};
use tickless::{Engine, ManualClock};

const HOUR: Duration = Duration::from_secs(3600);

type Polled<T> = Poll<Result<Option<T>, SleepError>>;

fn try_poll<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> Polled<T> {
    let polled = queue.poll_try_expired(&mut Context::from_waker(waker));
    polled.map_ok(|expired| expired.map(|expired| expired.into_inner()))
}

fn next<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> Poll<Option<T>> {
    let polled = Pin::new(queue).poll_next(&mut Context::from_waker(waker));
    polled.map(|expired| expired.map(|expired| expired.into_inner()))
}

/// What `f` panics with.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
    panic.downcast_ref::<String>().expect("a panic with a text").clone()
}

// === the engine ends ===

#[test]
fn a_stop_wakes_the_task_and_what_was_due_by_then_comes_out() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut queue = engine.delay_queue();
    let later = queue.insert('z', HOUR);
    assert_eq!(try_poll(&mut queue, &waker), Poll::Pending);
    queue.insert('a', ms(5));
    queue.insert('b', ms(6));
    engine.advance(ms(5)).unwrap();
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(Some('a'))));
    assert_eq!(try_poll(&mut queue, &waker), Poll::Pending);
    let before = bell.woken();
    engine.advance(ms(1)).unwrap();
    drop(engine.stop());
    assert_eq!(bell.woken(), before + 1);
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(Some('b'))));
    for _ in 0..3 {
        assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Err(SleepError::Stopped)));
        assert_eq!(next(&mut queue, &waker), Poll::Ready(None));
    }
    let text = "a delay queue cannot wait: the engine has stopped";
    assert_eq!(panic_of(|| queue.poll_expired(&mut Context::from_waker(&waker))), text);
    assert_eq!(panic_of(|| poll(&mut pin!(queue.expired()), &waker)), text);
    assert_eq!((queue.len(), queue.remove(later)), (1, Some('z')));
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(None)));
}

#[test]
fn a_task_that_waits_is_woken_by_the_stop_and_told() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut queue = engine.delay_queue();
    queue.insert('a', HOUR);
    assert_eq!(try_poll(&mut queue, &waker), Poll::Pending);
    // The tasks that a stop returns may be run.
    engine.stop().unwrap().into_iter().for_each(|task| task.run());
    assert_eq!(bell.woken(), 1);
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Err(SleepError::Stopped)));
    // An insert and a removal go on, and wake nobody who does not wait.
    let key = queue.insert_at('b', engine.now());
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(Some('b'))));
    assert!(!queue.contains(key));
    queue.clear();
    assert_eq!((try_poll(&mut queue, &waker), bell.woken()), (Poll::Ready(Ok(None)), 1));
}

#[test]
fn what_becomes_due_after_the_stop_comes_out_when_it_is_asked_for() {
    for is_gone in [false, true] {
        let (clock, (_, waker)) = (ManualClock::new(), bell());
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        let mut queue = engine.delay_queue();
        for delay in [5, 6, 100_000, 100_001] {
            queue.insert(delay, ms(delay));
        }
        assert_eq!(try_poll(&mut queue, &waker), Poll::Pending);
        drop(engine.stop());
        if is_gone {
            drop(engine);
            // The thread itself lets go of it.
            assert!(poll(&mut engine_by_hand().sleep(ms(1)), &waker).is_pending());
        }
        for due in [5, 6, 100_000, 100_001] {
            clock.advance(ms(due) - clock.elapsed() - ms(1));
            assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Err(SleepError::Stopped)));
            clock.advance(ms(1));
            assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(Some(due))));
        }
        assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(None)));
    }
}

#[test]
fn a_queue_whose_engine_is_gone_keeps_its_items() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut queue = engine.delay_queue();
    let begin = engine.now();
    let key = queue.insert('a', HOUR);
    assert_eq!(try_poll(&mut queue, &waker), Poll::Pending);
    drop(engine);
    assert_eq!(bell.woken(), 1);
    // The thread itself turns to another engine, and lets go of all that it had of this one.
    let another = engine_by_hand();
    assert!(poll(&mut another.sleep(ms(1)), &waker).is_pending());
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Err(SleepError::Stopped)));
    assert_eq!(queue.deadline(key), Some(begin + HOUR));
    // Nothing says when that would be due.
    let after = queue.insert('b', ms(1));
    assert_eq!(queue.deadline(after), None);
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Err(SleepError::Stopped)));
    queue.insert_at('c', begin);
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(Some('c'))));
    assert!(queue.reset(key, ms(1)) && queue.reset_at(key, begin));
    assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(Some('a'))));
    assert_eq!(queue.remove(after), Some('b'));
    assert_eq!(next(&mut queue, &waker), Poll::Ready(None));
}

#[test]
fn an_engine_is_never_full_for_a_queue() {
    let (_, waker) = bell();
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let lenient = builder.max_pending(1).build().unwrap();
    let _takes_the_room = lenient.schedule(HOUR, || ()).unwrap();
    let entered = lenient.enter();
    let mut other = DelayQueue::new();
    other.insert('b', ms(5));
    assert_eq!(try_poll(&mut other, &waker), Poll::Pending);
    assert_eq!(lenient.len(), 2, "a new queue is on the engine that was entered");
    drop((other, entered));
}

#[test]
fn a_dropped_queue_drops_its_items_cancels_its_timer_and_wakes_nobody() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let item = Rc::new(());
    for is_due in [false, true] {
        let mut queue = engine.delay_queue();
        for delay in [1, 1_000, 100_000] {
            queue.insert(item.clone(), ms(delay));
        }
        assert_eq!(try_poll(&mut queue, &waker), Poll::Pending);
        assert_eq!((engine.len(), Arc::strong_count(&bell)), (1, 3));
        if is_due {
            engine.advance(ms(1)).unwrap();
        }
        let before = bell.woken();
        drop(queue);
        assert_eq!((engine.len(), Rc::strong_count(&item), bell.woken()), (0, 1, before));
        assert_eq!(Arc::strong_count(&bell), 2, "the waker is let go");
    }
}

// === foreign code ===

/// A task that drops the queue, or polls it, as soon as it is woken.
struct Hasty {
    queue: Mutex<Option<DelayQueue<char>>>,
    polls: bool,
}

impl Wake for Hasty {
    fn wake(self: Arc<Hasty>) {
        let queue = self.queue.lock().unwrap().take();
        if let Some(mut queue) = queue.filter(|_| self.polls) {
            let polled = try_poll(&mut queue, &self.clone().into());
            assert_eq!(polled, Poll::Ready(Ok(Some('a'))));
            *self.queue.lock().unwrap() = Some(queue);
        }
    }
}

#[test]
fn a_queue_may_be_dropped_or_polled_by_its_own_wake_up() {
    for polls in [false, true] {
        let engine = engine_by_hand();
        let task = Arc::new(Hasty { queue: Mutex::new(None), polls });
        let mut queue = engine.delay_queue();
        queue.insert('a', ms(1));
        assert_eq!(try_poll(&mut queue, &task.clone().into()), Poll::Pending);
        *task.queue.lock().unwrap() = Some(queue);
        assert_eq!(engine.advance(ms(1)), Ok(1));
        assert_eq!(task.queue.lock().unwrap().is_some(), polls);
        assert_eq!((engine.stats().panicked, engine.len()), (0, 0));
    }
}

/// A task whose wakers panic while they are told to.
#[derive(Default)]
struct Touchy {
    is_told: AtomicBool,
    woken: AtomicU32,
}

impl Wake for Touchy {
    fn wake(self: Arc<Touchy>) {
        if self.is_told.load(Ordering::SeqCst) {
            panic_as_planned();
        }
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

/// An item that panics when it is dropped, if it is told to.
struct Fragile(Rc<Cell<u32>>);

impl Drop for Fragile {
    fn drop(&mut self) {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        if left == 1 {
            panic_as_planned();
        }
    }
}

#[test]
fn a_waker_that_panics_leaves_the_queue_as_good_as_before() {
    quietly();
    let engine = engine_by_hand();
    let task = Arc::new(Touchy::default());
    let waker: Waker = task.clone().into();
    type Act = fn(&mut DelayQueue<char>, tickless::local::Key);
    let acts: [Act; 4] = [
        |queue, _| _ = queue.insert_at('b', queue.deadline(queue.peek().unwrap()).unwrap() - HOUR),
        |queue, key| _ = queue.reset_at(key, queue.deadline(key).unwrap() - HOUR),
        |queue, key| _ = queue.remove(key),
        |queue, _| queue.clear(),
    ];
    for act in acts {
        let mut queue = engine.delay_queue();
        let key = queue.insert('a', ms(50));
        assert_eq!(try_poll(&mut queue, &waker), Poll::Pending);
        task.is_told.store(true, Ordering::SeqCst);
        let panicked = catch_unwind(AssertUnwindSafe(|| act(&mut queue, key)));
        assert!(panicked.is_err());
        task.is_told.store(false, Ordering::SeqCst);
        // What it holds comes out at its time, and what comes later wakes the task.
        let mut out = 0;
        queue.insert('c', ms(100));
        let held = queue.len();
        for _ in 0..10 {
            while let Poll::Ready(Ok(Some(_))) = try_poll(&mut queue, &waker) {
                out += 1;
            }
            let before = task.woken.load(Ordering::SeqCst);
            engine.advance(ms(10)).unwrap();
            let is_woken = task.woken.load(Ordering::SeqCst) > before;
            let next = queue.peek().and_then(|key| queue.deadline(key));
            assert_eq!(is_woken, next == Some(engine.now()));
        }
        assert_eq!(try_poll(&mut queue, &waker), Poll::Ready(Ok(Some('c'))));
        assert_eq!((out + 1, queue.len()), (held, 0));
    }
    assert_eq!(engine.len(), 0);
    engine.check().unwrap();
}

#[test]
fn an_item_that_panics_when_it_is_dropped_does_not_take_others_with_it() {
    quietly();
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let told = Rc::new(Cell::new(0));
    let mut queue = engine.delay_queue();
    for delay in 1..=5 {
        queue.insert(Fragile(told.clone()), ms(delay));
    }
    assert!(queue.poll_try_expired(&mut Context::from_waker(&waker)).is_pending());
    told.set(2);
    assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
    assert_eq!((queue.len(), bell.woken()), (3, 1));
    let polls =
        |queue: &mut DelayQueue<_>| queue.poll_expired(&mut Context::from_waker(&waker)).is_ready();
    assert!(!polls(&mut queue));
    let mut out = 0;
    for _ in 1..=5 {
        engine.advance(ms(1)).unwrap();
        out += u32::from(!queue.is_empty() && polls(&mut queue));
    }
    assert_eq!((out, queue.len()), (3, 0));
}

#[test]
fn items_that_call_back_when_they_are_dropped_find_others_out() {
    /// Removes another item when it is dropped.
    struct Remover(Rc<RefCell<Vec<u32>>>, u32);
    impl Drop for Remover {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }
    let engine = engine_by_hand();
    let dropped = Rc::new(RefCell::new(Vec::new()));
    let mut queue = engine.delay_queue();
    let keys: Vec<_> =
        (0..3).map(|n| queue.insert(Remover(dropped.clone(), n), ms(n.into()))).collect();
    drop(queue.remove(keys[1]));
    queue.clear();
    let mut order = dropped.take();
    order[1..].sort_unstable();
    assert_eq!(order, [1, 0, 2]);
}

// === who may have one ===

#[test]
fn a_queue_is_as_its_items_are() {
    fn assert_all<T: Send + Sync + Unpin + 'static>(_: &T) {}
    fn assert_unpin<T: Unpin>(_: &T) {}
    let engine = engine_by_hand();
    assert_all(&engine.delay_queue::<String>());
    assert_unpin(&engine.delay_queue::<std::marker::PhantomPinned>());
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&engine.delay_queue::<Cell<u32>>());
    // Items that are not `Send`, and that borrow.
    let (text, (_, waker)) = (String::from("borrowed"), bell());
    let mut queue = engine.delay_queue();
    queue.insert((Rc::new(1), text.as_str()), ms(1));
    assert_eq!(next(&mut queue, &waker), Poll::Pending);
    engine.advance(ms(1)).unwrap();
    assert_eq!(next(&mut queue, &waker), Poll::Ready(Some((Rc::new(1), "borrowed"))));
}

#[test]
fn what_was_awaited_and_dropped_loses_no_item() {
    let mut queued = queued();
    queued.queue.insert('a', ms(5));
    let (_, waker) = bell();
    for _ in 0..3 {
        let mut expired = pin!(queued.queue.expired());
        assert!(expired.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    queued.pass_to(5);
    assert_eq!(pollster::block_on(queued.queue.expired()).unwrap().into_inner(), 'a');
    assert!(pollster::block_on(queued.queue.expired()).is_none());
    assert!(format!("{:?}", queued.queue).starts_with("DelayQueue { len: 0, next: None"));
}
