"""A real Chromium for tests, driven through the DevTools protocol over two pipes: no package, no port."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from tempfile import TemporaryDirectory

VARIABLE = "LANISTA_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
FLAGS = (
    *("--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
    ),
)


def find():
    """The browser's program: what LANISTA_CHROMIUM names, or the first on the path; None without one."""
    if sys.platform == "win32":
        return None  # the pipes are file descriptors 3 and 4 of a POSIX process
    return os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)


_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3), os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Makes of two pipes the descriptors from which the browser reads commands, and on which it answers."""
WHY_NOT = f"no Chromium on the path, and {VARIABLE} names none"


class Tab:
    """An open page: what it asked for, what went wrong in it, and what its JavaScript says."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session
        self.requests, self.errors = [], []
        self._loaded = False

    def begin(self):
        """Ask for what happens in it."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        return self._browser.call(method, parameters, self._session)

    def open(self, address, width, dark=False):
        """Load an address in a window of this width; returns when the page and its charts are drawn."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self.call("Page.navigate", url=address)
        while not self._loaded:
            self._browser.receive()
        self.settle()

    def settle(self):
        """Wait until what has changed is drawn."""
        twice = "requestAnimationFrame(() => requestAnimationFrame(done))"
        self.evaluate(f"new Promise((done) => {twice})")

    def evaluate(self, script):
        """The value of an expression, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def event(self, method, parameters):
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])


class Browser:
    """A running browser: messages are JSON, each ended by a zero byte."""

    def __init__(self, to, back):
        self._to, self._back = to, back
        self._rest, self._number = b"", 0
        self._answers, self._tabs = {}, {}

    @contextmanager
    def tab(self):
        """An empty page of its own, which is closed at the end."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        self._tabs[session] = Tab(self, session)
        self._tabs[session].begin()
        yield self._tabs[session]
        self.call("Target.closeTarget", {"targetId": target})

    def call(self, method, parameters, session=None):
        """Do something, and wait for its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        self._to.write(json.dumps(message).encode() + b"\0")
        number = self._number
        while number not in self._answers:
            self.receive()
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def receive(self):
        """Take the next message."""
        while b"\0" not in self._rest:
            data = self._back.read(1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        if "id" in message:
            self._answers[message["id"]] = message
        elif message.get("sessionId") in self._tabs:
            self._tabs[message["sessionId"]].event(message["method"], message["params"])


@contextmanager
def running(program):
    """Start the browser with a profile of its own, and end it."""
    read, to = os.pipe()
    back, write = os.pipe()
    flags = [*FLAGS, *["--no-sandbox"] * (os.geteuid() == 0)]  # its sandbox refuses to be root's
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile, open(os.devnull, "wb") as nowhere:
        command = [sys.executable, "-c", _START, str(read), str(write)]
        command += [program, *flags, f"--user-data-dir={profile}"]
        process = subprocess.Popen(command, pass_fds=(read, write), stdout=nowhere, stderr=nowhere)
        os.close(read)
        os.close(write)
        with open(to, "wb", buffering=0) as sent, open(back, "rb", buffering=0) as answers:
            browser = Browser(sent, answers)
            try:
                yield browser
            finally:
                browser.call("Browser.close", {})
                process.wait()
