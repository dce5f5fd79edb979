//! Delay queues under a clock that is moved by hand: what comes out, and when. These are, among
//! others, the scenarios of tokio-util's suite for its queue of the same name.

use std::task::Poll;
use std::time::Duration;

use support::queued::{ms, queued, with};
use tickless::future::delay_queue::Key;

#[test]
fn what_is_due_at_once_comes_out_and_then_the_queue_is_empty() {
    let (mut queued, _) = with(&[("one", 0)]);
    queued.assert_due("one");
    queued.assert_empty();
    let (mut queued, _) = with(&[("one", 0), ("two", 0), ("three", 0)]);
    queued.pass_to(1);
    assert_eq!(queued.drain_due(), ["one", "three", "two"]);
    queued.assert_empty();
}

#[test]
fn an_item_comes_out_at_its_tick_and_not_before() {
    let (mut queued, _) = with(&[("five", 5)]);
    queued.assert_pending();
    queued.pass_to(4);
    assert!(!queued.is_woken());
    queued.assert_pending();
    queued.pass_to(5);
    assert!(queued.is_woken());
    queued.assert_due("five");
    queued.assert_empty();
}

#[test]
fn a_deadline_between_two_ticks_is_rounded_up_once() {
    let mut queued = queued();
    let deadline = queued.begin + Duration::from_micros(7_001);
    queued.queue.insert_at("at", deadline);
    queued.engine.advance(Duration::from_micros(500)).unwrap();
    let key = queued.queue.insert("after", Duration::from_micros(7_499));
    assert_eq!(queued.queue.deadline(key), Some(queued.at(8)));
    queued.pass_to(7);
    queued.assert_pending();
    queued.pass_to(8);
    assert!(queued.is_woken());
    assert_eq!(queued.drain_due(), ["after", "at"]);
}

#[test]
fn the_task_is_woken_at_the_ticks_at_which_something_is_due_and_at_no_other() {
    // Some lie on higher levels of the wheel, which come down on the way.
    let delays = [1000, 2, 234, 262_144 + 9 * 4096, 60, 10];
    let mut queued = queued();
    delays.iter().for_each(|delay| _ = queued.queue.insert(*delay, ms(*delay)));
    queued.assert_pending();
    for now in 1..1200 {
        queued.pass_to(now);
        assert_eq!(queued.is_woken(), delays.contains(&now), "at {now}");
        if queued.is_woken() {
            queued.assert_due(now);
            queued.assert_pending();
        }
    }
    queued.pass_to(262_144 + 9 * 4096 - 1);
    assert!(!queued.is_woken());
    queued.pass_to(262_144 + 9 * 4096);
    assert_eq!((queued.is_woken(), queued.drain_due().len()), (true, 1));
}

#[test]
fn a_deadline_that_has_passed_is_due_at_once() {
    let mut queued = queued();
    queued.pass_to(10);
    queued.queue.insert_at("late", queued.begin);
    queued.assert_due("late");
    let key = queued.queue.insert_at("late and removed", queued.begin);
    assert_eq!(queued.queue.remove(key), Some("late and removed"));
    // Before the engine itself began.
    queued.queue.insert_at("very late", queued.begin - ms(100));
    queued.assert_due("very late");
}

#[test]
fn what_was_removed_does_not_come_out() {
    let (mut queued, keys) = with(&[("one", 5)]);
    queued.assert_pending();
    assert_eq!(queued.queue.remove(keys[0]), Some("one"));
    queued.pass_to(15);
    queued.assert_empty();
}

#[test]
fn a_reset_to_a_later_time_counts_and_the_earlier_one_wakes_nobody() {
    let (mut queued, keys) = with(&[("one", 5)]);
    queued.assert_pending();
    queued.pass_to(1);
    assert!(queued.queue.reset_at(keys[0], queued.at(10)));
    queued.assert_pending();
    queued.pass_to(9);
    assert!(!queued.is_woken());
    queued.assert_pending();
    queued.pass_to(10);
    assert!(queued.is_woken());
    queued.assert_due("one");
    queued.assert_empty();
}

