//! A thread that serves a group of shards: turns, and exact sleeps between them. With a [`Spin`],
//! it does not sleep through the last stretch before a wake-up.
//!
//! The thread that leads looks at all shards in turn, and sleeps when none needs a turn. If it
//! falls behind, or is about to, it passes the lead on, and goes on beside the new leader: with one
//! shard until nothing is left to do there, then with the next, until none needs a turn. A thread
//! that finds after a turn that it has lost the lead does the same.
//!
//! *Orderings*: DOORBELL. The leader publishes its wake-up time, then looks at the shards once
//! more, and only then sleeps. LEAD: it lends the lead while it runs a turn. STOP: the stopper
//! closes the shards, ends their roles, and rings.

use std::mem;
use std::time::Duration;

use crate::dispatch::InHand;
use crate::memory::{Count, SHARE};
use crate::os;
use crate::sync::spin_loop;
use crate::time::{Clock, Scale, Tick};

use super::spin::SpinOrSleep;
use super::{Group, NEVER_NS, Report, Spin, TurnContext, Watch};

/// The bounds of the leader's patience, which is half a tick otherwise. Passing the lead on takes
/// some ten microseconds.
const LEAST_PATIENCE_NS: u64 = 50_000;
const MOST_PATIENCE_NS: u64 = 1_000_000;

/// An engine, as the threads that serve its shards see it.
pub trait Serve {
    /// The payloads of its timers.
    type Payload;

    /// The role of a shard. Dropping it gives it back.
    type Role<'a>
    where
        Self: 'a;

    /// Whether the engine is stopping.
    fn is_stopping(&self) -> bool;

    /// Takes the role of a shard. `None`: another thread has it, or the engine is stopping.
    fn take_role(&self, shard: usize) -> Option<Self::Role<'_>>;

    /// Calls `f` with the context for turns of a shard, whose role is `role`, and what that has in
    /// hand.
    fn run<R>(
        &self,
        shard: usize,
        role: &mut Self::Role<'_>,
        f: impl FnOnce(&TurnContext<'_, Self::Payload>, &mut InHand<Self::Payload>) -> R,
    ) -> R;

    /// Makes another thread lead a group. The caller has given the lead up. `false`: there is no
    /// thread to spare.
    fn find_leader(&self, group: usize) -> bool;
}

/// A thread that serves a group.
pub struct Server<'a, E> {
    engine: &'a E,
    group: &'a Group,
    /// The thread's number among those of the engine.
    number: usize,
    clock: &'a Clock,
    scale: Scale,
    /// The watch over its tasks, if there is one.
    watch: Option<&'a Watch>,
    /// How long before a wake-up it waits in user space instead of asleep, while it leads.
    spin: Spin,
    /// Whether it leads.
    leads: bool,
    /// It has lost a shard to another thread, which stands in its place.
    is_replaced: bool,
    /// Wake-ups that were not counted yet.
    woken: u64,
}

// === impl Server ===

impl<'a, E: Serve> Server<'a, E> {
    /// The calling thread, which is number `number` of the engine's. While it leads, it waits as
    /// `spin` says.
    pub fn new(
        engine: &'a E,
        group: &'a Group,
        number: usize,
        (clock, scale): (&'a Clock, Scale),
        watch: Option<&'a Watch>,
        spin: Spin,
    ) -> Server<'a, E> {
        let (leads, is_replaced, woken) = (false, false, 0);
        Server { engine, group, number, clock, scale, watch, spin, leads, is_replaced, woken }
    }

    /// Takes the lead of the group, which nobody has, and serves until the engine stops, or until
    /// other threads are enough.
    pub fn lead(mut self) {
        let is_first = self.group.lead.take(self.number);
        debug_assert!(is_first, "two threads are to lead");
        self.begin_lead();
        self.serve_on();
    }

    /// As [`Server::lead`], in the place of a thread that is stuck: the caller has taken over the
    /// `role` of shard `index` of the group and, if it `leads`, the lead.
    pub fn succeed(mut self, index: usize, mut role: E::Role<'a>, leads: bool) {
        if leads {
            self.begin_lead();
        }
        if self.leads && self.group.shards.len() > 1 {
            // The rest of the batch may have the same kind of task.
            self.pass_lead_on();
        }
        self.engine.run(self.group.shard(index), &mut role, |context, _| context.succeed());
        // The payloads in hand are handed over whatever happens meanwhile.
        self.turn(index, role, self.clock.now_ns());
        self.serve_on();
    }

    fn begin_lead(&mut self) {
        os::ask_for_exact_wakeups();
        self.group.doorbell.retract();
        self.leads = true;
    }

    /// There is no polling: the leader sleeps until the next bucket opens, or until the doorbell
    /// rings.
    fn serve_on(&mut self) {
        while !self.engine.is_stopping() {
            let has_worked = self.pass(self.clock.now_ns());
            if self.leads {
                self.sleep();
            } else if self.is_replaced || !has_worked {
                // One that was replaced leaves at once, since it may be the one that has to watch.
                return;
            }
        }
    }

