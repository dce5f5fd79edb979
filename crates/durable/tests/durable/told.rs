//! What others do with the timers of a store that is shared, and when a service hears of it: also
//! in the middle of a reading, which has seen the store as it was before.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickless_durable::store::{Disk, Memory};
use tickless_durable::{
    Backoff, Builder, ByHand, Cancelled, DeadLetter, Durable, Firing, Op, Position, Record, Store,
    StoreError,
};

type Hook = Box<dyn FnOnce(&Durable<String>) + Send>;
type Slot = Arc<Mutex<Option<(Durable<String>, Hook)>>>;

/// A store during whose next reading something happens, or right after whose next commit.
struct Hooked {
    store: Memory,
    hook: Slot,
    commit_hook: Slot,
}

impl Store for Hooked {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let outcomes = self.store.commit(batch);
        if let Some((timers, hook)) = self.commit_hook.lock().unwrap().take() {
            hook(&timers);
        }
        outcomes
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
        self.store.dead_letters(after, limit)
    }
}

struct Scene {
    disk: Disk,
    service: ByHand<String, Hooked>,
    hook: Slot,
    commit_hook: Slot,
    fired: Receiver<String>,
}

fn at(due_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(due_ms)
}

/// A timer of another instance.
fn record(due_ms: u64, number: u64) -> Record {
    let payload = number.to_string().into_bytes();
    Record::new(Position { due_ms, number }, None, payload.into())
}

/// The letter of a timer that has failed, and what makes it.
fn dead_letter() -> (DeadLetter, [Op; 2]) {
    let failed = record(900, 7);
    let letter = DeadLetter::new(failed.clone(), "why");
    let bury = Op::Bury { from: failed.position, letter: Arc::new(letter.clone()) };
    (letter, [Op::Put(Arc::new(failed)), bury])
}

impl Scene {
    /// A service at the time 1000.
    fn new() -> Scene {
        let disk = Disk::default();
        let (hook, commit_hook) = (Slot::default(), Slot::default());
        let (theirs, commits) = (Arc::clone(&hook), Arc::clone(&commit_hook));
        let store = Hooked { store: disk.open(), hook: theirs, commit_hook: commits };
        let (sender, fired) = channel();
        let handler = move |firing: &Firing<String>| {
            sender.send(firing.payload().clone()).unwrap();
            if firing.payload() == "fails" { Err("on purpose") } else { Ok(()) }
        };
        let builder = Builder::new().backoff(Backoff::new(Duration::from_millis(100)));
        let service = builder.open_by_hand(store, at(1000), handler).unwrap();
        Scene { disk, service, hook, commit_hook, fired }
    }

    /// What happens when the next batch is durable, and the service does not know that yet.
    fn after_the_next_commit(&self, hook: impl FnOnce(&Durable<String>) + Send + 'static) {
        let timers = self.service.timers().clone();
        *self.commit_hook.lock().unwrap() = Some((timers, Box::new(hook)));
    }

