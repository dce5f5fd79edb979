//! When periodic tasks run: on a clock that is moved by hand, to the nanosecond.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::boxed::Boxed;
use support::compiled;
use support::scaled;
use tickless::periodic::{
    Attempt, Backoff, End, Heartbeat, Periodic, Retry, Run, Schedule, StartReason,
};
use tickless::wait::WaitError;
use tickless::{Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

const US: Duration = Duration::from_micros(1);

/// An engine with ticks of a millisecond, its clock, and when tasks said that they ran.
struct Bench {
    clock: ManualClock,
    engine: Engine,
    begin: Instant,
    log: Log,
}

/// Times since the beginning: of the run, and of its deadline.
type Log = Arc<Mutex<Vec<(Duration, Duration)>>>;

impl Bench {
    fn new() -> Bench {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        let begin = engine.now();
        Bench { clock, engine, begin, log: Log::default() }
    }

    /// Starts a task that says when it runs, and takes as long as `takes` says of its number.
    fn start(
        &self,
        schedule: Schedule,
        takes: impl Fn(u64) -> Duration + Send + 'static,
    ) -> Periodic {
        let (clock, log, begin) = (self.clock.clone(), self.log.clone(), self.begin);
        let task = compiled::task(move |run: &Run| {
            log.lock().unwrap().push((clock.elapsed(), run.deadline() - begin));
            clock.advance(takes(run.number()));
        });
        schedule.start(&self.engine, task).unwrap()
    }

    /// When each run ran, in microseconds.
    fn ran(&self) -> Vec<u128> {
        self.log.lock().unwrap().iter().map(|(ran, _)| ran.as_micros()).collect()
    }

    /// When each run was due, in microseconds.
    fn due(&self) -> Vec<u128> {
        self.log.lock().unwrap().iter().map(|(_, due)| due.as_micros()).collect()
    }

    /// In how many different ticks the last runs took place.
    fn ticks_of_the_last(&self, runs: usize) -> usize {
        let ran = self.ran();
        let ticks: BTreeSet<_> = ran[ran.len() - runs..].iter().map(|us| us / 1_000).collect();
        ticks.len()
    }

    fn advance(&self, by: Duration) {
        self.engine.advance(by).unwrap();
    }
}

fn no_time(_: u64) -> Duration {
    Duration::ZERO
}

#[test]
fn a_fixed_rate_runs_one_period_after_the_start_and_then_each_period() {
    let bench = Bench::new();
    bench.advance(MS * 7);
    let periodic = bench.start(Schedule::fixed_rate(MS * 10), no_time);
    assert_eq!(periodic.next_deadline(), Some(bench.begin + MS * 17));
    bench.advance(MS * 9);
    assert_eq!((bench.ran().len(), periodic.runs()), (0, 0));
    bench.advance(MS * 40);
    assert_eq!(bench.ran(), [17_000, 27_000, 37_000, 47_000]);
    assert_eq!(periodic.next_deadline(), Some(bench.begin + MS * 57));
    assert_eq!((periodic.runs(), periodic.missed()), (4, 0));
}

#[test]
fn each_run_of_a_period_between_ticks_falls_on_the_tick_after_its_deadline() {
    let bench = Bench::new();
    bench.start(Schedule::fixed_rate(US * 1_300), no_time);
    bench.advance(MS * 7);
    assert_eq!(bench.due(), [1_300, 2_600, 3_900, 5_200, 6_500]);
    assert_eq!(bench.ran(), [2_000, 3_000, 4_000, 6_000, 7_000]);
}

#[test]
fn a_fixed_rate_does_not_drift_over_many_thousand_runs() {
    let runs = scaled(100_000) as u32;
    let bench = Bench::new();
    let period = Duration::from_nanos(1_234_567);
    // Each run takes a while, but less than a period.
    let periodic = bench.start(Schedule::fixed_rate(period), |number| US * (number % 200) as u32);
    bench.advance(period * runs + MS);
    assert_eq!((periodic.runs(), periodic.missed()), (u64::from(runs), 0));
    let log = bench.log.lock().unwrap();
    for (number, (ran, due)) in (1..).zip(log.iter()) {
        assert_eq!(*due, period * number);
        assert!(ran >= due && *ran - *due < MS + US * 200, "run {number}: {ran:?} for {due:?}");
    }
}

#[test]
fn a_task_slower_than_its_period_skips_what_it_missed_and_says_so() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_rate(MS * 10), |_| MS * 25);
    bench.advance(MS * 10);
    // From 10 to 35: 20 and 30 have passed.
    assert_eq!((periodic.runs(), periodic.missed()), (1, 2));
    assert_eq!(periodic.next_deadline(), Some(bench.begin + MS * 40));
    bench.advance(MS * 60);
    assert_eq!(bench.ran(), [10_000, 40_000, 70_000]);
    assert_eq!(bench.due(), bench.ran());
    assert_eq!(periodic.missed(), 6);
    assert_eq!(bench.engine.len(), 1, "nothing piles up");
}

