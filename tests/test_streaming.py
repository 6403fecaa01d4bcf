"""A reply is told while it is written: where the client can and somebody reads along, and nowhere else."""
import asyncio
import base64
import io
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest
from cosee import samples_dir
from cosee.models.backends import MAX_STREAMED, record, streamed_to, text_stream
from cosee.models.client import build_messages, page_request
from cosee.models.remote import AuthenticationError, ResponseParseError, ServerError, TimeoutError
from cosee.models.wrappers import RetryingClient
from cosee.qa import answer_question, choose_policy
from cosee.server.answering import Clients, Settings
from cosee.server.documents import AllowedPaths, Caller
from cosee.server.episodes import EpisodeService
from cosee.server.jobs import Job
from cosee.server.security import Tokens
from cosee.server.serve import running
from cosee.utils.config import redact, remember_secret
from cosee.view.widget import LiveEpisode
from conftest import ROOT
from fake_servers import (FOUND, FakeServer, answer_in_pieces, anthropic, google, in_pieces, message_in_pieces, openai,
                          spelled)
from test_providers import KEY, PAGES, ask, client_of
from test_server import served

ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"],
          "additionalProperties": False}
SETTINGS = {"method": "direct"}
TEXT = "Page: 1\nConfidence: 0.9\nAnswer: 1,250.00 EUR, Käse 中文"


def heard_of(client, **params):
    "A reply, and what was heard of it."
    pieces = []
    with streamed_to(pieces.append):
        reply = ask(client, **params)
    return reply, pieces


def without_time(reply):
    return replace(reply, usage=replace(reply.usage, seconds=0.))


@pytest.mark.parametrize("more", [{}, {"finish": "length"}, spelled(TEXT, .9)], ids=["stop", "length", "logprobs"])
def test_a_streamed_reply_is_the_plain_one(more):
    answer = openai(TEXT, **more)
    params = {"top_logprobs": 1} if "logprobs" in more else {}
    with FakeServer(script=[answer, in_pieces(answer)]) as server:
        client = client_of(server)
        with record() as plain:
            first = ask(client, **params)
        with record() as streamed:
            second, pieces = heard_of(client, **params)
    assert without_time(first) == without_time(second) and bool(first.logprobs) == bool(params)
    assert plain[0]["params"] == streamed[0]["params"] and plain[0]["messages"] == streamed[0]["messages"]
    assert pieces[0] == "" and "".join(pieces) == TEXT and len(pieces) > 9
    asked, told = (r["body"] for r in server.requests)
    assert "stream" not in asked and "stream_options" not in asked
    assert told == {**asked, "stream": True, "stream_options": {"include_usage": True}}


def test_pieces_come_before_the_reply_ends():
    "The server goes on only when the first words were heard."
    was_heard, pieces = threading.Event(), []

    def hear(piece):
        pieces.append(piece)
        if "".join(pieces).startswith("Page: 1"):
            was_heard.set()
    events = in_pieces(openai(TEXT))
    events.insert(6, lambda: was_heard.wait(20))
    with FakeServer(script=[events]) as server, streamed_to(hear):
        reply = ask(client_of(server))
    assert was_heard.is_set() and reply.text == TEXT


def test_nobody_hears_several_requests_at_once():
    with FakeServer() as server, streamed_to(pytest.fail):
        replies = client_of(server).respond_many([page_request(PAGES, q) for q in "ab"])
    assert [r.text for r in replies] == ["42", "42"]
    assert not any("stream" in r["body"] for r in server.requests)


@pytest.mark.parametrize("refusal", [
    (400, {}, "stream is not supported"), (422, {}, "extra inputs are not permitted: stream_options"),
    (400, {}, "streaming is not allowed here, set stream=false")])
