//! How a service ends and begins again: restarts, what was missed meanwhile, stores that fail,
//! stops in the middle of everything.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use tickless_durable::store::{Disk, Fault, Memory};
use tickless_durable::{
    Builder, Cancelled, DeadLetter, Durable, Error, Firing, Json, Misfire, Op, Position, Record,
    ScheduleReason, StopError, Store, StoreError, StoreErrorKind,
};

use crate::common::scale::cases;
use crate::common::service::{HOUR, builder, gated, now, sending, text};

// === restarts ===

#[test]
fn a_timer_can_be_cancelled_and_replaced_after_a_restart() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder());
    let a = timers.schedule(now() + HOUR, text("a")).unwrap().wait().unwrap();
    timers.schedule_keyed("k", now() + HOUR, text("b")).unwrap().wait().unwrap();
    timers.schedule_keyed("l", now() + HOUR, text("c")).unwrap().wait().unwrap();
    timers.stop().unwrap();
    let (timers, fired) = sending(&disk, builder());
    assert_eq!(timers.cancel(a).wait().unwrap(), Cancelled::Cancelled);
    assert_eq!(timers.cancel(a).wait().unwrap(), Cancelled::NotFound);
    let id = timers.schedule_keyed("k", now(), text("B")).unwrap().wait().unwrap();
    assert!(id != a, "numbers do not come again");
    assert_eq!(fired.recv().unwrap(), (text("B"), 1));
    assert_eq!(timers.cancel_key("l").wait().unwrap(), Cancelled::Cancelled);
    timers.stop().unwrap();
    assert!(disk.timers().is_empty());
}

/// A store with timers that were due while no service ran: the numbers from zero on.
fn overdue(count: u32) -> Disk {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, Builder::new().span(Duration::ZERO));
    timers.schedule(now() + HOUR, String::new()).unwrap().wait().unwrap();
    timers.stop().unwrap();
    let first = disk.timers().remove(0);
    disk.remove(first.position);
    for index in 0..count {
        let mut record = first.clone();
        record.position.number += u64::from(index) << 20;
        // An hour ago, some of them in the same millisecond.
        record.position.due_ms -= 7_200_000 - u64::from(index / 4);
        record.first_due_ms = record.position.due_ms;
        record.payload = index.to_string().into_bytes().into();
        disk.add(record);
    }
    disk
}

/// Opens a service after that.
fn missed(count: u32, builder: Builder) -> (Disk, Durable<String>, Receiver<(String, u32)>) {
    let disk = overdue(count);
    let (timers, fired) = sending(&disk, builder);
    (disk, timers, fired)
}

#[test]
fn timers_that_were_missed_fire_at_once_by_default() {
    let (_disk, _timers, fired) = missed(5, builder().workers(1));
    let names: Vec<String> = fired.iter().take(5).map(|(name, _)| name).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4"]);
}

#[test]
fn timers_that_were_missed_can_be_skipped() {
    let (disk, timers, fired) = missed(5, builder().misfire(Misfire::Skip));
    assert!(disk.timers().is_empty());
    timers.stop().unwrap();
    assert!(fired.try_recv().is_err());
}

#[test]
fn a_timer_that_was_missed_for_less_than_the_threshold_is_not_skipped() {
    let builder = builder().misfire(Misfire::Skip).misfire_after(2 * HOUR);
    let (_disk, _timers, fired) = missed(1, builder);
    assert_eq!(fired.recv().unwrap().0, "0");
}

