//! Parked buckets: a crowd in one bucket lets others pass.
//!
//! A bucket may hold a million entries. When the owner has gone through its *first share* and
//! something else is due at the beginning of a turn, the bucket is parked: the rest stays in its
//! tray, and the others open. The bucket goes on when nothing else is due, or when the owner has
//! looked at a *share* of the others. Parked buckets take turns, a share each. What is due beside
//! them waits for two shares at most: that of the turn under way, and one of a parked bucket.
//!
//! Only the beginning of a turn parks. A turn that fires all that is due goes through each bucket
//! to its end, in the order of ticks.
//!
//! *Owner*: the shard's owner. A parked tray belongs to the shard, as the open one does: the next
//! holder of the role goes on with it, and a stop takes the payloads out.
//!
//! A timer that is scheduled or moved when a bucket is due never waits in there: its seats serve no
//! other timers, and what is moved leaves it (`Stock::pick`, `Entry::reset`). A timer that was
//! moved to later before that is one of the crowd: it is re-filed when its place comes.
//!
//! *Invariants*: each entry in a parked tray was in its bucket when that opened, is held by its
//! list bit, and is covered by being here. Timers leave the order of ticks only behind a bucket
//! whose first share did not suffice. A bucket that goes on counts as opened at the present: what
//! is due by now fires, whatever its tick, and what is re-filed goes to a bucket that is not due.
//! So a coarse crowd never fills buckets that come before those that it lets pass.
//!
//! *Orderings*: none of its own; see `trays` for readers.
//!
//! *Tested by*: `loom-tests/tests/parked.rs`, `tests/suite/engine/crowds.rs`,
//! `tests/oracles/engine.rs`, `tests/oracles/shard_clocks.rs`.

use std::collections::VecDeque;

use crate::sync::IS_CHECKED;
use crate::sync::events::{Event, reached};
use crate::time::Tick;

use super::opening::Open;
use super::trays::Trays;
use super::{Owner, Shard};

/// Shares that a bucket of level 1 has before it may be parked: as many timers are due at one tick.
const FIRST: usize = if IS_CHECKED { 1 } else { 4 };

/// The same for a coarse bucket, whose entries are due at different ticks.
const FIRST_OF_COARSE: usize = if IS_CHECKED { 1 } else { 16 };

/// The parked buckets of an owner.
pub(super) struct Parked<T> {
    /// The first one goes on next.
    buckets: VecDeque<Open<T>>,
    /// Entries that the owner looks at before the first bucket goes on; no end if there is none.
    others: usize,
    share: usize,
}

// === impl Parked ===

impl<T> Parked<T> {
    pub(super) fn new(share: usize) -> Parked<T> {
        Parked { buckets: VecDeque::new(), others: usize::MAX, share }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Entries of a bucket that is opened now that are looked at before it may be parked.
    #[inline]
    pub(super) fn first_share(&self, level: u8) -> usize {
        self.share * if level > 1 { FIRST_OF_COARSE } else { FIRST }
    }

    /// Whether a parked bucket has waited long enough.
    #[inline]
    pub(super) fn is_its_turn(&self) -> bool {
        self.others == 0
    }

    /// Counts entries that were looked at in a bucket that was never parked.
    #[inline]
    pub(super) fn looked_at_others(&mut self, entries: usize) {
        if !self.is_empty() {
            self.others = self.others.saturating_sub(entries);
        }
    }

    fn park(&mut self, mut open: Open<T>) {
        if self.is_empty() {
            self.others = self.share.max(1);
        }
        reached(Event::Parked);
        open.began.get_or_insert(open.place.expiration);
        self.buckets.push_back(open);
    }

    /// Takes out the bucket that goes on. If it was its turn, it has a share before it may be
    /// parked again.
    pub(super) fn take(&mut self) -> Option<Open<T>> {
        let left = if self.is_its_turn() { self.share.max(1) } else { 0 };
        let open = self.buckets.pop_front()?;
        reached(if left > 0 { Event::ParkedInTurn } else { Event::ParkedAlone });
        self.others = if self.is_empty() { usize::MAX } else { self.share.max(1) };
        Some(Open { left, ..open })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Open<T>> {
        self.buckets.iter()
    }
}

impl<T> Shard<T> {
    /// At the beginning of a turn at `now`: parks the open bucket if it had its share and something
    /// else is due, or parked.
    #[cold]
    #[inline(never)]
    pub fn let_pass(&self, owner: &mut Owner<T>, now: Tick) {
        let is_awaited = !owner.parked.is_empty() || owner.next_opening() <= now;
        if let Some(open) = owner.due.take_if(|open| is_awaited && open.left == 0) {
            owner.parked.park(open);
            owner.keep_two_trays(&self.trays);
        } else if let Some(open) = owner.due.as_mut().filter(|open| open.began.is_some()) {
            open.place.expiration = now;
        }
    }

    /// Goes on with the next parked bucket at `now`. Returns `false` if there is none.
    #[cold]
    #[inline(never)]
    pub(super) fn go_on(&self, owner: &mut Owner<T>, now: Tick) -> bool {
        let Some(mut open) = owner.parked.take() else { return false };
        owner.opened = open.began;
        open.place.expiration = now;
        owner.due = Some(open);
        true
    }
}

impl<T> Owner<T> {
    /// Makes sure that there are trays for a due bucket and for an eager cascade; none is due.
    fn keep_two_trays(&mut self, trays: &Trays<T>) {
        let is_taken = self.eager.as_ref().is_some_and(|open| open.tray.is_wide());
        if self.spare.len() + usize::from(is_taken) < 2 {
            reached(Event::TrayAdded);
            self.spare.push(trays.add_wide());
        }
    }
}