def test_a_server_that_refuses_to_stream_is_asked_plainly_from_then_on(refusal):
    with FakeServer(script=[refusal]) as server:
        client = client_of(server)
        replies = [heard_of(client) for _ in range(2)]
    assert [(r.text, pieces) for r, pieces in replies] == [("42", [])] * 2
    assert ["stream" in r["body"] for r in server.requests] == [True, False, False]


def test_a_server_that_answers_at_once_is_asked_once():
    with FakeServer() as server:
        client = client_of(server)
        plain, (reply, pieces), again = ask(client), heard_of(client), heard_of(client)[0]
    assert without_time(plain) == without_time(reply) == without_time(again) and pieces == []
    assert ["stream" in r["body"] for r in server.requests] == [False, True, False]


def test_a_server_that_does_not_count_what_it_streams_is_asked_plainly_from_then_on():
    with FakeServer(script=[in_pieces(openai("42"), usage=False)]) as server:
        client = client_of(server)
        (first, pieces), (second, silence) = heard_of(client), heard_of(client)
    assert (first.usage.estimated, second.usage.estimated, pieces, silence) == (True, False, ["", "42"], [])


@pytest.mark.parametrize("end", [["cut"], ["[DONE]"]], ids=["cut", "ended early"])
def test_a_stream_that_breaks_is_asked_for_again_and_begins_anew(end):
    whole = in_pieces(openai(TEXT))
    with FakeServer(script=[[*whole[:6], *end], whole]) as server:
        reply, pieces = heard_of(client_of(server))
        assert reply.text == TEXT and len(server.requests) == 2
    assert [i for i, p in enumerate(pieces) if not p] == [0, 6] and "".join(pieces[6:]) == TEXT


def test_a_stream_that_always_breaks_is_the_error_of_a_broken_reply():
    whole = in_pieces(openai(TEXT))
    with FakeServer(script=[[*whole[:6], "cut"]] * 9) as server:
        with pytest.raises(ServerError, match="openai.m"):
            heard_of(client_of(server, max_retries=1))
        assert len(server.requests) == 2


def test_faults_of_a_stream_are_those_of_a_reply():
    overloaded = {"error": {"message": "the engine is overloaded"}}
    pieces = in_pieces(openai(TEXT))
    for script, error in (([(401, {})], AuthenticationError), ([[*pieces[:4], overloaded]], ServerError),
                          ([[*pieces[:4], "{"]], ResponseParseError), ([["[DONE]"]], ResponseParseError),
                          ([[{**pieces[1], "choices": [{"delta": {"content": 7}}]}]], ResponseParseError)):
        with FakeServer(script=script) as server:
            with pytest.raises(error) as e:
                heard_of(client_of(server, max_retries=0))
            assert KEY not in str(e.value) and "openai.m" in str(e.value) and len(server.requests) == 1


def test_a_stream_ends_with_its_time():
    with FakeServer() as server:
        server.script = [[*in_pieces(openai(TEXT))[:4], lambda: server.closing.wait(30)]]
        with pytest.raises(TimeoutError):
            heard_of(client_of(server, max_retries=0, deadline=.5))


def test_a_reply_that_is_cancelled_ends_where_it_is():
    pieces = []
    request = page_request(PAGES, "What is the total?", settings={"temperature": 0})
    with FakeServer() as server, streamed_to(pieces.append):
        server.script = [[*in_pieces(openai(TEXT))[:6], lambda: server.closing.wait(30)]]
        reply = client_of(server).respond(request.but(cancelled=lambda: len(pieces) > 4))
    assert reply.finish_reason == "length" and reply.text == TEXT[:12] and reply.usage.estimated


def test_a_key_is_never_heard():
    quoted = f"The key is {KEY}, or sk-abcdefghijklmnopqrstuvwx; Bearer abcdefghijklmnop."
    with FakeServer(script=[in_pieces(openai(quoted), size=1)]) as server:
        reply, pieces = heard_of(client_of(server))
    last = len(pieces) - pieces[::-1].index("")
    assert reply.text == quoted and "".join(pieces[last:]) == "The key is ***, or ***; ***"
    for secret in (KEY[:12], "sk-abc", "abcdefghij"):
        assert secret not in "".join(pieces)


