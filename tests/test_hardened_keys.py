"""Keys and strangers: what servers, run folders and files from elsewhere may do, tried from the outside in."""
import gzip
import json
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cosee.models.backends import Backend
from cosee.models.client import build_messages
from cosee.models.registry import CLIENTS
from cosee.models.remote import RateLimitError, RequestError, ResponseParseError, TimeoutError, VLMClientError
from cosee.registry import load_object
from fake_servers import WIRES, FakeServer
from PIL import Image

KINDS = ["openai", "anthropic", "google"]
KEY = "planted-0123456789-key"
PAGES = [Image.new("RGB", (96, 64), "white")]


@pytest.fixture(params=KINDS)
def wire(request):
    return request.param


def client_at(url, wire, **fields):
    "The client of a provider for a server at an address."
    fields = {"max_retries": 0, "timeout": 5, **fields}
    address = url + ("/v1" if wire == "openai" else "")
    return load_object(CLIENTS[wire].backend)(Backend(kind=wire, model="m", id=f"{wire}.m", base_url=address,
                                                      **fields), KEY)


def ask(client):
    return client.chat(build_messages(PAGES, "What is the total?"), temperature=0, max_new_tokens=9)


class Strange(ThreadingHTTPServer):
    "A server whose every answer is a function of the handler; it keeps the paths that it was asked for."
    daemon_threads = True

    def __init__(self, act):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.server.seen.append(self.path)
                act(self)
            do_GET = do_POST

        self.seen, self.closing = [], threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.closing.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        "A client that went away is part of the test."


def answer(handler, data, status=200, **headers):
    "Send a whole answer."
    handler.send_response(status)
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    for k, v in {"Content-Type": "application/json", "Content-Length": str(len(data)), **named}.items():
        handler.send_header(k, v)
    handler.end_headers()
    handler.wfile.write(data)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nothing_follows_a_redirect_to_another_origin(wire, status):
    with FakeServer(wire) as second:
        target = second.url.replace("127.0.0.1", "localhost")
        for address in (second.url, target):
            def away(handler, address=address):
                answer(handler, b"", status, Location=address + handler.path)
            with Strange(away) as first, pytest.raises(RequestError, match="another address") as e:
                ask(client_at(first.url, wire, max_retries=2))
            assert second.requests == [] and len(first.seen) == 1
            assert KEY not in str(e.value)


def test_a_redirect_within_the_origin_is_followed(wire):
    body = json.dumps(WIRES[wire]("42")).encode()

    def onwards(handler):
        moved = handler.path.endswith("/moved")
        answer(handler, body if moved else b"", 200 if moved else 307, Location=handler.path + "/moved")
    with Strange(onwards) as server:
        assert ask(client_at(server.url, wire)).text == "42"


@pytest.mark.parametrize("location", ["http://[", "//\x00", "gopher://127.0.0.1/", "http://a@b@c:99999999/", ""])
def test_a_redirect_to_nowhere_is_an_error_of_the_client(wire, location):
    with Strange(lambda handler: answer(handler, b"", 307, Location=location)) as server:
        with pytest.raises(VLMClientError):
            ask(client_at(server.url, wire))


def test_ping_follows_no_redirect_either(wire):
    with FakeServer(wire) as second, Strange(lambda h: answer(h, b"", 307, Location=second.url + h.path)) as first:
        assert "another address" in client_at(first.url, wire).ping()
        assert second.requests == []



BODIES = {"plain": (lambda: b" " * (33 * 2**20), {}),
          "gzip": (lambda: gzip.compress(b" " * (200 * 2**20)), {"Content_Encoding": "gzip"}),
          "deflate": (lambda: zlib.compress(b" " * (200 * 2**20)), {"Content_Encoding": "deflate"}),
          "twice": (lambda: gzip.compress(gzip.compress(b" " * 2**20)), {"Content_Encoding": "gzip, gzip"}),
          "unasked": (lambda: b"xx", {"Content_Encoding": "br"}),
          "torn": (lambda: b"\x1f\x8bxxxx", {"Content_Encoding": "gzip"})}


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_are_bounded_also_after_unpacking(wire, kind):
    data, headers = BODIES[kind][0](), BODIES[kind][1]
    with Strange(lambda h: answer(h, data, **headers)) as server:
        with pytest.raises(ResponseParseError, match="body"):
            ask(client_at(server.url, wire, timeout=20))


def test_packed_answers_are_read(wire):
    body = gzip.compress(json.dumps(WIRES[wire]("42")).encode())
    with Strange(lambda h: answer(h, body, Content_Encoding="gzip")) as server:
        assert ask(client_at(server.url, wire)).text == "42"


def drip_body(handler):
    answer(handler, b"{", Content_Length="1000000")
    while not handler.server.closing.wait(0.1):
        handler.wfile.write(b" ")


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.closing.wait(0.1):
        handler.wfile.write(b"X-A: 1\r\n")


def silent(handler):
    handler.server.closing.wait(30)


def told(**headers):
    return lambda handler: answer(handler, b"{}", 429, **headers)


SLOW = {"body": drip_body, "headers": drip_headers, "silent": silent,
        **{f"after {k}={v}": told(**{k: v}) for k, v in [
            ("Retry_After", "50"), ("Retry_After", "1e9"), ("Retry_After", "nan"), ("Retry_After", "-5"),
            ("Retry_After", "inf"), ("Retry_After", "soon"), ("Retry_After", "Wed, 21 Oct 2099 07:28:00 GMT"),
            ("Retry_After_Ms", "50000"), ("Retry_After_Ms", "1e308")]}}


@pytest.mark.parametrize("kind", SLOW)
def test_one_deadline_holds_for_everything(wire, kind):
    with Strange(SLOW[kind]) as server:
        client, start = client_at(server.url, wire, max_retries=10, timeout=20, deadline=0.7), time.monotonic()
        with pytest.raises((TimeoutError, RateLimitError)):
            ask(client)
        assert time.monotonic() - start < 2.5
        seen = len(server.seen)
        time.sleep(0.1)
        assert len(server.seen) == seen


@pytest.mark.parametrize("headers, seconds", [
    ({"Retry_After": "7"}, 7), ({"Retry_After_Ms": "1500"}, 1.5), ({"Retry_After": "nan"}, None),
    ({"Retry_After": "inf"}, None), ({"Retry_After": "soon"}, None), ({"Retry_After": "-3"}, 0),
    ({"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0), ({"Retry_After": "Wed, 99 Oct 2015"}, None)])
def test_how_long_to_wait_is_read_in_every_form(wire, headers, seconds):
    with Strange(told(**headers)) as server, pytest.raises(RateLimitError) as e:
        ask(client_at(server.url, wire))
    assert e.value.retry_after == seconds
