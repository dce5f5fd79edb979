#!/usr/bin/env python3
"""Measures what a choice in the engine is worth: takes it back in a copy and runs both.

Each ablation is a change of a copy of the sources; the working tree is not touched. The engine as
it is and the changed one take turns. Printed are medians of CPU time per operation (user and
system, all threads) and whatever else the workload tells that matters.

    benches/ablation.py [--list | --check] [--runs N] [part of a name]...

--check only looks whether every change still fits the sources.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIES = ROOT / "target" / "ablation"

CLOCK, GEOMETRY = "crates/core/src/time/clock.rs", "crates/wheel/src/geometry.rs"
STOCK, FREE_LIST, SHARED = "crates/core/src/memory/stock.rs", "crates/core/src/memory/free_list.rs", "crates/core/src/memory/shared.rs"
LANES, PREFETCH, DEPOT = "crates/core/src/inbox/lanes.rs", "crates/sync/src/cache.rs", "crates/core/src/memory/depot.rs"
EAGER, OS, SCALE = "crates/core/src/shard/ahead.rs", "crates/core/src/os/linux.rs", "crates/core/src/time/scale.rs"
BUCKET, ITEMS = "crates/core/src/shard/bucket.rs", "crates/core/src/memory/items.rs"

W1, W1_TWO, W1H = "-w cancel-heavy -t 1", "-w cancel-heavy -t 2", "-w handoff"
W2, W2_TWO, W5 = "-w fire-all -t 1", "-w fire-all -t 2", "-w reset -t 1"
W2_FINE = "-w fire-all -t 1 --tick-us 100"
STEADY, WAKEUPS, SINGLE = "-w steady", "-w wakeups", "-w single"
SERVICE = "-w service -t 2 --rates 0"


def size(file, name, usual, other):
    """Another value for a constant that model checkers have a value of their own for."""
    kind = f"const {name}: usize = if IS_CHECKED {{ 2 }} else {{ "
    return (file, [(kind + f"{usual} }}", kind + f"{other} }}")])


def wheel(slots, reach):
    """Another geometry by default."""
    return (GEOMETRY, [
        ("DEFAULT_SLOTS: u32 = 64;", f"DEFAULT_SLOTS: u32 = {slots};"),
        ("DEFAULT_REACH: u32 = 32;", f"DEFAULT_REACH: u32 = {reach};"),
    ])


# name: (workloads, [(file, [(old, new), ...]), ...])
ABLATIONS = {
    "the system's clock on each call": (
        [W1, W5],
        [(CLOCK, [("Clock { goes_by_cycles: cycles::keep_time(), ..Clock::instant() }", "Clock::instant()")])],
    ),
    "ticks by division": (
        [W1],
        [(SCALE, [("if deadline_ns < self.below_ns {", "if false {")])],
    ),
    "no seats": (
        [W1, W1_TWO, WAKEUPS],
        [(STOCK, [("        match self.kept.last() {\n",
                   "        if deadline >= Tick::ZERO {\n            return None;\n        }\n        match self.kept.last() {\n")])],
    ),
    "a stock of 8 seats": ([W1, WAKEUPS], [size(ITEMS, "SEATS", 32, 8)]),
    "a stock of 128 seats": ([W1, WAKEUPS], [size(ITEMS, "SEATS", 32, 128)]),
    "a full cache gives away its newest seat": (
        [W1, WAKEUPS],
        [(STOCK, [("(0..self.kept.len()).max_by_key(|&i| self.kept[i].opens)", "self.kept.len().checked_sub(1)")])],
    ),
    "no more room for seats in the depots if more timers live": (
        [SERVICE],
        [(SHARED, [("MOST_SEAT_MAGAZINES: usize = if IS_CHECKED { 1 } else { 512 }", "MOST_SEAT_MAGAZINES: usize = if IS_CHECKED { 1 } else { 32 }")])],
    ),
    "magazines of 16": ([STEADY], [(ITEMS, [("const MOST: usize = 64;", "const MOST: usize = 16;")])]),
    "no depot for memory": (
        [STEADY],
        [(SHARED, [("        _ if IS_CHECKED => 1,\n        0 => 1,\n        MEMORY_MAGAZINES..", "        _ if IS_CHECKED => 1,\n        _ if MEMORY_MAGAZINES > 0 => 0,\n        MEMORY_MAGAZINES..")])],
    ),
    "one depot of each kind, of a shard's size, for all shards": (
        [STEADY, W2_TWO, SERVICE], [(DEPOT, [("self.homes.get(home as usize)", "self.homes.get(home.min(0) as usize)")])]),
    "one lane": ([W2], [size(LANES, "LANES", 8, 1)]),
    "four lanes": ([W2], [size(LANES, "LANES", 8, 4)]),
    "no prefetch": ([W2, W1H, W5], [(PREFETCH, [
        ("_mm_prefetch::<_MM_HINT_T0>(at)", "if false { _mm_prefetch::<_MM_HINT_T0>(at) }"),
        ('"prefetchw [{}]"', '"# {}"'),
    ])]),
    "prefetches for reading alone": ([W2, W1H, STEADY], [(PREFETCH, [('"prefetchw [{}]"', '"prefetcht0 [{}]"')])]),
    "no eager cascading": (
        [W2],
        [(EAGER, [
            (".or_else(|| self.next_cascade(owner, now));", ".or_else(|| None.filter(|_: &Open<T>| now < Tick::ZERO && self.next_cascade(owner, now).is_some()));"),
            ("        if shared.balance.living() < MANY {\n            return first;", "        if true || shared.balance.living() < MANY {\n            return first;"),
            ("if level < COARSE || shared.balance.living() < MANY {", "if level <= u8::MAX || shared.balance.living() < MANY {"),
        ])],
    ),
    "four lists of the owner's": (
        [W2],
        [
            (LANES, [("OWN_LANES: usize = if IS_CHECKED { 1 } else { 16 }", "OWN_LANES: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 }")]),
            (BUCKET, [("size_of::<Bucket<[usize; 4]>>() == 256", "size_of::<Bucket<[usize; 4]>>() <= 256")]),
        ],
    ),
    "no prefetch of free entries": ([STEADY], [(FREE_LIST, [("nth_back(AHEAD - 1)", "nth_back(EAGER * 1000)")])]),
    "slots 64, reach 64": ([W2, W1, WAKEUPS], [wheel(64, 64)]),
    "slots 256, reach 128": ([W2, W1, WAKEUPS], [wheel(256, 128)]),
    "slots 16, reach 8": ([W2, W1, WAKEUPS], [wheel(16, 8)]),
    "slots 2048, reach 1024": ([W2, W1, WAKEUPS], [wheel(2048, 1024)]),
    "the usual slack of timers": ([SINGLE, W2_FINE], [(OS, [("NonZeroU64::new(1)", "NonZeroU64::new(50_000)")])]),
}

# What is shown besides, where a workload tells it.
EXTRAS = ("wake_ups_per_s", "late_us.p50", "late_us.p99", "engine.seated_share")


def copy_sources(to):
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, names.stdout.decode().split("\0")):
        source, target = ROOT / name, to / name
        if source.is_file() and not (target.is_file() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def changed(name):
    """The files of an ablation with their new contents, or what does not fit."""
    files = {}
    for file, edits in ABLATIONS[name][1]:
        text = files.get(file) or (ROOT / file).read_text()
        for old, new in edits:
            if old not in text:
                sys.exit(f"error: {name}: {file} has no longer: {old.strip()}")
            text = text.replace(old, new)
        files[file] = text
    return files


def build(copy):
    command = ["cargo", "build", "--quiet", "--release", "--package", "rivals"]
    env = {**os.environ, "CARGO_TARGET_DIR": str(copy / "target"), "RUSTFLAGS": "-Awarnings"}
    subprocess.run(command, cwd=copy, check=True, env=env)
    return copy / "target" / "release" / "rivals"


def measure(binary, workload):
    """One measurement as the bench's line of JSON."""
    out = COPIES / "line.jsonl"
    out.unlink(missing_ok=True)
    command = [binary, *workload.split(), "-c", "tickless", "-r", "1", "-j", out]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads(out.read_text().splitlines()[-1])


