//! The ordered map of the standard library.

use std::collections::BTreeMap;

/// By deadline, and by a number that no other has.
#[derive(Debug)]
pub(crate) struct Map {
    timers: BTreeMap<(u64, u64), u64>,
    next_number: u64,
}

impl super::Wheel for Map {
    const NAME: &'static str = "btreemap";
    const ABOUT: &'static str = "std::collections::BTreeMap";

    type Key = (u64, u64);

    fn start() -> Map {
        Map { timers: BTreeMap::new(), next_number: 0 }
    }

    #[inline]
    fn insert(&mut self, deadline_tick: u64, token: u64) -> (u64, u64) {
        let key = (deadline_tick, self.next_number);
        self.next_number += 1;
        self.timers.insert(key, token);
        key
    }

    #[inline]
    fn cancel(&mut self, key: (u64, u64)) -> bool {
        self.timers.remove(&key).is_some()
    }

    #[inline]
    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= now) {
            fire(first.remove());
        }
    }

    fn next_expiration(&mut self) -> Option<u64> {
        self.timers.first_key_value().map(|((deadline, _), _)| *deadline)
    }
}
