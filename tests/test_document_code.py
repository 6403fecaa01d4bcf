"""The documents that describe CoSee hold code: all of it runs, and what they promise works as they say.

The blocks stand in tests/data/documents; `COSEE_DOCUMENTS=folder` runs those of the documents themselves. There are
stand-ins for models and for what a document calls and does not define. Nine blocks of the documents were seen failing
at c3df7c1: four of the API (9, 10, 12, 15), five of the text memory."""
import ast
import inspect
import json
import logging
import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import cosee
import numpy as np
import pytest
from conftest import ROOT
from cosee.agents import SCANNER_ROLE_PROMPT, team
from cosee.board import Board
from cosee.utils.config import ConfigError
from cosee.controller import CoSeeController
from cosee.datasets.records import DataError
from cosee.datasets.synthetic.document import make_samples
from benchmark_files import write_layout
from cosee.eval.baselines import direct_answer
from cosee.policies import make_method
from cosee.experiments import make_config
from cosee.models.backends import Backend, parse_config
from cosee.retrieval.index import PageIndex
from cosee.models.client import Reply, VLMClient, merged
from cosee.models.usage import image_tokens
from cosee.models.testing import ScriptedClient
from cosee.models.providers import OpenAIVLMClient
from cosee.models.registry import CLIENTS, create_vlm_client, make_client, register_client
from cosee.models.remote import RemoteClient, ServerError
from cosee.text.ocr import TextExtractor
from cosee.pages import PageError, load_pages, open_image, page_sizes
from cosee.planner.nodes.planner import PlanCache, plan, planner_node
from cosee.planner.vlm_client import planner_client
from cosee.runs.inspect_log import write_inspect
from cosee.runs.log import RunLog, write_about
from cosee.runs.record import answer_one
from cosee.runs.table import Run
from cosee.screen.agent import ScreenAgent, ScreenReader
from cosee.screen.call import read_tool_call, validate_tool_call
from cosee.screen.config import SYSTEM_PROMPTS, instruction, read_screen_config
from cosee.tools.agent import with_tools
from cosee.document.tool import parse_tool_call
from cosee.tools.calculator import Calculate
from cosee.view.episode import EpisodeView, episode_html
from cosee.view.widget import EpisodeWidget
from cosee.view.drawing import annotate
from fake_servers import FakeServer
from PIL import Image
from asking import chat_many

DOCUMENTS = Path(os.environ.get("COSEE_DOCUMENTS") or ROOT / "tests/data/documents")
PAGE = Image.new("RGB", (64, 96), "white")
FLAGS = {"distortion_detection": False, "distortion_analysis": True, "tool_selection": True, "tool_execution": False}
PLAN = {"query_type": "IQA", "query_scope": ["the stamp"], "distortion_source": "Explicit",
        "distortions": {"the stamp": ["Blurs"]}, "reference_mode": "No-Reference", "required_tool": None,
        "plan": FLAGS}
OTHER = {**PLAN, "query_scope": ["the table"], "distortions": {"the table": ["Noise"]}}
GUESS = {"action": "HYPOTHESIZE", "answer": "42", "content": "The total row.", "confidence": 0.95,
         "view": {"page": 1, "bbox_2d": [100, 100, 300, 200]}}


def blocks(name, kind="python"):
    "The code blocks of a document."
    return re.findall(rf"^```{kind}\n(.*?)^````?", (DOCUMENTS / f"{name}.md").read_text(encoding="utf-8"), re.S | re.M)


# A package or module that the documents name -> ours
OURS = {"concordia": "cosee", "cudag.prompts.tools": "cosee.screen", "agentic": "cosee.planner"}


def ours(code):
    "A block of a document, with the names of its packages replaced by ours."
    names = "|".join(map(re.escape, OURS))
    return re.sub(rf"^(from|import) ({names})\b", lambda m: f"{m[1]} {OURS[m[2]]}", code, flags=re.M)


API = blocks("cosee_api")


# --- the documents' blocks ---


