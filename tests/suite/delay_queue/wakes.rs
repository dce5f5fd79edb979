//! Whom a delay queue wakes, and when, and what it asks of its engine for that.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use support::hands::engine_by_hand;
use support::polling::bell;
use support::queued::{ms, queued};
use tickless::future::DelayQueue;
use tickless::{Engine, ManualClock};

fn poll<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> Poll<Option<T>> {
    let polled = queue.poll_expired(&mut Context::from_waker(waker));
    polled.map(|expired| expired.map(|expired| expired.into_inner()))
}

#[test]
fn of_tasks_that_poll_in_turn_the_last_one_is_woken() {
    let engine = engine_by_hand();
    let bells = [(); 3].map(|()| bell());
    let woken = || bells.each_ref().map(|(bell, _)| bell.woken());
    let mut queue = engine.delay_queue();
    let key = queue.insert('a', ms(10));
    for (_, waker) in bells.iter().chain(&bells) {
        assert_eq!(poll(&mut queue, waker), Poll::Pending);
    }
    let counts = bells.each_ref().map(|(bell, _)| Arc::strong_count(bell));
    assert_eq!(counts, [2, 2, 3], "the others are let go");
    engine.advance(ms(10)).unwrap();
    assert_eq!(woken(), [0, 0, 1]);
    // By an earlier item, by the last that leaves, and by the first that comes.
    assert!(queue.reset(key, ms(10)));
    assert_eq!(poll(&mut queue, &bells[1].1), Poll::Pending);
    queue.insert_at('b', engine.now());
    assert_eq!(woken(), [0, 1, 1]);
    assert_eq!(poll(&mut queue, &bells[2].1), Poll::Ready(Some('b')));
    assert_eq!(poll(&mut queue, &bells[0].1), Poll::Pending);
    assert_eq!(queue.remove(key), Some('a'));
    assert_eq!(woken(), [1, 1, 1]);
    for (_, waker) in &bells {
        assert_eq!(poll(&mut queue, waker), Poll::Ready(None));
    }
    queue.insert('c', ms(10));
    assert_eq!(woken(), [1, 1, 2]);
}

#[test]
fn a_task_that_found_the_queue_empty_is_woken_by_the_next_item() {
    let mut queued = queued();
    queued.assert_empty();
    let never = queued.queue.insert('n', Duration::MAX);
    assert!(queued.is_woken(), "it is not empty any more");
    queued.assert_pending();
    assert_eq!(queued.queue.remove(never), Some('n'));
    assert!(queued.is_woken());
    queued.assert_empty();
    queued.queue.insert('n', Duration::MAX);
    queued.queue.insert('a', ms(10));
    assert!(queued.is_woken());
    queued.assert_pending();
    queued.queue.insert('b', ms(20));
    queued.pass_to(9);
    assert!(!queued.is_woken());
    queued.pass_to(10);
    queued.assert_due('a');
    assert_eq!(queued.queue.len(), 2);
}

#[test]
fn a_task_that_found_the_queue_empty_is_forgotten_when_another_waits() {
    let engine = engine_by_hand();
    let [(first, firsts), (second, seconds)] = [(); 2].map(|()| bell());
    let mut queue = engine.delay_queue();
    assert_eq!(poll(&mut queue, &firsts), Poll::Ready(None));
    queue.insert('n', Duration::MAX);
    assert_eq!(poll(&mut queue, &seconds), Poll::Pending);
    assert_eq!(Arc::strong_count(&first), 2, "the other is let go");
    queue.insert('a', ms(1));
    engine.advance(ms(1)).unwrap();
    assert_eq!((first.woken(), second.woken()), (1, 1), "the first by the item that is never due");
}

