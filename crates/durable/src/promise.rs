//! What a caller waits for: a result that another thread has later.
//!
//! *Owner*: the writer keeps a promise, once; the caller waits for it, by a thread or a task.
//!
//! *Tested by*: here, and `tests/durable/service.rs`.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::foreign;
use crate::position::TimerId;

/// Who has changes wait for others to be written with.
pub(crate) trait Hurry: Send + Sync {
    /// Somebody waits for this new timer, or for something else.
    fn hurry(&self, number: Option<u64>);
}

/// The end that is kept. If it is dropped unkept, the service was stopped.
pub(crate) struct Promise<T>(Arc<Shared<T>>);

/// A change on its way to the disk: [`wait`](Reply::wait) for it, or `.await` it.
///
/// Dropping it changes nothing: the change takes place all the same. Waiting makes it take place
/// sooner: a change that nobody waits for lingers for a while.
#[must_use = "the change may fail, and nobody would know"]
pub struct Reply<T> {
    shared: Arc<Shared<T>>,
    /// Who is to hurry if somebody waits, and the new timer that this is about.
    writer: Option<Weak<dyn Hurry>>,
    number: Option<u64>,
}

/// A timer on its way to the disk: [`wait`](Ticket::wait) until it is durable, or `.await` that.
///
/// Dropping it changes nothing. As with every [`Reply`], waiting makes the timer durable sooner.
#[must_use = "until it is ready, the timer may be lost in a crash"]
pub struct Ticket {
    id: TimerId,
    reply: Reply<()>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    kept: Condvar,
}

struct State<T> {
    value: Option<Result<T, Error>>,
    waker: Option<Waker>,
}

/// Makes both ends.
pub(crate) fn promise<T, W: Hurry + 'static>(writer: &Arc<W>) -> (Promise<T>, Reply<T>) {
    let writer: Weak<W> = Arc::downgrade(writer);
    promise_by(Some(writer))
}

/// Makes both ends, for somebody who hurries anyway.
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) fn promise_alone<T>() -> (Promise<T>, Reply<T>) {
    promise_by(None)
}

fn promise_by<T>(writer: Option<Weak<dyn Hurry>>) -> (Promise<T>, Reply<T>) {
    let state = Mutex::new(State { value: None, waker: None });
    let shared = Arc::new(Shared { state, kept: Condvar::new() });
    (Promise(shared.clone()), Reply { shared, writer, number: None })
}

// === impl Promise ===

impl<T> Promise<T> {
    pub(crate) fn keep(self, value: Result<T, Error>) {
        self.0.keep(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.0.keep(Err(Error::Stopped));
    }
}

impl<T> Shared<T> {
    fn keep(&self, value: Result<T, Error>) {
        let waker = {
            let mut state = self.state();
            if state.value.is_some() {
                return;
            }
            state.value = Some(value);
            state.waker.take()
        };
        self.kept.notify_all();
        if let Some(waker) = waker {
            // One that panics would take the writer along, and all whose promises it has.
            let _ = foreign::call(|| waker.wake());
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Reply ===

impl<T: Clone> Reply<T> {
    /// Waits until the change is durable.
    ///
    /// # Errors
    /// It is not, and why.
    pub fn wait(&self) -> Result<T, Error> {
        self.hurry();
        let state = self.shared.state();
        let waited = self.shared.kept.wait_while(state, |state| state.value.is_none());
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        state.value.clone().expect("it was waited for")
    }

    /// The result, if it is there. This does not hurry the writer.
    pub fn try_get(&self) -> Option<Result<T, Error>> {
        self.shared.state().value.clone()
    }

    /// It is about this new timer.
    pub(crate) fn about(self, id: TimerId) -> Reply<T> {
        Reply { number: Some(id.first_position().number), ..self }
    }

    fn hurry(&self) {
        if self.shared.state().value.is_none()
            && let Some(writer) = self.writer.as_ref().and_then(Weak::upgrade)
        {
            writer.hurry(self.number);
        }
    }
}

impl<T: Clone> Future for Reply<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A waker is foreign code: it is neither made nor dropped under the lock.
        let waker = context.waker().clone();
        let before = {
            let mut state = self.shared.state();
            if let Some(value) = &state.value {
                return Poll::Ready(value.clone());
            }
            state.waker.replace(waker)
        };
        if before.is_none() {
            self.hurry();
        }
        Poll::Pending
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_ready = self.shared.state().value.is_some();
        f.debug_struct("Reply").field("is_ready", &is_ready).finish_non_exhaustive()
    }
}

// === impl Ticket ===

impl Ticket {
    pub(crate) fn new(id: TimerId, reply: Reply<()>) -> Ticket {
        Ticket { id, reply: reply.about(id) }
    }

    /// The timer's number, by which it can be cancelled, also after a restart.
    pub fn id(&self) -> TimerId {
        self.id
    }

    /// Waits until the timer is durable.
    ///
    /// # Errors
    /// It is not, and why.
    pub fn wait(&self) -> Result<TimerId, Error> {
        self.reply.wait().map(|()| self.id)
    }

    /// Whether the timer is durable, if that is decided. This does not hurry the writer.
    pub fn try_get(&self) -> Option<Result<TimerId, Error>> {
        self.reply.try_get().map(|result| result.map(|()| self.id))
    }
}

impl Future for Ticket {
    type Output = Result<TimerId, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id;
        Pin::new(&mut self.reply).poll(context).map_ok(|()| id)
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).field("reply", &self.reply).finish()
    }
}