#[test]
fn a_reset_to_an_earlier_time_counts_once_or_twice() {
    // tokio-rs/tokio#849
    for resets in [&[10][..], &[50, 40], &[40, 30, 20]] {
        let (mut queued, keys) = with(&[("one", 200)]);
        queued.assert_pending();
        for (step, due) in (1..).zip(resets) {
            queued.pass_to(step * 3);
            assert!(queued.queue.reset_at(keys[0], queued.at(*due)));
        }
        let due = *resets.last().unwrap();
        queued.pass_to(due - 1);
        assert!(!queued.is_woken());
        queued.pass_to(due);
        assert!(queued.is_woken());
        queued.assert_due("one");
    }
}

#[test]
fn a_reset_to_the_past_makes_it_due_at_once_and_wakes_the_task() {
    // tokio-rs/tokio#8274
    let (mut queued, keys) = with(&[("one", 10_000)]);
    queued.pass_to(200);
    queued.assert_pending();
    assert!(!queued.is_woken());
    assert!(queued.queue.reset_at(keys[0], queued.at(100)));
    assert!(queued.is_woken());
    queued.assert_due("one");
    queued.assert_empty();
}

#[test]
fn what_is_due_and_has_not_come_out_can_be_reset_and_removed() {
    // tokio-rs/tokio#2473, #3270
    let (mut queued, keys) = with(&[("one", 5), ("two", 5)]);
    queued.pass_to(1_000);
    assert!(queued.queue.reset_at(keys[0], queued.at(1_100)));
    assert_eq!(queued.queue.len(), 2);
    assert!(queued.queue.reset_at(keys[0], queued.at(1_050)));
    assert_eq!(queued.queue.remove(keys[1]), Some("two"));
    queued.assert_pending();
    queued.pass_to(1_060);
    assert!(queued.is_woken());
    queued.assert_due("one");
    queued.assert_empty();
    // The same when it was past when it was inserted.
    let late = queued.queue.insert_at("late", queued.at(900));
    assert!(queued.queue.reset_at(late, queued.at(1_200)));
    assert!(queued.queue.reset_at(late, queued.at(1_150)));
    queued.assert_pending();
    queued.pass_to(1_149);
    assert_eq!((queued.is_woken(), queued.queue.len()), (false, 1));
    queued.pass_to(1_150);
    assert!(queued.is_woken());
    queued.assert_due("late");
    queued.assert_empty();
}

#[test]
fn of_two_that_are_due_together_one_may_remove_or_reset_the_other() {
    // tokio-rs/tokio#1700 and others: at the borders of levels, too.
    for due in [1, 63, 64, 65, 255, 256, 257, 4_096, 65_536, 1 << 24] {
        for late in [0, 16] {
            let (mut queued, keys) = with(&[("one", due), ("two", due), ("three", due)]);
            queued.pass_to(due + late);
            let Poll::Ready(Some(first)) = queued.poll_whole() else { panic!("none is due") };
            let others: Vec<Key> = keys.into_iter().filter(|key| *key != first.key()).collect();
            assert!(queued.queue.remove(others[0]).is_some());
            assert!(queued.queue.reset_at(others[1], queued.at(due + 20)));
            queued.assert_pending();
            queued.pass_to(due + 20);
            assert_eq!((queued.is_woken(), queued.drain_due().len()), (true, 1));
        }
    }
}

#[test]
fn an_insert_before_the_first_wakes_the_task_earlier() {
    for (first, second) in [(10_000, 600), (200, 100), (262_144, 1)] {
        for polls_between in [false, true] {
            let (mut queued, _) = with(&[("first", first)]);
            queued.assert_pending();
            queued.queue.insert("second", ms(second));
            if polls_between {
                queued.assert_pending();
            }
            queued.pass_to(second - 1);
            assert!(!queued.is_woken());
            queued.pass_to(second);
            assert!(queued.is_woken());
            queued.assert_due("second");
            queued.assert_pending();
        }
    }
}

