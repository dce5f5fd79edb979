//! The models of all files in one program, which is built much faster than a program for each: the
//! engine for the payloads that they share is compiled once. Each file is a program of its own as
//! well, for those who name it (`ci/loom.sh --test doorbell`).

mod asymmetric;
mod block;
mod bucket_arm;
mod bucket_push;
mod bucket_read;
mod cancel_fire;
mod closable;
mod counters;
mod crowd;
mod depot;
mod dismantle;
mod doorbell;
mod ending;
mod freed;
mod heartbeat;
mod hold;
mod keyed;
mod latch;
mod lead;
mod listener;
mod parked;
mod published;
mod queue;
mod release;
mod reset_fire;
mod revoke;
mod scan;
mod seat;
mod shard;
mod spin;
mod stop;
mod suspended;
mod sweep;
mod takeover;
mod tray;
mod twin;
mod waker;
