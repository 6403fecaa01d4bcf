"""Two hundred replies in the forms that models write, served by a server that constrains nothing.

A baseline and an agent of a team get the same replies to the same question over the same wire; both must read the
answer, and the same share of them. What a model only thought, and a draft in it, is never its answer.
"""
import json

import pytest
from conftest import ROOT
from fake_servers import FakeServer
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from cosee.agents import ACTIONS, CUT_OFF, Agent, normalize_action, parse_reply, read_view, team
from cosee.board import Board
from cosee.cli.entry import main
from cosee.utils.boxes import check_bbox
from cosee.controller import CoSeeController
from cosee.policies import Method
from cosee.utils.json_scan import find_answer, read_answer, spoken, without_reasoning
from cosee.models.testing import ScriptedClient
from cosee.models.providers import OpenAIVLMClient
from cosee.pages import load_pages
from cosee.screen.call import read_tool_call, read_tool_calls
from cosee.utils.text import NOT_ANSWERABLE, abstains, means_none
from cosee.document.tool import parse_tool_call

PAGES = [Image.new("RGB", (64, 64), "white")] * 3
# (the answer, what a draft says instead)
ANSWERS = [("17", "16"), ("$1,250.00", "$1,205.00"), ("Acme Trading Ltd.", "Acme Traders"), ("12 March 2019", "2018"),
           ("42.5 %", "45 %")]
ACTION = ('{"action": "HYPOTHESIZE", "view": {"page": 2, "bbox_2d": [10, 20, 300, 400]}, '
          '"content": "It stands there.", "answer": %s, "supporting_cells": [], "confidence": 0.9}')


def action(answer): return ACTION % json.dumps(answer)


def said(answer): return json.dumps(dict(answer=answer))


def tex(text): return text.replace("$", "\\$").replace("%", "\\%")


FORMS = {
    # one line, as asked
    "line": lambda a, d: f"Answer: {a}",
    "bold label": lambda a, d: f"**Answer:** {a}",
    "bold line": lambda a, d: f"I compared both tables on page 2.\n\n**Final answer: {a}**",
    "labels": lambda a, d: f"The table on page 2 lists it.\nPage: 2\nConfidence: 0.9\nAnswer: {a}",
    "label first": lambda a, d: f"Answer: {a}\nPage: 2\nConfidence: 90%",
    "letter": lambda a, d: f"A: {a}",
    "next line": lambda a, d: f"Answer:\n{a}",
    "heading": lambda a, d: f"### Reasoning\nThe last row holds the sum.\n\n### Answer\n{a}",
    "heading, final": lambda a, d: f"The last row.\n\n## Final Answer\n\n{a}",
    "quoted": lambda a, d: f'Answer: "{a}"',
    "code": lambda a, d: f"Answer: `{a}`",
    "corrected": lambda a, d: f"Answer: {d}\nNo, that is the row above.\nAnswer: {a}",
    # the value alone
    "alone": lambda a, d: a,
    "alone, bold": lambda a, d: f"**{a}**",
    "alone, fence": lambda a, d: f"```\n{a}\n```",
    # sentences
    "therefore": lambda a, d: f"Row four adds both. Therefore, the answer is **{a}**.",
    "the answer is": lambda a, d: f"I see it at the foot of page 2. The answer is: {a}",
    "the final answer is": lambda a, d: f"The final answer is {a}",
    "so the answer": lambda a, d: f"First I read {d}, but that is last year's.\nSo the answer is \"{a}\".",
    "because": lambda a, d: f"The answer is **{a}** because the last row says so (page 2).",
    "clause": lambda a, d: f"The answer is {a}, as shown on page 2.",
    "to the question": lambda a, d: f"The answer to the question is {a}",
    "bold in prose": lambda a, d: f"According to the table, it amounts to **{a}** in total.",
    # mathematics
    "boxed": lambda a, d: f"Adding both rows gives \\boxed{{{tex(a)}}}",
    "boxed text": lambda a, d: f"$$\\boxed{{\\text{{{tex(a)}}}}}$$",
    "boxed answer": lambda a, d: f"The final answer is $\\boxed{{{tex(a)}}}$.",
    # tags and objects
    "tag": lambda a, d: f"The foot of the page says so.\n<answer>{a}</answer>",
    "object": lambda a, d: said(a),
    "object in fence": lambda a, d: f"Here:\n```json\n{json.dumps(dict(answer=a, confidence=.9), indent=2)}\n```",
    "object, page": lambda a, d: json.dumps(dict(page=2, reasoning="The last row.", final_answer=a)),
    "action": lambda a, d: action(a),
    "action in fence": lambda a, d: f"Sure, here is my action.\n```json\n{action(a)}\n```",
    "action in a call": lambda a, d: f'<tool_call>\n{{"name": "act", "arguments": {action(a)}}}\n</tool_call>',
    # thinking
    "think, line": lambda a, d: f"<think>\nIt could be {d}. Answer: {d}\nNo.\n</think>\n\nAnswer: {a}",
    "think, alone": lambda a, d: f"<think>The answer is {d}? Row three, not four.</think>\n{a}",
    "think, boxed": lambda a, d: f"<think>\\boxed{{{tex(d)}}}?</think>So \\boxed{{{tex(a)}}}",
    "think, action": lambda a, d: f"<think>\nA draft: {action(d)}\nBut row four.\n</think>\n{action(a)}",
    "thought without its tag": lambda a, d: f"Let me see. {action(d)} would be wrong.\n</think>\n\n{action(a)}",
    "think, fence": lambda a, d: f"<think>{said(d)}</think>\n```json\n{said(a)}\n```",
    "think, sentence": lambda a, d: f"<thinking>First {d}.</thinking>\nTherefore, the answer is **{a}**.",
}
REPLIES = [(form, answer, write(answer, draft)) for form, write in FORMS.items() for answer, draft in ANSWERS]


