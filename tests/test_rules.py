"""Teams with rules of their own, and gates before a team: what counts, what it costs, and how it is decided again."""
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cosee.utils.config import ConfigError
from cosee.controller import noted, replay
from cosee.eval.methods import Method, make_method
from cosee.experiments import run_experiment
from cosee.models.text_client import TextClient
from cosee.models.usage import Ledger
from cosee.models.testing import ScriptedClient
from cosee.models.reader_client import OcrClient
from cosee.text.ocr import TextExtractor
from cosee.text.layout import typed_page
from cosee.rules.checks import LineChecker, quoting
from cosee.rules.proofs import PROVED, Prints
from cosee.rules.team import Rules, TeamController
from cosee.rules.votes import cast_votes, rank_votes, shares
from cosee.runs.config import make_config
from cosee.runs.table import replay_record

RECEIPT = """
        CORNER SHOP LTD
12 High Street
Bread      2     3.40
TOTAL            8.00
PAID            10.00
"""
TYPED = {100: typed_page(RECEIPT), 200: typed_page("Thank you, and come back on 12 May 2021.")}


class Typed(TextExtractor):
    "Knows pages by the width of their image, and counts those that it reads"
    count = 0

    def read(self, items, text_source=None):
        self.count += len(items)
        return [TYPED[im.width] for im in items]


WORDS = Typed()
PAGES = [Image.new("RGB", (w, 150), "white") for w in (100, 200)]
ASKED = dict(images=PAGES, question="How much is the total?")
TEAMS = ("blind", "weighted", "verified", "dissent", "split")
GATES = ("gate_confidence", "gate_agreement", "gate_evidence")


class Knows(ScriptedClient):
    "Says what is written for it, and has a reader of the print"
    words = WORDS


def says(answer, sure=.6, page=1, content="", **more):
    return dict(action="HYPOTHESIZE", answer=answer, content=content, view=dict(page=page), confidence=sure, **more)


def revises(target, answer, content, sure=.8, page=1):
    return dict(action="REVISE", target_cell_id=target, answer=answer, content=content, view=dict(page=page),
                confidence=sure)


def first(answer, sure, page=1): return f"Page: {page}\nConfidence: {sure}\nAnswer: {answer}"


NOTE = dict(action="INSPECT", content="The totals", view=dict(page=1), tags=["table"])
PAIR = dict(agents=["detail_reader", "cross_checker"], max_steps=1)


def run(method, *replies, ledger=None, sample=ASKED): return method.run(sample, Knows([*replies]), ledger)


def again(out): return replay(json.loads(json.dumps(out["trace"])))


# --- votes and proofs ---

ANSWERS = st.sampled_from(["8.00", "10.00", "99.10", "not answerable"])


@given(st.lists(st.tuples(st.sampled_from("abc"), ANSWERS, st.floats(0, 1)), max_size=6), st.floats(0, 1))
def test_votes_are_one_for_each_author_and_a_proved_answer_beats_all_who_abstain(said, unproved):
    proposals = [dict(author=a, answer=x, confidence=c, cell=i) for i, (a, x, c) in enumerate(said)]
    proofs = {h["cell"]: "page" if h["answer"] in ("8.00", "10.00") else "" for h in proposals}
    votes, ranked = cast_votes(proposals, proofs, unproved), rank_votes(proposals, proofs, unproved)
    assert len(votes) == len(ranked) == len({a for a, _, _ in said})
    assert sum(shares(votes).values()) <= 1.000001 and all(0 <= h["confidence"] <= 1 for h in ranked)
    if any(v["proof"] in PROVED for v in votes): assert ranked[0]["answer"] != "not answerable"


def test_without_weight_nothing_counts_that_is_not_printed():
    proposals = [dict(author=a, answer=x, confidence=.9, cell=i)
                 for i, (a, x) in enumerate([("a", "99.10"), ("b", "99.10"), ("c", "8.00")])]
    for unproved, won in ((0., "8.00"), (.4, "8.00"), (1., "99.10")):
        assert rank_votes(proposals, {2: "box"}, unproved)[0]["answer"] == won


def test_a_page_is_read_once_and_only_if_it_is_named():
    words = Typed()
    prints = Prints(PAGES, words)
    assert [prints.stands(a, 1).how for a in ("8.00", "8,00", "9.99", "TOTAL 8.00")] == ["page", "page", "", "page"]
    assert prints.stands("8.00", 9).how == "unread" and words.count == 1


