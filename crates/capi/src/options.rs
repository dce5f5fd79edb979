//! The settings of an engine, as C gives them.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::time::Duration;

use tickless::{Builder, Clock, Driver, ManualClock, StuckTask};

use crate::batch::{RunBatch, TicklessBatchFn};
use crate::failure::{Failure, TICKLESS_E_ARGUMENT, TICKLESS_E_NOMEM, TICKLESS_E_SYSTEM};
use crate::memory;
use crate::signals::Mask;
use crate::sized::{self, HasSize};
use crate::task::{Hook, Run, TicklessFn};
use crate::time::{TICKLESS_NEVER, ns_of, saturating_ns};
use crate::when::Reach;

/// CLOCK_MONOTONIC, carried on by the processor's counter for microseconds. Default.
pub const TICKLESS_CLOCK_SYSTEM: u32 = 0;
/// CLOCK_MONOTONIC, read each time.
pub const TICKLESS_CLOCK_EXACT: u32 = 1;
/// CLOCK_BOOTTIME, which goes on while the machine is suspended.
pub const TICKLESS_CLOCK_BOOTTIME: u32 = 2;
/// Is moved by tickless_advance. The caller drives the engine. For tests.
pub const TICKLESS_CLOCK_MANUAL: u32 = 3;

/// The engine's threads. The default, unless the clock is manual.
pub const TICKLESS_DRIVER_THREADS: u32 = 0;
/// The caller, by tickless_turn.
pub const TICKLESS_DRIVER_CALLER: u32 = 1;

/// Settings of an engine. Zero is the default of each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessOptions {
    /// sizeof(tickless_options).
    pub size: usize,
    /// Timers of one tick fire together. Default: 1 ms. Times reach 2^54 ticks: at 1 ns, the
    /// engine's time ends after 208 days. What is later is TICKLESS_E_ARGUMENT, or never if it is
    /// fewer than 2^53 ns away.
    pub tick_ns: u64,
    /// How many timers may be pending. Default: no limit.
    pub max_pending: u64,
    /// How long a callback may run until another thread takes over. Default: some ms.
    pub takeover_ns: u64,
    /// Of the engine's threads, in UTF-8. Default: "tickless".
    pub thread_name: *const c_char,
    /// Wheels that work independently. Default: one per processor.
    pub shards: u32,
    /// Buckets in a level of a wheel. Default: 64.
    pub slots: u32,
    /// How many buckets ahead a timer may be filed. Default: half of `slots`.
    pub reach: u32,
    /// The least number of threads. Default: one; one per shard, if `takeover_ns` is
    /// TICKLESS_NEVER.
    pub reapers_min: u32,
    /// The greatest number. Default: `reapers_min`; if that is not set, one per shard.
    pub reapers_max: u32,
    /// One of TICKLESS_CLOCK_*.
    pub clock: u32,
    /// One of TICKLESS_DRIVER_*.
    pub driver: u32,
    /// For timers that fire within microseconds: the percentage of a processor that each thread may
    /// spend waiting in user space. Sets the defaults of `tick_ns` to 1 us, `slots` to 512, `reach`
    /// to 256.
    pub precise_percent: u32,
    /// Of the engine's threads. Default: 2 MiB.
    pub stack_size: u64,
    /// Is called by each thread of the engine first: to set its priority, processors or signals.
    /// The engine may not be there yet.
    pub on_thread_start: TicklessFn,
    /// Its context, as the others below: there until the engine is freed.
    pub on_thread_start_data: *mut c_void,
    /// Is called for a callback that runs for longer than `takeover_ns`, or 5 ms, usually
    /// meanwhile: to log it, soon.
    pub on_stuck: TicklessStuckFn,
    /// Its context.
    pub on_stuck_data: *mut c_void,
    /// Is called for up to 256 timers that are due together, to run them (tickless_batch_run) under
    /// one lock, for example.
    pub on_batch: TicklessBatchFn,
    /// Its context.
    pub on_batch_data: *mut c_void,
}

/// A callback that runs for too long. It may grow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessStuck {
    /// The shard of its timer.
    pub shard: u64,
    /// A time at which it was already running.
    pub since_ns: u64,
    /// How long after that it still ran.
    pub age_ns: u64,
    /// The name of its thread, until the call returns.
    pub thread: *const c_char,
}

