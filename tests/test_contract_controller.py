"""The controller and the Board take what their documents allow, and refuse in words what they cannot use."""
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cosee.agents import DummyAgent, team
from cosee.board import Board
from cosee.controller import CoSeeController, rank_hypotheses
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


def test_a_board_stores_parts_of_the_page_or_says_why_not():
    with pytest.raises(ValueError, match=r"is in pixels, but the size of page 2 is not known.*page_sizes"):
        Board([(100, 100)]).add_cell(dict(page=2, bbox=(10, 10, 50, 50)), "x")
    board = Board([(100, 200)])
    board.add_cell(dict(page=1, bbox=(10, 10, 50, 50)), "x")
    assert board.get_cell(1)["view"]["bbox"] == (.1, .05, .5, .25)


def test_an_action_in_pixels_of_an_unknown_page_keeps_its_page():
    controller, board = CoSeeController([]), Board()
    action = controller.validate_action(proposal("5", view=dict(page=3, bbox=[10, 10, 50, 50])))
    assert controller.apply_action(board, action, 1, "reader") == 1
    assert board.get_cell(1)["view"] == dict(page=3)


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
