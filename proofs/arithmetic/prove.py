#!/usr/bin/env python3
"""Compares the formulas with the sources, proves the properties, and shows that each of them can fail.

    prove.py LINES [part of a name]...

LINES is what the program of this folder has printed. Names choose properties.
"""

import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import compare
from mutants import MUTANTS

HERE = pathlib.Path(__file__).resolve().parent
FORMULAS = "formulas.py"
# Properties that need no formula of their own are about these alone.
FILES = sorted(path.name for path in (HERE / "properties").glob("*.py"))


def load(constants, changed=None, old=None, new=None):
    """The formulas and the properties, one place of which may be changed. `changed` is a file or "const"."""
    if changed == "const":
        assert old in constants, f"there is no constant {old}"
        constants = constants | {old: new(constants)}
    def source(path):
        text = path.read_text()
        if path.name == changed:
            assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {changed}"
            text = text.replace(old, new)
        return compile(text, str(path), "exec")
    formulas = types.ModuleType("formulas")
    formulas.__dict__.update(constants)
    exec(source(HERE / FORMULAS), formulas.__dict__)
    properties, holds = cases.registry()
    for name in FILES:
        exec(source(HERE / "properties" / name), {"F": formulas, "holds": holds})
    return formulas, properties


def row(kind, name, seconds, verdict):
    print(f"{kind:10} {name:58} {seconds:7.2f} s  {verdict}", flush=True)


class Report:
    def __init__(self):
        self.counts, self.failures = {}, []

    def add(self, kind, name, begun, verdict, failure=None):
        row(kind, name, time.process_time() - begun, f"FAILED: {failure}" if failure else verdict)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if failure:
            self.failures.append(name)


def compare_all(report, formulas, properties, calls):
    needed = {function for it in properties.values() for function in it.functions}
    for name in sorted(needed | set(calls)):
        begun, failure = time.process_time(), None
        if name not in calls:
            failure = "the sources have printed no line of it"
        elif name not in needed:
            failure = "no property is about it"
        else:
            failure = compare.difference(formulas, name, calls[name])
        report.add("compared", name, begun, f"{len(calls.get(name, []))} lines", failure)


def prove(it):
    """None, or why the property does not hold. Raises `Undecided`."""
    try:
        it.prove()
    except cases.Refuted as refuted:
        return str(refuted)
    return None


def prove_all(report, properties):
    for it in properties.values():
        begun, failure = time.process_time(), None
        try:
            failure = prove(it)
        except cases.Undecided as undecided:
            failure = str(undecided)
        report.add("proved", it.name, begun, "holds for all", failure)


def try_mutants(report, constants, calls, chosen):
    for title, (name, changed, old, new) in MUTANTS.items():
        if name not in chosen:
            continue
        begun, failure = time.process_time(), None
        formulas, properties = load(constants, changed, old, new)
        try:
            found = prove(properties[name])
            failure = None if found else "nothing refutes it"
        except cases.Undecided as undecided:
            failure, found = str(undecided), None
        # A formula that is changed no longer agrees with the sources either.
        if changed == FORMULAS and not failure:
            differ = any(compare.difference(formulas, it, calls[it]) for it in calls)
            failure = None if differ else "the sources agree with it"
        report.add("mutant", title, begun, f"refuted: {found}"[:150], failure)


def main():
    constants, calls = compare.read(pathlib.Path(sys.argv[1]).read_text())
    words = sys.argv[2:]
    formulas, properties = load(constants)
    chosen = {name: it for name, it in properties.items() if not words or any(word in name for word in words)}
    report = Report()
    if not words:
        compare_all(report, formulas, properties, calls)
        bare = set(properties) - {name for name, *_ in MUTANTS.values()}
        report.failures += [f"{name} has no mutant" for name in sorted(bare)]
    prove_all(report, chosen)
    try_mutants(report, constants, calls, chosen)
    counts = ", ".join(f"{count} {kind}" for kind, count in report.counts.items())
    lines = sum(map(len, calls.values()))
    print("\n".join(f"FAILED: {name}" for name in report.failures))
    print(f"{lines} lines; {counts} ({len(MUTANTS)} mutants in all); {len(report.failures)} failed")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
