//! The model: what callers were told, and what is durable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use tickless_durable::store::Fault;
use tickless_durable::{Cancelled, Durable, Firing, Reply, Ticket, TimerId};

/// How often a timer is tried, and the pause between two attempts.
pub(crate) const ATTEMPTS: u32 = 3;
pub(crate) const PAUSE_MS: u64 = 40;

/// How late a timer may be after a step of the clock: the grain of the service's alarm.
pub(crate) const GRAIN_MS: u64 = 100;

/// How far the clocks of two processes may be apart, as of the service.
const APART_MS: u64 = 1000;

/// What the handler does with a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    Succeed,
    /// Fails that often, then succeeds.
    Fail(u32),
    /// Cancels itself, and fails.
    CancelItself,
    /// Cancels the timer with that key, and succeeds.
    CancelKey(u8),
    /// Schedules another one under that key, which succeeds, and fails itself.
    Replace(u8),
    /// Lets the writer write, before or after it has cancelled itself, and fails.
    Write {
        cancels: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Schedule {
        due_in: i64,
        key: Option<u8>,
        plan: Plan,
    },
    Cancel(prop::sample::Index),
    CancelKey(u8),
    /// A handler is called.
    Work,
    /// The writer makes a step, and these happen while the store commits, or else reads.
    Write {
        commits: bool,
        meanwhile: Vec<Step>,
    },
    /// Time passes by both clocks, or by the engine's alone, or the wall clock is set.
    Advance(u64),
    AdvanceEngine(u64),
    SetWall(i64),
    /// Everything that is due is handled.
    Drain,
    /// The process dies: before a batch, or in the middle of one that is lost or kept.
    Die(Option<Fault>),
    /// The service stops and is opened again.
    Reopen,
}

#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) id: TimerId,
    pub(crate) due_ms: u64,
    pub(crate) attempt: u32,
    pub(crate) key: Option<u8>,
    pub(crate) plan: Plan,
    /// Which process has scheduled it.
    pub(crate) process: u32,
}

/// Timers by the number in their payloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) alive: BTreeMap<u64, Timer>,
    pub(crate) keys: HashMap<u8, u64>,
    pub(crate) dead: BTreeSet<u64>,
}

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) told: View,
    pub(crate) durable: View,
    /// What the batch comes to that is being written.
    pub(crate) in_flight: Option<View>,
    pub(crate) scheduled: u64,
    /// Whose handlers have begun: in which process last, and what the clock showed.
    pub(crate) fired: BTreeMap<u64, (u32, u64)>,
    pub(crate) process: u32,
    /// When this process has opened the service.
    pub(crate) opened_ms: u64,
    pub(crate) now_ms: u64,
    pub(crate) tickets: Vec<(u64, Ticket)>,
    pub(crate) cancels: Vec<(Cancelled, Reply<Cancelled>)>,
    pub(crate) violation: Option<String>,
}

/// A state that is on its way to the store, and who waits for that.
pub(crate) struct Snapshot {
    pub(crate) told: View,
    pub(crate) tickets: Vec<(u64, Ticket)>,
    pub(crate) cancels: Vec<(Cancelled, Reply<Cancelled>)>,
}

impl View {
    pub(crate) fn take(&mut self, number: u64) -> Option<Timer> {
        let timer = self.alive.remove(&number)?;
        if let Some(key) = timer.key {
            self.keys.remove(&key);
        }
        Some(timer)
    }

    pub(crate) fn take_key(&mut self, key: u8) -> Option<Timer> {
        let number = *self.keys.get(&key)?;
        self.take(number)
    }
}

