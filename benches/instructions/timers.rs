//! Engines with payloads of either kind, under one name for what both do.

use std::hint::black_box;
use std::time::Duration;

#[cfg(feature = "every")]
use tickless::Batch;
use tickless::{Builder, Engine, Handle, Task};

/// An engine with payloads of either kind.
pub(crate) trait Timers: Sync {
    type Payload: Send + 'static;

    fn build(builder: Builder) -> Self;
    fn schedule(&self, delay: Duration) -> Handle<Self::Payload>;
    fn schedule_detached(&self, delay: Duration);
    fn typed(&self) -> &Engine<Self::Payload>;
}

/// The engine for closures.
pub(crate) type Closures = Engine;

/// The engine for payloads of one type.
#[cfg(feature = "every")]
pub(crate) type Numbers = Engine<u32>;

impl Timers for Closures {
    type Payload = Task;

    fn build(builder: Builder) -> Closures {
        builder.build().expect("it is valid")
    }

    #[inline]
    fn schedule(&self, delay: Duration) -> Handle {
        let number = delay.subsec_nanos();
        self.schedule(delay, move || _ = black_box(number)).expect("the engine runs")
    }

    #[inline]
    fn schedule_detached(&self, delay: Duration) {
        let number = delay.subsec_nanos();
        self.schedule_detached(delay, move || _ = black_box(number)).expect("the engine runs");
    }

    fn typed(&self) -> &Engine<Task> {
        self
    }
}

#[cfg(feature = "every")]
impl Timers for Numbers {
    type Payload = u32;

    fn build(builder: Builder) -> Numbers {
        let handler = |batch: Batch<'_, u32>| batch.for_each(|number| _ = black_box(number));
        builder.build_with_handler(handler).expect("it is valid")
    }

    #[inline]
    fn schedule(&self, delay: Duration) -> Handle<u32> {
        self.schedule(delay, delay.subsec_nanos()).expect("the engine runs")
    }

    #[inline]
    fn schedule_detached(&self, delay: Duration) {
        self.schedule_detached(delay, delay.subsec_nanos()).expect("the engine runs");
    }

    fn typed(&self) -> &Engine<u32> {
        self
    }
}
