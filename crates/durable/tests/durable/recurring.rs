//! Timers that come again.

use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{
    DateTime, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc,
};
use tickless_durable::store::Disk;
use tickless_durable::{
    Backoff, Builder, ByHand, Firing, Misfire, RedbStore, SqliteStore, Store, TimerId, every,
};

const SECOND: Duration = Duration::from_secs(1);

/// A time that no period divides.
fn base() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_000_000_300)
}

/// What a handler has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    payload: String,
    /// In milliseconds after the last full second before [`base`].
    due_ms: u64,
    id: TimerId,
    is_repeat: bool,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Seen>>>);

/// Opens a store again.
type Open = Box<dyn Fn() -> Box<dyn Store>>;

type Service = ByHand<String, Box<dyn Store>>;

impl Log {
    /// Opens a service whose handler fails where the payload says so.
    fn open(&self, store: impl Store, builder: Builder, now: SystemTime) -> Service {
        let log = self.0.clone();
        let handler = move |firing: &Firing<String>| {
            let due = firing.due().duration_since(base() - Duration::from_millis(300));
            let due_ms = u64::try_from(due.unwrap().as_millis()).unwrap();
            let (payload, id) = (firing.payload().clone(), firing.id());
            let fails = payload == "fails";
            let seen = Seen { payload, due_ms, id, is_repeat: firing.may_be_repeat() };
            log.lock().unwrap().push(seen);
            if fails { Err("on purpose") } else { Ok(()) }
        };
        let builder = builder.backoff(Backoff::new(Duration::from_millis(100)).factor(1.0));
        builder.open_by_hand(Box::new(store) as Box<dyn Store>, now, handler).unwrap()
    }

    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn take_dues(&self) -> Vec<u64> {
        self.take().iter().map(|seen| seen.due_ms).collect()
    }
}

fn secondly() -> Builder {
    Builder::new().recurring("secondly", "tick", every(SECOND))
}

/// Has the service do what there is to do for a time.
fn pass(service: &mut Service, time: Duration) {
    let worker = service.worker();
    for _ in 0..=time.as_millis() / 100 {
        service.step().unwrap();
        while worker() {
            service.step().unwrap();
        }
        service.advance(Duration::from_millis(100));
    }
}

#[test]
fn each_time_comes_once_and_has_a_number_of_its_own() {
    let (disk, log) = (Disk::default(), Log::default());
    let mut service = log.open(disk.open(), secondly(), base());
    pass(&mut service, 5 * SECOND);
    let seen = log.take();
    let dues: Vec<u64> = seen.iter().map(|seen| seen.due_ms).collect();
    assert_eq!(dues, [1000, 2000, 3000, 4000, 5000]);
    assert!(seen.iter().all(|seen| seen.payload == "tick" && !seen.is_repeat), "{seen:?}");
    let ids: std::collections::BTreeSet<u64> =
        seen.iter().map(|seen| seen.id.first_position().number).collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(disk.timers().len(), 1, "there is always the next one, and no other");
}

#[test]
fn times_that_pass_while_no_service_runs_come_once_or_are_skipped_on_each_store() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let stores: [(&str, Open); 3] = [
        ("memory", Box::new(move || Box::new(disk.open()))),
        ("redb", {
            let path = directory.path().join("timers.redb");
            Box::new(move || Box::new(RedbStore::open(&path).unwrap()))
        }),
        ("sqlite", {
            let path = directory.path().join("timers.sqlite");
            Box::new(move || Box::new(SqliteStore::open(&path).unwrap()))
        }),
    ];
    for (name, open) in stores {
        let log = Log::default();
        let mut service = log.open(open(), secondly(), base());
        pass(&mut service, 2 * SECOND);
        drop(service.stop().unwrap());
        assert_eq!(log.take_dues(), [1000, 2000], "{name}");
        let mut service = log.open(open(), secondly(), base() + 10 * SECOND);
        pass(&mut service, 2 * SECOND);
        drop(service.stop().unwrap());
        assert_eq!(log.take_dues(), [3000, 11000, 12000], "{name}");
        let skipping = secondly().misfire(Misfire::Skip);
        let mut service = log.open(open(), skipping, base() + 20 * SECOND);
        pass(&mut service, 2 * SECOND);
        drop(service.stop().unwrap());
        assert_eq!(log.take_dues(), [21000, 22000], "{name}");
    }
}

