"""No method is silent where a plain call was affordable, no budget is overdrawn, and who was not asked says so."""
import json
from functools import cache
from importlib.resources import files

import pytest
from cosee import samples_dir
from cosee.agents import DIRECT_TOKENS, LAST_TURN, team
from cosee.board import Board
from cosee.budgets import DIRECT, NOT_ASKED, Task
from cosee.controller import CoSeeController, add_note, replay
from cosee.models.client import Reply, message_blocks, prompt_text
from cosee.models.testing import ScriptedClient
from cosee.models.usage import Ledger, Usage, image_tokens
from cosee.pages import load_pages
from cosee.policies import METHODS, make_method, register_method
from cosee.utils.text import NOT_ANSWERABLE
from tokenizers import BertWordPieceTokenizer, Tokenizer

PLAIN = [*(name for name in METHODS if name != "screen"), dict(name="parallel", type="cosee", order="parallel")]
BUDGETS = 1, 1.5, 2, 3, 9   # plain calls
LOOKS = dict(action="INSPECT", view=dict(page=1), content="Table of the items, with a row for each of them.", tags=[])
FINDS = dict(action="HYPOTHESIZE", view=dict(page=1), content="Row Total.", answer="12", supporting_cells=[],
             confidence=.97)
TALKS = "Let me see. " * 40   # no action, and longer than any reply may be


@cache
def tokenizer(kind):
    if kind == "tiny": return Tokenizer.from_file(str(files("cosee") / "data/tiny/tokenizer.json"))
    return BertWordPieceTokenizer(str(files("cosee") / "data/wordpiece.txt"))


class Counted(ScriptedClient):
    "Replies from a script, counted and cut by a real tokenizer"
    def __init__(self, kind, action, plain="Answer: 12"):
        written = action if isinstance(action, str) else json.dumps(action)
        super().__init__({"JSON": [written], "right or missing": ["right"], "": [plain]}, cycle=True)
        self.tokens = tokenizer(kind)

    def count(self, text): return len(self.tokens.encode(text).ids)

    def estimate(self, request):
        sent = self.render(request).messages
        images = sum(image_tokens(*im.size) for im in message_blocks(sent, "image"))
        return Usage(text_tokens=self.count(prompt_text(sent)), image_tokens=images, estimated=True)

    def send(self, messages, schema=None, **settings):
        reply, most = super().send(messages, schema, **settings), settings["max_new_tokens"]
        ids = self.tokens.encode(reply.text).ids
        text, cut = (reply.text, False) if len(ids) <= most else (reply.text[:most], True)
        images = sum(image_tokens(*im.size) for im in message_blocks(messages, "image"))
        usage = Usage(text_tokens=self.count(prompt_text(messages)), image_tokens=images,
                      completion_tokens=min(most, len(ids)))
        return Reply(text=text, usage=usage, finish_reason="length" if cut else "stop")


@cache
def questions():
    "Questions about the packaged documents: of one page, of several, and one without an answer"
    lines = [json.loads(line) for line in (samples_dir() / "questions.jsonl").read_text().splitlines()]
    some = [next(q for q in lines if q["file"] == name) for name in ("invoice.pdf", "report.pdf", "slides.pdf")]
    return [dict(images=load_pages(samples_dir() / q["file"]), question=q["question"], answer=q["answer"], meta={})
            for q in some]


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("kind", ["tiny", "words"])
@pytest.mark.parametrize("method", PLAIN, ids=lambda m: m if isinstance(m, str) else m["name"])
def test_no_method_is_silent_where_a_plain_call_was_affordable(method, kind, whole):
    method = make_method(method)
    for sample in questions()[:None if whole else 1]:
        for action in (LOOKS, FINDS, TALKS):
            for calls in BUDGETS if whole else (1, 3):
                client = Counted(kind, action)
                looks = {k: v for k, v in method.settings.items() if k in ("focus", "k")}
                task = Task(list(sample["images"]), sample["question"], client).look(**looks)
                ledger = Ledger(int(calls * task.price(DIRECT, DIRECT_TOKENS)))
                out = method.run(sample, client, ledger, seed=3)
                where = method.name, sample["question"], str(action)[:30], calls, out["stopped"]
                assert out["answer"], where
                assert ledger.spent <= ledger.max_tokens and ledger.kept == 0, where


@pytest.mark.parametrize("method", ["direct", "cot", "self_consistency", "chat", "cosee_base", "cosee_tools", "blind",
                                    "cosee_pages", "cosee_plan", "self_check", "escalate"])
def test_who_was_not_asked_says_so(method):
    client, sample = Counted("words", FINDS), questions()[0]
    out = make_method(method).run(sample, client, Ledger(40), seed=3)
    assert out["answer"] == "" and out["stopped"].startswith(NOT_ASKED) and not client.calls


def test_a_policy_of_ones_own_keeps_its_answer_back_in_one_line():
    @register_method("spendthrift")
    def spendthrift(task):
        task.keep_answer()
        while True: task.ask("Describe the page.", max_new_tokens=200)
    try:
        client = Counted("words", FINDS)
        budget = 4 * Task(list(questions()[0]["images"]), "Q?", client).price(DIRECT, DIRECT_TOKENS)
        out = make_method("spendthrift").run(questions()[0], client, Ledger(budget))
        assert (out["answer"], out["trace"]["fallback"]) == ("12", True) and out["stopped"].startswith("budget")
        assert len(client.calls) > 2 and out["usage"]["total_tokens"] <= budget
    finally: METHODS.pop("spendthrift")


