//! Many tasks on tokio's threads: what times out, what is in time, and what is aborted adds up.

use std::time::{Duration, Instant};

use support::emptied::assert_empties;
use support::random::Random;
use support::scaled;
use tickless::Engine;
use tickless::future::{Elapsed, FutureExt};

use crate::on_runtime::{Runs, spawn};

const US: Duration = Duration::from_micros(1);

const HOUR: Duration = Duration::from_secs(3600);

fn engine() -> Engine {
    Engine::builder().tick(US * 50).shards(2).build().unwrap()
}

#[test]
fn each_of_many_timeouts_is_in_time_or_elapsed_and_none_is_both() {
    const TASKS: u64 = 400;
    let engine = engine();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    let one = |n: u64, engine: Engine| async move {
        let random = &mut Random::new(n);
        let (mut in_time, mut late) = (0_u64, 0_u64);
        for _ in 0..scaled(20) {
            let (begin, delay) = (Instant::now(), US * random.below(1500) as u32);
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let mut silent = Some(sender);
            let way = random.below(4);
            if way == 1 {
                // However slow the threads are: this one is in time, and some below are late.
                silent.take().into_iter().for_each(|sender| sender.send(()).unwrap());
            } else if way > 1 {
                let (reply, sender) = (engine.sleep(US * random.below(1500) as u32), silent.take());
                spawn(async move {
                    reply.await;
                    sender.map(|sender| sender.send(()))
                });
            }
            match receiver.timeout_on(&engine, delay).await {
                Ok(answer) => {
                    answer.unwrap();
                    in_time += 1;
                }
                Err(error) => {
                    assert!(begin.elapsed() >= delay && error.cause().is_none());
                    late += 1;
                }
            }
        }
        (in_time, late)
    };
    let (in_time, late) = runtime.run(async {
        let tasks: Vec<_> = (0..TASKS).map(|n| spawn(one(n, engine.clone()))).collect();
        let mut sum = (0, 0);
        for task in tasks {
            let (in_time, late) = task.await.unwrap();
            sum = (sum.0 + in_time, sum.1 + late);
        }
        sum
    });
    assert_eq!(in_time + late, TASKS * scaled(20));
    assert!(in_time > 0 && late > 0, "{in_time} in time, {late} late");
    runtime.shutdown_timeout(Duration::from_secs(60));
    // Nothing is left of those whose task was dropped.
    assert_empties(&engine);
}

#[test]
fn tasks_that_are_aborted_while_they_wait_leave_no_timer() {
    let engine = engine();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let aborted = runtime.run(async {
        let mut aborted = 0;
        for round in 0..scaled(2000) {
            let engine = engine.clone();
            // Some last until they are aborted, however late that is.
            let nap = if round % 16 == 0 { HOUR } else { US * (round % 150) as u32 };
            let task = spawn(async move {
                let sleep = engine.sleep(nap);
                let answer: Result<(), Elapsed> = sleep.timeout_on(&engine, 2 * HOUR).await;
                answer
            });
            if round % 3 > 0 {
                tokio::task::yield_now().await;
            }
            task.abort();
            aborted += u64::from(task.await.is_err_and(|error| error.is_cancelled()));
        }
        aborted
    });
    assert!(aborted > 0);
    drop(runtime);
    assert_empties(&engine);
}
