//! Where timers are, and what is shown of them.

use std::error::Error;
use std::fmt::{self, Write};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tickless_durable::{Contents, FailedAttempt, Key, Position, Record};

pub(crate) type Answer<T> = Result<T, Box<dyn Error>>;

/// How much is read at a time.
pub(crate) const PAGE: usize = 1024;

/// A file, or servers.
pub(crate) trait Place: Send {
    /// The timers that are due from one time on and before another.
    fn list(
        &mut self,
        from: Option<SystemTime>,
        before: Option<SystemTime>,
        limit: usize,
    ) -> Answer<Vec<Row>>;
    /// Ends the snapshot of a file. All that was returned before this call is from one moment, and
    /// all after it from a later one. A snapshot that stays open may keep others waiting, or let
    /// their log grow.
    fn let_go(&mut self) {}
    /// Lets others have a file until something is asked for: then it is opened again, without all
    /// checks, to change it or to show it alone.
    fn reopen(&mut self, _to_write: bool) {}
    /// Whether nobody else can open it while something is asked for.
    fn is_alone(&self) -> bool {
        false
    }
    /// The timers after that one, in the order of their shards and times.
    fn timers_after(&mut self, after: Option<At>, limit: usize) -> Answer<Vec<Row>>;
    /// The same for dead letters.
    fn letters_after(&mut self, after: Option<At>, limit: usize) -> Answer<Vec<Row>>;
    fn dead(&mut self, limit: usize) -> Answer<Vec<Row>> {
        read_pages(limit, |last: Option<&Row>, limit| self.letters_after(last.map(Row::at), limit))
    }
    fn get(&mut self, id: &str) -> Answer<Option<Row>>;
    /// A timer or a dead letter.
    fn find(&mut self, id: &str) -> Answer<Option<Row>> {
        if let Some(row) = self.get(id)? {
            return Ok(Some(row));
        }
        let mut after = None;
        loop {
            let page = self.letters_after(after, PAGE)?;
            after = page.last().map(Row::at);
            let found = page.into_iter().find(|row| row.id == id);
            if found.is_some() || after.is_none() {
                return Ok(found);
            }
        }
    }
    fn count(&mut self) -> Answer<Vec<Count>>;
    /// The timers that cannot be read.
    fn unreadable(&mut self) -> Answer<Vec<Row>>;
    fn cancel(&mut self, id: &str) -> Answer<bool>;
    fn cancel_key(&mut self, key: &str) -> Answer<bool>;
    fn reschedule(&mut self, id: &str, at: SystemTime) -> Answer<bool>;
    /// Makes timers of the letters that are chosen, in one pass: all of them, of a file. Returns
    /// their ids, and whether each was still there.
    fn revive(&mut self, which: &Which<'_>, at: SystemTime) -> Answer<Vec<(String, bool)>>;
    /// The same for throwing them away.
    fn forget(&mut self, which: &Which<'_>) -> Answer<Vec<(String, bool)>>;
    /// Pauses timers whose keys begin like that, or ends that. Whether it has changed something.
    fn set_pause(&mut self, prefix: &str, is_paused: bool) -> Answer<bool>;
    /// How keys begin whose timers are paused.
    fn pauses(&mut self) -> Answer<Vec<Key>>;
}

/// Which dead letters a command is about.
pub(crate) enum Which<'a> {
    Id(&'a str),
    All,
    /// Those whose last attempts were due before that.
    Before(SystemTime),
}

impl<'a> Which<'a> {
    pub(crate) fn new(id: Option<&'a str>, older_than: Option<Duration>) -> Which<'a> {
        match (id, older_than) {
            (Some(id), _) => Which::Id(id),
            (None, Some(age)) => {
                let time = SystemTime::now().checked_sub(age);
                Which::Before(time.unwrap_or(SystemTime::UNIX_EPOCH))
            }
            (None, None) => Which::All,
        }
    }

    /// The id, if it is about one letter.
    pub(crate) fn id<I: FromStr<Err: Error + 'static>>(&self) -> Answer<Option<I>> {
        match self {
            Which::Id(id) => Ok(Some(id.parse()?)),
            _ => Ok(None),
        }
    }

    /// Whether it is about this letter, whose id may have another shard: `is_id` knows.
    pub(crate) fn has(&self, record: &Record, is_id: impl Fn() -> bool) -> bool {
        match self {
            Which::Id(_) => is_id(),
            Which::All => true,
            Which::Before(time) => record.due() < *time,
        }
    }
}

/// What there is, as far as `limit`. `read` is passed the last one that was read, and how many more
/// there may be.
pub(crate) fn read_pages<T>(
    limit: usize,
    mut read: impl FnMut(Option<&T>, usize) -> Answer<Vec<T>>,
) -> Answer<Vec<T>> {
    let mut all = Vec::new();
    while all.len() < limit {
        let page = read(all.last(), PAGE.min(limit - all.len()))?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    Ok(all)
}

/// Where a row is. As text, it is for who asks for those after it.
#[derive(Clone, Copy)]
pub(crate) struct At {
    /// Zero in a file.
    pub(crate) shard: u32,
    pub(crate) position: Position,
}

/// A timer or a dead letter.
pub(crate) struct Row {
    /// Zero in a file.
    pub(crate) shard: u32,
    pub(crate) id: String,
    pub(crate) record: Record,
    /// Of a dead letter.
    pub(crate) error: Option<String>,
}

/// How much there is, in a file or in a shard.
pub(crate) struct Count {
    /// The shard, its fence and its holder.
    pub(crate) shard: Option<(u32, u64, Option<u64>)>,
    pub(crate) contents: Contents,
}

/// The last time that is shown, in milliseconds since 1970: the end of the year 9999.
pub(crate) const LAST_MS: u64 = 253_402_300_799_999;

/// A time as text: a later one than the last is shown as that, and one before 1970 as its
/// beginning.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let first = SystemTime::UNIX_EPOCH;
    let last = first + Duration::from_millis(LAST_MS);
    humantime::format_rfc3339_millis(time.clamp(first, last)).to_string()
}

/// The first of these bytes, at most `limit`, as [`shown`] shows them. A character stays whole.
pub(crate) fn shown_up_to(bytes: &[u8], limit: usize) -> String {
    let first = &bytes[..limit.min(bytes.len())];
    match std::str::from_utf8(first) {
        Err(error) if first.len() < bytes.len() && error.error_len().is_none() => {
            shown(&first[..error.valid_up_to()])
        }
        _ => shown(first),
    }
}

/// Bytes as text if they are one, or else as hexadecimal digits.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|char| char.is_control() && char != '\n') => text.to_owned(),
        _ => bytes.iter().fold(String::from("0x"), |mut shown, byte| {
            // A string takes all that is written.
            let _ = write!(shown, "{byte:02x}");
            shown
        }),
    }
}

