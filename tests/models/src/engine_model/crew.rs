//! Threads that do one thing at a time, when asked: several producers, and yet one order.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// The calling thread, as number zero, and its helpers.
#[derive(Debug)]
pub(crate) struct Crew {
    helpers: Vec<Helper>,
}

#[derive(Debug)]
struct Helper {
    /// Gone when the helper is to end.
    jobs: Option<Sender<Job>>,
    ends: Receiver<thread::Result<()>>,
    thread: Option<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce() + Send>;

// === impl Crew ===

impl Crew {
    pub(crate) fn new(helpers: usize) -> Crew {
        Crew { helpers: (0..helpers).map(|_| Helper::new()).collect() }
    }

    /// Has a thread do `job` and waits for it.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        thread: u8,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        let Some(at) = self.helper(thread) else { return job() };
        let (answer, answers) = channel();
        self.helpers[at].ask(Box::new(move || answer.send(job()).expect("the asker waits")));
        answers.recv().expect("it was answered before the job ended")
    }

    /// Ends a thread, with all that it keeps, and begins another.
    pub(crate) fn replace(&mut self, thread: u8) {
        if let Some(at) = self.helper(thread) {
            // The old one first, so that the new one finds what it left.
            self.helpers[at].end();
            self.helpers[at] = Helper::new();
        }
    }

    fn helper(&self, thread: u8) -> Option<usize> {
        (usize::from(thread) % (self.helpers.len() + 1)).checked_sub(1)
    }
}

// === impl Helper ===

impl Helper {
    fn new() -> Helper {
        let (jobs, work) = channel::<Job>();
        let (done, ends) = channel();
        let thread = thread::spawn(move || {
            for job in work {
                let result = catch_unwind(AssertUnwindSafe(job));
                done.send(result).expect("whoever asked waits");
            }
        });
        Helper { jobs: Some(jobs), ends, thread: Some(thread) }
    }

    fn ask(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("it has not ended");
        jobs.send(job).expect("a helper lives until it is ended");
        if let Err(panic) = self.ends.recv().expect("a helper answers") {
            resume_unwind(panic);
        }
    }

    fn end(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a helper catches what its jobs panic with");
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}