def one_call(client):
    return lambda: Method("cot").run(dict(images=PAGES, question="How much?", answer=[], meta={}), client)


def of_team(client):
    agents = team(client, ("detail_reader",))
    return lambda: CoSeeController(agents, max_steps=1).run(PAGES, "How much?")


@pytest.fixture(scope="module")
def read():
    "What a baseline and a team read in each reply: the whole episodes"
    found = []
    with FakeServer(answer=lambda body: told[-1]) as server:
        client, told = OpenAIVLMClient(base_url=server.base_url, model="m", api_key="x"), [""]
        for form, answer, text in REPLIES:
            told[:] = [text]
            found.append((form, answer, one_call(client)(), of_team(client)()))
    return found


@pytest.mark.slow
def test_team_and_baseline_read_the_same_share(read):
    shares = [sum(r[side]["answer"] == r[1] for r in read) / len(read) for side in (2, 3)]
    missed = [(form, answer, solo["answer"], crew["answer"]) for form, answer, solo, crew in read
              if not solo["answer"] == crew["answer"] == answer]
    assert shares[0] == shares[1] >= .97, missed


@pytest.mark.slow
def test_plain_answers_are_counted_as_such_and_have_no_box(read):
    for form, _, _, crew in read:
        event = crew["trace"]["events"][0]
        assert crew["trace"]["plain"] == int("action" not in form and form != "thought without its tag"), form
        assert crew["trace"]["invalid"] == 0
        if crew["trace"]["plain"]: assert "bbox" not in event["applied"].get("view", {})


# --- what was only thought ---

THOUGHTS = ["<think>{draft}</think>", "{draft}</think>", "<think>one</think>two<think>{draft}</think>",
            "<THINK>{draft}</THINK>\n", "<think>{draft}"]


@pytest.mark.parametrize("thought", THOUGHTS)
@pytest.mark.parametrize("draft", ["Answer: 16", "\\boxed{16}", '{"answer": "16"}', action("16"),
                                   '<tool_call>{"name": "zoom", "arguments": {"page": 1}}</tool_call>',
                                   '{"tool": "zoom", "args": {"page": 1}}', '{"action": "INSPECT", "content": "cut'])
def test_a_draft_is_never_read(thought, draft):
    text = thought.replace("{draft}", draft)
    assert read_answer(text)["answer"] == "" and find_answer(spoken(text)) is None
    assert parse_reply(text).how == "failed" and parse_tool_call(text) is None
    assert read_tool_call(text) is None and read_tool_calls(text) == []
    agent = team(ScriptedClient([text]), ("detail_reader",))[0]
    assert agent.act(PAGES, "How much?", Board())["action"] == "INVALID"


