#!/usr/bin/env python3
"""Checks what the published crates depend on against `deny.toml`: licences, banned crates, duplicates
and sources. Reads only what cargo has downloaded. (cargo-deny does the same and more, online.)"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

TARGET = "x86_64-unknown-linux-gnu"
COMMAND = ["cargo", "metadata", "--locked", "--offline", "--all-features", "--format-version", "1"]


def is_allowed(licence, allowed):
    """Whether an SPDX expression can be met by allowed licences."""
    tokens = re.findall(r"\(|\)|/|[\w.+-]+(?: WITH [\w.+-]+)?", licence or "")
    words = {"OR": "or", "/": "or", "AND": "and", "(": "(", ")": ")"}
    return bool(tokens) and eval(" ".join(words.get(t, str(t in allowed)) for t in tokens))


def published(metadata):
    """The packages that users of the published crates build, by their ids."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    ahead = [id for id in metadata["workspace_members"] if packages[id]["publish"] != []]
    found = {}
    while ahead:
        id = ahead.pop()
        if id in found:
            continue
        found[id] = packages[id]
        for dependency in nodes[id]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                ahead.append(dependency["pkg"])
    return found.values()


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
planted = [
    {"name": "a", "version": "1.0.0", "source": None, "license": "MIT AND GPL-3.0-only"},
    {"name": "a", "version": "2.0.0", "source": "git+x", "license": "GPL-3.0-only OR MIT/Zlib"},
    {"name": "b", "version": "1.0.0", "source": None, "license": "(MIT OR Zlib) AND MIT"},
    {"name": "b", "version": "0.1.0", "source": None, "license": "MIT"},
]
rules = {"licenses": {"allow": ["MIT"]}, "sources": {"allow-registry": ["y"]}}
rules["bans"] = {"deny": ["b"], "skip": [{"crate": "b@0"}]}
found = list(complaints(planted, rules))
expected = ["GPL-3.0-only is not allowed", "from git+x", "b 1.0.0: banned", "b 0.1.0: banned", "a: 1.0.0 and 2.0.0"]
assert len(found) == len(expected) and all(map(str.endswith, found, expected)), found

root = pathlib.Path(__file__).resolve().parent.parent
rules = tomllib.loads((root / "deny.toml").read_text())
command = [*COMMAND, "--filter-platform", TARGET]
metadata = json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
packages = list(published(metadata))
found = sorted(complaints(packages, rules))
print(f"{len(packages)} packages, {len(found)} against the rules", *found, sep="\n")
sys.exit(bool(found) or len(packages) < 10)
