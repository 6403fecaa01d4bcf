"""The app in headless Chromium, on a real server with a real service: what people do there, and what strangers try.

Without Chromium the tests skip; those of axe-core skip without npm, too.
"""
import io
import json
import threading
import time
import zipfile
from contextlib import ExitStack

import axe
import pytest
from asking import ask_and_wait
from reportlab.pdfgen.canvas import Canvas

from cosee import samples_dir
from cosee.app.server import create_page_app
from cosee.server.answering import Clients
from cosee.server.episodes import EpisodeService
from cosee.server.documents import AllowedPaths, Caller, caller_of
from cosee.server.security import Tokens
from cosee.server.serve import running
from cosee.models.testing import ScriptedClient
from cosee.models.registry import make_client
from cosee.models.client import ask_many
from cosee.models.wrappers import ClientWrapper
from test_browser import EVIL
from test_viewer import clean

pytestmark = pytest.mark.slow
TOKEN = "a token of many letters"
ME = caller_of("me")
QUESTION = "How many people does Facilities look for?"


class Gated(ClientWrapper):
    "A client that waits before every call until somebody lets it go on."
    def __init__(self, client):
        super().__init__(client)
        self.gate = threading.Semaphore(0)

    def _respond_many(self, requests):
        assert self.gate.acquire(timeout=60)
        return ask_many(self.client, requests)


HOSTILE = [before + text[:2000] + after for text in EVIL
           for before, after in (("", ""), ('"', '"'), ("'>", ""), ("</p>", "<p>"), ("-->", "<!--"), ("{{", "}}"),
                                 ("<b>", "</b>"), ("&#60;", "&#62;"))]


def evil_replies():
    "Every hostile text as a note, then some as answers; and each as the answer of whoever is asked for a guess"
    view = {"page": 1, "bbox": [.1, .1, .9, .2]}
    notes = [{"action": "INSPECT", "content": text, "tags": [text[:60]], "view": view} for text in HOSTILE]
    answers = [{"action": "HYPOTHESIZE", "answer": HOSTILE[2], "content": HOSTILE[0], "confidence": .3}] * 100
    return {"JSON": notes + answers, "": [f"Page: 1\nAnswer: {text}" for text in HOSTILE]}


class Place:
    "A service, its server, and what the tests know of them."
    def __init__(self, folder, docs):
        self.folder, self.docs = folder, docs
        self.slow = Gated(make_client("ocr"))
        self.stack = ExitStack()
        self.open()

    def open(self):
        evil = ScriptedClient(evil_replies())
        makers = {"ocr": lambda: make_client("ocr"), "slow": lambda: self.slow, "evil": lambda: evil}
        about, paths = {"ocr": "reads page text, asks no model"}, AllowedPaths([samples_dir(), self.docs])
        self.service = self.stack.enter_context(EpisodeService(self.folder, Clients(makers, about), paths))
        self.url = self.stack.enter_context(running(create_page_app(self.service, Tokens({"me": TOKEN}))))

    def close(self): self.stack.close()

    @property
    def entry(self): return f"{self.url}?token={TOKEN.replace(' ', '+')}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    docs = tmp_path_factory.mktemp("docs")
    canvas = Canvas(str(docs / "thousand.pdf"), pagesize=(595, 842))
    for n in range(1, 1001):
        canvas.drawString(72, 700, f"Section {n}")
        canvas.showPage()
    canvas.save()
    made = Place(tmp_path_factory.mktemp("desk"), docs)
    yield made
    made.close()


@pytest.fixture(scope="module")
def axe_core(tmp_path_factory):
    found = axe.source(tmp_path_factory.mktemp("axe"))
    if found is None: pytest.skip("axe-core cannot be had: no npm, or no network")
    return found


def enter(browser, place, **how):
    browser.open("about:blank").open(place.entry, **how)
    browser.wait("!document.getElementById('start').hidden")
    return browser


def opened(browser, place, name="report.pdf", **how):
    enter(browser, place, **how)
    browser.js(f"[...document.querySelectorAll('#files button')].find(b => b.textContent === {name!r}).click()")
    return settled(browser, place, name)


