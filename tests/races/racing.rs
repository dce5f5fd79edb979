//! Engines to race on: one whose reaper's thread is woken, and one that a test drives step by step.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use tickless::{Batch, Builder, Engine, Handle, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// An engine of one shard with a thread, and short ticks.
pub(crate) fn threaded() -> Engine {
    Engine::builder().tick(Duration::from_micros(20)).shards(1).build().unwrap()
}

/// A timer whose firing can be waited for.
pub(crate) fn schedule(engine: &Engine, delay: Duration) -> (Handle, mpsc::Receiver<()>) {
    let (sender, fired) = mpsc::channel();
    (engine.schedule(delay, move || _ = sender.send(())).unwrap(), fired)
}

/// Waits until a timer fires, and does nothing else that could wake anybody.
#[track_caller]
pub(crate) fn assert_fires(fired: &mpsc::Receiver<()>) {
    fired.recv_timeout(PATIENCE).expect("a timer is stranded");
}

/// An engine of one shard with ticks of 1 ms, and what its hook was told. What its handler is given
/// it passes to `on_fire`.
pub(crate) type Driven = (Arc<OnceLock<Engine<u64>>>, ManualClock, mpsc::Receiver<usize>);

pub(crate) fn driven(on_fire: impl Fn(&Engine<u64>, u64) + Send + Sync + 'static) -> Driven {
    let (clock, (sender, told)) = (ManualClock::new(), mpsc::channel());
    let engine = Arc::new(OnceLock::<Engine<u64>>::new());
    let of_handler = Arc::downgrade(&engine);
    let handler = move |batch: Batch<'_, u64>| {
        let engine = of_handler.upgrade().expect("the test has it");
        batch.for_each(|payload| on_fire(engine.get().unwrap(), payload));
    };
    let hook = move |shard| _ = sender.send(shard);
    let builder = Builder::new().tick(MS).shards(1).manual_clock(&clock).on_earlier(hook);
    engine.set(builder.build_with_handler(handler).unwrap()).unwrap();
    (engine, clock, told)
}

/// A handler for payloads that only come and go.
pub(crate) fn drop_all(batch: Batch<'_, u64>) {
    batch.for_each(drop);
}
