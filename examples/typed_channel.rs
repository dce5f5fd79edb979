//! An engine without closures that feeds a channel: idle sessions of a server.
//!
//! ```text
//! cargo run --release --example typed_channel
//! ```
//!
//! The payload of a timer is the number of a session. What is due goes into a bounded channel, with
//! its deadline, and a janitor thread closes those sessions. A session that is used is not due: its
//! timer is reset, which is one atomic exchange. When the engine has stopped, the channel ends, and
//! the janitor with it.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use tickless::dispatch::Channel;
use tickless::{Builder, Due, Handle, ResetError};

const SESSIONS: u32 = 3_000;

/// One in so many keeps being used, and one in so many logs out.
const BUSY: u32 = 3;
const POLITE: u32 = 5;

const IDLE: Duration = Duration::from_millis(150);

/// How long the busy ones go on, and how often they are used.
const WHILE: Duration = Duration::from_millis(600);
const EVERY: Duration = Duration::from_millis(20);

/// Closes sessions that have been idle, until there will be no more of them. Answers which those
/// were, and by how much the latest was late.
fn janitor(idle: Receiver<Due<u32>>) -> (Vec<u32>, Duration) {
    let (mut closed, mut latest) = (Vec::new(), Duration::ZERO);
    for due in idle {
        let late = Instant::now().checked_duration_since(due.deadline);
        latest = latest.max(late.expect("no session is idle before its time"));
        closed.push(due.payload);
    }
    (closed, latest)
}

fn is_busy(session: u32) -> bool {
    session % BUSY == 0
}

fn is_polite(session: u32) -> bool {
    session % POLITE == 1 && !is_busy(session)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A janitor that cannot keep up holds up timers rather than lose a session.
    let (sender, idle) = crossbeam_channel::bounded(1024);
    let channel = Channel::blocking(sender);
    let sent = channel.monitor();
    let engine = Builder::new().build_with_handler(channel.with_deadlines())?;
    let janitor = thread::spawn(move || janitor(idle));

    let mut sessions = Vec::new();
    for session in 0..SESSIONS {
        sessions.push((session, engine.schedule(IDLE, session)?));
    }
    // Who logs out is cancelled, unless it was idle for too long before it got that far.
    let (polite, mut sessions): (Vec<_>, Vec<_>) =
        sessions.into_iter().partition(|(session, _)| is_polite(*session));
    let log_out = |(session, timer): (u32, Handle<u32>)| timer.cancel().then_some(session);
    let gone: Vec<u32> = polite.into_iter().filter_map(log_out).collect();
    let begun = Instant::now();
    while begun.elapsed() < WHILE {
        for (_, timer) in sessions.iter_mut().filter(|(session, _)| is_busy(*session)) {
            match timer.reset(IDLE) {
                // A machine that is slow enough has let it become idle.
                Ok(()) | Err(ResetError::TooLate) => {}
                Err(error) => return Err(error.into()),
            }
        }
        thread::sleep(EVERY);
    }

    // What is pending now are the busy ones, and they come back.
    let in_use = engine.stop()?;
    let (closed, latest) = janitor.join().expect("the janitor does not panic");
    println!("{SESSIONS} sessions: {} closed, {} in use at the end", closed.len(), in_use.len());
    println!(
        "{} sent, the latest {latest:.1?} late; {} resets",
        sent.stats().sent,
        engine.stats().reset
    );
    let mut all = [closed, in_use, gone].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..SESSIONS), "each session ends in one of three ways, once");
    assert_eq!((sent.stats().dropped, sent.stats().disconnected), (0, 0));
    Ok(())
}