def test_a_wrapper_that_asks_again_is_heard_from_the_beginning():
    with FakeServer(script=[in_pieces(openai("no JSON")), in_pieces(openai('{"answer": "42"}'))]) as server:
        pieces = []
        with streamed_to(pieces.append):
            RetryingClient(client_of(server)).chat(build_messages(PAGES, "?"), schema=ANSWER)
    assert "".join(pieces) == 'no JSON{"answer": "42"}' and pieces.count("") == 2


def test_what_a_listener_raises_ends_the_reply():
    def hear(piece):
        if piece:
            raise BrokenPipeError("nobody is there any more")
    with FakeServer(script=[in_pieces(openai(TEXT))] * 3) as server:
        with streamed_to(hear), pytest.raises((BrokenPipeError, ServerError)):
            ask(client_of(server))
        assert len(server.requests) == 1


# --- Claude ---

TOOL = {**anthropic(None), "stop_reason": "tool_use", "content": [
    {"type": "tool_use", "id": "t", "name": "reply", "input": {"answer": "1,250.00 EUR, Käse 中文"}}]}


@pytest.mark.parametrize("answer", [anthropic(TEXT), anthropic(TEXT, "length"), TOOL], ids=["words", "cut", "tool"])
def test_a_streamed_reply_of_claude_is_the_plain_one(answer):
    params = {"schema": ANSWER} if answer is TOOL else {}
    with FakeServer("anthropic", [answer, message_in_pieces(answer)]) as server:
        client = client_of(server)
        first, (second, pieces) = ask(client, **params), heard_of(client, **params)
    assert without_time(first) == without_time(second)
    said = json.dumps(TOOL["content"][0]["input"]) if answer is TOOL else TEXT
    assert pieces[0] == "" and "".join(pieces) == said and len(pieces) > 9
    asked, told = (r["body"] for r in server.requests)
    assert {**asked, "stream": True} == told and not asked.get("stream")


@pytest.mark.parametrize("end", [["cut"], []], ids=["cut", "ended early"])
def test_a_stream_of_claude_that_breaks_is_asked_for_again(end):
    whole = message_in_pieces(anthropic(TEXT))
    with FakeServer("anthropic", [[*whole[:6], *end], whole]) as server:
        reply, pieces = heard_of(client_of(server))
        assert reply.text == TEXT and len(server.requests) == 2 and pieces.count("") == 2


def test_faults_of_claude_in_a_stream_and_a_gateway_that_does_not_stream():
    whole = message_in_pieces(anthropic(TEXT))
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    odd = {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}
    for script, error in (([[*whole[:4], busy]], ServerError), ([[*whole[:4], odd]], ResponseParseError),
                          ([(401, {})], AuthenticationError), ([[]], ResponseParseError)):
        with FakeServer("anthropic", script) as server, pytest.raises(error, match="anthropic.m"):
            heard_of(client_of(server, max_retries=0))
    with FakeServer("anthropic") as server:
        client = client_of(server)
        assert [heard_of(client)[1] for _ in range(2)] == [[], []] and len(server.requests) == 3


def test_claude_ends_where_it_is_when_it_is_cancelled():
    pieces = []
    with FakeServer("anthropic") as server, streamed_to(pieces.append):
        server.script = [[*message_in_pieces(anthropic(TEXT))[:8], lambda: server.closing.wait(30)]]
        reply = client_of(server).respond(page_request(PAGES, "?").but(cancelled=lambda: len(pieces) > 3))
    assert reply.finish_reason == "length" and TEXT.startswith(reply.text) and reply.text


# --- Gemini ---

