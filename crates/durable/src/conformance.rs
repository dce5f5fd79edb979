//! The tests that every store has to pass.
//!
//! ```
//! use tickless_durable::{RedbStore, conformance};
//!
//! // Makes an empty place, and returns a function that opens what is there, time after time. The
//! // store that was opened before is dropped first.
//! let place = || {
//!     let directory = tempfile::tempdir().unwrap();
//!     move || RedbStore::open(directory.path().join("timers.redb"))
//! };
//! conformance::all(place);
//! ```
//!
//! Each function here is one test, and [`all`] is all of them. What they cannot test is that a
//! commit survives a crash of the machine: a store has to know how its medium promises that.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::StoreError;
use crate::position::{END, Position, TimerId};
use crate::record::{DeadLetter, Key, Record};
use crate::store::{Op, Store};

/// Runs every test. `place` is called for each, and makes an empty place for a store; what it
/// returns opens the store there.
///
/// # Panics
/// The store does not do what [`Store`] asks for.
pub fn all<S: Store, O: FnMut() -> Result<S, StoreError>>(place: impl Fn() -> O) {
    sessions_are_counted_across_openings(place());
    timers_come_back_as_they_were(place());
    timers_are_read_in_order_of_their_times(place());
    a_page_begins_after_a_position_and_ends_at_its_limit(place());
    a_batch_is_applied_in_order(place());
    each_change_tells_what_it_took_out(place());
    a_key_has_one_timer(place());
    a_timer_is_added_only_where_there_is_none_with_its_key(place());
    a_timer_that_was_moved_is_found_by_its_number(place());
    what_is_gone_does_not_move(place());
    a_timer_is_written_anew_where_it_is(place());
    dead_letters_are_kept_apart(place());
    a_dead_letter_is_a_timer_again(place());
    a_batch_without_a_change_is_no_error(place());
    what_is_there_is_counted_and_found(place());
    many_timers_are_not_mixed_up(place());
}

/// The last time and the last number that there are.
const LAST: u64 = END - 1;

fn record(due_ms: u64, number: u64) -> Record {
    let payload: Arc<[u8]> = format!("{due_ms} {number}").into_bytes().into();
    let position = Position { due_ms, number };
    Record::new(position, None, payload)
}

fn keyed(due_ms: u64, number: u64, key: &str) -> Record {
    Record { key: Some(key_of(key)), ..record(due_ms, number) }
}

fn key_of(key: &str) -> Key {
    key.as_bytes().into()
}

fn put(record: &Record) -> Op {
    Op::Put(Arc::new(record.clone()))
}

fn open<S>(opens: &mut impl FnMut() -> Result<S, StoreError>) -> S {
    opens().expect("the store opens")
}

fn commit(store: &mut impl Store, batch: &[Op]) -> Vec<Option<Position>> {
    let outcomes = store.commit(batch).expect("the batch is committed");
    assert_eq!(outcomes.len(), batch.len(), "each change has an outcome");
    outcomes
}

fn all_timers(store: &mut impl Store) -> Vec<Record> {
    store.scan(None, usize::MAX).expect("the timers can be read")
}

fn all_letters(store: &mut impl Store) -> Vec<DeadLetter> {
    store.dead_letters(None, usize::MAX).expect("the dead letters can be read")
}

/// Sessions are counted from 1 on, and the count survives.
pub fn sessions_are_counted_across_openings<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    for session in 1..4 {
        assert_eq!(open(&mut opens).begin().expect("a session begins"), session);
    }
    let mut store = open(&mut opens);
    assert_eq!((store.begin().unwrap(), store.begin().unwrap()), (4, 5));
}

/// A session that is reported is on the disk, also where writing fails. [`all`] does not run this,
/// because it takes somebody who can have the store's writes fail: `fails` does so from then on, or
/// no longer.
///
/// # Panics
/// A session was reported, and the next opening reports it again.
pub fn a_session_that_cannot_be_written_is_not_reported<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
    mut fails: impl FnMut(bool),
) {
    let mut store = open(&mut opens);
    let mut last = store.begin().expect("a session begins");
    for _ in 0..3 {
        fails(true);
        let told = store.begin();
        fails(false);
        drop(store);
        store = open(&mut opens);
        let next = store.begin().expect("a session begins");
        let last_told = told.as_ref().map_or(last, |session| *session);
        assert!(next > last_told, "{told:?} was told, and the next one is {next}");
        // A session that was not reported may have begun all the same.
        assert!(next <= last + 2, "after {last}, {told:?} and {next}");
        last = next;
    }
}

