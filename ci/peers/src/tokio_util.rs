//! `tokio_util::time::DelayQueue`.

pub mod time {
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use futures_core::Stream;
    use tickless::future;
    use tokio::time::Instant;

    use crate::engines::of_runtime;

    pub use tickless::future::delay_queue::Key;

    /// As `tokio_util::time::DelayQueue`.
    #[derive(Debug)]
    pub struct DelayQueue<T> {
        queue: future::DelayQueue<T>,
    }

    /// As `tokio_util::time::delay_queue::Expired`.
    #[derive(Debug)]
    pub struct Expired<T> {
        value: T,
        deadline: Instant,
        key: Key,
    }

    // === impl DelayQueue ===

    impl<T> DelayQueue<T> {
        #[track_caller]
        #[expect(clippy::new_without_default, reason = "it is inside of a runtime")]
        pub fn new() -> DelayQueue<T> {
            DelayQueue { queue: of_runtime().delay_queue() }
        }

        pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
            self.queue.insert_at(value, when.into_std())
        }

        pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
            self.queue.insert(value, timeout)
        }

        #[track_caller]
        pub fn remove(&mut self, key: &Key) -> Expired<T> {
            self.try_remove(key).expect("invalid key")
        }

        pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
            let deadline = self.queue.deadline(*key).map_or_else(Instant::now, Instant::from_std);
            let value = self.queue.remove(*key)?;
            Some(Expired { value, deadline, key: *key })
        }

        #[track_caller]
        pub fn deadline(&self, key: &Key) -> Instant {
            Instant::from_std(self.queue.deadline(*key).expect("invalid key"))
        }

        #[track_caller]
        pub fn reset_at(&mut self, key: &Key, when: Instant) {
            assert!(self.queue.reset_at(*key, when.into_std()), "invalid key");
        }

        #[track_caller]
        pub fn reset(&mut self, key: &Key, timeout: Duration) {
            assert!(self.queue.reset(*key, timeout), "invalid key");
        }

        pub fn peek(&self) -> Option<Key> {
            self.queue.peek()
        }

        pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
            let expired = self.queue.poll_expired(cx);
            expired.map(|expired| expired.map(Expired::new))
        }

        pub fn clear(&mut self) {
            self.queue.clear();
        }

        pub fn compact(&mut self) {
            self.queue.shrink_to_fit();
        }

        pub fn capacity(&self) -> usize {
            self.queue.capacity()
        }

        pub fn reserve(&mut self, additional: usize) {
            self.queue.reserve(additional);
        }

        pub fn len(&self) -> usize {
            self.queue.len()
        }

        pub fn is_empty(&self) -> bool {
            self.queue.is_empty()
        }
    }

    impl<T> Stream for DelayQueue<T> {
        type Item = Expired<T>;

        fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
            self.poll_expired(cx)
        }
    }

    // === impl Expired ===

    impl<T> Expired<T> {
        fn new(expired: future::delay_queue::Expired<T>) -> Expired<T> {
            let (key, deadline) = (expired.key(), Instant::from_std(expired.deadline()));
            Expired { value: expired.into_inner(), deadline, key }
        }

        pub fn get_ref(&self) -> &T {
            &self.value
        }

        pub fn get_mut(&mut self) -> &mut T {
            &mut self.value
        }

        pub fn into_inner(self) -> T {
            self.value
        }

        pub fn deadline(&self) -> Instant {
            self.deadline
        }

        pub fn key(&self) -> Key {
            self.key
        }
    }
}
