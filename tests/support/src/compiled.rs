//! An engine's code is compiled for each type of payload, in each program that has one. For these
//! types it is compiled here, and the programs of tests only link it: a test whose subject is not
//! the payload's type takes one of them.

use tickless::periodic::Run;

/// A task that repeats, in a box: what is compiled for each type of task, is compiled once then.
pub fn task(task: impl FnMut(&Run) + Send + 'static) -> Box<dyn FnMut(&Run) + Send> {
    Box::new(task)
}

/// The same for the end of a heartbeat.
pub fn silent(end: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
    Box::new(end)
}

/// Nobody calls it. (In the gate, a sanitizer has one program, which compiles what it needs.)
#[cfg(not(any(asan, tsan)))]
pub mod here {
    use std::time::Duration;

    use tickless::periodic::Heartbeat;
    use tickless::wait::Guarded;
    use tickless::{Builder, Driver, Engine, Handle, ManualClock};

    use crate::boxed::Boxed;
    use crate::token::Token;

    pub fn engines() {
        engine_of::<Boxed>(Vec::new());
        engine_of::<Guarded<u32>>(Vec::new());
        engine_of::<u64>(Vec::new());
        engine_of::<Token>(Vec::new());
    }

    pub fn repeats(engine: &Engine) {
        let _ = engine.every(Duration::ZERO, super::task(|_| ()));
        let _ = Heartbeat::new(engine, Duration::ZERO, super::silent(|| ()));
    }

    /// Calls what tests call of an engine.
    fn engine_of<T: Send + 'static>(payloads: Vec<T>) {
        let builder = Builder::new().manual_clock(&ManualClock::new()).driver(Driver::Caller);
        let engine: Engine<T> =
            builder.build_typed(|batch| batch.for_each(drop)).expect("it is valid");
        let schedule = |payload: T| engine.schedule(Duration::ZERO, payload).map_err(drop);
        for payload in payloads {
            let Ok(mut handle) = schedule(payload) else { continue };
            let _ = (handle.reset(Duration::ZERO), handle.state(), handle.deadline());
            let taken = handle.take().and_then(|payload| schedule(payload).ok());
            taken.into_iter().for_each(|handle: Handle<T>| _ = handle.cancel());
        }
        let _ = (engine.turn(0), engine.turn_at_most(0, 1), engine.take_over(0));
        let _ = (engine.len(), engine.stats(), engine.overdue(), engine.snapshot(), engine.check());
        let _ = (engine.stop_within(Duration::ZERO), engine.stop());
    }
}