def our_names():
    "Name -> what stands for it in the package."
    from cosee.agents import Agent
    from cosee.datasets import mpdocvqa
    from cosee.eval import baselines, metrics
    found = {**vars(baselines), **vars(metrics), **vars(mpdocvqa), "Agent": Agent}
    return {**found, **{name: getattr(cosee, name) for name in cosee.__all__}}


def promised():
    "Each function and method of the API's document: (its name, its definition)."
    for code in API:
        for node in ast.parse(code).body:
            if isinstance(node, ast.FunctionDef):
                yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


@pytest.mark.parametrize("name, node", list(promised()), ids=lambda v: v if isinstance(v, str) else "")
def test_every_parameter_of_the_api_is_there_in_its_order_with_its_default(name, node):
    owner, _, method = name.rpartition(".")
    mine = getattr(our_names()[owner], method) if owner else our_names()[name]
    params = list(inspect.signature(mine).parameters.values())
    asked = [a.arg for a in node.args.args]
    assert [p.name for p in params if p.kind is p.POSITIONAL_OR_KEYWORD][:len(asked)] == asked
    said = [ast.literal_eval(d) for d in node.args.defaults]
    got = [inspect.signature(mine).parameters[a].default for a in asked[len(asked) - len(said):]]
    assert [g for g, s in zip(got, said, strict=True) if s is not None] == [s for s in said if s is not None]
    assert not node.args.kwarg or params[-1].kind is inspect.Parameter.VAR_KEYWORD


def test_an_agent_as_the_api_writes_one_works():
    names = {"SCANNER_ROLE_PROMPT": SCANNER_ROLE_PROMPT}
    exec("from cosee import *", names)
    code = next(c for c in API if "class ScannerAgent" in c)
    exec(code, names)
    client = ScriptedClient([{"action": "INSPECT", "content": "A table.", "view": {"page": 1}}])
    assert names["ScannerAgent"](client).act([PAGE], "What is the total?", Board())["content"] == "A table."
    board = Board()
    for code in API:
        if re.match(r"(view|cell|action) = ", code):
            exec(code, names)
    board.add_cell(names["view"], "note")
    cell = names["cell"]
    board.add_cell(cell["view"], cell["content"], cell["tags"], cell["author"], cell["step"])
    assert CoSeeController(team(client)).validate_action(names["action"])["answer"] == "3.4 million dollars"


def test_the_blocks_of_the_text_memory_run_with_a_client_as_model(capsys):
    call = {"tool": "web_search", "args": {"query": "rate"}}
    replies = ["It is dark.", "Eat.", "Light.", json.dumps(call), "It is 1.08."]
    names = {"model": ScriptedClient(replies), "search_web": lambda query: f"found {query}"}
    for code in blocks("concordia_document"):
        exec(ours(code), names)
        if "class WebSearchTool" in code:
            names.update(web_search_tool=names["WebSearchTool"](), calculator_tool=Calculate())
    told = capsys.readouterr().out
    assert "Answer: It is dark.\n" in told and '[Tool Call: web_search({"query": "rate"})]' in told
    assert "[Tool Result: found rate]" in told and names["answer"] == "It is 1.08."
    assert parse_tool_call(blocks("concordia_document", "json")[0]) == ("tool_name", {"arg1": "value1",
                                                                                      "arg2": "value2"})


def test_the_blocks_of_the_screens_run(tmp_path):
    for code in blocks("cudag_schemas"):
        names = {}
        exec(ours(code), names)
        assert names["errors"] == []
    written = blocks("cudag_schemas", "json")[0]
    assert validate_tool_call(read_tool_call(f"<tool_call>\n{written}</tool_call>")) == []
    for fenced in blocks("cudag_schemas", ""):
        if "<tool_call>" in fenced:
            assert validate_tool_call(read_tool_call(fenced)) == []
    (tmp_path / "dataset.yaml").write_text(blocks("cudag_schemas", "yaml")[0])
    assert read_screen_config(tmp_path / "dataset.yaml").tasks["click-day"] == 500


