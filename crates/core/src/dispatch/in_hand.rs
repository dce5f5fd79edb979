//! The payloads in hand: due, and taken out of the wheel. A handler takes one after the other. If
//! a task is stuck, another thread takes the rest away.
//!
//! ```text
//!  holder    fill ─ open ─────────────────────────────────────── close: left, or lost
//!  handler              claim 1 ─ task 1 ─ claim 2 ─ task 2 ....
//!  watcher                                    look: at 2 .... look: still at 2 ─ take over
//! ```
//!
//! From `open` to `close` is a *hand-over*. A word says how far it has come. Only the holder and
//! its handler, on the same thread, write it.
//!
//! ```text
//!            63     34    33       32      31 .. 16   15 .. 0
//!  word    ┌───────────┬────────┬────────┬──────────┬──────────┐
//!          │ hand-over │ fenced │ closed │ open     │ claimed  │
//!          └───────────┴────────┴────────┴──────────┴──────────┘
//! ```
//!
//! (`open` payloads can be claimed in this hand-over.) The handler stores how many it has claimed,
//! and then looks whether a thread wants to take over. That thread says that it wants to, and then
//! looks at the word.
//! - *Nobody wants to.* Payloads that were not claimed when the hand-over closes stay in hand.
//! - *The word is the one that was seen before*: the same payload still runs. The taker has the
//!   rest. The next claim of the handler finds that the rest is wanted, waits for the taker's lock,
//!   and is taken back. The handler gets no more payloads, and the holder has lost its shard.
//! - *The word is another one*: the handler has gone on, and the taker withdraws. A claim that has
//!   seen the taker waits for the taker's lock; then it is valid.
//!
//! *Owner*: the thread that runs the shard's turns has the [`InHand`] alone. Any thread may take
//! over through the [`HandOver`]; one at a time tries to.
//!
//! *Invariants*: each payload is claimed once, taken over once, or left when the hand-over closes;
//! none is claimed after the takeover. Only an open hand-over is taken over, once.
//!
//! *Orderings*: TAKEOVER, a store-load handshake with an asymmetric fence
//! (`os/asymmetric.rs`). The holder's side is light, because a locked instruction for each
//! payload would make each wait for the stores of the one before. Holder: store the word, light
//! fence, look whether the rest is wanted. Taker: say so, heavy fence, look at the word. So the
//! taker sees a claim, or the claimer sees the taker. The word is stored with Release, and the
//! taker loads it with Acquire: it sees the payloads.
//!
//! Where no fence is light, the word says that the holder fences in full (*fenced*), and so the
//! holder does at its next claim. If the taker's heavy fence is refused, it takes over from such a
//! word alone: a task that was claimed before the first refusal keeps its shard until it returns.
//!
//! *Tested by*: `loom-tests/tests/takeover.rs`.

use crate::os::asymmetric;
use crate::sync::{Arc, AtomicBool, AtomicU64, Counter, Mutex, Ordering, UnsafeCell, fence};
use crate::time::Tick;

/// Due payloads with their deadlines, as the reaper collects them.
#[doc(hidden)]
pub type Payloads<T> = Vec<(Tick, T)>;

const CLAIMED: u64 = (1 << OPEN_SHIFT) - 1;
const OPEN_SHIFT: u32 = 16;
const CLOSED: u64 = 1 << 32;
/// The holder has fenced in full, and does so at its next claim.
const FENCED: u64 = 1 << 33;
/// One hand-over. (The number would have to wrap, after 2^30 of them, during one look of a
/// watcher.)
const ONE: u64 = 1 << 34;

/// In place of a time: the handler is patient. It waits for others on purpose, so it is not stuck.
const PATIENT: u64 = u64::MAX;

/// The payloads in hand, for the thread that has the shard's role: the *holder*.
pub struct InHand<T> {
    hand_over: Arc<HandOver<T>>,
    /// Another thread has taken over what was in here.
    is_lost: bool,
}

/// One hand-over: its payloads, how many of them the handler has claimed, and from which on another
/// thread has taken them.
pub struct HandOver<T> {
    /// See the header. Written by the holder.
    word: AtomicU64,
    /// A thread wants to take over, or has done so.
    is_wanted: AtomicBool,
    /// From which payload on another thread has taken over. A thread that wants to has the lock
    /// until that is decided.
    // LOCK(IN-HAND): engine: take_over, taken_from; stopper: take_over; caller: take_over,
    // taken_from.
    taken_from: Mutex<Option<u64>>,
    /// When the hand-over began, by the engine's clock.
    begun_ns: Counter,
    /// The same, or when the handler was last patient; [`PATIENT`] while it is.
    since_ns: Counter,
    contents: UnsafeCell<Contents<T>>,
}

