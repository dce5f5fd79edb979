"""Runs that take turns, and a table of their medians, with the least and the most of each."""

import os
import re
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The sources of others, and what is built from them.
WORK = ROOT / "target" / "outside"
# With tokio's alternative timer in it, which the program takes if it is told to.
BUILD = dict(os.environ, CARGO_TARGET_DIR=str(WORK / "build"))
BUILD["RUSTFLAGS"] = BUILD.get("RUSTFLAGS", "") + " --cfg tokio_unstable"


def run(*command, **options):
    """Runs a command that has to succeed, and returns what it prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options)
    return done.stdout


def clone(address, commit, folder, *paths):
    """These paths of a repository at a commit, in a folder of their own, unless it is there."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    git = ("git", "-C", str(folder))
    run(*git, "init", "--quiet")
    run(*git, "remote", "add", "origin", address)
    run(*git, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", commit)
    run(*git, "checkout", "--quiet", commit, "--", *paths)


def patch(folder, name):
    """Applies a patch of this folder, unless that was done."""
    command = ("git", "apply", "--unsafe-paths", "--directory", str(folder.relative_to(ROOT)))
    file = Path(__file__).parent / name
    undone = subprocess.run((*command, "--reverse", "--check", file), cwd=ROOT, capture_output=True)
    if undone.returncode != 0:
        run(*command, file, cwd=ROOT)


# Counts instructions. Threads take turns in it, so it says nothing about what they wait for.
COUNT = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]


def instructions(output):
    """What callgrind has counted."""
    return int(re.search(r"Collected : (\d+)", output)[1])


def take_turns(rounds, contenders, measure):
    """Measures each contender once a round, each round in another order: lists of results."""
    results = {contender: [] for contender in contenders}
    for round in range(rounds):
        at = round % len(contenders)
        for contender in contenders[at:] + contenders[:at]:
            results[contender].append(measure(contender))
    return results


def shown(values, places):
    """The median (least..most)."""
    texts = [f"{value:,.{places}f}" for value in (statistics.median(values), min(values), max(values))]
    return "{} ({}..{})".format(*texts)


def heads(what, is_count):
    """The heads of what is measured."""
    return [f"instructions per {what}"] if is_count else [f"CPU us per {what}", f"{what}s/s"]


def columns(runs):
    """The medians of what each run returned: instructions, or CPU us and a rate."""
    values = list(zip(*runs))
    return [shown(value, places) for value, places in zip(values, [0] if len(values) == 1 else [2, 0])]


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
