//! Threads that use a timer without ending it, as a reset does, and how others wait for them. A
//! scope is used in the same way, also to schedule and cancel in it.
//!
//! A timer may be moved by one thread while another ends it. Both want its handle, and its memory
//! may be gone as soon as the timer can fire. So a thread that uses a timer leaves its own number
//! and a count in the timer's mark *before* it begins, and says in a place of its own when it is
//! done. Who finds such a mark looks there, and waits if that use is not over: for a few hundred
//! instructions, unless the thread was interrupted. A mark of a use that is over stays where it is.
//!
//! Places are never freed, but used again by later threads.
//!
//! *Owner*: a thread writes its own place; any thread looks.
//!
//! *Orderings*: a use is begun before the mark is left with Release, so who reads the mark with
//! Acquire sees it begun or over. It is ended with Release, and who waits for that loads Acquire:
//! what was written during the use is there.
//!
//! *Tested by*: `tests/c/contended.c`, `tests/c/scope.c`, and the unit tests.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{hint, ptr, thread};

use crate::failure::{Failure, TICKLESS_E_CIRCULAR, TICKLESS_E_FORKED, TICKLESS_E_SYSTEM};
use crate::process;

/// The bits of a mark that belong to this file: the number of a thread's place and a count. Zero is
/// no use.
pub(crate) const USE_BITS: u32 = NUMBER_BITS + COUNT_BITS;

/// What a mark is without the bits of its last use.
pub(crate) const KIND: u64 = u64::MAX << USE_BITS;

const NUMBER_BITS: u32 = 20;
const COUNT_BITS: u32 = 28;
/// In a child process: a thread that does not exist there was in the middle of that use.
const ABANDONED: u32 = 1 << 31;
/// Places are made so many at a time.
const PAGE: usize = 1 << 10;
const PAGES: usize = (1 << NUMBER_BITS) / PAGE;

/// The place of a thread.
#[repr(align(64))]
struct User {
    /// The count of the use that is under way; 0: none.
    now: AtomicU32,
    /// The count of the last one; the thread's own.
    last: AtomicU32,
    /// The number of the next free place, plus one.
    next: AtomicU32,
    /// Its own.
    number: u32,
}

type Page = [User; PAGE];

static TABLE: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(ptr::null_mut()) }; PAGES];
/// How many places have ever been taken.
static TAKEN: AtomicU32 = AtomicU32::new(0);
/// The free places, a stack: the number of the first plus one, and above it a count of changes.
static FREE: AtomicU64 = AtomicU64::new(0);

/// A thread that keeps a place gives it back when it ends.
struct Kept;

thread_local! {
    /// The thread's place. It outlives `KEPT`.
    static MINE: Cell<Option<&'static User>> = const { Cell::new(None) };
    static KEPT: Kept = const { Kept };
}

/// A use that is under way. It ends when this is dropped.
pub(crate) struct Use {
    user: &'static User,
    count: u32,
    /// Whether the place is given back as well.
    is_borrowed: bool,
}

// === impl Use ===

impl Use {
    /// Begins a use.
    #[inline]
    pub(crate) fn begin() -> Result<Use, Failure> {
        let (user, is_borrowed) = match MINE.get() {
            // ORDER: Relaxed - the thread's own.
            Some(user) if user.now.load(Ordering::Relaxed) == 0 => (user, false),
            mine => place_for(mine.is_none())?,
        };
        // ORDER: Relaxed, three times - the thread's own; the mark publishes what is begun.
        let last = user.last.load(Ordering::Relaxed);
        let count = (last % ((1 << COUNT_BITS) - 1)) + 1;
        user.last.store(count, Ordering::Relaxed);
        user.now.store(count, Ordering::Relaxed);
        Ok(Use { user, count, is_borrowed })
    }

