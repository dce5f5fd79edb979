//! What happens side by side, in one thread: calls and handlers in the middle of a step of the
//! writer, and steps in the middle of a handler.

use std::sync::{Arc, Mutex, MutexGuard};

use tickless_durable::store::Memory;
use tickless_durable::{
    ByHand, DeadLetter, Durable, Firing, Op, Position, Record, Store, StoreError,
};

use super::model::{Model, Plan, Step};

pub(crate) type Service = ByHand<Vec<u8>, Hooked>;
pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// A store with something that happens in the middle of a commit or of a reading.
pub(crate) struct Hooked {
    pub(crate) store: Memory,
    pub(crate) hooks: Arc<Mutex<Hooks>>,
    pub(crate) model: Arc<Mutex<Model>>,
}

#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) commit: Option<Hook>,
    pub(crate) scan: Option<Hook>,
}

impl Store for Hooked {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let result = self.store.commit(batch);
        if result.is_ok() {
            let mut model = self.model.lock().unwrap();
            model.durable = model.in_flight.take().expect("a batch is written");
        }
        let hook = self.hooks.lock().unwrap().commit.take();
        hook.into_iter().for_each(|hook| hook());
        result
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let result = self.store.scan(after, limit);
        let hook = self.hooks.lock().unwrap().scan.take();
        hook.into_iter().for_each(|hook| hook());
        result
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.store.dead_letters(after, limit)
    }
}

/// What calls and handlers need.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) model: Arc<Mutex<Model>>,
    /// Locked while the writer makes a step.
    pub(crate) service: Arc<Mutex<Option<Service>>>,
}

impl Shared {
    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    /// The handler.
    pub(crate) fn fire(&self, firing: &Firing<Vec<u8>>) -> Result<(), String> {
        let mut model = self.model();
        let (number, timer) = model.begin(firing);
        let timers = firing.timers();
        let result = match timer.plan {
            Plan::Succeed => Ok(()),
            Plan::Fail(times) if timer.attempt > times => Ok(()),
            Plan::Fail(_) => Err("on purpose".to_owned()),
            Plan::CancelItself => {
                model.cancel(timers, number, timer.id, Some(number));
                Err("cancelled".to_owned())
            }
            Plan::CancelKey(key) => {
                model.cancel_key(timers, key, Some(number));
                Ok(())
            }
            Plan::Replace(key) => {
                let due_ms = model.now_ms + 10;
                model.schedule(timers, due_ms, Some(key), Plan::Succeed);
                Err("replaced".to_owned())
            }
            Plan::Write { cancels } => {
                if cancels {
                    model.cancel(timers, number, timer.id, Some(number));
                }
                drop(model);
                self.write();
                model = self.model();
                Err("written".to_owned())
            }
        };
        model.finish(number, &result);
        result
    }

    /// A step of the writer, unless it is in the middle of one.
    pub(crate) fn write(&self) {
        let Ok(mut service) = self.service.try_lock() else { return };
        let snapshot = self.model().snapshot();
        service.as_mut().expect("a service is open").step().unwrap();
        self.model().written(snapshot);
    }

    /// What callers and workers do.
    pub(crate) fn call(&self, timers: &Durable, work: &(dyn Fn() -> bool + Send), step: &Step) {
        let mut model = self.model();
        match *step {
            Step::Schedule { due_in, key, plan } => {
                let due_ms = model.now_ms.checked_add_signed(due_in).unwrap();
                model.schedule(timers, due_ms, key, plan);
            }
            Step::Cancel(index) if model.scheduled > 0 => {
                let number = index.index(model.scheduled as usize) as u64;
                let id = model.told.alive.get(&number).map(|timer| timer.id);
                let Some(id) = id else { return };
                model.cancel(timers, number, id, None);
            }
            Step::CancelKey(key) => model.cancel_key(timers, key, None),
            Step::Work => {
                drop(model);
                work();
            }
            _ => {}
        }
    }
}
