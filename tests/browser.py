"""Control a headless Chromium over the DevTools protocol, for tests of pages that need a real browser."""

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket
from patience import Limit

_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--remote-debugging-port=0", "--window-size=1500,1150", "--force-color-profile=srgb"),
)

_MAX_WAIT_S = 900  # for one answer of the browser


class PageError(AssertionError):
    """An expected condition did not occur, or a script of the test failed in the page."""


class Page:
    """One page of the browser.

    Attributes:
        errors: The errors of the console and of scripts, in order.
    """

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=_MAX_WAIT_S, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # an unfocused page has no focused element

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol; return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            self._record_error(message)
            if message.get("id") == number:
                if "error" in message:
                    raise PageError(f"{method}: {message['error']}")
                return dict(message["result"])

    def _record_error(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "assert"}:
                self.errors.append(
                    " ".join(str(one.get("value", one.get("description"))) for one in parameters["args"])
                )
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.errors.append(str(details.get("exception", {}).get("description", details["text"])))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def open(self, address: str) -> None:
        """Navigate to an address."""
        self.call("Page.navigate", url=address)

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise PageError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait_for(self, script: str, limit_s: float = 60) -> Any:
        """Wait until a JavaScript expression is true; return its value."""
        limit = Limit(limit_s)
        while not (value := self.evaluate(script)):
            if limit.expired():
                raise PageError(f"not true after {limit_s} s: {script}; errors: {self.errors}")
            time.sleep(0.05)
        return value

    def press(self, key: str, code: int) -> None:
        """Press a key on the focused element, by its name and its Windows key code."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path) -> None:
        """Write the visible part of the page as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def opened_page() -> Iterator[Page]:
    """Start a browser and yield an empty page; end all its processes on exit. Skips if Chromium is not installed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs chromium")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [program, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            env={**os.environ, "HOME": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield Page(_page_address(Path(folder), process))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _page_address(folder: Path, process: "subprocess.Popen[bytes]") -> str:
    port_file, limit = folder / "DevToolsActivePort", Limit(30)
    while True:
        assert process.poll() is None, "chromium has ended"
        assert not limit.expired(), "chromium did not write its port"
        with contextlib.suppress(OSError, ValueError):
            port = int(port_file.read_text(encoding="utf-8").splitlines()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=_MAX_WAIT_S) as answer:
                pages = [each for each in json.load(answer) if each["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
