//! `tickless_wheel.h` beside the wheel of the crate `tickless-wheel`: after each step of a history
//! both agree on all that can be seen, the next wake-up included. The histories are the corpus of
//! the fuzz target `wheel_vs_oracle`, and random ones.
//!
//! The header is compiled as a library of its own (`wheel/shim.c`), which is loaded: so the test
//! needs a C compiler, `CC` or `cc`.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CString, c_int, c_void};
use std::mem;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::OnceLock;

use arbitrary::{Arbitrary, Unstructured};
use models::ops_model::{self, Case, LIMITED, Op};
use models::when::When;
use tickless_wheel::{Geometry, Key, Tick, Wheel};

/// A timer of C's, and which one it is.
#[repr(C)]
struct Timer {
    words: [u64; 3],
    number: usize,
}

type Memory = *mut c_void;

/// The functions of the header.
struct Shim {
    wheel_size: usize,
    init: unsafe extern "C" fn(Memory, u64),
    add: unsafe extern "C" fn(Memory, *mut Timer, u64),
    cancel: unsafe extern "C" fn(Memory, *mut Timer) -> c_int,
    reset: unsafe extern "C" fn(Memory, *mut Timer, u64),
    is_pending: unsafe extern "C" fn(*const Timer) -> c_int,
    deadline: unsafe extern "C" fn(*const Timer) -> u64,
    count: unsafe extern "C" fn(Memory) -> u64,
    now: unsafe extern "C" fn(Memory) -> u64,
    next: unsafe extern "C" fn(Memory) -> u64,
    pop: unsafe extern "C" fn(Memory, u64, *mut u64) -> *mut Timer,
    advance: unsafe extern "C" fn(Memory, u64, u64, Fired, *mut c_void) -> u64,
    remove_any: unsafe extern "C" fn(Memory) -> *mut Timer,
}

type Fired = unsafe extern "C" fn(*mut Timer, *mut c_void);

/// Compiles and loads the header, once.
fn shim() -> &'static Shim {
    static SHIM: OnceLock<Shim> = OnceLock::new();
    SHIM.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libwheel_shim.so");
        let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut compile = Command::new(compiler);
        compile.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC"]);
        compile.arg("-shared").arg("-I").arg(here.join("include"));
        compile.arg(here.join("tests/wheel/shim.c")).arg("-o").arg(&library);
        assert!(compile.status().expect("there is a C compiler").success());
        let path = CString::new(library.to_str().expect("a path in UTF-8")).expect("no zero");
        // SAFETY: it is a path, and the library runs nothing when it is loaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        load(library)
    })
}

fn load(library: *mut c_void) -> Shim {
    let find = |name: &str| {
        let name = CString::new(format!("shim_{name}")).expect("no zero");
        // SAFETY: it is a library, and a name.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?}");
        address
    };
    // SAFETY: the library has numbers under these names.
    let size = |name| unsafe { find(name).cast::<u64>().read() } as usize;
    assert_eq!(size("timer_size"), mem::offset_of!(Timer, number), "a timer is three words");
    // SAFETY: the library has functions of these types under these names.
    unsafe {
        Shim {
            wheel_size: size("wheel_size"),
            init: function(find("init")),
            add: function(find("add")),
            cancel: function(find("cancel")),
            reset: function(find("reset")),
            is_pending: function(find("is_pending")),
            deadline: function(find("deadline")),
            count: function(find("count")),
            now: function(find("now")),
            next: function(find("next")),
            pop: function(find("pop")),
            advance: function(find("advance")),
            remove_any: function(find("remove_any")),
        }
    }
}

/// # Safety
/// A function of the type `F` is there.
unsafe fn function<F: Copy>(address: *mut c_void) -> F {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // SAFETY: as the caller promises; a function is an address.
    unsafe { mem::transmute_copy(&address) }
}

/// Both wheels, and what is pending in them.
struct Pair {
    shim: &'static Shim,
    memory: Vec<u64>,
    geometry: Geometry,
    rust: Wheel<usize>,
    /// Boxed: a timer is not moved.
    timers: Vec<(Box<Timer>, Key)>,
    /// By the tick at which it is due.
    pending: BTreeSet<(Tick, usize)>,
    due: Vec<Option<Tick>>,
    /// Without Rust's, which would stop elsewhere.
    is_alone: bool,
}

/// Runs a history on both, and then time to its end.
fn agree(case: &Case) {
    let mut pair = Pair::new(case.start);
    for op in &case.ops {
        pair.step(op);
        pair.compare();
    }
    while let Some(next) = pair.rust.next_expiration() {
        pair.advance(next, u64::MAX);
        pair.compare();
    }
    pair.clear();
    pair.compare();
}

