//! A page about durable timers, for browsers and programs of this machine: pending, late, dead and
//! paused ones, and who holds the shards. With `--allow-changes`, dead letters are revived and
//! thrown away there, and timers paused.
//!
//! Every user of the machine can reach its port, so all but the empty page wants the token that was
//! printed, which no other site and no other user knows.
//!
//! *Owner*: the server's thread has the place. A file is closed after each request, so that
//! services come and go beside the page. One of redb's is the page's alone during a request, so it
//! is looked at less often: a service that starts just then is refused.
//!
//! *Tested by*: `tests/durable/page.rs`, below, and in a browser by `ci/browser.sh`.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::time::SystemTime;

use serde_json::{Value, json};
use tickless_durable::{Position, StoreError};
use tickless_inspect::site::{self, Page, Reply, Request, Site};

use super::place::{Answer, At, Place, Row, Which, rfc3339, shown_up_to};

/// How many rows a reply has, if nothing is said, and at most.
const ROWS: usize = 25;
const MOST_ROWS: usize = 500;

/// How many timers are read to count their kinds, of payloads of how many bytes, and how many kinds
/// are told.
const COUNTED: usize = 20_000;
const COUNTED_BYTES: usize = 32 << 20;
const MOST_KINDS: usize = 100;

/// How many timers are read at a time, and at first, when nobody knows how long they are.
const READ: usize = 256;
const FIRST_READ: usize = 16;

/// How many bytes of a payload a list shows, and how many of one timer's.
const PAYLOAD_IN_LIST: usize = 200;
const PAYLOAD: usize = 64 << 10;

/// How many bytes of a kind are told.
const KIND: usize = 100;

/// How a place is opened, again if it was lost.
pub(crate) type Opener = Box<dyn Fn() -> Answer<Box<dyn Place>> + Send>;

pub(crate) struct Timers {
    open: Opener,
    /// `None` after it has failed.
    place: Option<Box<dyn Place>>,
    name: String,
    may_change: bool,
    token: String,
    page: Page,
}

/// The timers whose keys begin alike.
struct Kind {
    timers: u64,
    late: u64,
    first_due: SystemTime,
}

/// Serves the page until the program is ended. `told` is passed its address, and the token.
pub(crate) fn serve(
    (mut place, open): (Box<dyn Place>, Opener),
    name: String,
    listen: SocketAddr,
    may_change: bool,
    told: impl FnOnce(&str, &str) -> Answer<()>,
) -> Answer<bool> {
    let token = secret()?;
    let page = Page::new(include_str!("page.html"), &[]);
    place.reopen(false);
    let timers = Timers { open, place: Some(place), name, may_change, token: token.clone(), page };
    let served = site::serve(timers, listen).map_err(|error| format!("{listen}: {error}"))?;
    told(&served.to_string(), &token)?;
    served.wait()?;
    Ok(true)
}

// === impl Timers ===

impl Timers {
    /// Asks the place, which is opened again later if that fails. Others have a file before and
    /// after that.
    fn ask(&mut self, to_write: bool, request: &Request<'_>) -> Reply {
        let opened = self.place.take().map_or_else(|| (self.open)(), Ok);
        let mut place = match opened {
            Ok(place) => place,
            Err(error) => return unavailable(&*error),
        };
        place.reopen(to_write);
        let asked = match to_write {
            true => change(&mut *place, request),
            false => self.look(&mut *place, request),
        };
        place.reopen(false);
        let reply = match asked {
            Ok(Some(found)) => Reply::json(&found),
            Ok(None) => Reply::text("404 Not Found", "there is no such thing"),
            Err(error) if error.is::<StoreError>() => return unavailable(&*error),
            Err(error) => Reply::text("400 Bad Request", &with_causes(&*error)),
        };
        self.place = Some(place);
        reply
    }

    fn look(&self, place: &mut dyn Place, request: &Request<'_>) -> Answer<Option<Value>> {
        Ok(match request.path {
            "/counts.json" => {
                let shards: Vec<Value> = place.count()?.iter().map(|count| count.json()).collect();
                let paused: Vec<String> =
                    place.pauses()?.iter().map(|prefix| shown_up_to(prefix, usize::MAX)).collect();
                Some(json!({
                    "place": self.name, "alone": place.is_alone(), "may_change": self.may_change,
                    "now": rfc3339(SystemTime::now()), "shards": shards, "paused": paused,
                }))
            }
            "/kinds.json" => Some(kinds(place)?),
            "/timers.json" => Some(rows(request, |after, limit| place.timers_after(after, limit))?),
            "/dead.json" => Some(rows(request, |after, limit| place.letters_after(after, limit))?),
            "/timer.json" => {
                let id = request.argument("id").ok_or("which one? say ?id=")?;
                place.find(&id)?.map(|row| shown(&row, PAYLOAD))
            }
            _ => None,
        })
    }