@pytest.mark.parametrize("content", ["it says </think> here", "<think>quoted", "a </think> b <think> c"])
def test_a_tag_that_is_quoted_in_a_note_hides_nothing(content):
    text = json.dumps(dict(action="HYPOTHESIZE", content=content, answer="17", view=dict(page=1)))
    assert parse_reply(text).action["content"] == content and parse_reply(f"So:\n{text}").action["answer"] == "17"


@pytest.mark.parametrize("attack", ["<think>" * 30_000, "</think>{" * 30_000, '{"a": "<think>"}' * 20_000,
                                    "\\boxed{" * 30_000, "answer is " * 20_000, "**" * 90_000, "<answer>" * 20_000,
                                    "answer" + " " * 90_000 + ":", "the answer is " + "a. A" * 20_000,
                                    "<|im_end|>" * 20_000, "<|begin_of_box|>" * 9_000, "<|box_start|>(1," * 9_000,
                                    "<s></s>" * 20_000,
                                    "page" + ":" * 90_000, "(page " * 20_000, '{"a": "b", ' * 9_000, "not " * 149,
                                    "the document " * 45, "the x is not " * 45, "die seiten nennen " * 33])
@pytest.mark.timeout(20)
@pytest.mark.slow
def test_a_hostile_reply_costs_little_time(attack):
    read_answer(attack), parse_reply(attack), parse_tool_call(attack), abstains(attack)


# --- the marks of a template, and what stands around JSON ---

AROUND = [
    "{}<|im_end|>", "{}<|im_end|>\n<|endoftext|>", "<|im_start|>assistant\n{}<|im_end|>", "{}</s>", "<s> {} </s>",
    "{}<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n{}<|eot_id|>",
    "<|begin_of_text|>{}<|end_of_text|>",
    "{}<|eom_id|>", "{}<|end|>", "<|assistant|>\n{}<|end|>", "{}<end_of_turn>",
    "<start_of_turn>model\n{}<end_of_turn>\n<eos>",
    "<bos>{}<eos>", "[/INST] {}</s>", "{}[/INST]", "{}<|end_of_sentence|>", "{}<｜end▁of▁sentence｜>",
    "<｜Assistant｜>{}<｜end▁of▁sentence｜>", "<|assistant|>\n{}<|user|>", "{}<|observation|>", "{}<|eos|>",
    "{}<end_of_utterance>", "<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>", "assistant\n\n{}",
    "{}<|im_end|>\n<|im_start|>user\nAnd the tax? Answer: 7", "{}<end_of_turn>\n<start_of_turn>model\nAnswer: 7",
    "<|begin_of_box|>{}<|end_of_box|>", "<think>7?</think>\n<|begin_of_box|>{}<|end_of_box|>", "<answer>{}</answer>",
    "<|channel|>analysis<|message|>7?<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>"]
SPOKEN = ["42", "Answer: 42", "The answer is **42**.", '{"answer": "42", "page": 3}', '[{"answer": "42", "page": 3}]',
          '```json\n{"answer": "42", "page": 3}\n```']


@pytest.mark.parametrize("around", AROUND)
def test_the_marks_of_a_template_are_no_part_of_a_reply(around):
    for text in SPOKEN:
        found = read_answer(around.replace("{}", text))
        assert (found["answer"], found["page"]) == ("42", 3 if "page" in text else None), text
    act = parse_reply(around.replace("{}", action("42"))).action
    assert (act["action"], act["answer"], act["content"]) == ("HYPOTHESIZE", "42", "It stands there.")


@pytest.mark.parametrize("text", [
    "<|object_ref_start|>42<|object_ref_end|><|box_start|>(10,20),(300,400)<|box_end|>",
    "42<box>[[10, 20, 300, 400]]</box>",
    "<ref>42</ref><box>[[10, 20, 300, 400]]</box>", "<|ref|>42<|/ref|><|det|>[[10, 20, 300, 400]]<|/det|>",
    "<loc0012><loc0100><loc0200><loc0300> 42", "<|box_start|>42<|box_end|>",
    "Answer: 42 <box>(10,20),(300,400)</box>"])
