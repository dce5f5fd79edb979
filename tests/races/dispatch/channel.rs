//! Channels: what is due is sent in order, and what cannot be sent is dropped and counted.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use support::boxed::Boxed;
use support::patience::PATIENCE;
use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::dispatch::{Channel, ChannelStats};
use tickless::{Builder, Engine, Handler, ManualClock};

const MS: Duration = Duration::from_millis(1);

fn by_hand<T: Send + 'static>(handler: impl Handler<T> + 'static) -> Engine<T> {
    Builder::new().shards(1).manual_clock(&ManualClock::new()).build_with_handler(handler).unwrap()
}

/// An engine that has ten tokens, due one per millisecond.
fn with_ten_tokens(channel: Channel<Token>) -> (Engine<Token>, Fates) {
    let (engine, fates) = (by_hand(channel), Fates::new(10));
    for number in 0..10 {
        engine.schedule_detached(MS * (1 + number as u32), fates.token(number)).unwrap();
    }
    (engine, fates)
}

/// So many sent, dropped, and not wanted by anybody.
fn counts(stats: ChannelStats) -> (u64, u64, u64) {
    (stats.sent, stats.dropped, stats.disconnected)
}

#[test]
fn what_is_due_is_received_in_order_and_then_comes_the_end() {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let channel = Channel::blocking(sender);
    let monitor = channel.monitor();
    let engine = by_hand(channel);
    for n in (0..100).rev() {
        engine.schedule_detached(MS * (n + 1), u64::from(n)).unwrap();
    }
    assert_eq!(engine.advance(MS * 60), Ok(60));
    assert_eq!(engine.stop().unwrap().len(), 40);
    // The engine has stopped and is still here; the channel is closed all the same.
    assert!(receiver.iter().eq(0..60));
    assert_eq!(counts(monitor.stats()), (60, 0, 0));
}

#[test]
fn deadlines_are_sent_to_the_tick() {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let engine = by_hand(Channel::blocking(sender).with_deadlines());
    let start = engine.now();
    for n in 1..=20 {
        engine.schedule_detached(MS * n - MS / 2, u64::from(n)).unwrap();
    }
    assert_eq!(engine.advance(MS * 20), Ok(20));
    engine.stop().unwrap();
    let all: Vec<_> = receiver.iter().map(|due| (due.payload, due.deadline)).collect();
    let expected: Vec<_> = (1..=20).map(|n| (u64::from(n), start + MS * n)).collect();
    assert_eq!(all, expected, "rounded up to the tick");
}

#[test]
fn what_finds_the_channel_full_is_dropped_at_once_and_counted() {
    let (sender, receiver) = crossbeam_channel::bounded(3);
    let channel = Channel::dropping(sender);
    let monitor = channel.monitor();
    let (engine, fates) = with_ten_tokens(channel);
    assert_eq!(engine.advance(MS * 6), Ok(6));
    assert_eq!(counts(monitor.stats()), (3, 3, 0));
    assert!((3..6).all(|number| fates.of(number) == (0, 1)), "dropped by now");
    receiver.try_recv().unwrap().run();
    assert_eq!(fates.of(0), (1, 1));
    assert_eq!(engine.advance(MS * 4), Ok(4));
    assert_eq!(counts(monitor.stats()), (4, 6, 0), "there was room for one more");
    engine.stop().unwrap();
    assert!(receiver.iter().map(|token| token.number).eq([1, 2, 6]));
}

#[test]
fn the_reaper_waits_for_room_in_a_channel_and_nothing_is_lost() {
    let (sender, receiver) = crossbeam_channel::bounded(3);
    let channel = Channel::blocking(sender);
    let monitor = channel.monitor();
    let (engine, _fates) = with_ten_tokens(channel);
    let reaper = spawn(move || {
        let fired = engine.advance(MS * 10).unwrap();
        engine.stop().unwrap();
        fired
    });
    while receiver.len() < 3 {
        thread::yield_now();
    }
    assert!(!reaper.is_finished());
    let all = receiver.iter().map(|token| token.number);
    assert!(all.eq(0..10));
    assert_eq!((reaper.join().unwrap(), counts(monitor.stats())), (10, (10, 0, 0)));
}

#[test]
fn what_nobody_receives_any_more_is_dropped_and_counted() {
    for make in [Channel::blocking, Channel::dropping] {
        let (sender, receiver) = crossbeam_channel::bounded(2);
        let channel = make(sender);
        let monitor = channel.monitor();
        let (engine, fates) = with_ten_tokens(channel);
        assert_eq!(engine.advance(MS), Ok(1));
        assert_eq!(receiver.recv_timeout(PATIENCE).map(|token| token.number), Ok(0));
        drop(receiver);
        assert_eq!(engine.advance(MS * 9), Ok(9));
        assert_eq!(counts(monitor.stats()), (1, 0, 9));
        assert!((0..10).all(|number| fates.of(number) == (0, 1)));
        assert_eq!(engine.stats().panicked, 0);
    }
}

#[test]
fn a_reaper_that_waits_gets_on_when_the_receivers_go() {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let channel = Channel::blocking(sender);
    let monitor = channel.monitor();
    let (engine, fates) = with_ten_tokens(channel);
    let reaper = spawn(move || engine.advance(MS * 10).unwrap());
    while receiver.is_empty() {
        thread::yield_now();
    }
    drop(receiver);
    assert_eq!(reaper.join().unwrap(), 10);
    let (sent, dropped, disconnected) = counts(monitor.stats());
    assert_eq!((sent + disconnected, dropped), (10, 0));
    assert!((0..10).all(|number| fates.of(number) == (0, 1)));
}

/// It runs the user's code and waits for no room.
#[test]
fn a_payload_whose_drop_hangs_is_taken_over() {
    type Make = fn(Sender<Boxed>) -> Channel<Boxed>;
    let makes: [(bool, Make); 2] = [(false, Channel::dropping), (true, Channel::blocking)];
    for (is_gone, make) in makes {
        // Nobody receives at the moment, or ever.
        let (sender, receiver) = crossbeam_channel::bounded(0);
        let kept = (!is_gone).then_some(receiver);
        let engine = Builder::new().shards(1).build_with_handler(make(sender)).unwrap();
        let ((release, released), (tell, told)) = (mpsc::channel::<()>(), mpsc::channel());
        let hangs = Boxed::on_drop(move || _ = released.recv());
        engine.schedule_detached(Duration::ZERO, hangs).unwrap();
        let next = Boxed::on_drop(move || tell.send(()).unwrap());
        engine.schedule_detached(MS, next).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(()), "is gone: {is_gone}");
        drop((release, kept));
        engine.stop().unwrap();
    }
}
