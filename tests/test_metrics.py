"The official scorers' cases, the quirks they do not cover, and what must hold for any answer."
import json
from pathlib import Path

import pytest
from hypothesis import assume, given, settings, strategies as st

from cosee.utils.boxes import box_iou
from cosee.eval import answer_types as fl
from cosee.eval.statistics import expected_calibration_error
from cosee.eval.metrics import (RunningMetrics, aggregate_metrics, anls, anls_many, exact_match, f1_score,
                                normalize_answer, score, score_many)
from cosee.eval.registry import SCORERS, best_pairs

CASES = [json.loads(line)
         for line in (Path(__file__).parent / "data/metric_cases.jsonl").read_text("utf-8").splitlines()]
MINE = {"rrc_anls": "rrc", "mpdocvqa_framework": "mpdocvqa", "pypi_anls_star_1.0.1": "anls_star", "dude_nlsl": "dude",
        "squad_v2": "squad", "hotpotqa": "hotpotqa", "slidevqa_official": "slidevqa"}
OWN = {"mmlongbench_doc": "mmlongbench", "chartqapro_relaxed": "chartqapro", "docvqa2026_correct": "docvqa2026"}


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['id']}-{c['metric']}")
def test_official_case(case):
    context = {k: case[k] for k in ("question", "answer_format", "year_flag") if k in case}
    flavour = MINE.get(case["impl"]) or OWN[case["metric"]]
    call = lambda name: score(case["pred"], case["golds"], case["metric"], name, **context)
    if isinstance(case["expected"], str):  # "ERROR:IndexError"
        with pytest.raises(Exception) as e: call(flavour)
        assert e.type.__name__ == case["expected"].removeprefix("ERROR:")
    else:
        assert call(flavour) == pytest.approx(case["expected"], abs=1e-6)
        assert call(case["impl"]) == call(flavour)  # the origin's name is an alias


# (prediction, gold, {flavour: ANLS})
ANLS = [
    ("ab", "ax", dict(rrc=.5, mpdocvqa=.5, anls_star=.5)),                      # exactly one half is enough
    ("abc", "axyz", dict(rrc=0, mpdocvqa=0, anls_star=0)),
    ("a\tb\nc", "a b c", dict(rrc=1, mpdocvqa=.6, anls_star=1)),
    ("  abc ", "ABC", dict(rrc=1, mpdocvqa=1, anls_star=1)),
    ("x    ", "y", dict(rrc=.8, mpdocvqa=0, anls_star=0)),                      # divided by the raw length
    ("", "", dict(rrc=1, mpdocvqa=0, anls_star=1)),
    (" ", "", dict(rrc=1, mpdocvqa=0, anls_star=1)),
    ("None", "none", dict(rrc=1, mpdocvqa=0, anls_star=1)),
    ("none", "nonce", dict(rrc=.8, mpdocvqa=0, anls_star=.8)),
    ("ßßß", "ssssss", dict(rrc=0, mpdocvqa=0, anls_star=0)),
    ("ß", "ß", dict(rrc=1, mpdocvqa=1, anls_star=1)),
    ("ßa", "ßb", dict(rrc=1 - 1 / 3, mpdocvqa=.5, anls_star=.5)),               # ß is SS in upper case
    ("İ", "i", dict(rrc=0, mpdocvqa=.5, anls_star=.5)),                         # İ is two letters in lower case
    ("İb", "ib", dict(rrc=.5, mpdocvqa=1 - 1 / 3, anls_star=1 - 1 / 3)),
    ("ﬁx", "fix", dict(rrc=0, mpdocvqa=0, anls_star=0)),
    ("caf\u00e9", "cafe\u0301", dict(rrc=.6, mpdocvqa=.6, anls_star=.6)),       # two ways to write é
    ("１２３", "123", dict(rrc=0, mpdocvqa=0, anls_star=0)),
    (None, "foo", dict(rrc=0, mpdocvqa=0)),
    (5, "5", dict(rrc=1, mpdocvqa=1, anls_star=1)),
    ("ITC", ["ITC Limited", "itc", "itc"], dict(rrc=1, mpdocvqa=1, anls_star=1)),
]


@pytest.mark.parametrize("pred, gold, expected", ANLS, ids=repr)
def test_anls_quirks(pred, gold, expected):
    for flavour, value in expected.items():
        assert anls(pred, gold, flavour) == pytest.approx(value), flavour
        if flavour != "anls_star": assert anls_many([pred], [gold], flavour)[0] == anls(pred, gold, flavour)


