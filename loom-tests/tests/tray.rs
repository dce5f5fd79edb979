//! BUCKET-READ, without the shards around it: a reader reads lists and a tray while their owner
//! takes, passes and gives.
//!
//! Who races: an owner, a reader, and in one model a producer. Asserted: the reader finds each node
//! as it was pushed, and each node that is in a list or in the tray throughout. Nodes are never
//! freed here: that is `bucket_read`.

use std::ptr::NonNull;
use std::sync::Arc;

use loom_tests::{check, wheel};
use tickless_core::entry::{Entry, Guard, Linked};
use tickless_core::inbox::{At, LANES, Lanes, OWN_LANES, OwnLanes, Tray, Walk};
use tickless_core::time::Tick;
use tickless_sync::{AtomicPtr, AtomicU32, Ordering, thread};

/// A node with something in it that is written before it is pushed.
struct Node {
    next: AtomicPtr<Node>,
    value: AtomicU32,
}

// SAFETY: a node has one link.
unsafe impl Linked for Node {
    fn next(&self) -> &AtomicPtr<Node> {
        &self.next
    }
}

/// What an owner has, and three nodes.
struct Bench {
    lanes: Lanes<Node>,
    own: OwnLanes<Node>,
    wide: Box<Tray<Node>>,
    narrow: Box<Tray<Node>>,
    nodes: [Node; 3],
}

impl Bench {
    fn new() -> Arc<Bench> {
        let null = std::ptr::null_mut;
        let node = || Node { next: AtomicPtr::new(null()), value: AtomicU32::new(0) };
        Arc::new(Bench {
            lanes: Lanes::default(),
            own: OwnLanes::default(),
            wide: Box::new(Tray::wide()),
            narrow: Box::new(Tray::narrow()),
            nodes: [node(), node(), node()],
        })
    }

    /// A node, written for the first time.
    fn written(&self, n: usize) -> NonNull<Node> {
        // Relaxed: a thread that finds the node sees this by how the node got there.
        self.nodes[n].value.store(n as u32 + 1, Ordering::Relaxed);
        NonNull::from(&self.nodes[n])
    }

    /// Pushes where others push too.
    fn push(&self, node: NonNull<Node>) {
        // SAFETY: the caller owns the node, which stays as long as the bench.
        unsafe { self.lanes.push(node, 0) }.expect("nobody closes");
    }

    fn push_own(&self, node: NonNull<Node>) {
        // SAFETY: the caller owns the lists and the node, which stays as long as the bench.
        unsafe { self.own.push(node, 0) };
    }

    fn give(&self, node: NonNull<Node>) {
        // SAFETY: as above.
        unsafe { self.narrow.give(node, 0) };
    }

    /// Takes all lists into the wide tray, which is empty.
    fn take(&self) -> At {
        self.wide.begin(0);
        // SAFETY: the bench has one owner.
        unsafe { self.wide.take(&self.lanes, &self.own) }
    }

    /// The same with the owner's own lists alone, which were filed at `of`.
    fn take_own(&self, of: u64) -> At {
        self.wide.begin(of);
        // SAFETY: the bench has one owner.
        unsafe { self.wide.take(&Lanes::default(), &self.own) }
    }

    fn pass(&self, at: &mut At) {
        let node = self.wide.peek(at).expect("it has a node");
        // SAFETY: the tray is the caller's, and showed the node.
        unsafe { self.wide.pass(at, node) };
    }

    /// How far the trays were gone through; `None` if a node is on its way.
    fn progress(&self) -> Option<Vec<usize>> {
        let mut progress = Vec::new();
        let is_still =
            [&*self.wide, &*self.narrow].map(|tray: &Tray<Node>| tray.note(&mut progress));
        is_still.into_iter().all(|is_still| is_still).then_some(progress)
    }

