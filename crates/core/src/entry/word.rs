//! The state word: everything that threads decide about an entry, in 64 bits.
//!
//! ```text
//!  63                              10 9        4 3     2   1      0
//! ┌──────────────────────────────────┬──────────┬───────┬───────┬──────┐
//! │ deadline, in ticks               │ version  │ phase │ held  │ list │
//! └──────────────────────────────────┴──────────┴───────┴───────┴──────┘
//! ```
//!
//! - `list`: a bucket's list (or the reaper that walks it) still reaches the entry.
//! - `held`: a second party reaches it too: the handle while the timer is pending, fired or
//!   stopped, the producer (a thread with its seats) while it is vacant. The party that clears
//!   the last of the two bits releases the entry.
//! - A *stranded* timer is pending and held, and in no list: its engine stopped while the timer
//!   moved to another entry, so this entry was never filed. Its payload is the handle's. No other
//!   thread reaches the entry.
//! - `version`: bumped by every re-filing and every reuse, so that a word that was read together
//!   with the entry's place is never mistaken for a later one. Between the load and the CAS of a
//!   handle or a producer, only re-filings of one unchanged deadline can bump it, and each of those
//!   moves the entry a level down: 6 bits outlast all levels.

use std::fmt;

use crate::time::{MAX_LEVELS, TICK_BITS, Tick};

const LIST: u64 = 0b01;
const HELD: u64 = 0b10;
const PHASE_SHIFT: u32 = 2;
const PHASE: u64 = 0b11 << PHASE_SHIFT;
/// Where the version begins.
pub const VERSION_SHIFT: u32 = 4;
/// Bits of the version.
pub const VERSION_BITS: u32 = 6;
const VERSION: u64 = ((1 << VERSION_BITS) - 1) << VERSION_SHIFT;
/// Where the deadline begins.
pub const DEADLINE_SHIFT: u32 = VERSION_SHIFT + VERSION_BITS;

const _: () = assert!(DEADLINE_SHIFT + TICK_BITS == 64, "the word is full");
const _: () = assert!(MAX_LEVELS < 1 << VERSION_BITS, "a version outlasts a cascade of all levels");

/// A value of an entry's state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub(super) u64);

/// The phase of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A timer waits in it or is stranded there; the entry contains the payload.
    Pending,
    /// Its timer was cancelled; the payload is gone, the seat is free.
    Vacant,
    /// Its timer fired; the payload is the reaper's.
    Fired,
    /// Its engine stopped first; the payload belongs to the thread that stopped it.
    Stopped,
}

// === impl Word ===

impl Word {
    /// Fresh memory: no timer, no holder.
    pub const FREE: Word = Word(Phase::Vacant.bits());

    /// The word as a number.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// A pending timer in its list.
    #[inline]
    pub fn pending(self, deadline: Tick, held: bool) -> Word {
        let held = if held { HELD } else { 0 };
        let phase = Phase::Pending.bits();
        Word(deadline.get() << DEADLINE_SHIFT | self.next_version() | phase | held | LIST)
    }

    /// The tick at which the timer is due.
    #[inline]
    pub fn deadline(self) -> Tick {
        Tick::new(self.0 >> DEADLINE_SHIFT)
    }

    /// The phase.
    #[inline]
    pub fn phase(self) -> Phase {
        match (self.0 & PHASE) >> PHASE_SHIFT {
            0 => Phase::Pending,
            1 => Phase::Vacant,
            2 => Phase::Fired,
            _ => Phase::Stopped,
        }
    }

    /// Whether a timer waits: it is pending, and a list reaches it.
    #[inline]
    pub fn is_waiting(self) -> bool {
        self.0 & (PHASE | LIST) == Phase::Pending.bits() | LIST
    }

    /// Whether the payload is the handle's: the timer is pending, and in no list.
    #[inline]
    pub fn is_stranded(self) -> bool {
        self.0 & (PHASE | LIST) == Phase::Pending.bits()
    }

