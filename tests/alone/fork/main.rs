//! A fork: the child has the engines' memory and none of their threads. Nothing there may hang, and
//! nothing that it does may reach the parent.
#![cfg(unix)]

mod waits;

use std::future::{Future, pending};
use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use support::child::in_a_child;
use support::scaled;
use tickless::dispatch::{Full, Pool};
use tickless::future::{DelayQueue, SleepError};
use tickless::{
    Batch, BindError, Builder, Driver, Engine, GlobalReason, Handle, ManualClock, State, StopError,
    Task, TurnError,
};
use tickless_core::entry::{read, waiting};
use tickless_keyed::KeyedTimers;
use tickless_purgatory::{Operation, Purgatory};

const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const MS: Duration = Duration::from_millis(1);

/// That the engine fires, cancels and stops as ever.
#[track_caller]
fn assert_works(engine: &Engine) {
    let (sender, receiver) = mpsc::channel();
    engine.schedule_detached(MS, move || sender.send(7).unwrap()).expect("the engine runs");
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(7));
    assert!(engine.schedule(HOUR, || ()).expect("the engine runs").cancel());
}

fn drop_all(batch: Batch<'_, u64>) {
    batch.for_each(drop);
}

#[test]
fn a_childs_calls_are_refused_and_the_parents_engine_goes_on() {
    let engine = Engine::builder().shards(2).build().unwrap();
    assert_works(&engine);
    let pending = engine.schedule(HOUR, || ()).unwrap();
    let view = engine.view();
    in_a_child("scheduling", || {
        for _ in 0..3 {
            let refused = engine.schedule(MS, || panic!("it ran in the child")).unwrap_err();
            assert!(refused.is_stopped());
            assert!(engine.schedule_detached(HOUR, || ()).is_err());
        }
        assert_eq!(engine.bind_thread(1), Err(BindError::Forked));
        assert!(engine.schedule(HOUR, || ()).is_err());
    });
    in_a_child("stopping and turning", || {
        assert_eq!(engine.stop().err(), Some(StopError::Forked));
        assert_eq!(engine.turn(0).err(), Some(TurnError::Forked));
        assert_eq!(engine.stop().err(), Some(StopError::Forked), "each time");
    });
    in_a_child("looking on", || {
        assert_eq!(engine.len(), 1);
        assert_eq!(engine.stats().pending, 1);
        assert_eq!(engine.snapshot().len(), 1);
        assert!(!format!("{engine:?}").is_empty());
        assert!(view.stats().is_none(), "it belongs to the parent");
    });
    assert_works(&engine);
    assert_eq!(view.stats().map(|stats| stats.pending), Some(1));
    assert!(pending.cancel());
    assert!(engine.stop().unwrap().is_empty());
}

#[test]
fn a_thread_that_never_used_the_engine_is_refused_as_well() {
    let engine = Engine::builder().shards(1).build().unwrap();
    in_a_child("first contact", || assert!(engine.schedule(MS, || ()).is_err()));
    assert_works(&engine);
}

#[test]
fn an_engine_and_all_that_belongs_to_it_is_dropped_in_silence() {
    let engine = Engine::builder().shards(2).build().unwrap();
    let handles: Vec<Handle> = (0..100).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
    let mut both = (Some(engine.clone()), Some(handles));
    in_a_child("dropping handles, then engines", || {
        drop(both.1.take());
        drop(both.0.take());
    });
    in_a_child("dropping engines, then handles", || {
        drop(both.0.take());
        drop(both.1.take());
        // What the thread keeps of it goes when it uses another engine.
        let another = Engine::builder().shards(1).build().unwrap();
        assert_works(&another);
        another.stop().unwrap();
    });
    assert_works(&engine);
}

#[test]
fn the_last_clone_of_an_engine_is_dropped_in_silence() {
    let pool = Pool::<Task>::builder(Full::Block).threads(2).build().unwrap();
    let on_pool = Engine::builder().shards(2).build_with_handler(pool).unwrap();
    on_pool.schedule_detached(HOUR, || ()).unwrap();
    let driven = Builder::new().driver(Driver::Caller).build_with_handler(drop_all).unwrap();
    driven.schedule_detached(HOUR, 7).unwrap();
    let unused = Pool::<Task>::builder(Full::Block).threads(2).build().unwrap();
    let mut all = Some((on_pool, driven, unused));
    in_a_child("dropping", || drop(all.take()));
    let (on_pool, driven, ..) = all.as_ref().unwrap();
    assert_works(on_pool);
    assert_eq!(driven.stop().unwrap(), [7]);
}

