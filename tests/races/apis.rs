//! The tests with several threads at once of what is built on the engine. The sanitizers run them
//! in the long run alone: the words that decide their races have models, which the gate runs under
//! ThreadSanitizer as well.

mod delay_queue;
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
mod scope;
mod ttl;
mod wait {
    mod futures;
    mod keys;
    mod races;
    mod repeating;
    mod scopes;
}
mod wall;
