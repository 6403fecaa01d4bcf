"""Style sheets, scripts and templates are files: complete, installed, whole in the pages, and nowhere in Python
strings."""

import base64
import fnmatch
import hashlib
import html as html_lib
import json
import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from cosee.board import Board
from cosee.view.html import (AUTHOR_COLOURS, ELEMENTS, Html, WORDS, asset, csp_hash, el, episode_policy,
                             episode_script, episode_style, inline_script, inline_style, quote_asset)
from cosee.view.episode import episode_html
from cosee.runs.viewer_pages import viewer_page, viewer_policy, viewer_script, viewer_style

ROOT = Path(__file__).resolve().parent.parent
ASSETS = sorted(p for p in (ROOT / "cosee").rglob("assets/*"))
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no Node on this machine")


# --- the files ---

def test_every_file_is_installed():
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    patterns = config["DEFAULT"]["package_data"].split()
    names = [p.relative_to(ROOT / "cosee").as_posix() for p in ASSETS]
    assert len(names) >= 12 and [n for n in names if not any(fnmatch.fnmatch(n, p) for p in patterns)] == []
    assert all(asset(n) == (ROOT / "cosee" / n).read_text(encoding="utf-8") for n in names)


def test_lines_can_be_read():
    "No minified line; one palette"
    assert [
        (p.name, n)
        for p in ASSETS
        for n, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 119
    ] == []
    sheets = {p.name: p.read_text(encoding="utf-8") for p in ASSETS if p.suffix == ".css"}
    assert [name for name, text in sheets.items() if re.search(r"--(bg|card|ink|soft|line|accent): ", text)] == [
        "theme.css"
    ]


def test_authors_have_one_colour_everywhere():
    assert re.findall(r"\.a\d \{\s*--c: (#\w+);", episode_style()) == list(AUTHOR_COLOURS)


def test_sections_are_quoted_without_their_title():
    part = quote_asset("runs/assets/viewer_logic.mjs", "Sorting")
    assert "export function sortedBy" in part and "-- " not in part and "export function mean" not in part
    assert part._repr_markdown_().startswith("```js\n")
    with pytest.raises(KeyError, match="Nothing"): quote_asset("view/assets/episode.css", "Nothing")
    with pytest.raises(FileNotFoundError): asset("view/assets/nothing.css")


# --- the pages that carry them ---

def sources(policy, kind): return re.search(rf"{kind}-src ('sha256-[^']+')", policy)[1]


@pytest.mark.parametrize("style, script, policy", [
    (episode_style(), episode_script(), episode_policy()),
    (episode_style(), episode_script(live=True), episode_policy(live=True)),
    (viewer_style(), viewer_script(), viewer_policy())], ids=["episode", "live", "viewer"])
def test_policies_name_the_bytes(style, script, policy):
    sha = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert sources(policy, "script") == csp_hash(script) == f"'sha256-{sha}'" and sources(policy, "style") == csp_hash(
        style
    )
    assert "</" not in style and "</script" not in script.lower() and "<!--" not in script


def test_the_viewer_holds_exactly_what_its_policy_names():
    page = viewer_page(dict(title="</script>{{script}}"))
    policy = html_lib.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    style, script = (
        re.search("<style>(.*?)</style>", page, re.S)[1],
        re.search("<script>(.*?)</script>", page, re.S)[1],
    )
    assert (policy, style, script) == (viewer_policy(), viewer_style(), viewer_script())
    assert json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1]) == {"title": "</script>{{script}}"}


def test_one_file_of_several_modules():
    script = inline_script(WORDS, ELEMENTS, "runs/assets/viewer_logic.mjs", "runs/assets/viewer.js")
    assert not re.search(r"^(import|export)\b", script, re.M) and script.count("'use strict'") == 1
    assert inline_style("runs/assets/report.css").index("--bg: #f4f5f7") == inline_style().index("--bg: #f4f5f7")


@needs_node
@pytest.mark.parametrize("script", [episode_script(), episode_script(live=True), viewer_script()],
                         ids=["episode", "live", "viewer"])
def test_one_script_has_no_name_twice(script, tmp_path):
    path = tmp_path / "page.js"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run([NODE, "--check", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_node
def test_the_logic_of_the_viewer():
    "tests/js, run by Node"
    files = sorted((ROOT / "tests/js").glob("*.test.mjs"))
    done = subprocess.run([NODE, "--test", *files], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert files and done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.search(r"^\S* ?pass (\d+)$", done.stdout, re.M)[1]) >= 15 and re.search(
        r"^\S* ?fail 0$", done.stdout, re.M
    )


# --- elements ---

def test_elements_escape_whatever_comes():
    assert el("p", "<b>", Html("<i></i>"), None, False, 0, ["a", ("b", [None])]) == "<p>&lt;b&gt;<i></i>0ab</p>"
    assert el("a", title="\"'<>&", hidden=True, off=False, none=None, data_c=3, cls="x") == (
        '<a title="&quot;&#x27;&lt;&gt;&amp;" hidden data-c="3" class="x"></a>')
    assert (
        el("input", value="\u202e\x00") == '<input value="\ufffd">'
        and el("meta", charset="utf-8") == '<meta charset="utf-8">'
    )
    assert el("a", href=Html('"x')) == '<a href="&quot;x"></a>'
    assert "<script" not in episode_html(dict(question="<script>", answer="<script>", board=Board())).replace(
        "<script>(()", "", 1
    )
