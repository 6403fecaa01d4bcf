"""Screens as a data set and a metric like any other, from the shell to the report; tasks of one's own from a file."""
import json
import sys

import pytest

from conftest import shell
from cosee.cli.entry import main
from cosee.datasets.registry import load
from cosee.policies import Method
from cosee.eval.metrics import score
from cosee.models.testing import ScriptedClient
from cosee.models.registry import CLIENTS, ClientEntry, make_client
from cosee.runs.config import make_config, metrics_of
from cosee.runs.table import score_records
from cosee.screen.agent import load_screens, step_of, step_text
from cosee.screen.call import ToolCall, format_tool_call
from cosee.screen.config import SYSTEM_PROMPTS
from cosee.screen.check import make_screens
from cosee.screen.scenes import Scene
from cosee.screen.score import score_step
from cosee.screen.tasks import SCREEN_TASKS, ScreenTask, Shot

CLICK = ToolCall.left_click((500, 300))
TASKS = {"click-button": 3, "press-keys": 1, "answer-question": 1, "wait-progress": 1}
FIELDS = dict(name_prefix="office", tasks=TASKS, test=dict(count=6, tolerance=[20, 30]), system_prompt="compact",
              output=dict(image_format="jpg"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_screens(FIELDS, tmp_path_factory.mktemp("screens"))


# --- from the shell: run, report, compare, view ---

def replies(folder, wrong=()):
    "What a model says to the samples in order: the expected steps, but for some"
    steps = [s["meta"]["expected_action"] for s in load_screens(folder)]
    return [format_tool_call(CLICK if n in wrong else step) for n, step in enumerate(steps)]


@pytest.mark.slow
def test_a_run_on_screens_is_reported_compared_and_shown(folder, tmp_path):
    for name, wrong in (("good", ()), ("bad", range(6))):
        fields = dict(name=name, dataset=dict(name="screens", root=str(folder)), methods=["screen"],
                      client=dict(type="scripted", options=dict(replies=replies(folder, wrong))))
        (tmp_path / f"{name}.yaml").write_text(json.dumps(fields))
        code, out, err = shell("run", f"{name}.yaml", "--quiet", "--json", cwd=tmp_path)
        assert code == 0, err
        told = json.loads(out)["methods"]["screen"]
        assert told["ok"] == 6 and told["metrics"] == (dict(step=1, action=1) if name == "good" else
                                                       dict(step=0, action=.5))
    code, out, err = shell("report", "runs/good", "runs/bad", "--json", cwd=tmp_path)
    shown = json.loads(out)
    assert code == 0 and shown["metric"] == {"step": "screens"}, err
    assert [round(m["score"]) for m in shown["methods"].values()] == [100, 0]
    assert shell("report", "runs/good", "--quiet", cwd=tmp_path)[0] == 0
    assert "step (screens)" in (tmp_path / "runs/good/report.html").read_text()
    code, _, err = shell("view", "runs/good", "--export", "page", "--quiet", cwd=tmp_path)
    assert code == 0 and "action (screens)" in (tmp_path / "page/index.html").read_text(), err
    pictures = [p.read_text() for p in (tmp_path / "page").rglob("*.html")]
    assert any("box of the answer" in p and "box of the gold" in p for p in pictures)


# --- one house: tables and settings ---

def test_screens_stand_in_the_tables(folder):
    samples = list(load("screens", root=folder))
    assert [s["question"] for s in samples] == [s["question"] for s in load_screens(folder)]
    assert samples[0]["meta"]["evidence_boxes"][0]["page"] == 1 and len(list(load("screens", "train", folder))) == 4
    with pytest.raises(ValueError, match="no split 'dev'"): load("screens", "dev", folder)
    config = make_config(dict(dataset="screens"))
    assert config.methods == ["screen"] and config.client.type == "screen-ocr"
    assert metrics_of(config) == dict(step="screens", action="screens")
    assert make_client(config.client.type).name == "screen-ocr"
    own = make_config(dict(dataset="screens", methods=["direct"], client="ocr"))
    assert own.methods == ["direct"] and own.client.type == "ocr"
    assert make_config({}).methods == ["direct", "cosee_base"] and make_config({}).client.type == "ocr"


@pytest.mark.parametrize("said, expected, tolerance, step, action", [
    (CLICK, CLICK, 10, 1, 1), (ToolCall.left_click((515, 300)), CLICK, 10, 0, 1),
    (ToolCall.left_click((515, 300)), CLICK, [15, 0], 1, 1), (ToolCall.left_click((501, 300)), CLICK, 0, 0, 1),
    (ToolCall.right_click((500, 300)), CLICK, 10, 0, 0),
    (ToolCall.answer("Ada Moor"), ToolCall.answer("ada moor"), 10, 1, 1),
    (ToolCall.answer("none"), ToolCall.answer("none"), 10, 1, 1),
    (ToolCall.key_press("ctrl+s"), ToolCall.key_press(["ctrl", "s"]), 10, 1, 1)])
def test_the_metrics_are_the_scores_of_steps(said, expected, tolerance, step, action):
    texts = step_text(said), step_text(expected)
    assert score(*texts, "step", "screens", tolerance=tolerance) == step
    assert score(*texts, "action", "screens", tolerance=tolerance) == action
    assert score_step(said, expected, tolerance)["score"] == step
    record = dict(sample="1", method="m", question="?", gold=[texts[1]], answer=texts[0],
                  meta=dict(tolerance=tolerance))
    assert score_records([record], dict(step="screens", action="screens"))["m"] == dict(step=[step], action=[action])


@pytest.mark.parametrize("answer", ["", "   ", "none", "I cannot see it", "{", '{"action": 5}', '{"action": "fly"}',
                                    "[]", "7", "[" * 100_000, '{"action": "left_click", "coordinate": [NaN, 1]}'])
def test_answers_that_are_no_step_score_nothing(answer):
    assert score(answer, step_text(CLICK), "step", "screens") == 0 == score(answer, step_text(CLICK), "action",
                                                                            "screens")


@pytest.mark.parametrize("call", [
    CLICK, ToolCall.scroll((1, 2), -300), ToolCall.key_press(["ctrl", "s"]), ToolCall.type_text("Answer: none"),
    ToolCall.wait(2.5), ToolCall.terminate("failure"), ToolCall.answer(), ToolCall.answer("41.50"),
    ToolCall.answer(""), ToolCall.answer("not answerable"), ToolCall.answer('{"action": "wait", "time": 5}'),
    ToolCall.answer(format_tool_call(CLICK)), ToolCall.left_click_drag((3, 4))])
def test_a_step_is_read_back_from_its_answer(call):
    assert step_of(step_text(call)) == call


@pytest.mark.parametrize("style, told", [({}, "compact"), ({"style": "computer-use"}, "computer-use")])
def test_the_method_says_what_the_data_set_was_made_with(folder, style, told):
    client = ScriptedClient(replies(folder))
    sample = next(iter(load_screens(folder)))
    out = Method("screen", **style).run(sample, client)
    assert SYSTEM_PROMPTS[told] in json.dumps(client.calls[0]["messages"], default=str, ensure_ascii=False).replace(
        "\\n", "\n").replace('\\"', '"')
    assert out["page"] == (1 if "coordinate" in out["answer"] else None)


def test_a_reply_with_a_step_is_not_asked_for_again(folder, monkeypatch, capsys):
    client = ScriptedClient([*replies(folder)[:2], "I wonder", *replies(folder)[2:3]])
    monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda: client))
    argv = ["screen", "score", str(folder), "--client", "told", "--limit", "3", "--retry", "3", "--json", "--quiet"]
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)["groups"]["all"]["score"] == 1 and len(client.calls) == 4