/// Is called with what is stuck.
pub type TicklessStuckFn =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, stuck: *const TicklessStuck)>;

// SAFETY: it is `repr(C)`, 12 words and 8 halves of words, and zero is a number, a pointer, and no
// function.
unsafe impl HasSize for TicklessOptions {
    const FIRST_SIZE: usize = 72;
}

const _: () = assert!(size_of::<TicklessOptions>() == 4 * 8 + size_of::<usize>() + 8 * 4 + 7 * 8);

/// Settings that have been read.
pub(crate) struct Settings {
    pub(crate) builder: Builder,
    /// If it is moved by hand.
    pub(crate) clock: Option<ManualClock>,
    /// Whether the caller drives the engine; the number of shards is set then.
    pub(crate) driven_shards: Option<usize>,
    /// The system's clock that goes as the engine's does; `None` if that is moved by hand.
    pub(crate) system_clock: Option<libc::clockid_t>,
    pub(crate) on_batch: Option<Hook<RunBatch>>,
    pub(crate) reach: Reach,
}

/// What a shard takes, about, and what each of its slots does.
const SHARD_BYTES: usize = 1 << 16;
const SLOT_BYTES: usize = 1 << 7;

// === impl Hook ===

impl Hook<Run> {
    fn run(&self) {
        // SAFETY: the caller of `tickless_engine_new` has promised that it may be called so.
        unsafe { (self.call)(self.data) }
    }
}

impl Hook<unsafe extern "C-unwind" fn(*mut c_void, *const TicklessStuck)> {
    fn tell(&self, task: &StuckTask) {
        // A name has no zero in it: threads are made with C's.
        let thread = CString::new(task.thread.as_str()).unwrap_or_default();
        let stuck = TicklessStuck {
            shard: task.shard as u64,
            since_ns: ns_of(task.since),
            age_ns: saturating_ns(task.age),
            thread: thread.as_ptr(),
        };
        // SAFETY: as above.
        unsafe { (self.call)(self.data, &raw const stuck) }
    }
}

// === impl Settings ===

impl Settings {
    /// # Safety
    /// `options` is NULL or points to options, whose name is NULL or a C string.
    pub(crate) unsafe fn read(options: *const TicklessOptions) -> Result<Settings, Failure> {
        let options = if options.is_null() {
            TicklessOptions::default()
        } else {
            // SAFETY: as the caller promises.
            unsafe { sized::read(options) }?
        };
        options.check_memory()?;
        let mut builder = options.builder();
        if !options.thread_name.is_null() {
            // SAFETY: as the caller promises.
            let name = unsafe { CStr::from_ptr(options.thread_name) };
            builder = builder.thread_name(name.to_string_lossy());
        }
        let mask = Mask::current();
        let start = options.on_thread_start;
        let start = start.map(|call| Hook { call, data: options.on_thread_start_data });
        builder = builder.on_thread_start(move || {
            mask.is_of_children();
            if let Some(start) = &start {
                start.run();
            }
        });
        if let Some(stuck) = options.on_stuck {
            let stuck = Hook { call: stuck, data: options.on_stuck_data };
            builder = builder.on_stuck(move |task| stuck.tell(task));
        }
        options.settings(builder)
    }
}

// === impl TicklessOptions ===

impl TicklessOptions {
    /// The numbers.
    fn builder(&self) -> Builder {
        let mut builder = Builder::new();
        if self.precise_percent > 0 {
            builder = builder.precise(f64::from(self.precise_percent) / 100.0);
        }
        if self.tick_ns > 0 {
            builder = builder.tick(Duration::from_nanos(self.tick_ns));
        }
        if self.max_pending > 0 {
            builder = builder.max_pending(self.max_pending);
        }
        builder = match self.takeover_ns {
            0 => builder,
            TICKLESS_NEVER => builder.takeover(None),
            ns => builder.takeover(Duration::from_nanos(ns)),
        };
        if self.stack_size > 0 {
            let size = usize::try_from(self.stack_size).unwrap_or(usize::MAX);
            builder = builder.stack_size(size);
        }
        if self.shards > 0 {
            builder = builder.shards(self.shards as usize);
        }
        if self.slots > 0 {
            builder = builder.slots(self.slots);
        }
        if self.reach > 0 {
            builder = builder.reach(self.reach);
        }
        match (self.reapers_min as usize, self.reapers_max as usize) {
            (0, 0) => {}
            (min, 0) => builder = builder.reapers(min, min),
            (min, max) => builder = builder.reapers(min.max(1), max),
        }
        builder
    }