/// All parts of a record survive, whatever bytes they have.
pub fn timers_come_back_as_they_were<S: Store>(mut opens: impl FnMut() -> Result<S, StoreError>) {
    let records = [
        Record { payload: [].into(), ..record(1, 1) },
        Record { payload: vec![0xff; 100_000].into(), ..record(2, 2) },
        Record { key: Some([].into()), ..record(3, 3) },
        Record { key: Some([0, 0xff, b'\''].into()), attempt: u32::MAX, ..record(4, 4) },
        Record { first_due_ms: 0, attempt: 7, crashes: u32::MAX, ..record(5, LAST) },
        Record { first_due_ms: LAST, tried: true, errors: "1 2 no".into(), ..record(LAST, 6) },
    ];
    let batch: Vec<Op> = records.iter().map(put).collect();
    commit(&mut open(&mut opens), &batch);
    assert_eq!(all_timers(&mut open(&mut opens)), records);
}

/// The order is that of times, then of numbers.
pub fn timers_are_read_in_order_of_their_times<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let times = [0, 1, 255, 256, 1 << 31, 1 << 32, 1 << 62, LAST];
    let mut records: Vec<Record> = times
        .iter()
        .flat_map(|&due| [record(due, 1), record(due, LAST), record(due, 300)])
        .collect();
    records.reverse();
    let mut store = open(&mut opens);
    for record in &records {
        commit(&mut store, &[put(record)]);
    }
    records.sort_by_key(|record| record.position);
    assert_eq!(all_timers(&mut store), records);
}

/// A scan goes on where another ended, also where that timer is gone.
pub fn a_page_begins_after_a_position_and_ends_at_its_limit<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let records: Vec<Record> = (1..=10).map(|n| record(n / 3, n)).collect();
    let mut store = open(&mut opens);
    assert_eq!(store.scan(None, 5).unwrap(), []);
    commit(&mut store, &records.iter().map(put).collect::<Vec<_>>());
    assert_eq!(store.scan(None, 0).unwrap(), []);
    let mut read = Vec::new();
    while let page @ [_, ..] =
        &store.scan(read.last().map(|record: &Record| record.position), 3).unwrap()[..]
    {
        assert!(page.len() <= 3);
        read.extend_from_slice(page);
    }
    assert_eq!(read, records);
    commit(&mut store, &[Op::Remove(records[4].position)]);
    assert_eq!(store.scan(Some(records[4].position), 2).unwrap(), records[5..7]);
    assert_eq!(store.scan(Some(records[9].position), 1).unwrap(), []);
    assert_eq!(store.scan(Some(Position::FIRST), 1).unwrap(), records[..1]);
    // What is no timer's position is one to read on from all the same.
    let between = Position { due_ms: records[5].position.due_ms - 1, number: u64::MAX };
    assert_eq!(store.scan(Some(between), 3).unwrap(), records[5..8]);
    assert_eq!(store.scan(Some(Position::LAST), 1).unwrap(), []);
}

/// Later changes of a batch see earlier ones.
pub fn a_batch_is_applied_in_order<S: Store>(mut opens: impl FnMut() -> Result<S, StoreError>) {
    let (first, second) = (keyed(9, 1, "k"), keyed(5, 2, "k"));
    let moved =
        Record { position: Position { due_ms: 20, number: 1 }, attempt: 2, ..first.clone() };
    let mut store = open(&mut opens);
    let batch = [
        put(&first),
        Op::Move { from: first.position, to: Arc::new(moved.clone()) },
        Op::Cancel(first.id()),
        put(&first),
        Op::CancelKey(key_of("k")),
        put(&first),
        put(&second),
        Op::Remove(first.position),
    ];
    let outcomes = commit(&mut store, &batch);
    let first_at = Some(first.position);
    let expected = [None, first_at, Some(moved.position), None, first_at, None, first_at, None];
    assert_eq!(outcomes, expected);
    assert_eq!(all_timers(&mut store), [second]);
}

