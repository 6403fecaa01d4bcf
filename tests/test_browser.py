"""The HTML of an episode in headless Chromium: nothing hostile runs, nothing is loaded, and it does what it should.

Without Chromium the tests skip.
"""

import json

import pytest
from PIL import Image

from cosee.board import Board
from cosee.view.episode import write_html

pytestmark = pytest.mark.slow


def board():
    b = Board()
    b.add_cell({"page": 2, "bbox": (.1, .1, .9, .6)}, "A table", ["table"], "scanner", 1)
    b.add_cell({"page": 2, "bbox": (.6, .3, .8, .35)}, "The total is 86.50", ["number"], "detail_reader", 1, [1])
    b.add_cell({"page": 2}, "No footnote changes it", [], "cross_checker", 2, [2])
    return b


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pages = [Image.new("RGB", (600, 800), "white") for _ in range(4)]
    one = dict(
        question="What is the total?",
        answer="86.50",
        confidence=0.9,
        page=2,
        board=board(),
        because="page 2 says so",
        evidence=[dict(page=2, bbox=(0.6, 0.3, 0.8, 0.35), content="86.50", cell=2)],
    )
    two = dict(question="Who signed?", answer="not answerable", confidence=.4, page=None, board=Board(), evidence=[])
    return write_html(tmp_path_factory.mktemp("html") / "episode.html", [one, two], pages)


def lit(browser):
    return browser.js(
        "[...document.querySelectorAll('.lit[data-c]')].map(e => e.classList[0] + e.dataset.c).sort().join(' ')"
    )


def clean(browser):
    "Nothing ran but our script, nothing was loaded but the file, nobody complained"
    assert not browser.seen(
        "Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"
    )
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
    for kind in ("mousePressed", "mouseReleased"):
        browser("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    assert browser.js("document.activeElement.id") == "q1c2"


def test_slider_replays_by_keyboard(browser, page):
    browser.open(page).js("document.querySelector('#q1 .slider input').focus()")
    later = "[...document.querySelectorAll('#q1 .note.later')].map(e => e.id).join(' ')"
    assert browser.js(later) == ""
    browser.key("Home", 36)
    assert (
        browser.js(later) == "q1c1 q1c2 q1c3"
        and browser.js("document.querySelector('#q1 .slider output').textContent") == "an empty Board"
    )
    browser.key("ArrowRight", 39)
    browser.key("ArrowRight", 39)
    assert browser.js(later) == "q1c3"
    assert browser.js("document.querySelector('#q1 .slider output').textContent") == "2 of 3: detail_reader, step 1"
    assert (
        browser.js("getComputedStyle(document.querySelector('#q1 .row .mark[data-c=\"2\"]')).visibility") == "visible"
    )
    browser.key("End", 35)
    assert browser.js(later) == ""


def test_play_ends_at_the_last_note(browser, page):
    browser.open(page)
    ended = (
        "new Promise(done => { const o = document.querySelector('#q1 .slider output'), seen = []; new "
        "MutationObserver(() => { seen.push(o.textContent);"
        "if (o.textContent == 'all notes') done(seen); }).observe(o, {childList: true}); document.querySelector('#q1 "
        ".slider button').click(); })"
    )
    assert browser.js(ended) == [
        "an empty Board",
        "1 of 3: scanner, step 1",
        "2 of 3: detail_reader, step 1",
        "all notes",
    ]
    assert browser.js("document.querySelector('#q1 .slider button').textContent") == "▶"


def test_one_question_at_a_time_and_links_find_their_way(browser, page):
    shown = "[...document.querySelectorAll('.ep')].filter(e => e.offsetParent).map(e => e.id).join(' ')"
    arrive = ("new Promise(done => { addEventListener('hashchange', () => setTimeout(done), {once: true}); "
              "document.querySelector(%r).click(); })")
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
    notes, figure = (
        browser.js(f"document.querySelector('#q1p2 {s}').getBoundingClientRect().{k}")
        for s, k in ((".notes", "left"), ("figure", "right"))
    )
    assert (notes > figure) == (width > 800)


def test_light_and_dark(browser, page):
    corners = [browser.open(page, dark=dark).picture().getpixel((3, 300)) for dark in (False, True)]
    assert min(corners[0]) > 230 and max(corners[1]) < 40


def contrast(a, b):
    "WCAG contrast of two colours"

    def light(c):
        return sum(
            w * (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4)
            for w, v in zip((0.2126, 0.7152, 0.0722), (x / 255 for x in c), strict=True)
        )

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + .05) / (low + .05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable(browser, page, dark):
    browser.open(page, dark=dark)
    code = """(() => { const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
      const rgb = v => { c.clearRect(0, 0, 1, 1); c.fillStyle = v; c.fillRect(0, 0, 1, 1);
        return [...c.getImageData(0, 0, 1, 1).data]; };
      const ground = e => {
        for (; e; e = e.parentElement) {
          const v = rgb(getComputedStyle(e).backgroundColor);
          if (v[3] == 255) return v;
        }
        return [255, 255, 255, 255]; };
      return ['h1', 'h2', '.text', '.because', '.key', '.who', '.no', '.step', '.note p', '.tag', '.tag.ev', '.refs a',
              '.chip', 'summary', 'nav a', 'nav [aria-current]']
        .flatMap(s => [...document.querySelectorAll('#q1 ' + s + ', .top ' + s)]
          .map(e => [s, rgb(getComputedStyle(e).color), ground(e)])); })()"""
    measured = browser.js(code)
    assert len(measured) > 25
    assert [(s, round(contrast(a[:3], b[:3]), 1)) for s, a, b in measured if contrast(a[:3], b[:3]) < 4.5] == []


EVIL = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    '" onfocus=alert(1) autofocus x="',
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<a href='javascript:alert(1)'>x</a>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    "<link rel=stylesheet href=//example.org/x.css>",
    "<details open ontoggle=alert(1)>",
    "<math><mtext></form><form><mglyph><svg><mtext><style><path id=</style><img onerror=alert(1) src>",
    "<!--><svg onload=alert(1)>",
    "]]><script>alert(1)</script>",
    "\u202egnp.exe\u2066",
    "A\u0300" * 3000,
    "x" * 1_000_000,
    "line\n" * 5000,
    "\x00<script\x00>alert(1)</script>",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<base href='https://example.org/'>",
    "<object data='data:text/html,<script>alert(1)</script>'>",
]