# (metric, flavour, prediction, gold, context, score)
QUIRKS = [
    ("em", "squad", "An apple", "apple!", {}, 1),
    ("em", "squad", "", ["the", "x"], {}, 0),                # an empty gold answer counts only when all are empty
    ("em", "squad", "", ["the", "a"], {}, 1),
    ("em", "hotpotqa", "", ["the", "x"], {}, 1),
    ("em", "squad", "a—b", "ab", {}, 0),                     # the dash is no ASCII punctuation
    ("f1", "squad", "athe", "athe the", {}, 1),
    ("f1", "hotpotqa", "yes it is", "yes", {}, 0),
    ("f1", "squad", "yes it is", "yes", {}, .5),
    ("em", "slidevqa", "", "", {}, 0),
    ("em", "slidevqa", "nothing", "no thing", {}, 0),        # "nothing" keeps its first word: itself
    ("em", "slidevqa", "none at all", "none", {}, 1),
    ("em", "slidevqa", "twenty", "20", {}, 0),
    ("em", "slidevqa", "FIVE", "5", {}, 1),
    ("em", "slidevqa", "organisation", "organization", {}, 1),
    ("em", "slidevqa", "cats", "s", {"question": "which cat?"}, 0),
    ("em", "slidevqa", "cat?s", "s", {"question": "which cat?"}, 1),
    ("em", "slidevqa", "5 Dogs", "5", {"question": "how many Dogs?"}, 0),
    ("em", "slidevqa", "5 dogs", "5", {"question": "How many dogs?"}, 0),
    ("accuracy", "mpdocvqa", "none", "none", {}, 0),
    ("accuracy", "mpdocvqa", "none", "x", {"answer_type": "not-answerable"}, 1),
    ("accuracy", "mpdocvqa", " A  b ", ["a  b"], {}, 1),
    ("anls", "mpdocvqa", "none", "x", {"answer_type": "not-answerable"}, 1),
    ("anls", "mpdocvqa", "", "x", {"answer_type": "not-answerable"}, 0),
    ("anls", "dude", [], [], {"answer_type": "not-answerable"}, 1),
    ("anls", "dude", ["first", "second"], "first", {}, 1),
    ("anls", "dude", ["b", "a"], ["a", "b"], {"answer_type": "list/extractive"}, 1),
    ("anls_list", "dude", ["a", "a"], ["a", "a"], {}, 1),
    ("anls_list", "dude", ["a", "a", "a"], ["a", "b"], {}, 1 / 3),
    ("anls_list", "dude", ["x"], [], {}, 0),
    ("anls_list", "anls_star", ["a"], ["a", "a"], {}, .5),
    ("answer_page_accuracy", "mpdocvqa", "0", [0], {}, 0),
    ("answer_page_accuracy", "mpdocvqa", None, 0, {}, 0),
    ("answer_page_accuracy", "mpdocvqa", 2, 2, {}, 1),
    ("evidence_em", "slidevqa", [], [], {}, 0),
    ("evidence_em", "hotpotqa", [1, 2, 2], [2, 1], {}, 1),
    ("evidence_f1", "slidevqa", ["3"], [3], {}, 0),
    ("joint_f1", "hotpotqa", {"answer": "a b", "evidence_pages": [1]}, {"answer": "b", "evidence_pages": [1]}, {}, 1),
    ("mmlongbench_doc", "mmlongbench", "5.9", "5", {"answer_format": "Int"}, 1),
    ("mmlongbench_doc", "mmlongbench", "inf", "5", {"answer_format": "Int"}, 0),
    ("mmlongbench_doc", "mmlongbench", "9.05", "9.1", {"answer_format": "Float"}, 1),
    ("mmlongbench_doc", "mmlongbench", "nan", "9.1", {"answer_format": "Float"}, 0),
    ("mmlongbench_doc", "mmlongbench", "(about) $5%", "5", {"answer_format": "Str"}, 1),
    ("mmlongbench_doc", "mmlongbench", "abcd", "abxy", {"answer_format": "Str"}, 0),  # one half is not enough here
    ("mmlongbench_doc", "mmlongbench", "page 12", "page 11", {"answer_format": "Str"}, 0),
    ("mmlongbench_doc", "mmlongbench", "['b', 'a']", ["a", "b"], {"answer_format": "List"}, 1),
    ("mmlongbench_doc", "mmlongbench", "apple", "apple", {"answer_format": "List"}, 1),
    ("chartqapro_relaxed", "chartqapro", "105", "100", {"year_flag": "NO"}, 1),
    ("chartqapro_relaxed", "chartqapro", "105.1", "100", {"year_flag": "NO"}, 0),
    ("chartqapro_relaxed", "chartqapro", "105", "100", {"year_flag": "yes"}, 0),
    ("chartqapro_relaxed", "chartqapro", "abcd", "abxy", {}, 0),                       # nor here
    ("chartqapro_relaxed", "chartqapro", "['Blue','Red']", "[Blue, Red]", {}, 1),
    ("chartqapro_relaxed", "chartqapro", "['NewYork', '3']", "[New York, 3]", {}, 1),
    ("chartqapro_relaxed", "chartqapro", "[2019, 5]", "[2019, 5.2]", {"year_flag": ["YES", "NO"]}, 1),
    ("chartqapro_relaxed", "chartqapro", "[]", "[]", {}, 1),
    ("docvqa2026_correct", "docvqa2026", "FINAL ANSWER: x\nFINAL ANSWER: 27.0 km", "27 km", {}, 1),
    ("docvqa2026_correct", "docvqa2026", "FINAL ANSWER: 27 KM", "27 km", {}, 1),
    ("docvqa2026_correct", "docvqa2026", "FINAL ANSWER: 27 miles", "27 km", {}, 0),
    ("docvqa2026_correct", "docvqa2026", "FINAL ANSWER: Jan 1st, 2024", "2024-01-01", {}, 1),
    ("docvqa2026_correct", "docvqa2026", "FINAL ANSWER: 1.2.3", "1.2.30", {}, 0),
    ("docvqa2026_correct", "docvqa2026", "FINAL ANSWER: the Wareham-Inc", "wareham inc", {}, 1),
    ("docvqa2026_correct", "docvqa2026", "FINAL ANSWER:", "", {}, 1),
    ("docvqa2026_correct", "docvqa2026", None, "x", {}, 0),
    ("anls_star", "anls_star", {"a": "x", "b": None}, {"a": "x"}, {}, .5),              # made-up keys count
    ("anls_star", "anls_star", {"a": "x"}, {"a": "x", "b": None}, {}, 1),
    ("anls_star", "anls_star", True, "true", {}, 1),
    ("anls_star", "anls_star", [], None, {}, 1),
    ("anls_star", "anls_star", None, [], {}, 0),
    ("anls_star", "anls_star", "b", ["a", "b"], {}, 1),
    ("anls_star", "anls_star", ["b", "a"], (["a"], ["a", "b"]), {}, 1),
]


