"""Reads the inspector's page as a browser shows it, and says what is wrong with it."""

import re
import sys
from html.parser import HTMLParser

# Each table, and how many rows it has at least.
TABLES = {"due": 12, "level": 2, "shard": 2, "late": 3, "stuck": 1, "totals": 11}


class Page(HTMLParser):
    """The texts of the cells of each table, of the tiles, and of the state."""

    def __init__(self):
        super().__init__()
        self.places, self.texts = [], {}

    def handle_starttag(self, tag, attributes):
        name = dict(attributes).get("id")
        if tag not in ("link", "meta"):
            self.places.append(name or (self.places[-1] if self.places else None))
        if tag == "tr":
            self.texts.setdefault(f"{self.places[-1]} rows", []).append("")

    def handle_endtag(self, tag):
        if tag not in ("link", "meta"):
            self.places.pop()

    def handle_data(self, data):
        if self.places and data.strip():
            self.texts.setdefault(self.places[-1], []).append(data.strip())


page = Page()
shown, log = (open(path, encoding="utf-8").read() for path in sys.argv[1:3])
page.feed(shown.split("<script", 1)[0])
faults = [line for line in log.splitlines() if "CONSOLE" in line]
[state] = page.texts.get("state", [""])
if not state.startswith("at "):
    faults.append(f"its state is {state!r}")
if len(page.texts.get("tiles", [])) != 22:
    faults.append(f"its tiles are {page.texts.get('tiles')}")
if not any(text.endswith(" /s") for text in page.texts.get("tiles", [])):
    faults.append("it was drawn once only: there are no rates")
for table, least in TABLES.items():
    rows = len(page.texts.get(f"{table} rows", []))
    if rows < least:
        faults.append(f"the table {table!r} has {rows} rows")
odd = re.compile("NaN|undefined|Infinity|null")
texts = (text for texts in page.texts.values() for text in texts)
faults += [f"it says {text!r}" for text in texts if odd.search(text)]
print("\n".join(faults) or "no faults")
sys.exit(bool(faults))
