"""A plan stands before the Board: what it says decides the pages, the tools and the measures, and nothing that goes
wrong with it keeps a question from being answered."""
import json
from types import SimpleNamespace

import pytest
from PIL import Image, ImageFilter
from cosee.cli.start import main
from cosee.datasets.synthetic.document import samples_dir
from cosee.policies import Method
from cosee.models.client import message_blocks
from cosee.models.usage import Ledger
from cosee.models.testing import ScriptedClient
from cosee.models.registry import CLIENTS, ClientEntry
from cosee.models.remote import AuthenticationError
from cosee.planner.document_plan import (DocumentPlan, find_named_pages, plan_document, read_request,
                                          settle_document_plan)
from cosee.planner.graph import cosee_graph, memory
from cosee.planner.quality import MEASURES, quality_node, scope_box, wanted_measures
from cosee.controller import CoSeeController
from cosee.planner.document_plan import follow_plan
from cosee.planner.nodes.planner import plan, planner_node
from cosee.planner.state import PlannerOutput
from cosee.agents import team

OFF = dict.fromkeys(["distortion_detection", "distortion_analysis", "tool_selection", "tool_execution"], False)
PLAN = {"query_type": "Other", "query_scope": "Global", "distortion_source": "Inferred", "distortions": None,
        "reference_mode": "No-Reference", "required_tool": None, "plan": OFF}
FOUND = {"action": "HYPOTHESIZE", "view": {"page": 3, "bbox_2d": [0, 0, 90, 90]}, "content": "Signed at the bottom.",
         "answer": "A. Lovelace", "supporting_cells": [], "confidence": 0.95}
PAGES = [Image.new("RGB", (200, 280), "white")] * 3
REPORT = samples_dir() / "report.pdf"


def made(**changes):
    return PlannerOutput.model_validate({**PLAN, **changes})


def texts(call):
    return "\n".join(message_blocks(call["messages"], "text"))


# --- from the shell ---

@pytest.fixture
def shell(monkeypatch, capsys):
    "Runs `cosee ask --plan --json`: code, the first result, standard error, the model"
    def go(*argv, replies=()):
        model = ScriptedClient([json.dumps(r) if isinstance(r, dict) else r for r in replies])
        monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda: model))
        code = main(["ask", *map(str, argv), "--plan", "--json"])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, result=json.loads(out)[0], err=err, model=model)
    return go


@pytest.mark.slow
@pytest.mark.parametrize("question, pages, quality", [
    ("What is the headcount on page 3?", [3], []), ("Is page 2 too blurred to be read?", [2], [2]),
    ("Who approved the report?", [], [])])
def test_the_default_reader_follows_what_a_question_says(shell, question, pages, quality):
    out = shell(REPORT, "-q", question)
    assert out.result["plan"]["plan"]["pages"] == pages and out.result["plan"]["by"] == "the request itself"
    assert [q["page"] for q in out.result["quality"]] == quality
    assert {e["page"] for e in out.result["evidence"]} <= {*(pages or range(1, 6))}
    assert not pages or f"shown page {pages[0]}" in out.err


def test_a_model_plans_and_its_team_reads_the_plan(shell):
    wanted = {**PLAN, "pages": [3], "question": "Who signed the report?", "tools": ["zoom"],
              "plan": {**OFF, "distortion_analysis": True}, "distortions": {"Global": ["Noise"]},
              "distortion_source": "Explicit"}
    zoom = {"tool": "zoom", "args": {"page": 3, "bbox": [0, 0, 500, 500]}}
    out = shell(REPORT, "-q", "Who signed?", "--client", "told", "--agents", "detail_reader",
                replies=[wanted, zoom, FOUND])
    assert out.code == 0 and out.result["answer"] == "A. Lovelace" and out.result["plan"]["by"] == "scripted"
    first, turn, looked = map(texts, out.model.calls)
    assert '"pages": the numbers' in first and "Plan of the team" not in first
    assert "Plan of the team; read page 3" in turn and 'find out "Who signed the report?"' in turn
    assert "zoom: look at a region" in turn and "find_page:" not in turn and "zoom" in looked
    measured = out.result["quality"][0]
    assert list(measured) == ["page", "findings", "file", "file_page"]
    assert measured["page"] == measured["file_page"] == 3
    assert out.result["tokens"]["calls"] == 3


