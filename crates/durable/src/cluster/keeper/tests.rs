//! Rounds at a hub that replies slowly, or for which the instance is dead, and what follows from
//! them for the services.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Instant;

use super::*;
use crate::cluster::clerk::Clerk;
use crate::cluster::clock::SharedClock;
use crate::cluster::held::Held;
use crate::cluster::hub::{Clerking, First, Hub, Reading, Tell};
use crate::cluster::inner::Faults;
use crate::record::Key;
use crate::service::{Builder, Durable, Firing, Numbers};
use crate::store::{Disk, Store};

const MINE: u64 = 7;
const OTHER: u64 = 8;
const SHARDS: u32 = 4;
const WINDOW: usize = 64;

/// No shard is free.
struct Desk {
    takes_to_reply: Duration,
    /// Who is alive, at each request for that.
    alive: VecDeque<&'static [u64]>,
    /// How often leases are renewed. Later, others have the shards.
    renewals: usize,
    requests: Vec<&'static str>,
    pauses: Vec<Key>,
}

impl Desk {
    fn new(takes_to_reply: Duration, alive: &[&'static [u64]]) -> Desk {
        let alive = alive.iter().copied().collect();
        let (requests, pauses) = (Vec::new(), Vec::new());
        Desk { takes_to_reply, alive, renewals: usize::MAX, requests, pauses }
    }

    fn reply(&mut self, request: &'static str) {
        self.requests.push(request);
        thread::sleep(self.takes_to_reply);
    }
}

impl Keeping for Desk {
    fn first_dues(&mut self, _: u64) -> Result<Vec<First>, StoreError> {
        Ok(Vec::new())
    }

    fn next_session(&mut self) -> Result<u64, StoreError> {
        Ok(MINE)
    }

    fn renew(&mut self, _: u64, leases: &[Taken], _: Duration) -> Result<Renewal, StoreError> {
        let sent = since_start();
        self.reply("renew");
        let is_mine = self.requests.iter().filter(|one| **one == "renew").count() <= self.renewals;
        let renewed = if is_mine { leases.to_vec() } else { Vec::new() };
        Ok(Renewal { sent, renewed, reading: None })
    }

    fn alive(&mut self, _: Duration) -> Result<Vec<u64>, StoreError> {
        self.reply("alive");
        Ok(self.alive.pop_front().expect("it asks no more often").to_vec())
    }

    fn take(
        &mut self,
        _: u64,
        _: &[u32],
        _: usize,
        _: Duration,
    ) -> Result<Vec<Taking>, StoreError> {
        self.reply("take");
        Ok(Vec::new())
    }

    fn next_expiry(&mut self, _: u64, _: Duration) -> Result<Option<Duration>, StoreError> {
        self.reply("next expiry");
        Ok(None)
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        Ok(self.pauses.clone())
    }

    fn wait(&mut self, _: Duration) -> Vec<Message> {
        Vec::new()
    }