#[test]
fn an_occurrence_whose_end_is_not_written_comes_again_and_the_next_one_after_it() {
    let (disk, log) = (Disk::default(), Log::default());
    let mut service = log.open(disk.open(), secondly(), base());
    service.step().unwrap();
    service.advance(SECOND);
    assert!(service.worker()());
    // As if the process had been killed.
    drop(service);
    let first = log.take();
    let mut service = log.open(disk.open(), secondly(), base() + SECOND);
    pass(&mut service, SECOND);
    let again = log.take();
    assert_eq!(again[0], Seen { is_repeat: true, ..first[0].clone() });
    assert_eq!(again.iter().map(|seen| seen.due_ms).collect::<Vec<_>>(), [1000, 2000]);
}

#[test]
fn after_an_occurrence_that_fails_for_good_the_next_one_comes() {
    let (disk, log) = (Disk::default(), Log::default());
    let failing = Builder::new().attempts(2).recurring("fails", "fails", every(SECOND));
    let mut service = log.open(disk.open(), failing, base());
    pass(&mut service, 2 * SECOND + SECOND / 2);
    assert_eq!(log.take_dues(), [1000, 1000, 2000, 2000]);
    let letters = service.timers().dead_letters(None, 9);
    service.step().unwrap();
    let letters = letters.try_get().unwrap().unwrap();
    assert_eq!(letters.len(), 2);
    assert!(letters.iter().all(|letter| letter.record.key.as_deref() == Some(b"fails")));
    assert_eq!(disk.timers().len(), 1);
}

#[test]
fn what_a_process_says_at_the_opening_counts_and_a_name_it_does_not_give_comes_once_more() {
    let (disk, log) = (Disk::default(), Log::default());
    let other = Builder::new().recurring("secondly", "tock", every(2 * SECOND));
    drop(log.open(disk.open(), secondly(), base()));
    let id = |disk: &Disk| disk.timers().iter().map(|timer| timer.id()).collect::<Vec<_>>();
    let before = id(&disk);
    drop(log.open(disk.open(), secondly(), base()));
    assert_eq!(id(&disk), before, "it is what it was");
    let mut service = log.open(disk.open(), other, base());
    pass(&mut service, 4 * SECOND);
    let seen = log.take();
    let dues: Vec<u64> = seen.iter().map(|seen| seen.due_ms).collect();
    // 1,000,000 is divided by two.
    assert_eq!(dues, [2000, 4000]);
    assert!(seen.iter().all(|seen| seen.payload == "tock"));
    drop(service);
    let mut service = log.open(disk.open(), Builder::new(), base() + 4 * SECOND);
    pass(&mut service, 10 * SECOND);
    assert_eq!(log.take_dues(), [6000]);
    assert!(disk.timers().is_empty());
}

#[test]
fn a_cancel_and_times_that_do_not_go_on_end_it_until_the_next_opening() {
    let (disk, log) = (Disk::default(), Log::default());
    let odd = || {
        let panics = |after: SystemTime| {
            assert!(after < base() + SECOND, "on purpose");
            every(SECOND)(after)
        };
        let stands = |after: SystemTime| {
            if after < base() + SECOND { every(SECOND)(after) } else { Some(after) }
        };
        secondly().recurring("panics", "panics", panics).recurring("stands", "stands", stands)
    };
    let mut service = log.open(disk.open(), odd(), base());
    pass(&mut service, 3 * SECOND);
    let mut payloads: Vec<String> = log.take().into_iter().map(|seen| seen.payload).collect();
    payloads.sort();
    // The first ones end before there is no next one.
    assert_eq!(payloads, ["panics", "panics", "stands", "stands", "tick", "tick", "tick"]);
    let cancel = service.timers().cancel_key("secondly");
    pass(&mut service, 3 * SECOND);
    assert!(cancel.try_get().is_some() && log.take().is_empty());
    assert!(disk.timers().is_empty());
    drop(service);
    let mut service = log.open(disk.open(), secondly(), base() + 10 * SECOND);
    pass(&mut service, SECOND);
    assert_eq!(log.take_dues(), [11000]);
}