# --- links, filters, pages in full size ---

@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    "Two pages; every kind of link, on one page and across"
    b = board()  # 1-3 on page 2
    b.add_cell(
        {"page": 2, "bbox": (0.1, 0.7, 0.4, 0.8)}, "No, it is 80", ["correction", "number"], "cross_checker", 2, [2, 1]
    )
    b.add_cell({"page": 1, "bbox": (.2, .2, .4, .3)}, "The same sum", ["link"], "scanner", 3, [2])
    said = [
        dict(answer="86.50", confidence=0.9, author="detail_reader", cell=2),
        dict(answer="80", confidence=0.4, author="cross_checker", cell=4),
        dict(answer="86.50.", confidence=0.7, author="scanner", cell=5),
    ]
    episode = dict(
        question="What is the total?", answer="86.50", confidence=0.9, page=2, board=b, hypotheses=said, evidence=[]
    )
    pages = [Image.effect_noise((1500, 2000), 40).convert("RGB") for _ in range(2)]
    return write_html(tmp_path_factory.mktemp("html") / "linked.html", episode, pages)


def drawn(browser):
    "The browser, once the links beside the notes are drawn (or five seconds are over)."
    browser.js(
        "new Promise(ok => { const look = () => document.querySelector('.arcs .tie') || performance.now() > 5000 ? "
        "ok() : "
        "requestAnimationFrame(look); look() })"
    )
    return browser


def ends(browser, where):
    return browser.js(
        f"[...document.querySelectorAll('{where}')].map(e => e.dataset.from + '>' + e.dataset.to).sort().join(' ')"
    )


def names(browser, where):
    return browser.js(f"[...document.querySelectorAll('{where}')].map(e => e.dataset.c).join(' ')")


