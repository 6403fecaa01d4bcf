"dataset.yaml, field by field: C42 to C56 of the published schemas' requirements."
import random
import warnings

import pytest

from cosee.datasets.records import DataError
from cosee.screen.config import SYSTEM_PROMPTS, ScreenConfig, draw_kind, read_screen_config, screen_config

DOCUMENT = """
name_prefix: calendar-mike
seed: 42

tasks:
  click-day: 500
  scroll-month: 200
  select-appointment: 300

task_distributions:
  click-appointment:
    grey_grey: 0.80
    other_colors: 0.15
    adversarial: 0.05

splits:
  train: 0.8

system_prompt: computer-use

output:
  image_format: jpg
  image_quality: 95

test:
  count: 100
  tolerance: 10

annotation:
  enabled: true
  per_type:
    click-day: 4
    scroll-month: 2
"""
LEAST = {"name_prefix": "x", "tasks": {"click-day": 1}}


def changed(path, value):
    "The smallest configuration with one field set."
    fields = {"name_prefix": "x", "tasks": {"click-day": 1}}
    *blocks, name = path.split(".")
    inner = fields
    for b in blocks:
        inner = inner.setdefault(b, {})
    inner[name] = value
    return fields


def test_the_documents_example(tmp_path):
    (tmp_path / "dataset.yaml").write_text(DOCUMENT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = read_screen_config(tmp_path / "dataset.yaml")
    assert c.model_dump() == dict(
        name_prefix="calendar-mike", seed=42, tasks={"click-day": 500, "scroll-month": 200, "select-appointment": 300},
        task_distributions={"click-appointment": {"grey_grey": .8, "other_colors": .15, "adversarial": .05}},
        splits={"train": .8},
        held_out={"enabled": False, "ratio": .1}, system_prompt="computer-use",
        output={"image_format": "jpg", "image_quality": 95},
        test={"count": 100, "tolerance": 10},
        annotation={"enabled": True, "ratio": .1, "per_type": {"click-day": 4, "scroll-month": 2}})
    assert read_screen_config(c) is c and screen_config(c.model_dump()) == c


def test_c55_defaults():
    c = screen_config(LEAST)
    assert ((c.seed, c.splits.train, c.system_prompt, c.output.image_format, c.output.image_quality)
            == (42, .8, "computer-use", "png", 95))
    assert ((c.test.count, c.test.tolerance, c.annotation.enabled, c.annotation.ratio, c.annotation.per_type)
            == (100, 10, True, .1, {}))
    assert (c.held_out.enabled, c.held_out.ratio, c.task_distributions) == (False, .1, {})


FIELDS = {  # id and field -> values that are right, values that are wrong
    "C42 name_prefix": (["a", "calendar-mike_2.0"], ["", "../x", "a/b", 5, None, "-x", "a b"]),
    "C43 seed": ([0, -1, 10 ** 30], ["42", 4.5, True, None]),
    "C44 tasks": ([{"click-day": 5}, {"click-day": 0, "b": 1}],
                  [{}, {"click-day": 0}, {"click-day": -1}, {"click-day": "5"}, {"click-day": True}, {5: 5},
                   ["click-day"], None]),
    "C45 task_distributions": ([{}, {"a": {"k": 1}}, {"a": {"k": .5, "l": .5}}],
                               [{"a": {}}, {"a": {"k": .5}}, {"a": {"k": "1"}}, {"a": {"k": 1.5, "l": -.5}},
                                {"a": 1}]),
    "C46 splits.train": ([0, 1, .5], [-.1, 1.1, "0.8", float("nan"), True]),
    "C47 system_prompt": ([*SYSTEM_PROMPTS, "You click what is named."], ["", 5, None]),
    "C48 output.image_format": (["png", "jpg"], ["jpeg", "gif", "PNG", None]),
    "C49 output.image_quality": ([1, 100], [0, 101, 95.5, "95", True]),
    "C50 test.count": ([0, 7], [-1, "7", 7.5, None]),
    "C51 test.tolerance": ([0, 10, 2.5, [10, 20]], [-1, [1], [1, 2, 3], "10", None, [1, "2"], True]),
    "C52 annotation.enabled": ([True, False], ["yes", 1, None]),
    "C53 annotation.ratio": ([0, .5, 1], [-1, 2, "0.1", float("inf")]),
    "C54 annotation.per_type": ([{}, {"click-day": 4}], [{"click-day": -1}, {"click-day": .5}, [4]]),
    "C55 held_out.ratio": ([0, .5, 1], [-1, 2, "0.1"]),
    "C55 held_out.enabled": ([True, False], ["no", 0]),
}


@pytest.mark.parametrize("ids", FIELDS)
@pytest.mark.filterwarnings("ignore:output.image_quality")
def test_c42_to_c55_every_field(ids):
    right, wrong = FIELDS[ids]
    name = ids.split()[1]
    for v in right:
        c = screen_config(changed(name, v))
        for part in name.split("."):
            c = getattr(c, part)
        assert c == v
    for v in wrong:
        with pytest.raises(DataError, match=name.replace(".", r"\.")):
            screen_config(changed(name, v))


@pytest.mark.parametrize("path", ["colour", "output.colour", "splits.val", "test.seed"])
def test_no_field_is_read_and_left_aside(path):
    with pytest.raises(DataError, match=path.replace(".", r"\.")):
        screen_config(changed(path, 1))
    with pytest.warns(UserWarning, match="image_quality is for jpg"):
        screen_config(changed("output.image_quality", 50))


def test_all_faults_at_once():
    with pytest.raises(DataError) as e:
        screen_config({"name_prefix": 5, "tasks": {"a": "b"}, "seed": None}, "dataset.yaml")
    assert all(f in str(e.value) for f in ("dataset.yaml: ", "name_prefix", "tasks.a", "seed"))


def test_c56_sums_and_the_last_kind():
    for total in (.99, 1.01, 1):
        screen_config(changed("task_distributions", {"a": {"k": total / 2, "l": total / 2}}))
    for total in (.98, 1.02):
        with pytest.raises(DataError, match="sum to 1"):
            screen_config(changed("task_distributions", {"a": {"k": total / 2, "l": total / 2}}))
    never = random.Random()
    never.random = lambda: .9999
    assert draw_kind({"a": .5, "b": .49}, never) == "b" and draw_kind({"a": 1., "b": 0.}, never) == "a"


@pytest.mark.parametrize("text, said", [("a: [", "YAML"), ("- a", "expected fields"), ("", "expected fields"),
                                        ("seed: 1\nseed: 2", "stands twice"),
                                        ("a: &x [1]\nb: *x", "references"), ("? [a, b]\n: 1", "YAML"),
                                        ("a: !!python/object:os.system x", "YAML"),
                                        ("\x00", "YAML"), ("a: " + "[" * 5000, "YAML"),
                                        ("test: {count: 1, count: 2}", "stands twice")])
def test_hostile_files(tmp_path, text, said):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(DataError, match=f"c.yaml: .*{said}"):
        read_screen_config(tmp_path / "c.yaml")
    with pytest.raises(DataError, match="cannot be read"):
        read_screen_config(tmp_path / "none.yaml")


def test_c52_to_c54_annotation_counts():
    def count(task, cases, **annotation):
        config = screen_config({**LEAST, "annotation": annotation})
        return sum(config.annotates({task: cases}, task, i) for i in range(cases))
    assert (count("click-day", 50) == 5 and count("click-day", 50, ratio=.5) == 25
            and count("click-day", 50, enabled=False) == 0)
    assert (count("click-day", 50, per_type={"click-day": 4}) == 4
            and count("click-day", 3, per_type={"click-day": 4}) == 3)
    assert count("other", 50, per_type={"click-day": 4}) == 5
    assert isinstance(screen_config(LEAST), ScreenConfig)