/// Each change says what it took out, or that there was nothing.
pub fn each_change_tells_what_it_took_out<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let mut store = open(&mut opens);
    let (plain, named) = (record(1, 1), keyed(2, 2, "k"));
    assert_eq!(commit(&mut store, &[put(&plain), put(&named)]), [None, None]);
    let removals = [
        Op::Remove(plain.position),
        Op::Remove(plain.position),
        Op::Cancel(plain.id()),
        Op::Cancel(named.id()),
        Op::Cancel(named.id()),
        Op::CancelKey(key_of("k")),
        Op::Forget(plain.position),
        Op::Revive { from: plain.position, to: Arc::new(plain.clone()) },
    ];
    let expected = [Some(plain.position), None, None, Some(named.position), None, None, None, None];
    assert_eq!(commit(&mut store, &removals), expected);
    assert_eq!(all_timers(&mut store), []);
}

/// Of timers with the same key, the last one stays, and only those with a key are replaced.
pub fn a_key_has_one_timer<S: Store>(mut opens: impl FnMut() -> Result<S, StoreError>) {
    let (a1, a2, b) = (keyed(9, 1, "a"), keyed(5, 2, "a"), keyed(7, 3, "b"));
    let (empty, none) = (keyed(8, 4, ""), record(8, 5));
    commit(&mut open(&mut opens), &[put(&a1), put(&b), put(&empty), put(&none)]);
    let mut store = open(&mut opens);
    assert_eq!(commit(&mut store, &[put(&a2)]), [Some(a1.position)]);
    assert_eq!(all_timers(&mut store), [a2.clone(), b.clone(), empty.clone(), none.clone()]);
    // The key of a timer that is gone is free.
    commit(&mut store, &[Op::Remove(a2.position)]);
    assert_eq!(commit(&mut store, &[Op::CancelKey(key_of("a")), put(&a1)]), [None, None]);
    assert_eq!(commit(&mut store, &[Op::CancelKey(key_of(""))]), [Some(empty.position)]);
    assert_eq!(all_timers(&mut store), [b, none, a1]);
}

/// Of a timer with the same key, the place is told, and it stays.
pub fn a_timer_is_added_only_where_there_is_none_with_its_key<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let new = |record: &Record| Op::PutNew(Arc::new(record.clone()));
    let (first, second, third) = (keyed(9, 1, "k"), keyed(5, 2, "k"), keyed(7, 3, "l"));
    let mut store = open(&mut opens);
    let batch = [new(&first), new(&second), new(&third)];
    assert_eq!(commit(&mut store, &batch), [None, Some(first.position), None]);
    drop(store);
    let mut store = open(&mut opens);
    assert_eq!(commit(&mut store, &[new(&second)]), [Some(first.position)]);
    assert_eq!(all_timers(&mut store), [third.clone(), first.clone()]);
    // In order with other changes of the same batch.
    let batch = [Op::CancelKey(key_of("k")), new(&second), put(&first), new(&second)];
    let (first_at, second_at) = (Some(first.position), Some(second.position));
    assert_eq!(commit(&mut store, &batch), [first_at, None, second_at, first_at]);
    assert_eq!(all_timers(&mut store), [third, first]);
}

/// The number of a timer that is tried again finds it, after another opening too.
pub fn a_timer_that_was_moved_is_found_by_its_number<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let first = keyed(10, 1, "k");
    let at = |due_ms, attempt| {
        let position = Position { due_ms, number: 1 };
        Arc::new(Record { position, attempt, ..first.clone() })
    };
    let (second, third) = (at(20, 2), at(30, 3));
    commit(&mut open(&mut opens), &[put(&first)]);
    let moved = Op::Move { from: first.position, to: second.clone() };
    assert_eq!(commit(&mut open(&mut opens), &[moved]), [Some(first.position)]);
    let mut store = open(&mut opens);
    assert_eq!(all_timers(&mut store), [(*second).clone()]);
    let moved = Op::Move { from: second.position, to: third.clone() };
    assert_eq!(commit(&mut store, &[moved]), [Some(second.position)]);
    drop(store);
    let mut store = open(&mut opens);
    // A stranger's number is no other's.
    let stranger = TimerId::of(Position { due_ms: 10, number: 2 });
    // Nor is that of another store's timer, which has the same number and another time.
    let foreign = TimerId::of(Position { due_ms: 11, number: 1 });
    let mut batch = vec![Op::Cancel(stranger), Op::Cancel(foreign)];
    batch.extend([Op::Cancel(first.id()), Op::Cancel(first.id())]);
    assert_eq!(commit(&mut store, &batch), [None, None, Some(third.position), None]);
    assert_eq!(all_timers(&mut store), []);
    // Back where it was first, it is found as well; and its key is its own again.
    commit(&mut store, &[put(&first), Op::Move { from: first.position, to: second.clone() }]);
    let back = Op::Move { from: second.position, to: Arc::new(first.clone()) };
    commit(&mut store, &[back]);
    assert_eq!(commit(&mut store, &[Op::CancelKey(key_of("k"))]), [Some(first.position)]);
}