def test_a_place_in_marks_is_no_part_of_an_answer(text):
    assert "<" not in read_answer(said(text))["answer"]
    assert read_answer(text)["answer"] == "42"


@pytest.mark.parametrize("answer", ["<b>42</b>", "</s>", "a < b", "<s>41</s> 42", "<p>", "if x </s> y"])
def test_what_a_document_may_hold_is_kept(answer):
    assert read_answer(said(answer))["answer"] == parse_reply(action(answer)).action["answer"] == answer


@pytest.mark.parametrize("typed", ["<|im_end|>", "see <ref>1</ref>", "</s>", "<|LOC_12|>"])
def test_what_is_typed_on_a_screen_or_read_on_a_page_keeps_its_marks(typed):
    step = {"name": "computer", "arguments": {"action": "type", "text": typed}}
    assert read_tool_call(f"<tool_call>{json.dumps(step)}</tool_call><|im_end|>").text == typed
    assert without_reasoning(f"<think>so</think>{typed}").spoken == typed


READ = [   # (a reply, its answer, its page)
    ('{"answer": "42", "page": 3}.', "42", 3), ('{"answer": "42", "page": 3}\n\nIt stands in the table.', "42", 3),
    ('Here it is: {"answer": "42", "page": "3"} - done', "42", 3), ("{'answer': '42', 'page': 3,}", "42", 3),
    ('{"answer": null, "page": null}', "", None), ('{"answer": "", "page": 2}', "", 2),
    ('{"answer": 42, "page": [3, 4]}', "42", 3), ('{"answer": 4.5}', "4.5", None), ('{"answer": false}', "no", None),
    ('{"answer": ["a", "b"], "page": "page 3"}', "a, b", 3), ('["a", "b"]', "a, b", None),
    ('{"answer": {"value": "42", "unit": "kg"}, "page": 2}', "42 kg", 2),
    ('{"answer": {"text": "42", "page": 3}}', "42", 3), ('{"answer": {"net": 40, "tax": 2}}', "net: 40, tax: 2", None),
    ('{"answer": "42", "page": 0}', "42", None), ('{"answer": "42", "page_number": 3}', "42", 3),
    ('{"reasoning": "Page 2 lists it.", "answer": "42", "page": null}', "42", None),
    ('{"total_due": "2,189.60 EUR"}', "2,189.60 EUR", None), ('"answer": "42",\n"page": "3"', "42", 3),
    ('{"name": "reply", "arguments": {"answer": "42", "page": 3}}', "42", 3),
    ('{"name": "reply", "arguments": "{\\"answer\\": \\"42\\", \\"page\\": 3}"}', "42", 3),
    ('<tool_call>\n{"name": "reply", "arguments": {"answer": "42", "page": 3}}\n</tool_call><|im_end|>', "42", 3),
    ('<|python_tag|>{"name": "reply", "parameters": {"answer": "42", "page": 3}}<|eom_id|>', "42", 3),
    ('[TOOL_CALLS][{"name": "reply", "arguments": {"answer": "42", "page": 3}}]</s>', "42", 3),
    ('<answer>\n```json\n{"answer": "42", "page": 3}\n```\n</answer>', "42", 3),
    ('{"answer": "5" wide", "page": 3}', '5" wide', 3), ('{"answer": "The total is gi', "", None),
    ('{"answer": 4', "", None), ('{"answer": "42", "page": 1', "42", None),
    ('{"answer": "42", "page": 3, "reasoning": "At the fo', "42", 3), ('Let me see.\n{"answ', "", None),
    ("The total due is <|begin_of_box|>42<|end_of_box|> as printed.", "42", None),
    ("Answer: 42\n**Page:** 3", "42", 3), ("Answer: 42\n**Page**: 3", "42", 3), ("Answer: 42\nPage no. 3", "42", 3),
    ("Answer: 42\np. 3", "42", 3), ("Answer: 42 (page 3)", "42", 3), ("Answer: 42, p. 3", "42", 3),
    ("Answer: 42\nSeite 3", "42", 3), ("Answer: 42\nPage n° 3", "42", 3), ("**Answer:** 42\n**Page:** **3**", "42", 3),
    ("The answer is 42 on page 3 of 12.", "42", 3), ("Page 1 is a cover.\nPage: 3\nAnswer: 42 (see page 2)", "42", 3),
    ("1. Answer: 42\n2. Page: 3", "42", 3), ("Answer: 42\nPage: none", "42", None),
    ("Answer: 42\nPage: 0", "42", None),
    ("Antwort: 42\nSeite: 3", "42", 3), ("Die Antwort lautet 42.", "42", None), ("Réponse : 42 (page 3)", "42", 3),
    ("Answer: page 3", "page 3", 3), ("Answer: U.S. 50", "U.S. 50", None),
    ("I have read both pages. The document does not contain this information.", NOT_ANSWERABLE, None),
    ("Not stated.\nThe pages list prices alone.", NOT_ANSWERABLE, None),
    ("Answer: N/A\nPage: N/A", NOT_ANSWERABLE, None),
    ("I cannot find it on page 1. On page 2 it is **42**.", "42", 2),
    ("Final answer: **Paris**.", "Paris", None), ('Answer: "Paris".', "Paris", None), ("Answer: `42`.", "42", None),
    ("Answer: *Paris*.", "Paris", None), ("Answer: “Paris”,", "Paris", None), ('**Answer**: **"42"**.', "42", None),
    ("**Answer:** **42**.", "42", None), ("Answer: **$3.4M**, as shown on page 2.", "$3.4M", 2),
    ("Answer: __init__.py", "__init__.py", None), ('Answer: 5" wide', '5" wide', None),
    ("Page: none\nConfidence: 0.1\nAnswer:", "", None), ("Answer:\nPage: 3", "", 3), ("42\nPage 3", "42", 3),
    ("42<unk>", "42", None), ("42<extra_id_0>", "42", None), ("42<0x0A>", "42", None), ("Answer： 42", "42", None),
    ("答案：42", "42", None), ("Respuesta: 42\nPage：3", "42", 3), ("La respuesta es 42.", "42", None),
    ('{"答案": "42"}', "42", None), ("42\n\nHuman: next", "42", None), ("Answer: 42\n\nHuman: Answer: 7", "42", None),
    ("I think the answer is 42 but I am not sure.", "42", None),
    ("Answer: 42\nAnswer:", "42", None), ("page 3", "page 3", 3), ("{}", "", None), ('{"page": 3}', "", 3)]


