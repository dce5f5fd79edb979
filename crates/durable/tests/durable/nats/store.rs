//! What one store on the servers does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tickless_durable::store::NatsStore;
use tickless_durable::store::nats::probe;
use tickless_durable::{
    Cluster, DeadLetter, Op, OpenError, Position, Record, Store, StoreError, StoreErrorKind,
    conformance,
};

use super::server::{Place, on_one, on_three, patiently};

/// A log as long as that is not shortened, in most tests.
const FLOOR: u64 = 1 << 20;

fn take(place: &Place) -> NatsStore {
    try_to_take(place, FLOOR).unwrap()
}

/// An attempt that has failed may have taken it, and the next one takes it again.
fn try_to_take(place: &Place, floor: u64) -> Result<NatsStore, StoreError> {
    patiently(|| NatsStore::take_first(&place.url, &place.name, floor))
}

fn log(place: &Place) -> Vec<probe::Noted> {
    patiently(|| probe::history(&place.url, &place.name, 0)).unwrap()
}

fn record(number: u64, payload: Vec<u8>) -> Record {
    Record::new(Position { due_ms: 5, number }, None, payload.into())
}

fn put(number: u64) -> Op {
    Op::Put(Arc::new(record(number, vec![7])))
}

fn numbers(store: &mut NatsStore) -> Vec<u64> {
    store.scan(None, usize::MAX).unwrap().iter().map(|record| record.position.number).collect()
}

fn conforms(place: fn() -> Option<Place>, floor: u64) {
    if place().is_none() {
        return;
    }
    conformance::all(|| {
        let place = place().unwrap();
        move || try_to_take(&place, floor)
    });
}

#[test]
fn a_shard_conforms() {
    conforms(on_one, FLOOR);
}

#[test]
fn a_shard_on_three_servers_conforms() {
    conforms(on_three, FLOOR);
}

#[test]
fn a_shard_whose_log_is_always_shortened_conforms() {
    conforms(on_one, 0);
}

#[test]
fn only_the_last_one_to_take_a_shard_writes() {
    let Some(place) = on_one() else { return };
    let mut first = take(&place);
    first.commit(&[put(1)]).unwrap();
    let mut second = take(&place);
    assert!(first.fence() < second.fence());
    assert_eq!(first.commit(&[put(2)]).unwrap_err().kind(), StoreErrorKind::Fenced);
    // It may have an index that is ahead, so it is not used any more.
    assert_eq!(first.scan(None, 9).unwrap_err().kind(), StoreErrorKind::Fenced);
    assert_eq!(second.commit(&[put(3)]).unwrap(), [None]);
    assert_eq!(numbers(&mut second), [1, 3]);
    drop(second);
    assert_eq!(numbers(&mut take(&place)), [1, 3]);
}

#[test]
fn who_took_the_shard_earlier_cannot_open_its_log_later() {
    let Some(place) = on_one() else { return };
    let second = take(&place);
    let late = patiently(|| NatsStore::open_first(&place.url, &place.name, second.fence() - 1));
    assert_eq!(late.unwrap_err().kind(), StoreErrorKind::Fenced);
}

#[test]
fn a_batch_longer_than_a_message_is_one_change() {
    let Some(place) = on_one() else { return };
    let mut store = take(&place);
    let large = Record { key: Some([1].into()), ..record(1, vec![9; 3 << 20]) };
    let mut batch: Vec<Op> = (2..5000).map(put).collect();
    batch.push(Op::Put(Arc::new(large.clone())));
    store.commit(&batch).unwrap();
    let mut again = take(&place);
    assert_eq!(numbers(&mut again), (1..5000).collect::<Vec<_>>());
    assert_eq!(again.scan(None, 1).unwrap(), [large]);
    // It was fenced off in the meantime, so none of that is there.
    let batch: Vec<Op> =
        (5000..5010).map(|n| Op::Put(Arc::new(record(n, vec![9; 1 << 19])))).collect();
    assert_eq!(store.commit(&batch).unwrap_err().kind(), StoreErrorKind::Fenced);
    assert_eq!(numbers(&mut take(&place)).len(), 4999);
}

