//! What instances tell each other, by the notifications of the database.
//!
//! A notification is sent in the transaction that it is about, so it comes after that is committed,
//! or never. It may also never come because a connection is lost. The instance then reads
//! its shards again.
//!
//! *Tested by*: here.

use crate::position::Position;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A shard is free, or an instance has come or gone: each has to look.
    Look,
    /// An instance wakes itself.
    Wake(u64),
    /// There is a timer that is due then, in that shard, of which the holder does not know.
    Due(u32, u64),
    /// The same, of some timers whose places are told.
    There(u32, Vec<Position>),
    /// These timers of the shard were taken out.
    Gone(u32, Vec<Position>),
}

/// How many positions a notification has at most: one is shorter than 8000 bytes.
pub(super) const MOST: usize = 150;

// === impl Message ===

impl Message {
    pub(super) fn to_text(&self) -> String {
        match self {
            Message::Look => "look".to_owned(),
            Message::Wake(instance) => format!("wake {instance}"),
            Message::Due(shard, due_ms) => format!("due {shard} {due_ms}"),
            Message::There(shard, positions) => format!("there {shard}{}", places(positions)),
            Message::Gone(shard, positions) => format!("gone {shard}{}", places(positions)),
        }
    }

    /// `None`: it is none, or one of a later version.
    pub(super) fn from_text(text: &str) -> Option<Message> {
        let mut words = text.split(' ');
        let kind = words.next()?;
        let numbers = words.map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let shard = || u32::try_from(*numbers.first()?).ok();
        match (kind, &numbers[..]) {
            ("look", []) => Some(Message::Look),
            ("wake", [instance]) => Some(Message::Wake(*instance)),
            ("due", [_, due_ms]) => Some(Message::Due(shard()?, *due_ms)),
            ("gone" | "there", [_, positions @ ..]) if positions.len() % 2 == 0 => {
                let place = |pair: &[u64]| Position { due_ms: pair[0], number: pair[1] };
                let positions = positions.chunks(2).map(place).collect();
                let make = if kind == "gone" { Message::Gone } else { Message::There };
                Some(make(shard()?, positions))
            }
            _ => None,
        }
    }
}

fn places(positions: &[Position]) -> String {
    positions.iter().map(|at| format!(" {} {}", at.due_ms, at.number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let place = Position { due_ms: u64::MAX, number: u64::MAX };
        let messages = [
            Message::Look,
            Message::Wake(7),
            Message::Due(3, 5000),
            Message::Gone(u32::MAX, vec![place; MOST]),
            Message::There(1, vec![place; 2]),
        ];
        for message in messages {
            let text = message.to_text();
            assert!(text.len() < 8000);
            assert_eq!(Message::from_text(&text), Some(message));
        }
        for text in ["", "due 3", "due 3 x", "gone 3 4", "due -1 4", "sing"] {
            assert_eq!(Message::from_text(text), None, "{text}");
        }
    }
}
