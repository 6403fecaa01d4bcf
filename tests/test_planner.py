"""The planner: what models write becomes a valid plan or one clear error, files are opened only where they may be,
and no key is in anything that is written down."""
import json
import os
import threading

import pytest
from cosee.models.backends import Backend
from cosee.models.testing import ScriptedClient, random_checkpoint
from cosee.models.providers import OpenAIVLMClient
from cosee.models.remote import AuthenticationError, ResponseParseError, ServerError
from cosee.models.registry import create_vlm_client
from cosee.models.wrappers import AllFailed
from cosee.planner.graph import planner_graph
from cosee.planner.nodes.planner import JsonLog, PlanCache, plan, planner_node, planner_prompt
from cosee.planner.state import (AgenticIQAState, PlanControlFlags, PlannerOutput, parse_plan, planner_schema,
                                 settle_plan)
from cosee.planner.vlm_client import check_image_path, load_image
from cosee.utils.config import ConfigError
from conftest import ROOT
from fake_servers import FakeServer
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from PIL import Image, ImageDraw, ImageFilter
from pydantic import ValidationError

KEY = "planted-0123456789-key"
PAGE = Image.new("RGB", (64, 64), "white")
FLAGS = {"distortion_detection": False, "distortion_analysis": True, "tool_selection": True, "tool_execution": False}
PLAN = {"query_type": "IQA", "query_scope": ["the stamp", "the table"], "distortion_source": "Explicit",
        "distortions": {"the stamp": ["Blurs"], "the table": ["Noise", "JPEG"]}, "reference_mode": "No-Reference",
        "required_tool": None, "plan": FLAGS}


# --- types ---

def test_the_example_round_trips_and_satisfies_the_schema():
    out = PlannerOutput.model_validate(PLAN)
    assert json.loads(out.model_dump_json()) == PLAN
    Draft202012Validator(planner_schema()).validate(PLAN)


@pytest.mark.parametrize("field", PLAN)
def test_each_field_that_is_needed_is_missed(field):
    raw = {k: v for k, v in PLAN.items() if k != field}
    if field in ("distortions", "required_tool", "query_scope"):
        PlannerOutput.model_validate(raw)  # none, none, and the whole picture
    else:
        with pytest.raises(ValidationError):
            PlannerOutput.model_validate(raw)


@pytest.mark.parametrize("change", [{"query_type": "weather"}, {"query_scope": 3}, {"query_scope": [1]},
                                    {"distortion_source": "both"},
                                    {"distortions": 7}, {"distortions": {"a": [1]}}, {"reference_mode": "half"},
                                    {"required_tool": [1]},
                                    {"plan": None}, {"plan": {**FLAGS, "tool_selection": "maybe"}},
                                    {"plan": {"tool_selection": True}}])
def test_what_means_nothing_is_refused(change):
    with pytest.raises(ValidationError):
        PlannerOutput.model_validate({**PLAN, **change})


@pytest.mark.parametrize("change, field, read", [
    ({"query_type": "iqa"}, "query_type", "IQA"), ({"query_type": "OTHER"}, "query_type", "Other"),
    ({"query_scope": "global"}, "query_scope", "Global"), ({"query_scope": ["Global"]}, "query_scope", "Global"),
    ({"query_scope": "the stamp"}, "query_scope", ["the stamp"]), ({"query_scope": None}, "query_scope", "Global"),
    ({"reference_mode": "full reference"}, "reference_mode", "Full-Reference"),
    ({"reference_mode": "NR"}, "reference_mode", "No-Reference"),
    ({"distortion_source": "INFERRED"}, "distortion_source", "Inferred"),
    ({"required_tool": "None"}, "required_tool", None), ({"required_tool": []}, "required_tool", None),
    ({"required_tool": ["SSIM", "PSNR"]}, "required_tool", "SSIM, PSNR"),
    ({"distortion_source": "Explict"}, "distortion_source", "Explicit"),
    ({"distortions": {"a": None}}, "distortions", {"a": []}),
    ({"distortions": ["Blurs"]}, "distortions", {"the stamp": ["Blurs"], "the table": ["Blurs"]}),
    ({"distortions": "Blurs, Noise", "query_scope": "Global"}, "distortions", {"Global": ["Blurs", "Noise"]}),
    ({"distortions": {}}, "distortions", None), ({"distortions": {"a": "Blurs"}}, "distortions", {"a": ["Blurs"]}),
    ({"distortions": [{"a": ["Blurs"]}]}, "distortions", {"a": ["Blurs"]}),
])
def test_harmless_variants_mean_what_they_say(change, field, read):
    assert getattr(PlannerOutput.model_validate({**PLAN, **change}), field) == read


