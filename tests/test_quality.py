"""Measured image quality, the notes that a team gets from it, and the graph from request to answer."""
import json
import math
import random
import runpy
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from cosee.agents import team
from cosee.controller import CoSeeController
from cosee.datasets.synthetic.document import make_document, render, scan
from cosee.planner.graph import cosee_graph, memory, planner_graph, serializer
from cosee.models.testing import ScriptedClient
from cosee.models.remote import ServerError
from cosee.planner.quality import (ImageQuality, MEASURES, image_quality, quality_findings, quality_text)
from cosee.models.backends import Backend
from cosee.planner.document_plan import DocumentPlan, follow_plan, quality_plan
from cosee.planner.state import PlannerOutput
from cosee.pages import PageError
from conftest import ROOT
from PIL import Image

FLAGS = {"distortion_detection": True, "distortion_analysis": True, "tool_selection": False, "tool_execution": True}
PLAN = {"query_type": "Other", "query_scope": "Global", "distortion_source": "Inferred", "distortions": None,
        "reference_mode": "No-Reference", "required_tool": None, "plan": FLAGS}
FOUND = {"action": "HYPOTHESIZE", "view": {"page": 1, "bbox_2d": [0, 0, 9, 9]}, "content": "At the bottom.",
         "answer": "A. Lovelace",
         "supporting_cells": [], "confidence": 0.95}
@pytest.fixture(scope="module")
def clean():
    return render(make_document("letter", seed=5), dpi=100, pages=[1])[0]


@pytest.fixture(scope="module")
def blurred(clean):
    return scan(clean, random.Random(1), blur=2)


# --- measures ---

@pytest.mark.slow
def test_the_benchmark_on_three_pages():
    "benchmarks/image_quality.py runs the same on 25 pages, 500 cases."
    result = runpy.run_path(str(ROOT / "benchmarks/image_quality.py"))["run"](3, seed=1)
    assert result["cases"] == 60 and result["named"] >= 0.95, result["wrong"]
    assert set(result["in_order"].values()) == {"3/3"} and not result["false_alarms"]


def test_the_stored_result_is_of_500_cases():
    stored = json.loads((ROOT / "benchmarks/results/image_quality.json").read_text())
    assert stored["cases"] == 500 and stored["named"] >= 0.95 and stored["style"] == "held_out"


@pytest.mark.parametrize("make", [lambda: Image.new("RGB", (64, 64), "white"), lambda: Image.new("L", (500, 20)),
                                  lambda: Image.effect_noise((300, 300), 60), lambda: Image.new("RGBA", (17, 17))])
def test_any_picture_gives_numbers(make):
    measures = image_quality(make())
    assert set(measures) == set(MEASURES)
    assert all(v is None or math.isfinite(v) for v in measures.values())
    assert all(0 < f["severity"] <= 1 for f in quality_findings(measures)) and quality_text(quality_findings(measures))


def test_what_cannot_be_measured_is_refused(clean):
    with pytest.raises(ValueError, match="too small"):
        image_quality(Image.new("RGB", (15, 400)))
    with pytest.raises(ValueError, match="there is no measure 'beauty'; choose from sharpness"):
        image_quality(clean, which=("beauty",))
    with pytest.raises(ValueError, match="differ in size"):
        image_quality(clean, Image.new("RGB", (40, 40)))


# --- notes for the team ---

@pytest.mark.parametrize("order", ["sequential", "parallel"])
def test_the_team_knows_which_page_is_impaired(clean, blurred, order):
    model = ScriptedClient([json.dumps({**FOUND, "view": {"page": 2, "bbox_2d": [0, 0, 9, 9]}})] * 2)
    controller = CoSeeController(team(model, ["detail_reader"]), max_steps=1, order=order)
    episode = follow_plan(controller, [clean, blurred], "Who signed?", quality_plan())
    note = episode["board"].list_cells()[1]
    assert ((note["view"]["page"], note["author"], note["tags"][0]) == (2, "quality_2", "quality")
            and "blur" in note["content"])
    assert "page 2 is hard to read: blur" in episode["because"] and not episode["quality"][0]["findings"]
    assert episode["trace"]["invalid"] == 0 and episode["usage"]["calls"] == 1
    assert "impaired by blur" in json.dumps(model.calls[0]["messages"], default=str)
    assert len(controller.agents) == 1