/// A key whose comparisons stand still for as long as `STAYS` says.
struct Key(u32);

static STAYS: AtomicBool = AtomicBool::new(false);
static COMPARES: AtomicBool = AtomicBool::new(false);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        while STAYS.load(Ordering::Relaxed) {
            COMPARES.store(true, Ordering::Relaxed);
            thread::yield_now();
        }
        self.0 == other.0
    }
}

impl Eq for Key {}

struct Never;

impl Operation for Never {
    fn try_complete(&self) -> bool {
        false
    }
    fn on_complete(&self) {}
}

struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A thread of the parent compares keys, under a lock, while the child drops what has the lock.
fn assert_dropped_while_it_compares<D: Send + Sync>(of_keys: D, compare: impl Fn(&D) + Send) {
    COMPARES.store(false, Ordering::Relaxed);
    STAYS.store(true, Ordering::Relaxed);
    let of_keys: *mut D = Box::into_raw(Box::new(of_keys));
    // SAFETY: the parent drops it below, when nobody looks any more.
    let looks = unsafe { &*of_keys };
    thread::scope(|scope| {
        scope.spawn(move || compare(looks));
        while !COMPARES.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        // Also if the child fails.
        let _goes_on = Finally(|| STAYS.store(false, Ordering::Relaxed));
        // SAFETY: the child drops its own copy, where no other thread is.
        in_a_child("dropping", || drop(unsafe { Box::from_raw(of_keys) }));
    });
    // SAFETY: the thread has returned.
    drop(unsafe { Box::from_raw(of_keys) });
}

#[test]
fn what_has_locks_is_dropped_in_silence_though_one_was_held_at_the_fork() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let timers = KeyedTimers::with_engine(&engine);
    timers.schedule_keyed(Key(1), HOUR, || ()).unwrap();
    assert_dropped_while_it_compares(timers, |timers| _ = timers.cancel(&Key(1)));
    let purgatory = Purgatory::with_engine(&engine);
    purgatory.try_complete_else_watch(Never.into(), [Key(1)], HOUR).unwrap();
    assert_dropped_while_it_compares(purgatory, |purgatory| {
        _ = purgatory.check_and_complete(&Key(1));
    });
    assert_eq!(engine.len(), 0, "the parent's own are dropped as ever");
}

#[test]
fn a_map_in_a_child_is_read_and_takes_nothing() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let map = tickless_keyed::TtlMap::<u32, &str>::with_engine(&engine, |_, _| ());
    let timers = tickless_keyed::KeyedTimers::with_engine(&engine);
    timers.schedule_keyed(1, HOUR, || ()).unwrap();
    map.insert(1, "one", HOUR).unwrap();
    map.insert(2, "two", HOUR).unwrap();
    in_a_child("a map", || {
        assert_eq!((map.get(&1).as_deref(), map.len()), (Some(&"one"), 2));
        assert!(map.get_and_extend(&1, HOUR * 2).is_err() && map.insert(3, "three", HOUR).is_err());
        assert_eq!(map.remove(&1).as_deref(), Some(&"one"));
        assert!(map.deadline(&2).is_some() && !map.contains_key(&1));
        assert!(timers.reset(&1, HOUR * 2).is_err() && timers.cancel(&1));
    });
    assert_eq!((map.clear(), timers.cancel_all(), engine.len()), (2, 1, 0));
}

#[test]
fn handles_in_a_child_give_their_payload_back_and_move_nothing() {
    let engine = Engine::with_handler(drop_all).unwrap();
    let mut handles: Vec<Handle<u64>> = (0..4).map(|n| engine.schedule(HOUR, n).unwrap()).collect();
    in_a_child("cancelling", || {
        let mut moved = handles.remove(0);
        assert!(moved.reset(HOUR * 2).is_err());
        assert!(moved.reset(MS).is_err());
        assert_eq!(moved.state(), State::Pending);
        assert_eq!(moved.deadline(), None);
        assert!(handles.remove(0).cancel(), "it never will fire");
        assert_eq!(handles.remove(0).take(), Some(2));
        drop(handles.remove(0).cancel_on_drop());
    });
    assert_eq!(engine.len(), 4);
    assert!(handles.into_iter().all(Handle::cancel));
}