def test_a_planners_block_alone_is_a_configuration():
    config = parse_config(blocks("agenticiqa_planner", "yaml")[0], {"OPENAI_API_KEY": "a-key-of-some-length",
                                                                    "ANTHROPIC_API_KEY": "another-key-of-length"})
    client, settings = planner_client(config=config)
    assert [c.name for c in client.clients] == ["openai.gpt-4o", "anthropic.claude-3.5-sonnet"]
    assert (settings.max_tokens, settings.top_p, settings.retry_attempts) == (2048, 0.1, 3)
    with pytest.raises(ConfigError, match="there is no backend 'opnai.gpt-4o'"):
        parse_config("planner: {backend: opnai.gpt-4o}", {})


# --- clients as the documents write them ---

class Documented:
    "The planner's client: one method, and nothing of ours."
    def __init__(self, *replies):
        self.replies, self.heard = list(replies), []

    def generate(self, prompt: str, image, **kwargs) -> str:
        self.heard.append((prompt, image, kwargs))
        return json.dumps(self.replies.pop(0))


def test_a_length_has_two_names_everywhere():
    client = ScriptedClient(["a"] * 9, cycle=True)
    client.chat([], max_tokens=5)
    chat_many(client, [[]], max_tokens=6)
    client.generate([], "?", max_tokens=7)
    direct_answer(client, [PAGE], "?", gen_kwargs={"max_tokens": 8})
    team(client, ["scanner"])[0].act([PAGE], "?", Board(), {"max_tokens": 9})
    assert [c["max_new_tokens"] for c in client.calls] == [5, 6, 7, 8, 9]
    assert all("max_tokens" not in c for c in client.calls)
    both = dict(max_tokens=5, max_new_tokens=6)
    for ask in (lambda: client.chat([], **both), lambda: merged(both), lambda: client.generate([], "?", **both)):
        with pytest.raises(ValueError, match="two names of one setting"):
            ask()


def test_a_tool_without_a_schema_works_in_a_team():
    class WebSearchTool:
        @property
        def name(self) -> str:
            return "web_search"

        @property
        def description(self) -> str:
            return "Search the web. Args: query (str)"

        def execute(self, *, query: str) -> str:
            return f"found {query}"
    client = ScriptedClient([{"tool": "web_search", "args": {"query": "rate"}}, GUESS])
    agents = with_tools(team(client, ["detail_reader"]), tools=[WebSearchTool()])
    event = CoSeeController(agents, max_steps=1).run([PAGE], "?")["trace"]["events"][0]
    assert event["action"]["tools"][0]["result"] == "found rate" and event["action"]["answer"] == "42"
    call = next(s for s in client.calls[0]["schema"]["anyOf"] if "tool" in s["properties"])
    assert call["properties"]["args"]["required"] == ["query"]


@pytest.fixture
def registered():
    "Registers clients, and takes them out again."
    before = set(CLIENTS)
    yield register_client
    for name in set(CLIENTS) - before:
        del CLIENTS[name]


def test_a_provider_of_ones_own_has_ids_and_configuration(registered):
    @registered("house", "a provider of our own")
    class House(RemoteClient):
        kind = "house"

        def _connect(self):
            return None

        def _request(self, turns, schema, settings):
            return settings

        def _ask(self, body):
            return f"{self.backend.model} {body['max_new_tokens']}"

        def _read(self, answer, messages, turns, schema):
            return Reply(text=answer)

    @registered("loud", "a client of our own")
    class Loud(VLMClient):
        def __init__(self, base_url=None):
            self.base_url = base_url

        def send(self, messages, schema=None, **params):
            return Reply(text=str(self.base_url))
    text = """
backends:
  mine: {kind: house, max_tokens: 33, models: {big: big-1}}
  here: {kind: loud, base_url: 'http://127.0.0.1:9', models: {m: m}}
planner: {backend: mine.big}
"""
    assert create_vlm_client("mine.big", parse_config(text)).chat([]).text == "big-1 33"
    assert create_vlm_client("here.m", parse_config(text)).chat([]).text == "http://127.0.0.1:9"
    assert create_vlm_client("house.big").name == make_client("house.big").name == House("big").name == "house.big"
    assert planner_client(config=parse_config(text))[0].name == "mine.big"
    with pytest.raises(ConfigError, match="kind: .*hous"):
        parse_config("backends: {a: {kind: hous, models: {m: m}}}")