def test_of_good_pages_nothing_is_told(clean):
    def lead():
        return CoSeeController(team(ScriptedClient([json.dumps(FOUND)]), ["detail_reader"]), max_steps=1)
    plain, measured = lead().run([clean], "Who signed?"), follow_plan(lead(), [clean], "Who signed?", quality_plan())
    assert [c["author"] for c in measured["board"].list_cells()] == ["planner", "detail_reader"]
    assert plain["evidence"][0]["bbox"] == measured["evidence"][0]["bbox"]
    assert "hard to read" not in measured["because"]


def test_a_team_with_tools_may_ask_for_the_quality_of_a_page(clean, blurred):
    wanted = {**PLAN, "pages": [1], "question": "", "tools": ["zoom"]}
    asked = {"tool": "image_quality", "args": {"page": 2}}
    model = ScriptedClient([json.dumps(r) for r in (wanted, asked, FOUND)])
    controller = CoSeeController(team(model, ["detail_reader"]), max_steps=1)
    episode = follow_plan(controller, [clean, blurred], "Who signed?")
    used = episode["trace"]["events"][-1]["action"]["tools"][0]
    assert (used["tool"], used["page"]) == ("image_quality", 2) and "impaired by blur" in used["result"]
    with pytest.raises(ValueError, match="from 1 to 2"):
        ImageQuality([clean, blurred]).execute(page=3)