#[test]
fn a_run_that_takes_exactly_a_period_misses_nothing() {
    let bench = Bench::new();
    let takes = |number| if number < 4 { MS * 10 } else { MS };
    let periodic = bench.start(Schedule::fixed_rate(MS * 10), takes);
    bench.advance(MS * 30);
    assert_eq!((bench.due(), periodic.missed()), (vec![10_000, 20_000, 30_000, 40_000], 0));
}

#[test]
fn what_is_caught_up_with_runs_one_after_another_until_it_is() {
    let bench = Bench::new();
    let takes = |number| if number == 1 { MS * 45 } else { MS };
    let periodic = bench.start(Schedule::fixed_rate(MS * 10).catching_up(), takes);
    bench.advance(MS * 80);
    assert_eq!(bench.due(), [10, 20, 30, 40, 50, 60, 70, 80].map(|ms| ms * 1_000));
    assert_eq!(bench.ran(), [10, 55, 56, 57, 58, 60, 70, 80].map(|ms| ms * 1_000));
    assert_eq!(periodic.missed(), 0);
}

#[test]
fn a_leap_of_the_clock_costs_the_runs_that_it_leapt_over() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_rate(MS * 10), no_time);
    bench.clock.advance(MS * 1_005);
    bench.advance(Duration::ZERO);
    assert_eq!((periodic.runs(), periodic.missed()), (1, 99));
    assert_eq!(periodic.next_deadline(), Some(bench.begin + MS * 1_010));
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_the_run() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_delay(MS * 10), |number| MS * number as u32);
    bench.advance(MS * 60);
    assert_eq!(bench.ran(), [10_000, 21_000, 33_000, 46_000, 60_000]);
    assert_eq!((bench.due(), periodic.missed()), (bench.ran(), 0));
}

#[test]
fn after_a_pause_runs_armed_from_the_present_stay_in_one_tick_and_those_that_are_spread_part() {
    const MANY: u32 = 11;
    let period = MS * 1_000;
    let from_the_present = |nth| Schedule::fixed_delay(period).starting(MS + MS * 80 * nth);
    let spread = |_| Schedule::fixed_rate(period).starting(Duration::ZERO).spread();
    let cases: [(&dyn Fn(u32) -> Schedule, usize); 2] = [(&from_the_present, 1), (&spread, 11)];
    for (schedule, ticks) in cases {
        let bench = Bench::new();
        for nth in 0..MANY {
            bench.start(schedule(nth), no_time);
        }
        bench.advance(period);
        assert_eq!((bench.ran().len(), bench.ticks_of_the_last(11)), (11, 11));
        // The process pauses, so all are late together.
        bench.clock.advance(period * 3 / 2);
        bench.advance(Duration::ZERO);
        assert_eq!((bench.ran().len(), bench.ticks_of_the_last(11)), (22, 1));
        for round in 3..20 {
            bench.advance(period);
            assert_eq!((bench.ran().len(), bench.ticks_of_the_last(11)), (11 * round, ticks));
        }
    }
}

#[test]
fn a_phase_is_below_a_period_and_counts_from_the_first_run_that_was_chosen() {
    let bench = Bench::new();
    for _ in 0..100 {
        let schedule = Schedule::fixed_rate(MS * 10).starting(MS * 5).spread();
        let first = bench.start(schedule, no_time).next_deadline().unwrap() - bench.begin;
        assert!((MS * 5..MS * 15).contains(&first), "{first:?}");
    }
    // What has no grid has no phase.
    let delayed = bench.start(Schedule::fixed_delay(MS * 10).spread(), no_time);
    assert_eq!(delayed.next_deadline(), Some(bench.begin + MS * 10));
}

