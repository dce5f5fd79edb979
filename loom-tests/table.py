#!/usr/bin/env python3
"""Fills the tables of README.md from what the models said of themselves.

    ci/loom.sh | tee loom.txt; ci/shuttle.sh | tee shuttle.txt
    loom-tests/table.py loom.txt shuttle.txt
"""

import pathlib
import re
import sys

README = pathlib.Path(__file__).resolve().parent / "README.md"

PASSED = re.compile(r"PASS \[[^]]*\] \([^)]*\) loom-tests::(?:all )?(\w+)(?: |::)(?:\w+::)?(\w+)")
CHECKED = re.compile(r"(\d+) interleavings with up to (\d+) preemptions in ([\d.]+)(\w*s)")
SCHEDULED = re.compile(r"(\d+) threads, (\d+) schedules, (\d+) steps suspended at, ([\d.]+)(\w*s)")
SECONDS = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def figures(path, pattern):
    """What each model said, by its file and name."""
    said, model = {}, None
    for line in pathlib.Path(path).read_text().splitlines():
        if passed := PASSED.search(line):
            model = passed.groups()
        elif (found := pattern.search(line)) and model:
            *counts, number, unit = found.groups()
            said[model] = (*map(int, counts), float(number) * SECONDS[unit])
    return said


def rows(loom, shuttle):
    for model in sorted({*loom, *shuttle}, key=lambda model: (model[0], model not in loom, model[1])):
        checked, scheduled = loom.get(model), shuttle.get(model)
        count, bound, time = (f"{checked[0]:,}", checked[1], f"{checked[2]:.1f}") if checked else ("-",) * 3
        threads, schedules, stops, random_time = scheduled if scheduled else ("?", 0, 0, 0)
        yield (f"`{model[0]}`", model[1].replace("_", " "), threads, bound, count, time,
               f"{schedules:,}", stops or "-", f"{random_time:.1f}")


def main():
    loom, shuttle = figures(sys.argv[1], CHECKED), figures(sys.argv[2], SCHEDULED)
    if not loom or not shuttle:
        sys.exit("the output holds no figures")
    table = ["| file | model | threads | preemptions | interleavings | s | schedules | stops | s |",
             "|---|---|---|---|---|---|---|---|---|"]
    table += ["| " + " | ".join(map(str, row)) + " |" for row in rows(loom, shuttle)]
    total = (f"Loom: {len(loom)} models, {sum(row[0] for row in loom.values()):,} interleavings, "
             f"{sum(row[2] for row in loom.values()):.0f} s. "
             f"Shuttle: {len(shuttle)} models, {sum(row[1] for row in shuttle.values()):,} schedules, "
             f"{sum(row[3] for row in shuttle.values()):.0f} s.")
    text = README.read_text()
    begin, end = "<!-- table.py -->\n", "<!-- end -->"
    before, rest = text.split(begin)
    README.write_text(before + begin + "\n".join([*table, "", total]) + "\n" + end + rest.split(end)[1])


if __name__ == "__main__":
    main()
