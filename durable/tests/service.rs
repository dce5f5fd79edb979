//! A service with its threads: what it promises to callers, handlers, and who stops it.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

use tickless_durable::store::{Disk, Fault};
use tickless_durable::{
    Backoff, Builder, Cancelled, Durable, Error, Firing, Json, Misfire, ScheduleReason, StopError,
    StoreErrorKind,
};

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> SystemTime {
    SystemTime::now()
}

fn builder() -> Builder {
    Builder::new().backoff(Backoff::new(Duration::from_millis(2)).factor(1.0))
}

/// A service that sends what fires, with the number of the attempt.
fn sending(disk: &Disk, builder: Builder) -> (Durable<String>, Receiver<(String, u32)>) {
    let (sender, fired) = mpsc::channel();
    let handler =
        move |firing: &Firing<String>| sender.send((firing.payload().clone(), firing.attempt()));
    (builder.open(disk.open(), handler).unwrap(), fired)
}

/// A handler that says when it has begun, and waits until it is let go.
fn gated(disk: &Disk, builder: Builder) -> (Durable<String>, Receiver<u32>, Sender<bool>) {
    let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel());
    let released = Mutex::new(released);
    let handler = move |firing: &Firing<String>| {
        begin.send(firing.attempt()).unwrap();
        let succeeds = released.lock().unwrap().recv().unwrap_or(true);
        if succeeds { Ok(()) } else { Err("on purpose") }
    };
    (builder.open(disk.open(), handler).unwrap(), begun, release)
}

fn text(text: &str) -> String {
    text.to_owned()
}

// === tickets ===

#[test]
fn a_ticket_is_ready_when_the_timer_is_durable() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let ticket = timers.schedule(now() + 2 * HOUR, text("a")).unwrap();
    assert!(ticket.try_get().is_none() && disk.timers().is_empty(), "nobody waits for it");
    assert_eq!(ticket.wait().unwrap(), ticket.id());
    assert_eq!(disk.timers()[0].id(), ticket.id());
}

#[test]
fn a_ticket_can_be_awaited() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let ticket = timers.schedule(now() + 2 * HOUR, text("a")).unwrap();
    let cancel = timers.cancel(ticket.id());
    assert!(matches!(pollster::block_on(ticket), Err(Error::Cancelled)));
    assert_eq!(pollster::block_on(cancel).unwrap(), Cancelled::Cancelled);
    let ticket = timers.schedule(now() + 2 * HOUR, text("b")).unwrap();
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
        let ticket = timers.schedule(now() + 2 * HOUR, text("a")).unwrap();
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
    let first = timers.schedule_keyed("k", now() + 2 * HOUR, text("a")).unwrap();
    let second = timers.schedule_keyed("k", now() + 2 * HOUR, text("b")).unwrap();
    assert!(matches!(first.wait(), Err(Error::Replaced)));
    second.wait().unwrap();
    assert_eq!(disk.timers().len(), 1);
}

#[test]
fn more_than_may_wait_is_refused_with_its_payload() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR).max_unwritten(2));
    let far = now() + 2 * HOUR;
    let kept: Vec<_> = (0..2).map(|_| timers.schedule(far, text("a")).unwrap()).collect();
    let refused = timers.schedule(far, text("b")).unwrap_err();
    assert!(matches!(refused.reason, ScheduleReason::Busy) && refused.payload == "b");
    kept[0].wait().unwrap();
    timers.schedule(far, text("b")).unwrap().wait().unwrap();
}

// === firing ===

#[test]
fn timers_fire_in_order_and_are_over_then() {
    let disk = Disk::default();
    let (timers, fired) = sending(&disk, builder().workers(1));
    for (name, ms) in [("c", 30), ("a", 10), ("b", 20)] {
        let due = now() + Duration::from_millis(ms);
        drop(timers.schedule(due, text(name)).unwrap());
    }
    for name in ["a", "b", "c"] {
        assert_eq!(fired.recv().unwrap(), (text(name), 1));
    }
    timers.stop().unwrap();
    assert!(disk.timers().is_empty());
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
fn a_payload_that_cannot_be_read_is_a_dead_letter_at_once() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder());
    timers.schedule(now() + Duration::from_millis(20), text("no number")).unwrap().wait().unwrap();
    timers.stop().unwrap();
    let timers = builder().open(disk.open(), |_: &Firing<Json<u32>>| Ok::<(), Error>(())).unwrap();
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

/// Schedules timers that are due while no service runs, and opens one after that.
fn missed(count: u32, builder: Builder) -> (Disk, Durable<String>, Receiver<(String, u32)>) {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, Builder::new().span(Duration::ZERO));
    // Due in the past, but beyond the span: so they do not fire here.
    for index in 0..count {
        let id = timers.schedule(now() + HOUR, index.to_string()).unwrap().wait().unwrap();
        let mut record =
            disk.timers().into_iter().find(|record| record.id() == id).expect("it is durable");
        timers.cancel(id).wait().unwrap();
        record.position.due_ms -= 7_200_000;
        record.first_due_ms = record.position.due_ms;
        disk.add(record);
    }
    timers.stop().unwrap();
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

#[test]
fn timers_that_were_missed_can_be_spread_over_a_time() {
    let before = now();
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
            (0..3).map(|_| timers.schedule(now() + 2 * HOUR, text("a")).unwrap()).collect();
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
        // What became of the batch is told by the next opening.
        let kept = if fault == Fault::Kept { 3 } else { 0 };
        assert_eq!(disk.timers().len(), kept);
        sending(&disk, builder()).0.stop().unwrap();
    }
}

// === stopping ===

#[test]
fn a_stop_writes_what_is_pending_and_keeps_what_has_not_fired() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let tickets: Vec<_> =
        (0..10).map(|_| timers.schedule(now() + 2 * HOUR, text("a")).unwrap()).collect();
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
    while timers.schedule(now() + 2 * HOUR, text("b")).is_ok() {
        thread::yield_now();
    }
    assert!(!stopping.is_finished());
    assert!(disk.timers().iter().any(|record| &*record.payload == b"a"));
    release.send(true).unwrap();
    stopping.join().unwrap().unwrap();
    assert!(disk.timers().iter().all(|record| &*record.payload == b"b"));
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

#[test]
fn the_last_one_that_is_dropped_stops_the_service() {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder().linger(HOUR));
    let ticket = timers.schedule(now() + 2 * HOUR, text("a")).unwrap();
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
