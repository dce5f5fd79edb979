//! What an engine ought to do: an ordered map of deadlines and numbers, and what follows from it.
//!
//! It shares no arithmetic with the engine, and judges what happened in the order in which it did.
//! A timer is due at its deadline's tick. One that is asked for a time that is past goes among
//! those that are due from its deadline's tick up to the tick of that moment: where exactly is
//! not promised. Where few timers are a crowd, the order of ticks is not judged: what is behind a
//! crowd goes before the rest of it.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use tickless::{State, Tick};

use super::case::Config;
use super::log::{Event, Scheduled};

/// The model of one engine after another.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) config: Config,
    /// Whether few timers are a crowd.
    has_crowds: bool,
    zero: Instant,
    pub(crate) timers: Vec<Timer>,
    /// What is pending, by the tick at which it is due.
    pub(crate) pending: BTreeSet<(u64, usize)>,
    pub(crate) is_stopped: bool,
    pub(crate) counts: Counts,
    /// Of all engines.
    dropped: usize,
    scene: Scene,
    batch: Handover,
    /// Per shard: the tick that what fires is not before.
    reached: Vec<u64>,
    /// Whether a task of the step under way moved the clock.
    has_moved_clock: bool,
    /// Scheduled or moved by a task of the step under way.
    pub(crate) born: HashSet<usize>,
    /// Dropped before it was known why.
    unexplained: Vec<usize>,
    /// Of a shard that is driven by somebody who listens: when it was to wake, if that is known.
    pub(crate) wakes_at: Option<u64>,
    has_rung: bool,
}

/// A timer that there was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) asked_ns: u64,
    /// The tick of the deadline.
    pub(crate) due: u64,
    /// The tick before which it is at its place in the order: `due`, unless that was past.
    latest: u64,
    pub(crate) state: Fate,
    is_dropped: bool,
    /// Whether it belongs to the engine under test.
    pub(crate) is_ours: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pending,
    Fired,
    Cancelled,
    Stopped,
    Refused,
}

/// What the engine's statistics ought to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) scheduled: u64,
    pub(crate) cancelled: u64,
    pub(crate) reset: u64,
    pub(crate) fired: u64,
    pub(crate) returned: u64,
    pub(crate) panicked: u64,
    pub(crate) latest_ns: u64,
}

/// In what kind of step something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    Call,
    Turn {
        shard: usize,
    },
    /// Everything on the way fires at its own tick, what was due before at that of the start.
    Advance {
        start: u64,
    },
    /// The engine is being dropped, and with it everything that is pending.
    End,
}

/// A batch on its way through the handler.
#[derive(Debug, Default)]
struct Handover {
    left: usize,
    began_ns: u64,
    /// So many are dropped without having been taken.
    leaving: usize,
    /// Found to be too late to cancel: they are in this batch.
    doomed: Vec<usize>,
}

// === impl Oracle ===

impl Oracle {
    pub(crate) fn new(config: Config, has_crowds: bool, zero: Instant) -> Oracle {
        Oracle {
            config,
            has_crowds,
            zero,
            timers: Vec::new(),
            pending: BTreeSet::new(),
            is_stopped: false,
            counts: Counts::default(),
            dropped: 0,
            scene: Scene::Call,
            batch: Handover::default(),
            reached: vec![0; config.shards()],
            has_moved_clock: false,
            born: HashSet::new(),
            unexplained: Vec::new(),
            wakes_at: Some(0),
            has_rung: false,
        }
    }

    /// Another engine takes the place of this one; what was pending has left.
    pub(crate) fn start_over(&mut self, config: Config, zero: Instant) {
        assert!(self.pending.is_empty(), "it was stopped before");
        let mut next = Oracle::new(config, self.has_crowds, zero);
        next.timers = std::mem::take(&mut self.timers);
        next.timers.iter_mut().for_each(|timer| timer.is_ours = false);
        next.dropped = self.dropped;
        *self = next;
    }

    /// Judges the events of a step and answers how many fired.
    pub(crate) fn judge(&mut self, scene: Scene, events: &[Event]) -> usize {
        let before = self.counts.fired;
        (self.scene, self.has_moved_clock) = (scene, false);
        self.born.clear();
        for event in events {
            self.judge_one(event);
        }
        assert_eq!((self.batch.left, self.batch.leaving), (0, 0), "a batch is finished");
        assert!(self.batch.doomed.is_empty(), "gone and not fired: {:?}", self.batch.doomed);
        assert!(self.unexplained.is_empty(), "dropped while pending: {:?}", self.unexplained);
        (self.counts.fired - before) as usize
    }

