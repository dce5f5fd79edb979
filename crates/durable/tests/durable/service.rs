//! A service with its threads: what it promises to callers and handlers.

use std::future::Future;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

use tickless_durable::store::Disk;
use tickless_durable::{
    Builder, Cancelled, DeadLetter, Error, Firing, Limits, OpenError, Position, Record, Retry,
    ScheduleReason, StopError, TimerId, every,
};

use crate::common::limit::LIMIT;
use crate::common::service::{HOUR, builder, gated, now, sending, text};
use crate::common::until::wait_until;

// === tickets ===

#[test]
fn a_ticket_is_ready_when_the_timer_is_durable() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let ticket = timers.schedule(now() + 5 * HOUR, text("a")).unwrap();
    assert!(ticket.try_get().is_none() && disk.timers().is_empty(), "nobody waits for it");
    assert_eq!(ticket.wait().unwrap(), ticket.id());
    assert_eq!(disk.timers()[0].id(), ticket.id());
}

#[test]
fn a_ticket_can_be_awaited() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let ticket = timers.schedule(now() + 5 * HOUR, text("a")).unwrap();
    let cancel = timers.cancel(ticket.id());
    assert!(matches!(pollster::block_on(ticket), Err(Error::Cancelled)));
    assert_eq!(pollster::block_on(cancel).unwrap(), Cancelled::Cancelled);
    let ticket = timers.schedule(now() + 5 * HOUR, text("b")).unwrap();
    let id = ticket.id();
    assert_eq!(pollster::block_on(ticket).unwrap(), id);
}

#[test]
fn a_ticket_that_another_task_polls_wakes_that_one() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder());
    let mut ticket = Box::pin(timers.schedule(now() + HOUR, text("a")).unwrap());
    let first = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    // It may be ready by now.
    if let Poll::Ready(result) = first {
        assert!(result.is_ok());
        return;
    }
    assert!(thread::spawn(move || pollster::block_on(ticket)).join().unwrap().is_ok());
}

#[test]
fn what_is_cancelled_before_it_is_written_never_reaches_the_store() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    for _ in 0..100 {
        let ticket = timers.schedule(now() + 5 * HOUR, text("a")).unwrap();
        assert_eq!(timers.cancel(ticket.id()).wait().unwrap(), Cancelled::Cancelled);
        assert!(matches!(ticket.wait(), Err(Error::Cancelled)));
    }
    let stats = timers.stats();
    assert_eq!((stats.scheduled, stats.elided, stats.stored), (100, 100, 0));
    assert_eq!(disk.commits(), 0);
}

#[test]
fn what_is_replaced_before_it_is_written_is_told_so() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let first = timers.schedule_keyed("k", now() + 5 * HOUR, text("a")).unwrap();
    let second = timers.schedule_keyed("k", now() + 5 * HOUR, text("b")).unwrap();
    assert!(matches!(first.wait(), Err(Error::Replaced)));
    second.wait().unwrap();
    assert_eq!(disk.timers().len(), 1);
}

#[test]
fn more_than_may_wait_is_refused_with_its_payload() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR).max_unwritten(2));
    let far = now() + 5 * HOUR;
    let kept: Vec<_> = (0..2).map(|_| timers.schedule(far, text("a")).unwrap()).collect();
    let refused = timers.schedule(far, text("b")).unwrap_err();
    assert!(matches!(refused.reason, ScheduleReason::Busy) && refused.payload == "b");
    kept[0].wait().unwrap();
    timers.schedule(far, text("b")).unwrap().wait().unwrap();
}

#[test]
fn more_bytes_than_may_wait_are_refused_with_their_payload() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR).max_unwritten_bytes(1000));
    let (far, large) = (now() + 5 * HOUR, "x".repeat(600));
    let schedule = || timers.schedule(far, large.clone());
    let first = schedule().unwrap();
    let second = timers.schedule_keyed("x".repeat(400), far, String::new()).unwrap();
    let refused = schedule().unwrap_err();
    assert!(matches!(refused.reason, ScheduleReason::Busy) && refused.payload == large);
    // What is cancelled, replaced or written makes room.
    timers.cancel(second.id()).wait().unwrap();
    let (second, replaced) = (schedule().unwrap(), schedule());
    assert!(replaced.is_err());
    first.wait().unwrap();
    second.wait().unwrap();
    (0..2).for_each(|_| drop(schedule().unwrap()));
    assert!(schedule().is_err());
}

