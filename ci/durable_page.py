"""Uses the page of durable timers in a browser as a person does, and says what is wrong with it.

durable_page.py COMMAND STORE [PICTURE]: the command line, and a store that
`page::the_errors_of_each_attempt_..` has written. The browser is driven through two pipes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

LIMIT = 120

faults = []


def fault(text):
    faults.append(text)
    print(f"fault: {text}", file=sys.stderr)


class Browser:
    def __init__(self, directory):
        (there, self.out), (self.into, back) = os.pipe(), os.pipe()

        def pipes():
            # Both are moved out of the way first.
            one, two = os.dup(there), os.dup(back)
            os.dup2(one, 3)
            os.dup2(two, 4)

        self.process = subprocess.Popen(
            ["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={directory}"], close_fds=False, preexec_fn=pipes, stderr=subprocess.DEVNULL)
        os.close(there)
        os.close(back)
        self.next, self.read, self.session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.read:
            more = os.read(self.into, 1 << 16)
            if not more:
                sys.exit("the browser has ended")
            self.read += more
        text, self.read = self.read.split(b"\0", 1)
        message = json.loads(text)
        what = message.get("method")
        if what == "Runtime.exceptionThrown":
            fault(f"it throws {message['params']['exceptionDetails'].get('exception', {}).get('description')}")
        if what == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            fault(f"the console says {message['params']['entry']['text']}")
        return message

    def call(self, method, **params):
        self.next += 1
        message = {"id": self.next, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.message()
            if reply.get("id") == self.next:
                if "error" in reply:
                    sys.exit(f"{method}: {reply['error']}")
                return reply["result"]

    def value(self, expression):
        """What JavaScript says."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

    def wait(self, what, expression):
        end = time.monotonic() + LIMIT
        while not self.value(expression):
            if time.monotonic() > end:
                fault(f"this never happens: {what}; the page says {self.text('state')!r}")
                return
            time.sleep(0.05)

    def text(self, place):
        return self.value(f"document.getElementById({json.dumps(place)})?.innerText ?? ''")

    def press(self, label):
        """Presses the button that a screen reader calls so."""
        name = json.dumps(label)
        found = self.value(f"""(() => {{
            const all = [...document.querySelectorAll("button")].filter((it) => !it.hidden);
            const it = all.find((it) => (it.ariaLabel ?? it.textContent) === {name});
            it?.focus(); it?.click(); return !!it;
        }})()""")
        if not found:
            fault(f"there is no button {label!r}")

    def nodes(self):
        """What a screen reader sees: roles and names."""
        tree = self.call("Accessibility.getFullAXTree")["nodes"]
        value = lambda node, name: node.get(name, {}).get("value", "")
        return [(value(node, "role"), value(node, "name")) for node in tree if not node.get("ignored")]

    def picture(self, path, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        import base64
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def contrasts(self, scheme):
        """The least contrast of texts with what is behind them, as WCAG counts it."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        return self.value("""(() => {
            const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const pixel = (colors) => {
                colors.forEach((color) => { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); });
                return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
            };
            const part = (c) => c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4;
            const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
            const all = [...document.querySelectorAll("h1, h2, p, td, th, b, span, button")]
                .filter((it) => it.innerText && it.offsetParent && !it.disabled).map((it) => {
                const behind = ["canvas"];
                document.body.style.backgroundColor = "canvas";
                const canvasColor = getComputedStyle(document.body).backgroundColor;
                const own = getComputedStyle(it).backgroundColor;
                const back = pixel([canvasColor, own]), front = pixel([canvasColor, own, getComputedStyle(it).color]);
                const [a, b] = [light(back), light(front)];
                return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), it.tagName + " " + it.innerText.slice(0, 30)];
            });
            return all.sort((a, b) => a[0] - b[0])[0];
        })()""")


def served(command, store, *options):
    process = subprocess.Popen([command, store, "page", *options], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    return process, line.removeprefix("open ").strip()


def main(command, store, picture=None):
    subprocess.run([command, store, "pause", "<img src=x onerror=alert(1)>"], check=True, stdout=subprocess.DEVNULL)
    process, address = served(command, store)
    with tempfile.TemporaryDirectory() as directory:
        browser = Browser(directory)
        try:
            look(browser, address)
        finally:
            process.kill()
        process, address = served(command, store, "--allow-changes")
        try:
            change(browser, address, picture)
        finally:
            process.kill()
            browser.process.kill()
            browser.process.wait()
    left = subprocess.run([command, store, "count", "--json"], check=True, capture_output=True, text=True)
    left = json.loads(left.stdout)
    if (left["timers"], left["dead_letters"]) != (61, 0):
        fault(f"the store has {left}")


def is_drawn(browser):
    browser.wait("it is drawn", 'document.getElementById("state").innerText.startsWith("at ")')


def look(browser, address):
    """The page that changes nothing."""
    browser.call("Page.navigate", url=address.split("#")[0])
    browser.wait("it says what is missing",
                 'document.getElementById("state").innerText.includes("its end is missing")')
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=address)
    is_drawn(browser)
    for table, rows in {"kind": 2, "pause": 2, "dead": 4, "timer": 26}.items():
        found = browser.value(f'document.getElementById("{table}").rows.length')
        if found != rows:
            fault(f"the table {table} has {found} rows, and not {rows}")
    for place, text in {"kind": "mail/", "pause": "<img src=x onerror=alert(1)>", "dead": "2 <i>no</i>",
                        "timer": "mail/<u>0</u>", "tiles": "60\npending"}.items():
        if text not in browser.text(place):
            fault(f"{place} does not say {text!r}: {browser.text(place)!r}")
    if browser.value('[...document.querySelectorAll("img, u, i, main b, main script")].length') != 0:
        fault("what is shown is taken for HTML")
    if browser.value('[...document.querySelectorAll("#dead button:not(.link), #pause button")].some((it) => !it.hidden)'):
        fault("a page that changes nothing has buttons for it")
    browser.press("sms/0")
    browser.wait("the letter is shown", 'document.getElementById("detail").open')
    for place, text in {"failed": "1 <i>no</i>", "payload": "<b>tea</b><script>document.title = 'run'</script>"}.items():
        if text not in browser.text(place):
            fault(f"{place} does not say {text!r}: {browser.text(place)!r}")
    browser.press("Close")
    browser.press("mail/<u>0</u>")
    browser.wait("the timer is shown", 'document.getElementById("payload").innerText.includes("262,144 bytes")')
    browser.press("Close")
    # The next page of timers, and the one after it, which is the last.
    for rows in (26, 11):
        first = browser.text("timer")
        # The dead letters have a button of this name, too.
        browser.value('document.getElementById("Later timers").click()')
        browser.wait("the next page comes", f'document.getElementById("timer").innerText !== {json.dumps(first)}')
        found = browser.value('document.getElementById("timer").rows.length')
        if found != rows:
            fault(f"a page has {found} rows, and not {rows}")
    nodes = browser.nodes()
    for node in [("heading", "Dead letters"), ("table", "Dead letters"), ("table", "Timers"), ("columnheader", "Error")]:
        if node not in nodes:
            fault(f"a screen reader does not find {node}")
    for role, name in nodes:
        if role in ("button", "table", "textbox", "heading") and not name:
            fault(f"a {role} has no name")
    for scheme in ("light", "dark"):
        least, where = browser.contrasts(scheme)
        if least < 4.5:
            fault(f"contrast {least:.2f} ({scheme}): {where}")


def change(browser, address, picture):
    """The page that changes what it is told to."""
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=address)
    is_drawn(browser)
    if picture:
        for scheme in ("light", "dark"):
            browser.picture(f"{picture}-{scheme}.png", scheme)
    browser.press("Revive (sms/0)")
    browser.wait("it is revived", '!document.getElementById("dead").innerText.includes("sms/0")')
    browser.press("Forget (sms/1)")
    if "sms/1" not in browser.text("dead"):
        fault("a letter is forgotten at the first press")
    browser.press("Forget: press again (sms/1)")
    browser.wait("it is forgotten", '!document.getElementById("dead").innerText.includes("sms/1")')
    browser.press("Forget all (all dead letters)")
    browser.press("Forget all: press again (all dead letters)")
    browser.wait("all are forgotten", 'document.getElementById("dead").innerText === "none"')
    browser.press("Resume (<img src=x onerror=alert(1)>)")
    browser.wait("it is resumed", 'document.getElementById("pause").innerText === "none"')
    browser.value('document.getElementById("prefix").value = "sms/"; document.querySelector("form button").click()')
    browser.wait("it is paused", 'document.getElementById("pause").innerText.includes("sms/")')
    if browser.value("document.title") == "run":
        fault("a payload was run")


main(*sys.argv[1:])
print("\n".join(faults) or "no faults")
sys.exit(bool(faults))
