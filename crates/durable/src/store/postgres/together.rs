//! One writer for all shards of an instance: what their services commit at about the same time is
//! one transaction.
//!
//! Each service commits on its own thread. Whoever comes first while nobody writes is the *leader*:
//! it asks the other services to commit what they have ready, waits for those that say they do, and
//! writes all of it on the one session. The others wait for their outcomes, and who comes meanwhile
//! is written by the next leader.
//!
//! A transaction that has failed before its end has changed nothing. Then each shard is written by
//! itself, so that what is wrong with one is wrong with that one alone; after a lost connection, on
//! a new one. A shard in which somebody's transaction has had something locked goes by itself for a
//! while, behind the others.
//!
//! *Owner*: the leader has the session; any thread of a service can be it.
//!
//! *Tested by*: `tests/durable/postgres/`.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{StoreError, StoreErrorKind};
use crate::position::Position;
use crate::store::contract::Op;

use super::changes::apply;
use super::session::{Database, Session};

/// How long a leader waits at most for those who will commit.
const GATHER: Duration = Duration::from_millis(10);

/// How many changes make a transaction, unless one service has more.
const MOST: usize = 4096;

/// For how long a shard is written by itself after something in it was locked.
const APART: Duration = Duration::from_secs(1);

/// Asks the services to commit what they have ready. Returns how many will.
type Ring = dyn Fn() -> usize + Send + Sync;

pub(crate) struct Together {
    database: Database,
    /// For tests which show that they would notice.
    pub(super) ignores_fence: bool,
    ring: OnceLock<Box<Ring>>,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    /// What is to be written, in the order in which it came.
    jobs: Vec<Job>,
    outcomes: HashMap<u64, Outcome>,
    /// The number of the next job.
    next: u64,
    /// Somebody writes, and has the session.
    is_led: bool,
    session: Option<Session>,
    /// The shards that are written by themselves, and since when.
    apart: HashMap<i32, Instant>,
}

type Outcome = Result<Vec<Option<Position>>, StoreError>;

/// A service's batch.
struct Job {
    number: u64,
    shard: i32,
    fence: i64,
    ops: Vec<Op>,
}

// === impl Together ===

impl Together {
    pub(crate) fn new(database: Database, ignores_fence: bool) -> Arc<Together> {
        Arc::new(Together {
            database,
            ignores_fence,
            ring: OnceLock::new(),
            state: Mutex::default(),
            bell: Condvar::new(),
        })
    }