@pytest.mark.parametrize("metric, flavour, pred, gold, context, expected", QUIRKS, ids=repr)
def test_quirks(metric, flavour, pred, gold, context, expected):
    assert score(pred, gold, metric, flavour, **context) == pytest.approx(expected)


@pytest.mark.parametrize("call, names", [
    (lambda: score("a", "a", "bleu"), ["unknown metric 'bleu'", "anls_star", "docvqa2026_correct"]),
    (lambda: score("a", "a", "em", "dude"), ["no flavour 'dude'", "squad", "anls_list"]),
    (lambda: score("a", "a", flavour="klingon"), ["no flavour 'klingon'", "mpdocvqa"]),
    (lambda: score("a", []), ["no gold answer"]),
    (lambda: score("[1", "[1, 2]", "mmlongbench_doc", answer_format="List"), ["not a list"]),
    (lambda: score("1", "five", "mmlongbench_doc", answer_format="Float"), ["no number", "five"]),
    (lambda: score("x", [], "anls_star"), ["at least one"]),
    (lambda: normalize_answer("a", "klingon"), ["unknown flavour", "slidevqa"]),
    (lambda: anls_many(["a"], ["a"], "squad"), ["no fast path", "rrc"]),
    (lambda: anls_many(["a", "b"], ["a"]), ["2 predictions for 1"]),
    (lambda: box_iou((0, 0, 1), (0, 0, 1, 1)), ["four numbers"]),
    (lambda: box_iou((0, 0, float("nan"), 1), (0, 0, 1, 1)), ["finite"]),
    (lambda: expected_calibration_error([.5], [1], scheme="odd"), ["equal-mass", "equal-width"]),
    (lambda: expected_calibration_error([.5, .6], [1]), ["one confidence for each"]),
])
def test_value_errors(call, names):
    with pytest.raises(ValueError) as e: call()
    assert all(name in str(e.value) for name in names)


