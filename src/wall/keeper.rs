//! The keeper of wall-clock timers: waits until the first is due, and hands it to the engine.
//!
//! *Owner*: any thread enters, cancels and moves timers, under the lock. One thread, or the
//! caller that sets a clock by hand, looks for due timers.
//!
//! A thread that makes another timer the first one rings after it has released the lock. The
//! sleeper reads the table under the lock and then sleeps; a ring that comes in between ends that
//! sleep at once (`os/alarm.rs`; without an alarm, `doorbell/parker.rs`). So no timer is
//! overslept. The system's alarm goes by the wall clock: it follows when that is set. Without an
//! alarm, the sleeper looks at the clock every [`POLL`].
//!
//! *Invariant*: no foreign code runs under the lock.
//!
//! *Tested by*: here (without an alarm), `tests/suite/wall/timers.rs`, `tests/suite/wall/ends.rs`,
//! `tests/races/wall.rs`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::dispatch::{Panics, Process, Runs, Task, contained};
use crate::doorbell::Parker;
use crate::engine::EngineRef;
use crate::os::{AlarmFiles, block_signals};
use crate::sync::{Arc, JoinHandle, OnceLock, Quiet, QuietMutex, Record, thread};

use super::table::{DueTimer, Item, Repeat, Table};

/// How long the thread sleeps at most where the system does not tell when the clock was set.
const POLL: Duration = Duration::from_secs(1);

/// The timers, and what serves them.
pub(super) struct Keeper {
    /// In a child of this process, the lock may be held for ever, and there is no thread.
    pub(super) process: Process,
    // LOCK(WALL): stopper: run; worker: look; caller: new, changing, look, run, repeat,
    // wall/mod.rs::end, wall/mod.rs::cancel, wall/mod.rs::deadline, wall/mod.rs::is_over; through:
    // lock.
    table: QuietMutex<Table>,
    /// How many timers wait, and when the first is due, for those who look.
    record: Record<3>,
    engine: EngineRef,
    /// What a clock by hand shows.
    // LOCK(WALL-CLOCK): caller: now, set_now.
    by_hand: Option<QuietMutex<SystemTime>>,
    bell: OnceLock<Wakeup>,
}

/// The table under its lock. What others see of it is recorded when the lock is released.
pub(super) struct Locked<'a> {
    table: Quiet<'a, Table>,
    record: &'a Record<3>,
}

/// In place of the nanoseconds of a time: there is none.
const NO_TIME: u64 = u64::MAX;
/// A bit beside the nanoseconds: the time is before 1970.
const BEFORE: u64 = 1 << 32;

/// How the thread is woken.
enum Wakeup {
    Alarm(AlarmFiles),
    Ring(Parker),
}

/// What a look has done.
pub(super) struct Visit {
    pub(super) handed_over: usize,
    /// When the next timer is due.
    next: Option<SystemTime>,
    is_closed: bool,
}

/// The thread of a keeper.
pub(super) struct Thread(JoinHandle<()>);

/// The engine's task for a timer that is due. Its work is in the table until it begins.
struct DueTask {
    /// `None` once it runs.
    keeper: Option<Arc<Keeper>>,
    due_timer: DueTimer,
}

// === impl Locked ===

impl Deref for Locked<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let [secs, nanos] = words_of(self.table.first());
        self.record.write([self.table.len() as u64, secs, nanos]);
    }
}

/// A time as two words: seconds from 1970, and nanoseconds.
fn words_of(time: Option<SystemTime>) -> [u64; 2] {
    let Some(time) = time else { return [0, NO_TIME] };
    let (from, before) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after, 0),
        Err(earlier) => (earlier.duration(), BEFORE),
    };
    [from.as_secs(), before | u64::from(from.subsec_nanos())]
}