    /// Runs a turn of each shard that needs one, and that no other thread serves. Returns whether
    /// there was any.
    fn pass(&mut self, begun_ns: u64) -> bool {
        let (engine, group) = (self.engine, self.group);
        let (mut now_ns, mut has_worked) = (begun_ns, false);
        for index in 0..group.shards.len() {
            if !group.needs_turn(index, self.scale.floor(now_ns)) {
                continue;
            }
            if self.leads && self.may_delay_others(index, now_ns, now_ns - begun_ns) {
                self.pass_lead_on();
            }
            let Some(role) = engine.take_role(group.shard(index)) else {
                continue;
            };
            self.turn(index, role, now_ns);
            has_worked = true;
            let end_ns = self.clock.now_ns().max(now_ns);
            group.took(index, end_ns - now_ns);
            now_ns = end_ns;
            if self.is_replaced && !self.leads {
                break;
            }
        }
        has_worked
    }

    /// Whether another shard would have to wait for longer than the leader's patience, because a
    /// turn of shard `index` may take so long, or because this pass is `late_ns` late already.
    fn may_delay_others(&self, index: usize, now_ns: u64, late_ns: u64) -> bool {
        let (group, scale) = (self.group, self.scale);
        let patience_ns = patience_ns(scale);
        let takes_ns = match group.takes_long(index, patience_ns) {
            Some(takes_ns) => takes_ns,
            None if late_ns > patience_ns => 0,
            None => return false,
        };
        let end = scale.floor(now_ns.saturating_add(takes_ns));
        (0..group.shards.len()).any(|other| other != index && group.needs_turn(other, end))
    }

    /// Runs a turn of shard `index`, whose role is `role`, at `now_ns`. A thread that does not lead
    /// goes on until nothing is left to do there.
    fn turn(&mut self, index: usize, mut role: E::Role<'a>, now_ns: u64) {
        let (engine, group, leads) = (self.engine, self.group, self.leads);
        if leads {
            self.watch.iter().for_each(|watch| watch.set_alarm(now_ns));
            group.lead.lend(self.number);
        }
        group.begin_serving(index, self.number);
        let report = loop {
            let woken = mem::take(&mut self.woken);
            let report = engine.run(group.shard(index), &mut role, |context, in_hand| {
                turn(&TurnContext { leads, ..*context }, in_hand, woken)
            });
            // One that leads has to look after the other shards.
            let goes_on = |it: Report| !leads && it.busy && !it.taken_over && !engine.is_stopping();
            if !report.is_some_and(goes_on) {
                break report;
            }
        };
        let ended = report.filter(|report| !report.taken_over);
        if let Some(report) = ended {
            group.end_serving(index, if report.collects { Tick::ZERO } else { report.next });
        }
        drop(role);
        self.leads = leads && group.lead.reclaim(self.number);
        if ended.is_some() && !self.leads {
            group.wake_leader(index);
        }
        if report.is_some_and(|report| report.taken_over) {
            group.end_stuck(self.number);
            // Since this thread is back, the watcher may take over again.
            self.watch.iter().for_each(|watch| watch.call());
            self.is_replaced = true;
        }
    }

    /// Lets another thread lead, if there is one.
    #[cold]
    fn pass_lead_on(&mut self) {
        let (lead, number) = (&self.group.lead, self.number);
        lead.give_up(number);
        self.leads = !self.engine.find_leader(self.group.number);
        if self.leads {
            let is_back = lead.take(number);
            debug_assert!(is_back, "nobody else was to lead");
        }
    }

    /// Sleeps until a shard needs a turn, if none does now.
    fn sleep(&mut self) {
        let (engine, group) = (self.engine, self.group);
        // Whether a thread wants something that a leader which is awake has to find by itself.
        let is_called = || group.is_asked() || engine.is_stopping();
        let next = group.earliest();
        let due_ns = self.scale.start_ns(next);
        let now_ns = due_ns.map_or(0, |_| self.clock.now_ns());
        let ends_ns = match due_ns.map(|due_ns| self.spin.plan(now_ns, due_ns)) {
            Some(SpinOrSleep::Spin(until_ns)) => {
                // A server beside it does not ring a leader that is awake.
                let is_called = || is_called() || group.earliest() < next;
                self.spin.wait(self.clock, now_ns, until_ns, is_called);
                if is_called() {
                    // As below.
                    spin_loop();
                }
                return;
            }
            Some(SpinOrSleep::Sleep(until_ns)) => Some(until_ns),
            None => None,
        };
        let timeout = ends_ns.map(|ns| Duration::from_nanos(ns.saturating_sub(now_ns)));
        // If there is nothing but a shard whose role another thread has just taken, or is about to
        // give back, this comes back here at once: hence the pauses.
        if timeout == Some(Duration::ZERO) {
            spin_loop();
            return;
        }
        self.watch.iter().for_each(|watch| watch.take_alarm_back(ends_ns.unwrap_or(NEVER_NS)));
        group.doorbell.publish(next);
        if group.earliest() < next || is_called() {
            group.doorbell.retract();
            spin_loop();
            return;
        }
        group.doorbell.sleep(timeout, ends_ns);
        self.clock.look_again();
        self.woken += 1;
    }
}

debug! { impl[E] Server['_, E] { number, leads } }

/// Runs a turn at the present. The thread has woken up so often since the last one.
fn turn<T>(context: &TurnContext<'_, T>, in_hand: &mut InHand<T>, woken: u64) -> Option<Report> {
    let owner = context.lock();
    owner.count(Count::WokeUp, woken);
    let now = context.scale.floor(context.clock.now_ns());
    context.turn(owner, in_hand, now, SHARE, SHARE)
}

/// How long the leader may work on before another shard that is due has to wait.
fn patience_ns(scale: Scale) -> u64 {
    (scale.tick_ns() / 2).clamp(LEAST_PATIENCE_NS, MOST_PATIENCE_NS)
}