// === firing ===

#[test]
fn a_payload_that_no_store_keeps_is_refused_and_harms_nobody() {
    let disk = Disk::default();
    let open = builder().open(disk.open(), |_: &Firing<Vec<u8>>| Ok::<(), Error>(()));
    let timers = open.unwrap();
    let large = vec![0; (256 << 20) + 1];
    let refused = timers.schedule(now() + HOUR, large).unwrap_err();
    assert!(matches!(&refused.reason, ScheduleReason::Payload(why) if why.contains("268435456")));
    assert_eq!(refused.payload.len(), (256 << 20) + 1);
    let refused = timers.schedule_keyed(&refused.payload, now() + HOUR, vec![]).unwrap_err();
    assert!(matches!(refused.reason, ScheduleReason::Payload(_)));
    timers.schedule(now() + HOUR, vec![8]).unwrap().wait().unwrap();
}

#[test]
fn a_name_that_no_thread_can_have_is_an_error() {
    let handler = |_: &Firing<String>| Ok::<(), Error>(());
    let opened = builder().thread_name("a\0b").open(Disk::default().open(), handler);
    assert!(matches!(opened, Err(OpenError::Engine(_))));
}

#[test]
fn timers_fire_in_order_and_are_over_then() {
    let (disk, begin) = (Disk::default(), SystemTime::UNIX_EPOCH + HOUR);
    let (sender, fired) = mpsc::channel();
    let handler =
        move |firing: &Firing<String>| sender.send((firing.payload().clone(), firing.attempt()));
    let mut service = builder().open_by_hand(disk.open(), begin, handler).unwrap();
    let work = service.worker();
    let schedule = |(name, ms): (&str, u64)| {
        let due = begin + Duration::from_millis(500 + ms);
        drop(service.timers().schedule(due, text(name)).unwrap());
    };
    [("c", 20), ("a", 0), ("b", 10)].into_iter().for_each(schedule);
    service.step().unwrap();
    service.advance(Duration::from_millis(499));
    assert!(!work(), "none is due");
    service.advance(Duration::from_millis(21));
    while work() {}
    let all: Vec<_> = fired.try_iter().collect();
    assert_eq!(all, ["a", "b", "c"].map(|name| (text(name), 1)));
    assert_eq!(disk.timers().len(), 3, "the writer has made no step");
    service.step().unwrap();
    assert!(disk.timers().is_empty());
}

/// The engine fires a timer that was scheduled meanwhile a second after its time.
#[test]
fn a_timer_fires_in_time_after_the_clock_was_set_away_and_back() {
    let (disk, begin) = (Disk::default(), SystemTime::UNIX_EPOCH + HOUR);
    let handler = |_: &Firing<String>| Ok::<(), Error>(());
    let mut service = builder().open_by_hand(disk.open(), begin, handler).unwrap();
    let work = service.worker();
    let (second, due) = (Duration::from_secs(1), begin + Duration::from_millis(500));
    service.set_wall(begin - second);
    drop(service.timers().schedule(due, text("a")).unwrap());
    service.step().unwrap();
    service.set_wall(begin);
    service.advance_engine(Duration::from_millis(500));
    assert!(!work(), "it is not due by the wall clock");
    service.set_wall(due);
    assert!(work());
}

#[test]
fn a_timer_fires_by_itself_and_not_before_its_time() {
    let disk = Disk::default();
    let (timers, fired) = sending(&disk, builder());
    let due = now() + Duration::from_millis(50);
    drop(timers.schedule(due, text("a")).unwrap());
    assert_eq!(fired.recv().unwrap(), (text("a"), 1));
    assert!(now() >= due);
    timers.stop().unwrap();
    assert!(disk.timers().is_empty());
}

#[test]
fn a_timer_that_is_due_before_it_would_be_written_is_written_at_once() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    // It can wait for a linger, and new timers wait for longer.
    let ticket = timers.schedule(now() + 2 * HOUR, text("a")).unwrap();
    wait_until("it is durable", || ticket.try_get().is_some());
    assert_eq!(disk.timers()[0].id(), ticket.id());
}

