//! What an engine tells about itself: panics, statistics, what is pending, and a page
//! for the browser.
//!
//! The clock is moved by hand, so that the output is the same each time. Until the input ends (or
//! has a line), the page goes on.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tickless::{Engine, ManualClock, StopError, TurnError};
use tickless_inspect::Inspector;

/// What the page is drawn from, as any program may read it.
fn ask(inspector: &Inspector, path: &str) -> io::Result<String> {
    let address = inspector.local_addr().expect("it is no Unix socket");
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Some life for the page, until the engine stops: timeouts, of which some are cancelled.
fn live(engine: &Engine, clock: &ManualClock) {
    let step = Duration::from_millis(50);
    for n in 0_u32.. {
        let sent = (0..200).try_for_each(|request| {
            let delay = Duration::from_millis(7) * (1 + (31 * n + request) % 700);
            let timeout = engine.schedule(delay, || ())?;
            if request % 10 != 0 {
                timeout.cancel();
            }
            engine.schedule_detached(Duration::from_secs(30), || ())
        });
        // A turn comes every 50 ms only, so timers are a little late.
        clock.advance(step);
        if sent.is_err() || turn_all(engine).is_err() {
            return;
        }
        thread::sleep(step);
    }
}

fn turn_all(engine: &Engine) -> Result<(), TurnError> {
    (0..engine.shards()).try_for_each(|shard| engine.turn(shard).map(drop))
}

fn serve_until_input(engine: &Engine, clock: &ManualClock) -> Result<(), StopError> {
    println!("press Enter to end");
    thread::scope(|threads| {
        threads.spawn(|| live(engine, clock));
        // An error ends it as well.
        let _ = io::stdin().read_line(&mut String::new());
        engine.stop().map(drop)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ms = Duration::from_millis;
    let (clock, told) = (ManualClock::new(), Arc::new(AtomicU32::new(0)));
    let of_panics = told.clone();
    let engine = Engine::builder()
        .name("example")
        .shards(2)
        .manual_clock(&clock)
        .on_panic(move |panic| {
            of_panics.fetch_add(1, Ordering::Relaxed);
            println!("panic: {}", panic.message().unwrap_or("without a message"));
        })
        .build()?;

    // Half of the timeouts of a busy second are cancelled, and one of the others panics.
    for n in 0..1000 {
        let timeout = engine.schedule(ms(30_000 + n), || ())?;
        if n % 2 == 0 {
            timeout.cancel();
        }
    }
    engine.schedule_detached(ms(7), || std::panic::resume_unwind(Box::new("no such session")))?;
    engine.schedule_detached(Duration::from_secs(7200), || ())?;
    engine.schedule_detached(Duration::MAX, || ())?;
    engine.advance(Duration::from_secs(25))?;
    assert_eq!(told.load(Ordering::Relaxed), 1);

    println!("\n{}\n{}", engine.snapshot(), engine.stats());
    assert_eq!(engine.snapshot().len(), 502);

    // The same, for browsers and programs of this machine.
    let inspector = tickless_inspect::serve(&engine, ([127, 0, 0, 1], 0))?;
    println!("see {inspector}, or {inspector}stats.json");
    let overdue = ask(&inspector, "/overdue.json")?;
    println!("{overdue}");
    assert_eq!(overdue, serde_json::to_string(&engine.overdue())?);
    assert_eq!(ask(&inspector, "/stats.json")?, serde_json::to_string(&engine.stats())?);
    serve_until_input(&engine, &clock)?;
    Ok(())
}
