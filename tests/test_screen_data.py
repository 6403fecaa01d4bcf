"""Data sets of screens: built (C57 to C67), checked (C23 to C41, C74), and the same bytes every time.

SCREEN_FILES=2000 mutates so many data sets; a couple of hundred by default."""
import copy
import json
import os
import re
import shutil

import pytest
from PIL import Image

from cosee.screen import check as screen_data, tasks as screen_tasks
from cosee.datasets.records import DataError
from cosee.screen.scenes import Scene
from cosee.screen.call import ToolCall, read_tool_call, to_units, validate_tool_call
from cosee.screen.check import check_case, check_record, make_screens, screen_files, split_numbers, validate_dataset
from cosee.screen.config import SYSTEM_PROMPTS, screen_config
from cosee.screen.tasks import SCREEN_TASKS, Shot, make_shot, screen_task

RECORD = {"id": "sample_00123", "image": "images/screenshot_00123.jpg", "conversations": [
    {"from": "human", "value": "<image>\nClick on the 'Submit' button"},
    {"from": "gpt", "value": '<tool_call>\n{"name": "computer", "arguments": {"action": "left_click", "coordinate": '
                             '[750, 890]}}\n</tool_call>'}],
    "metadata": {"task_type": "click-button", "real_coords": [1440, 961], "button_label": "Submit"}}
CASE = {"test_id": "test_00001", "screenshot": "images/test_00001.jpg", "prompt": "Click the 'Submit' button",
        "expected_action": {"name": "computer", "arguments": {"action": "left_click", "coordinate": [750, 890]}},
        "tolerance": [50, 50], "metadata": {"task_type": "click-button", "real_coords": [1440, 961],
                                            "button_label": "Submit"}}


@pytest.fixture(autouse=True, scope="module")
def small_tasks():
    "A task whose pictures are tiny, so that many data sets can be made."
    @screen_task("tiny", "point", "say")
    def tiny(rng, kind):
        s = Scene(rng, (200, 150))
        box = s.button(f"B{rng.randrange(10 ** 6)}", (rng.randrange(80), rng.randrange(100)))
        return Shot(s, f"Do {kind}", ToolCall("left_click") if kind == "point" else ToolCall("answer", text="yes"),
                    box)
    yield
    del SCREEN_TASKS["tiny"]


def config(n=12, **more):
    return {"name_prefix": "tiny", "tasks": {"tiny": n}, "test": {"count": 4}, **more}


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- every task that comes along ---

@pytest.fixture(scope="module")
def office(tmp_path_factory):
    "One sample of each kind of task, and six cases."
    tasks = {t: 1 for t in SCREEN_TASKS if t != "tiny"}
    made = dict(name_prefix="office", seed=5, tasks=tasks, test=dict(count=6, tolerance=[20, 30]),
                annotation=dict(ratio=1), output=dict(image_format="jpg", image_quality=85))
    return make_screens(made, tmp_path_factory.mktemp("office"), timestamp="20260102_030405")


def test_c57_to_c66_layout(office):
    assert office.name == "office-20260102_030405" and re.fullmatch(r"office-\d{8}_\d{6}", office.name)
    names = {"config.json", "data.jsonl", "train.jsonl", "val.jsonl", "test/test.json",
             *(f"images/screenshot_{i:05d}.jpg" for i in range(12)),
             *(f"test/images/test_{i:05d}.jpg" for i in range(6)),
             *(f"test/annotated/test_{i:05d}_annotated.png" for i in range(6))}
    assert set(screen_files(office)) == names and validate_dataset(office) == []


