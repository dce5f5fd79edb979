#!/usr/bin/env bash
# Every bench still runs: each of its measurements once, without measuring. `cargo bench` at the root
# means the suite, and each of its groups tells its throughput.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_command python3 python3
python3 - <<'CHECK'
import json, pathlib, re, subprocess, sys

command = ["cargo", "metadata", "--quiet", "--locked", "--no-deps", "--format-version", "1"]
metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
by_name = {package["name"]: package for package in metadata["packages"]}
faults = []
if by_name["benches"]["id"] not in metadata["workspace_default_members"]:
    faults.append("Cargo.toml: `cargo bench` at the root leaves the suite out")

# Groups come from suite::group, which sets a throughput, and measurements from groups.
named = {target["src_path"] for target in by_name["benches"]["targets"]}
for path in sorted(pathlib.Path("benches").glob("*.rs")):
    if str(path.resolve()) not in named:
        faults.append(f"{path}: benches/Cargo.toml does not name it")
for path in sorted(pathlib.Path("benches").glob("*.rs")) + sorted(pathlib.Path("benches/common").glob("*.rs")):
    text = path.read_text()
    groups, settings = text.count("benchmark_group("), text.count("Criterion::default")
    if path.name == "suite.rs":
        if (groups, settings, text.count(".throughput(Throughput::Elements(operations))")) != (1, 1, 1):
            faults.append(f"{path}: one group, one configuration, one throughput are expected")
        continue
    if groups or settings:
        faults.append(f"{path}: groups and configurations come from benches/common/suite.rs")
    if re.search(r"\b(c|criterion)\s*\.bench_(function|with_input)", text):
        faults.append(f"{path}: a measurement outside a group has no throughput")
    if "criterion_group!" in text and "config = suite::config();" not in text:
        faults.append(f"{path}: it does not use suite::config()")
print("\n".join(faults), end="\n" if faults else "")
sys.exit(bool(faults))
CHECK

lint_what_is_built
# Speed does not matter here: what `test` has built will do.
export CARGO_PROFILE_DEV_DEBUG=false
cargo test --quiet --locked --package benches --benches --features studies

# And the ablations still fit the sources.
benches/ablation.py --check