# --- what was counted and compared in the wrong way ---

@pytest.mark.parametrize("annotation, tasks, wanted", [
    (dict(ratio=.5), {f"t{n}": 1 for n in range(10)}, 5), (dict(ratio=.1), {f"t{n}": 1 for n in range(10)}, 1),
    (dict(ratio=.3), {"t0": 3, "t1": 3, "t2": 4}, 3), (dict(ratio=1), {"t0": 3, "t1": 1}, 4),
    (dict(ratio=0), {"t0": 3}, 0), (dict(ratio=.5, enabled=False), {"t0": 4}, 0),
    (dict(ratio=.5, per_type={"t0": 2}), {"t0": 10, "t1": 1, "t2": 1}, 3)])
def test_the_ratio_of_annotated_pictures_counts_over_the_data_set(annotation, tasks, wanted, tmp_path, monkeypatch):
    def tiny(rng, kind):
        scene = Scene(rng, (60, 40))
        return Shot(scene, "Wait.", ToolCall.wait(1), (5, 5, 20, 20))
    for name in tasks: monkeypatch.setitem(SCREEN_TASKS, name, ScreenTask(tiny, ("usual",), "Wait."))
    fields = dict(name_prefix="n", tasks=tasks, test=dict(count=sum(tasks.values())), annotation=annotation)
    drawn = []
    for seed in (1, 1, 2):
        made = make_screens(dict(fields, seed=seed), tmp_path / str(len(drawn)))
        drawn.append(sorted(p.name for p in (made / "test").glob("annotated/*")))
    assert {len(names) for names in drawn} == {wanted} and drawn[0] == drawn[1]


