//! Background work: what the owner does while nothing is due, a chunk at a time. (A busy turn also
//! sweeps with each full batch that it hands over: `sweep`.)
//!
//! - *Eager cascading*: a coarse bucket that opens soon is re-filed before it opens, so that the
//!   work is done when the first of its entries is due. Its item stays on the agenda for
//!   entries that are pushed into it until then.
//! - *Sweeping* (`sweep`): when the dead entries are more than half of the living, the owner visits
//!   each bucket once and its dead entries become free memory. A request during a sweep starts
//!   another one.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariant*: eagerly cascaded entries are in a tray; when their bucket is due, the flush goes
//! through that tray first. So background work never makes a timer late.

use crate::memory::Shared;
use crate::time::{Place, Tick};

use super::agenda::Open;
use super::flush::Ends;
use super::sweep::CHUNK;
use super::{Owner, Shard};

/// A shard wakes up for eager cascading alone only if at least this many timers are pending: fewer
/// are re-filed quickly when their bucket opens.
const MANY: u64 = 1 << 15;

/// The first level whose buckets wake a shard up ahead of time. Those of level 2 are cascaded
/// eagerly when the shard is awake anyway.
const COARSE: u8 = 3;

/// Once per this many timers that it files, a thread checks whether the reaper knows of a crowd.
pub(crate) const LOOK_OUT: usize = 1024;

impl<T> Shard<T> {
    /// Does a chunk of background work. Returns `true` if there may be more.
    pub fn run_background(&self, owner: &mut Owner<T>, shared: &Shared<T>, now: Tick) -> bool {
        let open = owner.agenda.eager.take().or_else(|| self.next_cascade(owner, now));
        let Some(mut open) = open else {
            return self.sweep_some(owner, shared, CHUNK);
        };
        self.settle_some(owner, shared, &mut open, Ends::None, CHUNK);
        if open.at.is_done() {
            owner.put_away(open);
        } else {
            owner.agenda.eager = Some(open);
        }
        true
    }

    /// When the shard is to wake up: at the first opening or, if many timers are pending, ahead of
    /// it for a coarse bucket. [`Tick::NEVER`]: not at all.
    #[inline]
    pub fn next_wake(&self, owner: &Owner<T>, shared: &Shared<T>, first: Tick) -> Tick {
        if shared.balance.living() < MANY {
            return first;
        }
        let agenda = &owner.agenda;
        let ahead = (COARSE..=agenda.levels())
            .filter_map(|level| agenda.first_to_cascade(level))
            .map(|place| self.cascade_begins(place))
            .min()
            .filter(|&ahead| ahead < first);
        ahead.unwrap_or(first)
    }

    /// Wakes a reaper that went to sleep until a coarse bucket opens, because few timers were
    /// pending: by now there are many. Producers call it now and then with a bucket that they
    /// file in. Returns `true` if the caller is to call the shard's hook.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_out(&self, shared: &Shared<T>, level: u8, expiration: Tick) -> bool {
        if level < COARSE || shared.balance.living() < MANY {
            return false;
        }
        self.doorbell.ask(self.group_index);
        self.doorbell.ring_before(expiration.saturating_sub(self.lead_time(level)))
    }

    /// How long before its expiration a bucket of `level` may be cascaded.
    fn lead_time(&self, level: u8) -> u64 {
        self.wheel.geometry().width(level) / 4
    }

    /// From when on a bucket or round may be cascaded.
    fn cascade_begins(&self, place: Place) -> Tick {
        place.expiration.saturating_sub(self.lead_time(place.level))
    }

    /// Begins the cascade that is most urgent at `now`, if there is one. In most turns nothing has
    /// changed, and it is too early for any.
    #[inline]
    fn next_cascade(&self, owner: &mut Owner<T>, now: Tick) -> Option<Open<T>> {
        if now < owner.agenda.cascades_from { None } else { self.find_cascade(owner, now) }
    }

    /// For checks: whether no bucket is to be cascaded before the owner would look for it.
    pub(super) fn knows_cascades(&self, owner: &Owner<T>, now: Tick) -> bool {
        let agenda = &owner.agenda;
        let mut all = (2..=agenda.levels()).filter_map(|level| agenda.first_to_cascade(level));
        all.all(|place| {
            place.expiration <= now || agenda.cascades_from <= self.cascade_begins(place)
        })
    }

    /// Looks for the cascade that is most urgent at `now`, and begins it.
    fn find_cascade(&self, owner: &mut Owner<T>, now: Tick) -> Option<Open<T>> {
        let agenda = &mut owner.agenda;
        let (mut from, mut first) = (Tick::NEVER, None::<Place>);
        for place in (2..=agenda.levels()).filter_map(|level| agenda.first_to_cascade(level)) {
            if place.expiration <= now {
                continue;
            }
            let begins = self.cascade_begins(place);
            from = from.min(begins);
            let is_sooner = first.is_none_or(|first| place.expiration < first.expiration);
            if begins <= now && is_sooner {
                first = Some(place);
            }
        }
        agenda.cascades_from = from;
        Some(self.open(owner, first?, false))
    }
}
