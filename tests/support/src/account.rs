//! An account book of payloads: each item that was made meets one fate, never before its time,
//! and is dropped once.
//!
//! Run, cancelled, returned by `stop`, refused in an error, or dropped with its engine: when the
//! book is closed the sums add up to the items made, or the test fails. That a cancelled payload
//! is dropped inside `cancel`, on the canceller's thread, is part of every cancel made here.
//! The lines are those of `ledger.rs`, in nanoseconds of the book's clock.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickless::{Batch, Engine, Handle, ManualClock, ResetError, ScheduleError, State, Stats};

use crate::ledger::Ledger;

pub use crate::ledger::Fate;

/// Items and what became of them.
#[derive(Clone, Debug)]
pub struct Book(Arc<Page>);

#[derive(Debug)]
struct Page {
    start: Instant,
    clock: Option<ManualClock>,
    ledger: Ledger,
}

/// A payload that is accounted for.
pub struct Item {
    book: Book,
    number: usize,
}

/// A handle of an item's timer.
#[derive(Debug)]
pub struct Timer {
    book: Book,
    number: usize,
    /// Gone once the item came back from a reset.
    handle: Option<Handle<Item>>,
}

/// How many items met which fate. One that is dropped before it met any went with its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub made: u64,
    pub ran: u64,
    pub cancelled: u64,
    pub returned: u64,
    pub refused: u64,
    /// Without any other fate.
    pub dropped: u64,
}

