//! Wheels as tokio has them: one for each worker, six levels of 64 slots of doubly linked lists,
//! under a lock. A cancel takes the lock of the wheel in which the timer was made. Tokio's workers
//! each fire the timers of their own wheel (`fire own`); that reapers do is for the comparison
//! alone.

use std::ptr::NonNull;
use std::time::Duration;

use tickless_sync::{CachePadded, Mutex, UnsafeCell};

use super::node::{Handle, Link, Node};
use super::{Setup, Time, Timers, Wanted};

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 6;

pub(crate) struct Wheels {
    time: Time,
    /// For each wheel.
    wanted: Box<[Wanted]>,
    setup: Setup,
    shards: Box<[CachePadded<Mutex<Box<Wheel>>>]>,
}

struct Wheel {
    elapsed: UnsafeCell<u64>,
    levels: [Level; LEVELS],
}

struct Level {
    /// A bit for each slot that is not empty.
    occupied: UnsafeCell<u64>,
    slots: [UnsafeCell<Link>; SLOTS],
}

// SAFETY: the nodes are touched under the lock that the wheel lies in.
unsafe impl Send for Wheel {}

impl Timers for Wheels {
    type Handle = Handle;

    fn new(setup: Setup) -> Wheels {
        let shard = |_| CachePadded::new(Mutex::new(Box::new(Wheel::new())));
        Wheels {
            time: Time::new(setup),
            wanted: (0..setup.workers).map(|_| Wanted::new(setup)).collect(),
            setup,
            shards: (0..setup.workers).map(shard).collect(),
        }
    }

    fn begin(&self, _worker: usize) {}

    fn schedule(&self, worker: usize, delay: Duration) -> Handle {
        Handle { node: self.file(worker, delay, false), shard: worker }
    }

    fn schedule_detached(&self, worker: usize, delay: Duration) {
        self.file(worker, delay, true);
    }

    fn cancel(&self, Handle { node, shard }: Handle) {
        let wheel = self.shards[shard].lock().expect("nothing panics under this lock");
        wheel.remove(node);
        drop(wheel);
        // SAFETY: it is out of the wheel.
        unsafe { Node::free(node) };
    }

    fn reset(&self, handle: &mut Handle, delay: Duration) {
        let deadline = self.time.deadline(delay);
        let wheel = self.shards[handle.shard].lock().expect("nothing panics under this lock");
        wheel.remove(handle.node);
        wheel.insert(handle.node, deadline);
        drop(wheel);
        self.wanted[handle.shard].at(deadline);
    }

    fn turn(&self, part: usize) -> usize {
        let parts = match self.setup.own_turns {
            true => part..part + 1,
            false => part..self.setup.workers,
        };
        parts.step_by(self.setup.reapers.max(1)).map(|shard| self.turn_of(shard)).sum()
    }

    fn advance(&self, by: Duration) {
        self.time.advance(by);
    }
}

impl Wheels {
    fn turn_of(&self, shard: usize) -> usize {
        let now = self.time.now();
        if !self.wanted[shard].is_due(now) {
            return 0;
        }
        let wheel = self.shards[shard].lock().expect("nothing panics under this lock");
        let fired = wheel.advance(now);
        let next = wheel.next();
        drop(wheel);
        next.inspect(|next| self.wanted[shard].at(next.2));
        fired
    }

    fn file(&self, worker: usize, delay: Duration, is_detached: bool) -> NonNull<Node> {
        let deadline = self.time.deadline(delay);
        let node = Node::allocate(deadline, is_detached);
        let wheel = self.shards[worker].lock().expect("nothing panics under this lock");
        wheel.insert(node, deadline);
        drop(wheel);
        self.wanted[worker].at(deadline);
        node
    }
}

/// Reads a cell whose lock is held.
macro_rules! get {
    ($cell:expr) => {
        // SAFETY: the wheel is locked.
        $cell.with(|cell| unsafe { *cell })
    };
}

