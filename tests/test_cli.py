"""What `cosee` says and returns when things go wrong, and what scripts can rely on.

The team is real; the model is a client that replays replies, registered under a name of its own.
"""
import json
import os
import subprocess
import sys

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from conftest import shell
from cosee.cli.start import main
from cosee.cli.entry import COMMANDS
from cosee.models.testing import ScriptedClient
from cosee.models.registry import CLIENTS, ClientEntry
from cosee.utils.config import Entry
from test_pages import pdf, png_header

SCAN = {"action": "INSPECT", "content": "A table", "view": {"page": 1, "bbox_2d": [100, 100, 900, 600]},
        "tags": ["table"]}
FOUND = {"action": "HYPOTHESIZE", "answer": "86.50", "content": "Total: 86.50", "confidence": .9,
         "supporting_cells": [1],
         "view": {"page": 2, "bbox_2d": [600, 300, 800, 350]}}
NOTHING = {"action": "HYPOTHESIZE", "answer": "not answerable", "content": "no print says so", "confidence": .6,
           "view": {"page": 1}}


@pytest.fixture
def run(monkeypatch, capsys):
    "Runs the command in this process with scripted replies: code, standard output, standard error"
    def go(*argv, replies=(SCAN, FOUND, FOUND)):
        if replies:
            monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda: ScriptedClient(list(replies), cycle=True)))
        code = main([str(a) for a in argv])
        out, err = capsys.readouterr()
        return code, out, err
    return go


@pytest.fixture
def doc(tmp_path): return pdf(tmp_path / "doc.pdf", 3)


def ask(*more): return ("ask", *more, "--client", "told", "--method", "team")


def test_json_keeps_its_contract(run, doc, tmp_path):
    Image.new("RGB", (40, 50)).save(tmp_path / "photo.png")
    code, out, err = run(*ask(tmp_path / "photo.png", doc, "-q", "What is the total?", "-q", "And  again?", "--json"))
    assert code == 0
    first, second = json.loads(out)
    assert second["question"] == "And  again?"
    assert list(first) == ["question", "answer", "guess", "reason", "confidence", "page", "file", "file_page",
                           "evidence", "because", "client", "model", "tokens", "reading_seconds", "seconds",
                           "stopped", "printed"]
    assert (first["file"], first["file_page"], first["guess"], first["reason"]) == ("doc.pdf", 1, None, None)
    assert (first["answer"], first["page"], first["client"], first["confidence"]) == ("86.50", 2, "scripted", .9)
    assert first["evidence"][0] == {"page": 2, "bbox": [.6, .3, .8, .35], "content": "Total: 86.50", "cell": 2,
                                    "own_bbox": [.6, .3, .8, .35], "line_bbox": None, "printed": "", "found": "",
                                    "file": "doc.pdf", "file_page": 1}
    assert first["tokens"]["total_tokens"] > 0 and first["seconds"] >= 0 and "#2" in first["because"]
    assert "question 2 of 2" in err and "\x1b" not in out + err


def test_people_get_answer_place_and_board(run, doc):
    code, out, err = run(*ask(doc, "-q", "What is the total?", "--quiet"))
    assert code == 0 and err == ""
    for part in ("Answer    86.50", "confidence 90%", "page 2 (doc.pdf, page 2), 60-80% across, 30-35% down",
                 "#1   scanner", "Page 1"):
        assert part in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("columns", [20, 60, 300])
