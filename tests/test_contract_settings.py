"""What a configuration says is what runs, or the run is refused before its first question with the field named."""
import json

import pytest
from PIL import Image

from cosee.cli.entry import main
from cosee.utils.config import ConfigError
from cosee.eval.baselines import match_budget
from cosee.policies import Method, build_team, make_method
from cosee.eval.metrics import exact_match, f1_score
from cosee.experiments import run_experiment
from cosee.models.testing import ScriptedClient
from cosee.runs.config import make_config, metrics_of

SAMPLE = dict(images=[Image.new("RGB", (64, 64), "white")], question="How much?", answer="3.4", meta={})
GUESS = dict(action="HYPOTHESIZE", view=dict(page=1), content="There.", answer="3.4", confidence=.5)
MADE = dict(name="made", limit=2, options=dict(kinds=["invoice"], dpi=30, pages=1))


def client(): return ScriptedClient([lambda messages: "Answer: 3.4"], cycle=True)


@pytest.mark.parametrize("method", ["direct", "cot", "self_consistency", "chat"])
def test_a_method_s_own_setting_beats_the_general_one(method):
    asked = client()
    Method(method, max_new_tokens=300).run(SAMPLE, asked, gen=dict(max_new_tokens=9, temperature=.3))
    assert {(c["max_new_tokens"], c["temperature"]) for c in asked.calls} == {(300, .3)}
    asked = client()
    Method(method).run(SAMPLE, asked, gen=dict(max_new_tokens=9))
    assert {c["max_new_tokens"] for c in asked.calls} == {9}


def sent(policy, **gen):
    asked = ScriptedClient([GUESS], cycle=True)
    Method("cosee", **policy).run(SAMPLE, asked, gen=gen)
    return [(c["max_new_tokens"], c["temperature"]) for c in asked.calls]


def test_a_team_takes_the_length_of_replies_from_a_run_and_temperatures_from_its_own_settings():
    usual = [c[1] for c in sent(dict(max_steps=1))]
    assert sent(dict(max_steps=1), max_new_tokens=99, temperature=.9) == [(99, t) for t in usual]
    named = dict(max_steps=1, agreement=3, default_gen_kwargs=dict(temperature=.4),
                 per_agent_gen_kwargs=dict(scanner=dict(temperature=.6, max_new_tokens=77)))
    assert sent(named, max_new_tokens=99)[:2] == [(77, .6), (99, .4)]
    own = dict(name="reader", duty="Read.", gen=dict(temperature=.8))
    assert sent(dict(agents=[own], max_steps=1)) == [(320, .8)]


def test_two_names_of_one_length_do_not_meet_in_a_team():
    own = dict(max_steps=1, default_gen_kwargs=dict(max_tokens=88),
               per_agent_gen_kwargs=dict(scanner=dict(max_tokens=66)))
    assert [n for n, _ in sent(own, max_new_tokens=300)][:2] == [66, 88]
    asked = ScriptedClient([GUESS], cycle=True)
    Method("cosee", max_steps=1, default_gen_kwargs=dict(seed=7)).run(SAMPLE, asked, gen=dict(stop=["x"]))
    assert {(c["seed"], tuple(c["stop"])) for c in asked.calls} == {(7, ("x",))}


def test_error_notes_and_reasons_are_settings_of_a_team():
    def run(**settings):
        asked = ScriptedClient(["no action", GUESS], cycle=True)
        return Method("cosee", agents=["scanner", "detail_reader"], max_steps=1, **settings).run(SAMPLE, asked)
    told, plain = run(error_cells=True, because=False), run()
    assert [c["tags"] for c in told["board"]["cells"]][0] == ["error"] and not told["trace"]["because"]
    assert len(plain["board"]["cells"]) == 1 and plain["trace"]["because"]


def test_a_chat_ends_with_the_majority_or_with_the_last_word():
    def ask(**settings):
        replies = [f"I read it.\nAnswer: {a}" for a in ("12", "12", "15")]
        return Method("chat", max_turns=1, **settings).run(SAMPLE, ScriptedClient(replies))["answer"]
    assert (ask(), ask(final="last")) == ("12", "15")


def test_settings_of_a_call_beat_those_of_a_baseline():
    from cosee.eval.baselines import self_consistency, single_agent_cot
    for baseline in (single_agent_cot, self_consistency):
        asked = client()
        baseline(asked, SAMPLE["images"], "How much?", max_new_tokens=300, gen_kwargs=dict(max_tokens=9))
        assert {c["max_new_tokens"] for c in asked.calls} == {9}


def test_a_matched_method_keeps_what_is_its_own():
    method = Method("self_consistency", max_new_tokens=40).changed(num_samples=2)
    assert method.own == dict(max_new_tokens=40, num_samples=2)
    found = match_budget("self_consistency", "cot", [SAMPLE], client())
    assert set(found.method.own) == {"num_samples"}