def test_flags_beside_the_plan_and_keys_in_another_style():
    flat = {k: v for k, v in PLAN.items() if k != "plan"} | {"distortionDetection": "no", "Tool Selection": "YES",
                                                             "distortion-analysis": 1, "tool_execution": 0}
    assert PlannerOutput.model_validate(flat).plan == PlanControlFlags(**FLAGS)


@pytest.mark.parametrize("source, distortions, detect",
                         [("Explicit", {"Global": ["Blurs"]}, False), ("Explicit", None, True),
                          ("Inferred", None, True), ("Explicit", {"Global": []}, True)])
@pytest.mark.parametrize("reference", [True, False])
def test_what_is_known_for_certain_is_settled(source, distortions, detect, reference):
    out = settle_plan(PlannerOutput.model_validate({**PLAN, "distortion_source": source, "distortions": distortions}),
                  reference)
    assert out.plan.distortion_detection is detect and out.distortion_source == ("Inferred" if detect else "Explicit")
    assert out.reference_mode == ("Full-Reference" if reference else "No-Reference")
    assert out.plan.tool_selection is FLAGS["tool_selection"] and settle_plan(out, reference) == out


# --- the prompt ---

@given(st.text(max_size=200))
def test_a_request_stays_a_string(query):
    assert json.loads(planner_prompt(query).rsplit("\nRequest: ", 1)[1]) == query


# --- replies ---


@given(st.text(max_size=300))
def test_any_text_is_a_plan_or_one_error(text):
    with pytest.raises(ResponseParseError):
        parse_plan(text)


def test_under_a_grammar_every_reply_is_a_plan(tmp_path):
    config = {"backends": {"qwen": {"kind": "qwen", "model_path": str(random_checkpoint(tmp_path / "tiny")),
                                    "models": {"tiny": "tiny"}}}}
    client = create_vlm_client("qwen.tiny", config)
    assert client.name == "qwen.tiny" and client.constrains
    for i in range(2):
        reply = client.chat([{"role": "user", "content": f"Plan {i}."}], schema=planner_schema(), max_new_tokens=220,
                            temperature=1.0, seed=i)
        Draft202012Validator(planner_schema()).validate(json.loads(reply.text))
        parse_plan(reply.text)


# --- planning ---

def test_three_attempts_then_the_fallback_then_an_error():
    first, second = ScriptedClient(["no"] * 3), ScriptedClient([json.dumps(PLAN)])
    out = plan("Is the stamp blurred?", PAGE, client=first, fallback=second, cache=None)
    assert out == settle_plan(PlannerOutput.model_validate(PLAN)) and len(first.calls) == 3 and len(second.calls) == 1
    call = first.calls[0]
    assert ((call["temperature"], call["top_p"], call["max_new_tokens"]) == (0.0, 0.1, 2048)
            and call["schema"] == planner_schema())
    assert "return valid JSON only" in first.calls[1]["messages"][0]["content"][-1]["text"].replace("Return", "return")
    with pytest.raises(AllFailed, match="attempt 3"):
        plan("Is the stamp blurred?", PAGE, client=ScriptedClient(["no"] * 3),
             fallback=ScriptedClient(["no"] * 3), cache=None)


def test_a_refused_key_is_not_tried_again():
    model = ScriptedClient([AuthenticationError("refused"), json.dumps(PLAN)])
    with pytest.raises(AuthenticationError):
        plan("Sharp?", PAGE, client=model, cache=None)
    assert len(model.calls) == 1


def test_the_cache_knows_request_picture_reference_and_model():
    cache, model = PlanCache(), ScriptedClient([json.dumps(PLAN)] * 9)
    other = ScriptedClient([json.dumps(PLAN)])
    other.name = "other"
    dark = Image.new("RGB", (64, 64), "black")
    for _ in range(2):
        plan("a", PAGE, client=model, cache=cache)
        plan("b", PAGE, client=model, cache=cache)
        plan("a", dark, client=model, cache=cache)
        plan("a", PAGE, dark, client=model, cache=cache)
        plan("a", PAGE, client=other, cache=cache)
    assert len(model.calls) == 4 and len(other.calls) == 1 and cache.hits == 5
    small = PlanCache(2)
    for q in "abc":
        plan(q, PAGE, client=ScriptedClient([json.dumps(PLAN)]), cache=small)
    assert len(small._plans) == 2