def test_c23_to_c32_training_samples(office):
    data, train, val = (lines(office / f"{n}.jsonl") for n in ("data", "train", "val"))
    assert ({r["metadata"]["task_type"] for r in data} == {t for t in SCREEN_TASKS if t != "tiny"} and len(train) == 9
            and len(val) == 3)
    assert sorted(map(json.dumps, train + val)) == sorted(map(json.dumps, data)) and len({r["id"] for r in data}) == 12
    for r in data:
        human, gpt = r["conversations"]
        assert (check_record(r) == [] and (human["from"], gpt["from"]) == ("human", "gpt")
                and human["value"].startswith("<image>\n"))
        call = read_tool_call(gpt["value"])
        assert validate_tool_call(call) == [] and not os.path.isabs(r["image"])
        size = Image.open(office / r["image"]).size
        assert call.coordinate is None or call.coordinate == to_units(r["metadata"]["real_coords"], size)


def test_c34_to_c41_test_cases(office):
    cases = json.loads((office / "test/test.json").read_text())
    assert isinstance(cases, list) and len({c["test_id"] for c in cases}) == 6
    for c in cases:
        assert (check_case(c) == [] and not c["prompt"].startswith("<image>") and c["tolerance"] == [20, 30]
                and c["metadata"]["task_type"] in SCREEN_TASKS)
        assert (office / "test" / c["screenshot"]).is_file() and validate_tool_call(c["expected_action"]) == []


@pytest.mark.slow
def test_every_kind_of_every_task_is_drawn_in_full():
    for name, task in SCREEN_TASKS.items():
        for kind in task.kinds:
            shot = make_shot(name, kind, {kind: 1})
            x0, y0, x1, y1 = shot.box
            assert (shot.meta["kind"] == kind and 0 <= x0 < x1 <= shot.scene.size[0]
                    and 0 <= y0 < y1 <= shot.scene.size[1]), (name, kind)


# --- what the configuration says happens ---

def test_c46_c62_c67_splits(tmp_path):
    c = screen_config(config(50, splits={"train": .7}, held_out={"enabled": True, "ratio": .1}, seed=3))
    parts = split_numbers(50, c)
    assert [len(parts[k]) for k in ("train", "val", "held_out")] == [int(45 * .7), 45 - int(45 * .7), 5]
    assert (sorted(sum(parts.values(), [])) == list(range(50))
            and split_numbers(50, c) == parts != split_numbers(50, c.model_copy(update={"seed": 4})))
    folder = make_screens(config(10, held_out={"enabled": True, "ratio": .2}, splits={"train": .5}), tmp_path)
    ids = {n: {r["id"] for r in lines(folder / f"{n}.jsonl")} for n in ("data", "train", "val", "held_out")}
    assert ([len(ids[n]) for n in ids] == [10, 4, 4, 2] and ids["train"] | ids["val"] | ids["held_out"] == ids["data"]
            and validate_dataset(folder) == [])
    for share, names in ((1, ("train", "val")), (0, ("val", "train"))):
        folder = make_screens(config(3, splits={"train": share}, test={"count": 0}), tmp_path)
        assert ([len(lines(folder / f"{n}.jsonl")) for n in names] == [3, 0]
                and not (folder / "held_out.jsonl").exists() and validate_dataset(folder) == [])


def test_c45_distributions(tmp_path):
    folder = make_screens(config(20, task_distributions={"tiny": {"say": 1, "point": 0}}), tmp_path)
    assert {r["metadata"]["kind"] for r in lines(folder / "data.jsonl")} == {"say"}
    folder = make_screens(config(40), tmp_path)
    assert {r["metadata"]["kind"] for r in lines(folder / "data.jsonl")} == {"say", "point"}


def test_c48_c49_format_and_quality(tmp_path):
    size = {}
    for quality in (20, 95):
        folder = make_screens(config(1, output={"image_format": "jpg", "image_quality": quality}), tmp_path)
        assert Image.open(folder / "images/screenshot_00000.jpg").format == "JPEG"
        size[quality] = (folder / "images/screenshot_00000.jpg").stat().st_size
    assert size[20] < size[95]
    assert Image.open(make_screens(config(1), tmp_path) / "images/screenshot_00000.png").format == "PNG"


