//! The case of network code: a rate limiter with a token bucket. Packets wait in a queue for a
//! token, and a packet that has become too old is dropped.
//!
//! Each packet is the payload of a timer, which ends its lifetime. When there is a token, the
//! limiter takes the first packet out of its timer and sends it. If the timer has fired before, the
//! packet was dropped there. One compare-and-swap decides between the two, so each packet is
//! counted once. One more timer refills the bucket, and only while it is not full.
//!
//! The clock is moved by hand, so the counts can be compared with what arithmetic says.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tickless::{Builder, Handle, ManualClock};

const MS: Duration = Duration::from_millis(1);
const LIFETIME: Duration = Duration::from_millis(55);

/// The bucket has room for this many tokens, and gets one in this time.
const BURST: u32 = 20;
const PER_TOKEN: Duration = Duration::from_millis(10);

/// What is due: a token, or the end of a packet that arrived at this time.
enum Due {
    Token,
    Packet(Instant),
}

/// An event loop, for packets that arrive at these times, in milliseconds. Returns how many of them
/// were sent, and how many were dropped.
fn limit(arrivals: impl IntoIterator<Item = u32>) -> Result<(u32, u32), Box<dyn Error>> {
    let (sender, events) = mpsc::channel();
    let builder = Builder::new().manual_clock(&ManualClock::new());
    let engine = builder.build_each(move |due: Due| drop(sender.send(due)))?;
    let start = engine.now();
    let mut arrivals = arrivals.into_iter().map(|at| start + at * MS).peekable();
    let (mut queue, mut sent, mut dropped) = (VecDeque::new(), 0, 0);
    // The last time at which a token came, or at which the bucket was full.
    let mut refilled = start;
    let (mut tokens, mut is_refilling) = (BURST, false);
    loop {
        let now = engine.now();
        for due in events.try_iter() {
            match due {
                Due::Packet(arrived) => {
                    assert_eq!(now - arrived, LIFETIME);
                    dropped += 1;
                }
                Due::Token => {
                    // Not `now`: if one token is late, the next is not.
                    refilled += PER_TOKEN;
                    (tokens, is_refilling) = (tokens + 1, false);
                }
            }
        }
        if tokens == BURST {
            refilled = now;
        }
        while arrivals.next_if(|at| *at <= now).is_some() {
            queue.push_back(engine.schedule(LIFETIME, Due::Packet(now))?);
        }
        while tokens > 0 && !queue.is_empty() {
            // `None`: the timer has fired. Such a packet takes no token.
            if let Some(Due::Packet(arrived)) = queue.pop_front().and_then(Handle::take) {
                assert!(now - arrived < LIFETIME);
                (tokens, sent) = (tokens - 1, sent + 1);
            }
        }
        if tokens < BURST && !is_refilling {
            engine.schedule_detached(refilled + PER_TOKEN, Due::Token)?;
            is_refilling = true;
        }
        if arrivals.peek().is_none() && engine.is_empty() {
            return Ok((sent, dropped));
        }
        // A program would wait here for a packet or for what is due.
        engine.advance(MS)?;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // As many are sent as there are tokens, and as come until the last packet is too old.
    let sent =
        |last: u32| BURST + ((last * MS + LIFETIME).as_millis() / PER_TOKEN.as_millis()) as u32;
    let burst = limit([0; 100])?;
    assert_eq!(burst, (sent(0), 100 - sent(0)));
    // For ten seconds, two packets for each token.
    let overload = limit((0..2_000).map(|n| n / 2 * 10))?;
    assert_eq!(overload, (sent(9_990), 2_000 - sent(9_990)));
    // For ten seconds, one packet for two tokens: all are sent. Then a burst finds a full bucket.
    let trickle = limit((0..500).map(|n| 20 * n).chain([10_000; 100]))?;
    assert_eq!(trickle, (500 + burst.0, burst.1));
    println!("sent and dropped: burst {burst:?}, overload {overload:?}, trickle {trickle:?}");
    Ok(())
}
