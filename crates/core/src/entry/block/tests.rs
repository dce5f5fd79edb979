//! Blocks and lists of blocks, on one thread.

use super::*;

fn bit<T>(entry: NonNull<Entry<T>>) -> u64 {
    // SAFETY: the tests look at entries of blocks that they have.
    unsafe { entry.as_ref() }.bit()
}

fn every_block_is_laid_out<T>() {
    for capacity in [1, 2, 3, Block::<T>::CAPACITY, MOST] {
        for colour in 0..=capacity {
            let block = Block::<T>::allocate(7, capacity, colour);
            // SAFETY: they were just allocated, here and below.
            let entries: Vec<_> = unsafe { block.entries() }.collect();
            assert_eq!(entries.len(), capacity);
            let header = (block.header.addr().get(), Block::<T>::HEADER);
            let places = entries.iter().map(|entry| (entry.addr().get(), Block::<T>::ENTRY));
            let mut places: Vec<_> = places.chain([header]).collect();
            places.sort_unstable();
            assert!(places.is_sorted_by(|(a, size), (b, _)| a + size == *b), "side by side");
            // SAFETY: the entry is in its block.
            assert!(entries.iter().all(|&entry| unsafe { Block::of(entry) } == block));
            // SAFETY: the entry is in its block.
            assert!(entries.iter().all(|entry| unsafe { entry.as_ref() }.engine() == 7));
            let bits = entries.iter().fold(0, |bits, &entry| bits | bit(entry));
            assert_eq!(bits.count_ones() as usize, capacity, "each has a bit of its own");
            // SAFETY: all of them are given up.
            entries.into_iter().for_each(|entry| unsafe { Entry::free(entry) });
        }
    }
}

#[test]
fn each_entry_finds_its_header_whatever_its_size_and_wherever_the_header_is() {
    #[repr(align(256))]
    struct Aligned;
    #[repr(align(8192))]
    struct BeyondAPage;
    every_block_is_laid_out::<()>();
    every_block_is_laid_out::<[u64; 5]>();
    every_block_is_laid_out::<[u8; 5000]>();
    every_block_is_laid_out::<Aligned>();
    every_block_is_laid_out::<BeyondAPage>();
    assert_eq!(Block::<()>::CAPACITY, 63);
    assert_eq!(Block::<()>::layout(63), Layout::from_size_align(SIZE, 64).unwrap());
    assert_eq!(Block::<[u8; 5000]>::CAPACITY, 1);
}

#[test]
fn a_block_is_listed_when_half_of_it_is_free_and_not_twice() {
    let block = Block::<()>::allocate(0, 5, 2);
    // SAFETY: it was just allocated.
    let bits: Vec<u64> = unsafe { block.entries() }.map(bit).collect();
    // SAFETY: each is given up once.
    let give = |i: usize, has_list| unsafe { block.give(bits[i], has_list) };
    assert_eq!(give(4, true), Given::Kept);
    assert_eq!(give(1, true), Given::Kept);
    assert_eq!(give(0, false), Given::Kept, "there is no list");
    assert_eq!(give(2, true), Given::Listed);
    // SAFETY: it is listed, and on no list but this thread's.
    assert!(!unsafe { block.is_whole() });
    // SAFETY: it is on no list but this thread's.
    let free: Vec<_> = unsafe { block.take_free() }.collect();
    assert_eq!(free.iter().map(|&it| bit(it)).sum::<u64>(), 0b10111);
    assert_eq!(give(3, true), Given::Kept, "four are in use again");
    assert_eq!(give(0, true), Given::Kept);
    assert_eq!(give(1, true), Given::Listed);
    assert_eq!(give(2, true), Given::Kept);
    assert_eq!(give(4, false), Given::WholeInList);
    // SAFETY: it is listed, and on no list but this thread's.
    assert!(unsafe { block.is_whole() } && unsafe { block.unlist() });
    // SAFETY: it is whole, and this thread's.
    unsafe { block.free() };
}

#[test]
fn blocks_leave_a_list_from_its_end_and_from_where_they_are() {
    let blocks: Vec<_> = (0..5).map(|_| Block::<()>::allocate(0, 1, 0)).collect();
    let mut list = BlockList::empty();
    // SAFETY: nobody else has the blocks, and each is on no list.
    blocks.iter().for_each(|&block| unsafe { list.push(block) });
    // SAFETY: it is on the list.
    unsafe { list.remove(blocks[2]) };
    assert!(list.pop() == Some(blocks[3]) && list.blocks[2] == blocks[4] && list.count() == 3);
    // SAFETY: it is on the list, moved to the place of the other.
    unsafe { list.remove(blocks[4]) };
    // SAFETY: it is on the list.
    unsafe { list.remove(blocks[0]) };
    assert!(list.pop() == Some(blocks[1]) && list.pop().is_none() && list.count() == 0);
    // SAFETY: nobody else has them.
    blocks.into_iter().for_each(|block| unsafe { block.free() });
}
