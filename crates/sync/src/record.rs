//! Numbers that belong together, which are read without a lock.
//!
//! *Owner*: one thread at a time writes, the holder of the lock that guards what the numbers are
//! of. Any thread reads. A reader holds up nobody; it gives way while a thread writes.
//!
//! *Invariant*: the version is odd while the numbers are written.

use super::{Counter, Ordering, fence, thread};

/// `N` numbers, as one thread wrote them last.
pub struct Record<const N: usize> {
    version: Counter,
    words: [Counter; N],
}

impl<const N: usize> Record<N> {
    /// All are zero.
    pub fn new() -> Record<N> {
        Record { version: Counter::new(0), words: [const { Counter::new(0) }; N] }
    }

    /// Records these numbers. The caller holds the lock that guards what they are of.
    pub fn write(&self, numbers: [u64; N]) {
        // ORDER: Relaxed, Release fence - who reads one of these numbers finds the version changed.
        let before = self.version.load(Ordering::Relaxed);
        self.version.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, number) in self.words.iter().zip(numbers) {
            // ORDER: Relaxed - the version says whether they belong together.
            word.store(number, Ordering::Relaxed);
        }
        // ORDER: Release - pairs with the Acquire in `read`: the numbers.
        self.version.store(before.wrapping_add(2), Ordering::Release);
    }

    /// Returns the numbers of one write.
    pub fn read(&self) -> [u64; N] {
        loop {
            // ORDER: Acquire - pairs with the Release in `write`: the numbers, or later ones.
            let before = self.version.load(Ordering::Acquire);
            // ORDER: Relaxed, Acquire fence - pairs with the fence in `write`: if a number is of a
            // later write, the version is as well.
            let numbers = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            // ORDER: Relaxed - ordered by the fence.
            if before % 2 == 0 && self.version.load(Ordering::Relaxed) == before {
                return numbers;
            }
            thread::yield_now();
        }
    }
}

impl<const N: usize> Default for Record<N> {
    fn default() -> Record<N> {
        Record::new()
    }
}

impl<const N: usize> std::fmt::Debug for Record<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Record").field(&self.read()).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_read_were_written_together() {
        let record = Record::<3>::new();
        std::thread::scope(|threads| {
            let writer =
                threads.spawn(|| (1..=20_000).for_each(|n| record.write([n, 2 * n, 3 * n])));
            while !writer.is_finished() {
                let [one, two, three] = record.read();
                assert_eq!((two, three), (2 * one, 3 * one));
            }
        });
        assert_eq!(record.read(), [20_000, 40_000, 60_000]);
    }
}
