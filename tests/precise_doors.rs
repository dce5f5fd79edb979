//! Precise timers of the higher-level APIs, by hand: what is made precise stays so.

use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::precisely::{manual, precisely};

const US: Duration = Duration::from_micros(1);

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_interval_may_be_precise_and_stays_so() {
    let (builder, clock) = manual();
    let engine = builder.build().unwrap();
    let (begin, mut cx) = (engine.now(), Context::from_waker(Waker::noop()));
    let mut interval = engine.interval_at(precisely(250 * US), 333 * US);
    for tick in 0..4 {
        let due = 250 * US + 333 * US * tick;
        assert!(interval.poll_tick(&mut cx).is_pending());
        assert_eq!(engine.snapshot().by_shard(), [0, 0, 1], "it is on the precise shard");
        engine.advance(due - clock.elapsed() - US).unwrap();
        assert!(interval.poll_tick(&mut cx).is_pending());
        engine.advance(US).unwrap();
        assert_eq!(interval.poll_tick(&mut cx), std::task::Poll::Ready(begin + due));
    }
    interval.reset_after(1500 * US);
    assert!(interval.poll_tick(&mut cx).is_pending());
    assert_eq!(engine.advance(1499 * US), Ok(0));
    assert_eq!(engine.advance(US), Ok(1));
}

#[test]
fn a_timeout_may_be_precise() {
    let (builder, _clock) = manual();
    let engine = builder.build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut timeout = Box::pin(engine.timeout(precisely(250 * US), std::future::pending::<()>()));
    assert!(timeout.as_mut().poll(&mut cx).is_pending());
    assert_eq!(engine.advance(249 * US), Ok(0));
    assert_eq!(engine.advance(US), Ok(1));
    assert!(timeout.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn a_periodic_whose_first_run_is_precise_is_precise() {
    let (builder, clock) = manual();
    let engine = builder.build().unwrap();
    let (sender, ran) = mpsc::channel();
    let schedule = tickless::periodic::Schedule::fixed_rate(333 * US);
    let first = precisely(100 * US);
    let at = clock.clone();
    let run = move |_: &tickless::periodic::Run| sender.send(at.elapsed()).unwrap();
    let periodic = schedule.starting(first).start(&engine, run).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [100, 433, 766].map(|us| US * us));
    assert_eq!(periodic.next_deadline(), Some(engine.now() + 99 * US));
    assert_eq!((periodic.missed(), engine.snapshot().by_shard()[2]), (0, 1));
    assert!(periodic.cancel());
    assert_eq!(engine.len(), 0);
}

#[test]
fn a_sleep_may_be_precise_and_stays_so() {
    let (builder, _clock) = manual();
    let engine = builder.build().unwrap();
    let start = engine.now();
    let mut sleep = engine.sleep(precisely(1500 * US));
    let mut poll = || {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        sleep.poll_elapsed(&mut cx).is_ready()
    };
    assert!(!poll());
    engine.advance(1499 * US).unwrap();
    assert!(!poll() && engine.snapshot().by_shard()[2] == 1);
    engine.advance(US).unwrap();
    assert!(poll());
    sleep.reset(2 * MS + US);
    assert_eq!(sleep.deadline(), Some(start + 3501 * US));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sleep.poll_elapsed(&mut cx).is_pending());
    sleep.reset(3 * MS + US);
    assert!(sleep.poll_elapsed(&mut cx).is_pending());
    assert_eq!(engine.advance(3 * MS), Ok(0));
    assert_eq!(engine.advance(US), Ok(1));
    assert!(sleep.poll_elapsed(&mut cx).is_ready());
}

#[test]
fn timers_under_keys_keep_their_class() {
    let (builder, clock) = manual();
    let engine = builder.build().unwrap();
    let timers = tickless::keyed::KeyedTimers::with_engine(&engine);
    let (sender, ran) = mpsc::channel();
    let note = |key: &'static str| {
        let (sender, clock) = (sender.clone(), clock.clone());
        move || sender.send((key, clock.elapsed())).unwrap()
    };
    timers.schedule_keyed("precise", precisely(1500 * US), note("precise")).unwrap();
    timers.schedule_keyed("other", 1500 * US, note("other")).unwrap();
    assert_eq!(timers.deadline("precise"), Some(engine.now() + 1500 * US));
    assert_eq!(timers.deadline("other"), Some(engine.now() + 2 * MS));
    for delay in [HOUR, 2500 * US, 9100 * US, 3300 * US] {
        timers.reset("precise", delay).unwrap();
        timers.reset("other", precisely(delay)).unwrap();
        assert_eq!(timers.deadline("precise"), Some(engine.now() + delay));
        assert_eq!((timers.len(), engine.len()), (2, 2));
    }
    assert_eq!(engine.advance(4 * MS), Ok(2));
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [("precise", 3300 * US), ("other", 4 * MS)]);
    assert!(timers.is_empty());
}

#[test]
fn an_operation_in_a_purgatory_may_expire_precisely() {
    use crate::operation::Op;
    let (builder, _clock) = manual();
    let engine = builder.build().unwrap();
    let purgatory = tickless::purgatory::Purgatory::with_engine(&engine);
    let operation = Op::new();
    let timeout = precisely(1500 * US);
    let arrival = purgatory.try_complete_else_watch(operation, ["key"], timeout).unwrap();
    assert!(arrival.into_delayed().is_some());
    assert_eq!(engine.advance(1499 * US), Ok(0));
    assert_eq!(engine.advance(US), Ok(1));
    assert_eq!(purgatory.len(), 0);
}
