//! What instances did, and what has to hold of it.

use std::collections::{BTreeMap, BTreeSet};

/// A handler began.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) timer: String,
    pub(crate) shard: i32,
    pub(crate) fence: i64,
    pub(crate) instance: i64,
    pub(crate) due_us: i64,
    /// By the database's clock as its instance knows it: no later than it was.
    pub(crate) begun_us: i64,
    /// By the database's clock, when this was written: no earlier than it was.
    pub(crate) at_us: i64,
}

/// A timer's row was made or deleted.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) timer: String,
    pub(crate) is_put: bool,
    /// Under which fence, if by the holder of the shard; and which fence the shard had then.
    pub(crate) under: Option<i64>,
    pub(crate) fence: i64,
    pub(crate) at_us: i64,
}

/// An instance took a shard.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    pub(crate) shard: i32,
    pub(crate) fence: i64,
    pub(crate) at_us: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) starts: Vec<Start>,
    pub(crate) changes: Vec<Change>,
    pub(crate) takings: Vec<Taking>,
}

// === impl History ===

impl History {
    /// What is wrong with it, if all its timers are over.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = self.wrong_ends();
        complaints.extend(self.early_starts());
        complaints.extend(self.stale_starts());
        complaints.extend(self.stale_writes());
        complaints.extend(self.fences_that_do_not_grow());
        complaints
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    /// A timer is made once, put off some times, and deleted once; and then it does not begin. It
    /// is not deleted before it has begun.
    fn wrong_ends(&self) -> Vec<String> {
        let mut changes: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
        for change in &self.changes {
            changes.entry(&change.timer).or_default().push(change);
        }
        let mut complaints = Vec::new();
        for (timer, changes) in changes {
            // To put off is to delete and to make.
            let puts = changes.iter().filter(|change| change.is_put).count();
            let last = changes[changes.len() - 1];
            if last.is_put || puts * 2 != changes.len() {
                complaints.push(format!("{timer} did not end once: {changes:?}"));
            }
            let mut starts = self.starts.iter().filter(|start| start.timer == timer).peekable();
            if starts.peek().is_none() {
                complaints.push(format!("{timer} was lost"));
            }
            let late = starts.filter(|start| start.begun_us > last.at_us);
            complaints.extend(late.map(|start| format!("after its end: {start:?}")));
        }
        complaints
    }

    fn early_starts(&self) -> Vec<String> {
        let early = self.starts.iter().filter(|start| start.at_us < start.due_us);
        early.map(|start| format!("before it was due: {start:?}")).collect()
    }

    /// No handler begins under a fence when one of that shard has begun under a later one.
    fn stale_starts(&self) -> Vec<String> {
        let is_stale = |start: &&Start| {
            let later = self
                .starts
                .iter()
                .filter(|other| other.shard == start.shard && other.fence > start.fence);
            later.map(|later| later.at_us).min().is_some_and(|first| start.begun_us > first)
        };
        let stale = self.starts.iter().filter(is_stale);
        stale.map(|start| format!("under an old fence: {start:?}")).collect()
    }

    fn stale_writes(&self) -> Vec<String> {
        let is_stale = |change: &&Change| change.under.is_some_and(|under| under != change.fence);
        let stale = self.changes.iter().filter(is_stale);
        stale.map(|change| format!("written under an old fence: {change:?}")).collect()
    }

    fn fences_that_do_not_grow(&self) -> Vec<String> {
        let mut last = BTreeMap::new();
        let mut complaints = Vec::new();
        for Taking { shard, fence, .. } in &self.takings {
            if last.insert(shard, *fence).is_some_and(|before| before >= *fence) {
                complaints.push(format!("the fence of shard {shard} does not grow: {fence}"));
            }
        }
        complaints
    }

    /// The instances whose handlers began.
    pub(crate) fn instances(&self) -> BTreeSet<i64> {
        self.starts.iter().map(|start| start.instance).collect()
    }
}

// === each check finds what it is for ===

fn sound() -> History {
    let start = |timer: &str, fence, begun_us| Start {
        timer: timer.to_owned(),
        shard: 1,
        fence,
        instance: fence,
        due_us: 100,
        begun_us,
        at_us: begun_us + 5,
    };
    let change = |timer: &str, is_put, fence, at_us| Change {
        timer: timer.to_owned(),
        is_put,
        under: Some(fence),
        fence,
        at_us,
    };
    History {
        // The first one is repeated, because its instance was held up.
        starts: vec![start("1-1", 3, 100), start("1-2", 4, 150), start("1-1", 4, 200)],
        changes: vec![
            change("1-1", true, 3, 10),
            change("1-2", true, 3, 11),
            change("1-2", false, 4, 160),
            change("1-2", true, 4, 160),
            change("1-2", false, 4, 190),
            change("1-1", false, 4, 210),
        ],
        takings: [3, 4].map(|fence| Taking { shard: 1, fence, at_us: 0 }).to_vec(),
    }
}

#[track_caller]
fn assert_finds(plant: impl FnOnce(&mut History), complaint: &str) {
    let mut history = sound();
    plant(&mut history);
    let complaints = history.complaints();
    assert!(complaints.iter().any(|found| found.contains(complaint)), "{complaints:?}");
}

#[test]
fn a_sound_history_is_found_so() {
    // Under an old fence, too, if it only was written down late.
    let mut history = sound();
    history.starts[0].at_us = 1000;
    history.starts.rotate_left(1);
    history.check();
}

#[test]
fn what_is_wrong_with_a_history_is_found() {
    assert_finds(|history| history.starts.truncate(1), "1-2 was lost");
    assert_finds(|history| history.changes.truncate(5), "1-1 did not end once");
    let again = |history: &mut History| history.changes.push(history.changes[5].clone());
    assert_finds(again, "1-1 did not end once");
    assert_finds(|history| history.starts[1].begun_us = 191, "after its end");
    assert_finds(|history| history.starts[0].due_us = 106, "before it was due");
    assert_finds(|history| history.starts[0].begun_us = 156, "under an old fence");
    assert_finds(|history| history.changes[5].under = Some(3), "written under an old fence");
    assert_finds(|history| history.takings[1].fence = 3, "does not grow");
}
