//! Races that another library's timers met in the field (microsoft/libHttpClient, by the numbers of
//! its issues). It has one timer for a list of calls, and a thread that changes the list moves it.
//! Here a reaper has one sleep for all of a shard's buckets, which a thread that files may shorten.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use crate::racing::{assert_fires, driven, drop_all, schedule, threaded};
use support::account::{Book, run_all};
use support::emptied::assert_empties;
use support::mpsc;
use support::patience::PATIENCE;
use support::random::{Random, dawdle};
use support::scaled;
use support::threads::spawn;
use support::until::wait_until;
// One that ThreadSanitizer can follow.
use tickless::{Batch, Builder, Engine, Handle, ManualClock, State};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);
const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

// === stranded: 945 ===

/// There: the last pending call was taken off the list, "nothing is armed" was noted by a
/// compare-and-swap, and then the timer was cancelled; a call that came in between had just armed
/// it. It stayed pending for ever, and with it all that came later.
#[test]
fn a_timer_that_arrives_while_the_last_one_is_taken_out_is_not_stranded() {
    for (delay, cancels) in [0, 1, 5, 900].into_iter().flat_map(|ms| [(ms, false), (ms, true)]) {
        let last = Arc::new(Mutex::new(None::<Handle<u64>>));
        let of_task = last.clone();
        let on_fire = move |engine: &Engine<u64>, payload| {
            if payload != 0 {
                return;
            }
            // In the midst of the turn that empties the wheel, or that is told to.
            if let Some(last) = of_task.lock().unwrap().take() {
                assert!(last.cancel());
            }
            let engine = engine.clone();
            let arrive = move || engine.schedule_detached(MS * delay, 1).unwrap();
            spawn(arrive).join().unwrap();
        };
        let (engine, clock, told) = driven(on_fire);
        let engine = engine.get().unwrap();
        engine.schedule_detached(MS, 0).unwrap();
        if cancels {
            *last.lock().unwrap() = Some(engine.schedule(MS * 3, 2).unwrap());
        }
        clock.advance(MS);
        told.try_iter().for_each(drop);
        let (turn, due) = (engine.turn(0).unwrap(), engine.now() + MS * delay);
        let is_known = turn.more || turn.next.is_some_and(|next| next <= due);
        assert!(is_known || told.try_iter().count() > 0, "{delay} ms: the caller sleeps on");
        assert_eq!(engine.advance(MS * delay), Ok(1));
    }
}

