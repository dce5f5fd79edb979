//! What the holder may not do, on one thread.

use super::*;

fn open() -> InHand<Box<u8>> {
    let mut in_hand = InHand::default();
    in_hand.fill(&mut vec![(Tick::ZERO, Box::new(7)), (Tick::ZERO, Box::new(8))], None);
    let line = in_hand.open(2, 0);
    assert_eq!(line.claim().map(|(_, payload)| *payload), Some(7));
    in_hand
}

#[test]
fn what_was_not_claimed_is_left() {
    let mut in_hand = open();
    assert_eq!(in_hand.close(), Ok(()));
    assert_eq!(in_hand.take(), [(Tick::ZERO, Box::new(8))]);
}

#[test]
#[should_panic = "a hand-over is under way"]
fn payloads_that_are_handed_over_are_not_replaced() {
    open().fill(&mut Vec::new(), None);
}

#[test]
#[should_panic = "no hand-over is under way"]
fn a_hand_over_ends_once() {
    let mut in_hand = open();
    in_hand.close().unwrap();
    let _ = in_hand.close();
}
