//! ZooKeeper's case: thousands of sessions, each of which expires unless its client pings, and
//! deadlines that are rounded up to multiples of a common interval.
//!
//! Nobody minds if a session expires a little late, and sessions with the same deadline expire in
//! one wake-up. A ping moves a session to a later deadline, with one compare-and-swap. With a slack
//! instead of the rounding, the engine picks common times by itself: those at which a wide bucket
//! of its wheel opens. Then most sessions stay in their bucket until they expire.
//!
//! The same sessions live three times: with exact deadlines, rounded, and with a slack. The program
//! runs the engine's turns on a clock that it moves by hand, so it can count the wake-ups.

use std::error::Error;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use tickless::{Engine, ManualClock, When};
use tickless_keyed::{ResetError, TtlMap};

const SESSIONS: u32 = 10_000;
const SECOND: Duration = Duration::from_secs(1);

/// ZooKeeper's `tickTime`.
const INTERVAL: Duration = Duration::from_secs(2);

/// Until when a session lives, before any rounding.
type Session = Mutex<Instant>;

/// What it took to expire all sessions.
#[derive(Debug)]
struct Cost {
    wake_ups: u32,
    /// At how many different times sessions expired.
    buckets: u32,
    /// How often the engine moved a session to a narrower bucket before that.
    cascaded: u64,
}

/// ZooKeeper's rounding: the next multiple of the interval, also if `until` is one.
fn round_up(start: Instant, until: Instant) -> When {
    let intervals = (until - start).as_millis() / INTERVAL.as_millis() + 1;
    When::at(start + INTERVAL * intervals as u32)
}

/// Opens all sessions, pings half of them, and waits until all have expired, at most `late` late.
fn live(when: fn(Instant, Instant) -> When, late: Duration) -> Result<Cost, Box<dyn Error>> {
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
    let (sender, expired) = mpsc::channel();
    let on_expiry = move |_: &u32, session| drop(sender.send(session));
    let sessions = TtlMap::<u32, Session>::with_engine(&engine, on_expiry);
    let start = engine.now();
    let until = |id: u32| engine.now() + (id % 3 + 1) * 10 * SECOND;

    // In the first two seconds, all sessions are opened. In the next two, the even ones ping.
    for id in 0..SESSIONS {
        sessions.insert(id, Mutex::new(until(id)), when(start, until(id)))?;
        clock.advance(2 * SECOND / SESSIONS);
    }
    for id in (0..SESSIONS).step_by(2) {
        let session = sessions.get_and_extend(&id, when(start, until(id)))?;
        *session.lock().expect("nobody panics") = until(id);
        clock.advance(4 * SECOND / SESSIONS);
    }

    let (mut wake_ups, mut buckets, mut ended) = (0, 0, 0);
    loop {
        let turn = engine.turn(0)?;
        buckets += u32::from(turn.fired > 0);
        for session in expired.try_iter() {
            let until = *session.lock().expect("nobody panics");
            let after = engine.now().checked_duration_since(until);
            assert!(after.expect("no session expires early") <= late);
            ended += 1;
        }
        let Some(sleep) = turn.sleep(engine.now()) else { break };
        wake_ups += u32::from(!sleep.is_zero());
        clock.advance(sleep);
    }
    assert_eq!((ended, sessions.len()), (SESSIONS, 0), "each session expires once");
    assert_eq!(sessions.extend(&0, INTERVAL), Err(ResetError::Absent), "it pings too late");
    Ok(Cost { wake_ups, buckets, cascaded: engine.stats().cascaded })
}

fn main() -> Result<(), Box<dyn Error>> {
    let exact = live(|_, until| When::at(until), SECOND / 1000)?;
    let rounded = live(round_up, INTERVAL)?;
    let slack = live(|_, until| When::at(until).slack(INTERVAL), INTERVAL)?;
    println!("exact:   {exact:?}\nrounded: {rounded:?}\nslack:   {slack:?}");
    assert_eq!(rounded.buckets, 6, "for each timeout: of those that pinged, and of the others");
    assert!(rounded.wake_ups.max(slack.wake_ups) < exact.wake_ups / 100);
    assert!(slack.cascaded < rounded.cascaded / 2);
    Ok(())
}
