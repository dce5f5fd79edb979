//! A waker that fires a token and allocates nothing: how futures tell that they are due.

use std::pin::Pin;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use crate::sink;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, drop);

/// The waker of a timer with that token.
#[inline]
pub(crate) fn waker(token: u64) -> Waker {
    // SAFETY: the data is a number, not a pointer, and the functions keep to the contract: they
    // may be called from any thread, any number of times.
    unsafe { Waker::from_raw(raw(std::ptr::without_provenance(token as usize))) }
}

/// Polls `future` for the first time. If it is due already, its token fires here.
#[inline]
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>, token: u64) {
    let waker = waker(token);
    if future.poll(&mut Context::from_waker(&waker)).is_ready() {
        sink::fire_at_once(token);
    }
}

fn raw(data: *const ()) -> RawWaker {
    RawWaker::new(data, &VTABLE)
}

fn clone(data: *const ()) -> RawWaker {
    raw(data)
}

fn wake(data: *const ()) {
    sink::fire(data.addr() as u64);
}

fn drop(_: *const ()) {}
