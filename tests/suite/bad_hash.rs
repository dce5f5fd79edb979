//! Hashes that have much in common. Which ones is a value: a map is compiled for each type.

use std::hash::{BuildHasher, Hasher};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Hashes {
    /// As bad as there can be: so many different ones.
    Few(u64),
    /// A number is its own hash.
    Same,
}

pub(crate) struct Hash {
    of: Hashes,
    sum: u64,
}

impl BuildHasher for Hashes {
    type Hasher = Hash;

    fn build_hasher(&self) -> Hash {
        Hash { of: *self, sum: 0 }
    }
}

impl Hasher for Hash {
    fn write(&mut self, bytes: &[u8]) {
        let Hashes::Few(hashes) = self.of else { unreachable!("numbers only") };
        self.sum = bytes.iter().fold(self.sum, |sum, &byte| sum + u64::from(byte)) % hashes;
    }

    fn write_u64(&mut self, number: u64) {
        match self.of {
            Hashes::Few(_) => self.write(&number.to_ne_bytes()),
            Hashes::Same => self.sum = number,
        }
    }

    fn finish(&self) -> u64 {
        self.sum
    }
}
