//! Instances that die, that are held up, and whose clocks are wrong.

#[path = "../shared/faults.rs"]
mod suite;

use tickless_durable::cluster::Faults;

use super::instance::{Instance, Settings, wait_for_holders};
use super::server::Place;
use crate::common::faketime;
use suite::{assert_found, scene};

fn place() -> Option<Place> {
    Place::new()
}

#[test]
fn an_instance_that_was_held_up_while_it_wrote_does_not_keep_its_shard() {
    let Some((mut scene, settings)) = scene(1) else { return };
    let mut held_up = Instance::start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut held_up]);
    held_up.schedule(1, 0, 0);
    scene.wait_for_the_end();
    // Whoever puts a timer now waits for this lock, in the middle of a batch.
    let slow = "CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock_shared(tg_relid::bigint);
                    RETURN NULL;
                END $$;
                CREATE TRIGGER slow AFTER INSERT ON records FOR EACH ROW
                    EXECUTE FUNCTION wait_for_test()";
    scene.recorder.client.batch_execute(slow).unwrap();
    let lock = "SELECT pg_advisory_lock('records'::regclass::bigint)";
    scene.recorder.client.batch_execute(lock).unwrap();
    held_up.begin_to_schedule(1, 0, 0);
    let waiting = "SELECT count(*) FROM pg_locks
                   WHERE locktype = 'advisory' AND objid = 'records'::regclass AND NOT granted";
    while scene.recorder.client.query_one(waiting, &[]).unwrap().get::<_, i64>(0) == 0 {
        std::thread::yield_now();
    }
    let free = "SELECT shard FROM shards FOR UPDATE SKIP LOCKED";
    let free = scene.recorder.client.query(free, &[]).unwrap();
    assert!(free.is_empty(), "a batch that is being written keeps its shard");
    held_up.pause();
    let other = Instance::start(&scene, &settings);
    let unlock = "SELECT pg_advisory_unlock('records'::regclass::bigint)";
    scene.recorder.client.batch_execute(unlock).unwrap();
    // The transaction goes on, and waits for the instance with the shard's row locked.
    let taken = format!("SELECT count(*) FROM shards WHERE holder = {}", other.number);
    scene.recorder.wait_for(&taken, 1);
    held_up.go_on();
    held_up.has_done();
    scene.wait_for_the_end();
    scene.read().check();
}

#[test]
fn an_instance_that_goes_by_its_own_clock_is_found() {
    let Some((mut scene, settings)) = scene(2) else { return };
    let Some(library) = faketime::library() else {
        println!("SKIPPED: no process can be shown another time (Debian: libfaketime)");
        return;
    };
    let faults = Faults { goes_by_own_clock: true, ..Faults::default() };
    let skew = Some((30, library));
    let mut ahead = Instance::start(&scene, &Settings { faults, skew, ..settings.clone() });
    let mut right = Instance::start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut ahead, &mut right]);
    right.schedule(40, 20_000, 500);
    scene.starts.wait_for_those_of(&ahead, 1);
    assert_found(&scene.read(), "before it was due");
}
