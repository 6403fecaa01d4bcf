"""Every notebook runs from top to bottom, each in a process of its own, so that none leans on another.

`make test` runs the book, the tutorials and the notebooks that are quick and stay; the others are marked slow. The
front page and the tutorials are run as people run them, too: every cell of a fresh copy, in JupyterLab's kernel, with
none of nbdev's flags. With --outputs each notebook has to show what it stores: this holds on machines like the one
that stored it."""
import base64
import io
import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch

import pytest
from outputs import difference
from PIL import Image
from run_notebooks import ROOT, STALE, forked
from sync import notebooks

# A notebook that takes this long hangs: the slowest takes two minutes.
LIMIT = 900
# What `make test` runs: patterns of names in nbs/, and what of them takes too long.
QUICK = ("[0-9]*", "index.ipynb", "core/*", "datasets/*", "document/*", "eval/*", "models/*", "package/*", "screen/*",
         "tools/*", "tutorials/*", "utils/*", "view/*")
SLOW = ("core/00_pages.ipynb", "datasets/03_mpdocvqa.ipynb", "datasets/03_slidevqa.ipynb",
        "models/08_registry.ipynb",
        "screen/02_scenes.ipynb", "screen/03_tasks.ipynb", "screen/06_agent.ipynb", "screen/07_score.ipynb",
        "tools/04_sight.ipynb", "tools/05_agent.ipynb",
        "tutorials/assistants.ipynb", "tutorials/long_report.ipynb", "tutorials/screens.ipynb",
        "tutorials/text_memory_and_tools.ipynb", "tutorials/your_own.ipynb", "view/04_widget.ipynb")


def name(path):
    "The name of a notebook in nbs/."
    return path.relative_to(ROOT / "nbs").as_posix()


def is_slow(path):
    "Does only `make test-all` run this notebook?"
    return name(path) in SLOW or not any(fnmatch(name(path), pattern) for pattern in QUICK)


def run(path):
    "Run the notebook at `path` in a fresh process, and compare what it shows with what it stores."
    return forked(path, LIMIT)