# --- teams ---

def test_in_a_blind_step_nobody_is_shown_the_board_and_later_everybody_is():
    model = Knows([says("8.00"), says("99.10"), says("10.00"), NOTE, says("8.00"), says("8.00")])
    out = Method("blind", max_steps=2, stop="never").run(ASKED, model)
    texts = [json.dumps(c["messages"][0]["content"], default=str) for c in model.calls]
    assert ["Shared board" in t for t in texts] == [False] * 3 + [True] * 3
    assert all('"action": "INSPECT"' not in t and "REVISE" not in t for t in texts[:3])
    assert [f["answer"] for f in out["did"]["first"]] == ["8.00", "99.10", "10.00"]
    assert all(f["blind"] for f in out["did"]["first"])
    assert [f["proof"] for f in out["did"]["first"]] == ["page", "", "page"] and out["answer"] == "8.00"


@pytest.mark.parametrize("decide, won", [("confidence", "99.10"), ("votes", "99.10"), ("evidence", "8.00")])
def test_how_a_blind_team_decides_is_a_setting(decide, won):
    method = Method("blind", decide=decide, unproved=.2, max_steps=1)
    out = run(method, says("99.10", .95), says("99.10", .5), says("8.00", .4))
    assert out["answer"] == won and again(out)["answer"] == won and out["did"]["decided"]["by"] == decide


def test_confidence_ends_an_episode_only_with_a_proof_that_nobody_disputes():
    sure = [says("99.10", .99), says("99.10", .99)]
    assert run(Method("weighted", **{**PAIR, "max_steps": 2}), *sure, *sure)["steps"] == 2
    assert run(Method("weighted", **{**PAIR, "max_steps": 2}), says("8.00", .95), says("99.10", .99))["steps"] == 1
    disputed = [says("8.00", .95), says("10.00", .95)]
    assert run(Method("weighted", **{**PAIR, "max_steps": 2}), *disputed, *disputed)["steps"] == 2
    assert run(Method("weighted", **{**PAIR, "max_steps": 2}, stop="usual"), *sure)["steps"] == 1


def test_a_team_that_disagrees_does_not_state_the_confidence_of_one():
    out = run(Method("weighted", max_steps=1), NOTE, says("8.00", .95), says("10.00", .9))
    assert out["confidence"] == pytest.approx(.475) and out["did"]["decided"]["share"] == .5


CORRECTIONS = [("TOTAL 8.00", "8.00", "quote", "replaced"), ("The reader took the wrong row", "8.00", "", "ignored"),
               ("TOTAL 8.00", "99.10", "", "ignored"), ("PAID 10.00", "8.00", "", "ignored"),
               ("nothing says so", "not answerable", "abstains", "ignored")]


@pytest.mark.parametrize("content, answer, proof, effect", CORRECTIONS)
def test_a_correction_counts_where_its_line_stands_and_holds_the_answer(content, answer, proof, effect):
    out = run(Method("verified", max_steps=1, quotes="words"), NOTE, says("10.00", .95), revises(2, answer, content))
    (check,) = out["did"]["checks"]
    assert (check["proof"], check["effect"], check["target"], check["cell"]) == (proof, effect, 2, 3)
    assert out["answer"] == again(out)["answer"] == (answer if effect == "replaced" else "10.00")


def test_a_proved_refutation_takes_the_votes_of_all_who_agreed():
    readers = ["detail_reader", "detail_reader", "cross_checker"]
    out = run(Method("verified", agents=readers, max_steps=1, stop="never"), says("10.00"), says("10.00"),
              revises(1, "8.00", "TOTAL 8.00", .3))
    assert out["answer"] == "8.00" and [v["agent"] for v in out["did"]["votes"]] == ["cross_checker"]


def test_to_abstain_counts_against_an_answer_that_stands_nowhere():
    out = run(Method("verified", max_steps=1), NOTE, says("99.10", .9), revises(2, "not answerable", "no such line"))
    assert out["answer"] == "not answerable" and out["did"]["checks"][0]["effect"] == "replaced"


