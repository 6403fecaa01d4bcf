"""Asking again, asking somebody else, remembering: nothing lost, nothing doubled, everything on the account."""
import json
import multiprocessing
import os
import signal
import sqlite3

import pytest
from cosee.agents import parse_reply, team
from cosee.models.backends import Backend
from cosee.controller import CoSeeController
from cosee.models.client import build_messages, page_request
from cosee.models.usage import Ledger
from cosee.models.testing import ScriptedClient
from cosee.models.providers import OpenAIVLMClient
from cosee.models.remote import ResponseParseError, ServerError, VLMClientError
from cosee.models.wrappers import (CachedClient, FallbackClient, ResponseCache, RetryingClient, call_key,
                                   resilient)
from fake_servers import FakeServer, asked
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from asking import chat_many

PAGE = Image.new("RGB", (64, 64), "white")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
GOOD, BAD = '{"n": 1}', "not JSON"
KEY = "planted-0123456789-key"


def ask(client, question="How many?", **params):
    return client.chat(build_messages([PAGE], question), schema=SCHEMA, **{"temperature": 0, **params})


# --- validate and retry ---

@pytest.mark.parametrize("bad", range(3))
def test_each_attempt_is_paid_for(bad):
    model = ScriptedClient([BAD] * bad + [GOOD])
    reply = ask(RetryingClient(model))
    assert reply.text == GOOD and reply.usage.calls == bad + 1 == len(model.calls)
    one = model.estimate(page_request([PAGE], "How many?"))
    assert (reply.usage.image_tokens == one.image_tokens * (bad + 1)
            and reply.usage.text_tokens >= one.text_tokens * (bad + 1))


def test_errors_of_the_connection_are_not_repeated():
    model = ScriptedClient([ServerError("down"), GOOD])
    with pytest.raises(ServerError):
        ask(RetryingClient(model))
    assert len(model.calls) == 1


def test_what_was_spent_before_an_error_is_told():
    model = ScriptedClient([BAD, ServerError("down")])
    with pytest.raises(ServerError) as e:
        ask(RetryingClient(model))
    assert e.value.usage.calls == 1 and e.value.usage.prompt_tokens > 0


def test_a_bug_stays_a_bug():
    with pytest.raises(KeyError):
        ask(resilient(ScriptedClient([KeyError("bug")]), attempts=3, fallbacks=(ScriptedClient([GOOD]),)))


@given(st.lists(st.lists(st.sampled_from([GOOD, BAD, "", '{"n": []}']), min_size=3, max_size=3),
                min_size=1, max_size=5))
def test_a_batch_is_as_good_as_one_by_one(scripts):
    names = [f"q{i}?" for i in range(len(scripts))]
    client = RetryingClient(ScriptedClient(dict(zip(names, scripts, strict=True))))
    replies = chat_many(client, [build_messages([], q) for q in names], schema=SCHEMA, errors="return")
    for script, reply in zip(scripts, replies, strict=True):
        if GOOD in script:
            assert reply.text == GOOD and reply.usage.calls == script.index(GOOD) + 1
        else:
            assert isinstance(reply, ResponseParseError) and reply.usage.calls == 3


# --- fallback ---

def test_the_next_one_answers_and_the_account_holds_both():
    first, second = ScriptedClient([BAD] * 2), ScriptedClient([GOOD])
    second.name = "second"
    reply = ask(resilient(first, attempts=2, fallbacks=(second,)))
    assert (reply.text, reply.model, reply.usage.calls) == (GOOD, "second", 3)


def test_a_dead_server_is_replaced_by_a_living_one():
    def client(server, name):
        return OpenAIVLMClient(Backend(kind="openai", model="m", id=name, base_url=server.base_url, max_retries=0),
                               KEY)
    with FakeServer("openai", [(503, {})] * 9) as dead, FakeServer("openai", answer=lambda body: GOOD) as alive:
        reply = ask(FallbackClient(client(dead, "dead"), client(alive, "alive")))
        assert (reply.text, reply.model) == (GOOD, "alive") and len(dead.requests) == len(alive.requests) == 1