#[test]
fn an_engine_that_its_caller_drives_stays_with_the_parent() {
    let clock = ManualClock::new();
    let builder = Builder::new().manual_clock(&clock).shards(1);
    let engine = builder.build_with_handler(drop_all).unwrap();
    engine.schedule_detached(HOUR, 7).unwrap();
    let cx = &mut Context::from_waker(Waker::noop());
    let mut tasks = [(), ()].map(|()| Box::pin(engine.drive(|_| pending::<()>())));
    assert!(tasks[0].as_mut().poll(cx).is_pending());
    in_a_child("driving", || {
        for task in &mut tasks {
            assert_eq!(task.as_mut().poll(cx), Poll::Ready(Err(TurnError::Forked)));
        }
        assert_eq!(engine.advance(HOUR), Err(TurnError::Forked));
        assert_eq!(engine.turn(0).err(), Some(TurnError::Forked));
        assert_eq!(engine.stop().err(), Some(StopError::Forked));
    });
    assert_eq!(engine.advance(HOUR), Ok(1));
}

#[test]
fn a_child_has_a_global_engine_of_its_own() {
    let engine = Engine::global();
    assert_works(engine);
    let mut begun = tickless::sleep(HOUR);
    let mut unbegun = tickless::sleep(HOUR);
    poll(&mut begun);
    in_a_child("the global engine", || {
        let own = Engine::global();
        assert!(!std::ptr::eq(own, engine) && std::ptr::eq(own, Engine::global()));
        assert_works(own);
        pollster::block_on(tickless::sleep(MS));
        in_a_child("a grandchild's", || {
            assert!(!std::ptr::eq(own, Engine::global()));
            pollster::block_on(tickless::sleep(MS));
            assert!(own.schedule(MS, || ()).is_err());
        });
        assert_works(own);
    });
    in_a_child("sleeps of the parent", || {
        assert_eq!(pollster::block_on(begun.wait()), Err(SleepError::Stopped));
        assert_eq!(pollster::block_on(unbegun.wait()), Err(SleepError::Stopped));
        begun.reset(HOUR / 2);
        assert_eq!(pollster::block_on(begun.wait()), Err(SleepError::Stopped));
        assert_eq!(pollster::block_on(engine.sleep(HOUR).wait()), Err(SleepError::Stopped));
        let timeout = engine.timeout(HOUR, std::future::pending::<()>());
        let cause = pollster::block_on(timeout).unwrap_err().cause();
        assert_eq!(cause, Some(SleepError::Stopped));
    });
    assert!(std::ptr::eq(engine, Engine::global()));
    assert_works(engine);
    pollster::block_on(tickless::sleep(MS));
}

/// That runtime is the parent's, whose threads the child does not have.
#[test]
fn a_child_builds_no_engine_on_the_runtime_that_it_finds_itself_in() {
    let build =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = build().unwrap();
    let sleeps = async || tickless::sleep(MS).wait().await;
    let forks = async move {
        // Until its thread knows the runtime's engine.
        for _ in 0..10 {
            assert_eq!(sleeps().await, Ok(()));
            tokio::task::yield_now().await;
        }
        in_a_child("a runtime", || {
            assert_eq!(pollster::block_on(sleeps()), Ok(()));
            let own = move || {
                let own = build().unwrap();
                assert_eq!(own.block_on(sleeps()), Ok(()));
                let engine = own.block_on(async { Engine::of_runtime().unwrap() });
                own.block_on(engine.sleep(MS));
            };
            thread::spawn(own).join().unwrap();
        });
        assert_eq!(sleeps().await, Ok(()));
    };
    runtime.block_on(runtime.spawn(forks)).unwrap();
}

fn poll(sleep: &mut tickless::future::Sleep) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sleep.poll_elapsed(&mut context).is_pending());
}

#[test]
fn a_delay_queue_in_a_child_waits_for_nothing_and_keeps_its_items() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let mut queue = engine.delay_queue();
    let key = queue.insert('a', HOUR);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(queue.poll_expired(&mut context).is_pending());
    in_a_child("a queue of the parent", || {
        assert_eq!(pollster::block_on(queue.try_expired()), Err(SleepError::Stopped));
        queue.insert('b', HOUR / 2);
        assert_eq!(pollster::block_on(queue.try_expired()), Err(SleepError::Stopped));
        queue.insert_at('c', Instant::now() - MS);
        let expired = pollster::block_on(queue.try_expired()).unwrap().unwrap();
        assert_eq!(expired.into_inner(), 'c');
        assert!(queue.reset(key, MS));
        assert_eq!(queue.remove(key), Some('a'));
        queue.clear();
        let mut own = DelayQueue::new();
        own.insert('d', MS);
        assert_eq!(pollster::block_on(own.expired()).unwrap().into_inner(), 'd');
        drop(std::mem::replace(&mut queue, own));
    });
    assert_eq!((engine.len(), queue.remove(key)), (1, Some('a')));
    queue.insert('e', MS);
    assert_eq!(pollster::block_on(queue.expired()).unwrap().into_inner(), 'e');
}

