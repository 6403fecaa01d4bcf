"""A walk through the first hour as a stranger takes it: papers, questions and a method of one's own, a run that is
interrupted and goes on by the command that was told, its report, its answers in a browser; and the mistakes that
people make on the way. Whatever is said has to be understood by somebody who knows nothing of the code.

With COSEE_WALK=1 also JupyterLab, in both of its themes, with the widget and the Board's filters."""
import json
import os
import re
import shlex
import signal
import time
import urllib.request

import pytest
from chromium import CHROMIUM, Browser
from lab import IDLE, RUN_ALL, Lab, cell_ready
from screenshots import LIVE, notebook
from test_first_hour import project, start

pytestmark = pytest.mark.slow

HOUSE = re.compile(r"Traceback|\b[A-Z]\w*(?:Error|Exception|Interrupt|Warning)\b|NoneType|object at 0x|<class |"
                   r"\bNone\b")


def understood(text):
    "The text, if it says nothing that only a programmer knows"
    assert not HOUSE.search(text), text
    return text


def walk(folder, *argv, code=0):
    "What a command said: standard output, standard error"
    process = start(folder, *argv)
    out, err = map(understood, process.communicate(timeout=300))
    assert process.returncode == code, (process.returncode, out, err)
    return out, err


@pytest.fixture
def mine(tmp_path): return project(tmp_path / "mine", seconds=.4)


def interrupted(folder, *argv):
    "What a run says that is interrupted after its first answer"
    process, records = start(folder, *argv), folder / "runs/mine/records.jsonl"
    while process.poll() is None and not (records.exists() and b"\n" in records.read_bytes()): time.sleep(.02)
    process.send_signal(signal.SIGINT)
    err = understood(process.communicate(timeout=60)[1])
    assert process.returncode == 130
    return err


def test_from_ones_own_papers_to_the_report(mine):
    out, _ = walk(mine, "ask", "a.pdf", "-q", "What is the number?", "--client", "ocr", "--html", "seen.html")
    assert "seven" in out and "Pages, boxes and Board: seen.html" in out and (mine / "seen.html").exists()
    err = interrupted(mine, "run", "run.yaml", "--in-flight", "1")
    told = re.search(r"to go on: cosee (run .+)", err)
    assert told, err
    out, err = walk(mine, *shlex.split(told[1]))   # as it stands there
    assert "3 of 3 answers" in out and "are there already" in err
    assert "3 of 3 answers" in walk(mine, "report", "runs/mine", "--format", "status")[0]
    assert "first_word" in walk(mine, "report", "runs/mine", "--allow-plugins", "--format", "text")[0]
    report = mine / walk(mine, "report", "runs/mine", "--allow-plugins")[0].strip().splitlines()[-1]
    assert "2 of 3 questions are scored" in report.read_text(encoding="utf-8")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome on this machine")
def test_the_answers_of_a_run_in_a_browser(mine, tmp_path):
    walk(mine, "run", "run.yaml", "--set", "methods=[first_word]")
    process, browser = start(mine, "view", "runs/mine", "--no-browser", "--port", "0"), None
    try:
        url = next(m[0] for line in process.stdout if (m := re.search(r"http://\S+", line)))
        with urllib.request.urlopen(url, timeout=10) as page: assert page.status == 200
        browser = Browser(tmp_path / "profile")
        browser.open(url)
        browser.wait("document.querySelectorAll('#rows tbody tr').length === 3")
        shown = browser.js("document.body.innerText")
        assert "What is number 0?" in understood(shown) and "seven" in shown
        assert not browser.seen("Runtime.exceptionThrown")
    finally:
        if browser: browser.close()
        process.send_signal(signal.SIGINT)
        for said in process.communicate(timeout=30): understood(said)
    assert process.returncode in (0, 130)


MISTAKES = [
    (["ask", "run.yaml", "-q", "What?"], "PDF"),
    (["ask", "a.pdf"], "--question"),
    (["ask", "a.pdf", "-q", "What?", "--client", "text"], "--model-path"),
    (["run", "other.yaml"], "other.yaml"),
    (["run", "questions.csv"], "questions.csv"),
    (["run", "run.yaml", "--method", "second_word"], "first_word"),
    (["run", "run.yaml", "--set", "limits=3"], "limit"),
    (["run", "runs/none"], "runs/none"),
    (["run", "."], "cosee run"),
    (["resume", "runs/mine"], "cosee run RUN"),
    (["status", "runs/mine"], "cosee report RUN --format status"),
    (["report", "runs/none"], "runs/none"),
    (["view", "runs/none"], "runs/none"),
    (["report"], "RUN"),
    (["models", "fetch", "qwen9"], "qwen3"),
    (["fetch", "qwen3-4b"], "models"),
    (["runn", "run.yaml"], "run"),
]


@pytest.mark.parametrize("argv, names", MISTAKES, ids=[" ".join(argv) for argv, _ in MISTAKES])
def test_a_mistake_is_told_with_what_to_do(mine, monkeypatch, capsys, argv, names):
    from cosee.cli.start import main
    monkeypatch.chdir(mine)
    assert main(argv) == 2
    out, err = capsys.readouterr()
    last = understood(out + err).strip().splitlines()[-1]
    assert names in last and last.startswith("cosee")


@pytest.mark.skipif(CHROMIUM is None or not os.environ.get("COSEE_WALK"), reason="COSEE_WALK=1 walks on to JupyterLab")
@pytest.mark.parametrize("dark", [False, True])
def test_the_widget_and_the_board_follow_jupyterlab(tmp_path, dark):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    notebook(folder / "live.ipynb", LIVE)
    browser = Browser(tmp_path / "profile")
    try:
        with Lab(folder, tmp_path / "home", dark) as lab:
            browser.open(lab.url("live.ipynb"), height=1600)
            cell_ready(browser)
            browser.js(RUN_ALL + ".then(() => 1)")
            browser.wait(IDLE + " && !!document.querySelector('.cosee-board td')", 180)
            outputs = json.loads(browser.js("JSON.stringify([...document.querySelectorAll('.jp-RenderedText[data-mime-"
                                            "type*=error]')].map(e => e.innerText))"))
            colours = browser.js("['color', 'colorScheme'].map(k => getComputedStyle(document.querySelector("
                                 "k == 'color' ? '.cosee-board td' : 'iframe'))[k])")
        light = sum(map(int, re.findall(r"\d+", colours[0])[:3])) / 3
        assert not outputs and (light > 160) == dark and colours[1] == ("dark" if dark else "light")
    finally: browser.close()
