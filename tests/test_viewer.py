"""The run viewer in headless Chromium, its server on a socket, its folder from the disk: what is shown,
and that nothing gets out. Without Chromium the tests of the page skip."""

import gzip
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack

import pytest
from PIL import Image

from cosee.cli.entry import main
from cosee.datasets.folder import to_jsonl
from cosee.runs.log import RunError, write_about
from cosee.runs.table import Run
from cosee.experiments import run_experiment
from cosee.models.testing import ScriptedClient
from cosee.runs.viewer import Viewer, export_viewer
from cosee.server.serve import running
from cosee.server.viewer import create_viewer_app
from test_browser import contrast



READY = """new Promise(done => { const look = () => performance.getEntriesByName('rows').length
  ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))) : setTimeout(look, 5);
  look(); })"""
OPENED = """new Promise(done => {
  document.addEventListener('load', e => e.target.tagName === 'IFRAME' && done(true), true);
  document.querySelector('%s').click(); })"""
DRAWN = """new Promise(done => { const look = () => %s ? done(true) : setTimeout(look, 10); look(); })"""


class Served:
    "A viewer behind its server"
    def __init__(self, *folders):
        self.stack = ExitStack()
        self.url = self.stack.enter_context(running(create_viewer_app(Viewer(folders))))
        self.port = int(self.url.rsplit(":", 1)[1].strip("/"))

    def ask(self, path, method="GET", host=None, **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.putrequest(method, path, skip_host=host is not None, skip_accept_encoding=True)
        for k, v in {**({"Host": host} if host else {}), **headers}.items(): c.putheader(k.replace("_", "-"), v)
        c.endheaders()
        r = c.getresponse()
        body = r.read()
        c.close()
        return r, body

    def close(self): self.stack.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory): return tmp_path_factory.mktemp("viewer")


@pytest.fixture(scope="module")
def run(home):
    "Twelve questions, three methods, their traces; `direct` is right on some questions and `cot` on others"
    page = Image.new("RGB", (300, 420), "white")
    to_jsonl(
        (
            {
                "images": [page] * 2,
                "question": f"What is value {i}?",
                "answer": [str(i % 3)],
                "meta": {
                    "id": f"q{i}",
                    "doc_id": f"d{i // 2}",
                    "evidence_pages": [2],
                    "kind": ["form", "letter"][i % 2],
                    "evidence_boxes": [{"page": 2, "bbox": [0.1, 0.1, 0.4, 0.2]}],
                },
            }
            for i in range(12)
        ),
        home / "data",
    )
    note = dict(
        action="HYPOTHESIZE",
        answer="2",
        content="It says 2",
        confidence=0.9,
        view=dict(page=2, bbox_2d=[100, 100, 400, 160]),
    )

    def said(messages):
        text = str(messages)
        return (
            dict(note)
            if "HYPOTHESIZE" in text
            else "Page: 2\nAnswer: 1"
            if "step by step" in text.lower()
            else "Page: 1\nAnswer: 0"
        )

    config = dict(
        dataset=dict(name="jsonl", root=str(home / "data")),
        methods=["direct", "cot", "cosee_light"],
        metrics=dict(em="squad"),
    )
    return run_experiment(config, home / "small", client=ScriptedClient([said], cycle=True))


@pytest.fixture(scope="module")
def served(run):
    s = Served(run.folder)
    yield s
    s.close()


def go(browser, url, **how):
    "Open an address afresh, and wait until the rows are painted"
    browser("Page.navigate", url="about:blank")
    browser.open(url, **how)
    browser.js(READY)
    return browser


def clean(browser, origin):
    "Nothing ran but our script, nobody complained, and nothing left the origin"
    assert not browser.seen(
        "Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"
    )
    urls = [e["params"]["request"]["url"] for e in browser.seen("Network.requestWillBeSent")]
    assert [u for u in urls if not u.startswith((origin, "data:", "about:"))] == [] and urls