/// A timer that has failed, is a dead letter, and is made a timer again.
#[test]
fn a_timer_that_was_revived_may_be_a_repeat_and_was_not_missed() {
    let disk = Disk::default();
    let (sender, fired) = mpsc::channel();
    let handler = move |firing: &Firing<String>| {
        sender.send(firing.may_be_repeat()).unwrap();
        Err("on purpose")
    };
    let timers = builder().attempts(1).open(disk.open(), handler).unwrap();
    timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    assert_eq!(fired.recv(), Ok(false));
    let letter = loop {
        if let [letter] = &timers.dead_letters(None, 10).wait().unwrap()[..] {
            break letter.clone();
        }
        thread::yield_now();
    };
    assert!(timers.revive(&letter, now()).wait().unwrap());
    assert_eq!(fired.recv(), Ok(true), "a handler has had it");
    let letter = loop {
        if let [letter] = &timers.dead_letters(None, 10).wait().unwrap()[..] {
            break letter.clone();
        }
        thread::yield_now();
    };
    timers.stop().unwrap();
    // It waits again when the service opens, long after its time.
    let mut record = letter.record.clone();
    record.attempt = 1;
    let from = record.position;
    record.position.due_ms = 1;
    disk.change(&[tickless_durable::Op::Revive { from, to: record.into() }]);
    let (timers, fired) = sending(&disk, builder().misfire(Misfire::Skip));
    assert_eq!(fired.recv().unwrap(), (text("a"), 1), "it was tried, so it was not missed");
    timers.stop().unwrap();
}

#[test]
fn timers_that_were_missed_can_be_spread_over_a_time() {
    // A service knows the time to the millisecond, so its opening can seem to be earlier than this.
    let before = now() - Duration::from_millis(1);
    let (disk, timers, _fired) = missed(4, builder().misfire(Misfire::Spread(8 * HOUR)));
    let hours = |time: SystemTime| time.duration_since(before).unwrap().as_secs() / 3600;
    let due: Vec<u64> = disk
        .timers()
        .iter()
        .map(|record| hours(SystemTime::UNIX_EPOCH + Duration::from_millis(record.position.due_ms)))
        .collect();
    // The first one is due now, and may be over.
    assert!(due == [0, 2, 4, 6] || due == [2, 4, 6], "{due:?}");
    // They keep their numbers.
    let last = disk.timers().pop().unwrap();
    assert!(last.has_moved());
    assert_eq!(timers.cancel(last.id()).wait().unwrap(), Cancelled::Cancelled);
}

#[test]
fn timers_that_are_spread_stay_in_order_if_all_that_are_due_were_missed() {
    let spread = builder().misfire(Misfire::Spread(Duration::from_millis(4000)));
    let spread = spread.misfire_after(Duration::ZERO).span(Duration::ZERO);
    let (disk, timers, fired) = missed(6000, spread);
    timers.stop().unwrap();
    let gone = fired.try_iter().count();
    let left: Vec<u32> = disk
        .timers()
        .iter()
        .map(|record| String::from_utf8_lossy(&record.payload).parse().unwrap())
        .collect();
    assert!(left.is_sorted(), "{:?} .. {:?}", left.first(), left.last());
    assert_eq!(left.len() + gone, 6000);
}

/// None is lost or comes twice, and no more are in memory than may be. (The long run has a million
/// of them.)
#[test]
fn a_backlog_fires_or_goes_as_the_policy_says_and_only_a_window_of_it_is_in_memory() {
    const WINDOW: usize = 1000;
    let count = cases(100_000.0);
    let spread = Misfire::Spread(Duration::from_secs(1));
    for (policy, fires) in [(Misfire::FireAll, count), (Misfire::Skip, 0), (spread, count)] {
        let builder = builder().misfire(policy).window(WINDOW).workers(1);
        let (disk, timers, fired) = missed(count, builder);
        let mut names = BTreeSet::new();
        for _ in 0..fires {
            assert!(names.insert(fired.recv().unwrap().0), "one comes twice");
            assert!(timers.stats().near <= WINDOW);
        }
        timers.stop().unwrap();
        assert!(disk.timers().is_empty() && fired.try_recv().is_err(), "{policy:?}");
    }
}

#[test]
fn a_timer_that_another_instance_adds_is_found_when_it_is_told() {
    let disk = Disk::default();
    let (timers, fired) = sending(&disk, builder());
    let ticket = timers.schedule(now() + HOUR, text("a")).unwrap();
    ticket.wait().unwrap();
    let mut record = disk.timers().remove(0);
    record.position.number += 1 << 20;
    record.position.due_ms -= 3_600_000;
    record.first_due_ms = record.position.due_ms;
    disk.add(record);
    timers.look_again(now() - HOUR);
    assert_eq!(fired.recv().unwrap(), (text("a"), 1));
}