#[test]
fn a_cron_expression_says_when_it_comes() {
    let (disk, log) = (Disk::default(), Log::default());
    let odd = cron::Schedule::from_str("1/2 * * * * *").unwrap();
    let odd = move |after| odd.after(&DateTime::<Utc>::from(after)).next().map(SystemTime::from);
    let builder = Builder::new().recurring("odd", "odd", odd);
    // 1,000,000 is a minute and 40 seconds after a full one.
    let mut service = log.open(disk.open(), builder, base());
    pass(&mut service, 4 * SECOND);
    assert_eq!(log.take_dues(), [1000, 3000]);
}

/// A place where clocks are an hour ahead of UTC, and two from 2024-03-31T01:00Z to
/// 2024-10-27T01:00Z.
#[derive(Clone, Copy, Debug)]
struct Berlin;

impl TimeZone for Berlin {
    type Offset = FixedOffset;

    fn from_offset(_: &FixedOffset) -> Berlin {
        Berlin
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<FixedOffset> {
        self.offset_from_local_datetime(&local.and_time(NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<FixedOffset> {
        let mut offsets = [2, 1]
            .map(|hours| FixedOffset::east_opt(hours * 3600).unwrap())
            .into_iter()
            .filter(|offset| self.offset_from_utc_datetime(&(*local - *offset)) == *offset);
        match (offsets.next(), offsets.next()) {
            (None, _) => MappedLocalTime::None,
            (Some(offset), None) => MappedLocalTime::Single(offset),
            (Some(summer), Some(winter)) => MappedLocalTime::Ambiguous(summer, winter),
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> FixedOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> FixedOffset {
        let changes = ["2024-03-31T01:00:00", "2024-10-27T01:00:00"];
        let [forward, back] = changes.map(|text| text.parse::<NaiveDateTime>().unwrap());
        let is_summer = (forward..back).contains(utc);
        FixedOffset::east_opt(if is_summer { 7200 } else { 3600 }).unwrap()
    }
}

/// What comes at half past two, in nights of which one lacks that time or has it twice: if a
/// service runs then, and if the next one begins at noon.
#[test]
fn clocks_are_set_forward_and_back_and_each_time_comes_once() {
    let time = |text: &str| SystemTime::from(DateTime::parse_from_rfc3339(text).unwrap());
    let nightly = cron::Schedule::from_str("0 30 2 * * *").unwrap();
    for nights in [
        [
            "2024-03-29T12:00:00Z",
            "2024-03-30T01:30:00Z",
            "2024-04-01T00:30:00Z",
            "2024-04-02T00:30:00Z",
        ],
        [
            "2024-10-25T12:00:00Z",
            "2024-10-26T00:30:00Z",
            "2024-10-27T00:30:00Z",
            "2024-10-28T01:30:00Z",
        ],
    ] {
        let [start, nights @ ..] = nights.map(time);
        for at_noon in [false, true] {
            let (disk, log, nightly) = (Disk::default(), Log::default(), nightly.clone());
            let next = move |after: SystemTime| {
                let after = DateTime::<Utc>::from(after).with_timezone(&Berlin);
                nightly.after(&after).next().map(SystemTime::from)
            };
            let builder = Builder::new().recurring("nightly", "nightly", next);
            drop(log.open(disk.open(), builder.clone(), start).stop().unwrap());
            for night in nights {
                let begins = if at_noon { night + 10 * 3600 * SECOND } else { night - SECOND };
                let mut service = log.open(disk.open(), builder.clone(), begins);
                pass(&mut service, 2 * SECOND);
                drop(service.stop().unwrap());
                let due_ms = night.duration_since(base() - Duration::from_millis(300)).unwrap();
                assert_eq!(log.take_dues(), [due_ms.as_millis() as u64]);
                assert_eq!(disk.timers().len(), 1, "the next one, and no other");
            }
        }
    }
}