def column(browser, name):
    "Texts of a column of the table"
    return browser.js(f"""(() => {{ const k = [...document.querySelectorAll('#rows thead th')].findIndex(th =>
      th.querySelector('button').dataset.sort === {name!r});
      return [...document.querySelectorAll('#rows tbody tr')].map(tr => tr.cells[k].textContent); }})()""")


def sort(browser, name):
    browser.js(f"document.querySelector('#rows thead [data-sort={name}]').click()")
    return browser.js(
        f"document.querySelector('#rows thead [data-sort={name}]').closest('th').getAttribute('aria-sort')"
    )


def choose(browser, id, value):
    browser.js(
        f"(() => {{ const e = document.getElementById({id!r}); e.value = {value!r}; e.dispatchEvent(new "
        f"Event('change')); }})()"
    )


def count(browser): return browser.js("document.getElementById('count').textContent")


# --- the page ---

@pytest.mark.slow
def test_wrong_answers_stand_first_and_nobody_complains(browser, served, run):
    go(browser, served.url)
    results, right = column(browser, "score"), [r["scores"]["em"] for r in run]
    assert len(results) == 36 and [("✓" in t) for t in results] == sorted("✓" in t for t in results)
    assert sum("✓" in t for t in results) == sum(right)
    assert count(browser).startswith("36 answers, wrong first")
    means = browser.js(
        "[...document.querySelectorAll('#methods tbody tr')].map(tr => [...tr.cells].slice(0, 3).map(td => "
        "td.textContent))"
    )
    assert means == [[m, "12", f"{100 * sum(s.values()) / 12:.1f}"] for m, s in Run(run.folder).scores("em").items()]
    clean(browser, served.url)


@pytest.mark.slow
def test_sort_search_filter_and_the_address_that_leads_back(browser, served):
    go(browser, served.url)
    for direction, down in (("descending", True), ("ascending", False)):
        assert sort(browser, "tokens") == direction
        values = [int(t.replace(",", "")) for t in column(browser, "tokens")]
        assert values == sorted(values, reverse=down) and len(set(values)) > 1
    assert sort(browser, "tokens") is None and browser.js("document.querySelector('[aria-sort]').textContent") == "em▲"
    choose(browser, "method", "cot")
    choose(browser, "group", "kind=letter")
    assert count(browser).startswith("6 answers") and set(column(browser, "method")) == {"cot"}
    assert browser.js("document.querySelector('#methods tbody tr').cells[1].textContent") == "6"
    browser.js("[...document.querySelectorAll('#only button')].find(b => b.textContent.startsWith('Wrong')).click()")
    assert count(browser).startswith("4 answers of 6") and all("✗" in t for t in column(browser, "score"))
    browser.js(
        "(() => { const q = document.getElementById('q'); q.value = 'VALUE 11'; q.dispatchEvent(new Event('input')); "
        "})()"
    )
    browser.js(DRAWN % "document.querySelectorAll('#rows tbody tr').length === 1")
    address = browser.js("location.href")
    go(browser, address)
    assert (
        column(browser, "question") == ["What is value 11?q11 · d5"]
        and browser.js("document.getElementById('q').value") == "VALUE 11"
    )
    go(browser, served.url + "#q=nothing+of+the+kind&sort=__proto__&view=constructor&page=-7&size=x")
    assert "Nothing passes these filters" in count(browser)
    browser.js("document.querySelector('#count button').click()")
    assert count(browser).startswith("36 answers")
    clean(browser, served.url)


@pytest.mark.slow
def test_method_against_method(browser, served, run):
    scores = run.scores("em")
    pairs = [(bool(scores["direct"][q]), bool(scores["cosee_light"][q])) for q in scores["direct"]]
    cells = [(True, True), (True, False), (False, True), (False, False)]
    go(browser, served.url + "#view=pair")
    assert browser.js("[...document.querySelectorAll('#square b')].map(b => +b.textContent)") == [
        pairs.count(c) for c in cells
    ]
    assert pairs.count(cells[1]) and pairs.count(cells[2])
    for k, c in enumerate(cells):
        browser.js(f"document.querySelectorAll('#square button')[{k}].click()")
        shown = browser.js("document.querySelectorAll('#rows tbody tr').length")
        assert (
            shown == pairs.count(c)
            and browser.js(f"document.querySelectorAll('#square button')[{k}].getAttribute('aria-pressed')") == "true"
        )
    choose(browser, "b", "direct")
    assert "same method" in browser.js("document.getElementById('verdict').textContent")
    go(browser, served.url + "#view=questions")
    assert browser.js("document.querySelectorAll('#rows tbody tr').length") == 12
    parted = sum(len({bool(s[q]) for s in scores.values()}) == 2 for q in scores["cot"])
    browser.js(
        "[...document.querySelectorAll('#only button')].find(b => b.textContent.startsWith('Methods part')).click()"
    )
    assert count(browser).startswith(f"{parted} questions")
    clean(browser, served.url)