    /// Waits until the last use of a mark is over, and begins one that leaves a mark of this kind
    /// in its place. `None`: the mark has changed meanwhile.
    ///
    /// # Errors
    /// As `wait_for`, or there is no place for the thread.
    #[inline]
    pub(crate) fn begin_at(
        place: &AtomicU64,
        mark: u64,
        kind: u64,
    ) -> Result<Option<Use>, Failure> {
        wait_for(mark)?;
        let begun = Use::begin()?;
        // ORDER: AcqRel - publishes that the use has begun, and sees what earlier ones have
        // written, which `wait_for` found to be over. Relaxed - the caller looks again.
        let (to, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_begun = place.compare_exchange(mark, kind | begun.bits(), to, failed).is_ok();
        Ok(is_begun.then_some(begun))
    }

    /// The bits for the mark.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        u64::from(self.user.number) << COUNT_BITS | u64::from(self.count)
    }
}

impl Drop for Use {
    #[inline]
    fn drop(&mut self) {
        // ORDER: Release - pairs with the Acquire in `wait_for`.
        self.user.now.store(0, Ordering::Release);
        if self.is_borrowed {
            free(self.user);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(user) = MINE.take() {
            free(user);
        }
    }
}

/// Waits until the use that left these bits is over.
///
/// # Errors
/// It is the calling thread's: code that it runs meanwhile has come back here. Or this is a child
/// process, and the use is that of a thread of the parent's.
#[inline]
pub(crate) fn wait_for(bits: u64) -> Result<(), Failure> {
    let count = bits as u32 & ((1 << COUNT_BITS) - 1);
    if count == 0 {
        return Ok(());
    }
    let number = (bits >> COUNT_BITS) as u32 & ((1 << NUMBER_BITS) - 1);
    // Usually the last use was this thread's.
    let mine = MINE.get().filter(|user| user.number == number);
    let user = mine.unwrap_or_else(|| user(number));
    // ORDER: Acquire - pairs with the Release in the drop of a use.
    if user.now.load(Ordering::Acquire) & !ABANDONED != count {
        return Ok(());
    }
    wait(user, count)
}

#[cold]
fn wait(user: &'static User, count: u32) -> Result<(), Failure> {
    if MINE.get().is_some_and(|mine| mine.number == user.number) {
        let why = format_args!("this thread is in the middle of another call for it");
        return Err(Failure::new(TICKLESS_E_CIRCULAR, why));
    }
    let mut rounds = 0_u32;
    // ORDER: Relaxed - it was set before the child began.
    if user.now.load(Ordering::Relaxed) & ABANDONED != 0 {
        let why = format_args!("the parent process was in the middle of a call for it");
        return Err(Failure::new(TICKLESS_E_FORKED, why));
    }
    // ORDER: Acquire - as in `wait_for`.
    while user.now.load(Ordering::Acquire) == count {
        rounds += 1;
        match rounds {
            0..100 => hint::spin_loop(),
            100..200 => thread::yield_now(),
            // The thread may have a lower priority, and need the processor; or not exist here.
            _ => {
                process::check()?;
                thread::sleep(Duration::from_micros(50));
            }
        }
    }
    Ok(())
}

/// The place of that number, which was taken once.
fn user(number: u32) -> &'static User {
    let (page, at) = (number as usize / PAGE, number as usize % PAGE);
    // ORDER: Acquire - pairs with the AcqRel in `make_page`: the places are there.
    let page = TABLE[page].load(Ordering::Acquire);
    assert!(!page.is_null(), "the bits of a mark are those of a use");
    // SAFETY: a page is never freed.
    let page: &'static Page = unsafe { &*page };
    &page[at]
}

/// A place for this thread, which keeps it if it can and `keeps` says so.
#[cold]
fn place_for(keeps: bool) -> Result<(&'static User, bool), Failure> {
    let user = user(take_place()?);
    // A thread that is ending keeps nothing any more.
    let is_kept = keeps && KEPT.try_with(|_| MINE.set(Some(user))).is_ok();
    Ok((user, !is_kept))
}

fn take_place() -> Result<u32, Failure> {
    // ORDER: Acquire - pairs with the Release in `free`: the place's `next` and `last`.
    let mut head = FREE.load(Ordering::Acquire);
    while let Some(number) = (head as u32).checked_sub(1) {
        // ORDER: Relaxed - if another thread takes the place meanwhile, the count differs.
        let next = user(number).next.load(Ordering::Relaxed);
        let after = changed(head, next);
        // ORDER: AcqRel, Acquire - as above.
        match FREE.compare_exchange(head, after, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(number),
            Err(now) => head = now,
        }
    }
    // ORDER: Relaxed - each thread gets a number of its own.
    let claim = |taken| ((taken as usize) < PAGE * PAGES).then_some(taken + 1);
    let taken = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim);
    let number = taken.map_err(|_| {
        let why = format_args!("too many threads use timers at the same time");
        Failure::new(TICKLESS_E_SYSTEM, why)
    })?;
    make_page(number as usize / PAGE);
    Ok(number)
}

