"""Fields of many documents: each once whatever is killed, what a hostile folder does, and the page of a review."""
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from colour_plugin import colour_of
from conftest import ROOT
from PIL import Image

from cosee.cli.entry import main
from cosee.extraction.folder import Extracted, begin_folder, document_key, write_line
from cosee.extraction.review import Review, report_html
from cosee.runs.log import RunError, locked_file
from cosee.server.viewer import create_review_app
from cosee.server.serve import running

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "title": "Card", "properties": {"number": {"type": "integer"}}}
START = "import colour_plugin; from cosee.cli.start import main; raise SystemExit(main())"
DOCUMENTS = int(os.environ.get("COSEE_DOCUMENTS", 60))


def cards(folder, n):
    "Pictures of one colour each, and a schema"
    (folder / "inbox").mkdir()
    for i in range(n): Image.new("RGB", (40, 40), colour_of(i)).save(folder / f"inbox/{i}.png")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    return folder


def begin(folder, *more):
    "A command that reads the cards"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "COSEE_CACHE": "off"}
    args = ["extract", "inbox", "--schema", "schema.json", "--client", "colour", "--no-check", "--quiet", *more]
    argv = [sys.executable, "-c", START, *args]
    return subprocess.Popen(argv, env=env, cwd=folder, stderr=subprocess.PIPE, text=True)


def lines_in(file): return file.read_bytes().count(b"\n") if file.exists() else 0


def whole_lines(file):
    "What stands in a file, but for lines that were cut off"
    for line in file.read_bytes().split(b"\n"):
        try: yield json.loads(line)
        except ValueError: continue


# --- each document once ---

@pytest.mark.faults("extraction from many documents, killed")
def test_whatever_is_killed_every_document_is_there_once(tmp_path, counts):
    cards(tmp_path, DOCUMENTS)
    file, kills, rng = tmp_path / "run/documents.jsonl", 10 if DOCUMENTS >= 500 else 3, random.Random(2)
    for i in range(kills):
        run, until = begin(tmp_path, "--out", "run", "--in-flight", "3"), (i + rng.random()) * DOCUMENTS / (kills + 1)
        while lines_in(file) < until and run.poll() is None: time.sleep(.002)
        run.send_signal(signal.SIGKILL)
        run.communicate()
        counts["killed" if run.returncode == -signal.SIGKILL else "ended"] += 1
    if file.exists():   # and the power fails within a line
        file.write_bytes(file.read_bytes()[:-9])
    run = begin(tmp_path, "--out", "run", "--in-flight", "3")
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, said
    lines = list(whole_lines(file))
    assert sorted(line["file"] for line in lines) == sorted(str(p) for p in (tmp_path / "inbox").iterdir())
    assert all(line["value"]["number"] == int(line["file"].split("/")[-1][:-4]) for line in lines)
    assert counts["killed"] == kills
    table = (tmp_path / "run/values.csv").read_text().splitlines()
    assert len(table) == DOCUMENTS + 1 and "report.html" in os.listdir(tmp_path / "run")
    assert file.stat().st_mode & 0o077 == 0 == file.parent.stat().st_mode & 0o077   # what was read is its owner's


@pytest.fixture
def few(tmp_path, monkeypatch):
    "Four cards, two of them alike, in this process"
    cards(tmp_path, 3)
    (tmp_path / "inbox/below").mkdir()
    (tmp_path / "inbox/below/same.png").write_bytes((tmp_path / "inbox/1.png").read_bytes())
    (tmp_path / "inbox/._0.png").write_bytes(b"of another system")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def extract(*more): return main(["extract", *more, "--schema", "schema.json", "--client", "colour", "--no-check"])


def test_the_same_contents_twice_are_read_once_and_told_twice(few, capsys):
    assert extract("inbox", "--out", "run") == 0
    run = Extracted("run")
    assert {line.name: line.fields[0].value for line in run.lines()} == {
        "0.png": 0, "1.png": 1, "2.png": 2, "same.png": 1}
    capsys.readouterr()
    (few / "inbox/0.png").rename(few / "inbox/moved.png")   # known by its contents
    assert extract("inbox", "--out", "run") == 0
    assert "3 documents of 4 there already" in capsys.readouterr().err
    assert len(list(whole_lines(few / "run/documents.jsonl"))) == 5