@pytest.mark.parametrize("finish", ["STOP", "length"])
def test_a_streamed_reply_of_gemini_is_the_plain_one(finish):
    answer = google(TEXT, finish)
    with FakeServer("google", [answer, answer_in_pieces(answer)]) as server:
        client = client_of(server)
        first, (second, pieces) = ask(client), heard_of(client)
    assert without_time(first) == without_time(second)
    assert pieces[0] == "" and "".join(pieces) == TEXT and len(pieces) > 9
    asked, told = server.requests
    assert asked["body"] == told["body"] and "streamGenerateContent" in told["path"] not in asked["path"]


@pytest.mark.parametrize("end", [["cut"], []], ids=["cut", "ended early"])
def test_a_stream_of_gemini_that_breaks_is_asked_for_again(end):
    whole = answer_in_pieces(google(TEXT))
    with FakeServer("google", [[*whole[:6], *end], whole]) as server:
        reply, pieces = heard_of(client_of(server))
        assert reply.text == TEXT and len(server.requests) == 2 and pieces.count("") == 2


def test_faults_of_gemini_in_a_stream_and_a_gateway_that_does_not_stream():
    whole = answer_in_pieces(google(TEXT))
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}}
    for script, error in (([[*whole[:4], {"candidates": 7}]], ResponseParseError), ([(401, {})], AuthenticationError),
                          ([[]], ResponseParseError), ([(503, {})], ServerError), (["cut"], ServerError)):
        with FakeServer("google", script) as server, pytest.raises(error, match="google.m"):
            heard_of(client_of(server, max_retries=0))
    with FakeServer("google", [[blocked]]) as server:
        assert heard_of(client_of(server))[0].finish_reason == "refusal"
    with FakeServer("google") as server:
        client = client_of(server)
        assert [heard_of(client)[0].text for _ in range(2)] == ["42", "42"]


# --- who listens to an answer ---

def listen_to(method, server):
    "What a listener hears of an answer: events in order, the pieces of a reply as one."
    events = []

    def hear(kind, event):
        if kind == "text" and events and events[-1][0] == "text" and event["text"]:
            events[-1][1]["text"] += event["text"]
        else:
            events.append((kind, dict(event)))
    episode = answer_question(PAGES, "How much?", client_of(server), choose_policy(method), on_event=hear)
    return episode, events


@pytest.mark.parametrize(("method", "text"), [("direct", TEXT), ("team", FOUND), ("require_evidence", FOUND)])
def test_whoever_listens_to_an_answer_hears_it_come(method, text):
    with FakeServer(script=[in_pieces(openai(text))] * 2, answer=lambda body: text) as server:
        episode, events = listen_to(method, server)
        kinds = [kind for kind, _ in events]
        assert episode["answer"].startswith("1,250.00 EUR")
        said = next(event for kind, event in events if kind == "text")
        assert said["text"] == text and said["step"] == 1 and said["agent"]
        if method != "direct":
            assert kinds.index("start") < kinds.index("text") < kinds.index("turn")
        assert kinds[-1] == "end"


@pytest.mark.parametrize("method", ["direct", "team"])
def test_what_a_listener_of_an_answer_raises_reaches_whoever_asks(method):
    def hear(kind, event):
        if kind == "text" and event["text"]: raise BrokenPipeError("nobody is there any more")
    with FakeServer(script=[in_pieces(openai(FOUND))] * 3) as server, pytest.raises(BrokenPipeError):
        answer_question(PAGES, "How much?", client_of(server), choose_policy(method), on_event=hear)


def test_a_key_that_the_bound_cuts_is_not_heard():
    text = "x" * (MAX_STREAMED - len(KEY) + 1) + KEY
    heard = []
    with streamed_to(heard.append), text_stream() as stream:
        remember_secret(KEY)
        stream.write(text)
    assert KEY[:12] not in "".join(heard)


@pytest.mark.parametrize("method", ["auto", "direct", "team", "require_evidence", "cosee_plan", "blind"])
def test_nothing_changes_where_nobody_listens(method):
    with FakeServer(answer=lambda body: FOUND) as server:
        answer_question(PAGES, "How much?", client_of(server), choose_policy(method))
    assert server.requests and not any("stream" in r["body"] for r in server.requests)


