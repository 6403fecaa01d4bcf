"""Tool calls of screens, requirement by requirement: C1 to C74 are the ids of the published schemas' requirements.

SCREEN_EXAMPLES=10000 draws so many random tool calls, coordinates and replies; a few hundred by default."""
import json
import os
from fractions import Fraction

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cosee.screen.call import (TOOL_ACTIONS, ToolCall, format_tool_call, key_events, parse_tool_call, read_tool_call,
                               read_tool_calls, to_pixels, to_units, tolerance_pair, tool_call_schema, unit_distance,
                               validate_tool_call, within_tolerance)

EXAMPLES = settings(max_examples=int(os.environ.get("SCREEN_EXAMPLES", 200)))
CLICK = {"name": "computer", "arguments": {"action": "left_click", "coordinate": [500, 300]}}


def call(**arguments):
    return {"name": "computer", "arguments": arguments}


# --- the wire format ---

def test_c1_wire_format_and_both_names():
    assert ToolCall.left_click((500, 300)).to_dict() == CLICK
    assert (ToolCall.from_dict(CLICK) == ToolCall.from_dict({**CLICK, "name": "computer_use"})
            == ToolCall.left_click((500, 300)))


def test_c2_fourteen_actions():
    names = ("left_click right_click middle_click double_click triple_click scroll hscroll mouse_move left_click_drag "
             "key type wait terminate answer")
    assert set(TOOL_ACTIONS) == set(names.split())
    assert validate_tool_call(call(action="hover")) == ["Invalid action: hover"]
    assert validate_tool_call(call()) == ["Not a tool call: 'arguments' name no action"]


SOUND = {"coordinate": [500, 300], "pixels": -3, "keys": ["ctrl", "s"], "text": "", "time": 2.5, "status": "failure"}
WRONG = {"coordinate": [[500], [500, 1001], [-1, 5], ["5", 5], 500, [True, 5], [float("nan"), 5], [1, 2, 3]],
         "pixels": ["3", True, float("inf"), []],
         "keys": ["ctrl", [], [""], [1], {}], "text": [5, ["a"], True], "time": ["2", -1, False],
         "status": ["done", 1, [], True]}
OWNER = {"coordinate": "left_click", "pixels": "scroll", "keys": "key", "text": "type", "time": "wait",
         "status": "terminate"}


@pytest.mark.parametrize("ids, name", [("C3", "coordinate"), ("C4", "pixels"), ("C5", "keys"), ("C6", "text"),
                                       ("C7", "time"), ("C8", "status")])
def test_c3_to_c8_arguments_and_their_types(ids, name):
    action = OWNER[name]
    needed = {n: SOUND[n] for n in TOOL_ACTIONS[action]}
    assert validate_tool_call(call(action=action, **needed)) == []
    assert validate_tool_call(call(action="answer", **{name: SOUND[name]})) == []  # optional elsewhere
    for wrong in WRONG[name]:
        assert len(validate_tool_call(call(action=action, **{**needed, name: wrong}))) == 1, wrong


REQUIRED = {"C9": {"left_click": "coordinate", "right_click": "coordinate", "double_click": "coordinate"},
            "C10": {"scroll": "coordinate pixels"},
            "C11": {"hscroll": "coordinate pixels"}, "C12": {"key": "keys"}, "C13": {"type": "text"},
            "C14": {"wait": "time"}, "C15": {"terminate": "status"},
            "C16": {"middle_click": "coordinate", "triple_click": "coordinate", "mouse_move": "coordinate",
                    "left_click_drag": "coordinate", "answer": ""}}


@pytest.mark.parametrize("ids", REQUIRED)
def test_c9_to_c16_what_each_action_requires(ids):
    for action, names in REQUIRED[ids].items():
        needed = {n: SOUND[n] for n in names.split()}
        assert validate_tool_call(call(action=action, **needed)) == []
        for name in needed:
            rest = {k: v for k, v in needed.items() if k != name}
            said = "coordinate" if name == "coordinate" else f"'{name}'"
            assert validate_tool_call(call(action=action, **rest)) == [f"Action '{action}' requires {said}"]