fn make_page(page: usize) {
    // ORDER: Relaxed - a thread that uses it loads it again.
    if !TABLE[page].load(Ordering::Relaxed).is_null() {
        return;
    }
    // SAFETY: the handler only loads and stores atomics.
    unsafe { libc::pthread_atfork(None, None, Some(abandon_all)) };
    let new = |at| User {
        now: AtomicU32::new(0),
        last: AtomicU32::new(0),
        next: AtomicU32::new(0),
        number: (page * PAGE + at) as u32,
    };
    // (On the heap from the start: the stack of a thread of C may have less room.)
    let made: Box<[User]> = (0..PAGE).map(new).collect();
    let ours: *mut Page = Box::into_raw(made).cast();
    // ORDER: AcqRel - publishes the places, or finds another thread's. Acquire - as above.
    let (to, failed) = (Ordering::AcqRel, Ordering::Acquire);
    if TABLE[page].compare_exchange(ptr::null_mut(), ours, to, failed).is_err() {
        // SAFETY: it was made above, and nobody has seen it.
        drop(unsafe { Box::from_raw(ours) });
    }
}

/// In a child process, no use that was under way goes on.
extern "C" fn abandon_all() {
    for page in &TABLE {
        // ORDER: Relaxed, twice - the child has one thread.
        let page = page.load(Ordering::Relaxed);
        if !page.is_null() {
            // SAFETY: a page is never freed.
            for user in unsafe { &*page } {
                // ORDER: Relaxed, twice - as above.
                let now = user.now.load(Ordering::Relaxed);
                let abandoned = if now == 0 { 0 } else { now | ABANDONED };
                user.now.store(abandoned, Ordering::Relaxed);
            }
        }
    }
}

fn free(user: &'static User) {
    // ORDER: Relaxed - the CAS looks again.
    let mut head = FREE.load(Ordering::Relaxed);
    loop {
        // ORDER: Relaxed - the Release below publishes it.
        user.next.store(head as u32, Ordering::Relaxed);
        // ORDER: Release - pairs with the Acquire in `take_place`. Relaxed - it is tried again.
        let (to, failed) = (Ordering::Release, Ordering::Relaxed);
        match FREE.compare_exchange(head, changed(head, user.number + 1), to, failed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// The head of the stack after a change: another first place, and one change more.
fn changed(head: u64, first: u32) -> u64 {
    ((head >> 32) + 1) << 32 | u64::from(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_by_a_later_thread_and_its_earlier_uses_are_over() {
        let number_of = || Use::begin().expect("there is a place").user.number;
        let numbers: Vec<u32> =
            (0..100).map(|_| thread::spawn(number_of).join().expect("no panic")).collect();
        assert!(numbers.iter().max() < Some(&64), "{numbers:?}");
    }

    #[test]
    fn who_finds_a_mark_waits_until_that_use_is_over() {
        let begun = Use::begin().expect("there is a place");
        let bits = begun.bits();
        assert!(wait_for(bits).is_err(), "it would wait for itself");
        let waiter = thread::spawn(move || {
            wait_for(bits).expect("it is another thread's");
            // ORDER: Relaxed - the use is over, which its Release has said.
            assert_eq!(user((bits >> COUNT_BITS) as u32).now.load(Ordering::Relaxed), 0);
        });
        drop(begun);
        waiter.join().expect("the use is over");
        wait_for(bits).expect("it is over");
    }

    #[test]
    fn a_use_in_the_middle_of_another_has_a_place_of_its_own() {
        let outer = Use::begin().expect("there is a place");
        let inner = Use::begin().expect("there is a place");
        assert!(inner.user.number != outer.user.number);
        assert!(inner.is_borrowed && !outer.is_borrowed);
    }
}
