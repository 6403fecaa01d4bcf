"""What `cosee.view.episode` makes of odd and hostile episodes; how it looks and behaves is tested in a browser
(test_browser.py)."""

import html as html_lib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from PIL import Image

from cosee.board import Board
from cosee.controller import CoSeeController, replay
from cosee.agents import DummyAgent
from cosee.view.drawing import annotate
from cosee.view.episode import board_html, episode_html, episodes_html, write_html
from test_browser import EVIL

HOSTILE = [text for text in EVIL if len(text) < 500] + ["{{7*7}}${7*7}", "\x00\x1b[31mred", "\ud800", "<!-- "]


class Tags(HTMLParser):
    "Collects elements with their attributes, and the text outside script and style"
    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.skip = [], [], 0
        self.feed(text)
    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.skip += tag in ("script", "style")

    def handle_endtag(self, tag): self.skip -= tag in ("script", "style")
    def handle_data(self, data):
        if not self.skip: self.text.append(data)


def episode(board, text="", **kw):
    return dict(
        question=text, answer=text, because=text, confidence=0.5, page=1, board=board, evidence=[], stopped=text, **kw
    )


def board_of(texts):
    b = Board()
    for i, t in enumerate(texts):
        b.add_cell(
            {"page": 1 + i % 2, "bbox": (0.1, 0.1, 0.4, 0.2), "description": t},
            t,
            [t, "ok"],
            t or "someone",
            1,
            [i] if i else None,
        )
    return b


def check(page):
    "One script and one style, ours; no handler, no style attribute, no address but anchors and our own pictures"
    found = Tags(page)
    names = [t for t, _ in found.tags]
    assert names.count("script") == names.count("style") == 1
    assert not {
        "img",
        "iframe",
        "object",
        "embed",
        "link",
        "base",
        "form",
        "audio",
        "video",
        "foreignobject",
        "animate",
    } & set(names)
    for tag, attrs in found.tags:
        assert not [
            a
            for a in attrs
            if a.startswith("on") or a in ("style", "src", "action", "formaction", "srcdoc", "xlink:href")
        ]
        target = attrs.get("href")
        assert (
            target is None
            or target.startswith("#")
            or (tag == "image" and target.startswith("data:image/webp;base64,"))
        )
        assert tag != "meta" or attrs.get("http-equiv") in (None, "Content-Security-Policy")
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    pages = [Image.new("RGB", (60, 80)), Image.new("RGB", (60, 80))]
    pages[0].info = dict(source=text, page=1)
    trace = dict(
        question=text,
        events=[
            dict(
                step=1,
                agent=text,
                calls=[dict(prompt=[text], text=text, usage={})],
                action={"action": text},
                error=text,
            )
        ],
        config=dict(agents=[dict(client=text)]),
    )
    e = episode(
        board_of([text, text]),
        text,
        trace=trace,
        hypotheses=[dict(answer=text, author=text, cell=1), dict(answer="other")],
    )
    found = check(episodes_html([e, e], pages, title=text))
    shown = "".join(found.text)
    assert "\x1b" not in shown and "\x00" not in shown and "\u202e" not in shown
    if text.isprintable(): assert text in shown


def test_megabytes_are_cut():
    page = episode_html(episode(board_of(["x" * 2_000_000] * 3), "y" * 2_000_000))
    assert len(page) < 120_000 and "2,000,000 characters" in page


def test_board_table_is_escaped():
    out = board_html(board_of(HOSTILE))
    assert "<script" not in out and "<img" not in out and "<svg" not in out
    assert board_html(Board()) == "<p>An empty Board</p>"


def test_odd_boxes_and_pages():
    b = Board()
    b.add_cell({"page": 900}, "far away")
    b.add_cell({"page": 1, "bbox": (10, 20, 300, 400)}, "pixels of a page of unknown size")
    b.add_cell({"page": 1, "bbox": (0, 0, 1, 1)}, "everything")
    for _ in range(30): b.add_cell({"page": 1, "bbox": (0, 0, .001, .001)}, "a corner")
    page = episode_html(
        {"answer": "x", "board": b, "page": 900, "evidence": [dict(page=5000, bbox=(0, 0, 1, 1), cell=77, content="")]}
    )
    assert "far away" in page and "Pages 2–899 · no notes" in page
    assert annotate(Image.new("RGB", (200, 100)), b.get_cells_by_page(1)).size == (200, 100)
    assert annotate(Image.new("RGB", (1, 1)), b.list_cells()).size == (1, 1)


def test_run_trace_and_json_look_the_same():
    script = [dict(action="HYPOTHESIZE", content="in the table", answer="86.50", confidence=.9, supporting_cells=[],
                   view=dict(page=1, bbox=(.2, .2, .4, .3)))]
    pages = [Image.new("RGB", (400, 600), "white")]
    live = CoSeeController([DummyAgent(script=script)]).run(pages, "What is the total?")
    again = replay(json.loads(json.dumps(live["trace"])))
    assert re.sub(r"\d+\.\d s", "", episode_html(live, pages)) == re.sub(r"\d+\.\d s", "", episode_html(again, pages))
    assert "What is the total?" in episode_html(again)


def test_twenty_pages_stay_within_their_bytes():
    noise = Image.effect_noise((420, 594), 60).convert("RGB")   # nothing compresses worse
    text = episodes_html([episode(Board())], [noise] * 20, max_bytes=600_000)
    assert len(text) < 650_000 and text.count('id="page') == 20


def test_policy_names_exactly_what_is_there():
    import base64, hashlib
    page = episode_html(episode(Board()))
    policy = html_lib.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    for tag in ("style", "script"):
        body = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S)[1]
        assert f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy and "http" not in policy and policy.startswith("default-src 'none'")


def test_files_are_replaced_whole(tmp_path):
    path = tmp_path / "out.html"
    path.write_text("old")
    assert write_html(path, episode(Board(), "new")) == path and "new" in path.read_text()
    with pytest.raises(OSError): write_html(tmp_path / "no" / "out.html", episode(Board()))
    assert [p.name for p in tmp_path.iterdir()] == ["out.html"]


def test_import_is_light():
    code = ("import sys, cosee.view.episode, cosee.pages, cosee.cli.entry; print([m for m in ('torch', 'PIL', "
            "'numpy', 'pandas', 'pypdfium2') if m in sys.modules])")
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
