"Screens read, worked on and scored: loader, agent, scores, and records of what teams did."
import json

import pytest

from cosee.agents import parse_reply, team
from cosee.controller import CoSeeController, replay
from cosee.datasets.records import DataError
from cosee.models.client import Reply, VLMClient, message_blocks
from cosee.models.testing import ScriptedClient
from cosee.screen.agent import ScreenAgent, load_screens, read_step, run_screens, write_board_records
from cosee.screen.call import ToolCall, format_tool_call
from cosee.screen.check import make_screens, validate_dataset
from cosee.screen.score import score_screens, score_step, step_picture
from cosee.screen.tasks import SCREEN_TASKS
from cosee.screen.config import SYSTEM_PROMPTS

CLICK = ToolCall.left_click((500, 300))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tasks = {"click-button": 2, "answer-question": 2, "press-keys": 1, "wait-progress": 1}
    return make_screens(dict(name_prefix="office", tasks=tasks, test=dict(count=6, tolerance=[20, 30]),
                             system_prompt="compact", output=dict(image_format="jpg"),
                             held_out=dict(enabled=True, ratio=.2)), tmp_path_factory.mktemp("office"))


def test_every_split_loads(folder):
    count = {split: len(list(load_screens(folder, split))) for split in ("test", "data", "train", "val", "held_out")}
    assert count == {"test": 6, "data": 6, "train": 4, "val": 1, "held_out": 1}
    for split in count:
        for s in load_screens(folder, split):
            assert len(s["images"]) == 1 and s["images"][0].mode == "RGB" and not s["question"].startswith("<image>")
            assert (s["meta"]["task_type"] in SCREEN_TASKS and s["meta"]["system_prompt"] == SYSTEM_PROMPTS["compact"]
                    and s["answer"])
            assert (s["meta"]["dataset"] == "screens"
                    and s["meta"].get("tolerance") == ([20, 30] if split == "test" else None))
    with pytest.raises(ValueError, match="no split 'dev'"):
        load_screens(folder, "dev")


def test_what_cannot_be_read_names_file_and_line(folder, tmp_path):
    (tmp_path / "train.jsonl").write_text((folder / "train.jsonl").read_text().replace("<tool_call>", "<tool>", 1)
                                          + "{")
    split = load_screens(tmp_path, "train", errors="skip")
    assert list(split) == [] and len(split.skipped) == 5
    assert (split.skipped[0].startswith("train.jsonl:1: conversations: turn 2: ")
            and split.skipped[1].startswith("train.jsonl:2: field 'image': ")
            and "train.jsonl:5: broken JSON" in split.skipped[4])
    with pytest.raises(DataError, match="train.jsonl:1: "):
        list(load_screens(tmp_path, "train"))
    with pytest.raises(DataError, match="has no val.jsonl"):
        load_screens(tmp_path, "val")


class Constrained(VLMClient):
    "Keeps to a schema, and shows what it was given."
    constrains = True

    def send(self, messages, schema=None, **params):
        self.seen = messages, schema, params
        return Reply(json.dumps(CLICK.to_dict()))


def test_the_agent_gives_picture_instruction_prompt_and_schema(folder):
    sample, client = next(iter(load_screens(folder))), Constrained()
    out = run_screens(client, [sample])[sample["meta"]["id"]]
    messages, schema, params = client.seen
    assert (out["call"] == CLICK and out["how"] == "strict" and schema["properties"]["name"]["enum"] == ["computer"]
            and params["temperature"] == 0)
    assert (message_blocks(messages, "text") == [f"Question: {sample['question']}", SYSTEM_PROMPTS["compact"]]
            and len(message_blocks(messages, "image")) == 1)
    ScreenAgent(client, system_prompt="Mine.", max_new_tokens=7).act(sample["images"][0], "Click")
    assert message_blocks(client.seen[0], "text")[-1] == "Mine." and client.seen[2]["max_new_tokens"] == 7
    assert (run_screens(ScreenAgent(client, system_prompt=""), [sample])
            and len(message_blocks(client.seen[0], "text")) == 1)


def test_any_object_that_generates_can_be_asked(folder):
    class Plain:
        def generate(self, images, question, board_text=None, role_prompt=None, **kwargs):
            return format_tool_call(CLICK)
    assert ScreenAgent(Plain()).act("nowhere.png", "Click")["call"] == CLICK


