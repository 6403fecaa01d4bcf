"""One option gives every method the same budget, and sets its votes, turns and rounds so that it can be spent."""
import pytest

from cosee.cli.entry import main
from cosee.runs.answers import read_answers
from cosee.runs.config import make_config
from cosee.runs.table import Run
from cosee.utils.config import ConfigError

VOTES = ["direct", "self_consistency"]


def spend(folder, *more):
    "Tokens and calls by method of a run from the shell."
    args = ["run", "--dataset", "synthetic", "--limit", "2", "--client", "tiny", "--method", ",".join(VOTES), "--set",
            "gen.max_new_tokens=64", "--output-dir", str(folder), *more]
    assert main(args) == 0
    return {m: (c["tokens"], c["calls"]) for m, c in Run(folder).status().items()}


def test_votes_spend_what_the_shell_allows(tmp_path):
    few, many = spend(tmp_path / "few", "--equal-budget", "2"), spend(tmp_path / "many", "--equal-budget", "9")
    assert few["direct"] == many["direct"] and few["direct"][1] == 2
    # 9 plain calls cover fewer votes that reason first; the usual 3 votes would stop far below
    assert few["self_consistency"][1] < many["self_consistency"][1] and many["self_consistency"][1] > 2 * 3
    assert many["self_consistency"][0] <= 9 * 1.2 * many["direct"][0]
    run = Run(tmp_path / "many")
    assert run.about["config"]["budget"]["equal"] == 9 and {a.budget for a in read_answers([run])} == {"9x"}
    assert spend(tmp_path / "many", "--equal-budget", "9") == many   # the same command goes on


def test_a_file_says_the_same_and_keeps_what_it_names():
    named = dict(name="three", type="self_consistency", num_samples=3)
    config = make_config(dict(budget=dict(equal=4.5), methods=[*VOTES, named, "cosee", "escalate"]))
    votes, team = dict(type="self_consistency", num_samples=5), dict(type="cosee", max_steps=5)
    assert config.methods == ["direct", votes, named, team, "escalate"]
    assert make_config(config.model_dump(mode="json")) == config
    assert make_config(dict(budget=dict(equal=1), methods=VOTES)).methods == VOTES   # a dial is never turned down


@pytest.mark.parametrize("fields, says", [
    (dict(budget=dict(equal=3, max_tokens=9)), "max_tokens and equal say the same twice"),
    (dict(budget=dict(equal=0)), "budget.equal"),
    (dict(budget=dict(equal=3), methods=[dict(type="direct", budget=dict(calls=1))]), "methods.0.budget"),
    (dict(budget=dict(equal=3), methods=["unheard of"]), "unheard of"),
    (dict(budget=dict(equal=3), methods=[7]), "methods.0")])
def test_what_cannot_be_equal_is_named(fields, says):
    with pytest.raises(ConfigError, match=says): make_config(fields)


def test_a_configuration_without_it_reads_as_before():
    assert make_config({}).model_dump(mode="json")["budget"] == dict(max_tokens=None, count="total")