// === impl Pair ===

impl Pair {
    fn new(start: When) -> Pair {
        let geometry = Geometry::new(256, 256).expect("a valid geometry");
        let now = start.resolve(&geometry, Tick::ZERO).min(Tick::LAST);
        let shim = shim();
        let mut memory = vec![0x5a5a_5a5a_5a5a_5a5a; shim.wheel_size.div_ceil(8)];
        // SAFETY: it is memory for a wheel.
        unsafe { (shim.init)(memory.as_mut_ptr().cast(), now.get()) };
        let rust = Wheel::with_start(geometry, now);
        let (timers, pending, due) = (Vec::new(), BTreeSet::new(), Vec::new());
        Pair { shim, memory, geometry, rust, timers, pending, due, is_alone: false }
    }

    fn c(&mut self) -> Memory {
        self.memory.as_mut_ptr().cast()
    }

    /// The time of C's.
    fn now(&self) -> Tick {
        // SAFETY: it is a wheel, which this only reads.
        Tick::new(unsafe { (self.shim.now)(self.memory.as_ptr().cast_mut().cast()) })
    }

    fn at(&self, when: When) -> Tick {
        when.resolve(&self.geometry, self.rust.now()).min(Tick::LAST)
    }

    fn pick(&self, pick: u16) -> Option<usize> {
        usize::from(pick).checked_rem(self.timers.len())
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Insert(when) => self.insert(when.resolve(&self.geometry, self.rust.now())),
            Op::Cancel(pick) => self.cancel(pick),
            Op::Reset(pick, when) => {
                self.reset(pick, when.resolve(&self.geometry, self.rust.now()));
            }
            Op::Advance(when) => self.advance(self.at(when), u64::MAX),
            Op::AdvanceToNext => {
                if let Some(next) = self.rust.next_expiration() {
                    self.advance(next, u64::MAX);
                }
            }
            Op::AdvanceShort => {
                let next = self.rust.next_expiration();
                if let Some(next) = next.filter(|next| *next > self.rust.now()) {
                    self.advance(next.saturating_sub(1), u64::MAX);
                }
            }
            // The order within a tick is each wheel's own, so both go on until all have fired.
            Op::AdvanceInterrupted(when, number) => {
                self.advance(self.at(when), u64::from(number % LIMITED) + 1);
            }
            Op::Pop(when, number) => self.pop(self.at(when), u64::from(number) + 1),
            Op::Drain(_) | Op::Clear => self.clear(),
            Op::Shrink => {}
        }
    }

    fn insert(&mut self, deadline: Tick) {
        let number = self.timers.len();
        let mut timer = Box::new(Timer { words: [0; 3], number });
        let (add, wheel) = (self.shim.add, self.c());
        // SAFETY: they are a wheel and a timer, which stays where it is.
        unsafe { add(wheel, &raw mut *timer, of_c(deadline)) };
        let key = self.rust.insert(deadline, number);
        self.timers.push((timer, key));
        self.due.push(None);
        self.note(number, deadline);
    }

    fn cancel(&mut self, pick: u16) {
        let Some(number) = self.pick(pick) else { return };
        let (cancel, wheel) = (self.shim.cancel, self.c());
        let (timer, key) = &mut self.timers[number];
        // SAFETY: they are a wheel and a timer.
        let is_cancelled = unsafe { cancel(wheel, &raw mut **timer) } == 1;
        assert!(self.is_alone || is_cancelled == self.rust.cancel(*key).is_some());
        assert_eq!(is_cancelled, self.forget(number).is_some());
    }

    fn reset(&mut self, pick: u16, deadline: Tick) {
        let Some(number) = self.pick(pick) else { return };
        let (reset, wheel) = (self.shim.reset, self.c());
        let (timer, key) = &mut self.timers[number];
        // SAFETY: they are a wheel and a timer.
        unsafe { reset(wheel, &raw mut **timer, of_c(deadline)) };
        // In Rust, a timer that has fired is inserted anew.
        if !self.rust.reset(*key, deadline) {
            *key = self.rust.insert(deadline, number);
        }
        self.forget(number);
        self.note(number, deadline);
    }

    /// Time does not go back: in Rust such an advance does nothing, in C it fires what is overdue.
    fn advance(&mut self, now: Tick, limit: u64) {
        if now < self.rust.now() {
            return;
        }
        let mut fired: Vec<usize> = Vec::new();
        loop {
            let (advance, wheel) = (self.shim.advance, self.c());
            let before = fired.len();
            // SAFETY: it is a wheel, and `note_fired` gets its timers and the list.
            let count = unsafe {
                advance(wheel, now.get(), limit, note_fired, (&raw mut fired).cast::<c_void>())
            };
            assert_eq!(count as usize, fired.len() - before);
            assert!(count <= limit);
            // SAFETY: it is a wheel.
            if unsafe { (self.shim.next)(wheel) } > now.get() {
                break;
            }
        }
        // Nothing is left: time gets there.
        // SAFETY: it is a wheel.
        unsafe { (self.shim.advance)(self.c(), now.get(), 1, note_fired, ptr::null_mut()) };
        self.settle(now, &fired);
    }

    fn pop(&mut self, now: Tick, limit: u64) {
        if now < self.rust.now() {
            return;
        }
        let mut fired = Vec::new();
        let (pop, count, wheel) = (self.shim.pop, self.shim.count, self.c());
        let mut left = limit;
        loop {
            // SAFETY: they are a wheel and a number.
            let popped = unsafe { pop(wheel, now.get(), &raw mut left).as_ref() };
            if popped.is_none() && left > 0 {
                break;
            }
            fired.extend(popped.map(|timer| timer.number));
            // SAFETY: as above.
            assert_eq!(unsafe { count(wheel) } as usize, self.pending.len() - fired.len());
            left = if left > 0 { left } else { limit };
        }
        self.settle(now, &fired);
    }

    /// C has fired these; Rust fires the same, and both in order.
    fn settle(&mut self, now: Tick, fired: &[usize]) {
        let due = |number: &usize| self.due[*number].expect("it was pending");
        assert!(fired.is_sorted_by_key(due), "out of order");
        let mut in_rust = Vec::new();
        self.rust.advance(now, |_, _, number| in_rust.push(number));
        let of_c: BTreeSet<usize> = fired.iter().copied().collect();
        assert_eq!(of_c.len(), fired.len(), "twice");
        assert_eq!(of_c, in_rust.into_iter().collect());
        for number in fired {
            self.forget(*number);
        }
    }

    fn clear(&mut self) {
        let (remove_any, wheel) = (self.shim.remove_any, self.c());
        // SAFETY: it is a wheel.
        while let Some(timer) = unsafe { remove_any(wheel).as_ref() } {
            assert!(self.forget(timer.number).is_some(), "it was pending");
        }
        assert!(self.pending.is_empty());
        self.rust.clear();
    }

    /// One call, which may leave something.
    fn advance_once(&mut self, now: Tick, limit: u64) {
        let (mut fired, wheel) = (Vec::<usize>::new(), self.c());
        let list = (&raw mut fired).cast::<c_void>();
        // SAFETY: it is a wheel, and `note_fired` gets its timers and the list.
        let count = unsafe { (self.shim.advance)(wheel, now.get(), limit, note_fired, list) };
        assert_eq!(count as usize, fired.len());
        assert!(count <= limit);
        let mut last = Tick::ZERO;
        for number in fired {
            let due = self.forget(number).expect("it was pending");
            assert!(due <= self.now(), "early");
            assert!(due >= last, "out of order");
            assert!(self.pending.first().is_none_or(|(first, _)| *first >= due), "left behind");
            last = due;
        }
        // SAFETY: it is a wheel.
        let next = unsafe { (self.shim.next)(wheel) };
        assert!(self.now() <= now && (next <= now.get() || limit == 0 || !self.has_due(now)));
    }

    fn has_due(&self, by: Tick) -> bool {
        self.pending.first().is_some_and(|(due, _)| *due <= by)
    }

    /// All that can be seen without Rust's.
    fn look(&mut self) {
        let (wheel, now) = (self.c(), self.now());
        // SAFETY: it is a wheel.
        let (count, next) = unsafe { ((self.shim.count)(wheel), (self.shim.next)(wheel)) };
        assert_eq!(count as usize, self.pending.len());
        assert!(next >= now.get());
        let first = self.pending.first().map_or(u64::MAX, |(due, _)| due.get());
        assert!(next <= first, "sleeping until {next} is too long for {first}");
        for (number, (timer, _)) in self.timers.iter().enumerate() {
            // SAFETY: it is a timer.
            let is_pending = unsafe { (self.shim.is_pending)(&raw const **timer) } == 1;
            assert_eq!(is_pending, self.due[number].is_some());
        }
    }

    fn note(&mut self, number: usize, deadline: Tick) {
        let due = deadline.max(self.now());
        self.due[number] = Some(due);
        self.pending.insert((due, number));
    }

    fn forget(&mut self, number: usize) -> Option<Tick> {
        let due = self.due[number].take()?;
        assert!(self.pending.remove(&(due, number)));
        Some(due)
    }

    fn compare(&mut self) {
        let (wheel, shim) = (self.c(), self.shim);
        // SAFETY: it is a wheel.
        let (count, now, next) =
            unsafe { ((shim.count)(wheel), (shim.now)(wheel), (shim.next)(wheel)) };
        assert_eq!(count as usize, self.rust.len());
        assert_eq!(count as usize, self.pending.len());
        assert_eq!(now, self.rust.now().get());
        assert_eq!(next, self.rust.next_expiration().map_or(u64::MAX, Tick::get));
        for (number, (timer, key)) in self.timers.iter().enumerate() {
            let timer: *const Timer = &raw const **timer;
            // SAFETY: it is a timer.
            let is_pending = unsafe { (shim.is_pending)(timer) } == 1;
            assert_eq!(is_pending, self.rust.contains(*key));
            assert_eq!(is_pending, self.due[number].is_some());
            if is_pending {
                // SAFETY: as above.
                let deadline = unsafe { (shim.deadline)(timer) };
                assert_eq!(Some(deadline), self.rust.deadline(*key).map(of_c));
            }
        }
    }
}

