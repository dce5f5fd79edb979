//! A binary heap under one lock, from which a cancelled timer is removed at once.

use std::ptr::NonNull;
use std::time::Duration;

use tickless_sync::{CachePadded, Mutex, UnsafeCell};

use super::node::{Handle, Node};
use super::{Setup, Time, Timers, Wanted};

pub(crate) struct Heap {
    time: Time,
    wanted: Wanted,
    tree: CachePadded<Mutex<Tree>>,
}

/// The heap's array. Each item knows its deadline, so that a comparison looks at no node.
struct Tree {
    items: Vec<UnsafeCell<Item>>,
}

#[derive(Clone, Copy)]
struct Item {
    deadline: u64,
    node: NonNull<Node>,
}

// SAFETY: the nodes are touched under the lock that the tree lies in.
unsafe impl Send for Tree {}

impl Timers for Heap {
    type Handle = Handle;

    fn new(setup: Setup) -> Heap {
        // Room for all that wait at a time: an array that grows would be copied, uncounted.
        let items = Vec::with_capacity(setup.workers * 256);
        let tree = CachePadded::new(Mutex::new(Tree { items }));
        Heap { time: Time::new(setup), wanted: Wanted::new(setup), tree }
    }

    fn begin(&self, _worker: usize) {}

    fn schedule(&self, _worker: usize, delay: Duration) -> Handle {
        let node = self.file(delay, false);
        Handle { node, shard: 0 }
    }

    fn schedule_detached(&self, _worker: usize, delay: Duration) {
        self.file(delay, true);
    }

    fn cancel(&self, Handle { node, .. }: Handle) {
        let mut tree = self.tree.lock().expect("nothing panics under this lock");
        // SAFETY: the handle keeps the node.
        let place = unsafe { node.as_ref() }.look().place;
        tree.remove(place);
        drop(tree);
        // SAFETY: it is out of the heap.
        unsafe { Node::free(node) };
    }

    fn reset(&self, handle: &mut Handle, delay: Duration) {
        let deadline = self.time.deadline(delay);
        let mut tree = self.tree.lock().expect("nothing panics under this lock");
        // SAFETY: the handle keeps the node.
        let place = unsafe { handle.node.as_ref() }.look().place;
        tree.remove(place);
        tree.insert(Item { deadline, node: handle.node });
        drop(tree);
        self.wanted.at(deadline);
    }

    fn turn(&self, _part: usize) -> usize {
        let now = self.time.now();
        let mut fired = 0;
        if !self.wanted.is_due(now) {
            return fired;
        }
        loop {
            // A lock for each, so that nobody waits for a crowd.
            let mut tree = self.tree.lock().expect("nothing panics under this lock");
            let Some(first) = tree.first() else { return fired };
            if first.deadline > now {
                self.wanted.at(first.deadline);
                return fired;
            }
            tree.remove(0);
            // SAFETY: it is out of the heap.
            unsafe { Node::fire(first.node) };
            fired += 1;
        }
    }

    fn advance(&self, by: Duration) {
        self.time.advance(by);
    }
}

impl Heap {
    fn file(&self, delay: Duration, is_detached: bool) -> NonNull<Node> {
        let deadline = self.time.deadline(delay);
        let node = Node::allocate(deadline, is_detached);
        let mut tree = self.tree.lock().expect("nothing panics under this lock");
        tree.insert(Item { deadline, node });
        drop(tree);
        self.wanted.at(deadline);
        node
    }
}

impl Tree {
    fn first(&self) -> Option<Item> {
        (!self.items.is_empty()).then(|| self.at(0))
    }

    fn insert(&mut self, item: Item) {
        let place = self.items.len();
        self.items.push(UnsafeCell::new(item));
        self.put(place, item);
        self.rise(place);
    }

    fn remove(&mut self, place: usize) {
        let last = self.items.len() - 1;
        let moved = self.at(last);
        self.items.pop();
        if place < last {
            self.put(place, moved);
            self.rise(place);
            self.sink(place);
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.at(place).deadline < self.at((place - 1) / 2).deadline {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.items.len());
            let Some(least) = children.min_by_key(|&child| self.at(child).deadline) else { return };
            if self.at(place).deadline <= self.at(least).deadline {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (one, other) = (self.at(a), self.at(b));
        self.put(a, other);
        self.put(b, one);
    }

    fn at(&self, place: usize) -> Item {
        // SAFETY: the tree is locked.
        self.items[place].with(|item| unsafe { *item })
    }

    fn put(&mut self, place: usize, item: Item) {
        // SAFETY: the tree is locked.
        self.items[place].with_mut(|cell| unsafe { *cell = item });
        // SAFETY: what is in the heap is there.
        unsafe { item.node.as_ref() }.change(|filed| filed.place = place);
    }
}