# --- a plan belongs to the model that made it ---

@pytest.fixture(params=["servers", "scripts", "documented"])
def pair(request):
    "Two clients of one name that are not the same, each with its plan."
    if request.param == "scripts":
        yield [ScriptedClient([json.dumps(p)] * 9) for p in (PLAN, OTHER)]
    elif request.param == "documented":
        yield [Documented(*[p] * 9) for p in (PLAN, OTHER)]
    else:
        with (FakeServer("openai", answer=lambda body: json.dumps(PLAN)) as one,
              FakeServer("openai", answer=lambda body: json.dumps(OTHER)) as two):
            yield [OpenAIVLMClient(Backend(id="the.model", kind="openai", model="m", base_url=s.base_url))
                   for s in (one, two)]


def test_two_models_of_one_name_do_not_share_plans(pair):
    cache = PlanCache()
    for _ in range(2):
        found = [plan("Is it sharp?", PAGE, client=c, cache=cache).query_scope for c in pair]
        assert found == [["the stamp"], ["the table"]]
    assert cache.hits == 2


def test_the_settings_of_a_planner_are_part_of_its_plans():
    cache, client = PlanCache(), ScriptedClient([json.dumps(PLAN), json.dumps(OTHER)])
    for heat in (0.0, 1.0):
        config = parse_config(f"planner: {{temperature: {heat}}}")
        plan("Is it sharp?", PAGE, client=client, config=config, cache=cache)
    assert len(client.calls) == 2


def test_the_plan_of_a_stand_in_is_its_own():
    cache, lines = PlanCache(), []
    first, second = ScriptedClient([ServerError("down"), json.dumps(PLAN)]), ScriptedClient([json.dumps(OTHER)])
    second.name = "second"
    def log(event, **record):
        lines.append(record)
    asked = [plan("Sharp?", PAGE, client=first, fallback=second, cache=cache, log=log).query_scope for _ in range(3)]
    assert asked == [["the table"], ["the stamp"], ["the stamp"]]
    assert [line["model"] for line in lines] == ["second", "scripted", "scripted"]


# --- scripts ---

@pytest.mark.parametrize("name", ["mpdocvqa_cosee", "mpdocvqa_baselines", "slidevqa_cosee", "slidevqa_baselines"])
def test_a_script_by_its_documented_name_runs_its_configuration(name, tmp_path, monkeypatch):
    "A data set in its own form, a split, steps and agents, predictions and traces in the folder that is named."
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    sample = next(iter(make_samples(1)))
    root = write_layout(name.partition("_")[0], [sample], tmp_path / "data")
    method = "cosee_light" if name.endswith("cosee") else "cot"
    words = "run --split val --client ocr --max-steps 1 --agents detail_reader --set client.options={} --quiet"
    folders = ["--root", str(root), "--output-dir", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", [*words.split(), "--method", method, *folders])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / f"scripts/run_{name}.py"), run_name="__main__")
    run = Run(tmp_path / "run")
    [record] = run
    assert ended.value.code == 0 and record["status"] == "ok" and record["method"] == method
    assert name.startswith(run.about["config"]["dataset"]["name"]) and record["answer"] and record["trace"]


@pytest.mark.parametrize("name", ["mpdocvqa_cosee", "mpdocvqa_baselines", "slidevqa_cosee", "slidevqa_baselines"])
def test_the_help_of_a_script_names_itself_its_data_set_and_an_example_that_runs(name):
    script = ROOT / f"scripts/run_{name}.py"
    said = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, check=True).stdout
    data_set = name.partition("_")[0]
    example = said.partition("example:")[2].partition("\n\n")[0]
    assert f"python scripts/{script.name} --root ~/data/{data_set}" in example
    assert {"mpdocvqa": "MP-DocVQA", "slidevqa": "SlideVQA"}[data_set] in said and "aggregate_metrics" in said
    options = said.partition("usage: cosee run")[2]
    assert all(f"{option} " in options for option in re.findall(r"--[a-z-]+", example))