    fn guard(&self) -> Guard<'_> {
        // SAFETY: a node stays as long as the bench.
        unsafe { Guard::assume() }
    }

    /// Reads everything once, the lists first. Returns whether it found each node.
    fn read(&self) -> [bool; 3] {
        let mut found = [false; 3];
        let mut see = |node: &Node| {
            let value = node.value.load(Ordering::Relaxed);
            assert_ne!(value, 0, "found before it was written");
            found[value as usize - 1] = true;
        };
        let guard = self.guard();
        let shared = (0..LANES).map(|lane| self.lanes.lane(lane).first(guard));
        for first in (0..OWN_LANES).map(|lane| self.own.first(lane, guard)).chain(shared) {
            Walk::from(first, guard).take(3).for_each(&mut see);
        }
        for tray in [&self.wide, &self.narrow] {
            let visit = |_, node: &Node| {
                see(node);
                true
            };
            tray.read(guard, &mut 9, visit);
        }
        found
    }
}

fn read_in_thread(bench: &Arc<Bench>) -> thread::JoinHandle<[bool; 3]> {
    let bench = bench.clone();
    thread::spawn(move || bench.read())
}

#[test]
fn a_reader_finds_what_an_owner_pushes_takes_and_passes_as_it_was_written() {
    check(2, || {
        let bench = Bench::new();
        let reader = read_in_thread(&bench);
        bench.push_own(bench.written(0));
        bench.push_own(bench.written(1));
        bench.pass(&mut bench.take());
        reader.join().unwrap();
        assert_eq!(bench.read(), [true, false, false]);
    });
}

/// A reader that looks again if anything left a tray meanwhile: it finds what is taken and pushed
/// again while it looks, or sees that it has to look again.
#[test]
fn what_leaves_a_tray_for_a_list_leaves_a_trace() {
    check(1, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        let reader = {
            let bench = bench.clone();
            thread::spawn(move || {
                let before = bench.progress();
                let found = bench.read()[0];
                (found, before.is_some() && before == bench.progress())
            })
        };
        let mut at = bench.take();
        let node = bench.wide.peek(&at).expect("it has a node");
        // SAFETY: the bench has one owner, and the node is passed next.
        unsafe { bench.wide.set_moving(node) };
        bench.pass(&mut at);
        bench.push_own(node);
        bench.wide.set_moved();
        let (found, is_same) = reader.join().unwrap();
        assert!(found || !is_same, "missed, and nothing to tell of it");
    });
}

/// All that leads the reader to the node is that it moves.
#[test]
fn a_reader_finds_what_moves_as_it_was_written() {
    check(1, || {
        let bench = Bench::new();
        let owned = bench.clone();
        let owner = thread::spawn(move || {
            let node = owned.written(0);
            owned.push_own(node);
            let mut at = owned.take();
            // SAFETY: the bench has one owner, and the node is passed next.
            unsafe { owned.wide.set_moving(node) };
            owned.pass(&mut at);
            owned.give(node);
            owned.wide.set_moved();
        });
        bench.read();
        owner.join().unwrap();
        assert_eq!(bench.read(), [true, false, false]);
    });
}

/// The tray is filled anew while the reader reads it.
#[test]
fn a_reader_finds_what_an_owner_takes_next_as_it_was_written() {
    check(2, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        let mut at = bench.take();
        let reader = read_in_thread(&bench);
        bench.pass(&mut at);
        bench.push_own(bench.written(1));
        bench.take();
        reader.join().unwrap();
        assert_eq!(bench.read(), [false, true, false]);
    });
}

#[test]
fn a_reader_finds_what_a_producer_pushes_and_an_owner_takes_as_it_was_written() {
    check(2, || {
        let bench = Bench::new();
        let reader = read_in_thread(&bench);
        let pushed_in = bench.clone();
        let producer = thread::spawn(move || {
            pushed_in.push(pushed_in.written(0));
        });
        bench.take();
        reader.join().unwrap();
        producer.join().unwrap();
        assert_eq!(bench.read(), [true, false, false]);
    });
}

#[test]
fn a_reader_finds_what_is_taken_and_moves_to_the_front() {
    check(2, || {
        let bench = Bench::new();
        // Two chains: when the first ends, the second takes its place.
        bench.push(bench.written(0));
        bench.push_own(bench.written(1));
        let reader = read_in_thread(&bench);
        bench.pass(&mut bench.take());
        let found = reader.join().unwrap();
        assert!(found[1], "it was there throughout: {found:?}");
        assert_eq!(bench.read(), [false, true, false]);
    });
}

