//! KEYED: a keyed timer gets under its key, is due, is moved, replaced and cancelled.
//!
//! Who races: threads that schedule, cancel and move under one key, and the reaper, which is handed
//! what is scheduled as soon as that: everything is due at once, but for timers that are there from
//! the beginning to be moved.
//! Asserted: each task ends once, as its callers were told; none runs that was refused; none is
//! lost between the engine and its key; the thread that ends one is alone with it (the checker's
//! cell sees to that).
//!
//! The map and the engine are small enough to be played here. The map has one key, under a lock as
//! that of its bucket would be; the engine is a queue, whose lock publishes as its own lists do.

use std::collections::VecDeque;
use std::sync::Arc;

use loom_tests::check;
use tickless_sync::protocol::gate::{Armed, Gate, Generations};
use tickless_sync::{Counter, JoinHandle, Mutex, Ordering::Relaxed, UnsafeCell, thread};

/// A timer, as its maker, the map and its tickets know it.
struct Node {
    gate: Gate,
    /// The task: the thread that ends the timer says how, and is alone here.
    task: UnsafeCell<Option<End>>,
    /// As the task itself would count; no part of the model.
    ended: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ran,
    Cancelled,
    Replaced,
    Refused,
}

/// What waits under the key.
struct Waiting {
    node: Arc<Node>,
    generations: Generations,
}

struct Ticket {
    node: Arc<Node>,
    generation: u64,
}

struct Rig {
    key: Mutex<Option<Waiting>>,
    engine: Mutex<VecDeque<Ticket>>,
    /// What is due when all threads have returned.
    later: Mutex<Vec<Ticket>>,
}

// SAFETY: the task is that of the thread that ends the timer, which is what the models are about.
unsafe impl Sync for Node {}

impl Node {
    fn new() -> Arc<Node> {
        let (task, ended) = (UnsafeCell::new(None), Counter::new(0));
        Arc::new(Node { gate: Gate::default(), task, ended })
    }

    fn end(&self, end: End) {
        self.gate.end();
        // SAFETY: the thread that took the timer out of the map, or never entered it, is alone with
        // it.
        self.task.with_mut(|task| unsafe { *task = Some(end) });
        self.ended.fetch_add(1, Relaxed);
    }

    /// How it ended. To be asked when all threads have returned.
    fn how(&self) -> End {
        assert_eq!(self.ended.load(Relaxed), 1, "it ends once");
        // SAFETY: all other threads have returned.
        self.task.with_mut(|task| unsafe { *task }).expect("it has ended")
    }
}

impl Rig {
    fn new() -> Arc<Rig> {
        let (engine, later) = (Mutex::new(VecDeque::new()), Mutex::new(Vec::new()));
        Arc::new(Rig { key: Mutex::new(None), engine, later })
    }

    /// One whose timer waits, for later.
    fn new_waiting(node: &Arc<Node>) -> Arc<Rig> {
        let rig = Rig::new();
        assert!(rig.put(node, true));
        let ticket = rig.engine.lock().unwrap().pop_front();
        rig.later.lock().unwrap().extend(ticket);
        rig
    }

    fn schedule(&self, node: &Arc<Node>, generation: u64) {
        self.engine.lock().unwrap().push_back(Ticket { node: node.clone(), generation });
    }

    /// As `Door::put`: lets a new timer wait, and answers whether it does.
    fn put(&self, node: &Arc<Node>, if_absent: bool) -> bool {
        loop {
            self.schedule(node, 0);
            let mut key = self.key.lock().unwrap();
            if if_absent && key.is_some() {
                drop(key);
                node.end(End::Refused);
                return false;
            }
            if node.gate.open() {
                let waiting = Waiting { node: node.clone(), generations: Generations::default() };
                let other = key.replace(waiting);
                drop(key);
                if let Some(other) = other {
                    other.node.end(End::Replaced);
                }
                return true;
            }
            drop(key);
            node.gate.shut();
        }
    }

    /// As `Door::take`, and then `call_off`.
    fn cancel(&self) -> bool {
        let taken = self.key.lock().unwrap().take();
        taken.map(|waiting| waiting.node.end(End::Cancelled)).is_some()
    }

    /// As `Door::reset`, where the timer has to be scheduled anew.
    fn reset(&self) -> bool {
        loop {
            let (node, generation) = match &mut *self.key.lock().unwrap() {
                None => return false,
                Some(waiting) => (waiting.node.clone(), waiting.generations.issue()),
            };
            self.schedule(&node, generation);
            let mut key = self.key.lock().unwrap();
            if let Some(waiting) = key.as_mut().filter(|it| Arc::ptr_eq(&it.node, &node)) {
                if waiting.generations.arm(generation) != Armed::Early {
                    return true;
                }
            }
        }
    }

    /// As `Ticket::fire`, for each that is due.
    fn turn(&self) {
        loop {
            let Some(Ticket { node, generation }) = self.engine.lock().unwrap().pop_front() else {
                return;
            };
            if node.gate.is_over() {
                continue;
            }
            let mut key = self.key.lock().unwrap();
            if !node.gate.arrive() {
                continue;
            }
            let is_it = |waiting: &mut Waiting| {
                Arc::ptr_eq(&waiting.node, &node) && waiting.generations.is_due(generation)
            };
            let taken = key.take_if(is_it);
            drop(key);
            if taken.is_some() {
                node.end(End::Ran);
            }
        }
    }

    /// All threads have returned: runs what is left, after which nothing waits.
    fn pass(&self) {
        self.turn();
        let later = self.later.lock().unwrap().pop();
        self.engine.lock().unwrap().extend(later);
        self.turn();
        assert!(self.key.lock().unwrap().is_none(), "a timer was lost");
    }
}