/// Writes a cell whose lock is held.
macro_rules! set {
    ($cell:expr, $value:expr) => {{
        let value = $value;
        // SAFETY: the wheel is locked.
        $cell.with_mut(|cell| unsafe { *cell = value });
    }};
}

impl Wheel {
    fn new() -> Wheel {
        let level = || Level {
            occupied: UnsafeCell::new(0),
            slots: std::array::from_fn(|_| UnsafeCell::new(None)),
        };
        Wheel { elapsed: UnsafeCell::new(0), levels: std::array::from_fn(|_| level()) }
    }

    fn insert(&self, node: NonNull<Node>, deadline: u64) {
        let elapsed = get!(self.elapsed);
        let differs = (elapsed ^ deadline.max(elapsed)) | (SLOTS as u64 - 1);
        let level = (differs.ilog2() / SLOT_BITS).min(LEVELS as u32 - 1);
        let slot = (deadline.max(elapsed) >> (level * SLOT_BITS)) as usize % SLOTS;
        let at = &self.levels[level as usize];
        let first = get!(at.slots[slot]);
        // SAFETY: the node is the caller's, and those in the slot are there.
        unsafe { node.as_ref() }.change(|filed| {
            filed.deadline = deadline;
            filed.place = level as usize * SLOTS + slot;
            (filed.before, filed.after) = (None, first);
        });
        if let Some(first) = first {
            // SAFETY: as above.
            unsafe { first.as_ref() }.change(|filed| filed.before = Some(node));
        }
        set!(at.slots[slot], Some(node));
        set!(at.occupied, get!(at.occupied) | 1 << slot);
    }

    fn remove(&self, node: NonNull<Node>) {
        // SAFETY: it is in the wheel, as its neighbours are.
        let filed = unsafe { node.as_ref() }.look();
        let (level, slot) = (&self.levels[filed.place / SLOTS], filed.place % SLOTS);
        match filed.before {
            // SAFETY: as above.
            Some(before) => unsafe { before.as_ref() }.change(|it| it.after = filed.after),
            None => {
                set!(level.slots[slot], filed.after);
                if filed.after.is_none() {
                    set!(level.occupied, get!(level.occupied) & !(1 << slot));
                }
            }
        }
        if let Some(after) = filed.after {
            // SAFETY: as above.
            unsafe { after.as_ref() }.change(|it| it.before = filed.before);
        }
    }

    /// Fires all that is due up to `now`; returns how many.
    fn advance(&self, now: u64) -> usize {
        let mut fired = 0;
        while let Some((level, slot, begins)) = self.next().filter(|next| next.2 <= now) {
            let at = &self.levels[level];
            let mut next = get!(at.slots[slot]);
            set!(at.slots[slot], None);
            set!(at.occupied, get!(at.occupied) & !(1 << slot));
            set!(self.elapsed, begins.max(get!(self.elapsed)));
            while let Some(node) = next {
                // SAFETY: it was in the wheel.
                let filed = unsafe { node.as_ref() }.look();
                next = filed.after;
                if filed.deadline > begins {
                    self.insert(node, filed.deadline);
                    continue;
                }
                // SAFETY: it is out of the wheel.
                unsafe { Node::fire(node) };
                fired += 1;
            }
        }
        set!(self.elapsed, now.max(get!(self.elapsed)));
        fired
    }

    /// The next slot with timers, and the tick at which it begins.
    fn next(&self) -> Option<(usize, usize, u64)> {
        let elapsed = get!(self.elapsed);
        let nearest = |(number, level): (usize, &Level)| {
            let occupied = get!(level.occupied);
            let shift = number as u32 * SLOT_BITS;
            let here = (elapsed >> shift) as usize % SLOTS;
            let ahead = occupied.rotate_right(here as u32).trailing_zeros() as usize;
            let slot = (here + ahead) % SLOTS;
            let round = elapsed >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
            let lap = if slot < here { 1 << (shift + SLOT_BITS) } else { 0 };
            (occupied != 0).then(|| (number, slot, round + ((slot as u64) << shift) + lap))
        };
        self.levels.iter().enumerate().find_map(nearest)
    }
}
