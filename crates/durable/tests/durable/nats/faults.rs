//! Instances and servers that die, instances that are held up, and whose clocks are wrong.

#[path = "../shared/faults.rs"]
mod suite;

use std::collections::BTreeSet;
use std::time::Duration;

use super::instance::{Instance, Settings, now_us, wait_for_holders};
use super::scene::Scene;
use super::server::{Servers, on_three as place};
use suite::{scene, start};

#[test]
fn an_instance_that_was_held_up_while_it_wrote_does_not_keep_its_shard() {
    let Some((mut scene, settings)) = scene(1) else { return };
    let mut held_up = Instance::start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut held_up]);
    // It is stopped somewhere in the middle of these, and none is due: a handler that is stopped
    // before its first instruction begins under an old fence.
    held_up.begin_to_schedule(5000, 5000, 0);
    while scene.left().is_empty() {
        std::thread::yield_now();
    }
    held_up.pause();
    let mut other = Instance::start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut other]);
    held_up.go_on();
    held_up.has_done();
    scene.wait_for_the_end();
    scene.read().check();
}

// === servers ===

/// Kills servers while two instances work, one after another, and each time the one that leads the
/// log of a shard. It is there again before the next one dies.
#[test]
fn servers_that_die_lose_nothing() {
    let Some(mut servers) = Servers::start(3) else { return };
    let mut scene = Scene::new(servers.place(), 3);
    let settings = Settings { lease: Duration::from_secs(6), ..Settings::default() };
    let [mut one, mut other] = start(&scene, &settings);
    wait_for_holders(scene.shards, &mut [&mut one, &mut other]);
    for shard in 0..2 {
        // From another time on than before, which makes other keys: none replaces an earlier one.
        one.begin_to_schedule(300, shard, 3000);
        other.begin_to_schedule(300, shard, 3000);
        let before = now_us();
        scene.starts.wait_for(20, |start| start.at_us > before);
        let leader = servers.leader(&format!("tickless_{}_{shard}", scene.place.name));
        let leader = leader.unwrap_or(usize::try_from(shard).unwrap() % servers.count());
        servers.kill(leader);
        one.has_done();
        other.has_done();
        servers.restart(leader);
    }
    scene.wait_for_the_end();
    let history = scene.read();
    history.check();
    let timers: BTreeSet<&str> = history.starts.iter().map(|start| &*start.timer).collect();
    assert!(timers.len() >= 1200, "{}", timers.len());
}