/// Whatever is asked for, and also after a restart.
#[test]
fn times_at_the_ends_of_what_a_system_knows_are_kept() {
    let disk = Disk::default();
    let epoch = SystemTime::UNIX_EPOCH;
    let seconds = (0..63).rev().map(|bit| Duration::from_secs(1 << bit));
    let last = seconds.fold(epoch, |time, more| time.checked_add(more).unwrap_or(time));
    let first = epoch.checked_sub(Duration::from_secs(1 << 62)).unwrap_or(epoch);
    let endless = || {
        let builder = builder().span(Duration::MAX).linger(Duration::MAX).window(usize::MAX);
        builder.misfire_after(Duration::MAX).misfire(Misfire::Spread(Duration::MAX))
    };
    for _ in 0..2 {
        let (timers, fired) = sending(&disk, endless());
        let far = timers.schedule_keyed("", last, text("far")).unwrap().wait().unwrap();
        timers.schedule(first, text("long ago")).unwrap().wait().unwrap();
        assert_eq!(fired.recv().unwrap(), (text("long ago"), 1));
        assert!(timers.stats().near > 0, "it is in the window");
        assert_eq!(disk.timers().last().map(|record| record.id()), Some(far));
        timers.stop().unwrap();
        assert!(fired.try_recv().is_err());
    }
    // All that is due was missed for longer than this, and comes at the end of time.
    let (timers, fired) = sending(&disk, endless().misfire_after(Duration::ZERO));
    assert_eq!(timers.cancel_key("").wait().unwrap(), Cancelled::Cancelled);
    timers.stop().unwrap();
    assert!(disk.timers().is_empty() && fired.try_recv().is_err());
}

// === failures ===

#[test]
fn a_store_that_fails_fails_everybody_who_waits_and_nothing_fires_any_more() {
    for fault in [Fault::Lost, Fault::Kept] {
        let disk = Disk::default();
        let (told, failures) = mpsc::channel();
        let failing = builder().linger(HOUR).on_failure(move |error| {
            told.send(error.kind()).unwrap();
        });
        let (timers, _fired) = sending(&disk, failing);
        disk.fail_next(fault);
        let tickets: Vec<_> =
            (0..3).map(|_| timers.schedule(now() + 5 * HOUR, text("a")).unwrap()).collect();
        let cancel = timers.cancel_key("k");
        for ticket in &tickets {
            assert!(matches!(ticket.wait(), Err(Error::Store(_))));
        }
        assert!(matches!(cancel.wait(), Err(Error::Store(_))));
        assert_eq!(failures.recv(), Ok(StoreErrorKind::Io));
        let refused = timers.schedule(now(), text("b")).unwrap_err();
        assert!(matches!(refused.reason, ScheduleReason::Store(_)));
        assert!(matches!(timers.cancel_key("k").wait(), Err(Error::Store(_))));
        assert!(matches!(timers.dead_letters(None, 1).wait(), Err(Error::Store(_))));
        assert!(matches!(timers.stop(), Err(StopError::Store(_))));
        // What became of the batch, the first timer and the cancel, is told by the next opening.
        let kept = if fault == Fault::Kept { 1 } else { 0 };
        assert_eq!(disk.timers().len(), kept);
        sending(&disk, builder()).0.stop().unwrap();
    }
}

/// A store that fails, or panics, whatever it is asked for after its opening.
struct Failing {
    store: Memory,
    panics: bool,
}

impl Failing {
    fn fail<T>(&self) -> Result<T, StoreError> {
        assert!(!self.panics, "on purpose");
        Err(StoreError::new(StoreErrorKind::Io, "on purpose"))
    }
}

impl Store for Failing {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        // The opening writes nothing.
        if batch.is_empty() { Ok(Vec::new()) } else { self.fail() }
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.store.scan(after, limit)
    }

    fn dead_letters(
        &mut self,
        _: Option<Position>,
        _: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.fail()
    }
}