# --- the controller alone ---

PAGES = [None, None]


def silent(*more): return ScriptedClient([LOOKS, LOOKS, LOOKS, *more])


def test_the_best_guess_is_asked_for_where_nobody_proposed_an_answer():
    client = silent("Page: 2\nConfidence: 0.4\nAnswer: 12 EUR")
    episode = CoSeeController(team(client), max_steps=1).run(PAGES, "How much?")
    assert (episode["answer"], episode["page"], episode["confidence"], episode["hypotheses"]) == ("12 EUR", 2, .4, [])
    assert len(episode["board"]) == 3 and len(client.calls) == 4 and episode["stopped"] == "max_steps"
    trace = json.loads(json.dumps(episode["trace"]))
    assert trace["fallback"] and trace["guess"]["board"] and trace["ledger"]["total"]["calls"] == 4
    assert LOOKS["content"] in prompt_text(client.calls[-1]["messages"])   # it is told the Board
    again = replay(trace)
    assert (again["answer"], again["page"], again["confidence"]) == ("12 EUR", 2, .4)
    mine = add_note(trace, dict(action="HYPOTHESIZE", content="Here.", answer="13 EUR", view=dict(page=1)))
    assert mine["answer"] == replay(mine["trace"])["answer"] == "13 EUR" and "fallback" not in mine["trace"]
    seen = add_note(trace, dict(action="INSPECT", content="A stamp.", view=dict(page=1)))
    assert seen["answer"] == "12 EUR" and seen["trace"]["fallback"]


def test_no_guess_where_none_is_wanted_or_possible():
    def run(client, **kwargs): return CoSeeController(team(client), max_steps=1, **kwargs).run(PAGES, "How much?")
    assert run(silent(), guess=False)["answer"] == ""
    assert run(silent("{}"))["answer"] == ""                         # a reply that is no answer
    assert run(silent(f"Answer: {NOT_ANSWERABLE}"))["answer"] == NOT_ANSWERABLE
    failed = run(silent(ConnectionError("away")))
    assert failed["answer"] == "" and "away" in failed["trace"]["guess"]["error"] and "fallback" not in failed["trace"]
    found = ScriptedClient([LOOKS, FINDS, FINDS])
    assert run(found)["answer"] == "12" and len(found.calls) == 3    # as many calls as without a guess
    class Own(CoSeeController):
        def decide_final_answer(self, hypotheses, board): return ""
    client = silent()
    assert Own(team(client), max_steps=1).run(PAGES, "How much?")["answer"] == "" and len(client.calls) == 3


def test_an_answer_that_was_refused_is_not_guessed_again():
    client = ScriptedClient([FINDS, FINDS, FINDS])
    first = CoSeeController(team(client), max_steps=1).run(PAGES, "How much?")
    refused = add_note(first["trace"], dict(action="REVISE", target_cell_id=1, content="No."))["trace"]["events"]
    again = silent("Answer: 12")
    assert CoSeeController(team(again), max_steps=1).run(PAGES, "How much?", earlier=refused)["answer"] == ""


def test_the_last_turn_knows_that_it_is_the_last():
    def told(order, steps):
        client = ScriptedClient([LOOKS] * 20 + ["Answer: 5"], cycle=True)
        CoSeeController(team(client), max_steps=steps, order=order).run(PAGES, "How much?")
        return [i for i, call in enumerate(client.calls) if LAST_TURN in prompt_text(call["messages"])]
    assert told("sequential", 2) == [5] and told("parallel", 2) == [4, 5] and told("sequential", 1) == [2]


def test_a_turn_gets_what_is_left_and_then_the_question_is_asked_alone():
    client = Counted("words", LOOKS)
    crew, page = team(client), questions()[0]["images"]
    turn = client.estimate(crew[0].request(list(page), "How much?", Board())).total_tokens
    plain = Task(list(page), "How much?", client).price(DIRECT, DIRECT_TOKENS)
    episode = CoSeeController(crew, max_steps=1).run(page, "How much?", ledger=Ledger(turn + 150 + plain))
    events = episode["trace"]["events"]
    assert [(e["agent"], e.get("shortened")) for e in events] == [("scanner", True)]
    assert 120 <= client.calls[0]["max_new_tokens"] <= 150 and episode["trace"]["fallback"]
    assert events[0]["valid"] and episode["answer"] == "12" and episode["stopped"].startswith("budget")


def test_fewer_agents_act_where_not_all_are_covered():
    client = Counted("words", LOOKS)
    crew, page = team(client), questions()[0]["images"]
    turn = client.estimate(crew[2].request(list(page), "How much?", Board())).total_tokens
    plain = Task(list(page), "How much?", client).price(DIRECT, DIRECT_TOKENS)
    episode = CoSeeController(crew, 1, order="parallel").run(page, "How much?", ledger=Ledger(2 * turn + 330 + plain))
    assert [e["agent"] for e in episode["trace"]["events"]] == ["detail_reader", "cross_checker"]
    assert episode["trace"]["left_out"] == ["scanner"] and episode["answer"] == "12"