def test_a_kept_plan_cannot_be_changed_from_outside():
    cache, model = PlanCache(), ScriptedClient([json.dumps(PLAN)])
    plan("a", PAGE, client=model, cache=cache).query_scope.append("spoiled")
    assert plan("a", PAGE, client=model, cache=cache).query_scope == PLAN["query_scope"]


def test_an_empty_request_is_refused():
    with pytest.raises(ValueError, match="request is empty"):
        plan("  ", PAGE, client=ScriptedClient([]))


def test_the_node_returns_a_plan_or_an_error():
    state = AgenticIQAState(query="Sharp?", image_path="nowhere.png")
    out = planner_node(ScriptedClient([json.dumps(PLAN)]))(state)
    assert out["plan"] is None and "nowhere.png: cannot be read" in out["error"]
    out = planner_node(ScriptedClient([ServerError("down")]),
                       cache=None)({"query": "?", "image_path": str(ROOT / "none.png")})
    assert (set(out) == {"plan", "error", "attempts"}
            and planner_node(ScriptedClient([]))({})["error"].startswith("KeyError"))


# --- files ---

@pytest.fixture
def folder(tmp_path):
    "A folder of pictures with a secret beside it and traps inside."
    root = tmp_path / "pictures"
    (root / "sub").mkdir(parents=True)
    PAGE.save(root / "ok.png")
    PAGE.save(tmp_path / "secret.png")
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "inner.png").symlink_to(root / "ok.png")
    (root / "loop.png").symlink_to(root / "loop.png")
    (root / "out").symlink_to(tmp_path)
    (root / "zero.png").symlink_to("/dev/zero")
    (root / "notes.txt").write_text("text")
    os.mkfifo(root / "pipe.png")
    return root


@pytest.mark.parametrize("path", ["../secret.png", "sub/../../secret.png", "link.png", "out/secret.png", "loop.png",
                                  "zero.png", "pipe.png",
                                  "/etc/passwd", "/dev/zero", "/dev/stdin", "http://127.0.0.1/a.png",
                                  "file:///etc/passwd", "data:image/png;base64,AA",
                                  "", " ", "a\0.png", "sub", ".", "notes.txt", "missing.png", "~/ok.png", "x" * 5000,
                                  "..\\secret.png"])
def test_paths_that_lead_elsewhere_are_refused(folder, path):
    with pytest.raises(ValueError) as e:
        check_image_path(path, folder)
    assert "\n" not in str(e.value) and len(str(e.value)) < 300


def test_plan_keeps_paths_in_the_current_folder_unless_told_otherwise(folder, monkeypatch):
    monkeypatch.chdir(folder)
    def ask(*paths, **kwargs): return plan("Sharp?", *paths, client=ScriptedClient([json.dumps(PLAN)]), cache=None,
                                           **kwargs)
    assert ask("ok.png") == ask(folder / "ok.png") == ask("inner.png")
    for paths in (["../secret.png"], [folder.parent / "secret.png"], ["link.png"], ["ok.png", "../secret.png"]):
        with pytest.raises(ValueError, match="leads out"):
            ask(*paths)
    assert ask("ok.png", root=folder) == ask("../secret.png", root=None) == ask("secret.png", root=folder.parent)


def test_an_absolute_path_outside_is_refused_and_inside_is_not(folder):
    with pytest.raises(ValueError, match="leads out"):
        check_image_path(folder.parent / "secret.png", folder)
    assert (check_image_path("ok.png", folder) == check_image_path(folder / "ok.png", folder)
            == check_image_path("inner.png", folder))


def test_a_file_that_is_no_picture_is_refused(folder):
    (folder / "fake.png").write_text("<svg/>")
    (folder / "torn.bmp").write_bytes(b"BM" + b"\0" * 40)
    for name in ("fake.png", "torn.bmp"):
        with pytest.raises(ValueError, match=name):
            load_image(name, root=folder)


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "tiff", "webp"])
def test_every_kind_is_read_and_scaled(folder, suffix):
    Image.new("RGB", (3000, 300), "white").save(folder / f"wide.{suffix}")
    assert load_image(f"wide.{suffix}", root=folder).size[0] == 2048


# --- nothing leaks ---

def test_no_key_in_anything_that_is_written(tmp_path, folder):
    log = JsonLog(tmp_path / "plans.jsonl")
    scripts = [[], [(401, {})] * 3, ["empty"] * 3, [(400, {})]]
    for script in scripts:
        with FakeServer("openai", script, lambda body: json.dumps(PLAN)) as server:
            client = OpenAIVLMClient(Backend(kind="openai", model="m", base_url=server.base_url, max_retries=0), KEY)
            out = planner_node(client, root=folder, log=log,
                               cache=None)({"query": f"Is {KEY} sharp?", "image_path": str(folder / "ok.png")})
            (tmp_path / "state.txt").open("a").write(f"{out}\n")
            assert server.requests
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert ([r["event"] for r in lines] == ["plan", "plan failed", "plan failed", "plan failed"]
            and lines[2]["usage"]["calls"] == 3)
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert KEY.encode() not in path.read_bytes(), path