/// Those whose changes or questions the writer has taken already, too.
#[test]
fn who_waits_when_a_store_fails_or_panics_gets_the_error() {
    for panics in [false, true] {
        let says = if panics { "the store has panicked: on purpose" } else { "on purpose" };
        let open = || {
            let store = Failing { store: Disk::default().open(), panics };
            let handler = |_: &Firing<String>| Ok::<(), Error>(());
            builder().open_by_hand(store, now(), handler).unwrap()
        };
        let is_told = |error| matches!(error, Error::Store(error) if error.to_string() == says);

        let mut service = open();
        let asked = [(); 2].map(|()| service.timers().dead_letters(None, 9));
        assert!(service.step().is_err());
        for reply in asked {
            assert!(reply.try_get().unwrap().is_err_and(is_told), "{says}");
        }

        let mut service = open();
        let put = service.timers().schedule(now() + HOUR, text("a")).unwrap();
        let cancel = service.timers().cancel_key("k");
        let asked = service.timers().contents();
        assert!(service.step().is_err());
        assert!(put.try_get().unwrap().is_err_and(is_told), "{says}");
        assert!(cancel.try_get().unwrap().is_err_and(is_told), "{says}");
        assert!(asked.try_get().unwrap().is_err_and(is_told), "{says}");
    }
}

/// A store that is damaged from some time on.
struct Damaged {
    store: Memory,
    is_damaged: Arc<AtomicBool>,
    /// How often it was to be written since.
    commits: Arc<AtomicU32>,
}

impl Damaged {
    fn look(&self) -> Result<(), StoreError> {
        let damage = StoreError::new(StoreErrorKind::Corrupt, "it is damaged");
        if self.is_damaged.load(Ordering::SeqCst) { Err(damage) } else { Ok(()) }
    }
}

impl Store for Damaged {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        self.look().inspect_err(|_| {
            self.commits.fetch_add(1, Ordering::SeqCst);
        })?;
        self.store.commit(batch)
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.look()?;
        self.store.scan(after, limit)
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.store.dead_letters(after, limit)
    }

    fn unreadable(&mut self, _: Option<Position>, _: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let record = Record::new(Position { due_ms: 5, number: 7 }, None, [].into());
        Ok(vec![DeadLetter::new(record, "it cannot be read")])
    }
}

/// What a reading meets is no reason for the rest not to fire, unless it is to be written.
#[test]
fn a_reading_that_cannot_write_what_it_buries_ends_the_service() {
    let (is_damaged, commits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let store = Disk::default().open();
    let store = Damaged { store, is_damaged: is_damaged.clone(), commits: commits.clone() };
    let handler = |_: &Firing<String>| Ok::<(), Error>(());
    let timers = builder().open(store, handler).unwrap();
    // It does not read by itself any more.
    while timers.stats().refills == 0 {
        thread::yield_now();
    }
    is_damaged.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert!(matches!(timers.list(None, 9).wait(), Err(Error::Store(_))));
    }
    assert!(matches!(timers.stop(), Err(StopError::Store(_))));
    assert_eq!(commits.load(Ordering::SeqCst), 1, "it is not used again");
}

// === stopping ===

#[test]
fn a_stop_writes_what_is_pending_and_keeps_what_has_not_fired() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let tickets: Vec<_> =
        (0..10).map(|_| timers.schedule(now() + 5 * HOUR, text("a")).unwrap()).collect();
    timers.stop().unwrap();
    assert!(tickets.iter().all(|ticket| ticket.try_get().unwrap().is_ok()));
    assert_eq!(disk.timers().len(), 10);
    timers.stop().unwrap();
    let refused = timers.schedule(now(), text("b")).unwrap_err();
    assert!(matches!(refused.reason, ScheduleReason::Stopped));
    assert!(matches!(timers.cancel_key("k").wait(), Err(Error::Stopped)));
}

