//! What a thread keeps of each engine that it uses.
//!
//! The engine that the thread used last is found with one comparison. What a thread keeps of an
//! engine that has stopped is given back when the thread next turns to an engine it did not use
//! last, or when it ends.
//!
//! *Invariants*: nobody but its thread ever sees a `Local`, and it is never lent twice: no code of
//! the user runs while one is lent, but for the hook of an engine that its caller drives, which
//! runs `set_aside`: what that calls gets a `Local` for the one call.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use crate::dispatch::contained;
use crate::entry::Entry;
use crate::error::ScheduleError;
use crate::shard::Keeper;
use crate::sync::Arc;
use crate::time::{Tick, Watch};

use super::core::Core;
use super::registry::{ENGINES, is_inherited};

/// One thread's part of one engine.
pub(super) struct Local<T> {
    pub(super) core: Arc<Core<T>>,
    pub(super) keeper: Keeper<T>,
    pub(super) watch: Watch,
    /// The shard that the thread files on.
    pub(super) shard: u32,
}

/// A `Local` for the time of one call.
pub(super) struct Lent<T> {
    local: NonNull<Local<T>>,
    /// There if the thread does not keep it: then this frees it.
    _spare: Option<Box<Local<T>>>,
}

/// A `Local` whose payload type is forgotten.
trait AnyLocal {
    fn number(&self) -> u32;
    fn is_stopped(&self) -> bool;
}

/// A boxed `Local`, by a pointer that may be copied to `CURRENT`.
struct Kept(NonNull<dyn AnyLocal>);

thread_local! {
    /// The number of the engine used last, and the thread's `Local` of it.
    static CURRENT: Cell<(u32, *mut ())> = const { Cell::new(NOBODY) };
    static LOCALS: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
    /// Whether what the thread keeps is set aside.
    static ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// No engine has the number zero.
const NOBODY: (u32, *mut ()) = (0, ptr::null_mut());

/// Lends the calling thread's part of `core`'s engine; `None`: that is another process's.
#[inline(always)]
pub(super) fn of<T: Send + 'static>(core: &Arc<Core<T>>) -> Option<Lent<T>> {
    match current(core.id()) {
        Some(local) => Some(Lent { local, _spare: None }),
        None => find(core.id(), || Some(core.clone())),
    }
}

/// Lends the calling thread's part of engine `number`; `None`: the engine is gone, or another
/// process's.
#[inline(always)]
pub(super) fn of_number<T: Send + 'static>(number: u32) -> Option<Lent<T>> {
    match current(number) {
        Some(local) => Some(Lent { local, _spare: None }),
        None => find(number, || ENGINES.find(number)),
    }
}

/// Calls code of the user at a moment when a `Local` may be lent.
pub(super) fn set_aside(f: impl FnOnce()) {
    struct Restore((u32, *mut ()), bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            // The hook may have forked.
            CURRENT.set(if is_inherited(self.0.0) { NOBODY } else { self.0 });
            ASIDE.set(self.1);
        }
    }
    let _restore = Restore(CURRENT.replace(NOBODY), ASIDE.replace(true));
    f();
}

/// From now on the thread has to look for its `Local`: where it is refused those of engines that
/// are its parent process's.
pub(super) fn forget_current() {
    CURRENT.set(NOBODY);
}

/// The thread's `Local` of the engine that it used last, if that is `number`.
#[inline(always)]
fn current<T>(number: u32) -> Option<NonNull<Local<T>>> {
    let (known, local) = CURRENT.get();
    if known == number { NonNull::new(local.cast()) } else { None }
}

/// Finds or makes the thread's `Local` of engine `number`; one that the thread can't keep serves
/// a single call.
#[cold]
fn find<T: Send + 'static>(
    number: u32,
    core: impl Fn() -> Option<Arc<Core<T>>>,
) -> Option<Lent<T>> {
    if is_inherited(number) {
        return None;
    }
    loop {
        if ASIDE.get() {
            return Some(Lent::spare(Local::new(core()?)));
        }
        let known = LOCALS.try_with(|locals| {
            let locals = locals.borrow();
            let kept = locals.iter().find(|kept| kept.get().number() == number)?;
            Some(kept.0.as_ptr().cast())
        });
        match known {
            Ok(Some(local)) => CURRENT.set((number, local)),
            Ok(None) => keep(Box::new(Local::new(core()?))),
            // The thread is ending and keeps nothing any more.
            Err(_) => return Some(Lent::spare(Local::new(core()?))),
        }
        let stopped = LOCALS.with(|locals| take_stopped(&mut locals.borrow_mut(), number));
        // Dropped only here: it may run code of the user, which may come back to this file.
        drop(stopped);
        // Had that code used other engines, this one would not be the current one.
        if let Some(local) = current(number) {
            return Some(Lent { local, _spare: None });
        }
    }
}

