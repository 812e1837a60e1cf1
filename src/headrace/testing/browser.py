"""A real browser without a screen, for tests of pages: Chromium, told by the DevTools protocol over a pair of pipes.

Pipes need no port, so the browser can run where only a bed's nodes can be reached. Knows nothing of any page.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headrace.testing.processes import ServerProcess

PATIENCE_S = 120.0
POLL_INTERVAL_S = 0.05
# Chromium reads commands from 3 and writes answers to 4; only a shell can put pipes of any number there.
_PIPES = 'from=$1 to=$2; shift 2; exec "$@" 3<&"$from" 4>&"$to"'
# Not the whole Chromium: with a desktop's services and nobody to answer, it crashed once in some hundred starts.
_PROGRAM = "chromium-headless-shell"
_FLAGS = (
    "--no-sandbox",  # which root cannot have
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)

Told = dict[str, Any]


class BrowserError(RuntimeError):
    """The browser refused a command, or a page's script threw; the message says what."""


def chromium_program() -> str | None:
    """The path of Chromium without a screen, if it is installed."""
    return shutil.which(_PROGRAM)


class Browser:
    """One browser with a profile of its own in `folder`; leaving the `with` block ends it."""

    def __init__(self, folder: Path, *, prefix: Sequence[str] = ()) -> None:
        """`prefix`, such as a node's `command_prefix`, must exec, not fork."""
        program = chromium_program()
        if program is None:
            raise BrowserError(f"there is no {_PROGRAM} here (Debian: apt-get install {_PROGRAM})")
        folder.mkdir(parents=True, exist_ok=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [program, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        shell = ["bash", "-c", _PIPES, "browser", str(theirs_in), str(theirs_out)]
        try:
            self._process = ServerProcess(
                command,
                log_path=folder / "chromium.log",
                prefix=[*prefix, *shell],
                environment={"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
                pass_files=(theirs_in, theirs_out),
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._numbers = itertools.count(1)
        self._unread = b""
        self._tabs: dict[str, Tab] = {}

    def tab(self, *, width: int = 1280, height: int = 900, is_dark: bool = False) -> Tab:
        """A new, empty tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        tab.resize(width, height)
        tab.darken(is_dark)
        return tab

    def call(self, method: str, parameters: Mapping[str, Any] | None = None, session: str = "") -> Told:
        """The browser's answer to one command; what happened until then is told to the tabs."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters or {}}
        os.write(
            self._out, json.dumps(command | ({"sessionId": session} if session else {})).encode() + b"\0"
        )
        while (told := self._next()).get("id") != number:
            if (tab := self._tabs.get(told.get("sessionId", ""))) is not None:
                tab.note(told["method"], told["params"])
        if "error" in told:
            raise BrowserError(f"{method}: {told['error']['message']}")
        answer: Told = told["result"]
        return answer

    def _next(self) -> Told:
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(self._in, 1 << 20) if ready else b""
            if not piece:
                raise BrowserError(f"the browser says nothing more: {self._process.log_tail()}")
            self._unread += piece
        message, _, self._unread = self._unread.partition(b"\0")
        told: Told = json.loads(message)
        return told

    def close(self) -> None:
        """Ends the browser. Safe to call twice."""
        if self._process.is_running():
            self._process.kill()
            os.close(self._out)
            os.close(self._in)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Tab:
    """One page at a time, with all that it asked of the network and all that it complained of."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        """The addresses that were asked for, in order."""
        self.complaints: list[str] = []
        """Errors and warnings of scripts, of the page's policy and of the browser, without those of the network."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def note(self, event: str, told: Told) -> None:
        """Something has happened here."""
        match event:
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.complaints.append(" ".join(str(each.get("value")) for each in told["args"]))
            case "Log.entryAdded" if told["entry"]["source"] != "network":
                self.complaints.append(told["entry"]["text"])

    def open(self, url: str) -> None:
        """Goes there, and returns when the page is whole; BrowserError when nothing answers."""
        if fault := self._call("Page.navigate", url=url).get("errorText"):
            raise BrowserError(f"{url}: {fault}")
        self.wait_for("document.readyState === 'complete'")

    def resize(self, width: int, height: int) -> None:
        """In CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **metrics)

    def darken(self, is_dark: bool) -> None:
        """Tells the page that its reader prefers dark colours, or light ones."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        told = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if fault := told.get("exceptionDetails"):
            raise BrowserError(fault.get("exception", {}).get("description", fault["text"]))
        return told["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """The text of an element as a reader sees it."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def wait_for(self, expression: str) -> None:
        """Waits until an expression is true; TimeoutError with the page's text when it does not become so."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE_S:g} s for {expression} in: {self.text()}")
            time.sleep(POLL_INTERVAL_S)

    def accessible(self) -> list[tuple[str, str]]:
        """Role and name of everything that assistive software is told of."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        shown = [node for node in nodes if not node["ignored"]]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in shown]

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""
        told = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(told["data"])

    def _call(self, method: str, **parameters: Any) -> Told:
        return self._browser.call(method, parameters, self._session)
