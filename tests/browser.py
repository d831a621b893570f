"""Chromium without a window, driven over chromedriver's protocol (W3C WebDriver) by what Python has."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]  # fmt: skip


class Browser:
    """One window."""

    def __init__(self, address: str, profile: Path) -> None:
        self.address = address
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self.send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{made['sessionId']}"

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, page: Path) -> float:
        """Open a file; the seconds until it is loaded."""
        start = time.perf_counter()
        self.send("POST", f"{self.session}/url", {"url": page.resolve().as_uri()})
        return time.perf_counter() - start

    def run(self, script: str, *values: Any) -> Any:
        """What a function body returns, once it has settled."""
        wrapped = f"const done = arguments[arguments.length - 1], given = [...arguments].slice(0, -1); \
            (async function () {{ {script} }}).apply(null, given).then(done, e => done('failed: ' + e));"
        found = self.send("POST", f"{self.session}/execute/async", {"script": wrapped, "args": list(values)})
        assert not (isinstance(found, str) and found.startswith("failed: ")), found
        return found

    def limit(self, seconds: float) -> None:
        self.send("POST", f"{self.session}/timeouts", {"script": int(1000 * seconds)})

    def keys(self, *codes: str) -> None:
        steps = [{"type": kind, "value": c} for c in codes for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": steps}]
        self.send("POST", f"{self.session}/actions", {"actions": actions})

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Press the pointer at the first point and pull it through the others."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 5} for x, y in points]
        steps = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        actions = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}]
        self.send("POST", f"{self.session}/actions", {"actions": actions})

    def command(self, name: str, **values: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.send("POST", f"{self.session}/goog/cdp/execute", {"cmd": name, "params": values})

    def show(self, width: int, height: int, scheme: str = "light") -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("GET", f"{self.session}/screenshot")))

    def complaints(self) -> list[str]:
        """What the console says of errors and warnings."""
        said = self.send("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in said if entry["level"] in ("SEVERE", "WARNING")]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose files are in a folder."""
    assert DRIVER is not None
    driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        assert driver.stdout is not None
        found = next(m for line in driver.stdout if (m := re.search(r"started successfully on port (\d+)", line)))
        window = Browser(f"http://127.0.0.1:{found[1]}", folder / "profile")
        try:
            yield window
        finally:
            window.send("DELETE", window.session)
    finally:
        driver.terminate()
        driver.wait()
        if driver.stdout is not None:
            driver.stdout.close()