#[test]
fn a_stop_waits_for_the_handler_that_runs_and_for_its_end_to_be_durable() {
    let disk = Disk::default();
    let (timers, begun, release) = gated(&disk, builder().linger(HOUR));
    timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    begun.recv().unwrap();
    let stopping = {
        let timers = timers.clone();
        thread::spawn(move || timers.stop())
    };
    // The stop has begun when nothing is taken any more.
    while timers.schedule(now() + 5 * HOUR, text("b")).is_ok() {
        thread::yield_now();
    }
    assert!(!stopping.is_finished());
    assert!(disk.timers().iter().any(|record| &*record.payload == b"a"));
    release.send(true).unwrap();
    stopping.join().unwrap().unwrap();
    assert!(disk.timers().iter().all(|record| &*record.payload == b"b"));
}

#[test]
fn a_payload_that_cannot_be_read_is_a_dead_letter_at_once() {
    let handler = |_: &Firing<Json<bool>>| Ok::<(), Error>(());
    let timers = builder().open(overdue(1).open(), handler).unwrap();
    let letter = loop {
        if let [letter] = &timers.dead_letters(None, 10).wait().unwrap()[..] {
            break letter.clone();
        }
        thread::yield_now();
    };
    assert!(letter.error.starts_with("the payload cannot be read: "), "{}", letter.error);
    assert_eq!(timers.stats().fired, 1);
}

#[test]
fn a_stop_with_a_limit_leaves_the_handler_behind_and_its_timer_in_the_store() {
    let disk = Disk::default();
    let (timers, begun, release) = gated(&disk, builder());
    timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    begun.recv().unwrap();
    assert_eq!(timers.stop_within(Duration::from_millis(5)).unwrap(), 1);
    assert_eq!(disk.timers().len(), 1);
    drop(release);
    // It comes again, and the handler can tell.
    let (sender, fired) = mpsc::channel();
    let handler = move |firing: &Firing<String>| sender.send(firing.may_be_repeat());
    let timers = builder().open(disk.open(), handler).unwrap();
    assert_eq!(fired.recv(), Ok(true));
    timers.stop().unwrap();
}

/// Only what was due before the service was opened can have begun before.
#[test]
fn a_timer_that_is_due_after_its_process_has_ended_is_no_repeat() {
    let (disk, begin) = (Disk::default(), now());
    let handler = |_: &Firing<String>| Ok::<(), String>(());
    let mut service = builder().open_by_hand(disk.open(), begin, handler).unwrap();
    let timers = service.timers();
    let due = timers.schedule(begin + Duration::from_secs(1), text("due")).unwrap();
    let later = timers.schedule(begin + Duration::from_secs(70), text("later")).unwrap();
    service.step().unwrap();
    service.advance(Duration::from_millis(20));
    service.step().unwrap();
    assert!(due.try_get().is_some() && later.try_get().is_some());
    drop(service);
    let (sender, fired) = mpsc::channel();
    let handler = move |firing: &Firing<String>| {
        sender.send((firing.payload().clone(), firing.may_be_repeat()))
    };
    let opened = begin + Duration::from_secs(60);
    let mut service = builder().open_by_hand(disk.open(), opened, handler).unwrap();
    for _ in 0..3 {
        service.step().unwrap();
        while service.worker()() {}
    }
    assert_eq!(fired.try_recv(), Ok((text("due"), true)));
    service.advance(Duration::from_secs(20));
    service.step().unwrap();
    while service.worker()() {}
    assert_eq!(fired.try_recv(), Ok((text("later"), false)));
}

/// The README says so: what ran in a time that comes again is not known as such.
#[test]
fn a_timer_that_ran_before_the_clock_was_set_back_comes_again_without_a_word() {
    let (disk, begin) = (Disk::default(), now());
    let due = begin + Duration::from_secs(2);
    let (sender, fired) = mpsc::channel();
    // A process that dies when its handler has run, before the end is durable. Its clock is set.
    let fires = |opened, shows| {
        let sender = sender.clone();
        let handler = move |firing: &Firing<String>| sender.send(firing.may_be_repeat());
        let mut service = builder().open_by_hand(disk.open(), opened, handler).unwrap();
        if disk.timers().is_empty() {
            drop(service.timers().schedule(due, text("a")).unwrap());
        }
        service.step().unwrap();
        assert!(shows == opened || !service.worker()(), "it is early");
        service.set_wall(shows);
        // It is read, and noted.
        for _ in 0..3 {
            if service.worker()() {
                break;
            }
            service.step().unwrap();
        }
        fired.try_recv()
    };
    let then = due + Duration::from_secs(1);
    assert_eq!(fires(begin, then), Ok(false));
    assert_eq!(fires(begin - HOUR, then), Ok(false), "nobody knows");
    assert_eq!(fires(then, then), Ok(true));
}

