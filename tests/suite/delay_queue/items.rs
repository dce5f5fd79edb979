//! What a delay queue says of its items and holds: keys, deadlines, the next item, memory, items
//! that never come out.

use std::task::Poll;
use std::time::Duration;

use support::queued::{ms, queued, with};
use tickless::When;

const MINUTE: u64 = 60_000;

#[test]
fn memory_is_given_back_and_keys_keep_their_meaning() {
    let (mut queued, keys) = with(&[("one", 10), ("two", 10), ("three", 20), ("four", 20)]);
    queued.pass_to(10);
    assert_eq!(queued.drain_due(), ["one", "two"]);
    assert!(queued.queue.capacity() >= 2);
    queued.queue.shrink_to_fit();
    let five = queued.queue.insert("five", ms(10));
    let six = queued.queue.insert("six", ms(10));
    // Those that came out are out, whatever lies in their places now.
    for key in &keys[..2] {
        assert_eq!((queued.queue.remove(*key), queued.queue.reset(*key, ms(1))), (None, false));
        assert_eq!((queued.queue.deadline(*key), queued.queue.contains(*key)), (None, false));
    }
    assert_eq!(queued.queue.remove(keys[2]), Some("three"));
    assert!(queued.queue.reset(keys[3], ms(20)) && queued.queue.reset(six, ms(20)));
    queued.queue.shrink_to_fit();
    queued.pass_to(20);
    assert_eq!(queued.queue.peek(), Some(five));
    assert_eq!(queued.drain_due(), ["five"]);
    queued.pass_to(30);
    assert_eq!(queued.drain_due(), ["four", "six"]);
    queued.assert_empty();
    queued.queue.shrink_to_fit();
    assert_eq!((queued.queue.len(), queued.queue.capacity()), (0, 0));
    queued.queue.reserve(1_000);
    assert!(queued.queue.capacity() >= 1_000);
}

#[test]
fn what_comes_out_next_can_be_known_before() {
    let (mut queued, keys) = with(&[("foo", 5), ("bar", 0), ("baz", 10)]);
    assert_eq!(queued.queue.peek(), Some(keys[1]));
    queued.pass_to(6);
    for (key, name) in [(keys[1], "bar"), (keys[0], "foo")] {
        assert_eq!(queued.queue.peek(), Some(key));
        queued.assert_due(name);
    }
    assert_eq!(queued.queue.peek(), Some(keys[2]));
    queued.assert_pending();
    queued.pass_to(10);
    assert_eq!(queued.queue.peek(), Some(keys[2]));
    queued.assert_due("baz");
    assert_eq!(queued.queue.peek(), None);
}

#[test]
fn of_items_that_share_a_bucket_the_earliest_is_the_next() {
    for (early, late) in [(100, 120), (1_000, 1_001), (70_000, 130_000)] {
        let (mut queued, keys) = with(&[("early", early), ("late", late)]);
        assert_eq!(queued.queue.peek(), Some(keys[0]));
        queued.pass_to(early);
        assert_eq!(queued.queue.peek(), Some(keys[0]));
        queued.assert_due("early");
        assert_eq!(queued.queue.peek(), Some(keys[1]));
        queued.pass_to(late);
        queued.assert_due("late");
        assert_eq!(queued.queue.peek(), None);
    }
}

#[test]
fn what_never_comes_out_is_kept_until_it_is_removed_or_reset() {
    let mut queued = queued();
    let key = queued.queue.insert("never", Duration::MAX);
    queued.assert_pending();
    assert_eq!((queued.queue.peek(), queued.queue.deadline(key)), (None, None));
    assert!(queued.queue.contains(key));
    queued.pass_to(1_000 * MINUTE);
    queued.assert_pending();
    assert!(!queued.is_woken());
    let soon = queued.queue.insert("soon", ms(5));
    assert!(queued.queue.reset(soon, Duration::MAX));
    queued.assert_pending();
    assert!(queued.queue.reset(key, ms(7)));
    queued.pass_to(1_000 * MINUTE + 7);
    assert!(queued.is_woken());
    queued.assert_due("never");
    queued.assert_pending();
    assert_eq!(queued.queue.remove(soon), Some("soon"));
    assert!(queued.is_woken());
    queued.assert_empty();
}

#[test]
fn a_slack_chooses_one_tick_for_several_items() {
    let mut queued = queued();
    for delay in 1_000..1_050 {
        queued.queue.insert(delay, When::after(ms(delay)).slack(ms(100)));
    }
    queued.assert_pending();
    queued.pass_to(999);
    assert!(!queued.is_woken());
    queued.pass_to(1_150);
    assert_eq!((queued.is_woken(), queued.drain_due().len()), (true, 50));
}

#[test]
fn an_item_says_when_it_was_due_and_what_its_key_was() {
    let (mut queued, keys) = with(&[("one", 5)]);
    assert_eq!(queued.queue.deadline(keys[0]), Some(queued.at(5)));
    queued.pass_to(9);
    let Poll::Ready(Some(mut expired)) = queued.poll_whole() else { panic!("none is due") };
    assert_eq!((expired.key(), expired.deadline()), (keys[0], queued.at(5)));
    *expired.get_mut() = "another";
    assert_eq!((*expired.get_ref(), expired.clone().into_inner()), ("another", "another"));
    assert!(format!("{expired:?}").starts_with("Expired { value: \"another\", deadline: "));
}