/// A timer that was cancelled or replaced is neither moved nor buried.
pub fn what_is_gone_does_not_move<S: Store>(mut opens: impl FnMut() -> Result<S, StoreError>) {
    let (old, new) = (keyed(1, 1, "k"), keyed(2, 2, "k"));
    let later = Record { position: Position { due_ms: 3, number: 1 }, attempt: 2, ..old.clone() };
    let mut store = open(&mut opens);
    commit(&mut store, &[put(&old), put(&new)]);
    let batch = [
        Op::Move { from: old.position, to: Arc::new(later) },
        Op::Bury { from: old.position, letter: Arc::new(DeadLetter::new(old.clone(), "late")) },
    ];
    assert_eq!(commit(&mut store, &batch), [None, None]);
    assert_eq!((all_timers(&mut store), all_letters(&mut store)), (vec![new], vec![]));
}

/// A timer that moves to where it is keeps its place, its key and its number.
pub fn a_timer_is_written_anew_where_it_is<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let first = keyed(10, 1, "k");
    let elsewhere = Record { position: Position { due_ms: 30, number: 1 }, ..first.clone() };
    let noted = |record: &Record| Record { crashes: record.crashes + 1, ..record.clone() };
    let in_place =
        |record: &Record| Op::Move { from: record.position, to: Arc::new(noted(record)) };
    let mut store = open(&mut opens);
    commit(&mut store, &[put(&first)]);
    assert_eq!(commit(&mut store, &[in_place(&first)]), [Some(first.position)]);
    assert_eq!(all_timers(&mut store), [noted(&first)]);
    let moved = Op::Move { from: first.position, to: Arc::new(elsewhere.clone()) };
    commit(&mut store, &[moved, in_place(&elsewhere)]);
    drop(store);
    let mut store = open(&mut opens);
    assert_eq!(all_timers(&mut store), [noted(&elsewhere)]);
    let batch = [Op::Cancel(first.id()), Op::CancelKey(key_of("k"))];
    assert_eq!(commit(&mut store, &batch), [Some(elsewhere.position), None]);
}

/// A dead letter is no timer, frees its key, and stays until it is thrown away.
pub fn dead_letters_are_kept_apart<S: Store>(mut opens: impl FnMut() -> Result<S, StoreError>) {
    let records = [keyed(1, 1, "k"), Record { attempt: 3, ..record(2, 2) }, record(3, 3)];
    let letters: Vec<DeadLetter> = records
        .iter()
        .map(|record| DeadLetter::new(record.clone(), format!("it's \"{}\" ü", record.attempt)))
        .collect();
    let mut batch: Vec<Op> = records.iter().map(put).collect();
    batch.extend(
        letters.iter().map(|letter| Op::Bury {
            from: letter.record.position,
            letter: Arc::new(letter.clone()),
        }),
    );
    commit(&mut open(&mut opens), &batch);
    let mut store = open(&mut opens);
    assert_eq!((all_timers(&mut store), all_letters(&mut store)), (vec![], letters.clone()));
    assert_eq!(store.dead_letters(Some(records[0].position), 1).unwrap(), letters[1..2]);
    let again = keyed(4, 4, "k");
    let batch = [
        Op::CancelKey(key_of("k")),
        Op::Cancel(records[1].id()),
        put(&again),
        Op::Forget(records[1].position),
    ];
    assert_eq!(commit(&mut store, &batch), [None, None, None, Some(records[1].position)]);
    drop(store);
    let mut store = open(&mut opens);
    assert_eq!(all_letters(&mut store), [letters[0].clone(), letters[2].clone()]);
    assert_eq!(all_timers(&mut store), [again]);
}

