//! Cooperation: a future that is ready without a wait lets other tasks run now and then.
//!
//! A loop of waits that are over at once (of no time, until the past, for ticks that were missed)
//! would keep its thread for as long as it goes on, and starve the task that is to end it. So one
//! of many such polls returns `Pending`, with a wake. Inside tokio (feature `tokio`) that is the
//! task's own budget, which it shares with all else that the task does. Elsewhere, or where that
//! has no bound, it is so many polls in a row by one thread. (Whose they are cannot be told: each
//! future in a set of many has a waker of its own.) So a task pays now and then for others that ran
//! before it, with one more poll.
//!
//! A poll that is put off may be the last but one of its task: the limit of no time around it, or
//! the other branch of a `select`, is ready then. So some more are put off, until a future that was
//! is polled again.
//!
//! *Invariants*: what has waited, for a timer that has fired, is reported at once, whatever the
//! budget is. And nothing is put off twice: a task that spends its budget each time before it
//! polls a future still sees that future's end.
//!
//! *Owner*: the task that polls.
//!
//! *Tested by*: `tests/suite/future/coop.rs`.

use std::cell::Cell;
use std::mem;
use std::task::{Context, Poll};

/// Polls by one thread that may be ready in a row, without a wait.
const MOST: u32 = 128;

/// How many polls are put off then, if the task does not come anew before: of futures that would
/// otherwise be ready for the one that was put off, as a limit of no time around it.
const PUT_OFF: u32 = 4;

thread_local! {
    /// Polls of the thread that were ready, since one waited or came anew.
    static IN_A_ROW: Cell<u32> = const { Cell::new(0) };
}

/// To be called where a future is ready without a wait. `Pending`: it is to be so now, and its task
/// is woken at once. `is_put_off` is the future's, for this.
#[inline]
pub(super) fn poll_proceed(is_put_off: &mut bool, cx: &mut Context<'_>) -> Poll<()> {
    if mem::take(is_put_off) {
        has_waited();
        return Poll::Ready(());
    }
    let proceeds = poll_runtime(cx).is_ready() && poll_own(cx).is_ready();
    *is_put_off = !proceeds;
    if proceeds { Poll::Ready(()) } else { Poll::Pending }
}

/// A task has waited, or does: others have run.
#[inline]
pub(super) fn has_waited() {
    IN_A_ROW.set(0);
}

/// Spends some of the budget that tokio has given to the task.
#[cfg(feature = "tokio")]
fn poll_runtime(cx: &mut Context<'_>) -> Poll<()> {
    tokio::task::coop::poll_proceed(cx).map(|spent| spent.made_progress())
}

/// Whether the budget that tokio has given to the task ends within so many polls. Spends nothing,
/// and wakes the task if so.
#[cfg(feature = "tokio")]
fn is_bounded(cx: &mut Context<'_>, polls: u32) -> bool {
    match tokio::task::coop::poll_proceed(cx) {
        Poll::Pending => true,
        // What is dropped gives back what it has spent.
        Poll::Ready(_unspent) => polls > 0 && is_bounded(cx, polls - 1),
    }
}

#[cfg(not(feature = "tokio"))]
fn is_bounded(_: &mut Context<'_>, _: u32) -> bool {
    false
}

#[cfg(not(feature = "tokio"))]
fn poll_runtime(_: &mut Context<'_>) -> Poll<()> {
    Poll::Ready(())
}

fn poll_own(cx: &mut Context<'_>) -> Poll<()> {
    // A waker without data wakes nobody: who polls by hand would not learn that it has to again.
    if cx.waker().data().is_null() {
        return Poll::Ready(());
    }
    let in_a_row = IN_A_ROW.get() + 1;
    if in_a_row == MOST + 1 && is_bounded(cx, MOST) {
        // The runtime sees to it, and knows that the task has come anew.
        has_waited();
        return Poll::Ready(());
    }
    if in_a_row > MOST {
        IN_A_ROW.set(if in_a_row < MOST + PUT_OFF { in_a_row } else { 0 });
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    IN_A_ROW.set(in_a_row);
    Poll::Ready(())
}