#[test]
fn a_stop_with_a_limit_ends_one_that_waits_already() {
    let disk = Disk::default();
    let (timers, begun, release) = gated(&disk, builder().workers(1));
    timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    begun.recv().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| timers.stop());
        while !matches!(timers.cancel_key("none").try_get(), Some(Err(Error::Stopped))) {
            thread::yield_now();
        }
        assert_eq!(timers.stop_within(Duration::from_millis(1)).unwrap(), 1);
        waits.join().unwrap().unwrap();
    });
    assert_eq!(disk.timers().len(), 1, "it comes again");
    drop(release);
}

#[test]
fn a_handler_that_runs_for_longer_than_it_may_is_told_and_not_waited_for() {
    let disk = Disk::default();
    let limit = Duration::from_millis(1);
    let (timers, begun, release) = gated(&disk, builder().workers(2).handler_limit(limit));
    assert_eq!(timers.stats().stuck, 0);
    timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    begun.recv().unwrap();
    while timers.stats().stuck == 0 {
        thread::yield_now();
    }
    timers.stop().unwrap();
    assert_eq!((timers.stats().stuck, disk.timers().len()), (1, 1));
    drop(release);
}

#[test]
fn the_last_one_that_is_dropped_stops_the_service() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let ticket = timers.schedule(now() + 5 * HOUR, text("a")).unwrap();
    drop(timers.clone());
    assert!(ticket.try_get().is_none());
    drop(timers);
    assert!(ticket.try_get().unwrap().is_ok());
}

#[test]
fn a_handler_may_drop_the_last_one() {
    let disk = Disk::default();
    let (timer, owned) = mpsc::channel::<Durable<String>>();
    let owned = Mutex::new(owned);
    let handler = move |_: &Firing<String>| {
        drop(owned.lock().unwrap().recv());
        Ok::<(), Error>(())
    };
    let timers = builder().open(disk.open(), handler).unwrap();
    timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    timer.send(timers).unwrap();
    while !disk.timers().is_empty() {
        thread::yield_now();
    }
}

#[test]
fn callers_and_handlers_side_by_side_lose_nothing_when_it_stops() {
    let disk = Disk::default();
    let handled = Arc::new(AtomicU32::new(0));
    let count = handled.clone();
    let timers = builder()
        .window(100)
        .batch(10)
        .max_unwritten(100)
        .linger(Duration::from_millis(1))
        .open(disk.open(), move |_: &Firing<String>| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<(), Error>(())
        })
        .unwrap();
    let callers: Vec<_> = (0..4_u64)
        .map(|caller| {
            let timers = timers.clone();
            thread::spawn(move || {
                let mut taken = 0;
                for index in 0.. {
                    let due = now() + Duration::from_millis(index * caller % 20);
                    let ticket = match timers.schedule(due, text("a")) {
                        Ok(ticket) => ticket,
                        Err(error) if matches!(error.reason, ScheduleReason::Busy) => {
                            thread::yield_now();
                            continue;
                        }
                        Err(_) => return taken,
                    };
                    if index % 3 == 0 {
                        let cancelled = timers.cancel(ticket.id()).wait();
                        if matches!(cancelled, Ok(Cancelled::Cancelled)) {
                            continue;
                        }
                    }
                    taken += 1;
                }
                taken
            })
        })
        .collect();
    while timers.stats().fired < 2000 {
        thread::yield_now();
    }
    timers.stop().unwrap();
    let taken: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    let (left, handled) = (disk.timers().len(), handled.load(Ordering::Relaxed) as usize);
    assert!(left + handled >= taken, "{taken} were taken, {handled} handled, {left} are left");
}