def joined(events):
    "The replies that text events told."
    replies = []
    for event in events:
        if event["at"] == 0:
            replies.append("")
        assert event["at"] == len(replies[-1])
        replies[-1] += event["text"]
    return replies


def follow(url, episode, seen=None):
    "The server-sent events of an episode, as they come: (id, event)."
    with httpx.stream("GET", f"{url}api/episodes/{episode}/events", timeout=60) as answer:
        n, out = None, []
        for line in answer.iter_lines():
            if line.startswith("id: "):
                n = int(line[4:])
            if line.startswith("data: "):
                out.append((n, json.loads(line[6:])))
                if seen:
                    seen(out[-1][1])
            if not line:
                n = None
        return out


def test_http_tells_a_reply_while_it_is_written_and_keeps_nothing_of_it(tmp_path):
    "The model goes on when two followers, the second of whom came late, have read what it wrote."
    begun, both = threading.Event(), threading.Barrier(3)   # two followers and the model
    events = in_pieces(openai(TEXT))
    events[8:8] = [lambda: both.wait(20)]
    events[6:6] = [lambda: begun.wait(20)]
    with FakeServer(script=[events]) as model, served(tmp_path / "kept", client_of(model), roots=[samples_dir()]) as (
            _, url), ThreadPoolExecutor(2) as pool:
        document = httpx.post(f"{url}api/documents", json={"path": "invoice.pdf"}).json()["id"]
        asked = httpx.post(f"{url}api/documents/{document}/questions",
                           json={"question": "How much?", "settings": SETTINGS}).json()["id"]
        def read(event):
            if event["kind"] == "text":
                begun.set()
                if event["at"] + len(event["text"]) == 21:   # as far as the model has come
                    both.wait(20)
        first = pool.submit(follow, url, asked, read)
        assert begun.wait(20)
        second = pool.submit(follow, url, asked, read)
        followed, joined_late = first.result(60), second.result(60)
        again = follow(url, asked)
    for heard in (followed, joined_late):
        texts = [event for n, event in heard if event["kind"] == "text"]
        assert TEXT.startswith(joined(texts)[0]) and texts[0]["agent"] and not any(n for n, e in heard if "at" in e)
        assert "Page: 1 Confidence: 0.".startswith(texts[-1]["preview"][:22]) and texts[-1]["preview"]
        assert heard[-1][1]["kind"] == "ended"
    assert len([e for _, e in followed if e["kind"] == "text"]) > 1
    assert [(n, e) for n, e in followed if e["kind"] != "text"] == again and again[-1][1]["state"] == "done"


@pytest.mark.parametrize("events", [True, False])
def test_the_chat_form_tells_a_reply_among_its_events_alone(tmp_path, events):
    page = io.BytesIO()
    PAGES[0].save(page, "PNG")
    content = [{"type": "text", "text": "How much?"}, {"type": "image_url", "image_url": {
        "url": f"data:image/png;base64,{base64.b64encode(page.getvalue()).decode()}"}}]
    going, script = threading.Event(), in_pieces(openai(TEXT))
    script[6:6] = [lambda: going.wait(20) if events else None]
    texts, said = [], ""
    with FakeServer(script=[script]) as model, served(tmp_path / "kept", client_of(model)) as (_, url):
        asked = {"model": "cosee", "stream": True, "messages": [{"role": "user", "content": content}],
                 "cosee": {**SETTINGS, "events": events}}
        with httpx.stream("POST", f"{url}v1/chat/completions", json=asked, timeout=60) as answer:
            for line in answer.iter_lines():
                chunk = json.loads(line[6:]) if line.startswith("data: {") else {}
                if chunk.get("cosee", {}).get("kind") == "text":
                    texts.append(chunk["cosee"])
                    going.set()
                    assert not said and chunk["choices"][0]["delta"] == {}
                said += chunk["choices"][0]["delta"].get("content", "") if chunk.get("choices") else ""
    assert said == "1,250.00 EUR, Käse 中文" and bool(texts) == events


