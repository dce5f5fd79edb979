#!/usr/bin/env python3
"""Every public type, trait, function, method and constant shows by example how it is used.

Reads what rustdoc knows about the crate, as JSON, from the file that is the argument. Variants and
fields need words only, which the compiler asks for; what implements a trait is shown at the trait.
"""

import json
import sys

WITH_EXAMPLE = {"struct", "enum", "trait", "function", "constant", "macro"}


def name(item, paths):
    entry = paths.get(str(item["id"]))
    return "::".join(entry["path"]) if entry else item["name"]


def main():
    crate = json.load(open(sys.argv[1], encoding="utf-8"))
    index, paths = crate["index"], crate["paths"]
    missing, seen, waiting = [], set(), [(crate["root"], "")]
    count = 0
    while waiting:
        id, owner = waiting.pop()
        item = index.get(str(id))
        if item is None or (id, owner) in seen:
            continue
        seen.add((id, owner))
        kind, inner = next(iter(item["inner"].items()))
        if any("doc(hidden)" in str(attr) or "hidden" in str(attr) for attr in item["attrs"]):
            continue
        if kind == "module":
            waiting += [(child, "") for child in inner["items"]]
        elif kind == "use":
            waiting.append((inner["id"], ""))
        elif kind == "impl":
            if inner["trait"] is None:
                waiting += [(child, owner) for child in inner["items"]]
        elif kind in WITH_EXAMPLE and item["visibility"] in ("public", "default"):
            count += 1
            full = f"{owner}::{item['name']}" if owner else name(item, paths)
            if "```" not in (item["docs"] or ""):
                missing.append((item["span"]["filename"], item["span"]["begin"][0], full))
            if kind in ("struct", "enum"):
                waiting += [(child, full) for child in inner["impls"]]
            elif kind == "trait":
                waiting += [(child, full) for child in inner["items"]]
    for file, line, full in sorted(missing):
        print(f"{file}:{line}: `{full}` has no example")
    print(f"{count} public items, {len(missing)} without an example")
    sys.exit(bool(missing))


main()
