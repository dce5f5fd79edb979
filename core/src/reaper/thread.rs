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
use crate::sync::events::{Event, reached};
use crate::sync::spin_loop;
use crate::time::{Clock, Scale, Tick};

use super::spin::Wait;
use super::{Group, NEVER_NS, Report, Spin, TurnContext, Watch};

/// The bounds of the leader's patience, which is half a tick otherwise. Passing the lead on takes
/// some ten microseconds.
const LEAST_PATIENCE_NS: u64 = 50_000;
const MOST_PATIENCE_NS: u64 = 1_000_000;

/// A group, as one of the engine's threads reaches it.
pub trait Serve {
    /// The payloads of its timers.
    type Payload;

    /// The role of one of its shards. Dropping it gives it back.
    type Role;

    /// The group.
    fn group(&self) -> &Group;

    /// The engine's clock.
    fn clock(&self) -> &Clock;

    /// The engine's tick.
    fn scale(&self) -> Scale;

    /// The thread's number among those of the engine.
    fn number(&self) -> usize;

    /// The watch over tasks, if the engine has one.
    fn watch(&self) -> Option<&Watch>;

    /// Whether the engine is stopping.
    fn is_stopping(&self) -> bool;

    /// Takes the role of shard `index` of the group. `None`: another thread has it, or the engine
    /// is stopping.
    fn take(&self, index: usize) -> Option<Self::Role>;

    /// Calls `f` with the reaper of shard `index`, whose role is `role`, and what it has in hand.
    fn run<R>(
        &self,
        index: usize,
        role: &mut Self::Role,
        f: impl FnOnce(&TurnContext<'_, Self::Payload>, &mut InHand<Self::Payload>) -> R,
    ) -> R;

    /// The thread has lost a shard, and is back from its task.
    fn came_back(&self);

    /// Makes another thread lead. The caller has given the lead up. `false`: there is no thread to
    /// spare.
    fn find_leader(&self) -> bool;
}

/// What a thread begins with.
#[derive(Debug)]
pub enum Begin<R> {
    /// It has taken the lead.
    Lead,
    /// It has taken a shard over from a thread that is stuck.
    Succeed {
        /// The shard's place in the group.
        index: usize,
        /// Its role.
        role: R,
        /// It has taken the lead as well.
        leads: bool,
    },
}

/// What a thread does for its group.
struct Server<'a, S> {
    this: &'a S,
    /// Whether it leads.
    leads: bool,
    /// It has lost a shard to another thread, which stands in its place.
    is_replaced: bool,
    /// Wake-ups that were not counted yet.
    woken: u64,
}

/// Serves the group until the engine stops, or until other threads are enough.
///
/// There is no polling: the leader sleeps until the next bucket opens, or until the doorbell rings.
/// `spin` says how long before that it waits in user space instead.
pub fn serve<S: Serve>(this: &S, begin: Begin<S::Role>, mut spin: Spin) {
    os::ask_for_exact_wakeups();
    let leads = !matches!(begin, Begin::Succeed { leads: false, .. });
    if leads {
        this.group().begin_lead(this.number());
    }
    let mut server = Server { this, leads, is_replaced: false, woken: 0 };
    if let Begin::Succeed { index, role, .. } = begin {
        if server.leads && this.group().shards() > 1 {
            // The rest of the batch may have the same kind of task.
            server.pass_lead_on();
        }
        // What was in hand is handed over whatever happens meanwhile.
        server.turn(index, role, this.clock().now_ns(), |context| context.succeed());
    }
    let mut slept_until = None;
    while !this.is_stopping() {
        let now_ns = this.clock().now_ns();
        if let Some(ends_ns) = slept_until.take() {
            spin.woke(ends_ns, now_ns);
        }
        let has_worked = server.pass(now_ns);
        if server.leads {
            slept_until = server.sleep(&mut spin);
        } else if server.is_replaced {
            // It leaves at once, since it may be the one that has to watch.
            return server.leave();
        } else if !has_worked {
            return;
        }
    }
}

// === impl Server ===

