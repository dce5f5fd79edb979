//! Which processors the server has, and which its load.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pins {
    all: CpuSet,
    server: CpuSet,
    load: CpuSet,
}

// === impl Pins ===

impl Pins {
    /// The first `workers` processors for the server, and the others for the load; all for both if
    /// there would be none for the load.
    pub(crate) fn of(workers: usize) -> io::Result<Pins> {
        let all = sched_getaffinity(None)?;
        let (mut server, mut load) = (CpuSet::new(), CpuSet::new());
        let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
        for (nth, cpu) in allowed.enumerate() {
            if nth < workers { server.set(cpu) } else { load.set(cpu) }
        }
        if load.count() == 0 {
            (server, load) = (all, all);
        }
        Ok(Pins { all, server, load })
    }

    /// Has `body` start processes that stay where the server belongs.
    pub(crate) fn as_server<R>(&self, body: impl FnOnce() -> R) -> io::Result<R> {
        self.on(&self.server, body)
    }

    /// The same for the load.
    pub(crate) fn as_load<R>(&self, body: impl FnOnce() -> R) -> io::Result<R> {
        self.on(&self.load, body)
    }

    /// Whether they keep out of each other's way.
    pub(crate) fn are_apart(&self) -> bool {
        self.server != self.load
    }

    /// How many the load has.
    pub(crate) fn for_load(&self) -> usize {
        self.load.count() as usize
    }

    /// What this thread starts meanwhile inherits its processors.
    fn on<R>(&self, cpus: &CpuSet, body: impl FnOnce() -> R) -> io::Result<R> {
        sched_setaffinity(None, cpus)?;
        let result = body();
        sched_setaffinity(None, &self.all)?;
        Ok(result)
    }
}

#[test]
fn server_and_load_share_processors_only_if_there_are_too_few() {
    let count = sched_getaffinity(None).unwrap().count() as usize;
    assert!(!Pins::of(count).unwrap().are_apart());
    if count > 1 {
        let pins = Pins::of(1).unwrap();
        assert!(pins.are_apart());
        assert_eq!(pins.for_load(), count - 1);
        let inside = pins.as_server(|| sched_getaffinity(None).unwrap().count()).unwrap();
        assert_eq!(inside, 1);
    }
    assert_eq!(sched_getaffinity(None).unwrap().count() as usize, count);
}
