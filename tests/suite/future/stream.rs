//! Streams with a pace, by a clock that is moved by hand.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, FusedStream, Stream};
use support::hands::engine_by_hand;
use support::polling::bell;
use tickless::Engine;
use tickless::future::{SleepError, StreamExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const MS: Duration = Duration::from_millis(1);

/// Items that come when the test says so.
struct Items(UnboundedReceiver<u32>);

impl Stream for Items {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        self.0.poll_recv(cx)
    }
}

fn items() -> (UnboundedSender<u32>, Items) {
    let (sender, receiver) = unbounded_channel();
    (sender, Items(receiver))
}

fn poll<S: Stream + Unpin>(stream: &mut S, waker: &Waker) -> Poll<Option<S::Item>> {
    stream.poll_next_unpin(&mut Context::from_waker(waker))
}

#[test]
fn an_item_that_is_late_has_one_error_in_its_place_and_the_next_has_a_limit_again() {
    let (engine, (bell, waker), (sender, items)) = (engine_by_hand(), bell(), items());
    let mut limited = items.timeout_on(&engine, MS * 10);
    sender.send(1).unwrap();
    assert_eq!(poll(&mut limited, &waker), Poll::Ready(Some(Ok(1))));
    for _ in 0..3 {
        engine.advance(MS * 5).unwrap();
        assert!(poll(&mut limited, &waker).is_pending());
        engine.advance(MS * 4).unwrap();
        assert!(poll(&mut limited, &waker).is_pending());
        let woken = bell.woken();
        engine.advance(MS).unwrap();
        assert_eq!(bell.woken(), woken + 1);
        let Poll::Ready(Some(Err(elapsed))) = poll(&mut limited, &waker) else { panic!() };
        assert_eq!(elapsed.cause(), None);
        engine.advance(MS * 100).unwrap();
        assert!(poll(&mut limited, &waker).is_pending(), "once");
        sender.send(2).unwrap();
        assert_eq!(poll(&mut limited, &waker), Poll::Ready(Some(Ok(2))));
    }
    assert_eq!(limited.size_hint(), (0, None));
    drop(sender);
    assert!(!limited.is_terminated());
    assert_eq!(poll(&mut limited, &waker), Poll::Ready(None));
    assert_eq!(poll(&mut limited, &waker), Poll::Ready(None));
    assert!(limited.is_terminated() && engine.is_empty());
    let three = stream::iter(0..3).timeout_on(&engine, MS);
    assert_eq!(three.size_hint(), (3, Some(7)));
}

#[test]
fn a_pause_follows_each_item_and_none_comes_before_the_first() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let mut paced = stream::iter(0..3).throttle_on(&engine, MS * 10);
    for n in 0..3 {
        assert_eq!(poll(&mut paced, &waker), Poll::Ready(Some(n)));
        assert!(poll(&mut paced, &waker).is_pending());
        engine.advance(MS * 9).unwrap();
        assert!(poll(&mut paced, &waker).is_pending());
        let woken = bell.woken();
        engine.advance(MS).unwrap();
        assert_eq!(bell.woken(), woken + 1);
    }
    assert_eq!(poll(&mut paced, &waker), Poll::Ready(None));
    assert!(engine.is_empty());
    let mut at_once = stream::iter(0..3).throttle_on(&engine, Duration::ZERO);
    assert_eq!(
        [(); 3].map(|()| poll(&mut at_once, &waker)),
        [0, 1, 2].map(|n| Poll::Ready(Some(n)))
    );
    assert_eq!(engine.stats().scheduled, 3);
}

#[test]
fn a_chunk_comes_when_it_is_full_or_its_first_item_has_waited() {
    let (engine, (_, waker), (sender, items)) = (engine_by_hand(), bell(), items());
    let mut chunks = items.chunks_timeout_on(&engine, 3, MS * 10);
    assert!(poll(&mut chunks, &waker).is_pending() && engine.is_empty(), "no item, no limit");
    engine.advance(MS * 100).unwrap();
    (0..4).for_each(|n| sender.send(n).unwrap());
    assert_eq!(poll(&mut chunks, &waker), Poll::Ready(Some(vec![0, 1, 2])));
    assert!(poll(&mut chunks, &waker).is_pending());
    engine.advance(MS * 9).unwrap();
    sender.send(4).unwrap();
    assert!(poll(&mut chunks, &waker).is_pending());
    engine.advance(MS).unwrap();
    assert_eq!(poll(&mut chunks, &waker), Poll::Ready(Some(vec![3, 4])));
    assert!(poll(&mut chunks, &waker).is_pending() && engine.is_empty());
    sender.send(5).unwrap();
    assert!(poll(&mut chunks, &waker).is_pending());
    assert_eq!(Pin::new(&mut chunks).take_unfinished(), [5]);
    sender.send(6).unwrap();
    drop(sender);
    assert_eq!(poll(&mut chunks, &waker), Poll::Ready(Some(vec![6])));
    assert!(chunks.is_terminated());
    assert_eq!(poll(&mut chunks, &waker), Poll::Ready(None));
    let sizes = stream::iter(0..7).chunks_timeout_on(&engine, 3, MS).map(|chunk| chunk.len());
    assert_eq!(sizes.size_hint(), (2, Some(7)));
}

#[test]
#[should_panic = "a chunk has room for an item"]
fn a_chunk_of_nothing_is_refused() {
    let _ = stream::iter(0..7).chunks_timeout_on(&engine_by_hand(), 0, MS);
}

#[test]
fn with_their_engine_limits_say_so_pauses_end_and_chunks_come_out() {
    let (_, waker) = bell();
    let engine = Engine::new().unwrap();
    let mut limited = stream::pending::<u32>().timeout_on(&engine, MS * 3_600_000);
    let mut paced = stream::repeat(7).throttle_on(&engine, MS * 3_600_000);
    let once = stream::iter([7]).chain(stream::pending());
    let mut chunks = once.chunks_timeout_on(&engine, 3, MS * 3_600_000);
    assert!(poll(&mut limited, &waker).is_pending() && poll(&mut chunks, &waker).is_pending());
    assert_eq!(poll(&mut paced, &waker), Poll::Ready(Some(7)));
    assert!(poll(&mut paced, &waker).is_pending());
    engine.stop().unwrap();
    let Poll::Ready(Some(Err(elapsed))) = poll(&mut limited, &waker) else { panic!() };
    assert_eq!(elapsed.cause(), Some(SleepError::Stopped));
    assert_eq!(poll(&mut paced, &waker), Poll::Ready(None));
    assert_eq!(poll(&mut chunks, &waker), Poll::Ready(Some(vec![7])));
}