@pytest.mark.parametrize("text, answer, page", READ)
def test_answer_and_page_are_read_whatever_stands_around_them(text, answer, page):
    found = read_answer(text)
    assert (found["answer"], found["page"]) == (answer, page)


@pytest.mark.parametrize("told, sure", [
    ("high", .9), ("High.", .9), ("9/10", .9), ("0,9", .9), ("90 %", .9), (.9, .9), (90, .9), ("-", None), (101, None),
    (500, None), (1e99, None), ("150%", None), ("1e99", None), (None, None), ("very high", .95)])
def test_confidence_is_read_in_every_form_and_never_made_up(told, sure):
    assert read_answer(json.dumps(dict(answer="42", confidence=told)))["confidence"] == sure
    if told: assert read_answer(f"Confidence: {told}\nAnswer: 42")["confidence"] == sure
    acted = parse_reply(json.dumps(dict(action="HYPOTHESIZE", answer="42", confidence=told))).action
    assert acted["confidence"] == (.5 if sure is None else sure)


ACTED = [   # (a reply, what is read in it)
    ('{"action":"HYPOTHESIZE","content":"No page shows it.","answer":null,"confidence":1}',
     dict(answer=NOT_ANSWERABLE)),
    ('{"action":"HYPOTHESIZE","content":"No page shows it.","answer":""}', dict(answer=NOT_ANSWERABLE)),
    ('{"action":"HYPOTHESIZE","content":"No page shows it.","answer":[]}', dict(answer=NOT_ANSWERABLE)),
    ('{"action":"HYPOTHESIZE","content":"42"}', dict(answer="42")),
    ('{"action":"HYPOTHESIZE","content":"two","answer":["a","b"]}', dict(answer="a, b")),
    ('{"action":"HYPOTHESIZE","content":"x","answer":42}', dict(answer="42")),
    ('{"action":"HYPOTHESIZE","content":"x","answer":true}', dict(answer="yes")),
    ('{"action":"HYPOTHESIZE","content":"x","answer":{"amount":"42","currency":"EUR"}}', dict(answer="42 EUR")),
    ('{"action":"HYPOTHESIZE","content":"It stands there.","Final answer":"42"}', dict(answer="42")),
    ('{"action":"HYPOTHESIZE","answer":"42","view":[{"page":"page 2","bbox_2d":[[100,200,300,400]]}]}',
     dict(answer="42", view=dict(page=2, bbox=(.1, .2, .3, .4)))),
    ('{"action":"REVISE","target_cell_id":1,"content":"wrong","answer":null}', dict(action="REVISE", content="wrong")),
    ('{"action":"HYPOTHESIZE","answer":"42","content":"The total is gi', dict(answer="42", content="42")),
    ('{"action":"HYPOTHESIZE","answer":"42","view":{"page":3,"bbox_2d":[1,2,30,4',
     dict(answer="42", view=dict(page=3))),
    ('{"action":"INSPECT","content":"A table","view":{"page":1', dict(content="A table")),
    ('{"action":"HYPOTHESIZE","content":"<|box_start|>(1,2),(3,4)<|box_end|>It is <|im_end|>","answer":"42"}',
     dict(answer="42", content="It is")),
    ('[{"action":"HYPOTHESIZE","answer":"42","content":"x"}].', dict(answer="42")),
    ('{"action":"HYPOTHESIZE","content":"x","answer":"**42**"}', dict(answer="42")),
    ('{"action":"HYPOTHESIZE","content":"x","answer":"\\\\boxed{42}"}', dict(answer="42")),
    ('{"action":"HYPOTHESIZE","content":"x","answer":"\\boxed{42}"}', dict(answer="42")),
    ('{"action":"HYPOTHESIZE","content":"x","answer":"42","supporting_cells":["#1",null,"all",true]}',
     dict(answer="42", supporting_cells=[1])),
    ('{"action":"HYPOTHESIZE","content":"x","answer":"42","supporting_cells":["cell 1","Note #2",3]}',
     dict(answer="42", supporting_cells=[1, 2, 3])),
    ('{"action":"HYPOTHESIZE","content":"x","answer":"42","supporting_cells":[null]}', dict(supporting_cells=[])),
    ('{"action":"REVISE","target_cell_id":"cell 3","content":"wrong"}', dict(target_cell_id=3)),
    ('{"action":"REVISE","target_cell_id":[3],"content":"wrong"}', dict(target_cell_id=3)),
    ('{"Action":"INSPECT","Content":"x"}', dict(action="INSPECT", content="x")),
    ('{"ACTION":"inspect","Content":"x","View":{"Page":2}}', dict(content="x", view=dict(page=2))),
    ('{"answer": "42", "reasoning": "it is', dict(answer="42", plain=True)),
    ('{"answer": null}', dict(answer=NOT_ANSWERABLE, plain=True)),
    ("I cannot find this in the provided pages.", dict(answer=NOT_ANSWERABLE, plain=True))]