def test_c10_c11_negative_scrolls_up_and_left():
    for made in (ToolCall.scroll((5, 5), -300), ToolCall.hscroll((5, 5), -300)):
        assert validate_tool_call(made) == [] and made.to_dict()["arguments"]["pixels"] == -300


def test_c12_keys_keep_their_order():
    assert ToolCall.key_press(("ctrl", "shift", "t")).to_dict()["arguments"]["keys"] == ["ctrl", "shift", "t"]
    assert ToolCall.key_press("enter").keys == ["enter"]


@pytest.mark.parametrize("keys, pressed", [
    (["ctrl", "shift", "t"], ["ctrl", "shift", "t"]), ("ctrl+c", ["ctrl", "c"]), ("ctrl++", ["ctrl", "+"]),
    ("+", ["+"]), (" ", [" "]), (["Alt + F4"], ["Alt", "F4"]), ("enter", ["enter"]), (["b", "a"], ["b", "a"]),
    (["tab", "tab"], ["tab", "tab"])])
def test_c12_keys_go_down_in_order_and_come_up_in_reverse(keys, pressed):
    call = ToolCall.key_press(keys)
    events = key_events(call)
    assert events == [("down", k) for k in pressed] + [("up", k) for k in reversed(pressed)]
    assert key_events(call.to_dict()) == events == key_events(read_tool_call(format_tool_call(call)))
    held = []   # what was pressed last is released first, and nothing stays down
    for kind, key in events:
        if kind == "down": held.append(key)
        else: assert held.pop() == key
    assert not held


@pytest.mark.parametrize("call, said", [(ToolCall.wait(2), "not by 'wait'"), (ToolCall("key"), "requires 'keys'"),
                                        (ToolCall("key", keys=[""]), "Invalid keys value"), ({}, "Not a tool call")])
def test_c12_other_calls_press_no_keys(call, said):
    with pytest.raises(ValueError, match=said):
        key_events(call)


def test_c21_fields_and_unknown_arguments():
    fields = dict(action="scroll", coordinate=(1, 2), pixels=3, keys=["a"], text="t", time=4, status="success",
                  extra={"modifier": "shift"})
    made = ToolCall(**fields)
    assert vars(made) == fields
    assert made.to_dict()["arguments"] == {**{k: v for k, v in fields.items() if k != "extra"}, "coordinate": [1, 2],
                                           "modifier": "shift"}
    assert ToolCall.from_dict(made.to_dict()) == made
    assert ToolCall("answer").to_dict() == call(action="answer")
    assert ToolCall("wait", time=1, extra={"time": 9, "x": 1}).to_dict() == call(action="wait", time=1, x=1)
    for bad in ({"name": "other", "arguments": {"action": "wait"}}, {"arguments": {"action": "wait"}},
                {"name": "computer"}, [], None,
                {"name": ["computer"], "arguments": {"action": "wait"}}, call(action=None),
                {"name": "computer", "arguments": "{}"}):
        with pytest.raises(ValueError):
            ToolCall.from_dict(bad)


def test_c22_a_constructor_for_each_action():
    at = (500, 300)
    made = [ToolCall.left_click(at), ToolCall.right_click(at), ToolCall.middle_click(at), ToolCall.double_click(at),
            ToolCall.triple_click(at),
            ToolCall.mouse_move(at), ToolCall.left_click_drag(at), ToolCall.scroll(at, 100), ToolCall.hscroll(at, 100),
            ToolCall.key_press(["a"]),
            ToolCall.type_text("x"), ToolCall.wait(1), ToolCall.terminate(), ToolCall.answer("42")]
    assert ([c.action for c in made] == list(dict.fromkeys(c.action for c in made))
            and {c.action for c in made} == set(TOOL_ACTIONS))
    assert [validate_tool_call(c) for c in made] == [[]] * 14
    assert made[-2].status == "success" and ToolCall.terminate("failure").status == "failure"