    fn judge_one(&mut self, event: &Event) {
        match *event {
            Event::Scheduled { number, asked_ns, now_ns, outcome, .. } => {
                self.scheduled(number, asked_ns, now_ns, outcome);
            }
            Event::Cancelled { number, done, back } => self.cancelled(number, done, back),
            Event::Reset { number, asked_ns, now_ns, moved } => {
                self.reset(number, asked_ns, now_ns, moved);
            }
            Event::Renamed { number } => self.mark_dropped(number),
            Event::Dropped { number } => self.dropped(number),
            Event::Began { left, now_ns } => self.began(left, now_ns),
            Event::Handed { number, deadline } => self.handed(number, deadline),
            Event::Left { all: true } => self.batch.leaving = self.batch.left,
            Event::Left { all: false } => {
                self.batch.leaving = 1;
                self.counts.panicked += 1;
            }
            Event::Panics => self.counts.panicked += 1,
            Event::MovedClock => self.has_moved_clock = true,
            Event::Meddled { refused } => assert!(refused, "a task drove its own engine"),
            Event::Rang { shard } => {
                // An engine also rings when it ends, and then it may be the one before.
                assert!(self.scene == Scene::End || shard < self.config.shards());
                self.has_rung = true;
            }
        }
    }

    fn scheduled(&mut self, number: usize, asked_ns: u64, now_ns: u64, outcome: Scheduled) {
        assert_eq!(number, self.timers.len(), "payloads are told in order");
        let room = self.config.max_pending().is_none_or(|max| (self.len() as u64) < max);
        let expected = match (room, self.is_stopped) {
            (false, _) => Scheduled::Full { back: number },
            (true, true) => Scheduled::Stopped { back: number },
            (true, false) => Scheduled::Done,
        };
        assert_eq!(outcome, expected, "timer {number}");
        let is_done = outcome == Scheduled::Done;
        let state = if is_done { Fate::Pending } else { Fate::Refused };
        let timer =
            Timer { asked_ns: 0, due: 0, latest: 0, state, is_dropped: false, is_ours: true };
        self.timers.push(timer);
        if is_done {
            self.counts.scheduled += 1;
            self.file(number, asked_ns, now_ns);
        }
    }

    /// Makes a timer due at another time.
    fn file(&mut self, number: usize, asked_ns: u64, now_ns: u64) {
        let (due, now) = (self.ceil(asked_ns), self.floor(now_ns));
        let timer = &mut self.timers[number];
        (timer.asked_ns, timer.due, timer.latest) = (asked_ns, due, due.max(now));
        self.pending.insert((due, number));
        if self.scene == Scene::Call {
            self.ring(number, due.max(now));
        } else {
            self.born.insert(number);
        }
    }

    /// Something was filed for `due`: if nobody would come in time for it, somebody was called.
    fn ring(&mut self, number: usize, due: u64) {
        let is_heard = self.config.hook && self.start_ns(due).is_some();
        let is_earlier = self.wakes_at.is_some_and(|wakes_at| due < wakes_at);
        assert!(self.has_rung || !(is_heard && is_earlier), "nobody comes for {number}");
        if std::mem::take(&mut self.has_rung) {
            // Whoever was called is on the way.
            self.wakes_at = None;
        }
    }

    fn cancelled(&mut self, number: usize, done: bool, back: Option<usize>) {
        assert!(back.is_none_or(|back| back == number), "another one's payload");
        if !done {
            return self.is_too_late(number);
        }
        self.leave(number, Fate::Cancelled);
        self.counts.cancelled += 1;
        // By a cancel it was dropped at once, by a take it is dropped soon.
        let was_dropped = self.unexplained.last() == Some(&number);
        if was_dropped {
            self.unexplained.pop();
        }
        assert_eq!(was_dropped, back.is_none(), "the payload of {number}");
    }

    fn reset(&mut self, number: usize, asked_ns: u64, now_ns: u64, moved: bool) {
        if !moved {
            return self.is_too_late(number);
        }
        let was_due = self.timers[number].due;
        assert!(self.pending.remove(&(was_due, number)), "moved {number}, which is not pending");
        self.counts.reset += 1;
        self.file(number, asked_ns, now_ns);
    }

    /// A handle was told that its timer is not pending: then it fired, or is about to.
    fn is_too_late(&mut self, number: usize) {
        let is_pending = self.timers[number].state == Fate::Pending;
        if is_pending && !self.batch.doomed.contains(&number) {
            self.batch.doomed.push(number);
            let is_in_batch = self.batch.doomed.len() <= self.batch.left;
            assert!(is_in_batch, "timer {number} is pending and its handle was told no");
        }
    }

    fn dropped(&mut self, number: usize) {
        self.mark_dropped(number);
        if self.timers[number].state != Fate::Pending {
            return;
        }
        match self.scene {
            Scene::End => self.leave(number, Fate::Stopped),
            _ if self.batch.leaving > 0 => {
                self.batch.leaving -= 1;
                self.fire(number);
            }
            _ => self.unexplained.push(number),
        }
    }

