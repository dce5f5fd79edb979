//! Scopes: the timers of one connection or request, which end together.
//!
//! The first word of the memory is its *mark*, as that of a timer: whether there is a scope, and
//! which thread was the last to use it (`users`). A thread that finds such a use waits until it is
//! over. So one thread at a time is in a scope. While it is, it calls no code of the user: tasks
//! are taken out, and released after that.
//!
//! *Owner*: any thread. The call that makes a scope fills the memory, and is the only one until
//! then.
//!
//! *Invariants*: a call that ends a scope moves the timers out of the memory and marks it before it
//! cancels them, and does not touch it again, unless it fails. A key is stored before its timer can
//! fire.
//!
//! *Tested by*: `tests/c/scope.c`, `tests/cpp/scope.cpp`.

use std::ffi::{c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::sync::atomic::{AtomicU64, Ordering};

use tickless::scope::{Key, WaitableScope};
use tickless::wait::WaitError;
use tickless::{ResetError, When};

use crate::failure::{Failure, TICKLESS_E_HANDLE, TICKLESS_OK, enter};
use crate::memory;
use crate::process;
use crate::schedule::{refusal, release_after, task};
use crate::shell::{self, TicklessEngine};
use crate::task::{Payload, Task, TicklessFn};
use crate::timer::{reset_failure, wait, wait_failure};
use crate::users::{KIND, USE_BITS, Use};
use crate::when::{TicklessWhen, when_of};

/// The timers of one connection, in memory of yours, which end together. It is used by one thread
/// at a time; others wait. Moved as a timer. Each timer is an allocation, and leaves when it has
/// fired.
#[repr(C)]
#[derive(Debug)]
pub struct TicklessScope {
    /// Not for the caller.
    pub private_words: [u64; 8],
}

/// Names a timer of its scope, and never another, also of a later scope there. Zero is none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessScopeKey {
    /// Not for the caller.
    pub private_words: [u64; 2],
}

type Timers = WaitableScope<Task, Payload>;

/// What is in a scope's memory.
#[repr(C)]
struct Armed {
    mark: AtomicU64,
    /// Of the scope that is there; it is a part of its keys. Written before the mark says so.
    generation: u64,
    /// If the mark says so. It is used and moved by the thread whose use is in the mark.
    timers: MaybeUninit<Timers>,
}

const _: () = assert!(size_of::<Armed>() <= size_of::<TicklessScope>());
const _: () = assert!(align_of::<Armed>() <= align_of::<TicklessScope>());
const _: () = assert!(size_of::<Key>() == 16);

/// How many scopes there were.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// The bits of a generation, which lie in a key above those of the slot: 2^32 scopes later, a key
/// may be that of another.
const GENERATION: u64 = u32::MAX as u64;

const LIVE: u64 = 0x7463 << USE_BITS;
const ENDED: u64 = 0x7422 << USE_BITS;

/// Makes a scope, whatever is there. If the engine stops, its timers end as others do.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_init(
    engine: *const TicklessEngine,
    scope: *mut TicklessScope,
) -> c_int {
    enter(|| {
        if scope.is_null() {
            return Err(Failure::null("scope"));
        }
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner_to_start(engine) }?;
        let timers = WaitableScope::with_engine(&inner.engine);
        let to = armed(scope);
        // ORDER: Relaxed - the numbers differ, which is all.
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed) & GENERATION;
        // SAFETY: it points to memory for a scope, as the header asks.
        unsafe { (&raw mut (*to).generation).write(generation) };
        // SAFETY: it points to memory for a scope, as the header asks.
        unsafe { (&raw mut (*to).timers).write(MaybeUninit::new(timers)) };
        // SAFETY: as above; the mark is aligned.
        let mark = unsafe { AtomicU64::from_ptr((&raw mut (*to).mark).cast()) };
        // ORDER: Release - pairs with the Acquire in `begin`: the timers are there.
        mark.store(LIVE, Ordering::Release);
        Ok(TICKLESS_OK)
    })
}

/// As tickless_schedule. Stores the key before the timer can fire, zeroes if this fails; NULL if it
/// ends with the others.
///
/// Errors: TICKLESS_E_FULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_schedule(
    scope: *mut TicklessScope,
    delay_ns: u64,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
    key: *mut TicklessScopeKey,
) -> c_int {
    let when = TicklessWhen { time_ns: delay_ns, slack_ns: 0, flags: 0 };
    // SAFETY: passed on to the caller.
    unsafe { tickless_scope_schedule_when(scope, &raw const when, run, user_data, drop_fn, key) }
}

