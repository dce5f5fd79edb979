//! A coordinator that notices which members of its group have gone silent.
//!
//! ```text
//! cargo run --release --example heartbeat
//! ```
//!
//! Each member has a heartbeat, and a thread that beats. Some say goodbye, some just fall silent,
//! the others keep beating until the end. A beat is one atomic exchange and touches no timer, so
//! members may beat as often as they like.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tickless::Engine;
use tickless::periodic::{End, Heartbeat};

const MEMBERS: usize = 30;
const TIMEOUT: Duration = Duration::from_millis(250);
const BETWEEN_BEATS: Duration = Duration::from_millis(5);
const LIFE: Duration = Duration::from_millis(800);

/// What becomes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    FallsSilent,
    SaysGoodbye,
    Stays,
}

fn fate(member: usize) -> Fate {
    [Fate::FallsSilent, Fate::SaysGoodbye, Fate::Stays][member % 3]
}

/// Beats as long as the member lives; when the last beat was, and how many there were. The heart
/// began at `begin` or later, which is as good as a beat.
fn live(member: usize, heart: &Heartbeat, begin: Instant) -> (Instant, u64) {
    let life = if fate(member) == Fate::Stays { LIFE } else { LIFE / 4 };
    let (mut last, mut beats) = (begin, 0);
    while begin.elapsed() < life {
        let now = Instant::now();
        // On a machine that is too busy to beat in time a member is taken for silent.
        if !heart.beat() {
            break;
        }
        (last, beats) = (now, beats + 1);
        thread::sleep(BETWEEN_BEATS);
    }
    if fate(member) != Fate::FallsSilent {
        heart.stop();
    }
    (last, beats)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new()?;
    let (report, silent) = mpsc::channel();
    let mut members = Vec::new();
    for member in 0..MEMBERS {
        let report = report.clone();
        let on_silence = move || report.send((member, Instant::now())).expect("it is listened to");
        let begin = Instant::now();
        let heart = Arc::new(Heartbeat::new(&engine, TIMEOUT, on_silence)?);
        let beating = heart.clone();
        members.push((heart, thread::spawn(move || live(member, &beating, begin))));
    }
    drop(report);

    let mut lives = Vec::new();
    for (heart, thread) in members {
        let (last, beats) = thread.join().expect("a member does not panic");
        lives.push((heart, last, beats));
    }
    // Ends when all hearts have been stopped or have fallen silent: their closures are gone then.
    let (mut noticed, mut latest) = (0, Duration::ZERO);
    for (member, at) in silent {
        let (heart, last, _) = &lives[member];
        let after = at - *last;
        assert!(after >= TIMEOUT, "member {member} was given up {after:?} after a beat");
        assert!(heart.has_fired() && !heart.beat());
        (noticed, latest) = (noticed + 1, latest.max(after - TIMEOUT));
    }

    let beats: u64 = lives.iter().map(|(_, _, beats)| beats).sum();
    let goodbyes = lives.iter().filter(|(heart, ..)| heart.end() == Some(End::Cancelled)).count();
    println!("{MEMBERS} members, {beats} beats, {} timers fired", engine.stats().fired);
    println!("{noticed} fell silent, noticed {latest:.1?} after the timeout at most");
    println!("{goodbyes} said goodbye or were there to the end");
    assert!(noticed >= MEMBERS / 3 && noticed + goodbyes == MEMBERS);
    engine.stop()?;
    assert!(engine.is_empty());
    Ok(())
}