/// A dead letter becomes a timer once, which is found by its number, after another opening too.
pub fn a_dead_letter_is_a_timer_again<S: Store>(mut opens: impl FnMut() -> Result<S, StoreError>) {
    let (failed, other) = (Record { attempt: 3, ..keyed(1, 1, "k") }, keyed(2, 2, "k"));
    let letter = Arc::new(DeadLetter::new(failed.clone(), "why"));
    let position = Position { due_ms: 9, number: 1 };
    let timer = Record { position, attempt: 1, key: None, ..failed.clone() };
    let revive = Op::Revive { from: failed.position, to: Arc::new(timer.clone()) };
    let mut store = open(&mut opens);
    commit(&mut store, &[put(&failed)]);
    assert_eq!(commit(&mut store, std::slice::from_ref(&revive)), [None], "it is a timer");
    commit(&mut store, &[Op::Bury { from: failed.position, letter }, put(&other)]);
    assert_eq!(commit(&mut store, &[revive.clone(), revive]), [Some(failed.position), None]);
    drop(store);
    let mut store = open(&mut opens);
    assert_eq!(all_timers(&mut store), [other.clone(), timer]);
    assert_eq!(all_letters(&mut store), []);
    assert_eq!(commit(&mut store, &[Op::Cancel(failed.id())]), [Some(position)]);
    assert_eq!(all_timers(&mut store), [other]);
}

/// Nothing to do is done.
pub fn a_batch_without_a_change_is_no_error<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let mut store = open(&mut opens);
    assert_eq!(commit(&mut store, &[]), []);
    assert_eq!(commit(&mut store, &[Op::Remove(Position::LAST)]), [None]);
    let first = record(1, 1);
    commit(&mut store, &[put(&first)]);
    assert_eq!(commit(&mut store, &[Op::Remove(Position::LAST)]), [None]);
    assert_eq!(all_timers(&mut store), [first]);
}

/// A timer is found by its number wherever it is, and what there is is counted.
pub fn what_is_there_is_counted_and_found<S: Store>(
    mut opens: impl FnMut() -> Result<S, StoreError>,
) {
    let mut store = open(&mut opens);
    let contents = store.contents().expect("it is counted");
    assert_eq!((contents.timers, contents.first_due, contents.dead_letters), (0, None, 0));
    let (first, second, third) = (keyed(10, 1, "k"), record(20, 2), record(5, 3));
    assert_eq!(store.get(first.id()).unwrap(), None);
    let position = Position { due_ms: 30, number: 1 };
    let moved = Record { position, attempt: 2, tried: true, ..first.clone() };
    let letter = Arc::new(DeadLetter::new(third.clone(), "why"));
    commit(&mut store, &[put(&first), put(&second), put(&third)]);
    let away = Op::Move { from: first.position, to: Arc::new(moved.clone()) };
    commit(&mut store, &[away, Op::Bury { from: third.position, letter }]);
    drop(store);
    let mut store = open(&mut opens);
    let contents = store.contents().expect("it is counted");
    assert_eq!((contents.timers, contents.dead_letters), (2, 1));
    assert_eq!(contents.first_due, Some(second.due()));
    assert_eq!(store.get(first.id()).unwrap(), Some(moved));
    assert_eq!(store.get(second.id()).unwrap(), Some(second.clone()));
    assert_eq!(store.get(third.id()).unwrap(), None, "a letter is no timer");
    for stranger in [Position { due_ms: 11, number: 1 }, Position { due_ms: 30, number: 1 }] {
        assert_eq!(store.get(TimerId::of(stranger)).unwrap(), None);
    }
}

/// Some thousands of changes in batches, compared with a sorted map.
pub fn many_timers_are_not_mixed_up<S: Store>(mut opens: impl FnMut() -> Result<S, StoreError>) {
    let mut store = open(&mut opens);
    let mut model = BTreeMap::new();
    // A generator of Knuth's, so that each run is the same.
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut number = 0;
    for round in 0..20 {
        let mut batch = Vec::new();
        for _ in 0..200 {
            if next(3) == 0 && !model.is_empty() {
                let index = next(model.len() as u64) as usize;
                let position = *model.keys().nth(index).expect("it is one of them");
                model.remove(&position);
                batch.push(Op::Remove(position));
            } else {
                number += 1;
                let record = record(next(1000), number);
                batch.push(put(&record));
                model.insert(record.position, record);
            }
        }
        commit(&mut store, &batch);
        if round % 7 == 6 {
            drop(store);
            store = open(&mut opens);
        }
        let expected: Vec<Record> = model.values().cloned().collect();
        assert_eq!(all_timers(&mut store), expected, "in round {round}");
    }
}