    fn mark_dropped(&mut self, number: usize) {
        let was_dropped = std::mem::replace(&mut self.timers[number].is_dropped, true);
        assert!(!was_dropped, "the payload of {number} was dropped twice");
        self.dropped += 1;
    }

    fn began(&mut self, left: usize, now_ns: u64) {
        if self.batch.left > 0 {
            assert_eq!(left, self.batch.left, "what was left is handed over again");
            return;
        }
        assert!(left > 0, "an empty batch");
        assert!(self.batch.doomed.is_empty(), "gone and not fired: {:?}", self.batch.doomed);
        (self.batch.left, self.batch.began_ns) = (left, now_ns);
    }

    fn handed(&mut self, number: usize, deadline: Instant) {
        self.fire(number);
        let due = self.timers[number].due;
        assert_eq!(Some(deadline), self.instant(due), "the deadline of {number}");
    }

    fn fire(&mut self, number: usize) {
        let Timer { asked_ns, due, latest, .. } = self.timers[number];
        assert!(self.batch.left > 0, "more than the batch said");
        self.batch.left -= 1;
        self.batch.doomed.retain(|doomed| *doomed != number);
        self.leave(number, Fate::Fired);
        self.counts.fired += 1;
        let began_ns = self.batch.began_ns;
        assert!(asked_ns <= began_ns, "{number} is {} ns early", asked_ns - began_ns);
        let now = self.floor(began_ns);
        let due_ns = self.start_ns(due).expect("what fires has a time");
        self.counts.latest_ns = self.counts.latest_ns.max(began_ns - due_ns);
        match self.scene {
            Scene::Turn { .. } if self.has_crowds => {}
            Scene::Turn { shard } => {
                self.reached[shard] = self.reached[shard].max(due);
                assert!(self.reached[shard] <= latest, "{number} comes too late in the order");
                if self.config.shards() == 1 {
                    let mut before = self.pending.range(..(due, 0)).map(|&(_, other)| other);
                    let left = before.find(|&other| self.timers[other].latest < due);
                    assert_eq!(left, None, "left behind by {number}");
                }
            }
            Scene::Advance { start } => {
                let is_on_time = now == due.max(start) || self.has_moved_clock;
                assert!(is_on_time, "{number} is due at {due} and fired at {now}");
            }
            Scene::Call | Scene::End => panic!("{number} fired without a turn"),
        }
    }

    /// A step is over in which everything that was due by `now_ns` fired, on every shard.
    pub(crate) fn settled(&mut self, now_ns: u64) {
        let now = self.floor(now_ns);
        let first = self.pending.first();
        assert!(first.is_none_or(|&(due, _)| due > now), "not fired at {now}: {first:?}");
        self.reached.fill(now);
    }

    pub(crate) fn leave(&mut self, number: usize, fate: Fate) {
        let timer = &mut self.timers[number];
        assert_eq!(timer.state, Fate::Pending, "{fate:?} twice: timer {number}");
        timer.state = fate;
        assert!(self.pending.remove(&(timer.due, number)));
    }

    /// How many are pending, as the engine counts: without those of the batch under way.
    pub(crate) fn len(&self) -> usize {
        self.pending.len() - self.batch.left
    }

    /// Payloads that were not dropped.
    pub(crate) fn alive(&self) -> usize {
        self.timers.len() - self.dropped
    }

    /// What a handle of the timer ought to say.
    pub(crate) fn state_of(&self, number: usize) -> State {
        match self.timers[number].state {
            Fate::Pending => State::Pending,
            Fate::Fired => State::Fired,
            Fate::Stopped => State::Stopped,
            fate => panic!("a handle of timer {number}, which was {fate:?}"),
        }
    }

    pub(crate) fn instant(&self, tick: u64) -> Option<Instant> {
        self.zero.checked_add(Duration::from_nanos(self.start_ns(tick)?))
    }

    /// The last tick that began by `ns`.
    pub(crate) fn floor(&self, ns: u64) -> u64 {
        (ns / self.config.tick_ns()).min(Tick::LAST.get())
    }

    /// The first tick that begins at `ns` or after.
    fn ceil(&self, ns: u64) -> u64 {
        match ns {
            u64::MAX => Tick::NEVER.get(),
            _ => ns.div_ceil(self.config.tick_ns()).min(Tick::NEVER.get()),
        }
    }

    /// Where a tick begins, if a clock can get there.
    pub(crate) fn start_ns(&self, tick: u64) -> Option<u64> {
        let tick = Some(tick).filter(|&tick| tick < Tick::NEVER.get());
        tick?.checked_mul(self.config.tick_ns())
    }
}
