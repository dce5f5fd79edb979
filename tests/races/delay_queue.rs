//! Races: a delay queue behind a mutex, which some threads fill, move and empty while another
//! waits for it. Each item leaves once, none is early, and no wake-up is lost.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use support::emptied::assert_empties;
use support::parking::block_on;
use support::random::Random;
use support::{scaled, spread};
use tickless::Engine;
use tickless::future::{DelayQueue, SleepError};
// One that ThreadSanitizer can follow.
use tickless_sync::Mutex;

const US: Duration = Duration::from_micros(1);

const HOUR: Duration = Duration::from_secs(3600);

fn engine() -> Engine {
    Engine::builder().tick(US * 50).shards(2).build().unwrap()
}

/// Waits for the next item, also while the queue is empty. `None`: that is the last one.
fn next(queue: &Mutex<DelayQueue<bool>>) -> Result<bool, SleepError> {
    block_on(poll_fn(|cx| match queue.lock().unwrap().poll_try_expired(cx) {
        Poll::Ready(Ok(None)) | Poll::Pending => Poll::Pending,
        Poll::Ready(Ok(Some(expired))) => {
            assert!(expired.deadline() <= Instant::now(), "early");
            Poll::Ready(Ok(expired.into_inner()))
        }
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
    }))
}

/// Threads that fill, move and empty a queue in which `kept` items stay to the end.
fn fill_and_empty(kept: usize) {
    let engine = engine();
    let queue = Mutex::new(engine.delay_queue());
    let (removed, out, items) = (AtomicU64::new(0), AtomicU64::new(0), scaled(2_000));
    (0..kept).for_each(|_| _ = queue.lock().unwrap().insert(false, HOUR));
    thread::scope(|scope| {
        let fillers = [1, 2].map(|seed| {
            let (queue, removed) = (&queue, &removed);
            scope.spawn(move || {
                let random = &mut Random::new(seed);
                let mut keys = Vec::new();
                for n in 0..items {
                    // Now and then one that is surely there when it is removed.
                    if n % 16 == 0 {
                        let key = queue.lock().unwrap().insert(false, HOUR);
                        thread::yield_now();
                        assert!(queue.lock().unwrap().remove(key).is_some());
                        removed.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    let delay = US * random.below(400) as u32;
                    keys.push(queue.lock().unwrap().insert(false, delay));
                    let at = random.below(keys.len() as u64) as usize;
                    match random.below(4) {
                        0 => {
                            let item = queue.lock().unwrap().remove(keys.swap_remove(at));
                            removed.fetch_add(u64::from(item.is_some()), Ordering::SeqCst);
                        }
                        1 => _ = queue.lock().unwrap().reset(keys[at], delay),
                        2 => thread::yield_now(),
                        _ => {}
                    }
                }
            })
        });
        let taker = scope.spawn(|| {
            while !next(&queue).unwrap() {
                out.fetch_add(1, Ordering::SeqCst);
            }
        });
        fillers.into_iter().for_each(|filler| filler.join().unwrap());
        // The last one comes when all others have left, for a task that waits for that.
        while queue.lock().unwrap().len() > kept {
            thread::yield_now();
        }
        queue.lock().unwrap().insert(true, US * 100);
        taker.join().unwrap();
    });
    let (removed, out) = (removed.into_inner(), out.into_inner());
    assert_eq!(removed + out, 2 * items);
    assert!(removed > 0 && out > 0);
    queue.into_inner().unwrap().clear();
    assert_empties(&engine);
}

#[test]
fn threads_that_fill_and_empty_a_queue_lose_no_item_and_no_wake_up() {
    [0, 1, 2_000].into_iter().for_each(fill_and_empty);
}

#[test]
fn the_last_removal_that_meets_the_firing_ends_the_wait() {
    let engine = engine();
    let rounds = scaled(600);
    for round in 0..rounds {
        let queue = Mutex::new(engine.delay_queue());
        let delay = if round % 3 == 0 { HOUR } else { US * spread(round, rounds, 150) as u32 };
        let key = queue.lock().unwrap().insert((), delay);
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                block_on(poll_fn(|cx| queue.lock().unwrap().poll_try_expired(cx))).unwrap()
            });
            for _ in 0..round % 100 {
                std::hint::spin_loop();
            }
            let removed = queue.lock().unwrap().remove(key);
            assert_eq!(waits.join().unwrap().is_some(), removed.is_none());
        });
    }
    assert_empties(&engine);
}

#[test]
fn a_stop_that_meets_inserts_and_polls_is_told() {
    for round in 0..scaled(60) {
        let engine = engine();
        let queue = Mutex::new(engine.delay_queue());
        thread::scope(|scope| {
            let (queue, of_filler) = (&queue, engine.clone());
            let filler = scope.spawn(move || {
                let random = &mut Random::new(round);
                // One that is pending when the engine stops.
                queue.lock().unwrap().insert(false, HOUR);
                for _ in 0..200 {
                    queue.lock().unwrap().insert(false, US * random.below(300) as u32);
                }
                drop(of_filler.stop());
            });
            let taker = scope.spawn(|| {
                while let Ok(is_last) = next(queue) {
                    assert!(!is_last);
                }
            });
            // ThreadSanitizer does not see that a scope waits for its threads.
            [filler, taker].into_iter().for_each(|thread| thread.join().unwrap());
        });
        // What becomes due after the stop still comes out, between errors; one item never does.
        while queue.lock().unwrap().len() > 1 {
            assert!(matches!(next(&queue), Ok(false) | Err(SleepError::Stopped)));
        }
        assert_eq!(next(&queue), Err(SleepError::Stopped));
        assert_eq!(queue.lock().unwrap().len(), 1);
    }
}
