//! Engines that do not keep their promises, under the real service: the audit has to notice, and
//! the program to fail.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::args::{Args, Command};
use crate::engine::{Counts, Tickless, TimerEngine};
use crate::interrupt::Interrupt;
use crate::run::{Outcome, run};
use crate::verdict::verdict;

/// One timer in so many meets the wrong fate; and no reset of an engine that is deaf does anything.
const ONE_IN: u64 = 20;

const EARLY: u8 = 0;
const LOST: u8 = 1;
const TWICE: u8 = 2;
const DEAF: u8 = 3;

/// An engine with one fault.
#[derive(Clone)]
struct Unsound<const FAULT: u8> {
    sound: Tickless,
    armed: Arc<AtomicU64>,
}

impl<const FAULT: u8> Unsound<FAULT> {
    fn is_next_wrong(&self) -> bool {
        self.armed.fetch_add(1, Ordering::Relaxed) % ONE_IN == 0
    }
}

impl<const FAULT: u8> TimerEngine for Unsound<FAULT> {
    const NAME: &'static str = "unsound";

    type Handle = <Tickless as TimerEngine>::Handle;
    type Detached = ();

    fn start() -> io::Result<Self> {
        Ok(Unsound { sound: Tickless::start()?, armed: Arc::default() })
    }

    fn schedule(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self::Handle> {
        self.sound.schedule(delay, task)
    }

    fn schedule_detached(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<()> {
        match FAULT {
            // As early as can be: no machine is so slow that it is not.
            EARLY if self.is_next_wrong() => {
                task();
                Ok(())
            }
            LOST if self.is_next_wrong() => Ok(()),
            TWICE if self.is_next_wrong() => {
                let twice = move || (0..2).for_each(|_| task());
                self.sound.schedule_detached(delay, twice)
            }
            _ => self.sound.schedule_detached(delay, task),
        }
    }

    fn reset(&self, handle: &mut Self::Handle, delay: Duration) -> io::Result<bool> {
        // It says yes and does nothing.
        if FAULT == DEAF { Ok(true) } else { self.sound.reset(handle, delay) }
    }

    fn cancel(&self, handle: Self::Handle) -> bool {
        self.sound.cancel(handle)
    }

    fn stop(self) -> io::Result<Option<Counts>> {
        // Its own counts would give it away: the audit has to find it without them.
        self.sound.stop().map(|_| None)
    }
}

/// Runs the service on the engine, for longer and longer, until the fault has had its effect: on a
/// machine that gets little done in the time, or is late by as much as a fault, it has none. After
/// minutes, it goes unnoticed.
fn shows<const FAULT: u8>(effect: impl Fn(&Outcome) -> bool) -> bool {
    ["1", "4", "16", "64", "256"].into_iter().any(|seconds| {
        let outcome = outcome_of::<FAULT>(seconds);
        let is_shown = effect(&outcome);
        if is_shown {
            assert!(verdict(&outcome).starts_with("NOT WELL: "), "{outcome:?}");
            assert_eq!(crate::exit_code(&[outcome]), crate::VIOLATION);
        }
        is_shown
    })
}

fn outcome_of<const FAULT: u8>(seconds: &str) -> Outcome {
    let args = ["tickless-demo", "--seconds", seconds, "--connections", "40", "--json"];
    let args: Args = match Command::parse(args.map(Into::into)) {
        Ok(Command::Run(args)) => args,
        other => panic!("{other:?}"),
    };
    run::<Unsound<FAULT>>(&args, &Interrupt::default()).expect("it runs")
}

#[test]
fn an_engine_that_fires_early_fails() {
    assert!(shows::<EARLY>(|outcome| outcome.books.early > 0));
}

#[test]
fn an_engine_that_loses_timers_fails() {
    assert!(shows::<LOST>(|outcome| outcome.books.lost > 0));
}

#[test]
fn an_engine_that_fires_twice_fails() {
    assert!(shows::<TWICE>(|outcome| outcome.books.duplicate > 0));
}

#[test]
fn an_engine_that_only_claims_to_reset_fails() {
    assert!(shows::<DEAF>(|outcome| outcome.books.early > 0));
}
