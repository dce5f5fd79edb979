//! What a reading of the cycle counter costs between two atomic updates, and how early it is: a
//! plain `rdtsc` does not wait for the loads ahead of it, so a time that one of them brings from
//! another thread can be later than the reading.

#[cfg(target_arch = "x86_64")]
fn main() {
    x86::main();
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    /// A cache line of its own for each.
    #[derive(Default)]
    #[repr(align(128))]
    struct Line(AtomicU64);

    /// A ring through memory that no cache holds, in random order.
    struct Ring {
        /// Sixteen numbers to a cache line, of which the first names the next line.
        lines: Vec<u32>,
        at: u32,
    }

    /// A way to read the counter, and what it is called.
    type Way = (&'static str, fn() -> u64);

    fn plain() -> u64 {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _rdtsc() }
    }

    fn ordered() -> u64 {
        // SAFETY: every x86-64 processor that this is measured on has the instruction.
        unsafe { __rdtscp(&mut 0) }
    }

    fn fence() {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_lfence() };
    }

    pub(super) fn main() {
        // Without `--bench`, only that it runs is of interest.
        let measures = std::env::args().any(|argument| argument == "--bench");
        let (rounds, lines) = if measures { (20_000, 1 << 22) } else { (10, 1 << 10) };
        costs(rounds);
        let ns_per_cycle = ns_per_cycle();
        let mut ring = Ring::new(lines);
        for loads in [1, 8, 64] {
            let mut early: Vec<u64> = (0..rounds).map(|_| ring.early_by(loads)).collect();
            early.sort_unstable();
            let ns =
                |share: f64| early[(share * (rounds - 1) as f64) as usize] as f64 * ns_per_cycle;
            println!(
                "rdtsc before the end of {loads:>2} loads: p50 {:.0}, p99 {:.0}, max {:.0} ns",
                ns(0.5),
                ns(0.99),
                ns(1.0)
            );
        }
    }

    /// The least time of many short loops, for each way to read the counter.
    fn costs(rounds: u32) {
        let lines = [Line::default(), Line::default()];
        let ways: [Way; 4] = [
            ("no reading", || 0),
            ("rdtsc", plain),
            ("rdtscp", ordered),
            ("lfence, rdtsc", || {
                fence();
                plain()
            }),
        ];
        let mut least_ns = [f64::MAX; 4];
        for _ in 0..200 {
            for (least_ns, (_, read)) in least_ns.iter_mut().zip(ways) {
                let begun = Instant::now();
                for _ in 0..rounds {
                    lines[0].0.fetch_add(read() | 1, Ordering::AcqRel);
                    lines[1].0.fetch_add(1, Ordering::AcqRel);
                }
                *least_ns = least_ns.min(begun.elapsed().as_nanos() as f64 / f64::from(rounds));
            }
        }
        for ((name, _), least_ns) in ways.iter().zip(least_ns) {
            println!("{name} and two atomic updates: {least_ns:.1} ns");
        }
    }

    fn ns_per_cycle() -> f64 {
        let (begun, from) = (Instant::now(), ordered());
        while begun.elapsed().as_millis() < 100 {}
        let cycles = ordered() - from;
        begun.elapsed().as_nanos() as f64 / cycles as f64
    }

    impl Ring {
        /// One cycle through all of `count` lines.
        fn new(count: usize) -> Ring {
            let mut next: Vec<u32> = (0..count as u32).collect();
            let mut random = fastrand::Rng::with_seed(1);
            for end in (1..count).rev() {
                next.swap(end, random.usize(..end));
            }
            let mut lines = vec![0; count * 16];
            for (at, next) in next.into_iter().enumerate() {
                lines[at * 16] = next;
            }
            Ring { lines, at: 0 }
        }

        /// Cycles by which a plain reading is ahead of one that waits for the loads before it.
        #[inline(never)]
        fn early_by(&mut self, loads: usize) -> u64 {
            fence();
            match loads {
                1 => self.load::<1>(),
                8 => self.load::<8>(),
                _ => self.load::<64>(),
            }
            let read = plain();
            black_box(self.at);
            ordered().saturating_sub(read)
        }

        #[inline(always)]
        fn load<const N: usize>(&mut self) {
            for _ in 0..N {
                self.at = self.lines[self.at as usize * 16];
            }
        }
    }
}