/// As above, on a reaper's thread: each of two threads waits for its own timer, which is often the
/// only one, while the other's fires or is cancelled.
#[test]
fn timers_that_come_as_others_go_are_not_stranded() {
    let engine = threaded();
    let producers: Vec<_> = (0..2)
        .map(|seed| {
            let engine = engine.clone();
            spawn(move || {
                let random = &mut Random::new(seed);
                for _ in 0..scaled(800) {
                    let (other, _) = schedule(&engine, US * random.below(100) as u32);
                    let (kept, fired) = schedule(&engine, US * random.below(100) as u32);
                    dawdle(random);
                    other.cancel();
                    assert_fires(&fired);
                    drop(kept);
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    assert_empties(&engine);
}

// === early: 971, 975 ===

/// There: the end of one queue flushed what it shared with others, and their calls came at once.
#[test]
fn the_end_of_one_engine_makes_no_timer_of_another_early() {
    let rounds = scaled(40).max(2);
    let (typed, book) = (Builder::new().tick(50 * US).shards(2), Book::new(rounds * 21));
    let staying = typed.build_with_handler(run_all).unwrap();
    for round in 0..rounds {
        let going = Builder::new().tick(50 * US).build_with_handler(run_all).unwrap();
        // However late its end is: one more goes with the engine.
        book.schedule_detached(&going, HOUR).unwrap();
        for n in 0..10 {
            book.schedule_detached(&staying, US * (n * 300) as u32).unwrap();
            book.schedule_detached(&going, US * (n * 300) as u32).unwrap();
        }
        match round % 2 {
            0 => _ = book.stop(&going),
            _ => drop(going),
        }
    }
    wait_until("those of the engine that stays fire", || staying.is_empty());
    book.stop(&staying);
    let sums = book.close();
    assert!(sums.ran > 0 && sums.dropped > 0, "{sums:?}");
}

/// There: a wake-up was on its way when the timer was set to a later time; it was taken for the
/// later one's.
#[test]
fn the_wake_up_for_an_old_time_does_not_fire_a_timer_that_was_moved_to_later() {
    let (engine, clock, _) = driven(|_, _| ());
    let engine = engine.get().unwrap();
    let mut timer = engine.schedule(MS * 5, 0).unwrap();
    let old = engine.turn(0).unwrap().next;
    assert!(timer.reset(MS * 50).is_ok());
    clock.advance(MS * 5);
    assert_eq!(old, Some(engine.now()), "this is when the caller comes");
    assert_eq!(engine.turn(0).unwrap().fired, 0);
    assert_eq!((engine.advance(MS * 44), engine.advance(MS)), (Ok(0), Ok(1)));

    // And on a reaper's thread, as it wakes up. The book knows which time counts.
    let engine = Builder::new().tick(20 * US).shards(1).build_with_handler(run_all).unwrap();
    let (rounds, random) = (scaled(1000), &mut Random::new(971));
    let book = Book::new(rounds);
    for round in 0..rounds {
        let mut timer = book.schedule(&engine, US * (60 + round) as u32).unwrap();
        // However slow the reaper is: in some rounds it comes first.
        wait_until("it fires", || round % 8 != 0 || timer.state() != State::Pending);
        let fires_at = engine.now() + US * random.below(100 + 2 * round) as u32;
        while round % 8 != 4 && engine.now() < fires_at {}
        let is_moved = timer.reset(MS);
        assert!(!is_moved || round % 8 != 0, "it has fired");
    }
    book.stop(&engine);
    book.close().agree_with(engine.stats());
}

/// There: pending calls were found by the time that they were due at, and one stood for another.
#[test]
fn timers_of_one_time_do_not_answer_for_each_other() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let of_handler = log.clone();
    let (engine, _, _) = driven(move |_, payload| of_handler.lock().unwrap().push(payload));
    let engine = engine.get().unwrap();
    let mut timers: Vec<_> = (0..5).map(|n| engine.schedule(MS * 5, n).unwrap()).collect();
    assert!(timers[1].reset(MS * 9).is_ok() && timers[3].reset(MS * 2).is_ok());
    assert!(timers.swap_remove(2).cancel());
    let fired = |ms: u32| {
        engine.advance(MS * ms).unwrap();
        let mut fired = std::mem::take(&mut *log.lock().unwrap());
        fired.sort_unstable();
        fired
    };
    assert_eq!([fired(1), fired(1), fired(2)], [vec![], vec![3], vec![]]);
    assert_eq!([fired(1), fired(3), fired(1)], [vec![0, 4], vec![], vec![1]]);
}

/// There, on one system: a fraction of a millisecond was cut off.
#[test]
fn a_fraction_of_a_tick_is_rounded_up() {
    for now_ns in [0, 1, 500_000, 999_999] {
        for delay_ns in [1, 499_999, 500_000, 500_001, 999_999, 1_000_000, 1_000_001, 1_200_000] {
            let (engine, clock, _) = driven(|_, _| ());
            let engine = engine.get().unwrap();
            clock.advance(Duration::from_nanos(now_ns));
            engine.schedule_detached(Duration::from_nanos(delay_ns), 0).unwrap();
            let told = format!("{delay_ns} ns from {now_ns} ns on");
            assert_eq!(engine.advance(Duration::from_nanos(delay_ns - 1)), Ok(0), "{told}");
            let rest_ns = (now_ns + delay_ns).next_multiple_of(1_000_000) - now_ns - delay_ns;
            assert_eq!(engine.advance(Duration::from_nanos(1 + rest_ns)), Ok(1), "{told}");
        }
    }
}

// === lost wakes: 973 ===

/// There: a call was pending and nothing was armed for it; it came when something else was
/// submitted, if ever.
#[test]
fn a_timer_fires_although_nothing_else_ever_happens_to_its_engine() {
    let random = &mut Random::new(973);
    // Each way at least once.
    for round in 0..scaled(150).max(5) {
        let engine = threaded();
        let soon = US * random.below(200) as u32;
        let (far, _never) = schedule(&engine, HOUR);
        dawdle(random);
        // The reaper may be about to sleep for an hour, for ever, or until something that is gone.
        let fired = match round % 5 {
            0 => schedule(&engine, soon).1,
            1 => {
                assert!(far.cancel());
                dawdle(random);
                schedule(&engine, soon).1
            }
            2 => {
                let (mut timer, fired) = schedule(&engine, HOUR / 2);
                dawdle(random);
                assert!(timer.reset(soon).is_ok());
                fired
            }
            3 => {
                let (mut timer, fired) = schedule(&engine, MS);
                let _ = timer.reset(HOUR);
                dawdle(random);
                let _ = timer.reset(soon);
                fired
            }
            _ => {
                let (timer, _) = schedule(&engine, soon);
                dawdle(random);
                timer.cancel();
                schedule(&engine, soon).1
            }
        };
        assert_fires(&fired);
    }
}

// === a later arm over an earlier one: 980, 983 ===

/// There: one thread noted a later time, another noted and set an earlier one, and then the first
/// set its own.
#[test]
fn a_later_time_never_takes_the_place_of_an_earlier_one() {
    let (engine, both, random) = (threaded(), Arc::new(Barrier::new(2)), &mut Random::new(983));
    let (rounds, of_later, begins) = (scaled(400), engine.clone(), both.clone());
    let later = spawn(move || {
        let random = &mut Random::new(980);
        for round in 0..rounds as u32 {
            begins.wait();
            dawdle(random);
            let (timer, _) = schedule(&of_later, [MS * 20, HOUR][round as usize % 2]);
            begins.wait();
            timer.cancel();
        }
    });
    for _ in 0..rounds {
        both.wait();
        dawdle(random);
        let (_timer, fired) = schedule(&engine, US * 50);
        assert_fires(&fired);
        both.wait();
    }
    later.join().unwrap();
}

/// The same, step by step: the one that files the later timer has stopped between filing it and
/// telling so.
#[test]
fn a_late_notice_of_a_later_timer_hides_no_earlier_one() {
    let (clock, (enter, entered)) = (ManualClock::new(), mpsc::channel());
    let (go_on, waits) = mpsc::channel::<()>();
    let (waits, calls) = (Mutex::new(waits), AtomicUsize::new(0));
    let hook = move |_| {
        let is_first = calls.fetch_add(1, Ordering::SeqCst) == 0;
        enter.send(()).unwrap();
        if is_first {
            waits.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        }
    };
    let builder = Builder::new().tick(MS).shards(1).manual_clock(&clock).on_earlier(hook);
    let engine: Engine<u64> = builder.build_with_handler(drop_all).unwrap();
    engine.schedule_detached(HOUR, 0).unwrap();
    engine.turn(0).unwrap();
    let of_later = engine.clone();
    let later = spawn(move || of_later.schedule_detached(MS * 100, 1).unwrap());
    entered.recv_timeout(PATIENCE).expect("it is earlier than the hour");
    let due = engine.now() + MS * 10;
    engine.schedule_detached(MS * 10, 2).unwrap();
    assert_eq!(engine.turn(0).unwrap().next, Some(due));
    go_on.send(()).unwrap();
    later.join().unwrap();
    assert_eq!(engine.turn(0).unwrap().next, Some(due));
    assert_eq!((engine.advance(MS * 10), engine.advance(MS * 90)), (Ok(1), Ok(1)));
}

// === the end of a queue: 974, 980, 1003 ===

/// There: a due call was taken out under a lock and made without it, when its queue was gone.
#[test]
fn no_callback_runs_into_what_its_owner_destroys_after_the_stop() {
    #[derive(Default)]
    struct Owned {
        is_gone: AtomicBool,
        ran_into_nothing: AtomicUsize,
    }
    let (random, mut ran) = (&mut Random::new(974), 0);
    for round in 0..scaled(100) {
        let owned = Arc::new(Owned::default());
        let of_handler = owned.clone();
        let handler = move |batch: Batch<'_, u64>| {
            for _ in batch {
                let is_gone = of_handler.is_gone.load(Ordering::SeqCst);
                of_handler.ran_into_nothing.fetch_add(usize::from(is_gone), Ordering::SeqCst);
            }
        };
        let engine = Builder::new().tick(20 * US).shards(2).build_with_handler(handler).unwrap();
        for n in 0..40 {
            engine.schedule_detached(US * (n * 7), u64::from(n)).unwrap();
        }
        (0..random.below(8)).for_each(|_| dawdle(random));
        // On a loaded machine, no thread of the engine may have run in any of the rounds.
        wait_until("some fire", || round > 0 || engine.stats().fired > 0);
        let returned = engine.stop().unwrap().len();
        owned.is_gone.store(true, Ordering::SeqCst);
        assert_eq!(Arc::strong_count(&owned), 1, "nobody is inside, and nobody comes any more");
        assert_eq!(owned.ran_into_nothing.load(Ordering::SeqCst), 0);
        ran += 40 - returned;
    }
    assert!(ran > 0, "some were due when the stop came");
}

/// There: what was submitted while the process went down met a queue that was released.
#[test]
fn what_is_scheduled_while_the_engine_goes_down_is_refused_or_comes_back() {
    let engine = Arc::new(OnceLock::<Engine<u64>>::new());
    let (of_hook, refused) = (Arc::downgrade(&engine), Arc::new(AtomicUsize::new(0)));
    let (count, calls) = (refused.clone(), AtomicUsize::new(0));
    let hook = move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) < 3 {
            let engine = of_hook.upgrade().expect("the test has it");
            let outcome = engine.get().unwrap().schedule_detached(MS, 1);
            count.fetch_add(usize::from(outcome.is_err()), Ordering::SeqCst);
        }
    };
    let builder = Builder::new().shards(3).manual_clock(&ManualClock::new()).on_earlier(hook);
    let engine = engine.get_or_init(|| builder.build_with_handler(drop_all).unwrap());
    (0..3).for_each(|shard| assert!(engine.turn(shard).is_ok()));
    let returned = engine.stop().unwrap().len();
    assert_eq!(returned + refused.load(Ordering::SeqCst), 3, "each hook's is accounted for");
}

// === rolled back: 998 ===

/// There: each use of a timer had a number, so that a cancel of the one before would not reach the
/// next; a start that met such a cancel was stranded, and the numbers were taken out again.
#[test]
fn a_cancel_of_the_timer_before_does_not_reach_the_next_in_its_place() {
    let (engine, (send, receive)) = (threaded(), mpsc::sync_channel::<Handle>(1));
    let cancel_all = move || receive.into_iter().for_each(|timer: Handle| _ = timer.cancel());
    let canceller = spawn(cancel_all);
    let random = &mut Random::new(998);
    for round in 0..scaled(800) {
        let (before, _) = schedule(&engine, US * 60);
        match round % 2 {
            // By another thread, at any time from now on; or here, so that the next has its seat.
            0 => send.send(before).unwrap(),
            _ => _ = before.cancel(),
        }
        dawdle(random);
        let (_next, fired) = schedule(&engine, US * 60);
        assert_fires(&fired);
    }
    drop(send);
    canceller.join().unwrap();
}

// === a spin: 1001 ===

/// There: the number that stood for "nothing is armed" was armed, as a time in the past; the timer
/// fired at once, and did the same again. (`tests/realtime/known_races.rs` counts wake-ups.)
#[test]
fn a_timer_that_never_comes_makes_nobody_spin() {
    let (engine, _, told) = driven(|_, _| ());
    let engine = engine.get().unwrap();
    let [mut never, mut moved] = [Duration::MAX, MS].map(|at| engine.schedule(at, 0).unwrap());
    assert!(never.reset(Duration::MAX).is_ok() && moved.reset(Duration::MAX).is_ok());
    assert_eq!(engine.advance(HOUR), Ok(0));
    told.try_iter().for_each(drop);
    let turn = engine.turn(0).unwrap();
    assert_eq!((turn.fired, turn.more, turn.next), (0, false, None));
    assert_eq!(told.try_iter().count(), 0);
}
