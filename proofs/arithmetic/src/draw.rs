//! Random numbers that like extremes.

/// A generator (splitmix64) of numbers from a seed.
#[derive(Debug)]
pub(crate) struct Draw(pub(crate) u64);

// === impl Draw ===

impl Draw {
    /// Any number, all equally likely.
    fn uniform(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, all equally likely.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.uniform() % end
    }

    /// Whether something that happens once in `n` times happens.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number of any length, often at an end or beside a power of two.
    pub(crate) fn any(&mut self) -> u64 {
        let bits = self.below(65) as u32;
        let near = self.below(5).wrapping_sub(2);
        match self.below(4) {
            0 => 1_u64.checked_shl(bits).unwrap_or(0).wrapping_add(near),
            1 if bits < 4 => u64::MAX - self.below(4),
            _ => self.uniform().checked_shr(bits).unwrap_or(0),
        }
    }

    /// The same from `first` to `last`.
    pub(crate) fn within(&mut self, first: u64, last: u64) -> u64 {
        match self.below(8) {
            0 => first,
            1 => last,
            _ => match (last - first).checked_add(1) {
                Some(count) => first + self.any() % count,
                None => self.any(),
            },
        }
    }

    /// A number at or beside a multiple of `unit`, or any.
    pub(crate) fn near_multiple(&mut self, unit: u64) -> u64 {
        if self.one_in(3) {
            return self.any();
        }
        let number = self.any();
        let multiple = number.checked_mul(unit).unwrap_or(number - number % unit.max(1));
        multiple.wrapping_add(self.below(3).wrapping_sub(1))
    }
}
