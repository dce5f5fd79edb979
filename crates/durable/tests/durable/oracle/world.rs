//! A run: a disk, a service on it, and the model beside it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use tickless_durable::store::{Disk, Fault};
use tickless_durable::{Backoff, Builder, Durable, Firing, Store};

use super::model::{ATTEMPTS, GRAIN_MS, Model, PAUSE_MS, Step, Timer, number_of};
use super::shared::{Hook, Hooked, Hooks, Service, Shared};

pub(crate) struct World {
    disk: Disk,
    shared: Shared,
    hooks: Arc<Mutex<Hooks>>,
    window: usize,
    span: Duration,
}

impl World {
    pub(crate) fn new(window: usize, span_ms: u64) -> World {
        let world = World {
            disk: Disk::default(),
            shared: Shared { model: Arc::default(), service: Arc::default() },
            hooks: Arc::default(),
            window,
            span: Duration::from_millis(span_ms),
        };
        world.model().now_ms = 1_000_000;
        world.open();
        world
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.shared.model()
    }

    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut Service) -> T) -> T {
        call(self.shared.service.lock().unwrap().as_mut().expect("a service is open"))
    }

    fn timers(&self) -> Durable {
        self.with(|service| service.timers().clone())
    }

    fn worker(&self) -> Box<dyn Fn() -> bool + Send> {
        Box::new(self.with(|service| service.worker()))
    }

    fn open(&self) {
        let now = {
            let mut model = self.model();
            model.process += 1;
            model.opened_ms = model.now_ms;
            UNIX_EPOCH + Duration::from_millis(model.now_ms)
        };
        *self.hooks.lock().unwrap() = Hooks::default();
        let store = Hooked {
            store: self.disk.open(),
            hooks: self.hooks.clone(),
            model: self.shared.model.clone(),
        };
        let shared = self.shared.clone();
        let service = Builder::new()
            .window(self.window)
            .span(self.span)
            .attempts(ATTEMPTS)
            // So many that no timer becomes a dead letter because of them.
            .crashes(1000)
            .backoff(Backoff::new(Duration::from_millis(PAUSE_MS)).factor(1.0))
            .open_by_hand(store, now, move |firing: &Firing<Vec<u8>>| {
                // The service would take a panic for a failed attempt.
                let fired = catch_unwind(AssertUnwindSafe(|| shared.fire(firing)));
                fired.unwrap_or_else(|panic| {
                    let mut model = shared.model.lock().unwrap_or_else(PoisonError::into_inner);
                    let text = panic.downcast::<String>().expect("it has a text");
                    model.violation.get_or_insert(*text);
                    Err("a violation".to_owned())
                })
            });
        *self.shared.service.lock().unwrap() = Some(service.unwrap());
    }

    /// Handles all that is due, and sees that nothing is left out.
    fn drain(&self) {
        let (timers, work) = (self.timers(), self.worker());
        loop {
            let before = timers.stats();
            self.shared.write();
            self.with(|service| service.set_wall(service.now()));
            while work() {}
            if timers.stats() == before {
                break;
            }
        }
        let model = self.model();
        let is_late = |timer: &&Timer| timer.due_ms + GRAIN_MS <= model.now_ms;
        let late: Vec<&Timer> = model.durable.alive.values().filter(is_late).collect();
        assert!(late.is_empty(), "at {} these have not fired: {late:?}", model.now_ms);
    }

    fn die(&self, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.disk.fail_next(fault);
            let timers = self.timers();
            // A batch without anything in it is not written.
            drop(self.model().snapshot());
            let result = self.with(|service| service.step());
            if result.is_ok() || fault == Fault::Kept {
                let mut model = self.model();
                model.durable = model.told.clone();
            }
            if result.is_err() {
                assert!(timers.failure().is_some());
                assert!(timers.schedule(UNIX_EPOCH, vec![]).is_err());
                assert!(!self.worker()());
            }
        }
        self.model().died();
        self.open();
    }

    pub(crate) fn run(&self, step: &Step) {
        match step {
            Step::Advance(ms) => {
                self.model().now_ms += ms;
                self.with(|service| service.advance(Duration::from_millis(*ms)));
            }
            Step::AdvanceEngine(ms) => {
                self.with(|service| service.advance_engine(Duration::from_millis(*ms)));
            }
            Step::SetWall(by) => {
                let mut model = self.model();
                model.now_ms = model.now_ms.checked_add_signed(*by).unwrap();
                let now = UNIX_EPOCH + Duration::from_millis(model.now_ms);
                drop(model);
                self.with(|service| service.set_wall(now));
            }
            Step::Write { commits, meanwhile } => {
                let (shared, meanwhile) = (self.shared.clone(), meanwhile.clone());
                let (timers, work) = (self.timers(), self.worker());
                let hook: Hook = Box::new(move || {
                    meanwhile.iter().for_each(|step| shared.call(&timers, &work, step));
                });
                {
                    let mut hooks = self.hooks.lock().unwrap();
                    let place = if *commits { &mut hooks.commit } else { &mut hooks.scan };
                    *place = Some(hook);
                }
                self.shared.write();
                *self.hooks.lock().unwrap() = Hooks::default();
            }
            Step::Drain => self.drain(),
            Step::Die(fault) => self.die(*fault),
            Step::Reopen => {
                let service = self.shared.service.lock().unwrap().take();
                let snapshot = self.model().snapshot();
                drop(service.expect("a service is open").stop().unwrap());
                self.model().written(snapshot);
                self.open();
            }
            call => self.shared.call(&self.timers(), &self.worker(), call),
        }
        let violation = self.shared.model.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(violation.violation, None);
    }

    /// Waits for everything, and sees that all of it is over.
    pub(crate) fn end(&self) {
        for _ in 0..30 {
            self.run(&Step::Advance(200));
            self.run(&Step::Drain);
            if self.disk.timers().is_empty() {
                break;
            }
        }
        let timers = self.disk.timers();
        assert!(timers.is_empty(), "left in the store: {timers:?}");
        let model = self.model();
        assert!(model.told.alive.is_empty(), "left in the model: {:?}", model.told);
        let letters = self.disk.open().dead_letters(None, usize::MAX).unwrap();
        let dead = letters.iter().map(|letter| number_of(&letter.record.payload));
        assert_eq!(dead.collect::<BTreeSet<_>>(), model.durable.dead);
    }
}
