//! A closure that runs once, in four words: small closures inline, larger ones boxed.

use std::any::Any;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop};

use crate::sync::assert_outside;

/// The memory for what a closure captures without being boxed: three words of 64 bits, also where
/// pointers are shorter. An entry has room for them there, and what has a time in it needs them.
type Inline = [u64; 3];

/// A closure that runs once, when its timer is due.
///
/// Closures that capture up to three words (24 bytes, on 32-bit systems too) are stored in the
/// entry itself; larger closures (and those that need an alignment above a word's) are boxed.
/// Dropping a task drops the closure's captures. The engine and its dispatchers catch a panic of
/// the closure. A second panic, from a destructor while the first unwinds, aborts the process, as
/// always in Rust.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, Task};
///
/// let engine = Engine::new()?;
/// engine.schedule_detached(Duration::from_secs(60), || println!("saved"))?;
/// // The program ends: tasks that were due in a minute run now, on this thread.
/// engine.stop()?.into_iter().for_each(Task::run);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Task {
    vtable: &'static VTable,
    data: MaybeUninit<Inline>,
    /// Turns off the automatic `Send` and `Sync`, which are implemented by hand below.
    neither: PhantomData<*mut ()>,
}

/// A value that is run in place of a closure, and that can be taken out of its task again. Dropping
/// it unrun drops it.
#[doc(hidden)]
pub trait Runs: Send + 'static {
    /// Whose it is.
    const KIND: Kind = Kind::User;

    /// Runs it.
    fn run(self);
}

/// Whose a task is. That is known when its timer is filed.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The user's: the handler gets it, and a stop returns it.
    User,
    /// A function of the user's that the engine has armed: the handler gets it, and a stop ends it.
    Repeats,
    /// The engine's own: it runs where it is due, and a stop ends it.
    Own,
    /// The engine's own, which wakes the task of a future: the limit on pending timers does not
    /// count it.
    Wake,
}

/// How to run or drop a closure of one type, given the address of a task's data: it holds such a
/// closure, which is gone then.
struct VTable {
    run: unsafe fn(*mut ()),
    /// `None` if there is nothing to drop.
    drop: Option<unsafe fn(*mut ())>,
    kind: Kind,
}

// SAFETY: `Task::new` accepts only closures that are `Send`.
unsafe impl Send for Task {}

// SAFETY: a shared reference to a task gives no access to the closure: it offers `Debug`, which
// prints a constant. Running takes the task by value, and dropping takes it exclusively.
unsafe impl Sync for Task {}

const _: () = assert!(size_of::<Task>() <= 32, "a task fills the payload half of an entry");

// === impl Task ===

impl Task {
    /// Wraps `closure`. Allocates if it captures more than three words.
    #[inline]
    pub fn new<F: FnOnce() + Send + 'static>(closure: F) -> Task {
        Task::of_any(closure)
    }

    /// As [`Task::new`], of a closure whose result is dropped.
    #[inline]
    pub(super) fn of_any<F: FnOnce() -> R + Send + 'static, R>(closure: F) -> Task {
        if const { fits::<F>() } {
            // SAFETY: it fits, as was just checked, and the vtable is one for it.
            unsafe { Task::with(closure, const { &VTable::of::<F, R>() }) }
        } else {
            // SAFETY: a box is one word, and the vtable is one for it.
            unsafe { Task::with(Box::new(closure), const { &VTable::of::<Box<F>, R>() }) }
        }
    }

    /// Wraps a value of up to three words.
    #[doc(hidden)]
    #[inline]
    pub fn of<R: Runs>(runs: R) -> Task {
        const { assert!(fits::<R>(), "it lies in the task") };
        // SAFETY: it fits, and the vtable is one for it.
        unsafe { Task::with(runs, const { &VTable::of_value::<R>() }) }
    }

    /// Whose it is.
    #[doc(hidden)]
    #[inline]
    pub fn kind(&self) -> Kind {
        self.vtable.kind
    }

    /// Whose a payload is, which may be a task.
    #[doc(hidden)]
    #[inline]
    pub fn kind_of<T: 'static>(payload: &T) -> Kind {
        (payload as &dyn Any).downcast_ref().map_or(Kind::User, Task::kind)
    }

    /// Takes the value out.
    ///
    /// # Safety
    /// The task was made of it: `of::<R>`.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn into_value<R>(self) -> R {
        let this = ManuallyDrop::new(self);
        // SAFETY: as the caller promises; `ManuallyDrop` keeps it from being dropped here.
        unsafe { this.data.as_ptr().cast::<R>().read() }
    }

    /// # Safety
    /// `F` fits into the data, and the vtable runs and drops an `F`.
    #[inline]
    unsafe fn with<F: Send + 'static>(closure: F, vtable: &'static VTable) -> Task {
        debug_assert!(const { fits::<F>() });
        let mut data = MaybeUninit::<Inline>::uninit();
        // SAFETY: the caller says that it fits: the data is large and aligned enough for an `F`.
        unsafe { data.as_mut_ptr().cast::<F>().write(closure) };
        Task { vtable, data, neither: PhantomData }
    }

    /// Runs the closure on the calling thread.
    ///
    /// # Panics
    /// Propagates a panic of the closure.
    #[inline]
    pub fn run(self) {
        assert_outside();
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the data holds the closure that the vtable was made for; `ManuallyDrop` keeps
        // it from being dropped again after `run` has consumed it.
        unsafe { (this.vtable.run)(this.data.as_mut_ptr().cast()) };
    }

    /// Runs the closure of a task where it lies. A copy on the way would wait for the stores of the
    /// task before: its parts are not written as they would be read.
    ///
    /// # Safety
    /// The caller owns the task, which is not used again.
    #[inline]
    pub(super) unsafe fn run_at(this: *const Task) {
        assert_outside();
        // SAFETY: the data holds the closure that the vtable was made for. It is moved out, and the
        // caller does not use the task again.
        unsafe { ((*this).vtable.run)((*this).data.as_ptr().cast_mut().cast()) };
    }
}

