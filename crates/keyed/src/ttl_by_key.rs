//! The operations on the entries of a `TtlMap`.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

use tickless::internal::Panics;
use tickless::internal::sync::Arc;
use tickless::{Engine, When};

use super::node::SharedNode;
use super::waiting::Waiting;
use super::{ResetError, TtlMap};

/// An entry, as the table has it.
type Entry<K, V> = Waiting<K, Arc<V>>;

fn value<K, V: ?Sized>(entry: &mut Entry<K, V>) -> Arc<V> {
    entry.node.own().task.clone()
}

// === impl TtlMap ===

impl<K, V, S> TtlMap<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + ?Sized + 'static,
    S: BuildHasher,
{
    /// Returns the value under `key`, unless its time has come. The entry stays as it is. O(1): one
    /// search of the map, and a look at the thread's clock.
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::TtlMap;
    ///
    /// let map = TtlMap::<String, Vec<u8>>::new(|_, _| ())?;
    /// map.insert("page".to_owned(), vec![1, 2], Duration::from_secs(60))?;
    /// // Nothing is locked while the value is read.
    /// let sum = map.get("page").map(|bytes| bytes.iter().sum::<u8>());
    /// assert_eq!(sum, Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.door.find(key, value)
    }

    /// Returns the value under `key`, unless its time has come, and lets the entry live until `ttl`
    /// has passed from now: not until its old time, which may have been later. One step: the entry
    /// that is returned is the one that was extended.
    ///
    /// O(1): one search of the map and one compare-and-swap if the new time is not much earlier
    /// than the old one; otherwise also a schedule and a cancel.
    ///
    /// # Errors
    /// There is no such entry. Or its timer had to be scheduled anew, and the engine is full or has
    /// stopped: the entry stays as it was, and [`get`](TtlMap::get) returns it.
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key. Nothing has changed then.
    pub fn get_and_extend<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        ttl: impl Into<When>,
    ) -> Result<Arc<V>, ResetError>
    where
        K: Borrow<Q>,
    {
        self.door.reset(key, ttl.into(), value)
    }

    /// As [`get_and_extend`](TtlMap::get_and_extend), without the value.
    ///
    /// # Errors
    /// As [`get_and_extend`](TtlMap::get_and_extend).
    ///
    /// # Panics
    /// As [`get_and_extend`](TtlMap::get_and_extend).
    pub fn extend<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        ttl: impl Into<When>,
    ) -> Result<(), ResetError>
    where
        K: Borrow<Q>,
    {
        self.door.reset(key, ttl.into(), |_| ())
    }

    /// Removes the entry under `key` and returns its value, which is handed over here: it will
    /// never expire. `None` if there is no entry, or if its time has come: then the callback gets
    /// it. So a token that is taken by `remove` is one that was still valid. O(1).
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key (nothing has changed then), or a panic from
    /// dropping the key (which happens last, and drops the value).
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.door.take(key)
    }

    /// Returns `true` if there is an entry under `key` whose time has not come. That may change
    /// right after the call. O(1).
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.door.find(key, |_| ()).is_some()
    }

    /// Returns when the time of the entry under `key` comes, rounded up to the tick. `None` if
    /// there is no entry, if its time has come, or if it never comes. O(1).
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key.
    pub fn deadline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        self.door.deadline(key)
    }
}

impl<K, V: ?Sized, S> TtlMap<K, V, S> {
    /// Returns the number of entries, including those whose time has come and which the callback
    /// has not got yet. It is exact if no entry is being added or removed. O(1), but not cheap:
    /// adds up the lengths of 64 to 256 parts.
    pub fn len(&self) -> usize {
        self.door.table.len()
    }

    /// Returns `true` if there is no entry. As exact as [`len`](TtlMap::len), and costs as much.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with the key of each entry, in no particular order; also with those whose time
    /// has come and which the callback has not got yet.
    ///
    /// Entries that are in the map during the whole call are included. Entries that are added,
    /// removed or replaced meanwhile may or may not be. The keys are collected first (O(n), one
    /// reference to each), so `look` may use the map.
    pub fn for_each_key(&self, look: impl FnMut(&K)) {
        self.door.for_each_key(look);
    }

    /// Drops each entry for whose key and value `keep` returns `false`, without the callback.
    /// Returns the number of dropped entries. O(n): the keys are collected first, one reference to
    /// each, so `keep` may use the map. A value is looked up when its turn comes.
    ///
    /// `keep` is called for each entry that is in the map during the whole call. An entry that
    /// replaces another after its key was checked stays. An entry that is extended meanwhile does
    /// not.
    ///
    /// # Panics
    /// A panic of `keep` ends the call: the entries that are left stay. A panic from dropping keys
    /// or values does not. Propagates the first of all these panics at the end.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_keyed::TtlMap;
    /// let map = TtlMap::<u32, u32>::new(|_, _| ())?;
    /// for user in 0..10 {
    ///     map.insert(user, user % 3, Duration::from_secs(60))?;
    /// }
    /// assert_eq!(map.retain(|_user, &group| group != 0), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) -> usize {
        // One value at a time: what another thread removes meanwhile is that thread's alone.
        let see = |node: &SharedNode<K, Arc<V>>| self.door.find_node(node, value);
        let is_meant = |key: &K, value: &Arc<V>| !keep(key, value);
        let (dropped, panics) = self.door.take_where(see, is_meant, Waiting::discard);
        panics.go_on();
        dropped
    }

    /// Drops all entries, without the callback, and returns their number. O(n).
    ///
    /// Entries that are added meanwhile may or may not be among them.
    ///
    /// # Panics
    /// As [`retain`](TtlMap::retain).
    pub fn clear(&self) -> usize {
        self.door.clear()
    }

    /// Takes all entries out of the map, and hands each to `take`, in no particular order. Returns
    /// their number. O(n).
    ///
    /// Entries that are added meanwhile may or may not be among them.
    ///
    /// # Panics
    /// If `take`, or dropping a key, panics: propagates the first such panic after all entries are
    /// handed over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_keyed::TtlMap;
    /// let map = TtlMap::<&str, u32>::new(|_, _| ())?;
    /// map.insert("ada", 7, Duration::from_secs(60))?;
    /// // The program ends: what has not expired is saved.
    /// let mut saved = Vec::new();
    /// assert_eq!(map.drain(|user, session| saved.push((*user, *session))), 1);
    /// assert_eq!((saved, map.len()), (vec![("ada", 7)], 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self, mut take: impl FnMut(&K, Arc<V>)) -> usize {
        let hand_over = |entry: Entry<K, V>, panics: &mut Panics| {
            let (value, node, other) = entry.call_off();
            panics.run(|| take(&node.key, value));
            panics.drop(other);
            panics.drop(node);
        };
        let (taken, panics) = self.door.take_where(|_| Some(()), |_, ()| true, hand_over);
        panics.go_on();
        taken
    }

    /// Returns the map's engine, to stop it, to advance it or to read its statistics.
    ///
    /// Each entry is one timer there. The engine counts it as `fired` when it hands the timer over,
    /// even if the entry is removed or replaced here before the callback gets it.
    pub fn engine(&self) -> &Engine {
        &self.door.engine
    }
}
