#!/usr/bin/env python3
"""The work of `ci/peers.sh`: takes the tests from the packages that cargo has downloaded, puts our names
in the place of theirs, runs them, and compares what fails with the table. The table as it should be, with
"?" for what it lacks, is left in target/peers/differences.txt."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "target/peers"
TABLE = ROOT / "ci/peers/differences.txt"

ENGINES = ["threads", "tokio", "paused"]

# (tower's package has no test of its timeout.)
PROGRAMS = {
    "tokio": ["time_sleep", "time_timeout", "time_interval", "time_rt", "time_pause", "rt_time_start_paused",
              "time_panic"],
    "tokio-util": ["time_delay_queue"],
    "futures-timer": ["smoke", "timeout"],
    "async-io": ["timer"],
}

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
LIMIT = os.environ.get("PEERS_LIMIT", "30s")


def cargo(*arguments, **options):
    command = ["cargo", *arguments]
    return subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, text=True, **options)


def fail(text):
    sys.exit(f"peers: {text}")


def rewritten(source, rules):
    for pattern, by in rules.items():
        source = re.sub(pattern, by, source)
    return source


def lay_out(engine, folders):
    """The tests as they run on this engine. Returns the programs that have some."""
    tests, laid_out = HERE / "tests", set()
    shutil.rmtree(tests, ignore_errors=True)
    tests.mkdir(parents=True)
    for package, programs in PROGRAMS.items():
        theirs = folders[package] / "tests"
        for program in programs:
            source = rewritten((theirs / f"{program}.rs").read_text(), NAMES)
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
    (tests / "support").mkdir()
    shutil.copy(folders["tokio"] / "tests/support/panic.rs", tests / "support")
    return laid_out


def results(engine, programs):
    """Whether each test passed: by engine, program and name."""
    report = HERE / "target/nextest/default/junit.xml"
    report.unlink(missing_ok=True)
    done = cargo("nextest", "run", "--locked", "--no-fail-fast", env={**os.environ, "PEERS_ENGINE": engine})
    if not report.exists():
        fail(f"no test ran on {engine}: {done.stdout}")
    passed = {}
    for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            is_good = case.find("failure") is None and case.find("error") is None
            passed[engine, suite.get("name").split("::")[-1], case.get("name")] = is_good
    if programs != {program for _, program, _ in passed}:
        fail(f"of {sorted(programs)}, tests of these ran: {sorted({it[1] for it in passed})}")
    return passed


def words(text):
    return " ".join(text.split())


def read_table():
    """The tests that do not pass, with the sentence for each."""
    table, sentence = {}, None
    for line in TABLE.read_text().splitlines():
        if line.startswith("# "):
            sentence = line[2:]
        elif line:
            table[tuple(line.split())] = sentence
    return table


def write_table(table):
    lines = []
    for sentence in dict.fromkeys(table.values()):
        tests = sorted(test for test, said in table.items() if said == sentence)
        lines += [f"# {sentence}", *(" ".join(test) for test in tests), ""]
    (HERE / "differences.txt").write_text("\n".join(lines))


def main(engines):
    for name in ("src", ".config"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    shutil.copytree(ROOT / "ci/peers", HERE, dirs_exist_ok=True)
    (HERE / ".config").mkdir()
    settings = f'slow-timeout = {{ period = "{LIMIT}", terminate-after = 1 }}\njunit.path = "junit.xml"\n'
    (HERE / ".config/nextest.toml").write_text(f"[profile.default]\n{settings}")
    metadata = cargo("metadata", "--locked", "--format-version", "1", check=True).stdout
    folders = {it["name"]: pathlib.Path(it["manifest_path"]).parent for it in json.loads(metadata)["packages"]}

    table = read_table()
    page = words((ROOT / "docs/porting.md").read_text())
    complaints = [f"docs/porting.md does not say: {it}" for it in set(table.values()) if words(it) not in page]
    found = {test: sentence for test, sentence in table.items() if test[0] not in engines}
    for engine in engines:
        passed = results(engine, lay_out(engine, folders))
        print(f"{engine}: {sum(passed.values())} of {len(passed)} tests pass")
        for test, is_good in sorted(passed.items()):
            if not is_good:
                found[test] = table.get(test, "?")
            if is_good == (test in table):
                complaints.append(f"{'it passes' if is_good else 'it fails'}: {' '.join(test)}")
        complaints += [f"there is no {' '.join(it)}" for it in table if it[0] == engine and it not in passed]
    write_table(found)
    if complaints:
        print("\n".join(complaints))
        fail(f"{len(complaints)} complaints; the table as it is now is in {HERE / 'differences.txt'}")
    print(f"{sum(it[0] in engines for it in table)} differences, as documented")


main(sys.argv[1:] or ENGINES)