def test_links_are_drawn_between_boxes_and_between_notes(browser, linked):
    drawn(browser.open(linked))
    assert ends(browser, "figure .tie") == "2>1 4>1 4>2"   # 3 has no box, 5 stands on the other page
    assert ends(browser, ".arcs .tie") == "2>1 3>2 4>1 4>2"
    assert ends(browser, "figure .k-correction") == ends(browser, ".arcs .k-correction") == "4>2"
    label = browser.js("document.querySelector('#q1p2 figure svg').getAttribute('aria-label')")
    assert "note 4 corrects note 2" in label and "note 2 rests on note 1" in label
    words = browser.js(
        "[...document.querySelectorAll('#q1c2 .refs a')].map(e => e.getAttribute('aria-label')).join('; ')"
    )
    assert words == "rests on note 1; supports note 3; corrected by note 4; linked from note 5, p. 1"
    clean(browser)


def test_a_link_lights_both_ends_by_mouse_and_keyboard(browser, linked):
    drawn(browser.open(linked)).hover("#q1c5 .refs a")
    assert names(browser, ".note.lit") == "5 2"
    browser.js("document.querySelector('#q1c4 .refs a').focus()")
    assert names(browser, ".note.lit") == "2 4" and ends(browser, "figure .tie.lit") == "4>2"
    browser.hover("#q1c4 p")
    assert (
        names(browser, ".note.lit") == "4"
        and names(browser, ".note.near") == "1 2"
        and ends(browser, ".arcs .tie.lit") == "4>1 4>2"
    )
    faint, strong = (
        float(browser.js(f"getComputedStyle(document.querySelector('figure .tie{s}')).opacity"))
        for s in (":not(.lit)", ".lit")
    )
    assert faint < .5 and strong == 1


def test_links_follow_the_slider(browser, linked):
    drawn(browser.open(linked)).js("document.querySelector('.slider input').focus()")
    browser.key("ArrowLeft", 37)
    browser.key("ArrowLeft", 37)
    shown = ("[...document.querySelectorAll('figure .tie')].filter(e => getComputedStyle(e).visibility == "
             "'visible').map(e => e.dataset.from + '>' + e.dataset.to).join()")
    assert browser.js(shown) == "2>1"
    assert (
        browser.js("document.querySelector('.slider input').getAttribute('aria-valuetext')")
        == "3 of 5: cross_checker, step 2"
    )


