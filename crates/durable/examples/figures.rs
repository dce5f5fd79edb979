//! The figures of `PERF.md`, measured on this machine.
//!
//! ```text
//! cargo run --release -p tickless-durable --example figures            # all but the last
//! cargo run --release -p tickless-durable --example figures rate       # one of them
//! cargo run --release -p tickless-durable --example figures memory 10000000
//! ```
//!
//! `floor`: what the disk takes for a sync. `rate`: durable timers per second, and what the store
//! alone does with the same batches. `elide`: the share of timers that reach the disk if most are
//! cancelled early. `late`: how late timers fire. `backlog`: how long a service takes for what was
//! due before it was opened, with and without notes about its attempts. `window`: what a timer has
//! in memory. `memory`: what a process with many timers has there. Files go to the directory of
//! `TMPDIR`.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;
use tickless_durable::{Durable, Firing, Op, Position, Record, RedbOptions, RedbStore, Store};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            floor()?;
            rate()?;
            elide()?;
            late()?;
            backlog()?;
            window()
        }
        ["floor"] => floor(),
        ["rate"] => rate(),
        ["elide"] => elide(),
        ["late"] => late(),
        ["backlog"] => backlog(),
        ["window"] => window(),
        ["memory", timers] => memory(timers.parse()?),
        _ => {
            Err("give one of floor, rate, elide, late, backlog, window, memory NUMBER, or nothing"
                .into())
        }
    }
}

fn open(path: &Path) -> Result<Durable> {
    let store = RedbStore::open(path)?;
    Ok(Durable::builder().open(store, |_: &Firing<Vec<u8>>| Ok::<(), std::io::Error>(()))?)
}

fn payload(number: u64) -> Vec<u8> {
    format!("a reminder of 32 bytes, {number:8}").into_bytes()
}

// === the disk ===

fn floor() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut file = File::create(directory.path().join("floor"))?;
    let mut micros = Histogram::<u64>::new(3)?;
    for _ in 0..300 {
        file.write_all(&[7; 4096])?;
        let begun = Instant::now();
        file.sync_data()?;
        micros.record(begun.elapsed().as_micros() as u64)?;
    }
    print_micros("floor: write 4 KiB and fdatasync", &micros);
    // The same with a store: one timer, waited for, at a time.
    let timers = open(&directory.path().join("timers"))?;
    micros.clear();
    for number in 0..300 {
        let begun = Instant::now();
        timers.schedule(SystemTime::now() + HOUR, payload(number))?.wait()?;
        micros.record(begun.elapsed().as_micros() as u64)?;
    }
    print_micros("floor: one durable timer at a time", &micros);
    Ok(())
}

fn print_micros(what: &str, micros: &Histogram<u64>) {
    let at = |share| micros.value_at_quantile(share) as f64 / 1000.0;
    let (p50, p99, max) = (at(0.5), at(0.99), micros.max() as f64 / 1000.0);
    println!("{what}: p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms");
}

// === rate ===

const RATE_TIMERS: u64 = 500_000;

/// As many, or few in a run that only shows that it runs.
fn sized(timers: u64) -> u64 {
    if std::env::var_os("FIGURES_QUICK").is_some() { timers / 50 } else { timers }
}

fn rate() -> Result<()> {
    let mut shares = Vec::new();
    // In turn, because the disk is not always the same.
    for round in 0..3 {
        for threads in [1, 2] {
            let (service, batch) = service_rate(threads)?;
            let store = store_rate(batch)?;
            shares.push(service / store);
            println!(
                "rate, round {round}: {threads} threads {service:.0} durable timers/s in batches \
                 of {batch}, the store alone {store:.0}/s with the same batches: {:.0} %",
                service / store * 100.0
            );
        }
    }
    shares.sort_by(f64::total_cmp);
    println!("rate: median share {:.0} % of the store's rate", shares[shares.len() / 2] * 100.0);
    Ok(())
}

/// Timers per second, and how many were in a batch on average.
fn service_rate(threads: u64) -> Result<(f64, usize)> {
    let directory = tempfile::tempdir()?;
    let timers = open(&directory.path().join("timers"))?;
    let (due, begun) = (SystemTime::now() + HOUR, Instant::now());
    let schedule = |first: u64| {
        for number in (first..sized(RATE_TIMERS)).step_by(threads as usize) {
            let due = due + Duration::from_millis(number.wrapping_mul(7919) % 3_600_000);
            drop(timers.schedule(due, payload(number)).expect("it runs"));
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|first| drop(scope.spawn(move || schedule(first))));
    });
    // All of them are durable then.
    timers.stop()?;
    let seconds = begun.elapsed().as_secs_f64();
    let stats = timers.stats();
    Ok((sized(RATE_TIMERS) as f64 / seconds, (stats.stored / stats.batches) as usize))
}

