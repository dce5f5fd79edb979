//! Keys of the purgatory: any type, found by a borrowed form of it, under any hash, as often as
//! they come; and keys that panic wherever code of theirs runs.

use std::cell::Cell;
use std::error::Error;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::bad_hash::Hashes;
use crate::panicky::{Key, Panics};
use support::mpsc;
use support::operation::{End, Op};
use support::patience::PATIENCE;
use support::planned::{Planned, panic_as_planned, quietly};
use support::threads::spawn;
use tickless::{Engine, ManualClock};
use tickless_purgatory::{Arrival, Delayed, Purgatory, WatchError};

const HOUR: Duration = Duration::from_secs(3600);

fn engine() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

/// Lets an operation wait that cannot complete yet.
fn wait<K, S>(purgatory: &Purgatory<K, Op, S>, keys: impl IntoIterator<Item = K>) -> Arc<Op>
where
    K: Hash + Eq + Send + 'static,
    S: BuildHasher,
{
    let op = Op::new();
    let arrival = purgatory.try_complete_else_watch(op.clone(), keys, HOUR).unwrap();
    assert!(!arrival.is_completed());
    op
}

// === keys of every kind ===

#[test]
fn a_key_is_found_by_its_borrowed_form() {
    let purgatory = Purgatory::with_engine(&engine());
    let op = wait(&purgatory, ["a".to_owned(), "b".to_owned()]);
    op.allow();
    assert_eq!(purgatory.check_and_complete("c"), 0);
    assert_eq!(purgatory.check_and_complete("b"), 1);
    wait(&purgatory, ["a".to_owned()]);
    assert_eq!(purgatory.cancel_for_key("a").len(), 1);

    let purgatory = Purgatory::with_engine(&engine());
    let op = wait(&purgatory, [vec![1, 2], vec![]]);
    op.allow();
    assert_eq!(purgatory.check_and_complete(&[1][..]), 0);
    assert_eq!(purgatory.check_and_complete(&[1, 2][..]), 1);
}

#[test]
fn a_key_that_comes_twice_counts_twice_and_lets_go_twice() {
    let purgatory = Purgatory::with_engine(&engine());
    let op = wait(&purgatory, [1, 2, 1, 1]);
    let stats = purgatory.stats();
    assert_eq!((stats.delayed, stats.watched, stats.keys), (1, 4, 2));
    assert_eq!((purgatory.check_and_complete(&1), op.tries()), (0, 5));
    op.allow();
    assert_eq!((purgatory.check_and_complete(&1), op.tries()), (1, 6), "and then it is over");
    assert_eq!((purgatory.watched(), Arc::strong_count(&op)), (0, 1));
    wait(&purgatory, [1, 1]);
    assert_eq!(purgatory.cancel_for_key(&1).len(), 1, "each operation once");
    wait(&purgatory, [1, 1]);
    assert_eq!((purgatory.stop().len(), purgatory.stats().keys), (1, 0));
    purgatory.check();
}

#[test]
fn a_key_that_may_be_sent_and_not_shared_is_enough_for_a_purgatory_that_is_shared() {
    fn is_shared<T: Send + Sync + Clone + Debug>() {}
    type Unshared = Cell<u8>;
    is_shared::<Purgatory<Unshared, Op>>();
    is_shared::<Delayed<Unshared, Op>>();
    is_shared::<Arrival<Unshared, Op>>();
    fn is_error<T: Error + Send + Sync>() {}
    is_error::<WatchError<Op>>();
    assert_eq!(size_of::<Purgatory<Unshared, Op>>(), size_of::<usize>());
    assert_eq!(size_of::<Arrival<Unshared, Op>>(), size_of::<usize>());
}

#[test]
fn keys_that_collide_are_still_told_apart() {
    for few in [1, 2, 7] {
        let purgatory = Purgatory::with_hasher(&engine(), Hashes::Few(few));
        let ops: Vec<_> = (0..200).map(|n| wait(&purgatory, [n, (n + 1) % 200])).collect();
        assert_eq!(purgatory.stats().keys, 200);
        for (n, op) in ops.iter().enumerate() {
            op.allow();
            let checks = [(n + 2) % 200, n].map(|key| purgatory.check_and_complete(&key));
            assert_eq!((checks, op.end()), ([0, 1], End::Completed));
            purgatory.check();
        }
        assert_eq!((purgatory.stats().keys, purgatory.len()), (0, 0));
    }
}

