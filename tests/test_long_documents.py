"""Long documents from the outside in: `cosee ask` finds the page, says what it shows, and goes on past a bad page."""
import json
import os
import re
import subprocess
import sys

import pytest
from reportlab.pdfgen.canvas import Canvas

from cosee.cli.start import main
from cosee.datasets.synthetic.long import long_document, scan_pdf
from cosee.models.testing import ScriptedClient
from cosee.models.registry import CLIENTS, ClientEntry
from cosee.pages import load_pages
from cosee.utils.text import same_answer
from cosee.view.drawing import IN_FULL, page_pictures

SHELL = "from cosee.cli.start import main; raise SystemExit(main())"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    "No test finds what another one left"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def ask(capsys):
    "Runs `cosee ask` in this process: code, results, standard error"
    def go(file, *questions, more=()):
        asked = [part for q in questions for part in ("-q", q)]
        code = main(["ask", str(file), *asked, "--json", *map(str, more)])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else [], err
    return go


def report(path, pages, lines, blank=()):
    "A PDF in which page `n` says `lines[n]`, and a sentence about nothing where there is none"
    canvas = Canvas(str(path), pagesize=(400, 300), pageCompression=0, invariant=1)
    for n in range(1, pages + 1):
        if n not in blank:
            for i, line in enumerate(lines.get(n, [f"Chapter {n} goes on about nothing of note."])):
                canvas.drawString(40, 240 - 24 * i, line)
        canvas.showPage()
    canvas.save()
    return path


def torn(path, page):
    "The same PDF, with nothing where page `page` was"
    data = path.read_bytes()
    at = [m.start() for m in re.finditer(rb"\d+ 0 obj\s*<<\s*/Contents", data)][page - 1]
    end = data.index(b"endobj", at)
    path.write_bytes(data[:at] + b" " * (end - at) + data[end:])
    return path


@pytest.mark.slow
def test_three_hundred_pages_from_the_shell(tmp_path):
    doc = long_document("shell", 300, n_questions=40)
    file = doc.save(tmp_path / "report.pdf")
    fields = [q for q in doc.questions if q["where"] == "cell" and q["wording"] == "literal"][:4]
    asked = [part for q in fields for part in ("-q", q["question"])]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SHELL, "ask", str(file), *asked, "--json", "--sure", "0", "--html",
               str(tmp_path / "a.html")]
    r = subprocess.run(command, capture_output=True, text=True, env=env, timeout=400)
    results = json.loads(r.stdout)
    right = [any(same_answer(a["answer"], gold) for gold in q["answers"]) and a["page"] in q["evidence_pages"]
             for a, q in zip(results, fields, strict=True)]
    assert r.returncode == 0 and sum(right) >= 2, results
    assert f"{doc.pages} pages from report.pdf" in r.stderr and re.search(r"shown pages [\d, ]+", r.stderr)
    html = (tmp_path / "a.html").read_text()
    assert len(html) < 9_000_000 and f"of {doc.pages} pages are here in full" in html


def test_a_page_that_cannot_be_drawn_among_100(tmp_path, ask):
    lines = {72: ["Annual rent: 8,450 EUR"], 23: ["Deposit: 99 EUR"]}
    file = torn(report(tmp_path / "torn.pdf", 100, lines), 23)
    code, [result], err = ask(file, "What is the annual rent?")
    assert (code, result["answer"], result["page"]) == (0, "8,450 EUR", 72)
    assert err.count("page 23 is left out") == 1


@pytest.mark.slow
def test_a_thousand_blank_pages(tmp_path, ask):
    blank = set(range(1, 1001)) - {640}
    file = report(tmp_path / "blank.pdf", 1000, {640: ["Annual rent: 8,450 EUR"]}, blank)
    code, [result], _ = ask(file, "What is the annual rent?")
    assert (code, result["answer"], result["page"]) == (0, "8,450 EUR", 640)


@pytest.mark.slow
def test_a_scan_that_was_read_needs_no_ocr_again(tmp_path, ask, monkeypatch):
    from cosee.text import ocr as engine
    doc = long_document("scan", 5, n_questions=2)
    file = tmp_path / "scan.pdf"
    file.write_bytes(scan_pdf(doc, 90, [3, 4]))
    _, _, err = ask(file, doc.questions[0]["question"])
    assert "2 pages read" in err
    def never(*args, **kw): raise AssertionError("a page is read by OCR again")
    monkeypatch.setattr(engine, "_read_page", never)
    code, _, err = ask(file, doc.questions[1]["question"])
    assert code in (0, 3) and "0 pages read, 2 from the cache" in err


def test_nothing_is_drawn_for_a_model_that_is_shown_few_pages(tmp_path, ask, monkeypatch):
    "A model that sees pictures is shown what the index finds; the rest is never drawn"
    from cosee import pages
    drawn, draw = [], pages._Document.draw
    def counted(self, number, *args, **kw):
        drawn.append(number)
        return draw(self, number, *args, **kw)
    monkeypatch.setattr(pages._Document, "draw", counted)
    found = {"action": "HYPOTHESIZE", "answer": "8,450 EUR", "content": "Annual rent: 8,450 EUR", "confidence": .9,
             "view": {"page": 30, "bbox_2d": [100, 100, 500, 300]}}
    monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda: ScriptedClient([found], cycle=True)))
    file = report(tmp_path / "report.pdf", 60, {30: ["Annual rent: 8,450 EUR"]})
    code, [result], _ = ask(file, "What is the annual rent?", more=("--client", "told", "--focus", "top", "--k", 2))
    assert (code, result["page"]) == (0, 30) and set(drawn) and len(set(drawn)) <= 8 and 30 in drawn


@pytest.mark.parametrize("more, part", [(("--focus", "everything"), "everything"), (("--k", "0"), "'0'")])
def test_silly_focus(tmp_path, capsys, more, part):
    assert main(["ask", str(report(tmp_path / "a.pdf", 1, {})), "-q", "What?", *more]) == 2
    assert part in capsys.readouterr().err


def test_html_of_a_long_document_is_bounded(tmp_path):
    pages = load_pages(report(tmp_path / "long.pdf", 120, {}))
    found = page_pictures(pages, 400_000, matter=[77, 3])
    html = "".join(found.html)
    assert len(html) < 450_000 and 'id="page77"' in html and 'id="page3"' in html
    assert found.told.startswith("2 of 120 pages are here in full")
    assert page_pictures(pages[:IN_FULL], 400_000).told == ""