/// What the store does without a service.
fn store_rate(batch: usize) -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let mut store = RedbStore::open(directory.path().join("timers"))?;
    let begun = Instant::now();
    let mut number = 0;
    while number < sized(RATE_TIMERS) {
        let last = sized(RATE_TIMERS).min(number + batch as u64);
        let ops: Vec<Op> = (number..last).map(put).collect();
        store.commit(&ops)?;
        number = last;
    }
    Ok(sized(RATE_TIMERS) as f64 / begun.elapsed().as_secs_f64())
}

fn put(number: u64) -> Op {
    let due_ms = 4_000_000_000_000 + number.wrapping_mul(7919) % 3_600_000;
    let position = Position { due_ms, number: (1 << 40) + number };
    let payload = payload(number).into();
    Op::Put(Arc::new(Record {
        position,
        first_due_ms: due_ms,
        attempt: 1,
        crashes: 0,
        tried: false,
        errors: Arc::default(),
        key: None,
        payload,
    }))
}

// === elide ===

/// 99 of 100 timers are cancelled within 10 ms, at random times, if the thread runs.
fn elide() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let timers = open(&directory.path().join("timers"))?;
    let begun = Instant::now();
    let mut waiting = std::collections::BTreeMap::new();
    let mut random = 1_u64;
    let (mut scheduled, mut late) = (0_u64, 0_u64);
    while scheduled < sized(1_000_000) {
        // 100 timers per 100 us.
        for _ in 0..100 {
            let ticket = timers.schedule(SystemTime::now() + HOUR, payload(scheduled))?;
            scheduled += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if !scheduled.is_multiple_of(100) {
                let after = Duration::from_micros((random >> 33) % 10_000);
                let now = begun.elapsed();
                waiting.insert((now + after, scheduled), (ticket.id(), now));
            }
        }
        while let Some(first) = waiting.first_entry() {
            if first.key().0 > begun.elapsed() {
                break;
            }
            let (id, at) = first.remove();
            // This thread does not always run when it should.
            late += u64::from(begun.elapsed() - at > Duration::from_millis(20));
            drop(timers.cancel(id));
        }
        thread::sleep(Duration::from_micros(100));
    }
    let seconds = begun.elapsed().as_secs_f64();
    waiting.into_values().for_each(|(id, _)| drop(timers.cancel(id)));
    timers.stop()?;
    let stats = timers.stats();
    println!("elide: {late} of the cancels came after more than 20 ms, for want of a processor");
    println!(
        "elide: {} timers at {:.0}/s, 99 % of them cancelled within 10 ms: {} reached the disk, \
         {:.2} %, in {} batches",
        stats.scheduled,
        scheduled as f64 / seconds,
        stats.stored,
        stats.stored as f64 / stats.scheduled as f64 * 100.0,
        stats.batches
    );
    Ok(())
}

// === late ===

/// Timers over some seconds, that were durable before.
fn late() -> Result<()> {
    let count = sized(20_000);
    const OVER: Duration = Duration::from_secs(10);
    let directory = tempfile::tempdir()?;
    let micros = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
    let seen = micros.clone();
    let store = RedbStore::open(directory.path().join("timers"))?;
    let timers = Durable::builder().open(store, move |firing: &Firing<Vec<u8>>| {
        let late = SystemTime::now().duration_since(firing.due()).map_err(|_| "early")?;
        let mut micros = seen.lock().map_err(|_| "poisoned")?;
        micros.record(late.as_micros() as u64).map_err(|_| "too late")
    })?;
    let begin = SystemTime::now() + Duration::from_secs(2);
    let mut last = None;
    for number in 0..count {
        let due = begin + OVER.mul_f64(number as f64 / count as f64);
        last = Some(timers.schedule(due, payload(number))?);
    }
    last.expect("there are some").wait()?;
    while micros.lock().expect("nobody panics").len() < count {
        thread::sleep(Duration::from_millis(50));
    }
    let failed = timers.stats().failed;
    timers.stop()?;
    print_micros("late: 2,000 timers/s, handler after due", &micros.lock().expect("as above"));
    println!("late: {failed} were early");
    Ok(())
}