/// The payloads of a hand-over. While it is open, each is only read, and by one thread.
struct Contents<T> {
    /// While the hand-over is open, its length is zero, and the payloads are behind it.
    payloads: Payloads<T>,
    /// How many payloads there are behind it.
    hidden: usize,
    /// When an earlier hand-over of these payloads began, if a takeover has left them.
    handed_ns: Option<u64>,
    /// So many of them come first, and are no business of the handler's.
    own: usize,
}

/// Another thread has taken the shard over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// How far a hand-over had come when it was looked at: its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress(u64);

// SAFETY: a payload that is moved out of a hand-over is moved by one thread, which the word
// decides, and payloads may be sent. Nothing else of a hand-over is changed while others may read
// it.
unsafe impl<T: Send> Sync for HandOver<T> {}
// SAFETY: payloads may be sent.
unsafe impl<T: Send> Send for HandOver<T> {}

// === impl InHand ===

impl<T> InHand<T> {
    fn with(contents: Contents<T>) -> InHand<T> {
        InHand {
            hand_over: Arc::new(HandOver {
                word: AtomicU64::new(CLOSED),
                is_wanted: AtomicBool::new(false),
                taken_from: Mutex::new(None),
                begun_ns: Counter::new(0),
                since_ns: Counter::new(0),
                contents: UnsafeCell::new(contents),
            }),
            is_lost: false,
        }
    }

    /// The same for other threads.
    pub fn hand_over(&self) -> &Arc<HandOver<T>> {
        &self.hand_over
    }

    /// Puts the collected payloads in hand, and leaves `batch` empty, with memory from before. So
    /// many are the engine's `own`, and come first.
    #[inline]
    pub fn fill(&mut self, batch: &mut Payloads<T>, own: usize) {
        self.change(|contents| {
            debug_assert!(contents.payloads.is_empty(), "what a stop left is not handed over");
            std::mem::swap(&mut contents.payloads, batch);
            (contents.handed_ns, contents.own) = (None, own);
        });
    }

    /// Begins a hand-over at `now_ns`: at most `at_most` payloads can be claimed now.
    #[inline]
    pub fn open(&mut self, at_most: usize, now_ns: u64) -> &HandOver<T> {
        let open = self.change(|contents| {
            contents.hidden = contents.payloads.len();
            contents.handed_ns = Some(now_ns);
            // SAFETY: the payloads are still there, and `close` shows those that are left.
            unsafe { contents.payloads.set_len(0) };
            contents.hidden.min(at_most).min(CLAIMED as usize) as u64
        });
        // ORDER: Relaxed, both - numbers for watchers, which the word publishes.
        self.hand_over.begun_ns.store(now_ns, Ordering::Relaxed);
        self.hand_over.since_ns.store(now_ns, Ordering::Relaxed);
        // ORDER(TAKEOVER): Relaxed - only the holder changes the word of a closed hand-over.
        let before = self.hand_over.word.load(Ordering::Relaxed) & !(ONE - 1);
        // The fence also pairs with the heavy one of a stop, which comes after its flag: the stop
        // finds this hand-over open, or the flag is seen before the first claim.
        self.hand_over.publish(before.wrapping_add(ONE) | open << OPEN_SHIFT);
        &self.hand_over
    }

    /// Ends the hand-over. What was not claimed is in hand as before.
    ///
    /// # Errors
    /// Another thread has taken over, and has what was not claimed.
    #[inline]
    pub fn close(&mut self) -> Result<(), Lost> {
        // ORDER(TAKEOVER): Relaxed - only the holder writes it.
        let before = self.hand_over.word.load(Ordering::Relaxed);
        assert!(before & CLOSED == 0, "no hand-over is under way");
        self.hand_over.publish(before | CLOSED);
        if self.hand_over.is_wanted() && self.hand_over.taken_from().is_some() {
            self.is_lost = true;
            return Err(Lost);
        }
        self.change(|contents| {
            let claimed = (before & CLAIMED) as usize;
            let left = contents.hidden - claimed;
            if left > 0 {
                // SAFETY: the payloads up to `claimed` were moved out, and the rest are moved to
                // the front; no other thread looks at a closed hand-over.
                unsafe {
                    let first = contents.payloads.as_mut_ptr();
                    first.copy_from(first.add(claimed), left);
                }
            }
            // SAFETY: so many payloads are at the front.
            unsafe { contents.payloads.set_len(left) };
            contents.hidden = 0;
            contents.own = contents.own.saturating_sub(claimed);
        });
        Ok(())
    }

    /// Whether another thread has taken over what was in here.
    #[inline]
    pub fn is_taken_over(&self) -> bool {
        self.is_lost
    }

    /// The payloads in hand. The hand-over must be closed.
    #[inline]
    pub(crate) fn payloads(&self) -> &Payloads<T> {
        // SAFETY: this is the holder, and only the holder changes the payloads of a closed
        // hand-over.
        self.hand_over.contents.with(|contents| unsafe { &(*contents).payloads })
    }