#[test]
fn an_emptied_queue_that_was_refilled_wakes_the_task_in_time() {
    let mut queued = queued();
    for round in 0..10 {
        let begin = round * 100;
        let key = queued.queue.insert('a', ms(50));
        queued.assert_pending();
        assert_eq!(queued.queue.remove(key), Some('a'));
        assert!(queued.is_woken(), "it is empty");
        // The task has not polled yet, and finds another item when it does.
        queued.queue.insert('b', ms(20));
        queued.assert_pending();
        queued.pass_to(begin + 19);
        assert!(!queued.is_woken());
        queued.pass_to(begin + 20);
        assert!(queued.is_woken());
        queued.assert_due('b');
        queued.pass_to(begin + 100);
    }
}

#[test]
fn a_thousand_items_are_one_timer_which_is_moved_only_for_the_earliest() {
    let mut queued = queued();
    let keys: Vec<_> = (0..1_000).map(|n| queued.queue.insert(n, ms(1_000 + n))).collect();
    assert_eq!(queued.engine.stats().scheduled, 0, "nobody waits");
    queued.assert_pending();
    assert_eq!(queued.engine.len(), 1);
    let before = queued.engine.stats();
    for n in 1..500_u64 {
        assert_eq!(queued.queue.remove(keys[n as usize]), Some(n));
        assert!(queued.queue.reset(keys[n as usize + 499], ms(5_000 + n)));
        queued.queue.insert(n, ms(5_000 + n));
        queued.assert_pending();
    }
    let after = queued.engine.stats();
    assert_eq!(
        (after.scheduled, after.cancelled, after.reset),
        (before.scheduled, before.cancelled, before.reset)
    );
    queued.pass_to(999);
    assert!(!queued.is_woken());
    queued.pass_to(1_000);
    assert!(queued.is_woken());
    queued.assert_due(0);
}

#[test]
fn a_first_item_that_left_wakes_nobody_if_the_task_has_polled_since() {
    let mut queued = queued();
    let mut first = queued.queue.insert(0, ms(5));
    for n in 1..100_u64 {
        let second = queued.queue.insert(n, ms(5 + n * 7));
        queued.assert_pending();
        if n % 2 == 0 {
            assert_eq!(queued.queue.remove(first), Some(n - 1));
        } else {
            assert!(queued.queue.reset(first, Duration::MAX));
        }
        queued.assert_pending();
        first = second;
    }
    assert_eq!(queued.engine.len(), 1);
    queued.pass_to(5 + 99 * 7 - 1);
    assert!(!queued.is_woken());
    queued.pass_to(5 + 99 * 7);
    assert!(queued.is_woken());
    queued.assert_due(99);
}

#[test]
fn a_first_item_that_left_wakes_a_task_for_nothing_once_if_it_has_not() {
    let mut queued = queued();
    let first = queued.queue.insert('a', ms(5));
    queued.queue.insert('b', ms(70_000));
    queued.assert_pending();
    assert_eq!(queued.queue.remove(first), Some('a'));
    queued.pass_to(5);
    assert!(queued.is_woken());
    queued.assert_pending();
    queued.pass_to(69_999);
    assert!(!queued.is_woken());
    queued.pass_to(70_000);
    assert!(queued.is_woken());
    queued.assert_due('b');
}

#[test]
fn many_items_in_one_bucket_wake_the_task_when_it_comes_down_and_in_time() {
    // In the third level of the wheel; none of them is looked at meanwhile, except for a few.
    let mut queued = queued();
    for n in 0..10_000_u64 {
        queued.queue.insert(n, ms(70_000 + n));
    }
    let mut woken_for_nothing = 0;
    for n in 0..100_u64 {
        queued.queue.insert(n, ms(5));
        queued.assert_pending();
        queued.pass_to(n * 10 + 5);
        assert!(queued.is_woken());
        queued.assert_due(n);
        queued.assert_pending();
        queued.pass_to(n * 10 + 10);
        woken_for_nothing += u32::from(queued.is_woken());
    }
    assert_eq!(woken_for_nothing, 0);
    for now in (1_001..70_000).step_by(3) {
        queued.pass_to(now);
        if queued.is_woken() {
            woken_for_nothing += 1;
            queued.assert_pending();
        }
    }
    assert!(woken_for_nothing <= 1, "{woken_for_nothing}");
    for n in 0..300 {
        queued.pass_to(70_000 + n - 1);
        assert!(!queued.is_woken(), "{n}");
        queued.pass_to(70_000 + n);
        assert!(queued.is_woken(), "{n}");
        queued.assert_due(n);
        queued.assert_pending();
    }
}

