//! Virtual time that advances by itself: alone, beside other threads, with smol's executor. The
//! scenarios of tokio's own tests of paused time are here, except for those that pause or resume
//! a clock that runs.

use std::future::{pending, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use futures_util::task::AtomicWaker;
use futures_util::{StreamExt, poll};
use support::mpsc;
use support::random::Random;
use support::threads::spawn;
use tickless::future::FutureExt;
use tickless::test::{Paused, advance, block_on_paused};
use tickless::{Builder, Engine};

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The virtual time since `begin`.
fn since(begin: Instant) -> Duration {
    tickless::now() - begin
}

// === Time that jumps ===

#[test]
fn what_waits_takes_exactly_as_long_as_it_says_and_no_real_time() {
    // A year of real time would not end.
    block_on_paused(async {
        let begin = tickless::now();
        tickless::sleep(HOUR * 24 * 365).await;
        assert_eq!(since(begin), HOUR * 24 * 365);
        tickless::sleep(US * 17).await;
        assert_eq!(since(begin), HOUR * 24 * 365 + US * 17);
        assert!(pending::<()>().timeout(HOUR).await.is_err());
        let mut ticks = tickless::interval(HOUR).take(3);
        while ticks.next().await.is_some() {}
        assert_eq!(since(begin), HOUR * 24 * 365 + US * 17 + HOUR * 3);
    });
}

#[test]
fn what_waits_side_by_side_ends_in_order() {
    let ended = block_on_paused(async {
        let begin = tickless::now();
        let ended = std::cell::RefCell::new(Vec::new());
        join_all([5, 1, 4, 1, 3].map(|hours| {
            let ended = &ended;
            async move {
                tickless::sleep(HOUR * hours).await;
                ended.borrow_mut().push((hours, since(begin)));
            }
        }))
        .await;
        ended.into_inner()
    });
    assert_eq!(ended, [1, 1, 3, 4, 5].map(|hours| (hours, HOUR * hours)));
}

#[test]
fn time_stands_still_while_there_is_something_to_do() {
    let paused = Paused::new();
    paused.block_on(async {
        let mut nap = tickless::sleep(MS);
        assert!(poll!(&mut nap).is_pending());
        // A task that yields is not idle.
        let mut left = 1000;
        poll_fn(|cx| {
            left -= 1;
            cx.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(paused.elapsed(), Duration::ZERO);
        nap.await;
        assert_eq!(paused.elapsed(), MS);
    });
}

#[test]
fn with_no_timer_it_waits_for_another_thread() {
    let paused = Paused::new();
    let (sender, mut receiver) = tokio::sync::oneshot::channel();
    let (polled, is_polled) = mpsc::channel();
    let other = spawn(move || {
        is_polled.recv().unwrap();
        sender.send(7).unwrap();
    });
    // The other thread answers once the task waits.
    let answer = poll_fn(|cx| {
        let answer = pin!(&mut receiver).poll(cx);
        let _ = polled.send(());
        answer
    });
    assert_eq!(paused.block_on(answer), Ok(7));
    other.join().unwrap();
    assert_eq!(paused.elapsed(), Duration::ZERO);
}

#[test]
fn nothing_is_ambient_afterwards_and_tests_may_nest() {
    let (outer, inner) = (Paused::new(), Paused::new());
    outer.block_on(async {
        tickless::sleep(HOUR).await;
        inner.block_on(async { tickless::sleep(MS).await });
        tickless::sleep(HOUR).await;
    });
    assert_eq!((outer.elapsed(), inner.elapsed()), (HOUR * 2, MS));
    catch_unwind(AssertUnwindSafe(|| outer.block_on(async { panic!("as planned") }))).unwrap_err();
    outer.block_on(async { tickless::sleep(HOUR).await });
    assert_eq!(outer.elapsed(), HOUR * 3, "it goes on after a panic");
}

#[test]
fn a_future_need_not_be_send_and_may_borrow() {
    let (shared, text) = (Rc::new(7), String::from("borrowed"));
    let length = block_on_paused(async {
        tickless::sleep(MS).await;
        text.len() + *shared
    });
    assert_eq!(length, 15);
}

#[test]
fn settings_of_ones_own_are_kept() {
    let paused = Paused::with(Builder::new().tick(MS * 10).shards(3)).unwrap();
    assert_eq!(paused.engine().shards(), 3);
    paused.block_on(async { tickless::sleep(MS).await });
    assert_eq!(paused.elapsed(), MS * 10);
    assert!(Paused::with(Builder::new().shards(0)).is_err());
}

#[test]
fn closures_of_the_engine_run_on_the_way() {
    let paused = Paused::new();
    let (sender, fired) = mpsc::channel();
    paused.engine().schedule_detached(HOUR, move || sender.send("due").unwrap()).unwrap();
    paused.block_on(async { tickless::sleep(HOUR * 2).await });
    assert_eq!(fired.try_recv(), Ok("due"));
}

#[test]
fn a_stop_ends_the_waits_and_the_test_goes_on() {
    let paused = Paused::new();
    let engine = paused.engine().clone();
    paused.block_on(async {
        let mut nap = tickless::sleep(HOUR);
        assert!(poll!(&mut nap).is_pending());
        engine.stop().unwrap();
        assert!(nap.wait().await.is_err());
        let stopped = catch_unwind(AssertUnwindSafe(|| advance(MS))).unwrap_err();
        let message = stopped.downcast_ref::<String>().unwrap();
        assert!(message.contains("the engine has stopped"), "{message}");
    });
}

#[test]
fn an_engine_with_a_clock_of_the_system_is_not_moved() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let _entered = engine.enter();
    let refused = catch_unwind(|| advance(MS)).unwrap_err();
    let message = refused.downcast_ref::<String>().unwrap();
    assert!(message.contains("only a manual clock"), "{message}");
}

// === Other threads ===

/// Runs `other` in another thread, each time when a future on `paused` has begun to wait for it. By
/// then the thread of the future is parked, mostly.
fn beside(paused: &Paused, rounds: u32, mut other: impl FnMut(&Engine) + Send) {
    let (polled, is_polled) = mpsc::channel();
    let (done, woken) = (&AtomicU32::new(0), &AtomicWaker::new());
    thread::scope(|threads| {
        threads.spawn(move || {
            for round in 1..=rounds {
                is_polled.recv().unwrap();
                other(paused.engine());
                done.store(round, Ordering::Release);
                woken.wake();
            }
        });
        paused.block_on(async {
            for round in 1..=rounds {
                let mut is_first = true;
                poll_fn(|cx| {
                    woken.register(cx.waker());
                    if mem::take(&mut is_first) {
                        polled.send(()).unwrap();
                    }
                    let is_done = done.load(Ordering::Acquire) == round;
                    if is_done { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
        });
    });
}

const ROUNDS: u32 = 50;

#[test]
fn a_sleep_of_another_thread_moves_time_while_the_future_waits_for_that_thread() {
    let paused = Paused::new();
    beside(&paused, ROUNDS, |engine| pollster::block_on(engine.sleep(HOUR)));
    assert_eq!(paused.elapsed(), HOUR * ROUNDS);
}

#[test]
fn a_closure_that_another_thread_schedules_moves_time_while_the_future_waits() {
    let paused = Paused::new();
    beside(&paused, ROUNDS, |engine| {
        let (sender, fired) = mpsc::channel();
        engine.schedule_detached(HOUR, move || sender.send(()).unwrap()).unwrap();
        fired.recv().unwrap();
    });
    assert_eq!(paused.elapsed(), HOUR * ROUNDS);
}

/// The reaper need not be told of either: it will open that bucket anyway, if time moves.
#[test]
fn a_timer_in_the_seat_of_a_cancelled_one_or_beside_it_moves_time() {
    for is_beside in [false, true] {
        let paused = Paused::new();
        beside(&paused, ROUNDS, |engine| {
            // It may be too late.
            engine.schedule(HOUR, || ()).unwrap().cancel();
            let _in_the_seat = is_beside.then(|| engine.schedule(Duration::MAX, || ()).unwrap());
            pollster::block_on(engine.sleep(HOUR));
        });
        assert!(paused.elapsed() >= HOUR * ROUNDS);
    }
}

#[test]
fn a_sleep_without_end_that_another_thread_moves_moves_time() {
    let paused = Paused::new();
    beside(&paused, ROUNDS, |engine| {
        let mut sleep = engine.sleep(Duration::MAX);
        assert!(pollster::block_on(async { poll!(&mut sleep) }).is_pending());
        sleep.reset(HOUR);
        pollster::block_on(sleep);
    });
    assert_eq!(paused.elapsed(), HOUR * ROUNDS);
}

#[test]
fn two_threads_wait_on_one_engine_and_either_may_end_first() {
    let paused = Paused::new();
    beside(&paused, ROUNDS, |_| {
        let mut nap = tickless::sleep(Duration::ZERO);
        paused.block_on(async {
            nap = tickless::sleep(HOUR);
            assert!(poll!(&mut nap).is_pending());
        });
        pollster::block_on(nap);
    });
    assert_eq!(paused.elapsed(), HOUR * ROUNDS);
}

// === With runtimes ===

/// A task that is spawned there could not run: what waits for it would hang, or be told that time
/// is up.
#[test]
fn inside_a_runtime_of_tokios_it_refuses_and_names_the_cure() {
    let refusal = || {
        let spawned = async { tokio::spawn(async { tickless::sleep(HOUR).await }).await };
        let refused = catch_unwind(|| block_on_paused(spawned.timeout(HOUR * 2)));
        *refused.unwrap_err().downcast::<&str>().unwrap()
    };
    let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let entered = || {
        let _entered = one.enter();
        refusal()
    };
    for text in [one.block_on(async { refusal() }), entered(), many.block_on(async { refusal() })] {
        assert!(text.contains("build_on_tokio") && text.contains("start_paused"), "{text}");
    }
}

#[test]
fn an_executor_that_is_a_future_runs_inside() {
    let paused = Paused::new();
    let executor = smol::LocalExecutor::new();
    let naps = [2, 1].map(|hours| {
        executor.spawn(async move {
            tickless::sleep(HOUR * hours).await;
            tickless::now()
        })
    });
    let begin = paused.engine().now();
    let ends = paused.block_on(executor.run(join_all(naps)));
    assert_eq!(ends, [begin + HOUR * 2, begin + HOUR]);
}

// === Scenarios of tokio's ===

#[test]
fn the_same_program_sees_the_same_times() {
    let run = || {
        block_on_paused(async {
            let (mut random, begin) = (Random::new(1), tickless::now());
            let mut times = Vec::new();
            for _ in 0..2_000 {
                tickless::sleep(Duration::from_nanos(random.below(1_000_000_000))).await;
                times.push(since(begin));
            }
            times
        })
    };
    assert_eq!(run(), run());
}

#[test]
fn an_advance_does_not_end_a_sleep_early_whether_it_was_polled_or_not() {
    for polls in [true, false] {
        block_on_paused(async {
            let begin = tickless::now();
            advance(MS);
            let mut sleep = tickless::sleep_until(begin + MS * 300);
            assert!(!polls || poll!(&mut sleep).is_pending());
            let before = tickless::now();
            advance(MS * 100);
            assert_eq!(since(before), MS * 100);
            assert!(poll!(&mut sleep).is_pending());
            sleep.await;
            assert_eq!(since(begin), MS * 300);
        });
    }
}

#[test]
fn an_advance_within_the_poll_of_the_task_that_sleeps() {
    for polls in [true, false] {
        block_on_paused(async {
            let mut sleep = pin!(tickless::sleep(MS * 300));
            let mut is_first = true;
            poll_fn(|cx| {
                if is_first {
                    is_first = false;
                    assert!(!polls || sleep.poll_elapsed(cx).is_pending());
                    let before = tickless::now();
                    advance(MS * 100);
                    assert_eq!(since(before), MS * 100);
                    assert!(sleep.poll_elapsed(cx).is_pending());
                    advance(MS * 200);
                }
                sleep.poll_elapsed(cx)
            })
            .await
            .unwrap();
        });
    }
}

#[test]
fn an_interval_follows_what_time_does() {
    block_on_paused(async {
        let begin = tickless::now();
        advance(MS);
        let mut interval = tickless::interval_at(begin, MS * 300);
        macro_rules! ready {
            () => {
                poll!(pin!(interval.tick()))
            };
        }
        assert_eq!(ready!(), Poll::Ready(begin));
        assert!(ready!().is_pending());
        for (by, ticks) in
            [(100, vec![]), (200, vec![300]), (400, vec![600]), (500, vec![900, 1200])]
        {
            advance(MS * by);
            for tick in ticks {
                assert_eq!(ready!(), Poll::Ready(begin + MS * tick));
            }
            assert!(ready!().is_pending());
        }
    });
}

#[test]
fn time_moves_by_exactly_what_it_is_told() {
    block_on_paused(async {
        for by in [US * 51_592, US, US * 3_141_592, US * 3_123_456, MS, MS, Duration::from_nanos(1)]
        {
            let before = tickless::now();
            advance(by);
            assert_eq!(since(before), by);
        }
        // With a sleep that was polled, too.
        let mut sleep = tickless::sleep(Duration::from_secs(60));
        assert!(poll!(&mut sleep).is_pending());
        let before = tickless::now();
        assert_eq!(advance(US * 51_592), 0);
        assert_eq!(since(before), US * 51_592);
        assert!(poll!(&mut sleep).is_pending());
    });
}

#[test]
fn several_advances_add_up() {
    block_on_paused(async {
        for steps in [vec![250, 1500], vec![250, 250, 250, 250]] {
            let mut sleep = tickless::sleep(MS);
            assert!(poll!(&mut sleep).is_pending());
            let (last, first) = steps.split_last().unwrap();
            for step in first {
                advance(US * *step);
                assert!(poll!(&mut sleep).is_pending());
            }
            assert_eq!(advance(US * *last), 1);
            assert!(poll!(&mut sleep).is_ready());
        }
    });
}

#[test]
fn a_task_that_waits_beside_one_that_advances_is_woken() {
    block_on_paused(async {
        let begin = tickless::now();
        let nap = async {
            tickless::sleep(MS).await;
            since(begin)
        };
        let (slept, _) = join(nap, async { advance(MS) }).await;
        assert_eq!(slept, MS);
    });
}