def interpreted(text): return Agent("reader", "Read.", None, ACTIONS).interpret(text)


@pytest.mark.parametrize("text, read", ACTED)
def test_an_action_is_read_as_it_was_meant(text, read):
    found = interpreted(text)
    assert {k: found.get(k) for k in read} == read and found["action"] != "INVALID"
    if "page" not in str(read): assert "view" not in found


@pytest.mark.parametrize("text", [
    '{"action": "HYPOTHESIZE", "view": {"page": 3, "bbox_2d": [1,2,30,40]}, "content": "The total is gi',
    '{"action": "HYPOTHESIZE", "content": "It stands there.", "answer": "2,18',
    '{"action": "HYPOTHESIZE", "answer": 4',
    '{"action": "HYPOTHESIZE", "content": "It stands there."', '{"action": "INSPECT", "content": "the tot',
    '{"action": "HYPO',
    '{"action": "REVISE", "target_cell_id": 1, "content": "It is not',
    '{"action": "REVISE", "content": "No.", "answer": "4',
    '```json\n{"action": "HYPOTHESIZE", "content": "The answer is gi', '{"answer": "The total is gi'])
def test_what_the_end_cuts_off_is_not_believed(text):
    assert interpreted(text)["action"] == "INVALID" and interpreted(text)["error"] == CUT_OFF


