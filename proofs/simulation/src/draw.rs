//! Draws from a seed: choices by weight, and times around which something happens in a wheel.

use arbitrary::{Arbitrary, Unstructured};

use models::engine_model::case::{At, Free};
use models::when::When;
use support::random::Random;

/// Draws whatever a history needs.
pub(crate) struct Draw(Random);

// === impl Draw ===

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        // Seeds are consecutive: the first numbers of such generators resemble each other.
        let mut random = Random::new(seed);
        (0..4).for_each(|_| _ = random.below(2));
        Draw(random)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.below((most - least + 1) as u64) as i64
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    pub(crate) fn word(&mut self) -> u16 {
        self.below(1 << 16) as u16
    }

    /// Yes in so many of a hundred cases.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// An index into `weights`, each as likely as its weight says.
    pub(crate) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("the sum is above what was drawn")
    }

    /// A deadline: mostly soon, and on every boundary that there is.
    pub(crate) fn when(&mut self) -> When {
        match self.weighted(&[2, 6, 2, 5, 3, 1, 1]) {
            0 => When::Ago(self.below(50) as u16),
            1 => When::Ahead(self.below(100) as u16),
            2 => When::Ahead(self.word()),
            3 => self.edge(8, 70),
            4 => When::Reach { level: self.below(8) as u8, offset: self.between(-2, 2) as i8 },
            5 => When::Absolute(self.below(u64::MAX)),
            _ => When::End(self.below(4) as u8),
        }
    }

    /// Where a clock goes: mostly not far. One in so many steps leaps to anywhere.
    pub(crate) fn step(&mut self, leaps: u64) -> When {
        if self.below(leaps) == 0 {
            return self.when();
        }
        match self.weighted(&[2, 10, 4, 1]) {
            0 => When::Ahead(0),
            1 => When::Ahead(self.below(80) as u16 | 1),
            2 => self.edge(4, 40),
            _ => When::Ahead(self.word()),
        }
    }

    /// Sometimes, any geometry and any tick.
    pub(crate) fn free(&mut self) -> Option<Free> {
        let bytes: Vec<u8> = (0..16).map(|_| self.byte()).collect();
        let drawn = Free::arbitrary(&mut Unstructured::new(&bytes)).expect("there is enough");
        self.percent(30).then_some(drawn)
    }

    /// Where a clock stands in the beginning.
    pub(crate) fn start(&mut self) -> When {
        match self.weighted(&[2, 1, 1, 1]) {
            0 => When::Absolute(0),
            1 => When::Absolute(self.below(u64::MAX) >> 12),
            2 => When::Absolute(self.below(u64::MAX) >> 44),
            _ => When::End(1 + self.below(3) as u8),
        }
    }

    /// `when`, sometimes some nanoseconds off.
    pub(crate) fn nudged(&mut self, when: When) -> At {
        let nudge_ns = match self.weighted(&[3, 2, 1]) {
            0 => 0,
            1 => self.between(-1, 1) as i8,
            _ => self.between(-128, 127) as i8,
        };
        At { when, nudge_ns }
    }

    fn edge(&mut self, levels: u64, buckets: u64) -> When {
        let (level, buckets) = (self.below(levels) as u8, self.below(buckets) as u8);
        When::Edge { level, buckets, offset: self.between(-2, 2) as i8 }
    }
}
