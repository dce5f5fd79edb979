//! The engine's own among the due payloads ([`Kind::Own`] and [`Kind::Wake`]): the wakes of
//! futures, and the bookkeeping of what repeats. The reaper runs them where they are due, before
//! the handler gets the rest of their batch.
//!
//! A handler may keep what it gets, in a queue, a channel or a runtime, behind whatever else is
//! there. A future must not wait for that: a task that the handler runs may await it.
//!
//! *Owner*: the reaper. What runs here is a task like any other for who looks on: its panic is
//! caught, and if it is stuck (a waker that blocks), another thread takes over what comes after it.
//!
//! *Tested by*: the unit test below, `tests/suite/dispatch/own.rs`, `tests/races/future.rs`.

use std::any::{Any, TypeId};

use super::{Kind, Payloads, Task};

/// The payloads that a reaper runs by itself.
pub struct Own<T> {
    is_own: fn(&T) -> bool,
    /// Runs one of them.
    pub(crate) run: fn(T),
}

// === impl Own ===

impl<T: 'static> Own<T> {
    /// Those are tasks. `None`: no other payload is one.
    pub fn tasks() -> Option<Own<T>> {
        (TypeId::of::<T>() == TypeId::of::<Task>()).then_some(Own {
            is_own: |payload| Task::kind_of(payload) >= Kind::Own,
            run: |payload| {
                let payload = &mut Some(payload) as &mut dyn Any;
                let task: Option<&mut Option<Task>> = payload.downcast_mut();
                task.and_then(Option::take).expect("it is a task").run();
            },
        })
    }
}

impl<T> Own<T> {
    /// Moves those of a batch to its front, and returns how many they are. They keep their order,
    /// and so does the rest.
    pub(crate) fn put_first(&self, batch: &mut Payloads<T>) -> usize {
        let is_own = |(_, payload): &(_, T)| (self.is_own)(payload);
        if batch.iter().any(is_own) { stable_partition(batch, &is_own) } else { 0 }
    }
}

// Not derived: that would require the same of `T`.
impl<T> Clone for Own<T> {
    fn clone(&self) -> Own<T> {
        *self
    }
}

impl<T> Copy for Own<T> {}

debug! { impl[T] Own[T] {} }

/// Moves the items that `is_first` to the front, in place. Returns how many they are. Both parts
/// keep their order.
fn stable_partition<I>(items: &mut [I], is_first: &impl Fn(&I) -> bool) -> usize {
    let begin = items.iter().take_while(|item| is_first(item)).count();
    let items = &mut items[begin..];
    if items.len() < 2 {
        return begin;
    }
    let middle = items.len() / 2;
    let left = stable_partition(&mut items[..middle], is_first);
    let right = stable_partition(&mut items[middle..], is_first);
    items[left..middle + right].rotate_left(middle - left);
    begin + left + right
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn both_parts_keep_their_order() {
        for len in 0..40_usize {
            for step in 1..5 {
                for rest in 0..step {
                    let is_first = |n: &usize| n % step == rest;
                    let mut items: Vec<_> = (0..len).collect();
                    let firsts = stable_partition(&mut items, &is_first);
                    let parts = (0..len).filter(is_first).chain((0..len).filter(|n| !is_first(n)));
                    assert!(parts.eq(items), "{len}, each {step}th");
                    assert_eq!(firsts, (0..len).filter(is_first).count());
                }
            }
        }
    }
}
