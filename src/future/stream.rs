//! Streams in time: a limit for each item, a pause after each, chunks that do not wait for long.
//! They do what those of `tokio-stream` of the same names do, on our engines.
//!
//! *Owner*: the task that polls.
//!
//! *Invariant*: a stream that has ended is not polled again.
//!
//! *Tested by*: `tests/suite/future/stream.rs`.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::stream::{FusedStream, Stream};

use crate::engine::Engine;

use super::{Elapsed, Sleep, sleep};

/// Adds methods to all streams that give them a pace.
///
/// ```
/// use std::time::Duration;
/// use futures_util::{StreamExt as _, stream};
/// use tickless::future::StreamExt;
///
/// # pollster::block_on(async {
/// let numbers = stream::iter(0..3).chain(stream::pending());
/// let mut limited = numbers.timeout(Duration::from_millis(5));
/// assert_eq!(limited.next().await, Some(Ok(0)));
/// assert_eq!(limited.by_ref().skip(2).next().await.map(|item| item.is_err()), Some(true));
///
/// let few = stream::iter(0..5).chunks_timeout(3, Duration::from_secs(60));
/// assert_eq!(few.collect::<Vec<_>>().await, [vec![0, 1, 2], vec![3, 4]]);
///
/// let mut paced = stream::repeat('x').throttle(Duration::from_millis(2));
/// assert_eq!((paced.next().await, paced.next().await), (Some('x'), Some('x')));
/// # });
/// ```
pub trait StreamExt: Stream + Sized {
    /// Limits the time until each item to `delay`, on the [ambient engine](Engine::enter). If none
    /// comes in that time, one error comes in its place, and the wait for the item goes on without
    /// a limit.
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    fn timeout(self, delay: Duration) -> Paced<Self, Limit> {
        Paced { stream: self, pace: Limit::new(sleep(delay), delay) }
    }

    /// As [`timeout`](StreamExt::timeout), on `engine`.
    fn timeout_on(self, engine: &Engine, delay: Duration) -> Paced<Self, Limit> {
        Paced { stream: self, pace: Limit::new(engine.sleep(delay), delay) }
    }

    /// Waits for `pause` after each item before it asks for the next, on the [ambient
    /// engine](Engine::enter). Ends with its engine.
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    fn throttle(self, pause: Duration) -> Paced<Self, Throttle> {
        Paced { stream: self, pace: Throttle { sleep: sleep(pause), pause, pauses: false } }
    }

    /// As [`throttle`](StreamExt::throttle), on `engine`.
    fn throttle_on(self, engine: &Engine, pause: Duration) -> Paced<Self, Throttle> {
        Paced { stream: self, pace: Throttle { sleep: engine.sleep(pause), pause, pauses: false } }
    }

    /// Collects items into chunks of `most`, or of fewer if `delay` has passed since the first of
    /// them came, on the [ambient engine](Engine::enter). When the stream ends, or the engine does,
    /// what was collected comes out at once.
    ///
    /// # Panics
    /// `most` is zero. Or as [`Engine::global`] does, if this is its first use.
    #[track_caller]
    fn chunks_timeout(self, most: usize, delay: Duration) -> Paced<Self, Chunks<Self::Item>> {
        Paced { stream: self, pace: Chunks::new(sleep(delay), most, delay) }
    }

    /// As [`chunks_timeout`](StreamExt::chunks_timeout), on `engine`.
    ///
    /// # Panics
    /// `most` is zero.
    #[track_caller]
    fn chunks_timeout_on(
        self,
        engine: &Engine,
        most: usize,
        delay: Duration,
    ) -> Paced<Self, Chunks<Self::Item>> {
        Paced { stream: self, pace: Chunks::new(engine.sleep(delay), most, delay) }
    }
}

/// A stream with a pace: a [`Limit`] for each item, a [`Throttle`], or [`Chunks`]. Created by
/// [`StreamExt`].
///
/// It is cancel safe if the inner stream is, and keeps no engine alive.
#[derive(Debug)]
#[must_use = "streams do nothing unless they are polled"]
pub struct Paced<S, P> {
    /// Pinned with this; see `poll_next`.
    stream: S,
    pace: P,
}

/// Yields each item, or an [`Elapsed`] in its place that comes once: see [`StreamExt::timeout`].
#[derive(Debug)]
pub struct Limit {
    sleep: Sleep,
    delay: Duration,
    /// The item that is awaited has a limit: none has passed for it.
    is_limited: bool,
    is_over: bool,
}

/// Yields each item after a pause: see [`StreamExt::throttle`].
#[derive(Debug)]
pub struct Throttle {
    sleep: Sleep,
    pause: Duration,
    /// An item has come, and the pause after it is not known to be over.
    pauses: bool,
}

/// Yields items in chunks: see [`StreamExt::chunks_timeout`].
#[derive(Debug)]
pub struct Chunks<T> {
    sleep: Sleep,
    delay: Duration,
    most: usize,
    items: Vec<T>,
    is_over: bool,
}

/// How a stream is polled in time.
#[doc(hidden)]
pub trait Pace<S: Stream>: sealed::Sealed {
    type Item;

