"""The specification's own code, as printed: each test runs what a user of it would type, by the ids of its points.

`python tests/test_specified.py` prints a line for each point of this file and of test_specified_*.py beside it."""
import json
import logging
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from PIL import Image

from cosee.agents import Agent, CrossCheckerAgent, DetailReaderAgent, DummyAgent, ScannerAgent
from cosee.board import Board
from cosee.controller import CoSeeController
from cosee.experiments import run_experiment
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.models.testing import ScriptedClient

NAMES = {   # seed module -> the names that the documents give it
    "models.qwen_vl_wrapper": "QwenVLClient",
    "board": "Board View Cell PageIndex BBox Tag CellID StepIndex AgentName AnswerText",
    "agents": "Action Agent ScannerAgent DetailReaderAgent CrossCheckerAgent DummyAgent SCANNER_ROLE_PROMPT "
              "DETAIL_READER_ROLE_PROMPT CROSS_CHECKER_ROLE_PROMPT",
    "controller": "CoSeeController",
    "datasets.mpdocvqa": "Sample load_mpdocvqa_split build_dev_subset",
    "datasets.slidevqa": "Sample load_slidevqa_split build_dev_subset",
    "eval.metrics": "normalize_answer exact_match f1_score anls aggregate_metrics",
    "eval.baselines": "single_agent_cot self_consistency multi_agent_chat_no_board",
    "document": "Document InteractiveDocument Content",
    "tools": "InteractiveDocumentWithTools Tool ToolCall SchemaValidatingPolicy validate_input_schema PolicyDecision",
    "screen": "ToolCall validate_tool_call parse_tool_call validate_dataset",
    "planner": "PlannerOutput PlanControlFlags AgenticIQAState VLMClient OpenAIVLMClient AnthropicVLMClient "
               "create_vlm_client planner_node planner_graph",
    "experiments": "run_experiment"}
PAGE = Image.new("RGB", (620, 877), "white")
GUESS = dict(action="HYPOTHESIZE", content="The total row.", answer="3.4", confidence=.5)
SURE = dict(GUESS, confidence=.95)


def mock(reply="Answer: 3.4"):
    client = MagicMock(spec=QwenVLClient)
    client.generate.return_value = reply
    return client


@pytest.mark.parametrize("module", NAMES)
def test_A25_star_import_gives_every_name_of(module):
    code = f"from cosee.{module} import *\nprint([n for n in {NAMES[module].split()} if n not in globals()])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_A1_a_board_stores_a_box_in_pixels_and_converts_it_once():
    board = Board()
    cell = board.add_cell({"page": 1, "bbox": (120, 340, 600, 800)}, "Summary table", ["table"], "scanner", 1)
    assert board.get_cell(cell)["view"]["bbox"] == (120, 340, 600, 800)
    board.page_sizes = [(1200, 1700)]
    assert board.get_cell(cell)["view"]["bbox"] == pytest.approx((.1, .2, .5, 800 / 1700))


def test_A1_an_action_in_pixels_reaches_the_board(caplog):
    controller, board = CoSeeController([DummyAgent()]), Board()
    action = controller.validate_action({"action": "INSPECT", "content": "Summary table", "tags": ["table"],
                                         "view": {"page": 1, "bbox": (120, 340, 600, 800), "description": "top"}})
    cell = board.get_cell(controller.apply_action(board, action, step=1, author="scanner"))
    assert cell["view"] == {"page": 1, "bbox": (120, 340, 600, 800), "description": "top"} and not caplog.records
    run = CoSeeController([DummyAgent(script=[action])], max_steps=1).run([PAGE.resize((1200, 1600))], "What is it?")
    assert run["board"].get_cell(1)["view"]["bbox"] == pytest.approx((.1, 340 / 1600, .5, .5))


def test_A1_what_the_board_cannot_take_is_said(caplog):
    controller, board = CoSeeController([DummyAgent()]), Board()
    assert controller.apply_action(board, {"action": "REVISE", "content": "x", "target_cell_id": 4}, 1, "me") is None
    assert "cell #4 is not on the Board" in caplog.text


@pytest.mark.parametrize("view", [{"page": "first"}, {"page": 0}, {"page": None}, "top right", {"bbox": [0, 0, 1, 1]}])
def test_A29_a_view_that_cannot_be_read_is_no_view(view):
    controller, board = CoSeeController([DummyAgent()]), Board()
    action = controller.validate_action(dict(SURE, view=view))
    assert "view" not in action
    cell = board.get_cell(controller.apply_action(board, action, 1, "reader"))
    assert board.get_cells_by_page(1) == [] and "[Page 1]" not in board.to_text() and cell["content"]
    out = CoSeeController([DummyAgent(script=[dict(SURE, view=view)])], 1).run([PAGE, PAGE], "What?")
    assert (out["answer"], out["page"], out["evidence"]) == ("3.4", None, [])