def test_who_may_correct_has_to_quote_once():
    from cosee.agents import team
    crew = quoting(quoting(team(ScriptedClient([]))))
    assert [type(a).__name__ for a in crew] == ["ScannerAgent", "DetailReaderAgent", "LineChecker"]
    assert crew[2].role_prompt.count("letter by letter and nothing else") == 1
    own = make_method(dict(type="verified", agents=[dict(name="judge", duty="Judge.", actions=["REVISE"])]))
    model = Knows([revises(1, "8.00", "TOTAL 8.00")] * 2)
    own.run(ASKED, model)
    assert "letter by letter and nothing else" in json.dumps(model.calls[0]["messages"][0]["content"], default=str)
    assert isinstance(TeamController(crew, rules=Rules(checks="lines")).agents[2], LineChecker)


def test_a_note_by_hand_goes_before_all_votes():
    out = run(Method("weighted", max_steps=1), NOTE, says("8.00", .95), says("8.00", .9))
    mine = noted(out["trace"], dict(action="HYPOTHESIZE", answer="10.00", view=dict(page=1)))
    assert mine["answer"] == "10.00" and replay(json.loads(json.dumps(mine["trace"])))["answer"] == "10.00"


def test_a_trace_with_forged_proofs_is_not_trusted():
    out = run(Method("weighted", max_steps=1), NOTE, says("99.10", .99), says("8.00", .4))
    assert out["answer"] == again(out)["answer"] == "8.00" and again(out)["confidence"] == out["confidence"]
    forged = {**out["trace"], "decided": dict(cell=2, confidence=.9)}
    with pytest.raises(ValueError, match="leads to '99.10'"): replay(forged)
    assert decided_again(out["trace"]) == "8.00"
    assert decided_again({**out["trace"], "proofs": {"2": "box", "3": ""}}) == "99.10"


def decided_again(trace):
    "What the rules of a trace lead to with its proofs, without a page"
    proofs = {int(cell): how for cell, how in trace["proofs"].items()}
    episode = replay(json.loads(json.dumps(trace)))
    return TeamController([], rules=Rules(**trace["config"]["rules"]), proofs=proofs).decide_final_answer(
        episode["hypotheses"], episode["board"])


# --- gates ---

def gate(by, **more): return Method(f"gate_{by}", team=dict(type="blind", **PAIR), **more)


@pytest.mark.parametrize("method, replies, reason", [
    (gate("confidence"), [first("8.00", .9)], ""), (gate("confidence"), [first("8.00", .69)], "confidence 0.69"),
    (gate("confidence", curve=[[0, 0], [1, .5]]), [first("8.00", .9)], "confidence 0.45"),
    (gate("confidence"), ["Answer: 8.00"], "no confidence"),
    (gate("confidence"), [first("not answerable", .9)], "abstains"),
    (gate("confidence", abstained="trust"), [first("not answerable", .1)], ""),
    (gate("agreement", second="sample"), [first("8.00", .1), first("8.00.", .1)], ""),
    (gate("agreement", second="prompt"), [first("8.00", .9), "Answer: 10.00"], "disagree"),
    (gate("agreement", second="sample"), [first("not answerable", .1)] * 2, ""),
    (gate("evidence"), [first("8.00", .1)], ""), (gate("evidence"), ["Answer: 8.00"], ""),
    (gate("evidence"), [first("8.00", .9, 2)], "not printed on page 2"),
    (gate("evidence"), ["Answer: 99.10"], "any page")], ids=str)
def test_a_team_is_asked_where_there_is_a_reason_to_doubt(method, replies, reason):
    model = Knows([*replies, says("10.00"), says("10.00")])
    out = method.run(ASKED, model)
    told = out["did"]["gate"]
    assert told["fired"] == bool(reason) and reason in told["reason"] and told["calls"] == len(replies)
    assert len(model.calls) == len(replies) + 2 * told["fired"] == out["usage"]["calls"]
    assert (out["answer"] == "10.00") == told["fired"] and not told["kept"]
    assert ("votes" in out["did"]) == told["fired"] and json.loads(json.dumps(out)) is not None


def test_the_second_call_is_shown_fewer_pages():
    model = Knows([first("8.00", .9)] * 2)
    out = gate("agreement").run(dict(images=PAGES * 2, question="What is the total?"), model)
    shown = [len([b for b in c["messages"][0]["content"] if b["type"] == "image"]) for c in model.calls]
    assert shown == [4, 2] and not out["did"]["gate"]["fired"] and out["did"]["gate"]["second"]["answer"] == "8.00"


