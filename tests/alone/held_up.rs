//! Held up: a thread that stands still inside a cancel, wherever that calls the allocator, holds up
//! no timer.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use support::patience::PATIENCE;
use tickless::{Engine, ManualClock};

#[global_allocator]
static HOLDING: Holding = Holding;

/// More seats than caches and depots take, and than may be dead before a sweep begins.
const MANY: u32 = 6_000;

const MS: Duration = Duration::from_millis(1);

/// An allocator in whose calls a thread stands still if it asked for that.
struct Holding;

thread_local! {
    /// The thread stands still in this call of the allocator from now on; zero: in none.
    static NTH: Cell<u64> = const { Cell::new(0) };
}

/// Where the thread is that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Before,
    Still,
    Over,
}

static STAND: Mutex<Stand> = Mutex::new(Stand::Before);
static CHANGED: Condvar = Condvar::new();

// SAFETY: it is the system's; what it does besides allocates nothing.
unsafe impl GlobalAlloc for Holding {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let nth = NTH.try_with(|nth| nth.replace(nth.get().saturating_sub(1)));
        if nth == Ok(1) {
            change(Stand::Still);
            await_stand(|stand| stand == Stand::Over);
        }
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(at, layout) };
    }
}

fn change(stand: Stand) {
    *STAND.lock().unwrap() = stand;
    CHANGED.notify_all();
}

fn await_stand(is_it: impl Fn(Stand) -> bool) -> Stand {
    let stand = STAND.lock().unwrap();
    *CHANGED.wait_while(stand, |stand| !is_it(*stand)).unwrap()
}

/// A thread cancels many timers and stands still in its `nth` call of the allocator. Meanwhile
/// another timer fires. Returns `false` if there are fewer such calls.
fn fires_beside_a_canceller_that_stands_still(nth: u64) -> bool {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let far = |n: u32| engine.schedule(64 * 3_600_000 * MS + n * 37 * MS, || ()).unwrap();
    let timers: Vec<_> = (0..MANY).map(far).collect();
    change(Stand::Before);
    let canceller = thread::spawn(move || {
        NTH.set(nth);
        timers.into_iter().for_each(|timer| assert!(timer.cancel()));
        let is_over = NTH.replace(0) > 0;
        change(Stand::Over);
        !is_over
    });
    let stand = await_stand(|stand| stand != Stand::Before);
    if stand == Stand::Still {
        engine.schedule_detached(MS, || ()).unwrap();
        clock.advance(MS);
        let (tell, fired) = mpsc::channel();
        let turner = engine.clone();
        thread::spawn(move || tell.send(turner.turn(0).unwrap().fired).unwrap());
        let fired = fired.recv_timeout(PATIENCE);
        assert_eq!(fired, Ok(1), "held up by call {nth} of the allocator in a cancel");
        change(Stand::Over);
    }
    let stood_still = canceller.join().unwrap();
    assert_eq!(stood_still, stand == Stand::Still);
    assert_eq!(engine.stop().unwrap().len(), 0);
    engine.check().unwrap();
    stood_still
}

#[test]
fn a_timer_fires_while_a_canceller_stands_still_wherever_it_calls_the_allocator() {
    let calls = (1..).take_while(|&nth| fires_beside_a_canceller_that_stands_still(nth)).count();
    assert!(calls > 10, "it stood still {calls} times");
}