    /// Whether a request knows the token. That takes as long for each that does not.
    fn is_known(&self, request: &Request<'_>) -> bool {
        let differs = |token: &str| {
            let pairs = token.bytes().zip(self.token.bytes());
            pairs.fold(token.len() ^ self.token.len(), |all, (one, other)| {
                all | usize::from(one ^ other)
            })
        };
        request.token.is_some_and(|token| differs(token) == 0)
    }
}

impl Site for Timers {
    fn reply(&mut self, request: &Request<'_>) -> Reply {
        let is_change = ["/revive", "/forget", "/pause", "/resume"].contains(&request.path);
        let allowed = if is_change { "POST" } else { "GET" };
        if request.method != allowed {
            return Reply::wrong_method(allowed);
        }
        if request.path == "/" {
            return Reply::page(&self.page);
        }
        if !self.is_known(request) {
            let text = "the token is missing or another one: open the address that was printed";
            return Reply::text("401 Unauthorized", text);
        }
        if is_change && !self.may_change {
            return Reply::text("403 Forbidden", "the page was started without --allow-changes");
        }
        self.ask(is_change, request)
    }
}

fn change(place: &mut dyn Place, request: &Request<'_>) -> Answer<Option<Value>> {
    let (id, all) = (request.argument("id"), request.argument("all"));
    let prefix = request.argument("prefix");
    let which = match (&id, all.as_deref()) {
        (Some(id), None) => Some(Which::Id(id)),
        (None, Some("true")) => Some(Which::All),
        _ => None,
    };
    let wants_one = "which one? say ?id= or ?all=true";
    let done = match request.path {
        "/revive" => place.revive(&which.ok_or(wants_one)?, SystemTime::now())?,
        "/forget" => place.forget(&which.ok_or(wants_one)?)?,
        "/pause" | "/resume" => {
            let prefix = prefix.ok_or("which keys? say ?prefix=, which may be empty: all")?;
            let is_new = place.set_pause(&prefix, request.path == "/pause")?;
            vec![(prefix, is_new)]
        }
        _ => return Ok(None),
    };
    let count = done.iter().filter(|(_, was_there)| *was_there).count();
    Ok(Some(json!({ "done": count, "gone": done.len() - count })))
}

/// 128 bits of the system's source of secrets.
fn secret() -> Answer<String> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| format!("the system has no secret for the page: {error}"))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// The place cannot be asked now.
fn unavailable(error: &(dyn Error + 'static)) -> Reply {
    Reply::text("503 Service Unavailable", &with_causes(error))
}

/// What went wrong, in a line.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text += &format!(", because: {error}");
        cause = error.source();
    }
    text
}

fn shown(row: &Row, payload: usize) -> Value {
    let mut shown = row.json_up_to(payload);
    shown["payload_bytes"] = row.record.payload.len().into();
    shown["payload_shown"] = row.record.payload.len().min(payload).into();
    shown
}

/// A page of timers or dead letters, and where the next one begins.
fn rows(
    request: &Request<'_>,
    read: impl FnOnce(Option<At>, usize) -> Answer<Vec<Row>>,
) -> Answer<Value> {
    let limit = match request.argument("limit") {
        None => ROWS,
        Some(limit) => match limit.parse() {
            Ok(limit @ 1..=MOST_ROWS) => limit,
            _ => return Err(format!("limit is a number from 1 to {MOST_ROWS}").into()),
        },
    };
    let after = request.argument("after").filter(|after| !after.is_empty());
    let mut found = read(after.map(|after| after.parse()).transpose()?, limit + 1)?;
    let is_last = found.len() <= limit;
    found.truncate(limit);
    let next = found.last().filter(|_| !is_last).map(|row| row.at().to_string());
    let rows: Vec<Value> = found.iter().map(|row| shown(row, PAYLOAD_IN_LIST)).collect();
    Ok(json!({ "rows": rows, "next": next }))
}

/// How many timers of each kind there are: of those whose keys begin alike, up to the first slash.
fn kinds(place: &mut dyn Place) -> Answer<Value> {
    let shards = place.count()?.iter().map(|it| (it.contents.timers, it.shard())).collect();
    kinds_of(shards, |after, limit| place.timers_after(Some(after), limit))
}

