#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The models leave parts out, of which no user needs to know.
#![cfg_attr(docsrs, doc(auto_cfg(hide(loom, shuttle))))]

#[macro_use(debug, display)]
extern crate tickless_sync;

// 0
pub mod error;
pub mod os;
pub mod time;

// 1
pub mod entry;

// 2
pub mod dispatch;
pub mod doorbell;
pub mod inbox;
pub mod memory;
pub mod wheel;

// 3
pub mod shard;

// 4
pub mod producer;
pub mod reaper;

// One shard with both, for those who test them.
#[doc(hidden)]
pub mod bench;

// Below all floors.
use tickless_sync as sync;