    /// Whether there is about as much memory as the engine takes. Without it, making one would end
    /// the process.
    fn check_memory(&self) -> Result<(), Failure> {
        let shards = match self.shards as usize {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            shards => shards.min(Builder::MAX_SHARDS),
        };
        let slots = self.slots.min(1 << 16) as usize;
        let bytes = (shards + 1) * (SHARD_BYTES + slots * SLOT_BYTES);
        let mut all = Vec::<u8>::new();
        all.try_reserve_exact(bytes).map_err(|_| {
            Failure::new(TICKLESS_E_NOMEM, format_args!("there are no {bytes} bytes for an engine"))
        })?;
        // It may be the reserve, which then is not there again before this is freed.
        memory::check()?;
        drop(all);
        Ok(())
    }

    /// Clock and driver.
    fn settings(&self, builder: Builder) -> Result<Settings, Failure> {
        let mut clock = None;
        let on_batch = self.on_batch.map(|call| Hook { call, data: self.on_batch_data });
        let reach = Reach::of_ticks(self.tick_ns);
        let system_clock = match self.clock {
            TICKLESS_CLOCK_MANUAL => None,
            TICKLESS_CLOCK_BOOTTIME => Some(libc::CLOCK_BOOTTIME),
            _ => Some(libc::CLOCK_MONOTONIC),
        };
        let mut builder = match self.clock {
            TICKLESS_CLOCK_SYSTEM => builder,
            TICKLESS_CLOCK_EXACT => builder.clock(Clock::instant()),
            TICKLESS_CLOCK_BOOTTIME => builder.clock(Clock::boottime().map_err(|error| {
                Failure::new(TICKLESS_E_SYSTEM, format_args!("no such clock: {error}"))
            })?),
            TICKLESS_CLOCK_MANUAL => builder.manual_clock(clock.insert(ManualClock::new())),
            other => return Err(out_of_range("clock", other)),
        };
        let is_driven = match self.driver {
            TICKLESS_DRIVER_THREADS => clock.is_some(),
            TICKLESS_DRIVER_CALLER => true,
            other => return Err(out_of_range("driver", other)),
        };
        let mut driven_shards = None;
        if is_driven {
            // The bells have to be there before the engine, so the number has to be known.
            let per_processor = || std::thread::available_parallelism().map_or(1, usize::from);
            let shards = match self.shards as usize {
                0 => per_processor().min(Builder::MAX_SHARDS),
                // The builder refuses it; no descriptor is opened before.
                shards if shards > Builder::MAX_SHARDS => {
                    return Ok(Settings {
                        builder,
                        clock,
                        driven_shards: None,
                        system_clock,
                        on_batch,
                        reach,
                    });
                }
                shards => shards,
            };
            builder = builder.driver(Driver::Caller).shards(shards);
            driven_shards = Some(shards);
        }
        Ok(Settings { builder, clock, driven_shards, system_clock, on_batch, reach })
    }
}

impl Default for TicklessOptions {
    fn default() -> TicklessOptions {
        TicklessOptions {
            size: size_of::<TicklessOptions>(),
            tick_ns: 0,
            max_pending: 0,
            takeover_ns: 0,
            thread_name: ptr::null(),
            shards: 0,
            slots: 0,
            reach: 0,
            reapers_min: 0,
            reapers_max: 0,
            clock: TICKLESS_CLOCK_SYSTEM,
            driver: TICKLESS_DRIVER_THREADS,
            precise_percent: 0,
            stack_size: 0,
            on_thread_start: None,
            on_thread_start_data: ptr::null_mut(),
            on_stuck: None,
            on_stuck_data: ptr::null_mut(),
            on_batch: None,
            on_batch_data: ptr::null_mut(),
        }
    }
}

fn out_of_range(name: &str, value: u32) -> Failure {
    Failure::new(TICKLESS_E_ARGUMENT, format_args!("there is no {name} {value}"))
}
