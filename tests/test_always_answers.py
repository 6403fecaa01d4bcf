"""No method is silent where a plain call was affordable, no budget is overdrawn, and who was not asked says so."""
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from always_answers import BUDGETS, CALLS, FINDS, LOOKS, NAMED, TALKS, Counted, answer, questions
from cosee.agents import DIRECT_TOKENS, LAST_TURN, team
from cosee.board import Board
from cosee.budgets import DIRECT, NOT_ASKED, Task
from cosee.cascade import Cascade
from cosee.controller import CoSeeController, add_note, replay
from cosee.models.client import prompt_text
from cosee.models.testing import ScriptedClient
from cosee.models.usage import Ledger
from cosee.policies import METHODS, make_method, register_method
from cosee.utils.text import NOT_ANSWERABLE


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("kind", ["tiny", "words"])
@pytest.mark.parametrize("method", NAMED, ids=lambda m: m if isinstance(m, str) else m["name"])
def test_no_method_is_silent_where_a_plain_call_was_affordable(method, kind, whole):
    method = make_method(method)
    for sample in questions()[:None if whole else 1]:
        for action in (LOOKS, FINDS, TALKS, CALLS):
            for calls in (*BUDGETS, 12) if whole else (1, 3, 12):
                out, ledger = answer(method, sample, Counted(kind, action), calls)
                where = method.name, sample["question"], str(action)[:30], calls, out["stopped"]
                assert out["answer"], where
                assert ledger.spent <= ledger.max_tokens and ledger.kept == 0, where


@pytest.mark.parametrize("method", ["direct", "cot", "self_consistency", "chat", "cosee_base", "blind", "escalate"])
def test_settings_of_a_run_make_nobody_silent(method):
    sample, gen = questions()[0], dict(max_new_tokens=400)
    client = Counted("words", LOOKS)
    ledger = Ledger(Task(list(sample["images"]), sample["question"], client).price(DIRECT, DIRECT_TOKENS))
    out = make_method(method).run(sample, client, ledger, 3, gen)
    assert out["answer"] and ledger.spent <= ledger.max_tokens


@pytest.mark.parametrize("method", ["direct", "cot", "self_consistency", "chat", "cosee_base", "cosee_tools", "blind",
                                    "cosee_pages", "cosee_plan", "self_check", "escalate"])
def test_who_was_not_asked_says_so(method):
    client, sample = Counted("words", FINDS), questions()[0]
    out = make_method(method).run(sample, client, Ledger(40), seed=3)
    assert out["answer"] == "" and out["stopped"].startswith(NOT_ASKED) and not client.calls


CHECKED = [name for name, entry in METHODS.items() if entry.kind is Cascade and "otherwise" not in entry.settings]


@pytest.mark.parametrize("method", ["direct", *CHECKED])
def test_a_plain_call_that_said_nothing_is_not_made_again(method):
    client = ScriptedClient([""], cycle=True)
    out = make_method(method).run(questions()[0], client, seed=3)
    assert out["answer"] == "" and len(client.calls) == 1 == out["usage"]["calls"]


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


def test_a_team_of_which_nobody_could_act_says_who_was_left_out():
    sample, client = questions()[0], ScriptedClient(["Answer: 12"])
    plain = Task(list(sample["images"]), sample["question"], client).price(DIRECT, DIRECT_TOKENS)
    out = make_method(dict(type="cosee", agents=["cross_checker"])).run(sample, client, Ledger(plain + 20))
    assert (out["answer"], out["trace"]["fallback"], out["trace"]["left_out"]) == ("12", True, ["cross_checker"])


def test_fewer_agents_act_where_not_all_are_covered():
    client = Counted("words", LOOKS)
    crew, page = team(client), questions()[0]["images"]
    turn = client.estimate(crew[2].request(list(page), "How much?", Board())).total_tokens
    plain = Task(list(page), "How much?", client).price(DIRECT, DIRECT_TOKENS)
    episode = CoSeeController(crew, 1, order="parallel").run(page, "How much?", ledger=Ledger(2 * turn + 330 + plain))
    assert [e["agent"] for e in episode["trace"]["events"]] == ["detail_reader", "cross_checker"]
    assert episode["trace"]["left_out"] == ["scanner"] and episode["answer"] == "12"
