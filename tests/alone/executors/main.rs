//! The same asynchronous code on every executor: tokio with threads and without, smol, and none.

#[macro_use]
mod executors;

use std::future::{Future, pending, poll_fn, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{Either, join_all, select};
use futures_util::{StreamExt, pin_mut};
use tickless::Engine;
use tickless::future::FutureExt;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

executors::on_every_executor!(
    a_sleep_is_never_early,
    sleeps_of_all_lengths_end,
    a_timeout_ends_what_takes_too_long,
    a_timeout_lets_through_what_is_in_time,
    an_interval_ticks_at_multiples_of_its_period,
    a_stream_of_ticks_can_be_combined,
    a_select_drops_what_comes_second,
    an_idle_timer_is_reset_in_a_loop_of_selects,
    tokios_select_takes_a_sleep_by_reference,
    futures_select_takes_a_sleep_by_reference,
    a_sleep_goes_from_one_future_to_another,
    an_engine_of_ones_own_serves_as_well,
    timeouts_nest,
);

async fn a_sleep_is_never_early() {
    for round in 0..20_u32 {
        let (begin, delay) = (Instant::now(), MS * (round % 7) + Duration::from_micros(333));
        let sleep = tickless::sleep(delay);
        let deadline = sleep.deadline().unwrap();
        sleep.await;
        assert!(begin.elapsed() >= delay && Instant::now() >= deadline);
    }
    let deadline = Instant::now() + MS * 3;
    tickless::sleep_until(deadline).await;
    assert!(Instant::now() >= deadline);
}

async fn sleeps_of_all_lengths_end() {
    let begin = Instant::now();
    let ended = Arc::new(AtomicU64::new(0));
    let sleeps = (0..500_u32).map(|n| {
        let (delay, ended) = (Duration::from_micros(u64::from(n) * 97), ended.clone());
        let sleep = tickless::sleep(delay);
        async move {
            sleep.await;
            assert!(begin.elapsed() >= delay);
            ended.fetch_add(1, Ordering::SeqCst);
        }
    });
    join_all(sleeps).await;
    assert_eq!(ended.load(Ordering::SeqCst), 500);
}

async fn a_timeout_ends_what_takes_too_long() {
    let begin = Instant::now();
    let error = tickless::timeout(MS * 5, pending::<()>()).await.unwrap_err();
    assert!(begin.elapsed() >= MS * 5 && error.cause().is_none());
    let deadline = Instant::now() + MS * 5;
    assert!(tickless::timeout_at(deadline, tickless::sleep(HOUR)).await.is_err());
    assert!(Instant::now() >= deadline);
    assert!(pending::<()>().timeout_at(deadline).await.is_err(), "what is past is over");
}

async fn a_timeout_lets_through_what_is_in_time() {
    assert_eq!(ready(7).timeout(Duration::ZERO).await, Ok(7));
    assert_eq!(async { 8 }.timeout(HOUR).await, Ok(8));
    let soon = async {
        tickless::sleep(MS * 2).await;
        9
    };
    assert_eq!(tickless::timeout(HOUR, soon).await, Ok(9));
}

async fn an_interval_ticks_at_multiples_of_its_period() {
    let mut interval = tickless::interval(MS * 3);
    let first = interval.tick().await;
    for n in 1..=6_u32 {
        assert_eq!(interval.tick().await, first + MS * 3 * n);
        assert!(Instant::now() >= first + MS * 3 * n);
    }
}

async fn a_stream_of_ticks_can_be_combined() {
    let start = Instant::now() + MS * 2;
    let ticks: Vec<_> = tickless::interval_at(start, MS * 2).take(4).collect().await;
    assert_eq!(ticks, [0, 2, 4, 6].map(|ms| start + MS * ms));
}

async fn a_select_drops_what_comes_second() {
    match select(tickless::sleep(MS * 2), tickless::sleep(HOUR)).await {
        Either::Left(((), second)) => assert!(!second.is_elapsed()),
        Either::Right(_) => panic!("an hour has passed"),
    }
    let slow = tickless::sleep(HOUR);
    pin_mut!(slow);
    assert!(matches!(select(slow, ready(7)).await, Either::Right((7, _))));
}

/// Ready when polled so many times; asks to be polled again meanwhile.
fn after_polls(mut polls: u32) -> impl Future<Output = ()> + Unpin {
    poll_fn(move |cx| {
        polls -= 1;
        if polls == 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

async fn an_idle_timer_is_reset_in_a_loop_of_selects() {
    let mut idle = tickless::sleep(MS * 5);
    for packet in 0..50 {
        if let Either::Left(_) = select(&mut idle, after_polls(packet % 5 + 1)).await {
            // A slow machine: a packet that was late.
            assert!(Instant::now() >= idle.deadline().unwrap());
        }
        idle.reset(MS * 5);
    }
    let silence = idle.deadline().unwrap();
    assert!(matches!(select(&mut idle, pending::<()>()).await, Either::Left(_)));
    assert!(Instant::now() >= silence);
}

async fn tokios_select_takes_a_sleep_by_reference() {
    let mut sleep = tickless::sleep(MS * 4);
    let mut interval = tickless::interval(MS);
    let mut ticks = 0;
    loop {
        tokio::select! {
            biased;
            _ = interval.tick() => ticks += 1,
            () = &mut sleep => break,
        }
    }
    assert!(ticks >= 1, "{ticks} ticks");
}

async fn futures_select_takes_a_sleep_by_reference() {
    use futures_util::{FutureExt as _, select_biased};
    let mut sleep = tickless::sleep(MS * 4).fuse();
    let mut other = Box::pin(tickless::sleep(MS).fuse());
    let mut order = Vec::new();
    while order.len() < 2 {
        select_biased! {
            () = other => order.push(1),
            () = sleep => order.push(4),
        }
    }
    order.sort_unstable();
    assert_eq!(order, [1, 4]);
}

async fn a_sleep_goes_from_one_future_to_another() {
    let mut sleep = tickless::sleep(MS * 6);
    for _ in 0..3 {
        // Polled inside another future each time, which has a waker of its own, and dropped.
        let mut inner = futures_util::stream::FuturesUnordered::new();
        inner.push(&mut sleep);
        let _ = inner.next().timeout(MS).await;
    }
    sleep.await;
}

async fn an_engine_of_ones_own_serves_as_well() {
    let builder = Engine::builder().tick(Duration::from_micros(50)).shards(2);
    let engine = builder.build().unwrap();
    let begin = Instant::now();
    engine.sleep(MS).await;
    assert!(engine.timeout(MS, pending::<()>()).await.is_err());
    assert!(pending::<()>().timeout_on(&engine, MS).await.is_err());
    assert!(begin.elapsed() >= MS * 3);
    let mut interval = engine.interval(MS);
    let first = interval.tick().await;
    assert_eq!(interval.tick().await, first + MS);
    drop(interval);
    while !engine.is_empty() {
        // A reaper was firing the interval's timer.
        std::thread::yield_now();
    }
    // One that is polled only when it is due needs no timer.
    while engine.stats().fired == 0 {
        engine.sleep(MS).await;
    }
}

async fn timeouts_nest() {
    let inner = pending::<()>().timeout(MS * 2);
    assert!(matches!(inner.timeout(HOUR).await, Ok(Err(_))));
    let inner = pending::<()>().timeout(HOUR);
    assert!(inner.timeout(MS * 2).await.is_err());
}