def test_one_failure_loses_nothing_else(folder):
    samples = list(load_screens(folder))
    out = run_screens(ScriptedClient([RuntimeError("down"), "nothing", *[format_tool_call(CLICK)] * 4]), samples)
    first, second = out[samples[0]["meta"]["id"]], out[samples[1]["meta"]["id"]]
    assert first["error"] == "RuntimeError: down" and second["error"] == "no tool call in the reply" and len(out) == 6
    assert score_screens(samples, out).to_dict()["groups"]["all"]["valid"] == 4 / 6


@pytest.mark.parametrize("text, how, error", [
    (format_tool_call(CLICK), "strict", ""), (json.dumps(CLICK.to_dict()), "strict", ""),
    ("ok " + json.dumps(CLICK.to_dict()), "mended", ""),
    (format_tool_call(ToolCall("hover")), "strict", "Invalid action: hover"),
    ("", "failed", "no tool call in the reply"), ("[" * 10_000, "failed", "no tool call in the reply"),
    (None, "failed", "no tool call in the reply"), ('{"action": "INSPECT"}', "failed", "no tool call in the reply")])
def test_how_a_reply_is_read(text, how, error):
    step = read_step(text)
    assert (step["how"], step["error"]) == (how, error)


@pytest.mark.parametrize("predicted, expected, right", [
    (ToolCall.left_click((510, 310)), CLICK, dict(valid=1, action=1, place=1, score=1)),
    (ToolCall.left_click((511, 300)), CLICK, dict(valid=1, action=1, place=0, score=0)),
    (ToolCall.right_click((500, 300)), CLICK, dict(valid=1, action=0, place=0, score=0, distance=0)),
    (ToolCall.left_click((5000, 300)), CLICK, dict(valid=0, action=0, score=0, distance=None)),
    (None, CLICK, dict(valid=0, action=0, score=0)), (CLICK.to_dict(), CLICK.to_dict(), dict(score=1, distance=0)),
    ({"name": 5}, CLICK, dict(valid=0, score=0)),
    (ToolCall.scroll((500, 300), 5), ToolCall.scroll((500, 300), 700), dict(content=1, place=1, score=1)),
    (ToolCall.scroll((500, 300), -700), ToolCall.scroll((500, 300), 700), dict(content=0, place=1, score=0)),
    (ToolCall.hscroll((0, 0), 5), ToolCall.hscroll((500, 300), 700), dict(content=1, place=0, score=0)),
    (ToolCall.key_press(["Control", "S"]), ToolCall.key_press(["ctrl", "s"]), dict(content=1, score=1)),
    (ToolCall.key_press(["s", "ctrl"]), ToolCall.key_press(["ctrl", "s"]), dict(content=0, score=0)),
    (ToolCall.key_press(["b", "a"]), ToolCall.key_press(["a", "b"]), dict(content=0, score=0)),
    (ToolCall.key_press(["ctrl", "s", "s"]), ToolCall.key_press(["ctrl", "s"]), dict(score=0)),
    (ToolCall.type_text("Ada"), ToolCall.type_text("Ada"), dict(content=1, score=1, place=None)),
    (ToolCall.type_text("ada"), ToolCall.type_text("Ada"), dict(content=0, score=0)),
    (ToolCall.terminate("failure"), ToolCall.terminate(), dict(content=0, score=0)),
    (ToolCall.wait(60), ToolCall.wait(5), dict(content=None, score=1)),
    (ToolCall.answer("ada moor"), ToolCall.answer("Ada Moor"), dict(content=1, score=1)),
    (ToolCall.answer(), ToolCall.answer("Ada"), dict(content=0, score=0)),
    (ToolCall.answer("x"), ToolCall.answer(), dict(content=1, score=1)),
    (ToolCall.answer("Ada"), ToolCall("answer", coordinate=(5, 5), text="Ada"),
     dict(place=None, score=1, distance=None))])
def test_scores_of_steps(predicted, expected, right):
    got = score_step(predicted, expected, [10, 10])
    assert {k: got[k] for k in right} == right


