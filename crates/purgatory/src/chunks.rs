//! Numbered things in chunks of memory. A chunk is freed when it is empty.
//!
//! *Owner*: the thread that holds the lock of the part.
//!
//! *Invariants*: the numbers of the chunks with room are in `open`. An empty chunk is the only one
//! with room; it is kept, so that a thing that comes and goes does not allocate a chunk each time.
//!
//! *Tested by*: the unit tests below, and all of the purgatory.

use std::array;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

/// The number of things in a chunk.
const ROOM: usize = 16;

/// Things by their numbers. A thing keeps its number until it is removed.
pub(super) struct Chunks<T> {
    /// The chunks by their numbers; `None`: the number is free.
    chunks: Vec<Option<Box<Chunk<T>>>>,
    /// Free numbers of chunks.
    free: Vec<u32>,
    /// The chunks with room.
    open: BTreeSet<u32>,
    len: usize,
}

struct Chunk<T> {
    things: [Option<T>; ROOM],
    /// One bit for each place that is taken.
    taken: u16,
}

const _: () = assert!(ROOM == u16::BITS as usize, "a place is a bit");

// === impl Chunks ===

impl<T> Chunks<T> {
    pub(super) const fn new() -> Chunks<T> {
        Chunks { chunks: Vec::new(), free: Vec::new(), open: BTreeSet::new(), len: 0 }
    }

    /// How many things there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a thing and returns its number.
    ///
    /// # Panics
    /// There are about 4 billion things already.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        let number = match self.open.first() {
            Some(number) => *number,
            None => self.add_chunk(),
        };
        let chunk = self.chunk(number);
        let place = chunk.taken.trailing_ones();
        chunk.things[place as usize] = Some(thing);
        chunk.taken |= 1 << place;
        if chunk.taken == u16::MAX {
            self.open.remove(&number);
        }
        self.len += 1;
        number * ROOM as u32 + place
    }

    /// Removes the thing with this number.
    pub(super) fn remove(&mut self, number: u32) -> T {
        let (number, place) = (number / ROOM as u32, number as usize % ROOM);
        let chunk = self.chunk(number);
        let thing = chunk.things[place].take().expect("there is such a thing");
        let was_full = chunk.taken == u16::MAX;
        chunk.taken &= !(1 << place);
        let is_empty = chunk.taken == 0;
        if was_full {
            self.open.insert(number);
        }
        self.len -= 1;
        if is_empty && self.open.len() > 1 {
            self.open.remove(&number);
            self.chunks[number as usize] = None;
            self.free.push(number);
        }
        if self.len == 0 && self.chunks.len() > 1 {
            // No number is in use any more, so the numbers and their tables start anew.
            *self = Chunks::new();
        }
        thing
    }

    /// All things.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flat_map(|chunk| chunk.things.iter().flatten())
    }

    /// Adds a chunk, which is then the only one with room, and returns its number.
    #[inline(never)]
    fn add_chunk(&mut self) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            assert!(self.chunks.len() < u32::MAX as usize / ROOM, "over 4,000,000,000 of them");
            self.chunks.push(None);
            self.chunks.len() as u32 - 1
        });
        let things = array::from_fn(|_| None);
        self.chunks[number as usize] = Some(Box::new(Chunk { things, taken: 0 }));
        self.open.insert(number);
        number
    }

    fn chunk(&mut self, number: u32) -> &mut Chunk<T> {
        self.chunks[number as usize].as_mut().expect("a chunk with that number is there")
    }

    /// The number of things that the allocated chunks can hold.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.chunks.iter().flatten().count() * ROOM
    }
}

impl<T> Index<u32> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        let chunk = self.chunks[number as usize / ROOM].as_ref();
        let thing = chunk.and_then(|chunk| chunk.things[number as usize % ROOM].as_ref());
        thing.expect("there is such a thing")
    }
}

impl<T> IndexMut<u32> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        let chunk = self.chunks[number as usize / ROOM].as_mut();
        let thing = chunk.and_then(|chunk| chunk.things[number as usize % ROOM].as_mut());
        thing.expect("there is such a thing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found_by_their_numbers_until_they_are_taken_out() {
        let mut chunks = Chunks::new();
        let numbers: Vec<u32> = (0..1_000_usize).map(|thing| chunks.insert(thing)).collect();
        assert!(numbers.iter().enumerate().all(|(thing, number)| chunks[*number] == thing));
        for (thing, number) in numbers.iter().enumerate().filter(|(thing, _)| thing % 3 == 0) {
            assert_eq!(chunks.remove(*number), thing);
        }
        let left: Vec<usize> = chunks.iter().copied().collect();
        assert_eq!(left, (0..1_000).filter(|thing| thing % 3 != 0).collect::<Vec<_>>());
        assert!(left.iter().all(|thing| chunks[numbers[*thing]] == *thing));
        assert_eq!(chunks.len(), left.len());
    }

    #[test]
    fn new_things_take_the_room_of_old_ones() {
        let mut chunks = Chunks::new();
        let numbers: Vec<u32> = (0..1_000).map(|thing| chunks.insert(thing)).collect();
        let capacity = chunks.capacity();
        for round in 0..10 {
            for number in numbers.iter().skip(round).step_by(10) {
                chunks.remove(*number);
            }
            (0..100).for_each(|_| _ = chunks.insert(0));
            assert_eq!((chunks.len(), chunks.capacity()), (1_000, capacity));
        }
    }

    #[test]
    fn memory_goes_back_although_some_stay() {
        let mut chunks = Chunks::new();
        let numbers: Vec<u32> = (0..100 * ROOM).map(|thing| chunks.insert(thing)).collect();
        for (thing, number) in numbers.iter().enumerate() {
            if thing % (10 * ROOM) != 0 {
                chunks.remove(*number);
            }
        }
        assert_eq!((chunks.len(), chunks.capacity()), (10, 10 * ROOM));
        let more: Vec<u32> = (10..100 * ROOM).map(|thing| chunks.insert(thing)).collect();
        assert_eq!(chunks.chunks.len(), 100, "numbers of chunks are used again");
        more.into_iter().for_each(|number| _ = chunks.remove(number));
        for number in numbers.iter().step_by(10 * ROOM) {
            chunks.remove(*number);
        }
        assert_eq!((chunks.len(), chunks.capacity(), chunks.chunks.len()), (0, 0, 0));
        let number = chunks.insert(7);
        assert_eq!(chunks.remove(number), 7);
    }

    #[test]
    fn who_comes_and_goes_where_all_else_is_full_needs_no_new_memory() {
        let mut chunks = Chunks::new();
        (0..ROOM).for_each(|thing| _ = chunks.insert(thing));
        for round in 0..10 {
            let number = chunks.insert(round);
            assert_eq!(chunks.capacity(), 2 * ROOM);
            assert_eq!(chunks.remove(number), round);
            assert_eq!(chunks.capacity(), 2 * ROOM, "the room is kept for the next");
        }
    }
}