#[test]
fn the_beginning_of_a_batch_whose_end_is_missing_does_not_count() {
    let Some(place) = on_one() else { return };
    let mut store = take(&place);
    store.commit(&[put(1)]).unwrap();
    let batch: Vec<Op> = (2..5).map(|n| Op::Put(Arc::new(record(n, vec![9; 1 << 20])))).collect();
    assert!(store.commit_cut_off(&batch, 2).is_err());
    let mut store = take(&place);
    assert_eq!(numbers(&mut store), [1]);
    store.commit(&[put(9)]).unwrap();
    assert_eq!(numbers(&mut take(&place)), [1, 9]);
}

#[test]
fn a_reply_that_is_lost_is_found_out_by_reading() {
    let Some(place) = on_three() else { return };
    let mut store = take(&place);
    store.commit(&[put(1)]).unwrap();
    store.lose_replies(2);
    assert_eq!(store.commit(&[put(2), Op::Remove(record(1, vec![]).position)]).unwrap().len(), 2);
    store.commit(&[put(3)]).unwrap();
    let log = log(&place);
    assert_eq!(log.len(), 4, "each is there once: {log:?}");
    // Another one's is not taken for ours.
    store.lose_replies(1);
    let other = take(&place);
    assert_eq!(store.commit(&[put(4)]).unwrap_err().kind(), StoreErrorKind::Fenced);
    drop(other);
    assert_eq!(numbers(&mut take(&place)), [2, 3]);
}

/// `BATCHES` is how many, for measurements: of one timer each, and of a thousand.
#[test]
fn many_batches_are_read_back_by_the_next_opening() {
    let batches = std::env::var("BATCHES").map_or(25, |batches| batches.parse().unwrap());
    for (place, servers) in [(on_one(), 1), (on_three(), 3)] {
        let Some(place) = place else { return };
        let mut store = take(&place);
        let rates: Vec<u64> = [1, 1000]
            .map(|size| {
                let begun = Instant::now();
                for batch in 0..batches {
                    let number = |n| (size * batches + batch) * 1000 + n;
                    let ops: Vec<Op> = (0..size)
                        .map(|n| Op::Put(Arc::new(record(number(n), vec![7; 100]))))
                        .collect();
                    store.commit(&ops).unwrap();
                }
                (batches as f64 / begun.elapsed().as_secs_f64()) as u64
            })
            .to_vec();
        drop(store);
        let begun = Instant::now();
        let mut store = take(&place);
        let took = begun.elapsed();
        assert_eq!(numbers(&mut store).len() as u64, batches * 1001);
        println!(
            "on {servers}: {} batches of one per second, {} of 1000; a log of {} bytes with {} \
             timers was opened in {} ms",
            rates[0],
            rates[1],
            store.log_bytes(),
            batches * 1001,
            took.as_millis(),
        );
    }
}

#[test]
fn a_log_stays_as_long_as_its_timers_ask_for() {
    let Some(place) = on_one() else { return };
    let floor = 20_000;
    let mut store = try_to_take(&place, floor).unwrap();
    let (mut model, mut letters) = (BTreeMap::new(), BTreeMap::new());
    // Some stay for good, and others go at once.
    for round in 0..400_u64 {
        let mut batch = Vec::new();
        for n in 0..10 {
            let made = record(round * 10 + n, vec![n as u8; 200]);
            let made =
                Record { key: (n < 2).then(|| (round * 10 + n).to_be_bytes().into()), ..made };
            batch.push(Op::Put(Arc::new(made.clone())));
            let position = made.position;
            match (round % 40, n) {
                (0, 0 | 7) => drop(model.insert(position, made)),
                (0, 3) => {
                    let letter = DeadLetter::new(made, "why");
                    batch.push(Op::Bury { from: position, letter: Arc::new(letter.clone()) });
                    letters.insert(position, letter);
                }
                _ => batch.push(Op::Remove(position)),
            }
        }
        store.commit(&batch).unwrap();
        let live: usize = 300 * (model.len() + letters.len());
        let bytes = store.log_bytes();
        assert!(bytes < floor + 3 * live as u64 + 10_000, "{bytes} in round {round}");
        if round % 90 == 89 {
            // It reads what was not worth a purge yet, too; the next batch takes that along.
            store = try_to_take(&place, floor).unwrap();
        }
    }
    let before = log(&place);
    assert!(before.len() < 200, "{} messages were not purged", before.len());
    let mut store = take(&place);
    assert_eq!(store.scan(None, usize::MAX).unwrap(), model.into_values().collect::<Vec<_>>());
    let found = store.dead_letters(None, usize::MAX).unwrap();
    assert_eq!(found, letters.into_values().collect::<Vec<_>>());
}

