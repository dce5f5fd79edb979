//! Heartbeats: on a clock that is moved by hand, and with many that beat at once.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use support::compiled;
use support::planned::{panic_as_planned, quietly};
use support::polling::poll;
use support::random::Random;
use support::threads::on_threads;
use support::{scaled, spread};
use tickless::periodic::{End, Heartbeat, StartReason};
// One that ThreadSanitizer can follow.
use tickless::{Engine, ManualClock};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

/// An engine on a clock that is moved by hand, and when beats stopped.
struct Bench {
    clock: ManualClock,
    engine: Engine,
    fired: Arc<Mutex<Vec<Duration>>>,
}

impl Bench {
    fn new() -> Bench {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        Bench { clock, engine, fired: Arc::default() }
    }

    fn start(&self, timeout: Duration) -> Heartbeat {
        let (clock, fired) = (self.clock.clone(), self.fired.clone());
        let on_silence = compiled::silent(move || fired.lock().unwrap().push(clock.elapsed()));
        Heartbeat::new(&self.engine, timeout, on_silence).unwrap()
    }

    fn advance(&self, by: Duration) {
        self.engine.advance(by).unwrap();
    }

    fn fired(&self) -> Vec<Duration> {
        self.fired.lock().unwrap().clone()
    }
}

#[test]
fn it_fires_once_when_the_timeout_has_passed_since_the_last_beat() {
    let bench = Bench::new();
    let heartbeat = bench.start(MS * 10);
    for _ in 0..100 {
        bench.advance(MS * 9);
        assert!(heartbeat.beat() && heartbeat.is_alive());
    }
    bench.advance(MS * 9);
    assert_eq!(bench.fired(), []);
    bench.advance(MS * 100);
    assert_eq!(bench.fired(), [MS * 910]);
    assert!(heartbeat.has_fired() && !heartbeat.is_alive());
    assert!(!heartbeat.beat() && !heartbeat.stop());
    assert_eq!((heartbeat.end(), bench.engine.len()), (Some(End::Finished), 0));
    assert_eq!(Arc::strong_count(&bench.fired), 1, "the closure is gone");
}

#[test]
fn without_any_beat_it_fires_when_the_timeout_has_passed_since_the_start() {
    let bench = Bench::new();
    bench.advance(MS * 3);
    let _heartbeat = bench.start(Duration::from_micros(2_100));
    bench.advance(MS * 10);
    assert_eq!(bench.fired(), [MS * 6], "on the tick after 5.1 ms");
}

#[test]
fn beats_move_no_timer_which_comes_once_per_timeout() {
    let bench = Bench::new();
    let heartbeat = bench.start(MS * 100);
    for _ in 0..10_000 {
        bench.clock.advance(Duration::from_micros(10));
        assert!(heartbeat.beat());
    }
    bench.advance(Duration::ZERO);
    let stats = bench.engine.stats();
    assert_eq!((stats.scheduled, stats.reset, stats.fired), (1, 0, 0), "it has only looked");
    assert_eq!((stats.pending, stats.lateness.count), (1, 1));
    bench.advance(MS * 100);
    assert_eq!(bench.fired(), [MS * 200]);
    let stats = bench.engine.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.pending), (1, 1, 0));
}

#[test]
fn a_beat_after_the_timeout_is_late_also_if_the_engine_is() {
    let bench = Bench::new();
    let heartbeat = bench.start(MS * 10);
    bench.clock.advance(MS * 10 - Duration::from_nanos(1));
    assert!(heartbeat.beat(), "the timeout has not passed");
    bench.clock.advance(Duration::from_secs(3600));
    // No turn has come by since.
    assert!(heartbeat.is_alive() && !heartbeat.beat(), "an hour is more than the timeout");
    assert!(!heartbeat.is_alive() && heartbeat.has_fired() && !heartbeat.stop());
    assert_eq!((bench.fired(), heartbeat.end()), (vec![], None), "it is about to be called");
    bench.advance(Duration::ZERO);
    assert_eq!((bench.fired().len(), heartbeat.end()), (1, Some(End::Finished)));
}