#[test]
fn an_attempt_or_an_occurrence_that_comes_soon_does_not_wait_to_be_written() {
    let disk = Disk::default();
    let (timers, begun, release) = gated(&disk, builder().linger(HOUR));
    drop(timers.schedule(now(), text("a")).unwrap());
    for attempt in 1..=3 {
        assert_eq!(begun.recv_timeout(LIMIT), Ok(attempt));
        release.send(attempt == 3).unwrap();
    }
    let often = Builder::new().recurring("often", "tick", every(Duration::from_millis(1)));
    let (_timers, fired) = sending(&Disk::default(), often.linger(HOUR));
    for _ in 0..3 {
        assert_eq!(fired.recv_timeout(LIMIT), Ok((text("tick"), 1)));
    }
}

#[test]
fn a_handler_that_fails_or_panics_is_called_again_and_then_no_more() {
    let disk = Disk::default();
    let (sender, fired) = mpsc::channel();
    let handler = move |firing: &Firing<String>| {
        sender.send(firing.attempt()).unwrap();
        if firing.attempt() == 2 {
            std::panic::panic_any(text("a panic on purpose"));
        }
        Err(format!("failure {}", firing.attempt()))
    };
    let timers = builder().attempts(3).open(disk.open(), handler).unwrap();
    let id = timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    let attempts: Vec<u32> = fired.iter().take(3).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let letter = loop {
        if let [letter] = &timers.dead_letters(None, 10).wait().unwrap()[..] {
            break letter.clone();
        }
        thread::yield_now();
    };
    assert_eq!((letter.id(), letter.error.as_str()), (id, "failure 3"));
    assert_eq!((letter.record.attempt, &*letter.record.payload), (3, &b"a"[..]));
    // It gets all its attempts again.
    assert!(timers.revive(&letter, now()).wait().unwrap());
    assert!(!timers.revive(&letter, now()).wait().unwrap(), "it is no letter any more");
    assert_eq!(fired.iter().take(3).collect::<Vec<u32>>(), [1, 2, 3]);
    let letter = loop {
        if let [letter] = &timers.dead_letters(None, 10).wait().unwrap()[..] {
            break letter.clone();
        }
        thread::yield_now();
    };
    assert_eq!(letter.id(), id, "its number is the same");
    assert!(timers.dead_letters(Some(&letter), 10).wait().unwrap().is_empty());
    assert!(timers.forget(&letter).wait().unwrap());
    assert!(!timers.forget(&letter).wait().unwrap());
}

#[test]
fn a_timer_that_runs_is_not_tried_again_after_a_cancel() {
    let disk = Disk::default();
    let (timers, begun, release) = gated(&disk, builder());
    let id = timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    assert_eq!(begun.recv(), Ok(1));
    assert_eq!(timers.cancel(id).wait().unwrap(), Cancelled::Running);
    assert!(disk.timers().is_empty(), "a crash would not bring it back");
    assert_eq!(timers.cancel(id).wait().unwrap(), Cancelled::NotFound, "once is enough");
    release.send(false).unwrap();
    timers.stop().unwrap();
    assert!(begun.try_recv().is_err() && disk.timers().is_empty());
}

#[test]
fn a_timer_that_runs_is_not_tried_again_when_another_takes_its_key() {
    let disk = Disk::default();
    let (timers, begun, release) = gated(&disk, builder());
    timers.schedule_keyed("k", now(), text("a")).unwrap().wait().unwrap();
    assert_eq!(begun.recv(), Ok(1));
    timers.schedule_keyed("k", now() + HOUR, text("b")).unwrap().wait().unwrap();
    release.send(false).unwrap();
    timers.stop().unwrap();
    assert!(begun.try_recv().is_err());
    let left = disk.timers();
    assert_eq!((left.len(), &*left[0].payload), (1, &b"b"[..]));
}

#[test]
fn a_slow_handler_delays_no_other_worker() {
    let disk = Disk::default();
    let (sender, fired) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let handler = move |firing: &Firing<String>| {
        if firing.payload() == "slow" {
            let _ = released.lock().unwrap().recv();
        }
        sender.send(firing.payload().clone())
    };
    let timers = builder().workers(2).open(disk.open(), handler).unwrap();
    drop(timers.schedule(now(), text("slow")).unwrap());
    drop(timers.schedule(now() + Duration::from_millis(5), text("quick")).unwrap());
    assert_eq!(fired.recv().unwrap(), "quick");
    release.send(()).unwrap();
    assert_eq!(fired.recv().unwrap(), "slow");
}