@pytest.mark.parametrize("pages", [1, 12, 13, 50])
def test_A32_a_plain_run_shows_every_agent_every_page(pages):
    seen = []

    class Reader(DummyAgent):
        def act(self, images, question, board, gen_kwargs=None):
            seen.append(len(images))
            return dict(GUESS, view={"page": 3 if pages > 3 else 1}, answer=str(len(seen)))

    out = CoSeeController([Reader("a"), Reader("b")], max_steps=2).run([PAGE] * pages, "What is the total?")
    assert seen == [pages] * 4 and out["page"] == (3 if pages > 3 else 1)
    client = ScriptedClient([SURE])
    CoSeeController([DetailReaderAgent(client)]).run([PAGE] * pages, "What is the total?")
    assert [b["type"] for b in client.calls[0]["messages"][0]["content"]].count("image") == pages


def test_A32_a_choice_of_pages_is_asked_for():
    out = CoSeeController([DetailReaderAgent(ScriptedClient([SURE]))],
                          page_selection=dict(type="oracle", pages=[2, 40])).run([PAGE] * 50, "What is the total?")
    assert out["trace"]["events"][0]["shown"] == [2, 40]
    assert out["trace"]["config"]["page_selection"] == dict(type="oracle", pages=[2, 40])


def test_A32_more_pages_than_the_context_is_one_error_that_names_page_selection(tmp_path):
    from cosee.models.testing import random_checkpoint
    client = QwenVLClient(str(random_checkpoint(tmp_path)))
    client.context = 2000
    crew = [ScannerAgent(client), DetailReaderAgent(client)]
    out = CoSeeController(crew).run([PAGE.resize((320, 448))] * 30, "What is the total?")
    assert out["answer"] == "" and len(out["trace"]["events"]) == 1
    assert "ContextOverflow" in out["stopped"] and "page_selection='auto'" in out["stopped"]


def test_A32_hypotheses_are_HYPOTHESIZE_actions():
    script = [GUESS, {"action": "REVISE", "target_cell_id": 1, "content": "The row above.", "answer": "3.9"}]
    out = CoSeeController([DummyAgent(script=script)], max_steps=2).run([PAGE], "What is the total?")
    assert {"answer", "board", "hypotheses", "trace"} <= set(out)
    assert [h["action"] for h in out["hypotheses"]] == ["HYPOTHESIZE"]
    assert [c["answer"] for c in out["corrections"]] == ["3.9"] and out["answer"] == "3.9"


def test_A34_errors_of_actions_go_to_logging_and_end_nothing(caplog):
    class Broken(DummyAgent):
        def act(self, *args, **kwargs): raise RuntimeError("out of ideas")

    with caplog.at_level(logging.WARNING):
        out = CoSeeController([Broken("broken"), DummyAgent(script=[SURE])], 1).run([PAGE], "What is the total?")
    assert out["answer"] == "3.4" and "RuntimeError: out of ideas" in caplog.text
    assert {r.name for r in caplog.records} == {"cosee.controller"}


def test_A23_act_with_little_room_says_why_it_is_no_action(tmp_path):
    from cosee.models.testing import random_checkpoint
    agent, page = ScannerAgent(QwenVLClient(str(random_checkpoint(tmp_path)))), PAGE.resize((160, 224))
    assert agent.act([page], "What is the total?", Board(), {"max_new_tokens": 64})["action"] == "INSPECT"
    short = agent.act([page], "What is the total?", Board(), {"max_new_tokens": 8})
    assert short["action"] == "INVALID" and "max_new_tokens=8 is too small" in short["error"]
    cut = '{"action": "HYPOTHESIZE", "view": {"page": 1}, "content": "The total is gi'
    action = DetailReaderAgent(mock(cut)).act([PAGE], "What is the total?", Board(), {"max_new_tokens": 20})
    assert action["action"] == "INVALID" and "cut off" in action["error"]


def test_A22_an_agent_on_a_mock_calls_generate_with_the_parts_of_the_document():
    client, board = mock('{"action": "INSPECT", "content": "A table.", "view": {"page": 1}}'), Board()
    board.add_cell({"page": 1}, "Title", author="scanner", step=1)
    assert ScannerAgent(client).act([PAGE], "What is the total?", board)["content"] == "A table."
    args = client.generate.call_args.kwargs
    assert args["images"] == [PAGE] and args["question"] == "What is the total?"
    assert args["board_text"] == board.to_text() and args["role_prompt"] == ScannerAgent(client).role_prompt


