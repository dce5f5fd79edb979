//! The hashed wheel's races: each timeout runs, is cancelled, is returned or is refused, once,
//! while threads make, cancel, stop and drop at the same time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use support::random::Random;
use support::threads::on_threads;
use support::token::{Fates, Token};
use support::until::wait_until;
use support::{scaled, spread};
use tickless_netty::{HashedWheelTimer, Timeout, TimerTask};
// One that ThreadSanitizer can follow.
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

const US: Duration = Duration::from_micros(1);

/// What was seen of so many timeouts, each with a number.
struct Seen {
    fates: Fates,
    counts: Box<[Counts]>,
    made: AtomicUsize,
}

#[derive(Default)]
struct Counts {
    /// By `cancel`.
    cancelled: AtomicU32,
    /// By the callback.
    told: AtomicU32,
    refused: AtomicU32,
}

/// A task that is seen.
struct Probe {
    token: Token,
    seen: Arc<Seen>,
}

fn timer() -> HashedWheelTimer {
    // A limit that nothing reaches: who is refused is told the right reason.
    let builder = HashedWheelTimer::builder().max_pending_timeouts(u64::MAX);
    builder.tick_duration(US * 50).shards(2).build().unwrap()
}

fn add(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::SeqCst);
}

impl TimerTask for Probe {
    fn run(&self, _timeout: &Timeout) {
        self.token.run();
    }

    fn cancelled(&self, _timeout: &Timeout) {
        add(&self.seen.counts[self.token.number].told);
    }
}

impl Seen {
    fn new(most: usize) -> Arc<Seen> {
        let counts = (0..most).map(|_| Counts::default()).collect();
        Arc::new(Seen { fates: Fates::new(most), counts, made: AtomicUsize::new(0) })
    }

    fn probe(self: &Arc<Seen>) -> (usize, Probe) {
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        (number, Probe { token: self.fates.token(number), seen: self.clone() })
    }

    fn cancel(&self, number: usize, timeout: &Timeout) {
        if timeout.cancel() {
            assert!(timeout.is_cancelled() && !timeout.is_expired());
            add(&self.counts[number].cancelled);
        }
    }

    /// Adds up what became of each, now that nobody has any but `kept`: all that were accepted.
    fn settle(&self, kept: Vec<(usize, Timeout)>, returned: Vec<Timeout>) {
        let many = returned.len();
        // Here each has a task of its own, which tells it from all others.
        let name = |timeout: &Timeout| Arc::as_ptr(timeout.task()).addr();
        let names: HashSet<usize> = returned.iter().map(name).collect();
        assert_eq!(names.len(), many, "one was returned twice");
        let mut ends = vec![0; self.made.load(Ordering::SeqCst)];
        for (number, timeout) in &kept {
            let is_returned = names.contains(&name(timeout));
            ends[*number] += u32::from(is_returned);
            let ran = self.fates.of(*number).0;
            assert_eq!((timeout.is_expired(), ran), (ran == 1, u32::from(timeout.is_expired())));
            let is_cancelled = self.counts[*number].cancelled.load(Ordering::SeqCst) == 1;
            assert_eq!(timeout.is_cancelled(), is_returned || is_cancelled);
        }
        drop((kept, returned));
        for (number, ends) in ends.iter().enumerate() {
            let Counts { cancelled, told, refused } = &self.counts[number];
            let [cancelled, told, refused] =
                [cancelled, told, refused].map(|count| count.load(Ordering::SeqCst));
            let (ran, dropped) = self.fates.of(number);
            assert_eq!(ran + cancelled + refused + ends, 1, "timeout {number}");
            assert_eq!((told, dropped), (cancelled, 1), "timeout {number}");
        }
    }
}

