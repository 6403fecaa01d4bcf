"""Local models that think aloud: a bounded draft, then the schema; what is shared changes no token of either."""
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("torch")


from PIL import Image
from cosee.agents import DIRECT_TOKENS, DetailReaderAgent, ScannerAgent
from cosee.budgets import DIRECT, Task
from cosee.utils.config import ConfigError
from cosee.controller import CoSeeController
from cosee.models.wrappers import CachedClient
from cosee.models.client import build_messages, thought_tokens
from cosee.models.usage import Ledger
from cosee.models.transformers_client import ContextOverflow, TransformersClient
from cosee.models.checkpoint import FAMILIES
from cosee.models.testing import random_checkpoint, random_model
from cosee.models.replies import MARKS
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.models.registry import create_vlm_client, make_client
from asking import chat_many

SCHEMA = dict(type="object", required=["page", "content"], properties=dict(
    page=dict(type="integer", minimum=1, maximum=2), content=dict(type="string", maxLength=12)))
KINDS = ["internvl", "gemma3", "qwen2_5_vl", "qwen3_vl"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = {}

    def make(kind, ends=""):
        "A random checkpoint whose prompts end so"
        if (kind, ends) not in made:
            at = tmp_path_factory.mktemp(kind)
            at = random_checkpoint(at / "m") if kind == "qwen3_vl" else random_model(at / "m", kind)
            said = Path(at) / "chat_template.jinja"
            begins = "<|im_start|>assistant\n" if kind == "qwen3_vl" else "<|start|>assistant\\n"
            text = said.read_text()
            assert begins in text
            said.write_text(text.replace(begins, begins + ends))
            made[kind, ends] = at
        return made[kind, ends]
    return make


def opened(kind, path, **options):
    return (QwenVLClient if kind == "qwen3_vl" else TransformersClient)(path, **options)


def asked(n=2):
    rng = random.Random(n)
    pages = [Image.effect_noise((rng.randint(90, 200), rng.randint(90, 200)), 70).convert("RGB") for _ in range(2)]
    return pages, [build_messages(pages, f"What is it {i}?", None, role) for i, role in
                   enumerate(("You are the scanner.", "You are the detail reader.", "You are the cross-checker.")[:n])]


def same(a, b):
    assert (a.text, a.raw, a.thoughts, a.finish_reason) == (b.text, b.raw, b.thoughts, b.finish_reason)
    assert a.usage.completion_tokens == b.usage.completion_tokens


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_comes_before_the_json_and_is_shared_exactly(folder, kind):
    path = folder(kind, "<think>\\n")
    shares, alone = (opened(kind, path, reuse=r, think_tokens=30, lookup=r) for r in (True, False))
    _, prompts = asked(3)
    for how in (dict(temperature=0, presence_penalty=0), dict(seed=1, temperature=1.2), dict(seed=2, stop="e")):
        for messages, schema in zip(prompts, (SCHEMA, None, SCHEMA), strict=True):
            both = [c.chat(messages, schema=schema, max_new_tokens=24, **how) for c in (shares, alone)]
            same(*both)
            reply = both[0]
            assert reply.thoughts and reply.thoughts in reply.raw and "think>" not in reply.text
            if schema and "stop" not in how: assert set(json.loads(reply.text)) == {"page", "content"}
            assert 30 < reply.usage.completion_tokens <= 54
            if how.get("stop") and not schema: assert "e" not in reply.text
    params = [dict(seed=i, temperature=1.1) for i in range(3)]
    together = chat_many(shares, prompts, [SCHEMA, None, SCHEMA], params, max_new_tokens=24)
    for r, messages, schema, p in zip(together, prompts, (SCHEMA, None, SCHEMA), params, strict=True):
        same(r, alone.chat(messages, schema=schema, max_new_tokens=24, **p))


def test_every_token_is_counted(folder):
    client = TransformersClient(folder("internvl", "<think>\\n"), think_tokens=20)
    for schema in (SCHEMA, None):
        reply = client.chat(asked()[1][0], schema=schema, temperature=1., seed=3, max_new_tokens=24)
        closing = client.tokenizer.decode(client.thinker.closing)
        thought, said = reply.raw.split("assistant\n<think>\n")[1].split(closing)
        def count(text): return len(client.tokenizer.encode(text, add_special_tokens=False))
        assert reply.thoughts == thought.strip() and said.strip() == reply.text
        assert 20 < reply.usage.completion_tokens <= 44
        assert count(closing) == len(client.thinker.closing)


def test_a_draft_that_closes_itself(folder, monkeypatch):
    monkeypatch.setitem(FAMILIES, "internvl", replace(FAMILIES["internvl"], draft=("<think>", "e"), behind="--"))
    client, alone = (TransformersClient(folder("internvl"), think_tokens=400, reuse=r) for r in (True, False))
    ended, messages = 0, asked()[1][0]
    for seed in range(6):
        how = dict(seed=seed, temperature=1.5, top_k=0, top_p=1., schema=SCHEMA, max_new_tokens=24)
        reply = client.chat(messages, **how)
        same(reply, alone.chat(messages, **how))
        assert json.loads(reply.text) and "e" not in reply.thoughts
        assert reply.raw.split("assistant\n")[1].removeprefix("<think>\n").strip().startswith(reply.thoughts)
        ended += reply.usage.completion_tokens < 300
    assert ended


@pytest.mark.parametrize("kind", ["internvl", "qwen3_vl"])
def test_without_a_bound_there_is_no_draft_under_a_schema(folder, kind):
    path = folder(kind, "<think>\\n")
    client = opened(kind, path)
    reply = client.chat(asked()[1][0], schema=SCHEMA, temperature=0, max_new_tokens=24)
    assert json.loads(reply.text) and not reply.thoughts
    assert client.tokenizer.decode(client.thinker.closing) in reply.raw
    closing = len(client.thinker.closing)
    assert thought_tokens(client) == closing and reply.usage.completion_tokens <= 24 + closing
    free = client.chat(asked()[1][0], temperature=0, max_new_tokens=12)
    assert free.text == "" and free.thoughts and free.usage.completion_tokens <= 12
    quiet = opened(kind, path, think_tokens=0).chat(asked()[1][0], temperature=0, max_new_tokens=12)
    assert quiet.text and not quiet.thoughts


def test_budgets_and_traces_know_of_drafts(folder, tmp_path):
    path, (shown, _) = folder("internvl", "<think>\\n"), asked()
    client = TransformersClient(path, think_tokens=25)
    agents, greedy = [ScannerAgent(client), DetailReaderAgent(client)], dict(temperature=0., max_new_tokens=100)
    gen = {agent.name: greedy for agent in agents}
    def run(most, guess=True):
        return CoSeeController(agents, max_steps=1, guess=guess).run(shown, "What is the total?", gen, Ledger(most))
    done = run(None)
    calls = [c for e in done["trace"]["events"] for c in e["calls"]]
    assert len(calls) == 2 and all(c["thoughts"] for c in calls)
    request = agents[0].request(shown, "What is the total?", done["board"].__class__(), greedy)
    first = client.estimate(request).prompt_tokens + 125
    assert calls[0]["usage"]["total_tokens"] <= first
    task = Task(shown, "What is the total?", client)
    plain = task.price(DIRECT, DIRECT_TOKENS)   # a guess thinks, too
    assert plain == client.estimate(task.request(DIRECT)).prompt_tokens + DIRECT_TOKENS + 25
    least = first - 100 + client.least_tokens(request)   # a turn with the shortest reply that says something
    assert least < first
    for kept, guess in ((0, False), (plain, True)):
        assert not [e for e in run(least + kept - 1, guess)["trace"]["events"] if e["calls"]]
        for most in (least, first):
            one = run(most + kept, guess)
            event, = one["trace"]["events"]
            assert event.get("shortened", False) == (most < first) and event["calls"][0]["thoughts"]
            assert event["calls"][0]["usage"]["total_tokens"] <= most and one["usage"]["total_tokens"] <= most + kept
    assert run(plain - 1)["usage"]["calls"] == 0
    alone = run(plain)
    assert alone["trace"]["guess"]["calls"][0]["thoughts"] and alone["usage"]["total_tokens"] <= plain
    assert thought_tokens(CachedClient(client, tmp_path / "replies.sqlite")) == 25
    client.context = len(client.prompt(asked()[1][0])) + 24 + 10
    with pytest.raises(ContextOverflow): client.chat(asked()[1][0], max_new_tokens=24)


def test_who_can_think(folder, tmp_path):
    switch = "{{- '' if enable_thinking else '<think>\\n\\n</think>\\n\\n' -}}"
    path = folder("qwen3_5")
    said = Path(path) / "chat_template.jinja"
    said.write_text(said.read_text() + switch)
    quiet, thinks = (TransformersClient(path, think_tokens=n) for n in (None, 24))
    _, (messages, _) = asked()
    assert quiet.prompt(messages).ids != thinks.prompt(messages).ids and not quiet.thinker.opens
    reply = thinks.chat(messages, schema=SCHEMA, temperature=0, max_new_tokens=24)
    assert reply.thoughts and json.loads(reply.text)
    assert "</think>" not in quiet.chat(messages, schema=SCHEMA, temperature=0, max_new_tokens=24).text
    with pytest.raises(ValueError, match="knows of no thoughts, and neither does LLaVA"):
        TransformersClient(folder("llava"), think_tokens=5)
    with pytest.raises(ConfigError, match="a whole number from 0"):
        make_client("local", model_path=folder("llava"), think_tokens=-1)
    backends = {"backends": {"house": {"kind": "local", "model_path": str(folder("internvl")), "think_tokens": 40,
                                       "models": {"small": "internvl"}}}}
    assert create_vlm_client("house.small", backends).think_tokens == 40
    assert FAMILIES["internvl"].draft == MARKS
