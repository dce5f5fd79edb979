//! What others do with the timers of a store that is shared, and when a service hears of it: also
//! in the middle of a reading, which has seen the store as it was before.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickless_durable::store::{Disk, Memory};
use tickless_durable::{
    Builder, ByHand, DeadLetter, Durable, Firing, Op, Position, Record, Store, StoreError,
};

type Hook = Box<dyn FnOnce(&Durable<String>) + Send>;
type Slot = Arc<Mutex<Option<(Durable<String>, Hook)>>>;

/// A store during whose next reading something happens.
struct Hooked {
    store: Memory,
    hook: Slot,
}

impl Store for Hooked {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        self.store.commit(batch)
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let found = self.store.scan(after, limit);
        if let Some((timers, hook)) = self.hook.lock().unwrap().take() {
            hook(&timers);
        }
        found
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let found = self.store.dead_letters(after, limit);
        if let Some((timers, hook)) = self.hook.lock().unwrap().take() {
            hook(&timers);
        }
        found
    }
}

struct Scene {
    disk: Disk,
    service: ByHand<String, Hooked>,
    hook: Slot,
    fired: Receiver<String>,
}

fn at(due_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(due_ms)
}

/// A timer of another instance.
fn record(due_ms: u64, number: u64) -> Record {
    Record {
        position: Position { due_ms, number },
        first_due_ms: due_ms,
        attempt: 1,
        crashes: 0,
        key: None,
        payload: number.to_string().into_bytes().into(),
    }
}

impl Scene {
    /// A service at the time 1000.
    fn new() -> Scene {
        let (disk, hook) = (Disk::default(), Arc::default());
        let store = Hooked { store: disk.open(), hook: Arc::clone(&hook) };
        let (sender, fired) = channel();
        let handler = move |firing: &Firing<String>| sender.send(firing.payload().clone());
        let service = Builder::new().open_by_hand(store, at(1000), handler).unwrap();
        Scene { disk, service, hook, fired }
    }

    /// The next reading, of timers or of dead letters, does not see what this does.
    fn during_the_next_scan(&self, hook: impl FnOnce(&Durable<String>) + Send + 'static) {
        let timers = self.service.timers().clone();
        *self.hook.lock().unwrap() = Some((timers, Box::new(hook)));
    }

    /// What fires until then.
    fn fires_until(&mut self, due_ms: u64) -> Vec<String> {
        let work = self.service.worker();
        for _ in 0..4 {
            self.service.step().unwrap();
        }
        let left = at(due_ms).duration_since(self.service.now()).unwrap();
        self.service.advance(left);
        for _ in 0..4 {
            while work() {}
            self.service.step().unwrap();
        }
        self.fired.try_iter().collect()
    }
}

#[test]
fn a_timer_of_another_instance_that_is_due_earlier_fires() {
    let mut scene = Scene::new();
    scene.service.step().unwrap();
    scene.disk.add(record(1200, 7));
    scene.service.timers().look_again(at(1200));
    assert_eq!(scene.fires_until(1200), ["7"]);
}

#[test]
fn a_timer_that_comes_in_the_middle_of_a_reading_fires() {
    let mut scene = Scene::new();
    let disk = scene.disk.clone();
    scene.during_the_next_scan(move |timers| {
        disk.add(record(1200, 7));
        timers.look_again(at(1200));
    });
    assert_eq!(scene.fires_until(1200), ["7"]);
}

#[test]
fn a_timer_that_comes_while_an_earlier_one_is_read_fires() {
    let mut scene = Scene::new();
    scene.service.step().unwrap();
    scene.disk.add(record(1100, 5));
    scene.service.timers().look_again(at(1100));
    let disk = scene.disk.clone();
    scene.during_the_next_scan(move |timers| {
        disk.add(record(1200, 7));
        timers.look_again(at(1200));
    });
    assert_eq!(scene.fires_until(1200), ["5", "7"]);
    assert!(scene.disk.timers().is_empty());
}

#[test]
fn a_timer_that_another_instance_takes_out_in_the_middle_of_a_reading_does_not_fire() {
    let mut scene = Scene::new();
    let (five, seven) = (record(1100, 5), record(1200, 7));
    scene.disk.add(five.clone());
    scene.disk.add(seven.clone());
    let disk = scene.disk.clone();
    scene.during_the_next_scan(move |timers| {
        disk.remove(seven.position);
        timers.are_gone(&[seven.position]);
    });
    assert_eq!(scene.fires_until(1300), ["5"]);
    // One that the window has by then is forgotten as well.
    scene.disk.add(record(1400, 8));
    scene.service.timers().look_again(at(1400));
    scene.service.step().unwrap();
    scene.disk.remove(record(1400, 8).position);
    scene.service.timers().are_gone(&[record(1400, 8).position]);
    assert_eq!(scene.fires_until(1500), [""; 0]);
}

#[test]
fn a_dead_letter_that_another_instance_takes_out_in_the_middle_is_not_revived() {
    let mut scene = Scene::new();
    scene.service.step().unwrap();
    let failed = record(900, 7);
    let letter = DeadLetter::new(failed.clone(), "why");
    let bury = Op::Bury { from: failed.position, letter: Arc::new(letter.clone()) };
    let lives = [
        Op::Forget(failed.position),
        // Another instance revives it for another time.
        Op::Revive { from: failed.position, to: Arc::new(record(1500, 7)) },
    ];
    for (others, fires) in lives.into_iter().zip([vec![], vec!["7"]]) {
        scene.disk.change(&[Op::Put(Arc::new(failed.clone())), bury.clone()]);
        let disk = scene.disk.clone();
        scene.during_the_next_scan(move |timers| {
            disk.change(&[others]);
            timers.look_again(at(1500));
        });
        let revived = scene.service.timers().revive(&letter, at(1200));
        for _ in 0..4 {
            scene.service.step().unwrap();
        }
        assert!(!revived.wait().unwrap());
        assert_eq!(scene.fires_until(1600), fires);
        assert!(scene.disk.timers().is_empty());
    }
}
