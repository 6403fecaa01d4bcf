"`cosee.view.widget` apart from its front end, which is tested in a browser (test_browser.py)."
import subprocess
import sys
import threading
from functools import partial
from types import SimpleNamespace

import pytest
from PIL import Image

from cosee.agents import DummyAgent, team
from cosee.controller import CoSeeController, replay
from cosee.episode import proposals_of
from cosee.models.reader_client import OcrClient
from cosee.text.ocr import TextExtractor
from cosee.text.page_text import PageText
from cosee.view.widget import EpisodeWidget, Following, LiveEpisode, follow

PAGES = [Image.new("RGB", (300, 400), "white")]


def look(text, **more): return dict(action="INSPECT", content=text, view=dict(page=1, bbox=(.1, .1, .5, .2)), **more)


class Gate(DummyAgent):
    "An agent that tells when it is asked, and waits until it may go on"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.asked, self.go = threading.Event(), threading.Event()

    def act(self, *args, **kwargs):
        self.asked.set()
        assert self.go.wait(30)
        return super().act(*args, **kwargs)


def test_events_lead_to_the_board_of_the_controller():
    script = [
        look("a table"),
        dict(
            action="HYPOTHESIZE",
            content="from it",
            answer="7",
            confidence=0.5,
            supporting_cells=[1],
            view=dict(page=1),
        ),
        dict(action="REVISE", content="no, 8", answer="8", target_cell_id=2),
        dict(action="LINK", content="see", target_cell_id=99),
    ]
    live = LiveEpisode("What?")
    episode = CoSeeController(
        [DummyAgent(script=script)], max_steps=4, stop_confidence=1.1, agreement=9, error_cells=True
    ).run(PAGES, "What?", on_event=live)
    assert live.board == episode["board"] and live.proposals == proposals_of(episode)
    assert live.episode()["answer"] == episode["answer"] and "error" in live.board.get_cell(4)["tags"]


def test_the_kernel_is_free_while_an_episode_is_followed():
    agent = Gate(name="scanner", script=[look("one"), look("two")])
    watched = follow(CoSeeController([agent], max_steps=2), PAGES, "What?")
    assert agent.asked.wait(30) and "scanner is looking, step 1" in watched.widget.section
    with pytest.raises(TimeoutError, match="still runs: scanner is looking"): watched.result(timeout=0)
    agent.go.set()
    assert len(watched.result(30)["board"]) == 2 and "is looking" not in watched.widget.section


@pytest.fixture
def slow_reader(monkeypatch):
    "Reading that takes five seconds for each page, on a clock of its own, one page after the other"
    now = [0.]
    def read(self, item, way, skim=False):
        now[0] += 5
        return PageText(size=[300, 400], skew=0., lines=[], source="text", turned=0)
    monkeypatch.setattr("cosee.view.widget.time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(TextExtractor, "_extract_page", read)
    monkeypatch.setattr(TextExtractor, "_open_pool", lambda self: SimpleNamespace(map=map))


def told_of(pages):
    "What a widget says while an episode over page text is followed, and what the front end was given"
    said, sent = [], []
    controller = CoSeeController(team(OcrClient(words=TextExtractor(cache=None))), max_steps=1,
                                 page_selection="auto")
    class Watched(Following):
        def __call__(self, kind, event):
            super().__call__(kind, event)
            said.append(self.live.episode().get("status"))
            sent.append(self.widget.section)
    Watched("What?", pages).start(partial(controller.run, pages, "What?")).result(30)
    return said, sent


def test_how_far_reading_is_stands_there_before_the_first_turn(slow_reader):
    said, sent = told_of(PAGES * 4)
    first = "scanner is looking, step 1"
    assert said[:6] == [first, f"{first} · reading 4 pages", f"{first} · 1 of 4 pages read, about 15 s left",
                        f"{first} · 2 of 4 pages read, about 10 s left",
                        f"{first} · 3 of 4 pages read, about 5 s left", first]
    assert "2 of 4 pages read, about 10 s left" in sent[3] and not any("pages read" in (s or "") for s in said[6:])


def test_an_index_that_reads_a_long_document_says_so(slow_reader):
    said, _ = told_of([Image.new("RGB", (300, 400), (255, 255, n)) for n in range(14)])
    reading = [s.rpartition("pages read")[0].rpartition(" · ")[2] for s in said if "pages read" in (s or "")]
    assert said[0].endswith("reading 14 pages") and reading[:3] == ["4 of 14 ", "8 of 14 ", "12 of 14 "]


def test_stop_ends_before_the_next_turn():
    agent = Gate(name="scanner", script=[look("one"), look("two")])
    watched = follow(CoSeeController([agent], max_steps=2), PAGES, "What?")
    assert agent.asked.wait(30)
    watched.stop()
    agent.go.set()
    episode = watched.result(30)
    assert len(episode["board"]) == 1 and episode["stopped"] == "budget: ended by hand"


def test_shown_without_a_kernel_and_from_a_trace():
    episode = CoSeeController([DummyAgent(script=[look("<script>alert(1)</script>")])], max_steps=1).run(
        PAGES, "<b>What?</b>"
    )
    widget = EpisodeWidget({**replay(episode["trace"]), "page": 1}, PAGES)
    bundle = widget._repr_mimebundle_()
    assert (
        "application/vnd.jupyter.widget-view+json" in bundle
        and "&lt;script&gt;" in bundle["text/html"]
        and "<script" not in bundle["text/html"]
    )
    assert bundle["text/html"].count("<img") == 1 and "<b>What" not in widget.widget.page


def test_import_is_light():
    code = ("import sys, cosee.view.widget; print([m for m in ('anywidget', 'ipywidgets', 'torch', 'PIL', 'numpy') if "
            "m in sys.modules])")
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
