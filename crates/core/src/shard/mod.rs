//! The shard: a wheel, its notices, its doorbell, and the core that its one owner works on.
//!
//! Two sides. The *shared face* (this file): any thread files an entry, by `producer`. The *owner's
//! core* (`agenda`, `open`, `flush`, `ahead`, `sweep`, `close`): one thread at a time opens
//! buckets. A lock decides which; no thread that schedules, cancels or resets ever takes it.
//!
//! *Invariant* (coverage): for every filed entry at least one of these holds:
//! - a notice or an item of the agenda announces its bucket, no later than its deadline;
//! - its own producer has not returned yet;
//! - it is in a tray, which is on the owner's agenda.
//!
//! *Orderings*: BUCKET-ARM. The owner stores the shard's clock, not before the expiration of any
//! bucket that it is about to flush, then swaps the lists out. A producer pushes, then looks
//! whether the bucket is armed for its expiration *and* the clock is before it. A push that comes
//! after the swap has acquired that clock, so it posts a notice of its own; a push that comes
//! before is taken by the swap. An expiration that is published late costs a spare notice.
//!
//! *Tested by*: `loom-tests/tests/{bucket_arm,shard}.rs`, `tests/oracles/golden_trace.rs`.

mod agenda;
mod ahead;
mod bucket;
mod check;
mod close;
mod due;
mod flush;
mod open;
mod scan;
mod sweep;
mod swept;
mod trays;

pub(crate) use ahead::LOOK_OUT;
pub use bucket::Bucket;
pub use check::{Counted, Violation};
pub use flush::{BATCH, batch};
pub use open::Owner;
pub use scan::Pending;

use std::ptr::{self, NonNull};

use crate::doorbell::Doorbell;
use crate::entry::{Entry, Guard, read};
use crate::inbox::{Closed, Stack};
use crate::memory::Shared;
use crate::sync::{Arc, AtomicBool, AtomicU64, CachePadded, Mutex, Ordering};
use crate::time::{Geometry, Place, Tick};
use crate::wheel::Wheel;

use trays::Trays;

/// The highest level whose timers are filed for their own deadlines if they are few. A timer that
/// is further away passes the levels above it first: that happens rarely, and it does not hold a
/// bucket of level 1 for hours.
pub const NEAR: u8 = 3;

/// A wheel and everything around it that one reaper serves.
pub struct Shard<T> {
    index: u32,
    wheel: Wheel<Bucket<T>>,
    /// The time of the owner's last turn; never goes back.
    clock: CachePadded<AtomicU64>,
    /// Entries without a timer. Each tells in which bucket, and for when, another one was filed.
    notices: CachePadded<Stack<Entry<T>>>,
    doorbell: Arc<Doorbell>,
    /// Its index in its group: among the shards of the doorbell.
    group_index: usize,
    // What follows is on lines of its own, because all threads that file read what is above.
    is_sweep_asked: CachePadded<AtomicBool>,
    /// When the first bucket opens that the owner has not opened, as it was when the owner last let
    /// go of its lock. For those who look what is overdue.
    first: AtomicU64,
    /// What the owner took out of the buckets, visible to readers.
    trays: Trays<T>,
    // LOCK(OWNER): engine: turn.rs::succeed, turn.rs::hand_over, turn.rs::hand_over_rest,
    // server.rs::turn; stopper: ending.rs::stop, ending.rs::take_rest_of_batch,
    // engine/core.rs::dismantle; caller: driving.rs::turn_in, turn.rs::look_ahead,
    // virtual_time.rs::earliest_ns, virtual_time.rs::next_opening_ns; test: observe/mod.rs::check;
    // through: turn.rs::lock.
    owner: CachePadded<Mutex<Owner<T>>>,
}

// === impl Shard ===

impl<T> Shard<T> {
    /// Shard number `index`, empty, its clock at `now`. It is the first shard of its group.
    pub fn new(
        index: u32,
        geometry: Geometry,
        doorbell: impl Into<Arc<Doorbell>>,
        now: Tick,
        shared: &Shared<T>,
    ) -> Shard<T> {
        Shard {
            index,
            wheel: Wheel::new(geometry, |_, _| Bucket::default()),
            clock: CachePadded::new(AtomicU64::new(now.get())),
            notices: CachePadded::new(Stack::default()),
            doorbell: doorbell.into(),
            group_index: 0,
            is_sweep_asked: CachePadded::new(AtomicBool::new(false)),
            first: AtomicU64::new(Tick::NEVER.get()),
            trays: Trays::new(),
            owner: CachePadded::new(Mutex::new(Owner::new(index, shared))),
        }
    }