def find(values, path):
    """What a dotted path leads to in nested dictionaries; None: nothing."""
    for part in path.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def figures(lines):
    """The medians of several measurements, as text."""
    cpu_ns = [line["cpu_ns_per_op"] for line in lines]
    texts = [f"{statistics.median(cpu_ns):.1f} ns ({min(cpu_ns):.1f}..{max(cpu_ns):.1f})"]
    for extra in EXTRAS:
        values = [find(line["extra"], extra) for line in lines]
        if None not in values and any(values):
            texts.append(f"{extra} {statistics.median(values):.4g}")
    return ", ".join(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the ablations")
    parser.add_argument("--check", action="store_true", help="see whether they fit the sources")
    parser.add_argument("--runs", type=int, default=5, help="measurements of each (default 5)")
    parser.add_argument("names", nargs="*", help="parts of names (default all)")
    arguments = parser.parse_args()
    names = [name for name in ABLATIONS if not arguments.names or any(part in name for part in arguments.names)]
    for name in names:
        changed(name)
        if arguments.list:
            print(name)
    if arguments.list or arguments.check:
        return
    usual, other = COPIES / "usual", COPIES / "other"
    copy_sources(usual)
    usual_binary = build(usual)
    for name in names:
        copy_sources(other)
        for file, text in changed(name).items():
            (other / file).write_text(text)
        binary = build(other)
        for workload in ABLATIONS[name][0]:
            lines = ([], [])
            for _ in range(arguments.runs):
                lines[0].append(measure(usual_binary, workload))
                lines[1].append(measure(binary, workload))
            print(f"{name} | {workload} | as it is: {figures(lines[0])} | so: {figures(lines[1])}", flush=True)


if __name__ == "__main__":
    main()