#[test]
fn a_stop_that_races_with_those_who_make_and_cancel_loses_nothing_and_doubles_nothing() {
    const PRODUCERS: usize = 3;
    const EACH: usize = 3000;
    // The first producer makes the others after the stop, however late that is, which waits for
    // fewer.
    const BEFORE: usize = 2000;
    let refused = AtomicU32::new(0);
    let rounds = scaled(60);
    for round in 0..rounds {
        let (timer, seen) = (timer(), Seen::new(PRODUCERS * EACH));
        let (begin, has_stopped) = (Barrier::new(PRODUCERS + 1), AtomicBool::new(false));
        let produce = |seed| {
            let (mut random, mut kept) = (Random::new(seed), Vec::new());
            let mut left = 3;
            begin.wait();
            for n in 0..EACH {
                let is_free = (seed, n) != (0, BEFORE);
                wait_until("the stop", || is_free || has_stopped.load(Ordering::Relaxed));
                let (number, probe) = seen.probe();
                let delay = [HOUR, US * 100, Duration::ZERO][random.below(3) as usize];
                match timer.new_timeout(probe, delay) {
                    Ok(timeout) => kept.push((number, timeout)),
                    Err(error) => {
                        assert!(error.is_stopped());
                        add(&seen.counts[number].refused);
                        add(&refused);
                        left -= 1;
                    }
                }
                if left == 0 {
                    break;
                }
                if !kept.is_empty() && random.below(2) == 0 {
                    let (number, timeout) = &kept[random.below(kept.len() as u64) as usize];
                    seen.cancel(*number, timeout);
                }
            }
            kept
        };
        let (kept, returned) = thread::scope(|scope| {
            let produce = &produce;
            let producers: Vec<_> =
                (0..PRODUCERS).map(|n| scope.spawn(move || produce(n as u64))).collect();
            begin.wait();
            // After as many timeouts as the round says.
            while timer.stats().scheduled < spread(round, rounds, 1200) {
                thread::yield_now();
            }
            let returned = timer.stop().unwrap();
            has_stopped.store(true, Ordering::Relaxed);
            let kept = producers.into_iter().flat_map(|producer| producer.join().unwrap());
            (kept.collect::<Vec<_>>(), returned)
        });
        assert_eq!(timer.pending_timeouts(), 0);
        seen.settle(kept, returned);
    }
    assert!(refused.into_inner() > 0, "the stop came while producers were at it");
}

#[test]
fn of_all_who_cancel_run_and_stop_one_timeout_one_wins() {
    const EACH: u64 = 500;
    let rounds = scaled(40);
    for round in 0..rounds {
        let (timer, seen) = (timer(), Seen::new(EACH as usize));
        let random = &mut Random::new(round);
        let mut make = || {
            let (number, probe) = seen.probe();
            let delay = US * random.below(2000) as u32;
            (number, timer.new_timeout(probe, delay).unwrap())
        };
        let all: Vec<_> = (0..EACH).map(|_| make()).collect();
        let (seeds, returned) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        on_threads::<4>(|| {
            let seed = seeds.fetch_add(1, Ordering::SeqCst);
            if seed == 0 {
                // Somewhere in the midst of what expires.
                while timer.stats().fired < spread(round, rounds, 480)
                    && timer.pending_timeouts() > 0
                {
                    thread::yield_now();
                }
                returned.lock().unwrap().append(&mut timer.stop().unwrap());
                return;
            }
            let random = &mut Random::new(seed as u64);
            for _ in 0..EACH {
                let (number, timeout) = &all[random.below(EACH) as usize];
                seen.cancel(*number, timeout);
            }
        });
        seen.settle(all, returned.into_inner().unwrap());
    }
}

#[test]
fn stoppers_that_race_share_what_was_waiting() {
    for _ in 0..scaled(20) {
        let (timer, seen) = (timer(), Seen::new(500));
        let mut make = || {
            let (number, probe) = seen.probe();
            (number, timer.new_timeout(probe, HOUR).unwrap())
        };
        let all: Vec<_> = std::iter::repeat_with(&mut make).take(500).collect();
        let returned = Mutex::new(Vec::new());
        on_threads::<3>(|| {
            let mut mine = timer.stop().unwrap();
            returned.lock().unwrap().append(&mut mine);
        });
        let returned = returned.into_inner().unwrap();
        assert_eq!(returned.len(), 500);
        seen.settle(all, returned);
    }
}

#[test]
fn a_timer_that_is_dropped_while_timeouts_ask_for_it_ends_with_everything() {
    const EACH: usize = 1000;
    let rounds = scaled(40);
    for round in 0..rounds {
        let last = spread(round, rounds, 1000) as usize;
        let fates = Fates::new(4 * EACH);
        let made = AtomicUsize::new(0);
        let only = timer();
        let asked = only.new_timeout(|_: &Timeout| (), HOUR).unwrap();
        let only = Mutex::new(Some(only));
        on_threads::<4>(|| {
            for _ in 0..EACH {
                let Some(timer) = asked.timer() else { return };
                let number = made.fetch_add(1, Ordering::SeqCst);
                let token = fates.token(number);
                timer.new_timeout(move |_: &Timeout| token.run(), HOUR).unwrap();
                if number == last {
                    // From here on it lives as long as somebody is in the midst of this.
                    drop(only.lock().unwrap().take());
                }
            }
        });
        assert!(asked.is_cancelled() && asked.timer().is_none());
        let made = made.into_inner();
        assert!((0..made).all(|number| fates.of(number) == (0, 1)), "{made}");
    }
}