def run_in_jupyter(path):
    "Run every cell of the notebook at `path` in JupyterLab's kernel, which works in the notebook's folder."
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", path]
    env = {name: value for name, value in os.environ.items() if name not in ("IN_TEST", "MPLBACKEND", "COSEE_GGUF")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout[-6000:] + done.stderr[-6000:]


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    "A copy of what git knows of the repository, and of what is new; but not of the package."
    folder = tmp_path_factory.mktemp("clone")
    known = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!cosee"],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for file in filter(None, known.split("\0")):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / file).is_file(): shutil.copyfile(ROOT / file, folder / file)
    return folder


@pytest.mark.parametrize("path", [pytest.param(p, id=name(p), marks=[pytest.mark.slow] if is_slow(p) else [])
                                  for p in notebooks()])
def test_notebook(path, pytestconfig):
    code, output = run(path)
    right = (0,) if pytestconfig.getoption("outputs") else (0, STALE)
    assert code in right, f"{name(path)} failed:\n{output[-12000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("path", [ROOT / "nbs/index.ipynb", *sorted(ROOT.glob("nbs/tutorials/*.ipynb"))], ids=name)
def test_in_jupyter(path, clone):
    code, output = run_in_jupyter(clone / path.relative_to(ROOT))
    assert code == 0, f"{name(path)} failed:\n{output}"


def written(path, source, shown=(), kind="text/plain"):
    "A notebook of one cell, with what it stores."
    outputs = [{"output_type": "execute_result", "metadata": {}, "execution_count": None, "data": {kind: list(shown)}}]
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": None, "source": source,
            "outputs": outputs if shown else []}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_a_failing_cell_fails(tmp_path):
    "The runner itself: one notebook that holds, one that does not."
    assert run(written(tmp_path / "good.ipynb", "assert True is not False"))[0] == 0
    code, said = run(written(tmp_path / "bad.ipynb", "assert 1 == 2, 'planted'"))
    assert code == 1 and "planted" in said


@pytest.mark.slow
def test_a_notebook_that_hangs_is_ended(tmp_path):
    "The runner itself: what it printed is there all the same."
    code, said = forked(written(tmp_path / "hangs.ipynb", "import os, time\nos.write(2, b'here')\ntime.sleep(99)"), 6)
    assert code < 0 and "here" in said


def test_a_notebook_finds_nothing_of_another(tmp_path):
    "The runner itself: names, modules, folders and variables of the environment begin anew."
    leaving = "import os, sys, numpy\nleft = numpy.left = 1\nos.environ['LEFT'] = 'x'\nsys.modules['left'] = sys"
    assert run(written(tmp_path / "a.ipynb", leaving))[0] == 0
    asking = ("import os, sys, numpy\nassert 'left' not in {*globals(), *dir(numpy), *sys.modules}\n"
              "assert 'LEFT' not in os.environ and os.environ['PYTHONHASHSEED'] == '0' and os.path.exists('a.ipynb')")
    assert run(written(tmp_path / "b.ipynb", asking)) == (0, "")


@pytest.mark.slow
def test_run_in_jupyter_passes_over_no_cell(tmp_path):
    "The runner of tutorials: it runs what nbdev would not, in the notebook's folder."
    source = "#| eval: false\n#| weights\nimport pathlib\nassert not pathlib.Path('a.ipynb').exists(), 'planted'"
    code, said = run_in_jupyter(written(tmp_path / "a.ipynb", source))
    assert code == 1 and "planted" in said


def test_a_stale_output_is_found(tmp_path):
    "The runner itself: a notebook that stores what it showed once, and one that says that it varies."
    code, said = run(written(tmp_path / "stale.ipynb", "['a', 6 * 7]", ["['a', 41]"]))
    assert code == STALE and "- ['a', 41]" in said and "+ ['a', 42]" in said
    assert run(written(tmp_path / "fresh.ipynb", "['a', 6 * 7]", ["['a', 42]"]))[0] == 0
    assert run(written(tmp_path / "other.ipynb", "#| varies\nobject()", ["<object>"]))[0] == 0


def cell(text, source="f()", kind="text/plain"):
    "A cell that shows `text`."
    output = {"output_type": "execute_result", "data": {kind: text}}
    return {"cell_type": "code", "source": source, "outputs": [output]}


def picture(colour, size=(40, 30)):
    "A picture of one colour, encoded."
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


EQUAL = [("<A at 0x7f12ab34cd>", "<A at 0x55aa00ff>"), ("in 0.31 s", "in 12 s"), ("seconds=5.9e-05", "seconds=0.2"),
         ("/tmp/tmpa1/run", "/tmp/tmpb2/run"), ("in tmpcvccbk1h", "in tmpagtu5uhy"), ("0.731", "0.734"),
         ("at 2026-11-23T08:00:01Z", "at 2026-11-24 09:00"), (["a\n", "b"], "a\nb"),
         (f'<img src="data:image/png;base64,{picture("white")}">',
          f'<img src="data:image/png;base64,{picture("#fefefe")}">')]
DIFFERENT = [("41", "42"), ("0.73", "0.85"), ("12 notes", "13 notes"), ("a\nb", "a"), ("", "a"),
             ("INV-0x1", "INV-0x2"), ("page 3", "page 3.0"),
             (f'<img src="data:image/png;base64,{picture("white")}">',
              f'<img src="data:image/png;base64,{picture("black")}">'),
             (f'<img src="data:image/png;base64,{picture("white")}">',
              f'<img src="data:image/png;base64,{picture("white", (30, 40))}">')]


@pytest.mark.parametrize("old, new", EQUAL)
def test_what_differs_by_nature_is_not_stale(old, new):
    assert difference(cell(old), cell(new)) == []


@pytest.mark.parametrize("old, new", DIFFERENT)
def test_what_says_something_else_is_stale(old, new):
    assert difference(cell(old), cell(new)) and difference(cell(new), cell(old))


def test_pictures_are_compared_by_how_they_look():
    shown = [cell(picture(colour), kind="image/png") for colour in ("white", "#fefefe", "black")]
    assert difference(shown[0], shown[1]) == []
    assert difference(shown[0], shown[2]) == ["picture 1 looks different"]


def test_what_is_printed_in_pieces_is_one():
    whole, *pieces = [{"output_type": "stream", "name": "stdout", "text": text} for text in ("ab", "a", "b")]
    whole, pieces = [{"cell_type": "code", "source": "f()", "outputs": outputs} for outputs in ([whole], pieces)]
    assert difference(whole, pieces) == []
