//! The tests of the inspector as its clients see it. (`races.rs` and `realtime.rs` are programs of
//! their own.)

mod ends;
mod replies;