/// The time of which these are the words.
fn time_of([secs, nanos]: [u64; 2]) -> Option<SystemTime> {
    if nanos == NO_TIME {
        return None;
    }
    let from = Duration::new(secs, (nanos % BEFORE) as u32);
    if nanos < BEFORE { UNIX_EPOCH.checked_add(from) } else { UNIX_EPOCH.checked_sub(from) }
}

// === impl Keeper ===

impl Keeper {
    pub(super) fn new(engine: EngineRef, by_hand: Option<SystemTime>) -> Arc<Keeper> {
        let by_hand = by_hand.map(QuietMutex::new);
        let table = QuietMutex::new(Table::default());
        let keeper = Arc::new(Keeper {
            process: Process::current(),
            table,
            record: Record::default(),
            engine,
            by_hand,
            bell: OnceLock::new(),
        });
        drop(keeper.lock());
        keeper
    }

    /// The table.
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked { table: self.table.lock(), record: &self.record }
    }

    /// How many timers wait, and when the first is due.
    pub(super) fn waiting(&self) -> (usize, Option<SystemTime>) {
        let [len, secs, nanos] = self.record.read();
        (len as usize, time_of([secs, nanos]))
    }

    pub(super) fn now(&self) -> SystemTime {
        self.by_hand.as_ref().map_or_else(SystemTime::now, |clock| *clock.lock())
    }

    /// Returns `false` if the clock is the system's.
    pub(super) fn set_now(&self, now: SystemTime) -> bool {
        self.by_hand.iter().for_each(|clock| *clock.lock() = now);
        self.by_hand.is_some()
    }

    /// Enters a timer.
    ///
    /// # Errors
    /// The table is closed: returns the item.
    pub(super) fn enter(self: &Arc<Self>, time: SystemTime, item: Item) -> Result<u64, Item> {
        self.changing(|table| table.enter(time, item))
    }

    /// Moves a timer. Returns `false` if it does not wait.
    pub(super) fn reset(self: &Arc<Self>, number: u64, time: SystemTime) -> bool {
        self.changing(|table| table.reset(number, time))
    }

    /// Changes the table, and makes the thread look if another time comes first then. By hand there
    /// is no thread, and this looks itself.
    fn changing<R>(self: &Arc<Self>, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.lock();
        let before = table.first();
        let result = change(&mut table);
        let is_earlier = table.first().is_some_and(|first| before.is_none_or(|it| first < it));
        drop(table);
        match self.by_hand {
            Some(_) if is_earlier => _ = self.look(),
            None if is_earlier => self.ring(),
            _ => {}
        }
        result
    }

    /// Makes the thread look again.
    pub(super) fn ring(&self) {
        match self.bell.get() {
            Some(Wakeup::Alarm(alarm)) => alarm.ring(),
            Some(Wakeup::Ring(parker)) => parker.ring(),
            None => {}
        }
    }

    /// Hands what is due to the engine.
    pub(super) fn look(self: &Arc<Self>) -> Visit {
        let mut handed_over = 0;
        loop {
            let now = self.now();
            let mut table = self.lock();
            let is_closed = table.is_closed();
            let Some(due_timer) = table.take_due(now) else {
                return Visit { handed_over, next: table.first(), is_closed };
            };
            drop(table);
            let due = DueTask { keeper: Some(self.clone()), due_timer };
            match self.engine.schedule_at_once(Task::of(due)) {
                Ok(()) => handed_over += 1,
                Err(stopped) => {
                    // While it is out of its place, the drop of the engine's task leaves it alone.
                    self.lock().refuse(due_timer);
                    drop(stopped);
                }
            }
        }
    }

    /// Runs what was handed over, unless it was cancelled or moved meanwhile. With
    /// `runs` false, it was dropped by a handler: one task is gone with that, and one that repeats
    /// misses a run.
    fn run(self: &Arc<Self>, due_timer: DueTimer, runs: bool) {
        let begun = self.lock().begin_due(due_timer);
        match begun {
            Some((_, Item::Once(task))) if runs => task.run(),
            Some((due, Item::Repeat(repeat))) => self.repeat(due_timer.number, due, repeat, runs),
            _ => {}
        }
    }

    fn repeat(self: &Arc<Self>, number: u64, due: SystemTime, mut repeat: Box<Repeat>, runs: bool) {
        let mut panics = Panics::none();
        if runs {
            panics.run(|| (repeat.task)(due));
        }
        // After the run, so that what has passed meanwhile is skipped.
        let after = self.now().max(due);
        let next = panics.run(|| (repeat.next)(after)).flatten();
        let item = Item::Repeat(repeat);
        let over = match next {
            Some(time) => self.changing(|table| table.come_back(number, time, item)).err(),
            None => {
                self.lock().end(number);
                Some(item)
            }
        };
        panics.drop(over);
        panics.go_on();
    }

    /// Sleeps until `next` by the wall clock, or until rung.
    fn sleep(&self, next: Option<SystemTime>) {
        match self.bell.get().expect("it is there before the thread sleeps") {
            Wakeup::Alarm(alarm) => {
                alarm.sleep(next.map(|next| {
                    next.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
                }))
            }
            Wakeup::Ring(parker) => {
                parker.sleep(next.map(|next| {
                    next.duration_since(self.now()).unwrap_or(Duration::ZERO).min(POLL)
                }))
            }
        }
    }
}