WRONG = [
    (dict(type="cosee", agents=["scaner"]), r"methods\.0\.agents: .*scaner"),
    (dict(type="cosee", agents=[]), r"methods\.0\.agents"),
    (dict(type="cosee", agents="scanner"), r"methods\.0\.agents"),
    (dict(type="chat", agents=[dict(name="a")]), r"methods\.0\.agents: .*needs a name and a duty"),
    (dict(type="cosee", agents=[dict(name="a", duty="x")] * 2), r"methods\.0\.agents: .*two agents are called 'a'"),
    (dict(type="cosee", order="sequentially"), r"methods\.0\.order: .*'sequential', 'parallel' or 'blind'"),
    (dict(type="cosee", per_agent_gen_kwargs=dict(scaner={})), r"methods\.0\.per_agent_gen_kwargs: .*'scaner'"),
    (dict(type="cosee", default_gen_kwargs=dict(temperature=-1)), r"methods\.0\.default_gen_kwargs: .*temperature"),
    (dict(type="cosee", agents=[dict(name="a", duty="x", gen=dict(top_p=3))]),
     r"methods\.0\.agents: .*'a', gen: top_p"),
    (dict(type="cosee", max_steps=0), r"methods\.0\.max_steps: .*greater than or equal to 1"),
    (dict(type="cosee", max_steps="3"), r"methods\.0\.max_steps: .*valid number, not '3'"),
    (dict(type="cosee", max_steps=True), r"methods\.0\.max_steps"),
    (dict(type="cosee", agreement=0), r"methods\.0\.agreement: .*greater than or equal to 1"),
    (dict(type="cosee", stop_confidence=float("nan")), r"methods\.0\.stop_confidence: .*finite"),
    (dict(type="cosee", focus="nowhere"), r"methods\.0\.focus: .*nowhere"),
    (dict(type="cosee", num_agents=0), r"methods\.0\.num_agents"),
    (dict(type="escalate", max_steps=0), r"methods\.0\.max_steps"), (dict(type="direct", k=0), r"methods\.0\.k"),
    (dict(type="chat", thoughts="yes"), r"methods\.0\.thoughts: .*boolean"),
    (dict(type="self_consistency", num_samples=0), r"methods\.0\.num_samples"),
    (dict(type="cosee_tools", max_calls=0), r"methods\.0\.max_calls"),
    (dict(type="cot", max_new_tokens=0), r"methods\.0\.max_new_tokens"),
    *[(dict(type="cosee", **{name: 10 ** 400}), rf"methods\.0\.{name}")
      for name in ("max_steps", "agreement", "max_new_tokens")],
    (dict(type="escalate", min_confidence=1.5), r"methods\.0\.min_confidence: .*less than or equal to 1"),
    (dict(type="escalate", min_confidence=-.1), r"methods\.0\.min_confidence: .*greater than or equal to 0"),
    (dict(type="escalate", accept=["luck"]), r"methods\.0\.accept: .*require_evidence"),
    (dict(type="escalate", otherwise="pray"), r"methods\.0\.otherwise"),
    (dict(type="escalate", team="direct"), r"team"), (dict(type="weighted"), r"no method 'weighted'"),
    (dict(type="escalate", agents=["nobody"]), r"methods\.0\.agents: .*nobody")]


@pytest.mark.parametrize("entry, says", WRONG, ids=[str(w[0])[:60] for w in WRONG])
def test_a_setting_that_cannot_be_is_named_before_the_first_question(entry, says, tmp_path):
    asked = client()
    with pytest.raises(ConfigError, match=says):
        run_experiment(dict(dataset=MADE, methods=[entry]), tmp_path / "run", client=asked)
    assert not asked.calls and not (tmp_path / "run").exists()


def test_the_number_of_agents_is_a_setting():
    names = [a.name for a in build_team(None, ("scanner", "detail_reader"), 5)]
    assert names == ["scanner", "detail_reader", "scanner_2", "detail_reader_2", "scanner_3"]
    own = [a.name for a in build_team(None, [dict(name="a", duty="Read.")], 3)]
    assert own == ["a", "a_2", "a_3"]
    for n in (1, 4):
        asked = ScriptedClient([GUESS], cycle=True)
        entry = dict(type="cosee", agents=["detail_reader"], num_agents=n, max_steps=1, agreement=9,
                     stop_confidence=1.1)
        make_method(entry).run(SAMPLE, asked)
        assert len(asked.calls) == n


# --- figures ---

@pytest.mark.slow
def test_metrics_stand_in_what_a_run_prints_and_records_say_who_is_right(tmp_path, capsys):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(dict(dataset=MADE, client="ocr", methods=["direct"])))
    assert main(["run", str(path), "--output-dir", str(tmp_path / "run"), "--json", "--quiet"]) == 0
    shown = json.loads(capsys.readouterr().out)["methods"]["direct"]
    records = [json.loads(line) for line in (tmp_path / "run/records.jsonl").read_text().splitlines()]
    assert set(shown["metrics"]) == {"anls", "em", "f1"} and shown["ok"] == 2
    assert shown["metrics"]["anls"] == pytest.approx(sum(r["scores"]["anls"] for r in records) / 2)
    assert [r["right"] for r in records] == [r["scores"]["anls"] >= .5 for r in records]


@pytest.mark.parametrize("name", ["mpdocvqa", "slidevqa", "made"])
def test_em_f1_and_anls_are_all_there(name):
    metrics = metrics_of(make_config(dict(dataset=name)))
    assert set(metrics) == {"em", "f1", "anls"} and "squad" not in metrics.values()


@pytest.mark.parametrize("pred, gold, same", [
    ("3.4", "34", 0), ("3.4", "3.4", 1), ("-5", "5", 0), (".5", "5", 0), ("1/2", "12", 0), ("12:30", "1230", 0),
    ("1,250", "1250", 1), ("$1,250.00", "1250.00", 1), ("The Eiffel Tower.", "eiffel tower", 1), ("45%", "45", 1),
    ("12-03-2019", "12032019", 0), ("self-made", "selfmade", 1), ("", "", 1), ("the", "", 0), ("a", "", 0),
    ("a", "A.", 1), ("a", "b", 0)])
def test_the_usual_em_knows_a_number_from_another(pred, gold, same):
    assert exact_match(pred, gold) == exact_match(gold, pred) == same
    assert f1_score(pred, gold) == same
