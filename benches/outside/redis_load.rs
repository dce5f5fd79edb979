//! Load for `redis`, after the benchmark that redis-rs#875 names: a connection that many tasks
//! share, four reads to one write. Arguments: workers, tasks, commands. The variable `TIMERS` says
//! whose timers limit the time of an answer: none, tokio, alternative, tickless.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{AsyncConnectionConfig, Client, Value, aio::MultiplexedConnection, cmd};

const KEYS: u64 = 1_000_000;
const VALUE: [u8; 100] = [b'v'; 100];
const LIMIT: Duration = Duration::from_secs(5);

async fn ask(mut connection: MultiplexedConnection, asked: Arc<AtomicU64>, commands: u64) {
    loop {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        if number >= commands {
            return;
        }
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS;
        let answer = if number % 5 == 0 {
            cmd("SET").arg(key).arg(&VALUE).query_async::<Value>(&mut connection).await
        } else {
            cmd("GET").arg(key).query_async(&mut connection).await
        };
        answer.expect("the server answers in time");
    }
}

async fn load(timers: &str, tasks: u64, commands: u64) {
    let address = env::var("REDIS").unwrap_or_else(|_| "redis://127.0.0.1:6379/".into());
    let limit = (timers != "none").then_some(LIMIT);
    let config = AsyncConnectionConfig::new().set_response_timeout(limit);
    let client = Client::open(address).expect("an address");
    let connection = client.get_multiplexed_async_connection_with_config(&config).await;
    let connection = connection.expect("a server is there");
    let asked = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let tasks = (0..tasks).map(|_| tokio::spawn(ask(connection.clone(), asked.clone(), commands)));
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no task panics");
    }
    println!("{:.0}", commands as f64 / begin.elapsed().as_secs_f64());
}

fn main() {
    let timers = env::var("TIMERS").unwrap_or_else(|_| "tokio".into());
    assert_eq!(timers == "tickless", cfg!(feature = "tickless"), "of the other build");
    let numbers = env::args().skip(1).map(|number| number.parse().expect("a number"));
    let [workers, tasks, commands] = numbers.collect::<Vec<u64>>()[..] else {
        panic!("workers, tasks, commands");
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers as usize).enable_all();
    #[cfg(tokio_unstable)]
    if timers == "alternative" {
        builder.enable_alt_timer();
    }
    builder.build().expect("a runtime").block_on(load(&timers, tasks, commands));
}