impl Drop for Task {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.vtable.drop {
            assert_outside();
            // SAFETY: the data still holds the closure: `run` does not drop the task.
            unsafe { drop(self.data.as_mut_ptr().cast()) };
        }
    }
}

debug! { impl[] Task[] {} }

/// Whether an `F` is stored inline.
const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Inline>() && align_of::<F>() <= align_of::<Inline>()
}

// === impl VTable ===

impl VTable {
    const fn of<F: FnOnce() -> R, R>() -> VTable {
        VTable {
            // SAFETY: the caller's data is an `F`, which is consumed.
            run: |data| _ = unsafe { data.cast::<F>().read()() },
            drop: VTable::drop_of::<F>(),
            kind: Kind::User,
        }
    }

    const fn of_value<R: Runs>() -> VTable {
        VTable {
            // SAFETY: the caller's data is an `R`, which is consumed.
            run: |data| unsafe { data.cast::<R>().read().run() },
            drop: VTable::drop_of::<R>(),
            kind: R::KIND,
        }
    }

    const fn drop_of<F>() -> Option<unsafe fn(*mut ())> {
        if needs_drop::<F>() {
            // SAFETY: the caller's data is an `F`, which is dropped.
            Some(|data| unsafe { data.cast::<F>().drop_in_place() })
        } else {
            None
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn closures_of_every_size_run_once_and_drop_what_they_captured() {
        fn check<const N: usize>() {
            let runs = Arc::new(AtomicUsize::new(0));
            let captured = [runs.clone(); 1];
            let ballast = [7_usize; N];
            let task = Task::new(move || {
                captured[0].fetch_add(ballast.iter().sum::<usize>() + 1, Ordering::Relaxed);
            });
            task.run();
            assert_eq!(runs.load(Ordering::Relaxed), 7 * N + 1);
            assert_eq!(Arc::strong_count(&runs), 1, "{N} words");
        }
        check::<0>();
        check::<1>();
        check::<2>();
        check::<3>();
        check::<9>();
    }

    #[test]
    fn a_task_that_never_runs_drops_its_closure() {
        let token = Arc::new(());
        let (small, big) = (token.clone(), (token.clone(), [0_u64; 8]));
        drop(Task::new(move || drop(small)));
        drop(Task::new(move || drop(big)));
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn an_overaligned_closure_is_boxed_and_stays_aligned() {
        #[repr(align(64))]
        struct Wide(u8);
        let wide = Wide(3);
        Task::new(move || {
            let wide = &wide;
            assert_eq!(std::ptr::from_ref(wide).addr() % 64, 0);
            assert_eq!(wide.0, 3);
        })
        .run();
    }
}
