"""The first hour at the shell: what somebody sees who asks, interrupts, goes on, and brings files of their own."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from cosee.eval.registry import SCORERS
from cosee.models.testing import ScriptedClient
from cosee.models.registry import CLIENTS, ClientEntry

SHELL = "import sys; from cosee.cli.start import main; sys.exit(main())"
PROMPT = 15   # seconds for what takes one where nothing else runs, and a minute or more where it is not heard


def listens(): signal.signal(signal.SIGINT, signal.SIG_DFL)   # a shell's background jobs would not


def start(folder, *argv, code=SHELL):
    "The command as a process, in a folder"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH") or os.getcwd()]),
           "COSEE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, argv)], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, preexec_fn=listens, cwd=folder, env=env)


def written(path, pages):
    "A PDF whose pages hold lines of text"
    from reportlab.pdfgen import canvas
    drawn = canvas.Canvas(str(path), pagesize=(595, 842), invariant=1)
    for lines in pages:
        drawn.setFont("Helvetica", 14)
        for i, line in enumerate(lines): drawn.drawString(72, 760 - 28 * i, line)
        drawn.showPage()
    drawn.save()
    return path


def told(monkeypatch, **action):
    "A client that says one thing"
    said = {"action": "HYPOTHESIZE", "content": "It says so", "confidence": .95, "view": {"page": 1}, **action}
    monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda: ScriptedClient([said], cycle=True)))
    return "--client", "told", "--method", "team"


# --- asking ---

def test_a_chosen_page_is_called_by_its_number_in_the_file_too(run, tmp_path, monkeypatch):
    doc = written(tmp_path / "report.pdf", [[f"This is page {n}"] for n in range(1, 10)])
    client = told(monkeypatch, answer="9", content="This is page 9", view={"page": 3, "bbox_2d": [0, 0, 500, 500]})
    code, out, err = run("ask", doc, "-q", "Which one?", "--pages", "1,6,9", *client, "--html", tmp_path / "a.html")
    name = "page 3 (report.pdf, page 9)"
    assert code == 0 and f"Where     {name}" in out and f"Because   {name}: " in out and f"  P{name[1:]}\n" in out
    assert f"the last one is {name}" in err and name in (tmp_path / "a.html").read_text()
    found = json.loads(run("ask", doc, "-q", "Which one?", "--pages", "1,6,9", *client, "--json")[1])[0]
    assert (found["page"], found["file"], found["file_page"]) == (3, "report.pdf", 9)
    assert found["because"].startswith(f"{name}: ")
    whole = json.loads(run("ask", doc, "-q", "Which one?", *client, "--json")[1])[0]
    assert whole["because"].startswith("page 3: This is page 9")


def test_no_answer_is_null_with_a_reason(run, tmp_path, monkeypatch):
    doc = written(tmp_path / "a.pdf", [["Nothing here"]])
    client = told(monkeypatch, answer="not answerable", content="No page names an auditor.")
    code, out, _ = run("ask", doc, "-q", "Who?", *client, "--json")
    found = json.loads(out)[0]
    assert code == 3 and found["answer"] is None and found["guess"] is None and not found["evidence"]
    assert found["reason"] == "No page names an auditor."
    assert "Reason    No page names an auditor." in run("ask", doc, "-q", "Who?", *client)[1]


def test_a_doubtful_answer_is_a_guess(run, tmp_path, monkeypatch):
    doc = written(tmp_path / "a.pdf", [["Nothing here"]])
    client = told(monkeypatch, answer="42", confidence=.4)
    code, out, _ = run("ask", doc, "-q", "Who?", *client, "--json", "--sure", ".5")
    found = json.loads(out)[0]
    assert code == 3 and (found["answer"], found["guess"], found["confidence"]) == (None, "42", .4)
    assert "40% is below 50%" in found["reason"]
    assert "Withheld; the guess is: 42" in run("ask", doc, "-q", "Who?", *client, "--sure", ".5")[1]
    assert json.loads(run("ask", doc, "-q", "Who?", *client, "--json")[1])[0]["answer"] == "42"   # no measure for it
    code, _, err = run("ask", doc, "-q", "Who?", "--sure", "60")
    assert code == 2 and "'60' is not a number from 0 to 1" in err


def statements(folder):
    months = dict(january="1 January 2024", february="1 February 2024", march="1 March 2024")
    return [written(folder / f"s{i}.pdf", [[f"Statement of {day}", f"Payment received: {100 + i}.00 EUR"]])
            for i, day in enumerate(months.values(), 1)]


@pytest.mark.parametrize("question, answer, file", [
    ("What is the payment received in February?", "102.00 EUR", "s2.pdf"),
    ("What is the payment received in s3?", "103.00 EUR", "s3.pdf")])
def test_a_month_or_a_name_decides_between_files(run, tmp_path, monkeypatch, question, answer, file):
    monkeypatch.setenv("COSEE_CACHE", "off")
    _, out, err = run("ask", *statements(tmp_path), "-q", question, "--json", "--sure", "0")
    found = json.loads(out)[0]
    assert (found["answer"], found["file"], found["files"]) == (answer, file, [file])
    assert found["file_page"] == 1 and f"the question names {file}" in err


def scan(path, lines):
    im = Image.new("RGB", (1240, 1754), "white")
    for i, line in enumerate(lines):
        ImageDraw.Draw(im).text((120, 120 + 36 * i), line, fill="black", font=ImageFont.load_default(28))
    im.save(path)
    return path


def test_ctrl_c_ends_reading_within_a_second_and_what_was_read_is_kept(tmp_path):
    pages = [scan(tmp_path / f"{n}.png", [f"Line {i} of page {n}: {i * n} EUR" for i in range(12)]) for n in range(6)]
    process = start(tmp_path, "ask", *pages, "-q", "What is the total?")
    said = [process.stderr.readline(), process.stderr.readline()]
    assert said[1] == "reading 6 pages ...\n"   # no terminal, and yet it says what it does
    def kept(): return any(path.is_file() for path in (tmp_path / "cache").rglob("*"))
    while not kept() and process.poll() is None: time.sleep(.05)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - begin < 5 and process.returncode == 130   # a second, where nothing else runs
    assert "cosee: interrupted; " in err and "read by OCR and kept: the same command goes on" in err
    assert "Traceback" not in err and not out


LOADING = "import sys; from cosee.cli.start import main; print('here', file=sys.stderr, flush=True); sys.exit(main())"


@pytest.mark.parametrize("after", [0, .02, .05, .1, .2, .3])
def test_ctrl_c_while_a_command_is_loaded_is_one_line(tmp_path, after):
    process = start(tmp_path, "ask", "a.pdf", "-q", "What is the total?", code=LOADING)
    assert process.stderr.readline() == "here\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    ended = process.returncode == 2 and "no such file" in err   # it was quicker
    assert ended or process.returncode == 130 and err.startswith("cosee: interrupted")
    assert err.count("\n") == 1 and not out


SLOW = """
import sys, time
from cosee.cli.start import main
from cosee.models.testing import ScriptedClient
from cosee.models.registry import register_client
class Slow(ScriptedClient):
    def send(self, *args, **kw):
        if self.calls_made: time.sleep(60)
        self.calls_made = True
        return super().send(*args, **kw)
    calls_made = False
