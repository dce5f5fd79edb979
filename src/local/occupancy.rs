//! Which buckets of a level hold something: a bitmap that finds the next one quickly.
//!
//! Layer 0 has one bit per slot, and every further layer one bit per word of the layer below, up
//! to a layer of a single word. A level of 64 slots is one word, one of 2^20 slots four layers,
//! and a search touches at most two words per layer however empty the level is.
//!
//! *Invariants*: a bit of a higher layer is set exactly when the word under it is not zero; bits
//! beyond the last slot are zero.
//!
//! *Tested by*: the tests below, `tests/local_oracle.rs` through `Wheel::check`.

const WORD_BITS: usize = u64::BITS as usize;

/// A set of slots.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    layers: Box<[Box<[u64]>]>,
}

// === impl Occupancy ===

impl Occupancy {
    /// A set that can hold the slots `0..slots`, all absent.
    pub(super) fn new(slots: u32) -> Occupancy {
        let mut layers = Vec::new();
        let mut bits = slots as usize;
        loop {
            let words = bits.div_ceil(WORD_BITS).max(1);
            layers.push(vec![0; words].into_boxed_slice());
            if words == 1 {
                return Occupancy { layers: layers.into_boxed_slice() };
            }
            bits = words;
        }
    }

    /// Puts `slot` in.
    #[inline]
    pub(super) fn set(&mut self, slot: u32) {
        let mut bit = slot as usize;
        for layer in &mut self.layers {
            let word = &mut layer[bit / WORD_BITS];
            let was = *word;
            *word |= 1 << (bit % WORD_BITS);
            if was != 0 {
                break;
            }
            bit /= WORD_BITS;
        }
    }

    /// Takes `slot` out.
    #[inline]
    pub(super) fn clear(&mut self, slot: u32) {
        let mut bit = slot as usize;
        for layer in &mut self.layers {
            let word = &mut layer[bit / WORD_BITS];
            *word &= !(1 << (bit % WORD_BITS));
            if *word != 0 {
                break;
            }
            bit /= WORD_BITS;
        }
    }

    /// Whether `slot` is in.
    pub(super) fn contains(&self, slot: u32) -> bool {
        let bit = slot as usize;
        self.layers[0][bit / WORD_BITS] & (1 << (bit % WORD_BITS)) != 0
    }

    /// The first slot from `slot` on, going round once.
    #[inline]
    pub(super) fn next_round(&self, slot: u32) -> Option<u32> {
        match self.next(slot as usize) {
            None if slot > 0 => self.next(0),
            found => found,
        }
    }

    /// The first slot not before `bit`.
    #[inline]
    fn next(&self, mut bit: usize) -> Option<u32> {
        for (height, layer) in self.layers.iter().enumerate() {
            let index = bit / WORD_BITS;
            let word = layer.get(index)? >> (bit % WORD_BITS);
            if word != 0 {
                return Some(self.descend(height, bit + word.trailing_zeros() as usize));
            }
            // Nothing left in this word: what is wanted lies under a later bit of the next layer.
            bit = index + 1;
        }
        None
    }

    /// The first slot under `bit` of layer `height`.
    #[inline]
    fn descend(&self, height: usize, mut bit: usize) -> u32 {
        for layer in self.layers[..height].iter().rev() {
            bit = bit * WORD_BITS + layer[bit].trailing_zeros() as usize;
        }
        bit as u32
    }

    /// Asserts that every layer sums up the one below.
    pub(super) fn check(&self, slots: u32) {
        for pair in self.layers.windows(2) {
            for (index, word) in pair[0].iter().enumerate() {
                let summed = pair[1][index / WORD_BITS] & (1 << (index % WORD_BITS)) != 0;
                assert_eq!(summed, *word != 0, "a layer disagrees with the one below");
            }
        }
        assert!(self.next(slots as usize).is_none(), "a bit beyond the last slot");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SIZES: [u32; 9] = [2, 3, 63, 64, 65, 512, 1000, 4097, 1 << 20];

    #[test]
    fn an_empty_level_has_no_next_bucket() {
        for slots in SIZES {
            let occupancy = Occupancy::new(slots);
            assert_eq!(occupancy.next_round(0), None);
            assert_eq!(occupancy.next_round(slots - 1), None);
            occupancy.check(slots);
        }
    }

    #[test]
    fn a_single_bucket_is_found_from_everywhere() {
        for slots in SIZES {
            for slot in [0, 1, slots / 2, slots - 1] {
                let mut occupancy = Occupancy::new(slots);
                occupancy.set(slot);
                occupancy.check(slots);
                for from in [0, 1, slots / 3, slots / 2, slots - 1] {
                    assert_eq!(occupancy.next_round(from), Some(slot), "{slots} {slot} {from}");
                }
                occupancy.clear(slot);
                assert_eq!(occupancy.next_round(0), None);
            }
        }
    }

    #[test]
    fn it_agrees_with_a_sorted_set_through_random_changes() {
        for slots in SIZES {
            let mut occupancy = Occupancy::new(slots);
            let mut sorted = BTreeSet::new();
            let mut random = 0x9e37_79b9_7f4a_7c15_u64;
            for _ in 0..2_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let slot = ((random >> 33) % u64::from(slots)) as u32;
                if sorted.insert(slot) {
                    occupancy.set(slot);
                } else {
                    sorted.remove(&slot);
                    occupancy.clear(slot);
                }
                let from = ((random >> 11) % u64::from(slots)) as u32;
                let expected = sorted.range(from..).next().or_else(|| sorted.first()).copied();
                assert_eq!(occupancy.next_round(from), expected);
                assert_eq!(occupancy.contains(slot), sorted.contains(&slot));
            }
            occupancy.check(slots);
        }
    }
}
