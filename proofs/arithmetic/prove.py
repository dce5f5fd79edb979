#!/usr/bin/env python3
"""Compares the formulas with the sources, proves the properties, and shows that each of them can fail.

    prove.py LINES [part of a name]...

LINES is what the program of this folder has printed. Names choose properties.
"""

import multiprocessing
import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import compare
import terms
from mutants import MUTANTS

HERE = pathlib.Path(__file__).resolve().parent
FORMULAS = "formulas.py"
# So many lines of each function are enough to tell a changed formula.
SOME = 400
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


def prove(it):
    """None, or why the property does not hold. Raises `Undecided`."""
    try:
        it.prove()
    except cases.Refuted as refuted:
        return str(refuted)
    except terms.Overflow:
        return "constants do not fit"
    return None


class Bench:
    """What a process needs for any of the checks. Each check returns what it has found, and what is wrong with it."""

    def __init__(self, lines):
        self.constants, self.calls = compare.read(pathlib.Path(lines).read_text())
        self.formulas, self.properties = load(self.constants)

    def compared(self, name):
        lines = len(self.calls.get(name, []))
        if not lines:
            return "", "the sources have printed no line of it"
        if not any(name in it.functions for it in self.properties.values()):
            return "", "no property is about it"
        return f"{lines} lines", compare.difference(self.formulas, name, self.calls[name])

    def proved(self, name):
        return "holds", prove(self.properties[name])

    def mutant(self, title):
        name, changed, old, new = MUTANTS[title]
        formulas, properties = load(self.constants, changed, old, new)
        found = prove(properties[name])
        if found is None:
            return "", "nothing refutes it"
        # A formula that is changed does not agree with the sources either.
        functions = [*properties[name].functions, *self.calls]
        if changed == FORMULAS and not any(
            compare.difference(formulas, function, self.calls[function][:SOME if number else None])
            for number, function in enumerate(functions)
        ):
            return "", "the sources agree with it"
        return f"refuted by {found}", None


def check(job):
    kind, name = job
    begun = time.process_time()
    try:
        verdict, failure = getattr(bench, kind)(name)
    except cases.Undecided as undecided:
        verdict, failure = "", str(undecided)
    return kind, name, time.process_time() - begun, verdict, failure


def jobs(words):
    """What is to be checked, and what cannot be."""
    names = [name for name in bench.properties if not words or any(word in name for word in words)]
    mutants = [title for title, (name, *_) in MUTANTS.items() if name in names]
    needed = {function for it in bench.properties.values() for function in it.functions} | set(bench.calls)
    compared = [] if words else sorted(needed)
    bare = set(names) - {MUTANTS[title][0] for title in mutants}
    kinds = {"compared": compared, "proved": names, "mutant": mutants}
    return [(kind, name) for kind in kinds for name in kinds[kind]], sorted(bare)


def main():
    lines, *words = sys.argv[1:]
    begun = time.monotonic()
    global bench
    bench = Bench(lines)
    todo, bare = jobs(words)
    counts, failures = {}, [f"{name}: no mutant" for name in bare]
    print(f"{'':9} {'property, function or mutant':60} CPU time  verdict")
    # A process for each: the solver numbers all the terms of a process, and its luck is in these numbers. So what a
    # job finds does not depend on the jobs before it, which are others each time.
    with multiprocessing.get_context("fork").Pool(maxtasksperchild=1) as pool:
        for kind, name, seconds, verdict, failure in pool.imap(check, todo):
            print(f"{kind:9} {name:60} {seconds:6.2f} s  {f'FAILED: {failure}' if failure else verdict:.110}", flush=True)
            counts[kind] = counts.get(kind, 0) + 1
            failures += [f"{kind} {name}: {failure}"] if failure else []
    for failure in failures:
        print(f"FAILED: {failure}")
    total = sum(map(len, bench.calls.values()))
    print(
        f"{counts.get('compared', 0)} functions compared on {total} lines, {counts.get('proved', 0)} properties proved, "
        f"{counts.get('mutant', 0)} mutants refuted, {len(failures)} failed, in {time.monotonic() - begun:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