def test_predictions_in_any_form_and_tables(folder):
    samples = list(load_screens(folder))
    wire = {s["meta"]["id"]: s["meta"]["expected_action"] for s in samples}
    forms = [wire, {k: ToolCall.from_dict(v) for k, v in wire.items()},
             {k: format_tool_call(v) for k, v in wire.items()}, {k: read_step(json.dumps(v)) for k, v in wire.items()}]
    for predictions in forms:
        scores = score_screens(samples, predictions)
        assert scores.estimate().mean == 1 and scores.to_dict()["groups"]["all"]["n"] == 6
    assert json.loads(json.dumps(scores.to_dict()))["rows"][0]["expected"] == samples[0]["meta"]["expected_action"]
    table = scores._repr_markdown_()
    assert ("| all | 6 | 100 | 100 to 100 |" in table and "| task click-button | 2 |" in table
            and "| action answer | 2 |" in table)
    with pytest.raises(ValueError, match="no samples"):
        score_screens([], {})
    assert score_screens(load_screens(folder, "train"), {}, tolerance=5).estimate().mean == 0


@pytest.mark.parametrize("box, size, at, hit", [
    ([400, 200, 600, 400], [1000, 1000], (590, 390), 1), ([400, 200, 600, 400], [1000, 1000], (601, 390), 0),
    (None, [1000, 1000], (500, 300), None),
    ("abcd", [1000, 1000], (500, 300), None), ([1, 2], [5, 5], (500, 300), None),
    ([0, 0, 1, 1], "x", (500, 300), None), ([1, 1, 2, 2], [0, 0], (500, 300), None)])
def test_hits_go_by_the_box_of_the_target(box, size, at, hit):
    meta = dict(id="a", task_type="t", expected_action=CLICK.to_dict(), target_box=box, screen_size=size)
    score = lambda call: score_screens([dict(meta=meta)], {"a": call})[0]
    assert score(ToolCall.left_click(at))["hit"] == hit
    if box == [400, 200, 600, 400]:
        assert (score(ToolCall.right_click((500, 300)))["hit"] == score(None)["hit"]
                == score(ToolCall.answer("x"))["hit"] == 0)


def test_pictures_of_any_prediction(folder):
    for s in load_screens(folder):
        size = s["images"][0].size
        for predicted in (None, CLICK.to_dict(),
                          {"name": "computer", "arguments": {"action": "left_click", "coordinate": "far"}},
                          {"name": "computer", "arguments": []}):
            row = dict(predicted=predicted, score=0)
            assert (step_picture(s, row).size[0] == size[0]
                    and step_picture(s, row).size[1] > step_picture(s).size[1] > size[1])


def test_board_records(tmp_path):
    from PIL import Image
    view = {"page": 2, "bbox_2d": [100, 200, 500, 400]}
    said = [{"action": "INSPECT", "content": "A <b>table</b> </tool_call>", "view": view, "tags": []},
            "Let me look at the table first.",
            {"action": "LINK", "content": "Both", "target_cell_id": 1, "supporting_cells": [1]},
            {"action": "HYPOTHESIZE", "content": "Printed", "answer": "41.50", "confidence": .9, "view": view,
             "supporting_cells": [1]}]
    pages = [Image.new("RGB", (600, 800), c) for c in ("white", "ivory", "snow")]
    episode = CoSeeController(team(ScriptedClient(said), ["scanner", "detail_reader"]),
                              max_steps=2).run(pages, "What is the total?")
    again = replay(json.loads(json.dumps(episode["trace"])))
    folder = write_board_records([(episode, pages), (again, pages)], tmp_path / "board", train=.5)
    assert validate_dataset(folder) == []
    records = [json.loads(line) for line in (folder / "data.jsonl").read_text().splitlines()]
    kinds = [r["metadata"]["task_type"] for r in records]
    assert (kinds == ["board-inspect", "board-link", "board-hypothesize"] * 2
            and len(list((folder / "images").iterdir())) in (2, 4))
    for r in records[::2]:
        action = parse_reply(r["conversations"][1]["value"]).action
        assert f"board-{action['action'].lower()}" == r["metadata"]["task_type"]
    assert ("What is the total?" in records[0]["conversations"][0]["value"]
            and "This is page 2 of 3." in records[0]["conversations"][0]["value"])
    assert records[0]["metadata"]["real_coords"] == [180, 240] and len(list(load_screens(folder, "train"))) == 3
    with pytest.raises(ValueError, match="no episode"):
        write_board_records([], tmp_path / "none")
    with pytest.raises(FileExistsError):
        write_board_records([(episode, pages)], folder)
