//! The tests of the engine with several threads at once that may share a process: they run
//! optimized as well, and under both sanitizers. `apis.rs` has those of what is built on the
//! engine, `tests/README.md` the other programs.

mod dispatch {
    mod channel;
    mod doors;
    mod ends;
    mod full;
    mod inside;
    mod load;
    mod pool;
}
mod engine {
    mod collisions;
    mod driving;
    mod exactly_once;
    mod faults;
    mod groups;
    mod hooks;
    mod inside;
    mod known_races;
    mod methods;
    mod never_early;
    mod outlive;
    mod overdue;
    mod panics;
    mod reset;
    mod scan;
    mod seats;
    mod snapshot;
    mod stress;
    mod stuck;
    mod takeover;
    mod threads_end;
    mod view;
    mod walks;
}
mod future;
mod racing;
mod stop {
    mod backlog;
    mod cycles;
    mod driven;
    mod payloads;
    mod row;
    mod sleeps;
    mod within;
}