/// Tenants that each have jobs of the same periods, and start them one after another.
#[test]
fn what_has_one_period_is_spread_over_it_whatever_else_is_started_in_between() {
    const TENANTS: usize = 20;
    for jobs in [1, 2, 21, 144] {
        let bench = Bench::new();
        let period = |job: u32| MS * (777 + 1_000 * job);
        let mut phases = Vec::new();
        for _ in 0..TENANTS {
            for job in 0..jobs {
                let schedule = Schedule::fixed_rate(period(job)).starting(Duration::ZERO).spread();
                let first = bench.start(schedule, no_time).next_deadline().unwrap();
                phases.extend((job == 0).then_some(first - bench.begin));
            }
        }
        phases.sort();
        phases.push(phases[0] + period(0));
        let gap = phases.windows(2).map(|two| two[1] - two[0]).max().unwrap();
        assert!(gap <= period(0) / 8, "{jobs} jobs: {gap:?} without any");
    }
}

#[test]
fn the_first_run_may_be_at_a_chosen_time() {
    for is_rate in [true, false] {
        let schedule = || match is_rate {
            true => Schedule::fixed_rate(MS * 10),
            false => Schedule::fixed_delay(MS * 10),
        };
        let bench = Bench::new();
        bench.start(schedule().starting(MS * 3), no_time);
        bench.start(schedule().starting(bench.begin + MS * 5), no_time);
        bench.advance(MS * 20);
        assert_eq!(bench.ran(), [3_000, 5_000, 13_000, 15_000]);
    }
}

#[test]
fn what_starts_at_once_runs_in_the_next_turn_and_not_in_start() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_rate(MS).starting(Duration::ZERO), no_time);
    assert_eq!(periodic.runs(), 0);
    bench.advance(Duration::ZERO);
    assert_eq!((periodic.runs(), bench.ran()), (1, vec![0]));
}

#[test]
fn a_first_run_in_the_past_runs_at_once_and_the_grid_stays_where_it_is() {
    let bench = Bench::new();
    bench.advance(MS * 25);
    let schedule = Schedule::fixed_rate(MS * 10).starting(bench.begin + MS * 2);
    let periodic = bench.start(schedule, no_time);
    bench.advance(MS * 10);
    assert_eq!((bench.ran(), bench.due()), (vec![25_000, 32_000], vec![2_000, 32_000]));
    assert_eq!(periodic.missed(), 2);
}

#[test]
fn a_closure_says_when_from_the_last_time_to_the_next_until_it_says_no_more() {
    let bench = Bench::new();
    let (asked, begin) = (Log::default(), bench.begin);
    let seen = asked.clone();
    let mut left = [5, 1, 20].into_iter();
    let schedule = Schedule::from_fn(move |last| {
        seen.lock().unwrap().push((last - begin, Duration::ZERO));
        left.next().map(|ms| last + MS * ms)
    });
    let periodic = bench.start(schedule, |_| US * 1_500);
    bench.advance(MS * 100);
    // What a run takes is not in it, unless the closure looks at the clock.
    assert_eq!(bench.due(), [5_000, 6_000, 26_000]);
    assert_eq!(bench.ran(), [5_000, 6_500, 26_000]);
    let asked: Vec<_> = asked.lock().unwrap().iter().map(|(last, _)| last.as_micros()).collect();
    assert_eq!(asked, [0, 5_000, 6_000, 26_000]);
    assert_eq!((periodic.end(), periodic.next_deadline()), (Some(End::Finished), None));
    assert!(!periodic.cancel() && bench.engine.is_empty());
}

#[test]
fn a_closure_may_begin_at_a_chosen_time_and_may_end_it_before_it_began() {
    let bench = Bench::new();
    let schedule = Schedule::from_fn(|last| Some(last + MS * 7)).starting(MS * 2);
    bench.start(schedule, no_time);
    bench.advance(MS * 20);
    assert_eq!(bench.ran(), [2_000, 9_000, 16_000]);

    let error =
        Schedule::from_fn(|_| None).start(&bench.engine, compiled::task(|_| ())).unwrap_err();
    assert_eq!(error.reason(), StartReason::NoRun);
    assert_eq!(bench.engine.len(), 1);
}

#[test]
fn no_period_no_delay_and_no_engine_are_refused_and_give_the_task_back() {
    let bench = Bench::new();
    let task = |_: &Run| ();
    for schedule in [Schedule::fixed_rate(Duration::ZERO), Schedule::fixed_delay(Duration::ZERO)] {
        let error = schedule.start(&bench.engine, compiled::task(task)).unwrap_err();
        assert_eq!(error.reason(), StartReason::ZeroPeriod);
    }
    assert!(bench.engine.stop().unwrap().is_empty());
    let precious = String::from("precious");
    let task = compiled::task(move |_: &Run| assert!(!precious.is_empty()));
    let error = bench.engine.every(MS, task).unwrap_err();
    assert_eq!(error.reason(), StartReason::Stopped);
    drop(error.into_payload());
}

