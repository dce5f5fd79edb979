#!/usr/bin/env python3
"""The work of `ci/peers.sh`: takes the tests from the packages that cargo has downloaded, puts our names
in the place of theirs, runs them, and compares what fails with the table."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "target/peers"

ENGINES = ["threads", "tokio", "paused"]

# (tower's package has no test of its timeout.)
PROGRAMS = ["tokio time_sleep", "tokio time_timeout", "tokio time_interval", "tokio time_rt", "tokio time_pause",
            "tokio rt_time_start_paused", "tokio time_panic", "tokio-util time_delay_queue", "futures-timer smoke",
            "futures-timer timeout", "async-io timer"]

NAMES = {
    r"\b(?:tokio|tokio_util)::time\b": r"peers::\g<0>",
    r"\b(?:futures_timer|async_io)::": r"peers::\g<0>",
}

# For tests that know of no runtime: they run where the engine's timers end, and look at its clock.
NO_RUNTIME = {
    r"\bstd::time::\{": "peers::std_time::{",
    r"\bfuture::block_on\(": "peers::block_on(",
    r"(?s)#\[async_std::test\]\nasync fn (\w+)\(\)([^{]*)(\{.*?\n\})":
        r"#[test]\nfn \1()\2{\n    async fn body()\2\3\n    peers::block_on(body())\n}",
}

# And comments.
ATTRIBUTES = r"(?:\n(?:#\[|//)[^\n]*)*"

# One that has this word pauses time: engines with threads go by the system's clock.
PAUSES = "pause"
TEST = re.compile(rf"(?s){ATTRIBUTES}\n#\[(?:tokio::)?test[^\n]*{ATTRIBUTES}\n(?:async )?fn .*?\n\}}")

# A test of tokio's that does not pause time by itself.
UNPAUSED = re.compile(rf"(?s)#\[tokio::test\](?={ATTRIBUTES}\nasync fn (?:(?!pause\(\)).)*?\n\}})")

# How long a test may take, which waits for real time in some places, before it counts as hanging.
SETTINGS = '[profile.default]\nslow-timeout = { period = "30s", terminate-after = 1 }\n'


def cargo(*arguments, **options):
    return subprocess.run(["cargo", *arguments], cwd=HERE, stdout=subprocess.PIPE, text=True, **options)


def rewritten(source, rules):
    for pattern, by in rules.items():
        source = re.sub(pattern, by, source)
    return source


def lay_out(engine, folders):
    """The tests as they run on this engine. Returns the programs that have some."""
    tests, laid_out = HERE / "tests", set()
    shutil.rmtree(tests, ignore_errors=True)
    (tests / "support").mkdir(parents=True)
    shutil.copy(folders["tokio"] / "tests/support/panic.rs", tests / "support")
    for package, program in (pair.split() for pair in PROGRAMS):
        source = rewritten((folders[package] / f"tests/{program}.rs").read_text(), NAMES)
        if "tokio" not in package:
            source = rewritten(source, NO_RUNTIME)
        elif engine == "threads":
            source = TEST.sub(lambda test: "" if PAUSES in test[0] else test[0], source)
        elif engine == "paused":
            source = UNPAUSED.sub("#[tokio::test(start_paused = true)]", source)
        name = f"{package}_{program}".replace("-", "_")
        (tests / f"{name}.rs").write_text(source)
        if TEST.search(source):
            laid_out.add(name)
    return laid_out


def results(engine, programs):
    """Whether each test passed, by what the table calls it."""
    done = cargo("nextest", "run", "--locked", "--no-fail-fast", "--status-level=all", "--final-status-level=none",
                 "--color=never", env={**os.environ, "PEERS_ENGINE": engine}, stderr=subprocess.STDOUT)
    # (A crate, its program and the test.)
    found = re.findall(r"^ +([A-Z ]+) \[.*?\] (?:\(.*?\) )?peers::(\S+) (\S+)$", done.stdout, re.MULTILINE)
    passed = {f"{engine} {program} {test}": verdict == "PASS" for verdict, program, test in found}
    if programs != {program for _, program, _ in found}:
        sys.exit(f"of {sorted(programs)}, tests of these ran: {passed}\n{done.stdout}")
    print(f"{engine}: {sum(passed.values())} of {len(passed)} tests pass")
    return passed


def main(engines):
    shutil.rmtree(HERE / "src", ignore_errors=True)
    shutil.copytree(ROOT / "ci/peers", HERE, dirs_exist_ok=True)
    (HERE / ".config").mkdir(exist_ok=True)
    (HERE / ".config/nextest.toml").write_text(SETTINGS)
    metadata = cargo("metadata", "--locked", "--format-version", "1", check=True).stdout
    folders = {it["name"]: pathlib.Path(it["manifest_path"]).parent for it in json.loads(metadata)["packages"]}
    table = [line for line in (ROOT / "ci/peers/differences.txt").read_text().splitlines() if line]
    page = " ".join((ROOT / "docs/porting.md").read_text().split())
    complaints = [f"docs/porting.md does not say: {it}" for it in table if it[0] == "#" and it[2:] not in page]
    known = {line for line in table if line.split()[0] in engines}
    for engine in engines:
        passed = results(engine, lay_out(engine, folders))
        failed = {test for test, is_good in passed.items() if not is_good}
        of_engine = {test for test in known if test.split()[0] == engine}
        complaints += [f"it fails: {it}" for it in sorted(failed - of_engine)]
        complaints += [f"it passes, or is gone: {it}" for it in sorted(of_engine - failed)]
    print("\n".join(complaints) or f"{len(known)} differences, as documented")
    sys.exit(bool(complaints))


main(sys.argv[1:] or ENGINES)