@pytest.mark.slow
def test_a_row_opens_its_episode(browser, served):
    go(browser, served.url + "#method=cosee_light")
    browser.js(OPENED % "#rows tbody tr")
    assert browser.js(
        "document.getElementById('one').open && document.getElementById('question').textContent"
    ).startswith("What is value")
    path = browser.js("document.querySelector('#episode iframe').getAttribute('src')")
    assert [
        e["params"]["response"]["status"]
        for e in browser.seen("Network.responseReceived")
        if e["params"]["response"]["url"].endswith(path)
    ] in ([200], [])  # the frame may live in a process of its own
    browser.js("[...document.querySelectorAll('#others button')].find(b => b.textContent.includes('cot')).click()")
    assert browser.js("document.querySelector('#episode iframe').getAttribute('src')") != path
    clean(browser, served.url)
    browser.open(served.url + path)
    assert (
        browser.js("document.querySelectorAll('.note').length") > 0
        and browser.js("document.querySelectorAll('image, .row svg').length") > 0
    )
    clean(browser, served.url)


@pytest.mark.slow
def test_a_method_without_a_board_shows_its_calls(browser, served):
    key = json.loads(served.ask("/data.json")[1])["rows"]["key"][0]   # direct
    browser.open(f"{served.url}episodes/{key}.html")
    text = browser.js("document.body.innerText")
    assert "1 call" in text and "Answer: 0" in text and "box of the gold" in text and "What was asked" in text
    assert (
        browser.js("document.querySelectorAll('svg rect.gold').length") == 1
        and browser.js("document.scripts.length") == 0
    )
    clean(browser, served.url)


@pytest.mark.slow
def test_keyboard(browser, served):
    go(browser, served.url)
    focused = ("document.activeElement.closest('tr') && [...document.querySelectorAll('#rows tbody "
               "tr')].indexOf(document.activeElement.closest('tr'))")
    browser.js("document.querySelector('#rows tbody a[tabindex=\"0\"]').focus()")
    for key, code, row in (
        ("ArrowDown", 40, 1),
        ("ArrowDown", 40, 2),
        ("ArrowUp", 38, 1),
        ("End", 35, 35),
        ("Home", 36, 0),
        ("ArrowUp", 38, 0),
    ):
        browser.key(key, code)
        assert browser.js(focused) == row
    assert browser.js("getComputedStyle(document.activeElement).outlineStyle") != "none"
    question = browser.js("document.activeElement.textContent")
    browser("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    browser("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)
    assert (
        browser.js("document.getElementById('one').open")
        and browser.js("document.getElementById('question').textContent") == question
    )
    browser.key("ArrowRight", 39)
    assert browser.js("document.getElementById('place').textContent") == "2 of 36"
    browser.key("Escape", 27)
    assert browser.js(
        DRAWN % f"!document.getElementById('one').open && ({focused}) === 1"
    )  # a dialog says that it closed in a task of its own
    browser("Input.dispatchKeyEvent", type="keyDown", key="/", code="Slash", windowsVirtualKeyCode=191, text="/")
    assert browser.js("document.activeElement.id") == "q" and browser.js("document.activeElement.value") == ""
    go(browser, served.url + "#view=questions").js("document.querySelectorAll('#rows tbody a')[0].focus()")
    browser.key("ArrowRight", 39)
    assert (
        browser.js("[...document.activeElement.closest('tr').querySelectorAll('a')].indexOf(document.activeElement)")
        == 1
    )


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_both_themes_can_be_read(browser, served, dark):
    corner = go(browser, served.url, dark=dark).picture().getpixel((3, 300))
    assert max(corner) < 40 if dark else min(corner) > 230
    code = """(() => { const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
      const rgb = v => { c.clearRect(0, 0, 1, 1); c.fillStyle = v; c.fillRect(0, 0, 1, 1);
        return [...c.getImageData(0, 0, 1, 1).data]; };
      const ground = e => {
        for (; e; e = e.parentElement) {
          const v = rgb(getComputedStyle(e).backgroundColor);
          if (v[3] == 255) return v;
        }
        return [255, 255, 255, 255]; };
      return ['#title', '#about span', 'h2', 'th', '.methods button', '.methods td', 'label span', '#views button',
              '#only small', '#count', '.chip', '.id', '.cut', '.n', '#hint', '.dim', '#verdict', '#square span',
              '.cell', '.key'].flatMap(s => [...document.querySelectorAll(s)].slice(0, 40).filter(e => e.offsetParent)
        .map(e => [s, rgb(getComputedStyle(e).color), ground(e)])); })()"""
    measured = [
        m
        for view in ("answers", "questions", "pair")
        for m in go(browser, f"{served.url}#view={view}", dark=dark).js(code)
    ]
    assert len({s for s, *_ in measured}) > 15
    assert [(s, round(contrast(a[:3], b[:3]), 1)) for s, a, b in measured if contrast(a[:3], b[:3]) < 4.5] == []


