//! Instances that die, that are held up, and whose clocks are wrong.
//!
//! Each test writes a history and has it checked. The last ones show that the checks notice an
//! instance that leaves out what makes it right.

use std::time::{Duration, SystemTime};

use tickless_durable::cluster::Faults;

use crate::history::{History, Recorder};
use crate::instance::{Instance, Settings, faketime};
use crate::server::Place;

const LEASE: Duration = Duration::from_secs(3);

/// A place for a history, and how its instances are started.
fn scene(shards: u32) -> Option<(Place, Recorder, Settings)> {
    let place = Place::new()?;
    let recorder = Recorder::new(&place, shards);
    let settings = Settings { lease: LEASE, ..Settings::default() };
    Some((place, recorder, settings))
}

fn start<const N: usize>(place: &Place, settings: &Settings) -> [Instance; N] {
    std::array::from_fn(|_| Instance::start(place, settings))
}

/// Counts what has begun there, up to a number.
fn starts_of(instance: &Instance, most: u32) -> String {
    format!("SELECT least(count(*), {most}) FROM starts WHERE instance = {}", instance.number)
}

/// `TAKEOVERS` is how often, for measurements.
#[test]
fn what_a_killed_instance_had_to_do_another_does() {
    let rounds = std::env::var("TAKEOVERS").map_or(1, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        let Some((place, mut recorder, mut settings)) = scene(4) else { return };
        settings.lease = Duration::from_secs(2);
        let [mut dies, mut lives] = start(&place, &settings);
        recorder.wait_for_holders(2);
        dies.schedule(200, 300, 4000);
        lives.schedule(200, 300, 4000);
        recorder.wait_for(&starts_of(&dies, 5), 5);
        let killed_us = recorder.now_us();
        dies.kill();
        recorder.wait_for_the_end();
        let history = recorder.read();
        history.check();
        print_takeover(&history, &dies, killed_us, settings.lease);
    }
}

/// How long after a death the first timer of a shard that was the dead one's began elsewhere.
fn print_takeover(history: &History, dead: &Instance, killed_us: i64, lease: Duration) {
    let was_its = |shard| {
        let mut before = history.starts.iter().filter(|start| start.at_us <= killed_us);
        before.any(|start| start.shard == shard && start.instance == dead.number)
    };
    let elsewhere = history.starts.iter().filter(|start| {
        start.at_us > killed_us && start.instance != dead.number && was_its(start.shard)
    });
    if let Some(first_us) = elsewhere.map(|start| start.begun_us).min() {
        let took_ms = (first_us - killed_us) / 1000;
        let taken = history.takings.iter().map(|taking| taking.at_us);
        let taken_us = taken.filter(|taken_us| *taken_us > killed_us).min().unwrap_or(first_us);
        println!(
            "takeover after {took_ms} ms, {} of them after the taking, with leases of {} ms",
            (first_us - taken_us) / 1000,
            lease.as_millis(),
        );
    }
}

#[test]
fn of_three_instances_the_last_one_does_all_in_the_end() {
    let Some((place, mut recorder, settings)) = scene(6) else { return };
    let [mut first, mut second, mut third] = start(&place, &settings);
    recorder.wait_for_holders(3);
    for instance in [&mut first, &mut second, &mut third] {
        instance.schedule(100, 300, 2500);
    }
    recorder.wait_for(&starts_of(&first, 5), 5);
    first.kill();
    recorder.wait_for_holders(2);
    let now_us = recorder.now_us();
    second.schedule(50, 0, 3000);
    recorder.wait_for(&format!("{} AND at_us > {now_us}", starts_of(&second, 5)), 5);
    second.kill();
    recorder.wait_for_the_end();
    let history = recorder.read();
    history.check();
    assert_eq!(history.instances().len(), 3);
}

