#!/usr/bin/env python3
"""Holds the table of proofs/specs/README.md to the specs and to the sources.

Every action of the table is defined in its spec, every name is at an `// ORDER(NAME)` in src or
in a line of a header that lists orderings, and every file has that name. Says which names of src
no spec covers.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SRC = HERE.parent.parent / "crates" / "core" / "src"

sites, headers = {}, {}
for path in SRC.rglob("*.rs"):
    text = path.read_text()
    file = str(path.relative_to(SRC))
    for names in re.findall(r"ORDER\(([A-Z, \n/-]+)\)", text):
        for name in re.findall(r"[A-Z][A-Z-]+", names):
            sites.setdefault(name, set()).add(file)
    for names in re.findall(r"^//! (?:\*Orderings\*: )?([A-Z-]+(?:[,.:][^\n]*)?)$", text, re.M):
        for name in re.findall(r"\b[A-Z][A-Z-]{3,}\b", names):
            headers.setdefault(name, set()).add(file)

wrong, covered, rows = [], set(), 0
for line in (HERE / "README.md").read_text().splitlines():
    row = re.match(r"\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", line)
    if not row:
        continue
    rows += 1
    spec, actions, names, files = row.groups()
    text = (HERE / f"{spec}.tla").read_text()
    for action in re.findall(r"`(\w+)`", actions):
        if not re.search(rf"^{action}(\([^)]*\))? ==", text, re.M):
            wrong.append(f"{spec}.tla has no action {action}")
    files = re.findall(r"`([\w/]+\.rs)`", files)
    for name in re.findall(r"[A-Z][A-Z-]+", names):
        covered.add(name)
        if name not in sites:
            wrong.append(f"{name}: src has no such ORDER")
        elif not any(file in sites[name] | headers.get(name, set()) for file in files):
            wrong.append(f"{spec}: {name} is in none of {', '.join(files)}")
    for file in files:
        if not (SRC / file).exists():
            wrong.append(f"{spec}: src has no {file}")

if rows == 0:
    wrong.append("README.md has no table")
print("\n".join(wrong) or f"{rows} rows of the table fit; covered: {', '.join(sorted(covered))}")
print(f"not covered by a spec: {', '.join(sorted(set(sites) - covered))}")
sys.exit(bool(wrong))