def test_a_draft_is_told_a_few_times_a_second():
    async def work():
        job = Job("e", Caller(), "d", "How much?", Settings())
        job.begin()
        async def tell():
            for piece in ["", *["word "] * 999]:
                await asyncio.to_thread(job.tell, "text", {"step": 1, "agent": "solo", "text": piece})
            job.end("done")
        job.task = asyncio.create_task(tell())
        start = time.monotonic()
        events = [event async for event in job.follow()]
        return [e for e in events if e["kind"] == "text"], time.monotonic() - start, job
    texts, seconds, job = asyncio.run(work())
    assert len(texts) <= 10 * seconds + 2 and [e["kind"] for e in job.events] == ["begun", "ended"]
    assert joined(texts or [{"at": 0, "text": ""}])


def run_in_terminal(args, **env):
    "What `cosee` writes where standard error is a terminal: (standard output, what the terminal was sent)."
    ours, theirs = pytest.importorskip("pty").openpty()
    run = "import sys; from cosee.cli.start import main; sys.exit(main())"
    done = subprocess.Popen([sys.executable, "-c", run, *args], stdout=subprocess.PIPE, stderr=theirs,
                            env={**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT), **env})
    os.close(theirs)
    shown = b""
    with suppress(OSError):   # the other end is closed
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    return done.communicate(timeout=60)[0].decode(), shown.decode()


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["plain", "json"])
def test_a_terminal_shows_a_reply_in_one_line_and_nothing_else_does(options):
    events = in_pieces(openai(TEXT + "\x1b[31mred"), size=5)
    for at in range(8, 2, -2):   # longer than the line takes to be drawn anew
        events.insert(at, lambda: time.sleep(.15))
    with FakeServer(script=[events if not options else "ok"], answer=lambda body: TEXT) as server:
        said, shown = run_in_terminal(["ask", str(samples_dir() / "invoice.pdf"), "-q", "How much?", "--model", "m",
                                       "--base-url", server.base_url, "--method", "direct", *options])
        streamed = [r["body"].get("stream", False) for r in server.requests]
    assert "1,250.00 EUR" in said
    if options:
        assert streamed == [False] and "writing" not in shown and "Confidence" not in shown
        return
    assert streamed == [True]
    lines = shown.split("\r\x1b[K")
    drafts = [line for line in lines if "Page: 1 Conf" in line]
    assert drafts and "\n" not in drafts[0] and max(map(len, drafts)) < 80 and "\x1b[31m" not in shown
    assert lines[-1] == "" or "\n" in lines[-1]   # the line is taken away before the answer is printed


# --- models in this process ---

NOTE = {"type": "object", "properties": {"content": {"type": "string", "maxLength": 40}}, "required": ["content"],
        "additionalProperties": False}


