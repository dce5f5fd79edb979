//! What the wheels ask of the allocator, to the byte.
//!
//! As a table, with a million timers: `TICKLESS_TEST_SCALE=5 cargo nextest run --release
//! -p tickless-wheel --test memory --no-capture`. Payloads have 8 bytes; deadlines are uniform
//! over so many ticks, in an order fixed by a seed. The timers go one by one into an empty wheel,
//! which then gives back what it has reserved beyond them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;

use support::random::Random;
use support::scaled;
use tickless_wheel::{Geometry, HashedWheel, Tick, TimingWheel, Wheel};

/// The system's allocator, which counts what each thread does. (The test harness has a thread of
/// its own, which allocates as it likes.)
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static MADE_HERE: Cell<u64> = const { Cell::new(0) };
    static BYTES_HERE: Cell<i64> = const { Cell::new(0) };
}

/// How many blocks the calling thread has allocated.
fn made_here() -> u64 {
    MADE_HERE.get()
}

/// How many bytes the calling thread has allocated, less those that it has freed.
fn bytes_here() -> i64 {
    BYTES_HERE.get()
}

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// As the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MADE_HERE.set(MADE_HERE.get() + 1);
        BYTES_HERE.set(BYTES_HERE.get() + layout.size() as i64);
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As the trait says.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES_HERE.set(BYTES_HERE.get() - layout.size() as i64);
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(block, layout) };
    }
}

const BLOCK: usize = 32;

/// A block's timers, each with a deadline, a key and the payload, and the list that it is in.
const BLOCK_BYTES: usize = BLOCK * (8 + 8 + 8) + 12;

/// What finds a timer by its key, and where the key will go when it has left.
const KEY_BYTES: usize = 4 + 8;

fn deadlines(count: u64, span_ticks: u64) -> Vec<Tick> {
    let mut random = Random::new(count ^ span_ticks);
    (0..count).map(|_| Tick::new(1 + random.below(span_ticks))).collect()
}

/// What `wheel` asks of the allocator for timers with these deadlines.
fn weigh<W: TimingWheel<u64>>(mut wheel: W, deadlines: &[Tick], shrink: fn(&mut W)) -> usize {
    let before = bytes_here();
    for at in deadlines {
        wheel.insert(*at, at.get());
    }
    shrink(&mut wheel);
    let bytes = bytes_here() - before;
    drop(wheel);
    assert_eq!(bytes_here(), before, "all of it is given back");
    bytes as usize
}

/// What it should be where `bucket` says in which bucket each timer lies.
fn reckon<B: Eq + std::hash::Hash>(deadlines: &[Tick], bucket: impl Fn(Tick) -> B) -> usize {
    let mut filed: HashMap<B, usize> = HashMap::new();
    for at in deadlines {
        *filed.entry(bucket(*at)).or_default() += 1;
    }
    let blocks: usize = filed.values().map(|count| count.div_ceil(BLOCK)).sum();
    deadlines.len() * KEY_BYTES + blocks * BLOCK_BYTES
}

fn tell(name: &str, deadlines: &[Tick], span_ticks: u64, bytes: usize) {
    let count = deadlines.len();
    let each = bytes as f64 / count as f64;
    println!("{name:14} {span_ticks:9} ticks {count:9} timers {each:8.1} bytes per timer");
}

fn hierarchical(deadlines: &[Tick], span_ticks: u64) {
    let wheel = Wheel::default();
    let geometry: Geometry = wheel.geometry();
    let place = |at| geometry.place(at, Tick::ZERO);
    let levels = deadlines.iter().map(|at| place(*at).level).max().unwrap();
    let buckets = 64 + usize::from(levels) * geometry.slots() as usize;
    let least = reckon(deadlines, |at| (place(at).level, place(at).slot)) + buckets * 4;
    let bytes = weigh(wheel, deadlines, Wheel::shrink_to_fit);
    // The table of buckets was made level by level, with room for more; and which of them are not
    // empty takes some bits for each.
    assert!((least..least + buckets * 5 + 128).contains(&bytes), "{bytes} for {least}");
    tell("Wheel", deadlines, span_ticks, bytes);
}

fn hashed(slots: u32, deadlines: &[Tick], span_ticks: u64) {
    let wheel = HashedWheel::new(slots).unwrap();
    let lists = slots as usize + 2;
    let expected = reckon(deadlines, |at| at.get() % u64::from(slots)) + lists * 4;
    let bytes = weigh(wheel, deadlines, HashedWheel::shrink_to_fit);
    assert_eq!(bytes, expected);
    tell(&format!("Hashed {slots}"), deadlines, span_ticks, bytes);
}

#[test]
fn a_wheel_takes_its_blocks_its_keys_and_its_buckets_and_nothing_else() {
    for span_ticks in [512, 1 << 21] {
        for count in [1_000, 100_000, scaled(200_000)] {
            let deadlines = deadlines(count, span_ticks);
            hierarchical(&deadlines, span_ticks);
            hashed(512, &deadlines, span_ticks);
            hashed(65_536, &deadlines, span_ticks);
        }
    }
}

/// At every tick ten timers come, one of them is put off, one cancelled that came long before, and
/// the others of those days fire.
fn live_on(mut wheel: impl TimingWheel<u64>) {
    const STAY_TICKS: u64 = 300;
    const BEFORE: u64 = 1_500;
    let steps = BEFORE + scaled(1_500);
    let mut keys = Vec::with_capacity(steps as usize);
    let mut made = 0;
    for step in 1..steps {
        if step == BEFORE {
            made = made_here();
        }
        let now = Tick::new(step);
        wheel.advance(now, |_, _, _| {});
        let ten = [(); 10].map(|()| wheel.insert(now.saturating_add(STAY_TICKS), step));
        keys.push(ten);
        if let Some(before) = keys.len().checked_sub(100) {
            assert!(wheel.reset(keys[before][0], now.saturating_add(STAY_TICKS)));
            assert!(wheel.cancel(keys[before][1]).is_some());
        }
    }
    assert!(made > 0, "the allocator that counts is in use");
    assert_eq!(made_here(), made);
}

#[test]
fn as_many_timers_as_there_were_before_need_no_more_memory() {
    live_on(Wheel::default());
    live_on(HashedWheel::default());
}

/// Timers that lie in few buckets come down to buckets of their own, which need more blocks.
#[test]
fn an_advance_asks_the_allocator_for_nothing() {
    for count in [1, 3, 40, 300, scaled(100_000)] {
        let mut wheel = Wheel::default();
        let mut random = Random::new(count);
        for number in 0..count {
            wheel.insert(Tick::new((2 << 24) + random.below(1 << 24)), number);
        }
        let (made, mut fired) = (made_here(), 0);
        while let Some(next) = wheel.next_expiration() {
            fired += wheel.advance_within(next, 50, |_, _, _| {});
        }
        assert_eq!((fired as u64, made_here() - made), (count, 0), "{count} timers");
    }
}

#[test]
fn a_wheel_that_has_room_for_so_many_timers_takes_hardly_more_for_them() {
    let count = scaled(100_000);
    let before = bytes_here();
    let mut wheel = Wheel::with_capacity(Wheel::<u64>::default().geometry(), count as usize);
    let reserved = bytes_here() - before;
    for at in deadlines(count, 1 << 24) {
        wheel.insert(at, at.get());
    }
    let taken = bytes_here() - before;
    // Buckets of a third level, each with a block that is not full, and the tables.
    let of_level = (256 * BLOCK * 24) as i64;
    assert!(taken < reserved + of_level + reserved / 8, "{taken} bytes, {reserved} at first");
}