def test_a_model_that_cannot_plan_keeps_nobody_from_answering(shell):
    out = shell(REPORT, "-q", "Who signed page 3?", "--client", "told", "--agents", "detail_reader",
                replies=["I would begin at the end.", "No.", FOUND])
    assert out.code == 0 and out.result["answer"] == "A. Lovelace"
    assert out.result["plan"]["plan"]["pages"] == [3] and "no JSON object" in out.result["plan"]["error"]
    assert "no plan by the model" in out.err


@pytest.mark.slow
def test_the_tiny_model_answers_with_a_plan_of_the_question(shell):
    out = shell(samples_dir() / "small.pdf", "-q", "What is the total on page 1?", "--client", "tiny", "--agents",
                "detail_reader", "--max-steps", "1")
    assert out.result["plan"]["plan"]["pages"] in ([], [1]) and out.result["client"] == "tiny"


# --- in a run ---

def test_the_method_plans_within_its_budget():
    wanted = {**PLAN, "pages": [3], "question": "", "tools": []}
    asked = dict(images=PAGES, question="Who signed?")
    model = ScriptedClient([json.dumps(wanted), json.dumps(FOUND)])
    out = Method("cosee_plan", agents=["detail_reader"]).run(asked, model)
    assert out["answer"] == "A. Lovelace" and out["shown"] == [3] and out["trace"]["plan"]["by"] == "scripted"
    assert [e["agent"] for e in out["trace"]["ledger"]["entries"]] == ["planner", "detail_reader"]
    assert out["usage"]["calls"] == 2 and json.dumps(out)
    model = ScriptedClient([json.dumps(FOUND)])
    out = Method("cosee_plan", agents=["detail_reader"]).run(asked, model, Ledger(1100))
    assert out["answer"] == "A. Lovelace" and "BudgetExceeded" in out["trace"]["plan"]["error"]
    assert out["usage"]["total_tokens"] <= 1100


def test_planning_is_booked_even_where_it_fails():
    ledger = Ledger()
    out = plan_document("Who signed?", PAGES, ScriptedClient(["no", "no"]), ledger=ledger)
    assert out.error and ledger.total.calls == 2 and ledger.by("agent")["planner"].calls == 2


@pytest.mark.parametrize("error", [MemoryError("full"), ConnectionError("gone"), RuntimeError("CUDA out of memory"),
                                   AuthenticationError("refused"), KeyError("x")])
def test_whatever_fails_in_planning_the_team_is_asked(error):
    model = ScriptedClient([error, json.dumps(FOUND)])
    episode = follow_plan(CoSeeController(team(model, ["detail_reader"]), 1), PAGES, "Who signed?")
    assert episode["answer"] == "A. Lovelace" and type(error).__name__ in episode["plan"]["error"]


def test_tools_and_measures_that_were_asked_for_stay():
    model = ScriptedClient([json.dumps({**PLAN, "pages": [], "tools": []}), json.dumps(FOUND)])
    controller = CoSeeController(team(model, ["detail_reader"]), 1)
    episode = follow_plan(controller, PAGES, "Who signed?", which=("sharpness",))
    assert [q["page"] for q in episode["quality"]] == [1, 2, 3] and controller.page_selection == "all"


@pytest.mark.parametrize("question, pages", [
    ("What is on page 3?", [3]), ("Compare slides 2 and 4", [2, 4]), ("pages 2-4, please", [2, 3, 4]),
    ("Who signed the last page?", [9]), ("the second slide", [2]), ("How many pages are there?", []),
    ("Who is on page 30?", []), ("In 2019, what was paid?", []), ("p. 7 shows what?", [7])])
def test_pages_that_a_question_names(question, pages):
    assert find_named_pages(question, 9) == pages


