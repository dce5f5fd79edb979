//! Where a timer stands in the order of a store, and the number by which a caller knows it.
//!
//! *Invariant*: the order of [`Position`] is the order of its bytes, which is the order in which
//! timers are due.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The place of a timer in a store: when it is due, then its number.
///
/// As bytes, both are big-endian, so that the order of the bytes is the order of the positions. Of
/// a timer, both are less than 2^63, so that a database with signed numbers has the same order.
///
/// ```
/// use tickless_durable::Position;
///
/// let sooner = Position { due_ms: 255, number: 9 };
/// let later = Position { due_ms: 256, number: 1 };
/// assert!(sooner < later && sooner.to_bytes() < later.to_bytes());
/// assert_eq!(Position::from_bytes(later.to_bytes()), later);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// When the timer is due: milliseconds since 1970-01-01T00:00:00Z.
    pub due_ms: u64,
    /// The timer's number. No two timers of a store ever have the same.
    pub number: u64,
}

/// Identifies a timer, also after a restart.
///
/// It stays the same when the timer is tried again. As text, it is 32 hexadecimal digits.
///
/// ```
/// use tickless_durable::TimerId;
///
/// let id: TimerId = "0000019af0c4d2000000010000000007".parse()?;
/// assert_eq!(id.to_string().parse::<TimerId>()?, id);
/// # Ok::<(), tickless_durable::ParseIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(Position);

/// A text that is not a [`TimerId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseIdError;

/// No timer's time or number is as large as this.
pub(crate) const END: u64 = 1 << 63;

// === impl Position ===

impl Position {
    /// Before every timer that can be scheduled.
    pub const FIRST: Position = Position { due_ms: 0, number: 0 };

    /// After every timer.
    pub const LAST: Position = Position { due_ms: u64::MAX, number: u64::MAX };

    /// The position of the timer with this number if it is due at that time.
    pub fn at(time: SystemTime, number: u64) -> Position {
        Position { due_ms: ms_at_or_after(time), number }
    }

    /// The position before all timers that are due at that time or later.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tickless_durable::Position;
    ///
    /// let at = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
    /// assert!(Position::before_all_at(at) < Position { due_ms: 5000, number: 0 });
    /// assert!(Position::before_all_at(at) > Position { due_ms: 4999, number: 7 });
    /// ```
    pub fn before_all_at(time: SystemTime) -> Position {
        Position { due_ms: ms_at_or_after(time), number: 0 }.before()
    }

    /// The position as a key.
    pub const fn to_bytes(self) -> [u8; 16] {
        (((self.due_ms as u128) << 64) | self.number as u128).to_be_bytes()
    }

    /// The position whose key that is.
    pub const fn from_bytes(bytes: [u8; 16]) -> Position {
        let both = u128::from_be_bytes(bytes);
        Position { due_ms: (both >> 64) as u64, number: both as u64 }
    }

    /// The position right before this one.
    pub(crate) const fn before(self) -> Position {
        let both = u128::from_be_bytes(self.to_bytes());
        Position::from_bytes(both.saturating_sub(1).to_be_bytes())
    }
}

// === impl TimerId ===

impl TimerId {
    /// The number of the timer that was first scheduled at that position.
    pub const fn of(first: Position) -> TimerId {
        TimerId(first)
    }

    /// Where the timer was first scheduled. It is elsewhere while it waits to be tried again.
    pub const fn first_position(self) -> Position {
        self.0
    }
}

impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0.due_ms, self.0.number)
    }
}

impl FromStr for TimerId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<TimerId, ParseIdError> {
        // `from_str_radix` would take a sign, too.
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseIdError);
        }
        let both = u128::from_str_radix(text, 16).map_err(|_| ParseIdError)?;
        let position = Position::from_bytes(both.to_be_bytes());
        let is_one = position.due_ms < END && position.number < END;
        is_one.then_some(TimerId(position)).ok_or(ParseIdError)
    }
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a timer has 32 hexadecimal digits")
    }
}

impl Error for ParseIdError {}

// === times ===

/// `time` in milliseconds since 1970, rounded up, so that a timer is never early.
pub(crate) fn ms_at_or_after(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    last_at_most(since.as_nanos().div_ceil(1_000_000))
}

/// That time, or the last one that a timer can have.
pub(crate) fn last_at_most(ms: u128) -> u64 {
    u64::try_from(ms).unwrap_or(u64::MAX).min(END - 1)
}

/// `time` in milliseconds since 1970, rounded down: what has certainly passed.
pub(crate) fn ms_passed(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time `ms` milliseconds after the beginning of 1970; `None` if the system knows no such time.
pub(crate) fn time_of(ms: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_when_they_are_due_and_down_when_they_have_passed() {
        let time = UNIX_EPOCH + Duration::from_nanos(5_000_001);
        assert_eq!((ms_at_or_after(time), ms_passed(time)), (6, 5));
        let whole = UNIX_EPOCH + Duration::from_millis(5);
        assert_eq!((ms_at_or_after(whole), ms_passed(whole)), (5, 5));
        assert_eq!(ms_at_or_after(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(time_of(5), Some(whole));
    }

    #[test]
    fn the_position_before_is_the_one_right_before() {
        let position = Position { due_ms: 7, number: 0 };
        assert_eq!(position.before(), Position { due_ms: 6, number: u64::MAX });
        assert_eq!(Position::FIRST.before(), Position::FIRST);
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for text in [
            "",
            "1",
            "+0000019af0c4d2000000010000000007",
            "g".repeat(32).as_str(),
            "8".repeat(32).as_str(),
        ] {
            assert_eq!(text.parse::<TimerId>(), Err(ParseIdError), "{text}");
        }
    }
}