thread_local! {
    /// How many items were dropped by the cancel that this thread is inside of, if it is.
    static CANCELLING: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Runs each item.
pub fn run_all(batch: Batch<'_, Item>) {
    batch.for_each(|item| item.run());
}

// === impl Book ===

impl Book {
    /// Room for `most` items, which are due by the system's clock.
    pub fn new(most: u64) -> Book {
        Book::on(None, most)
    }

    /// Room for `most` items, which are due by a clock that is moved by hand.
    pub fn by_hand(clock: &ManualClock, most: u64) -> Book {
        Book::on(Some(clock.clone()), most)
    }

    fn on(clock: Option<ManualClock>, most: u64) -> Book {
        Book(Arc::new(Page { start: Instant::now(), clock, ledger: Ledger::new(most as usize) }))
    }

    /// An item that is due `delay` from now.
    pub fn item(&self, delay: Duration) -> Item {
        Item { book: self.clone(), number: self.0.ledger.open(self.ns_after(delay)) }
    }

    /// Makes an item and schedules it. A refused one is in the book as such.
    pub fn schedule(
        &self,
        engine: &Engine<Item>,
        delay: Duration,
    ) -> Result<Timer, ScheduleError<()>> {
        self.schedule_by(delay, |item| engine.schedule(delay, item))
    }

    /// As `schedule`, by a call that does not let the timer fire before `delay` has passed.
    pub fn schedule_by(
        &self,
        delay: Duration,
        schedule: impl FnOnce(Item) -> Result<Handle<Item>, ScheduleError<Item>>,
    ) -> Result<Timer, ScheduleError<()>> {
        let item = self.item(delay);
        let number = item.number;
        let handle = schedule(item).map_err(refused)?;
        Ok(Timer { book: self.clone(), number, handle: Some(handle) })
    }

    /// As `schedule`, without a handle.
    pub fn schedule_detached(
        &self,
        engine: &Engine<Item>,
        delay: Duration,
    ) -> Result<(), ScheduleError<()>> {
        engine.schedule_detached(delay, self.item(delay)).map_err(refused)
    }

    /// Stops the engine, and answers how many items it returned.
    pub fn stop(&self, engine: &Engine<Item>) -> u64 {
        let returned = engine.stop().unwrap();
        returned.into_iter().map(|item| item.meets(Fate::Returned)).count() as u64
    }

    /// Adds up what became of the items, once nobody has any.
    ///
    /// # Panics
    /// An item was lost, met two fates, ran early, or was dropped twice.
    pub fn close(&self) -> Sums {
        let offences = self.0.ledger.offences();
        let some: Vec<&String> = offences.iter().take(10).collect();
        assert!(some.is_empty(), "{} offences: {some:#?}", offences.len());
        let made = self.0.ledger.opened();
        let mut sums = Sums { made: made as u64, ..Sums::default() };
        for number in 0..made {
            *match self.0.ledger.fate(number) {
                None => &mut sums.dropped,
                Some(Fate::Ran(_)) => &mut sums.ran,
                Some(Fate::Cancelled) => &mut sums.cancelled,
                Some(Fate::Returned) => &mut sums.returned,
                Some(Fate::Refused) => &mut sums.refused,
            } += 1;
        }
        sums
    }

    /// `delay` from now on the book's clock.
    fn ns_after(&self, delay: Duration) -> u64 {
        self.now_ns().saturating_add(delay.as_nanos().try_into().unwrap_or(u64::MAX))
    }

    fn now_ns(&self) -> u64 {
        let Page { start, clock, .. } = &*self.0;
        clock.as_ref().map_or_else(|| start.elapsed(), ManualClock::elapsed).as_nanos() as u64
    }
}

fn refused(error: ScheduleError<Item>) -> ScheduleError<()> {
    error.map(|item| item.meets(Fate::Refused))
}

// === impl Item ===

impl Item {
    /// The item is handed over, not before its time.
    pub fn run(&self) {
        self.book.0.ledger.meets(self.number, Fate::Ran(self.book.now_ns()));
    }

    /// The item came back.
    pub fn meets(self, fate: Fate) {
        self.book.0.ledger.meets(self.number, fate);
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.book.0.ledger.dropped(self.number);
        if let Some(dropped) = CANCELLING.get() {
            CANCELLING.set(Some(dropped + 1));
            self.book.0.ledger.meets(self.number, Fate::Cancelled);
        }
    }
}

// === impl Timer ===

impl Timer {
    /// Cancels, and looks that the item is dropped in here or not at all, as the answer says.
    pub fn cancel(self) -> bool {
        CANCELLING.set(Some(0));
        let is_cancelled = self.handle.is_some_and(Handle::cancel);
        let dropped = CANCELLING.take().expect("nobody else cancels in here");
        assert_eq!(dropped, u32::from(is_cancelled), "items dropped by one cancel");
        is_cancelled
    }

    /// What the timer is; one whose item came back was stopped.
    pub fn state(&self) -> State {
        self.handle.as_ref().map_or(State::Stopped, Handle::state)
    }

    /// Cancels and takes the item back.
    pub fn take(self) -> bool {
        let item = self.handle.and_then(Handle::take);
        item.map(|item| item.meets(Fate::Cancelled)).is_some()
    }

    /// Resets. Until it is known which of its two times counts, the item is due at the earlier.
    /// `false`: the timer is gone, and if it came back, that is in the book.
    pub fn reset(&mut self, delay: Duration) -> bool {
        let ledger = &self.book.0.ledger;
        let at_ns = self.book.ns_after(delay);
        ledger.hastened(self.number, at_ns);
        let Some(handle) = &mut self.handle else { return false };
        match handle.reset(delay) {
            Ok(()) => {
                ledger.moved(self.number, at_ns);
                true
            }
            Err(ResetError::Stopped) => {
                // The stop may have left the item in the handle.
                if let Some(item) = self.handle.take().and_then(Handle::take) {
                    item.meets(Fate::Returned);
                }
                false
            }
            Err(_) => false,
        }
    }
}

// === impl Sums ===

impl Sums {
    /// Asserts that an engine that has stopped has counted the same.
    pub fn agree_with(&self, stats: Stats) {
        let Sums { made, ran, cancelled, returned, refused, dropped } = *self;
        assert_eq!(made, ran + cancelled + returned + refused + dropped, "{self:?}");
        let counted = (stats.scheduled, stats.fired, stats.cancelled, stats.returned);
        let booked = (made - refused, ran, cancelled, returned + dropped);
        assert_eq!(counted, booked, "scheduled, fired, cancelled, returned");
        assert_eq!(stats.pending, 0);
    }
}

#[test]
fn a_book_is_not_closed_over_an_item_that_was_lost_doubled_or_early() {
    let zero = Duration::ZERO;
    let offends = |delay: Duration, deed: fn(Item) -> Option<Item>| {
        let book = Book::new(1);
        let _kept = deed(book.item(delay));
        !book.0.ledger.offences().is_empty()
    };
    let run = |item: Item| {
        item.run();
        None
    };
    assert!(!offends(zero, run), "all is well");
    assert!(offends(zero, Some), "lost: somebody still has it");
    assert!(offends(Duration::from_secs(3600), run), "early");
    assert!(offends(zero, |item| {
        item.run();
        item.meets(Fate::Returned);
        None
    }));
    // Every way through the book, on an engine.
    let clock = ManualClock::new();
    let builder = tickless::Builder::new().shards(1).max_pending(4).manual_clock(&clock);
    let engine = builder.build_with_handler(run_all).unwrap();
    let book = Book::by_hand(&clock, 6);
    assert!(book.schedule(&engine, zero).unwrap().cancel());
    assert!(book.schedule(&engine, zero).unwrap().take());
    let mut timer = book.schedule(&engine, Duration::from_secs(1)).unwrap();
    assert!(timer.reset(Duration::from_millis(1)));
    assert_eq!(timer.state(), State::Pending);
    book.schedule_detached(&engine, Duration::from_millis(2)).unwrap();
    assert_eq!(engine.advance(Duration::from_millis(1)), Ok(1));
    assert!(!timer.reset(zero));
    assert_eq!(book.stop(&engine), 1);
    assert!(book.schedule_detached(&engine, zero).unwrap_err().is_stopped());
    drop(book.item(zero));
    let sums = Sums { made: 6, ran: 1, cancelled: 2, returned: 1, refused: 1, dropped: 1 };
    assert_eq!(book.close(), sums);
}
