"""Baselines against replies that nobody would write on purpose, and the account that they all pay into."""
import math

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from cosee.agents import CrossCheckerAgent, DetailReaderAgent, ScannerAgent
from cosee.eval.baselines import match_budget, multi_agent_chat_no_board, self_consistency, single_agent_cot
from cosee.policies import DIRECT_PROMPT, METHODS, Method, vote
from cosee.budgets import Task, seed_of, shrink_pages, stochastic_rounding
from cosee.models.usage import Ledger
from cosee.models.testing import ScriptedClient
from cosee.screen.call import ToolCall, format_tool_call
from cosee.utils.json_scan import read_answer

PAGE = Image.new("RGB", (620, 877), "white")
SAMPLE = {"images": [PAGE, PAGE], "question": "What is the total?", "meta": {"id": "q1"}}
GUESS = {"action": "HYPOTHESIZE", "answer": "12", "content": "the total row", "confidence": .4, "view": {"page": 1}}
STEP = format_tool_call(ToolCall("answer", text="12"))
ANY = {"JSON": [GUESS], "total": ["Page: 2\nConfidence: 0.6\nAnswer: 12"], "with one tool, `computer`": [STEP]}


@pytest.mark.parametrize("text, answer", [
    ("Answer: 12", "12"), ("answer : 12", "12"), ("**Answer**: 12", "12"), ("Reason.\n\n**Final answer: 12**", "12"),
    ("Answer: a\nAnswer: b", "b"),
    ("> Answer: x: y", "x: y"), ("The answer is 12.", "12"), ("12\n\n", "12"), ("Answer:", ""),
    ("Answer: \"7 kg\"", "7 kg"),
    ("ANSWER： 12", "12"), ("No answer: it is blank\n3", "3")])
def test_answers_are_read_from_the_last_line_that_names_one(text, answer):
    assert read_answer(text)["answer"] == answer


@pytest.mark.parametrize("text, sure", [("Confidence: 0.8", .8), ("confidence: 80%", .8), ("**Confidence:** 85", .85),
                                        ("Confidence: 1", 1.),
                                        ("Confidence: high", .9), ("Confidence: 900", None), ("", None)])
def test_confidence_is_a_number_or_none(text, sure):
    assert read_answer(text)["confidence"] == (sure if sure is None else pytest.approx(sure))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400))
def test_any_reply_is_read(text):
    found = read_answer(text)
    assert isinstance(found["answer"], str) and (found["confidence"] is None or 0 <= found["confidence"] <= 1)
    out = Method("cot").run(SAMPLE, ScriptedClient([text]))
    assert out["page"] in (None, 1, 2)


@given(st.lists(st.tuples(st.sampled_from(["1", "1.", " 2", "2", ""]), st.sampled_from([None, .2, .9])),
                min_size=1, max_size=7))
def test_a_vote_elects_an_answer_that_most_gave(given_answers):
    readings = [{"answer": a, "page": None, "confidence": c} for a, c in given_answers]
    won, keys = vote(readings), [a.strip(" .") for a, _ in given_answers]
    real = [k for k in keys if k] or keys
    assert real.count(won["answer"].strip(" .")) == max(map(real.count, real))
    assert 0 < won["confidence"] <= 1


def test_votes_take_samples_with_different_seeds_in_one_batch():
    client, batches = ScriptedClient(ANY, cycle=True), []
    inner = client.send_many
    client.send_many = lambda batch: batches.append(len(batch)) or inner(batch)
    assert self_consistency(client, [PAGE], "What is the total?", num_samples=4) == "12"
    assert batches == [4] and len({c["seed"] for c in client.calls}) == 4
    assert all(c["temperature"] > 0 for c in client.calls)


def test_generation_settings_of_the_caller_win():
    client = ScriptedClient(["Answer: 1"], cycle=True)
    single_agent_cot(client, [PAGE], "Q?", max_new_tokens=99, gen_kwargs={"temperature": .5, "top_k": 3})
    assert (client.calls[0]["max_new_tokens"], client.calls[0]["temperature"], client.calls[0]["top_k"]) == (99, .5, 3)


def test_a_conversation_is_heard_by_all_and_nobody_speaks_for_others():
    client = ScriptedClient(["It is 5.\nAnswer: 5", "cross_checker: I take it back\nAnswer: 6", "No, 5.\nAnswer: 5"],
                            cycle=True)
    team = [ScannerAgent(client), DetailReaderAgent(client), CrossCheckerAgent(client)]
    assert multi_agent_chat_no_board(team, [PAGE], "How many?", max_turns=2) == "5"
    heard = [c["messages"][0]["content"][-1]["text"] for c in client.calls]
    assert "scanner: It is 5. Answer: 5\n" in heard[1] and "\ncross_checker: I take it back" not in heard[2]
    assert len(client.calls) == 6 and '"action"' not in heard[0]


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
    assert out["answer"] in (told(name), "") and (out["answer"] or "budget" in out["stopped"])


def test_a_model_that_answers_nobody_is_a_failure_and_not_an_empty_answer():
    down = ScriptedClient([ConnectionError("down")], cycle=True)
    for name in ("direct", "self_consistency", "chat", "cosee_base"):
        with pytest.raises((ConnectionError, RuntimeError), match="down"): Method(name).run(SAMPLE, down)
    out = Method("cosee_base").run(SAMPLE, ScriptedClient([ConnectionError("down"), GUESS, GUESS], cycle=True))
    assert out["raised"] == 1 and out["answer"] == "12"


def test_pages_shrink_no_further_than_they_can_be_read():
    small = shrink_pages([Image.new("RGB", (1000, 2000))], .5)
    assert small[0].size == (500, 1000)
    with pytest.raises(ValueError, match="smaller"): shrink_pages([PAGE], .2)


def test_seeds_depend_on_their_parts_alone():
    assert seed_of(0, "a", "b") == seed_of("0", "a", "b") != seed_of(0, "ab", "") and 0 <= seed_of("x") < 2 ** 31
    assert math.isclose(sum(stochastic_rounding(2.25, s) for s in range(4000)) / 4000, 2.25, abs_tol=.03)


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