@settings(max_examples=40)
@given(st.sampled_from(GATES), st.integers(200, 6000), st.sampled_from(["total", "uncached", "output"]))
def test_a_gate_and_its_team_stay_within_one_budget(name, tokens, count):
    ledger = Ledger(tokens, count)
    model = Knows({"JSON": [says("10.00")], "total": [first("99.10", .2), first("9.10", .2)]}, cycle=True)
    out = Method(name).run(ASKED, model, ledger)
    assert ledger.spent <= tokens and (out["answer"] or "budget" in out["stopped"])
    if out["answer"]: assert out["did"]["gate"]["tokens"] <= tokens


def test_the_first_answer_stays_where_the_team_has_none():
    out = run(gate("confidence"), first("8.00", .2), NOTE, NOTE)
    assert out["answer"] == "8.00" and out["did"]["gate"]["kept"] and out["did"]["gate"]["fired"]
    assert again(out)["answer"] == ""   # the team's own episode


def test_any_method_may_stand_behind_a_gate():
    for team, replies in (("direct", ["Answer: 10.00"]), (dict(type="gate_confidence", team="direct"),
                                                          [first("3", .1), "Answer: 10.00"])):
        out = run(Method("gate_confidence", team=team), first("8.00", .2), *replies)
        assert out["answer"] == "10.00" and len(out["trace"]["calls"]) == out["usage"]["calls"] == 1 + len(replies)


# --- in a configuration, on every client, in records ---

EXAMPLES = ["blind", "weighted", dict(name="v", type="verified", max_steps=2, quotes="words"),
            dict(type="gate_confidence", team="weighted", min_confidence=.7),
            dict(type="gate_agreement", team="blind", second="pages"),
            dict(type="gate_evidence", team=dict(type="verified", max_steps=2)),
            dict(name="blind_weighted", type="blind", decide="evidence", unproved=.5, order="parallel")]


def test_every_mixture_is_a_method_in_a_configuration():
    assert len(make_config(dict(methods=EXAMPLES)).methods) == len(EXAMPLES)


WRONG = [(dict(type="weighted", unproved=1.5), r"methods\.0\.unproved: .*at most 1"),
         (dict(type="weighted", unproved=-.1), r"methods\.0\.unproved: .*at least 0"),
         (dict(type="blind", decide="loudest"), r"methods\.0\.decide: .*'evidence'"),
         (dict(type="blind", first="last"), r"methods\.0\.first"),
         (dict(type="verified", quotes=3), r"methods\.0\.quotes"),
         (dict(type="gate_confidence", team="nobody"), r"methods\.0\.team: .*nobody"),
         (dict(type="gate_confidence", team=dict(type="blind", steps=3)), r"methods\.0\.team: .*steps"),
         (dict(type="gate_confidence", team=dict(type="blind", budget=dict(calls=3))), r"methods\.0\.team: .*budget"),
         (dict(type="gate_confidence", min_confidence=-1), r"methods\.0\.min_confidence"),
         (dict(type="gate_confidence", curve=[[.5, .9], [.9, .1]]), r"methods\.0\.curve: .*rising"),
         (dict(type="gate_agreement", second="twice"), r"methods\.0\.second")]


@pytest.mark.parametrize("entry, says", WRONG, ids=str)
def test_a_rule_that_cannot_be_is_named(entry, says):
    with pytest.raises(ConfigError, match=says): make_config(dict(methods=[entry]))


