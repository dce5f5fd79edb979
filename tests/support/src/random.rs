//! A small seeded generator: the same seed, the same workload.

/// Pseudo-random numbers (xorshift with a multiplied output).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

/// Lets a little time go by, which is another one each time.
pub fn dawdle(random: &mut Random) {
    for _ in 0..random.below(2000) {
        std::hint::spin_loop();
    }
}
