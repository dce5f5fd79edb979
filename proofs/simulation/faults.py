#!/usr/bin/env python3
"""Shows that the simulation can fail: plants one fault at a time into a copy of the engine, and has
it found: by the search, or one of RACES by calls in the middle of other calls.

    proofs/simulation/faults.py [--check | part of a name]...

Tells for each how long that took on this machine; of a search how many histories, and how many steps
are left of the one that failed; of a race which calls. `--check` only looks whether what each fault
changes is still there. A fault that a search does not find within LIMIT seconds, or no pair of calls,
is MISSED, and the exit status is 1.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COPY = ROOT / "target" / "faults"
LIMIT = int(os.environ.get("LIMIT", "60"))

# Name: file, what is there, and what takes its place.
FAULTS = {
    "a notice is not posted once the clock has passed the bucket": (
        "crates/core/src/shard/mod.rs", "if !(bucket.is_armed_for(place.expiration) && self.clock() < place.expiration) {",
        "if !bucket.is_armed_for(place.expiration) {"),
    "a round is put aside for its deadline, and not for its bucket": (
        "crates/core/src/shard/flush.rs", "let place = self.wheel.geometry().place_on(filed.expiration, filed.level);",
        "let place = self.wheel.geometry().place_on(unsafe { entry.as_ref() }.word().deadline(), filed.level);"),
    "a seat is taken although its bucket opens a tick later": (
        "crates/core/src/memory/stock.rs", "Some(last) if last.opens <= deadline && ",
        "Some(last) if last.opens <= deadline.saturating_add(1) && "),
    "a stop forgets the buckets that are parked": (
        "crates/core/src/shard/agenda.rs", "open.chain(self.parked.drain(..)).collect()",
        "open.chain(self.parked.drain(..).take(0)).collect()"),
    "a reset to an earlier time leaves the timer where it is": (
        "crates/core/src/entry/holder.rs", "if deadline < opens || opens <= due {",
        "if deadline.saturating_add(1) < opens || opens <= due {"),
    "a cascade that is due is not opened before its bucket": (
        "crates/core/src/shard/agenda.rs", "open.place.expiration <= limit || is_same(open)",
        "open.place.expiration <= limit && !is_same(open)"),
    "a timer under a key is due before it is there, and does not come again": (
        "crates/sync/src/protocol/gate.rs", "            self.word.store(OPEN, Ordering::Relaxed);\n        }\n        may\n",
        "            self.word.store(OPEN, Ordering::Relaxed);\n        }\n        may || self.word.load(Ordering::Relaxed) == EARLY\n"),
    "an interval ticks a tick of the engine early": (
        "src/engine/engine_ref.rs", "if is_near && core.clock.now_ns() >= due_ns {",
        "if is_near && core.clock.now_ns().saturating_add(core.scale.tick_ns()) > due_ns {"),
    "a sleep wakes the task that polled first": (
        "src/future/ringer.rs", "let spare = engine.exchange(handle, ringer);", "let spare = ringer;\n        let _ = engine;"),
    "a periodic that is late runs once more for what it missed": (
        "src/periodic/schedule.rs", "Skips::Past => clock.now_ns(),", "Skips::Past => clock.now_ns().saturating_sub(*period_ns),"),
    "a heartbeat is silent an eighth of its timeout early": (
        "crates/sync/src/protocol/pulse.rs", "let until = |last: u64| last.saturating_add(timeout_ns);",
        "let until = |last: u64| last.saturating_add(timeout_ns - timeout_ns / 8);"),
    "a scope that ends forgets its first timer": (
        "src/scope/mod.rs", "        for handle in self.slots.drain() {\n            contained(|| _ = handle.cancel());",
        "        for handle in self.slots.drain().skip(1) {\n            contained(|| _ = handle.cancel());"),
    "a timeout of the hashed wheel is cancelled after it has run": (
        "crates/netty/src/timeout.rs", "        decided.is_ok()\n", "        decided.is_ok() || end == Outcome::Cancelled as u32\n"),
    "a sweep takes the seat of a thread for dead": (
        "crates/core/src/shard/sweep.rs", "let is_dead = word.phase() == Phase::Vacant && !word.is_held();",
        "let is_dead = word.phase() == Phase::Vacant;"),
    "a takeover takes the payload that runs": (
        "crates/core/src/dispatch/in_hand.rs", "let rest = (claimed..contents.hidden)",
        "let rest = (claimed.saturating_sub(1)..contents.hidden)"),
}

# The same, for faults that take two threads.
RACES = {
    "a cancel gives up when the reaper was faster, though it only moved the timer": (
        "crates/core/src/entry/holder.rs", "            reached(Event::CancelLost);", "            return None;"),
    "a reset gives up when the reaper was faster, though it only moved the timer": (
        "crates/core/src/entry/holder.rs", "            reached(Event::ResetLost);", "            return Reset::Gone;"),
    "a seat that a thread took under the reaper is left unlinked": (
        "crates/core/src/shard/flush.rs", "None => reached(Event::UnlinkLost),", "None => return,"),
    "a timer that was reset under the reaper is left where it was": (
        "crates/core/src/shard/flush.rs", "                reached(Event::RefileLost);", "                return moved();"),
    "a poll that finds its entry unlinked does not file it again": (
        "src/engine/engine_ref.rs", "Exchange::Unlinked(old, deadline) => (old, deadline),",
        "Exchange::Unlinked(old, _) => return old,"),
    "a payload is moved out, and its memory is free at once": (
        "crates/core/src/entry/reaping.rs", "let mine = !before.is_held();", "let mine = true;"),
    "what comes while a thing is held is forgotten": (
        "crates/sync/src/protocol/hold.rs", "            None if before & AGAIN != 0 => Released::Again,\n", ""),
}


def sources():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and not name.startswith("fuzz/corpus")]


def copy_tree():
    """Only what differs is written, so that cargo builds no more than it must."""
    wanted = set(sources())
    for old in COPY.rglob("*.rs"):
        name = old.relative_to(COPY)
        if name.parts[0] != "target" and str(name) not in wanted:
            old.unlink()
    for name in wanted:
        new, old = ROOT / name, COPY / name
        if not new.is_file() or old.exists() and old.read_bytes() == new.read_bytes():
            continue
        old.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(new, old)


def changed(name):
    path, before, after = (FAULTS | RACES)[name]
    text = (ROOT / path).read_text()
    if text.count(before) != 1:
        sys.exit(f"{name}: {path} has {text.count(before)} times: {before!r}")
    return path, text.replace(before, after)


def plant(name):
    path, text = changed(name)
    (COPY / path).write_text(text)
    # Not optimized: it takes longer to build than to find what is wrong.
    environment = dict(os.environ, CARGO_TARGET_DIR=str(COPY / "target"), CARGO_INCREMENTAL="1",
                       CARGO_PROFILE_DEV_DEBUG="false", RUSTFLAGS="--cfg events --cfg coherence")
    build = ["cargo", "build", "--quiet", "--locked", "--package", "simulation"]
    built = subprocess.run(build, cwd=COPY, env=environment, capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit(f"{name}: does not compile\n{built.stderr}")
    simulation = str(COPY / "target/debug/simulation")
    shutil.copyfile(ROOT / path, COPY / path)
    return race(name, simulation) if name in RACES else search(name, simulation)


def race(name, simulation):
    begun = time.monotonic()
    found = subprocess.run([simulation, "--pairs", "24"], capture_output=True, text=True)
    said = [line for line in found.stderr.splitlines() if line]
    if found.returncode == 0 or not said:
        print(f"MISSED  {name}", flush=True)
        return False
    print(f"found   {name} | {time.monotonic() - begun:.1f} s | {said[-1][:160]}", flush=True)
    return True


def search(name, simulation):
    search = [simulation, "--seconds", str(LIMIT), "--patience", "60"]
    found = subprocess.run(search, capture_output=True, text=True)
    # What does not fail again may have hung on a machine that is busy.
    if found.returncode == 0 or "of its" not in found.stdout:
        print(f"MISSED  {name}", flush=True)
        return False
    histories, seconds = re.search(r"^(\d+) histories in ([\d.]+) s", found.stdout, re.M).groups()
    steps = re.search(r"^(\d+) of its (\d+) steps", found.stdout, re.M)
    left = f"{steps[1]} of {steps[2]}" if steps else "not again"
    complaint = re.findall(r"^panicked at .*\n(.*)$|^\((signal.*|hung.*)\)$", found.stdout, re.M)
    first = "".join(complaint[0])[:90] if complaint else ""
    print(f"found   {name} | {seconds} s | {histories} | {left} | {first}", flush=True)
    return True


def main():
    if "--check" in sys.argv:
        for name in FAULTS | RACES:
            changed(name)
        return print(f"{len(FAULTS | RACES)} faults fit")
    wanted = [word for word in sys.argv[1:]]
    copy_tree()
    names = [name for name in FAULTS | RACES if not wanted or any(word in name for word in wanted)]
    sys.exit(0 if all([plant(name) for name in names]) else 1)


main()
