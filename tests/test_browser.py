"""The HTML of an episode in headless Chromium: nothing hostile runs, nothing is loaded, and it does what it should.

The browser is spoken to over its own pipe (DevTools protocol), so no driver is needed. Without Chromium the tests skip.
"""
import base64
import fcntl
import io
import json
import os
import select
import shutil
import subprocess

import pytest
from PIL import Image

from cosee.board import Board
from cosee.view import write_html

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome on this machine")


class Browser:
    "One page of a headless Chromium"
    def __init__(self, profile):
        (read, to_browser), (from_browser, write) = os.pipe(), os.pipe()
        def child():
            a, b = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read, write))   # out of the way of 3 and 4
            os.dup2(a, 3), os.dup2(b, 4)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                 "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
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
        request = dict(id=self.n, method=method, params=params, **({"sessionId": self.session} if self.session else {}))
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while (m := self.message()).get("id") != self.n: self.note(m)
        if "error" in m: raise RuntimeError(f"{method}: {m['error']}")
        return m["result"]

    def note(self, m):
        self.events.append(m)
        if m.get("method") == "Page.javascriptDialogOpening":   # alert() would hang the page
            self.n += 1
            os.write(self.out, json.dumps(dict(id=self.n, sessionId=self.session, method="Page.handleJavaScriptDialog", params={"accept": True})).encode() + b"\0")

    def open(self, path, width=1280, height=900, dark=False, javascript=True):
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self("Emulation.setEmulatedMedia", features=[dict(name="prefers-color-scheme", value="dark" if dark else "light")])
        self("Emulation.setScriptExecutionDisabled", value=not javascript)
        self.events = []
        self("Page.navigate", url=path.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events): self.note(self.message())
        return self

    def js(self, code):
        r = self("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in r, r["exceptionDetails"]
        return r["result"].get("value")

    def seen(self, *methods): return [e for e in self.events if e.get("method") in methods]

    def picture(self):
        return Image.open(io.BytesIO(base64.b64decode(self("Page.captureScreenshot")["data"]))).convert("RGB")

    def hover(self, selector):
        x, y = self.js(f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
                       "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def key(self, key, code):
        for kind in ("keyDown", "keyUp"): self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def close(self):
        self.session = None
        try: self("Browser.close")
        except (RuntimeError, OSError): self.process.kill()
        self.process.wait()
        os.close(self.out), os.close(self.inp)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    b = Browser(tmp_path_factory.mktemp("profile"))
    yield b
    b.close()


def board():
    b = Board()
    b.add_cell({"page": 2, "bbox": (.1, .1, .9, .6)}, "A table", ["table"], "scanner", 1)
    b.add_cell({"page": 2, "bbox": (.6, .3, .8, .35)}, "The total is 86.50", ["number"], "detail_reader", 1, [1])
    b.add_cell({"page": 2}, "No footnote changes it", [], "cross_checker", 2, [2])
    return b


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pages = [Image.new("RGB", (600, 800), "white") for _ in range(4)]
    one = dict(question="What is the total?", answer="86.50", confidence=.9, page=2, board=board(), because="page 2 says so",
               evidence=[dict(page=2, bbox=(.6, .3, .8, .35), content="86.50", cell=2)])
    two = dict(question="Who signed?", answer="not answerable", confidence=.4, page=None, board=Board(), evidence=[])
    return write_html(tmp_path_factory.mktemp("html") / "episode.html", [one, two], pages)


def lit(browser): return browser.js("[...document.querySelectorAll('.lit[data-c]')].map(e => e.classList[0] + e.dataset.c).sort().join(' ')")


def clean(browser):
    "Nothing ran but our script, nothing was loaded but the file, nobody complained"
    assert not browser.seen("Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    urls = [e["params"]["request"]["url"] for e in browser.seen("Network.requestWillBeSent")]
    assert [u for u in urls if not u.startswith("data:")] == urls[:1] and urls[0].startswith("file:")


def test_opens_without_a_complaint(browser, page):
    browser.open(page)
    assert browser.js("document.documentElement.className") == "js"
    clean(browser)


def test_hover_and_focus_light_note_and_box_together(browser, page):
    browser.open(page).hover("#q1c2")
    assert lit(browser) == "mark2 mark2 note2"   # in the page and in the cutting of the evidence
    browser.hover(".row .mark[data-c='1'] .badge")
    assert lit(browser) == "mark1 note1"
    browser.js("document.getElementById('q1c3').focus()")
    assert lit(browser) == "note3 whole3"


def test_click_on_a_box_goes_to_its_note(browser, page):
    x, y = browser.open(page).hover(".row .mark[data-c='2'] .badge")
    for kind in ("mousePressed", "mouseReleased"): browser("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    assert browser.js("document.activeElement.id") == "q1c2"


def test_slider_replays_by_keyboard(browser, page):
    browser.open(page).js("document.querySelector('#q1 .slider input').focus()")
    later = "[...document.querySelectorAll('#q1 .note.later')].map(e => e.id).join(' ')"
    assert browser.js(later) == ""
    browser.key("Home", 36)
    assert browser.js(later) == "q1c1 q1c2 q1c3" and browser.js("document.querySelector('#q1 .slider output').textContent") == "an empty Board"
    browser.key("ArrowRight", 39)
    browser.key("ArrowRight", 39)
    assert browser.js(later) == "q1c3"
    assert browser.js("document.querySelector('#q1 .slider output').textContent") == "2 of 3: detail_reader, step 1"
    assert browser.js("getComputedStyle(document.querySelector('#q1 .row .mark[data-c=\"2\"]')).visibility") == "visible"
    browser.key("End", 35)
    assert browser.js(later) == ""


def test_play_ends_at_the_last_note(browser, page):
    browser.open(page)
    ended = ("new Promise(done => { const o = document.querySelector('#q1 .slider output'), seen = []; new MutationObserver(() => { seen.push(o.textContent);"
             "if (o.textContent == 'all notes') done(seen); }).observe(o, {childList: true}); document.querySelector('#q1 .slider button').click(); })")
    assert browser.js(ended) == ["an empty Board", "1 of 3: scanner, step 1", "2 of 3: detail_reader, step 1", "all notes"]
    assert browser.js("document.querySelector('#q1 .slider button').textContent") == "▶"


def test_one_question_at_a_time_and_links_find_their_way(browser, page):
    shown = "[...document.querySelectorAll('.ep')].filter(e => e.offsetParent).map(e => e.id).join(' ')"
    arrive = "new Promise(done => { addEventListener('hashchange', () => setTimeout(done), {once: true}); document.querySelector(%r).click(); })"
    assert browser.open(page).js(shown) == "q1"
    browser.js(arrive % "nav a[href='#q2']")
    assert browser.js(shown) == "q2" and browser.js("document.querySelector('nav [aria-current]').hash") == "#q2"
    assert "Not answerable" in browser.js("document.querySelector('#q2 .text').textContent")
    browser.js(arrive % "nav a[href='#q1']")
    browser.js(arrive % "#q1 .chip[href='#q1c2']")
    assert browser.js("document.querySelector(':target').id") == "q1c2"


def test_all_is_there_without_a_script(browser, page):
    browser.open(page, javascript=False)
    text = "".join(browser("DOM.getOuterHTML", nodeId=browser("DOM.getDocument")["root"]["nodeId"])["outerHTML"])
    assert 'class="js"' not in text and "Who signed?" in text
    browser("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.js("[...document.querySelectorAll('.ep')].every(e => e.offsetHeight > 0)")


@pytest.mark.parametrize("width", [360, 820, 1440])
def test_layout_fits_any_width(browser, page, width):
    browser.open(page, width=width)
    assert browser.js("document.documentElement.scrollWidth") <= width
    notes, figure = (browser.js(f"document.querySelector('#q1p2 {s}').getBoundingClientRect().{k}") for s, k in ((".notes", "left"), ("figure", "right")))
    assert (notes > figure) == (width > 800)


def test_light_and_dark(browser, page):
    corners = [browser.open(page, dark=dark).picture().getpixel((3, 300)) for dark in (False, True)]
    assert min(corners[0]) > 230 and max(corners[1]) < 40


def contrast(a, b):
    "WCAG contrast of two colours"
    def light(c): return sum(w * (v / 12.92 if v <= .03928 else ((v + .055) / 1.055) ** 2.4) for w, v in zip((.2126, .7152, .0722), (x / 255 for x in c)))
    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + .05) / (low + .05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable(browser, page, dark):
    browser.open(page, dark=dark)
    code = """(() => { const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
      const rgb = v => { c.clearRect(0, 0, 1, 1); c.fillStyle = v; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
      const ground = e => { for (; e; e = e.parentElement) { const v = rgb(getComputedStyle(e).backgroundColor); if (v[3] == 255) return v; } return [255, 255, 255, 255]; };
      return ['h1', 'h2', '.text', '.because', '.key', '.who', '.no', '.step', '.note p', '.tag', '.tag.ev', '.refs a', '.chip', 'summary', 'nav a', 'nav [aria-current]']
        .flatMap(s => [...document.querySelectorAll('#q1 ' + s + ', .top ' + s)].map(e => [s, rgb(getComputedStyle(e).color), ground(e)])); })()"""
    measured = browser.js(code)
    assert len(measured) > 25
    assert [(s, round(contrast(a[:3], b[:3]), 1)) for s, a, b in measured if contrast(a[:3], b[:3]) < 4.5] == []


EVIL = ["<script>alert(1)</script>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "javascript:alert(1)",
        "\" onfocus=alert(1) autofocus x=\"", "' onmouseover='alert(1)", "</style><script>alert(1)</script>", "<iframe srcdoc='<script>alert(1)</script>'>",
        "<a href='javascript:alert(1)'>x</a>", "<meta http-equiv=refresh content='0;url=https://example.org'>", "<link rel=stylesheet href=//example.org/x.css>",
        "<details open ontoggle=alert(1)>", "<math><mtext></form><form><mglyph><svg><mtext><style><path id=</style><img onerror=alert(1) src>", "<!--><svg onload=alert(1)>",
        "]]><script>alert(1)</script>", "\u202egnp.exe\u2066", "A\u0300" * 3000, "x" * 1_000_000, "line\n" * 5000, "\x00<script\x00>alert(1)</script>", "%3Cscript%3Ealert(1)%3C/script%3E",
        "&lt;script&gt;alert(1)&lt;/script&gt;", "<base href='https://example.org/'>", "<object data='data:text/html,<script>alert(1)</script>'>"]


def test_nothing_hostile_runs_and_the_layout_holds(browser, tmp_path):
    pages = [Image.new("RGB", (60, 80)) for _ in range(3)]
    episodes = []
    for k, text in enumerate(EVIL):
        b = Board()
        for i, t in enumerate(EVIL[k:] + EVIL[:k]):
            b.add_cell({"page": 1 + i % 3, "bbox": (.1, .1, .2 + i / 50, .3)}, t, [t, "tag"], t, i)
        trace = dict(events=[dict(step=1, agent=text, action=dict(action=text), error=text, calls=[dict(prompt=[text], text=text, usage={})])],
                     config=dict(agents=[dict(client=text)]))
        episodes.append(dict(question=text, answer=text, because=text, confidence=.3, page=1, board=b, stopped=text, trace=trace,
                             hypotheses=[dict(answer=text, author=text), dict(answer="x")], evidence=[dict(page=1, bbox=(.1, .1, .3, .3), content=text, cell=1)]))
    pages[0].info = dict(source=EVIL[0], page=1)
    path = write_html(tmp_path / "hostile.html", episodes, pages)
    for width in (400, 1280):
        browser.open(path, width=width)
        browser.js("document.querySelectorAll('details').forEach(e => e.open = true)")
        wide = browser.js("""[...document.querySelectorAll('.ep')].map(ep => { location.hash = ep.id; document.querySelectorAll('.ep').forEach(e =>
          e.classList.toggle('on', e === ep)); ep.querySelectorAll('.note').forEach(n => { n.focus(); n.click(); }); return document.documentElement.scrollWidth; })""")
        assert max(wide) <= width
        browser.hover(".on .note")
        clean(browser)
    assert browser.js("document.scripts.length") == 1