#[test]
fn items_that_were_reset_come_out_at_their_new_times_in_their_new_order() {
    let (mut queued, keys) = with(&[("one", 200), ("two", 250)]);
    queued.assert_pending();
    for (key, due) in [(keys[0], 300), (keys[1], 350), (keys[0], 400)] {
        assert!(queued.queue.reset_at(key, queued.at(due)));
    }
    queued.pass_to(310);
    queued.assert_pending();
    for (due, name) in [(350, "two"), (400, "one")] {
        queued.pass_to(due - 1);
        queued.assert_pending();
        queued.pass_to(due);
        assert!(queued.is_woken());
        queued.assert_due(name);
    }
    queued.assert_empty();
}

#[test]
fn whichever_of_two_is_reset_the_first_that_is_due_wakes_the_task() {
    // Which, to when; what comes out then, and when.
    for (which, to, name, due) in [(0, 100, "one", 100), (1, 100, "two", 100), (0, 300, "two", 250)]
    {
        let (mut queued, keys) = with(&[("one", 200), ("two", 250)]);
        queued.assert_pending();
        assert!(queued.queue.reset_at(keys[which], queued.at(to)));
        queued.pass_to(due);
        assert!(queued.is_woken());
        queued.assert_due(name);
    }
}

#[test]
fn inserting_between_items_that_are_due_keeps_none_back() {
    let (mut queued, _) = with(&[("1", 100), ("2", 100), ("3", 100)]);
    queued.assert_pending();
    queued.pass_to(100);
    assert!(queued.is_woken());
    let mut out = Vec::new();
    while out.len() < 3 {
        let Poll::Ready(Some(item)) = queued.poll() else { panic!("after {out:?}") };
        out.push(item);
        queued.queue.insert_at("later", queued.at(500));
    }
    out.sort_unstable();
    assert_eq!((out, queued.queue.len()), (vec!["1", "2", "3"], 3));
    queued.assert_pending();
}

#[test]
fn a_reset_while_the_wheel_is_behind_comes_out_at_its_time() {
    // The queue was not polled since the start, and the new time lies on a higher level from there.
    for (first, due) in [(100, 120), (200, 120), (300, 260)] {
        let (mut queued, keys) = with(&[("one", first)]);
        queued.assert_pending();
        queued.pass_to(80);
        assert!(!queued.is_woken());
        assert!(queued.queue.reset_at(keys[0], queued.at(due)));
        queued.assert_pending();
        queued.pass_to(due - 1);
        assert!(!queued.is_woken());
        queued.pass_to(due);
        assert!(queued.is_woken());
        queued.assert_due("one");
    }
}

#[test]
fn an_insert_that_is_late_while_a_task_waits_wakes_it_at_once() {
    let (mut queued, _) = with(&[("later", 200)]);
    queued.assert_pending();
    queued.pass_to(80);
    assert!(!queued.is_woken());
    queued.queue.insert_at("late", queued.at(40));
    assert!(queued.is_woken());
    queued.assert_due("late");
    queued.assert_pending();
}

#[test]
fn the_last_item_that_is_removed_wakes_the_task_and_so_does_a_clear() {
    // tokio-rs/tokio#6751, #8320
    let (mut queued, keys) = with(&[("one", 1_000)]);
    queued.assert_pending();
    assert_eq!(queued.queue.remove(keys[0]), Some("one"));
    assert!(queued.is_woken());
    queued.assert_empty();
    for _ in 0..3 {
        queued.queue.insert("another", ms(1_000));
    }
    queued.assert_pending();
    assert!(!queued.is_woken());
    queued.queue.clear();
    assert!(queued.is_woken());
    queued.assert_empty();
    assert_eq!(queued.engine.len(), 0, "an empty queue has no timer");
    queued.queue.clear();
    assert!(!queued.is_woken(), "there was nothing to clear");
}

#[test]
fn a_queue_that_is_years_old_works_as_on_the_first_day() {
    // tokio-rs/tokio#5536: 2^36 ms
    let mut queued = queued();
    for years in 1..=64_u64 {
        queued.queue.insert(0, ms((1 << 35) - 1));
        queued.assert_pending();
        queued.pass_to(years << 35);
        assert!(queued.is_woken());
        queued.assert_due(0);
        queued.queue.insert(1, Duration::ZERO);
        queued.assert_due(1);
        queued.queue.insert(2, ms(1));
        queued.assert_pending();
        queued.pass_to((years << 35) + 1);
        queued.assert_due(2);
        queued.assert_empty();
    }
}
