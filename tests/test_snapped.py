"""Evidence on page text: where the words of an answer stand, how well boxes lie on them, and what must not change."""
import importlib.util
import json
import random
import time

import pytest
from conftest import ROOT
from cosee.agents import CrossCheckerAgent
from cosee.utils.boxes import box_iou
from cosee.controller import CoSeeController, replay
from cosee.policies import Method
from cosee.text.grounding import TextLocator, ground_evidence, ground
from cosee.models.testing import ScriptedClient
from cosee.models.reader_client import OcrClient
from cosee.text.layout import typed_page
from cosee.pages import load_pages
from cosee.utils.text import letters_of
from PIL import Image

pytestmark = pytest.mark.slow

INVOICE = ROOT / "cosee/samples/invoice.pdf"
QUESTION = "What is the gross total?"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("snapped_boxes", ROOT / "benchmarks/snapped_boxes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def said(box, answer="39,452.74 USD", page=1):
    return json.dumps(dict(action="HYPOTHESIZE", view=dict(page=page, bbox_2d=box), content=f"It says {answer}",
                           answer=answer, supporting_cells=[], confidence=.9))


def episode(pages, reply, snap="auto", client=None):
    client = client or ScriptedClient([reply])
    return CoSeeController([CrossCheckerAgent(client)], max_steps=1, snap=snap).run(pages, QUESTION)


# --- the bars ---

def test_shifted_boxes_find_their_words_and_what_is_not_printed_keeps_its_own(benchmark, tmp_path):
    rows = {name: benchmark.summed(found) for name, found in benchmark.made(6, random.Random(1), tmp_path).items()}
    assert rows["scripted"]["n"] >= 30 and rows["scripted"]["own"] < .2 and rows["scripted"]["snapped"] >= .75
    assert rows["scripted"]["worse"] <= .02
    assert rows["absent"]["moved"] == rows["absent"]["found"] == rows["absent"]["worse"] == 0


def test_boxes_of_the_tiny_model_lie_on_the_words(benchmark, tmp_path):
    found = benchmark.summed(benchmark.tiny(1, tmp_path))
    assert found["snapped"] >= .75 > found["own"] and found["worse"] == 0


def test_stored_results_hold_what_is_promised():
    stored = json.loads((ROOT / "benchmarks/results/snapped_boxes.json").read_text())
    assert min(stored[name]["snapped"] for name in ("scripted", "scanned", "tiny")) >= .75
    assert stored["absent"]["moved"] == 0 and stored["scripted"]["n"] >= 200 and stored["tiny"]["n"] >= 100


# --- nothing else changes ---

def test_prompts_tokens_actions_and_answers_are_those_without_it():
    pages = load_pages(INVOICE)
    off, auto, on = (episode(pages, said([600, 700, 760, 730]), snap) for snap in (False, "auto", True))
    assert "found" not in off["evidence"][0] and auto["evidence"][0]["found"] == "letters"
    assert auto["evidence"] == on["evidence"] != off["evidence"]
    for other in (auto, on):
        for key in ("answer", "confidence", "page", "because", "stopped", "steps"):
            assert other[key] == off[key]
        assert other["board"].to_dict() == off["board"].to_dict()
        for mine, theirs in zip(other["trace"]["events"], off["trace"]["events"], strict=True):
            for call in (*mine["calls"], *theirs["calls"]): call["usage"]["seconds"] = 0
            assert (mine["calls"], mine["applied"]) == (theirs["calls"], theirs["applied"])
    with pytest.raises(ValueError, match="snap must be"):
        CoSeeController([], snap="always")


def test_the_models_own_box_is_kept_and_a_replay_has_the_same_evidence():
    found = episode(load_pages(INVOICE), said([600, 700, 760, 730]))
    e = found["evidence"][0]
    assert (e["own_bbox"], e["printed"], e["page"]) == ([.6, .7, .76, .73], "39,452.74 USD", 1)
    assert e["line_bbox"][0] <= e["bbox"][0] and e["bbox"][2] <= e["line_bbox"][2]
    again = replay(json.loads(json.dumps(found["trace"])))
    assert again["evidence"] == found["evidence"] and again["page"] == 1


@pytest.mark.parametrize("answer", ["39,452.75 USD", "Zanzibar", "No", "(074) 39-452", "2"])
def test_an_answer_that_no_print_says_there_keeps_the_models_box_and_is_marked(answer):
    e = episode(load_pages(INVOICE), said([20, 960, 60, 990], answer))["evidence"][0]
    assert (e["bbox"], e["own_bbox"], e["found"], e["printed"]) == ([.02, .96, .06, .99], [.02, .96, .06, .99], "", "")


def test_pictures_are_read_only_where_that_is_asked_for():
    image = load_pages(INVOICE)[0].copy()
    vars(image).pop("cosee_page", None)
    reply = said([600, 700, 760, 730])
    for _ in range(2):   # what the first episode has read changes nothing in the second
        assert "found" not in episode([image], reply)["evidence"][0]
        assert episode([image], reply, True)["evidence"][0]["found"]


def test_print_that_the_client_has_read_is_used():
    image = load_pages(INVOICE)[0].copy()
    vars(image).pop("cosee_page", None)
    client = OcrClient(cache=None)
    found = CoSeeController([CrossCheckerAgent(client)], max_steps=1).run([image], QUESTION)
    read = client.words.counts["ocr"]
    assert found["evidence"][0]["found"] == "letters" and read == 1
    assert letters_of(found["answer"]) in letters_of(found["evidence"][0]["printed"])


def test_a_closed_document_and_pages_that_are_none_cost_nothing():
    pages = load_pages(INVOICE)
    e = dict(page=1, bbox=[.1, .1, .2, .2], content="x", cell=None)
    pages.close()
    for read in (False, True): assert ground([e], "Total", pages, None, read) == [e]
    assert ground([{**e, "page": 7}], "Total", load_pages(INVOICE), None) == [{**e, "page": 7}]
    assert ground([e], "Total", [Image.new("RGB", (40, 40))], None) == [e]
    assert ground([], "Total", [], None) == []
    words = OcrClient(cache=None).words
    words.read([load_pages(INVOICE)[0].copy()], text_source="ocr")   # a reader that holds pages looks for others, too
    for reader in (None, words):
        for read in (False, True):
            for page in (None, 7, object()): assert ground([e], "Total", [page], reader, read) == [e]


def test_single_calls_have_their_box_on_print_too():
    sample = dict(images=load_pages(INVOICE), question=QUESTION, answer=["39,452.74"], meta={"id": "a"})
    reply = "Page: 1\nBox: [600, 700, 760, 730]\nConfidence: 0.9\nAnswer: 39,452.74 USD"
    e = Method("cot").run(sample, ScriptedClient([reply]))["evidence"][0]
    assert e["printed"] == "39,452.74 USD" and box_iou(e["bbox"], e["own_bbox"]) < .5
    bare = Method("cot").run(sample, ScriptedClient([reply.replace("Box: [600, 700, 760, 730]\n", "")]))["evidence"][0]
    assert bare["bbox"] == e["bbox"] and bare["own_bbox"] is None


# --- places ---

def test_a_page_that_lies_on_its_side_has_its_boxes_where_they_are_drawn():
    from cosee.text.page_text import as_drawn
    upright = typed_page("Blue Heron Books      Bill A-2291\nTotal due     1,021.60\nPaid          1,030.00")
    for turned in (90, 180, 270):
        drawn = as_drawn({**upright, "turned": turned})
        place = TextLocator({1: drawn}).locate("1,021.60")
        line, = [l for l in drawn["lines"] if l["text"] == "1,021.60"]
        assert box_iou(place.bbox, tuple(line["bbox"])) > .9, turned


def test_long_answers_on_dense_pages_take_bounded_time():
    rng = random.Random(1)
    lines = ["  ".join(rng.choice(["Total", "12", "a", "aa 99", "Steel 1"]) for _ in range(4)) for _ in range(150)]
    page, start = typed_page("\n".join(lines)), time.process_time()
    for text in ("a" * 20_000, "9" * 400, "1 " * 5000, "\ud800", "Total " * 300):
        ground_evidence([dict(page=1, bbox=[.1, .1, .2, .2], content=text, cell=1)] * 2, text, TextLocator({1: page}))
    assert time.process_time() - start < 20


def test_the_command_line_says_where_and_how(tmp_path, capsys):
    from cosee.cli.start import main
    ask = ["ask", str(INVOICE), "-q", QUESTION, "--quiet", "--json"]
    evidence = {}
    for snap in ("auto", "never"):
        assert main([*ask, "--snap", snap]) == 0
        evidence[snap] = json.loads(capsys.readouterr().out)[0]["evidence"][0]
    assert "found" not in evidence["never"] and evidence["auto"]["own_bbox"] == evidence["never"]["bbox"]
    assert evidence["auto"]["found"] == "letters" and evidence["auto"]["file"] == "invoice.pdf"