@pytest.mark.parametrize("question, about", [
    ("Is the scan legible?", True), ("How sharp is Sharp Corporation's profit?", False),
    ("SSIM to the original?", True),
    ("Is the stamp out of focus?", True), ("What is the noise limit in dB?", False),
    ("What does the machine-readable zone say?", False)])
def test_whether_a_question_is_about_quality(question, about):
    assert (read_request(question, 3).query_type == "IQA") is about
    assert bool(wanted_measures(read_request(question, 3))) is about


@pytest.mark.parametrize("written, read", [
    (dict(pages="3-4"), [3, 4]), (dict(pages=["page 2", 3, None, True]), [2, 3]), (dict(pages=None), []),
    (dict(pages=[0, -1, 99]), []), (dict(pages=[1, 2, 3, 4, 5]), []), (dict(tools=["zoom", "laser"]), [])])
def test_what_a_model_writes_for_pages(written, read):
    found = settle_document_plan(DocumentPlan.model_validate({**PLAN, **written}), "Who?", 5)
    assert found.pages == read and "laser" not in found.tools


# --- what a plan wants measured ---

ON = dict.fromkeys(OFF, True)
BLUR = {"distortion_source": "Explicit", "distortions": {"Global": ["Blurs"]}}
RUN = {"plan": {**OFF, "tool_execution": True}}
FULL = {"reference_mode": "Full-Reference"}


@pytest.mark.parametrize("changes, which", [
    ({}, ()), ({"plan": {**OFF, "tool_selection": True}}, ()), ({"plan": ON}, tuple(MEASURES)),
    ({**BLUR, **RUN}, ("sharpness",)), ({**BLUR, **RUN, "required_tool": "contrast"}, ("contrast",)),
    ({**BLUR, "required_tool": "contrast", "plan": {**OFF, "tool_execution": True, "tool_selection": True}},
     ("sharpness", "contrast")),
    ({**BLUR, **RUN, **FULL}, ("sharpness", "psnr", "ssim")),
    ({**BLUR, **RUN, **FULL, "required_tool": "SSIM"}, ("ssim",)),
    ({**BLUR, **RUN, **FULL, "required_tool": ["the PSNR metric", "SSIM"]}, ("psnr", "ssim")),
    ({**BLUR, **RUN, "required_tool": "SSIM"}, ("sharpness",)),
    ({**BLUR, **RUN, "required_tool": "MS-SSIM"}, ("sharpness",))])
def test_a_plan_says_what_is_measured(changes, which):
    assert wanted_measures(made(**changes)) == which


def test_what_is_required_and_not_there_is_told(tmp_path):
    PAGES[0].save(tmp_path / "p.png")
    asked = made(**BLUR, **RUN, required_tool="BRISQUE, SSIM")
    state = {"query": "?", "image_path": str(tmp_path / "p.png"), "plan": asked}
    found = quality_node(state)["quality"]
    assert found["missing"] == ["BRISQUE", "ssim"] and list(found["measures"]) == ["sharpness"]


def test_the_scope_says_where(tmp_path):
    page = Image.effect_noise((400, 400), 90).convert("RGB")
    page.paste(page.crop((0, 0, 400, 200)).filter(ImageFilter.GaussianBlur(4)), (0, 0))
    page.save(tmp_path / "p.png")
    sharpness = {}
    for scope in ("the upper half", "the lower half", "the stamp"):
        asked = made(**BLUR, **RUN, query_scope=[scope])
        found = quality_node({"query": "?", "image_path": str(tmp_path / "p.png"), "plan": asked})["quality"]
        sharpness[scope] = found["measures"]["sharpness"], found.get("bbox")
    assert sharpness["the upper half"][0] < sharpness["the lower half"][0]
    assert [box for _, box in sharpness.values()] == [[0, 0, 1, .5], [0, .5, 1, 1], None]
    assert scope_box(made(query_scope=["top left", "bottom left"])) == (0, 0, .5, 1)
    assert scope_box(made(query_scope=["top left", "the seal"])) is None


# --- the words of the paper, the reference, the fallback ---

class Broken(ScriptedClient):
    "Fails as a whole, as local models do"
    def __init__(self, error):
        super().__init__([])
        self.error = error

    def send_many(self, batch): raise self.error