# --- coordinates ---

def test_c17_c18_c19_units():
    assert to_units((192, 540), (1920, 1080)) == (100, 500)
    assert to_units((0, 0), (1920, 1080)) == (0, 0) == to_pixels((0, 0), (1920, 1080))
    assert to_units((1920, 1080), (1920, 1080)) == (1000, 1000)
    assert to_pixels((1000, 1000), (1920, 1080)) == (1919, 1079)  # the last pixel that there is


def test_c20_half_to_even_and_sizes():
    assert [to_units((p, 0), (2000, 1))[0] for p in (1, 3, 5, 7)] == [0, 2, 2, 4]
    assert to_units((0.5, 1.5), (1000, 1000)) == (0, 2)
    for size in ((0, 5), (5, -1), (float("nan"), 1), 5, (1, 2, 3), ("5", 5), None):
        with pytest.raises(ValueError):
            to_units((1, 1), size)
        with pytest.raises(ValueError):
            to_pixels((1, 1), size)
    for point in ((1,), (float("inf"), 1), "ab", None, (True, 1)):
        with pytest.raises(ValueError):
            to_units(point, (10, 10))


@EXAMPLES
@given(st.data(), st.integers(1, 4000), st.integers(1, 4000))
def test_c20_there_and_back(data, w, h):
    x, y = data.draw(st.integers(0, w - 1)), data.draw(st.integers(0, h - 1))
    units = to_units((x, y), (w, h))
    assert (units == (round(Fraction(1000 * x, w)), round(Fraction(1000 * y, h)))
            and validate_tool_call(ToolCall.left_click(units)) == [])
    for before, after, side in zip((x, y), to_pixels(units, (w, h)), (w, h), strict=True):
        assert 0 <= after < side and abs(before - after) <= (1 if side <= 2000 else 2)


def test_c32_the_documents_example_is_consistent():
    assert to_units((1440, 961), (1920, 1080)) == (750, 890) and to_pixels((750, 890), (1920, 1080)) == (1440, 961)


# --- tolerance ---

def test_c39_number_or_pair():
    assert tolerance_pair(50) == (50, 50) and tolerance_pair([50, 20]) == (50, 20) and tolerance_pair(0) == (0, 0)
    for wrong in (-1, [1], [1, 2, 3], "50", True, None, [1, -1], float("nan"), [1, "2"]):
        with pytest.raises(ValueError):
            tolerance_pair(wrong)


def test_c40_the_box_includes_its_edge_and_its_corners():
    inside = [(550, 300), (450, 280), (550, 320), (500, 300)]
    assert all(within_tolerance(p, (500, 300), [50, 20]) for p in inside)
    assert not any(within_tolerance(p, (500, 300), [50, 20]) for p in [(551, 300), (500, 321), (449, 300), (500, 279)])
    assert within_tolerance((550, 350), (500, 300), 50) and unit_distance((550, 350), (500, 300)) > 50


# --- text ---

DOCUMENT = ('<tool_call>\n{"name": "computer", "arguments": {"action": "left_click", "coordinate": [500, 300]}}\n'
            '</tool_call>')


