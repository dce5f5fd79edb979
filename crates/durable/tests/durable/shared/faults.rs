//! Instances that die, that are held up, and whose clocks are wrong, on each store that instances
//! share.
//!
//! The module above says where that is: `place()`. Each test has its history checked. The last ones
//! show that the checks notice an instance that leaves out what makes it right.

use std::time::Duration;

use tickless_durable::cluster::Faults;

use super::super::instance::{Instance, Settings, now_us, wait_for_holders};
use super::super::scene::Scene;
use super::place;
use crate::common::faketime;
use crate::common::history::History;

const LEASE: Duration = Duration::from_secs(3);

/// A place for a history, and how its instances are started.
pub(super) fn scene(shards: u32) -> Option<(Scene, Settings)> {
    let settings = Settings { lease: LEASE, ..Settings::default() };
    Some((Scene::new(place()?, shards), settings))
}

pub(super) fn start<const N: usize>(scene: &Scene, settings: &Settings) -> [Instance; N] {
    std::array::from_fn(|_| Instance::start(scene, settings))
}

/// `TAKEOVERS` is how often, for measurements.
#[test]
fn what_a_killed_instance_had_to_do_another_does() {
    let rounds = std::env::var("TAKEOVERS").map_or(1, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        let Some((mut scene, mut settings)) = scene(4) else { return };
        settings.lease = Duration::from_secs(2);
        let [mut dies, mut lives] = start(&scene, &settings);
        wait_for_holders(scene.shards, &mut [&mut dies, &mut lives]);
        dies.schedule(200, 300, 4000);
        lives.schedule(200, 300, 4000);
        scene.starts.wait_for_those_of(&dies, 5);
        let killed_us = now_us();
        dies.kill();
        scene.wait_for_the_end();
        let history = scene.read();
        history.check();
        print_takeover(&history, &dies, killed_us, settings.lease);
    }
}

#[test]
fn a_timer_whose_handler_ends_its_process_each_time_is_a_dead_letter() {
    let Some((mut scene, mut settings)) = scene(1) else { return };
    settings.crashes = Some(3);
    let [mut first] = start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut first]);
    first.schedule_gated();
    scene.starts.wait_for_those_of(&first, 1);
    first.kill();
    // The first time was not noted, and these are.
    for _ in 0..3 {
        let [mut next] = start(&scene, &settings);
        scene.starts.wait_for_those_of(&next, 1);
        next.kill();
    }
    let [mut last] = start(&scene, &settings);
    scene.wait_for_the_end();
    assert_eq!(last.letters(), "letters the process ended during 3 attempts in a row");
    let history = scene.read();
    history.check();
    assert_eq!((history.starts.len(), history.instances().contains(&last.number)), (4, false));
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
    let Some((mut scene, settings)) = scene(6) else { return };
    let [mut first, mut second, mut third] = start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut first, &mut second, &mut third]);
    for instance in [&mut first, &mut second, &mut third] {
        instance.schedule(100, 300, 2500);
    }
    scene.starts.wait_for_those_of(&first, 5);
    first.kill();
    wait_for_holders(scene.shards, &mut [&mut second, &mut third]);
    let now_us = now_us();
    second.schedule(50, 0, 3000);
    let number = second.number;
    scene.starts.wait_for(5, |start| start.instance == number && start.at_us > now_us);
    second.kill();
    scene.wait_for_the_end();
    let history = scene.read();
    history.check();
    assert_eq!(history.instances().len(), 3);
}

#[test]
fn an_instance_that_was_held_up_comes_back_with_an_old_fence_and_does_no_harm() {
    let Some((mut scene, settings)) = scene(4) else { return };
    let [mut held_up, mut other] = start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut held_up, &mut other]);
    held_up.schedule(200, 300, 2500);
    other.schedule(200, 300, 2500);
    held_up.schedule_gated();
    scene.starts.wait_for_those_of(&held_up, 5);
    held_up.pause();
    other.go();
    // All but what only the handler that was held up could tell of.
    scene.wait_for_the_end();
    let went_on_us = now_us();
    held_up.go_on();
    held_up.go();
    // It is one of two again, and the fences are new.
    wait_for_holders(scene.shards, &mut [&mut held_up, &mut other]);
    held_up.schedule(50, 0, 200);
    scene.wait_for_the_end();
    let history = scene.read();
    history.check();
    let mut fences: [Vec<i64>; 2] = Default::default();
    for start in history.starts.iter().filter(|start| start.instance == held_up.number) {
        fences[usize::from(start.begun_us > went_on_us)].push(start.fence);
    }
    assert!(fences[0].iter().max() < fences[1].iter().min(), "{fences:?}");
}

#[test]
fn clocks_that_differ_make_nothing_early() {
    let Some((mut scene, settings)) = scene(4) else { return };
    let Some(library) = faketime::library() else {
        println!("SKIPPED: no process can be shown another time (Debian: libfaketime)");
        return;
    };
    let skewed = |seconds| Settings { skew: Some((seconds, library.clone())), ..settings.clone() };
    let mut ahead = Instance::start(&scene, &skewed(30));
    let mut behind = Instance::start(&scene, &skewed(-30));
    let mut right = Instance::start(&scene, &settings);
    assert!(ahead.is_ahead_of(now_us()) > 20.0);
    assert!(behind.is_ahead_of(now_us()) < -20.0);
    wait_for_holders(scene.shards, &mut [&mut ahead, &mut behind, &mut right]);
    for instance in [&mut ahead, &mut behind, &mut right] {
        instance.schedule(60, 200, 1000);
    }
    scene.starts.wait_for_those_of(&ahead, 5);
    ahead.kill();
    scene.wait_for_the_end();
    scene.read().check();
}

// === an instance that leaves something out ===

#[track_caller]
pub(super) fn assert_found(history: &History, complaint: &str) {
    let complaints = history.complaints();
    assert!(complaints.iter().any(|found| found.contains(complaint)), "{complaints:?}");
}

/// One shard, whose holder is held up in a handler until another has the shard and runs the same
/// handler. Then the first one goes on, and ends first.
fn held_up_in_a_handler(faults: Faults) -> Option<History> {
    let (mut scene, settings) = scene(1)?;
    let mut held_up = Instance::start(&scene, &Settings { faults, ..settings.clone() });
    wait_for_holders(scene.shards, &mut [&mut held_up]);
    held_up.schedule_gated();
    // Some of these are due when it goes on.
    held_up.schedule(20, 1500, 2500);
    scene.starts.wait_for_those_of(&held_up, 1);
    held_up.pause();
    let mut other = Instance::start(&scene, &settings);
    scene.starts.wait_for_those_of(&other, 1);
    held_up.go_on();
    if faults.ignores_lease {
        // Before its first write makes it notice.
        scene.starts.wait_for_those_of(&held_up, 2);
    }
    held_up.go();
    if faults.ignores_fence {
        // The other still runs the handler of the same timer.
        let is_stale = |history: &History| {
            let mut changes = history.changes.iter();
            changes.any(|change| !change.is_put && change.under < Some(change.fence))
        };
        while !is_stale(&scene.read()) {
            std::thread::yield_now();
        }
        return Some(scene.read());
    }
    scene.starts.wait_for_those_of(&other, 5);
    other.go();
    scene.wait_for_the_end();
    other.stop();
    Some(scene.read())
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
