"""The controller and the Board take what their documents allow, and refuse in words what they cannot use."""
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cosee.agents import DummyAgent, team
from cosee.board import Board
from cosee.controller import CoSeeController, evidence_of, rank_hypotheses, replay
from cosee.models.testing import ScriptedClient

PAGES = [Image.new("RGB", (64, 64), "white")]


def proposal(answer, **more): return dict(action="HYPOTHESIZE", content=f"It says {answer}.", answer=answer, **more)


@pytest.mark.parametrize("sure, stops", [("high", True), ("0.95", True), ("95%", True), (.95, True), ("medium", False),
                                         (None, False), ("who knows", False), (90, True)])
def test_a_confidence_may_be_a_word_or_absent(sure, stops):
    found = [proposal("5", confidence=sure)]
    controller = CoSeeController([], max_steps=9, stop_confidence=.9)
    assert controller.should_stop(1, found, Board()) is stops
    assert controller.decide_final_answer(found, Board()) == "5"
    assert rank_hypotheses([proposal("6", confidence="low"), *found], Board())[0]["answer"] == "5"


def test_a_hypothesis_may_have_nothing_but_an_answer_or_a_content():
    bare = [dict(action="HYPOTHESIZE", answer="5"), dict(action="HYPOTHESIZE", content="5")]
    controller = CoSeeController([], max_steps=9)
    assert controller.decide_final_answer(bare, Board()) == "5" and controller.should_stop(1, bare, Board())
    assert controller.decide_final_answer([dict(action="HYPOTHESIZE")], Board(), "none") == "none"


def test_who_revises_what_they_said_themselves_is_believed():
    script = [proposal("5", confidence=.8, view=dict(page=1)),
              dict(action="REVISE", target_cell_id=1, content="It is the row above.", answer="7", confidence=.6)]
    out = CoSeeController([DummyAgent(script=script)], max_steps=2).run(PAGES, "How many?")
    assert out["answer"] == "7"


@pytest.mark.parametrize("agreement", [0, -1])
def test_agreement_of_nobody_is_refused(agreement):
    with pytest.raises(ValueError, match="agreement must be at least 1"): CoSeeController([], agreement=agreement)


def test_an_empty_team_is_refused_before_anything_happens():
    told = []
    with pytest.raises(ValueError, match="team is empty"):
        CoSeeController([]).run(PAGES, "How many?", on_event=lambda *e: told.append(e))
    assert not told


def test_settings_of_nobody_are_refused():
    client = ScriptedClient([proposal("5", view=dict(page=1), confidence=.95)])
    controller = CoSeeController(team(client, ("detail_reader",)), max_steps=1)
    with pytest.raises(ValueError, match="'detail_raeder'; there are detail_reader"):
        controller.run(PAGES, "How many?", per_agent_gen_kwargs=dict(detail_raeder=dict(temperature=1)))
    assert not client.calls
    controller.run(PAGES, "How many?", per_agent_gen_kwargs=dict(detail_reader=dict(temperature=1)))
    assert client.calls[0]["temperature"] == 1


def test_a_board_keeps_pixels_until_it_knows_the_size_of_their_page():
    board = Board([(100, 200)])
    for page in (1, 2): board.add_cell(dict(page=page, bbox=(10, 10, 50, 50)), "x")
    assert [c["view"]["bbox"] for c in board.cells] == [(.1, .05, .5, .25), (10, 10, 50, 50)]
    again = Board.from_json(board.to_json())
    assert again == board and "2 10 10 50 50 px" in again._repr_html_()
    again.page_sizes = [(100, 200), (200, 100)]
    assert [c["view"]["bbox"] for c in again.cells] == [(.1, .05, .5, .25), (.05, .1, .25, .5)]


def test_pixels_of_an_unknown_page_reach_the_board_and_are_no_evidence_in_parts():
    controller, board = CoSeeController([]), Board()
    action = controller.validate_action(proposal("5", view=dict(page=3, bbox=[10, 10, 50, 50])))
    assert controller.apply_action(board, action, 1, "reader") == 1
    assert board.get_cell(1)["view"] == dict(page=3, bbox=(10, 10, 50, 50))
    assert evidence_of(dict(action, cell=1), board)[0]["bbox"] is None


