"""Headless Chromium, spoken to over its own pipe (DevTools protocol), so that no driver is needed."""
import base64
import fcntl
import io
import json
import os
import select
import shutil
import subprocess
import time

from PIL import Image

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
)


class Browser:
    "One page of a headless Chromium"
    def __init__(self, profile):
        (read, to_browser), (from_browser, write) = os.pipe(), os.pipe()
        def child():
            a, b = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read, write))   # out of the way of 3 and 4
            os.dup2(a, 3), os.dup2(b, 4)

        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        self.process = subprocess.Popen([CHROMIUM, *flags, "about:blank"], preexec_fn=child, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read), os.close(write)
        self.out, self.inp, self.n, self.session, self.events, self.buffer = to_browser, from_browser, 0, None, [], b""
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"): self(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.inp], [], [], 120)
            part = os.read(self.inp, 1 << 20) if ready else b""
            if not part: raise RuntimeError("the browser went away")
            self.buffer += part
        head, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(head)

    def __call__(self, method, **params):
        self.n += 1
        request = dict(
            id=self.n, method=method, params=params, **({"sessionId": self.session} if self.session else {})
        )
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while (m := self.message()).get("id") != self.n: self.note(m)
        if "error" in m: raise RuntimeError(f"{method}: {m['error']}")
        return m["result"]

    def note(self, m):
        self.events.append(m)
        if m.get("method") == "Page.javascriptDialogOpening":   # alert() would hang the page
            self.n += 1
            os.write(
                self.out,
                json.dumps(
                    dict(
                        id=self.n,
                        sessionId=self.session,
                        method="Page.handleJavaScriptDialog",
                        params={"accept": True},
                    )
                ).encode()
                + b"\0",
            )

    def open(self, path, width=1280, height=900, dark=False, javascript=True):
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self(
            "Emulation.setEmulatedMedia",
            features=[dict(name="prefers-color-scheme", value="dark" if dark else "light")],
        )
        self("Emulation.setScriptExecutionDisabled", value=not javascript)
        self.events = []
        self("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events): self.note(self.message())
        return self

    def js(self, code):
        r = self("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in r, r["exceptionDetails"]
        return r["result"].get("value")

    def wait(self, code, seconds=60):
        "Wait until some JavaScript is true"
        end = time.monotonic() + seconds
        while not (value := self.js(code)):
            if time.monotonic() > end: raise TimeoutError(f"not within {seconds} s: {code}")
            time.sleep(.2)
        return value

    def seen(self, *methods): return [e for e in self.events if e.get("method") in methods]

    def picture(self):
        return Image.open(io.BytesIO(base64.b64decode(self("Page.captureScreenshot")["data"]))).convert("RGB")

    def hover(self, selector):
        x, y = self.js(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center', behavior: "
            f"'instant'}});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def key(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def close(self):
        self.session = None
        try: self("Browser.close")
        except (RuntimeError, OSError): self.process.kill()
        self.process.wait()
        os.close(self.out), os.close(self.inp)
