//! Exactly once: of cancel and fire one wins, and the payload is run, returned or dropped once.

use std::thread;
use std::time::Duration;

use support::mpsc;
use support::random::Random;
use support::scaled;
use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::{Batch, Builder, Engine, Handle, ManualClock, State};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs each token on the reapers' threads.
fn run_all(batch: Batch<'_, Token>) {
    batch.for_each(|token| token.run());
}

fn threaded() -> Engine<Token> {
    let builder = Builder::new().tick(Duration::from_micros(100)).shards(2);
    builder.build_with_handler(run_all).unwrap()
}

fn manual() -> (Engine<Token>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Builder::new().tick(Duration::from_millis(1)).shards(1);
    (builder.manual_clock(&clock).build_with_handler(run_all).unwrap(), clock)
}

/// Stops the engine, so that no task is on its way any more, and drops what is returned.
fn stop(engine: &Engine<Token>) -> usize {
    engine.stop().unwrap().len()
}

/// Waits until the handler has what was not cancelled: it may still be on its way there, and a stop
/// would return it.
fn wait_for_lost(engine: &Engine<Token>, outcomes: &[(usize, bool)]) {
    let lost = outcomes.iter().filter(|(_, cancelled)| !cancelled).count() as u64;
    while engine.stats().fired < lost {
        thread::yield_now();
    }
}

#[test]
fn a_cancel_that_races_with_the_fire_wins_or_loses_and_the_payload_meets_one_fate() {
    const RACERS: usize = 2;
    let each = scaled(20_000) as usize;
    let fates = Fates::new(RACERS * (each + 1));
    let engine = threaded();
    let race = |racer: usize| {
        let (engine, fates) = (engine.clone(), fates.clone());
        spawn(move || {
            let random = &mut Random::new(racer as u64);
            let mut cancelled = Vec::new();
            // However slow this thread is: the cancel of the first comes before its time.
            let number = RACERS * each + racer;
            let far = engine.schedule(HOUR, fates.token(number)).unwrap();
            let mut waiting: Vec<(usize, Handle<Token>)> = vec![(number, far)];
            for number in racer * each..(racer + 1) * each {
                let delay = Duration::from_nanos(random.below(2_000_000));
                waiting.push((number, engine.schedule(delay, fates.token(number)).unwrap()));
                if waiting.len() > 100 {
                    let (number, handle) = waiting.swap_remove(random.below(101) as usize);
                    cancelled.push((number, handle.cancel()));
                }
            }
            // However busy the machine is: the reaper comes once before the last are cancelled.
            while engine.stats().fired == 0 {
                thread::yield_now();
            }
            cancelled.extend(waiting.into_iter().map(|(n, handle)| (n, handle.cancel())));
            cancelled
        })
    };
    let racers: Vec<_> = (0..RACERS).map(race).collect();
    let outcomes: Vec<_> = racers.into_iter().flat_map(|racer| racer.join().unwrap()).collect();
    wait_for_lost(&engine, &outcomes);
    assert_eq!(stop(&engine), 0, "each was cancelled or has fired");
    let mut won = 0;
    for &(number, cancelled) in &outcomes {
        assert_eq!(fates.of(number), (u32::from(!cancelled), 1), "cancelled: {cancelled}");
        won += u64::from(cancelled);
    }
    assert_eq!(outcomes.len(), RACERS * (each + 1));
    assert!(won > 0 && won < outcomes.len() as u64, "a race has two sides: {won}");
    let stats = engine.stats();
    assert_eq!((stats.cancelled, stats.fired), (won, outcomes.len() as u64 - won));
}

#[test]
fn a_cancel_from_another_thread_races_with_the_fire_as_well() {
    let timers = scaled(30_000) as usize;
    let fates = Fates::new(timers);
    let engine = threaded();
    let (sender, receiver) = mpsc::sync_channel::<(usize, Handle<Token>)>(64);
    let canceller = spawn(move || {
        receiver.iter().map(|(number, handle)| (number, handle.cancel())).collect::<Vec<_>>()
    });
    let random = &mut Random::new(7);
    for number in 0..timers {
        let delay = Duration::from_nanos(random.below(300_000));
        sender.send((number, engine.schedule(delay, fates.token(number)).unwrap())).unwrap();
    }
    drop(sender);
    let outcomes = canceller.join().unwrap();
    wait_for_lost(&engine, &outcomes);
    assert_eq!(stop(&engine), 0, "each was cancelled or has fired");
    for (number, cancelled) in outcomes {
        assert_eq!(fates.of(number), (u32::from(!cancelled), 1), "cancelled: {cancelled}");
    }
}

#[test]
fn a_cancelled_payload_is_dropped_at_once_on_the_cancelling_thread() {
    struct Tattler(mpsc::Sender<thread::ThreadId>);
    impl Drop for Tattler {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }
    let engine = Engine::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let tattler = Tattler(sender);
    let handle = engine.schedule(HOUR, move || drop(tattler)).unwrap();
    assert!(handle.cancel());
    assert_eq!(receiver.try_recv(), Ok(thread::current().id()));
}

