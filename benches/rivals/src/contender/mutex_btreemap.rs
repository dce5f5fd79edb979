//! What people write by hand when they cancel a lot: an ordered map in a mutex, a condition
//! variable, a thread. Cancelling takes the timer out at once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::sink;

/// How many timers the thread takes before it lets others at the map.
const BATCH: usize = 64;

/// A timer's place in the map: when it is due, and a number that no other has.
type Key = (Instant, u64);

/// The map and its thread.
#[derive(Debug)]
pub(crate) struct MutexBTreeMap(Arc<Shared>);

/// The map.
#[derive(Debug)]
pub(crate) struct MapProducer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    timers: Mutex<Timers>,
    earlier: Condvar,
}

#[derive(Debug, Default)]
struct Timers {
    map: BTreeMap<Key, u64>,
    next_number: u64,
}

impl Contender for MutexBTreeMap {
    const NAME: &'static str = "mutex-btreemap";
    const ABOUT: &'static str = "by hand: BTreeMap, parking_lot mutex and condvar; eager cancel";

    type Timer = Option<Key>;
    type Producer = MapProducer;

    fn start(_: Setup) -> Result<MutexBTreeMap, BenchError> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        thread::Builder::new()
            .name(Self::NAME.to_owned())
            .spawn(move || of_thread.run())
            .map_err(BenchError::setup(Self::NAME))?;
        Ok(MutexBTreeMap(shared))
    }

    fn producer(&self) -> MapProducer {
        MapProducer(self.0.clone())
    }
}

impl Producer for MapProducer {
    type Timer = Option<Key>;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut Option<Key>>, delay: Duration, token: u64) {
        let deadline = Instant::now() + delay;
        let mut timers = self.0.timers.lock();
        let is_earliest = timers.first().is_none_or(|first| deadline < first);
        let key = (deadline, timers.next_number);
        timers.next_number += 1;
        timers.map.insert(key, token);
        drop(timers);
        *timer.get_mut() = Some(key);
        if is_earliest {
            self.0.earlier.notify_one();
        }
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Option<Key>>) -> bool {
        let key = timer.get_mut().take();
        key.is_some_and(|key| self.0.timers.lock().map.remove(&key).is_some())
    }
}

// === impl Shared ===

impl Shared {
    /// Fires what is due, for ever. Tokens leave the lock before they fire.
    fn run(&self) {
        let mut due = Vec::with_capacity(BATCH);
        loop {
            let mut timers = self.timers.lock();
            let now = Instant::now();
            while due.len() < BATCH && timers.first().is_some_and(|first| first <= now) {
                due.extend(timers.map.pop_first());
            }
            if due.is_empty() {
                match timers.first() {
                    Some(deadline) => drop(self.earlier.wait_until(&mut timers, deadline)),
                    None => self.earlier.wait(&mut timers),
                }
                continue;
            }
            drop(timers);
            due.drain(..).for_each(|(_, token)| sink::fire(token));
        }
    }
}

// === impl Timers ===

impl Timers {
    fn first(&self) -> Option<Instant> {
        self.map.first_key_value().map(|((deadline, _), _)| *deadline)
    }
}