@pytest.fixture(scope="module")
def random_mind(tmp_path_factory):
    pytest.importorskip("xllamacpp")
    from cosee.models.testing import random_gguf
    from cosee.models.gguf_client import GgufClient
    return GgufClient(random_gguf(tmp_path_factory.mktemp("mind") / "tiny.gguf"), threads=1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    pytest.importorskip("torch")
    from cosee.models.testing import random_checkpoint
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    return QwenVLClient(random_checkpoint(tmp_path_factory.mktemp("qwen")))


def outcomes(client, names=(*TEAMS, *GATES), **gen):
    "Every method on one question, each decided again from its trace"
    for name in names:
        out = Method(name).run(ASKED, client, seed=3, gen=gen)
        again_out = json.loads(json.dumps(out))
        assert again_out["did"] and out["usage"]["calls"] > 0, name
        if "events" in out["trace"] and not out["did"].get("gate", {}).get("kept"):
            assert again(out)["answer"] == out["answer"], name
            if out["answer"]: assert decided_again(out["trace"]) == out["answer"], name
        yield name, out


def test_the_rule_reader_proves_what_it_copies():
    for name, out in outcomes(OcrClient(words=WORDS)):
        proofs = [v["proof"] for v in out["did"].get("votes", [])]
        known = {"box", "page", *(["abstains"] if name == "split" else [])}   # its second agent reads the other page
        assert out["answer"] == "8.00" and set(proofs) <= known, (name, out["answer"], proofs)


@pytest.mark.slow
def test_a_language_model_that_reads_print_can_be_any_of_them(random_mind):
    for _, out in outcomes(TextClient(random_mind, words=WORDS), temperature=1.5, max_new_tokens=400):
        assert all(v["proof"] in ("", *PROVED, "abstains") for v in out["did"].get("votes", []))


@pytest.mark.slow
def test_a_model_that_sees_pixels_can_be_any_of_them(tiny):
    for name, out in outcomes(tiny, max_new_tokens=70): assert out["stopped"], name


@pytest.mark.slow
def test_records_keep_what_the_rules_did_and_each_method_its_budget(tmp_path):
    made = dict(name="made", limit=2, options=dict(kinds=["invoice"], dpi=60, pages=1))
    methods = [{**(e if isinstance(e, dict) else dict(type=e)), "budget": dict(calls=3)} for e in EXAMPLES]
    for trace in (True, False):
        run = run_experiment(dict(dataset=made, methods=methods, trace=trace), tmp_path / str(trace),
                             client=OcrClient())
        records = list(run)
        assert len(records) == 2 * len(EXAMPLES) and all(r["status"] == "ok" for r in records)
        assert all(r["meta"]["did"] and r["meta"]["kind"] for r in records)
        for r in records if trace else ():
            told = replay_record(r)
            if hasattr(told, "get"): assert told["answer"] == r["answer"]


# --- dissent and shares ---

def test_only_its_author_takes_an_answer_back_and_both_sides_are_read():
    wrong = revises(1, "99.10", "No.", .9)
    model = Knows([says("8.00", .5), wrong, says("8.00", .5), says("99.10", .9)])
    out = Method("dissent", **{**PAIR, "max_steps": 2}).run(ASKED, model)
    (kept,) = out["did"]["dissent"]
    assert out["answer"] == again(out)["answer"] == "8.00" and kept["answer"] == "99.10" and kept["cell"] == 2
    board = json.dumps(model.calls[2]["messages"][0]["content"], default=str)
    assert "cross_checker disagrees with the others: 99.10 (#2)" in board and "detail_reader, step 1) 8.00" in board
    assert out["usage"]["calls"] == 4 and out["steps"] == 2


def test_nothing_is_kept_where_all_agree():
    out = run(Method("dissent", **{**PAIR, "max_steps": 2}), says("8.00"), says("8.00"))
    assert out["did"]["dissent"] == [] and len(out["board"]["cells"]) == 2 and out["steps"] == 1


def test_each_agent_is_shown_its_share_and_then_what_the_board_names():
    none, found = says("not answerable"), says("8.00", .5, page=5)
    model = Knows([none, none, found, NOTE, found, found])
    out = Method("split", stop="never").run(dict(images=PAGES * 3, question="What is the total?"), model)
    turns = [e["shown"] for e in out["trace"]["events"]]
    assert turns[:3] == [[1, 2], [3, 4], [5, 6]] == list(out["did"]["pages"].values())
    assert all(5 in shown and len(shown) <= 2 for shown in turns[3:]) and out["answer"] == "8.00"
    sent = [sum(b["type"] == "image" for b in c["messages"][0]["content"]) for c in model.calls]
    assert sent == [len(shown) for shown in turns]


def test_shares_cost_a_third_of_the_same_pages_and_fit_where_these_do_not():
    big, asked = [Image.new("RGB", (620, 877), "white")] * 6, dict(question="What is the total?")
    spent = {}
    for name in ("blind", "split"):
        out = Method(name, max_steps=1, read=False).run(dict(images=big, **asked), ScriptedClient([says("8.00")] * 3))
        spent[name] = out["trace"]["ledger"]["total"]["image_tokens"]
    assert spent["split"] * 3 == spent["blind"]
