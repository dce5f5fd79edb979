//! Which buckets hold something: a bitmap that finds the next one quickly.
//!
//! Layer 0 has one bit per bucket, and every further layer one bit per word of the layer below,
//! up to a layer of a single word. Four levels of 64 buckets are two layers, and a search touches
//! at most two words per layer however empty the wheel is.
//!
//! *Invariant*: a bit of a higher layer is set exactly when the word under it is not zero.
//!
//! *Tested by*: the tests below, `tests/oracle.rs` through `Wheel::check`.

use alloc::boxed::Box;
use alloc::vec::Vec;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of bucket numbers.
#[derive(Debug)]
pub(super) struct Occupancy {
    /// Layer 0.
    words: Vec<u64>,
    /// The further layers.
    sums: Vec<Box<[u64]>>,
}

// === impl Occupancy ===

impl Occupancy {
    /// A set with room for nothing.
    pub(super) const fn new() -> Occupancy {
        Occupancy { words: Vec::new(), sums: Vec::new() }
    }

    /// Makes room for the numbers below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        self.words.resize(count.div_ceil(WORD_BITS), 0);
        self.sums.clear();
        let mut below = self.words.as_slice();
        while below.len() > 1 {
            let sum = |words: &[u64]| {
                words.iter().rev().fold(0, |sum, word| sum << 1 | u64::from(*word != 0))
            };
            self.sums.push(below.chunks(WORD_BITS).map(sum).collect());
            below = &self.sums[self.sums.len() - 1];
        }
    }

    /// Puts `number` in.
    #[inline]
    pub(super) fn set(&mut self, number: usize) {
        let word = &mut self.words[number / WORD_BITS];
        let was = core::mem::replace(word, *word | 1 << (number % WORD_BITS));
        if was == 0 {
            self.set_sums(number / WORD_BITS);
        }
    }

    #[inline(never)]
    fn set_sums(&mut self, mut bit: usize) {
        for layer in &mut self.sums {
            let word = &mut layer[bit / WORD_BITS];
            let was = core::mem::replace(word, *word | 1 << (bit % WORD_BITS));
            if was != 0 {
                break;
            }
            bit /= WORD_BITS;
        }
    }

    /// Takes `number` out.
    #[inline]
    pub(super) fn clear(&mut self, number: usize) {
        let word = &mut self.words[number / WORD_BITS];
        *word &= !(1 << (number % WORD_BITS));
        if *word == 0 {
            self.clear_sums(number / WORD_BITS);
        }
    }

    #[inline(never)]
    fn clear_sums(&mut self, mut bit: usize) {
        for layer in &mut self.sums {
            let word = &mut layer[bit / WORD_BITS];
            *word &= !(1 << (bit % WORD_BITS));
            if *word != 0 {
                break;
            }
            bit /= WORD_BITS;
        }
    }

    /// Whether `number` is in.
    pub(super) fn contains(&self, number: usize) -> bool {
        self.words[number / WORD_BITS] & (1 << (number % WORD_BITS)) != 0
    }

    /// The first number in the set that is not below `from`.
    #[inline]
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let index = from / WORD_BITS;
        let word = self.words.get(index)? >> (from % WORD_BITS);
        if word != 0 {
            return Some(from + word.trailing_zeros() as usize);
        }
        self.next_word(index + 1).map(|next| first_under(&self.words, next))
    }

    /// The first word of layer 0 that is not empty, from the one at `bit` on.
    fn next_word(&self, mut bit: usize) -> Option<usize> {
        for (height, layer) in self.sums.iter().enumerate() {
            let index = bit / WORD_BITS;
            let word = layer.get(index)? >> (bit % WORD_BITS);
            if word != 0 {
                let found = bit + word.trailing_zeros() as usize;
                let below = self.sums[..height].iter().rev();
                return Some(below.fold(found, |bit, layer| first_under(layer, bit)));
            }
            // This word is exhausted: the number lies under a later bit of the next layer.
            bit = index + 1;
        }
        None
    }

    /// Asserts that every layer sums up the one below.
    pub(super) fn check(&self) {
        let layers =
            || core::iter::once(self.words.as_slice()).chain(self.sums.iter().map(|l| &**l));
        for (below, layer) in layers().zip(layers().skip(1)) {
            for (index, word) in below.iter().enumerate() {
                let summed = layer[index / WORD_BITS] & (1 << (index % WORD_BITS)) != 0;
                assert_eq!(summed, *word != 0, "a layer disagrees with the one below");
            }
        }
        assert!(layers().last().is_none_or(|top| top.len() <= 1), "the top layer is one word");
    }
}

/// The lowest bit of word `index`, which is not empty, by its number in the layer.
#[inline]
fn first_under(layer: &[u64], index: usize) -> usize {
    index * WORD_BITS + layer[index].trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    const SIZES: [usize; 9] = [2, 3, 63, 64, 65, 512, 1000, 4097, 1 << 20];

    fn with_room_for(count: usize) -> Occupancy {
        let mut occupancy = Occupancy::new();
        occupancy.grow(count);
        occupancy
    }

    #[test]
    fn an_empty_set_has_no_next_number() {
        assert_eq!(Occupancy::new().next(0), None);
        for count in SIZES {
            let occupancy = with_room_for(count);
            assert_eq!(occupancy.next(0), None);
            assert_eq!(occupancy.next(count - 1), None);
            occupancy.check();
        }
    }

    #[test]
    fn a_single_number_is_found_from_everywhere_below() {
        for count in SIZES {
            for number in [0, 1, count / 2, count - 1] {
                let mut occupancy = with_room_for(count);
                occupancy.set(number);
                occupancy.check();
                for from in [0, 1, count / 3, count / 2, count - 1, count] {
                    let expected = (from <= number).then_some(number);
                    assert_eq!(occupancy.next(from), expected, "{count} {number} {from}");
                }
                occupancy.clear(number);
                assert_eq!(occupancy.next(0), None);
            }
        }
    }

    #[test]
    fn growing_keeps_what_is_in_the_set() {
        let mut occupancy = Occupancy::new();
        for (count, previous) in SIZES.into_iter().zip([1].into_iter().chain(SIZES)) {
            occupancy.grow(count);
            occupancy.check();
            occupancy.set(count - 1);
            assert!(occupancy.contains(previous - 1) || previous == 1, "{previous} in {count}");
        }
        let mut found = Vec::new();
        while let Some(number) = occupancy.next(found.last().map_or(0, |last| last + 1)) {
            found.push(number);
        }
        assert_eq!(found, SIZES.map(|count| count - 1));
    }

    #[test]
    fn it_agrees_with_a_sorted_set_through_random_changes() {
        for count in SIZES {
            let mut occupancy = with_room_for(count);
            let mut sorted = BTreeSet::new();
            let mut random = 0x9e37_79b9_7f4a_7c15_u64;
            for _ in 0..2_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = (random >> 33) as usize % count;
                if sorted.insert(number) {
                    occupancy.set(number);
                } else {
                    sorted.remove(&number);
                    occupancy.clear(number);
                }
                let from = (random >> 11) as usize % count;
                assert_eq!(occupancy.next(from), sorted.range(from..).next().copied());
                assert_eq!(occupancy.contains(number), sorted.contains(&number));
            }
            occupancy.check();
        }
    }
}