#[test]
fn a_child_has_entered_nothing_and_can_set_an_engine_of_its_own() {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).build().unwrap();
    let entered = engine.enter();
    in_a_child("what was entered", || {
        pollster::block_on(tickless::sleep(MS));
        poll(&mut tickless::sleep(HOUR));
        assert!(Engine::global().stats().scheduled > 0, "the child's own");
    });
    in_a_child("an engine for the thread", || {
        let own = Engine::builder().manual_clock(&ManualClock::new()).build().unwrap();
        own.enter_thread();
        let mut sleep = tickless::sleep(HOUR);
        poll(&mut sleep);
        assert_eq!((own.len(), Engine::global().stats().scheduled), (1, 0));
    });
    in_a_child("an engine that is set", || {
        let refused = mem::ManuallyDrop::new(Engine::set_global(engine.clone()).unwrap_err());
        assert_eq!(refused.reason(), GlobalReason::Forked);
        Engine::set_global(Engine::builder().shards(1).build().unwrap()).unwrap();
        pollster::block_on(tickless::sleep(MS));
        poll(&mut tickless::sleep(HOUR));
        assert!(Engine::global().shards() == 1 && Engine::global().stats().scheduled > 0);
    });
    drop(entered);
    engine.enter_thread();
    in_a_child("the thread's engine", || pollster::block_on(tickless::sleep(MS)));
}

#[test]
fn a_child_that_is_made_by_a_task_can_end_there() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let same = engine.clone();
    let task = move || {
        in_a_child("in a task", || {
            assert!(same.schedule(MS, || ()).is_err());
            assert_eq!(same.stop().err(), Some(StopError::Forked));
            drop(same.clone());
        });
        sender.send(()).unwrap();
    };
    engine.schedule_detached(MS, task).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(()));
    assert_works(&engine);
}

/// The lock of the pool's queue may be held at the fork.
#[test]
fn a_child_that_is_made_by_a_task_on_a_pool_can_stop_engines_of_its_own() {
    let pool = Pool::builder(Full::Block).threads(1).build().unwrap();
    let (is_over, looks) = (Arc::new(AtomicBool::new(false)), pool.clone());
    let ends = is_over.clone();
    let looker = thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            let _ = looks.stats();
        }
    });
    let (sender, receiver) = mpsc::channel();
    let task = move || {
        for _ in 0..scaled(100) {
            in_a_child("a task on a pool", || {
                let engine = Engine::builder().shards(1).build().unwrap();
                assert!(engine.stop().unwrap().is_empty());
            });
        }
        sender.send(()).unwrap();
    };
    pool.submit(Task::new(task)).unwrap();
    receiver.recv().unwrap();
    is_over.store(true, Ordering::Relaxed);
    looker.join().unwrap();
}

/// The reader is a thread that the child does not have.
#[test]
fn a_child_frees_its_memory_though_a_thread_of_the_parent_was_reading() {
    const MANY: usize = 10_000;
    let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let reader = thread::spawn(move || {
        let _reader = read();
        begin.send(()).unwrap();
        let _ = released.recv();
    });
    begun.recv().unwrap();
    in_a_child("a child of a parent that reads", || {
        let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
        let engine = builder.build().unwrap();
        for _ in 0..5 {
            let handles: Vec<_> =
                (0..MANY).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
            assert_eq!(engine.advance(HOUR), Ok(MANY));
            drop(handles);
            assert_eq!(waiting(), 0, "batches wait for a reader");
        }
        in_a_child("a grandchild, while its parent reads", || {
            drop(read());
            assert_eq!(waiting(), 0);
        });
    });
    drop(release);
    reader.join().unwrap();
}

#[test]
fn children_made_while_other_threads_use_the_engine_hang_in_nothing() {
    let engine = Engine::builder().shards(2).build().unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let handles: Vec<Handle> =
                        (0..100).map(|n| engine.schedule(MS * n, || ()).unwrap()).collect();
                    handles.into_iter().for_each(|handle| _ = handle.cancel());
                }
            });
        }
        let mine: Vec<Handle> = (0..100).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
        for _ in 0..50 {
            let mut mine = mine.iter();
            in_a_child("among threads", || {
                assert!(engine.schedule(MS, || ()).is_err());
                assert!(mine.all(|handle| handle.state() == State::Pending));
                // SAFETY: the child alone drops its copy, and the process ends with it.
                drop(unsafe { std::ptr::read(&raw const engine) });
            });
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(mine.into_iter().all(Handle::cancel));
    });
    assert_works(&engine);
}