@pytest.mark.parametrize("error", [MemoryError("full"), ConnectionError("gone"), RuntimeError("CUDA out of memory"),
                                   OSError("no such device"), AuthenticationError("refused")])
@pytest.mark.parametrize("kind", [Broken, lambda error: ScriptedClient([error] * 3)])
def test_the_fallback_stands_in_for_any_failure(error, kind):
    out = plan("Sharp?", PAGES[0], client=kind(error), fallback=ScriptedClient([json.dumps(PLAN)]), cache=None)
    assert out.query_type == "Other"


def test_the_fallback_stands_in_for_a_client_that_cannot_be_made(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    out = plan("Sharp?", PAGES[0], client="openai.m", fallback=ScriptedClient([json.dumps(PLAN)]), cache=None)
    assert out.query_type == "Other"
    config = {"backends": {"q": {"kind": "qwen", "model_path": "/nowhere", "models": {"m": "m"}}}}
    (tmp_path / "b.yaml").write_text(json.dumps(config))
    out = plan("Sharp?", PAGES[0], client="q.m", config=tmp_path / "b.yaml",
               fallback=ScriptedClient([json.dumps(PLAN)]), cache=None)
    assert out.query_type == "Other"
    with pytest.raises(AuthenticationError):
        plan("Sharp?", PAGES[0], client="openai.m", cache=None)


@pytest.mark.parametrize("error", [MemoryError("full"), ConnectionError("gone"), RuntimeError("x"), AssertionError()])
def test_no_node_lets_an_exception_out(error, tmp_path):
    PAGES[0].save(tmp_path / "p.png")
    state = {"query": "Sharp?", "image_path": "p.png"}
    out = planner_node(ScriptedClient([error]), root=tmp_path, cache=None)(state)
    assert out["plan"] is None and out["error"].startswith(type(error).__name__)
    planner = ScriptedClient([json.dumps({**PLAN, "plan": ON})] * 2)
    end = cosee_graph(Broken(error), planner, root=tmp_path, cache=None, max_steps=1).invoke(state)
    assert end["answer"] == "" and end["attempts"] == 2
    (tmp_path / "p.png").write_bytes(b"torn")
    assert quality_node({**state, "image_path": str(tmp_path / "p.png")})["error"]


def test_a_graph_reads_a_pdf():
    wanted = {**PLAN, "pages": [3], "question": "", "tools": [], "query_type": "IQA", "plan": ON}
    planner, readers = ScriptedClient([json.dumps(wanted)]), ScriptedClient([json.dumps(FOUND)])
    thread = dict(configurable=dict(thread_id="1"))
    graph = cosee_graph(readers, planner, memory(), root=REPORT.parent, agents=["detail_reader"], max_steps=1)
    out = graph.invoke({"query": "Who signed?", "image_path": "report.pdf"}, thread)
    assert out["plan"].pages == [3] and out["quality"]["page"] == 3 and set(out["quality"]["measures"]) == {*MEASURES}
    assert out["answer"] == "A. Lovelace" and out["episode"]["page"] == 3
    assert len(message_blocks(readers.calls[0]["messages"], "image")) == 1
    assert isinstance(graph.get_state(thread).values["plan"], DocumentPlan)
    out = graph.invoke({"query": "Who?", "image_path": "../report.pdf"}, dict(configurable=dict(thread_id="2")))
    assert "leads out" in out["error"] or "cannot be read" in out["error"]


def test_with_a_fallback_a_plan_is_judged_as_a_plan(shell, monkeypatch):
    wanted = {**PLAN, "pages": [3], "question": "", "tools": []}
    other = ScriptedClient([])
    monkeypatch.setitem(CLIENTS, "other", ClientEntry(lambda: other))
    out = shell(REPORT, "-q", "Who signed?", "--client", "told", "--agents", "detail_reader", "--fallback", "other",
                "--retry", "2", replies=[wanted, FOUND])
    assert out.result["plan"]["plan"]["pages"] == [3] and out.result["tokens"]["calls"] == 2 and not other.calls