@pytest.mark.parametrize("page", [0, -1, "first", None, 1e99, True, "", [], {}, 2.5])
@pytest.mark.parametrize("kind", ["INSPECT", "HYPOTHESIZE"])
def test_a_view_that_cannot_be_read_is_no_view(page, kind):
    read = normalize_action(dict(action=kind, content="x", answer="42", view=dict(page=page, bbox_2d=[1, 2, 30, 40])))
    assert read["action"] == kind and "view" not in read and read_view(dict(page=page)) is None


# --- what is none ---

def lines_of(name):
    "What models say in one way, and people count as one thing; a line each."
    return (ROOT / f"tests/data/replies/{name}.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("text", [
    "Answer: not answerable", "The answer is not answerable.", "The answer is: unanswerable", "\\boxed{unanswerable}",
    "The question cannot be answered from these pages.", '{"answer": "Not answerable"}', "<think>17?</think>", "",
    "This question is not answerable.", "The answer is not given on any page."])
def test_an_abstention_is_one_in_every_form(text):
    assert abstains(read_answer(text)["answer"])


ABSTENTIONS = lines_of("abstentions")
VALUES = lines_of("values")

@pytest.mark.parametrize("text", ABSTENTIONS)
def test_the_usual_ways_of_saying_that_there_is_no_answer_are_none(text):
    assert abstains(text) and abstains(text.upper()) and read_answer(text)["answer"] == NOT_ANSWERABLE
    assert read_answer(f"Answer: {text}")["answer"] == read_answer(said(text))["answer"] == NOT_ANSWERABLE
    agent = team(ScriptedClient([action(text)]), ("detail_reader",))[0]
    assert agent.act(PAGES, "How much?", Board())["answer"] == NOT_ANSWERABLE


@pytest.mark.parametrize("text", VALUES)
def test_a_value_that_only_begins_like_an_abstention_is_an_answer(text):
    assert not abstains(text) and find_answer(said(text)) == text
    for form in (text, f"{text}.", f"Answer: {text}", f"**Answer:** {text}."):
        assert read_answer(form)["answer"] not in (NOT_ANSWERABLE, ""), form


@pytest.mark.parametrize("text", ["none", "N/A", "unknown", "null", "Not found", "keine Angabe", "no", "0"])
def test_data_have_few_words_for_no_answer(text):
    assert not means_none(text)


@pytest.mark.parametrize("text", ["{broken", '{"tool": "zoom"}', '{"note": 7}', '{"action": "HYPOTHESIZE"}', "   ",
                                  "The revenue is, let me think", "I cannot help with that.", "Let me look closer."])
def test_what_is_neither_action_nor_answer_stays_invalid(text):
    agent = team(ScriptedClient([text]), ("detail_reader",))[0]
    assert agent.act(PAGES, "How much?", Board())["action"] == "INVALID"


def test_who_may_not_propose_does_not():
    agent = team(ScriptedClient(["The answer is 17."]), ("scanner",))[0]
    assert agent.act(PAGES, "How much?", Board())["action"] == "INVALID"


# --- pages and boxes ---

@pytest.mark.parametrize("view", [2, "2", "page 2", "Page 2", "p. 2", "page 2 of 9", dict(page="page 2"),
                                  dict(page=2)])
def test_a_page_may_be_all_of_a_view(view):
    assert normalize_action(dict(action="INSPECT", content="x", view=view))["view"]["page"] == 2


def test_words_are_no_page():
    assert "view" not in normalize_action(dict(action="INSPECT", content="x", view="the top of the page"))
    assert "view" not in normalize_action(dict(action="INSPECT", content="x", view=True))


@pytest.mark.parametrize("box, read", [
    ([.1, .2, 1.02, .6], (.1, .2, 1., .6)), ([-.01, .2, .5, 1.2], (0., .2, .5, 1.)), ([0, 0, 1, 1], (0., 0., 1., 1.)),
    ([100, 200, 1020, 600], (.1, .2, 1., .6)), ([.1, .2, .5, .6], (.1, .2, .5, .6))])
@pytest.mark.parametrize("key", ["bbox_2d", "bbox"])
def test_a_box_that_overshoots_is_clamped_in_its_own_space(box, read, key):
    assert read_view({"page": 1, key: box})["bbox"] == pytest.approx(read)