def test_A23_act_asks_the_board_for_its_text():
    class Quiet(Board):
        def to_text(self, max_cells_per_page=8, max_total_chars=2000): return f"{len(self)} notes"

    for board, text in ((Quiet(), "0 notes"), (MagicMock(spec=Board, **{"to_text.return_value": "B"}), "B")):
        client = mock('{"action": "INSPECT", "content": "A table.", "view": {"page": 1}}')
        assert ScannerAgent(client).act([PAGE], "What?", board)["action"] == "INSPECT"
        assert client.generate.call_args.kwargs["board_text"] == text


def test_A22_agents_without_the_base_class_s_init_and_mocks_as_clients_run_and_leave_a_json_trace(tmp_path):
    class Own(Agent):
        def __init__(self): self.name = "own"
        def act(self, images, question, board, gen_kwargs=None): return dict(SURE, answer=5)

    out = CoSeeController([Own()]).run([PAGE], "What is the total?")
    assert out["answer"] == CoSeeController([]).decide_final_answer([dict(SURE, answer=5)], Board()) == "5"
    for order in ("sequential", "parallel"):
        mocks = [MagicMock(spec=Agent, **{"act.return_value": GUESS}) for _ in range(2)]
        for agent, name in zip(mocks, ("one", "two"), strict=True): agent.name = name
        assert CoSeeController(mocks, order=order).run([PAGE], "What is the total?")["stopped"] == "agreement"
    json.dumps(CoSeeController([ScannerAgent(mock())]).run([PAGE], "What is the total?")["trace"])
    made = dict(name="made", limit=1, options=dict(kinds=["invoice"], dpi=40))
    run = run_experiment(dict(dataset=made, methods=["direct"]), tmp_path / "run", client=mock("Answer: 3"))
    assert [r["answer"] for r in run] == ["3"]


def test_A38_an_empty_answer_is_no_article():
    from cosee.eval.metrics import aggregate_metrics, exact_match, f1_score
    assert exact_match("", "a") == f1_score("", "The") == 0 and exact_match("a", "A.") == exact_match("", "") == 1
    assert aggregate_metrics([None], ["a"])["em"] == 0


def test_A40_single_agent_cot_calls_generate_once():
    from cosee.eval.baselines import single_agent_cot
    client = mock("The last row says so.\nAnswer: 3.4")
    assert single_agent_cot(client, [PAGE] * 20, "What is the total?", max_new_tokens=99) == "3.4"
    assert client.generate.call_count == 1 and client.generate.call_args.kwargs["max_new_tokens"] == 99
    assert len(client.generate.call_args.kwargs["images"]) == 20


def test_A41_self_consistency_votes_and_refuses_a_temperature_of_0():
    from cosee.eval.baselines import self_consistency
    client = mock()
    client.generate.side_effect = ["Answer: 3.4", "Answer: 3.9", "Answer: 3.4"]
    assert self_consistency(client, [PAGE], "What is the total?", num_samples=3) == "3.4"
    assert [c.kwargs["temperature"] > 0 for c in client.generate.call_args_list] == [True] * 3
    with pytest.raises(ValueError, match="temperature of 0 gives one vote 3 times"):
        self_consistency(client, [PAGE], "What is the total?", gen_kwargs={"temperature": 0})
    assert client.generate.call_count == 3


def test_A42_multi_agent_chat_no_board_lives_in_baselines():
    from cosee.eval.baselines import multi_agent_chat_no_board
    client = mock("I see it on page 1.\nAnswer: 3.4")
    agents = [ScannerAgent(client), DetailReaderAgent(client), CrossCheckerAgent(client)]
    assert multi_agent_chat_no_board(agents, [PAGE] * 20, "What is the total?", max_turns=2) == "3.4"
    assert client.generate.call_count == 6 and len(client.generate.call_args.kwargs["images"]) == 20
    with pytest.raises(ValueError, match="agent 'dummy' has no model"):
        multi_agent_chat_no_board([DummyAgent()], [PAGE], "What is the total?")


if __name__ == "__main__":
    files = sorted(map(str, Path(__file__).parent.glob("test_specified*.py")))
    sys.exit(pytest.main([*files, "-v", "--no-header", "-p", "no:cacheprovider", *sys.argv[1:]]))