def settled(browser, place, name):
    "The document is there, and what was asked last about it"
    browser.wait("!document.getElementById('desk').hidden")
    if place.service.episodes(ME, document=place.service.library.open_path(ME, name).id): answered(browser)
    return browser


def text(browser, selector): return browser.js(f"document.querySelector({selector!r})?.textContent ?? ''")
def click(browser, id): browser.js(f"document.getElementById({id!r}).click()")
def value(browser, id, said): browser.js(f"document.getElementById({id!r}).value = {said!r}")
def count(browser, selector): return browser.js(f"document.querySelectorAll({selector!r}).length")
def waits(browser, said): browser.wait(f"!!({said})", 30)


def changes(browser, code):
    "Do something after which another episode is shown"
    before = browser.js("location.hash")
    browser.js(code + "; 0")
    waits(browser, f"location.hash !== {before!r} && location.hash.includes('e=')")


def ask(browser, question=QUESTION, client="ocr"):
    value(browser, "question", question)
    changes(browser, f"document.querySelector('#a [name=client]').value = {client!r}; "
                     "document.getElementById('ask').requestSubmit()")


def answered(browser, said=None):
    waits(browser, "!document.getElementById('after').hidden && document.querySelector('#answer .text:not(.going)')")
    if said is not None: waits(browser, f"document.querySelector('#answer .text')?.textContent === {said!r}")
    return browser


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(.01)


# --- in, and a document ---

def test_who_has_no_token_sees_how_to_get_one(browser, place):
    browser("Network.clearBrowserCookies")
    browser.open(place.url)
    assert "needs a token" in text(browser, "main") and count(browser, "script") == 0
    enter(browser, place)
    assert browser.js("location.href") == place.url + "#" or browser.js("location.search") == ""
    browser.open("about:blank").open(place.url)   # the browser remembers
    browser.wait("!document.getElementById('start').hidden")
    clean(browser, place.url)


