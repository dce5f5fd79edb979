//! The keeper of wall-clock timers: waits until the first is due, and hands it to the engine.
//!
//! *Owner*: any thread enters, cancels and moves timers, under the lock. One thread, or whoever
//! sets a clock by hand, looks for what is due.
//!
//! A thread that makes another timer the first one rings after it has released the lock. The
//! sleeper reads the table under the lock and then sleeps; a ring that comes in between ends that
//! sleep at once (`os/alarm.rs`; without an alarm, an unpark does the same). So no timer is
//! overslept. The system's alarm goes by the wall clock: it follows when that is set. Without an
//! alarm, the sleeper looks at the clock every [`POLL`].
//!
//! *Invariant*: no foreign code runs under the lock.
//!
//! *Tested by*: `tests/wall.rs`, `tests/wall_races.rs`.

use std::io;
use std::time::{Duration, SystemTime};

use crate::dispatch::{Panics, Runs, Task};
use crate::engine::EngineRef;
use crate::os::Alarm;
use crate::sync::{Arc, JoinHandle, OnceLock, Quiet, QuietMutex, park, thread};

use super::WallTimer;
use super::table::{Item, Left, Repeat, Table};

/// How long the thread sleeps at most where the system does not tell when the clock was set.
const POLL: Duration = Duration::from_secs(1);

/// The timers, and what serves them.
pub(super) struct Keeper {
    table: QuietMutex<Table>,
    engine: EngineRef,
    /// What a clock by hand shows.
    by_hand: Option<QuietMutex<SystemTime>>,
    bell: OnceLock<Bell>,
}

/// How the thread is woken.
enum Bell {
    Alarm(Alarm),
    Thread(thread::Thread),
}

/// What a look has done.
pub(super) struct Look {
    pub(super) handed_over: usize,
    /// When the next timer is due.
    next: Option<SystemTime>,
    is_closed: bool,
}

/// The thread of a keeper.
pub(super) struct Thread(JoinHandle<()>);

/// A timer that was handed to the engine. It is exempt from the engine's limit: it is due, so it
/// has to be taken.
struct Due(Box<Handed>);

enum Handed {
    Once(Task),
    Repeat(Running),
}

/// A repeating task that was handed to the engine. Unless it comes back, its number is forgotten.
struct Running {
    keeper: Arc<Keeper>,
    number: u64,
    due: SystemTime,
    repeat: Option<Box<Repeat>>,
}

// === impl Keeper ===

impl Keeper {
    pub(super) fn new(engine: EngineRef, by_hand: Option<SystemTime>) -> Arc<Keeper> {
        let by_hand = by_hand.map(QuietMutex::new);
        let table = QuietMutex::new(Table::default());
        Arc::new(Keeper { table, engine, by_hand, bell: OnceLock::new() })
    }

    pub(super) fn table(&self) -> Quiet<'_, Table> {
        self.table.lock()
    }

    pub(super) fn now(&self) -> SystemTime {
        self.by_hand.as_ref().map_or_else(SystemTime::now, |clock| *clock.lock())
    }

    pub(super) fn set_now(&self, now: SystemTime) {
        self.by_hand.iter().for_each(|clock| *clock.lock() = now);
    }

    /// Enters a timer.
    ///
    /// # Errors
    /// The table is closed: returns the item.
    pub(super) fn enter(self: &Arc<Self>, time: SystemTime, item: Item) -> Result<WallTimer, Item> {
        let number = self.changing(|table| table.enter(time, item))?;
        Ok(WallTimer { keeper: self.clone(), number })
    }

    /// Moves a timer. Returns `false` if it does not wait.
    pub(super) fn reset(&self, number: u64, time: SystemTime) -> bool {
        self.changing(|table| table.reset(number, time))
    }

    /// Changes the table, and rings if another time comes first then.
    fn changing<R>(&self, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table();
        let before = table.first();
        let result = change(&mut table);
        let is_earlier = table.first().is_some_and(|first| before.is_none_or(|it| first < it));
        drop(table);
        if is_earlier {
            self.ring();
        }
        result
    }

    /// Makes the thread look again.
    pub(super) fn ring(&self) {
        match self.bell.get() {
            Some(Bell::Alarm(alarm)) => alarm.ring(),
            Some(Bell::Thread(thread)) => thread.unpark(),
            None => {}
        }
    }

    /// Hands what is due to the engine.
    pub(super) fn look(self: &Arc<Self>) -> Look {
        let mut handed_over = 0;
        loop {
            let now = self.now();
            let mut table = self.table();
            let Some(left) = table.take_due(now) else {
                let (next, is_closed) = (table.first(), table.is_closed());
                return Look { handed_over, next, is_closed };
            };
            drop(table);
            let task = Task::of(Due(Box::new(self.handed(left))));
            match self.engine.hand_over(task) {
                Ok(()) => handed_over += 1,
                Err(refused) => self.table().keep_refused(refused.into_payload()),
            }
        }
    }

    fn handed(self: &Arc<Self>, Left { number, due, item }: Left) -> Handed {
        match item {
            Item::Once(task) => Handed::Once(task),
            Item::Repeat(repeat) => {
                let keeper = self.clone();
                Handed::Repeat(Running { keeper, number, due, repeat: Some(repeat) })
            }
        }
    }

    /// Sleeps until `next` by the wall clock, or until rung.
    fn sleep(&self, next: Option<SystemTime>) {
        match self.bell.get().expect("it is there before the thread sleeps") {
            Bell::Alarm(alarm) => {
                alarm.sleep(next.map(|next| {
                    next.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
                }))
            }
            Bell::Thread(_) => {
                park(next.map(|next| {
                    next.duration_since(self.now()).unwrap_or(Duration::ZERO).min(POLL)
                }))
            }
        }
    }
}

// === impl Thread ===

impl Thread {
    /// Starts the thread of a keeper, with an alarm if the system has one.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(super) fn start(keeper: &Arc<Keeper>) -> io::Result<Thread> {
        Thread::start_with(keeper, Alarm::realtime().ok())
    }

    pub(super) fn start_with(keeper: &Arc<Keeper>, alarm: Option<Alarm>) -> io::Result<Thread> {
        let ours = keeper.clone();
        let run = move || {
            let parks = || Bell::Thread(thread::current());
            ours.bell.get_or_init(|| alarm.map_or_else(parks, Bell::Alarm));
            loop {
                let Look { next, is_closed, .. } = ours.look();
                if is_closed {
                    return;
                }
                ours.sleep(next);
            }
        };
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

// === impl Due, Running ===

impl Runs for Due {
    const IS_EXEMPT: bool = true;

    fn run(self) {
        match *self.0 {
            Handed::Once(task) => task.run(),
            Handed::Repeat(running) => running.run(),
        }
    }
}

impl Running {
    fn run(mut self) {
        let mut repeat = self.repeat.take().expect("it runs once");
        let mut panics = Panics::none();
        panics.run(|| (repeat.task)(self.due));
        // After the run, so that what has passed meanwhile is skipped.
        let after = self.keeper.now().max(self.due);
        let next = panics.run(|| (repeat.next)(after)).flatten();
        let item = Item::Repeat(repeat);
        let over = match next {
            Some(time) => {
                self.keeper.changing(|table| table.come_back(self.number, time, item)).err()
            }
            None => Some(item),
        };
        panics.drop(over);
        panics.go_on();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.keeper.table().finish(self.number);
    }
}