#[test]
fn an_instance_that_was_held_up_comes_back_with_an_old_fence_and_does_no_harm() {
    let Some((place, mut recorder, settings)) = scene(4) else { return };
    let [mut held_up, mut other] = start(&place, &settings);
    recorder.wait_for_holders(2);
    held_up.schedule(200, 300, 2500);
    other.schedule(200, 300, 2500);
    held_up.schedule_gated();
    recorder.wait_for(&starts_of(&held_up, 5), 5);
    held_up.pause();
    other.go();
    // All but what only the handler that was held up could tell of.
    recorder.wait_for_the_end();
    held_up.go_on();
    held_up.go();
    // It is one of two again, and the fences are new.
    recorder.wait_for_holders(2);
    held_up.schedule(50, 0, 200);
    recorder.wait_for_the_end();
    let history = recorder.read();
    history.check();
    let last = history.starts.iter().filter(|start| start.instance == held_up.number);
    let fences: Vec<i64> = last.map(|start| start.fence).collect();
    assert!(fences.iter().max() > fences.iter().min());
}

#[test]
fn an_instance_that_was_held_up_while_it_wrote_does_not_keep_its_shard() {
    let Some((place, mut recorder, settings)) = scene(1) else { return };
    let mut held_up = Instance::start(&place, &settings);
    recorder.wait_for_holders(1);
    held_up.schedule(1, 0, 0);
    recorder.wait_for_the_end();
    // Whoever puts a timer now waits for this lock, in the middle of a batch.
    let slow = "CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock_shared(tg_relid::bigint);
                    RETURN NULL;
                END $$;
                CREATE TRIGGER slow AFTER INSERT ON records FOR EACH ROW
                    EXECUTE FUNCTION wait_for_test()";
    recorder.client.batch_execute(slow).unwrap();
    let lock = "SELECT pg_advisory_lock('records'::regclass::bigint)";
    recorder.client.batch_execute(lock).unwrap();
    held_up.begin_to_schedule();
    let waiting = "SELECT count(*) FROM pg_locks
                   WHERE locktype = 'advisory' AND objid = 'records'::regclass AND NOT granted";
    while recorder.client.query_one(waiting, &[]).unwrap().get::<_, i64>(0) == 0 {
        std::thread::yield_now();
    }
    let free = "SELECT shard FROM shards FOR UPDATE SKIP LOCKED";
    let free = recorder.client.query(free, &[]).unwrap();
    assert!(free.is_empty(), "a batch that is being written keeps its shard");
    held_up.pause();
    let other = Instance::start(&place, &settings);
    let unlock = "SELECT pg_advisory_unlock('records'::regclass::bigint)";
    recorder.client.batch_execute(unlock).unwrap();
    // The transaction goes on, and waits for the instance with the shard's row locked.
    let taken = format!("SELECT count(*) FROM shards WHERE holder = {}", other.number);
    recorder.wait_for(&taken, 1);
    held_up.go_on();
    held_up.has_scheduled();
    recorder.wait_for_the_end();
    recorder.read().check();
}

