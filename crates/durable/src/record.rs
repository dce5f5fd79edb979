//! What a store keeps of a timer, and how that is written.
//!
//! A record is one value: a byte with the version, then the attempt, the crashes, whether it was
//! tried, when the timer was first due, the key and the payload, and a checksum over all of it and
//! over its position. What attempts have failed with comes last, and the version says whether there
//! is any: so a record without it is as in the version before. A store with columns may keep the
//! parts apart instead.
//!
//! *Tested by*: here, and in every store by the conformance suite.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId, ms_at_or_after, time_of};

/// What the layout of a record is called in its first byte, without and with errors.
const VERSION: u8 = 2;
const WITH_ERRORS: u8 = 3;

/// Of how many attempts the errors are kept, and how many characters of each.
const ERRORS: usize = 10;
const ERROR_CHARS: usize = 500;

/// The key of a timer.
pub type Key = Arc<[u8]>;

/// A timer as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it stands: when it is due next, and its number.
    pub position: Position,
    /// When it was first due: it differs from its position's time while it waits to be tried again.
    pub first_due_ms: u64,
    /// Which attempt is the next, from 1 on.
    pub attempt: u32,
    /// How many attempts in a row may have been cut off by the end of their process: each was
    /// noted before it began, and nothing became of it. See [`crashes`](crate::Builder::crashes).
    pub crashes: u32,
    /// Whether a handler may have had it before. Unlike the two counters, this stays, unless a stop
    /// takes the note of an attempt back that has not begun.
    pub tried: bool,
    /// The key under which it can be replaced and cancelled. Of the timers of a store, one at most
    /// has a given key.
    pub key: Option<Key>,
    /// What the handler gets.
    pub payload: Arc<[u8]>,
    /// What its last attempts have failed with, as a text for stores: see
    /// [`failed_attempts`](Record::failed_attempts).
    pub errors: Arc<str>,
}

/// An attempt that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// Which one it was, from 1 on.
    pub attempt: u32,
    /// When it had failed.
    pub at: SystemTime,
    /// What it failed with.
    pub error: String,
}

/// A timer that will not be tried again: it has failed too often, or the end of its process has
/// cut it off too often, or its payload or its record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The timer, with the number of its last attempt. If its record cannot be read, this is what
    /// is there of it, in some stores with all of its bytes as the payload.
    pub record: Record,
    /// What its last attempt failed with, or what else is wrong with it.
    pub error: String,
}

// === impl Record ===

impl Record {
    /// A new timer: no handler has had it.
    pub fn new(position: Position, key: Option<Key>, payload: Arc<[u8]>) -> Record {
        let first_due_ms = position.due_ms;
        let errors = Arc::default();
        Record {
            position,
            first_due_ms,
            attempt: 1,
            crashes: 0,
            tried: false,
            key,
            payload,
            errors,
        }
    }