/// An engine of payloads of a user's, beside what repeats, which drops that if `drops` says so.
fn typed(drops: bool) -> (Engine<Boxed>, Arc<Mutex<Vec<&'static str>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let told = log.clone();
    let builder = Builder::new().shards(1).max_pending(2).manual_clock(&ManualClock::new());
    let engine = builder.build_each(move |payload: Boxed| match payload.open() {
        Ok(what) => told.lock().unwrap().push(what),
        Err(due) if drops => drop(due),
        Err(due) => Boxed::run(due),
    });
    (engine.unwrap(), log)
}

#[test]
fn a_periodic_runs_on_an_engine_of_other_payloads_and_finds_its_own_handle() {
    let (engine, log) = typed(false);
    let (own, told) = (Arc::new(Mutex::new(None::<Periodic>)), log.clone());
    let kept = own.clone();
    let task = compiled::task(move |run: &Run| {
        told.lock().unwrap().push("again");
        if run.number() == 3 {
            assert!(own.lock().unwrap().take().expect("it was kept first").cancel());
        }
    });
    let schedule = Schedule::fixed_rate(MS).starting(Duration::ZERO);
    schedule.start_with(&engine, task, |periodic| *kept.lock().unwrap() = Some(periodic)).unwrap();
    engine.schedule_detached(MS * 2, Boxed::new("once")).unwrap();
    assert_eq!(engine.advance(MS * 10).unwrap(), 4);
    let mut log = log.lock().unwrap().clone();
    assert_eq!(log.len(), 4);
    log.retain(|what| *what == "again");
    assert_eq!(log.len(), 3);
    assert_eq!(engine.len(), 0);
    assert_eq!(engine.stats().unended, 0);
}

/// Bursts take all the room that there is, again and again.
#[test]
fn whatever_was_accepted_goes_on_in_a_full_engine() {
    let builder = Builder::new().shards(1).max_pending(100).manual_clock(&ManualClock::new());
    let engine = builder.build().unwrap();
    let periodics: Vec<_> =
        (1..=30).map(|n| engine.every(MS * n, compiled::task(|_| ())).unwrap()).collect();
    let beats: Vec<_> = (2..=31)
        .map(|n| Heartbeat::new(&engine, MS * n, compiled::silent(|| panic!("silent"))).unwrap())
        .collect();
    let (attempts, told) = std::sync::mpsc::channel();
    let retries = (1..=30).map(|n| {
        let attempts = attempts.clone();
        let attempt = move |attempt: Attempt<(), ()>| attempts.send(attempt).unwrap();
        let retry = Retry::new(Backoff::new(MS * n)).attempt_timeout(MS * 3);
        retry.start(&engine, attempt, drop).unwrap()
    });
    let retries: Vec<_> = retries.collect();
    for _ in 0..200 {
        while engine.schedule_detached(MS, || ()).is_ok() {}
        beats.iter().for_each(|beat| assert!(beat.beat()));
        engine.advance(MS / 2).unwrap();
        while engine.schedule_detached(MS, || ()).is_ok() {}
        engine.advance(MS / 2).unwrap();
    }
    for (periodic, n) in periodics.iter().zip(1..) {
        assert_eq!((periodic.end(), periodic.runs()), (None, 200 / n));
    }
    assert!(retries.iter().all(|retry| retry.end().is_none()));
    // Each was given up after three milliseconds, and came again.
    assert!(told.try_iter().count() > 30 * 2);
    drop(beats);
    periodics.into_iter().for_each(|periodic| assert!(periodic.cancel()));
    retries.into_iter().for_each(|retry| assert!(retry.cancel()));
    engine.advance(MS * 2).unwrap();
    assert!(engine.is_empty());
    let room = (0..).take_while(|_| engine.schedule_detached(MS, || ()).is_ok()).count();
    assert_eq!(room, 100, "all of it is back");
}

#[test]
fn a_periodic_whose_payload_a_handler_drops_ends_as_with_its_engine() {
    let (engine, _log) = typed(true);
    let mut kept = None;
    Schedule::fixed_rate(MS)
        .start_with(&engine, compiled::task(|_| ()), |periodic| kept = Some(periodic))
        .unwrap();
    assert_eq!(engine.advance(MS * 10).unwrap(), 1);
    let periodic = kept.expect("it has started");
    assert_eq!((periodic.runs(), periodic.end()), (0, Some(End::Stopped)));
}