SAID = {'action': 'HYPOTHESIZE', 'answer': 'seven', 'content': 'It says seven', 'confidence': .95, 'view': {'page': 1}}
register_client('slow')(lambda: Slow([SAID], cycle=True))
sys.exit(main())
"""


def test_ctrl_c_prints_the_answers_that_there_are(tmp_path):
    doc = written(tmp_path / "a.pdf", [["Seven"]])
    process = start(tmp_path, "ask", doc, "-q", "First?", "-q", "Second?", "--client", "slow", "--agents", "scanner",
                    "--json", code=SLOW)
    while "question 2 of 2" not in (line := process.stderr.readline()) and line: pass
    time.sleep(.3)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - begin < PROMPT and process.returncode == 130
    assert [r["answer"] for r in json.loads(out)] == ["seven"] and "1 of 2 questions answered" in err


# --- runs ---

OWN_METHODS = """
import time
from cosee.policies import register_method

@register_method('first_word')
def first_word(task, seconds=0.):
    "Whatever the question, the answer is seven."
    time.sleep(seconds)
    return task.outcome("seven")
"""


def project(folder, **settings):
    "A small project of somebody's own: documents, questions, a method and a configuration"
    folder.mkdir()
    written(folder / "a.pdf", [["The number is seven", "The word is eight"]])
    (folder / "questions.csv").write_text("file,question,answer\n" + "".join(
        f"a.pdf,What is number {n}?,{answer}\n" for n, answer in enumerate(("seven", "not answerable", ""))))
    (folder / "methods.py").write_text(OWN_METHODS)
    config = dict(name="mine", dataset=dict(name="folder", root="questions.csv"), plugins=["methods"],
                  methods=[dict(type="first_word", **settings)])
    (folder / "run.yaml").write_text(json.dumps(config))
    return folder


def test_a_bare_run_says_what_it_would_do(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("run")
    assert code == 2 and "100 questions" in err and "cosee run --demo" in err and "questions.csv" in err
    assert not list(tmp_path.iterdir())


def test_paths_and_plugins_lie_beside_the_file_and_a_run_goes_on_anywhere(run, tmp_path, monkeypatch):
    mine, other = project(tmp_path / "mine"), tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    code, out, err = run("run", mine / "run.yaml", "--limit", "1", "--output-dir", tmp_path / "run")
    assert code == 0 and "1 questions of folder x 1 method = 1 answers, with ocr" in err
    monkeypatch.chdir(mine)
    code, out, err = run("run", tmp_path / "run", "--allow-plugins")
    assert code == 0 and "1 are there already" in err and "1 of 1 answers" in out
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["config"]["plugins"] == [str(mine / "methods.py")] and about["questions"] == 1


def test_what_is_not_scored_is_told(run, tmp_path, monkeypatch):
    mine = project(tmp_path / "mine")
    assert run("run", mine / "run.yaml", "--output-dir", tmp_path / "run")[0] == 0
    _, out, _ = run("report", tmp_path / "run", "--format", "text")
    assert "2 of 3" in out and "2 of 3 questions are scored" in out and "1 of the scored questions cannot" in out
    report = run("report", tmp_path / "run")[1].strip()
    with open(report, encoding="utf-8") as f: assert "2 of 3 questions are scored" in f.read()


def test_ctrl_c_prints_the_command_that_goes_on(tmp_path):
    mine = project(tmp_path / "mine", seconds=60.)
    (mine / "run.yaml").write_text((mine / "run.yaml").read_text().replace(
        '"methods": [', '"methods": [{"type": "first_word", "name": "quick", "seconds": 0.0}, '))
    process = start(tmp_path, "run", mine / "run.yaml", "--output-dir", "here", "--in-flight", "2")
    first = process.stderr.readline()
    assert first == "here: 3 questions of folder x 2 methods = 6 answers, with ocr\n"
    while process.poll() is None and not (records := tmp_path / "here/records.jsonl").exists(): time.sleep(.05)
    while process.poll() is None and records.read_bytes().count(b"\n") < 1: time.sleep(.05)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begin < PROMPT and process.returncode == 130
    assert " answers are kept; to go on: cosee run here --allow-plugins --in-flight 2\n" in err
    status = start(tmp_path, "report", "here", "--format", "status").communicate(timeout=60)[0]
    assert " of 6 answers; about " in status and "`cosee run here` goes on" in status


def test_reading_is_not_charged_to_the_first_method(tmp_path):
    from cosee.experiments import run_experiment
    from cosee.models.testing import ScriptedClient

    class Reader:
        seconds = 0.
        def read(self, pages):
            self.seconds += 100   # on its own clock

    class Client(ScriptedClient):
        words = Reader()
        def send(self, *args, **kw):
            if not self.words.seconds: self.words.read([])
            return super().send(*args, **kw)
    config = dict(dataset=dict(limit=1, options=dict(pages=1)), methods=["direct", dict(type="direct", name="again")])
    status = run_experiment(config, tmp_path / "run", Client(["seven"], cycle=True)).status()
    assert [(s["reading"], s["seconds"] < 50) for s in status.values()] == [(100, True), (0, True)]


# --- a project of one's own ---

OWN = Path(__file__).resolve().parent.parent / "examples" / "own"


def test_the_project_that_users_copy_runs_and_is_reported(run, tmp_path, monkeypatch):
    mine = Path(shutil.copytree(OWN, tmp_path / "copied", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.chdir(tmp_path)
    code, out, err = run("run", mine / "run.yaml")
    assert code == 0 and "16 of 16 answers" in out and "reads no duties" in err
    code, out, _ = run("report", "runs/own", "--allow-plugins", "--json", "--metric", "amount")
    methods = json.loads(out)["methods"]   # what a team leaves unsaid is not right, also where there is no answer
    lost = {m: round(100 - row["score"] - 100 * row["silent"] / row["questions"], 6) for m, row in methods.items()}
    assert lost == dict.fromkeys(("direct", "short_answer", "tax_team", "auditors"), 0.)
    assert run("report", "runs/own", "--allow-plugins")[0] == 0
    monkeypatch.delitem(SCORERS, "amount")   # as in another process
    code, _, err = run("report", "runs/own")
    assert code == 2 and "own.py, which --allow-plugins imports" in err
    assert run("report", "runs/own", "--format", "status")[0] == 0
    for name in [m for m in sys.modules if m == "plugin_own"]: del sys.modules[name]
    code, out, _ = run("run", mine / "run.yaml", "--client", "largest_amount", "--method", "direct",
                       "--output-dir", "la")
    assert code == 0 and "4 of 4 answers" in out
    code, out, _ = run("ask", mine / "invoice.pdf", "-q", "How much is the subtotal?", "--agents", mine / "team.yaml")
    assert code == 0 and "36,871.72 USD" in out and "auditor" in out


@pytest.mark.parametrize("roles, says", [
    ([{"name": "x"}], "needs a name and a duty"), ([{"name": "x", "duty": ""}], "in words"),
    ([{"name": "x", "duty": "d", "prompt": "p"}], "needs a name and a duty"), ({"agents": []}, "expected a list"),
    ([{"name": "x", "duty": "d", "actions": ["SING"]}], "there is no action 'SING'"),
    ([{"name": "x", "duty": "d"}, {"name": "x", "duty": "e"}], "two agents are called 'x'"),
    (["painter"], "there is no agent 'painter'"), ([3], "needs a name and a duty")])
def test_a_faulty_team_is_one_line(run, tmp_path, roles, says):
    (tmp_path / "team.yaml").write_text(json.dumps(roles))
    doc = written(tmp_path / "a.pdf", [["Seven"]])
    code, _, err = run("ask", doc, "-q", "?", "--agents", tmp_path / "team.yaml")
    assert code == 2 and says in err and err.count("\n") == 1


def test_a_prompt_of_ones_own_is_taken_word_for_word():
    from cosee.policies import build_team
    whole, = build_team(None, [{"name": "x", "prompt": "Look. {actions} That is all.", "actions": ["INSPECT"]}])
    assert whole.role_prompt.startswith("Look. ") and whole.role_prompt.endswith(" That is all.")
    assert "INSPECT" in whole.role_prompt and "material to judge" not in whole.role_prompt
