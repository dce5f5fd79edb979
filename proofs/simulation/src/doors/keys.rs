//! Timers and values under keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use tickless::ScheduleReason;
use tickless_keyed::{IfAbsentReason, ResetError};

use super::case::Deed;
use super::stage::Stage;
use super::world::{Token, What, lock};
use models::engine_model::case::At;

/// What waits under each key: its number, and when it is due.
#[derive(Default)]
pub(crate) struct Keys(Mutex<BTreeMap<u8, (usize, u64)>>);

impl Keys {
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }

    fn get(&self, key: u8) -> Option<(usize, u64)> {
        lock(&self.0).get(&key).copied()
    }

    fn put(&self, key: u8, number: usize, at_ns: u64) -> Option<usize> {
        lock(&self.0).insert(key, (number, at_ns)).map(|(number, _)| number)
    }

    fn take(&self, key: u8) -> Option<usize> {
        lock(&self.0).remove(&key).map(|(number, _)| number)
    }
}

impl Stage {
    fn keyed_task(
        self: &Arc<Stage>,
        key: u8,
        number: usize,
        deed: Deed,
    ) -> impl FnOnce() + Send + 'static {
        let (stage, task) = (Arc::downgrade(self), self.task(number, deed));
        move || {
            let stage = stage.upgrade().expect("tasks run while there is a stage");
            let found = stage.keys.take(key);
            let message = || format!("{number} runs under {key}, where {found:?} waits");
            stage.world.expect(found == Some(number), message);
            task();
        }
    }

    pub(super) fn keyed(self: &Arc<Stage>, key: u8, at: At, if_absent: bool, deed: Deed) {
        let (world, number) = (&self.world, self.world.add(What::Keyed));
        let (at_ns, delay) = world.after(at);
        let task = self.keyed_task(key, number, deed);
        let before = self.keys.get(key);
        let refused = match if_absent {
            true => self.keyed.schedule_if_absent(key, delay, task).err().map(|it| it.reason()),
            false => {
                self.keyed.schedule_keyed(key, delay, task).err().map(|it| match it.reason() {
                    ScheduleReason::Full => IfAbsentReason::Full,
                    _ => IfAbsentReason::Stopped,
                })
            }
        };
        match refused {
            None => {
                world.expect(!if_absent || before.is_none(), || format!("{key} is taken"));
                self.expect_accepted();
                if let Some(before) = self.keys.put(key, number, at_ns) {
                    world.ended(before, true);
                }
                world.file(number, at_ns);
            }
            Some(IfAbsentReason::Occupied) => {
                world.expect(if_absent && before.is_some(), || format!("{key} is free"));
            }
            Some(IfAbsentReason::Full) => self.expect_reason(ScheduleReason::Full),
            Some(_) => self.expect_reason(ScheduleReason::Stopped),
        }
    }

    pub(super) fn keyed_cancel(&self, key: u8, takes: bool) {
        let waits = self.keys.take(key);
        let done = if takes { self.keyed.take(&key).is_some() } else { self.keyed.cancel(&key) };
        self.world.expect(done == waits.is_some(), || format!("cancelled under {key}: {done}"));
        if let Some(number) = waits {
            self.world.ended(number, true);
        }
    }

    pub(super) fn keyed_reset(&self, key: u8, at: At) {
        let (at_ns, delay) = self.world.after(at);
        let waits = self.keys.get(key).map(|(number, _)| number);
        match self.keyed.reset(&key, delay) {
            Ok(()) => {
                let number = waits.expect("it was moved, so it waits");
                self.keys.put(key, number, at_ns);
                self.world.file(number, at_ns);
            }
            Err(ResetError::Absent) => assert_eq!(waits, None, "it waits under {key}"),
            Err(ResetError::Full) => self.expect_reason(ScheduleReason::Full),
            Err(_) => self.expect_reason(ScheduleReason::Stopped),
        }
    }

    pub(super) fn keyed_retain(&self, divisor: u8) {
        let mut gone: Vec<u8> = lock(&self.keys.0).keys().copied().collect();
        gone.retain(|key| key % divisor == 0);
        assert_eq!(self.keyed.retain(|key| key % divisor != 0), gone.len());
        for key in gone {
            let number = self.keys.take(key).expect("it was there");
            self.world.ended(number, true);
        }
    }

    /// What the map of values calls.
    pub(super) fn expiry(stage: &Weak<Stage>) -> impl Fn(&u8, Arc<Token>) + Send + Sync + 'static {
        let stage = stage.clone();
        move |key, value| {
            let stage = stage.upgrade().expect("tasks run while there is a stage");
            let found = stage.entry_keys.take(*key);
            let number = value.number;
            let message = || format!("{number} expires under {key}, where {found:?} is");
            stage.world.expect(found == Some(number), message);
            stage.world.fire(number);
        }
    }

    pub(super) fn entry(&self, key: u8, at: At) {
        let (world, number) = (&self.world, self.world.add(What::Entry));
        let (at_ns, delay) = world.after(at);
        let token = Arc::new(world.token(number));
        match self.entries.insert(key, token, delay) {
            Ok(before) => {
                self.expect_accepted();
                let replaced = self.entry_keys.put(key, number, at_ns);
                assert_eq!(before.map(|token| token.number), replaced);
                if let Some(replaced) = replaced {
                    world.ended(replaced, true);
                }
                world.file(number, at_ns);
            }
            Err(error) => self.expect_reason(error.reason()),
        }
    }

    pub(super) fn entry_get(&self, key: u8, extends: Option<At>) {
        // The engine may be late: an entry is not found any more when its time has come.
        let lives = self.entry_keys.get(key).filter(|&(_, at_ns)| self.lives(at_ns));
        let expected = lives.map(|(number, _)| number);
        let Some(at) = extends else {
            let found = self.entries.get(&key).map(|value| value.number);
            // A stop takes the entries out when the returned tasks are dropped.
            return assert_eq!(found, expected, "under {key}");
        };
        let (at_ns, delay) = self.world.after(at);
        match self.entries.get_and_extend(&key, delay) {
            Ok(value) => {
                assert_eq!(Some(value.number), expected, "under {key}");
                self.entry_keys.put(key, value.number, at_ns);
                self.world.file(value.number, at_ns);
            }
            Err(ResetError::Absent) => assert_eq!(expected, None, "under {key}"),
            Err(ResetError::Full) => self.expect_reason(ScheduleReason::Full),
            Err(_) => self.expect_reason(ScheduleReason::Stopped),
        }
    }

    pub(super) fn entry_remove(&self, key: u8) {
        let lives = self.entry_keys.get(key).filter(|&(_, at_ns)| self.lives(at_ns));
        let removed = self.entries.remove(&key).map(|value| value.number);
        assert_eq!(removed, lives.map(|(number, _)| number), "removed under {key}");
        if let Some(number) = removed {
            self.entry_keys.take(key);
            self.world.ended(number, true);
        }
    }

    /// Whether an entry that is due at `at_ns` is found now: until its tick begins.
    fn lives(&self, at_ns: u64) -> bool {
        self.world.ceil(at_ns) > self.world.now()
    }
}