#[test]
fn a_waiting_stop_waits_for_no_closure_that_has_not_begun_though_a_beat_was_late() {
    for wait in [0, 1, 2] {
        let bench = Bench::new();
        let heartbeat = bench.start(MS * 10);
        bench.clock.advance(MS * 10);
        assert!(!heartbeat.beat() && heartbeat.has_fired());
        let ended = match wait {
            0 => heartbeat.stop_wait(),
            1 => heartbeat.stop_wait_within(Duration::ZERO),
            _ => match poll(&mut pin!(heartbeat.stopped()), Waker::noop()) {
                Poll::Ready(end) => end,
                Poll::Pending => panic!("nobody runs it"),
            },
        };
        assert_eq!((ended, heartbeat.has_fired()), (Ok(End::Cancelled), false));
        assert_eq!((Arc::strong_count(&bench.fired), bench.engine.len()), (1, 0));
        bench.advance(MS * 100);
        assert_eq!(bench.fired(), []);
    }
}

#[test]
fn one_that_is_stopped_or_dropped_never_fires_and_frees_its_closure() {
    let bench = Bench::new();
    let heartbeat = bench.start(MS * 10);
    bench.advance(MS * 5);
    assert!(heartbeat.stop() && !heartbeat.stop());
    assert!(!heartbeat.beat() && !heartbeat.is_alive() && !heartbeat.has_fired());
    assert_eq!((heartbeat.end(), bench.engine.len()), (Some(End::Cancelled), 0));
    assert_eq!(Arc::strong_count(&bench.fired), 1);
    drop(bench.start(MS * 10));
    assert_eq!((Arc::strong_count(&bench.fired), bench.engine.len()), (1, 0));
    bench.advance(MS * 100);
    assert_eq!(bench.fired(), []);
}

#[test]
fn an_engine_that_ends_ends_it_without_a_call() {
    let bench = Bench::new();
    let [stopped, dropped, late] = [(); 3].map(|()| bench.start(MS * 10));
    bench.clock.advance(MS * 10);
    assert!(!late.beat() && late.has_fired());
    assert!(bench.engine.stop().unwrap().is_empty());
    assert_eq!((late.has_fired(), late.end()), (false, Some(End::Stopped)));
    assert!(!stopped.beat() && !stopped.is_alive() && !stopped.has_fired());
    assert_eq!(stopped.end(), Some(End::Stopped));
    let Bench { engine, fired, .. } = bench;
    drop(engine);
    assert!(!dropped.beat() && !dropped.stop());
    assert_eq!((Arc::strong_count(&fired), fired.lock().unwrap().len()), (1, 0));
}

#[test]
fn bad_input_is_refused_and_gives_the_closure_back() {
    let bench = Bench::new();
    let refused = Heartbeat::new(&bench.engine, Duration::ZERO, compiled::silent(|| ()));
    assert_eq!(refused.unwrap_err().reason(), StartReason::ZeroPeriod);
    let never = bench.start(Duration::MAX);
    bench.advance(Duration::from_secs(1 << 33));
    assert!(never.beat());
    drop(bench.engine.stop().unwrap());
    let refused = Heartbeat::new(&bench.engine, MS, compiled::silent(|| ()));
    assert_eq!(refused.unwrap_err().reason(), StartReason::Stopped);
}

#[test]
fn a_closure_may_use_its_heartbeat_and_its_engine_and_may_panic() {
    quietly();
    let bench = Bench::new();
    let own: Arc<Mutex<Option<Arc<Heartbeat>>>> = Arc::default();
    let (inside, engine) = (own.clone(), bench.engine.clone());
    let on_silence = compiled::silent(move || {
        let heartbeat = inside.lock().unwrap().take().unwrap();
        assert!(heartbeat.has_fired() && !heartbeat.beat() && !heartbeat.stop());
        engine.schedule_detached(MS, || ()).unwrap();
        panic_as_planned();
    });
    let heartbeat = Arc::new(Heartbeat::new(&bench.engine, MS, on_silence).unwrap());
    *own.lock().unwrap() = Some(heartbeat.clone());
    bench.advance(MS);
    let stats = bench.engine.stats();
    assert_eq!((stats.panicked, stats.pending), (1, 1));
    assert_eq!((heartbeat.end(), Arc::strong_count(&heartbeat)), (Some(End::Finished), 1));
}

