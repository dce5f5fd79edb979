//! Channels of the standard library and of tokio: what is due is sent in order, waited for or
//! dropped, and counted. (Those of crossbeam: `tests/races/dispatch/channel.rs`.)

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::dispatch::{Channel, ChannelSender, ChannelStats, Monitor};
use tickless::{Builder, Due, Engine, Handler, ManualClock};

use crate::on_runtime::Runs;

const MS: Duration = Duration::from_millis(1);

/// Waits for a payload; `None`: none will come.
type Receive<T> = Box<dyn FnMut() -> Option<T> + Send>;

/// How a handler is made of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Blocking,
    Dropping,
}

fn handler<T>(when: When, sender: impl ChannelSender<Payload = T>) -> Channel<T> {
    match when {
        When::Blocking => Channel::blocking(sender),
        When::Dropping => Channel::dropping(sender),
    }
}

/// Channels of each kind with room for three, or of those alone that have room for any number.
fn channels<T: Send + 'static>(when: When, bounded: bool) -> Vec<(Channel<T>, Receive<T>)> {
    let mut all: Vec<(Channel<T>, Receive<T>)> = Vec::new();
    if bounded {
        let (sender, receiver) = mpsc::sync_channel(3);
        all.push((handler(when, sender), Box::new(move || receiver.recv().ok())));
    } else {
        let (sender, receiver) = mpsc::channel();
        all.push((handler(when, sender), Box::new(move || receiver.recv().ok())));
    }
    if bounded {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(3);
        all.push((handler(when, sender), Box::new(move || receiver.blocking_recv())));
    } else {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        all.push((handler(when, sender), Box::new(move || receiver.blocking_recv())));
    }
    all
}

fn by_hand<T: Send + 'static>(handler: impl Handler<T> + 'static) -> Engine<T> {
    Builder::new().shards(1).manual_clock(&ManualClock::new()).build_with_handler(handler).unwrap()
}

/// An engine that has ten tokens, due one per millisecond.
fn with_ten_tokens(channel: Channel<Token>) -> (Engine<Token>, Fates, Monitor<ChannelStats>) {
    let monitor = channel.monitor();
    let (engine, fates) = (by_hand(channel), Fates::new(10));
    for number in 0..10 {
        engine.schedule_detached(MS * (1 + number as u32), fates.token(number)).unwrap();
    }
    (engine, fates, monitor)
}

/// So many sent, dropped, and not wanted by anybody.
fn counts(monitor: &Monitor<ChannelStats>) -> (u64, u64, u64) {
    let stats = monitor.stats();
    (stats.sent, stats.dropped, stats.disconnected)
}

#[test]
fn what_is_due_is_received_in_order_and_then_comes_the_end() {
    for when in [When::Blocking, When::Dropping] {
        for (channel, mut receive) in channels(when, false) {
            let (engine, _fates, monitor) = with_ten_tokens(channel);
            assert_eq!(engine.advance(MS * 7), Ok(7));
            assert_eq!(engine.stop().unwrap().len(), 3);
            // The engine has stopped and is still here; the channel is closed all the same.
            let all: Vec<_> = std::iter::from_fn(&mut receive).map(|token| token.number).collect();
            assert_eq!((all, counts(&monitor)), ((0..7).collect(), (7, 0, 0)));
        }
    }
}

#[test]
fn deadlines_are_sent_along() {
    for (channel, mut receive) in channels::<Due<u64>>(When::Blocking, false) {
        let engine = by_hand(channel.with_deadlines());
        let start = engine.now();
        for n in 1..=3 {
            engine.schedule_detached(MS * n, u64::from(n)).unwrap();
        }
        assert_eq!(engine.advance(MS * 3), Ok(3));
        drop(engine);
        let all: Vec<_> =
            std::iter::from_fn(&mut receive).map(|due| (due.payload, due.deadline)).collect();
        assert_eq!(all, [1, 2, 3].map(|n| (u64::from(n), start + MS * n)));
    }
}

#[test]
fn what_finds_the_channel_full_is_dropped_at_once_and_counted() {
    for (channel, mut receive) in channels(When::Dropping, true) {
        let (engine, fates, monitor) = with_ten_tokens(channel);
        assert_eq!(engine.advance(MS * 6), Ok(6));
        assert_eq!(counts(&monitor), (3, 3, 0));
        assert!((3..6).all(|number| fates.of(number) == (0, 1)), "dropped by now");
        receive().unwrap().run();
        assert_eq!(engine.advance(MS * 4), Ok(4));
        assert_eq!(counts(&monitor), (4, 6, 0), "there was room for one more");
        engine.stop().unwrap();
        assert!(std::iter::from_fn(receive).map(|token| token.number).eq([1, 2, 6]));
    }
}

#[test]
fn the_reaper_waits_for_room_and_nothing_is_lost() {
    for (channel, receive) in channels(When::Blocking, true) {
        let (engine, _fates, monitor) = with_ten_tokens(channel);
        let reaper = spawn(move || {
            let fired = engine.advance(MS * 10).unwrap();
            engine.stop().unwrap();
            fired
        });
        while counts(&monitor) != (3, 0, 0) {
            thread::yield_now();
        }
        assert!(!reaper.is_finished());
        assert!(std::iter::from_fn(receive).map(|token| token.number).eq(0..10));
        assert_eq!((reaper.join().unwrap(), counts(&monitor)), (10, (10, 0, 0)));
    }
}