    /// How long its key and its payload are.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + self.key.as_ref().map_or(0, |key| key.len())
    }

    /// The timer's number for callers.
    pub fn id(&self) -> TimerId {
        TimerId::of(Position { due_ms: self.first_due_ms, number: self.position.number })
    }

    /// When the timer is due next. A time that the system cannot represent is its earliest.
    pub fn due(&self) -> SystemTime {
        time_of(self.position.due_ms).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// When the timer was first due. A time that the system cannot represent is its earliest.
    pub fn first_due(&self) -> SystemTime {
        time_of(self.first_due_ms).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Whether the timer is not where its [`id`](Record::id) says, because it is tried again.
    pub fn has_moved(&self) -> bool {
        self.first_due_ms != self.position.due_ms
    }

    /// What its last ten attempts have failed with, the first of them first. Of a long text, the
    /// beginning is kept.
    pub fn failed_attempts(&self) -> Vec<FailedAttempt> {
        let parsed = |line: &str| {
            let mut parts = line.splitn(3, ' ');
            let attempt = parts.next()?.parse().ok()?;
            let at = time_of(parts.next()?.parse().ok()?)?;
            Some(FailedAttempt { attempt, at, error: unescaped(parts.next()?) })
        };
        self.errors.lines().filter_map(parsed).collect()
    }

    /// The [errors](Record::errors), with that of this attempt. No character is zero, which some
    /// databases cannot have in a text.
    pub(crate) fn errors_with(&self, at_ms: u64, error: &str) -> Arc<str> {
        let lines: Vec<&str> = self.errors.lines().collect();
        let error: String = error.chars().take(ERROR_CHARS).collect();
        let error = error.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
        let last = format!("{} {at_ms} {}", self.attempt, error.replace('\0', "\u{fffd}"));
        let kept = lines.len().saturating_sub(ERRORS - 1);
        let all: Vec<&str> = lines[kept..].iter().copied().chain([&*last]).collect();
        all.join("\n").into()
    }

    /// A checksum of all its parts, for a store that keeps them in columns.
    pub fn checksum(&self) -> u32 {
        checksum_of(&self.encode())
    }

    /// The record as one value, to be stored under its position.
    pub fn encode(&self) -> Vec<u8> {
        encode(self, None)
    }

    /// The record that was stored under `position` as `bytes`.
    ///
    /// # Errors
    /// The bytes are not such a record ([`StoreErrorKind::Corrupt`]), or a later version of this
    /// crate has written them ([`StoreErrorKind::Version`]).
    pub fn decode(position: Position, bytes: &[u8]) -> Result<Record, StoreError> {
        decode(position, bytes).map(|(record, _)| record)
    }
}

// === impl DeadLetter ===

impl DeadLetter {
    /// A timer that has failed for good with `error`.
    pub fn new(record: Record, error: impl Into<String>) -> DeadLetter {
        DeadLetter { record, error: error.into() }
    }

    /// A record that cannot be read, with the bytes that stand in its place.
    pub(crate) fn unreadable(record: Record, error: &StoreError) -> DeadLetter {
        DeadLetter::new(Record { tried: true, ..record }, error.to_string())
    }

    /// The timer's number.
    pub fn id(&self) -> TimerId {
        self.record.id()
    }

    /// The timer that is made of this letter again, for an [`Op::Revive`](crate::Op::Revive). It
    /// has no key, which another may have by now.
    pub fn revived(&self, at: SystemTime) -> Record {
        self.revived_ms(ms_at_or_after(at))
    }

    pub(crate) fn revived_ms(&self, due_ms: u64) -> Record {
        let position = Position { due_ms, number: self.record.position.number };
        Record { position, attempt: 1, crashes: 0, key: None, ..self.record.clone() }
    }

    /// As [`Record::checksum`].
    pub fn checksum(&self) -> u32 {
        checksum_of(&self.encode())
    }

    /// The letter as one value, to be stored under the position of its record.
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.record, Some(&self.error))
    }

    /// The letter that was stored under `position` as `bytes`.
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode(position: Position, bytes: &[u8]) -> Result<DeadLetter, StoreError> {
        let (record, error) = decode(position, bytes)?;
        let error = error.ok_or_else(|| corrupt(position, "it is not a dead letter"))?;
        Ok(DeadLetter { record, error })
    }
}

// === the layout ===

fn encode(record: &Record, error: Option<&str>) -> Vec<u8> {
    let has_errors = !record.errors.is_empty();
    let mut bytes = vec![if has_errors { WITH_ERRORS } else { VERSION }];
    bytes.extend(record.attempt.to_le_bytes());
    bytes.extend(record.crashes.to_le_bytes());
    bytes.push(record.tried.into());
    bytes.extend(record.first_due_ms.to_le_bytes());
    put(&mut bytes, record.key.as_deref());
    put(&mut bytes, Some(&record.payload));
    put(&mut bytes, error.map(str::as_bytes));
    if has_errors {
        put(&mut bytes, Some(record.errors.as_bytes()));
    }
    bytes.extend(checksum(record.position, &bytes).to_le_bytes());
    bytes
}

fn decode(position: Position, bytes: &[u8]) -> Result<(Record, Option<String>), StoreError> {
    let wrong = |what| corrupt(position, what);
    let (body, sum) = bytes.split_last_chunk().ok_or_else(|| wrong("it is too short"))?;
    // A later layout may have its checksum elsewhere, so the version is looked at first.
    match body.first() {
        Some(&(VERSION | WITH_ERRORS)) => {}
        Some(&later) if later > WITH_ERRORS => {
            return Err(StoreError::new(
                StoreErrorKind::Version,
                format!("the record at {position:?} has version {later}, later than {WITH_ERRORS}"),
            ));
        }
        Some(&1) => {
            let message = format!("the record at {position:?} has version 1, before any release");
            return Err(StoreError::new(StoreErrorKind::Version, message));
        }
        _ => return Err(wrong("it has no version")),
    }
    if checksum(position, body) != u32::from_le_bytes(*sum) {
        return Err(wrong("its checksum does not match"));
    }
    let mut rest = &body[1..];
    let parts = (|| {
        let attempt = u32::from_le_bytes(take(&mut rest)?);
        let crashes = u32::from_le_bytes(take(&mut rest)?);
        let [tried @ (0 | 1)] = take(&mut rest)? else { return None };
        let first_due_ms = u64::from_le_bytes(take(&mut rest)?);
        let key = take_part(&mut rest)?.map(Key::from);
        let payload = take_part(&mut rest)??.into();
        let error = match take_part(&mut rest)? {
            Some(error) => Some(String::from_utf8(error.to_vec()).ok()?),
            None => None,
        };
        let errors = match body[0] {
            WITH_ERRORS => str::from_utf8(take_part(&mut rest)??).ok()?.into(),
            _ => Arc::default(),
        };
        let tried = tried == 1;
        let record =
            Record { position, first_due_ms, attempt, crashes, tried, key, payload, errors };
        Some((record, error))
    })();
    parts.filter(|_| rest.is_empty()).ok_or_else(|| wrong("its parts do not fit"))
}