@pytest.fixture(scope="module", params=["tiny", "gguf"])
def local(request, tmp_path_factory):
    if request.param == "tiny":
        pytest.importorskip("torch")
        from cosee.models.registry import make_client
        return make_client("tiny")
    pytest.importorskip("xllamacpp")
    from cosee.models.gguf_client import GgufClient
    from cosee.models.testing import random_gguf
    return GgufClient(random_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf"), threads=1)


@pytest.mark.parametrize("schema", [None, NOTE], ids=["words", "schema"])
def test_a_model_in_this_process_tells_what_it_writes(local, schema):
    asked, most = [{"role": "user", "content": "What is the total?"}], 0
    for seed in range(8):
        params = {"max_new_tokens": 60, "temperature": 1.5, "seed": seed, "schema": schema}
        pieces = []
        with streamed_to(pieces.append):   # before the plain one, of which it would guess every token
            reply = local.chat(asked, **params)
        plain = local.chat(asked, **params)
        last = len(pieces) - pieces[::-1].index("")
        assert replace(without_time(reply), usage=plain.usage) == replace(without_time(plain), usage=plain.usage)
        assert reply.usage.completion_tokens == plain.usage.completion_tokens
        assert "".join(pieces[last:]) == redact(reply.text).rstrip("\ufffd").strip() or "\ufffd" in reply.text
        most = max(most, len(pieces))
    assert most > 3


def test_a_character_of_several_tokens_is_told_whole():
    pytest.importorskip("torch")
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    pieces, said = [], "Käse 中文 😀 €"
    schema = {"type": "object", "properties": {"content": {"enum": [said]}}, "required": ["content"],
              "additionalProperties": False}
    slow = QwenVLClient.tiny(fast_forward=False, lookup=False)   # token by token
    with streamed_to(pieces.append):
        reply = slow.chat([{"role": "user", "content": "What is it?"}], schema=schema, max_new_tokens=60)
    assert json.loads(reply.text)["content"] == said and "".join(pieces) == reply.text
    assert pieces.count("") == 1 and len(pieces) > 12 and reply.usage.completion_tokens > len(pieces)


def test_a_local_model_ends_where_it_is_when_it_is_cancelled(local):
    pieces = []
    request = page_request([], "What is the total?", settings={"max_new_tokens": 60, "temperature": 1.5, "seed": 3})
    with streamed_to(pieces.append):
        reply = local.respond(request.but(cancelled=lambda: len(pieces) > 2))
    assert reply.finish_reason == "length" and reply.usage.completion_tokens < 60


@pytest.mark.slow
def test_the_app_shows_a_reply_as_it_is_written_and_as_text(browser, tmp_path):
    from cosee.app.server import create_page_app
    said = "The total is <img src=x onerror=alert(1)> 1,250.00 EUR"
    seen, script = threading.Event(), in_pieces(openai(said))
    script[-3:-3] = [lambda: seen.wait(30)]
    def shown(code):
        return browser.js(f"document.getElementById('draft').{code}")
    def click(code):
        browser.js(f"document.querySelector({code!r}).click()")
    with (FakeServer(script=[script]) as model,
          EpisodeService(tmp_path / "kept", Clients({"m": lambda: client_of(model)}),
                         AllowedPaths([samples_dir() / "invoice.pdf"])) as service,
          running(create_page_app(service, Tokens({"me": "a+token+of+letters"}))) as url):
        browser.open(f"{url}?token=a%2Btoken%2Bof%2Bletters")
        browser.wait("!!document.querySelector('#files button')")
        click("#files button")
        browser.wait("!document.getElementById('desk').hidden")
        browser.js("document.getElementById('question').value = 'How much?'")
        browser.js("document.getElementById('ask').requestSubmit()")
        browser.wait("document.getElementById('draft').textContent.includes('onerror')", 30)
        assert said.startswith(shown("textContent")) and shown("childElementCount") == 0
        assert shown("checkVisibility()") is True
        seen.set()
        browser.wait("document.getElementById('running').hidden", 30)
        assert shown("textContent") == "" and shown("hidden") is True
    assert not browser.seen("Page.javascriptDialogOpening", "Runtime.exceptionThrown")


def test_the_view_of_a_running_episode_says_what_is_written_until_the_turn():
    live = LiveEpisode("How much?")
    live("start", {"agent": "scanner", "step": 1, "shown": [1]})
    seen = []
    for piece in ("", '{"content": "A <b>ta', 'ble", "answer"', "", '{"content": "It is 17.", '):
        live("text", {"agent": "scanner", "step": 1, "text": piece})
        seen.append(live.episode()["status"].partition(" · ")[2])
    assert seen == ["", "", "writing: A <b>table", "", "writing: It is 17."]
    live("turn", {"agent": "scanner", "step": 1, "applied": None, "error": "no action", "calls": []})
    assert "writing" not in live.episode()["status"]