@pytest.mark.parametrize("call, names", [
    (lambda: score(["a"], "a"), ["must be text", "list"]),
    (lambda: score("a", "a", qestion="?"), ["qestion", "question"]),
    (lambda: score(3, [3], "evidence_f1", "slidevqa"), ["list of pages"]),
    (lambda: score("a", "a", "joint_em", "slidevqa"), ["'answer'", "'evidence_pages'"]),
])
def test_type_errors(call, names):
    with pytest.raises(TypeError) as e: call()
    assert all(name in str(e.value) for name in names)


def test_nothing_is_evaluated(tmp_path):
    there = tmp_path / "evaluated"
    for text in (f"[open({str(there)!r}, 'w')]", f"[__import__('pathlib').Path({str(there)!r}).touch()]"):
        for metric, context in (("mmlongbench_doc", {"answer_format": "List"}), ("chartqapro_relaxed", {}),
                                ("docvqa2026_correct", {})):
            score_many([text, "FINAL ANSWER: x"], ["[1]", text], metric, contexts=[context] * 2, on_error=0)
    assert not there.exists()


@pytest.mark.parametrize("metric", ["mmlongbench_doc", "chartqapro_relaxed", "docvqa2026_correct", "anls_star"])
def test_deep_nesting_is_survived(metric):
    text, tree = "[" * 100_000 + "]" * 100_000, []
    for _ in range(100_000): tree = [tree]
    contexts = [{"answer_format": "List"}] * 2
    assert all(0 <= s <= 1 for s in score_many([text, tree], [["[1]"], ["x"]], metric, contexts=contexts, on_error=0))


def test_failures_are_listed():
    scores = score_many(["1", "x", "2"], ["1", "five", "2"], "mmlongbench_doc",
                        contexts=[{"answer_format": "Float"}] * 3, on_error=0)
    assert list(scores) == [1, 0, 1] and list(scores.failed) == [1] and "five" in scores.failed[1]
    assert scores.n == 3 and scores.mean == pytest.approx(2 / 3) and "1 not scorable" in repr(scores)


def test_aggregate_is_the_mean_of_its_samples():
    preds, golds = ["Paris", "Rom", ""], [["paris"], "Rome", ["x", "y"]]
    result = aggregate_metrics(preds, golds)
    assert set(result) == {"em", "f1", "anls"} and result.n == 3
    for metric, f in (("em", exact_match), ("f1", f1_score), ("anls", anls)):
        each = [f(p, g) for p, g in zip(preds, golds, strict=True)]
        assert list(result.per_sample[metric]) == each and result[metric] == pytest.approx(sum(each) / 3)
    tally = RunningMetrics()
    for i, (p, g) in enumerate(zip(preds, golds, strict=True)): tally.add(p, g, group=f"kind {i % 2}")
    assert tally.result() == result and tally.result("kind 0").n == 2


def test_mmlongbench_f1():
    na = fl.UNANSWERABLE
    assert (fl.mmlongbench_f1([1, .5, 0, 1], ["a", "b", "c", na], ["a", "x", na, na])
            == pytest.approx(2 * .5 * .75 / 1.25))
    assert fl.mmlongbench_f1([1], [na], [na]) == 0


# What must hold for any answer

odd = st.sampled_from(["ß", "İ", "ŉ", "ﬁ", "é", "e\u0301", "😀", "\u00a0", "\u2028", "５", "none", "the", "yes", "No",
                       "[1, 2]",
                       "Five", "which", "%", "$", "1,000", "3.5", "2024-01-01", "(x)", "'"])
texts = st.lists(st.one_of(odd, st.text(max_size=5)), max_size=4).map(" ".join)
several = st.lists(texts, min_size=1, max_size=4)
quick = settings(max_examples=120, deadline=None)
TEXT_SCORERS = [("anls", "rrc"), ("anls", "mpdocvqa"), ("anls", "dude"), ("anls", "anls_star"), ("em", "squad"),
                ("f1", "squad"),
                ("em", "hotpotqa"), ("f1", "hotpotqa"), ("em", "slidevqa"), ("f1", "slidevqa"),
                ("accuracy", "mpdocvqa"),
                ("accuracy", "chartqapro"), ("accuracy", "docvqa2026"), ("chartqapro_relaxed", "chartqapro")]


