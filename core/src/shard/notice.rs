//! A notice: "this bucket is armed for this expiration", from a producer to the reaper.
//!
//! A bucket carries two notices of its own, because two can be outstanding for it (two rounds of
//! the ring, or a round and a stale producer). A third one is allocated.
//!
//! *Owner*: the thread that claimed it writes and posts it; the reaper reads it and lets it go.
//!
//! *Orderings*: BUCKET-ARM.

use std::ptr::{self, NonNull};

use crate::entry::Linked;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::time::{Place, Tick};

/// Tells the reaper that a bucket is armed.
#[derive(Debug)]
pub struct Notice {
    next: AtomicPtr<Notice>,
    expiration: AtomicU64,
    slot: u32,
    level: u8,
    /// Whether it is part of its bucket. Otherwise it is a box of its own.
    resident: bool,
    busy: AtomicBool,
}

impl Linked for Notice {
    fn next(&self) -> &AtomicPtr<Notice> {
        &self.next
    }
}

// === impl Notice ===

impl Notice {
    /// A notice that is part of the bucket at `level` and `slot`.
    pub fn resident(level: u8, slot: u32) -> Notice {
        Notice {
            next: AtomicPtr::new(ptr::null_mut()),
            expiration: AtomicU64::new(0),
            slot,
            level,
            resident: true,
            busy: AtomicBool::new(false),
        }
    }

    /// A notice of its own, ready to be posted.
    pub fn boxed(place: Place) -> NonNull<Notice> {
        let notice = Notice {
            expiration: AtomicU64::new(place.expiration.get()),
            resident: false,
            ..Notice::resident(place.level, place.slot)
        };
        // SAFETY: a box is never null.
        unsafe { NonNull::new_unchecked(Box::into_raw(Box::new(notice))) }
    }

    /// Claims a resident notice for `place`. Returns `false` if it is in use.
    pub fn claim(&self, place: Place) -> bool {
        // ORDER(BUCKET-ARM): Acquire - pairs with the Release in `let_go`: the reaper has read
        // what we are about to overwrite.
        if self.busy.swap(true, Ordering::Acquire) {
            return false;
        }
        // ORDER(BUCKET-ARM): Relaxed - published by the push on the list of notices.
        self.expiration.store(place.expiration.get(), Ordering::Relaxed);
        true
    }

    /// The place that it announces.
    pub fn place(&self) -> Place {
        // ORDER(BUCKET-ARM): Relaxed - the list's take acquired the push.
        let expiration = Tick::new(self.expiration.load(Ordering::Relaxed));
        Place { level: self.level, slot: self.slot, expiration }
    }

    /// Releases the notice.
    ///
    /// # Safety
    /// The caller took it out of the list (or failed to push it) and does not use it again.
    pub unsafe fn let_go(notice: NonNull<Notice>) {
        // SAFETY: the caller holds it.
        let this = unsafe { notice.as_ref() };
        if this.resident {
            // ORDER(BUCKET-ARM): Release - pairs with the Acquire in `claim`.
            this.busy.store(false, Ordering::Release);
        } else {
            // SAFETY: a notice that is not resident came from `boxed`.
            drop(unsafe { Box::from_raw(notice.as_ptr()) });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::Bucket;
    use super::*;

    #[test]
    fn the_third_notice_of_a_bucket_is_a_box() {
        let bucket = Bucket::<()>::new(2, 5);
        let place = |at| Place { level: 2, slot: 5, expiration: Tick::new(at) };
        let notices = [160, 2208, 4256].map(|at| bucket.notice(place(at)));
        // SAFETY: they are ours until we let them go.
        let [first, second, third] = notices.map(|notice| unsafe { notice.as_ref() });
        assert_eq!([first, second, third].map(Notice::place), [160, 2208, 4256].map(place));
        assert_eq!([first, second, third].map(|notice| notice.resident), [true, true, false]);
        // SAFETY: none is used again except through the bucket.
        unsafe { Notice::let_go(notices[1]) };
        let again = bucket.notice(place(8352));
        assert_eq!(again, notices[1], "it is free again");
        for notice in [notices[0], again, notices[2]] {
            // SAFETY: as above.
            unsafe { Notice::let_go(notice) };
        }
    }
}
