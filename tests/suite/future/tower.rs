//! A layer of tower's: the limit, the engine's refusals and the service's own errors are told
//! apart.

use std::error::Error;
use std::future::pending;
use std::io;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use support::hands::engine_by_hand;
use support::polling::{bell, poll};
use tickless::future::tower::{Timeout, TimeoutLayer};
use tickless::future::{Elapsed, SleepError};
use tickless::{Engine, ManualClock};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

fn elapsed() -> Elapsed {
    engine_by_hand().timeout(Duration::ZERO, pending::<()>()).now_or_never().unwrap().unwrap_err()
}

/// Answers at once, fails, or never answers.
async fn answer(request: &'static str) -> io::Result<u32> {
    match request {
        "quick" => Ok(7),
        "broken" => Err(io::ErrorKind::BrokenPipe.into()),
        _ => pending().await,
    }
}

#[test]
fn a_response_has_so_much_time_from_the_call_on() {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let layer = TimeoutLayer::new(&engine, MS * 10);
    let mut service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
    let mut slow = Box::pin(service.call("slow"));
    engine.advance(MS * 5).unwrap();
    assert!(poll(&mut slow, &waker).is_pending());
    engine.advance(MS * 4).unwrap();
    assert!(poll(&mut slow, &waker).is_pending() && bell.woken() == 0);
    engine.advance(MS).unwrap();
    let Poll::Ready(Err(error)) = poll(&mut slow, &waker) else { panic!() };
    assert_eq!((error.downcast_ref(), bell.woken()), (Some(&elapsed()), 1));
    // One that is dropped, or ready, leaves no timer.
    let mut slow = Box::pin(service.call("slow"));
    assert!(poll(&mut slow, &waker).is_pending() && engine.len() == 1);
    drop(slow);
    let quick = service.call("quick").now_or_never().unwrap();
    assert!(quick.is_ok_and(|answer| answer == 7));
    assert_eq!((engine.len(), engine.stats().scheduled), (0, 2));
}

#[test]
fn errors_are_told_apart_and_have_their_sources() {
    let engine = Engine::new().unwrap();
    let layer = TimeoutLayer::new(&engine, HOUR);
    let mut service = layer.layer(service_fn(answer));
    let mut fail = |request| service.call(request).now_or_never().unwrap().unwrap_err();
    let broken = fail("broken");
    let kind = broken.downcast_ref().map(io::Error::kind);
    assert_eq!(kind, Some(io::ErrorKind::BrokenPipe), "it is the service's own");

    engine.stop().unwrap();
    let stopped = fail("slow");
    assert_eq!(stopped.to_string(), "the deadline could not be timed");
    assert_eq!(stopped.source().unwrap().to_string(), "the engine has stopped");
    let cause = stopped.downcast_ref().and_then(Elapsed::cause);
    assert_eq!(cause, Some(SleepError::Stopped));
}

/// What axum's `HandleErrorLayer` asks of a handler of errors: it takes the service's error.
#[test]
fn a_handler_of_boxed_errors_fits_as_with_towers_own_layers() {
    fn handle_error<S, F, R>(service: S, handle: F) -> impl FnOnce(&'static str) -> R
    where
        S: Service<&'static str, Response = R> + Clone,
        F: FnOnce(S::Error) -> R,
    {
        move |request| {
            let response = service.oneshot(request).now_or_never().unwrap();
            response.unwrap_or_else(handle)
        }
    }
    let layer = TimeoutLayer::new(&engine_by_hand(), Duration::ZERO);
    let layers = ServiceBuilder::new().layer(layer).service(service_fn(answer));
    let status = |error: BoxError| if error.is::<Elapsed>() { 504 } else { 500 };
    let asked = ["quick", "broken", "slow"];
    let statuses = asked.map(|request| handle_error(layers.clone(), status)(request));
    assert_eq!(statuses, [7, 500, 504]);
}

#[test]
fn a_service_that_is_not_ready_is_waited_for_without_a_limit_and_may_fail() {
    /// Becomes ready on the second day, and then fails.
    #[derive(Clone)]
    struct Busy(u32);
    impl Service<()> for Busy {
        type Response = ();
        type Error = BoxError;
        type Future = std::future::Ready<Result<(), BoxError>>;
        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
            self.0 += 1;
            if self.0 < 3 { Poll::Pending } else { Poll::Ready(Err("busy".into())) }
        }
        fn call(&mut self, (): ()) -> Self::Future {
            unreachable!("it is never ready")
        }
    }
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    // Limits may lie around each other.
    let [inner, outer] = [MS, MS * 2].map(|limit| TimeoutLayer::new(&engine, limit));
    let mut service: Timeout<Timeout<Busy>> =
        ServiceBuilder::new().layer(outer).layer(inner).service(Busy(0));
    let mut cx = std::task::Context::from_waker(&waker);
    for _ in 0..2 {
        assert!(service.poll_ready(&mut cx).is_pending());
        engine.advance(HOUR).unwrap();
    }
    let Poll::Ready(Err(error)) = service.poll_ready(&mut cx) else { panic!() };
    let (mut texts, mut next) = (Vec::new(), Some(&*error as &dyn Error));
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    assert_eq!(texts, ["busy"]);
    assert_eq!((service.get_ref().get_ref().0, service.into_inner().into_inner().0), (3, 3));
}

#[test]
fn each_request_may_have_a_limit_of_its_own() {
    let (engine, (_, waker)) = (engine_by_hand(), bell());
    let limit = |request: &&str| MS * request.len() as u32;
    let mut service = TimeoutLayer::by_request(&engine, limit).layer(service_fn(answer));
    let mut ask = |request| Box::pin(service.call(request));
    let (mut two, mut five) = (ask("ab"), ask("abcde"));
    assert!(poll(&mut two, &waker).is_pending() && poll(&mut five, &waker).is_pending());
    engine.advance(MS * 2).unwrap();
    assert!(poll(&mut two, &waker).is_ready() && poll(&mut five, &waker).is_pending());
    engine.advance(MS * 3).unwrap();
    assert!(poll(&mut five, &waker).is_ready());
}

#[test]
fn no_limit_needs_no_engine() {
    let engine = engine_by_hand();
    let service = TimeoutLayer::new(&engine, Duration::MAX).layer(service_fn(answer));
    let ask = |request| Box::pin(service.clone().oneshot(request));
    let (_, waker) = bell();
    let mut before = ask("slow");
    assert!(poll(&mut before, &waker).is_pending() && engine.is_empty());
    engine.stop().unwrap();
    assert!(poll(&mut before, &waker).is_pending());
    assert!(poll(&mut ask("slow"), &waker).is_pending(), "nothing is refused");
    assert_eq!(ask("quick").now_or_never().unwrap().unwrap(), 7);
}

#[test]
fn no_time_is_a_limit_too_and_clones_share_the_engine() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let service = TimeoutLayer::new(&engine, HOUR).layer(service_fn(answer));
    let (_, waker) = bell();
    let mut slow = Box::pin(service.clone().oneshot("slow"));
    assert!(poll(&mut slow, &waker).is_pending());
    drop(engine);
    assert!(poll(&mut slow, &waker).is_pending(), "the layer keeps it");
    drop(slow);
    // Nothing may wait at all.
    let none = TimeoutLayer::new(&engine_by_hand(), Duration::ZERO).layer(service_fn(answer));
    let slow = none.clone().oneshot("slow").now_or_never().unwrap();
    assert!(slow.unwrap_err().is::<Elapsed>());
    assert_eq!(none.oneshot("quick").now_or_never().unwrap().unwrap(), 7);
}