@pytest.mark.parametrize("place", [dict(bbox_2d=[100, 100, 200, 200]), dict(bbox=[.1, .1, .2, .2]),
                                   dict(bbox=[[100, 100, 200, 200]]), dict(view=dict(bbox_2d=[100, 100, 200, 200]))])
def test_a_box_beside_an_answer_is_read(place):
    assert read_answer(json.dumps(dict(answer="42", page=2, **place)))["bbox"] == pytest.approx((.1, .1, .2, .2))
    for bad in (dict(bbox=None), dict(bbox="left"), dict(bbox=[1, 2]), dict(bbox=[5, 5, 5, 5])):
        assert "bbox" not in read_answer(json.dumps(dict(answer="42", **bad)))


def test_pixels_stay_pixels():
    assert check_bbox([10, 20, 32, 64], (64, 64)) == pytest.approx((.15625, .3125, .5, 1))
    assert check_bbox([.1, .2, 1.02, .6], (64, 64)) == pytest.approx((.1, .2, 1, .6))


# --- a place that nobody asked for ---

ROWS = [("Order number:", "PO-77120"), ("Net amount:", "1,840.00 EUR"), ("Total due:", "2,189.60 EUR")]


def order(path):
    "A PDF of two pages, of which the second says what is due"
    canvas = Canvas(str(path), invariant=1)
    canvas.drawString(60, 780, "Terms of delivery")
    canvas.showPage()
    for i, (label, value) in enumerate(ROWS):
        canvas.drawString(60, 740 - 26 * i, label)
        canvas.drawString(330, 740 - 26 * i, value)
    canvas.save()
    return str(path)


def asked(path, capsys, reply, *more):
    "Exit code and result of `cosee ask` at a server that gives one reply, and its requests"
    with FakeServer("openai", answer=lambda body: reply) as server:
        code = main(["ask", path, "-q", "What is the total due?", "--client", "openai", "--base-url", server.base_url,
                     "--model", "m", "--json", "--quiet", *more])
    return code, json.loads(capsys.readouterr().out)[0], server.requests


@pytest.mark.parametrize("method", ["escalate", "require_evidence", "min_confidence", "rules_first",
                                    "rules_first_self_check"])
@pytest.mark.parametrize("reply", ["Answer: 2,189.60 EUR", "2189.60", "Answer: 2,189.60 EUR<|im_end|>",
                                   "Answer: 2,189.60 EUR\nPage: 3", "Page: 99\nAnswer: 2,189.60 EUR"])
def test_an_answer_with_no_page_or_a_wrong_one_is_found_on_those_shown(method, reply, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COSEE_API_KEY", "x")
    code, result, requests = asked(order(tmp_path / "order.pdf"), capsys, reply, "--method", method)
    assert code == 0 and "2189.60" in result["answer"].replace(",", "") and result["page"] == 2
    assert result["evidence"][0]["page"] == 2 and result["evidence"][0]["bbox"] and len(requests) <= 2


def test_an_answer_that_no_page_shows_is_not_given(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COSEE_API_KEY", "x")
    path = order(tmp_path / "order.pdf")
    for made_up in ("Answer: 3,512.40 EUR", "Answer: 3,512.40 EUR\nPage: 3"):
        code, result, _ = asked(path, capsys, made_up, "--method", "require_evidence")
        assert code == 3 and result["answer"] is None and "printed on no page" in result["reason"]
    for none in ("Not found", '{"answer": null}', "The document does not contain this information."):
        code, result, _ = asked(path, capsys, none, "--method", "require_evidence")
        assert code == 3 and result["answer"] is None


@pytest.mark.parametrize("name", ["escalate", "require_evidence", "min_confidence", "self_check"])
def test_a_method_takes_the_place_from_print_where_a_reply_names_none(name, tmp_path):
    pages = load_pages(order(tmp_path / "order.pdf"))
    sample = dict(images=pages, question="How much is owed?", answer=[], meta={})
    out = Method(name).run(sample, ScriptedClient(["Answer: 2,189.60 EUR"], cycle=True))
    assert (out["answer"], out["page"], len(out["evidence"])) == ("2,189.60 EUR", 2, 1) and out["evidence"][0]["bbox"]