/// An error as it was before it became a part of a line.
fn unescaped(error: &str) -> String {
    let (mut text, mut chars) = (String::new(), error.chars());
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                other => text.extend(other),
            },
            char => text.push(char),
        }
    }
    text
}

/// A part that may be missing: one more than its length, then the bytes.
fn put(bytes: &mut Vec<u8>, part: Option<&[u8]>) {
    let length = part.map_or(0, |part| part.len() as u64 + 1);
    bytes.extend(length.to_le_bytes());
    bytes.extend(part.unwrap_or_default());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

/// `None`: there is no such part. `Some(None)`: it is missing on purpose.
fn take_part<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Some(length) = u64::from_le_bytes(take(rest)?).checked_sub(1) else {
        return Some(None);
    };
    let (part, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(Some(part))
}

/// Covers the position, so that a record in a wrong place is noticed.
fn checksum(position: Position, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.to_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// The checksum at the end of a value.
fn checksum_of(value: &[u8]) -> u32 {
    value.last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum))
}

fn corrupt(position: Position, what: &str) -> StoreError {
    let message = format!("the record at {position:?} cannot be read: {what}");
    StoreError::new(StoreErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let key = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20));
        let payload = proptest::collection::vec(any::<u8>(), 0..40);
        let errors = ".{0,9}";
        (any::<(u64, u64, u64, u32, u32, bool)>(), key, payload, errors).prop_map(
            |(numbers, key, payload, errors)| {
                let (due_ms, number, first_due_ms, attempt, crashes, tried) = numbers;
                Record {
                    position: Position { due_ms, number },
                    first_due_ms,
                    attempt,
                    crashes,
                    tried,
                    key: key.map(Key::from),
                    payload: payload.into(),
                    errors: errors.into(),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in records(), error in ".{0,20}") {
            prop_assert_eq!(&Record::decode(record.position, &record.encode()).unwrap(), &record);
            let letter = DeadLetter::new(record, error);
            let read = DeadLetter::decode(letter.record.position, &letter.encode());
            prop_assert_eq!(read.unwrap(), letter);
        }

        #[test]
        fn a_changed_bit_is_noticed(record in records(), place in any::<prop::sample::Index>()) {
            let mut bytes = record.encode();
            let bit = place.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Record::decode(record.position, &bytes).is_err());
        }

        #[test]
        fn a_shorter_value_is_noticed(record in records(), length in any::<prop::sample::Index>()) {
            let bytes = record.encode();
            let bytes = &bytes[..length.index(bytes.len())];
            let error = Record::decode(record.position, bytes).unwrap_err();
            prop_assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        }

        #[test]
        fn a_record_in_a_wrong_place_is_noticed(record in records(), by in 1..u64::MAX) {
            let Position { due_ms, number } = record.position;
            let elsewhere = Position { due_ms, number: number.wrapping_add(by) };
            prop_assert!(Record::decode(elsewhere, &record.encode()).is_err());
        }
    }

    #[test]
    fn the_errors_of_the_last_attempts_are_kept() {
        let mut record = Record::new(Position::FIRST, None, [].into());
        for attempt in 1..=12 {
            record.attempt = attempt;
            let error = format!("a \\ b\n{attempt}\0{}", "\u{fc}".repeat(1000));
            record.errors = record.errors_with(7, &error);
        }
        let kept = record.failed_attempts();
        assert_eq!(
            kept.iter().map(|kept| kept.attempt).collect::<Vec<_>>(),
            [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
        );
        assert!(kept[0].error.starts_with("a \\ b\n3\u{fffd}\u{fc}"), "{}", kept[0].error);
        assert!(kept[0].error.chars().count() == 500 && kept[0].at == time_of(7).unwrap());
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        let bytes = [WITH_ERRORS + 1, 0, 0, 0, 0];
        let error = Record::decode(Position::FIRST, &bytes).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Version);
    }
}