def test_c28_the_documents_text_round_trips():
    assert format_tool_call(ToolCall.left_click((500, 300))) == DOCUMENT == format_tool_call(CLICK)
    assert format_tool_call(read_tool_call(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize("text, found", [
    (DOCUMENT, True), (f"Let me click.\n{DOCUMENT}\nDone.", True),
    (DOCUMENT.upper().replace(json.dumps(CLICK).upper(), json.dumps(CLICK)), True),
    (DOCUMENT.replace("\n", ""), True), (DOCUMENT + DOCUMENT.replace("500", "1"), True),
    (DOCUMENT.replace('"computer"', '"browser"'), False), (DOCUMENT.replace('"action"', '"act"'), False),
    (DOCUMENT[:-5], False),
    (DOCUMENT.replace("}}", "}"), False), (json.dumps(CLICK), False), ("", False), (None, False), (5, False),
    ("<tool_call>{}</tool_call>" + DOCUMENT, False), ("<tool_call>" + "[" * 100_000, False),
    ("<tool_call>" + "1" * 5000, False)])
def test_c33_first_block_or_none(text, found):
    assert parse_tool_call(text) == (ToolCall.left_click((500, 300)) if found else None)


def test_several_broken_and_bare_calls():
    drag = [ToolCall.mouse_move((1, 2)), ToolCall.left_click_drag((3, 4))]
    text = "first " + "\nthen ".join(map(format_tool_call, drag))
    assert read_tool_calls(text) == read_tool_calls(text, mend=False) == drag
    assert read_tool_calls(text.replace("</tool_call>", "", 1)) == drag
    assert read_tool_calls(DOCUMENT.replace("}}", "}")) == [ToolCall.left_click((500, 300))]
    assert (read_tool_calls(json.dumps(CLICK)) == [ToolCall.left_click((500, 300))]
            and read_tool_calls(json.dumps(CLICK), mend=False) == [])
    assert read_tool_calls("<tool_call>nothing</tool_call>" + DOCUMENT, mend=False) == read_tool_calls(DOCUMENT)


@EXAMPLES
@given(st.lists(st.one_of(st.text(max_size=8),
                          st.sampled_from([DOCUMENT, DOCUMENT[:40], "<tool_call>", "</tool_call>", '{"name":', "[[",
                                           json.dumps(CLICK)])), max_size=8))
def test_no_reply_breaks_the_readers(parts):
    text = "".join(parts)
    assert all(isinstance(c, ToolCall) for c in [*read_tool_calls(text), *read_tool_calls(text, mend=False)])
    assert read_tool_call(text) is None or isinstance(read_tool_call(text), ToolCall)


# --- the validator against the interface of the document, written as a JSON schema ---

NUMBER, NEEDS = {"type": "number"}, {a: list(n) for names in REQUIRED.values()
                                     for a, n in ((a, names[a].split()) for a in names)}
INTERFACE = jsonschema.Draft202012Validator({
    "type": "object", "required": ["name", "arguments"],
    "properties": {"name": {"enum": ["computer", "computer_use"]}, "arguments": {
        "type": "object", "required": ["action"],
        "properties": {
            "action": {"enum": list(NEEDS)}, "pixels": {"anyOf": [NUMBER, {"type": "null"}]},
            "time": {"anyOf": [{**NUMBER, "minimum": 0}, {"type": "null"}]},
            "coordinate": {"anyOf": [{"type": "array", "items": {**NUMBER, "minimum": 0, "maximum": 1000},
                                      "minItems": 2, "maxItems": 2}, {"type": "null"}]},
            "keys": {"anyOf": [{"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                               {"type": "null"}]},
            "text": {"type": ["string", "null"]}, "status": {"enum": ["success", "failure", None]}},
        "allOf": [{"if": {"properties": {"action": {"const": a}}},
                   "then": {"required": n, "properties": {k: {"not": {"type": "null"}} for k in n}}}
                  for a, n in NEEDS.items()]}}})
ANY = st.recursive(st.none() | st.booleans() | st.integers(-5, 1200) | st.floats(0, 1, allow_nan=False)
                   | st.text(max_size=5),
                   lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
                   max_leaves=4)
VALUES = {"coordinate": st.lists(st.integers(-2, 1002) | st.integers(0, 1000) | st.floats(-1, 1001), min_size=1,
                                 max_size=3) | st.lists(st.integers(0, 1000), min_size=2, max_size=2),
          "pixels": st.integers(-500, 500), "keys": st.lists(st.sampled_from(["ctrl", "s", ""]), max_size=3),
          "text": st.text(max_size=8),
          "time": st.integers(-1, 9) | st.floats(-1, 9), "status": st.sampled_from(["success", "failure", "done"])}


@st.composite
def calls(draw):
    "Mostly what its action needs, sometimes less, more, or something else altogether."
    action = draw(st.sampled_from(sorted(NEEDS)))
    names = [n for n in VALUES if n in NEEDS[action] and draw(st.integers(0, 9)) or draw(st.integers(0, 9)) == 9]
    args = {"action": action, **{n: draw(VALUES[n] if draw(st.integers(0, 9)) else ANY) for n in names}}
    if not draw(st.integers(0, 9)): args[draw(st.sampled_from(["action", "modifier", "x"]))] = draw(ANY)
    return draw(ANY) if not draw(st.integers(0, 29)) else {
        "name": draw(st.sampled_from(["computer"] * 8 + ["computer_use", "browser"])), "arguments": args}


@EXAMPLES
@given(calls())
@example({"name": "computer", "arguments": {"action": ["left_click"]}})
@example({"name": "computer", "arguments": {"action": "wait", "time": True}})
def test_c68_to_c72_accepts_exactly_what_the_interface_allows(made):
    faults = validate_tool_call(made)
    assert isinstance(faults, list) and all(isinstance(f, str) and f and "\n" not in f for f in faults)
    assert (faults == []) == INTERFACE.is_valid(made), faults
    if not faults:
        read = ToolCall.from_dict(made)
        assert (validate_tool_call(read) == []
                and ToolCall.from_dict(read.to_dict()) == read == read_tool_call(format_tool_call(read)))


@given(st.one_of(ANY, st.builds(object), st.just(10 ** 5000), st.builds(ToolCall, ANY, ANY, ANY, ANY, ANY, ANY, ANY)))
@example(ToolCall("wait", time=10 ** 5000))
@example(ToolCall("left_click", coordinate=(10 ** 5000, -1)))
def test_c68_never_raises(made):
    assert all(isinstance(f, str) for f in validate_tool_call(made))


def test_c68_to_c73_messages():
    said = lambda *args, **kwargs: validate_tool_call(ToolCall(*args, **kwargs))
    assert said("left_click", coordinate=(500, 300)) == []
    assert said("hover", coordinate=(5000, 1)) == ["Invalid action: hover"]
    assert said("left_click") == ["Action 'left_click' requires coordinate"]
    assert said("left_click", coordinate=(1001, -2)) == ["Coordinate out of range [0, 1000]: (1001, -2)"]
    assert said("key") == ["Action 'key' requires 'keys'"]
    assert said("scroll", coordinate=(1, 1), pixels="10") == ["Invalid pixels value: 10"]
    assert said("terminate", status="maybe") == ["Invalid terminate status: maybe"]
    assert said("scroll", coordinate=(1, 1001)) == ["Action 'scroll' requires 'pixels'",
                                                    "Coordinate out of range [0, 1000]: (1, 1001)"]


# --- the schema that constrains models ---

def test_what_the_schema_admits_is_valid():
    schema = jsonschema.Draft202012Validator(tool_call_schema())
    jsonschema.Draft202012Validator.check_schema(tool_call_schema())
    for action in TOOL_ACTIONS:
        made = call(action=action, **{n: SOUND[n] for n in TOOL_ACTIONS[action] or ("text",)})
        assert schema.is_valid(made) and not schema.is_valid({**made, "name": "other"})
        for name in TOOL_ACTIONS[action]:
            assert not schema.is_valid(call(**{k: v for k, v in made["arguments"].items() if k != name}))
    assert not jsonschema.Draft202012Validator(tool_call_schema(["wait"])).is_valid(CLICK)


def test_the_schema_compiles_to_a_grammar():
    from llguidance import LLMatcher
    for schema in (tool_call_schema(), tool_call_schema(["answer"])):
        assert not LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema))