/// What is still there of the log's beginning is at its end before the beginning goes. The holder
/// dies after each message of such a batch, and the next holder has all of it.
#[test]
fn a_holder_that_dies_while_it_shortens_its_log_loses_nothing() {
    let Some(place) = on_one() else { return };
    let large = |number: u64| record(number, vec![number as u8; 300_000]);
    let over = |number: u64| record(number, vec![0; 900_000]);
    let mut store = try_to_take(&place, 0).unwrap();
    let kept: Vec<u64> = (0..4).collect();
    for number in &kept {
        store.commit(&[Op::Put(Arc::new(large(*number)))]).unwrap();
    }
    let (mut cut_off, mut whole) = (0, 0);
    for round in 0..24 {
        // It is over at once, so the log grows and what is in it does not.
        let over = over(100 + round);
        let batch = [Op::Put(Arc::new(over.clone())), Op::Remove(over.position)];
        match store.commit_cut_off(&batch, round as usize % 3) {
            Ok(()) => whole += 1,
            Err(_) => cut_off += 1,
        }
        let mut next = try_to_take(&place, 0).unwrap();
        assert_eq!(numbers(&mut next), kept, "round {round}");
        // The one before it wakes up and goes on, too late to take anything out.
        assert!(store.commit(&[Op::Remove(large(0).position)]).is_err());
        store = next;
    }
    assert!(cut_off > 8 && whole > 4, "{cut_off} were cut off, {whole} were not");
    let first = log(&place).len();
    assert!(first < 40, "{first} messages are there");
    assert_eq!(store.scan(None, 9).unwrap(), kept.iter().map(|n| large(*n)).collect::<Vec<_>>());
}

