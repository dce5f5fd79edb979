#!/usr/bin/env bash
# A browser shows the page that the demo writes without a fault, the one that an inspector serves, and that of
# durable timers, which it uses as a person does: it reads on, revives, forgets, pauses.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Seconds after which a program hangs.
LIMIT=600

need_command chromium-headless-shell chromium-headless-shell
need_command python3 python3
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# What drives the browser, and what reads pages as people do who see less.
{ python3 -m venv target/browser &&
    target/browser/bin/pip install --quiet playwright==1.65.2 axe-playwright-python==0.1.8; } ||
    cannot "playwright could not be installed"

cargo build --locked -p tickless-inspect --example watching
timeout "$LIMIT" cargo run -p tickless-demo -- --seconds 3 --timers 100000 --compare --report "$results/page.html"
cat crates/demo/tests/browser.html >>"$results/page.html"
# The test writes the store, and cargo builds the command line for it.
TICKLESS_PAGE_STORE=$results/timers some_tests timeout "$LIMIT" \
    cargo test --locked -p tickless-durable --test durable page::the_errors_of_each_attempt
timeout "$LIMIT" target/browser/bin/python ci/browser.py "$results/page.html" "$results/timers" ||
    fail "a page has faults"