# --- cache ---

def test_equal_calls_are_asked_once_and_any_difference_is_another_call(tmp_path):
    model = ScriptedClient([GOOD] * 20)
    client = CachedClient(model, tmp_path / "c.sqlite")
    other = Image.new("RGB", (64, 64), "black")
    calls = [lambda: ask(client), lambda: ask(client, "Other?"), lambda: ask(client, seed=1),
             lambda: ask(client, top_p=0.5),
             lambda: client.chat(build_messages([other], "How many?"), schema=SCHEMA, temperature=0),
             lambda: client.chat(build_messages([PAGE], "How many?"), temperature=0)]
    for call in calls * 2:
        call()
    assert len(model.calls) == client.misses == client.hits == len(calls)


def test_samples_stay_samples_unless_asked_otherwise(tmp_path):
    model = ScriptedClient([GOOD] * 5)
    for client in (CachedClient(model, tmp_path / "c.sqlite"),
                   CachedClient(model, tmp_path / "c.sqlite", sampled=True)):
        for _ in range(2):
            ask(client, temperature=0.7)
    assert len(model.calls) == 3


def test_equal_prompts_of_a_batch_are_asked_once(tmp_path):
    model = ScriptedClient([GOOD])
    replies = chat_many(CachedClient(model, tmp_path / "c.sqlite"), [build_messages([PAGE], "?")] * 4, temperature=0)
    assert [r.text for r in replies] == [GOOD] * 4 and len(model.calls) == 1


def test_failures_refusals_and_bad_replies_are_not_kept(tmp_path):
    model = ScriptedClient([ServerError("down"), BAD, BAD, GOOD])
    client = resilient(model, attempts=2, cache=tmp_path / "c.sqlite")
    for _ in range(2):
        with pytest.raises(VLMClientError):
            ask(client)
    assert (client.cache.stats()["entries"] == 0 and ask(client).text == ask(client).text == GOOD
            and len(model.calls) == 4)


def test_models_do_not_share_replies(tmp_path):
    def client(model, **fields):
        return OpenAIVLMClient(Backend(kind="openai", model=model, base_url="http://127.0.0.1:9/v1", **fields))
    request = page_request([PAGE], "?")
    keys = {call_key(c, request) for c in (client("a"), client("b"), client("a", top_p=0.5),
                                            RetryingClient(client("a")))}
    assert len(keys) == 3  # a wrapper that changes nothing of the request shares its model's replies
    assert call_key(client("a"), request.but(settings={"odd": object()})) is None


def test_the_size_is_bounded(tmp_path):
    cache = ResponseCache(tmp_path / "c.sqlite", max_bytes=2_000)
    for i in range(100):
        cache.put(f"k{i}", {"text": "x" * 100})
        cache.get("k0")
    stats = cache.stats()
    assert (stats["bytes"] <= 2_000 and stats["entries"] > 10 and cache.get("k0") and cache.get("k99")
            and cache.get("k50") is None)
    cache.put("huge", {"text": "x" * 5_000})
    assert cache.get("huge") is None
    cache.clear()
    assert cache.stats() == {"entries": 0, "bytes": 0, "hits": 0}


def test_a_file_of_another_kind_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("My notes. " * 200)
    with pytest.raises(ValueError, match="cannot be used as a response cache"):
        ResponseCache(path)
    assert path.read_text() == "My notes. " * 200


@pytest.mark.faults("a file cut or damaged by a loss of power")
def test_a_damaged_value_is_a_miss(tmp_path):
    model = ScriptedClient([GOOD] * 3)
    client = CachedClient(model, tmp_path / "c.sqlite")
    for damage in ("{", '{"text": 3}', '{"nothing": 1}'):
        ask(client)
        with sqlite3.connect(client.cache.path) as db:
            db.execute("UPDATE replies SET reply = ?", (damage,))
    assert len(model.calls) == 3