    /// The next reading does not see what this does.
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

/// Also in the middle of a reading, and while one is due and waits for a handler.
#[test]
fn what_others_did_and_nobody_told_is_known_after_all_was_read_again() {
    let mut scene = Scene::new();
    let (five, six, seven) = (record(900, 5), record(1100, 6), record(1200, 7));
    for record in [&five, &six, &seven] {
        scene.disk.add(record.clone());
    }
    scene.service.step().unwrap();
    scene.disk.remove(five.position);
    scene.disk.remove(seven.position);
    scene.disk.add(record(1300, 8));
    scene.service.timers().read_again();
    let disk = scene.disk.clone();
    scene.during_the_next_scan(move |timers| {
        disk.remove(six.position);
        disk.add(record(1250, 9));
        timers.read_again();
    });
    assert_eq!(scene.fires_until(1400), ["9", "8"]);
    assert!(scene.disk.timers().is_empty());
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
fn a_dead_letter_that_another_instance_has_taken_out_is_not_revived() {
    let mut scene = Scene::new();
    scene.service.step().unwrap();
    let (letter, bury) = dead_letter();
    let from = record(900, 7).position;
    let lives = [
        Op::Forget(from),
        // Another instance revives it for another time.
        Op::Revive { from, to: Arc::new(record(1500, 7)) },
    ];
    for (others, fires) in lives.into_iter().zip([vec![], vec!["7"]]) {
        scene.disk.change(&bury);
        let revived = scene.service.timers().revive(&letter, at(1200));
        scene.disk.change(&[others]);
        scene.service.timers().look_again(at(1500));
        scene.service.step().unwrap();
        assert!(!revived.wait().unwrap());
        assert_eq!(scene.fires_until(1600), fires);
        assert!(scene.disk.timers().is_empty());
    }
}

/// Another instance takes all timers out that are there.
fn takes_all_out(disk: &Disk) -> impl FnOnce(&Durable<String>) + Send + 'static {
    let disk = disk.clone();
    move |timers| {
        let gone: Vec<Position> = disk.timers().iter().map(|record| record.position).collect();
        assert_eq!(gone.len(), 1);
        gone.iter().for_each(|position| disk.remove(*position));
        timers.are_gone(&gone);
    }
}

#[test]
fn a_new_timer_that_another_instance_takes_out_as_soon_as_it_is_durable_does_not_fire() {
    let mut scene = Scene::new();
    scene.service.step().unwrap();
    scene.after_the_next_commit(takes_all_out(&scene.disk));
    let ticket = scene.service.timers().schedule_keyed("k", at(1200), "new".to_owned()).unwrap();
    scene.service.step().unwrap();
    ticket.wait().unwrap();
    assert_eq!(scene.fires_until(1300), [""; 0]);
}

#[test]
fn a_timer_that_another_instance_takes_out_as_soon_as_it_is_put_off_does_not_fire_again() {
    let mut scene = Scene::new();
    let timers = scene.service.timers();
    drop(timers.schedule_keyed("k", at(1000), "fails".to_owned()).unwrap());
    scene.service.step().unwrap();
    assert!(scene.service.worker()(), "the first attempt");
    scene.after_the_next_commit(takes_all_out(&scene.disk));
    assert_eq!(scene.fires_until(2000), ["fails"]);
}

#[test]
fn a_timer_that_another_instance_takes_out_as_soon_as_it_is_noted_does_not_fire() {
    // It was due before the service was opened, and is of an earlier one.
    let mut scene = Scene::new();
    scene.disk.add(record(900, 7));
    scene.service.timers().look_again(at(900));
    scene.service.step().unwrap();
    let work = scene.service.worker();
    assert!(!work(), "first a note is written");
    scene.after_the_next_commit(takes_all_out(&scene.disk));
    scene.service.step().unwrap();
    while work() {}
    assert_eq!(scene.fires_until(1300), [""; 0]);
}

#[test]
fn a_letter_whose_timer_another_instance_takes_out_as_soon_as_it_is_revived_does_not_fire() {
    let mut scene = Scene::new();
    scene.service.step().unwrap();
    let (letter, bury) = dead_letter();
    scene.disk.change(&bury);
    scene.after_the_next_commit(takes_all_out(&scene.disk));
    let revived = scene.service.timers().revive(&letter, at(1200));
    scene.service.step().unwrap();
    assert!(revived.wait().unwrap());
    assert_eq!(scene.fires_until(1300), [""; 0]);
}

/// It is told where the timer is, and reads that one alone.
#[test]
fn a_timer_whose_place_is_told_fires_and_nothing_else_is_read() {
    let mut scene = Scene::new();
    (0..5).for_each(|n| scene.disk.add(record(1300 + n, n)));
    (0..3).for_each(|_| scene.service.step().unwrap());
    let before = scene.service.timers().stats().refills;
    let places = [record(1200, 7), record(5000, 8)].map(|added| {
        scene.disk.add(added.clone());
        added.position
    });
    scene.service.timers().are_there(&places);
    let nowhere = Position { due_ms: 1250, number: 9 };
    scene.service.timers().are_there(&[nowhere]);
    assert_eq!(scene.fires_until(1302), ["7", "0", "1", "2"]);
    assert_eq!(scene.service.timers().stats().refills, before);
    assert_eq!(scene.fires_until(5000), ["3", "4", "8"]);
}

/// In the middle of reading it, and of reading a page that has not seen it.
#[test]
fn a_timer_whose_place_is_told_is_neither_lost_nor_back_after_it_is_gone() {
    let mut scene = Scene::new();
    (0..3).for_each(|_| scene.service.step().unwrap());
    let (kept, gone) = (record(1200, 7), record(1210, 8));
    scene.disk.add(gone.clone());
    let (disk, place) = (scene.disk.clone(), gone.position);
    scene.during_the_next_scan(move |timers| {
        disk.remove(place);
        timers.are_gone(&[place]);
    });
    scene.service.timers().are_there(&[gone.position]);
    scene.service.step().unwrap();
    let (disk, added) = (scene.disk.clone(), kept.clone());
    scene.during_the_next_scan(move |timers| {
        disk.add(added.clone());
        timers.are_there(&[added.position]);
    });
    scene.service.timers().look_again(at(1100));
    assert_eq!(scene.fires_until(1400), ["7"]);
}

/// A sleep that completes twice: it is told of again and again, in each stage of its life. (The
/// next test has the other way to that.)
#[test]
fn a_timer_that_is_told_of_again_in_any_stage_fires_once() {
    let mut scene = Scene::new();
    let (service, timer) = (&mut scene.service, record(1200, 7));
    let timers = service.timers().clone();
    let tell = || {
        timers.are_there(&[timer.position]);
        timers.look_again(at(1200));
    };
    scene.disk.add(timer.clone());
    tell();
    (0..3).for_each(|_| service.step().unwrap());
    tell();
    service.step().unwrap();
    service.advance(Duration::from_millis(200));
    tell();
    service.step().unwrap();
    let work = service.worker();
    assert!(work(), "it is due");
    // Its handler is done, and its end is not written.
    tell();
    assert!(!work());
    // A reading sees it, and its end is written in the same step.
    service.step().unwrap();
    tell();
    assert_eq!(scene.fires_until(2000), ["7"]);
    assert!(scene.disk.timers().is_empty());
}

/// A sleep that completes twice, by its cancel and by its timer (issue 1029 of Restate).
#[test]
fn a_timer_that_is_cancelled_in_any_stage_is_cancelled_or_fires_and_not_both() {
    for stage in ["not due", "due", "running", "over and not written", "over"] {
        let (disk, told) = (Disk::default(), Arc::new(Mutex::new(None)));
        let fired = Arc::new(AtomicUsize::new(0));
        let (count, reply) = (fired.clone(), told.clone());
        let handler = move |firing: &Firing<String>| {
            count.fetch_add(1, Ordering::Relaxed);
            if firing.payload() == "running" {
                *reply.lock().unwrap() = Some(firing.timers().cancel(firing.id()));
            }
            Ok::<(), String>(())
        };
        let mut service = Builder::new().open_by_hand(disk.open(), at(1000), handler).unwrap();
        let timers = service.timers().clone();
        let ticket = timers.schedule(at(1200), stage.to_owned()).unwrap();
        service.step().unwrap();
        let id = ticket.wait().unwrap();
        let cancel = |now: &str| {
            if stage == now {
                *told.lock().unwrap() = Some(timers.cancel(id));
            }
        };
        cancel("not due");
        service.advance(Duration::from_millis(300));
        cancel("due");
        let work = service.worker();
        while work() {}
        cancel("over and not written");
        service.step().unwrap();
        cancel("over");
        for _ in 0..4 {
            service.step().unwrap();
            while work() {}
        }
        let reply = told.lock().unwrap().take().expect("it was cancelled");
        let (cancelled, fired) = (reply.wait().unwrap(), fired.load(Ordering::Relaxed));
        assert_eq!(fired, usize::from(cancelled != Cancelled::Cancelled), "{stage}: {cancelled:?}");
        assert!(disk.timers().is_empty(), "{stage}");
    }
}

/// Not all timers fire where more are due than fit into memory (issue 427 of Restate, whose test
/// had room for one).
#[test]
fn a_thousand_timers_fire_where_one_fits_into_memory() {
    let disk = Disk::default();
    let (sender, fired) = channel();
    let handler = move |firing: &Firing<String>| sender.send(firing.payload().clone());
    let builder = Builder::new().window(1).linger(Duration::ZERO);
    let timers = builder.open(disk.open(), handler).unwrap();
    let now = SystemTime::now();
    for n in 0..1000_u64 {
        // In no order, so that some are due before the one that is in memory.
        let due = now + Duration::from_millis(n * 7919 % 500);
        drop(timers.schedule(due, n.to_string()).unwrap());
    }
    let all: BTreeSet<String> = (0..1000).map(|_| fired.recv().expect("they fire")).collect();
    assert_eq!(all.len(), 1000, "each fires once");
    timers.stop().unwrap();
    assert!(disk.timers().is_empty() && fired.try_recv().is_err());
}

/// A missed wake-up: a service sleeps for a timer of an hour later, or for nothing, and an earlier
/// one comes at any moment of its falling asleep.
#[test]
fn an_earlier_timer_wakes_a_service_that_sleeps_for_a_later_one() {
    let disk = Disk::default();
    let (sender, fired) = channel();
    let handler = move |firing: &Firing<String>| sender.send(firing.payload().clone());
    let timers = Builder::new().open(disk.open(), handler).unwrap();
    let hour = Duration::from_secs(3600);
    for round in 0..200 {
        let later = timers.schedule(SystemTime::now() + hour, "later".to_owned()).unwrap();
        if round % 2 == 0 {
            later.wait().unwrap();
        }
        let soon = SystemTime::now() + Duration::from_millis(round % 5);
        if round % 3 == 0 {
            // Somebody else's, of which it is told.
            let due_ms = soon.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            let other =
                Record { payload: "soon".as_bytes().into(), ..record(due_ms, 1 << 50 | round) };
            disk.add(other.clone());
            timers.are_there(&[other.position]);
        } else {
            drop(timers.schedule(soon, "soon".to_owned()).unwrap());
        }
        assert_eq!(fired.recv().expect("it fires"), "soon", "in round {round}");
        timers.cancel(later.id()).wait().unwrap();
    }
    timers.stop().unwrap();
}

/// At most so many expiries at a time (pull request 1657 of TigerBeetle): as many of a backlog
/// are in memory as the window has, and as many run as there are workers. All of them fire.
#[test]
fn a_backlog_is_taken_in_portions() {
    let disk = Disk::default();
    (1..=2000).for_each(|n| disk.add(record(n / 10, n)));
    let (sender, fired) = channel();
    let running = Arc::new(AtomicUsize::new(0));
    let handler = move |firing: &Firing<String>| {
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        let near = firing.timers().stats().near;
        sender.send((now, near, firing.payload().clone())).unwrap();
        running.fetch_sub(1, Ordering::SeqCst);
        Ok::<(), String>(())
    };
    let builder = Builder::new().window(64).workers(3);
    let timers = builder.open(disk.open(), handler).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..2000 {
        let (now, near, payload) = fired.recv().expect("all of them fire");
        assert!(now <= 3 && near <= 64, "{now} run, {near} are in memory");
        assert!(seen.insert(payload), "each fires once");
    }
    timers.stop().unwrap();
    assert!(disk.timers().is_empty() && fired.try_recv().is_err());
}