def test_c47_c58_system_prompt_and_config(tmp_path):
    for style in SYSTEM_PROMPTS:
        said = json.loads((make_screens(config(1, system_prompt=style), tmp_path) / "config.json").read_text())
        assert (said["system_prompt"] == style and said["system_prompt_text"] == SYSTEM_PROMPTS[style]
                and said["seed"] == 42 and said["tasks"] == {"tiny": 1})


def test_c50_to_c54_test_set_and_annotation(tmp_path):
    folder = make_screens(config(4, test={"count": 7, "tolerance": 3}, annotation={"per_type": {"tiny": 2}}), tmp_path)
    cases = json.loads((folder / "test/test.json").read_text())
    assert (len(cases) == 7 and {c["tolerance"] for c in cases} == {3}
            and len(list((folder / "test/annotated").iterdir())) == 2)
    folder = make_screens(config(4, test={"count": 7}, annotation={"enabled": False}), tmp_path)
    assert not (folder / "test/annotated").exists()
    shown = Image.open(make_screens(config(1, test={"count": 1, "tolerance": 100}, annotation={"ratio": 1}), tmp_path)
                       / "test/annotated/test_00000_annotated.png")
    assert shown.size[0] == 200 and shown.size[1] > 150


@pytest.mark.parametrize("fields, said", [({"tasks": {"nothing": 1}}, "unknown task 'nothing'"),
                                          ({"task_distributions": {"tiny": {"dance": 1}}}, "unknown kind 'dance'"),
                                          ({"task_distributions": {"nothing": {"a": 1}}}, "unknown task"),
                                          ({"annotation": {"per_type": {"nothing": 1}}}, "unknown task")])
