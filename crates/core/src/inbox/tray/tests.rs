//! Tests in one thread: the nodes that the owner gets, and those that a reader finds in between.

use std::iter;

use super::*;

struct Node {
    next: AtomicPtr<Node>,
    number: usize,
}

// SAFETY: a node has one link.
unsafe impl Linked for Node {
    fn next(&self) -> &AtomicPtr<Node> {
        &self.next
    }
}

fn wide() -> Box<Tray<Node>> {
    Box::new(Tray::wide())
}

fn nodes(n: usize) -> Vec<Node> {
    let node = |number| Node { next: AtomicPtr::new(ptr::null_mut()), number };
    (0..n).map(node).collect()
}

fn number(node: NonNull<Node>) -> usize {
    // SAFETY: the test's nodes outlive its trays.
    unsafe { node.as_ref() }.number
}

fn guard<'g>() -> Guard<'g> {
    // SAFETY: the nodes outlive the trays.
    unsafe { Guard::assume() }
}

/// Passes the next node.
fn pass(tray: &Tray<Node>, at: &mut At) -> Option<NonNull<Node>> {
    let node = tray.peek(at)?;
    // SAFETY: it is the test's tray, and it showed the node.
    unsafe { tray.pass(at, node) };
    Some(node)
}

/// The nodes that a reader finds within `steps` steps, in order.
fn read(tray: &Tray<Node>, mut steps: u64) -> Vec<usize> {
    let mut found = Vec::new();
    let visit = |of: Option<u64>, node: &Node| {
        assert!(of.is_none_or(|of| of == 7), "the reader is told where its nodes were");
        found.push(node.number);
        true
    };
    tray.read(guard(), &mut steps, visit);
    found.sort_unstable();
    found
}

/// Fills a tray from lists of these lengths; the first of them are the shared ones.
fn take(tray: &Tray<Node>, nodes: &[Node], lengths: &[usize]) -> At {
    tray.begin(7);
    take_into(tray, nodes, lengths)
}

/// As `take`, into a tray that was just begun.
fn take_into(tray: &Tray<Node>, nodes: &[Node], lengths: &[usize]) -> At {
    let (lanes, own) = (Lanes::default(), OwnLanes::default());
    let mut rest = nodes.iter();
    for (lane, &length) in lengths.iter().enumerate() {
        for node in rest.by_ref().take(length).map(NonNull::from) {
            match lane.checked_sub(LANES) {
                // SAFETY: it is in no list, and outlives this one.
                None => unsafe { lanes.push(node, lane) }.unwrap(),
                // SAFETY: it is in no list, and outlives this one.
                Some(own_lane) => unsafe { own.push(node, own_lane) },
            }
        }
    }
    // SAFETY: it is the test's tray, and they are its lists.
    let at = unsafe { tray.take(&lanes, &own) };
    assert!((0..LANES).all(|lane| lanes.lane(lane).head().is_null() && own.head(lane).is_null()));
    at
}

#[test]
fn chains_are_passed_a_node_each_in_turn() {
    let (tray, nodes) = (&*wide(), nodes(9));
    let mut at = take(tray, &nodes, &[3, 0, 3, 0, 3]);
    let order = iter::from_fn(|| pass(tray, &mut at)).map(number);
    assert_eq!(order.collect::<Vec<_>>(), [2, 5, 8, 1, 4, 7, 0, 3, 6]);
}

#[test]
fn every_node_is_passed_once_and_a_reader_finds_those_that_are_left() {
    let tray = &*wide();
    let all = [1; CHAINS];
    for lengths in [&[][..], &[0], &[1], &[5], &[1, 4, 2], &[4, 1, 1], &[1, 1, 6], &all] {
        let nodes = nodes(lengths.iter().sum());
        let mut at = take(tray, &nodes, lengths);
        let mut left: Vec<usize> = (0..nodes.len()).collect();
        while let Some(node) = pass(tray, &mut at) {
            left.retain(|&other| other != number(node));
            assert_eq!(read(tray, 1 << 10), left, "{lengths:?}");
            let mut rest: Vec<usize> = tray.rest(guard()).map(|node| node.number).collect();
            rest.sort_unstable();
            assert_eq!(rest, left, "{lengths:?}");
        }
        assert!(left.is_empty() && at.is_done(), "{lengths:?}");
    }
}