def test_lines_of_several_threads_stay_whole(tmp_path):
    log = JsonLog(tmp_path / "l.jsonl")
    threads = [threading.Thread(target=lambda n=n: [log("e", n=n, text="x\ny" * 500) for _ in range(50)])
               for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len([json.loads(line) for line in log.path.read_text().splitlines()]) == 200


# --- what a plan costs ---

DEAR, FREE = dict(prompt=2, completion=10), dict(prompt=0, completion=0)


@pytest.mark.parametrize("prices, script, known", [
    ([DEAR], [], DEAR), ([DEAR], ["empty"], DEAR), ([FREE], [], FREE), ([None], [], None), ([DEAR, None], [], DEAR),
    ([DEAR, None], ["empty"] * 3, None), ([DEAR, FREE], ["empty"] * 3, None), ([DEAR, DEAR], ["empty"] * 3, DEAR)])
def test_a_plan_tells_what_it_cost_where_a_price_is_known(tmp_path, prices, script, known):
    log = JsonLog(tmp_path / "log.jsonl")
    with FakeServer("openai", script, lambda body: json.dumps(PLAN)) as server:
        models = {f"m{i}": {"model": f"m{i}", **({"price": p} if p else {})} for i, p in enumerate(prices)}
        config = {"backends": {"house": {"kind": "openai", "base_url": server.base_url, "models": models}}}
        first, *others = [create_vlm_client(f"house.{m}", config) for m in models]
        plan("Sharp?", PAGE, client=first, fallback=others[0] if others else None, cache=None, log=log)
        (record,) = map(json.loads, log.path.read_text().splitlines())
    usage = record["usage"]
    assert usage["calls"] == len(script) + 1 == len(server.requests)
    tokens = usage["prompt_tokens"], usage["completion_tokens"]
    cost = known and (tokens[0] * known["prompt"] + tokens[1] * known["completion"]) / 1e6
    assert record["cost"] == (None if known is None else pytest.approx(cost)) and all(tokens)


@pytest.mark.parametrize("price", [{"prompt": 2}, {"prompt": -1, "completion": 1}, {**DEAR, "prompt": "cheap"},
                                   {**DEAR, "prompt": float("inf")}, {**DEAR, "x": 1}])
def test_half_a_price_is_none(price):
    with pytest.raises(ConfigError, match="price"):
        create_vlm_client("h.m", {"backends": {"h": {"kind": "openai", "price": price, "models": {"m": "m"}}}})


# --- a real provider, where its key is in the environment ---

KEYS = {"openai.gpt-4o": "OPENAI_API_KEY", "anthropic.claude-3.5-sonnet": "ANTHROPIC_API_KEY",
        "google.gemini-2.5-flash": "GOOGLE_API_KEY"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", KEYS)
def test_a_provider_plans(backend, tmp_path, capfd, caplog):
    "Costs a few cents; it asks once or twice, by the configuration that is published."
    if not os.environ.get(KEYS[backend]): pytest.skip(f"{KEYS[backend]} is not set")
    stamp = Image.new("RGB", (400, 160), "white")
    ImageDraw.Draw(stamp).text((40, 50), "PAID 12 MAY", fill="black", font_size=48)
    stamp.filter(ImageFilter.GaussianBlur(5)).save(tmp_path / "stamp.png")
    log = JsonLog(tmp_path / "log.jsonl")
    config = str(ROOT / "configs/model_backends.yaml")
    graph = planner_graph(backend, config=config, root=tmp_path, log=log, cache=None)
    out = graph.invoke({"query": "Is the stamp too blurred to be read?", "image_path": "stamp.png"})
    said = "".join([repr(out), log.path.read_text(), *capfd.readouterr(), caplog.text])
    leaked = os.environ[KEYS[backend]] in said   # a failure must not show it either
    assert not leaked
    assert not out["error"] and out["plan"].query_type == "IQA" and out["plan"].reference_mode == "No-Reference"
    Draft202012Validator(planner_schema()).validate(json.loads(out["plan"].model_dump_json()))
    (record,) = map(json.loads, log.path.read_text().splitlines())
    assert record["usage"]["completion_tokens"] > 0 and not record["cached"]
