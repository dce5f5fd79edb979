#!/usr/bin/env python3
"""Checks what the published crates depend on against `deny.toml`: licences, banned crates, duplicates
and sources. Cargo downloads what it lacks of them. (cargo-deny does the same and more.)"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked", "--all-features"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def is_allowed(licence, allowed):
    """Whether an SPDX expression can be met by allowed licences."""
    tokens = re.findall(r"\(|\)|/|[\w.+-]+(?: WITH [\w.+-]+)?", licence or "")
    words = {"OR": "or", "/": "or", "AND": "and", "(": "(", ")": ")"}
    return bool(tokens) and eval(" ".join(words.get(t, str(t in allowed)) for t in tokens))


def complaints(packages, rules):
    licences, bans = rules["licenses"]["allow"], rules["bans"]
    skipped = [entry["crate"].split("@") for entry in bans["skip"]]
    registries = [f"registry+{url}" for url in rules["sources"]["allow-registry"]]
    versions = {}
    for package in packages:
        name, version, source = package["name"], package["version"], package["source"]
        if not is_allowed(package["license"], licences):
            yield f"{name} {version}: the licence {package['license']} is not allowed"
        if name in bans["deny"]:
            yield f"{name} {version}: banned"
        if source is not None and source not in registries:
            yield f"{name} {version}: from {source}"
        if not any(name == crate and f"{version}.".startswith(f"{begin}.") for crate, begin in skipped):
            versions.setdefault(name, []).append(version)
    for name, several in versions.items():
        if len(several) > 1:
            yield f"{name}: {' and '.join(sorted(several))}"


# It looks: what has to be refused is.
fields = ("name", "version", "source", "license")
planted = [("a", "1.0.0", None, "MIT AND GPL-3.0-only"), ("a", "2.0.0", "git+x", "GPL-3.0-only OR MIT/Zlib"),
           ("b", "1.0.0", None, "(MIT OR Zlib) AND MIT"), ("b", "0.1.0", None, "MIT")]
rules = {"licenses": {"allow": ["MIT"]}, "sources": {"allow-registry": ["y"]},
         "bans": {"deny": ["b"], "skip": [{"crate": "b@0"}]}}
found = list(complaints([dict(zip(fields, package)) for package in planted], rules))
expected = ["GPL-3.0-only is not allowed", "from git+x", "b 1.0.0: banned", "b 0.1.0: banned", "a: 1.0.0 and 2.0.0"]
assert len(found) == len(expected) and all(map(str.endswith, found, expected)), found

metadata = json.loads(cargo("metadata", "--format-version", "1"))
published = [it["name"] for it in metadata["packages"] if it["source"] is None and it["publish"] != []]
# What their users build.
tree = cargo("tree", "--edges", "normal,build", "--prefix", "none", *(f"--package={name}" for name in published))
built = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
packages = [it for it in metadata["packages"] if (it["name"], f"v{it['version']}") in built]
found = sorted(complaints(packages, tomllib.loads((ROOT / "deny.toml").read_text())))
print(f"{len(packages)} packages, {len(found)} against the rules", *found, sep="\n")
sys.exit(bool(found) or len(packages) < 10)