#[test]
fn a_handle_that_is_dropped_detaches_its_timer() {
    let fates = Fates::new(2);
    let (engine, _clock) = manual();
    drop(engine.schedule(Duration::from_millis(5), fates.token(0)).unwrap());
    engine.schedule_detached(Duration::from_millis(5), fates.token(1)).unwrap();
    assert_eq!(engine.len(), 2);
    assert_eq!(engine.advance(Duration::from_millis(5)), Ok(2));
    assert_eq!([fates.of(0), fates.of(1)], [(1, 1); 2]);
}

#[test]
fn a_guard_cancels_when_dropped_and_not_when_it_gave_its_handle_back() {
    let fates = Fates::new(2);
    let (engine, _clock) = manual();
    let delay = Duration::from_millis(5);
    let guard = engine.schedule(delay, fates.token(0)).unwrap().cancel_on_drop();
    assert_eq!(guard.state(), State::Pending);
    drop(guard);
    assert_eq!(fates.of(0), (0, 1));
    let mut guard = engine.schedule(delay, fates.token(1)).unwrap().cancel_on_drop();
    assert!(guard.reset(delay * 2).is_ok());
    let handle = guard.into_handle();
    assert_eq!(engine.advance(delay * 2), Ok(1));
    assert_eq!(handle.state(), State::Fired);
    assert_eq!(fates.of(1), (1, 1));
    drop(handle.cancel_on_drop());
    assert_eq!(fates.of(1), (1, 1), "a guard of a timer that fired has nothing to cancel");
}

#[test]
fn take_gives_the_payload_back_and_nobody_else_drops_it() {
    let fates = Fates::new(2);
    let (engine, _clock) = manual();
    let taken = engine.schedule(Duration::from_millis(5), fates.token(0)).unwrap().take();
    assert_eq!(fates.of(0), (0, 0));
    assert_eq!(taken.map(|token| token.number), Some(0));
    assert_eq!(fates.of(0), (0, 1));
    let late = engine.schedule(Duration::from_millis(5), fates.token(1)).unwrap();
    assert_eq!(engine.advance(Duration::from_millis(5)), Ok(1));
    assert!(late.take().is_none());
    assert_eq!(fates.of(1), (1, 1));
}

#[test]
fn a_handle_says_what_its_timer_is() {
    let fates = Fates::new(2);
    let (engine, _clock) = manual();
    let fires = engine.schedule(Duration::from_millis(5), fates.token(0)).unwrap();
    let stays = engine.schedule(Duration::from_millis(500), fates.token(1)).unwrap();
    assert_eq!([fires.state(), stays.state()], [State::Pending; 2]);
    let zero = engine.now();
    assert_eq!(engine.advance(Duration::from_millis(5)), Ok(1));
    assert_eq!([fires.state(), stays.state()], [State::Fired, State::Pending]);
    assert_eq!(fires.deadline(), Some(zero + Duration::from_millis(5)), "also afterwards");
    assert_eq!(stop(&engine), 1);
    assert_eq!([fires.state(), stays.state()], [State::Fired, State::Stopped]);
    assert!(!fires.cancel() && !stays.cancel());
    assert_eq!([fates.of(0), fates.of(1)], [(1, 1), (0, 1)]);
}

/// Cancelling twice is impossible by type: `cancel` consumes the handle. What is left to show is
/// that nothing of the old timer reaches the next one in its seat.
#[test]
fn a_cancelled_timer_is_gone_for_good_also_when_its_seat_serves_another() {
    let fates = Fates::new(3);
    let (engine, _clock) = manual();
    assert!(engine.schedule(Duration::from_millis(5), fates.token(0)).unwrap().cancel());
    let second = engine.schedule(Duration::from_millis(5), fates.token(1)).unwrap();
    assert_eq!(engine.stats().seated, 1, "the second sits where the first sat");
    assert!(second.cancel());
    engine.schedule_detached(Duration::from_millis(5), fates.token(2)).unwrap();
    assert_eq!(engine.advance(Duration::from_secs(1)), Ok(1));
    assert_eq!([0, 1, 2].map(|n| fates.of(n)), [(0, 1), (0, 1), (1, 1)]);
}

#[test]
fn threads_that_are_sent_a_handle_may_use_it_in_turn() {
    let fates = Fates::new(1);
    let engine = threaded();
    let mut handle = engine.schedule(HOUR, fates.token(0)).unwrap();
    for _ in 0..4 {
        let mover = spawn(move || {
            assert!(handle.reset(HOUR / 2).is_ok());
            assert!(handle.reset(HOUR).is_ok());
            handle
        });
        handle = mover.join().unwrap();
    }
    assert!(handle.cancel());
    assert_eq!(fates.of(0), (0, 1));
    assert_eq!(stop(&engine), 0);
}