/// A deadline as C has it: what never comes is another number.
fn of_c(deadline: Tick) -> u64 {
    if deadline == Tick::NEVER { u64::MAX } else { deadline.get() }
}

unsafe extern "C" fn note_fired(timer: *mut Timer, fired: *mut c_void) {
    // SAFETY: it is a timer that the test has made, and the list that it has passed.
    unsafe { (*fired.cast::<Vec<usize>>()).push((*timer).number) };
}

#[test]
fn the_wheel_of_c_agrees_with_that_of_rust_on_the_inputs_that_fuzzers_found() {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"));
    support::replay::replay(corpus, "wheel_vs_oracle", agree);
}

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u16 {
        (self.next() % limit) as u16
    }
}

#[test]
fn the_wheel_of_c_agrees_with_that_of_rust_on_random_histories() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3000 {
        let bytes: Vec<u8> = (0..60).flat_map(|_| random.next().to_le_bytes()).collect();
        let case = Case::arbitrary_take_rest(Unstructured::new(&bytes)).expect("bytes are enough");
        agree(&case);
    }
}

/// Timers that share buckets and words of the bitmap, on the first two levels.
#[test]
fn the_wheel_of_c_agrees_with_that_of_rust_on_crowded_histories() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..600 {
        let reach = [20, 300, 3000, 60_000][round % 4];
        let step = |random: &mut Random| When::Ahead(random.below(reach / 8 + 2));
        let ops = (0..200).map(|_| match random.below(10) {
            0..4 => Op::Insert(When::Ahead(random.below(reach))),
            4..6 => Op::Cancel(random.below(1 << 16)),
            6..8 => Op::Reset(random.below(1 << 16), When::Ahead(random.below(reach))),
            8 => Op::Advance(step(&mut random)),
            _ if random.below(2) == 0 => Op::AdvanceInterrupted(step(&mut random), 2),
            _ => Op::Pop(step(&mut random), 0),
        });
        let ops = ops.collect();
        agree(&Case { shape: 5, start: When::Absolute(round as u64 * 1000), ops });
    }
}