// === impl Thread ===

impl Thread {
    /// Starts the thread of a keeper, with an alarm if there is one.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(super) fn start(keeper: &Arc<Keeper>, alarm: Option<AlarmFiles>) -> io::Result<Thread> {
        let ours = keeper.clone();
        let run = move || {
            let parks = || Wakeup::Ring(Parker::new());
            ours.bell.get_or_init(|| alarm.map_or_else(parks, Wakeup::Alarm));
            loop {
                let Visit { next, is_closed, .. } = ours.look();
                if is_closed {
                    return;
                }
                ours.sleep(next);
            }
        };
        let _blocked = block_signals();
        thread::Builder::new().name("tickless-wall".to_owned()).spawn(run).map(Thread)
    }

    /// Waits until the thread has ended, which was told to, unless this is that thread.
    pub(super) fn end(self) {
        if self.0.thread().id() != thread::current().id() {
            // It runs nothing that could panic.
            let _ = self.0.join();
        }
    }
}

// === impl DueTask ===

impl Runs for DueTask {
    fn run(mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.run(self.due_timer, true);
        }
    }
}

impl Drop for DueTask {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // Panics are those of foreign code, and this may be in the middle of another.
            contained(|| keeper.run(self.due_timer, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::sync::mpsc;

    #[test]
    fn without_an_alarm_the_thread_is_rung_for_an_earlier_timer() {
        let engine = Engine::new().unwrap();
        let keeper = Keeper::new(EngineRef::new(&engine), None);
        let thread = Thread::start(&keeper, None).unwrap();
        let (sender, ran) = mpsc::channel();
        for (what, after) in [(1, Duration::from_secs(3600)), (2, Duration::from_millis(2))] {
            let (sender, due) = (sender.clone(), SystemTime::now() + after);
            let task = Task::new(move || sender.send((what, SystemTime::now() >= due)).unwrap());
            assert!(keeper.enter(due, Item::Once(task)).is_ok());
        }
        assert_eq!(ran.recv(), Ok((2, true)));
        keeper.lock().close();
        keeper.ring();
        thread.end();
        let left = keeper.lock().take_left(true);
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn a_time_is_the_same_as_two_words() {
        let second = Duration::from_secs(1);
        let nanosecond = Duration::from_nanos(1);
        let times = [
            UNIX_EPOCH,
            UNIX_EPOCH + nanosecond,
            UNIX_EPOCH - nanosecond,
            UNIX_EPOCH - second,
            UNIX_EPOCH + second * 1_700_000_000 + nanosecond * 999_999_999,
        ];
        for time in times.map(Some).into_iter().chain([None]) {
            assert_eq!(time_of(words_of(time)), time);
        }
    }
}
