"""What becomes of a reply with several notes, and which notes a short summary of the Board keeps."""
import json

import pytest
from PIL import Image

from cosee.actions import MOST_NOTES
from cosee.agents import parse_reply, team
from cosee.board import Board
from cosee.controller import CoSeeController, replay
from cosee.models.testing import ScriptedClient
from cosee.view.drawing import annotate

PAGES = [Image.new("RGB", (200, 300), "white")] * 3


def look(at, content="A table.", **more):
    return {**dict(action="INSPECT", view=dict(page=at), content=content), **more}


def run(*replies, names=("scanner",), **settings):
    client = ScriptedClient([json.dumps(r) if not isinstance(r, str) else r for r in replies])
    episode = CoSeeController(team(client, names), 1, guess=False, **settings).run(PAGES, "How much?")
    assert replay(json.loads(json.dumps(episode["trace"])))["board"] == episode["board"]
    return episode


@pytest.mark.parametrize("reply", [
    [look(1), look(3, "A sum.")],
    dict(actions=[look(1), look(3, "A sum.")]),
    f"First this: {json.dumps(look(1))} and then this: {json.dumps(look(3, 'A sum.'))}"])
def test_several_actions_of_a_reply_become_a_note_each(reply):
    episode = run(reply)
    assert [(c["view"]["page"], c["content"]) for c in episode["board"].cells] == [(1, "A table."), (3, "A sum.")]
    assert [(e["agent"], len(e["calls"]), e["step"]) for e in episode["trace"]["events"]] == [
        ("scanner", 1, 1), ("scanner", 0, 1)]
    assert episode["usage"]["calls"] == 1 and episode["trace"]["invalid"] == 0


@pytest.mark.parametrize("where", [
    dict(view=[dict(page=1), dict(page=3)]), dict(view=dict(page=[1, 3])), dict(view=None, pages=[1, 3]),
    dict(view=None, page=["1", "3"])])
def test_a_list_of_views_or_pages_becomes_a_note_each(where):
    episode = run(look(1, **where))
    assert [(c["view"]["page"], c["content"]) for c in episode["board"].cells] == [(1, "A table."), (3, "A table.")]


def test_what_is_not_written_is_counted():
    many = run([look(1, f"note {i}") for i in range(MOST_NOTES + 3)])
    assert len(many["board"]) == MOST_NOTES and many["trace"]["events"][0]["dropped"] == 3
    beyond = run([look(1), look(9)])   # a page that does not exist
    assert len(beyond["board"]) == 1 and beyond["trace"]["events"][0]["dropped"] == 1
    twice = run([look(1), look(1)])   # said twice is said once
    assert len(twice["board"]) == 1 and "dropped" not in twice["trace"]["events"][0]


def test_a_reply_proposes_one_answer():
    says = [dict(action="HYPOTHESIZE", answer=a, content=a, view=dict(page=2)) for a in ("3.4", "3.9")]
    episode = run([look(2), *says], names=("detail_reader",))
    assert episode["answer"] == "3.4" and episode["trace"]["events"][0]["dropped"] == 1
    assert [h["answer"] for h in episode["hypotheses"]] == ["3.4"]


@pytest.mark.parametrize("more", [3, "x", [3], [None], {"a": 1}])
def test_further_notes_of_an_agent_s_own_may_be_anything(more):
    class Own:
        name = "own"
        def act(self, images, question, board, gen_kwargs=None): return {**look(1), "more": more, "dropped": "x"}
    episode = CoSeeController([Own()], 1).run(PAGES, "How much?")
    assert len(episode["board"]) == 1 and json.dumps(episode["trace"])


def test_a_box_of_four_numbers_is_no_list_of_pages():
    action = parse_reply(json.dumps(look(1, page=2, view=[1, 2, 3, 4]))).action
    assert action["view"]["page"] == 2 and "more" not in action


def test_corrected_notes_and_repeats_go_first_and_no_more_than_it_takes():
    board = Board()
    for note in ("It is 3.9.", "A table.", "A table.", "A footnote."):
        board.add_cell(dict(page=1), note, author="scanner", step=1)
    board.add_cell(dict(page=1), "It is 3.4.", ["correction"], "cross_checker", 2, refs=[1])
    def ids(**limits): return [c["id"] for c in board.view(**limits).cells]
    assert ids() == [1, 2, 3, 4, 5]
    assert [ids(max_cells_per_page=n) for n in (4, 3, 2)] == [[2, 3, 4, 5], [3, 4, 5], [4, 5]]
    whole = len(board.to_text())
    assert ids(max_total_chars=whole - 1) == [2, 3, 4, 5]
    equal = Board()
    for _ in range(5): equal.add_cell(dict(page=1), "The same.", author="scanner", step=1)
    assert [c["id"] for c in equal.view(max_cells_per_page=2).cells] == [4, 5]


def test_boxes_in_pixels_of_a_picture_are_drawn():
    board = Board()
    board.add_cell(dict(page=1, bbox=(20, 30, 180, 150)), "A table.", author="scanner", step=1)
    drawn, plain = annotate(PAGES[0], board.cells), annotate(PAGES[0], [])
    assert drawn.getpixel((100, 90)) != plain.getpixel((100, 90)) == (255, 255, 255)


def test_an_action_that_holds_itself_is_two_notes():
    class Turning:
        name = "turning"
        def act(self, *args, **kwargs):
            action = {"action": "INSPECT", "content": "A table.", "view": {"page": 1}}
            action["more"] = [action]
            return action
    episode = CoSeeController([Turning()], max_steps=1, guess=False).run([Image.new("RGB", (64, 64))], "What is it?")
    assert len(episode["board"]) == 2 and json.dumps(episode.to_dict())


def test_a_view_without_box_or_description_has_none_of_both():
    board = Board()
    board.add_cell(dict(page=1, bbox=None, description=None), "A table.", author="scanner", step=1)
    assert board.cells[0]["view"] == dict(page=1)
    with pytest.raises(ValueError, match="bbox"):
        board.add_cell(dict(page=1, bbox=[]), "A table.", author="scanner", step=1)
