//! Cooperation: waits that are over at once let others run, and no expiry is lost to that.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use support::hands::engine_by_hand;
use support::patience::PATIENCE;
use support::polling::{bell, poll};
use tickless::Engine;
use tickless::future::FutureExt as _;
use tokio::task::coop::has_budget_remaining;

use crate::on_runtime::Runs;

const MS: Duration = Duration::from_millis(1);

fn on_tokio<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().run(future)
}

/// Runs `future` and, on the same thread, a task that counts how often it has had its turn.
async fn beside_others<R>(future: impl Future<Output = R>) -> (R, u32) {
    let turns = Rc::new(Cell::new(0));
    let counted = turns.clone();
    let set = tokio::task::LocalSet::new();
    set.spawn_local(async move {
        loop {
            counted.set(counted.get() + 1);
            tokio::task::yield_now().await;
        }
    });
    (set.run_until(future).await, turns.get())
}

#[test]
fn a_timeout_ends_a_loop_of_waits_that_are_over_at_once() {
    let engine = Engine::new().unwrap();
    let (now, ms) = (engine.now(), |ms| MS * ms);
    on_tokio(async {
        let zero = async {
            loop {
                engine.sleep(Duration::ZERO).await
            }
        };
        assert!(zero.timeout_on(&engine, ms(5)).await.is_err());
        let past = async {
            loop {
                engine.sleep_until(now).await
            }
        };
        assert!(past.timeout_on(&engine, ms(5)).await.is_err());
        let none = async {
            loop {
                _ = engine.timeout(Duration::ZERO, pending::<()>()).await
            }
        };
        assert!(none.timeout_on(&engine, ms(5)).await.is_err());
        let mut over = engine.sleep(Duration::ZERO);
        let again = async {
            loop {
                (&mut over).await
            }
        };
        assert!(again.timeout_on(&engine, ms(5)).await.is_err());
    });
}

#[test]
fn an_interval_or_a_queue_that_is_far_behind_lets_others_run() {
    const BEHIND: u32 = 10_000;
    on_tokio(async {
        let engine = engine_by_hand();
        let mut interval = engine.interval(MS);
        let mut queue = engine.delay_queue();
        (1..=BEHIND).for_each(|n| _ = queue.insert(n, MS * n));
        engine.advance(MS * BEHIND).unwrap();
        let catches_up = async {
            for _ in 0..BEHIND {
                interval.tick().await;
            }
        };
        let (_, turns) = beside_others(catches_up).await;
        assert!(turns >= BEHIND / 256, "{turns}");
        let drains = async { while queue.expired().await.is_some() {} };
        let (_, turns) = beside_others(drains).await;
        assert!(turns >= BEHIND / 256, "{turns}");
    });
}

#[test]
fn without_tokio_the_task_that_ends_a_loop_of_no_waits_gets_its_turn() {
    let engine = engine_by_hand();
    let executor = smol::LocalExecutor::new();
    let is_over = Rc::new(Cell::new(false));
    let ends = is_over.clone();
    smol::block_on(executor.run(async {
        let waits = executor.spawn(async move {
            while !is_over.get() {
                engine.sleep(Duration::ZERO).await;
            }
        });
        executor.spawn(async move { ends.set(true) }).await;
        waits.await;
    }));
}

/// One of 129 was put off, by a count that went on from poll to poll of the task.
#[test]
fn a_task_that_comes_anew_finds_what_is_over() {
    on_tokio(async {
        let engine = engine_by_hand();
        let (_, waker) = bell();
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            assert!(poll(&mut engine.sleep(Duration::ZERO), &waker).is_ready());
        }
    });
}

/// What was put off was over for the limit around it, which was ready for that.
#[test]
fn without_tokio_a_timeout_ends_a_loop_of_limits_of_no_time() {
    let engine = Engine::new().unwrap();
    let zero = || engine.sleep(Duration::ZERO);
    let loops = async || {
        loop {
            zero().await;
        }
    };
    ends(&engine, async || _ = engine.timeout(Duration::ZERO, loops()).await);
    ends(&engine, async || {
        let inner = engine.timeout(Duration::ZERO, pending::<()>());
        _ = engine.timeout(Duration::ZERO, engine.timeout(Duration::ZERO, inner)).await;
    });
    ends(&engine, async || _ = futures_util::future::select(zero(), zero()).await);
}

/// Each of them has a waker of its own, so none was ready often in a row.
#[test]
fn without_tokio_a_timeout_ends_a_loop_of_many_futures_of_no_time() {
    let engine = Engine::new().unwrap();
    let mut many: FuturesUnordered<_> = (0..10).map(|_| engine.sleep(Duration::ZERO)).collect();
    let begun = Instant::now();
    let goes_on = async {
        while many.next().await.is_some() {
            assert!(begun.elapsed() < PATIENCE, "nobody else has a turn");
            many.push(engine.sleep(Duration::ZERO));
        }
    };
    assert!(smol::block_on(engine.timeout(MS, goes_on)).is_err());
}

/// A limit ends a loop of `step`.
fn ends(engine: &Engine, step: impl AsyncFn()) {
    let begun = Instant::now();
    let goes_on = async {
        loop {
            assert!(begun.elapsed() < PATIENCE, "nobody else has a turn");
            step().await;
        }
    };
    assert!(smol::block_on(engine.timeout(MS, goes_on)).is_err());
}

#[test]
fn who_polls_without_a_waker_is_never_put_off() {
    let engine = engine_by_hand();
    for _ in 0..1000 {
        assert_eq!(engine.sleep(Duration::ZERO).now_or_never(), Some(()));
    }
}

/// Spends the task's budget.
async fn exhaust() {
    poll_fn(|cx| {
        while has_budget_remaining() {
            let _ = pin!(tokio::task::coop::consume_budget()).poll(cx);
        }
        Poll::Ready(())
    })
    .await
}

#[test]
fn what_has_waited_is_reported_whatever_else_its_task_has_done() {
    on_tokio(async {
        let engine = engine_by_hand();
        let (_, waker) = bell();
        let mut sleep = engine.sleep(MS);
        let mut late = engine.timeout(MS, pending::<()>());
        assert!(poll(&mut sleep, &waker).is_pending() && poll(&mut late, &waker).is_pending());
        engine.advance(MS).unwrap();
        exhaust().await;
        assert!(!has_budget_remaining());
        assert!(poll(&mut sleep, &waker).is_ready() && poll(&mut late, &waker).is_ready());
    });
}

#[test]
fn what_was_not_polled_before_its_time_is_put_off_once_at_most() {
    on_tokio(async {
        let engine = engine_by_hand();
        let mut sleep = engine.sleep(Duration::ZERO);
        let mut late = engine.timeout(Duration::ZERO, pending::<()>());
        let mut polls = 0;
        // A task that spends its budget each time before it looks.
        let looks = async {
            poll_fn(|cx: &mut Context<'_>| {
                polls += 1;
                assert!(pin!(exhaust()).poll(cx).is_ready());
                let polled = [sleep.poll_unpin(cx).is_ready(), late.poll_unpin(cx).is_ready()];
                if polled == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        };
        looks.await;
        assert_eq!(polls, 2);
        // A task that comes anew is not put off.
        tokio::task::yield_now().await;
        assert!(engine.sleep(Duration::ZERO).now_or_never().is_some());
    });
}