/// The node that the reader stands on is passed, and pushed elsewhere.
#[test]
fn a_reader_that_is_led_astray_finds_the_rest_of_a_chain() {
    check(2, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        bench.push_own(bench.written(1));
        let reader = read_in_thread(&bench);
        bench.pass(&mut bench.take());
        bench.give(NonNull::from(&bench.nodes[1]));
        let found = reader.join().unwrap();
        assert!(found[0], "it was there throughout: {found:?}");
    });
}

/// As above, and there is another node where the first one is put.
#[test]
fn a_reader_follows_a_link_of_another_tray_to_a_node_as_it_was_written() {
    check(2, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        let reader = read_in_thread(&bench);
        bench.pass(&mut bench.take());
        bench.give(bench.written(1));
        bench.give(NonNull::from(&bench.nodes[0]));
        reader.join().unwrap();
        let found = bench.read();
        assert_eq!(found, [true, true, false]);
    });
}

/// The same, where the first one is pushed on a list.
#[test]
fn a_reader_follows_a_link_of_an_own_list_to_a_node_as_it_was_written() {
    check(1, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        let reader = read_in_thread(&bench);
        bench.pass(&mut bench.take());
        bench.push_own(bench.written(1));
        bench.push_own(NonNull::from(&bench.nodes[0]));
        reader.join().unwrap();
        assert_eq!(bench.read(), [true, true, false]);
    });
}

/// The node that the reader stands on is pushed where another thread pushes before it.
#[test]
fn a_reader_follows_a_link_of_a_second_try_to_a_node_as_it_was_written() {
    check(1, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        let reader = read_in_thread(&bench);
        let pushed_in = bench.clone();
        let producer = thread::spawn(move || pushed_in.push(pushed_in.written(1)));
        bench.pass(&mut bench.take_own(0));
        bench.push(NonNull::from(&bench.nodes[0]));
        reader.join().unwrap();
        producer.join().unwrap();
        assert_eq!(bench.read(), [true, true, false]);
    });
}

/// As above, and the other thread has pushed before. The owner is a thread of its own, so that the
/// reader may come last.
#[test]
fn a_reader_follows_a_link_of_a_first_try_to_a_node_as_it_was_written() {
    check(1, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        let reader = read_in_thread(&bench);
        let owned = bench.clone();
        let owner = thread::spawn(move || {
            owned.pass(&mut owned.take_own(0));
            owned.push(NonNull::from(&owned.nodes[0]));
        });
        bench.push(bench.written(1));
        owner.join().unwrap();
        reader.join().unwrap();
        assert_eq!(bench.read(), [true, true, false]);
    });
}

/// Each of the first nodes is taken out of its place, as by a sweep.
#[test]
fn a_reader_finds_what_comes_first_after_another_as_it_was_written() {
    check(1, || {
        let bench = Bench::new();
        let reader = read_in_thread(&bench);
        bench.push_own(bench.written(0));
        bench.push_own(bench.written(1));
        let [next, first] = [0, 1].map(|n| std::ptr::from_ref(&bench.nodes[n]).cast_mut());
        // SAFETY: the bench has one owner, and that is how they were pushed.
        let drop_first = || unsafe { bench.own.drop_first(0, first, next) };
        assert!(drop_first());
        assert!(!drop_first(), "it is not the first any more");
        reader.join().unwrap();
        assert_eq!(bench.read(), [true, false, false]);
    });
}

#[test]
fn a_reader_finds_what_comes_first_in_a_tray_after_another_as_it_was_written() {
    check(1, || {
        let bench = Bench::new();
        let reader = read_in_thread(&bench);
        bench.give(bench.written(0));
        bench.give(bench.written(1));
        let [next, first] = [0, 1].map(|n| std::ptr::from_ref(&bench.nodes[n]).cast_mut());
        // SAFETY: the bench has one owner, and that is how they were given.
        let drop_first = || unsafe { bench.narrow.drop_first(0, first, next) };
        assert!(drop_first());
        assert!(!drop_first(), "it is not the first any more");
        reader.join().unwrap();
        assert_eq!(bench.read(), [true, false, false]);
    });
}