#[test]
fn the_handle_of_a_periodic_that_was_refused_is_of_one_that_is_over() {
    for (is_stopped, reason, end) in
        [(false, StartReason::Full, End::Full), (true, StartReason::Stopped, End::Stopped)]
    {
        let (engine, _log) = typed(false);
        for _ in 0..2 {
            engine.schedule_detached(MS, Boxed::new("full")).unwrap();
        }
        if is_stopped {
            engine.stop().unwrap();
        }
        let mut kept = None;
        let error = Schedule::fixed_rate(MS)
            .start_with(&engine, compiled::task(|_| ()), |periodic| kept = Some(periodic))
            .unwrap_err();
        assert_eq!(error.reason(), reason);
        let kept = kept.expect("it was kept first");
        assert_eq!(kept.end(), Some(end));
        assert_eq!(kept.cancel_wait_within(Duration::ZERO), Ok(end));
    }
}

#[test]
fn a_periodic_that_is_cancelled_before_it_has_started_is_over_and_has_no_timer() {
    let (engine, _log) = typed(false);
    let (token, mut kept) = (Arc::new(()), None);
    let owned = token.clone();
    let keep = |periodic: Periodic| {
        assert_eq!(periodic.cancel_wait(), Err(WaitError::InsideTask), "it is being started");
        kept = Some(periodic);
    };
    Schedule::fixed_rate(MS)
        .start_with(&engine, compiled::task(move |_| _ = &owned), keep)
        .unwrap();
    assert_eq!((engine.len(), Arc::strong_count(&token)), (0, 1));
    assert_eq!(kept.unwrap().cancel_wait_within(Duration::ZERO), Ok(End::Cancelled));
}

#[test]
fn periods_too_long_to_represent_never_end() {
    let bench = Bench::new();
    let never = [
        bench.start(Schedule::fixed_rate(Duration::MAX), no_time),
        bench.start(Schedule::fixed_delay(Duration::MAX), no_time),
        bench.start(Schedule::fixed_rate(MS).starting(Duration::MAX), no_time),
    ];
    let once = Schedule::fixed_rate(Duration::MAX).starting(Duration::ZERO);
    let once = bench.start(once, no_time);
    bench.advance(Duration::from_secs(1 << 32));
    assert!(never.iter().all(|periodic| periodic.runs() == 0));
    assert!(never.iter().all(|periodic| periodic.next_deadline().is_none()));
    assert_eq!(once.runs(), 1);
    assert!(never.iter().all(Periodic::cancel) && once.cancel());
    assert!(bench.engine.is_empty());
}

#[test]
fn a_period_of_a_nanosecond_runs_each_tick_and_misses_the_rest() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_rate(Duration::from_nanos(1)), no_time);
    bench.clock.advance(MS);
    let turn = bench.engine.turn(0).unwrap();
    // That of the present tick as well: what is due within a tick has one run.
    assert_eq!((turn.fired, periodic.runs(), periodic.missed()), (1, 1, 999_999));
    assert_eq!(bench.engine.turn(0).unwrap().fired, 0);
}

#[test]
fn a_period_shorter_than_a_tick_runs_once_in_each_and_stays_on_its_grid() {
    let bench = Bench::new();
    let [half, third, other] = [500, 333, 700].map(|us| {
        let (schedule, log) = (Schedule::fixed_rate(US * us), Log::default());
        let own = Bench { clock: bench.clock.clone(), engine: bench.engine.clone(), log, ..bench };
        (own.start(schedule, no_time), own)
    });
    bench.advance(MS * 10);
    for (periodic, own) in [&half, &third, &other] {
        assert_eq!(own.ran(), (1..=10).map(|ms| ms * 1_000).collect::<Vec<_>>());
        assert_eq!(periodic.runs(), 10);
    }
    assert_eq!(half.1.due(), (0..10).map(|ms| ms * 1_000 + 500).collect::<Vec<_>>());
    // 30 times of its grid have come by then, and 14 of the other's.
    assert_eq!((half.0.missed(), third.0.missed(), other.0.missed()), (10, 20, 4));
    assert!(third.1.due().iter().all(|us| us % 333 == 0));
    assert!(other.1.due().iter().all(|us| us % 700 == 0));
    // One that comes late in the middle of a tick, and one at its very beginning.
    bench.clock.advance(US * 2_500);
    bench.advance(Duration::ZERO);
    assert_eq!((half.0.runs(), half.0.missed()), (11, 14));
    bench.advance(US * 500);
    assert_eq!((half.0.runs(), half.0.missed()), (12, 14), "at 13 ms");
}

