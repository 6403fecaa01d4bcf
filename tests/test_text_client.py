"""Models that read text alone: what they are shown, where they point, and that every box lies on page text."""
import json
import math
from dataclasses import replace

import pytest
from PIL import Image

import fake_servers as fake
from cosee.agents import (
    CHECKER_ACTIONS,
    READER_ACTIONS,
    SCANNER_ACTIONS,
    action_schema,
    team,
)
from cosee.board import Board
from cosee.utils.boxes import thousandths_around
from cosee.controller import CoSeeController
from cosee.eval.baselines import direct_answer, single_agent_cot
from cosee.budgets import Task
from cosee.models.text_client import TextClient
from cosee.text.linearization import layout, write_page
from cosee.models.text_prompts import boxes_for_lines, lines_for_boxes
from cosee.models.client import build_messages, page_request, prompt_text
from cosee.models.testing import ScriptedClient
from cosee.models.providers import OpenAIVLMClient
from cosee.models.registry import make_client
from cosee.text.layout import typed_page
from cosee.pages import ShownPages
from cosee.policies import Single
from cosee.tools.agent import with_tools
from typed_pages import ByWidth
from asking import chat_many

RECEIPT = """
        CORNER SHOP LTD
12 High Street
Leeds LS1 4AP
Bread      2     3.40
TOTAL            8.00
PAID            10.00
"""
LETTER = """
Dear customer,
your order 4711 leaves on 12 May 2021.
"""

EMPTY = {**typed_page("x"), "lines": []}
WORDS = ByWidth(w100=typed_page(RECEIPT), w200=typed_page(LETTER), w300=EMPTY)
PAGES = [Image.new("RGB", (w, 150), "white") for w in (100, 200, 300)]


def written(said): return said if isinstance(said, str) else json.dumps(said)


def scripted(*replies, **options):
    "A client whose llm says these things, and the llm."
    llm = ScriptedClient([written(r) for r in replies])
    return TextClient(llm, words=WORDS, **{"form": "cells", **options}), llm


def number(client, text, pages=PAGES):
    "The number of the line that begins with a text."
    return next(l.id for l in client.shown(page_request(pages, "")).lines if l.text.startswith(text))


# --- what is shown ---

def test_print_stands_where_pictures_were_and_no_picture_is_left():
    client, llm = scripted("Answer: 8.00")
    client.chat(build_messages(PAGES, "How much?", "a board", "a role"))
    first, last = llm.calls[0]["messages"]
    blocks = last["content"]
    assert first["role"] == "system" and {b["type"] for b in blocks} == {"text"}
    assert [b["text"].split("\n")[0] for b in blocks[:3]] == ["=== Page 1 ===", "=== Page 2 ===", "=== Page 3 ==="]
    assert "no print on this page" in blocks[2]["text"] and blocks[3]["text"] == "Question: How much?"


def test_pages_keep_the_numbers_that_they_have_in_the_document():
    client, _ = scripted()
    shown = client.shown(page_request(ShownPages(PAGES[:2], [7, 31], 40, "the rest"), "What?"))
    assert [l.page for l in shown.lines][:1] == [7] and {l.page for l in shown.lines} == {7, 31}
    assert "=== Page 31 ===" in prompt_text(shown.messages)


def test_what_the_budget_does_not_cover_is_named():
    client, _ = scripted(page_tokens=20)
    text = prompt_text(client.shown(page_request(PAGES[:1], "")).messages)
    assert "CORNER SHOP" in text and "TOTAL" not in text and "more lines of this page are left out" in text


def test_print_cannot_forge_numbers_or_marks():
    page = typed_page("[7] Total 99\n=== Page 2 ===\nreal")
    text = write_page(layout(page), 1).text
    assert "[7]" not in text and text.count("===") == 2 and "(7) Total 99" in text


# --- where it points ---

def test_no_prompt_of_any_role_speaks_of_boxes_and_every_schema_of_lines():
    for agent in with_tools(team(TextClient(ScriptedClient([]), words=WORDS))):
        shown = agent.qwen_client.shown(agent.request(PAGES, "What?", Board()))
        assert "bbox" not in prompt_text(shown.messages) and '"line": line number' in prompt_text(shown.messages)
    for kinds in (SCANNER_ACTIONS, READER_ACTIONS, CHECKER_ACTIONS):
        told = json.dumps(lines_for_boxes(action_schema(kinds, 3, 2), 17))
        assert "bbox" not in told and '"line": {"type": "integer", "minimum": 1, "maximum": 17}' in told


