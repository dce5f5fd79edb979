//! What the holder may not do, on one thread.

use super::*;

fn open() -> InHand<Box<u8>> {
    let mut in_hand = InHand::default();
    in_hand.fill(&mut vec![(Tick::ZERO, Box::new(7)), (Tick::ZERO, Box::new(8))], 0);
    let line = in_hand.open(2, 0);
    assert_eq!(line.claim().map(|(_, payload)| *payload), Some(7));
    in_hand
}

#[test]
fn what_was_not_claimed_is_left() {
    let mut in_hand = open();
    assert_eq!(in_hand.close(), Ok(()));
    assert_eq!(in_hand.take_payloads(), [(Tick::ZERO, Box::new(8))]);
}

#[test]
#[should_panic = "a hand-over is under way"]
fn payloads_that_are_handed_over_are_not_replaced() {
    open().fill(&mut Vec::new(), 0);
}

#[test]
#[should_panic = "no hand-over is under way"]
fn a_hand_over_ends_once() {
    let mut in_hand = open();
    in_hand.close().unwrap();
    let _ = in_hand.close();
}

#[test]
fn what_is_the_engines_own_is_known_when_a_hand_over_or_a_takeover_leaves_it() {
    let mut in_hand = InHand::default();
    in_hand.fill(&mut (0..5).map(|n| (Tick::ZERO, n)).collect(), 3);
    let claim = |line: &Line<u32>| (line.is_at_own(), line.claim().map(|(_, payload)| payload));
    let line = in_hand.open(1, 0);
    assert_eq!([claim(line), claim(line)], [(true, Some(0)), (true, None)]);
    in_hand.close().unwrap();
    let line = in_hand.open(5, 0);
    assert_eq!(claim(line), (true, Some(1)));
    let mut rest = line.take_over(line.progress().unwrap(), || ()).unwrap();
    let line = rest.open(5, 0);
    let claims = [(); 4].map(|()| claim(line));
    assert_eq!(claims, [(true, Some(2)), (false, Some(3)), (false, Some(4)), (false, None)]);
    rest.close().unwrap();
    assert!(in_hand.close().is_err());
}
