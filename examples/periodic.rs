//! Periodic tasks of a small service: a metronome that does not drift, a poll that leaves a pause
//! after each run, however long that takes, and a calendar of its own.
//!
//! ```text
//! cargo run --release --example periodic
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickless::Engine;
use tickless::periodic::{End, Run, Schedule};

const PERIOD: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(25);
const SLOW: Duration = Duration::from_millis(15);
const BEATS: u64 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A thread for each: the slow poll holds nobody up.
    let metronomes = Engine::builder().shards(1).thread_name("metronome").build()?;
    let chores = Engine::builder().shards(1).thread_name("chores").build()?;
    let begin = metronomes.now();

    // At a fixed rate: each run is due a whole number of periods after the start.
    let worst_ns = Arc::new(AtomicU64::new(0));
    let worst = worst_ns.clone();
    let mut first: Option<Instant> = None;
    let metronome = metronomes.every(PERIOD, move |run: &Run| {
        worst.fetch_max(run.lateness().as_nanos() as u64, Ordering::Relaxed);
        let first = *first.get_or_insert(run.deadline());
        let since = run.deadline() - first;
        // Not a nanosecond of drift, though runs begin late and may be skipped on a busy machine.
        assert_eq!(since.as_nanos() % PERIOD.as_nanos(), 0);
        if run.number() + run.missed() >= BEATS {
            run.cancel();
        }
    })?;

    // With a fixed delay: there is a pause between any two runs.
    let mut last_end: Option<Instant> = None;
    let poll =
        Schedule::fixed_delay(PAUSE).starting(Duration::ZERO).start(&chores, move |_: &Run| {
            let pause = last_end.map(|end| end.elapsed());
            assert!(pause.is_none_or(|pause| pause >= PAUSE), "it had its pause: {pause:?}");
            thread::sleep(SLOW);
            last_end = Some(Instant::now());
        })?;

    // A closure says when: here 10, 20, 40, 80 ms after the last time, and then no more.
    let mut steps = [10, 20, 40, 80].into_iter().map(Duration::from_millis);
    let calendar = Schedule::from_fn(move |last| steps.next().map(|step| last + step))
        .start(&metronomes, |run: &Run| println!("the calendar, run {}", run.number()))?;

    while metronome.is_running() || calendar.is_running() || poll.runs() == 0 {
        thread::sleep(PERIOD);
    }
    assert!(poll.cancel(), "it would go on for ever");
    metronomes.stop()?;
    chores.stop()?;

    let (beats, missed) = (metronome.runs(), metronome.missed());
    println!("{beats} beats, {missed} missed, {:.1?} after the start", begin.elapsed());
    println!(
        "the latest began {:.1?} late",
        Duration::from_nanos(worst_ns.load(Ordering::Relaxed))
    );
    println!("{} polls, with a pause after each", poll.runs());
    assert!(beats + missed >= BEATS && metronome.end() == Some(End::Cancelled));
    assert_eq!((calendar.runs(), calendar.end()), (4, Some(End::Finished)));
    assert!(!poll.is_running());
    let panicked = metronomes.stats().panicked + chores.stats().panicked;
    assert_eq!(panicked, 0, "what tasks assert, holds");
    Ok(())
}
