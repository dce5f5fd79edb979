#!/usr/bin/env python3
"""redis-rs with the timers of each contender in turn: its CPU time per command, and commands per second.

README.md says what is measured. It needs git, cargo and redis-server. With --tests it
runs the crate's own tests instead, with tokio's timers and with ours.
"""

import argparse
import os
import shutil
import subprocess
import time
from pathlib import Path

from turns import BUILD, COUNT, WORK, clone, columns, heads, instructions, patch, table, take_turns

ADDRESS = "https://github.com/redis-rs/redis-rs"
COMMIT = "88fb4d6ce5c0cd79678fe54212cf5c4ea6017690"
FOLDER = WORK / "redis"
CONTENDERS = ["none", "tickless", "alternative", "tokio"]
PORT = "16379"
# Two builds: of the crate as it is, and of the same with our timers.
FEATURES = {"tokio": "tokio-comp", "tickless": "tickless"}
MANIFEST = """
[package]
name = "load"
edition = "2024"

[[bin]]
name = "load"
path = "{}"

[features]
tokio-comp = []
tickless = ["redis/tickless"]

[dependencies]
redis = {{ path = "{}", default-features = false, features = ["tokio-comp"] }}
tokio = {{ version = "1", features = ["rt-multi-thread", "time"] }}

[lints.rust]
unexpected_cfgs = {{ level = "warn", check-cfg = ["cfg(tokio_unstable)"] }}

[workspace]
"""
TESTED = ",connection-manager,cluster-async,sentinel,cache-aio"
TESTS = ["--lib", "--test=test_async", "--test=test_cluster_async"]
# They set the process's hook for panics.
ALONE = ["--", "--test-threads=1"]


def cargo(folder, command, *more, check=True):
    subprocess.run(["cargo", command, *more], cwd=folder, env=BUILD, check=check)


def program(contender):
    """The load with a contender's timers."""
    return WORK / ("load-tickless" if contender == "tickless" else "load-tokio")


def build():
    folder = WORK / "load"
    folder.mkdir(exist_ok=True)
    manifest = folder / "Cargo.toml"
    manifest.write_text(MANIFEST.format(Path(__file__).parent / "redis_load.rs", FOLDER / "redis"))
    for timers, feature in FEATURES.items():
        cargo(folder, "build", "--release", "--quiet", "--features", feature)
        shutil.copy(WORK / "build" / "release" / "load", program(timers))


def test():
    """Some fail as they are: what counts is that the same pass with both."""
    for timers, feature in FEATURES.items():
        print(f"== with the timers of {timers}", flush=True)
        cargo(FOLDER, "test", "--package", "redis", "--features", feature + TESTED, "--no-fail-fast", *TESTS, *ALONE, check=False)


def measure(contender, workers, options):
    """CPU us per command, and commands per second."""
    environment = dict(os.environ, TIMERS=contender, REDIS=f"redis://127.0.0.1:{PORT}/")
    command = [program(contender), workers, str(options.tasks), str(options.commands)]
    client = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    rate = float(client.stdout.read())
    _, status, usage = os.wait4(client.pid, 0)
    if status != 0:
        raise RuntimeError(f"{contender}: {status}")
    return (usage.ru_utime + usage.ru_stime) * 1e6 / options.commands, rate


def count(contender, workers, options):
    """Instructions per command: what more commands take than few."""
    environment = dict(os.environ, TIMERS=contender, REDIS=f"redis://127.0.0.1:{PORT}/")
    few, more = 20_000, 60_000
    command = [*COUNT, program(contender), workers, str(options.tasks)]
    counts = [
        instructions(subprocess.run([*command, str(commands)], env=environment, capture_output=True, text=True).stderr)
        for commands in (few, more)
    ]
    return ((counts[1] - counts[0]) / (more - few),)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default=ADDRESS, help="where the client's sources come from")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", default="1,2", help="threads of the runtime")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--commands", type=int, default=400_000, help="of each run")
    parser.add_argument("--count", action="store_true", help="counts instructions, by valgrind, instead of time")
    parser.add_argument("--tests", action="store_true", help="runs the crate's own tests")
    options = parser.parse_args()

    clone(options.repository, COMMIT, FOLDER, ".")
    patch(FOLDER, "redis.patch")
    if options.tests:
        return test()
    build()
    server = subprocess.Popen(
        ["redis-server", "--port", PORT, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(1)
        rows = []
        for workers in options.workers.split(","):
            look = count if options.count else measure
            results = take_turns(options.rounds, CONTENDERS, lambda contender: look(contender, workers, options))
            for contender, runs in results.items():
                rows.append([workers, contender, *columns(runs)])
        table(["workers", "timers", *heads("command", options.count)], rows)
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