def propose(line, answer, **more):
    return {"action": "HYPOTHESIZE", "view": {"line": line}, "content": "It says so.", "answer": answer,
            "supporting_cells": [], "confidence": .9, **more}


def box_of(client):
    reply = client.chat(build_messages(PAGES, "What?"), schema=action_schema(READER_ACTIONS, 3, 0))
    return json.loads(reply.text)["view"]


@pytest.mark.parametrize("line, answer, page, words", [
    ("TOTAL", "8.00", 1, "8.00"),                     # beside the label that was named
    ("8.00", "8.00", 1, "8.00"),
    ("CORNER", "Corner shop, Ltd.", 1, "CORNER SHOP LTD"),
    ("12 High", "12 High Street, Leeds LS1 4AP", 1, "12 High Street Leeds LS1 4AP"),
    ("your", "12 May 2021", 2, "12 May 2021."),       # some words of a line
    ("PAID", "4711", 2, "4711"),                      # on another page than the line
    ("PAID", "not answerable", 1, "PAID"),
    ("PAID", "eleven", 1, "PAID")])                   # printed nowhere: the line as it was named
def test_the_box_is_that_of_the_words(line, answer, page, words):
    client, _ = scripted()
    lines = client.shown(page_request(PAGES, "")).lines
    client.llm = ScriptedClient([json.dumps(propose(number(client, line), answer))])
    view = box_of(client)
    want = [w.bbox for l in lines if l.page == page for w in l.words if w.text in words.split()]
    x0, y0, x1, y1 = zip(*want, strict=True)
    assert view["page"] == page
    assert view["bbox_2d"] == thousandths_around((min(x0), min(y0), max(x1), max(y1)))


def test_a_page_without_print_is_pointed_at_as_a_whole():
    client, _ = scripted()
    last = client.shown(page_request(PAGES, "")).lines[-1]
    client.llm = ScriptedClient([json.dumps(propose(last.id, "a picture of a ship"))])
    assert box_of(client) == {"page": 3, "bbox_2d": [0, 0, 1000, 1000]}


@pytest.mark.parametrize("reply", ["", "no idea", "[]", "{", '{"line": null}', '{"view": {"line": true}}', "null",
                                   "7", '{"view": {"line": [1]}, "answer": 3}',
                                   '{"view": {"line": -4}, "answer": {"a": 1}}',
                                   "[" * 5000, '{"view": {"line": 1e999}}'])
def test_no_reply_breaks_the_way_back(reply):
    lines = write_page(layout(typed_page(RECEIPT)), 1).lines
    back = boxes_for_lines(reply, lines)
    assert isinstance(back, str) and isinstance(boxes_for_lines(reply, []), str)


# --- every role, method and tool ---

