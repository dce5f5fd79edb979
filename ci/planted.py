#!/usr/bin/env python3
"""Shows that the gate can fail: plants one fault at a time into a copy of the tree, and runs the stage
that should notice.

    ci/planted.py [--check] [part of a name]...

A fault whose stage passes, or fails for another reason, is reported as MISSED, and the exit status is 1.
(That each model can fail is for loom-tests/mutants.py, and that tests can, for ci/mutants.sh.)
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "planted"

# What is wrong: the stage, what it says then, the file, and a change of its text.
FAULTS = {
    "a line is too far to the right": (
        "fmt", "Diff in .*lib.rs", "src/lib.rs", "pub use ", "    pub use "),
    "an idle reaper looks around 20 times a second": (
        "realtime", "FAIL.* (idle|wakes)", "crates/core/src/os/alarm.rs", "return self.take_notes(None)",
        "return self.take_notes(Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }))"),
    "a deadline may be a nanosecond after its tick: an early fire": (
        "test", "panicked at tests/.*", "crates/core/src/time/scale.rs", "(deadline_ns + (self.tick_ns - 1))", "(deadline_ns + (self.tick_ns - 2))"),
    "the README names a package that there is not": (
        "test", "the_commands_of_the_readmes.* FAILED", "README.md", "cargo run --release -p tickless-demo\n", "cargo run --release -p demo\n"),
    "a test is in no program": (
        "test", "stress.rs", "tests/races/main.rs", "    mod stress;\n", ""),
    "a push publishes nothing: a weakened ordering": (
        "loom", "(FAIL|SIGABRT) .* loom-tests", "crates/core/src/inbox/stack.rs", "node.as_ptr(),\n                Ordering::AcqRel,",
        "node.as_ptr(),\n                Ordering::Relaxed,"),
    "a ring has no fence: a lost wake-up": (
        "loom", "FAIL.* loom-tests", "crates/core/src/doorbell/mod.rs",
        "        // ORDER(DOORBELL): SeqCst fence - pairs with the one in `publish`; see the header.\n"
        "        fence(Ordering::SeqCst);\n", ""),
    "memory goes back while readers are there: a use after free": (
        "asan", "AddressSanitizer: heap-use-after-free", "crates/core/src/memory/blocks.rs", "    unsafe { after_readers(free) };\n", "    free();\n"),
    "memory never goes back: a leak": (
        "asan", "LeakSanitizer: detected memory leaks", "crates/core/src/memory/shared.rs", "unsafe { self.blocks.give(entries) };", "entries.clear();"),
    "a push publishes nothing: a data race": (
        "tsan", "ThreadSanitizer: data race", "crates/core/src/inbox/stack.rs", "node.as_ptr(),\n                Ordering::AcqRel,",
        "node.as_ptr(),\n                Ordering::Relaxed,"),
    "a test needs a feature that its crate does not ask for": (
        "test", "crates/durable/src/service/firing.rs", "crates/durable/src/service/firing.rs",
        '#[cfg(all(test, any(feature = "postgres", feature = "nats")))]', "#[cfg(test)]"),
    "a link leads nowhere": (
        "docs", "crate::nowhere", "src/lib.rs", "//! ", "//! [nowhere](crate::nowhere) "),
    "a dependency has a licence that is not permitted": (
        "deny", "MIT", "deny.toml", '    "MIT",\n', ""),
    "an example is wrong": (
        "demo", "planted", "examples/manual_clock.rs", "fn main() -> Result<(), Box<dyn std::error::Error>> {",
        'fn main() -> Result<(), Box<dyn std::error::Error>> {\n    assert!(false, "planted");'),
    "the header lacks a function": (
        "capi", "tickless_engine_(new|made)", "crates/capi/include/tickless.h", "tickless_engine_new(", "tickless_engine_made("),
    "a schedule takes longer": (
        "instructions", "an operation costs too much", "crates/core/src/time/scale.rs", "    pub fn ceil(self, deadline_ns: u64) -> Tick {\n",
        "    pub fn ceil(self, deadline_ns: u64) -> Tick {\n        (0..9).for_each(|n| _ = std::hint::black_box(n));\n"),
    "due timers of a store begin in the wrong order": (
        "test", "panicked at crates/durable/tests", "crates/durable/src/service/window.rs", "self.ready.push_back(position);", "self.ready.push_front(position);"),
    "a slot is one too far": (
        "test", "FAILED", "crates/wheel/src/geometry.rs", "bucket as u32 & self.slot_mask", "(bucket as u32 + 1) & self.slot_mask"),
}

checks = sys.argv[1:] == ["--check"]
wanted = [] if checks else [arg.lower() for arg in sys.argv[1:]]
if not checks:
    # A clone keeps what it has built from one fault to the next.
    clone = f"[ -e {COPY} ] || git clone -q {ROOT} {COPY}; git -C {COPY} fetch -q {ROOT} HEAD"
    subprocess.run(f"{clone} && git -C {COPY} reset -q --hard FETCH_HEAD", shell=True, check=True)
tried = missed = 0
for name, (stage, words, file, old, new) in FAULTS.items():
    if wanted and not any(want in name.lower() or want == stage for want in wanted):
        continue
    path = (ROOT if checks else COPY) / file
    text = path.read_text()
    outcome = "fits" if old in text else f"STALE: {file} no longer has that"
    if old in text and not checks:
        path.write_text(text.replace(old, new, 1))
        done = subprocess.run([".ci/run", stage], cwd=COPY, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        path.write_text(text)
        said = [line.strip() for line in done.stdout.splitlines() if re.search(words, line)]
        outcome = f"noticed: {said[0][:120]}" if done.returncode and said else f"MISSED, with status {done.returncode}"
    tried += 1
    missed += not outcome.startswith(("noticed", "fits"))
    print(f"{stage}: {name}: {outcome}", flush=True)
print(f"{tried} faults, {missed} unnoticed")
sys.exit(missed > 0 or not tried)
