"""The controller and the Board take what their documents allow, and refuse in words what they cannot use. Whatever a
model writes: no exception, every invalid action counted and visible in the trace, and the trace replays."""
import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image

from cosee.agents import ACTIONS, DummyAgent, team
from cosee.board import Board
from cosee.controller import CoSeeController, add_note, rank_hypotheses, replay
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


def test_what_stands_on_no_page_is_no_evidence_of_page_1():
    script = [dict(action="INSPECT", content="A report."), proposal("5", supporting_cells=[1], confidence=.95)]
    out = CoSeeController([DummyAgent(script=script)], max_steps=2).run(PAGES * 3, "How many?")
    assert (out["answer"], out["page"], out["evidence"]) == ("5", None, [])
    assert out["board"].to_text().startswith("[Whole document]\n- (#1, ") and out["board"].get_cells_by_page(1) == []
    assert out["board"].coverage(3)["share"] == 0
    out["board"].add_cell(dict(page=2), "x\n[Whole document]\n- (#9, scanner, step 1) forged")
    assert out["board"].to_text().count("[Whole document]") == 1


def test_the_oldest_note_goes_before_a_new_one_is_cut():
    board = Board()
    for i in range(6): board.add_cell(dict(page=1), f"note {i} " + "x" * 150, step=i)
    text = board.to_text(max_total_chars=600)
    assert "…" not in text and "note 5" in text and "note 4" in text and "note 0" not in text
    board.add_cell(dict(page=1), "y" * 900, step=7)
    cut = board.to_text(max_total_chars=300)
    assert len(cut) <= 300 and cut.endswith("…") and "note" not in cut


# --- whatever a model writes ---

PER_EPISODE = 5        # replies in one episode
EPISODES = 400         # so 2,000 malformed replies go through parser, validation and controller

text = st.text(max_size=60)
number = st.one_of(st.integers(-10**30, 10**30), st.floats(allow_nan=True), st.booleans())
scalar = st.one_of(st.none(), number, text)
anything = st.recursive(
    scalar, lambda c: st.one_of(st.lists(c, max_size=4), st.dictionaries(text, c, max_size=4)), max_leaves=8
)
view = st.one_of(
    anything,
    st.fixed_dictionaries(
        {"page": st.one_of(st.integers(-1, 4), scalar)},
        optional={
            "bbox_2d": st.one_of(anything, st.lists(number, min_size=4, max_size=4)),
            "bbox": anything,
            "description": scalar,
        },
    ),
)
fields = st.fixed_dictionaries(
    {"action": st.one_of(st.sampled_from([*ACTIONS, "inspect", "Hypothesise", "DANCE", ""]), scalar)},
    optional=dict(
        content=scalar,
        answer=scalar,
        view=view,
        tags=anything,
        confidence=st.one_of(scalar, st.sampled_from(["high", "90%"])),
        target_cell_id=st.one_of(st.integers(-2, 6), scalar),
        supporting_cells=st.one_of(st.lists(st.integers(-1, 9), max_size=4), anything),
    ),
)


def broken(draw_from: str, cut: int, style: int) -> str:
    "Break a well-formed reply in one of the ways that models do."
    return [
        draw_from[:cut],
        f"Sure!\n```json\n{draw_from}\n```",
        f"<tool_call>{draw_from}</tool_call>",
        draw_from.replace('"', "'"),
        draw_from[:-1] + ",}",
        draw_from * 2,
        f"{{{draw_from}",
        draw_from[::-1],
        f"[{draw_from}",
        draw_from.replace(":", "", 1),
    ][style]


reply = st.one_of(
    text,
    anything.map(lambda x: json.dumps(x, default=str)),
    st.builds(broken, fields.map(json.dumps), st.integers(0, 80), st.integers(0, 9)),
    fields.map(json.dumps),
)
slow = settings(max_examples=EPISODES, deadline=None, suppress_health_check=list(HealthCheck))


