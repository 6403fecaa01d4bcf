"""Baselines against replies that nobody would write on purpose, and the account that they all pay into."""

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from cosee.eval.baselines import match_budget
from cosee.agents import DIRECT_PROMPT
from cosee.budgets import NOT_ASKED
from cosee.policies import METHODS, Method
from cosee.budgets import Task
from cosee.models.usage import Ledger
from cosee.models.testing import ScriptedClient
from cosee.screen.call import ToolCall, format_tool_call

PAGE = Image.new("RGB", (620, 877), "white")
SAMPLE = {"images": [PAGE, PAGE], "question": "What is the total?", "meta": {"id": "q1"}}
GUESS = {"action": "HYPOTHESIZE", "answer": "12", "content": "the total row", "confidence": .4, "view": {"page": 1}}
STEP = format_tool_call(ToolCall("answer", text="12"))
ANY = {"JSON": [GUESS], "total": ["Page: 2\nConfidence: 0.6\nAnswer: 12"], "with one tool, `computer`": [STEP]}


UNSURE = "min_confidence", "rules_first", "rules_first_self_check"   # no answer that is unlikely; the page is blank
def told(name): return "not answerable" if name in UNSURE else "12"


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_books_what_its_client_spent(name):
    client, ledger = ScriptedClient(ANY, cycle=True), Ledger()
    out = Method(name).run(SAMPLE, client, ledger, seed=7)
    assert out["answer"] == told(name) and len(ledger) == len(client.calls) == out["usage"]["calls"] > 0
    assert out["usage"]["total_tokens"] == ledger.spent and out["raised"] == 0


@pytest.mark.parametrize("name", list(METHODS))
def test_the_same_seed_gives_the_same_outcome(name):
    from cosee.runs.log import without_times
    one, two = (without_times(Method(name).run(SAMPLE, ScriptedClient(ANY, cycle=True), seed=3)) for _ in range(2))
    assert one == two


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(METHODS)), st.integers(1, 9000), st.sampled_from(["total", "uncached", "output"]))
def test_no_budget_is_overdrawn(name, tokens, count):
    ledger = Ledger(tokens, count)
    out = Method(name).run(SAMPLE, ScriptedClient(ANY, cycle=True), ledger)
    assert ledger.spent <= tokens
    assert out["answer"] in (told(name), "") and (out["answer"] or out["stopped"].startswith(NOT_ASKED))


def test_a_model_that_answers_nobody_is_a_failure_and_not_an_empty_answer():
    down = ScriptedClient([ConnectionError("down")], cycle=True)
    for name in ("direct", "self_consistency", "chat", "cosee_base"):
        with pytest.raises((ConnectionError, RuntimeError), match="down"): Method(name).run(SAMPLE, down)
    out = Method("cosee_base").run(SAMPLE, ScriptedClient([ConnectionError("down"), GUESS, GUESS], cycle=True))
    assert out["raised"] == 1 and out["answer"] == "12"


@pytest.mark.parametrize("of", ["cosee_base", "cosee_expanded", "chat"])
@pytest.mark.parametrize("count", ["total", "output"])
def test_budgets_are_matched_within_five_percent(of, count):
    samples = [{**SAMPLE, "meta": {"id": f"q{i}"}} for i in range(24)]
    client = ScriptedClient({"JSON": [{**GUESS, "answer": str(i)} for i in range(7)],
                             "total": ["Page: 2\nConfidence: 0.6\nAnswer: 12"]}, cycle=True)
    found = match_budget("self_consistency", of, samples, client, seed=5, count=count)
    assert abs(found.off) < .05


def test_a_match_that_cannot_be_made_says_so():
    with pytest.raises(ValueError, match="at its cheapest"):
        match_budget("chat", "direct", [SAMPLE], ScriptedClient(ANY, cycle=True))


def test_votes_are_not_spent_on_one_look_at_all_pages():
    pages = [Image.new("L", (200, 280), 255) for _ in range(20)]
    asked = dict(images=pages, question="What is due?")
    votes = Method("self_consistency", num_samples=3, reasons=False, max_new_tokens=64)
    client = ScriptedClient(["Answer: 1"], cycle=True)
    all_once = Task(pages, asked["question"], client, Ledger(10**9)).look("all").price(DIRECT_PROMPT)
    out = votes.run(asked, client, Ledger(all_once + 200))
    assert out["usage"]["calls"] == 3 and len(out["shown"]) < len(pages), out["stopped"]
    out = votes.run(asked, client, Ledger(3 * all_once))
    assert out["usage"]["calls"] == 3 and len(out["shown"]) == len(pages), out["stopped"]


def test_no_budget_is_matched_where_no_model_is_asked():
    from cosee.eval.baselines import match_budget
    from cosee.models.reader_client import OcrClient
    sample = dict(images=[PAGE], question="What is the total?", answer=["1"], meta={})
    with pytest.raises(ValueError, match="spends no tokens with this client"):
        match_budget("self_consistency", of="direct", samples=[sample], client=OcrClient())