def test_filters_work_by_keyboard_and_hold_with_the_slider(browser, linked):
    visible = ("[...document.querySelectorAll('.note')].filter(e => e.offsetParent && !e.matches('.later')).map(e => "
               "e.dataset.c).join(' ')")
    status = "document.querySelector('.status').textContent"
    press = ("(t => { const b = [...document.querySelectorAll('[data-f]')].find(b => b.firstChild.textContent == t); "
             "b.focus(); return b.dataset.f; })('%s')")
    drawn(browser.open(linked))
    assert browser.js(visible) == "5 1 2 3 4" and browser.js(status) == ""
    browser.js(press % "scanner")
    browser("Input.dispatchKeyEvent", type="keyDown", key=" ", code="Space", text=" ", windowsVirtualKeyCode=32)
    browser("Input.dispatchKeyEvent", type="keyUp", key=" ", code="Space", windowsVirtualKeyCode=32)
    assert browser.js(visible) == "5 1" and browser.js(status) == "2 of 5 notes shown"
    assert browser.js("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert ends(browser, ".arcs .tie") == "" and ends(browser, "figure .tie:not(.out)") == ""
    browser.js(press % "cross_checker")
    browser("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    assert browser.js(visible) == "5 1 3 4"
    browser.js((press % "2") + "; document.activeElement.click()")  # step 2 of these two
    assert (
        browser.js(visible) == "3 4"
        and browser.js("getComputedStyle(document.getElementById('q1p1')).display") == "none"
    )
    browser.js("document.querySelector('.slider input').focus()")
    browser.key("ArrowLeft", 37)
    browser.key("ArrowLeft", 37)
    assert browser.js(visible) == "3" and browser.js(status) == "1 of 5 notes shown"
    browser.js("document.querySelector('[data-f=\"\"]').click()")
    assert (
        browser.js(visible) == "1 2 3" and browser.js("document.querySelectorAll('[aria-pressed=true]').length") == 0
    )
    browser.js((press % "number") + "; document.activeElement.click()")                           # a tag
    assert browser.js(visible) == "2"
    clean(browser)


def test_proposals_show_confidence_and_votes(browser, linked):
    text = drawn(browser.open(linked)).js(
        "[...document.querySelectorAll('.others li')].map(e => e.className.trim() + ': ' + "
        "e.textContent.trim()).join(' | ')"
    )
    assert text == (
        "won: 86.5090% sure, 2 votes (detail_reader, scanner) #2 #5 | : 8040% sure, 1 vote (cross_checker) #4"
    )


def test_a_page_opens_in_full_size_by_keyboard(browser, linked):
    drawn(browser.open(linked)).js("document.querySelector('#q1p2 .enlarge').focus()")
    browser("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    assert browser.js("document.querySelector('.zoom').open && document.activeElement.className") == "stage"
    assert browser.js("document.querySelectorAll('.stage .mark').length") == 3
    size = """(async e => { const i = new Image(); i.src = e.getAttribute('href'); await i.decode();
      return i.naturalHeight; })(document.querySelector('%s'))"""
    assert browser.js(size % ".stage image") == 2000 and browser.js(size % "#page2") <= 1300
    wide = "document.querySelector('.stage svg').getBoundingClientRect().width"
    before = browser.js(wide)
    browser.key("+", 187)
    assert (
        browser.js(wide) > 1.2 * before and browser.js("document.querySelector('.zoom output').textContent") == "125%"
    )
    browser.key("0", 48)
    assert browser.js(wide) == before
    browser.js(
        "window.shut = new Promise(done => document.querySelector('.zoom').addEventListener('close', () => "
        "done(true))); 1"
    )
    browser.key("Escape", 27)
    assert (
        browser.js("shut")
        and not browser.js("document.querySelector('.zoom').open")
        and browser.js("document.querySelector('.stage').children.length") == 0
    )
    assert browser.js("document.activeElement.className") == "enlarge"
    clean(browser)


def test_twenty_pages_in_one_small_file(browser, tmp_path):
    from PIL import ImageDraw
    pages, b = [], Board()
    scan = Image.effect_noise((1190, 1684), 6).point(lambda v: min(255, v + 110)).convert("RGB")   # scans have grain
    for p in range(20):
        im = Image.new("RGB", scan.size, "white") if p % 4 else scan.copy()
        draw = ImageDraw.Draw(im)
        for y in range(60, 1620, 26):
            draw.text(
                (70, y),
                f"Line {y} of page {p + 1}: {y * 7919 % 99991} and {y * 104729 % 99991}",
                fill="#222",
                font_size=19,
            )
        pages.append(im)
        b.add_cell(
            {"page": p + 1, "bbox": (0.05, 0.1, 0.5, 0.14)},
            f"note on page {p + 1}",
            ["number"],
            "scanner",
            1,
            [p] if p else None,
        )
    path = write_html(tmp_path / "twenty.html", dict(question="?", answer="x", board=b, evidence=[]), pages)
    assert path.stat().st_size < 8_000_000
    browser.open(path)
    assert (
        browser.js("document.querySelectorAll('defs image').length") == 20
        and browser.js("document.querySelectorAll('template').length") == 20
    )
    browser.js("document.querySelector('#q1p20 .enlarge').click()")
    assert browser.js("document.querySelectorAll('.stage image').length") == 1
    clean(browser)


# --- two hundred hostile texts ---

WRAPS = [
    "%s",
    "\"'>%s",
    "</title></textarea></style></template>%s",
    "<svg><desc>%s",
    "`${%s}`",
    "--><!-- %s",
    "\u202e%s\u2066",
    "@import url(//example.org/a.css);%s{}",
]
TEXTS = [wrap % text[:5000] for wrap in WRAPS for text in EVIL]


# --- the widget's front end, fed with the sections of a running episode ---

class Frame:
    "What runs inside the sandboxed frame of a page"
    def __init__(self, browser):
        self.browser = browser
        found = [
            t
            for t in browser("Target.getTargets")["targetInfos"]
            if t["type"] == "iframe" and t["url"] == "about:srcdoc"
        ]
        assert len(found) == 1
        self.session = browser("Target.attachToTarget", targetId=found[0]["targetId"], flatten=True)["sessionId"]

    def js(self, code):
        outer, self.browser.session = self.browser.session, self.session
        try: return self.browser.js(code)
        finally: self.browser.session = outer


def test_widget_follows_and_keeps_what_its_reader_has_chosen(browser, tmp_path):
    from cosee.agents import DummyAgent
    from cosee.controller import CoSeeController
    from cosee.view.html import asset
    from cosee.view.widget import EpisodeWidget
    pages = [Image.new("RGB", (600, 800), "white")]
    look = lambda n: dict(
        action="INSPECT",
        content=f"note {n}",
        tags=["table"] if n % 2 else [TEXTS[n]],
        view=dict(page=1, bbox=(0.1, n / 10, 0.5, n / 10 + 0.05)),
    )
    team = [DummyAgent(name=name, script=[look(k), look(k + 2)]) for k, name in ((1, "scanner"), (2, "detail_reader"))]
    widget, sections = EpisodeWidget("What?", pages), []
    first, page = widget.widget.section, widget.widget.page
    widget.widget.observe(lambda change: sections.append(change.new), "section")
    CoSeeController(team, max_steps=2).run(pages, "What?", on_event=widget)
    assert len(sections) == 9 and "data:image" not in "".join(
        sections
    )  # four starts, four turns, the end; no picture twice
    model = f"""{asset("view/assets/widget.mjs").replace("export default { render };", "")}
      const values = {json.dumps(dict(page=page, section=first, height=500)).replace("<", chr(92) + "u003c")};
      const heard = {{}};
      const model = {{ get: k => values[k], on: (e, f) => (heard[e] = heard[e] || []).push(f), off: () => {{}} }};
      window.put = (k, v) => {{ values[k] = v; (heard['change:' + k] || []).forEach(f => f()); }};
      window.ready = new Promise(done => addEventListener('message', e => e.data && e.data.cosee && done(true)));
      render({{ model, el: document.body }});"""
    path = tmp_path / "widget.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body><script>{model}</script></body>", encoding="utf-8")
    browser.open(path)
    assert browser.js("ready") is True
    frame = Frame(browser)
    shown = "[...document.querySelectorAll('.note:not(.out)')].map(e => e.dataset.c).join(' ')"
    def put(section, until):   # a message takes its time
        browser.js(f"put('section', {json.dumps(section)})")
        frame.js(f"new Promise(done => {{ const look = () => {until} ? done() : setTimeout(look, 10); look(); }})")
    count = "document.querySelectorAll('.note').length == %d && !document.querySelector('.going') == %s"
    put(sections[3], count % (2, "false"))
    assert (
        frame.js(shown) == "1 2"
        and frame.js("document.querySelector('.going').textContent") == "detail_reader is looking, step 1"
    )
    frame.js("document.querySelector('[data-f=a0]').click(); document.querySelector('[data-f=a0]').focus(); 1")
    put(sections[8], count % (4, "true"))
    assert (
        frame.js(shown) == "1 3" and frame.js("document.querySelector('.status').textContent") == "2 of 4 notes shown"
    )
    assert (
        frame.js("document.activeElement.dataset.f") == "a0"
        and frame.js("document.querySelectorAll('.note.fresh').length") == 2
    )
    assert frame.js("document.querySelectorAll('.going').length") == 0
    evil = "<section class=ep><img src=x onerror=alert(1)><script>alert(1)</script><p onclick=alert(1)></p></section>"
    put(evil, "document.querySelector('.ep p[onclick]')")
    frame.js("document.querySelector('.ep p').click()")
    assert frame.js("document.querySelectorAll('script').length") == 2   # its own, and one that is dead
    assert not browser.seen("Page.javascriptDialogOpening")