def test_other_settings_another_writer_and_odd_files_are_refused_in_a_line(few, capsys):
    os.mkfifo(few / "pipe")
    assert extract("inbox", "--out", "run", "--quiet") == 0
    with locked_file(few / "run/.lock"):
        for args, mend in ((["inbox", "--out", "run"], "another process"),
                           (["inbox", "--out", "run", "--max-tokens", "9"], "another schema, client or settings"),
                           (["inbox", "--out", "inbox"], "holds other files"),
                           (["pipe"], "no regular file"), (["/dev/zero"], "no regular file")):
            capsys.readouterr()
            assert extract(*args) == 2
            said = capsys.readouterr().err
            assert mend in said and said.count("\n") == 1, said


def test_a_document_that_fails_costs_itself_alone(few, capsys, monkeypatch):
    import colour_plugin
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "b" * 30)
    chat = colour_plugin.Colour.send

    def failing(self, messages, **params):
        reply = chat(self, messages, **params)
        if '"1"' in reply.text: raise KeyError("Bearer sk-" + "b" * 30)
        return reply
    monkeypatch.setattr(colour_plugin.Colour, "send", failing)
    assert extract("inbox", "--out", "run", "--in-flight", "2") == 1
    failed = [line for line in whole_lines(few / "run/documents.jsonl") if "error" in line]
    assert len(failed) == 2 and all("bbbb" not in line["error"] for line in failed)
    monkeypatch.undo()
    os.chdir(few)
    assert extract("inbox", "--out", "run", "--quiet") == 0   # what failed is tried again
    assert [line.error for line in Extracted("run").lines()] == [None] * 4


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_command_begins_no_document_beyond_its_tokens_and_the_next_one_goes_on(few, capsys, in_flight):
    for i in range(3, 12): Image.new("RGB", (40, 40), colour_of(i)).save(few / f"inbox/{i}.png")
    more = ["inbox", "--out", "run", "--in-flight", str(in_flight)]
    assert extract(*more, "--total-tokens", "34") == 1   # 33 a document
    begun = len(list(whole_lines(few / "run/documents.jsonl")))
    said = capsys.readouterr().err
    assert 2 <= begun <= 3 + in_flight, begun
    assert f"{13 - begun} not begun: the tokens of --total-tokens are used" in said, said
    assert extract(*more, "--total-tokens", "999") == 0
    assert len({line.file for line in Extracted("run").lines()}) == 13


