//! Crowds, in real time: how many timers of a crowd an engine with threads hands over before others
//! depends on when the crowd's bucket is cascaded. (`tests/suite/engine/crowds.rs` has the exact
//! numbers.)

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tickless::{Builder, Engine};
use tickless_core::memory::SHARE;

const TICK: Duration = Duration::from_millis(1);

/// More than a hundred shares.
const CROWD: usize = 120_000;

/// Timers of one tick that keep their place whatever is due beside them.
const FIRST: usize = 4 * SHARE;

/// What was handed over, in order.
type Log = Arc<Mutex<Vec<u64>>>;

/// Lets a crowd be due after `delay` on an engine with threads. Its first task schedules another
/// timer, and its second waits until that is due. Returns how many were handed over before that, if
/// the whole crowd was scheduled in time.
fn before_another(delay: Duration) -> Option<usize> {
    let log = Log::default();
    let handler_log = log.clone();
    let (sender, receiver) = std::sync::mpsc::channel::<Engine<u64>>();
    let state = Mutex::new((Some(receiver), None));
    let builder = Builder::new().tick(TICK).shards(1).takeover(None);
    let engine = builder.build_each(move |payload: u64| {
        let (receiver, until) = &mut *state.lock().unwrap();
        let handed_over = {
            let mut log = handler_log.lock().unwrap();
            log.push(payload);
            log.len()
        };
        if handed_over == 1 {
            let engine = receiver.take().unwrap().recv().unwrap();
            engine.schedule_detached(TICK, 1).unwrap();
            *until = Some(engine.now() + TICK * 2);
        }
        while handed_over == 2 && until.is_some_and(|until| Instant::now() < until) {
            thread::yield_now();
        }
    });
    let engine = engine.unwrap();
    let at = engine.now() + delay;
    (0..CROWD).for_each(|_| engine.schedule_detached(at, 0).unwrap());
    let is_in_time = engine.now() < at;
    sender.send(engine.clone()).unwrap();
    while engine.stats().fired <= CROWD as u64 {
        thread::sleep(TICK);
    }
    engine.stop().unwrap();
    let log = std::mem::take(&mut *log.lock().unwrap());
    log.into_iter().position(|payload| payload == 1).filter(|_| is_in_time)
}

#[test]
fn an_engine_with_threads_lets_others_pass_a_crowd() {
    let mut delays = [1, 10, 60].into_iter().map(Duration::from_secs);
    let before = delays.find_map(before_another).expect("a minute is enough to schedule a crowd");
    // The first share keeps its order. On a busy machine it may be a coarse bucket's, of 16 shares.
    assert!((1..=4 * FIRST + 2 * SHARE).contains(&before), "after {before} of the crowd");
}