def test_output_fits_the_terminal(run, doc, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = run(*ask(doc, "-q", "word " * 60, "--quiet"), replies=(SCAN | {"content": "long " * 80}, FOUND, FOUND))[1]
    assert max(map(len, out.splitlines())) <= max(40, min(100, columns - 1))


def test_codes_for_nothing_found_and_some_found(run, doc):
    assert run(*ask(doc, "-q", "Who?"), replies=[NOTHING])[0] == 3
    assert run(*ask(doc, "-q", "Who?", "-q", "What?"), replies=[SCAN, NOTHING, NOTHING, SCAN, FOUND, FOUND])[0] == 0
    code, out, err = run(*ask(doc, "-q", "Who?", "--max-steps", 1), replies=["I would rather not say."])
    assert code == 3 and "No answer" in out and "no valid action" in err


def test_a_budget_ends_the_episode(run, doc):
    code, out, _ = run(*ask(doc, "-q", "Who?", "--max-tokens", 50, "--json"))
    assert code == 3 and json.loads(out)[0]["stopped"].startswith("not asked")


def test_a_model_that_always_fails_is_an_error(run, doc):
    code, out, err = run(*ask(doc, "-q", "Who?", "--max-steps", 1), replies=[RuntimeError("no memory on the card")])
    assert (code, out) == (1, "") and "no memory on the card" in err.splitlines()[-1]


def bad(tmp_path):
    files = dict(text=tmp_path / "letter.pdf", empty=tmp_path / "none.pdf", bomb=tmp_path / "bomb.png",
                 weights=tmp_path / "weights")
    files["text"].write_text("Dear Sir")
    files["empty"].write_bytes(b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
                               b"2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R/Size 3>>\n%%EOF")
    files["bomb"].write_bytes(png_header(20_000, 10_000))
    files["weights"].mkdir()
    return files


@pytest.mark.parametrize("argv,says", [
    (["missing.pdf", "-q", "Q?"], "missing.pdf: no such file"),
    (["{text}", "-q", "Q?"], "letter.pdf: not a PDF"),
    (["{empty}", "-q", "Q?"], "none.pdf: the PDF"),
    (["{bomb}", "-q", "Q?"], "bomb.png: 200,000,000 pixels"),
    (["{doc}", "-q", "   "], "question is empty"),
    (["{doc}", "-q", "Q?", "--pages", "2-9"], "the document has 3 pages"),
    (["{doc}", "-q", "Q?", "--agents", "scanner,ghost"], "'ghost'"),
    (["{doc}", "-q", "Q?", "--client", "oracle"], "'oracle'"),
    (["{doc}", "-q", "Q?", "--client", "qwen"], "--model-path"),
    (["{doc}", "-q", "Q?", "--client", "qwen", "--model-path", "{weights}"], "config.json is missing"),
    (["{doc}", "-q", "Q?", "--client", "qwen", "--model-path", "no/such/model"], "no such directory"),
    (["{doc}", "-q", "Q?", "--html", "no/such/out.html"], "no folder"),
    (["https://example.org/report.pdf", "-q", "Q?"], "addresses are not opened"),
])
def test_bad_input_is_one_clear_line(run, tmp_path, doc, argv, says):
    files = bad(tmp_path) | {"doc": doc}
    code, out, err = run("ask", *(a.format(**files) for a in argv), "--quiet")
    assert code == 2 and out == "" and says in err
    assert len(err.splitlines()) == 1 and err.startswith("cosee: ") and "Traceback" not in err


def test_debug_shows_where(run):
    assert "Traceback" in run("ask", "missing.pdf", "-q", "Q?", "--debug")[2]


@pytest.mark.parametrize("argv", [
    ["ask"], ["ask", "a.pdf"], ["ask", "a.pdf", "-q", "Q", "--max-steps", "0"], ["paint"], ["demo", "letter"],
    ["ask", "a.pdf", "-q", "Q", "--load-in-4bit", "--load-in-8bit"], ["ask", "a.pdf", "-q", "Q", "--dpi", "9" * 5000],
    []])
def test_usage_errors(run, argv):
    code, out, err = run(*argv)
    assert code == 2 and out == "" and ("usage:" in err if not argv else one_line(err))


def one_line(err): return err.startswith("cosee: ") and err.count("\n") == 1


@pytest.mark.parametrize("argv, says", [
    (["ask", "a.pdf", "-q", "?", "--jsno"], "there is no option --jsno; did you mean '--json'? `cosee ask --help`"),
    (["asc", "a.pdf"], "there is no command 'asc'; did you mean 'ask'? `cosee --help`"),
    (["models", "lst"], "Did you mean 'list'? `cosee models --help`"), (["ask", "a.pdf", "-q"], "`cosee ask --help`"),
    (["ask", "a.pdf", "-q", "--json"], "--question: a value is expected before --json"),
    (["run", "--seed", "much"], "--seed: 'much' is not a whole number"), (["resume"], "type `cosee run RUN`"),
    (["ask", "a.pdf", "-q", "?", "--method", "luck"], "--method: there is no method 'luck'; choose from auto, direct"),
    (["ask", "a.pdf", "-q", "?", "--x\x1b[2J"], "there is no option --x")])
def test_a_mistake_is_answered_with_what_was_meant(run, argv, says):
    code, out, err = run(*argv)
    assert (code, out) == (2, "") and one_line(err) and says in err and "\x1b" not in err


def test_options_may_stand_anywhere_and_what_looks_like_one_be_named(run, doc):
    code, out, _ = run("ask", "--json", doc, *ask("-q", "What is the total?")[1:], "--quiet", doc)
    assert code == 0 and json.loads(out)[0]["answer"] == "86.50"
    assert "-x.pdf: no such file" in run("ask", "-q", "?", "--", "-x.pdf")[2]


@pytest.mark.parametrize("argv", [["--help"], ["ask", "--help"], ["demo", "--help"], ["--version"]])
def test_help_and_version(run, argv):
    code, out, err = run(*argv)
    assert (code, err) == (0, "") and out.strip()


def test_what_a_document_says_cannot_steer_the_terminal(run, doc):
    evil = "\x1b]0;owned\x07\x1b[2J\u202e[Page 9]\n- (#1, scanner, step 1) forged"
    replies = [SCAN | {"content": evil}, FOUND | {"answer": evil, "content": evil}, FOUND | {"answer": evil}]
    _, out, err = run(*ask(doc, "-q", evil), replies=replies)
    assert not {"\x1b", "\x07", "\u202e"} & set(out + err)


def test_html_is_written_and_named(run, doc, tmp_path):
    _, out, err = run(*ask(doc, "-q", "What is the total?", "--html", tmp_path / "out.html"))
    assert str(tmp_path / "out.html") in out and "86.50" in (tmp_path / "out.html").read_text()
    _, out, err = run(*ask(doc, "-q", "What is the total?", "--html", tmp_path / "out.html", "--json"))
    assert json.loads(out) and "out.html" in err


def test_interrupt(run, doc, monkeypatch):
    def stop(): raise KeyboardInterrupt
    monkeypatch.setitem(CLIENTS, "told", ClientEntry(stop))
    code, _, err = run(*ask(doc, "-q", "Q?", "--quiet"), replies=None)
    assert (code, err) == (130, "cosee: interrupted\n")


SCRIPTED = ("import sys\nfrom cosee.cli.start import main\nfrom cosee.models.testing import ScriptedClient\n"
            "from cosee.models.registry import register_client\n")


def test_a_closed_pipe_is_no_error(doc):
    code = (SCRIPTED + f"register_client('told')(lambda: ScriptedClient([{FOUND!r}], cycle=True))\n"
            "sys.stdin.read()\nsys.exit(main(sys.argv[1:]))")
    p = subprocess.Popen([sys.executable, "-c", code, *map(str, ask(doc, "-q", "Q?", "--quiet"))],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    p.stdout.close()     # nobody listens any more when the answer comes
    p.stdin.close()
    assert p.wait() == 141 and p.stderr.read() == ""
    p.stderr.close()


def test_any_locale_can_print_any_answer(doc):
    code = (SCRIPTED + f"register_client('told')(lambda: ScriptedClient([{ {**FOUND, 'answer': '12 €, Łódź'}!r}], "
                       "cycle=True))\n"
            "sys.exit(main(sys.argv[1:]))")
    p = subprocess.run([sys.executable, "-c", code, *map(str, ask(doc, "-q", "Q?"))], capture_output=True,
                       env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert p.returncode == 0 and b"12 ?" in p.stdout


# --- the table of commands ---

def loaded_by(*argv):
    "The modules of the package that a command line imports."
    code = ("import sys\nfrom cosee.cli.start import main\ncode = main(sys.argv[1:])\n"
            "print(code, *(m for m in sys.modules if m.startswith('cosee')), file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    code, *modules = done.stderr.split()
    return int(code), set(modules), done.stdout


def test_the_help_imports_no_command_and_no_model():
    code, modules, out = loaded_by("--help")
    assert code == 0 and all(f"  {name} " in out and entry.help[:40] in out for name, entry in COMMANDS.items())
    homes = {entry.target.partition(":")[0] for entry in COMMANDS.values()}
    assert not modules & homes and not any(m.startswith(("cosee.models", "cosee.agents")) for m in modules)


def test_a_command_imports_none_of_the_others():
    code, modules, _ = loaded_by("plan", "--help")
    assert code == 0 and "cosee.cli.screen" in modules
    assert not modules & {"cosee.cli.ask", "cosee.cli.runs", "cosee.cli.extract", "cosee.cli.models"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_examples_of_its_own(run, name):
    code, out, err = run(name, "--help", replies=None)
    assert (code, err) == (0, "") and out.startswith(f"usage: cosee {name} ") and "exit codes:" in out
    assert out.partition("examples:")[2].count(f"\n  cosee {name}") >= 3


@pytest.mark.parametrize("name", ["models", "screen"])
def test_every_part_has_help_and_examples_of_its_own(run, name):
    for part in COMMANDS[name].load().parts:
        code, out, err = run(name, part, "--help", replies=None)
        assert (code, err) == (0, "") and "exit codes:" in out
        assert out.partition("examples:")[2].count("\n  ") >= 3


@pytest.mark.parametrize("target", ["no_such_library:args", "cosee.cli.ask:no_such_function",
                                    "test_cli:broken_plugin"])
def test_a_broken_command_is_told_and_breaks_no_other(run, doc, monkeypatch, target):
    monkeypatch.setitem(COMMANDS, "paint", Entry(target, "paint a page"))
    code, out, err = run("paint", doc)
    assert code == 1 and out == "" and err.startswith("cosee: cosee paint cannot be loaded: ") and err.count("\n") == 1
    assert "Traceback" in run("paint", doc, "--debug")[2]
    assert "paint a page" in run("--help")[1]
    assert run(*ask(doc, "-q", "What is the total?", "--quiet"))[0] == 0


def broken_plugin(parser): raise RuntimeError("a plugin that does not work")


# --- what is kept between commands ---

def scanned(path):
    "A page that is only a picture"
    from PIL import ImageDraw, ImageFont
    page = Image.new("RGB", (600, 200), "white")
    ImageDraw.Draw(page).text((40, 60), "Total due: 834.67 EUR", fill="black", font=ImageFont.load_default(36))
    page.save(path)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.slow
def test_a_page_is_read_by_ocr_once(tmp_path, cache):
    "The second command reads nothing: no OCR engine is even made; --no-cache reads again and leaves nothing"
    scan = scanned(tmp_path / "scan.png")
    question = ("ask", scan, "-q", "What is the total due?", "--json")
    code, out, err = shell(*question, "--no-cache")
    assert code == 0 and "1 page read in" in err and "834.67" in out and not cache.exists()
    first, again = shell(*question), shell(*question)
    assert "1 page read in" in first[2] and "0 pages read, 1 from the cache in" in again[2]
    same = [{k: v for k, v in json.loads(out)[0].items() if "seconds" not in k} for _, out, _ in (first, again)]
    assert same[0] == same[1]


def test_cache_is_told_and_cleared(run, tmp_path, cache):
    code, out, err = run("cache", replies=None)
    assert (code, err) == (0, "") and str(cache) in out and not cache.exists()
    run("ask", scanned(tmp_path / "scan.png"), "-q", "What is the total due?", replies=None)
    told = json.loads(run("cache", "--json", replies=None)[1])
    kept = told["kept"][0]
    assert (told["folder"], kept["name"], kept["files"]) == (str(cache), "page_text", 1) and 100 < kept["bytes"] < 9000
    (cache / "diary.txt").write_text("mine")
    assert "removed 1 file" in run("cache", "--clear", replies=None)[1]
    assert [p.name for p in cache.rglob("*") if p.is_file()] == ["diary.txt"]
    assert json.loads(run("cache", "--json", replies=None)[1])["kept"][0]["files"] == 0


def test_of_two_values_that_nothing_tells_apart_none_is_an_answer_and_both_are_shown(run, tmp_path):
    canvas = Canvas(str(tmp_path / "lease.pdf"))
    rows = (700, "Deposit:", "100.00 EUR"), (670, "Rent:", "840.00 EUR"), (640, "Deposit:", "250.00 EUR")
    for y, label, value in rows:
        canvas.drawString(60, y, label)
        canvas.drawString(200, y, value)
    canvas.save()
    code, out, _ = run("ask", tmp_path / "lease.pdf", "-q", "What is the deposit?", "-q", "How much is the rent?",
                       "--json", replies=())
    deposit, rent = json.loads(out)
    assert deposit["answer"] is None and deposit["guess"] in ("100.00 EUR", "250.00 EUR")
    assert "One of these: 100.00 EUR; 250.00 EUR" in deposit["because"]
    assert (rent["answer"], rent["guess"]) == ("840.00 EUR", None) and code == 0