    /// When the payloads were handed over before, if they were.
    pub(crate) fn handed_ns(&self) -> Option<u64> {
        // SAFETY: only the holder, which this is, changes them.
        self.hand_over.contents.with(|contents| unsafe { (*contents).handed_ns })
    }

    /// Takes all payloads. The hand-over must be closed.
    pub fn take_payloads(&mut self) -> Payloads<T> {
        self.change(|contents| std::mem::take(&mut contents.payloads))
    }

    /// Changes the payloads of a closed hand-over.
    #[inline]
    fn change<R>(&mut self, f: impl FnOnce(&mut Contents<T>) -> R) -> R {
        // ORDER(TAKEOVER): Relaxed - only the holder opens and closes the hand-over.
        assert!(
            self.hand_over.word.load(Ordering::Relaxed) & CLOSED != 0,
            "a hand-over is under way"
        );
        // SAFETY: this is the only holder, and other threads look at open hand-overs only.
        self.hand_over.contents.with_mut(|contents| f(unsafe { &mut *contents }))
    }
}

/// No payload.
impl<T> Default for InHand<T> {
    fn default() -> InHand<T> {
        let payloads = Payloads::new();
        InHand::with(Contents { payloads, hidden: 0, handed_ns: None, own: 0 })
    }
}

debug! { impl[T] InHand[T] { hand_over } }

// === impl HandOver ===

impl<T> HandOver<T> {
    /// Claims the next payload. For the handler of the hand-over under way.
    #[inline]
    pub(crate) fn claim(&self) -> Option<(Tick, T)> {
        // SAFETY: it is claimed, and moved out once.
        self.claim_place().map(|place| unsafe { place.read() })
    }

    /// Claims the next payload where it lies: it is the caller's, until the hand-over is closed.
    #[inline]
    pub(crate) fn claim_place(&self) -> Option<*const (Tick, T)> {
        // ORDER(TAKEOVER): Relaxed - only the holder writes it.
        let word = self.word.load(Ordering::Relaxed);
        let at = word & CLAIMED;
        if at >= open_in(word) {
            return None;
        }
        self.publish(word + 1);
        if self.is_wanted() && !self.keeps(at, word) {
            return None;
        }
        // SAFETY: this number is claimed once, and nobody has taken over from it.
        Some(self.contents.with(|contents| unsafe { (*contents).place(at as usize) }))
    }

    /// Whether the next payload is one of the engine's own. For the handler of the hand-over under
    /// way.
    #[inline]
    pub(crate) fn is_at_own(&self) -> bool {
        // SAFETY: nobody changes the contents of an open hand-over, and this is asked while it is
        // open.
        self.claimed() < self.contents.with(|contents| unsafe { (*contents).own })
    }

    /// Whether the claim of payload `at` holds: `false` if another thread has taken over from there
    /// or from before. The claim is then taken back, to the word `before`.
    #[cold]
    fn keeps(&self, at: u64, before: u64) -> bool {
        let keeps = self.taken_from().is_none_or(|from| at < from);
        if !keeps {
            // ORDER(TAKEOVER): Relaxed - nobody takes over twice.
            self.word.store(before, Ordering::Relaxed);
        }
        keeps
    }

    /// Writes the word, before the holder looks whether anybody takes over.
    #[inline]
    fn publish(&self, word: u64) {
        // ORDER(TAKEOVER): Release - pairs with the Acquire in `take_over`: the payloads.
        self.word.store(word, Ordering::Release);
        if !asymmetric::is_light() {
            self.fence_in_full();
        }
        asymmetric::light();
    }

    /// Says in the word that the holder fences in full, and does so.
    #[cold]
    fn fence_in_full(&self) {
        // ORDER(TAKEOVER): Relaxed - only the holder writes it. Release - as in `publish`.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word | FENCED, Ordering::Release);
        // ORDER(TAKEOVER): SeqCst fence - pairs with the one in `heavy`.
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn is_wanted(&self) -> bool {
        // ORDER(TAKEOVER): Relaxed - ordered by the fence in `publish`.
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// From which payload on another thread has taken over. Waits until one that tries to has
    /// decided.
    #[cold]
    fn taken_from(&self) -> Option<u64> {
        *self.taken_from.lock().expect("nothing panics under this lock")
    }

    /// How many payloads can still be claimed. For the handler of the hand-over under way.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        if self.is_wanted() && self.taken_from().is_some() {
            return 0;
        }
        // ORDER(TAKEOVER): Relaxed - asked by the thread that claims.
        let word = self.word.load(Ordering::Relaxed);
        (open_in(word) - (word & CLAIMED)) as usize
    }