@pytest.mark.parametrize("said, expected, right", [
    (["c", "ctrl"], ["ctrl", "c"], 0), (["ctrl", "v", "c"], ["ctrl", "c", "v"], 0),
    (["t", "ctrl", "shift"], ["ctrl", "shift", "t"], 0), (["ctrl", "a", "shift", "b"], ["ctrl", "shift", "a", "b"], 0),
    (["ctrl", "a", "ctrl", "c"], ["ctrl", "ctrl", "a", "c"], 0),
    (["ctrl+c"], ["ctrl", "c"], 1), (["Ctrl+C"], ["control", "c"], 1), (["c+ctrl"], ["ctrl", "c"], 0),
    (["shift", "ctrl", "t"], ["ctrl", "shift", "t"], 1), (["ctrl++"], ["ctrl", "+"], 1), (["+"], ["-"], 0),
    (["_"], [" "], 0), ([" "], ["space"], 1), (["Page_Down"], ["pgdn"], 1)])
def test_presses_are_compared_in_their_order(said, expected, right):
    assert score_step(ToolCall.key_press(said), ToolCall.key_press(expected))["score"] == right


PLUGIN = """
from cosee.screen import ToolCall, screen_task
from cosee.screen.scenes import Scene
from cosee.screen.tasks import Shot

@screen_task('start-menu', 'usual', 'hurried')
def start(rng, kind):
    "Open the start menu."
    scene = Scene(rng)
    scene.app('Notes')
    box = next(box for role, name, box in scene.marks if name == 'Start')
    return Shot(scene, 'Open the start menu.', ToolCall('left_click'), box)
"""


def test_tasks_of_a_file_are_listed_made_and_run_from_the_shell(tmp_path):
    (tmp_path / "my_tasks.py").write_text(PLUGIN)
    (tmp_path / "d.yaml").write_text("name_prefix: mine\ntasks: {start-menu: 2}\ntest: {count: 2}\n")
    code, out, err = shell("screen", "make", "d.yaml", "--quiet", cwd=tmp_path)
    assert code == 2 and "unknown task 'start-menu'" in err
    code, out, err = shell("screen", "tasks", "--json", "--plugin", "my_tasks.py", cwd=tmp_path)
    assert json.loads(out)["start-menu"] == dict(help="Open the start menu.", kinds=["usual", "hurried"]), err
    assert "click-button" in json.loads(out)
    code, out, err = shell("screen", "make", "d.yaml", "--quiet", "--json", "--workers", 2, "--plugin", "my_tasks.py",
                           cwd=tmp_path)
    assert code == 0 and json.loads(out)["test"] == 2, err
    samples = list(load("screens", root=tmp_path / json.loads(out)["folder"]))
    assert {s["meta"]["task_type"] for s in samples} == {"start-menu"}


@pytest.mark.parametrize("name, text, said", [
    ("none.py", None, "no such file"), ("broken.py", "def", "SyntaxError"),
    ("raises.py", "1 / 0", "ZeroDivisionError"),
    ("no_such_module", None, "No module named")])
def test_a_plugin_that_cannot_be_loaded_is_one_line(name, text, said, tmp_path, capsys):
    path = tmp_path / name if name.endswith(".py") else name
    if text: path.write_text(text)
    assert main(["screen", "tasks", "--plugin", str(path)]) == 2
    err = capsys.readouterr().err
    assert "--plugin" in err and said in err and err.count("\n") == 1 and f"plugin_{name[:-3]}" not in sys.modules