# --- pages, boards and prompts ---

@pytest.mark.parametrize("pixels", [np.full((96, 64, 3), 255, "uint8"), np.ones((96, 64)), np.ones((96, 64, 1), bool),
                                    np.full((96, 64, 4), 255, "int64")], ids=["rgb", "grey", "bool", "rgba"])
def test_an_array_is_a_page_wherever_pages_go(pixels):
    assert open_image(pixels).getpixel((5, 5)) == (255, 255, 255)
    assert load_pages([pixels, PAGE])[0].size == load_pages(pixels)[0].size == (64, 96)
    client = ScriptedClient([json.dumps(GUESS), "Answer: 42", json.dumps(PLAN)])
    episode = CoSeeController(team(client, ["detail_reader"]), max_steps=1).run([pixels], "What is the total?")
    assert episode["answer"] == direct_answer(client, [pixels], "What is the total?") == "42"
    assert plan("Is it sharp?", pixels, client=client, cache=None).query_type == "IQA"
    assert all(b["image"].size == (64, 96) for c in client.calls for b in c["messages"][0]["content"] if "image" in b)


ARRAY = np.full((96, 64, 3), 255, "uint8")
SEEN = {"answer": "42", "board": Board(), "hypotheses": [], "evidence": []}
MESSAGE = {"role": "user", "content": [{"type": "image", "image": ARRAY}, {"type": "text", "text": "What is it?"}]}
USERS = {
    "a drawing": lambda: annotate(ARRAY, []).size == (64, 96),
    "a view": lambda: "data:image/webp" in EpisodeView(SEEN, [ARRAY]).html,
    "a file": lambda: "data:image/webp" in episode_html(SEEN, [ARRAY]),
    "a widget": lambda: EpisodeWidget(SEEN, [ARRAY]).pages[0].size == (64, 96),
    "an index": lambda: PageIndex([ARRAY, ARRAY]).read() == 2,
    "print": lambda: TextExtractor().read([ARRAY, ARRAY])[1]["size"] == [64, 96],
    "sizes": lambda: page_sizes([ARRAY]) == [(64, 96)],
    "a message": lambda: ScriptedClient(["Answer: 42"]).chat([MESSAGE]).usage.image_tokens == image_tokens(64, 96),
    "a screen": lambda: ScreenAgent(ScreenReader()).act(ARRAY, "Click Save")["call"] is not None,
}


@pytest.mark.parametrize("user", USERS)
def test_an_array_is_read_wherever_a_picture_is(user):
    "All but the last were seen failing at e0c80f2."
    assert USERS[user]()


@pytest.mark.parametrize("pixels", [np.zeros(7), np.zeros((0, 4)), np.full((9, 9), 300), np.full((9, 9), np.nan),
                                    np.zeros((9, 9, 2)), np.array([["a"]])])
def test_an_array_that_is_no_picture_is_refused(pixels):
    with pytest.raises(PageError, match="no picture"):
        open_image(pixels)


def test_any_system_prompt():
    tasks = dict(name_prefix="a", tasks={"click-button": 1})
    own = "You press what is named, and say nothing else."
    assert instruction(read_screen_config({**tasks, "system_prompt": own}).system_prompt) == own
    with pytest.warns(UserWarning, match="no style 'osuniverse'"):
        config = read_screen_config({**tasks, "system_prompt": "osuniverse"})
    assert config.system_prompt == "osuniverse" and instruction("osuniverse") == SYSTEM_PROMPTS["computer-use"]
    with pytest.raises(DataError, match="system_prompt"):
        read_screen_config({**tasks, "system_prompt": ""})


