//! This crate, with its default store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tickless_durable::{Durable, Firing, RedbStore};

use crate::work::{
    DELAY, HOUR, Lateness, Result, Size, Told, cpu, median_ms, pace, payload, payload_due,
};

pub fn measure(size: &Size) -> Result<Told> {
    let directory = tempfile::tempdir()?;
    let lateness = Arc::new(Mutex::new(Lateness::new()));
    let seen = lateness.clone();
    let open = |name: &str| -> Result<Durable<String>> {
        let seen = seen.clone();
        let handler = move |firing: &Firing<String>| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).note(firing.payload());
            Ok::<(), std::io::Error>(())
        };
        Ok(Durable::builder().open(RedbStore::open(directory.path().join(name))?, handler)?)
    };
    let timers = open("rate")?;
    let due = SystemTime::now() + HOUR;
    let begun = Instant::now();
    let mut tickets = Vec::new();
    for number in 0..size.rate {
        let ticket = timers.schedule(due, payload(number));
        tickets.push(ticket.map_err(|error| error.to_string())?);
    }
    // A wait hurries its own timer alone, so the last one can be durable before others.
    for ticket in tickets {
        ticket.wait()?;
    }
    let rate = size.rate as f64 / begun.elapsed().as_secs_f64();
    let mut ones = Vec::new();
    for number in 0..size.ones {
        let begun = Instant::now();
        let ticket = timers.schedule(due, payload(number.into()));
        ticket.map_err(|error| error.to_string())?.wait()?;
        ones.push(begun.elapsed());
    }
    timers.stop()?;
    let timers = open("cycle")?;
    let (before, begun) = (cpu(), Instant::now());
    for number in 0..size.cycle {
        pace(begun, number);
        let due = SystemTime::now() + DELAY;
        drop(timers.schedule(due, payload_due(due)).map_err(|error| error.to_string())?);
    }
    let count = || lateness.lock().unwrap_or_else(PoisonError::into_inner).count();
    while count() < size.cycle {
        std::thread::sleep(Duration::from_millis(50));
    }
    timers.stop()?;
    let cpu_us = (cpu() - before).as_secs_f64() * 1e6 / size.cycle as f64;
    let one_ms = median_ms(ones);
    let mut told = Told { rate, one_ms, cpu_us, ..Told::default() };
    lateness.lock().unwrap_or_else(PoisonError::into_inner).tell(&mut told);
    Ok(told)
}