#[test]
fn a_period_shorter_than_a_tick_that_catches_up_runs_as_often_as_it_says() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_rate(US * 400).catching_up(), no_time);
    bench.advance(MS * 10);
    assert_eq!((periodic.runs(), periodic.missed()), (25, 0));
    assert_eq!(bench.due(), (1..=25).map(|n| n * 400).collect::<Vec<_>>());
}

#[test]
fn a_task_is_cancelled_from_inside_by_its_run_and_by_its_handle() {
    let bench = Bench::new();
    let handle: Arc<Mutex<Option<Periodic>>> = Arc::default();
    let inside = handle.clone();
    let task = compiled::task(move |run: &Run| {
        if run.number() == 3 {
            let periodic = inside.lock().unwrap().take().unwrap();
            assert!(periodic.is_running());
            assert!(periodic.cancel(), "it was running");
            assert!(!periodic.is_running() && !run.cancel() && !periodic.cancel());
        }
    });
    let periodic = bench.engine.every(MS, task).unwrap();
    *handle.lock().unwrap() = Some(periodic.clone());
    bench.advance(MS * 10);
    assert_eq!((periodic.runs(), periodic.end()), (3, Some(End::Cancelled)));
    assert_eq!((bench.engine.len(), bench.engine.stats().panicked), (0, 0));
    assert_eq!(Arc::strong_count(&handle), 1, "the task is gone");
}

#[test]
fn one_handle_cancels_whichever_run_comes_next() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_rate(MS), no_time);
    bench.advance(MS * 1_000);
    assert_eq!(bench.engine.len(), 1);
    assert!(periodic.cancel() && !periodic.cancel());
    assert_eq!((bench.engine.len(), periodic.runs()), (0, 1_000));
    bench.advance(MS * 1_000);
    assert_eq!(periodic.runs(), 1_000);
}

#[test]
fn a_periodic_may_start_others_and_cancel_them() {
    let bench = Bench::new();
    let engine = bench.engine.clone();
    let mut last: Option<Periodic> = None;
    let task = compiled::task(move |_: &Run| {
        let next = engine.every(MS * 3, compiled::task(|_| ())).unwrap();
        if let Some(last) = last.replace(next) {
            assert_eq!(last.runs(), 3);
            assert!(last.cancel());
        }
    });
    let periodic = bench.engine.every(MS * 10, task).unwrap();
    bench.advance(MS * 100 + US);
    assert_eq!((periodic.runs(), bench.engine.stats().panicked), (10, 0));
    assert_eq!(bench.engine.len(), 2);
    assert!(periodic.cancel());
    assert_eq!(bench.engine.len(), 1, "the last of the others goes on");
}

#[test]
fn a_guard_cancels_when_it_goes_unless_the_handle_is_taken_back() {
    let bench = Bench::new();
    let periodic = bench.start(Schedule::fixed_rate(MS), no_time).cancel_on_drop().into_handle();
    {
        let guard = periodic.clone().cancel_on_drop();
        bench.advance(MS);
        assert_eq!(guard.runs(), 1);
    }
    assert_eq!((periodic.end(), bench.engine.len()), (Some(End::Cancelled), 0));
}

#[test]
fn a_run_knows_its_number_its_deadline_and_how_late_it_is() {
    let bench = Bench::new();
    let (begin, clock) = (bench.begin, bench.clock.clone());
    let task = compiled::task(move |run: &Run| {
        let expected = [(1, 10, 0), (2, 20, 15), (3, 40, 0)][run.number() as usize - 1];
        let (number, due, late) = expected;
        assert_eq!((run.number(), run.deadline()), (number, begin + MS * due));
        assert_eq!(run.lateness(), MS * late);
        assert_eq!(run.missed(), number / 3);
        if number == 2 {
            assert!(run.lateness() == clock.elapsed() - MS * 20);
        }
    });
    let periodic = Schedule::fixed_rate(MS * 10).start(&bench.engine, task).unwrap();
    bench.advance(MS * 10);
    bench.clock.advance(MS * 25);
    bench.advance(MS * 5);
    assert_eq!((periodic.runs(), bench.engine.stats().panicked), (3, 0));
}
