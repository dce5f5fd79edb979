//! Something that threads of a body wait for.

use std::sync::Arc;

use tickless_sync::{Condvar, Mutex, wait};

/// Something that threads wait for. It comes once.
#[derive(Debug)]
pub struct Event {
    has_come: Mutex<bool>,
    bell: Condvar,
}

impl Event {
    /// It has not come yet.
    pub fn new() -> Arc<Event> {
        Arc::new(Event { has_come: Mutex::new(false), bell: Condvar::new() })
    }

    /// It comes.
    pub fn comes(&self) {
        *self.has_come.lock().expect("nothing panics under this lock") = true;
        self.bell.notify_all();
    }

    /// Waits until it has come.
    pub fn wait(&self) {
        let mut has_come = self.has_come.lock().expect("nothing panics under this lock");
        while !*has_come {
            has_come = wait(&self.bell, &self.has_come, has_come);
        }
    }
}