impl Model {
    /// What is about to be written.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let tickets = std::mem::take(&mut self.tickets);
        self.in_flight = Some(self.told.clone());
        Snapshot { told: self.told.clone(), tickets, cancels: std::mem::take(&mut self.cancels) }
    }

    /// It is durable now.
    pub(crate) fn written(&mut self, snapshot: Snapshot) {
        for (number, ticket) in snapshot.tickets {
            match ticket.try_get() {
                Some(Ok(id)) => assert_eq!(id, ticket.id()),
                Some(Err(_)) => {
                    let is_alive = snapshot.told.alive.contains_key(&number);
                    assert!(!is_alive, "{number} was not written");
                }
                None => panic!("{number} is neither durable nor refused"),
            }
        }
        for (expected, reply) in snapshot.cancels {
            assert_eq!(reply.try_get().expect("it was written").expect("it worked"), expected);
        }
        self.durable = snapshot.told;
    }

    /// The process is dead.
    pub(crate) fn died(&mut self) {
        self.in_flight = None;
        self.told = self.durable.clone();
        self.tickets.clear();
        self.cancels.clear();
    }

    pub(crate) fn schedule(&mut self, timers: &Durable, due_ms: u64, key: Option<u8>, plan: Plan) {
        let number = self.scheduled;
        self.scheduled += 1;
        let due = UNIX_EPOCH + Duration::from_millis(due_ms);
        let payload = number.to_le_bytes().to_vec();
        let ticket = match key {
            Some(key) => timers.schedule_keyed([key], due, payload),
            None => timers.schedule(due, payload),
        };
        let ticket = ticket.expect("the service runs");
        if let Some(key) = key {
            self.told.take_key(key);
            self.told.keys.insert(key, number);
        }
        let (id, process) = (ticket.id(), self.process);
        let timer = Timer { id, due_ms, attempt: 1, key, plan, process };
        self.told.alive.insert(number, timer);
        self.tickets.push((number, ticket));
    }

    /// `running` is the timer whose handler makes this call.
    pub(crate) fn cancel(
        &mut self,
        timers: &Durable,
        number: u64,
        id: TimerId,
        running: Option<u64>,
    ) {
        let reply = timers.cancel(id);
        let taken = self.told.take(number).map(|_| number);
        self.cancels.push((expected(taken, running), reply));
    }

    pub(crate) fn cancel_key(&mut self, timers: &Durable, key: u8, running: Option<u64>) {
        let reply = timers.cancel_key([key]);
        let holder = self.told.keys.get(&key).copied();
        self.told.take_key(key);
        self.cancels.push((expected(holder, running), reply));
    }

    /// A handler is called.
    pub(crate) fn begin(&mut self, firing: &Firing<Vec<u8>>) -> (u64, Timer) {
        let number = number_of(firing.payload());
        let now_ms = self.now_ms;
        let timer = self.told.alive.get(&number);
        let timer = timer.unwrap_or_else(|| panic!("{number} fires, and is over")).clone();
        assert!(timer.due_ms <= now_ms, "{number} is early: {timer:?} at {now_ms}");
        assert!(self.durable.alive.contains_key(&number), "{number} fires, and is not durable");
        assert_eq!((firing.id(), firing.attempt()), (timer.id, timer.attempt));
        let before = self.fired.insert(number, (self.process, now_ms));
        let was_due = timer.due_ms <= self.opened_ms + APART_MS;
        // If the clock was set back by more than that between two processes, nobody knows.
        let is_known = before.is_some_and(|(process, begun_ms)| {
            process == self.process || begun_ms <= self.opened_ms + APART_MS
        });
        assert!(firing.may_be_repeat() || !is_known, "{number} comes again");
        let is_earlier = timer.process < self.process;
        let is_told = timer.attempt > 1 || (is_earlier && was_due);
        assert!(firing.may_be_repeat() == is_told);
        (number, timer)
    }

    pub(crate) fn finish(&mut self, number: u64, result: &Result<(), String>) {
        // It may have cancelled or replaced itself.
        let Some(timer) = self.told.alive.get_mut(&number) else { return };
        if result.is_ok() {
            self.told.take(number);
        } else if timer.attempt == ATTEMPTS {
            self.told.take(number);
            self.told.dead.insert(number);
        } else {
            timer.attempt += 1;
            timer.due_ms = self.now_ms + PAUSE_MS;
        }
    }
}

pub(crate) fn expected(taken: Option<u64>, running: Option<u64>) -> Cancelled {
    match taken {
        None => Cancelled::NotFound,
        Some(_) if taken == running => Cancelled::Running,
        Some(_) => Cancelled::Cancelled,
    }
}

pub(crate) fn number_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload.try_into().expect("it is a number"))
}