# --- folders of strangers ---

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture
def reviewed(tmp_path):
    "Three documents whose values are hostile, doubtful, or in rows"
    schema = {"type": "object", "title": EVIL, "properties": {
        "number": {"type": "string"}, "issued": {"type": "string", "format": "date"}, "items": {
            "type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}
    begin_folder(tmp_path / "run", schema, {"hash": "m"})
    for name in "ab":
        page = tmp_path / f"{name}.png"
        Image.new("RGB", (600, 800), (255, 255, 250 + "ab".index(name))).save(page)
        fields = [{"path": "number", "value": EVIL, "printed": EVIL, "page": 1, "bbox": [.1, .1, .4, .15]},
                  {"path": "issued", "value": None, "printed": "13th", "page": 1, "reason": EVIL},
                  {"path": "items[0].n", "value": 3, "printed": "3", "page": 9, "bbox": [0, 0, 1, 1]}]
        write_line(tmp_path / "run/documents.jsonl", {"file": str(page), "key": document_key(page, "m"),
                                                      "fields": fields, "doubtful": ["issued"] * (name == "b")})
    write_line(tmp_path / "run/documents.jsonl", {"file": f"/{EVIL}.pdf", "key": "", "error": EVIL})
    return tmp_path / "run"


def test_a_hostile_folder_is_passed_over_or_named(reviewed):
    odd = [b"[" * 5000, b'{"file": "", "key": "k"}', b'{"file": "x", "key": "k", "fields": [{"path": 3}]}',
           b"\xff\xfe",
           b'{"file": "x", "key": "k", "fields": [{"path": "a", "bbox": [NaN, 0, 1, 1]}]}', b"null"]
    with open(reviewed / "documents.jsonl", "ab") as f: f.write(b"\n".join(odd) + b"\n")
    with open(reviewed / "gold.jsonl", "ab") as f: f.write(b'{"file": 1}\n[]\n{"how": "burnt"}\n')
    run = Extracted(reviewed)
    assert len(run.lines()) == 3 and len(run.faults) == 3 and not run.gold()
    assert "<script" not in report_html(run) and "<img src=x" not in report_html(run)
    (reviewed / "schema.json").write_text('{"$ref": "#"}')
    with pytest.raises(RunError, match="leads out of the schema"): Extracted(reviewed)


# --- the page ---

@pytest.fixture
def served(reviewed):
    with running(create_review_app(Review(Extracted(reviewed)))) as url: yield url


FOCUSED = "document.activeElement.closest('.item')?.dataset.path"


def type_in(browser, text):
    browser("Input.insertText", text=text)


def gold_of(folder): return {path: (g.value, g.how) for (_, path), g in Extracted(folder).gold().items()}


def said(browser, path, how): browser.wait(f"document.querySelector('[data-path=\"{path}\"]').matches('.{how}')")


def test_values_are_reviewed_by_keyboard_and_nothing_hostile_runs(browser, served, reviewed):
    browser.open(served).wait(f"{FOCUSED} == 'issued'")   # a doubtful value, of a document that has one
    assert browser.js("document.getElementById('name').textContent") == "b.png"
    browser.js("document.activeElement.querySelector('input').focus()")
    type_in(browser, "31 February 2024")
    browser.key("Enter", 13)
    browser.wait("document.querySelector('#fault').textContent.includes('no whole date')")
    assert not (reviewed / "gold.jsonl").exists()
    browser.js("document.activeElement.select()")
    type_in(browser, "13 March 2024")
    browser.key("Enter", 13)
    said(browser, "issued", "corrected")
    browser.wait(f"{FOCUSED} == 'number'")
    browser.key("Enter", 13)
    said(browser, "number", "accepted")
    browser.key("Delete", 46)
    browser.wait("document.getElementById('name').textContent == 'a.png'")   # all of b.png is done
    assert gold_of(reviewed) == {"issued": ("2024-03-13", "corrected"), "number": (EVIL, "accepted"),
                                 "items[0]": (None, "absent")}
    assert browser.js("document.getElementById('left').textContent") == "3 left in 1 of 3 documents"
    assert not browser.seen("Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
    urls = [e["params"]["request"]["url"] for e in browser.seen("Network.requestWillBeSent")]
    assert all(url.startswith((served, "data:")) for url in urls)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_goes_on_where_one_stopped(browser, served, width):
    browser.open(served, width=width, dark=width == 390).wait("document.querySelectorAll('.item').length == 3")
    assert browser.js("document.documentElement.scrollWidth") <= width
    browser.js("document.querySelector('[data-path=\"issued\"] [data-how=absent]').click()")
    said(browser, "issued", "absent")
    browser.open(served, width=width).wait("document.querySelector('[data-path=\"issued\"]')?.matches('.absent')")
    browser.js("document.querySelector('[data-path=\"issued\"] [data-how=open]').click()")
    said(browser, "issued", "open")


def test_another_sites_page_cannot_write(browser, served, reviewed, tmp_path):
    (tmp_path / "evil.html").write_text("<p>evil")
    browser.open(tmp_path / "evil.html")
    send = ("fetch('%sgold', {method: 'POST', mode: 'no-cors', body: JSON.stringify({document: 0, path: 'number', "
            "how: 'absent', texts: {}})}).then(() => 'sent', () => 'refused')")
    assert browser.js(send % served) in ("sent", "refused")
    assert not (reviewed / "gold.jsonl").exists()


def test_a_run_names_the_command_for_fields(reviewed, capsys):
    assert main(["run", str(reviewed)]) == 2
    assert "cosee view" in capsys.readouterr().err
