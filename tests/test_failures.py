"What a server or a model fails in is told in fields, paid for once, and remembered where it will not change."
import warnings

import pytest
from PIL import Image

import fake_servers as fake
from cosee import samples_dir
from cosee.agents import team
from cosee.cli.entry import main
from cosee.controller import CoSeeController

from cosee.budgets import Task
from cosee.policies import Single
from cosee.extraction.extract import extract
from cosee.models.client import Request, page_request
from cosee.models.remote import QuotaError, RateLimitError, ResponseParseError
from cosee.models.registry import create_vlm_client
from cosee.models.wrappers import CachedClient
from cosee.cascade import Cascade

PAGES = [Image.new("RGB", (64, 64), "white")]


def client_of(server, **fields):
    return create_vlm_client("openai.m", base_url=server.base_url, api_key="none", max_retries=2, **fields)


def choice(content, finish, **more):
    "An answer of a server, whose message has these fields too."
    answer = fake.openai(content, finish)
    answer["choices"][0]["message"].update(more)
    return answer


EMPTY = {
    "null": (choice(None, "length"), "cut off at its limit"),
    "empty": (choice("", "length"), "cut off at its limit"),
    "thoughts alone": (choice("", "length", reasoning_content="Let me see. " * 40), "cut off at its limit"),
    "refused": (choice(None, "stop", refusal="I cannot help with that."), "its reply was filtered: I cannot help"),
    "filtered": (choice("", "content_filter"), "its reply was filtered"),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("order", ["sequential", "parallel"])
def test_an_empty_reply_is_told_as_that_and_costs_one_call(name, order):
    answer, why = EMPTY[name]
    with fake.FakeServer(script=[answer] * 9) as server:
        reply = client_of(server).respond(page_request(PAGES, "What?"))
        assert why in reply.error and reply.finish_reason in ("length", "refusal")
        assert reply.thoughts or name != "thoughts alone"
        server.requests.clear()
        episode = CoSeeController(team(client_of(server)), 3, order=order).run(PAGES, "What is the total?")
        assert len(server.requests) == (1 if order == "sequential" else 3)
    assert episode["stopped"].startswith("model: ") and why in episode["stopped"] and episode["answer"] == ""
    assert episode["usage"]["calls"] == len(episode["trace"]["events"])   # the call is on the account


def test_other_methods_end_at_the_first_empty_reply_too():
    with fake.FakeServer(script=[EMPTY["empty"][0]] * 9) as server:
        client = client_of(server)
        out = Task(PAGES, "What?", client).run(Single().solve)
        assert "cut off at its limit" in out["stopped"] and out["usage"]["calls"] == 1
        once = Cascade().answer(PAGES, "What?", client)
        assert "cut off at its limit" in once["stopped"] and len(server.requests) == 2
        found = extract(PAGES, {"type": "object", "properties": {"total": {"type": "string"}}}, client)
        assert "cut off at its limit" in found["stopped"] and len(server.requests) == 3


def part(kind, text): return {"type": kind, kind: text}


SAID = {   # where a server puts a reply -> (what it thought before)
    "thoughts": (choice("", "stop", reasoning_content=fake.FOUND), ""),
    "thoughts by another name": (choice(None, "stop", reasoning=fake.FOUND), ""),
    "parts": (choice([part("text", fake.FOUND[:9]), part("text", fake.FOUND[9:])], "stop"), ""),
    "thoughts and parts": (choice([part("thinking", [part("text", "Row 4?")]), part("text", fake.FOUND)], "stop"),
                           "Row 4?"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_reply_is_read_wherever_a_server_puts_it(name):
    answer, thoughts = SAID[name]
    with fake.FakeServer(script=[answer] * 9) as server:
        reply = client_of(server).respond(page_request(PAGES, "What?"))
        assert (reply.text, reply.thoughts, reply.error) == (fake.FOUND, thoughts, "")
        episode = CoSeeController(team(client_of(server)), 3).run(PAGES, "What is the total?")
    assert episode["answer"] == "1,250.00 EUR" and episode["trace"]["invalid"] <= 1   # a scanner proposes nothing


def test_parts_that_are_none_are_an_answer_that_cannot_be_read():
    for odd in ([7], [{"type": "text", "text": 7}], {"text": "42"}, [{"type": "text", "text": {"a": 1}}]):
        with fake.FakeServer(script=[choice(odd, "stop")]) as server, \
                pytest.raises(ResponseParseError, match="cannot be read"):
            client_of(server).respond(page_request(PAGES, "What?"))


QUOTA, STREAM, BUSY = "raise the limit of the account", "a gateway that gathers the pieces", "ask again later"
HOPELESS = {   # what a server answers -> the way out that is named
    "key": ((401, {}, "Incorrect API key provided"), ""),
    "quota": ((429, {}, "You exceeded your current quota (insufficient_quota), check your plan"), QUOTA),
    "quota in other words": ((429, {}, "Quota exceeded for this month"), QUOTA),
    "quota, forbidden": ((403, {}, "Your monthly quota has been exceeded"), QUOTA),
    "quota, as a reply": ({"error": {"message": "You exceeded your current quota", "code": "x"}}, QUOTA),
    "credit": ((400, {}, "Your credit balance is too low to access this API"), QUOTA),
    "context": ((400, {}, "This model's maximum context length is 4096 tokens, your messages resulted in 9000 tokens"),
                "show fewer pages"),
    "stream": ((400, {}, "This model only supports streaming"), STREAM),
    "stream mode": ((400, {}, "This model only support stream mode, please enable the stream parameter"), STREAM),
    "stream, failed": ((500, {}, "stream must be set to true"), STREAM),
    "stream, as a reply": ({"error": "Non-streaming requests are not supported"}, STREAM),
    "busy, as a reply": ({"error": {"message": "The engine is overloaded", "type": "overloaded_error"}}, BUSY),
    "busy, in a choice": ({**fake.openai(""), "choices": [{"index": 0, "finish_reason": "error", "message": {
        "role": "assistant", "content": ""}, "error": {"code": 502, "message": "Upstream is overloaded"}}]}, BUSY),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_what_would_fail_again_ends_the_episode_at_the_first_call(name):
    answer, way_out = HOPELESS[name]
    with fake.FakeServer(script=[answer] * 30) as server:
        episode = CoSeeController(team(client_of(server)), 3).run(PAGES, "What is the total?")
        assert len(server.requests) == 1
    assert episode["stopped"].startswith("model: ") and episode["steps"] == 1
    words = answer[2] if isinstance(answer, tuple) else next(w for w in (
        "You exceeded your current quota", "Non-streaming", "engine is overloaded", "Upstream is") if w in str(answer))
    assert words in episode["stopped"] and way_out in episode["stopped"]


@pytest.mark.parametrize("wire", ["anthropic", "google"])
def test_a_quota_that_is_used_up_is_asked_for_once_by_every_sdk(wire):
    with fake.FakeServer(wire, [(429, {}, "You exceeded your current quota, check your plan")] * 9) as server:
        client = create_vlm_client(f"{wire}.m", base_url=server.base_url, api_key="none", max_retries=2)
        with pytest.raises(QuotaError, match=QUOTA): client.respond(page_request(PAGES, "What?"))
        assert len(server.requests) == 1


def test_a_quota_of_a_minute_is_waited_for():
    said = (429, {"Retry-After": "0.01"}, "Quota exceeded for requests per minute, retry in 1 s")
    with fake.FakeServer(script=[said, said]) as server:
        assert client_of(server).respond(page_request(PAGES, "What?")).text == "42" and len(server.requests) == 3
        server.script = [said] * 3
        with pytest.raises(RateLimitError): client_of(server).respond(page_request(PAGES, "What?"))


def test_a_passing_fault_ends_nothing():
    with fake.FakeServer(script=[(500, {}, "busy")] * 3, answer=lambda body: fake.FOUND) as server:
        episode = CoSeeController(team(client_of(server)), 1).run(PAGES, "What is the total?")
    assert episode["answer"] == "1,250.00 EUR" and episode["trace"]["invalid"] == 1


def refusing(name, said):
    "A server that answers 400 where a request has something"
    def act(body):
        if name in body: return (400, {}, said)
        return fake.openai(fake.FOUND)
    return act


SCHEMAS = ['Grammar error: Unimplemented keys: ["maxLength"]', "Failed to compile the grammar of the JSON schema",
           "guided decoding is unsupported", "response_format is not available for this model"]


@pytest.mark.parametrize("said", SCHEMAS)
def test_a_schema_is_left_out_in_whatever_words_it_is_refused(said):
    with fake.FakeServer() as server, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server.script = [refusing("response_format", said)] * 9
        episode = CoSeeController(team(client_of(server)), 1).run(PAGES, "What is the total?")
        assert ["response_format" in r["body"] for r in server.requests] == [True, False, False, False]
    assert episode["answer"] == "1,250.00 EUR" and any("structured: none" in str(w.message) for w in told)


REFUSED = {
    "response_format": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model",
    "temperature": "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value "
                   "is supported.",
    "presence_penalty": "Unrecognized request argument supplied: presence_penalty",
    "top_p": "extra fields not permitted: top_p",
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                  "instead.",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_server_refuses_is_left_out_once_and_for_all(name):
    with fake.FakeServer() as server, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server.script = [refusing(name, REFUSED[name])] * 40
        client = client_of(server)
        settings = dict(temperature=.2, top_p=.8, presence_penalty=.5, max_new_tokens=99)
        schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"],
                  "additionalProperties": False}
        request = page_request(PAGES, "What?", schema=schema, settings=settings)
        assert [client.respond(request).text for _ in range(3)] == [fake.FOUND] * 3
        assert [name in r["body"] for r in server.requests] == [True, False, False, False]
        if name == "max_tokens": assert server.requests[-1]["body"]["max_completion_tokens"] == 99
    said = [str(w.message) for w in told if "left out" in str(w.message)]
    assert len(said) == 1 and ("structured: none" if name == "response_format" else "") in said[0]


def test_a_fault_that_names_nothing_that_was_sent_is_not_asked_away():
    with fake.FakeServer(script=[(400, {}, "the messages are not supported")] * 5) as server:
        with pytest.raises(Exception, match="messages are not supported"):
            client_of(server).respond(page_request(PAGES, "What?"))
        assert len(server.requests) == 1


def counting(tokens):
    "A server that counts so many tokens in every prompt."
    def act(body):
        answer = fake.openai(fake.FOUND)
        answer["usage"]["prompt_tokens"] = tokens
        return answer
    return act


@pytest.mark.parametrize("wire", ["openai", "anthropic", "google"])
def test_a_prompt_that_the_server_cut_is_told_once_and_kept_with_each_reply(wire, tmp_path):
    counts = {"openai": ("usage", "prompt_tokens"), "anthropic": ("usage", "input_tokens"),
              "google": ("usageMetadata", "promptTokenCount")}[wire]

    def act(body):
        answer = fake.WIRES[wire](fake.FOUND)
        if wire == "anthropic": answer["usage"]["cache_read_input_tokens"] = 0
        answer[counts[0]][counts[1]] = 9
        return answer
    with fake.FakeServer(wire, [act] * 9) as server, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        client = create_vlm_client(f"{wire}.m", base_url=server.base_url, api_key="none")
        page = "Total due 42 EUR, paid on 3 March. " * 100   # of some 900 tokens
        kept = CachedClient(client, tmp_path / "c.sqlite")
        replies = [kept.respond(page_request([], page, settings=dict(temperature=0))) for _ in range(2)]
        assert len(server.requests) == 2   # a reply in doubt is not remembered
        episode = CoSeeController(team(client), 1).run(PAGES, "What is the total?")
    assert all("counted 9 tokens where some 8" in r.warning and "num_ctx" in r.warning for r in replies)
    assert len([w for w in told if "the server counted 9 tokens" in str(w.message)]) == 1
    assert all("--ctx-size" in c["warning"] for e in episode["trace"]["events"] for c in e["calls"])


DUE = "Total due 42 EUR. " * 200


@pytest.mark.parametrize("page, tokens", [(DUE, 700), (DUE, None), ("........ " * 400, 90), ("合計" * 900, 300),
                                          (" " * 9000, 4)])
def test_a_count_that_can_be_is_not_doubted(page, tokens, recwarn):
    with fake.FakeServer(script=[counting(tokens)]) as server:
        assert client_of(server).respond(page_request(PAGES, page)).warning == ""
    assert not [w for w in recwarn.list if "the server counted" in str(w.message)]


def test_the_command_line_says_in_a_line_that_a_prompt_was_cut(capsys):
    with fake.FakeServer(script=[counting(9)] * 9) as server:
        main(["ask", str(samples_dir() / "invoice.pdf"), "-q", "What is the total due?", "--base-url", server.base_url,
              "--model", "m", "--client", "openai", "--method", "team"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "counted 9 tokens" in line]
    assert len(lines) == 1 and lines[0].startswith("cosee: openai.m: ")


def test_a_cancelled_request_ends_while_tokens_are_written(tmp_path):
    pytest.importorskip("xllamacpp")
    from cosee.models.gguf_client import GgufClient
    from cosee.models.testing import random_checkpoint, random_gguf
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    gguf = GgufClient(random_gguf(tmp_path / "m.gguf"), threads=1)
    for client in (gguf, QwenVLClient(random_checkpoint(tmp_path / "qwen"))):
        left = iter(range(6))
        request = Request(instruction="Write for ever.", settings=dict(max_new_tokens=400, temperature=1.5, seed=1),
                          cancelled=lambda left=left: next(left, None) is None)
        reply = client.respond(request)
        assert 0 < reply.usage.completion_tokens < 100 and reply.finish_reason == "length", client
        free = client.respond(request.but(cancelled=None, settings=dict(max_new_tokens=9, temperature=0)))
        assert free.usage.completion_tokens > 0
