//! What JetStream replies, and what that means.
//!
//! *Tested by*: `tests/durable/nats/`.

use std::time::{SystemTime, UNIX_EPOCH};

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::response::Response;
use serde::de::DeserializeOwned;

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

pub(super) fn parsed<T: DeserializeOwned>(reply: &[u8]) -> Result<T, Trouble> {
    let error = match serde_json::from_slice(reply) {
        Ok(Response::Ok(good)) => return Ok(good),
        Ok(Response::Err { error }) => error,
        Err(error) => return Err(Trouble::Unknown(error.to_string())),
    };
    match (error.code(), error.error_code().0) {
        // There is no leader, or not enough servers, at the moment.
        (503, code) if code > 0 && !FULL.contains(&code) => {
            Err(Trouble::Unknown(error.to_string()))
        }
        (_, code) => Err(Trouble::Refused { code, text: error.to_string() }),
    }
}

/// When a stream has got a message, by the clock of its leader, in microseconds since 1970.
pub(crate) fn time_us(stored: &StreamMessage) -> i64 {
    let since = SystemTime::from(stored.time).duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
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
