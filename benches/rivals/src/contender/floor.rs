//! What no timer of this kind can do without: a clock read and two uncontended atomic updates
//! for each pair of a schedule and a cancel, and for each reset. It fires nothing.

use std::fmt;
use std::hint::black_box;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::kind::Workload;
use crate::record::Extra;
use crate::sample::Sample;

/// A way to read a clock.
pub(crate) trait Ticker: Send + Sync + 'static {
    /// What the contender is called that reads it.
    const NAME: &'static str;
    /// What that is, in half a line.
    const ABOUT: &'static str;

    /// Ready to be read.
    fn start() -> Self;
    /// Some count that grows with time.
    fn read(&self) -> u64;
}

/// `Instant::elapsed`.
#[derive(Debug)]
pub(crate) struct Std(Instant);

/// The time-stamp counter, after what came before.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
pub(crate) struct Tsc;

/// The pseudo-contender.
#[derive(Debug)]
pub(crate) struct Floor<K>(PhantomData<K>);

/// A line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// A thread's clock and its two lines.
pub(crate) struct FloorProducer<K> {
    clock: K,
    lines: Box<[Line; 2]>,
}

impl Ticker for Std {
    const NAME: &'static str = "floor";
    const ABOUT: &'static str = "one Instant and two atomic updates, nothing else";

    fn start() -> Std {
        Std(Instant::now())
    }

    #[inline]
    fn read(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

#[cfg(target_arch = "x86_64")]
impl Ticker for Tsc {
    const NAME: &'static str = "floor-tsc";
    const ABOUT: &'static str = "as floor, with lfence and rdtsc for the clock";

    fn start() -> Tsc {
        Tsc
    }

    #[inline]
    fn read(&self) -> u64 {
        // SAFETY: every x86-64 processor has both instructions.
        unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        }
    }
}

impl<K: Ticker> Contender for Floor<K> {
    const NAME: &'static str = K::NAME;
    const ABOUT: &'static str = K::ABOUT;
    const FIRES: bool = false;

    type Timer = ();
    type Producer = FloorProducer<K>;

    fn lacks(workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::CancelHeavy | Workload::Paced | Workload::Reset | Workload::ResetEarlier => {
                None
            }
            _ => Some("a floor for cancel-heavy, paced and the resets only"),
        }
    }

    fn start(_: Setup) -> Result<Floor<K>, BenchError> {
        Ok(Floor(PhantomData))
    }

    fn producer(&self) -> FloorProducer<K> {
        FloorProducer { clock: K::start(), lines: Box::default() }
    }

    /// The same three things in bare loops, without the workload's random delays and ring: the
    /// median of short ones, of which others on the machine spoil a few.
    fn report(&self, extra: &mut Extra) {
        const LOOPS: usize = 101;
        const ROUNDS: u32 = 2_000;
        let mut producer = self.producer();
        let loops = (0..LOOPS).map(|_| {
            let begun = Instant::now();
            for _ in 0..ROUNDS {
                producer.reset(Pin::new(&mut ()), Duration::ZERO, 0);
            }
            begun.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        });
        let bare_ns = Sample::new(loops.collect()).median();
        extra.insert("bare_ns".to_owned(), bare_ns.into());
    }
}

impl<K: Ticker> FloorProducer<K> {
    #[inline]
    fn update(&self, line: usize) {
        self.lines[line].0.fetch_add(1, Ordering::AcqRel);
    }
}

impl<K: Ticker> Producer for FloorProducer<K> {
    type Timer = ();

    #[inline]
    fn schedule(&mut self, _: Pin<&mut ()>, delay: Duration, _: u64) {
        black_box(self.clock.read().wrapping_add(delay.as_nanos() as u64));
        self.update(0);
    }

    #[inline]
    fn cancel(&mut self, _: Pin<&mut ()>) -> bool {
        self.update(1);
        true
    }

    #[inline]
    fn reset(&mut self, _: Pin<&mut ()>, delay: Duration, token: u64) -> bool {
        self.schedule(Pin::new(&mut ()), delay, token);
        self.update(1);
        true
    }
}

impl<K> fmt::Debug for FloorProducer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FloorProducer").finish_non_exhaustive()
    }
}
