//! Races that another library's timers met in the field, in real time.
//! (`tests/races/engine/known_races.rs` has the others.)

use std::sync::mpsc;
use std::time::Duration;

use support::patience::PATIENCE;
use support::random::Random;
use support::scaled;
use tickless::Engine;

const US: Duration = Duration::from_micros(1);

/// There: the number that stood for "nothing is armed" was armed, as a time in the past; the timer
/// fired at once, and did the same again.
#[test]
fn timers_that_never_come_wake_a_reaper_a_few_times_each() {
    let engine = Engine::builder().tick(20 * US).shards(1).build().unwrap();
    let (rounds, random) = (scaled(200), &mut Random::new(1001));
    let mut nevers = Vec::new();
    for _ in 0..rounds {
        // It is disarmed as it fires.
        let mut timer = engine.schedule(US * 60, || ()).unwrap();
        (0..random.below(4000)).for_each(|_| std::hint::spin_loop());
        if timer.reset(Duration::MAX).is_ok() {
            nevers.push(timer);
        }
        let (sender, fired) = mpsc::channel();
        engine.schedule_detached(US * 40, move || sender.send(()).unwrap()).unwrap();
        fired.recv_timeout(PATIENCE).expect("a timer is stranded");
    }
    // A few for each timer: when it is filed, when its bucket opens, and when it has moved.
    let wake_ups = engine.stats().wake_ups;
    assert!(wake_ups <= 10 + 10 * rounds, "{wake_ups} wake-ups");
    assert_eq!(engine.stop().unwrap().len(), nevers.len());
}
