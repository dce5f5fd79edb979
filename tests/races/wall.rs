//! Wall-clock timers that several threads make, move and cancel while they become due.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use support::random::Random;
use support::scaled;
use support::threads::on_threads;
use tickless::wall::WallTimers;
use tickless::{Engine, Task};

const MS: Duration = Duration::from_millis(1);

/// Each one-shot is run, cancelled or returned, once; no repeating task overlaps itself.
#[test]
fn each_task_is_run_or_cancelled_or_returned_once() {
    for round in 0..scaled(6) {
        let engine = Engine::builder().shards(2).build().unwrap();
        let timers = WallTimers::new(&engine).unwrap();
        let [ran, cancelled, made] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let seed = AtomicUsize::new(0);
        on_threads::<3>(|| {
            let mut random = Random::new(round * 10 + seed.fetch_add(1, Ordering::Relaxed) as u64);
            let mut mine = Vec::new();
            for _ in 0..300 {
                let time = |random: &mut Random| SystemTime::now() + MS * random.below(6) as u32;
                match random.below(6) {
                    0..3 => {
                        let ran = ran.clone();
                        let task = move || _ = ran.fetch_add(1, Ordering::Relaxed);
                        mine.push(timers.schedule(time(&mut random), task).unwrap());
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                    3 if !mine.is_empty() => {
                        let which = random.below(mine.len() as u64) as usize;
                        let gone = mine.swap_remove(which).cancel();
                        cancelled.fetch_add(gone.into(), Ordering::Relaxed);
                    }
                    4 if !mine.is_empty() => {
                        let which = random.below(mine.len() as u64) as usize;
                        mine[which].reset(time(&mut random));
                    }
                    _ => {
                        let busy = AtomicUsize::new(0);
                        let next = |after| Some(after + MS);
                        let task = move |_| {
                            assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0, "runs overlap");
                            busy.fetch_sub(1, Ordering::SeqCst);
                        };
                        let timer = timers.repeat(next, task).unwrap();
                        std::thread::yield_now();
                        assert!(timer.cancel());
                    }
                }
            }
        });
        let returned = timers.stop().len();
        // What the engine had not begun is still to be run. Dropping the timers would cancel it.
        engine.stop().unwrap().into_iter().for_each(Task::run);
        drop(timers);
        assert_eq!(engine.stats().panicked, 0);
        let [ran, cancelled, made] = [ran, cancelled, made].map(|it| it.load(Ordering::Relaxed));
        assert_eq!(ran + cancelled + returned, made);
    }
}