def test_c55_unknown_tasks_and_kinds(tmp_path, fields, said):
    with pytest.raises(DataError, match=said):
        make_screens({**config(), **fields}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_task_whose_step_is_not_valid_is_an_error():
    screen_task("bad")(lambda rng, kind: Shot(Scene(rng, (50, 50)), "x", ToolCall("hover"), (0, 0, 5, 5)))
    try:
        with pytest.raises(ValueError, match="'bad' makes a step that is not valid: Invalid action: hover"):
            make_shot("bad", 1)
    finally:
        del SCREEN_TASKS["bad"]


# --- the same bytes ---

def test_c43_same_seed_same_bytes_for_any_number_of_workers(tmp_path, monkeypatch):
    made = [make_screens(config(21, seed=9), tmp_path / str(w), workers=w) for w in (1, 2, 3)]
    first = screen_files(made[0])
    assert len(first) == 21 + 4 + 5 and all(screen_files(m) == first for m in made)
    other = screen_files(make_screens(config(21, seed=10), tmp_path / "other"))
    assert other["images/screenshot_00000.png"] != first["images/screenshot_00000.png"]


@pytest.mark.parametrize("at", [0, 1, 5, 9, 13, 15])
def test_an_interrupted_run_goes_on(tmp_path, monkeypatch, at):
    whole, one, count = screen_files(make_screens(config(), tmp_path / "whole")), screen_data._make_one, []
    def stop(*args):
        if len(count) == at: raise KeyboardInterrupt
        count.append(args)
        return one(*args)
    with monkeypatch.context() as m:
        m.setattr(screen_data, "_make_one", stop)
        with pytest.raises(KeyboardInterrupt):
            make_screens(config(), tmp_path / "parts")
    assert validate_dataset(next((tmp_path / "parts").iterdir())) != []
    again = []
    monkeypatch.setattr(screen_data, "_make_one", lambda *args: (again.append(args), one(*args))[1])
    folder = make_screens(config(), tmp_path / "parts")
    assert screen_files(folder) == whole and len(list((tmp_path / "parts").iterdir())) == 1
    assert len(again) == 16 - at


def test_another_configuration_or_no_resume_begins_anew(tmp_path, monkeypatch):
    def stop(*args): raise KeyboardInterrupt
    with monkeypatch.context() as m:
        m.setattr(screen_data, "_make_one", stop)
        with pytest.raises(KeyboardInterrupt):
            make_screens(config(), tmp_path)
    other, fresh = make_screens(config(seed=1), tmp_path), make_screens(config(), tmp_path, resume=False)
    assert len({other, fresh, *tmp_path.iterdir()}) == 3 and validate_dataset(other) == validate_dataset(fresh) == []
    with pytest.raises(DataError, match="is there already"):
        make_screens(config(), tmp_path, timestamp=fresh.name.removeprefix("tiny-"), resume=False)
    with pytest.raises(ValueError, match="workers"):
        make_screens(config(), tmp_path, workers=0)


def test_a_failing_worker_is_told(tmp_path, monkeypatch):
    def broken(rng, kind): raise RuntimeError("no paint")
    monkeypatch.setitem(SCREEN_TASKS, "tiny", screen_tasks.ScreenTask(broken, ("point",), ""))
    with pytest.raises(RuntimeError, match="no paint"):
        make_screens(config(), tmp_path, workers=2)


# --- the validator ---

def test_the_documents_examples_pass():
    assert check_record(RECORD) == [] and check_case(CASE) == [] and check_case({**CASE, "tolerance": 50}) == []


def without(key):
    def change(r): del r[key]
    return change


def setter(*path_and_value):
    *path, value = path_and_value
    def change(r):
        for p in path[:-1]:
            r = r[p]
        r[path[-1]] = value
    return change


def reply(text): return setter("conversations", 1, "value", text)
def called(**arguments):
    return reply("<tool_call>\n" + json.dumps({"name": "computer", "arguments": arguments}) + "\n</tool_call>")
def shuffled(r):
    items = list(r.items())[::-1]
    r.clear()
    r.update(items)


GOOD, BAD = True, False
BOTH = [  # what is done to a record or a case, and whether it stays sound
    (shuffled, GOOD), (setter("metadata", "button_label", "x"), GOOD),
    (setter("metadata", "deep", {"a": [1, None]}), GOOD), (setter("note", "mine"), GOOD),
    (without("metadata"), BAD), (setter("metadata", []), BAD), (setter("metadata", "task_type", ""), BAD),
    (setter("metadata", "task_type", 5), BAD),
    (lambda r: r["metadata"].pop("task_type"), BAD), (setter("metadata", "real_coords", [5]), BAD),
    (setter("metadata", "real_coords", ["5", 5]), BAD),
    (setter("metadata", "real_coords", [-1, 5]), BAD), (setter("metadata", "real_coords", [10 ** 6, 5]), BAD),
    (setter("metadata", "real_coords", [float("nan"), 5]), BAD)]
RECORDS = BOTH + [
    (without("id"), BAD), (setter("id", 5), BAD), (setter("id", " "), BAD), (without("image"), BAD),
    (setter("image", "images/none.png"), BAD),
    (setter("image", "../x.png"), BAD), (setter("image", "/etc/passwd"), BAD), (setter("image", "train.jsonl"), BAD),
    (setter("image", "images"), BAD), (setter("image", "a\0b"), BAD),
    (without("conversations"), BAD), (setter("conversations", []), BAD), (lambda r: r["conversations"].pop(), BAD),
    (lambda r: r["conversations"].reverse(), BAD),
    (setter("conversations", 0, "from", "user"), BAD), (setter("conversations", 0, "value", "Click"), BAD),
    (setter("conversations", 0, "value", "<image>\n "), BAD),
    (setter("conversations", 0, "value", "<image>\nAnother wording"), GOOD), (setter("conversations", 0, 5), BAD),
    (setter("conversations", 1, "value", None), BAD),
    (called(action="answer"), GOOD), (called(action="wait", time=3), GOOD), (called(action="wait"), BAD),
    (called(action="hover"), BAD), (called(action="terminate", status="ok"), BAD),
    (called(action="left_click", coordinate=[1001, 0]), BAD), (called(action="left_click"), BAD),
    (reply("I click."), BAD), (reply("<tool_call>{}</tool_call>"), BAD),
    (reply('<tool_call>\n{"name": "computer_use", "arguments": {"action": "answer"}}\n</tool_call>'), GOOD),
    (reply('<tool_call>{"name": "computer", "arguments": {"action": "answer"}}'), BAD),
    (reply('Now: <tool_call>\n{"name": "computer", "arguments": {"action": "answer"}}\n</tool_call>'), BAD),
    (lambda r: r["metadata"].pop("real_coords"), BAD),
    (lambda r: r["conversations"].extend([{"from": "human", "value": "And then?"},
                                          copy.deepcopy(r["conversations"][1])]), GOOD),
    (lambda r: r["conversations"].append({"from": "human", "value": "And then?"}), BAD)]
CASES = BOTH + [
    (without("test_id"), BAD), (setter("test_id", 7), BAD), (without("screenshot"), BAD),
    (setter("screenshot", "images/none.png"), BAD), (setter("screenshot", "../images/screenshot_00000.png"), BAD),
    (without("prompt"), BAD), (setter("prompt", "<image>\nClick"), BAD), (setter("prompt", "Another wording"), GOOD),
    (without("expected_action"), BAD),
    (setter("expected_action", "arguments", {"action": "answer"}), GOOD),
    (setter("expected_action", "name", "mouse"), BAD),
    (setter("expected_action", "arguments", {"action": "type"}), BAD),
    (without("tolerance"), BAD), (setter("tolerance", 50), GOOD), (setter("tolerance", [0, 0.5]), GOOD),
    (setter("tolerance", -1), BAD), (setter("tolerance", [1]), BAD),
    (setter("tolerance", "10"), BAD), (setter("tolerance", None), BAD),
    (lambda r: r["metadata"].pop("real_coords"), GOOD)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    "A sound data set and its parsed files."
    folder = make_screens(config(8, task_distributions={"tiny": {"point": 1}}), tmp_path_factory.mktemp("sound"))
    return folder, {n: lines(folder / f"{n}.jsonl")
                    for n in ("data", "train", "val")} | {"test": json.loads((folder / "test/test.json").read_text())}


def store(folder, parsed):
    for n in ("data", "train", "val"):
        (folder / f"{n}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in parsed[n]))
    (folder / "test/test.json").write_text(json.dumps(parsed["test"], indent=1))


def well_formed(faults):
    return all(re.fullmatch(r"[\w./-]+:\d+: [^\n]+", f) for f in faults)


@pytest.mark.parametrize("n", range(len(RECORDS)))
def test_c74_record_mutations(sound, n):
    mutate(sound, "data", 3, *RECORDS[n])


@pytest.mark.parametrize("n", range(len(CASES)))
def test_c74_case_mutations(sound, n):
    mutate(sound, "test", 2, *CASES[n])


def mutate(sound, part, i, change, good):
    folder, parsed = sound
    parsed = copy.deepcopy(parsed)
    target = parsed[part][i]
    same = [r for n in ("train", "val") if part == "data" for r in parsed[n] if r["id"] == target["id"]]
    for r in (target, *same):
        change(r)
    try:
        store(folder, parsed)
        faults = validate_dataset(folder)
    finally:
        store(folder, sound[1])
    assert (faults == []) == good and well_formed(faults), faults
    where = "test/test.json:" if part == "test" else f"data.jsonl:{i + 1}: "
    assert good or any(f.startswith(where) for f in faults)


def at(folder, name, change):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))


TEXT = {  # changes of whole files, and what is said about them
    "blank lines": ("train.jsonl", lambda b: b.replace(b"\n", b"\n\n"), None),
    "windows line ends": ("train.jsonl", lambda b: b.replace(b"\n", b"\r\n"), None),
    "no last line end": ("val.jsonl", lambda b: b.rstrip(), None),
    "a byte order mark": ("test/test.json", lambda b: b"\xef\xbb\xbf" + b, None),
    "cut off": ("data.jsonl", lambda b: b[:-30], r"data.jsonl:8: broken JSON"),
    "a list": ("train.jsonl", lambda b: b"[1]\n" + b, r"train.jsonl:1: expected an object, not list"),
    "not UTF-8": ("val.jsonl", lambda b: b + b"\xff\xfe\n", r"val.jsonl:3: is not UTF-8"),
    "twice": ("train.jsonl", lambda b: b + b.split(b"\n")[0], r"train.jsonl:7: id '\w+' stands in line 1 already"),
    "one less": ("train.jsonl", lambda b: b.split(b"\n", 1)[1], r"data.jsonl:\d+: sample '\w+' is in no split"),
    "different": ("train.jsonl", lambda b: b.replace(b"Do point", b"Do it", 1),
                  r"train.jsonl:1: sample '\w+' differs from data.jsonl, line \d"),
    "unknown": ("val.jsonl", lambda b: b.replace(b"sample_", b"other_", 1),
                r"val.jsonl:1: sample '\w+' is not in data.jsonl"),
    "no list": ("test/test.json", lambda b: b'{"a": 1}', r"test/test.json:1: expected a list"),
    "open list": ("test/test.json", lambda b: b.rstrip()[:-1], r"test/test.json:\d+: broken JSON"),
    "a comma too much": ("test/test.json", lambda b: b.rstrip()[:-1] + b",]", r"test/test.json:\d+: broken JSON"),
    "more behind": ("test/test.json", lambda b: b + b"[]", r"test/test.json:\d+: broken JSON"),
    "deep": ("test/test.json", lambda b: b"[" * 100_000, r"test/test.json:1: broken JSON"),
    "no number": ("data.jsonl", lambda b: b.replace(b'"kind": "point"', b'"kind": NaN', 1),
                  r"data.jsonl:1: broken JSON"),
    "config": ("config.json", lambda b: b"[]", "config.json:1: expected an object"),
    "broken config": ("config.json", lambda b: b"{", "config.json:1: broken JSON"),
    "cut picture": ("images/screenshot_00002.png", lambda b: b[:200], r"data.jsonl:3: field 'image': "),
    "other picture": ("images/screenshot_00002.png", lambda b: b"GIF89a", r"data.jsonl:3: field 'image': "),
}


@pytest.mark.parametrize("what", TEXT)
def test_c74_whole_files(sound, tmp_path, what):
    folder = shutil.copytree(sound[0], tmp_path / "set")
    name, change, said = TEXT[what]
    at(folder, name, change)
    faults = validate_dataset(folder)
    assert well_formed(faults) and (faults == [] if said is None else any(re.match(said, f) for f in faults)), faults


def test_c74_files_that_are_missing(sound, tmp_path):
    for name in ("config.json", "data.jsonl", "train.jsonl", "val.jsonl", "test/test.json"):
        folder = shutil.copytree(sound[0], tmp_path / name.replace("/", "_"))
        (folder / name).unlink()
        assert f"{name}:0: the file is missing" in validate_dataset(folder)
    folder = shutil.copytree(sound[0], tmp_path / "pictures")
    shutil.rmtree(folder / "images")
    assert len(validate_dataset(folder)) == 8
    assert validate_dataset(tmp_path / "none") == ["none:0: no such folder"]


def test_c74_a_sample_in_two_splits(sound, tmp_path):
    folder = shutil.copytree(sound[0], tmp_path / "set")
    at(folder, "val.jsonl", lambda b: b + (folder / "train.jsonl").read_bytes().split(b"\n")[0])
    (fault,) = validate_dataset(folder)
    assert re.fullmatch(r"val.jsonl:3: sample 'sample_\d+' is in train.jsonl too", fault)


def test_c74_all_errors_at_once(sound, tmp_path):
    folder = shutil.copytree(sound[0], tmp_path / "set")
    at(folder, "data.jsonl", lambda b: b.replace(b"computer", b"browser").replace(b"task_type", b"type"))
    assert len([f for f in validate_dataset(folder) if f.startswith("data.jsonl")]) >= 16
