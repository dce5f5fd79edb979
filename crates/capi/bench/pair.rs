//! The workloads of bench.cpp on the engine as Rust has it, for comparison:
//! `pair WORKLOAD THREADS OPERATIONS`.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickless::{Engine, Handle};

const WINDOW: usize = 1000;

static FIRED: AtomicU64 = AtomicU64::new(0);

fn count() {
    FIRED.fetch_add(1, Ordering::Relaxed);
}

/// The same numbers as in bench.cpp.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn cancel(engine: &Engine, timers: &mut [Option<Handle>], operations: usize) {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    for n in 0..operations {
        let delay = Duration::from_millis(5000 + random.below(55_000));
        assert!(timers[n % WINDOW].take().is_some_and(Handle::cancel));
        timers[n % WINDOW] = Some(engine.schedule(delay, count).expect("there is room"));
    }
}

fn reset(_engine: &Engine, timers: &mut [Option<Handle>], operations: usize) {
    for n in 0..operations {
        let timer = timers[n * 7 % WINDOW].as_mut().expect("it was scheduled");
        timer.reset(Duration::from_secs(30)).expect("it is pending");
    }
}

fn fire(engine: &Engine, _timers: &mut [Option<Handle>], operations: usize) {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    let schedule = |random: &mut Random| {
        engine.schedule(Duration::from_millis(random.below(200)), count).expect("there is room")
    };
    let timers: Vec<Handle> = (0..operations).map(|_| schedule(random)).collect();
    while FIRED.load(Ordering::Relaxed) < operations as u64 {
        thread::sleep(Duration::from_millis(1));
    }
    drop(timers);
}

/// What all processors have spent on this process.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the struct, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, threads, operations] = &arguments[..] else {
        panic!("usage: pair WORKLOAD THREADS OPERATIONS");
    };
    let work: fn(&Engine, &mut [Option<Handle>], usize) = match name.as_str() {
        "cancel" => cancel,
        "reset" => reset,
        "fire" => fire,
        other => panic!("there is no workload {other}"),
    };
    let is_fire = name == "fire";
    let threads: usize = threads.parse().expect("a number");
    let operations: usize = operations.parse().expect("a number");
    assert!(!is_fire || threads == 1, "of one thread only");
    let engine = Engine::new().expect("the defaults are valid");
    let start = Barrier::new(threads + 1);
    let (mut wall, mut spent) = (Instant::now(), cpu());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let minute = Duration::from_secs(60);
                let schedule = || engine.schedule(minute, count).expect("there is room");
                let n = if is_fire { 0 } else { WINDOW };
                let mut timers: Vec<_> = (0..n).map(|_| Some(schedule())).collect();
                if !is_fire {
                    work(&engine, &mut timers, operations / 10);
                }
                start.wait();
                work(&engine, &mut timers, operations);
            });
        }
        start.wait();
        (wall, spent) = (Instant::now(), cpu());
    });
    let all = (threads * operations) as f64;
    let ns = |time: Duration| time.as_nanos() as f64 / all;
    println!("rust {name} {threads} {:.1} {:.1}", ns(wall.elapsed()), ns(cpu() - spent));
}