/// Somebody else takes messages out of the log: all of them, or the first ones.
#[test]
fn a_holder_writes_a_log_anew_that_somebody_has_purged() {
    for (which, timers) in [("{}", 700), (r#"{"keep":2}"#, 700), ("{}", 0)] {
        let Some(place) = on_one() else { return };
        let mut store = take(&place);
        let mut batch: Vec<Op> = (0..timers).map(put).collect();
        store.commit(&batch).unwrap();
        for number in 1000..1005 {
            let made = Record { key: Some([number as u8].into()), ..record(number, vec![]) };
            let letter = Arc::new(DeadLetter::new(made.clone(), "why"));
            batch = vec![Op::Put(Arc::new(made.clone())), Op::Bury { from: made.position, letter }];
            store.commit(&batch[..if timers > 0 { 2 } else { 0 }]).unwrap();
        }
        assert!(!store.mend().unwrap(), "nobody has purged it");
        let purge = format!("$JS.API.STREAM.PURGE.tickless_{}_0", place.name);
        // The reply is not one to a message that was added.
        assert!(probe::publish(&place.url, &purge, which.as_bytes()).is_err());
        assert!(patiently(|| store.mend()).unwrap());
        assert!(!store.mend().unwrap(), "it is whole");
        let letters = store.dead_letters(None, usize::MAX).unwrap();
        assert_eq!(letters.len(), if timers > 0 { 5 } else { 0 });
        // It goes on as any other, and so does the next one.
        store.commit(&[put(5000)]).unwrap();
        let mut again = take(&place);
        assert_eq!(numbers(&mut again), (0..timers).chain([5000]).collect::<Vec<_>>());
        assert_eq!(again.dead_letters(None, usize::MAX).unwrap(), letters);
        again.commit(&[put(5001)]).unwrap();
        assert!(!again.mend().unwrap());
    }
}

#[test]
fn a_message_that_is_not_ours_is_not_taken_for_a_batch() {
    let Some(place) = on_one() else { return };
    let mut store = take(&place);
    store.commit(&[put(1)]).unwrap();
    let subject = format!("tickless.{}.log.0", place.name);
    patiently(|| probe::publish(&place.url, &subject, b"\x01what is this")).unwrap();
    assert_eq!(store.commit(&[put(2)]).unwrap_err().kind(), StoreErrorKind::Fenced);
    let opened = try_to_take(&place, FLOOR);
    assert_eq!(opened.unwrap_err().kind(), StoreErrorKind::Corrupt);
}

#[test]
fn servers_that_cannot_be_used_are_a_typed_error() {
    let start = |builder: tickless_durable::cluster::Builder| {
        builder.start(|_: &tickless_durable::cluster::Firing<'_, String>| Ok::<(), String>(()))
    };
    #[track_caller]
    fn is_refused(started: Result<Cluster<String>, OpenError>, kind: StoreErrorKind) {
        match started {
            Err(OpenError::Store(error)) => assert_eq!(error.kind(), kind, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    // A port that nobody listens on.
    let nowhere = "nats://127.0.0.1:1";
    is_refused(start(Cluster::nats(nowhere)), StoreErrorKind::Io);
    is_refused(start(Cluster::nats("what is this")), StoreErrorKind::Io);
    is_refused(start(Cluster::nats(nowhere).schema("a b")), StoreErrorKind::Denied);
    let Some(place) = on_one() else { return };
    drop(take(&place));
    let builder = || Cluster::nats(&place.url).schema(&place.name);
    is_refused(patiently(|| start(builder().shards(4))), StoreErrorKind::Denied);
    let meta = format!("$KV.tickless_{}.meta", place.name);
    patiently(|| probe::publish(&place.url, &meta, b"99 1")).unwrap();
    is_refused(patiently(|| start(builder())), StoreErrorKind::Version);
}

/// The numbers of sessions and of fences are in the bucket. From 1 on again, they would be those of
/// timers that are there.
#[test]
fn a_bucket_that_was_emptied_beside_logs_that_were_not_is_refused() {
    for what in ["PURGE", "DELETE"] {
        let Some(place) = on_one() else { return };
        let mut store = take(&place);
        store.commit(&[put(1)]).unwrap();
        drop(store);
        // The reply is not one to a message that was added.
        let gone = format!("$JS.API.STREAM.{what}.KV_tickless_{}", place.name);
        assert!(probe::publish(&place.url, &gone, b"").is_err());
        let opened = try_to_take(&place, FLOOR);
        let error = opened.expect_err(what);
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{what}: {error:?}");
        assert!(error.to_string().contains("bucket"), "{error}");
    }
}

/// A server says its version first.
#[test]
fn a_server_that_is_too_old_is_told_at_the_start() {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (mut reader, mut client) = (BufReader::new(client.try_clone().unwrap()), client);
            let info = r#"INFO {"server_id":"a","server_name":"a","version":"2.9.10","proto":1,
                "go":"","host":"127.0.0.1","port":4222,"max_payload":1048576,"headers":true}"#;
            let _ = write!(client, "{}\r\n", info.replace('\n', ""));
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                if std::mem::take(&mut line).starts_with("PING") {
                    let _ = write!(client, "PONG\r\n");
                }
            }
        }
    });
    let handler = |_: &tickless_durable::cluster::Firing<'_, String>| Ok::<(), String>(());
    let Err(OpenError::Store(error)) = Cluster::nats(&url).start(handler) else {
        panic!("it is too old")
    };
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
    assert!(error.to_string().contains("2.9.10, and 2.11.0 is needed"), "{error}");
}