// === keys that panic ===

/// A purgatory where two operations wait under keys that may be told to panic.
struct Rig {
    purgatory: Purgatory<Key, Op>,
    panics: Arc<Panics>,
    ops: [Arc<Op>; 2],
}

impl Rig {
    fn new() -> Rig {
        quietly();
        let purgatory = Purgatory::with_engine(&engine());
        let panics = Arc::new(Panics::default());
        let key = |number| Key { number, panics: panics.clone() };
        let ops = [[1, 2], [2, 3]].map(|numbers| wait(&purgatory, numbers.map(key)));
        Rig { purgatory, panics, ops }
    }

    fn key(&self, number: u32) -> Key {
        Key { number, panics: self.panics.clone() }
    }

    /// Runs something that panics as planned, and looks that nothing has changed.
    #[track_caller]
    fn changes_nothing<R>(&self, f: impl FnOnce() -> R) {
        let (before, timers) = (self.purgatory.stats(), self.purgatory.engine().len());
        let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it did not panic") };
        assert!(panic.is::<Planned>());
        self.purgatory.check();
        assert_eq!((self.purgatory.stats(), self.purgatory.engine().len()), (before, timers));
    }

    /// Looks that the operations are still found where they wait.
    fn ends_well(&self, panicked: u64) {
        let check = |number| self.purgatory.check_and_complete(&self.key(number));
        self.ops[0].allow();
        assert_eq!([3, 2, 1].map(check), [0, 1, 0]);
        self.ops[1].allow();
        assert_eq!([1, 2, 3].map(check), [0, 1, 0]);
        assert!(self.ops.iter().all(|op| Arc::strong_count(op) == 1));
        let stats = self.purgatory.stats();
        assert_eq!((stats.keys, stats.watched, stats.panicked), (0, 0, panicked));
        self.purgatory.check();
    }
}

#[test]
fn a_hash_or_a_comparison_that_panics_leaves_the_operation_waiting_nowhere() {
    for (hashes, comparisons) in [(1, 0), (2, 0), (4, 0), (0, 1), (0, 2)] {
        let rig = Rig::new();
        let op = Op::new();
        rig.panics.in_hash.store(hashes, Ordering::Relaxed);
        rig.panics.in_eq.store(comparisons, Ordering::Relaxed);
        rig.changes_nothing(|| {
            let keys = [9, 2, 1, 8].map(|number| rig.key(number));
            rig.purgatory.try_complete_else_watch(op.clone(), keys, HOUR)
        });
        assert_eq!((Arc::strong_count(&op), op.tries(), op.end()), (1, 1, End::Untold));
        rig.ends_well(0);
    }
}

#[test]
fn a_hash_or_a_comparison_that_panics_in_a_check_changes_nothing() {
    for count in [|panics: &Panics| &panics.in_hash, |panics: &Panics| &panics.in_eq]
        as [fn(&Panics) -> &AtomicU32; 2]
    {
        let rig = Rig::new();
        count(&rig.panics).store(1, Ordering::Relaxed);
        rig.changes_nothing(|| rig.purgatory.check_and_complete(&rig.key(2)));
        count(&rig.panics).store(1, Ordering::Relaxed);
        rig.changes_nothing(|| rig.purgatory.cancel_for_key(&rig.key(2)));
        rig.ends_well(0);
    }
}

#[test]
fn keys_that_stop_coming_with_a_panic_leave_the_operation_waiting_nowhere() {
    for after in 1..4 {
        let rig = Rig::new();
        let op = Op::new();
        rig.changes_nothing(|| {
            let keys = (0..4).map(|n| if n < after { rig.key(n) } else { panic_as_planned() });
            rig.purgatory.try_complete_else_watch(op.clone(), keys, HOUR)
        });
        assert_eq!((Arc::strong_count(&op), op.end()), (1, End::Untold));
        rig.ends_well(0);
    }
}