#[test]
fn a_handler_can_schedule_and_cancel() {
    let disk = Disk::default();
    let (sender, fired) = mpsc::channel();
    let handler = move |firing: &Firing<String>| {
        let timers = firing.timers();
        if firing.payload() == "first" {
            let doomed = timers.schedule(now() + HOUR, text("doomed")).unwrap().wait().unwrap();
            timers.schedule_keyed("k", now(), text("second")).unwrap().wait().unwrap();
            assert_eq!(timers.cancel(doomed).wait().unwrap(), Cancelled::Cancelled);
            assert!(matches!(timers.stop(), Err(StopError::InHandler)));
        }
        sender.send(firing.payload().clone())
    };
    let timers = builder().open(disk.open(), handler).unwrap();
    drop(timers.schedule(now(), text("first")).unwrap());
    let mut both = [fired.recv().unwrap(), fired.recv().unwrap()];
    both.sort();
    assert_eq!(both, ["first", "second"]);
    timers.stop().unwrap();
    assert!(disk.timers().is_empty());
}

#[test]
fn a_timer_that_is_due_again_does_not_fire_after_a_cancel_that_is_not_written_yet() {
    let (disk, begin) = (Disk::default(), SystemTime::UNIX_EPOCH + HOUR);
    let handler = |_: &Firing<String>| Err("on purpose");
    let mut service = builder().open_by_hand(disk.open(), begin, handler).unwrap();
    let work = service.worker();
    let ticket = service.timers().schedule(begin, text("a")).unwrap();
    service.step().unwrap();
    assert!(work(), "the first attempt");
    service.step().unwrap();
    service.advance(Duration::from_millis(20));
    drop(service.timers().cancel(ticket.id()));
    assert!(!work(), "the second attempt");
    service.step().unwrap();
    assert!(disk.timers().is_empty());
}

// === what others do in passing ===

/// What a handler panics with, which panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose, again");
    }
}

