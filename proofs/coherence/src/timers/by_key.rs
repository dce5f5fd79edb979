//! Timers under keys for the contenders that have none: a map in as many parts as ours, each under
//! its lock, from keys to handles.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use tickless_sync::{CachePadded, Mutex};

use super::{KeyedTimers, Setup, Timers};

/// What ours has on a machine with two CPUs.
const PARTS: usize = 64;

type Fixed = BuildHasherDefault<DefaultHasher>;
type Part<H> = CachePadded<Mutex<HashMap<u64, H, Fixed>>>;

pub(crate) struct ByKey<T: Timers> {
    timers: T,
    parts: Box<[Part<T::Handle>]>,
}

impl<T: Timers> KeyedTimers for ByKey<T> {
    fn new(setup: Setup) -> ByKey<T> {
        let part = |_| CachePadded::new(Mutex::new(HashMap::default()));
        ByKey { timers: T::new(setup), parts: (0..PARTS).map(part).collect() }
    }

    fn begin(&self, worker: usize) {
        self.timers.begin(worker);
    }

    fn schedule(&self, worker: usize, key: u64, delay: Duration) {
        let handle = self.timers.schedule(worker, delay);
        let mut part = self.part(key).lock().expect("nothing panics under this lock");
        part.insert(key, handle);
    }

    fn cancel(&self, key: u64) {
        let mut part = self.part(key).lock().expect("nothing panics under this lock");
        let handle = part.remove(&key).expect("it waits");
        drop(part);
        self.timers.cancel(handle);
    }
}

impl<T: Timers> ByKey<T> {
    fn part(&self, key: u64) -> &Part<T::Handle> {
        &self.parts[(Fixed::default().hash_one(key) >> 32) as usize % PARTS]
    }
}
