//! Types that cross threads, and sizes that users count on.

use tickless::{CancelOnDrop, Engine, Handle, ManualClock, Snapshot, Stats, Task, TypedEngine};

fn is_send_and_sync<T: Send + Sync>() {}
fn is_send<T: Send>() {}
fn is_unpin<T: Unpin>() {}

/// A payload that may be sent and not shared, which is all that an engine asks for.
type Unshared = std::cell::Cell<u8>;

#[test]
fn engines_and_handles_go_to_any_thread_and_may_be_shared() {
    is_send_and_sync::<Engine>();
    is_send_and_sync::<TypedEngine<Unshared>>();
    is_send_and_sync::<Handle>();
    is_send_and_sync::<Handle<Unshared>>();
    is_send_and_sync::<CancelOnDrop<Unshared>>();
    is_send_and_sync::<ManualClock>();
    is_send_and_sync::<Snapshot>();
    is_send_and_sync::<Stats>();
    is_send::<Task>();
    is_unpin::<Handle<Unshared>>();
}

#[test]
fn a_handle_is_one_word_and_a_clone_of_an_engine_too() {
    assert_eq!(size_of::<Handle>(), size_of::<usize>());
    assert_eq!(size_of::<Engine>(), size_of::<usize>());
}