    fn leave(&mut self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Cannot be reached: a round has its connection, and opens nothing here.
struct Nowhere;

impl Hub for Nowhere {
    #[cfg(feature = "postgres")]
    fn name(&self) -> &str {
        "nowhere"
    }

    fn keeping(&self) -> Result<Box<dyn Keeping>, StoreError> {
        panic!("it has a connection")
    }

    fn clerking(&self) -> Result<Box<dyn Clerking>, StoreError> {
        panic!("nobody runs the clerk")
    }

    fn open(&self, _: Taken, _: Tell) -> Result<Box<dyn Store>, StoreError> {
        panic!("nothing is taken")
    }

    fn misses_nothing(&self) -> bool {
        true
    }
}

/// A keeper that holds so many shards.
fn keeper(lease: Duration, holds: u32) -> Keeper<Vec<u8>> {
    let reading = Reading { sent: since_start(), received: since_start(), shows_us: 0 };
    let clock = Arc::new(SharedClock::new(reading, false));
    let mut held = Held::new(WINDOW);
    held.add((0..holds).map(|shard| {
        let taken = Taken { shard, fence: 1 };
        Arc::new(Lease::new(taken, 0, until(since_start(), lease), &clock, false))
    }));
    let inner = Inner {
        shards: SHARDS,
        lease,
        instance: MINE,
        clock,
        held: Mutex::new(held),
        clerk: Arc::new(Clerk::new(Duration::ZERO)),
        numbers: Mutex::new(Numbers::of_session(MINE).unwrap()),
        state: Mutex::new(State::default()),
        bell: Condvar::new(),
        open: Box::new(|_, _, _| panic!("nothing is taken")),
        faults: Faults::default(),
        hub: Arc::new(Nowhere),
    };
    Keeper { inner: Arc::new(inner), keeping: None }
}

#[test]
fn a_round_makes_each_request_once() {
    let hour = Duration::from_secs(3600);
    let mut desk = Desk::new(Duration::ZERO, &[&[MINE, OTHER]]);
    let next = keeper(hour, 2).round(&mut desk).unwrap();
    assert_eq!(desk.requests, ["renew", "alive", "next expiry"]);
    assert!(next > since_start() + hour / 4 && next <= since_start() + hour / 3);
}

#[test]
fn a_round_begins_another_session_before_the_numbers_are_used_up() {
    let keeper = keeper(Duration::from_secs(3600), 2);
    keeper.inner.numbers().use_up_but(1);
    keeper.round(&mut Desk::new(Duration::ZERO, &[&[MINE, OTHER]])).unwrap();
    let numbers: Vec<u64> = (0..9)
        .map(|_| keeper.inner.record(None, 5, [].into()).expect("there is one").position.number)
        .collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[test]
fn leases_are_renewed_in_the_middle_of_a_slow_round() {
    let lease = Duration::from_millis(30);
    let mut desk = Desk::new(lease / 3, &[&[MINE, OTHER]]);
    let keeper = keeper(lease, 1);
    keeper.round(&mut desk).unwrap();
    // One is missing.
    assert_eq!(desk.requests, ["renew", "alive", "renew", "take", "renew"]);
    assert_eq!(keeper.inner.held().wanted(), [0]);
}

#[test]
fn what_is_lost_in_the_middle_of_a_round_is_closed() {
    let lease = Duration::from_millis(30);
    let mut desk = Desk { renewals: 1, ..Desk::new(lease / 3, &[&[MINE, OTHER]]) };
    let keeper = keeper(lease, 2);
    keeper.round(&mut desk).unwrap();
    assert_eq!(desk.requests, ["renew", "alive", "renew", "take", "renew"]);
    assert!(keeper.inner.held().wanted().is_empty());
}

#[test]
fn who_is_taken_for_dead_says_so_again_and_has_its_share() {
    let mut desk = Desk::new(Duration::ZERO, &[&[OTHER], &[OTHER, MINE]]);
    let keeper = keeper(Duration::from_secs(3600), 3);
    keeper.round(&mut desk).unwrap();
    assert_eq!(desk.requests, ["renew", "alive", "renew", "alive", "next expiry"]);
    assert_eq!(keeper.inner.held().wanted(), [0, 1]);
}

#[test]
fn who_stays_dead_for_others_keeps_what_it_has_and_takes_nothing() {
    for holds in [1, 3] {
        let mut desk = Desk::new(Duration::ZERO, &[&[OTHER], &[OTHER]]);
        let keeper = keeper(Duration::from_secs(3600), holds);
        keeper.round(&mut desk).unwrap();
        assert_eq!(desk.requests, ["renew", "alive", "renew", "alive", "next expiry"]);
        assert_eq!(keeper.inner.held().wanted().len(), holds as usize);
    }
}

/// An instance that stops ends its keeper when nothing is held any more, and then its clerk.
#[test]
fn a_shard_is_released_before_it_is_held_no_more() {
    let keeper = keeper(Duration::from_secs(3600), 1);
    let inner = keeper.inner.clone();
    let lease = inner.held().leases().remove(0);
    let held = inner.held();
    let leaving = {
        let (inner, lease) = (inner.clone(), lease.clone());
        thread::spawn(move || closing::leave(&inner, &lease))
    };
    let begun = Instant::now();
    while inner.clerk.releases() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it waits for what is held");
        thread::yield_now();
    }
    drop(held);
    leaving.join().unwrap();
    assert!(inner.held().is_empty());
}

fn service() -> Durable {
    let handler = |_: &Firing<Vec<u8>>| Ok::<(), String>(());
    Builder::new().window(WINDOW).open(Disk::default().open(), handler).unwrap()
}

/// Threads that open and close shards cannot overtake each other between a change of what is held
/// and what follows from it.
#[test]
fn under_the_lock_all_shards_that_are_held_share_the_window() {
    let keeper = keeper(Duration::from_secs(3600), 3);
    let services = [service(), service()];
    let windows = || services.each_ref().map(Durable::window);
    let mut held = keeper.inner.held();
    let leases = held.leases();
    for (lease, service) in leases.iter().zip(&services) {
        assert!(held.opened(lease, service.clone()).is_ok());
        assert_eq!(service.window(), WINDOW / 3);
    }
    held.remove(&leases[2]);
    assert_eq!(windows(), [WINDOW / 2; 2]);
    held.add([leases[2].clone()]);
    assert_eq!(windows(), [WINDOW / 3; 2]);
    let _closing = held.close(1).unwrap();
    assert_eq!(windows(), [WINDOW / 3; 2], "until it has ended");
    held.remove(&leases[1]);
    assert_eq!(services[0].window(), WINDOW / 2);
}

#[test]
fn a_shard_that_is_opened_has_the_pauses_of_the_last_round() {
    let keeper = keeper(Duration::from_secs(3600), 2);
    let services = [service(), service()];
    let leases = keeper.inner.held().leases();
    for (pause, opens) in [("mail/", 0), ("", 1)] {
        let pauses: Vec<Key> = vec![pause.as_bytes().into()];
        let mut desk = Desk::new(Duration::ZERO, &[&[MINE, OTHER]]);
        desk.pauses.clone_from(&pauses);
        keeper.round(&mut desk).unwrap();
        let mut held = keeper.inner.held();
        assert!(held.opened(&leases[opens], services[opens].clone()).is_ok());
        assert!(services[..=opens].iter().all(|service| service.pauses() == pauses));
    }
}