@pytest.mark.slow
def test_phone_and_paper(browser, served):
    for view in ("answers", "questions", "pair"):
        go(browser, f"{served.url}#view={view}", width=360, height=740)
        assert browser.js("document.documentElement.scrollWidth") <= 360
    assert browser.js("getComputedStyle(document.getElementById('sort').parentElement).display") != "none"
    go(browser, served.url)
    browser("Emulation.setEmulatedMedia", media="print")
    hidden = browser.js("['views', 'only', 'hint', 'reload'].map(id => document.getElementById(id).offsetHeight)")
    browser("Emulation.setEmulatedMedia", media="")
    assert hidden == [0] * 4 and browser("Page.printToPDF")["data"]


# --- ten thousand samples ---

# --- a run that grows, files that are broken ---

@pytest.mark.slow
def test_reload_shows_what_has_come(browser, run, home):
    lines = run.path.read_bytes().splitlines(keepends=True)
    grows = home / "grows"
    grows.mkdir()
    shutil.copy(run.folder / "run.json", grows)
    served = Served(grows)
    try:
        go(browser, served.url)
        assert "no record yet" in count(browser) and "is not there" in browser.js(
            "document.getElementById('notices').textContent"
        )
        (grows / "records.jsonl").write_bytes(b"".join(lines[:7]) + b"\x00broken\n" + lines[7][:80])
        browser.js("document.getElementById('reload').click()")
        browser.js(DRAWN % "document.querySelectorAll('#rows tbody tr').length === 7")
        told = browser.js("document.getElementById('notices').textContent")
        assert "1 line" in told and "the last line is not whole" in told and "grows/records.jsonl" in told
        with (grows / "records.jsonl").open("ab") as f: f.write(lines[7][80:] + lines[8])
        go(browser, served.url)
        assert count(browser).startswith("9 answers") and "not whole" not in browser.js(
            "document.getElementById('notices').textContent"
        )
        again = {**json.loads(lines[0]), "answer": "another", "attempt": 2}
        with (grows / "records.jsonl").open("ab") as f: f.write(json.dumps(again).encode() + b"\n")
        assert "another" in json.loads(served.ask("/data.json")[1])["rows"]["answer"]
    finally: served.close()