impl<S: Serve> Server<'_, S> {
    /// Runs a turn of each shard that needs one, and that no other thread serves. Returns whether
    /// there was any.
    fn pass(&mut self, begun_ns: u64) -> bool {
        let (group, scale) = (self.this.group(), self.this.scale());
        let patience_ns = patience_ns(scale);
        let (mut now_ns, mut has_worked) = (begun_ns, false);
        for index in 0..group.shards() {
            if !group.needs_turn(index, scale.floor(now_ns)) {
                continue;
            }
            let late_ns = now_ns - begun_ns;
            if self.leads && self.may_delay_others(index, now_ns, late_ns, patience_ns) {
                self.pass_lead_on();
            }
            let Some(role) = self.this.take(index) else {
                reached(Event::RoleBusy);
                continue;
            };
            self.turn(index, role, now_ns, |_| ());
            has_worked = true;
            let end_ns = self.this.clock().now_ns().max(now_ns);
            group.took(index, end_ns - now_ns);
            now_ns = end_ns;
            if self.is_replaced && !self.leads {
                break;
            }
        }
        has_worked
    }

    /// Whether another shard would have to wait for longer than `patience_ns`, because a turn of
    /// shard `index` may take so long, or because this pass is so late already.
    fn may_delay_others(&self, index: usize, now_ns: u64, late_ns: u64, patience_ns: u64) -> bool {
        let group = self.this.group();
        let takes_ns = match group.takes_long(index, patience_ns) {
            Some(takes_ns) => takes_ns,
            None if late_ns > patience_ns => 0,
            None => return false,
        };
        let end = self.this.scale().floor(now_ns.saturating_add(takes_ns));
        (0..group.shards()).any(|other| other != index && group.needs_turn(other, end))
    }

    /// Runs a turn of shard `index`, whose role is `role`, at `now_ns`, and calls `begin` before. A
    /// thread that does not lead goes on until nothing is left to do there.
    fn turn(
        &mut self,
        index: usize,
        mut role: S::Role,
        now_ns: u64,
        begin: impl FnOnce(&TurnContext<'_, S::Payload>),
    ) {
        let (this, group, leads) = (self.this, self.this.group(), self.leads);
        if leads {
            this.watch().iter().for_each(|watch| watch.set_alarm(now_ns));
            group.lead().lend(this.number());
        }
        let woken = mem::take(&mut self.woken);
        group.begin(index, this.number());
        let report = this.run(index, &mut role, |context, in_hand| {
            let context = &TurnContext { leads, ..*context };
            begin(context);
            turns(context, in_hand, woken)
        });
        let ended = report.filter(|report| !report.taken_over);
        if let Some(report) = ended {
            group.end(index, if report.collects { Tick::ZERO } else { report.next });
        }
        drop(role);
        self.leads = leads && group.lead().reclaim(this.number());
        if leads && !self.leads {
            reached(Event::LeadLost);
        }
        if ended.is_some() && !self.leads {
            group.settle(index);
        }
        if report.is_some_and(|report| report.taken_over) {
            group.end_stuck(this.number());
            this.came_back();
            self.is_replaced = true;
        }
    }

    /// Leaves what was asked for meanwhile to the leader.
    fn leave(&self) {
        let group = self.this.group();
        if group.is_asked() {
            group.doorbell().ring();
        }
    }

    /// Lets another thread lead, if there is one.
    #[cold]
    fn pass_lead_on(&mut self) {
        let (lead, number) = (self.this.group().lead(), self.this.number());
        lead.give_up(number);
        self.leads = !self.this.find_leader();
        reached(if self.leads { Event::LeadKept } else { Event::LeadPassed });
        if self.leads {
            let is_back = lead.take(number);
            debug_assert!(is_back, "nobody else was to lead");
        }
    }

    /// Sleeps until a shard needs a turn, if none does now. Returns until when it wanted to sleep.
    fn sleep(&mut self, spin: &mut Spin) -> Option<u64> {
        let (this, group) = (self.this, self.this.group());
        let next = group.earliest();
        let due_ns = this.scale().start_ns(next);
        let now_ns = due_ns.map_or(0, |_| this.clock().now_ns());
        let ends_ns = match due_ns.map(|due_ns| spin.plan(now_ns, due_ns)) {
            Some(Wait::Spin(until_ns)) => {
                spin.wait(this.clock(), now_ns, until_ns, || self.is_called());
                return None;
            }
            Some(Wait::Sleep(until_ns)) => Some(until_ns),
            None => None,
        };
        let timeout = ends_ns.map(|ns| Duration::from_nanos(ns.saturating_sub(now_ns)));
        // If there is nothing but a shard whose role another thread has just taken, or is about to
        // give back, this comes back here at once: hence the pauses.
        if timeout == Some(Duration::ZERO) {
            spin_loop();
            return None;
        }
        this.watch().iter().for_each(|watch| watch.take_alarm_back(ends_ns.unwrap_or(NEVER_NS)));
        group.doorbell().publish(next);
        if group.earliest() < next || self.is_called() {
            reached(Event::SleepCalledOff);
            group.doorbell().retract();
            spin_loop();
            return None;
        }
        group.doorbell().sleep(timeout, ends_ns);
        this.clock().look_again();
        self.woken += 1;
        ends_ns
    }

    /// Whether a thread wants something that a leader which is awake has to find by itself.
    fn is_called(&self) -> bool {
        self.this.group().is_asked() || self.this.is_stopping()
    }
}

/// Runs a turn. A thread that does not lead runs further ones while the shard has more to do at
/// once; one that leads has to look after the other shards.
fn turns<T>(context: &TurnContext<'_, T>, in_hand: &mut InHand<T>, woken: u64) -> Option<Report> {
    let now = || context.scale.floor(context.clock.now_ns());
    let owner = context.lock();
    owner.count(Count::WokeUp, woken);
    let mut report = context.turn_of(owner, in_hand, now(), SHARE)?;
    while !context.leads && report.busy && !report.taken_over && !context.is_stopping() {
        report = context.turn_of(context.lock(), in_hand, now(), SHARE)?;
    }
    Some(report)
}

/// How long the leader may work on before another shard that is due has to wait.
fn patience_ns(scale: Scale) -> u64 {
    (scale.tick_ns() / 2).clamp(LEAST_PATIENCE_NS, MOST_PATIENCE_NS)
}
