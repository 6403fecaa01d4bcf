"""An episode is declared once: whatever method gave it, it is kept as plain data, checked, and built again; a record
of any version is read the same way, and what is none is refused by the name of the field."""
import json

import cosee
import pytest
from cosee.controller import replay
from cosee.episode import Episode, EpisodeFields, find_fault, proposals_of, withhold
from cosee.models.testing import ScriptedClient
from cosee.policies import METHODS, Method
from cosee.runs.log import Record, record_fault
from cosee.runs.pack import read_pack

QUESTION = "How much is the subtotal?"
PROPOSAL = dict(action="HYPOTHESIZE", answer="36,871.72 USD", content="The subtotal.", confidence=.8,
                view=dict(page=1, bbox=[.5, .5, .9, .6]))
CORRECTION = dict(action="REVISE", answer="36,871.73 USD", content="The row above.", target_cell_id=1, confidence=.95)


def as_json(value): return json.loads(json.dumps(value, allow_nan=False))


def talker():
    "Says a note to agents, and a line to whoever asks plainly."
    return ScriptedClient([lambda messages: json.dumps(PROPOSAL) if "HYPOTHESIZE" in str(messages) else
                           "Page: 1\nConfidence: 0.7\nAnswer: 36,871.72 USD"], cycle=True)


@pytest.fixture(scope="module")
def pages(): return cosee.load_pages(cosee.samples_dir() / "invoice.pdf")


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"screen"}))
def test_an_episode_of_any_method_is_kept_and_built_again(pages, name):
    episode = Method(name).policy.answer(pages, QUESTION, talker())
    kept = as_json(episode.to_dict())
    again = Episode.from_dict(kept)
    assert find_fault(kept) == "" and as_json(again.to_dict()) == kept
    assert again["board"] == episode["board"] and repr(again) == repr(episode)
    assert [*again] == [key for key in episode if key in again], "the fields stand in the same order"
    assert as_json(proposals_of(again)) == as_json(proposals_of(episode))
    missing = {*episode} - {*again}
    assert missing <= {"plan", "quality"}, "these stand in the trace"


def test_what_was_kept_can_be_replayed_withheld_and_looked_at(pages):
    said = dict(scanner=[PROPOSAL], **{"detail reader": [CORRECTION]})
    team = cosee.team(ScriptedClient(said), ["scanner", "detail_reader"])
    episode = withhold(cosee.CoSeeController(team, max_steps=1).run(pages, QUESTION), "no page says so")
    again = Episode.from_dict(as_json(episode.to_dict()))
    assert (again["guess"], again["reason"]) == ("36,871.73 USD", "Withheld: no page says so.")
    assert [len(again[kind]) for kind in ("hypotheses", "corrections")] == [1, 1]
    assert replay(again["trace"])["guess"] == again["guess"]
    assert "withheld" in again._repr_html_() and "36,871.73" in cosee.EpisodeView(again, pages).html


def test_records_of_older_versions_are_episodes_too(root):
    packs = sorted((root / "benchmarks/results").rglob("*.pack"), key=lambda path: path.stat().st_size)
    assert packs
    for path in packs[:3]:
        for _, record in read_pack(path):
            again = as_json(Episode.from_dict(record).to_dict())
            assert again == {key: record[key] for key in again}


def test_a_record_without_trace_and_board_keeps_its_counts():
    record = dict(sample=1, index=0, method="m", status="ok", answer="7", usage={}, shown=[2], invalid=3, raised=None)
    assert record_fault(record) == ""
    episode = Episode.from_dict(record)
    assert (episode["confidence"], episode["evidence"], episode["steps"], len(episode["board"])) == (None, [], 0, 0)
    kept = episode.to_dict()
    assert {key: kept[key] for key in ("shown", "invalid")} == dict(shown=[2], invalid=3)
    assert kept["board"] is None and "plain" not in kept, "nothing is claimed that is not known"


WRONG = dict(answer=None, usage=dict(calls=-1), confidence=float("nan"), page=0.5, evidence=[dict(bbox=None)],
             invalid=-1, plain="1", steps=2**63, stopped=7, trace=dict(events=[dict(calls=[dict(usage=7)])]),
             shown=["1"], guess=7, reason=[], printed="yes", files="a.pdf", did=[], page_tokens=True)


@pytest.mark.parametrize("field", WRONG)
def test_what_cannot_be_is_refused_by_the_name_of_its_field(field):
    sound = dict(answer="7", usage={})
    assert Episode.from_dict(sound)["answer"] == "7"
    with pytest.raises(ValueError, match=f"^field {field}: "): Episode.from_dict({**sound, field: WRONG[field]})
    record = {**sound, "sample": 1, "index": 0, "method": "m", "status": "ok"}
    assert record_fault(record) == "" and record_fault({**record, field: WRONG[field]}).startswith(f"field {field}: ")


@pytest.mark.parametrize("board", [7, dict(cells=7), dict(cells=[{}]), dict(page_sizes=7), dict(cells=[dict(id=1)]),
                                   dict(cells=[dict(id=1, content="", view=dict(page=0))])])
def test_a_board_that_cannot_be_is_refused(board):
    with pytest.raises(ValueError, match="^field board: "): Episode.from_dict(dict(answer="7", usage={}, board=board))


def test_a_field_is_declared_once():
    "A record has every field of an episode, with the same check; other doors take the same words."
    pytest.importorskip("mcp")
    from cosee.server.http import EpisodeForm
    from cosee.server.mcp import Answer
    from pydantic import TypeAdapter
    kept, record = (TypeAdapter(kind).json_schema()["properties"] for kind in (EpisodeFields, Record))
    assert {name: record[name] for name in kept} == kept
    assert all(field.get("description") for field in kept.values())
    for door in (Answer, EpisodeForm):
        told = door.model_json_schema()["properties"]
        for name in ("guess", "reason", "confidence", "printed", "files", "page", "stopped"):
            assert told[name]["description"] == kept[name]["description"], name


def test_what_kept_a_question_from_its_answer_and_how_pages_can_be_read_are_kept(pages):
    episode = Method("direct").policy.answer(pages, QUESTION, talker())
    said = Episode({**episode, "fault": "account", "quality": [dict(page=1, findings=[])]})
    again = Episode.from_dict(as_json(said.to_dict()))
    assert (again["fault"], again["quality"]) == ("account", [dict(page=1, findings=[])])


@pytest.mark.parametrize("trace", [dict(events=None), dict(events=[{}]), dict(events=[], calls=None, guess=None)])
def test_a_poor_trace_is_read(trace):
    from cosee.budgets import fault_of
    episode = Episode.from_dict(dict(answer="", usage={}, trace=trace))
    assert episode.to_dict()["answer"] == "" and fault_of(episode) is None
