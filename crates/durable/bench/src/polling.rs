//! apalis with SQLite: a table that is polled.
//!
//! Its `setup` turns syncs off, so that what it has stored can be lost with the machine. So it is
//! measured in both ways: as `setup` leaves it, and with the syncs that the others have. It looks
//! at the table every 30 s unless it is told an interval: here one of a second, as in its own
//! tests, or a shorter one. It takes ten tasks at a look unless it is told more: here a hundred.
//! Its times are whole seconds, so it handles many tasks up to a second before they are due.

use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use apalis::prelude::*;
use apalis_core::backend::ext::BackendExt;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};
use futures::stream;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};

use crate::work::{
    DELAY, HOUR, Lateness, Result, Size, Told, cpu, left, median_ms, payload, payload_due,
};

/// How often it looks at the table, and how many tasks it takes then.
const SLOWLY: Duration = Duration::from_secs(1);
const QUICKLY: Duration = Duration::from_millis(50);
const BATCH: usize = 100;

pub fn measure_each_second(size: &Size) -> Result<Told> {
    run(size, SqliteSynchronous::Full, SLOWLY)
}

pub fn measure_quickly(size: &Size) -> Result<Told> {
    run(size, SqliteSynchronous::Full, QUICKLY)
}

pub fn measure_without_syncs(size: &Size) -> Result<Told> {
    run(size, SqliteSynchronous::Off, SLOWLY)
}

fn run(size: &Size, synchronous: SqliteSynchronous, interval: Duration) -> Result<Told> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(size, synchronous, interval))
}

async fn pool(path: &Path, synchronous: SqliteSynchronous) -> Result<SqlitePool> {
    let url = format!("sqlite://{}?mode=rwc", path.display());
    // It sets up one connection, which is closed.
    let once = SqlitePoolOptions::new().max_connections(1).connect(&url).await?;
    SqliteStorage::setup(&once).await?;
    once.close().await;
    let options = SqliteConnectOptions::from_str(&url)?.synchronous(synchronous);
    Ok(SqlitePoolOptions::new().connect_with(options).await?)
}

async fn measure(size: &Size, synchronous: SqliteSynchronous, interval: Duration) -> Result<Told> {
    let directory = tempfile::tempdir()?;
    let rate_pool = pool(&directory.path().join("rate"), synchronous).await?;
    let mut backend = SqliteStorage::<String>::new(&rate_pool);
    let begun = Instant::now();
    let later = |number| TaskBuilder::new(payload(number)).run_after(HOUR).build();
    backend.push_all(&mut stream::iter((0..size.rate).map(later))).await?;
    let rate = size.rate as f64 / begun.elapsed().as_secs_f64();
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM Jobs").fetch_one(&rate_pool).await?;
    assert_eq!(stored as u64, size.rate, "all of them are stored");
    let mut ones = Vec::new();
    for number in 0..size.ones {
        let begun = Instant::now();
        backend.push_task(later(number.into())).await?;
        ones.push(begun.elapsed());
    }
    rate_pool.close().await;

    let pool = pool(&directory.path().join("cycle"), synchronous).await?;
    let config = Config::default().queue(std::any::type_name::<String>()).batch_size(BATCH);
    let backend = SqliteStorage::<String>::new(&pool).with_config(config);
    let lateness = Arc::new(Mutex::new(Lateness::new()));
    let (seen, count) = (lateness.clone(), size.cycle);
    let handle = move |payload: String, worker: WorkerContext| {
        let seen = seen.clone();
        async move {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.note(&payload);
            if seen.count() >= count {
                worker.stop()?;
            }
            Ok::<(), BoxDynError>(())
        }
    };
    let before = cpu();
    let mut pushing = backend.clone();
    let push = async move {
        let begun = Instant::now();
        for number in 0..count {
            tokio::time::sleep(left(begun, number)).await;
            let due = SystemTime::now() + DELAY;
            let task = TaskBuilder::new(payload_due(due)).run_after(DELAY).build();
            pushing.push_task(task).await.map_err(|error| error.to_string())?;
        }
        Ok::<(), String>(())
    };
    let worker =
        WorkerBuilder::new("worker").backend(backend.poll_with_interval(interval)).build(handle);
    let (pushed, worked) = tokio::join!(push, worker.run());
    pushed?;
    worked.map_err(|error| error.to_string())?;
    pool.close().await;
    let cpu_us = (cpu() - before).as_secs_f64() * 1e6 / size.cycle as f64;
    let one_ms = median_ms(ones);
    let mut told = Told { rate, one_ms, cpu_us, ..Told::default() };
    lateness.lock().unwrap_or_else(PoisonError::into_inner).tell(&mut told);
    Ok(told)
}
