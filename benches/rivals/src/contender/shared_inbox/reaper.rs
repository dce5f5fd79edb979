//! The reaper: files what comes in, fires what is due, sleeps until either.
//!
//! A producer puts its timer in and then looks when the reaper will wake up; the reaper says when
//! it will wake up and then looks whether something has come in. One of them sees the other.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tickless::Tick;
use tickless::local::Wheel;

use super::inbox::Inbox;
use super::node::Node;
use crate::machine::clock;
use crate::sink;

/// What the reaper says while it is awake: it will look into the inbox before it sleeps.
const AWAKE: u64 = 0;

/// What producers and the reaper share.
#[derive(Debug)]
pub(super) struct Shared<I> {
    inbox: I,
    /// The tick until which the reaper sleeps.
    sleeps_until: AtomicU64,
    reaper: OnceLock<Thread>,
    start: Instant,
    tick_ns: u64,
}

// === impl Shared ===

impl<I: Inbox> Shared<I> {
    /// With time beginning now.
    pub(super) fn new(tick: Duration) -> Shared<I> {
        Shared {
            inbox: I::default(),
            sleeps_until: AtomicU64::new(AWAKE),
            reaper: OnceLock::new(),
            start: Instant::now(),
            tick_ns: clock::ns(tick),
        }
    }

    /// Names the thread to wake.
    pub(super) fn answered_by(&self, reaper: Thread) {
        self.reaper.set(reaper).expect("there is one reaper");
    }

    /// The first tick that is not before `deadline`.
    #[inline]
    pub(super) fn tick_at(&self, deadline: Instant) -> u64 {
        clock::ns(deadline - self.start).div_ceil(self.tick_ns)
    }

    /// Hands a timer over; wakes the reaper if that would sleep past `deadline_tick`.
    #[inline]
    pub(super) fn send(&self, node: Arc<Node>, deadline_tick: u64) {
        self.inbox.push(node);
        fence(Ordering::SeqCst);
        if deadline_tick < self.sleeps_until.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the reaper, if it sleeps.
    pub(super) fn wake(&self) {
        let is_asleep = self.sleeps_until.swap(AWAKE, Ordering::SeqCst) != AWAKE;
        if let Some(reaper) = self.reaper.get().filter(|_| is_asleep) {
            reaper.unpark();
        }
    }

    fn sleep_until(&self, tick: u64) {
        self.sleeps_until.store(tick, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.inbox.is_empty() {
            let at = Duration::from_nanos(tick.saturating_mul(self.tick_ns));
            thread::park_timeout(at.saturating_sub(self.start.elapsed()));
        }
        self.sleeps_until.store(AWAKE, Ordering::SeqCst);
    }
}

/// Files and fires, for ever.
pub(super) fn run<I: Inbox>(shared: &Shared<I>) {
    let mut wheel = Wheel::<Arc<Node>>::default();
    loop {
        shared.inbox.take(|node| file(&mut wheel, node));
        let now = clock::ns(shared.start.elapsed()) / shared.tick_ns;
        wheel.advance(Tick::new(now), |_, _, node| {
            // SAFETY: this is the reaper, and no other reference to the key is about.
            unsafe { *node.key() = None };
            if node.fire() {
                sink::fire(node.token);
            }
        });
        shared.sleep_until(wheel.next_expiration().map_or(u64::MAX, Tick::get));
    }
}

/// Puts a timer into the wheel, or takes a cancelled one out.
fn file(wheel: &mut Wheel<Arc<Node>>, node: Arc<Node>) {
    if node.arrive() {
        // SAFETY: this is the reaper, and no other reference to the key is about.
        let key = unsafe { node.key() }.take();
        drop(key.and_then(|key| wheel.cancel(key)));
        return;
    }
    let key = wheel.insert(Tick::new(node.deadline_tick), node);
    if let Some(node) = wheel.get(key) {
        // SAFETY: as above.
        unsafe { *node.key() = Some(key) };
    }
}