#[test]
fn random_beats_and_leaps_fire_when_a_naive_one_would() {
    for seed in 0..scaled(300) {
        let (bench, random) = (Bench::new(), &mut Random::new(seed));
        let timeout = Duration::from_micros(random.below(20_000) + 1);
        let heartbeat = bench.start(timeout);
        let mut last = Duration::ZERO;
        // The tick at or after the time.
        let tick = |at: Duration| MS * at.as_micros().div_ceil(1000) as u32;
        while bench.fired().is_empty() {
            let by = Duration::from_micros(random.below(30_000));
            if random.below(4) > 0 {
                bench.advance(by.min(timeout / 2));
            } else {
                bench.advance(by);
            }
            let now = bench.clock.elapsed();
            let is_due = tick(last + timeout) <= now;
            assert_eq!(bench.fired(), Vec::from_iter(is_due.then_some(tick(last + timeout))));
            if random.below(3) > 0 {
                let is_late = is_due || last + timeout <= now;
                assert_eq!(heartbeat.beat(), !is_late);
                if is_late {
                    bench.advance(MS);
                    break;
                }
                last = now;
            }
        }
    }
}

#[test]
fn it_never_fires_earlier_than_the_timeout_after_a_beat_that_was_in_time() {
    const THREADS: usize = 3;
    let engine = Engine::builder().tick(Duration::from_micros(20)).shards(2).build().unwrap();
    for round in 0..scaled(30) {
        let timeout = Duration::from_micros(100 + round % 10 * 100);
        let (begin, last_ns) = (Instant::now(), AtomicU64::new(0));
        let fired: Arc<Mutex<Option<Instant>>> = Arc::default();
        let at = fired.clone();
        let on_silence = compiled::silent(move || *at.lock().unwrap() = Some(Instant::now()));
        let heartbeat = Heartbeat::new(&engine, timeout, on_silence).unwrap();
        on_threads::<THREADS>(|| {
            for _ in 0..200 {
                let now_ns = begin.elapsed().as_nanos() as u64;
                if !heartbeat.beat() {
                    break;
                }
                last_ns.fetch_max(now_ns, Ordering::SeqCst);
            }
        });
        while fired.lock().unwrap().is_none() {
            thread::yield_now();
        }
        let at = fired.lock().unwrap().take().unwrap();
        let last = begin + Duration::from_nanos(last_ns.load(Ordering::SeqCst));
        assert!(at >= last + timeout, "{:?} after the last beat", at - last);
        assert!(!heartbeat.beat());
    }
}

#[test]
fn of_the_timer_and_those_who_stop_it_one_wins() {
    let engine = Engine::builder().tick(Duration::from_micros(20)).shards(2).build().unwrap();
    let rounds = scaled(200);
    for round in 0..rounds {
        let calls = Arc::new(AtomicU32::new(0));
        let called = calls.clone();
        let on_silence = compiled::silent(move || {
            called.fetch_add(1, Ordering::SeqCst);
        });
        let timeout = Duration::from_micros(1 + spread(round, rounds, 200));
        let heartbeat = Heartbeat::new(&engine, timeout, on_silence).unwrap();
        let (stopped, beats) = (AtomicU32::new(0), AtomicU64::new(0));
        on_threads::<3>(|| {
            // Now and then all of them stop it, each after as many beats as the round says.
            let mut random = Random::new(beats.fetch_add(1, Ordering::SeqCst));
            for _ in 0..random.below(spread(round, rounds, 200) + 1) {
                heartbeat.beat();
            }
            while heartbeat.is_alive() && random.below(200) > 0 {}
            stopped.fetch_add(u32::from(heartbeat.stop()), Ordering::SeqCst);
        });
        let stopped = stopped.into_inner();
        assert_eq!(stopped, u32::from(!heartbeat.has_fired()));
        // Its closure is called, or gone.
        while Arc::strong_count(&calls) > 1 {
            thread::yield_now();
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1 - stopped);
    }
    // What a reaper has in its hands just now is seen to before this returns.
    drop(engine.stop().unwrap());
    assert!(engine.is_empty());
}