    /// How the services are asked. The first one that is set stays.
    pub(crate) fn set_ring(&self, ring: Box<Ring>) {
        let _ = self.ring.set(ring);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a batch, perhaps with those of other shards: see [`Store::commit`].
    ///
    /// [`Store::commit`]: crate::Store::commit
    pub(super) fn commit(&self, shard: i32, fence: i64, ops: &[Op]) -> Outcome {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.jobs.push(Job { number, shard, fence, ops: ops.to_vec() });
        // A leader may wait for it.
        self.bell.notify_all();
        loop {
            if let Some(outcome) = state.outcomes.remove(&number) {
                return outcome;
            }
            state = if state.is_led {
                self.bell.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                state.is_led = true;
                self.lead(state)
            };
        }
    }

    /// Writes what there is, this thread's batch among it.
    fn lead<'t>(&'t self, state: MutexGuard<'t, State>) -> MutexGuard<'t, State> {
        let is_apart = state.jobs.iter().all(|job| state.is_apart(job.shard));
        let mut state = if is_apart { state } else { self.gather(state) };
        let jobs = state.take_jobs();
        let (first, apart): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| !state.is_apart(job.shard));
        let mut session = state.session.take();
        drop(state);
        let numbers: Vec<u64> = first.iter().chain(&apart).map(|job| job.number).collect();
        // A panic here would leave the others waiting.
        let written = catch_unwind(AssertUnwindSafe(|| {
            let mut written = self.write(&mut session, &first);
            written.extend(apart.iter().flat_map(|job| self.write(&mut session, [job])));
            written
        }));
        let written = written.unwrap_or_else(|_| {
            let error = StoreError::new(StoreErrorKind::Io, "the writer has panicked");
            numbers.iter().map(|_| Err(error.clone())).collect()
        });
        let mut state = self.state();
        for (job, outcome) in first.iter().chain(&apart).zip(&written) {
            let is_in_use =
                outcome.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::InUse);
            if is_in_use {
                state.apart.insert(job.shard, Instant::now());
            }
        }
        state.outcomes.extend(numbers.into_iter().zip(written));
        (state.session, state.is_led) = (session, false);
        self.bell.notify_all();
        state
    }

    /// Waits for the services that commit now as well.
    fn gather<'t>(&'t self, state: MutexGuard<'t, State>) -> MutexGuard<'t, State> {
        drop(state);
        // Those that are here already have nothing ready.
        let expected = self.ring.get().map_or(0, |ring| ring());
        let state = self.state();
        let wanted = state.jobs.len() + expected;
        let is_missing = |state: &mut State| state.jobs.len() < wanted;
        let waited = self.bell.wait_timeout_while(state, GATHER, is_missing);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes these in one transaction, or else each by itself.
    fn write<'j>(
        &self,
        session: &mut Option<Session>,
        jobs: impl IntoIterator<Item = &'j Job>,
    ) -> Vec<Outcome> {
        let jobs: Vec<&Job> = jobs.into_iter().collect();
        if jobs.is_empty() {
            return Vec::new();
        }
        let kept = session.take().filter(Session::is_open);
        let was_kept = kept.is_some();
        let connected = kept.map_or_else(|| self.database.connect_to_lists("tickless writer"), Ok);
        let mut here = match connected {
            Ok(connected) => connected,
            Err(error) => return jobs.iter().map(|_| Err(error.clone())).collect(),
        };
        let (written, is_undone) = self.write_together(&mut here, &jobs);
        let is_lost = !here.is_open();
        *session = Some(here);
        match written {
            Ok(outcomes) => outcomes,
            // On a connection that was over before: perhaps another one works.
            Err(_) if is_undone && (jobs.len() > 1 || (is_lost && was_kept)) => {
                jobs.iter().flat_map(|job| self.write(session, [*job])).collect()
            }
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// The second value: if it has failed, nothing was changed.
    fn write_together(
        &self,
        session: &mut Session,
        jobs: &[&Job],
    ) -> (Result<Vec<Outcome>, StoreError>, bool) {
        let mut shards: Vec<(i32, i64)> = jobs.iter().map(|job| (job.shard, job.fence)).collect();
        shards.sort_unstable();
        let mut is_undone = true;
        let written = session.transaction(|session| {
            let mut write = || {
                let held = self.held(session, &shards)?;
                let shards: Vec<i32> = held.iter().map(|(shard, _)| *shard).collect();
                let told = |(shard, fence): &(i32, i64)| format!("{shard}={fence}");
                let told: Vec<String> = held.iter().map(told).collect();
                lock_lists(session, &shards, &told.join(","))?;
                let held: HashSet<(i32, i64)> = held.into_iter().collect();
                let mut outcomes = Vec::with_capacity(jobs.len());
                for job in jobs {
                    outcomes.push(if held.contains(&(job.shard, job.fence)) {
                        Ok(apply(session, job.shard, &job.ops)?)
                    } else {
                        Err(fenced(job.shard))
                    });
                }
                Ok(outcomes)
            };
            let written = write();
            is_undone = written.is_err();
            written
        });
        (written, is_undone)
    }

    /// Which of these takings are the last ones of their shards, until the end of the transaction.
    fn held(
        &self,
        session: &mut Session,
        shards: &[(i32, i64)],
    ) -> Result<Vec<(i32, i64)>, StoreError> {
        if self.ignores_fence {
            return Ok(shards.to_vec());
        }
        // Two takings of one shard, of which the earlier one is not over yet.
        let (mut held, mut left) = (Vec::new(), shards);
        while !left.is_empty() {
            let mut seen = HashSet::new();
            let few = left.iter().take_while(|(shard, _)| seen.insert(*shard)).count();
            let (these, later) = left.split_at(few);
            let (numbers, fences): (Vec<i32>, Vec<i64>) = these.iter().copied().unzip();
            let hold = "SELECT shard, fence FROM shards WHERE shard = ANY ($1::int[])
                AND fence = ($2::bigint[])[array_position($1::int[], shard)]
                ORDER BY shard FOR KEY SHARE";
            let rows = session.query(hold, &[&numbers, &fences])?;
            held.extend(rows.iter().map(|row| (row.get(0), row.get(1))));
            left = later;
        }
        Ok(held)
    }
}

// === impl State ===

impl State {
    fn is_apart(&self, shard: i32) -> bool {
        self.apart.get(&shard).is_some_and(|since| since.elapsed() < APART)
    }

    /// As many as make a transaction. A service has one at a time here.
    fn take_jobs(&mut self) -> Vec<Job> {
        let mut room = MOST;
        let fits = |job: &&Job| {
            let fits = room > 0;
            room = room.saturating_sub(job.ops.len());
            fits
        };
        let few = self.jobs.iter().take_while(fits).count();
        self.jobs.drain(..few).collect()
    }
}

/// Has the lists of these shards to itself until the end of the transaction. All of them are waited
/// for, in order of the shards, so that no two writers wait for each other. From then on, nothing
/// waits for long: people's transactions lock timers for as long as they like, and the whole list
/// would wait for one that is left open. What is locked is [in use](StoreErrorKind::InUse).
///
/// `fences` is for triggers that want to know who writes: `shard=fence`, of those who have one.
pub(crate) fn lock_lists(
    session: &mut Session,
    shards: &[i32],
    fences: &str,
) -> Result<(), StoreError> {
    let lock = "WITH locked AS MATERIALIZED
            (SELECT FROM writers WHERE shard = ANY ($1) ORDER BY shard FOR UPDATE)
        SELECT set_config('lock_timeout', '50ms', true),
            set_config('tickless.fences', $2, true) FROM (SELECT count(*) FROM locked) AS all_of";
    session.query(lock, &[&shards, &fences]).map(drop)
}

/// What is told to who has held a shard.
pub(super) fn fenced(shard: i32) -> StoreError {
    let message = format!("another instance has shard {shard}, which this one had");
    StoreError::new(StoreErrorKind::Fenced, message)
}
