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

/// Both wheels, empty, for a test that is the same for them.
fn on_both(test: impl Fn(&mut dyn Popping)) {
    test(&mut Wheel::default());
    test(&mut Wheel::new(Geometry::new(3, 2).unwrap()));
    test(&mut HashedWheel::default());
    test(&mut HashedWheel::new(3).unwrap());
}

/// The part of the trait that those tests need, without its closures.
trait Popping {
    fn insert(&mut self, deadline: u64, payload: u32) -> Key;
    fn cancel(&mut self, key: Key) -> Option<u32>;
    fn reset(&mut self, key: Key, deadline: u64) -> bool;
    fn pop(&mut self, now: u64) -> Option<(u64, u32)>;
    fn peek(&self) -> Option<(Key, Tick)>;
    fn seen(&self) -> Vec<(Key, u64, u32)>;
    fn fired(&mut self, now: u64) -> Vec<u32>;
    fn now(&self) -> u64;
}

impl<W: TimingWheel<u32>> Popping for W {
    fn insert(&mut self, deadline: u64, payload: u32) -> Key {
        TimingWheel::insert(self, at(deadline), payload)
    }

    fn cancel(&mut self, key: Key) -> Option<u32> {
        TimingWheel::cancel(self, key)
    }

    fn reset(&mut self, key: Key, deadline: u64) -> bool {
        TimingWheel::reset(self, key, at(deadline))
    }

    fn pop(&mut self, now: u64) -> Option<(u64, u32)> {
        self.pop_due(at(now)).map(|(_, deadline, payload)| (deadline.get(), payload))
    }

    fn peek(&self) -> Option<(Key, Tick)> {
        TimingWheel::peek(self)
    }

    fn seen(&self) -> Vec<(Key, u64, u32)> {
        let mut seen: Vec<_> =
            self.iter().map(|(key, at, timer)| (key, at.get(), *timer)).collect();
        assert_eq!(seen.len(), self.len());
        seen.sort_unstable();
        seen
    }

    fn fired(&mut self, now: u64) -> Vec<u32> {
        let mut fired = Vec::new();
        self.advance(at(now), |_, _, payload| fired.push(payload));
        fired
    }

    fn now(&self) -> u64 {
        TimingWheel::now(self).get()
    }
}

#[test]
fn popping_takes_one_timer_and_leaves_the_rest_under_their_keys() {
    on_both(|wheel| {
        let keys: Vec<Key> = (0..100).map(|timer| wheel.insert(50, timer)).collect();
        let (_, popped) = wheel.pop(60).unwrap();
        assert_eq!(wheel.now(), 50);
        assert_eq!(wheel.cancel(keys[popped as usize]), None, "it has left");
        let mut others = (0..100).filter(|timer| *timer != popped);
        let [cancelled, sooner, later] = [(); 3].map(|()| others.next().unwrap());
        assert_eq!(wheel.cancel(keys[cancelled as usize]), Some(cancelled));
        assert!(wheel.reset(keys[later as usize], 55) && wheel.reset(keys[sooner as usize], 2));
        wheel.insert(51, 100);
        let rest: Vec<(u64, u32)> = std::iter::from_fn(|| wheel.pop(60)).collect();
        assert_eq!(rest.len(), 99);
        assert!(rest[..97].contains(&(2, sooner)), "it is late, and due with the others");
        assert_eq!(rest[97..], [(51, 100), (55, later)]);
        assert_eq!((wheel.now(), wheel.seen()), (60, vec![]));
    });
}

#[test]
fn an_advance_goes_on_where_popping_left_off() {
    on_both(|wheel| {
        for timer in 0..40 {
            wheel.insert(10 + u64::from(timer) / 10, timer);
        }
        let popped: Vec<u32> = (0..15).filter_map(|_| wheel.pop(20)).map(|(_, t)| t).collect();
        let fired = wheel.fired(12);
        assert_eq!((popped.len(), fired.len()), (15, 15));
        assert!(popped.iter().chain(&fired).is_sorted_by_key(|timer| timer / 10));
        assert_eq!(wheel.pop(12), None);
        assert_eq!(wheel.seen().len(), 10);
    });
}

#[test]
fn nothing_is_popped_before_its_time_or_at_a_time_that_has_passed() {
    on_both(|wheel| {
        wheel.insert(5_000, 1);
        wheel.insert(Tick::NEVER.get(), 2);
        assert_eq!((wheel.pop(4_999), wheel.now()), (None, 4_999));
        assert_eq!((wheel.pop(7), wheel.now()), (None, 4_999));
        wheel.insert(3, 3);
        assert_eq!(wheel.pop(4_998), None, "time does not go back for a late timer");
        assert_eq!(wheel.pop(4_999), Some((3, 3)));
        assert_eq!(wheel.pop(Tick::NEVER.get()), Some((5_000, 1)));
        assert_eq!(wheel.pop(Tick::NEVER.get()), None);
        assert_eq!((wheel.now(), wheel.seen().len()), (Tick::LAST.get(), 1));
    });
}

#[test]
fn the_next_timer_is_found_however_far_it_is() {
    on_both(|wheel| {
        let mut keys = Vec::new();
        for level in (0..12).rev() {
            let deadline = 7 << (4 * level);
            keys.push((wheel.insert(deadline + 1, 1), wheel.insert(deadline, 0), deadline));
            assert_eq!(wheel.peek(), Some((keys.last().unwrap().1, at(deadline))));
        }
        wheel.insert(Tick::NEVER.get(), 2);
        while let Some((second, first, deadline)) = keys.pop() {
            assert_eq!(wheel.peek(), Some((first, at(deadline))));
            assert_eq!(wheel.cancel(first), Some(0));
            assert_eq!(wheel.peek(), Some((second, at(deadline + 1))));
            wheel.fired(deadline);
            assert_eq!(wheel.pop(deadline + 1), Some((deadline + 1, 1)));
        }
        assert_eq!(wheel.peek(), None);
    });
}

#[test]
fn every_pending_timer_is_seen_once() {
    on_both(|wheel| {
        let mut expected: Vec<(Key, u64, u32)> = (0..500_u32)
            .map(|timer| {
                let deadline = u64::from(timer % 37).pow(4);
                (wheel.insert(deadline, timer), deadline, timer)
            })
            .collect();
        expected.retain(|(key, _, timer)| timer % 3 > 0 || wheel.cancel(*key).is_none());
        wheel.fired(1_000);
        expected.retain(|(_, deadline, _)| *deadline > 1_000);
        expected.sort_unstable();
        assert_eq!(wheel.seen(), expected);
    });
}