def test_notes_are_written_once_and_threads_do_not_mix(clean, blurred):
    model = ScriptedClient([json.dumps({**FOUND, "confidence": 0.2})], cycle=True)
    controller, boards = CoSeeController(team(model, ["detail_reader"]), max_steps=2), {}

    def ask(n, im): boards[n] = follow_plan(controller, [im], "Who?", quality_plan(), which=("sharpness",))["board"]
    threads = [threading.Thread(target=ask, args=(n, im)) for n, im in enumerate([clean, blurred] * 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [sum(c["author"] == "quality_1" for c in boards[n].list_cells()) for n in range(4)] == [0, 1, 0, 1]


class LongDocument(Sequence):
    "400 pages that are drawn when they are looked at; page 5 is dark, page 9 cannot be drawn"
    def __init__(self, pages=400): self.size, self.sizes, self.drawn = pages, [(124, 175)] * pages, []
    def __len__(self): return self.size

    def __getitem__(self, i):
        if not 0 <= i < self.size: raise IndexError(i)
        self.drawn.append(i + 1)
        if i == 8: raise PageError("page 9: it cannot be drawn")
        page = Image.new("L", (124, 175), 30 if i == 4 else 255)
        page.paste(0, (20, 40, 100, 60))
        return page


def test_of_a_long_document_only_the_pages_that_matter_are_measured():
    document, at = LongDocument(), {"view": {"page": 7, "bbox_2d": [0, 0, 9, 9]}}
    controller = CoSeeController(team(ScriptedClient([json.dumps({**FOUND, **at})]), ["detail_reader"]), max_steps=1,
                                 page_selection=dict(type="oracle", pages=[5, 9, 300]))
    episode = follow_plan(controller, document, "Who signed?", quality_plan(), which=("brightness",))
    assert set(document.drawn) == {5, 7, 9, 300} and len(document.drawn) <= 8
    assert [q["page"] for q in episode["quality"]] == [5, 7, 9, 300]
    notes = [c for c in episode["board"].list_cells() if "quality" in c["tags"]]
    assert [c["view"]["page"] for c in notes] == [5] and "darkness" in notes[0]["content"]


def test_an_answer_on_a_page_that_was_not_shown_first_is_measured_too():
    model = ScriptedClient([json.dumps({**FOUND, "view": {"page": 5}})])
    controller = CoSeeController(team(model, ["detail_reader"]), max_steps=1,
                                 page_selection=dict(type="oracle", pages=[300]))
    episode = follow_plan(controller, LongDocument(), "Who signed?", quality_plan(), which=("brightness",))
    assert episode["page"] == 5 and "page 5 is hard to read: darkness" in episode["because"]


# --- the graph ---

@pytest.fixture
def folder(tmp_path, blurred):
    blurred.save(tmp_path / "page.png")
    return tmp_path


def graph(planner, readers, folder, checkpointer=None, **kwargs):
    return cosee_graph(ScriptedClient([json.dumps(r) if isinstance(r, dict) else r for r in readers]), planner,
                       checkpointer, root=folder, agents=["detail_reader"], max_steps=1, cache=None, **kwargs)


def test_a_plan_that_fails_is_tried_again_and_then_told(folder):
    planner = ScriptedClient([ServerError("down"), json.dumps(PLAN)])
    assert (graph(planner, [FOUND], folder).invoke({"query": "Who?", "image_path": "page.png"})["answer"]
            == "A. Lovelace")
    out = graph(ScriptedClient([ServerError("down")] * 2), [],
                folder).invoke({"query": "Who?", "image_path": "page.png"})
    assert "down" in out["error"] and "answer" not in out


@pytest.mark.parametrize("stop", ["team", "planner"])
def test_an_interrupted_graph_goes_on_in_another(folder, stop):
    saver, thread = memory(), {"configurable": {"thread_id": "t"}}
    broken = [KeyboardInterrupt()]
    first = graph(ScriptedClient(broken if stop == "planner" else [json.dumps(PLAN)]), broken, folder, saver)
    with pytest.raises(KeyboardInterrupt):
        first.invoke({"query": "Who signed?", "image_path": "page.png"}, thread)
    planner = ScriptedClient([json.dumps(PLAN)] if stop == "planner" else [])
    second = graph(planner, [FOUND], folder, saver)
    assert second.get_state(thread).next == (stop,)
    assert second.invoke(None, thread)["answer"] == "A. Lovelace" and len(planner.calls) == (stop == "planner")


def test_a_checkpoint_is_small_and_holds_no_pixels(folder):
    saver, thread = memory(), {"configurable": {"thread_id": "t"}}
    out = graph(ScriptedClient([json.dumps(PLAN)]), [FOUND], folder,
                saver).invoke({"query": "Who?", "image_path": "page.png"}, thread)
    kind, data = serializer().dumps_typed(out)
    assert len(data) < 4000 and serializer().loads_typed((kind, data))["plan"] == out["plan"]
    assert (len(serializer().dumps_typed({k: out[k] for k in ("query", "image_path", "plan", "error", "attempts")})[1])
            < 1024)


@pytest.mark.parametrize("strict", [False, True])
def test_a_checkpointer_of_langgraph_reads_our_types_and_no_others(folder, request, strict):
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    events = []   # what LangGraph warns of, each time
    request.addfinalizer(register_serde_event_listener(events.append))
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None)) if strict else InMemorySaver()
    before = saver.serde
    for n, (kind, pages) in enumerate([(PlannerOutput, {}), (DocumentPlan, {"pages": [1]})]):
        made, thread = kind.model_validate({**PLAN, **pages}), {"configurable": {"thread_id": str(n)}}
        kept = planner_graph(ScriptedClient([json.dumps(PLAN)]), saver, root=folder, cache=None)
        kept.invoke({"query": "Who?", "image_path": "page.png"}, thread)
        kept.update_state(thread, {"plan": made})
        again = planner_graph(ScriptedClient([]), saver, root=folder).get_state(thread).values["plan"]
        assert type(again) is kind and again == made
    assert not events and saver.serde is before   # nobody is warned, and other graphs keep their way
    kept.update_state(thread, {"quality": {"owner": Backend(kind="openai", model="m")}})
    assert not isinstance(kept.get_state(thread).values["quality"]["owner"], Backend)
    assert {(event["kind"], event["name"]) for event in events} == {("msgpack_blocked", "Backend")}


def test_without_langgraph_the_error_says_which_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "langgraph.graph", None)
    with pytest.raises(ImportError, match=r"\[planner\]"):
        planner_graph(ScriptedClient([]))


def test_pixels_of_any_type_are_read():
    assert image_quality(Image.fromarray(np.zeros((40, 40), np.uint8)))["brightness"] == 0