#[test]
fn an_operation_that_is_cancelled_before_its_keys_panic_is_cancelled_all_the_same() {
    let rig = Rig::new();
    let op = Op::new();
    let keys = (10..13).map(|n| {
        if n == 12 {
            assert_eq!(rig.purgatory.cancel_for_key(&rig.key(10)).len(), 1);
            panic_as_planned();
        }
        rig.key(n)
    });
    let register = || rig.purgatory.try_complete_else_watch(op.clone(), keys, HOUR);
    assert!(catch_unwind(AssertUnwindSafe(register)).is_err());
    assert_eq!((Arc::strong_count(&op), op.tries(), op.end()), (1, 1, End::Untold));
    assert_eq!((rig.purgatory.stats().cancelled, rig.purgatory.len()), (1, 2));
    rig.ends_well(0);
}

#[test]
fn a_key_that_panics_when_it_is_dropped_is_counted_and_keeps_nothing_from_being_let_go() {
    // The key that is known already, of one more operation; then one that nobody waits under.
    let rig = Rig::new();
    let op = Op::new();
    rig.panics.in_drop.store(1, Ordering::Relaxed);
    let arrival = rig.purgatory.try_complete_else_watch(op.clone(), [rig.key(2)], HOUR);
    assert!(!arrival.unwrap().is_completed());
    assert_eq!((rig.purgatory.stats().panicked, rig.purgatory.len()), (1, 3));
    op.allow();
    let key = rig.key(2);
    assert_eq!(rig.purgatory.check_and_complete(&key), 1);
    rig.ops[0].allow();
    rig.panics.in_drop.store(1, Ordering::Relaxed);
    assert_eq!(rig.purgatory.check_and_complete(&key), 1);
    assert_eq!(rig.purgatory.stats().panicked, 2, "key 1, which nobody waits under any more");
    assert_eq!((rig.ops[0].end(), Arc::strong_count(&rig.ops[0])), (End::Completed, 1));
    assert_eq!((rig.purgatory.stats().keys, rig.purgatory.watched()), (2, 2));
    rig.panics.in_drop.store(1, Ordering::Relaxed);
    assert_eq!(rig.purgatory.stop().len(), 1);
    let stats = rig.purgatory.stats();
    assert_eq!((stats.keys, stats.watched, stats.panicked), (0, 0, 3));
    rig.purgatory.check();
}

/// A key whose comparison panics, and which uses the purgatory when it is dropped: for nothing of
/// a user's but comparisons may a lock be held.
struct Curious {
    purgatory: Option<Purgatory<Curious, Op>>,
    drops: Arc<AtomicU32>,
}

impl Hash for Curious {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0_u32.hash(state);
    }
}

impl PartialEq for Curious {
    fn eq(&self, _: &Curious) -> bool {
        panic_as_planned()
    }
}

impl Eq for Curious {}

impl Drop for Curious {
    fn drop(&mut self) {
        if let Some(purgatory) = self.purgatory.take() {
            purgatory.check();
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_key_that_uses_the_purgatory_when_it_is_dropped_may_do_so_after_its_comparison_panicked() {
    quietly();
    let (done, is_done) = mpsc::channel();
    let user = spawn(move || {
        let purgatory = Purgatory::with_engine(&engine());
        let drops = Arc::new(AtomicU32::new(0));
        let key = |purgatory| Curious { purgatory, drops: drops.clone() };
        let op = wait(&purgatory, [key(None)]);
        let other = || wait(&purgatory, [key(Some(purgatory.clone()))]);
        assert!(catch_unwind(AssertUnwindSafe(other)).is_err());
        purgatory.check();
        assert_eq!((purgatory.len(), drops.load(Ordering::Relaxed)), (1, 1));
        drop(purgatory);
        assert_eq!(Arc::strong_count(&op), 1);
        done.send(()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(()));
    user.join().unwrap();
}
