"The site: what a page says of a name."
import ast
import io
import itertools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import docs
import episode_picture
import pytest
from site_fields import Renderer
from stages import Stages

from cosee.agents import team
from cosee.text.linearization import WrittenPage
from cosee.models.backends import Backend, Config, PlannerConfig
from cosee.models.client import NoRoom
from cosee.planner.state import PlanControlFlags, PlannerOutput
from cosee.runs.config import BudgetConfig, ClientConfig, DataConfig, RunConfig
from cosee.screen.config import ScreenConfig


def shown(name):
    "The code block under the name."
    return Renderer(name)._repr_markdown_().split("```")[1]


@pytest.mark.slow
def test_classes_of_fields_show_their_fields():
    assert "class WrittenPage(NamedTuple):\n    text: str\n    lines: list[Line]   # what" in shown(WrittenPage)
    assert shown(NoRoom).strip() == "python\nclass NoRoom(ValueError)"
    assert "    methods: list[Union[str, dict[str, Any]]] = Field(" in shown(RunConfig)
    assert "def team(" in shown(team)


MODELS = [ClientConfig, DataConfig, BudgetConfig, RunConfig, ScreenConfig, Backend, Config, PlannerConfig,
          PlannerOutput, PlanControlFlags]


@pytest.mark.parametrize("model", MODELS)
def test_fields_of_models_have_types_defaults_and_meanings(model):
    "Each field of what people write in a file, or read in a plan, says what it is for."
    lines = shown(model).splitlines()
    for name, field in model.model_fields.items():
        if name not in vars(model)["__annotations__"]: continue   # of the class below it
        first = next(n for n, line in enumerate(lines) if line.startswith(f"    {name}: "))
        told = lines[first] + "".join(itertools.takewhile(lambda line: line.startswith("     "), lines[first + 1:]))
        assert " # " in told or "description=" in told, f"{name} has no meaning"
        assert field.is_required() or "=" in told, f"{name} has no default"


def test_a_page_knows_the_classes_that_stand_further_down():
    cells = [dict(cell_type="code", source="#| default_exp pages"),
             dict(cell_type="code", source="#| export\nclass Page:\n    document: Pages"),
             dict(cell_type="code", source="#| export\nclass Pages(list): pass")]
    hidden, = docs.classes_known(cells)
    imported, = ast.parse(hidden["source"]).body
    assert (imported.module, [a.name for a in imported.names]) == ("cosee.pages", ["Page", "Pages"])
    assert docs.classes_known(cells[:1]) == docs.classes_known(cells[1:]) == []


# --- nothing from the network ---

PLANTED = {
    "style.css": "@import url(https://fonts.example/css2?family=A:wght@300;700&display=swap);\nbody {color: red}\n"
                 "a {background: url('//pictures.example/a.png')} b {background: url(b.png)}",
    "page.html": "<link rel=stylesheet href=style.css><script src=https://scripts.example/a.js></script>"
                 "<img src=//pictures.example/a.png><a href=https://example.org>a link is followed, not loaded</a>",
}


@pytest.fixture
def planted(tmp_path):
    for name, text in PLANTED.items(): (tmp_path / name).write_text(text)
    return tmp_path


def test_what_is_loaded_from_the_network_is_found(planted):
    places = [fault.split(":")[0] for fault in docs.network_faults(planted)]
    assert places == ["page.html", "page.html", "style.css", "style.css"]


def test_style_sheets_are_left_with_what_is_there(planted):
    docs.offline(planted)
    left = (planted / "style.css").read_text()
    assert "example" not in left and "body {color: red}" in left and "b {background: url(b.png)}" in left
    assert "700" not in left   # nothing of an address is left behind


def test_no_page_needs_scripts_for_formulas():
    "A formula in dollars would load KaTeX from the network: it is written in letters."
    for path in (docs.ROOT / "nbs").rglob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown": assert "$$" not in "".join(cell["source"]), path


# --- the page of changes ---

def test_the_changes_are_a_page():
    text = ("# Changes\n\nNewest first.\n\n## 2\n\n- [a](nbs/tutorials/a.ipynb) [b](ARCHITECTURE.md)\n\n"
            "## 1\n\n- c\n")
    title, told, rest = [cell["source"] for cell in docs.changelog(text)["cells"]]
    assert title.startswith("# Changes\n\n> ") and told == "Newest first."
    assert rest == "## 2\n\n- [a](tutorials/a.ipynb) [b](explain/architecture.ipynb)\n\n## 1\n\n- c\n"


def test_a_link_to_the_changes_leads_to_their_page():
    names = {"../CHANGELOG.md": "changelog.ipynb", "a/b.ipynb": "a/b.ipynb"}
    here = docs.relink("[x](../../CHANGELOG.md) [y](b.ipynb)", Path("a/c.ipynb"), names, {}, "https://home")
    assert here == "[x](../changelog.ipynb) [y](b.ipynb)"


# --- progress ---

def test_stages_are_told_with_what_is_left():
    out, done = io.StringIO(), iter(range(1, 100))
    stages = Stages(2, every=.02, out=out)
    with stages.stage("render 50 pages", 50, lambda: next(done)): time.sleep(.15)
    with stages.stage("check every link"): pass
    first, *between, last = out.getvalue().splitlines()
    assert (first, last) == ("1 of 2  render 50 pages", "2 of 2  check every link")
    assert between and all(" of 50, about " in line and line.endswith(" left") for line in between)


SCRIPT = """
import subprocess, sys
sys.path[:0] = ["tools", "."]
from stages import hushed
with hushed():
    print("ours"); subprocess.run([sys.executable, "-c", "print('of a child')"])
    if sys.argv[1:]: raise ValueError("it failed")
print("afterwards")
"""


@pytest.mark.parametrize("fails", [[], ["fails"]])
def test_children_are_silent_unless_they_fail(fails):
    run = subprocess.run([sys.executable, "-c", SCRIPT, *fails], capture_output=True, text=True, cwd=docs.ROOT,
                         env={**os.environ, "PYTHONPATH": ""})
    assert run.stdout == ("" if fails else "afterwards\n")
    assert ("ours" in run.stderr, "of a child" in run.stderr, "it failed" in run.stderr) == 3 * (bool(fails),)


# --- the picture of an episode ---

def test_the_picture_on_the_front_page_is_that_of_an_episode():
    "Played again, it says the same; only the bytes of the pages may differ from one version of Pillow to the next."
    def words(svg): return re.sub(r'href="data:[^"]*"', "", svg)
    kept = episode_picture.PICTURE.read_text(encoding="utf-8")
    assert words(kept) == words(episode_picture.drawn(*episode_picture.played()))
    assert "@media (prefers-reduced-motion: no-preference) {\n    .step { animation:" in kept
    assert len(kept) < 300_000 and "prefers-color-scheme: dark" in kept and kept.count('class="step"') == 4
    index = (docs.ROOT / "nbs/index.ipynb").read_text(encoding="utf-8")
    assert re.search(r"!\[[^]]{80,}\]\(images/episode\.svg\)", index)