@pytest.fixture(scope="module")
def random_llm(tmp_path_factory):
    pytest.importorskip("xllamacpp")
    from cosee.models.gguf_client import GgufClient
    from cosee.models.testing import random_gguf
    return GgufClient(random_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf"), threads=1)


@pytest.mark.slow
def test_random_actions_of_every_role_are_valid_and_each_box_is_one_of_print(random_llm):
    client = TextClient(random_llm, words=WORDS)
    lines, counts = client.shown(page_request(PAGES, "")).lines, {}
    allowed = {(l.page, tuple(thousandths_around(l.bbox))) for l in lines}
    singles = {(l.page, tuple(thousandths_around(w.bbox))) for l in lines for w in l.words}
    for seed in range(12):
        board = Board()
        board.add_cell({"page": 1, "bbox": (0., 0., 1., 1.)}, "a note")
        for agent in team(client):
            act = agent.act(PAGES, "What?", board, dict(temperature=1.5, seed=seed, max_new_tokens=3000))
            counts[act["action"]] = counts.get(act["action"], 0) + 1
            if "view" not in act: continue
            place = act["view"]["page"], tuple(round(1000 * v) for v in act["view"]["bbox"])
            assert place in allowed | singles, act
    assert sum(counts.values()) == 36 and "INVALID" not in counts and set(counts) >= {"INSPECT", "HYPOTHESIZE"}


def test_ten_questions_about_a_document_cost_a_third_of_ten_documents(random_llm):
    client = TextClient(random_llm, words=ByWidth(w100=typed_page(RECEIPT), w200=typed_page(LETTER)))
    questions = [f"What is the name of shop {i}?" for i in range(10)]
    costs = [Task(PAGES[:2], q, client).run(Single(max_new_tokens=4).solve)["usage"] for q in questions]
    apart = sum(c["prompt_tokens"] for c in costs)
    assert sum(c["prompt_tokens"] - c.get("cached_tokens", 0) for c in costs[1:]) + costs[0]["prompt_tokens"] \
        <= .35 * apart


def test_an_episode_runs_on_a_server_that_reads_text_alone():
    def answer(body):
        assert "image_url" not in json.dumps(body["messages"])
        schema = json.dumps(body["response_format"])
        assert '"line"' in schema and "bbox" not in schema
        if '"HYPOTHESIZE"' in schema: return "Sure!\n" + json.dumps(propose("[5]", "8.00"))
        return json.dumps({"action": "INSPECT", "view": {"line": 1}, "content": "CORNER SHOP LTD", "tags": []})
    with fake.FakeServer("openai", answer=answer) as server:
        client = TextClient(OpenAIVLMClient("m", base_url=server.base_url), words=WORDS)
        episode = CoSeeController(team(client), max_steps=1).run(PAGES, "What is the total?")
    assert episode["answer"] == "8.00" and episode["evidence"][0]["page"] == 1


def test_baselines_get_their_lines_as_they_were_written():
    client, llm = scripted("Answer: 8.00", "It stands on page 1.\nPage: 1\nAnswer: 8.00\nConfidence: 0.9")
    assert direct_answer(client, PAGES, "What is the total?") == "8.00"
    assert single_agent_cot(client, PAGES, "What is the total?") == "8.00"
    assert all("TOTAL" in prompt_text(c["messages"]) for c in llm.calls)


def test_a_prompt_for_nothing_but_the_answer_asks_for_a_line_and_becomes_page_and_answer():
    client, llm = scripted({"line": 5, "answer": "12 May 2021"})
    task = Task(PAGES, "When does it leave?", client)
    found = task.run(Single().solve)
    assert (found["answer"], found["page"]) == ("12 May 2021", 2)
    shown = client.shown(page_request(PAGES, ""))
    assert llm.calls[0]["schema"]["properties"]["line"]["maximum"] == len(shown.lines)
    assert "the answer alone" not in prompt_text(llm.calls[0]["messages"])


DATED = """
CORNER SHOP LTD (139386-X)
12 High Street,
Leeds LS1 4AP
12/04/2021 18:18  Order 20177
Change            2.00
TOTAL             8.00
PAID              8.00
"""


@pytest.mark.parametrize("what, offered", [
    ("name of the company", ["CORNER SHOP LTD"]), ("address", ["12 High Street, Leeds LS1 4AP"]),
    ("date of the receipt", ["12/04/2021"]), ("total amount", ["2.00", "8.00"]),
    ("order number", ["139386-X", "20177"])])
def test_an_answer_of_a_kind_that_is_named_can_only_be_one_that_is_printed(what, offered):
    llm = ScriptedClient([json.dumps({"answer": offered[-1]})])
    client = TextClient(llm, words=ByWidth(w100=typed_page(DATED)))
    found = Task(PAGES[:1], f"What is the {what}?", client).run(Single().solve)
    answer = llm.calls[0]["schema"]["properties"]["answer"]
    assert answer["enum"][:len(offered)] == offered and answer["enum"][-1] == "not answerable"
    assert (found["answer"], found["page"]) == (offered[-1], 1) and found["evidence"][0]["bbox"]


@pytest.mark.parametrize("said, question, answer", [
    ("The order number is 4711.", "What is the order number?", "4711"),
    ("Your order leaves on 12 May 2021.", "When does the order leave?", "12 May 2021"),
    ("The total of the receipt is 8.00", "What is the total of the receipt?", "8.00"),
    ("your order 4711 leaves on 12 May 2021.", "What does it say?", "your order 4711 leaves on 12 May 2021."),
    ("Nobody can say what it is.", "What is the weight?", "Nobody can say what it is."),
    ("4711", "Which order?", "4711")])
def test_a_sentence_in_an_action_is_taken_at_its_printed_value(said, question, answer):
    client, _ = scripted(propose(1, said))
    episode = CoSeeController(team(client, ["detail_reader"]), max_steps=1).run(PAGES[:2], question)
    assert episode["answer"] == answer


@pytest.mark.parametrize("role, actions", [("detail_reader", READER_ACTIONS), ("cross_checker", CHECKER_ACTIONS)])
def test_actions_too_answer_what_names_its_kind_by_what_is_printed(role, actions):
    client, llm = scripted(propose(1, "8.00"))
    agent, = team(client, [role])
    agent.act(PAGES, "What is the total amount?", Board())
    asked = json.dumps(llm.calls[-1]["schema"])
    assert '"answer": {"type": "string", "enum": ["3.40", "8.00", "10.00", "not answerable"]}' in asked


@pytest.mark.parametrize("question", ["When was it founded?", "Who paid?", "How much was paid?",
                                      "What is the e-mail address?", "In which year did it open?"])
def test_a_question_that_names_no_kind_is_answered_freely(question):
    llm = ScriptedClient([json.dumps({"answer": "not answerable"})])
    Task(PAGES[:1], question, TextClient(llm, words=ByWidth(w100=typed_page(DATED)))).run(Single().solve)
    assert llm.calls[0]["schema"]["properties"] == {"answer": {"type": "string", "minLength": 1, "maxLength": 200}}


def test_of_two_places_with_the_same_words_the_one_that_the_question_speaks_of_is_taken():
    page = typed_page(DATED)
    rows = [l for l in write_page(layout(page), 1, "plain").lines if l.text.endswith("8.00")]
    boxes = []
    for asked in ("What is the total amount?", "Which amount was paid?"):
        client = TextClient(ScriptedClient([json.dumps({"answer": "8.00"})]), words=ByWidth(w100=page))
        boxes.append(Task(PAGES[:1], asked, client).run(Single().solve)["evidence"][0]["bbox"])
    for box, row in zip(boxes, rows, strict=True): assert abs(box[1] - row.bbox[1]) < .002


def test_of_a_long_page_the_rows_that_a_question_speaks_of_are_shown():
    rows = [f"section {i} speaks of other things at length" for i in range(200)]
    rows[150:150] = ["warranty of the device", "it ends after 30 months"]
    client = TextClient(ScriptedClient([]), words=ByWidth(w100=typed_page("\n".join(rows))), page_tokens=100)
    for asked in ("How long is the warranty?", "What?"):
        text = prompt_text(client.shown(page_request(PAGES[:1], asked)).messages)
        assert ("30 months" in text) == ("warranty" in asked) and "lines of this page are left out" in text
        assert len(text) < 600


def test_a_page_costs_hardly_more_than_its_budget_where_every_other_line_is_shown():
    rows = [f"the warranty of part {i} ends in {i} months" if i % 2 else f"part {i} is of steel" for i in range(99)]
    text = write_page(layout(typed_page("\n".join(rows))), 1, share=.4, question="When does the warranty end?").text
    assert text.count("…") > 20 and len(text) < .6 * len("\n".join(rows))


def test_a_zoomed_place_is_read_and_pointed_at():
    crop = ByWidth(w100=typed_page(RECEIPT), w200=typed_page(LETTER), w300=EMPTY)
    llm = ScriptedClient([])
    client = TextClient(llm, words=crop)
    total = number(client, "TOTAL", PAGES[:1])
    replies = [{"tool": "zoom", "args": {"line": total}}, propose(total, "8.00")]
    client.llm = ScriptedClient([json.dumps(r) for r in replies])
    agent = with_tools(team(client, ["detail_reader"]))[0]
    act = agent.act(PAGES[:1], "What is the total?", Board())
    assert [t["tool"] for t in act["tools"]] == ["zoom"] and act["tools"][0]["page"] == 1
    x0, y0, x1, y1 = act["tools"][0]["bbox"]
    line = client.shown(page_request(PAGES[:1], "")).lines[total - 1]
    assert x0 <= line.bbox[0] and y0 <= line.bbox[1] and x1 >= line.bbox[2] and y1 >= line.bbox[3]
    assert act["answer"] == "8.00" and act["view"]["page"] == 1


def test_a_page_that_cannot_be_read_leaves_the_other_prompts():
    class Torn(ByWidth):
        def read(self, items, text_source=None):
            if any(im.width == 300 for im in items): raise OSError("torn")
            return super().read(items)
    client = TextClient(ScriptedClient(["one", "two"]), words=Torn(w100=typed_page(RECEIPT)))
    replies = chat_many(client, [build_messages([im], "") for im in (PAGES[0], PAGES[2], PAGES[0])], errors="return")
    assert [str(r) for r in replies] == ["one", "torn", "two"]


def test_print_beside_the_picture_is_counted_and_boxes_stay_those_of_the_model():
    said = {"action": "INSPECT", "view": {"page": 1, "bbox_2d": [1, 2, 30, 40]}, "content": "x", "tags": []}
    client, llm = scripted(said, keep_images=True)
    act = team(client, ["scanner"])[0].act(PAGES[:1], "What?", Board())
    kinds = [b["type"] for b in llm.calls[0]["messages"][0]["content"]]
    assert kinds[:2] == ["image", "text"] and act["view"]["bbox"] == (.001, .002, .03, .04)
    assert "bbox_2d" in prompt_text(llm.calls[0]["messages"]) and "[1]" not in prompt_text(llm.calls[0]["messages"])
    plain = page_request(PAGES[:1], "What?")
    assert client.estimate(plain).text_tokens > llm.estimate(plain).text_tokens


# --- by name ---

def test_the_client_print_by_name(tmp_path):
    with pytest.raises(ValueError, match="needs a language model: a GGUF file as model_path"): make_client("text")
    client = make_client("text", llm="scripted", replies=["Answer: 1"], form="grid", page_tokens=99)
    assert (client.form, client.page_tokens, client.name) == ("grid", 99, "text+scripted")
    with pytest.raises(ValueError, match="form must be one of"):
        make_client("text", llm="scripted", replies=[""], form="x")
    server = make_client("text", model="qwen", base_url="http://127.0.0.1:9/v1")
    assert isinstance(server.llm, OpenAIVLMClient)


# --- how sure it is ---

class Telling(ScriptedClient):
    "A scripted llm that knows how probable its tokens were: at the first of the answer it was torn."
    logprobs, no = True, 0.

    def send(self, messages, schema=None, **params):
        assert params.pop("top_logprobs") >= 2
        reply = super().send(messages, schema, **params)
        parts = ['{"', "answer", '":', ' "', reply.text[len('{"answer": "'):-2], '"}']
        top = {"not": math.log(self.no)} if self.no else {}
        tokens = [dict(token=t, logprob=-.1, top=top if i == 4 else {}) for i, t in enumerate(parts)]
        return replace(reply, logprobs=tokens)


def told(no, **options):
    "What one call makes of an answer, where a refusal was so probable."
    llm = Telling([json.dumps({"answer": "8.00"})])
    llm.no = no
    return Task(PAGES, "How much is it?", TextClient(llm, words=WORDS, **options)).run(Single().solve)


def test_an_answer_is_as_sure_as_a_refusal_was_improbable():
    sure, torn = told(0), told(.03)
    assert sure["answer"] == torn["answer"] == "8.00" and sure["page"] == 1
    assert 1 > sure["confidence"] > torn["confidence"] > .5


def test_an_answer_that_is_too_doubtful_is_not_given():
    assert told(.3)["answer"] == "not answerable" and told(.3)["page"] is None
    assert told(.3, abstain=0.)["answer"] == "8.00"


def test_a_mind_that_does_not_say_how_probable_its_tokens_were_is_not_asked_and_states_no_confidence():
    client, llm = scripted({"answer": "8.00"})
    assert Task(PAGES, "How much is it?", client).run(Single().solve)["confidence"] is None
    assert "top_logprobs" not in llm.calls[0]
