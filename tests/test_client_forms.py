"A model may be asked by either form of `generate`, however it comes by it; what it defines is what is asked."
import json
from unittest.mock import MagicMock, patch

import pytest
from asking import ask_and_wait
from PIL import Image

from cosee.agents import team
from cosee.board import Board
from cosee.controller import CoSeeController
from cosee.document import InteractiveDocument, VLMLanguageModel
from cosee.eval.baselines import direct_answer, multi_agent_chat_no_board, self_consistency, single_agent_cot
from cosee.eval.judge import judge_answer
from cosee.extraction.extract import extract
from cosee.models.client import VLMClient, ask, ask_many, page_request
from cosee.models.backends import record
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.models.wrappers import CachedClient, FallbackClient, RetryingClient
from cosee.models.testing import ScriptedClient
from cosee.planner.document_plan import plan_document
from cosee.planner.nodes.planner import plan
from cosee.tools.agent import with_tools

PAGES = [Image.new("RGB", (300, 200), c) for c in ("white", "ivory")]
SAID = {"action": "HYPOTHESIZE", "view": {"page": 2, "bbox_2d": [0, 0, 500, 500]}, "content": "The total is 8.00",
        "answer": "8.00", "supporting_cells": [], "confidence": .9}
FLAGS = ("distortion_detection", "distortion_analysis", "tool_selection", "tool_execution")
PLAN = {"query_type": "Other", "query_scope": "Global", "distortion_source": "Inferred", "distortions": None,
        "reference_mode": "No-Reference", "required_tool": None, "plan": dict.fromkeys(FLAGS, False)}


def said_to(text):
    "A reply to whoever asks"
    if "equivalent" in text: return json.dumps({"equivalent": True, "abstained": False, "reason": "the same"})
    if "distortion" in text: return json.dumps(PLAN)
    if "Fill in the fields" in text: return json.dumps({"total": {"answer": "8.00", **SAID["view"]}})
    return json.dumps(SAID) if "JSON" in text else "Page: 2\nAnswer: 8.00"


class Pages:
    "The form of agents, implemented alone."
    def generate(self, images, question, board_text=None, role_prompt=None, **settings):
        return said_to(f"{question} {role_prompt}")


class Prompt:
    "The form of planners, implemented alone."
    def generate(self, prompt, image=None, **settings):
        return said_to(prompt)


class Narrow:
    "Takes no setting at all."
    def generate(self, images, question, board_text, role_prompt):
        return said_to(f"{question} {role_prompt}")


class Overridden(VLMClient):
    "Overrides `generate`, and implements nothing else."
    name = "mine"

    def generate(self, images=(), question="", board_text=None, role_prompt=None, **settings):
        return said_to(f"{question} {role_prompt}")


class Handed(ScriptedClient):
    "Overrides `generate`, and hands on to what it overrides."
    def __init__(self):
        super().__init__([lambda messages: said_to(str(messages))], cycle=True)

    def generate(self, *args, **kwargs):
        self.through = True
        return super().generate(*args, **kwargs)


def patched():
    client = ScriptedClient([])
    client.generate = lambda images, question, board_text, role_prompt, **kw: said_to(f"{question} {role_prompt}")
    return client


def mocked():
    client = MagicMock(spec=QwenVLClient)
    client.generate.side_effect = lambda **kw: said_to(f"{kw['question']} {kw['role_prompt']}")
    return client


MODELS = [Pages, Prompt, Narrow, Overridden, Handed, patched, mocked]


@pytest.mark.parametrize("make", MODELS)
def test_everything_above_a_client_asks_it(make, tmp_path):
    client = make()
    for order in ("sequential", "parallel"):
        episode = CoSeeController(team(client), 1, order=order).run(PAGES, "What is the total?")
        assert (episode["answer"], episode["trace"]["invalid"]) == ("8.00", 0)
        assert episode["usage"]["calls"] == 3 and episode["usage"]["total_tokens"] > 0
    tooled = with_tools(team(client, ["detail_reader"]))[0].act(PAGES, "What is the total?", Board())
    assert tooled["answer"] == "8.00"
    for method in (direct_answer, single_agent_cot, self_consistency):
        assert method(client, PAGES, "What is the total?") == "8.00"
    assert multi_agent_chat_no_board(team(client)[:2], PAGES, "What is the total?", max_turns=1) == "8.00"
    assert judge_answer(client, dict(question="?", gold="8.00", answer="8"))["equivalent"]
    assert plan("Is it sharp?", PAGES[0], client=client, cache=None).query_type == "Other"
    made = plan_document("What is the total?", PAGES, client)
    assert made.calls and not made.error
    assert "Page: 2" in InteractiveDocument(VLMLanguageModel(client)).open_question("What is the total?")
    schema = {"type": "object", "properties": {"total": {"type": "string", "description": "the total"}}}
    assert extract(PAGES, schema, client, check=False)["value"] == {"total": "8.00"}
    assert not isinstance(client, Handed) or client.through