#[test]
fn a_panic_whose_value_panics_when_it_is_dropped_fails_the_attempt_and_no_more() {
    let disk = Disk::default();
    let (sender, fired) = mpsc::channel();
    let handler = move |firing: &Firing<String>| {
        sender.send(firing.attempt()).unwrap();
        if firing.attempt() < 5 {
            std::panic::panic_any(Bomb);
        }
        Ok::<(), Error>(())
    };
    let timers = builder().workers(1).open(disk.open(), handler).unwrap();
    drop(timers.schedule(now(), text("a")).unwrap());
    let attempts: Vec<_> = (0..5).map(|_| fired.recv_timeout(LIMIT).ok()).collect();
    assert_eq!(attempts, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
    timers.stop().unwrap();
    assert!(disk.timers().is_empty());
}

/// A waker that panics.
struct Broken;

impl std::task::Wake for Broken {
    fn wake(self: std::sync::Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let waker = Waker::from(std::sync::Arc::new(Broken));
    let mut broken: Vec<_> =
        (0..3).map(|_| Box::pin(timers.schedule(now() + 5 * HOUR, text("a")).unwrap())).collect();
    for ticket in &mut broken {
        // It may be ready by now.
        let _ = ticket.as_mut().poll(&mut Context::from_waker(&waker));
    }
    let ticket = timers.schedule(now() + 5 * HOUR, text("b")).unwrap();
    ticket.wait().unwrap();
    assert!(timers.failure().is_none(), "{:?}", timers.failure());
    for ticket in &broken {
        ticket.as_ref().get_ref().wait().unwrap();
    }
    timers.stop().unwrap();
    assert_eq!(disk.timers().len(), 4);
}

/// A waker that has the last reference to the service, and drops it when a handler has asked for
/// something that is not written yet.
struct Holding {
    timers: Mutex<Option<tickless_durable::Durable<String>>>,
    ask: mpsc::Sender<()>,
    asked: Mutex<mpsc::Receiver<()>>,
}

impl std::task::Wake for Holding {
    fn wake(self: std::sync::Arc<Self>) {
        self.ask.send(()).unwrap();
        self.asked.lock().unwrap().recv().unwrap();
        drop(self.timers.lock().unwrap().take());
    }
}

#[test]
fn a_waker_may_drop_the_last_one_while_a_handler_waits_for_the_writer() {
    let disk = Disk::default();
    let ((ask, asks), (said, asked), (over, ended)) =
        (mpsc::channel(), mpsc::channel(), mpsc::channel());
    let asks = Mutex::new(asks);
    let handler = move |firing: &Firing<String>| {
        asks.lock().unwrap().recv().unwrap();
        let ticket = firing.timers().schedule(now() + 5 * HOUR, text("c")).unwrap();
        said.send(()).unwrap();
        over.send(ticket.wait().is_ok()).unwrap();
        Ok::<(), Error>(())
    };
    let timers = builder().workers(1).linger(HOUR).open(disk.open(), handler).unwrap();
    timers.schedule(now(), text("a")).unwrap().wait().unwrap();
    let mut ticket = Box::pin(timers.schedule(now() + 5 * HOUR, text("b")).unwrap());
    let (timers, asked) = (Mutex::new(Some(timers)), Mutex::new(asked));
    let waker = Waker::from(std::sync::Arc::new(Holding { timers, ask, asked }));
    // The writer waits for this test before it can be ready.
    assert!(ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(ended.recv_timeout(LIMIT), Ok(true), "the writer goes on");
}

#[test]
fn a_number_of_another_store_is_no_timer_here() {
    let here = Disk::default();
    let (timers, _fired) = sending(&here, builder().linger(HOUR));
    // Not written yet, written, and tried again.
    let ticket = timers.schedule(now() + 5 * HOUR, text("a")).unwrap();
    let number = ticket.id().first_position().number;
    let other = TimerId::of(Position { due_ms: 1, number });
    assert_eq!(timers.cancel(other).wait().unwrap(), Cancelled::NotFound);
    ticket.wait().unwrap();
    assert_eq!(timers.cancel(other).wait().unwrap(), Cancelled::NotFound);
    assert_eq!(here.timers().len(), 1);
    assert_eq!(timers.stats().near, 0, "it is beyond the span");
    assert_eq!(timers.cancel(ticket.id()).wait().unwrap(), Cancelled::Cancelled);
}

/// Opens a service whose handler says this, and waits until one timer is a dead letter. Returns it,
/// and the attempts that the handler has seen.
fn dies(
    builder: Builder,
    key: &str,
    says: impl Fn(u32, usize) -> Retry + Send + Sync + 'static,
) -> (DeadLetter, Vec<u32>) {
    let disk = Disk::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let attempts = seen.clone();
    let handler = move |firing: &Firing<String>| {
        let mut seen = attempts.lock().unwrap();
        seen.push(firing.attempt());
        Err::<(), Retry>(says(firing.attempt(), seen.len()))
    };
    let timers = builder.open(disk.open(), handler).unwrap();
    timers.schedule_keyed(key, now(), text("a")).unwrap().wait().unwrap();
    let letter = loop {
        if let Some(letter) = timers.dead_letters(None, 1).wait().unwrap().pop() {
            break letter;
        }
        thread::yield_now();
    };
    timers.stop().unwrap();
    let seen = seen.lock().unwrap().clone();
    (letter, seen)
}

#[test]
fn a_handler_puts_its_timer_off_without_an_attempt_and_gives_it_up_with_a_reason() {
    let (letter, seen) = dies(builder().attempts(2), "k", |_, calls| match calls {
        1..=3 => Retry::after(Duration::from_millis(1)),
        4 => Retry::from("on purpose"),
        5 => Retry::after(Duration::ZERO),
        _ => Retry::never("no such address"),
    });
    assert_eq!(seen, [1, 1, 1, 1, 2, 2]);
    assert_eq!(letter.error, "no such address");
    let failed: Vec<_> = letter.record.failed_attempts();
    let failed: Vec<_> = failed.iter().map(|failed| (failed.attempt, &*failed.error)).collect();
    assert_eq!(failed, [(1, "on purpose"), (2, "no such address")]);
}

#[test]
fn a_timer_has_limits_of_its_own() {
    let limits = |record: &Record| match record.key.as_deref() {
        Some(b"few") => Limits::new().attempts(3),
        Some(b"short") => Limits::new().within(Duration::ZERO),
        Some(b"panics") => panic!("on purpose"),
        _ => Limits::new(),
    };
    let builder = || builder().attempts(5).limits(limits);
    let fails = |_, _| Retry::from("on purpose");
    for (key, attempts) in [("few", 3), ("short", 1), ("panics", 5), ("other", 5)] {
        assert_eq!(dies(builder(), key, fails).1.len(), attempts, "{key}");
    }
    let (letter, seen) = dies(builder(), "short", |_, _| Retry::after(Duration::from_secs(60)));
    assert!(seen.len() == 1 && letter.error.contains("put off for longer"), "{letter:?}");
}
