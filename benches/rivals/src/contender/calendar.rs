//! What firing costs without a timer: each tick has a vector of tokens, and a thread sleeps from
//! tick to tick and runs them. Nothing can be cancelled, and nothing may be far away.

use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::kind::Workload;
use crate::machine::clock;
use crate::sink;

/// Ticks that the calendar reaches ahead: six seconds at least.
const TICKS: u64 = 1 << 16;

/// The pseudo-contender.
#[derive(Debug)]
pub(crate) struct Calendar {
    pages: Arc<Pages>,
}

#[derive(Debug)]
struct Pages {
    tick_ns: u64,
    /// The first tick whose page was not read yet. It moves on under the lock of the page before.
    next: AtomicU64,
    pages: Box<[Mutex<Vec<u64>>]>,
}

impl Contender for Calendar {
    const NAME: &'static str = "floor-calendar";
    const ABOUT: &'static str = "a vector of tasks per tick, and a thread that runs them";
    const HAS_TICK: bool = true;

    type Timer = ();
    type Producer = Calendar;

    fn lacks(workload: Workload) -> Option<&'static str> {
        let is_able = matches!(workload, Workload::FireAll | Workload::Steady);
        (!is_able).then_some("a floor for fire-all and steady only")
    }

    fn start(setup: Setup) -> Result<Calendar, BenchError> {
        let pages = Arc::new(Pages {
            tick_ns: clock::ns(setup.tick),
            next: AtomicU64::new(0),
            pages: (0..TICKS).map(|_| Mutex::default()).collect(),
        });
        let of_reader = pages.clone();
        thread::spawn(move || of_reader.run());
        Ok(Calendar { pages })
    }

    fn producer(&self) -> Calendar {
        Calendar { pages: self.pages.clone() }
    }
}

impl Pages {
    /// Until the process ends, which is one measurement.
    fn run(&self) {
        let mut tick = clock::now_ns() / self.tick_ns;
        loop {
            while tick * self.tick_ns <= clock::now_ns() {
                let mut page = self.page(tick).lock().expect("nothing panics here");
                let tokens = mem::take(&mut *page);
                self.next.store(tick + 1, Ordering::Relaxed);
                drop(page);
                tokens.into_iter().for_each(sink::fire);
                tick += 1;
            }
            let left_ns = (tick * self.tick_ns).saturating_sub(clock::now_ns());
            thread::sleep(Duration::from_nanos(left_ns));
        }
    }

    fn page(&self, tick: u64) -> &Mutex<Vec<u64>> {
        &self.pages[(tick % TICKS) as usize]
    }
}

impl Producer for Calendar {
    type Timer = ();

    #[inline]
    fn schedule(&mut self, _: Pin<&mut ()>, delay: Duration, token: u64) {
        let Pages { tick_ns, next, .. } = &*self.pages;
        let mut tick = (clock::now_ns() + clock::ns(delay)).div_ceil(*tick_ns);
        loop {
            let mut page = self.pages.page(tick).lock().expect("nothing panics here");
            // The system may have kept this thread from running until its page was read.
            let first = next.load(Ordering::Relaxed);
            if tick >= first {
                return page.push(token);
            }
            tick = first;
        }
    }

    fn cancel(&mut self, _: Pin<&mut ()>) -> bool {
        true
    }
}