    fn poll_next(&mut self, stream: Pin<&mut S>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>>;

    /// How many items come, if so many come out of the stream.
    fn size_hint(&self, inner: (usize, Option<usize>)) -> (usize, Option<usize>);
}

mod sealed {
    pub trait Sealed {}
}

impl<S: Stream> StreamExt for S {}

// === impl Paced ===

impl<S, P> Paced<S, P> {
    /// Returns a reference to the inner stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the inner stream.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the inner stream, and cancels the timer. Items of an unfinished chunk are dropped.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S, T> Paced<S, Chunks<T>> {
    /// Takes the items out that are in no chunk yet.
    pub fn take_unfinished(self: Pin<&mut Self>) -> Vec<T> {
        // SAFETY: the stream is not moved.
        mem::take(unsafe { &mut self.get_unchecked_mut().pace.items })
    }
}

impl<S: Stream, P: Pace<S>> Stream for Paced<S, P> {
    type Item = P::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<P::Item>> {
        // SAFETY: `stream` is not moved here. It is pinned with this: nothing moves it out of a
        // pinned one, there is no `Drop`, nothing is packed, and this is `Unpin` only if `stream`
        // is. `pace` is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is pinned with this, as was said.
        let stream = unsafe { Pin::new_unchecked(&mut this.stream) };
        this.pace.poll_next(stream, cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pace.size_hint(self.stream.size_hint())
    }
}

impl<S: FusedStream> FusedStream for Paced<S, Throttle> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}

impl<S: Stream> FusedStream for Paced<S, Limit> {
    fn is_terminated(&self) -> bool {
        self.pace.is_over
    }
}

impl<S: Stream> FusedStream for Paced<S, Chunks<S::Item>> {
    fn is_terminated(&self) -> bool {
        self.pace.is_over && self.pace.items.is_empty()
    }
}

// === impl Limit ===

impl Limit {
    fn new(sleep: Sleep, delay: Duration) -> Limit {
        Limit { sleep, delay, is_limited: true, is_over: false }
    }
}

impl sealed::Sealed for Limit {}

impl<S: Stream> Pace<S> for Limit {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(&mut self, stream: Pin<&mut S>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(item) = stream.poll_next(cx) {
            match item {
                Some(_) => self.sleep.reset(self.delay),
                None => self.sleep.cancel(),
            }
            (self.is_limited, self.is_over) = (true, item.is_none());
            return Poll::Ready(item.map(Ok));
        }
        if !self.is_limited {
            return Poll::Pending;
        }
        let ended = ready!(self.sleep.poll_elapsed(cx));
        self.is_limited = false;
        Poll::Ready(Some(Err(Elapsed::of(ended))))
    }

    fn size_hint(&self, (least, most): (usize, Option<usize>)) -> (usize, Option<usize>) {
        // An error before and after each item.
        let with_errors = |most: usize| most.checked_mul(2)?.checked_add(1);
        if self.is_over { (0, Some(0)) } else { (least, most.and_then(with_errors)) }
    }
}

// === impl Throttle ===

impl sealed::Sealed for Throttle {}

impl<S: Stream> Pace<S> for Throttle {
    type Item = S::Item;

    fn poll_next(&mut self, stream: Pin<&mut S>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        if self.pauses {
            if ready!(self.sleep.poll_elapsed(cx)).is_err() {
                return Poll::Ready(None);
            }
            self.pauses = false;
        }
        let item = ready!(stream.poll_next(cx));
        if item.is_some() && !self.pause.is_zero() {
            self.sleep.reset(self.pause);
            self.pauses = true;
        }
        Poll::Ready(item)
    }

    fn size_hint(&self, (_, most): (usize, Option<usize>)) -> (usize, Option<usize>) {
        // It may end with the engine.
        (0, most)
    }
}

// === impl Chunks ===

impl<T> Chunks<T> {
    #[track_caller]
    fn new(sleep: Sleep, most: usize, delay: Duration) -> Chunks<T> {
        assert!(most > 0, "a chunk has room for an item");
        Chunks { sleep, delay, most, items: Vec::new(), is_over: false }
    }

    /// What was collected is the chunk.
    fn finish(&mut self) -> Vec<T> {
        self.sleep.cancel();
        mem::take(&mut self.items)
    }
}

impl<T> sealed::Sealed for Chunks<T> {}

impl<S: Stream> Pace<S> for Chunks<S::Item> {
    type Item = Vec<S::Item>;

    fn poll_next(
        &mut self,
        mut stream: Pin<&mut S>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        while !self.is_over {
            let Poll::Ready(item) = stream.as_mut().poll_next(cx) else {
                if self.items.is_empty() {
                    return Poll::Pending;
                }
                // If the engine has stopped, nobody can tell when it is time.
                let _ = ready!(self.sleep.poll_elapsed(cx));
                return Poll::Ready(Some(self.finish()));
            };
            if self.items.is_empty() {
                self.sleep.reset(self.delay);
            }
            self.is_over = item.is_none();
            self.items.extend(item);
            if self.items.len() == self.most {
                break;
            }
        }
        Poll::Ready(Some(self.finish()).filter(|chunk| !chunk.is_empty()))
    }

    fn size_hint(&self, (least, most): (usize, Option<usize>)) -> (usize, Option<usize>) {
        let collected = self.items.len();
        if self.is_over {
            return (collected.min(1), Some(collected.min(1)));
        }
        (least.saturating_add(collected) / self.most, most.and_then(|n| n.checked_add(collected)))
    }
}
