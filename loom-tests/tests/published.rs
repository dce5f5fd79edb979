//! PUBLISHED: a value is read under a guard while others replace it.
//!
//! Who races: readers and those who replace. Asserted: a reader finds a value whole, and it is not
//! freed under it (the checker reports both); of those who replace at once, each builds on what
//! the other left; what was replaced is freed.
//!
//! All of it is the epoch crate's, which the random scheduler does not see into.

#![cfg(not(shuttle))]

use std::ptr::NonNull;
use std::sync::Arc;

use loom_tests::check;
use tickless_core::entry::Published;
use tickless_sync::{Life, free, thread};

/// A value whose use after its end is reported.
struct Value {
    /// What the allocator writes over when this is freed.
    _space: [usize; 2],
    content: NonNull<Content>,
}

struct Content {
    number: u32,
    life: Life,
}

// SAFETY: a value is written before it is published, and read from then on; the checker reports
// who looks at it before it began or after its end.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    fn new(number: u32) -> Value {
        let content = Content { number, life: Life::begin() };
        // SAFETY: a box is never null.
        let content = unsafe { NonNull::new_unchecked(Box::into_raw(Box::new(content))) };
        Value { _space: [0; 2], content }
    }

    fn number(&self) -> u32 {
        // SAFETY: what was freed stays where it is until the iteration is over.
        let content = unsafe { self.content.as_ref() };
        content.life.look();
        content.number
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: as in `number`.
        unsafe { self.content.as_ref() }.life.end();
        // SAFETY: it came from a box, and is freed once; the checker reports if not.
        free(unsafe { Box::from_raw(self.content.as_ptr()) });
    }
}

fn published(number: u32) -> Arc<Published<Value>> {
    // SAFETY: dropping a value runs what is above.
    let published = unsafe { Published::empty() };
    published.update(|old| {
        assert!(old.is_none());
        Value::new(number)
    });
    Arc::new(published)
}

fn read(published: &Published<Value>) -> u32 {
    published.with(|value| value.expect("it is never empty again").number())
}

fn add(published: &Published<Value>, more: u32) {
    published.update(|old| Value::new(old.expect("as above").number() + more));
}

#[test]
fn a_value_is_whole_and_is_not_freed_under_its_reader() {
    check(1, || {
        let published = published(1);
        let reader = {
            let published = published.clone();
            thread::spawn(move || read(&published))
        };
        add(&published, 1);
        add(&published, 1);
        assert!((1..=3).contains(&reader.join().unwrap()));
        assert_eq!(read(&published), 3);
    });
}

#[test]
fn of_two_who_replace_it_each_builds_on_the_other() {
    check(2, || {
        let published = published(1);
        let other = {
            let published = published.clone();
            thread::spawn(move || add(&published, 10))
        };
        add(&published, 100);
        other.join().unwrap();
        assert_eq!(read(&published), 111);
    });
}

#[test]
fn the_first_value_is_whole_as_well() {
    check(3, || {
        // SAFETY: dropping a value runs what is above.
        let published = Arc::new(unsafe { Published::empty() });
        let reader = {
            let published = published.clone();
            thread::spawn(move || published.with(|value: Option<&Value>| value.map(Value::number)))
        };
        published.update(|_| Value::new(7));
        assert!(matches!(reader.join().unwrap(), None | Some(7)));
    });
}