def test_a_state_names_pictures_of_the_folder_alone(tmp_path, monkeypatch):
    (tmp_path / "served").mkdir()
    PAGE.save(tmp_path / "secret.png")
    PAGE.save(tmp_path / "served/ok.png")
    monkeypatch.chdir(tmp_path / "served")
    node = planner_node(ScriptedClient([json.dumps(PLAN)] * 9), cache=None)
    assert node({"query": "?", "image_path": "ok.png"})["plan"].query_type == "IQA"
    for path in ("../secret.png", str(tmp_path / "secret.png")):
        assert "leads out of the folder" in node({"query": "?", "image_path": path})["error"]
    free = planner_node(ScriptedClient([json.dumps(PLAN)]), root=None, cache=None)
    assert free({"query": "?", "image_path": "../secret.png"})["plan"]


# --- logs and noise ---

@pytest.fixture
def scored_log(tmp_path):
    "A run of two questions as a log of Inspect: its path."
    config = make_config(dict(dataset="made", methods=["cot"]))
    (tmp_path / "run").mkdir()
    write_about(tmp_path / "run", dict(hash="abc", name="two", methods=["cot"], metrics=dict(em="squad", anls="rrc"),
                                       config=config.model_dump(mode="json")))
    with RunLog(tmp_path / "run") as log:
        for i, said in enumerate(("42 EUR", "43 EUR")):
            client = ScriptedClient([f"Page: 1\nAnswer: {said}"])
            client.name = "ocr"
            sample = dict(images=[PAGE], question="What is the total?", answer=["42 EUR"], meta=dict(id=f"q{i}"))
            log.write(answer_one(config, make_method("cot"), i, sample, client))
    return write_inspect(Run(tmp_path / "run"), tmp_path / "logs")[0]


@pytest.mark.slow
def test_inspect_scores_a_log_again(scored_log, tmp_path):
    pytest.importorskip("inspect_ai")
    from inspect_ai.log import read_eval_log
    before = read_eval_log(str(scored_log))
    assert before.eval.model == "cosee/ocr" and set(before.stats.model_usage) == {"cosee/ocr"}
    out = tmp_path / "again.eval"
    installed = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}   # Inspect asks for that
    ran = subprocess.run([sys.executable, "-m", "inspect_ai._cli.main", "score", str(scored_log), "--overwrite",
                          "--output-file", str(out), "--action", "overwrite"], capture_output=True, text=True,
                         env=installed, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    after = read_eval_log(str(out))
    for one, two in zip(before.samples, after.samples, strict=True):
        again = {k: s.value for k, s in two.scores.items()}
        assert {k: s.value for k, s in one.scores.items()} == pytest.approx(again, abs=1e-6)   # ours have six digits
    assert ({s.name: s.metrics["mean"].value for s in before.results.scores}
            == pytest.approx({s.name: s.metrics["mean"].value for s in after.results.scores}, abs=1e-6))


@pytest.mark.slow
def test_eight_bits_and_loading_make_no_noise(tmp_path, capfd, caplog):
    pytest.importorskip("bitsandbytes")
    from cosee.models.testing import random_checkpoint
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    folder = random_checkpoint(tmp_path / "tiny")
    capfd.readouterr()
    with warnings.catch_warnings(record=True) as told, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        client = QwenVLClient(folder, load_in_8bit=True)
        logging.getLogger("bitsandbytes.autograd._functions").warning(
            "MatMul8bitLt: inputs will be cast from %s to float16 during quantization", "torch.bfloat16")
    assert client.bits == 8
    assert not [r for r in caplog.records if "MatMul8bitLt" in r.getMessage()]
    assert not [w for w in told if "MatMul8bitLt" in str(w.message)]
    assert "%|" not in capfd.readouterr().err