fn keep<T: Send + 'static>(local: Box<Local<T>>) {
    let number = local.core.id();
    let local: *mut Local<T> = Box::into_raw(local);
    // SAFETY: a box is never null.
    let kept = Kept(unsafe { NonNull::new_unchecked(local as *mut dyn AnyLocal) });
    LOCALS.with(|locals| locals.borrow_mut().push(kept));
    CURRENT.set((number, local.cast()));
}

/// Takes out what the thread has of engines that stopped, but for the one in use.
fn take_stopped(locals: &mut Vec<Kept>, in_use: u32) -> Vec<Kept> {
    let is_over = |kept: &Kept| kept.get().is_stopped() && kept.get().number() != in_use;
    if !locals.iter().any(is_over) {
        return Vec::new();
    }
    let (over, rest) = std::mem::take(locals).into_iter().partition(is_over);
    *locals = rest;
    over
}

// === impl Lent ===

impl<T> Lent<T> {
    fn spare(local: Local<T>) -> Lent<T> {
        let mut spare = Box::new(local);
        Lent { local: NonNull::from(&mut *spare), _spare: Some(spare) }
    }
}

impl<T> Deref for Lent<T> {
    type Target = Local<T>;

    #[inline(always)]
    fn deref(&self) -> &Local<T> {
        // SAFETY: as for `deref_mut`.
        unsafe { self.local.as_ref() }
    }
}

impl<T> DerefMut for Lent<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Local<T> {
        // SAFETY: the pointer is to a boxed `Local` of this thread, whose payload type is `T`
        // because a number belongs to one engine: the box is our own spare, or the thread keeps
        // it, and clears the pointer before it drops it. No code of the user runs while one is
        // lent (see the file's invariants), so it is lent once.
        unsafe { self.local.as_mut() }
    }
}

// === impl Kept ===

impl Kept {
    fn get(&self) -> &dyn AnyLocal {
        // SAFETY: it came from a box that lives as long as this; while it is looked at, nobody
        // has it lent (see the file's invariants).
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if CURRENT.get().0 == self.get().number() {
            CURRENT.set(NOBODY);
        }
        // SAFETY: it came from a box, and the copy of the pointer is gone.
        let local = unsafe { Box::from_raw(self.0.as_ptr()) };
        // It may be the last of its engine, and the engine's handler goes with it: what that
        // panics with is not for this thread, which may be ending.
        contained(|| drop(local));
    }
}

// === impl Local ===

impl<T> Local<T> {
    fn new(core: Arc<Core<T>>) -> Local<T> {
        Local { keeper: Keeper::new(&core.pool), watch: Watch::new(), shard: core.route(), core }
    }

    /// Binds the thread to a shard; answers one that ought to sweep.
    pub(super) fn bind(&mut self, shard: u32) -> Option<u32> {
        self.shard = shard;
        self.keeper.bind(&self.core.pool, shard)
    }

    /// Schedules `payload` on the thread's shard for `deadline`, now that it is `now_ns`.
    #[inline(always)]
    pub(super) fn schedule(
        &mut self,
        deadline: Tick,
        now_ns: u64,
        payload: ManuallyDrop<T>,
        owned: bool,
    ) -> Result<NonNull<Entry<T>>, ScheduleError<T>> {
        let Local { core, keeper, shard, .. } = self;
        let shard = &core.shards[*shard as usize];
        let now = || core.scale.floor(now_ns);
        let payload = ManuallyDrop::into_inner(payload);
        keeper.schedule(&core.pool, shard, deadline, now, payload, owned)
    }
}

impl<T: Send + 'static> AnyLocal for Local<T> {
    fn number(&self) -> u32 {
        self.core.id()
    }

    fn is_stopped(&self) -> bool {
        self.core.is_stopping() || is_inherited(self.core.id())
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        if is_inherited(self.core.id()) {
            // As in `typed`: it stays as it was when the process was forked.
            return mem::forget(self.core.clone());
        }
        let sweep = self.keeper.clear(&self.core.pool);
        self.keeper.hand_back(&self.core.pool);
        self.core.ask_for_sweep(sweep);
    }
}

impl<T> fmt::Debug for Local<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("shard", &self.shard).finish_non_exhaustive()
    }
}