#[test]
fn what_nobody_receives_any_more_is_dropped_and_counted() {
    for when in [When::Blocking, When::Dropping] {
        for bounded in [true, false] {
            for (channel, mut receive) in channels(when, bounded) {
                let (engine, fates, monitor) = with_ten_tokens(channel);
                assert_eq!(engine.advance(MS), Ok(1));
                assert_eq!(receive().map(|token| token.number), Some(0));
                drop(receive);
                assert_eq!(engine.advance(MS * 9), Ok(9));
                assert_eq!(counts(&monitor), (1, 0, 9));
                assert!((0..10).all(|number| fates.of(number) == (0, 1)));
                assert_eq!(engine.stats().panicked, 0);
            }
        }
    }
}

#[test]
fn a_reaper_that_waits_gets_on_when_the_receivers_go() {
    for (channel, receive) in channels(When::Blocking, true) {
        let (engine, fates, monitor) = with_ten_tokens(channel);
        let reaper = spawn(move || engine.advance(MS * 10).unwrap());
        while counts(&monitor) != (3, 0, 0) {
            thread::yield_now();
        }
        drop(receive);
        assert_eq!((reaper.join().unwrap(), counts(&monitor)), (10, (3, 0, 7)));
        assert!((0..10).all(|number| fates.of(number) == (0, 1)));
    }
}

mod on_tokio {
    use super::*;

    #[test]
    fn the_engines_own_threads_wait_for_a_task_that_receives() {
        const MANY: u64 = 200;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let channel = Channel::blocking(sender);
        let monitor = channel.monitor();
        let engine = Builder::new().shards(1).build_with_handler(channel).unwrap();
        runtime.run(async {
            for number in 0..MANY {
                engine.schedule_detached(MS * (number as u32 % 5), number).unwrap();
            }
            let mut all = Vec::new();
            for _ in 0..MANY {
                all.push(receiver.recv().await.unwrap());
            }
            all.sort_unstable();
            assert!(all.into_iter().eq(0..MANY));
            // Nobody waits for room, so a stop does not wait for this task.
            engine.stop().unwrap();
            assert_eq!(receiver.recv().await, None);
        });
        assert_eq!((counts(&monitor), engine.stats().panicked), ((MANY, 0, 0), 0));
    }

    #[test]
    fn asynchronous_code_that_runs_turns_does_not_wait_for_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(3);
        let (engine, fates, monitor) = with_ten_tokens(Channel::blocking(sender));
        runtime.run(async {
            assert_eq!(engine.advance(MS * 5), Ok(5));
            assert_eq!((counts(&monitor), engine.stats().panicked), ((3, 2, 0), 2));
            assert!([3, 4].into_iter().all(|number| fates.of(number) == (0, 1)));
            assert_eq!(receiver.recv().await.map(|token| token.number), Some(0));
            assert_eq!(engine.advance(MS), Ok(1));
            assert_eq!((counts(&monitor), engine.stats().panicked), ((4, 2, 0), 2));
        });
        // Where blocking is allowed, it waits.
        let reaper = runtime.spawn_blocking(move || engine.advance(MS * 4));
        let rest: Vec<_> = std::iter::from_fn(|| receiver.blocking_recv()).collect();
        let numbers: Vec<_> = rest.iter().map(|token| token.number).collect();
        assert_eq!(numbers, [1, 2, 5, 6, 7, 8, 9]);
        assert_eq!(runtime.run(reaper).unwrap(), Ok(4));
        assert_eq!(counts(&monitor), (8, 2, 0));
    }
}

#[test]
fn what_a_receiver_gets_counts_as_sent_although_its_waker_panics() {
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    use support::planned::{panic_as_planned, quietly};

    struct Panicky;
    impl Wake for Panicky {
        fn wake(self: Arc<Panicky>) {
            panic_as_planned();
        }
    }
    quietly();
    let waker = Waker::from(Arc::new(Panicky));
    let mut context = Context::from_waker(&waker);
    let mut send = |channel: Channel<u64>, receive: &mut dyn FnMut(&mut Context<'_>) -> _| {
        let monitor = channel.monitor();
        let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
        let engine = builder.build_with_handler(channel).unwrap();
        assert_eq!(receive(&mut context), Poll::Pending);
        engine.schedule_detached(MS, 7).unwrap();
        assert_eq!(engine.advance(MS), Ok(1));
        assert_eq!(receive(&mut context), Poll::Ready(Some(7)));
        let stats = monitor.stats();
        assert_eq!((stats.sent, stats.dropped, engine.stats().panicked), (1, 0, 1));
    };
    for when in [When::Blocking, When::Dropping] {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        send(handler(when, sender), &mut |context| receiver.poll_recv(context));
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        send(handler(when, sender), &mut |context| receiver.poll_recv(context));
    }
}