    /// Whether a list reaches the entry.
    #[inline]
    pub fn in_list(self) -> bool {
        self.0 & LIST != 0
    }

    /// Whether a handle or a producer holds the entry.
    #[inline]
    pub fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    /// The same in another phase.
    #[inline]
    pub fn with_phase(self, phase: Phase) -> Word {
        Word(self.0 & !PHASE | phase.bits())
    }

    /// The same timer, due at another time.
    #[inline]
    pub fn with_deadline(self, deadline: Tick) -> Word {
        Word(self.0 & ((1 << DEADLINE_SHIFT) - 1) | deadline.get() << DEADLINE_SHIFT)
    }

    /// The same timer, filed elsewhere.
    #[inline]
    pub fn refiled(self) -> Word {
        Word(self.0 & !VERSION | self.next_version())
    }

    /// Whether it is the same filing of the same entry: it was neither re-filed nor reused.
    #[inline]
    pub fn is_as_filed(self, then: Word) -> bool {
        (self.0 ^ then.0) & VERSION == 0
    }

    /// The list has let go.
    #[inline]
    pub fn unlisted(self) -> Word {
        Word(self.0 & !LIST)
    }

    /// The handle or producer has let go.
    #[inline]
    pub fn unheld(self) -> Word {
        Word(self.0 & !HELD)
    }

    /// The mask for a `fetch_and` that clears the list bit.
    pub(super) const KEEP_ALL_BUT_LIST: u64 = !LIST;

    #[inline]
    fn next_version(self) -> u64 {
        (self.0 & VERSION).wrapping_add(1 << VERSION_SHIFT) & VERSION
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = (self.0 & VERSION) >> VERSION_SHIFT;
        write!(f, "{:?}@{:?} v{version}", self.phase(), self.deadline())?;
        f.write_str(if self.in_list() { " list" } else { "" })?;
        f.write_str(if self.is_held() { " held" } else { "" })
    }
}

// === impl Phase ===

impl Phase {
    /// The phase in its place in the word.
    #[inline]
    const fn bits(self) -> u64 {
        (self as u64) << PHASE_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_do_not_touch_each_other() {
        for deadline in [Tick::ZERO, Tick::new(77), Tick::LAST, Tick::NEVER] {
            for held in [false, true] {
                let word = Word::FREE.pending(deadline, held);
                assert_eq!(word.deadline(), deadline);
                assert_eq!(word.phase(), Phase::Pending);
                assert!(word.in_list());
                assert!(word.is_waiting() && !word.is_stranded());
                assert!(!word.unlisted().is_waiting() && word.unlisted().is_stranded());
                assert_eq!(word.is_held(), held);
                for phase in [Phase::Pending, Phase::Vacant, Phase::Fired, Phase::Stopped] {
                    let other = word.with_phase(phase);
                    assert_eq!(other.phase(), phase);
                    assert_eq!(other.is_waiting(), phase == Phase::Pending);
                    assert_eq!(other.unlisted().is_stranded(), phase == Phase::Pending);
                    assert_eq!(other.with_phase(Phase::Pending), word);
                }
                assert_eq!(word.with_deadline(Tick::new(5)).with_deadline(deadline), word);
                assert!(!word.unlisted().in_list() && word.unlisted().is_held() == held);
                assert!(!word.unheld().is_held() && word.unheld().in_list());
            }
        }
    }

    #[test]
    fn each_refiling_and_each_reuse_changes_the_word() {
        let first = Word::FREE.pending(Tick::new(9), true);
        let mut word = first;
        for _ in 1..1 << VERSION_BITS {
            word = word.refiled();
            assert_ne!(word, first);
            assert_eq!(word.deadline(), first.deadline());
        }
        assert_eq!(word.refiled(), first, "the version is a ring");
        let vacant = first.with_phase(Phase::Vacant);
        assert_ne!(vacant.pending(Tick::new(9), true), first);
    }
}
