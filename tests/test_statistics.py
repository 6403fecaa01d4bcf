"Statistics against exact answers, against other implementations, and against simulated truth."
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cosee.eval.statistics import (Difference, bootstrap, compare_pair, compare_runs, holm, mcnemar,
                                   permutation_test, smallest_difference, standard_error)

quick = settings(max_examples=60, deadline=None)


def runs(seed, documents=60, better=0.0, noise=0.15):
    "Two runs with five questions a document; the documents differ in how much the first gains."
    rng = np.random.default_rng(seed)
    gain = np.repeat(better + noise * rng.standard_normal(documents), 5)
    b = rng.random(documents * 5)
    return b + gain + 0.1 * rng.standard_normal(documents * 5), b, np.repeat(np.arange(documents), 5)


def test_same_seed_same_numbers():
    a, b, docs = runs(0)
    assert compare_pair(a, b, docs) == compare_pair(a, b, docs)
    assert compare_pair(a, b, docs, seed=1) != compare_pair(a, b, docs)
    assert bootstrap(a, docs) == bootstrap(list(a), [f"doc {d}" for d in docs])


def test_the_order_of_questions_does_not_matter_to_the_estimate():
    a, b, docs = runs(0)
    order = np.random.default_rng(1).permutation(len(a))
    one, other = compare_pair(a, b, docs), compare_pair(a[order], b[order], docs[order])
    assert one.mean == pytest.approx(other.mean) and one.low == pytest.approx(other.low, abs=0.005)


def test_intervals_hold_their_promise():
    """Of 200 intervals at 90 %, about 180 contain the truth; an interval that ignores documents contains it far less
    often."""
    honest = naive = 0
    for seed in range(200):
        a, b, docs = runs(seed, documents=40)
        honest += not compare_pair(a, b, docs, level=.9, n_resamples=500).clear
        naive += not compare_pair(a, b, level=.9, n_resamples=500).clear
    assert 165 <= honest <= 192 and naive < 140


def test_permutation_test_keeps_its_level():
    found = sum(permutation_test(*runs(seed, documents=20), n_resamples=500) <= .1 for seed in range(200))
    assert 8 <= found <= 33


@quick
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_exact_permutations(differences):
    totals = [abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
              for signs in itertools.product((1, -1), repeat=len(differences))]
    exact = sum(t >= abs(sum(differences)) for t in totals) / len(totals)
    assert permutation_test(differences, [0] * len(differences)) == pytest.approx(exact)


def test_standard_error():
    rng = np.random.default_rng(0)
    d = rng.standard_normal(50)
    assert standard_error(d) == pytest.approx(d.std(ddof=1) / 50 ** .5)
    assert standard_error(np.repeat(d, 4), np.repeat(np.arange(50), 4)) == pytest.approx(standard_error(d))
    a, b, docs = runs(3)
    boot = compare_pair(a, b, docs)
    assert (boot.high - boot.low) / (2 * 1.96) == pytest.approx(standard_error(a - b, docs), rel=.1)


def test_power_is_what_is_promised():
    a, b, docs = runs(0, documents=60)
    size = smallest_difference(a, b, docs).difference
    found = sum(compare_pair(*runs(seed, documents=60, better=size), n_resamples=400).p < .05
                for seed in range(1, 101))
    assert 65 <= found <= 95


def test_sentences():
    d = dict(p=.012, n=935, documents=187)
    assert str(Difference(.021, .004, .038, **d)).startswith("A is better by 2.1 points, 95 % interval 0.4 to 3.8, "
                                                             "187 documents")
    assert str(Difference(-.021, -.038, -.004, **d)).startswith("B is better by 2.1 points, 95 % interval 0.4 to 3.8, "
                                                                "187 documents")
    unclear = str(Difference(.003, -.012, .018, **d))
    assert (unclear.startswith("No clear difference, A minus B is 0.3 points, 95 % interval -1.2 to 1.8")
            and unclear.endswith("p = 0.012"))
    assert str(Difference(.021, .004, .038, **d, adjusted=.04)).startswith("A is better by 2.1 points")
    corrected = str(Difference(-.021, -.038, -.004, **d, adjusted=.096))   # one of eight comparisons, say
    assert (corrected.startswith("No clear difference, A minus B is -2.1 points, 95 % interval -3.8 to -0.4")
            and "0.096 after Holm" in corrected)
    assert "too few" in str(bootstrap([0, 1], ["x", "y"])) and "2 questions" in str(bootstrap([0, 1]))


def test_compare_runs():
    a, b, docs = runs(0, better=.1)
    table = compare_runs({"one": a, "two": b, "base": b}, "base", docs)
    assert [d.a for d in table] == ["one", "two"]
    assert [d.adjusted for d in table] == holm([d.p for d in table])
    assert table._repr_markdown_().count("\n") == 3 and "Holm" in str(table[0])


@pytest.mark.parametrize("only_a, only_b", [(0, 0), (0, 1), (3, 3), (1, 9), (12, 40), (700, 801), (3, 2000)])
def test_mcnemar_is_the_exact_test_of_scipy(only_a, only_b):
    from scipy.stats import binomtest
    a, b = [1] * only_a + [0] * only_b + [1], [0] * only_a + [1] * only_b + [1]
    expected = binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1
    assert mcnemar(a, b).p == pytest.approx(expected, rel=1e-9)