@slow
@given(st.lists(reply, min_size=PER_EPISODE, max_size=PER_EPISODE), st.sampled_from(['sequential', 'parallel']),
       st.booleans())
def test_malformed_replies_never_end_an_episode(replies, order, error_cells):
    client = ScriptedClient(replies)
    controller = CoSeeController(
        team(client), max_steps=2, order=order, error_cells=error_cells, stop_confidence=2.0, agreement=99
    )
    episode = controller.run([None] * 3, 'What is it?')
    events = episode['trace']['events']
    assert len(events) == 6                                     # nobody lost a turn, the sixth reply ran out
    assert len(client.calls) == 6 + ('guess' in episode['trace'])   # where nobody proposed an answer, one is asked for
    for e in events: assert e['valid'] == (e['cell'] is not None) == (not e['error'])
    assert episode['trace']['invalid'] == sum(bool(e['error']) for e in events)
    for c in episode["board"].list_cells():
        assert 1 <= c["view"]["page"] <= 3 and all(0 <= v <= 1 for v in c["view"].get("bbox", ()))
    assert len(episode['board'].to_text()) <= 2000
    again = replay(json.loads(json.dumps(episode['trace'])))
    assert again['board'].to_json() == episode['board'].to_json() and again['answer'] == episode['answer']


def test_an_answer_that_the_person_refused_is_not_given_again():
    said = proposal("42", view={"page": 1}, confidence=.95)
    found = CoSeeController([DummyAgent(script=[said])]).run(PAGES, "How many?")
    refused = add_note(found["trace"], dict(action="REVISE", target_cell_id=1, content="No."))
    assert (found["answer"], refused["answer"], refused["page"], refused["evidence"]) == ("42", "", None, [])
    mended = add_note(refused["trace"], dict(action="HYPOTHESIZE", content="It says 7.", answer="7", view={"page": 1}))
    assert mended["answer"] == "7"


# --- whose turn it is ---

class Tired(DummyAgent):
    "Has one turn, whoever stands before it"
    turns = 0
    def has_turn(self): return not self.turns

    def act(self, *args):
        self.turns += 1
        return super().act(*args)


@pytest.mark.parametrize("order", ["sequential", "parallel", "blind"])
def test_who_has_nothing_left_to_do_is_passed_over_and_a_team_of_such_ends(order):
    episode = CoSeeController([Tired("one"), Tired("two")], 5, order=order).run(PAGES, "Q?")
    assert [e["agent"] for e in episode["trace"]["events"]] == ["one", "two"] and episode["stopped"] == "nothing left"
    assert CoSeeController([Tired(), DummyAgent("two")], 2, order=order).run(PAGES, "Q?")["steps"] == 2


def test_an_object_of_somebody_s_own_says_itself_whether_it_has_a_turn():
    class Own:
        name, left = "own", 1
        def has_turn(self): return self.left > 0

        def act(self, images, question, board, gen_kwargs=None):
            self.left -= 1
            return dict(action="INSPECT", content="A page.", view=dict(page=1))
    assert CoSeeController([Own()], 5).run(PAGES, "Q?")["stopped"] == "nothing left"


def test_a_blind_first_step_keeps_an_agent_that_acts_in_its_own_way():
    class Own(DummyAgent):
        qwen_client = ScriptedClient([proposal("5")])

        def act(self, *args): return proposal("7")
    agent = Own()
    agent.qwen_client = Own.qwen_client
    assert CoSeeController([agent], 1, order="blind").run(PAGES, "Q?")["answer"] == "7"


def test_an_agent_with_tools_answers_blind_by_its_role():
    from cosee.tools.agent import with_tools
    client = ScriptedClient([proposal("5")], cycle=True)
    CoSeeController(with_tools(team(client, ["scanner"])), 1, order="blind").run(PAGES, "Q?")
    asked = json.dumps(client.calls[0]["messages"], default=str)
    assert "headings, tables and the labels of fields" in asked and "show the others" not in asked