#[test]
fn a_handler_that_ends_each_instance_makes_a_dead_letter() {
    let Some((place, mut recorder, settings)) = scene(2) else { return };
    let mut instance = Instance::start(&place, &settings);
    recorder.wait_for_holders(1);
    instance.schedule(20, 3_600_000, 1);
    instance.schedule_poison();
    let mut deaths = 0;
    let letters = "SELECT count(*) FROM dead_letters";
    while recorder.client.query_one(letters, &[]).unwrap().get::<_, i64>(0) == 0 {
        if instance.has_died() {
            deaths += 1;
            assert!(deaths < 20, "it goes on for ever");
            instance = Instance::start(&place, &settings);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Five are counted. The first one is, too, if its shard was opened after it was due.
    assert!((5..=6).contains(&deaths), "{deaths}");
    let letter = "SELECT error FROM dead_letters";
    let error: String = recorder.client.query_one(letter, &[]).unwrap().get(0);
    assert!(error.contains("5 attempts in a row"), "{error}");
    recorder.wait_for("SELECT count(*) FROM timers", 20);
    assert!(!instance.has_died());
}

#[test]
fn clocks_that_differ_make_nothing_early() {
    let Some((place, mut recorder, settings)) = scene(4) else { return };
    let Some(library) = faketime() else {
        println!("SKIPPED: no process can be shown another time (Debian: libfaketime)");
        return;
    };
    let skewed = |seconds| Settings { skew: Some((seconds, library.clone())), ..settings.clone() };
    let mut ahead = Instance::start(&place, &skewed(30));
    let mut behind = Instance::start(&place, &skewed(-30));
    let mut right = Instance::start(&place, &settings);
    assert!(ahead.is_ahead_of(SystemTime::now()) > 20.0);
    assert!(behind.is_ahead_of(SystemTime::now()) < -20.0);
    recorder.wait_for_holders(3);
    for instance in [&mut ahead, &mut behind, &mut right] {
        instance.schedule(60, 200, 1000);
    }
    recorder.wait_for(&starts_of(&ahead, 5), 5);
    ahead.kill();
    recorder.wait_for_the_end();
    recorder.read().check();
}

// === an instance that leaves something out ===

#[track_caller]
fn assert_found(history: &History, complaint: &str) {
    let complaints = history.complaints();
    assert!(complaints.iter().any(|found| found.contains(complaint)), "{complaints:?}");
}

/// One shard, whose holder is held up in a handler until another has the shard and runs the same
/// handler. Then the first one goes on, and ends first.
fn held_up_in_a_handler(faults: Faults) -> Option<History> {
    let (place, mut recorder, settings) = scene(1)?;
    let mut held_up = Instance::start(&place, &Settings { faults, ..settings.clone() });
    recorder.wait_for_holders(1);
    held_up.schedule_gated();
    // Some of these are due when it goes on.
    held_up.schedule(20, 1500, 2500);
    recorder.wait_for(&starts_of(&held_up, 1), 1);
    held_up.pause();
    let mut other = Instance::start(&place, &settings);
    recorder.wait_for(&starts_of(&other, 1), 1);
    held_up.go_on();
    if faults.ignores_lease {
        // Before its first write makes it notice.
        recorder.wait_for(&starts_of(&held_up, 2), 2);
    }
    held_up.go();
    if faults.ignores_fence {
        // The other still runs the handler of the same timer.
        let ended = "SELECT least(count(*), 1) FROM changes WHERE NOT is_put AND under < fence";
        recorder.wait_for(ended, 1);
    }
    recorder.wait_for(&starts_of(&other, 5), 5);
    other.go();
    recorder.wait_for_the_end();
    other.stop();
    Some(recorder.read())
}

#[test]
fn an_instance_that_looks_at_its_lease_and_its_fence_is_right() {
    let Some(history) = held_up_in_a_handler(Faults::default()) else { return };
    history.check();
}

#[test]
fn an_instance_that_does_not_look_at_its_lease_is_found_and_writes_nothing() {
    let faults = Faults { ignores_lease: true, ..Faults::default() };
    let Some(history) = held_up_in_a_handler(faults) else { return };
    assert_found(&history, "under an old fence");
    let complaints = history.complaints();
    assert!(!complaints.iter().any(|found| found.contains("written under")), "{complaints:?}");
}

#[test]
fn an_instance_that_does_not_look_at_its_fence_either_is_found() {
    let faults = Faults { ignores_lease: true, ignores_fence: true, ..Faults::default() };
    let Some(history) = held_up_in_a_handler(faults) else { return };
    assert_found(&history, "written under an old fence");
}

#[test]
fn an_instance_that_goes_by_its_own_clock_is_found() {
    let Some((place, mut recorder, settings)) = scene(2) else { return };
    let Some(library) = faketime() else {
        println!("SKIPPED: no process can be shown another time (Debian: libfaketime)");
        return;
    };
    let faults = Faults { goes_by_own_clock: true, ..Faults::default() };
    let skew = Some((30, library));
    let ahead = Instance::start(&place, &Settings { faults, skew, ..settings.clone() });
    let mut right = Instance::start(&place, &settings);
    recorder.wait_for_holders(2);
    right.schedule(40, 20_000, 500);
    recorder.wait_for(&starts_of(&ahead, 1), 1);
    assert_found(&recorder.read(), "before it was due");
}