#[test]
fn the_earliest_is_found_again_among_many_when_it_has_left() {
    // More than a glance looks at while the task waits, and fewer than a search.
    let mut queued = queued();
    let keys: Vec<_> = (0..500).map(|n| queued.queue.insert(n, ms(70_000 + n))).collect();
    queued.assert_pending();
    for (n, key) in (0..).zip(&keys[..100]) {
        assert_eq!(queued.queue.remove(*key), Some(n));
        queued.assert_pending();
    }
    // It waits for what has left, and then for what is there.
    queued.pass_to(70_000);
    assert!(queued.is_woken());
    queued.assert_pending();
    queued.pass_to(70_099);
    assert!(!queued.is_woken());
    queued.pass_to(70_100);
    assert!(queued.is_woken());
    queued.assert_due(100);
}

#[test]
fn what_is_due_comes_out_although_the_task_was_not_woken_yet() {
    let mut queued = queued();
    queued.queue.insert('a', ms(5));
    queued.pass_to(5);
    queued.assert_due('a');
    assert_eq!(queued.engine.stats().scheduled, 0, "it needed no timer");
    queued.assert_empty();
}

#[test]
fn two_queues_of_one_engine_know_nothing_of_each_other() {
    let engine = engine_by_hand();
    let bells = [(); 2].map(|()| bell());
    let mut queues = [engine.delay_queue(), engine.delay_queue()];
    queues[0].insert('a', ms(5));
    queues[1].insert('b', ms(9));
    for (queue, (_, waker)) in queues.iter_mut().zip(&bells) {
        assert_eq!(poll(queue, waker), Poll::Pending);
    }
    assert_eq!(engine.len(), 2);
    engine.advance(ms(5)).unwrap();
    assert_eq!(bells.each_ref().map(|(bell, _)| bell.woken()), [1, 0]);
    queues[0].clear();
    engine.advance(ms(4)).unwrap();
    assert_eq!(bells.each_ref().map(|(bell, _)| bell.woken()), [1, 1]);
    assert_eq!(poll(&mut queues[1], &bells[1].1), Poll::Ready(Some('b')));
    assert_eq!(poll(&mut queues[0], &bells[0].1), Poll::Ready(None));
}

#[test]
fn an_item_whose_deadline_has_passed_comes_out_at_the_next_poll_although_the_engine_is_late() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let ((bell, waker), mut queue) = (bell(), engine.delay_queue());
    let begin = engine.now();
    queue.insert("first", ms(10));
    let key = queue.insert("last", ms(30));
    assert_eq!(poll(&mut queue, &waker), Poll::Pending);
    // Time passes, and nobody runs the engine's turns.
    clock.advance(ms(20));
    queue.insert_at("late", begin + ms(15));
    let mut due = [(); 2].map(|()| poll(&mut queue, &waker));
    due.sort();
    assert_eq!(due, ["first", "late"].map(|name| Poll::Ready(Some(name))));
    assert_eq!(poll(&mut queue, &waker), Poll::Pending);
    assert!(queue.reset_at(key, begin + ms(5)));
    assert_eq!(poll(&mut queue, &waker), Poll::Ready(Some("last")));
    assert_eq!((poll(&mut queue, &waker), engine.len()), (Poll::Ready(None), 0));
    assert_eq!(bell.woken(), 1, "by the item that was reset");
}