// === backlog ===

/// Timers that were due while no service ran, and handlers that do nothing.
fn backlog() -> Result<()> {
    let count = sized(50_000);
    for round in 0..5 {
        // In turn, because the disk is not always the same.
        for (how, crashes) in [("with notes", 5), ("without", u32::MAX)] {
            let directory = tempfile::tempdir()?;
            let path = directory.path().join("timers");
            let mut store = RedbStore::open(&path)?;
            store.begin()?;
            let due = |number| Position { due_ms: 1000 + number, number: (1 << 40) + number };
            let record = |number| Record {
                position: due(number),
                first_due_ms: due(number).due_ms,
                attempt: 1,
                crashes: 0,
                tried: false,
                errors: Arc::default(),
                key: None,
                payload: payload(number).into(),
            };
            let puts = (0..count).map(|number| Op::Put(Arc::new(record(number))));
            store.commit(&puts.collect::<Vec<_>>())?;
            drop(store);
            let builder = Durable::builder().crashes(crashes);
            let begun = Instant::now();
            let handler = |_: &Firing<Vec<u8>>| Ok::<(), std::io::Error>(());
            let timers = builder.open(RedbStore::open(&path)?, handler)?;
            while timers.stats().fired < count || timers.stats().busy > 0 {
                thread::sleep(Duration::from_millis(5));
            }
            let seconds = begun.elapsed().as_secs_f64();
            let stats = timers.stats();
            timers.stop()?;
            println!(
                "backlog, round {round}: {count} timers that were due, {how}: {seconds:.2} s, \
                 {:.0}/s, {} notes, {} batches",
                count as f64 / seconds,
                stats.noted,
                stats.batches
            );
        }
    }
    Ok(())
}

// === memory ===

/// The same timers, of which one or all are in the window.
fn window() -> Result<()> {
    let count = sized(500_000);
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("timers");
    let mut store = RedbStore::open(&path)?;
    (0..count).collect::<Vec<_>>().chunks(10_000).try_for_each(|numbers| {
        store.commit(&numbers.iter().copied().map(put).collect::<Vec<_>>()).map(drop)
    })?;
    drop(store);
    let mut resident = Vec::new();
    for window in [1, count] {
        let store = RedbOptions::new().cache_bytes(1 << 20).open(&path)?;
        let builder = Durable::builder().window(window as usize).span(Duration::MAX);
        let timers = builder.open(store, |_: &Firing<Vec<u8>>| Ok::<(), std::io::Error>(()))?;
        while (timers.stats().near as u64) < window {
            thread::sleep(Duration::from_millis(50));
        }
        resident.push(status_kb("VmRSS"));
        timers.stop()?;
    }
    let bytes = (resident[1] - resident[0]) * 1024 / count;
    println!("window: {bytes} bytes for each of {count} timers, with a payload of 32 bytes");
    Ok(())
}

/// What the system says of this process.
fn status_kb(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or_default()
}

fn memory(count: u64) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("timers");
    let timers = open(&path)?;
    let begun = Instant::now();
    let due = SystemTime::now() + Duration::from_secs(600);
    for number in 0..count {
        let due = due + Duration::from_millis(number.wrapping_mul(7919) % 86_400_000);
        // As many callers as wait for their tickets now and then.
        let ticket = timers.schedule(due, payload(number))?;
        if number % 50_000 == 49_999 {
            ticket.wait()?;
        }
    }
    timers.schedule(due, payload(count))?.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "memory: {count} timers scheduled in {seconds:.0} s, {:.0}/s, a file of {} MB",
        count as f64 / seconds,
        fs::metadata(&path)?.len() >> 20
    );
    print_memory("after scheduling them", &timers);
    timers.stop()?;
    drop(timers);
    let begun = Instant::now();
    let timers = open(&path)?;
    println!("memory: opened again in {:.2} s", begun.elapsed().as_secs_f64());
    thread::sleep(Duration::from_secs(2));
    print_memory("2 s after opening them again", &timers);
    timers.stop()?;
    Ok(())
}

fn print_memory(when: &str, timers: &Durable) {
    let near = timers.stats().near;
    println!(
        "memory: {when}: {} MB resident, at most {} MB so far, {near} timers in the window",
        status_kb("VmRSS") / 1024,
        status_kb("VmHWM") / 1024
    );
}
