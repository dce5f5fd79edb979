//! Scopes that are cancelled, on any thread, while their timers fire: each payload meets one fate.

use std::thread;
use std::time::Duration;

use support::mpsc;
use support::random::{Random, dawdle};
use support::scaled;
use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::scope::Scope;
use tickless::{Batch, Builder, Engine};

/// The timers of one scope.
const TIMERS: usize = 40;

fn engine() -> Engine<Token> {
    let run_all = |batch: Batch<'_, Token>| batch.for_each(|token| token.run());
    let builder = Builder::new().tick(Duration::from_micros(20)).shards(2);
    builder.build_with_handler(run_all).unwrap()
}

/// A scope whose timers are due about now.
fn filled(engine: &Engine<Token>, random: &mut Random) -> (Scope<Token>, Fates) {
    let (mut scope, fates) = (engine.scope(), Fates::new(TIMERS));
    for number in 0..TIMERS {
        let delay = Duration::from_micros(random.below(400));
        scope.schedule(delay, fates.token(number)).unwrap();
    }
    (scope, fates)
}

/// Asserts that of each timer that was cancelled nothing runs, and that the others do, once.
fn close(engine: &Engine<Token>, all: Vec<(Fates, Option<usize>)>) {
    // Nothing may be on its way any more, because a stop would return it.
    let is_settled = |fates: &Fates| (0..TIMERS).all(|number| fates.of(number).1 > 0);
    while !all.iter().all(|(fates, _)| is_settled(fates)) {
        thread::yield_now();
    }
    assert!(engine.stop().unwrap().is_empty());
    for (fates, cancelled) in all {
        let ran = (0..TIMERS).filter(|&number| fates.of(number) == (1, 1)).count();
        let dropped = (0..TIMERS).filter(|&number| fates.of(number) == (0, 1)).count();
        assert_eq!(ran + dropped, TIMERS);
        assert!(cancelled.is_none_or(|cancelled| cancelled == dropped));
    }
}

#[test]
fn cancelling_all_says_how_many_will_not_run() {
    let (engine, mut random) = (engine(), Random::new(11));
    let mut all = Vec::new();
    for _ in 0..scaled(300) {
        let (mut scope, fates) = filled(&engine, &mut random);
        dawdle(&mut random);
        all.push((fates, Some(scope.cancel_all())));
    }
    close(&engine, all);
}

#[test]
fn taking_all_returns_what_will_not_run() {
    let (engine, mut random) = (engine(), Random::new(12));
    let mut all = Vec::new();
    for _ in 0..scaled(300) {
        let (mut scope, fates) = filled(&engine, &mut random);
        dawdle(&mut random);
        all.push((fates, Some(scope.take_all().len())));
    }
    close(&engine, all);
}

#[test]
fn scopes_are_dropped_on_other_threads_while_their_timers_fire() {
    let (engine, mut random) = (engine(), Random::new(13));
    let mut all = Vec::new();
    let (sender, receiver) = mpsc::channel::<Scope<Token>>();
    let dropper = spawn(move || receiver.into_iter().for_each(drop));
    for _ in 0..scaled(300) {
        let (scope, fates) = filled(&engine, &mut random);
        dawdle(&mut random);
        sender.send(scope).unwrap();
        all.push((fates, None));
    }
    drop(sender);
    dropper.join().unwrap();
    close(&engine, all);
}