// === impl At ===

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:032x}", self.shard, u128::from_be_bytes(self.position.to_bytes()))
    }
}

impl FromStr for At {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<At, &'static str> {
        let parts = text.split_once('-').and_then(|(shard, place)| {
            let place = u128::from_str_radix(place, 16).ok()?;
            Some((shard.parse().ok()?, Position::from_bytes(place.to_be_bytes())))
        });
        let (shard, position) = parts.ok_or("after is the next of the page before")?;
        Ok(At { shard, position })
    }
}

// === impl Row ===

impl Row {
    pub(crate) fn at(&self) -> At {
        At { shard: self.shard, position: self.record.position }
    }

    pub(crate) fn json(&self) -> Value {
        self.json_up_to(usize::MAX)
    }

    /// With so many bytes of its payload.
    pub(crate) fn json_up_to(&self, payload: usize) -> Value {
        let record = &self.record;
        json!({
            "id": self.id,
            "due": rfc3339(record.due()),
            "first_due": rfc3339(record.first_due()),
            "attempt": record.attempt,
            "crashes": record.crashes,
            "tried": record.tried,
            "key": record.key.as_deref().map(shown),
            "payload": shown_up_to(&record.payload, payload),
            "error": self.error,
            "failed": record.failed_attempts().iter().map(|failed| json!({
                "attempt": failed.attempt, "at": rfc3339(failed.at), "error": failed.error,
            })).collect::<Vec<_>>(),
        })
    }

    pub(crate) fn line(&self) -> String {
        let record = &self.record;
        let key = record.key.as_deref().map(|key| format!(" key={:?}", shown(key)));
        let error = self.error.as_ref().map(|error| format!(" error={error:?}"));
        let payload: String = shown(&record.payload).chars().take(60).collect();
        format!(
            "{} {} attempt={}{}{} {payload:?}",
            self.id,
            rfc3339(record.due()),
            record.attempt,
            key.unwrap_or_default(),
            error.unwrap_or_default(),
        )
    }

    pub(crate) fn paragraph(&self) -> String {
        let record = &self.record;
        let mut lines = vec![
            format!("id         {}", self.id),
            format!("due        {}", rfc3339(record.due())),
            format!("first due  {}", rfc3339(record.first_due())),
            format!("attempt    {}", record.attempt),
            format!("crashes    {}", record.crashes),
            format!("tried      {}", record.tried),
        ];
        lines.extend(record.key.as_deref().map(|key| format!("key        {}", shown(key))));
        lines.extend(self.error.as_ref().map(|error| format!("error      {error}")));
        for FailedAttempt { attempt, at, error, .. } in record.failed_attempts() {
            lines.push(format!("failed     {} attempt {attempt}: {error}", rfc3339(at)));
        }
        lines.push(format!("payload    {}", shown(&record.payload)));
        lines.join("\n")
    }
}

// === impl Count ===

impl Count {
    /// Zero in a file.
    pub(crate) fn shard(&self) -> u32 {
        self.shard.map_or(0, |(shard, ..)| shard)
    }

    pub(crate) fn json(&self) -> Value {
        let Contents { timers, first_due, dead_letters, .. } = self.contents;
        json!({
            "shard": self.shard.map(|(shard, ..)| shard),
            "fence": self.shard.map(|(_, fence, _)| fence),
            "holder": self.shard.and_then(|(.., holder)| holder),
            "timers": timers,
            "dead_letters": dead_letters,
            "first_due": first_due.map(rfc3339),
            "lag_s": self.contents.lag(SystemTime::now()).as_secs_f64(),
        })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((shard, fence, holder)) = self.shard {
            let holder = holder.map_or("nobody".to_owned(), |holder| holder.to_string());
            write!(f, "shard {shard}, fence {fence}, held by {holder}: ")?;
        }
        let Contents { timers, first_due, dead_letters, .. } = self.contents;
        write!(f, "{timers} timers, {dead_letters} dead letters")?;
        let lag = self.contents.lag(SystemTime::now());
        match first_due {
            None => Ok(()),
            Some(_) if !lag.is_zero() => {
                let late_ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
                // Of a long time, milliseconds tell nothing.
                let late_ms = if late_ms < 60_000 { late_ms } else { late_ms / 1000 * 1000 };
                let late = humantime::format_duration(Duration::from_millis(late_ms));
                write!(f, ", the first is late by {late}")
            }
            Some(due) => write!(f, ", the first is due {}", rfc3339(due)),
        }
    }
}