    /// The same with this index in its group.
    pub fn with_group_index(self, group_index: usize) -> Shard<T> {
        Shard { group_index, ..self }
    }

    /// Which shard of the engine it is.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The doorbell of the shard's reaper, which may serve other shards too.
    #[inline]
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// The wheel.
    pub fn wheel(&self) -> &Wheel<Bucket<T>> {
        &self.wheel
    }

    /// The owner's core, behind the lock that makes the owner unique.
    pub fn owner(&self) -> &Mutex<Owner<T>> {
        &self.owner
    }

    /// The guard of the thread that has the owner's lock, for walks over this shard: only the owner
    /// takes entries out of its lists and trays, and only under its lock the wheel is dismantled.
    fn guard<'g>(&self, owner: &'g Owner<T>) -> Guard<'g> {
        let (lock, owner) = (ptr::from_ref(&*self.owner).addr(), ptr::from_ref(owner).addr());
        let is_in_lock = owner >= lock && owner < lock + size_of::<Mutex<Owner<T>>>();
        assert!(is_in_lock, "it is the owner of another shard");
        // SAFETY: the owner is in the lock of this shard, so a thread that borrows it holds that.
        unsafe { Guard::assume() }
    }

    /// The time of the owner's last turn.
    #[inline]
    pub fn clock(&self) -> Tick {
        // ORDER(BUCKET-ARM): Relaxed - ordered by the push (or take) before it.
        Tick::new(self.clock.load(Ordering::Relaxed))
    }

    /// Where a producer files a timer for `deadline`, seen from the later of `now` and the shard's
    /// clock.
    #[inline]
    pub fn place(&self, shared: &Shared<T>, deadline: Tick, now: Tick) -> Place {
        self.place_from(shared, deadline, now.max(self.clock()), u8::MAX)
    }

    /// As [`Shard::place`], for an entry that leaves a bucket of `level`, seen from `from`. The
    /// bucket of its own tick is only for entries that come down: one that goes up was reset, and
    /// probably will be again.
    #[inline]
    fn place_from(&self, shared: &Shared<T>, deadline: Tick, from: Tick, level: u8) -> Place {
        let place = self.wheel.geometry().place(deadline, from);
        match place.level > 1 && place.level < level && shared.balance.has_few() {
            true => self.place_of_few(deadline, place),
            false => place,
        }
    }

    /// Among few timers, the bucket of level 1 that opens at `deadline`, however many rounds of the
    /// ring are in between; otherwise `place`. A timer that is alone in coarse buckets would wake
    /// the reaper for each level that it passes; so it wakes it once.
    ///
    /// A bucket of level 1 serves one far deadline at a time: so the far rounds on the agenda, and
    /// the notices for them, are no more than the slots, whatever is cancelled and scheduled.
    #[cold]
    fn place_of_few(&self, deadline: Tick, place: Place) -> Place {
        if place.level > NEAR {
            return place;
        }
        let exact = self.wheel.geometry().place_on(deadline, 1);
        let is_free = |bucket: &Bucket<T>| {
            bucket.is_armed_for(exact.expiration) || bucket.is_open_by(self.clock())
        };
        if self.wheel.bucket(exact).is_ok_and(is_free) { exact } else { place }
    }

    /// Files an entry that was made pending for `place`. Returns its bucket if the reaper is to be
    /// told of it: see [`Shard::announce`].
    ///
    /// # Errors
    /// The shard is closed; the entry is still the caller's.
    ///
    /// # Safety
    /// The caller holds the entry alone and made it pending for `place`. The shard is not
    /// dismantled, or the caller has been a reader since before it looked whether it is.
    #[inline]
    pub unsafe fn file(
        &self,
        entry: NonNull<Entry<T>>,
        place: Place,
        lane: usize,
    ) -> Result<Option<&Bucket<T>>, Closed> {
        let bucket = self.wheel.bucket(place).map_err(|_| Closed)?;
        // SAFETY: passed on to the caller.
        unsafe { bucket.lanes.push(entry, lane) }?;
        // Both are read after the push: see BUCKET-ARM in the header.
        if !(bucket.is_armed_for(place.expiration) && self.clock() < place.expiration) {
            return Ok(Some(bucket));
        }
        Ok(None)
    }

    /// Whether a notice waits to be read.
    #[inline]
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Asks the reaper to look for dead entries. May call a hook.
    pub fn ask_for_sweep(&self) {
        // ORDER(SWEEP): Release - pairs with the Acquire in `begin_sweep`: the sweep sees that the
        // entries let go before are dead. The swap lets only one asker ring.
        if !self.is_sweep_asked.swap(true, Ordering::Release) {
            self.doorbell.ask(self.group_index);
            self.doorbell.ring();
        }
    }

    /// Whether a requested sweep has not begun yet.
    #[inline]
    pub fn wants_sweep(&self) -> bool {
        // ORDER(SWEEP): Relaxed - a request seen late is served late; the ring wakes the reaper.
        self.is_sweep_asked.load(Ordering::Relaxed)
    }

    /// Whether to begin a sweep; takes the request for it. Entries that are let go from now on may
    /// lie where the sweep has already been, so a request during a sweep starts another one.
    #[inline]
    fn begin_sweep(&self, shared: &Shared<T>) -> bool {
        // ORDER(SWEEP): Acquire - pairs with the Release in `ask_for_sweep`.
        let is_asked = self.wants_sweep() && self.is_sweep_asked.swap(false, Ordering::Acquire);
        let begins = is_asked || shared.balance.is_littered(self.index);
        if begins {
            shared.balance.forget_unswept(self.index);
        }
        begins
    }

    /// Publishes what the owner has counted.
    pub fn publish_counts(&self, owner: &Owner<T>, shared: &Shared<T>) {
        shared.balance.publish_owner(&owner.counters, self.index);
    }

    /// Announces to the reaper that an entry was filed in `bucket`, at `place`: posts a notice,
    /// rings if needed, and only then publishes what the bucket is armed for. Returns `true` if the
    /// rest, which begins with a call of a hook, is left to the caller: see
    /// [`Shard::end_announcement`].
    ///
    /// The notice takes free memory of the caller's, which is the owner's once it has read it. So
    /// any number of threads announce what they have filed without waiting for each other.
    ///
    /// # Errors
    /// The shard was closed after the entry was filed. Who closes it finds the entry. The memory is
    /// still the caller's.
    ///
    /// # Safety
    /// The caller alone holds `notice`, which is free memory of the engine, and gives it up. For
    /// the rest as [`Shard::file`].
    pub unsafe fn announce(
        &self,
        bucket: &Bucket<T>,
        notice: NonNull<Entry<T>>,
        place: Place,
    ) -> Result<bool, Closed> {
        // SAFETY: the caller alone holds it.
        unsafe { notice.as_ref().announce(place) };
        // SAFETY: the caller alone holds it; it stays allocated until the owner has read it.
        unsafe { self.notices.push(notice) }?;
        self.doorbell.ask(self.group_index);
        if self.doorbell.ring_before(place.expiration) {
            return Ok(true);
        }
        bucket.arm(place.expiration);
        Ok(false)
    }

    /// Ends the announcement of an entry that was filed at `place`: calls the hook, and only then
    /// publishes what the bucket is armed for. Call it only where foreign code may run.
    pub fn end_announcement(&self, place: Place) {
        if !self.doorbell.call_hook(place.expiration) {
            // The hook is running further up the stack. Until it has returned, nobody may rely on
            // the bucket; a bucket that is not armed costs others a notice and a ring.
            return;
        }
        // The engine may have ended meanwhile, and the wheel with it.
        let _reader = read();
        if let Ok(bucket) = self.wheel.bucket(place) {
            bucket.arm(place.expiration);
        }
    }
}

/// Level and slot in one word, for readers of a tray.
fn bucket_number(level: u8, slot: u32) -> u64 {
    u64::from(level) << u32::BITS | u64::from(slot)
}

debug! { impl[T] Shard[T] { index = |this| this.index, clock = |this| this.clock() } }

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests;