@pytest.mark.parametrize("record", [
    {}, dict(sample=7, doc=8), dict(status="failed", error="a\u202eb\x00"), dict(gold=["a"], page=10**6),
    dict(gold=[7, 7.5], page=0, meta=dict(tolerance="x", kind={}, evidence_pages=[0], evidence_boxes=[
        dict(page=1, bbox=[0, 0, 9, 9]), dict(page=1, bbox="x"), {}])),
    dict(board=dict(cells=[{}]), trace=dict(kind="calls", pages=[7])), dict(board=dict(cells=[dict(view={})])),
    dict(trace=dict(calls=[{}, dict(agent={}, step=[], text=7, prompt={})])),
    dict(gold=["\ud800"], answer="\ud800", scores=dict(em=.5)), dict(confidence=1e10, usage=dict(calls=2**62))])
def test_records_of_any_kind_are_shown(tmp_path, record):
    write_about(tmp_path, dict(methods=["m"], metrics=dict(em="squad"), config={}, versions={}, git=None, times={}))
    base = {"sample": "a", "index": 0, "method": "m", "status": "ok"}
    (tmp_path / "records.jsonl").write_text(json.dumps({**base, **record}) + "\n")
    viewer = Viewer(tmp_path)
    raw, packed, _ = viewer.pack()
    data = json.loads(raw)
    assert gzip.decompress(packed) == raw and len(data["rows"]["key"]) == 1
    assert "Content-Security-Policy" in viewer.episode(data["rows"]["key"][0])


@pytest.mark.parametrize("about, said", [(None, "no run.json"), ("{", "is broken"), ("[]", "'methods'"),
                                         ('{"methods": "a"}', "'methods'"),
                                         ('{"methods": ["a"], "metrics": {"magic": "x"}}', "--metric")])
def test_what_is_no_run_is_said_with_file_and_mend(tmp_path, capsys, about, said):
    if about: (tmp_path / "run.json").write_text(about)
    assert main(["view", str(tmp_path), "--no-browser"]) == 2
    err = capsys.readouterr().err
    assert said in err and str(tmp_path) in err and len(err.splitlines()) == 1


def test_another_version_is_said(tmp_path):
    write_about(tmp_path, dict(methods=["m"], versions=dict(cosee="9.4.0")))
    (tmp_path / "records.jsonl").touch()
    assert any("9.4.0" in s and "run.json" in s for s in Viewer(tmp_path).data()["notices"])


def test_methods_of_several_runs_stand_side_by_side(run, home):
    shutil.copytree(run.folder, home / "other" / "small")
    viewer = Viewer([run.folder, home / "other" / "small"])
    viewer.update()
    data = viewer.data()
    assert (
        data["methods"][3] == "other/small: direct"
        and len(data["samples"]["id"]) == 12
        and len(set(data["rows"]["key"])) == 72
    )
    assert all("Content-Security-Policy" in viewer.episode(k) for k in data["rows"]["key"][-2:])
    again = Viewer(run.folder, ["anls=rrc"])
    again.update()
    assert again.data()["metrics"] == [["anls", "anls (rrc)"]] and set(again.data()["rows"]["scores"][0]) == {0., 1.}
    with pytest.raises(RunError, match="magic"): Viewer(run.folder, ["magic"])


# --- the server ---

TRAVERSAL = [
    "/../run.json",
    "/episodes/../../run.json",
    "/episodes/%2e%2e/%2e%2e/run.json",
    "//etc/passwd",
    "/etc/passwd",
    "/episodes/",
    "/episodes",
    "/records.jsonl",
    "/run.json",
    "/.lock",
    "/episodes/..%2f..%2frun.json",
    "/episodes/0123456789abcdef.html",
    "/episodes/0123456789abcdeF.html",
    "/data.json/",
    "/index.html/..",
    "/%00",
    "/episodes/\\..\\run.json",
    "http://127.0.0.1/run.json",
    "file:///etc/passwd",
    "/?/../run.json/",
    "/data.json%00.html",
    "*",
]


@pytest.mark.parametrize("path", TRAVERSAL)
def test_no_path_leads_out(served, path):
    r, body = served.ask(path)
    if path.startswith("/?"): assert r.status == 200   # the query is nothing to the server
    else: assert r.status in (400, 404) and len(body) < 200 and b"root:" not in body and b"hash" not in body
    assert "default-src 'none'" in r.getheader("Content-Security-Policy")