def _write(path, who, n, ready):
    cache = ResponseCache(path)
    for i in range(n):
        cache.put(f"{who}-{i}", {"text": f"{who} {i}"})
        if i == 20:
            ready.set()


@pytest.mark.faults("two writers of one file")
def test_several_processes_one_of_them_killed(tmp_path):
    path, spawn = tmp_path / "c.sqlite", multiprocessing.get_context("fork")
    ready = [spawn.Event() for _ in range(3)]
    workers = [spawn.Process(target=_write, args=(path, w, 10**6 if w == 0 else 60, ready[w])) for w in range(3)]
    for worker in workers:
        worker.start()
    assert ready[0].wait(60)
    os.kill(workers[0].pid, signal.SIGKILL)
    for worker in workers:
        worker.join(60)
    cache = ResponseCache(path)
    assert all(cache.get(f"{w}-{i}") == {"text": f"{w} {i}"} for w in (1, 2) for i in range(60)) and cache.get("0-20")
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_no_key_reaches_the_file(tmp_path):
    with FakeServer("openai", answer=lambda body: f"my key is {KEY}") as server:
        client = CachedClient(OpenAIVLMClient(Backend(kind="openai", model="m", base_url=server.base_url), KEY),
                              tmp_path / "c.sqlite")
        client.chat(build_messages([PAGE], "Which key do you use?"), temperature=0)
        client.chat(build_messages([PAGE], "Again?"), temperature=0)
    assert all(KEY.encode() not in p.read_bytes() for p in tmp_path.iterdir())


# --- all of it, in an experiment ---

def act(body):
    "What the model of the fake server does: the same for the same question and role, whatever else is said."
    text = asked(body)
    number = text.split("number ")[1].split("?")[0]
    view = {"page": 1, "bbox_2d": [0, 0, 500, 500]}
    if "You are the scanner" in text:
        return json.dumps({"action": "INSPECT", "view": view, "content": f"heading {number}", "tags": []})
    return json.dumps({"action": "HYPOTHESIZE", "view": view, "content": "read", "answer": f"value {number}",
                       "supporting_cells": [1], "confidence": 0.95})


FAULTS = [(429, {"Retry-After": "0.01"}), (500, {"Retry-After": "0.01"}), "cut", "garbage", "html", "empty", "refusal",
          "hollow",
          lambda body: {**FakeText, "choices": [{"index": 0, "finish_reason": "stop",
                                                 "message": {"role": "assistant", "content": "I think it is 7."}}]}]
FakeText = {"id": "c", "object": "chat.completion", "created": 0, "model": "m",
            "usage": {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55}}


def experiment(script):
    "100 episodes against a server with this script; what each came to, and how many requests and calls it took."
    check = lambda text, schema: parse_reply(text).error or None
    with FakeServer("openai", script, act) as server:
        remote = OpenAIVLMClient(Backend(kind="openai", model="m", base_url=server.base_url, max_retries=3), KEY)
        client, out, ledger = resilient(remote, attempts=4, check=check, raising=False), [], Ledger()
        for i in range(100):
            e = CoSeeController(team(client, ["scanner", "detail_reader"]),
                                max_steps=1).run([PAGE], f"What is number {i}?", ledger=ledger)
            out.append((e["answer"], e["confidence"], e["evidence"], e["board"].to_dict(), e["trace"]["invalid"]))
        return out, len(server.requests), ledger.total


@pytest.mark.slow
def test_an_experiment_through_a_flaky_server_is_complete_and_identical():
    script = [FAULTS[(i // 5) % len(FAULTS)] if i % 5 == 2 else "ok" for i in range(400)]
    good, plain, spent = experiment([])
    flaky, more, spent_more = experiment(script)
    assert flaky == good and all(answer == f"value {i}" and not invalid
                                 for i, (answer, *_, invalid) in enumerate(good))
    assert plain == 200 == spent.calls
    faults = more - plain
    # unread answers and broken connections have no account
    assert faults >= 40 and spent.calls < spent_more.calls <= more
