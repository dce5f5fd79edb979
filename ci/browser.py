"""Uses the pages in a browser as a person does, and says what is wrong with them: the demo's, the inspector's, and
that of durable timers.

browser.py PAGE STORE: the page that the demo has written, at whose end a script looks for faults and puts them
into the title; and a store that `page::the_errors_of_each_attempt_..` has written.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

DURABLE = "target/debug/tickless-durable"
PAUSED = "<img src=x onerror=alert(1)>"
expect.set_options(timeout=120_000)
# A number of one figure is text as well.
AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
       "checks": {"color-contrast": {"options": {"ignoreLength": True}}}}
faults = []


@contextlib.contextmanager
def opened(browser, *command):
    """The page whose address this program prints."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        page = browser.new_page()
        page.on("pageerror", lambda error: faults.append(f"it throws {error}"))
        page.on("console", lambda said: said.type == "error" and faults.append(f"the console says {said.text}"))
        try:
            addresses = (re.search(r"http://[^\s,]+", line) for line in process.stdout)
            page.goto(next((found[0] for found in addresses if found), f"nowhere: {command} prints no address"))
            expect(page.locator("#state")).to_have_text(re.compile("^at "))
            yield page
            page.close()
        finally:
            process.kill()


def see(page):
    """As people do who see less: texts stand out from what is behind them, and more of the like."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        # The browser's own is taken for white.
        page.evaluate("document.documentElement.style.background = 'canvas'")
        found = Axe().run(page, options=AXE).response
        for rule in found["violations"] + found["incomplete"]:
            faults.extend(f"{scheme}, {it['html']}: {it['failureSummary']}" for it in rule["nodes"])


def hear(page):
    """As a screen reader does: what it finds has a name."""
    unnamed = re.findall(r'(?m)^ *- (?:button|table|textbox|heading)(?! ").*', page.locator("body").aria_snapshot())
    faults.extend(f"without a name: {it}" for it in unnamed)


def inspector(page):
    expect(page.locator("#tiles > *")).to_have_count(11)
    # It is drawn more than once.
    expect(page.locator("#tiles")).to_contain_text(re.compile(r"[1-9][\d,.]* /s"))
    for table, least in {"due": 12, "level": 2, "shard": 2, "late": 3, "stuck": 1, "totals": 11}.items():
        expect(page.locator(f"#{table} tr").nth(least - 1)).to_be_attached()
    faults.extend(re.findall(".*(?:NaN|undefined|Infinity|null).*", page.inner_text("body")))
    see(page)


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def look(page):
    """The page of durable timers that changes nothing."""
    expect(page.locator("#tiles")).to_contain_text("60pending")
    for table, rows, text in [("kind", 2, "mail/"), ("pause", 2, PAUSED), ("dead", 4, "2 <i>no</i>"),
                              ("timer", 26, "mail/<u>0</u>")]:
        expect(page.locator(f"#{table} tr")).to_have_count(rows)
        expect(page.locator(f"#{table}")).to_contain_text(text)
    for role, name in [("heading", "Dead letters"), ("table", "Dead letters"), ("table", "Timers"), ("columnheader", "Error")]:
        expect(page.get_by_role(role, name=name, exact=True)).to_be_visible()
    expect(page.locator("img, u, i, main b, main script"), "what is shown is taken for HTML").to_have_count(0)
    expect(page.locator("#dead button:not(.link):visible, #pause button:visible")).to_have_count(0)
    see(page)
    hear(page)
    press(page, "sms/0")
    expect(page.locator("#failed")).to_contain_text("1 <i>no</i>")
    expect(page.locator("#payload")).to_have_text("<b>tea</b><script>document.title = 'run'</script>")
    expect(page, "a payload was run").not_to_have_title("run")
    see(page)
    hear(page)
    press(page, "Close")
    press(page, "mail/<u>0</u>")
    expect(page.locator("#payload")).to_contain_text("262,144 bytes")
    press(page, "Close")
    # The next page of timers, and the one after it, which is the last.
    for first, rows in [("mail/<u>25</u>", 26), ("mail/<u>50</u>", 11)]:
        press(page.locator("#timer-tools"), "Later")
        expect(page.locator("#timer")).to_contain_text(first)
        expect(page.locator("#timer tr")).to_have_count(rows)


def change(page):
    """The page of durable timers that changes what it is told to."""
    see(page)
    hear(page)
    dead, paused = page.locator("#dead"), page.locator("#pause")
    press(page, "Revive (sms/0)")
    expect(dead).not_to_contain_text("sms/0")
    press(page, "Forget (sms/1)")
    expect(dead).to_contain_text("sms/1")
    press(page, "Forget: press again (sms/1)")
    expect(dead).not_to_contain_text("sms/1")
    press(page, "Forget all (all dead letters)")
    press(page, "Forget all: press again (all dead letters)")
    expect(dead).to_have_text("none")
    press(page, f"Resume ({PAUSED})")
    expect(paused).to_have_text("none")
    page.get_by_label("Keys that begin with").last.fill("sms/")
    press(page, "Pause")
    expect(paused).to_contain_text("sms/")


demo, store = sys.argv[1:]
subprocess.run([DURABLE, store, "pause", PAUSED], check=True)
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"))
    page = browser.new_page()
    page.goto(pathlib.Path(demo).as_uri())
    expect(page).to_have_title("no faults")
    with opened(browser, "target/debug/examples/watching") as page:
        inspector(page)
    with opened(browser, DURABLE, store, "page") as page:
        look(page)
        page.goto(page.url.split("#")[0])
        expect(page.locator("#state")).to_contain_text("its end is missing")
    with opened(browser, DURABLE, store, "page", "--allow-changes") as page:
        change(page)
left = json.loads(subprocess.check_output([DURABLE, store, "count", "--json"]))
assert (left["timers"], left["dead_letters"]) == (61, 0), left
print("\n".join(faults) or "no faults")
sys.exit(bool(faults))