#[test]
fn a_reader_follows_no_more_links_than_it_may() {
    let (tray, nodes) = (&*wide(), nodes(5));
    let mut at = take(tray, &nodes, &[3, 2]);
    for steps in 0..7 {
        assert_eq!(read(tray, steps).len() as u64, steps.min(5));
    }
    while pass(tray, &mut at).is_some() {}
}

#[test]
fn what_is_given_is_spread_and_what_was_given_before_a_sweep_stays_in_place() {
    let nodes = nodes(12);
    let tray: &Tray<Node> = &Tray::narrow();
    assert!(!tray.is_wide());
    tray.begin(7);
    for (turn, node) in nodes.iter().enumerate() {
        // SAFETY: it is in no list, and outlives the tray.
        unsafe { tray.give(NonNull::from(node), turn) };
    }
    assert!(tray.heads().all(|first| !first.is_null()));
    // The first of chain 1 goes, and both of chain 4: the chains close up.
    let drop_first = |chain, number: usize, next: Option<usize>| {
        let node = |number: usize| ptr::from_ref(&nodes[number]).cast_mut();
        let next = next.map_or(ptr::null_mut(), node);
        // SAFETY: it is the test's tray, and they follow each other in that chain.
        unsafe { tray.drop_first(chain, node(number), next) }
    };
    assert!(!drop_first(1, 1, None), "others are before it");
    assert!(drop_first(1, 11, Some(6)));
    assert!(drop_first(4, 9, Some(4)) && drop_first(4, 4, None));
    assert!(drop_first(0, 10, Some(5)) && drop_first(0, 5, Some(0)) && drop_first(0, 0, None));
    let mut at = tray.open();
    assert_eq!(read(tray, 99), [1, 2, 3, 6, 7, 8]);
    let mut all: Vec<usize> = iter::from_fn(|| pass(tray, &mut at)).map(number).collect();
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 6, 7, 8]);
}

/// A reader is led off its chain by a node that was passed and pushed elsewhere, and starts again
/// where the owner stands.
#[test]
fn a_reader_that_is_led_astray_finds_what_is_left() {
    let (tray, nodes, other) = (&*wide(), nodes(5), nodes(1));
    let mut at = take(tray, &nodes, &[5]);
    let (mut found, mut steps) = (Vec::new(), 99);
    let visit = |_, node: &Node| {
        let node = NonNull::from(node);
        if found.is_empty() {
            // While the reader stands on the first node, that node is passed and linked elsewhere.
            let passed = pass(tray, &mut at).expect("there are five");
            assert_eq!(passed, node);
            // SAFETY: the test's nodes live.
            let link = unsafe { passed.as_ref() }.next();
            // ORDER: Relaxed - one thread.
            link.store(ptr::from_ref(&other[0]).cast_mut(), Ordering::Relaxed);
        }
        found.push(node);
        true
    };
    tray.read(guard(), &mut steps, visit);
    for node in &nodes[..4] {
        assert!(found.contains(&NonNull::from(node)), "{}", node.number);
    }
    while pass(tray, &mut at).is_some() {}
}

#[test]
fn what_moves_to_another_tray_is_seen_meanwhile() {
    let (tray, nodes) = (&*wide(), nodes(1));
    let mut at = take(tray, &nodes, &[1]);
    // SAFETY: it is the test's tray, and the node is in there.
    unsafe { tray.set_moving(NonNull::from(&nodes[0])) };
    pass(tray, &mut at);
    assert_eq!(read(tray, 1), [0]);
    tray.set_moved();
    assert!(read(tray, 1).is_empty());
}

#[test]
fn progress_is_the_same_only_if_nothing_left_in_between() {
    let (tray, nodes) = (&*wide(), nodes(3));
    let progress = || {
        let mut progress = Vec::new();
        tray.note(&mut progress).then_some(progress)
    };
    let mut seen = vec![progress()];
    tray.begin(7);
    seen.push(progress());
    let mut at = take_into(tray, &nodes, &[2, 1]);
    seen.push(progress());
    while let Some(node) = tray.peek(&at) {
        // SAFETY: it is the test's tray, and showed the node.
        unsafe { tray.set_moving(node) };
        assert_eq!(progress(), None);
        pass(tray, &mut at);
        assert_eq!(progress(), None, "it is not there yet");
        tray.set_moved();
        seen.push(progress());
    }
    tray.begin(7);
    seen.push(progress());
    assert!(seen.iter().all(Option::is_some));
    (1..seen.len()).for_each(|i| assert!(!seen[..i].contains(&seen[i]), "{i}"));
}
