"""Two hundred replies in the forms that models write, served by a server that constrains nothing.

A baseline and an agent of a team get the same replies to the same question over the same wire; both must read the
answer, and the same share of them. What a model only thought, and a draft in it, is never its answer.
"""
import json

import pytest
from fake_servers import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cosee.agents import normalize_action, parse_reply, read_view, team
from cosee.board import Board
from cosee.utils.boxes import check_bbox
from cosee.controller import CoSeeController
from cosee.eval.methods import Method
from cosee.utils.json_scan import find_answer, read_answer, spoken, without_reasoning
from cosee.models.testing import ScriptedClient
from cosee.models.openai_client import OpenAIVLMClient
from cosee.screen.call import read_tool_call, read_tool_calls
from cosee.utils.text import abstains
from cosee.tools.base import parse_tool_call

pytestmark = pytest.mark.slow

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


def test_there_are_two_hundred_replies_of_varied_form():
    assert len(REPLIES) == len({text for *_, text in REPLIES}) == 200 and len(FORMS) == 40


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


def test_team_and_baseline_read_the_same_share(read):
    shares = [sum(r[side]["answer"] == r[1] for r in read) / len(read) for side in (2, 3)]
    missed = [(form, answer, solo["answer"], crew["answer"]) for form, answer, solo, crew in read
              if not solo["answer"] == crew["answer"] == answer]
    assert shares[0] == shares[1] >= .97, missed


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


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["<think>", "</think>", "{", "}", '"', '{"a": 1}', "x", "\n", "Answer: 1",
                                 "\\boxed{"])))
def test_any_mixture_of_tags_is_split(parts):
    text = "".join(parts)
    said, thought = without_reasoning(text)
    assert said in text and len(said) + len(thought) <= len(text)
    assert isinstance(read_answer(text)["answer"], str)


@pytest.mark.parametrize("attack", ["<think>" * 30_000, "</think>{" * 30_000, '{"a": "<think>"}' * 20_000,
                                    "\\boxed{" * 30_000, "answer is " * 20_000, "**" * 90_000, "<answer>" * 20_000,
                                    "answer" + " " * 90_000 + ":", "the answer is " + "a. A" * 20_000])
@pytest.mark.timeout(20)
def test_a_hostile_reply_costs_little_time(attack):
    read_answer(attack), parse_reply(attack), parse_tool_call(attack), abstains(attack)


# --- what is none ---

@pytest.mark.parametrize("text", [
    "Answer: not answerable", "The answer is not answerable.", "The answer is: unanswerable", "\\boxed{unanswerable}",
    "The question cannot be answered from these pages.", '{"answer": "Not answerable"}', "<think>17?</think>", "",
    "This question is not answerable.", "The answer is not given on any page."])
def test_an_abstention_is_one_in_every_form(text):
    assert abstains(read_answer(text)["answer"])


@pytest.mark.parametrize("text", ["none", "N/A", "unknown", "not answerable questions", "0", "no"])
def test_what_may_be_printed_is_an_answer(text):
    assert not abstains(text)


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


def test_pixels_stay_pixels():
    assert check_bbox([10, 20, 32, 64], (64, 64)) == pytest.approx((.15625, .3125, .5, 1))
    assert check_bbox([.1, .2, 1.02, .6], (64, 64)) == pytest.approx((.1, .2, 1, .6))