/// What limits leave half done, beside what a sorted set says: each call looks at a few timers of
/// buckets on four levels, and others come, go and move meanwhile.
#[test]
fn a_wheel_of_c_that_stops_half_way_keeps_its_promises() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..300 {
        let mut pair = Pair::new(When::Absolute([0, 255, 65_530, 1 << 40][round % 4]));
        pair.is_alone = true;
        let reach = [300, 3000, 65_535][round % 3];
        for _ in 0..150 {
            match random.below(8) {
                0..3 => pair.insert(pair.now().saturating_add(random.below(reach).into())),
                3 => pair.insert(pair.now().saturating_add(random.next() >> 36)),
                4 => pair.cancel(random.below(1 << 16)),
                5 => {
                    let pick = random.below(1 << 16);
                    pair.reset(pick, pair.now().saturating_add(random.below(reach).into()));
                }
                _ => {
                    let now = pair.now().saturating_add(random.below(reach / 2).into());
                    pair.advance_once(now, u64::from(random.below(40)));
                }
            }
            pair.look();
        }
        let end = pair.pending.last().map_or(Tick::ZERO, |(due, _)| *due);
        let most = pair.pending.len() * 8;
        for _ in 0..most {
            pair.advance_once(end, 8);
            pair.look();
        }
        assert!(pair.pending.is_empty(), "more than {most} calls");
    }
}

#[test]
fn the_oracle_agrees_with_the_histories_that_are_tried_here() {
    let case = Case { shape: 5, start: When::Absolute(7), ops: vec![Op::Insert(When::Ahead(3))] };
    ops_model::run(&case);
    agree(&case);
}
