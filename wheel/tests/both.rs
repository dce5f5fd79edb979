//! What the hierarchical and the hashed wheel have in common, through their trait.

use tickless_wheel::{Geometry, HashedWheel, Key, Tick, TimingWheel, Wheel};

fn at(count: u64) -> Tick {
    Tick::new(count)
}

/// Everything that the trait has, once each.
fn story(mut wheel: impl TimingWheel<&'static str>) {
    assert!(wheel.is_empty());
    let close = wheel.insert(at(70_000), "close");
    let ping = wheel.insert(at(30), "ping");
    let retry = wheel.insert(at(40), "retry");
    assert_eq!((wheel.len(), wheel.is_empty()), (3, false));
    assert_eq!(wheel.cancel(retry), Some("retry"));
    assert_eq!(wheel.cancel(retry), None);
    assert!(wheel.reset(ping, at(5_000)));
    assert!(!wheel.reset(retry, at(1)));
    assert_eq!((wheel.get(ping), wheel.deadline(ping)), (Some(&"ping"), Some(at(5_000))));
    assert_eq!((wheel.contains(ping), wheel.contains(retry)), (true, false));
    let mut fired = Vec::new();
    while let Some(wake_up) = wheel.next_expiration().filter(|wake_up| *wake_up < at(60_000)) {
        wheel.advance(wake_up, |key, deadline, what| fired.push((key, deadline, what)));
        assert_eq!(wheel.now(), wake_up);
    }
    assert_eq!(fired, [(ping, at(5_000), "ping")]);
    assert!(wheel.contains(close));
    assert_eq!(wheel.drain().collect::<Vec<_>>(), [(at(70_000), "close")]);
    assert_eq!((wheel.len(), wheel.next_expiration()), (0, None));
}

#[test]
fn both_wheels_tell_the_same_story() {
    story(Wheel::default());
    story(HashedWheel::default());
    story(HashedWheel::new(3).unwrap());
}

/// Timers with their deadlines for payloads.
struct Crowd<W> {
    wheel: W,
    pending: Vec<(Key, u64)>,
}

impl<W: TimingWheel<u64>> Crowd<W> {
    fn come(&mut self, now: u64) {
        for n in 0..900 {
            let deadline = now + n * n % 61;
            self.pending.push((self.wheel.insert(at(deadline), deadline), deadline));
        }
    }

    /// Some are cancelled, and as many others cancelled, inserted for never and called back.
    fn change(&mut self, now: u64) {
        for n in 0..300 {
            let (key, deadline) = self.pending.swap_remove(n * 7919 % self.pending.len());
            assert_eq!(self.wheel.cancel(key), Some(deadline));
            assert_eq!(self.wheel.cancel(key), None);
            let other = n * 104_729 % self.pending.len();
            let (key, deadline) = &mut self.pending[other];
            assert_eq!(self.wheel.cancel(*key), Some(*deadline));
            *deadline = now + 1 + n as u64 % 50;
            *key = self.wheel.insert(Tick::NEVER, *deadline);
            assert!(self.wheel.reset(*key, at(*deadline)));
        }
    }

    fn fire(&mut self, now: u64) {
        let mut fired = Vec::new();
        self.wheel.advance(at(now), |key, deadline, payload| {
            assert_eq!(deadline.get(), payload);
            fired.push((key, payload));
        });
        assert!(fired.is_sorted_by_key(|(_, deadline)| *deadline));
        let is_due = |(_, deadline): &(Key, u64)| *deadline <= now;
        let (mut due, left): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(is_due);
        self.pending = left;
        due.sort_unstable();
        fired.sort_unstable();
        assert_eq!(fired, due);
        assert!(fired.iter().all(|(key, _)| !self.wheel.contains(*key)));
    }

    /// Many timers in each bucket, in several rounds of it, leave in every way there is.
    fn run(wheel: W) -> W {
        let mut crowd = Crowd { wheel, pending: Vec::new() };
        for now in 0..40 {
            crowd.come(now);
            crowd.change(now);
            // Not each time, so that some advances are over several ticks.
            if now % 7 < 4 {
                crowd.fire(now);
            }
            assert_eq!(crowd.wheel.len(), crowd.pending.len());
            let agrees = |(key, deadline): &(Key, u64)| crowd.wheel.get(*key) == Some(deadline);
            assert!(crowd.pending.iter().all(agrees));
        }
        let mut left: Vec<u64> = crowd.wheel.drain().map(|(_, payload)| payload).collect();
        let mut expected: Vec<u64> = crowd.pending.iter().map(|(_, deadline)| *deadline).collect();
        left.sort_unstable();
        expected.sort_unstable();
        assert_eq!(left, expected);
        crowd.wheel
    }
}

#[test]
fn of_hundreds_in_each_bucket_every_one_leaves_once_whichever_way() {
    for slots in [3, 8, 32, 512] {
        Crowd::run(HashedWheel::new(slots).unwrap()).check();
        Crowd::run(Wheel::new(Geometry::new(slots, slots).unwrap())).check();
    }
}