/// As tickless_scope_schedule, for a time or a slack.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_schedule_when(
    scope: *mut TicklessScope,
    when: *const TicklessWhen,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
    key: *mut TicklessScopeKey,
) -> c_int {
    let store = |words: [u64; 2]| {
        if !key.is_null() {
            // SAFETY: it points to a key, as the header asks.
            unsafe { key.write(TicklessScopeKey { private_words: words }) };
        }
    };
    enter(|| {
        // The key may lie in what a failure releases.
        store([0; 2]);
        let task = task(run, user_data, drop_fn)?;
        // SAFETY: they point to a time and a scope, as the header asks.
        let held = process::check()
            .and_then(|()| memory::check())
            .and_then(|()| unsafe { when_of(when).and_then(|timing| Ok((timing, hold(scope)?))) });
        let (timing, mut held) = match held {
            Ok(held) => held,
            Err(failure) => return Err(release_after(task, failure)),
        };
        let generation = held.generation();
        let timers = held.timers();
        store(words_of(timers.next_key(), generation));
        let error = match timers.insert(timing.when, task) {
            Ok(key) => match timing.is_unreached(timers.deadline(key)) {
                Ok(()) => return Ok(TICKLESS_OK),
                Err(failure) => {
                    store([0; 2]);
                    let task = timers.take(key);
                    drop(held);
                    return Err(release_after(task, failure));
                }
            },
            Err(error) => error,
        };
        store([0; 2]);
        // This releases the user data.
        drop(held);
        Err(refusal(error))
    })
}

/// Returns 1 if the callback never runs, 0 if it has begun or the key is of none. Never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_cancel(
    scope: *mut TicklessScope,
    key: TicklessScopeKey,
) -> c_int {
    enter(|| {
        // SAFETY: it points to a scope, as the header asks.
        let mut held = unsafe { hold(scope) }?;
        let task = held.key(key).and_then(|key| held.timers().take(key));
        drop(held);
        // The user data is released here, outside of the scope.
        Ok(task.is_some().into())
    })
}

/// Moves a timer that is pending. Its key stays.
///
/// Errors: TICKLESS_E_TOO_LATE, also if the key is of none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_reset(
    scope: *mut TicklessScope,
    key: TicklessScopeKey,
    delay_ns: u64,
) -> c_int {
    let when = TicklessWhen { time_ns: delay_ns, slack_ns: 0, flags: 0 };
    // SAFETY: passed on to the caller.
    unsafe { tickless_scope_reset_when(scope, key, &raw const when) }
}

/// As tickless_scope_reset, for a time or a slack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_reset_when(
    scope: *mut TicklessScope,
    key: TicklessScopeKey,
    when: *const TicklessWhen,
) -> c_int {
    enter(|| {
        // SAFETY: it points to a time, as the header asks.
        let timing = unsafe { when_of(when) }?;
        process::check()?;
        memory::check()?;
        // SAFETY: it points to a scope, as the header asks.
        let mut held = unsafe { hold(scope) }?;
        let key = held.key(key).ok_or_else(|| reset_failure(ResetError::TooLate))?;
        let timers = held.timers();
        let before = if timing.is_far() { timers.deadline(key) } else { None };
        timers.reset(key, timing.when).map_err(reset_failure)?;
        if let (Err(failure), Some(before)) = (timing.is_unreached(timers.deadline(key)), before) {
            // It goes back to where it was. If it has fired meanwhile, that was its end.
            let _ = timers.reset(key, When::at(before));
            return Err(failure);
        }
        Ok(TICKLESS_OK)
    })
}

/// Cancels the timers whose callbacks have not begun, and returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_cancel_all(scope: *mut TicklessScope) -> c_int {
    enter(|| {
        // SAFETY: it points to a scope, as the header asks.
        let mut held = unsafe { hold(scope) }?;
        let tasks = held.timers().take_all();
        drop(held);
        Ok(c_int::try_from(tasks.len()).unwrap_or(c_int::MAX))
    })
}