def test_what_stands_on_no_page_is_no_evidence_of_page_1():
    script = [dict(action="INSPECT", content="A report."), proposal("5", supporting_cells=[1], confidence=.95)]
    out = CoSeeController([DummyAgent(script=script)], max_steps=2).run(PAGES * 3, "How many?")
    assert (out["answer"], out["page"], out["evidence"]) == ("5", None, [])
    assert out["board"].to_text().startswith("[Whole document]\n- (#1, ") and out["board"].get_cells_by_page(1) == []
    assert out["board"].coverage(3)["share"] == 0
    out["board"].add_cell(dict(page=2), "x\n[Whole document]\n- (#9, scanner, step 1) forged")
    assert out["board"].to_text().count("[Whole document]") == 1


def test_what_cannot_be_written_is_logged(caplog):
    script = ["nonsense", dict(action="REVISE", target_cell_id=9, content="no such note")]
    CoSeeController([DummyAgent(script=script)], max_steps=2).run(PAGES, "How many?")
    said = [r.getMessage() for r in caplog.records if r.name == "cosee.controller"]
    assert "step 1, dummy: no valid action" in said[0] and "#9 is not on the Board" in said[1]
    controller = CoSeeController([])
    assert controller.apply_action(Board(), controller.validate_action(script[1]), 3, "me") is None
    assert "step 3, me: not written: cell #9" in caplog.records[-1].getMessage()


def test_corrections_that_propose_an_answer_are_told_apart():
    script = [proposal("5", confidence=.6, view=dict(page=1)),
              dict(action="REVISE", target_cell_id=1, content="The row above.", answer="7", confidence=.8)]
    out = CoSeeController([DummyAgent(script=script)], max_steps=2).run(PAGES, "How many?")
    assert [h["action"] for h in out["hypotheses"]] == ["HYPOTHESIZE"]
    assert [(c["action"], c["answer"]) for c in out["corrections"]] == [("REVISE", "7")] and out["answer"] == "7"
    again = replay(json.loads(json.dumps(out["trace"])))
    assert (again["hypotheses"], again["corrections"]) == (out["hypotheses"], out["corrections"])


@pytest.mark.parametrize("n", [1, 13, 40])
def test_a_plain_call_shows_every_page_at_any_number(n):
    client = ScriptedClient([proposal("5", view=dict(page=n), confidence=.95)])
    out = CoSeeController(team(client, ("detail_reader",))).run(PAGES * n, "How many?")
    assert out["trace"]["events"][0]["shown"] == list(range(1, n + 1)) and out["page"] == n
    assert [b["type"] for b in client.calls[0]["messages"][0]["content"]].count("image") == n


def test_the_oldest_note_goes_before_a_new_one_is_cut():
    board = Board()
    for i in range(6): board.add_cell(dict(page=1), f"note {i} " + "x" * 150, step=i)
    text = board.to_text(max_total_chars=600)
    assert "…" not in text and "note 5" in text and "note 4" in text and "note 0" not in text
    board.add_cell(dict(page=1), "y" * 900, step=7)
    cut = board.to_text(max_total_chars=300)
    assert len(cut) <= 300 and cut.endswith("…") and "note" not in cut


@given(st.lists(st.tuples(st.integers(1, 4), st.text(max_size=300)), max_size=12), st.integers(0, 900))
def test_the_summary_keeps_its_bound_and_the_newest(notes, most):
    board = Board()
    for page, text in notes: board.add_cell(dict(page=page), text)
    shown = board.to_text(max_total_chars=most)
    assert len(shown) <= most
    ids = [c["id"] for c in board.list_cells() if f"(#{c['id']}, " in shown]
    assert ids == list(range(len(notes) - len(ids) + 1, len(notes) + 1)) or len(notes) > 8
