//! What is in the stores that are kept as fixtures, which the versions wrote that they are named
//! after.

use std::sync::Arc;

use tickless_durable::{DeadLetter, Position, Record};

const FAR_MS: u64 = 4_102_444_800_000;
const SESSION: u64 = 1 << 40;

/// A timer with a key, one that is tried again, and a dead letter.
pub(crate) fn contents() -> (Vec<Record>, Vec<DeadLetter>) {
    let at = |ms, number| Position { due_ms: FAR_MS + ms, number: SESSION + number };
    let keyed = Record::new(at(0, 1), Some(b"order 17"[..].into()), b"remind"[..].into());
    let payload: Arc<[u8]> = [0xff, 0, b'\\'].into();
    let again = Record {
        position: at(100_000, 2),
        attempt: 3,
        crashes: 1,
        tried: true,
        ..Record::new(at(0, 2), None, payload)
    };
    let dead = Record {
        position: at(50_000, 3),
        attempt: 10,
        tried: true,
        ..Record::new(at(0, 3), Some("gr\u{fc}n"[..].as_bytes().into()), b"x"[..].into())
    };
    (vec![keyed, again], vec![DeadLetter::new(dead, "no such host")])
}
