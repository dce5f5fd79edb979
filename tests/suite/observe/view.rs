//! A view shows what its engine does, as long as somebody has the engine, and keeps nothing alive.

use std::sync::Arc;
use std::time::Duration;

use support::mpsc;
use tickless::{Builder, Engine, ManualClock, View};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

#[test]
fn its_numbers_are_those_of_the_engine() {
    let clock = ManualClock::new();
    let builder = Builder::new().shards(2).manual_clock(&clock).name("tea");
    let engine = builder.build_each(|_: u64| ()).unwrap();
    for shard in [0, 1] {
        engine.bind_thread(shard).unwrap();
        for delay in [5 * MS, 10 * MS, HOUR] {
            engine.schedule_detached(delay, 1).unwrap();
        }
    }
    clock.advance(8 * MS);
    for shard in [0, 1] {
        assert_eq!(engine.turn(shard).unwrap().fired, 1);
    }
    clock.advance(8 * MS);
    let view = engine.view().clone();
    assert_eq!(view.stats(), Some(engine.stats()));
    assert_eq!(view.overdue(), Some(engine.overdue()));
    assert_eq!(view.overdue().unwrap().shards, 2);
    assert_eq!(view.snapshot().unwrap().by_shard(), engine.snapshot().by_shard());
    // One on each shard, 3 ms late, and 6.25 % at most are added.
    let latenesses = view.latenesses().unwrap();
    assert_eq!(latenesses, engine.latenesses());
    let [(bound, timers)] = Vec::from_iter(latenesses)[..] else { panic!("of one lateness") };
    assert!((3 * MS..=Duration::from_micros(3188)).contains(&bound), "{bound:?}");
    assert_eq!((timers, engine.name()), (2, "tea"));
}

#[test]
fn a_stopped_engine_is_still_seen_and_one_that_is_gone_is_not() {
    let (sender, dropped) = mpsc::channel::<()>();
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    engine.schedule_detached(HOUR, move || drop(sender)).unwrap();
    let view = engine.view();
    let of_clone = engine.clone();
    drop(engine);
    assert_eq!(of_clone.stop().unwrap().len(), 1);
    assert_eq!(view.stats().unwrap().returned, 1);
    drop(of_clone);
    assert_eq!(dropped.recv(), Err(mpsc::RecvError), "it does not keep the engine");
    assert!(view.stats().is_none() && view.overdue().is_none() && view.snapshot().is_none());
    assert!(view.latenesses().is_none());
}

#[test]
fn an_engine_whose_callback_owns_a_view_of_it_ends() {
    struct Told(View, mpsc::Sender<bool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.1.send(self.0.stats().is_none()).unwrap();
        }
    }
    let owned = Arc::new(Mutex::new(None::<Told>));
    let of_callback = owned.clone();
    let engine = Engine::builder()
        .shards(1)
        .manual_clock(&ManualClock::new())
        .on_panic(move |_| drop(of_callback.lock().unwrap().take()))
        .build()
        .unwrap();
    let (sender, ended) = mpsc::channel();
    *owned.lock().unwrap() = Some(Told(engine.view(), sender));
    drop(owned);
    drop(engine);
    assert_eq!(ended.recv(), Ok(true), "the callback was dropped, and the engine was gone by then");
}
