//! What an engine tells about itself: slow tasks, panics, statistics, and what is pending.
//!
//! The clock is moved by hand, so that the output is the same each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tickless::{Engine, ManualClock};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ms = Duration::from_millis;
    let (clock, told) = (ManualClock::new(), Arc::new(AtomicU32::new(0)));
    let (of_slow, of_panics) = (told.clone(), told.clone());
    let engine = Engine::builder()
        .name("example")
        .shards(2)
        .manual_clock(&clock)
        .on_slow_task(ms(20), move |slow| {
            of_slow.fetch_add(1, Ordering::Relaxed);
            println!("slow: {:?} on shard {}, {} waited", slow.took, slow.shard, slow.waiting);
        })
        .on_panic(move |panic| {
            of_panics.fetch_add(1, Ordering::Relaxed);
            println!("panic: {}", panic.message().unwrap_or("without a message"));
        })
        .build()?;

    // Half of the timeouts of a busy second are cancelled, and two of the others misbehave.
    for n in 0..1000 {
        let timeout = engine.schedule(ms(30_000 + n), || ())?;
        if n % 2 == 0 {
            timeout.cancel();
        }
    }
    let of_task = clock.clone();
    engine.schedule_detached(ms(5), move || of_task.advance(ms(35)))?;
    engine.schedule_detached(ms(7), || std::panic::resume_unwind(Box::new("no such session")))?;
    engine.schedule_detached(Duration::from_secs(7200), || ())?;
    engine.schedule_detached(Duration::MAX, || ())?;
    engine.advance(Duration::from_secs(25))?;
    assert_eq!(told.load(Ordering::Relaxed), 2);

    println!("\n{}\n{}", engine.snapshot(), engine.stats());
    assert_eq!(engine.snapshot().len(), 502);
    Ok(())
}
