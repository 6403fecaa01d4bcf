"""Servers that do anything: from a seed, behaviours of status, headers, body, pace and framing, alone and in turn.
Whatever a server does, a call ends in time with a reply or with an error of the client, which quotes no key,
and nothing is sent to another address.

COSEE_SERVER_CASES=2000 asks for more of them."""
import gzip
import json
import os
import random
import time
import zlib

import pytest

from cosee.models.client import Reply
from cosee.models.remote import VLMClientError
from fake_servers import WIRES, FakeServer
from test_hardened_keys import KEY, KINDS, Strange, ask, client_at

SERVERS = int(os.environ.get("COSEE_SERVER_CASES", 30))
DEADLINE, PATIENCE = .25, 20.   # seconds: for servers that would keep a caller waiting, and for those that would not
GRACE = 8.                      # what a busy machine may add
STATUSES = [200] * 60 + [201, 204, 206, 300, 301, 302, 304, 307, 308, 400, 401, 402, 403, 404, 408, 409, 413, 418, 422,
                         429, 429, 451, 500, 500, 502, 503, 504, 529, 599, 100, 999, 42]
WAITS = ["0", "0.01", "7", "1e9", "nan", "-3", "soon", "", "Wed, 21 Oct 2015 07:28:00 GMT",
         "Wed, 21 Oct 2099 07:28:00 GMT", "Wed, 99 Oct", "9" * 300]
ODD = [None, True, 0, -1, 1e308, 10**30, float("inf"), float("nan"), "", "x" * 5000, "\ud800", "\x00", [], {}, [None],
       {"a": {"b": []}}, "<script>alert(1)</script>", KEY]


def places(x):
    "Every container of an answer with each of its keys."
    for k in list(x if isinstance(x, dict) else range(len(x))):
        yield x, k
        if isinstance(x[k], (dict, list)): yield from places(x[k])


def body_of(rng, wire):
    "A body: good, changed in places, cut, or something else altogether."
    good = WIRES[wire]("Answer: 42")
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        x, k = rng.choice(list(places(good)))
        if rng.random() < .4: x.pop(k)
        else: x[k] = rng.choice(ODD)
        if not good: break
    data = json.dumps(good).encode()
    kind = rng.randrange(16)
    if kind == 0: data = data[:rng.randrange(len(data))]
    if kind == 1: data = rng.randbytes(rng.randrange(3000))
    if kind == 2: data = rng.choice([b"", b"null", b"[]", b"7", b'""', b"<html>gateway</html>", b"\xff\xfe{", b"NaN"])
    if kind == 3: data = b"[" * 100_000
    if kind == 4: data = json.dumps({"error": {"message": f"wrong key {KEY}", "code": rng.choice(ODD[:6])}}).encode()
    if kind == 5: data = b"data: " + data + b"\n\ndata: [DONE]\n\n"   # a stream that nobody asked for
    return data


def headers_of(rng, data, elsewhere):
    "Headers, few of which are true."
    found = {"Content-Type": rng.choice(["application/json"] * 6 + ["text/html", "text/event-stream", "", "a" * 500]),
             "Content-Length": str(len(data) if rng.random() < .93 else rng.choice([0, 1, len(data) + 50, "x", "-1"]))}
    if rng.random() < .3: found["Retry-After"] = rng.choice(WAITS)
    if rng.random() < .1: found["Retry-After-Ms"] = rng.choice(WAITS)
    if rng.random() < .3: found["Location"] = rng.choice([elsewhere, "/moved", "//[", "", "file:///etc/passwd"])
    if rng.random() < .07: found["Content-Encoding"] = rng.choice(["gzip", "deflate", "br", "gzip, gzip", "x"])
    if rng.random() < .05: found["X-Long"] = "x" * rng.choice([1000, 70_000, 200_000])
    if rng.random() < .05: found["Transfer-Encoding"] = "chunked"
    if rng.random() < .05: found["Set-Cookie"] = "a=b; Domain=example.org"
    return found


def packed(rng, data, headers):
    "The body as its headers say that it is packed, if it is."
    if headers.get("Content-Encoding") == "gzip" and rng.random() < .7: data = gzip.compress(data, 1)
    if headers.get("Content-Encoding") == "deflate" and rng.random() < .7: data = zlib.compress(data, 1)
    if "Transfer-Encoding" in headers:
        headers.pop("Content-Length")
        size = f"{len(data):x}" if rng.random() < .6 else rng.choice(["zz", "-5", "ffffffffffff", ""])
        data = size.encode() + b"\r\n" + data + rng.choice([b"\r\n0\r\n\r\n", b"", b"\r\n0\r\nX: y\r\n"])
    return data


def written(rng, wire, elsewhere):
    "An answer byte by byte, and where it pauses: (pieces, seconds between them)."
    if rng.random() < .03: return [rng.randbytes(200)], 0
    data = body_of(rng, wire)
    headers = headers_of(rng, data, elsewhere)
    data = packed(rng, data, headers)
    status = rng.choice(STATUSES)
    head = f"HTTP/1.1 {status} {rng.choice(['OK', '', 'Nö'])}\r\n"
    head += "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    whole = head.encode() + b"\r\n" + data
    if rng.random() < .08: whole = whole[:rng.randrange(len(whole))]   # the connection breaks
    if rng.random() < .05: return [whole[i::20] for i in range(20)], 1   # slowly, and in the wrong order
    if rng.random() < .04: return [b"", whole], 30                       # silence
    return [whole], 0


def act_of(answers):
    "What a server does: the answers one after the other, the last of them for ever."
    def act(handler):
        pieces, pause = answers.pop(0) if len(answers) > 1 else answers[0]
        handler.close_connection = True
        for piece in pieces:
            handler.wfile.write(piece)
            if pause and handler.server.closing.wait(pause): return
    return act


def outcome(client, deadline):
    "What a call comes to, in time: 'answered' or the kind of error."
    begin = time.monotonic()
    try: said = ask(client)
    except VLMClientError as e: said = e
    assert time.monotonic() - begin < deadline + GRACE
    if isinstance(said, Reply):
        assert isinstance(said.text, str) and said.usage.total_tokens >= 0
        return "answered"
    assert KEY not in str(said) and 0 < len(str(said)) < 2000, said
    return type(said).__name__


@pytest.mark.faults("a server that does anything, once or in turn")
@pytest.mark.parametrize("wire", KINDS)
def test_whatever_a_server_does_a_call_ends_in_time_with_a_reply_or_an_error(wire, counts):
    act = {}
    with FakeServer(wire) as second, Strange(lambda handler: act["now"](handler)) as server:
        elsewhere = second.url.replace("127.0.0.1", "localhost") + "/v1/chat/completions"
        hasty, patient, again = [(client_at(server.url, wire, max_retries=n, deadline=t, timeout=t), t)
                                 for n, t in ((0, DEADLINE), (0, PATIENCE), (2, 6 * DEADLINE))]
        for i in range(SERVERS // len(KINDS) + (KINDS.index(wire) < SERVERS % len(KINDS))):
            rng = random.Random(f"{wire} {i}")
            answers = [written(rng, wire, elsewhere) for _ in range(rng.choice([1, 1, 2, 3]))]
            caller = again if i % 6 == 5 else hasty if any(pause for _, pause in answers) else patient
            act["now"] = act_of(answers)
            try: counts[outcome(*caller)] += 1
            except Exception as e: raise AssertionError(f"behaviour {i} of {wire}: {e!r}") from e
        assert second.requests == []
    assert counts["answered"] and len(counts) > 1