class Own(QwenVLClient):
    "A subclass that changes nothing."


def whole(*args, **kwargs): return said_to(str(kwargs))


PATCHES = [dict(side_effect=whole), dict(autospec=True, side_effect=whole), dict(new=whole),
           dict(new=staticmethod(MagicMock(side_effect=whole)))]


@pytest.mark.parametrize("kind, client", [(QwenVLClient, QwenVLClient), (QwenVLClient, Own), (Own, Own),
                                          (VLMClient, QwenVLClient)])
@pytest.mark.parametrize("how", PATCHES)
def test_generate_that_is_replaced_on_a_class_is_asked_without_weights(kind, client, how, tmp_path):
    with patch.object(client, "__init__", lambda self, *args, **kwargs: None), patch.object(kind, "generate", **how):
        test_everything_above_a_client_asks_it(lambda: client("no/weights"), tmp_path)


def test_generate_is_replaced_for_as_long_as_the_patch_lasts():
    client = ScriptedClient(["one", "four"])
    assert ask(client, page_request(PAGES, "?")).text == "one"
    for kind in (ScriptedClient, VLMClient):
        with patch.object(kind, "generate", return_value="mine") as generate:
            assert single_agent_cot(client, PAGES, "What?") == ask(client, page_request(PAGES, "?")).text == "mine"
            assert generate.call_count == 2
    assert ask(client, page_request(PAGES, "?")).text == "four" and len(client.calls) == 2


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("wrap", [RetryingClient, FallbackClient, lambda c: CachedClient(c, "cache.sqlite")])
def test_wrappers_pass_on_what_a_client_defines(make, wrap, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client = wrap(make())
    request = page_request(PAGES, "What is the total?", settings={"temperature": 0})
    with record() as calls: replies = [ask(client, request), *ask_many(client, [request, request])]
    assert {r.text for r in replies} == {"Page: 2\nAnswer: 8.00"} and len(calls) == 3
    assert all(r.usage.total_tokens > 0 for r in replies)


def test_both_forms_can_be_called_on_any_client():
    client = ScriptedClient(["one", "two", "three", "four"])
    assert client.generate(PAGES, "What?", board_text="a note", role_prompt="Read.") == "one"
    assert client.generate("Plan this.", PAGES[0]) == "two"
    assert client.generate(prompt="Plan this.", image=PAGES) == "three"
    assert client.generate(images=PAGES, question="What?") == "four"
    kinds = [[b["type"] for b in c["messages"][0]["content"]] for c in client.calls]
    two = ["image", "image", "text"]
    assert kinds == [[*two, "text", "text"], ["image", "text"], two, two]


def test_what_cannot_work_is_one_clear_error():
    class Nothing(VLMClient): name = "nothing"
    with pytest.raises(NotImplementedError, match="Nothing must implement send"): ask(Nothing(), page_request([], "?"))
    with pytest.raises(TypeError, match="str is no client: it has no generate"): ask("gpt-4o", page_request([], "?"))
    episode = CoSeeController(team(Nothing()), 3).run(PAGES, "What?")
    assert "must implement send" in episode["trace"]["events"][0]["error"]

    class Round(VLMClient):
        "Hands on to what it overrides, which asks nobody."
        def generate(self, *args, **kwargs): return VLMClient.generate(self, *args, **kwargs)
    with pytest.raises(NotImplementedError): ask(Round(), page_request([], "?"))


def test_the_model_of_the_questions_is_used_by_everything(root, tmp_path):
    "Its lines stand in the page of questions; a team, baselines, the planner and the server behind the page ask it."
    from cosee import samples_dir
    from cosee.server.answering import Clients
    from cosee.server.episodes import EpisodeService
    from cosee.server.documents import AllowedPaths, caller_of
    cells = json.loads((root / "nbs/explain/questions.ipynb").read_text(encoding="utf-8"))["cells"]
    space = {}
    exec(next(code for cell in cells if (code := "".join(cell["source"])).startswith("class MyModel")), space)
    model = space["MyModel"]()
    assert CoSeeController(team(model), 1).run(PAGES, "What?")["answer"].startswith("2 pages")
    for method in (direct_answer, self_consistency): assert method(model, PAGES, "What?").startswith("2 pages")
    assert "no JSON object" in plan_document("What?", PAGES, model).error   # it is asked, and writes no plan
    clients = Clients({"mine": space["MyModel"]})
    with EpisodeService(tmp_path / "kept", clients, AllowedPaths([samples_dir()])) as service:
        caller = caller_of()
        invoice = service.library.open_path(caller, "invoice.pdf").id
        job = ask_and_wait(service, caller, invoice, "What is the total?", dict(method="team"))
        assert service.episode(caller, job.id)["answer"].startswith("1 pages")