def upload(browser, path):
    root = browser("DOM.getDocument")["root"]["nodeId"]
    node = browser("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    browser("DOM.setFileInputFiles", nodeId=node, files=[str(path)])


def test_upload_ask_and_see_the_place(browser, place):
    enter(browser, place)
    upload(browser, samples_dir() / "invoice.pdf")
    browser.wait("!document.getElementById('desk').hidden")
    assert text(browser, "#name") == "invoice.pdf" and text(browser, "#page-view") == ""
    waits(browser, "document.querySelector('#image-cache image')")
    ask(browser, "How much is the subtotal?")
    answered(browser)
    page = browser.js("document.querySelector('#answer .snippet use').getAttribute('href')")
    assert page == "#page" + browser.js("document.getElementById('page').value")
    assert "no model" in text(browser, "#answer .facts") and count(browser, "#page-view .mark.evidence") >= 1
    assert text(browser, "#by") == "Who answered: reads page text, asks no model"
    assert count(browser, "#a [name=client] option") == 3
    assert count(browser, f'#image-cache image[id="{page[1:]}"]') == 1
    clean(browser, place.url)


def test_what_is_no_document_is_said_so(browser, place, tmp_path):
    enter(browser, place)
    (tmp_path / "evil.pdf").write_text("<script>alert(1)</script>")
    upload(browser, tmp_path / "evil.pdf")
    waits(browser, "!document.getElementById('fault').hidden")
    assert "evil.pdf" in text(browser, "#fault") and browser.js("document.getElementById('desk').hidden")
    assert not browser.seen("Page.javascriptDialogOpening", "Runtime.exceptionThrown")


def test_what_was_handed_in_can_be_taken_back(browser, place):
    enter(browser, place)
    upload(browser, samples_dir() / "slides.pdf")
    browser.wait("!document.getElementById('desk').hidden")
    kept = place.service.library.seen_by(ME)[0].files[0]
    click(browser, "to-start")
    waits(browser, "document.querySelectorAll('#documents li').length > 1")
    before = count(browser, "#documents li")
    assert kept.is_file() and text(browser, "#documents li").startswith("slides.pdf")
    browser.js("document.querySelector('#documents .away').click()")
    assert text(browser, "#documents .away") == "Delete?" and kept.exists()   # it asks first
    browser.js("document.querySelector('#documents .away').click()")
    waits(browser, f"document.querySelectorAll('#documents li').length === {before - 1}")
    assert not kept.exists()
    clean(browser, place.url)


# --- watching ---

def test_notes_appear_on_the_page_while_they_are_written(browser, place):
    opened(browser, place)
    ask(browser, client="slow")
    waits(browser, "document.querySelectorAll('.thumb.looked').length")
    assert "scanner is looking" in text(browser, "#doing") and count(browser, "#board .note") == 0
    for n in (1, 2):
        place.slow.gate.release()
        waits(browser, f"document.querySelectorAll('#board .note').length === {n}")
        waits(browser, f"document.querySelectorAll('#page-view .mark .badge').length === {n}")
        assert text(browser, "#page-view .badge text") == "1"
        assert "no model" in text(browser, "#answer .facts")
    assert browser.js("document.getElementById('page').value") == "4"   # it follows the team
    assert text(browser, ".thumb[data-page='4'] .count") == "2"
    assert browser.js("document.getElementById('doing').getAttribute('role')") == "status"
    waits(browser, "document.getElementById('doing').textContent.startsWith('cross_checker')")
    click(browser, "stop")
    until(lambda: any(job.ended_by for job in place.service._working))
    place.slow.gate.release()
    answered(browser)
    assert "stopped by hand" in text(browser, "#answer .text") and count(browser, "#board .note") in (2, 3)
    assert browser.js("document.getElementById('right').disabled")
    clean(browser, place.url)


def test_asked_again_nothing_is_read_twice(browser, place):
    opened(browser, place)
    ask(browser)
    answered(browser, "19")
    before = dict(place.service.library.reader.counts)
    changes(browser, "document.getElementById('again').click()")
    answered(browser, "19")
    assert dict(place.service.library.reader.counts) == before
    clean(browser, place.url)


# --- by hand ---

def test_a_note_of_ones_own_and_the_team_goes_on(browser, place):
    opened(browser, place)
    ask(browser)
    answered(browser, "19")
    click(browser, "note")
    x, y, w, h = browser.js("(r => [r.x, r.y, r.width, r.height])(document.querySelector('#page-view svg')."
                            "getBoundingClientRect())")
    for kind, part in (("mousePressed", .5), ("mouseMoved", .6), ("mouseReleased", .6)):
        browser("Input.dispatchMouseEvent", type=kind, x=x + w * part, y=y + h * (part - .3), button="left",
                clickCount=1, buttons=1)
    assert count(browser, "#page-view .draft") == 1
    value(browser, "note-text", "The annex corrects it")
    value(browser, "note-answer", "21")
    value(browser, "note-target", "2")
    changes(browser, "document.getElementById('note-keep').click()")
    answered(browser, "21")
    mine = place.service.record(ME, browser.js("location.hash.match(/e=([0-9a-f]+)/)[1]"))["board"]["cells"][-1]
    assert mine["author"] == "you" and mine["refs"] == [2]
    assert [round(v, 1) for v in mine["view"]["bbox"]] == [.5, .2, .6, .3]
    click(browser, "note")
    value(browser, "note-text", "See the annex")
    changes(browser, "document.getElementById('by-hand').requestSubmit()")
    answered(browser, "21")   # what was refused stays refused
    assert "you" in text(browser, "#replay") and text(browser, "#answer .ring") == "100%"
    assert "your note decides" in text(browser, "#answer") and "agents agree" not in text(browser, "#answer")
    clean(browser, place.url)


def test_a_wrong_answer_leads_to_a_note_and_to_other_models(browser, place):
    opened(browser, place)
    ask(browser)
    answered(browser, "19")
    assert browser.js("document.getElementById('help').hidden")
    click(browser, "wrong")
    waits(browser, "!document.getElementById('help').hidden")
    assert "No model was asked" in text(browser, "#help-said")
    steps = browser.js("[...document.querySelectorAll('#help-steps button')].map(b => b.textContent)")
    assert steps == ["Say what is right", "Ask slow", "Ask evil"]
    browser.js("document.querySelector('#help-steps button').click()")
    assert browser.js("!document.getElementById('by-hand').hidden && document.activeElement.id === 'note-answer'")
    changes(browser, "[...document.querySelectorAll('#help-steps button')].at(-1).click()")
    waits(browser, "!document.getElementById('after').hidden")
    assert place.service.record(ME, browser.js("location.hash.match(/e=([0-9a-f]+)/)[1]"))["method"] == "auto (evil)"
    clean(browser, place.url)


# --- what is kept ---

def test_marks_history_and_files_after_a_restart(browser, place):
    opened(browser, place)
    ask(browser)
    answered(browser, "19")
    click(browser, "right")
    waits(browser, "document.getElementById('right').getAttribute('aria-pressed') === 'true'")
    id = browser.js("location.hash.match(/e=([0-9a-f]+)/)[1]")
    browser.open("about:blank")
    place.close()
    place.open()
    enter(browser, place)
    click(browser, "to-history")
    waits(browser, "document.querySelectorAll('#episodes li').length")
    value(browser, "search", "facilities 19")
    browser.js("document.getElementById('search').dispatchEvent(new Event('input'))")
    browser.js("[...document.querySelectorAll('#marks button')].find(b => b.textContent.startsWith('Right')).click()")
    waits(browser, "document.querySelectorAll('#episodes li').length === 1")
    assert "✓ right" in text(browser, "#episodes")
    changes(browser, "document.querySelector('#episodes button').click()")
    answered(browser, "19")
    assert id in browser.js("location.hash") and count(browser, "#board .note") >= 2
    for form, start in (("html", "<!doctype html>"), ("md", "# How many"), ("json", "{")):
        assert browser.js(f"fetch(document.getElementById('as-{form}').href).then(r => r.text())").startswith(start)
    data = browser.js("fetch('api/questions.zip').then(r => r.arrayBuffer()).then(b => [...new Uint8Array(b)])")
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as zipped:
        line = json.loads(zipped.read("questions.jsonl").splitlines()[0])
        assert line["answer"] == ["19"] and line["file"] in zipped.namelist() and line["page"] == 4
    clean(browser, place.url)


def test_two_methods_side_by_side(browser, place):
    opened(browser, place)
    value(browser, "question", QUESTION)
    click(browser, "compare")
    browser.js("document.querySelector('#b [name=method]').value = 'direct'; "
               "document.getElementById('ask').requestSubmit()")
    waits(browser, "document.getElementById('pair-said').textContent === 'Both give the same answer.'")
    waits(browser, "document.querySelector('#one .answer') && document.querySelector('#two .answer')")
    cells = browser.js("[...document.querySelectorAll('#pair-table tbody tr')].map(r => [...r.cells].map(c => "
                       "c.textContent))")
    tokens = next(row for row in cells if row[0] == "Tokens")
    assert cells[0] == ["Answer", "19", "19"] and tokens[1:] == ["no model", "no model"]
    ids = browser.js("[...document.querySelectorAll('#pair [id^=q]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    click(browser, "pair-close")
    answered(browser, "19")
    clean(browser, place.url)


def test_two_old_episodes_side_by_side(browser, place):
    report, slides = (place.service.library.open_path(ME, name) for name in ("report.pdf", "slides.pdf"))
    asked = [(report, QUESTION, dict(method="direct")), (slides, "What is it?", dict(method="direct")),
             (report, "Who wrote it?", {})]
    for document, question, settings in asked: ask_and_wait(place.service, ME, document.id, question, settings)
    enter(browser, place)   # no document is open
    click(browser, "to-history")
    waits(browser, "document.querySelectorAll('#episodes li').length >= 3")
    boxes = "[...document.querySelectorAll('#episodes input')]"
    assert browser.js(f"{boxes}.every(b => !b.checked && !b.disabled) && document.getElementById('to-pair').disabled")
    browser.js(f"{boxes}[0].click()")   # the latest
    assert browser.js(f"[{boxes}[1].disabled, {boxes}[2].disabled]") == [True, False]   # another document
    assert text(browser, "#picked") == "Tick another about report.pdf."
    browser.js(f"{boxes}[2].click()")
    assert browser.js(f"{boxes}.filter(b => !b.disabled).length") == 2
    click(browser, "to-pair")
    waits(browser, "document.querySelector('#one .answer') && document.querySelector('#two .answer')")
    rows = dict(browser.js("[...document.querySelectorAll('#pair-table tbody tr')].map(r => [r.cells[0].textContent, "
                           "[r.cells[1].textContent, r.cells[2].textContent]])"))
    assert rows["Question"] == ["Who wrote it?", QUESTION] and rows["Answer"][1] == "19"
    assert not browser.js("document.getElementById('history').open")
    click(browser, "pair-close")
    answered(browser)
    assert text(browser, "#name") == "report.pdf"
    clean(browser, place.url)


# --- for everybody ---

def test_the_keyboard_is_enough(browser, place):
    enter(browser, place)
    browser.js("[...document.querySelectorAll('#files button')].find(b => b.textContent === 'report.pdf').focus()")
    browser("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    settled(browser, place, "report.pdf").js("document.activeElement.blur()")
    browser.key("/", 191)
    waits(browser, "document.activeElement.id === 'question'")
    browser.js("document.activeElement.value = ''; document.querySelector('#a [name=method]').value = 'team'")
    browser("Input.insertText", text=QUESTION)
    before = browser.js("location.hash")
    browser.key("Enter", 13)
    waits(browser, f"location.hash !== {before!r}")
    answered(browser, "19")
    browser.js("document.getElementById('thumbnails').focus()")
    for key, code, page in (("Home", 36, "1"), ("ArrowDown", 40, "2"), ("End", 35, "5"), ("ArrowUp", 38, "4")):
        browser.key(key, code)
        assert browser.js("document.getElementById('page').value") == page
    told = browser.js("document.getElementById(document.getElementById('thumbnails')."
                      "getAttribute('aria-activedescendant')).textContent")
    assert told.startswith("Page 4") and told.endswith("notes, evidence")
    browser.key("n", 78)
    waits(browser, "document.activeElement.id === 'note-text'")
    browser("Input.insertText", text="So it is")
    click(browser, "note-box")
    before = browser.js("document.querySelector('.draft').getAttribute('x')")
    browser.key("ArrowRight", 39)
    assert float(browser.js("document.activeElement.getAttribute('x')")) == float(before) + 10
    browser.key("Escape", 27)
    assert browser.js("document.getElementById('by-hand').hidden && document.activeElement.id === 'note'")
    browser.key("h", 72)
    waits(browser, "document.activeElement.id === 'search'")
    browser.key("Escape", 27)
    waits(browser, "!document.getElementById('history').open")
    clean(browser, place.url)


@pytest.mark.parametrize("width", [360, 820])
def test_narrow_windows(browser, place, width):
    opened(browser, place, width=width, height=800)
    ask(browser)
    answered(browser, "19")
    assert browser.js("document.documentElement.scrollWidth") <= width
    click(browser, "note")
    browser.js("document.getElementById('a-box').open = true")
    assert browser.js("document.documentElement.scrollWidth") <= width
    flat = browser.js("(e => e.clientWidth > e.clientHeight)(document.getElementById('thumbnails'))")
    assert flat == (width < 861) and count(browser, ".thumb") >= 3
    click(browser, "to-history")
    waits(browser, "document.getElementById('history').open")
    assert browser.js("(r => r.left >= 0 && r.right <= innerWidth)(document.getElementById('history')."
                      "getBoundingClientRect())")
    clean(browser, place.url)


def test_light_and_dark(browser, place):
    corners = [enter(browser, place, dark=dark).picture().getpixel((3, 500)) for dark in (False, True)]
    assert min(corners[0]) > 230 and max(corners[1]) < 40


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(browser, place, axe_core, dark):
    enter(browser, place).js("document.querySelector('main').append(document.createElement('img'))")
    assert [rule for rule, _ in axe.findings(browser, axe_core)] == ["image-alt"]   # it would be found
    found = {"start": axe.findings(enter(browser, place, dark=dark), axe_core)}
    opened(browser, place, dark=dark)
    ask(browser)
    answered(browser, "19")
    browser.js("for (const d of document.querySelectorAll('details')) d.open = true")
    click(browser, "note")
    found["desk"] = axe.findings(browser, axe_core)
    click(browser, "to-history")
    waits(browser, "document.querySelectorAll('#episodes li').length")
    found["history"] = axe.findings(browser, axe_core)
    click(browser, "history-close")
    click(browser, "compare")
    browser.js("document.getElementById('ask').requestSubmit()")
    waits(browser, "document.querySelector('#one .answer') && document.querySelector('#two .answer')")
    found["pair"] = axe.findings(browser, axe_core)
    assert {where: what for where, what in found.items() if what} == {}


# --- much, and evil ---

PICTURES = """[...document.images].reduce((sum, i) => sum + i.naturalWidth * i.naturalHeight * 4, 0) +
  [...document.querySelectorAll('#image-cache image')].reduce((sum, i) => sum + i.dataset.side ** 2 * 4, 0)"""


def test_a_thousand_pages_stay_few_pictures(browser, place):
    opened(browser, place, name="thousand.pdf")
    assert text(browser, "#of") == "of 1,000"
    most = shown = 0
    for part in (0, .2, .35, .5, .77, 1):
        browser.js(f"(e => {{ e.scrollTop = e.scrollHeight * {part}; }})(document.getElementById('thumbnails'))")
        waits(browser, "[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        most = max(most, browser.js(PICTURES))
        shown = max(shown, count(browser, ".thumb"))
    browser.js("document.getElementById('thumbnails').focus()")
    for key in ("End", "PageUp", "ArrowUp", "PageUp", "Home"):
        browser.key(key, {"End": 35, "PageUp": 33, "ArrowUp": 38, "Home": 36}[key])
    most = max(most, browser.js(PICTURES))
    assert shown <= 12 and count(browser, "#image-cache image") <= 4 and most < 100e6
    assert browser.js("document.getElementById('page').value") == "1"
    clean(browser, place.url)


def test_two_hundred_hostile_texts_do_nothing(browser, place):
    assert len(HOSTILE) >= 200
    service = place.service
    data = (samples_dir() / "small.pdf").read_bytes()
    files = [service.library.hand_in(ME, name, data + b"\n%" + str(n).encode()) for n, name in enumerate(EVIL)]
    ids, settings = [], dict(client="evil", agents=["scanner"] * 8, max_steps=12)
    for document, question in zip(files, (HOSTILE[1], HOSTILE[9], HOSTILE[17]), strict=False):
        ids.append(ask_and_wait(service, ME, document.id, question, settings))
    records = [service.record(ME, job.id) for job in ids]
    assert sum(len(r["board"]["cells"]) for r in records) >= 200
    assert any(r["trace"].get("fallback") and "<" in r["answer"] for r in records)   # a guess is shown, too
    enter(browser, place)
    assert count(browser, "#documents button") >= 20
    for job in ids:
        browser.open("about:blank").open(f"{place.url}#d={job.document}&e={job.id}")
        answered(browser)
        assert count(browser, "#board .note") > 10
        browser.js("document.querySelectorAll('.note').forEach(n => { n.focus(); n.click(); });"
                   "document.querySelectorAll('details').forEach(d => { d.open = true; });")
        click(browser, "to-history")
        waits(browser, "document.querySelectorAll('#episodes li').length")
        assert browser.js("document.documentElement.scrollWidth") <= 1280
        assert browser.js("document.scripts.length") == 1 and count(browser, "iframe, object, base, form[action]") == 0
        clean(browser, place.url)


def test_documents_and_answers_of_others_are_not_there(browser, place):
    document = place.service.library.open_path(Caller("somebody else"), "slides.pdf")
    opened(browser, place)
    status = browser.js(f"fetch('api/documents/{document.id}/sizes').then(r => r.status)")
    assert status == 404
