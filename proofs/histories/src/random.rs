//! Random numbers from a seed: `SplitMix64`, which is enough to vary programs.

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The stream of one thread of a history.
    pub fn of_thread(seed: u64, thread: u64) -> Random {
        Random(Random(seed ^ thread.wrapping_mul(0xd1b5_4a32_d192_ed03)).number())
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// `true` once in `times` calls, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