fn on_thread<R: Send + 'static>(
    rig: &Arc<Rig>,
    call: impl FnOnce(&Rig) -> R + Send + 'static,
) -> JoinHandle<R> {
    let rig = rig.clone();
    thread::spawn(move || call(&rig))
}

#[test]
fn a_timer_that_is_due_before_it_is_under_its_key_runs_all_the_same() {
    check(3, || {
        let (rig, node) = (Rig::new(), Node::new());
        let reaper = on_thread(&rig, Rig::turn);
        assert!(rig.put(&node, true));
        reaper.join().unwrap();
        rig.pass();
        assert_eq!(node.how(), End::Ran);
    });
}

#[test]
fn of_two_that_are_scheduled_if_absent_one_is_refused_and_does_not_run() {
    check(3, || {
        let (rig, nodes) = (Rig::new(), [Node::new(), Node::new()]);
        let reaper = on_thread(&rig, Rig::turn);
        let other = nodes[1].clone();
        let other = on_thread(&rig, move |rig| rig.put(&other, true));
        let is_in = [rig.put(&nodes[0], true), other.join().unwrap()];
        reaper.join().unwrap();
        rig.pass();
        for (node, is_in) in nodes.iter().zip(is_in) {
            assert_eq!(node.how(), if is_in { End::Ran } else { End::Refused });
        }
        assert!(is_in[0] || is_in[1]);
    });
}

#[test]
fn what_is_replaced_while_it_is_due_runs_or_is_replaced() {
    check(3, || {
        let (rig, [old, new]) = (Rig::new(), [Node::new(), Node::new()]);
        assert!(rig.put(&old, false));
        let reaper = on_thread(&rig, Rig::turn);
        assert!(rig.put(&new, false));
        reaper.join().unwrap();
        rig.pass();
        assert!(matches!(old.how(), End::Ran | End::Replaced));
        assert_eq!(new.how(), End::Ran);
    });
}

#[test]
fn of_two_that_replace_each_other_both_end() {
    check(3, || {
        let (rig, nodes) = (Rig::new(), [Node::new(), Node::new()]);
        let reaper = on_thread(&rig, Rig::turn);
        let other = nodes[1].clone();
        let other = on_thread(&rig, move |rig| rig.put(&other, false));
        assert!(rig.put(&nodes[0], false) && other.join().unwrap());
        reaper.join().unwrap();
        rig.pass();
        let ends = nodes.map(|node| node.how());
        assert!(ends.contains(&End::Ran) && ends.iter().all(|end| *end != End::Cancelled));
    });
}

#[test]
fn a_cancel_tells_the_truth_while_its_timer_is_made_and_is_due() {
    check(3, || {
        let (rig, node) = (Rig::new(), Node::new());
        let reaper = on_thread(&rig, Rig::turn);
        let canceller = on_thread(&rig, Rig::cancel);
        assert!(rig.put(&node, true));
        let is_cancelled = canceller.join().unwrap();
        reaper.join().unwrap();
        rig.pass();
        assert_eq!(node.how(), if is_cancelled { End::Cancelled } else { End::Ran });
    });
}

#[test]
fn a_timer_that_is_moved_while_it_is_due_runs_once() {
    check(3, || {
        let (rig, node) = (Rig::new(), Node::new());
        assert!(rig.put(&node, true));
        let reaper = on_thread(&rig, Rig::turn);
        rig.reset();
        reaper.join().unwrap();
        rig.pass();
        assert_eq!(node.how(), End::Ran);
    });
}

#[test]
fn a_timer_that_is_due_before_it_was_moved_there_runs_all_the_same() {
    check(3, || {
        let node = Node::new();
        let rig = Rig::new_waiting(&node);
        let reaper = on_thread(&rig, Rig::turn);
        assert!(rig.reset(), "nobody else has ended it");
        reaper.join().unwrap();
        rig.pass();
        assert_eq!(node.how(), End::Ran);
    });
}

#[test]
fn a_timer_that_two_move_at_once_is_not_lost_between_them() {
    check(3, || {
        let node = Node::new();
        let rig = Rig::new_waiting(&node);
        let mover = on_thread(&rig, Rig::reset);
        let reaper = on_thread(&rig, Rig::turn);
        let is_moved = rig.reset();
        assert!(mover.join().unwrap() || is_moved, "one was first");
        reaper.join().unwrap();
        rig.pass();
        assert_eq!(node.how(), End::Ran);
    });
}

#[test]
fn two_that_move_a_timer_and_one_that_cancels_it() {
    check(2, || {
        let node = Node::new();
        let rig = Rig::new_waiting(&node);
        let reaper = on_thread(&rig, Rig::turn);
        let mover = on_thread(&rig, Rig::reset);
        let canceller = on_thread(&rig, Rig::cancel);
        rig.reset();
        mover.join().unwrap();
        let is_cancelled = canceller.join().unwrap();
        reaper.join().unwrap();
        rig.pass();
        assert_eq!(node.how(), if is_cancelled { End::Cancelled } else { End::Ran });
    });
}

#[test]
fn what_was_moved_and_replaced_is_not_moved_twice() {
    check(3, || {
        let (old, new) = (Node::new(), Node::new());
        let rig = Rig::new_waiting(&old);
        let mover = on_thread(&rig, Rig::reset);
        let reaper = on_thread(&rig, Rig::turn);
        assert!(rig.put(&new, false));
        mover.join().unwrap();
        reaper.join().unwrap();
        rig.pass();
        assert!(matches!(old.how(), End::Ran | End::Replaced));
        assert_eq!(new.how(), End::Ran);
    });
}
