//! The design before timing wheels: lists under a mutex, a heap of deadlines under another. What
//! is over stays in both until a purge goes through everything, once in so many ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tickless_purgatory::Operation;

use super::request::Request;
use super::{KEYS_EACH, Purgatory};
use crate::error::BenchError;
use crate::heap::Heap;

/// Ends between two purges.
const PURGE_INTERVAL: u64 = 1_000;

/// Lists, heap, and the thread of the heap.
#[derive(Debug)]
pub(crate) struct MutexPurge(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lists: Mutex<HashMap<u32, Vec<Arc<Waiting>>>>,
    heap: Heap<Arc<Waiting>>,
    ends: AtomicU64,
}

/// A request and whether it is over.
#[derive(Debug)]
pub(crate) struct Waiting {
    request: Arc<Request>,
    is_over: AtomicBool,
}

impl Purgatory for MutexPurge {
    const NAME: &'static str = "mutex-purge";
    const ABOUT: &'static str = "by hand: HashMap of Vecs and a heap, parking_lot mutexes; purges";

    type Ticket = Arc<Waiting>;

    fn start() -> Result<MutexPurge, BenchError> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let run = move || of_thread.heap.run(|waiting| of_thread.expire(&waiting));
        thread::Builder::new()
            .name(Self::NAME.to_owned())
            .spawn(run)
            .map_err(BenchError::setup(Self::NAME))?;
        Ok(MutexPurge(shared))
    }

    #[inline]
    fn watch(
        &self,
        request: Arc<Request>,
        keys: [u32; KEYS_EACH],
        timeout: Duration,
    ) -> Arc<Waiting> {
        let deadline = Instant::now() + timeout;
        let waiting = Arc::new(Waiting { request, is_over: AtomicBool::new(false) });
        if self.0.try_complete(&waiting) {
            return waiting;
        }
        let mut lists = self.0.lists.lock();
        for key in keys {
            lists.entry(key).or_default().push(waiting.clone());
        }
        drop(lists);
        if !self.0.try_complete(&waiting) {
            self.0.heap.push(deadline, waiting.clone());
        }
        waiting
    }

    #[inline]
    fn complete(&self, waiting: Arc<Waiting>) -> bool {
        self.0.end(&waiting, Request::on_complete)
    }

    fn kept(&self) -> usize {
        self.0.lists.lock().values().map(Vec::len).sum()
    }
}

// === impl Shared ===

impl Shared {
    fn try_complete(&self, waiting: &Waiting) -> bool {
        waiting.request.try_complete() && self.end(waiting, Request::on_complete)
    }

    fn expire(&self, waiting: &Waiting) {
        self.end(waiting, |request| {
            request.on_complete();
            request.on_expire();
        });
    }

    /// Ends a request and tells it, unless it is over.
    fn end(&self, waiting: &Waiting, tell: impl FnOnce(&Request)) -> bool {
        if waiting.is_over.swap(true, Ordering::AcqRel) {
            return false;
        }
        tell(&waiting.request);
        if (self.ends.fetch_add(1, Ordering::Relaxed) + 1) % PURGE_INTERVAL == 0 {
            self.purge();
        }
        true
    }

    /// Lets go of everything that is over.
    fn purge(&self) {
        let waits = |waiting: &Arc<Waiting>| !waiting.is_over.load(Ordering::Relaxed);
        self.lists.lock().retain(|_, list| {
            list.retain(waits);
            !list.is_empty()
        });
        self.heap.retain(waits);
    }
}

#[test]
fn a_purge_lets_go_of_what_is_over_and_of_nothing_else() {
    let purgatory = MutexPurge::start().unwrap();
    let hour = Duration::from_secs(3_600);
    let watch = |number| purgatory.watch(Arc::new(Request::new(number)), [1, 2, 3], hour);
    let stays = watch(0);
    for number in 1..PURGE_INTERVAL {
        assert!(purgatory.complete(watch(number)));
    }
    assert_eq!(purgatory.kept() as u64, PURGE_INTERVAL * KEYS_EACH as u64);
    assert!(purgatory.complete(watch(PURGE_INTERVAL)));
    assert_eq!(purgatory.kept(), KEYS_EACH);
    assert!(purgatory.complete(stays.clone()));
    assert!(!purgatory.complete(stays));
}
