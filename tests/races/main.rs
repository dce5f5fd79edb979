//! The tests with several threads at once that may share a process: they run optimized as well, and
//! under ThreadSanitizer. `tests/README.md` has the other programs.

mod delay_queue;
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
    mod slow_tasks;
    mod snapshot;
    mod stress;
    mod stuck;
    mod takeover;
    mod threads_end;
    mod view;
    mod walks;
}
mod future;
mod keyed {
    mod foreign;
    mod races;
}
mod periodic {
    mod ends;
    mod heartbeat;
    mod races;
}
mod purgatory;
mod racing;
mod scope;
mod stop {
    mod backlog;
    mod cycles;
    mod driven;
    mod payloads;
    mod row;
    mod sleeps;
    mod within;
}
mod ttl;
mod wait {
    mod futures;
    mod keys;
    mod races;
    mod repeating;
    mod scopes;
}
mod wall;