/// A tray is filled from one place and then from another. The reader leaves a chain at a node that
/// is filed elsewhere.
#[test]
fn a_reader_that_knows_what_a_tray_is_for_knows_what_has_left_it() {
    check(2, || {
        let bench = Bench::new();
        bench.push_own(bench.written(0));
        let mut at = bench.take_own(1);
        let reader = {
            let bench = bench.clone();
            thread::spawn(move || {
                let before = bench.progress();
                let mut is_found = false;
                for tray in [&bench.wide, &bench.narrow] {
                    let visit = |of: Option<u64>, _| {
                        let is_here = of.is_none_or(|of| of == 1);
                        is_found |= is_here;
                        is_here
                    };
                    tray.read(bench.guard(), &mut 9, visit);
                }
                is_found || before.is_none() || before != bench.progress()
            })
        };
        let node = NonNull::from(&bench.nodes[0]);
        bench.narrow.begin(1);
        // SAFETY: the bench has one owner, and the node is passed next.
        unsafe { bench.wide.set_moving(node) };
        bench.pass(&mut at);
        bench.give(node);
        bench.wide.set_moved();
        bench.take_own(2);
        assert!(reader.join().unwrap(), "missed, and nothing to tell of it");
    });
}

/// An entry is passed and filed elsewhere. A reader leaves the chain at that entry.
#[test]
fn a_reader_that_finds_an_entry_filed_elsewhere_finds_the_rest_of_its_chain() {
    check(2, || {
        let wheel = wheel(2, 1);
        let [here, there] = [1, 9].map(|due| wheel.place(Tick::new(due), Tick::ZERO));
        assert_ne!(here.expiration, there.expiration);
        let entries = [(); 2].map(|()| {
            let entry = Entry::<()>::allocate(0);
            // SAFETY: it is new, and pushed next.
            unsafe { entry.as_ref().put_payload(()) };
            // SAFETY: as above.
            unsafe { entry.as_ref().make_pending(Tick::new(1), here, 0, false) };
            Shown(entry)
        });
        let [rest, first] = entries;
        let wide: Arc<Tray<Entry<()>>> = Arc::new(Tray::wide());
        let narrow: Arc<Tray<Entry<()>>> = Arc::new(Tray::narrow());
        let own = OwnLanes::default();
        for Shown(entry) in [rest, first] {
            // SAFETY: the lists and the entry are this thread's; it is freed when both have ended.
            unsafe { own.push(entry, 0) };
        }
        wide.begin(0);
        // SAFETY: this thread is their owner.
        let mut at = unsafe { wide.take(&Lanes::default(), &own) };
        let read = wide.clone();
        let reader = thread::spawn(move || {
            let mut found = false;
            let visit = |_, entry: &Entry<()>| {
                found |= NonNull::from(entry) == { rest }.0;
                entry.filed_and_before().expiration == here.expiration
            };
            // SAFETY: entries are freed when the reader has ended.
            read.read(unsafe { Guard::assume() }, &mut 9, visit);
            found
        });
        let Shown(first) = first;
        // SAFETY: the tray is this thread's, and showed the entry.
        unsafe { wide.pass(&mut at, first) };
        // SAFETY: the tray held the entry; the word was read from it.
        assert!(unsafe { first.as_ref().refile(first.as_ref().word(), there) });
        // SAFETY: the tray has passed the entry.
        unsafe { narrow.give(first, 0) };
        assert!(reader.join().unwrap(), "the rest was there throughout");
        for Shown(entry) in entries {
            // SAFETY: the reader has ended, and the lists are not used again.
            unsafe { Entry::free(entry) };
        }
    });
}

/// An entry that the reader may look at.
#[derive(Clone, Copy)]
struct Shown(NonNull<Entry<()>>);

// SAFETY: what is shared of an entry is atomic.
unsafe impl Send for Shown {}