    /// How many payloads the handler of the last hand-over has claimed.
    #[inline]
    pub(crate) fn claimed(&self) -> usize {
        // ORDER(TAKEOVER): Relaxed - asked by the thread that claims.
        (self.word.load(Ordering::Relaxed) & CLAIMED) as usize
    }

    /// How far the hand-over under way has come. `None`: there is none.
    pub fn progress(&self) -> Option<Progress> {
        // ORDER(TAKEOVER): Acquire - pairs with the Release in `open`: the numbers for watchers.
        let word = self.word.load(Ordering::Acquire);
        (word & CLOSED == 0).then_some(Progress(word))
    }

    /// When the last hand-over began, or its handler was last patient. `None`: it is patient now.
    pub fn since_ns(&self) -> Option<u64> {
        // ORDER: Relaxed - a number for watchers.
        Some(self.since_ns.load(Ordering::Relaxed)).filter(|&since_ns| since_ns != PATIENT)
    }

    /// When the hand-over under way began, by the engine's clock, if there are payloads that it has
    /// not claimed: they were due by then.
    pub fn unclaimed_since_ns(&self) -> Option<u64> {
        let Progress(word) = self.progress()?;
        let is_waiting = word & CLAIMED < open_in(word);
        // ORDER: Relaxed - a number for watchers.
        is_waiting.then(|| self.begun_ns.load(Ordering::Relaxed))
    }

    /// The handler is patient until this is called with the present time: it waits for others, as
    /// it was told to.
    pub fn set_patient(&self, until_ns: Option<u64>) {
        // ORDER: Relaxed - a number for watchers.
        self.since_ns.store(until_ns.unwrap_or(PATIENT), Ordering::Relaxed);
    }

    /// The handler has panicked. If it was patient, it is not any more.
    pub(crate) fn end_patience(&self, now_ns: u64) {
        if self.since_ns().is_none() {
            self.set_patient(Some(now_ns));
        }
    }

    /// Takes the payloads over that were not claimed, if the hand-over has not come any further
    /// than `seen`. The holder loses the right to hand over, and `lost` is called before it can
    /// learn that. `None`: it has come further, a thread has taken over before, or the system
    /// refuses to fence and the holder has relied on that.
    pub(crate) fn take_over(&self, seen: Progress, lost: impl FnOnce()) -> Option<InHand<T>> {
        let mut taken_from = self.taken_from.lock().expect("nothing panics under this lock");
        if taken_from.is_some() {
            return None;
        }
        // ORDER(TAKEOVER): Relaxed - ordered by the fence.
        self.is_wanted.store(true, Ordering::Relaxed);
        let is_fenced = asymmetric::heavy() || seen.0 & FENCED != 0;
        // ORDER(TAKEOVER): Acquire - pairs with the Release in `publish`.
        if !is_fenced || self.word.load(Ordering::Acquire) != seen.0 {
            // ORDER(TAKEOVER): Relaxed - a holder that has seen it waits for the lock.
            self.is_wanted.store(false, Ordering::Relaxed);
            return None;
        }
        *taken_from = Some(seen.0 & CLAIMED);
        lost();
        Some(self.contents.with(|contents| {
            // SAFETY: the holder waits for the lock before it changes anything, and finds it taken.
            let contents = unsafe { &*contents };
            let claimed = (seen.0 & CLAIMED) as usize;
            // SAFETY: nobody else has these: the holder claims no more, and there is one taker.
            let rest = (claimed..contents.hidden).map(|at| unsafe { contents.place(at).read() });
            InHand::with(Contents {
                payloads: rest.collect(),
                hidden: 0,
                own: contents.own.saturating_sub(claimed),
                ..*contents
            })
        }))
    }
}

debug! { impl[T] HandOver[T] { progress = |this| this.progress() } }

/// How many payloads could be claimed in a hand-over, by its word.
#[inline]
fn open_in(word: u64) -> u64 {
    word >> OPEN_SHIFT & CLAIMED
}

// === impl Contents ===

impl<T> Contents<T> {
    /// Where a payload of an open hand-over lies.
    ///
    /// # Safety
    /// There are so many behind the length.
    #[inline]
    unsafe fn place(&self, at: usize) -> *const (Tick, T) {
        // SAFETY: as the caller promises.
        unsafe { self.payloads.as_ptr().add(at) }
    }
}

// === impl Progress ===

impl Progress {
    /// Whether the hand-over has claimed at most one payload: that one has run since the beginning.
    pub fn is_at_first(self) -> bool {
        self.0 & CLAIMED <= 1
    }

    /// The word itself, which no other moment of the hand-over has. It is never zero.
    pub fn word(self) -> u64 {
        self.0
    }

    /// The same for each look at one payload: the first one has run since before it was claimed.
    pub fn payload(self) -> Progress {
        Progress(self.0 & !FENCED | u64::from(self.0 & CLAIMED == 0))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
