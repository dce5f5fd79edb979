"""Prints the rows of ../PERF.md from what run.sh has said (standard input)."""

import re
import statistics
import sys

SAID = sys.stdin.read()


def found(pattern):
    """What the groups of the pattern are, each time that it is there."""
    groups = [match.groups() for match in re.finditer(pattern, SAID)]
    assert groups, f"nothing says {pattern}"
    return list(zip(*groups))


def span(values, unit=""):
    """From the least to the largest, as they were printed."""
    values = sorted(set(values), key=float)
    if "." not in values[0]:
        values = [f"{int(value):,}" for value in values]
    return f"{values[0]}{unit}" if len(values) == 1 else f"{values[0]} to {values[-1]}{unit}"


def per_mille(rate):
    return str(round(float(rate), -3)).removesuffix(".0")


def row(what, figure, aim=""):
    print(f"| {what} | {figure} | {aim} |")


def times(name):
    p50, p99, longest = found(rf"{name}: p50 ([\d.]+) ms, p99 ([\d.]+) ms, max ([\d.]+) ms")
    return f"p50 {span(p50)} ms, p99 {span(p99)} ms", f"longest {max(longest, key=float)} ms"


row("one write of 4 KiB and `fdatasync`", times("floor: write 4 KiB and fdatasync")[0], "the floor")
row(
    "one durable timer at a time, `schedule` and `wait`",
    times("floor: one durable timer at a time")[0] + ": one sync",
    "the floor",
)

by_threads = []
for threads in 1, 2:
    rates, batches, shares = found(
        rf"{threads} threads (\d+) durable timers/s in batches of (\d+), .*: (\d+) %"
    )
    by_threads.append((span([per_mille(rate) for rate in rates], "/s"), span(shares, " %"), batches))
(one, one_share, batches), (two, two_share, _) = by_threads
rounds = len(batches)
row(
    f"durable timers per second that nobody waits for, in batches of {span(batches)}",
    f"one thread {one}, two {two}, in {rounds} rounds each",
)
(medians,) = found(r"median share (\d+) %")
row(
    "the same, as a share of what the store alone does with the same batches",
    f"one thread {one_share}, two threads {two_share}; median of each run {', '.join(medians)} %",
    "80 %",
)
rates, shares, batches = found(r"elide: .* timers at (\d+)/s, .* disk, ([\d.]+) %, in (\d+) batches")
row(
    "timers that reach the disk, 99 % cancelled within 10 ms, a million at "
    + span([per_mille(rate) for rate in rates], "/s"),
    f"{span(shares, ' %')}; {span(batches)} batches",
    "2 %",
)
(early,) = found(r"late: (\d+) were early")
p50_p99, longest = times("late: 2,000 timers/s, handler after due")
row(
    "lateness of the handler, 2,000 timers/s that were durable before",
    f"{p50_p99}, {longest} in {len(early)} runs; {max(early, key=int)} early",
    "the engine's tick, 1 ms",
)
timers, size = found(r"memory: (\d+) timers scheduled in .* a file of (\d+) MB")
(resident, _) = found(r"memory: .*: (\d+) MB resident, at most (\d+) MB")
(opening,) = found(r"memory: opened again in ([\d.]+) s")
row(
    f"resident memory with {int(timers[0]):,} timers, a file of {int(size[0]):,} MB",
    f"{resident[0]} MB after scheduling them, {resident[1]} MB 2 s after opening them again, which "
    f"took {opening[0]} s with the check of the whole file",
    "200 MB",
)
sent, lost, early, twice = found(r"Sent: (\d+)\. Lost: (\d+)\. Early: (\d+)\. Sent twice: (\d+)")
(late,) = found(r"half of them up to \d+ ms, 99 % up to (\d+) ms")
(durable,) = found(r"scheduled and durable after ([\d.]+) s")
row(
    f"{int(sent[0]):,} reminders with a kill in the middle",
    f"{lost[0]} lost, {early[0]} early, {twice[0]} sent twice, 99 % at most {late[0]} ms late; "
    f"durable after {durable[0]} s",
    "0 lost, 0 early",
)
names, kills, durable = found(r"(\w+): (\d+) kills, \d+ timers asked for, (\d+) durable")
durable = " and ".join(f"{int(count):,} ({name})" for name, count in zip(names, durable))
found(r"repeated; (0) lost, 0 early, 0 back")
row(
    f"{int(kills[0]) - 1} kills of a process at work, on each embedded store",
    f"{durable} durable timers; 0 lost, 0 early, 0 back after their end",
    "the same",
)
backlog, batches = {}, 0
for how in "with notes", "without":
    rates, notes, batches = found(rf"due, {how}: .* s, (\d+)/s, (\d+) notes, (\d+) batches")
    backlog[how] = int(per_mille(statistics.median(map(int, rates))))
row(
    "50,000 timers that were due before the opening, with notes of their attempts and without",
    f"median of {len(rates)} rounds {backlog['with notes']:,}/s and {backlog['without']:,}/s",
)
(window,) = found(r"window: (\d+) bytes")
row(
    "memory for each timer of the window, without a key, with a payload of 32 bytes",
    f"{span(window)} bytes",
)


def short(number):
    """Three digits of it."""
    digits = len(str(int(number)))
    return f"{round(int(number), 3 - digits):,}"


print("\n| | rate | one, p50 | late, p50 | late, p99 | before it was due | CPU |")
print("|---|---|---|---|---|---|---|")
figures = r"\| (\d+) \| ([\d.]+) ms \| ([\d.]+) ms \| ([\d.]+) ms \| (\d+) \| (\d+) ms \| (\d+) us \|"
for name, rate, one, p50, p99, early, earliest, cpu in zip(*found(rf"\| ([^|\n]+) {figures}")):
    none_early = early == "0"
    before = "none" if none_early else f"{early}, by up to {earliest} ms"
    p50 = f"{p50} ms" if none_early else "-"
    print(f"| {name} | {short(rate)}/s | {one} ms | {p50} | {p99} ms | {before} | {short(cpu)} us |")
