//! A prototype of the design that tickless did not choose: producers hand every schedule and
//! every cancel to one reaper through an inbox that all share, and the reaper alone touches the
//! wheel.
//!
//! Two inboxes: crossbeam's `SegQueue`, and a stack through the timers themselves.
//!
//! *Invariants*: a timer is in the inbox at most once (its `QUEUED` bit says so); the thread
//! that moves its fate away from pending decides it; the engine's share of a timer is given up once, by the
//! reaper: when it fired it, or when it took it from the inbox cancelled.

mod inbox;
mod node;
mod reaper;

use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use inbox::{Inbox, Seg, Stack};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use node::Node;
use reaper::Shared;

/// Messages of one producer after which it wakes the reaper, lest the inbox grow until the next
/// timer is due.
const BACKLOG: u32 = 1_024;

/// The engine.
#[derive(Debug)]
pub(crate) struct SharedInbox<I>(Arc<Shared<I>>);

/// What one thread schedules with.
#[derive(Debug)]
pub(crate) struct InboxProducer<I> {
    shared: Arc<Shared<I>>,
    unannounced: u32,
}

impl<I: Inbox> Contender for SharedInbox<I> {
    const NAME: &'static str = I::NAME;
    const ABOUT: &'static str = I::ABOUT;
    const HAS_TICK: bool = true;

    type Timer = Option<Arc<Node>>;
    type Producer = InboxProducer<I>;

    fn start(setup: Setup) -> Result<SharedInbox<I>, BenchError> {
        let shared = Arc::new(Shared::<I>::new(setup.tick));
        let of_thread = shared.clone();
        let reaper = thread::Builder::new()
            .name(Self::NAME.to_owned())
            .spawn(move || reaper::run(&of_thread))
            .map_err(BenchError::setup(Self::NAME))?;
        shared.answered_by(reaper.thread().clone());
        Ok(SharedInbox(shared))
    }

    fn producer(&self) -> InboxProducer<I> {
        InboxProducer { shared: self.0.clone(), unannounced: 0 }
    }

    fn level_widths(setup: Setup) -> Vec<Duration> {
        vec![setup.tick * 256]
    }
}

impl<I: Inbox> InboxProducer<I> {
    #[inline]
    fn send(&mut self, node: Arc<Node>, deadline_tick: u64) {
        self.shared.send(node, deadline_tick);
        self.unannounced += 1;
        if self.unannounced == BACKLOG {
            self.unannounced = 0;
            self.shared.wake();
        }
    }
}

impl<I: Inbox> Producer for InboxProducer<I> {
    type Timer = Option<Arc<Node>>;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut Self::Timer>, delay: Duration, token: u64) {
        let deadline_tick = self.shared.tick_at(Instant::now() + delay);
        let node = Arc::new(Node::new(deadline_tick, token));
        *timer.get_mut() = Some(node.clone());
        self.send(node, deadline_tick);
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Self::Timer>) -> bool {
        let Some(node) = timer.get_mut().take() else { return false };
        let cancelled = node.cancel();
        if cancelled.must_be_sent {
            self.send(node, u64::MAX);
        }
        cancelled.in_time
    }
}