/// Cancels the timers, and waits for callbacks that run (except the one that makes the call), no
/// longer than `limit_ns`. Then what they use can be freed, and the scope is none; it may lie in
/// memory that a `drop_fn` of its timers frees. Of two callbacks that end it, the second gets
/// TICKLESS_E_HANDLE at once.
///
/// Errors, after which it can be ended again: TICKLESS_E_TIMED_OUT, TICKLESS_E_CIRCULAR,
/// TICKLESS_E_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_scope_end(scope: *mut TicklessScope, limit_ns: u64) -> c_int {
    enter(|| {
        // SAFETY: it points to a scope, as the header asks.
        let begun = unsafe { begin(scope, ENDED) }?;
        let left = ENDED | begun.bits();
        // SAFETY: the mark said that they are there, and this thread alone moves them out.
        let mut timers = unsafe { (&raw const (*armed(scope)).timers).read().assume_init() };
        drop(begun);
        match wait(limit_ns, |limit| timers.cancel_wait_within(limit)) {
            // If it is inside of one of them, all others have ended.
            Ok(()) | Err(WaitError::InsideTask) => Ok(TICKLESS_OK),
            Err(error) => {
                // SAFETY: the caller's memory is there, since the scope has not ended.
                unsafe { put_back(scope, timers, left) };
                Err(wait_failure(error))
            }
        }
    })
}

/// A scope that this thread uses, and nobody else.
struct Held {
    armed: *mut Armed,
    _begun: Use,
}

impl Held {
    /// Code that is called with it must not be the user's.
    fn timers(&mut self) -> &mut Timers {
        // SAFETY: the mark said that they are there, and no other thread uses them in this use.
        unsafe { (*self.armed).timers.assume_init_mut() }
    }

    fn generation(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.armed).generation }
    }

    /// The key of a timer of this scope; `None` if it is of another scope, or of none.
    fn key(&self, key: TicklessScopeKey) -> Option<Key> {
        let [number, place] = key.private_words.map(|word| !word);
        let is_ours = place >> 32 == self.generation();
        // SAFETY: whatever numbers they are, they are a key.
        is_ours.then(|| unsafe { mem::transmute::<[u64; 2], Key>([number, place & GENERATION]) })
    }
}

/// Begins to use a scope.
///
/// # Safety
/// As for `begin`.
unsafe fn hold(scope: *mut TicklessScope) -> Result<Held, Failure> {
    // SAFETY: passed on to the caller.
    Ok(Held { _begun: unsafe { begin(scope, LIVE) }?, armed: armed(scope) })
}

/// Waits for earlier uses, and begins one that leaves a mark of this kind.
///
/// # Safety
/// `scope` is NULL or points to memory for a scope.
unsafe fn begin(scope: *mut TicklessScope, kind: u64) -> Result<Use, Failure> {
    if scope.is_null() {
        return Err(Failure::null("scope"));
    }
    // SAFETY: as the caller promises.
    let place = unsafe { &(*armed(scope)).mark };
    loop {
        // ORDER: Acquire - pairs with the Release of `Use::begin_at`, and of the call that made it.
        let mark = place.load(Ordering::Acquire);
        if mark & KIND != LIVE {
            return Err(no_scope(mark));
        }
        if let Some(begun) = Use::begin_at(place, mark, kind)? {
            return Ok(begun);
        }
    }
}

/// Puts timers back that were moved out when this mark was left, unless the memory is another scope
/// by now.
///
/// # Safety
/// `scope` points to memory for a scope.
#[cold]
unsafe fn put_back(scope: *mut TicklessScope, timers: Timers, left: u64) {
    // SAFETY: as the caller promises.
    let place = unsafe { &(*armed(scope)).mark };
    if let Ok(Some(_begun)) = Use::begin_at(place, left, LIVE) {
        // SAFETY: the memory is this thread's while it uses it.
        unsafe { (&raw mut (*armed(scope)).timers).write(MaybeUninit::new(timers)) };
    }
}

#[cold]
fn no_scope(mark: u64) -> Failure {
    let what = match mark & KIND {
        ENDED => "the scope was ended before",
        _ if mark == 0 => "the scope was not made",
        _ => "this is not a scope",
    };
    Failure::new(TICKLESS_E_HANDLE, format_args!("{what}"))
}

fn armed(scope: *mut TicklessScope) -> *mut Armed {
    scope.cast()
}

/// A key as C has it, with its scope's generation: so that zeroes are none, its bits are turned.
fn words_of(key: Key, generation: u64) -> [u64; 2] {
    // SAFETY: it is two numbers of that size.
    let [number, slot] = unsafe { mem::transmute::<Key, [u64; 2]>(key) };
    debug_assert!(slot <= GENERATION, "a scope has fewer than 2^32 timers");
    [!number, !(slot | generation << 32)]
}
