//! What the holder may not do, on one thread.

use super::*;
use crate::dispatch::Panics;

fn open() -> InHand<Box<u8>> {
    let mut in_hand = InHand::default();
    in_hand.fill(&mut vec![(Tick::ZERO, Box::new(7)), (Tick::ZERO, Box::new(8))], 0);
    let hand_over = in_hand.open(2, 0);
    assert_eq!(hand_over.claim().map(|(_, payload)| *payload), Some(7));
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
    let (mut in_hand, mut panics) = (open(), Panics::none());
    panics.run(|| in_hand.fill(&mut Vec::new(), 0));
    assert_eq!(in_hand.close(), Ok(()));
    assert_eq!(in_hand.take_payloads(), [(Tick::ZERO, Box::new(8))]);
    panics.go_on();
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
    let claim = |hand_over: &HandOver<u32>| {
        (hand_over.is_at_own(), hand_over.claim().map(|(_, payload)| payload))
    };
    let hand_over = in_hand.open(1, 0);
    assert_eq!([claim(hand_over), claim(hand_over)], [(true, Some(0)), (true, None)]);
    in_hand.close().unwrap();
    let hand_over = in_hand.open(5, 0);
    assert_eq!(claim(hand_over), (true, Some(1)));
    let mut rest = hand_over.take_over(hand_over.progress().unwrap(), || ()).unwrap();
    let hand_over = rest.open(5, 0);
    let claims = [(); 4].map(|()| claim(hand_over));
    assert_eq!(claims, [(true, Some(2)), (false, Some(3)), (false, Some(4)), (false, None)]);
    rest.close().unwrap();
    assert!(in_hand.close().is_err());
}
