//! What is measured of a workload: everything with everything.

use crate::error::BenchError;
use crate::kind::{Threads, Workload};
use crate::plan::Plan;
use crate::registry::{DEFAULT_TICK_US, Entry};

/// How much is measured of a part.
#[derive(Debug)]
pub(crate) struct Effort {
    /// How often each contender is measured.
    pub(crate) runs: usize,
    /// Shrinks counts and lengths of time.
    pub(crate) scale: f64,
    /// Seconds after which a measurement is stopped.
    pub(crate) limit_s: u64,
}

/// So many threads wait for one lock for most of their time.
const CROWD: usize = 4;

/// A workload, by contenders, threads and variants.
#[derive(Debug)]
pub(super) struct Matrix {
    workload: Workload,
    contenders: &'static [&'static str],
    threads: &'static [usize],
    /// Those of the workload if there are none.
    variants: &'static [u64],
    tick_us: u64,
    operations: u64,
    /// Whether all happens on the first processor.
    pub(super) is_pinned: bool,
    /// Contenders that are measured once on [`CROWD`] threads or more, which takes them long.
    once: &'static [&'static str],
}

// === impl Matrix ===

impl Matrix {
    pub(super) const fn of(workload: Workload, contenders: &'static [&'static str]) -> Matrix {
        Matrix {
            workload,
            contenders,
            threads: &[1],
            variants: &[],
            tick_us: DEFAULT_TICK_US,
            operations: 1_000_000,
            is_pinned: false,
            once: &[],
        }
    }

    pub(super) const fn on(self, threads: &'static [usize]) -> Matrix {
        Matrix { threads, ..self }
    }

    pub(super) const fn vary(self, variants: &'static [u64]) -> Matrix {
        Matrix { variants, ..self }
    }

    pub(super) const fn tick(self, tick_us: u64) -> Matrix {
        Matrix { tick_us, ..self }
    }

    pub(super) const fn pinned(self) -> Matrix {
        Matrix { is_pinned: true, ..self }
    }

    pub(super) const fn once(self, once: &'static [&'static str]) -> Matrix {
        Matrix { once, ..self }
    }

    /// That this build has every contender.
    pub(super) fn is_in_build(&self) -> Result<(), BenchError> {
        for name in self.contenders {
            for entry in Entry::named(name)? {
                if let Some(why) = entry.missing {
                    return Err(BenchError::Usage(format!("{name}: {why}")));
                }
            }
        }
        Ok(())
    }

    /// Every measurement, contenders in turn. Those that cannot do the workload are left out.
    pub(super) fn plans(&self, effort: &Effort) -> Result<Vec<Plan>, BenchError> {
        let workload = self.workload;
        let mut able = Vec::new();
        for name in self.contenders {
            let entries = Entry::named(name)?.into_iter();
            able.extend(entries.filter(|entry| entry.lacks(workload, self.tick_us).is_none()));
        }
        let threads = match workload.threads() {
            Threads::Any => self.threads.to_vec(),
            Threads::Fixed(threads) => vec![threads],
        };
        let variants = if self.variants.is_empty() { workload.variants() } else { self.variants };
        let mut plans = Vec::new();
        for &threads in &threads {
            for &variant in variants {
                let turn = able.iter().map(|entry| Plan {
                    contender: entry.name.to_owned(),
                    workload,
                    threads,
                    scale: effort.scale,
                    tick_us: self.tick_us,
                    variant,
                    operations: self.operations,
                    limit_s: effort.limit_s,
                });
                let (once, often): (Vec<_>, Vec<_>) = turn
                    .partition(|plan| threads >= CROWD && self.once.contains(&&*plan.contender));
                plans.extend(once);
                plans.extend((0..effort.runs).flat_map(|_| often.clone()));
            }
        }
        Ok(plans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort(runs: usize) -> Effort {
        Effort { runs, scale: 0.5, limit_s: 9 }
    }

    #[test]
    fn contenders_take_turns() {
        let matrix = Matrix::of(Workload::Reset, &["tickless", "tokio"]).on(&[1, 2]);
        let plans = matrix.plans(&effort(2)).unwrap();
        let order: Vec<_> =
            plans.iter().map(|p| format!("{} {}", p.contender, p.threads)).collect();
        let one = ["tickless 1", "tokio 1", "tickless 1", "tokio 1"];
        assert_eq!(order[..4], one);
        assert_eq!(order[4..], one.map(|turn| turn.replace('1', "2")));
        assert!(plans.iter().all(|plan| plan.scale == 0.5 && plan.limit_s == 9));
    }

    #[test]
    fn who_waits_for_a_lock_in_a_crowd_is_measured_once() {
        let matrix = Matrix::of(Workload::Reset, &["tickless", "tokio"]).on(&[1, CROWD]);
        let plans = matrix.once(&["tokio"]).plans(&effort(3)).unwrap();
        let count = |contender: &str, threads| {
            let is_it = |plan: &&Plan| plan.contender == contender && plan.threads == threads;
            plans.iter().filter(is_it).count()
        };
        let counts = [("tickless", 1), ("tokio", 1), ("tickless", CROWD), ("tokio", CROWD)];
        assert_eq!(counts.map(|(contender, threads)| count(contender, threads)), [3, 3, 3, 1]);
    }
}