@pytest.mark.parametrize("host, status", [("evil.example", 403), ("127.0.0.1.evil.example:80", 403),
                                          ("localhost.evil.example", 403), ("", 403), ("127.0.0.1@evil.example", 403),
                                          ("localhost:8123", 200), ("127.0.0.1", 200), ("LOCALHOST", 200),
                                          ("[::1]:9", 200)])
def test_only_this_machine_may_be_named(served, host, status):
    for path in ("/", "/data.json"):
        r, body = served.ask(path, host=host or " ")
        assert r.status == status and (status == 200) == (len(body) > 1000)


def test_reads_only(served):
    for path in ("/", "/data.json", "/report.html", "/nothing"):
        (head, empty), (get, body) = served.ask(path, "HEAD"), served.ask(path)
        assert (
            empty == b""
            and head.status == get.status
            and dict(head.getheaders()) | {"Date": ""} == dict(get.getheaders()) | {"Date": ""}
        )
        assert (
            int(get.getheader("Content-Length")) == len(body) and get.getheader("X-Content-Type-Options") == "nosniff"
        )
        assert get.getheader("Cross-Origin-Resource-Policy") == "same-origin" and "frame-ancestors" in get.getheader(
            "Content-Security-Policy"
        )
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"):
        r, _ = served.ask("/", method)
        assert r.status == 405 and {*r.getheader("Allow").split(", ")} == {"GET", "HEAD"}, method
        assert r.getheader("Content-Security-Policy")
    r, body = served.ask("/data.json", Accept_Encoding="gzip")
    assert r.getheader("Content-Encoding") == "gzip" and json.loads(gzip.decompress(body))["rows"]
    again, nothing = served.ask("/data.json", Accept_Encoding="gzip", If_None_Match=r.getheader("ETag"))
    assert (again.status, nothing) == (304, b"")


def test_requests_that_are_none(served):
    for raw in (
        b"\x16\x03\x01\x02\x00\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as s:
            s.sendall(raw)
            s.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda: s.recv(65536), b""))
        assert b" 200 " not in said.split(b"\n")[0] and b"<" not in said
        assert b"text/plain" in said or b"default-src 'none'" in said or not said
    assert served.ask("/")[0].status == 200


def test_the_command_says_where_serves_and_ends(run):
    argv = ["view", str(run.folder), "--no-browser", "--json"]
    done = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"from cosee.cli.entry import main; raise SystemExit(main({argv!r}))",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = json.loads(done.stdout.readline())["url"]
        assert (
            url.startswith("http://127.0.0.1:")
            and b"CoSee run viewer" in urllib.request.urlopen(url, timeout=30).read()
        )
        assert main(["view", str(run.folder), "--no-browser", "--port", url.split(":")[-1].strip("/")]) == 2   # taken
        done.send_signal(signal.SIGINT)
        assert done.wait(30) == 0
    finally: done.kill()


# --- a folder ---

@pytest.mark.slow
def test_the_folder_works_from_the_disk(browser, run, home):
    viewer = Viewer(run.folder)
    done = export_viewer(viewer, home / "site", "wrong")
    assert done["episodes"] == sum(not r["scores"]["em"] for r in run) == len(list((home / "site/episodes").iterdir()))
    origin = (home / "site").as_uri()
    go(browser, (home / "site/index.html").as_uri())
    assert count(browser).startswith("36 answers") and browser.js("document.getElementById('reload').hidden")
    browser.js(OPENED % "#rows tbody a")
    clean(browser, origin)
    go(browser, (home / "site/index.html").as_uri() + "#only=right").js(
        "document.querySelector('#rows tbody a').click()"
    )
    assert "was not exported" in browser.js("document.getElementById('episode').textContent")
    for path in (home / "site").rglob("*.html"):
        text = path.read_text()
        assert (
            'http-equiv="Content-Security-Policy"' in text
            and str(home) not in text
            and 'href="/' not in text
            and 'src="/' not in text
        ), path.name
    assert main(["view", str(run.folder), "--export", str(home / "data"), "--quiet"]) == 2