@quick
@given(texts, several)
def test_range_order_and_best(pred, golds):
    for metric, flavour in TEXT_SCORERS:
        best = score(pred, golds, metric, flavour)
        assert 0 <= best <= 1
        assert score(pred, golds[::-1], metric, flavour) == best == score(pred, golds * 2, metric, flavour)
        # a numeric gold answer forbids text for all of them
        if (metric, flavour) == ("accuracy", "docvqa2026"): continue
        if flavour == "squad": continue  # an empty gold answer counts only beside other empty ones
        assert best == max(score(pred, g, metric, flavour) for g in golds)


@quick
@given(texts)
def test_an_answer_equals_itself(text):
    assert anls(text, text) == exact_match(text, text) == f1_score(text, text) == 1
    assert score(f"FINAL ANSWER: {text}", text, "docvqa2026_correct") in (0, 1)
    assert normalize_answer(normalize_answer(text)) == normalize_answer(text)


@quick
@given(st.lists(st.tuples(texts, several), max_size=8), st.sampled_from(["rrc", "mpdocvqa"]),
       st.sampled_from([0, .3, .5, .9, 1]))
def test_the_fast_path_changes_no_score(pairs, flavour, threshold):
    preds, golds = [p for p, _ in pairs], [g for _, g in pairs]
    assert anls_many(preds, golds, flavour, threshold).tolist() == [anls(p, g, flavour, threshold=threshold)
                                                                    for p, g in pairs]


@quick
@given(several, several)
def test_lists(pred, gold):
    for flavour in ("dude", "anls_star"):
        value = score(pred, gold, "anls_list", flavour)
        assert 0 <= value <= 1
        assert score(pred[::-1], gold[::-1], "anls_list", flavour) == pytest.approx(value)
    assert score(gold, gold, "anls_list", "anls_star") == score(gold, gold, "anls_list", "dude") == 1


trees = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(0, 3), texts), lambda t: st.one_of(
    st.lists(t, max_size=3), st.dictionaries(st.sampled_from("pqr"), t, max_size=3)), max_leaves=6)


@quick
@given(trees, trees)
def test_trees(pred, gold):
    assume(not (gold == [] and isinstance(pred, str)))  # the one meaningless pair: a text beside no alternative
    assert 0 <= score(pred, gold, "anls_star") <= 1
    assert score(gold, (gold, "something else"), "anls_star") == 1


@quick
@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.lists(st.floats(-1, 1), min_size=n, max_size=n), min_size=1,
                                                    max_size=7)))
def test_best_pairs_are_as_good_as_those_of_scipy(gains):
    from scipy.optimize import linear_sum_assignment
    pairs, (rows, columns) = best_pairs(gains), linear_sum_assignment(gains, maximize=True)
    best = sum(gains[i][j] for i, j in zip(rows, columns, strict=True))
    assert sum(gains[i][j] for i, j in pairs) == pytest.approx(best)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs) == len(rows)


LONG = 100_000  # letters: whatever is quadratic in them would take minutes


@pytest.mark.slow
@pytest.mark.parametrize("text", [" " * LONG + "x", "a" + " " * LONG + "b", "(" * LONG, "x" * LONG,
                                  "1" * LONG + "\nx\ny", "1," * LONG, "[" + "a " * LONG + "]",
                                  "{" * LONG, "the " * LONG, "'" * LONG, "1-" * LONG, "a@" + "a." * LONG],
                         ids=lambda t: t[:3].strip())
def test_long_answers_are_scored(text):
    for metric, names in SCORERS.items():
        if metric.startswith(("joint", "evidence")): continue
        for flavour in names:
            contexts = [{"answer_format": f} for f in ("Str", "Int", "Float",
                                                       "List")] if flavour == "mmlongbench" else [{}]
            n = len(contexts)
            scores = score_many([f"FINAL ANSWER: {text}" if "2026" in flavour else text] * n, ["12 (about)"] * n,
                                metric, flavour, contexts, on_error=0)
            assert all(0 <= s <= 1 for s in scores)
