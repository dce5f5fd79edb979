//! A cache whose entries live for a time of their own.
//!
//! The engine's payload is what it takes to find an entry: its key, and which of the values under
//! that key it was scheduled for. An entry that is replaced or removed takes its timer along.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tickless::{CancelOnDrop, Engine, Handle, ManualClock, ScheduleError, When};

type Key = &'static str;

/// Which value, of all that there ever were.
type Number = u64;

struct Entry {
    number: Number,
    value: String,
    /// Cancels the timer when the entry goes.
    _timer: CancelOnDrop<Handle<(Key, Number)>>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    last: Number,
}

struct Cache {
    engine: Engine<(Key, Number)>,
    entries: Arc<Mutex<Entries>>,
}

fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    fn new(clock: &ManualClock) -> Result<Cache, tickless::BuildError> {
        let entries = Arc::new(Mutex::new(Entries::default()));
        let of_engine = entries.clone();
        // Its time moves by hand, so that this takes none. A program says `Engine::each(..)?`.
        let builder = Engine::builder().manual_clock(clock);
        let engine = builder.build_each(move |(key, number)| {
            let mut entries = lock(&of_engine);
            // A timer that fires while its entry is being replaced finds another number.
            if entries.by_key.get(key).is_some_and(|entry| entry.number == number) {
                entries.by_key.remove(key);
            }
        })?;
        Ok(Cache { engine, entries })
    }

    fn insert(
        &self,
        key: Key,
        value: &str,
        ttl: Duration,
    ) -> Result<(), ScheduleError<(Key, Number)>> {
        let mut entries = lock(&self.entries);
        entries.last += 1;
        let number = entries.last;
        // Nobody minds an entry that lives a tenth longer, and it costs the engine less.
        let when = When::after(ttl).slack(ttl / 10);
        let timer = self.engine.schedule(when, (key, number))?.cancel_on_drop();
        entries.by_key.insert(key, Entry { number, value: value.to_owned(), _timer: timer });
        Ok(())
    }

    fn get(&self, key: Key) -> Option<String> {
        lock(&self.entries).by_key.get(key).map(|entry| entry.value.clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let minute = Duration::from_secs(60);
    let cache = Cache::new(&ManualClock::new())?;
    cache.insert("user", "Ada", 10 * minute)?;
    cache.insert("token", "1f3a", minute)?;
    cache.engine.advance(minute / 2)?;
    // Replaced: the old value's minute does not end the new one.
    cache.insert("token", "77b0", minute)?;
    assert_eq!(cache.engine.len(), 2, "its timer went with it");
    cache.engine.advance(minute - Duration::from_secs(1))?;
    assert_eq!(cache.get("token").as_deref(), Some("77b0"));

    cache.engine.advance(Duration::from_secs(8))?;
    assert_eq!(cache.get("token"), None);
    assert_eq!(cache.get("user").as_deref(), Some("Ada"));
    println!("the token has expired, and the user is still there");
    Ok(())
}
