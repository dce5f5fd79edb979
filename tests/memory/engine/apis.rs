//! What the higher-level APIs allocate.

use super::*;

#[test]
fn what_repeats_allocates_when_it_starts_and_not_for_its_runs_beats_and_attempts() {
    let _alone = alone();
    let engine = closures();
    let schedules = [
        Schedule::fixed_rate(MS),
        Schedule::fixed_rate(MS / 3).catching_up(),
        Schedule::fixed_delay(MS * 5),
        Schedule::from_fn(|last| Some(last + MS)),
    ];
    let ballast = [1_u64; 20];
    let task = move |run: &Run| {
        black_box((run.number(), &ballast));
    };
    let start = |schedule: Schedule| schedule.start(&engine, task).unwrap();
    let periodics = schedules.map(start);
    let on_silence = move || {
        black_box(&ballast);
    };
    let heartbeat = Heartbeat::new(&engine, MS * 7, on_silence).unwrap();
    let attempt = move |number| if black_box(ballast)[0] == 1 { Err(number) } else { Ok(()) };
    let retry = Retry::new(Backoff::new(MS).factor(1.0)).run(&engine, attempt, drop).unwrap();
    let mut unanswered = None::<Attempt<(), ()>>;
    let timed = Retry::new(Backoff::new(MS).factor(1.0))
        .attempt_timeout(MS)
        .start(&engine, move |attempt| drop(unanswered.replace(attempt)), drop)
        .unwrap();
    allocates_nothing("what was started", || {
        engine.advance(MS).unwrap();
        assert!(heartbeat.beat());
    });
    let many = scaled(1000);
    assert!(periodics.iter().all(|it| it.runs() > many) && u64::from(retry.attempts()) > many);
    assert!(u64::from(timed.attempts()) > many / 2, "each took its limit and a pause");

    let before = made_here();
    let run = start(Schedule::fixed_rate(MS));
    let peer = Heartbeat::new(&engine, MS, on_silence).unwrap();
    assert_eq!(made_here() - before, 2, "one for each, whatever was captured");
    assert!(run.cancel() && peer.stop() && heartbeat.stop() && retry.cancel());
    assert!(timed.cancel());
    assert!(periodics.iter().all(|periodic| periodic.cancel()) && engine.is_empty());
}

#[test]
fn a_scope_allocates_for_the_most_that_is_pending_and_nothing_while_it_is_empty() {
    let _alone = alone();
    let engine = closures();
    allocates_nothing("a scope without timers", || drop(engine.scope()));
    let mut connection = engine.scope();
    allocates_nothing("a timer for each request, which fires", || {
        connection.schedule(MS * 10, || ()).unwrap();
        engine.advance(MS).unwrap();
    });
    assert_eq!(connection.cancel_all(), 9);
    allocates_nothing("a timer for each request, which is cancelled with the rest", || {
        (0..9).for_each(|n| drop(connection.schedule(HOUR + MS * n, || ())));
        assert_eq!(connection.cancel_all(), 9);
    });
}

#[test]
fn what_repeats_leaves_nothing_when_it_has_ended() {
    let _alone = alone();
    let engine = closures();
    let step = || {
        let periodic = Schedule::fixed_rate(MS).start(&engine, |_| ()).unwrap();
        let heartbeat = Heartbeat::new(&engine, MS * 2, || ()).unwrap();
        let retry = Retry::new(Backoff::new(MS)).attempts(2);
        drop(retry.run(&engine, |_| Err::<(), _>(()), drop).unwrap());
        engine.advance(MS * 3).unwrap();
        assert!(heartbeat.has_fired() && periodic.cancel());
    };
    (0..1000).for_each(|_| step());
    let before = live();
    (0..scaled(1000)).for_each(|_| step());
    let left = live().blocks - before.blocks;
    // The harness begins threads meanwhile, which takes a few blocks.
    assert!(left < scaled(1000) as i64 / 4, "{left} blocks of {} steps", scaled(1000));
}
