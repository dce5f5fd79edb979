//! Bugs on purpose. Each is made with the engine's own parts, by somebody who does not keep to
//! what they ask for, so that a sanitizer that reports it is known to see into them.
//!
//! `canary BUG` has the bug of that name; `canary nothing` does the same things as they ought to
//! be done. `ci/asan.sh` and `ci/tsan.sh` run those of their kind before they run the tests, and
//! fail unless each is reported as what it is.

mod memory;
mod races;
mod walk;

use std::env;
use std::process::ExitCode;

/// Each bug by its name.
const BUGS: [(&str, fn()); 9] = [
    ("use-after-free", memory::use_after_free),
    ("out-of-bounds", memory::out_of_bounds),
    ("double-free", memory::double_free),
    ("leak", memory::leak),
    ("circle", memory::circle),
    ("plain-access", races::plain_access),
    ("relaxed-publication", races::relaxed_publication),
    ("two-owners", races::two_owners),
    ("nothing", nothing),
];

fn main() -> ExitCode {
    let name = env::args().nth(1).unwrap_or_default();
    let Some((_, bug)) = BUGS.iter().find(|(known, _)| *known == name) else {
        eprintln!("canary: one of {:?}", BUGS.map(|(name, _)| name));
        return ExitCode::from(2);
    };
    bug();
    ExitCode::SUCCESS
}

fn nothing() {
    memory::nothing();
    races::nothing();
}
