//! What JetStream replies, and what that means.
//!
//! *Tested by*: here, and `tests/durable/nats/`.

use async_nats::Message;
use serde_json::Value;

use crate::error::{StoreError, StoreErrorKind};

/// Why there is no good reply.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server has refused it, and nothing was done.
    Refused { code: u64, text: String },
    /// Nobody is there to do it, so nothing was done.
    Nobody,
    /// It is unknown whether it was done.
    Unknown(String),
}

/// A message of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) subject: String,
    pub(crate) sequence: u64,
    /// By the clock of the stream's leader, in microseconds since 1970.
    pub(crate) time_us: i64,
    pub(crate) data: Vec<u8>,
}

/// What a stream has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) messages: u64,
}

/// The stream does not have the last sequence number that was expected.
pub(crate) const WRONG_LAST: [u64; 2] = [10071, 10164];
/// A stream of this name has other settings.
pub(super) const OTHER_SETTINGS: u64 = 10058;
pub(super) const NO_STREAM: u64 = 10059;
pub(super) const FULL: [u64; 3] = [10023, 10047, 10077];
pub(super) const TOO_LARGE: u64 = 10054;

pub(super) fn trouble(error: async_nats::RequestError) -> Trouble {
    use async_nats::RequestErrorKind::{InvalidSubject, MaxPayloadExceeded, NoResponders};
    match error.kind() {
        NoResponders => Trouble::Nobody,
        InvalidSubject => Trouble::Refused { code: 0, text: error.to_string() },
        MaxPayloadExceeded => Trouble::Refused { code: TOO_LARGE, text: error.to_string() },
        _ => Trouble::Unknown(error.to_string()),
    }
}

pub(super) fn parsed(reply: &[u8]) -> Result<Value, Trouble> {
    let value: Value =
        serde_json::from_slice(reply).map_err(|error| Trouble::Unknown(error.to_string()))?;
    let error = &value["error"];
    if error.is_null() {
        return Ok(value);
    }
    let text = error["description"].as_str().unwrap_or_default().to_owned();
    match (error["code"].as_u64(), error["err_code"].as_u64()) {
        // There is no leader, or not enough servers, at the moment.
        (Some(503), Some(code)) if !FULL.contains(&code) => Err(Trouble::Unknown(text)),
        (_, code) => Err(Trouble::Refused { code: code.unwrap_or(0), text }),
    }
}

pub(super) fn stored(message: &Message) -> Result<Stored, Trouble> {
    let header = |name: &str| {
        let value = message.headers.as_ref().and_then(|headers| headers.get(name));
        value.map(|value| value.as_str())
    };
    let sequence = header("Nats-Sequence").and_then(|number| number.parse().ok());
    let time_us = header("Nats-Time-Stamp").and_then(micros_of);
    match (header("Nats-Subject"), sequence, time_us) {
        (Some(subject), Some(sequence), Some(time_us)) => Ok(Stored {
            subject: subject.to_owned(),
            sequence,
            time_us,
            data: message.payload.to_vec(),
        }),
        _ => Err(Trouble::Unknown(format!("a message with headers {:?}", message.headers))),
    }
}

/// A time such as `2026-11-25T02:54:46.444508609Z`, in microseconds since 1970, rounded down.
fn micros_of(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let mut next = || date.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.splitn(3, ':').map(str::parse::<i64>);
    let mut next = || time.next()?.ok();
    let seconds = (next()? * 60 + next()?) * 60 + next()?;
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    // The days before a year that begins in March, so that a leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(((days - 719_468) * 86_400 + seconds) * 1_000_000 + micros)
}

/// What it means for a store.
pub(crate) fn failed(trouble: Trouble) -> StoreError {
    let (kind, text) = match trouble {
        Trouble::Refused { code: TOO_LARGE, text } => (StoreErrorKind::TooLarge, text),
        Trouble::Refused { code, text } if FULL.contains(&code) => (StoreErrorKind::Full, text),
        Trouble::Refused { text, .. } | Trouble::Unknown(text) => (StoreErrorKind::Io, text),
        Trouble::Nobody => (StoreErrorKind::Io, "JetStream does not reply".to_owned()),
    };
    StoreError::new(kind, format!("NATS says: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_to_the_microsecond() {
        assert_eq!(micros_of("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(micros_of("2000-02-29T23:59:59.5Z"), Some(951_868_799_500_000));
        assert_eq!(micros_of("2026-11-25T02:54:46.444508609Z"), Some(1_795_575_286_444_508));
        for text in ["", "2026-11-25", "2026-11-25T02:54:46", "2026-11-25T02:54Z"] {
            assert_eq!(micros_of(text), None, "{text}");
        }
    }
}
