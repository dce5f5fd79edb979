//! The tests of one thread at a time that may share a process: a program of many files, which
//! is built faster than many programs. `tests/README.md` has the other programs.
//!
//! A file of tests that counts what the whole process has or does (memory, threads, open files,
//! subscribers), forks, or uses the process's engine stands in `tests/memory` if it can wait for
//! its turn, or is a program of its own in `tests/alone`. (`future/sleep.rs` has one test of the
//! process's engine, which no other file here uses.)

mod bad_hash;
mod delay_queue {
    mod ends;
    mod expiry;
    mod items;
    mod live;
    mod wakes;
}
mod dispatch {
    mod dropped;
    mod own;
    mod rayon;
    mod runtimes;
    mod senders;
    mod tokio;
}
mod drive {
    mod attacks;
    mod busy;
    mod live;
    mod of_runtime;
    mod on_tokio;
    mod paused_time;
    mod steps;
}
mod engine {
    mod background;
    mod crowds;
    mod elsewhere;
    mod few;
    mod idle;
    mod late_turns;
    mod limits;
    mod never_early;
    mod order;
    mod precise;
    mod reset;
    mod rounds;
    mod scan;
    mod seats;
    mod size;
    mod slack;
    mod threads;
    mod virtual_time;
}
mod future {
    mod coop;
    mod ends;
    mod interval;
    mod limits;
    mod panics;
    mod paused;
    mod refused;
    mod sleep;
    mod stream;
    mod tasks;
    mod tokio;
    mod tokio_ticks;
    mod tower;
    mod wakers;
}
mod keyed {
    mod answers;
    mod ends;
    mod hook;
    mod keys;
    mod panics;
}
mod observe {
    mod json;
    mod metrics;
    mod stats;
    mod view;
}
mod on_runtime;
mod panicky;
mod periodic {
    mod panics;
    mod retry;
    mod retry_async;
    mod runs;
}
mod purgatory {
    mod answers;
    mod crowd;
    mod ends;
    mod keys;
    mod panics;
    mod reentry;
    mod waiting;
}
mod scope;
mod ttl {
    mod by_hand;
    mod ends;
    mod steps;
}
mod wait;
mod wall {
    mod ends;
    mod rig;
    mod timers;
}
