//! Calls that happen in the middle of another thread's call: a race of two threads, in an order
//! that is chosen and comes again in each run.
//!
//! A build with `--cfg coherence` tells of each access to shared memory before it happens. A thread
//! can arrange that it stands still at the n-th access of its own from now on, while another thread
//! makes a whole call. With each n in turn, a call meets the other one in each moment in which that
//! makes a difference. It also shows that no such call waits for a thread that stands still.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tickless::sync::coherence::{self, Observer};

/// More accesses than any call makes.
pub(super) const MOST: usize = 100_000;

/// After this time the other thread's call waits for the one that stands still.
const PATIENCE: Duration = Duration::from_secs(60);

struct Arranged {
    /// How many accesses come before.
    left: usize,
    call: Box<dyn FnOnce() + Send>,
}

thread_local! {
    static ARRANGED: RefCell<Option<Arranged>> = const { RefCell::new(None) };
}

struct Stop;

impl Observer for Stop {
    fn access(&self, _: usize, _: usize, _: bool, site: &'static Location<'static>) {
        // None in the destructors of the thread.
        let due = ARRANGED.try_with(|arranged| {
            arranged.borrow_mut().take_if(|it| {
                let is_due = it.left == 0;
                it.left = it.left.saturating_sub(1);
                is_due
            })
        });
        if let Ok(Some(due)) = due {
            run_elsewhere(due.call, site);
        }
    }

    fn wait(&self, _: usize) -> bool {
        false
    }

    fn release(&self, _: usize) {}

    fn spin(&self) {}
}

fn run_elsewhere(call: Box<dyn FnOnce() + Send>, site: &'static Location<'static>) {
    let (done, is_done) = mpsc::channel();
    let other = thread::spawn(move || {
        call();
        let _ = done.send(());
    });
    if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        panic!("a call waits for a thread that stands still at {site}");
    }
    other.join().expect("the call of another thread panicked");
}

/// From now on, threads stand still where they have arranged it.
pub(super) fn begin() {
    coherence::observe(&Stop);
}

/// At this thread's next access but `n`, `call` runs on another thread while this one stands still.
pub(super) fn arrange(n: usize, call: impl FnOnce() + Send + 'static) {
    ARRANGED.set(Some(Arranged { left: n, call: Box::new(call) }));
}

/// Takes the arrangement back; returns whether it was still to come.
pub(super) fn take_back() -> bool {
    ARRANGED.take().is_some()
}
