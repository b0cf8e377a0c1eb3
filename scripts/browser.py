# SPDX-License-Identifier: MIT OR Apache-2.0
"""A headless Chromium under the control of a script, over two pipes and without a network port."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

# No first start, no updates, no reports: a page is shown, and nothing else goes on.
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--hide-scrollbars --force-color-profile=srgb --remote-debugging-pipe"
).split()


class BrowserError(Exception):
    """The browser is not there, has ended, or refuses a command."""


class Browser:
    """One browser with one page in it. To be used in a `with` statement."""

    def __enter__(self):
        program = shutil.which("chromium")
        if program is None:
            raise BrowserError("no chromium here; scripts/setup.sh pages installs it")
        self.profile = tempfile.mkdtemp(prefix="ample-browser.")
        to_read, self.to = os.pipe()
        self.of, of_write = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        command = f'exec "$@" 3<&{to_read} 4>&{of_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, "bash", program, *FLAGS, f"--user-data-dir={self.profile}"],
            pass_fds=(to_read, of_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(of_write)
        self.left, self.number, self.events, self.session = b"", 0, [], None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.close(self.to)
        os.close(self.of)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self):
        """The next message of the browser."""
        while b"\0" not in self.left:
            part = os.read(self.of, 1 << 20)
            if not part:
                raise BrowserError("the browser has ended")
            self.left += part
        text, self.left = self.left.split(b"\0", 1)
        return json.loads(text)

    def send(self, method, **params):
        """Sends one command and waits for what comes of it."""
        self.number += 1
        own = {"id": self.number, "method": method, "params": params}
        if self.session:
            own["sessionId"] = self.session
        os.write(self.to, json.dumps(own).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def wait(self, method):
        """Waits for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message())

    def set_screen(self, width, height, scheme="light", media=""):
        """The size of the window in CSS pixels, light or dark, on screen or on paper."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.send("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, path, script=True):
        """Opens a file; answers with every request beyond it and every error of its script."""
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.events.clear()
        url = "file://" + os.path.realpath(path)
        self.send("Page.navigate", url=url)
        self.wait("Page.loadEventFired")
        problems = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Network.requestWillBeSent":
                asked = params["request"]["url"]
                if asked != url and not asked.startswith("data:"):
                    problems.append(f"asks for {asked}")
            elif method == "Runtime.exceptionThrown":
                problems.append(params["exceptionDetails"]["text"])
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                problems.append(params["entry"]["text"])
        return problems

    def evaluate(self, expression):
        """The value of an expression of JavaScript on the page; promises are waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", details).get("description", str(details)))
        return answer["result"].get("value")

    def press(self, key):
        """Presses and releases a key by its name."""
        text = {"Enter": "\r", " ": " "}.get(key)
        code = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}.get(key)
        code = code or {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            params = {"type": kind, "key": key, "windowsVirtualKeyCode": code}
            if text and kind == "keyDown":
                params["text"] = text
            self.send("Input.dispatchKeyEvent", **params)

    def picture(self, whole=False, clip=None):
        """The window, the whole page, or a part of it (x, y, width, height), as PNG."""
        params = {"format": "png", "captureBeyondViewport": bool(whole or clip)}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            clip = (0, 0, size["width"], size["height"])
        if clip:
            params["clip"] = dict(zip(("x", "y", "width", "height", "scale"), (*clip, 1)))
        return base64.b64decode(self.send("Page.captureScreenshot", **params)["data"])

    def paper(self):
        """The page as it is printed, as PDF."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])
