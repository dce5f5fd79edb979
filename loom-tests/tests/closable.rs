//! CLOSABLE: threads use a value that one of them takes away.
//!
//! Who races: two users and a closer, or two closers and a user.
//! Asserted: a use sees the value; it is dropped once, after all uses (the checker's cell sees to
//! that); after that no use begins.

use std::sync::Arc;

use loom_tests::check;
use tickless_sync::protocol::closable::Closable;
use tickless_sync::{Counter, Ordering::Relaxed, UnsafeCell, thread};

/// A value that uses read, and that its drop writes.
struct Value(UnsafeCell<u32>, Arc<Counter>);

// SAFETY: uses read the cell, and the drop writes it: the checker reports if one does not come
// after the other.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        self.0.with_mut(|cell| unsafe { *cell = 0 });
        self.1.fetch_add(1, Relaxed);
    }
}

fn closable() -> (Arc<Closable<Value>>, Arc<Counter>) {
    let dropped = Arc::new(Counter::new(0));
    (Arc::new(Closable::new(Value(UnsafeCell::new(7), dropped.clone()))), dropped)
}

fn look(this: &Closable<Value>) {
    // SAFETY: only the drop writes it.
    this.with(|value| value.0.with(|cell| assert_eq!(unsafe { *cell }, 7)));
}

#[test]
fn a_value_is_dropped_after_the_last_of_its_uses() {
    check(3, || {
        let (this, dropped) = closable();
        let users = [(); 2].map(|()| {
            let this = this.clone();
            thread::spawn(move || look(&this))
        });
        this.close();
        users.into_iter().for_each(|user| user.join().unwrap());
        assert!(this.with(|_| ()).is_none());
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

#[test]
fn of_two_who_close_it_one_drops_the_value() {
    check(3, || {
        let (this, dropped) = closable();
        let [closer, user] = [this.clone(), this.clone()];
        let closer = thread::spawn(move || closer.close());
        let user = thread::spawn(move || look(&user));
        this.close();
        closer.join().unwrap();
        user.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 1);
    });
}