/// The same of shards with about so many timers each. `read` has the timers after a place, and how
/// many are wanted at most.
fn kinds_of(
    mut shards: Vec<(u64, u32)>,
    mut read: impl FnMut(At, usize) -> Answer<Vec<Row>>,
) -> Answer<Value> {
    let now = SystemTime::now();
    let mut kinds: BTreeMap<Option<String>, Kind> = BTreeMap::new();
    let (mut counted, mut counted_bytes, mut is_all) = (0, 0, true);
    // The small ones first: what they leave is for the others.
    shards.sort_unstable();
    for (n, &(_, shard)) in shards.iter().enumerate() {
        let part = |all: usize, used| all.saturating_sub(used) / (shards.len() - n);
        let (most, most_bytes) = (part(COUNTED, counted), part(COUNTED_BYTES, counted_bytes));
        let (mut here, mut bytes, mut after) = (0, 0, At { shard, position: Position::FIRST });
        loop {
            // As many as there is room for if they are as long as those before.
            let fit = match here {
                0 => FIRST_READ,
                _ => most_bytes.saturating_sub(bytes) / (bytes / here).max(1),
            };
            // At the end, one tells whether there are more.
            let mut page = read(after, fit.min(READ).min(most - here).max(1))?;
            page.retain(|row| row.shard == shard);
            let Some(last) = page.last() else { break };
            if here >= most || bytes >= most_bytes {
                is_all = false;
                break;
            }
            after = last.at();
            here += page.len();
            bytes += page.iter().map(|row| row.record.payload.len()).sum::<usize>();
            for row in &page {
                let due = row.record.due();
                let kind =
                    kinds.entry(kind(row)).or_insert(Kind { timers: 0, late: 0, first_due: due });
                kind.timers += 1;
                kind.late += u64::from(due < now);
                kind.first_due = kind.first_due.min(due);
            }
        }
        (counted, counted_bytes) = (counted + here, counted_bytes + bytes);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, kind)| u64::MAX - kind.timers);
    let is_all = is_all && kinds.len() <= MOST_KINDS;
    let told = kinds.iter().take(MOST_KINDS).map(|(name, kind)| {
        let Kind { timers, late, first_due } = kind;
        json!({ "kind": name, "timers": timers, "late": late, "first_due": rfc3339(*first_due) })
    });
    Ok(json!({ "of": counted, "is_all": is_all, "kinds": told.collect::<Vec<_>>() }))
}

/// The beginning of a key; nothing if it has no slash.
fn kind(row: &Row) -> Option<String> {
    let key = row.record.key.as_deref()?;
    let end = key.iter().position(|byte| *byte == b'/').map_or(0, |at| at + 1);
    Some(shown_up_to(&key[..end], KIND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickless_durable::Record;

    /// The kinds of shards that have so many timers with payloads of so many bytes, and how many
    /// bytes were read.
    fn counted(timers: &[usize], length: usize) -> (Value, usize) {
        let shards = timers.iter().zip(0..).map(|(count, shard)| (*count as u64, shard)).collect();
        let mut read = 0;
        let found = kinds_of(shards, |after, limit| {
            let done = usize::try_from(after.position.number).unwrap();
            let rows = (done..timers[after.shard as usize]).take(limit).map(|at| {
                let position = Position { due_ms: 9, number: at as u64 + 1 };
                let record = Record::new(position, None, vec![0; length].into());
                Row { shard: after.shard, id: String::new(), record, error: None }
            });
            let rows: Vec<Row> = rows.collect();
            read += rows.len() * length;
            Ok(rows)
        });
        (found.unwrap(), read)
    }

    #[test]
    fn a_full_shard_has_what_the_others_leave() {
        let mut timers = [0; 16];
        timers[3] = 1300;
        let (found, _) = counted(&timers, 9);
        assert_eq!((&found["of"], &found["is_all"]), (&1300.into(), &true.into()));
        timers = [1000; 16];
        timers[0] = COUNTED - 15_000;
        let (found, _) = counted(&timers, 9);
        assert_eq!((&found["of"], &found["is_all"]), (&COUNTED.into(), &true.into()));
        timers[0] += 1;
        let (found, _) = counted(&timers, 9);
        assert_eq!((&found["of"], &found["is_all"]), (&COUNTED.into(), &false.into()));
    }

    #[test]
    fn long_payloads_are_not_read_beyond_the_limit() {
        const MIB: usize = 1 << 20;
        let (found, read) = counted(&[1000], MIB);
        assert_eq!((&found["of"], &found["is_all"]), (&32.into(), &false.into()));
        // The last one is there, which is all that is known of it.
        assert_eq!(read, COUNTED_BYTES + MIB);
    }
}
