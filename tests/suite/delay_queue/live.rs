//! Delay queues on engines with threads, polled by executors: nothing is early, nothing is lost.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use support::emptied::assert_empties;
use support::random::Random;
use support::scaled;
use tickless::{Clock, Engine};

use crate::on_runtime::{Runs, spawn};

const US: Duration = Duration::from_micros(1);

/// Items with random delays, some of them moved, come out in order and not early.
async fn live(engine: &Engine, is_boottime: bool) {
    let mut queue = engine.delay_queue();
    let mut random = Random::new(7);
    let mut out = 0;
    let items = scaled(300);
    for _ in 0..items {
        let delay = US * random.below(20_000) as u32;
        let key = queue.insert(Instant::now() + delay, delay);
        if random.below(4) == 0 {
            queue.remove(key);
            queue.insert_at(Instant::now() + delay, Instant::now() + delay);
        }
        if random.below(8) == 0 {
            let expired = queue.expired().await.expect("there is one");
            assert!(expired.into_inner() <= Instant::now(), "early");
            out += 1;
        }
    }
    let mut last = None;
    while let Some(expired) = queue.next().await {
        assert!(*expired.get_ref() <= Instant::now(), "early");
        // Instants of a clock that counts suspended time are computed anew each time.
        assert!(is_boottime || last <= Some(expired.deadline()));
        last = Some(expired.deadline());
        out += 1;
    }
    assert_eq!((out, queue.len()), (items, 0));
}

#[test]
fn on_the_thread_itself_nothing_is_early_or_lost() {
    let engine = Engine::builder().tick(US * 100).build().unwrap();
    pollster::block_on(live(&engine, false));
    assert_empties(&engine);
}

#[test]
fn by_clocks_that_are_read_each_time_as_well() {
    let clocks = [Some(Clock::instant()), Clock::boottime().ok()];
    for clock in clocks.into_iter().flatten() {
        let is_boottime = clock.counts_suspension();
        let engine = Engine::builder().clock(clock).build().unwrap();
        pollster::block_on(live(&engine, is_boottime));
    }
}

#[test]
fn a_task_that_serves_requests_and_timeouts_gets_both() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let engine = Engine::builder().tick(US * 100).build().unwrap();
    let mut queue = engine.delay_queue();
    let (sender, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let count = scaled(500);
    let serve = async move {
        let (mut expired, mut answered, mut keys) = (0, 0, Vec::new());
        while expired + answered < count {
            tokio::select! {
                Some(item) = queue.expired() => {
                    assert!(item.deadline() <= Instant::now(), "early");
                    expired += 1;
                }
                Some(request) = requests.recv() => {
                    keys.push(queue.insert(request, US * (request % 3_000) as u32));
                    if request % 3 == 0 {
                        let key = keys.swap_remove(keys.len() / 2);
                        answered += u64::from(queue.remove(key).is_some());
                    }
                }
            }
        }
        (expired, answered)
    };
    let ask = async {
        for request in 0..count {
            sender.send(request).unwrap();
            if request % 50 == 0 {
                engine.sleep(US * 500).await;
            }
        }
    };
    let (expired, answered) = runtime.run(async {
        let serving = spawn(serve);
        ask.await;
        serving.await.unwrap()
    });
    assert_eq!(expired + answered, count);
}
