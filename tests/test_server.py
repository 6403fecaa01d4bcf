"""The server from outside, by real HTTP: who is let in, what is opened, whose turn it is, and what a kill leaves."""
import base64
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import openai
import pytest
from asking import ask_and_wait
from conftest import ROOT
from gated import Gated
from PIL import Image

from cosee.datasets.synthetic.document import samples_dir
from cosee.server.http import create_app, protect
from cosee.server.answering import Clients
from cosee.server.openai_api import chat
from cosee.server.episodes import EpisodeService
from cosee.server.documents import AllowedPaths, Limits, RequestError, caller_of
from cosee.server.security import Tokens, hosts_for
from cosee.server.serve import running
from cosee.models.usage import BudgetExceeded
from cosee.models.reader_client import OcrClient
from cosee.runs.table import Run
from cosee.runs.viewer import Viewer, export_viewer

QUESTION = "How much is the subtotal?"
plain = urllib.parse.unquote
QUICK = dict(agents=["detail_reader"], max_steps=1)
SECRET = "the secret of somebody else"
ALICE, BOB = "the long word of alice", "the long word of bob"


@contextmanager
def served(folder, client=None, tokens=None, roots=(), at_once=2, limits=None, shared=False, **security):
    "A service and the address at which it is served."
    clients = Clients({"ocr": (lambda: client) if client else OcrClient})
    with EpisodeService(folder, clients, AllowedPaths(roots), limits or Limits(), at_once, shared) as service:
        app = protect(service, create_app(service, chat), tokens, **security)
        with running(app, head=.3) as url: yield service, url


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "A folder that may be opened, beside one that may not."
    home = tmp_path_factory.mktemp("place").resolve()
    for name in ("open/invoice.pdf", "open/deep/slides.pdf", "open/.keys/invoice.pdf", "closed/invoice.pdf"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes((samples_dir() / name.rsplit("/", 1)[1]).read_bytes())
    (home / "closed/secret.txt").write_text(SECRET)
    (home / "open/out.pdf").symlink_to("../closed/invoice.pdf")
    (home / "open/way").symlink_to("../closed")
    return home


@pytest.fixture(scope="module")
def house(place, tmp_path_factory):
    tokens = Tokens({"alice": ALICE, "bob": BOB})
    limits = Limits(upload_bytes=300_000, pages=20, pixels=4_000_000)
    with served(tmp_path_factory.mktemp("kept"), tokens=tokens, roots=[place / "open"],
                limits=limits) as found: yield found


def http(url, token=ALICE, **headers):
    return httpx.Client(base_url=url, timeout=60, headers={"Authorization": f"Bearer {token}", **headers})


@pytest.fixture(scope="module")
def alice(house):
    with http(house[1]) as client: yield client


def questions(client, name="invoice.pdf"):
    "Where questions about a document are asked."
    return f"/api/documents/{client.post('/api/documents', json=dict(path=name)).json()['id']}/questions"


# --- names ---

def hostile_names(place):
    "Names of what lies outside, in all the ways that somebody thought of."
    up = ["../closed/invoice.pdf", "deep/../../closed/invoice.pdf", "./../closed/invoice.pdf", "way/invoice.pdf",
          "out.pdf", ".keys/invoice.pdf", str(place / "closed/invoice.pdf"), f"{place}/open/../closed/invoice.pdf",
          f"//{place}/closed/invoice.pdf", f"file://{place}/closed/invoice.pdf", "~/invoice.pdf", "~root/x.pdf",
          "C:\\closed\\invoice.pdf", "c:/closed/invoice.pdf", "\\\\server\\share\\x.pdf", "..\\closed\\invoice.pdf",
          "invoice.pdf\0.png", "in\nvoice.pdf", "\u202einvoice.pdf", "", " ", ".", "..", "/", "//",
          "/etc/passwd", "/dev/zero",
          "/proc/self/environ", "http://127.0.0.1/x.pdf", "data:application/pdf;base64,AAAA", "con:", "x" * 5000,
          "aux.pdf:stream", "invoice.pdf/", "invoice.pdf/..", "deep", "nothing.pdf", "\ud800.pdf"]
    coded = [urllib.parse.quote(name, safe="") for name in up if "\ud800" not in name]
    twice = [urllib.parse.quote(name, safe="") for name in coded]
    slashes = [name.replace("/", other) for name in up[:8]
               for other in ("\\", "%2f", "%252f", "%5c", "\u2215", "\uff0f")]
    dots = [name.replace("..", other) for name in up[:3]
            for other in ("%2e%2e", "%2E.", ".%2e", "%252e%252e", "\uff0e\uff0e", "....//")]
    return [n for n in up + coded + twice + slashes + dots if n not in ("deep", "invoice.pdf/")]


@pytest.mark.slow
def test_nothing_outside_is_opened_whatever_it_is_called(alice, place, house):
    names = hostile_names(place)
    assert len(names) > 150
    for name in names:
        said = alice.post("/api/documents", content=json.dumps({"path": name}),
                          headers={"Content-Type": "application/json"})
        assert 400 <= said.status_code < 500, (name, said.text)
        assert SECRET not in said.text and (str(place) in plain(plain(name)) or str(place) not in said.text), name
    assert {d.name for d in house[0].library.seen_by(caller_of("alice"))} <= {"invoice.pdf", "slides.pdf"}
    for name in ("invoice.pdf", "deep/slides.pdf", str(place / "open/invoice.pdf")):
        assert alice.post("/api/documents", json=dict(path=name)).status_code == 201, name


def test_no_address_leads_to_a_file_and_no_folder_is_listed(alice):
    paths = ["/api/documents/../../closed/secret.txt", "/..%2f..%2fclosed/secret.txt", "/assets/", "/static/",
             "/uploads",
             "/api/documents/%2e%2e/pages/1", "/records.jsonl", "/run.json", "/.lock", "/docs", "/redoc"]
    for path in paths: assert alice.get(path).status_code in (404, 405), path


# --- settings of a method ---

HOSTILE_SETTINGS = [
    (dict(focus="all"), "a field of its own"), (dict(agents=["scanner"]), "a field of its own"),
    (dict(tools=True), "a field of its own"), (dict(type="screen"), "no such setting"),
    (dict(name="x"), "no such setting"), (dict(budget="x"), "no such setting"),
    (dict(plan=True), "no such setting"), (dict(__class__=1), "no such setting"),
    ({"": 1}, "no such setting"), ({"x" * 9000: 1}, "no such setting"), (dict(num_samples=201), "at most 200"),
    (dict(num_samples=10 ** 9), "up to a million"), (dict(num_samples=10 ** 400), "up to a million"),
    (dict(num_samples={"type": "all"}), "short word"), (dict(num_samples=["../../etc/passwd"]), "short word"),
    (dict(num_samples="os:system"), "short word"), (dict(num_samples=["a"] * 17), "short word"),
    (dict(num_samples=[[1]]), "short word"), (dict(num_samples="five"), "valid number"),
    (dict(num_samples=True), "valid number"), (dict(num_samples=0), "greater"), (dict(temperature=-1), "greater"),
    ({f"n{i}": 1 for i in range(17)}, "at most 16"), ([1], "dictionary"), ("num_samples=5", "dictionary")]


@pytest.mark.parametrize("said, why", HOSTILE_SETTINGS)
def test_a_setting_of_a_method_that_cannot_be_is_named(alice, said, why):
    settings = dict(method="self_consistency", set=said)
    answer = alice.post(questions(alice), json=dict(question=QUESTION, settings=settings))
    message = answer.text
    assert answer.status_code in (400, 422) and "set" in message and why in message and len(message) < 900, message
    if isinstance(said, dict) and len(said) == 1 and (name := next(iter(said))) and len(name) < 60:
        assert f"set.{name}: " in message, message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_setting_that_is_no_number_is_refused(alice, number):
    settings = '{"method": "self_consistency", "set": {"num_samples": ' + number + "}}"
    body = '{"question": "What?", "settings": ' + settings + "}"
    answer = alice.post(questions(alice), content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text


def test_a_setting_of_a_method_is_that_of_its_answer(alice):
    settings = dict(method="self_consistency", set=dict(num_samples=2, reasons=False))
    said = alice.post(questions(alice), json=dict(question=QUESTION, settings=settings, wait=50)).json()
    assert said["settings"]["set"] == settings["set"] and said["state"] == "done", said
    record = alice.get(f"/api/episodes/{said['id']}/record").json()
    assert len(record["trace"]["calls"]) == 2 and all(c["params"]["max_new_tokens"] for c in record["trace"]["calls"])
    other = alice.post(questions(alice), json=dict(question=QUESTION, settings=dict(set=dict(num_samples=2))))
    assert other.status_code == 400 and "'auto' has no such setting; it has none" in other.text


# --- uploads ---

def picture(size=(40, 60), form="PNG"):
    out = io.BytesIO()
    Image.new("RGB", size, "white").save(out, form)
    return out.getvalue()


def hostile_uploads():
    "Bytes of many kinds, few of which are documents."
    pdf, png = (samples_dir() / "invoice.pdf").read_bytes(), picture()
    cuts = [data[:n] for data in (pdf, png) for n in (1, 8, 60, len(data) // 2, len(data) - 9)]
    turned = [pdf[:i] + b"\xff\0\xff" + pdf[i + 3:] for i in range(200, len(pdf), max(1, len(pdf) // 12))]
    large = png[:16] + (60_000).to_bytes(4, "big") * 2 + png[24:]
    texts = [b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", b"<html><script>1</script>",
             b"#!/bin/sh\nrm -rf /", b"PK\3\4" + b"\0" * 60, b"GIF89a" + b"\0" * 60, b"%PDF-1.7\n", b"", b"\0" * 1000,
             b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 1 0 R>>endobj", b"BM" + b"\0" * 90, b"RIFF\0\0\0\0WEBP",
             b"II*\0" * 9]
    return [*cuts, *turned, large, picture((3000, 2000)), *texts]


NAMES = ["../../etc/passwd", "..\\..\\x.exe", "/abs/olute.pdf", "C:\\x.pdf", "a\0b", "<script>alert(1)</script>",
         "x" * 290,
         "\u202efdp.exe", "con", "", "'; drop table", "{{7*7}}", "%2e%2e%2f", "\r\nSet-Cookie: a=b", "normal.pdf"]


def test_hostile_uploads_are_documents_or_refused_and_leave_nothing(alice, house):
    folder, uploads = house[0].folder / "uploads", hostile_uploads()
    for i, data in enumerate(uploads):
        name = NAMES[i % len(NAMES)]
        said = alice.post("/api/documents/upload", params=dict(name=name), content=data)
        assert said.status_code in (201, 400, 413, 422), (i, said.text)
        shown = said.json().get("name") or said.json()["error"]["message"]
        assert "\n" not in shown and "\u202e" not in shown and str(folder) not in shown
        if said.status_code == 201:
            assert alice.get(f"/api/documents/{said.json()['id']}/pages/1?side=64").status_code in (200, 422)
            assert alice.delete(f"/api/documents/{said.json()['id']}").status_code == 204
    assert len(uploads) + len(NAMES) > 45
    assert [*folder.iterdir()] == [] and not (folder.parent / "etc").exists()


def test_uploads_are_bounded_in_bytes_pages_and_pixels(alice, house):
    def parts():
        for _ in range(40): yield b"%PDF" + b"\0" * 20_000
    assert alice.post("/api/documents/upload", content=parts()).status_code == 413   # without a length
    assert alice.post("/api/documents/upload", content=b"\0" * 400_000).status_code == 413
    assert alice.post("/api/documents/upload", content=picture((2400, 2400))).status_code in (400, 422)
    frames = io.BytesIO()
    Image.new("L", (30, 40)).save(frames, "TIFF", save_all=True, append_images=[Image.new("L", (30, 40))] * 30)
    many = alice.post("/api/documents/upload", params=dict(name="many.tif"), content=frames.getvalue())
    assert many.status_code == 413 and "31 pages, more than the 20 allowed" in many.text
    assert [*(house[0].folder / "uploads").iterdir()] == []


def test_hostile_text_is_text_everywhere(alice):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    opened = alice.post("/api/documents/upload", params=dict(name=f"{evil}.pdf"),
                        content=(samples_dir() / "invoice.pdf").read_bytes()).json()
    asked = alice.post(f"/api/documents/{opened['id']}/questions",
                       json=dict(question=f"{evil} {QUESTION}", wait=60)).json()
    page = alice.get(f"/api/episodes/{asked['id']}/page")
    assert page.status_code == 200 and "<img src=x" not in page.text and "alert(2)</script>" not in page.text
    record = alice.get(f"/api/episodes/{asked['id']}/record")
    assert record.headers["content-type"] == "application/json"
    assert record.headers["x-content-type-options"] == "nosniff"


# --- who is let in ---

def test_a_request_needs_the_right_host_origin_and_token(house, alice):
    url = house[1]
    own = url.rstrip("/")
    def status(**headers): return httpx.get(f"{url}api",
                                            headers={"Authorization": f"Bearer {ALICE}", **headers}).status_code
    assert status() == status(Origin=own) == status(Host="localhost") == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "10.0.0.1", "localhost.evil",
                 "a" * 300):
        assert status(Host=host) == 403, host
    for origin in ("http://evil.example", "null", "https://127.0.0.1:1", "http://localhost", f"{own}.evil.example",
                   "file://"):
        assert status(Origin=origin) == 403, origin
    assert status(**{"Sec-Fetch-Site": "cross-site"}) == status(**{"Sec-Fetch-Site": "same-site"}) == 403
    for bearer in ("", "Bearer", "Bearer wrong", f"Basic {ALICE}", f"Bearer {ALICE}x", f"Bearer {ALICE[:-1]}",
                   "Bearer \xff"):
        said = httpx.get(f"{url}api", headers=[(b"Authorization", bearer.encode("latin-1"))])
        assert said.status_code == 401 and said.headers["www-authenticate"] == "Bearer", bearer
    twice = httpx.get(f"{url}api", headers=[("Host", own[7:]), ("Authorization", f"Bearer {ALICE}"),
                                            ("Authorization", "Bearer x")])
    assert twice.status_code == 400


def test_no_answer_lets_anything_run_or_others_read_it(alice, house):
    answers = [alice.get(p) for p in ("/", "/api", "/openapi.json", "/nothing", "/api/documents/x")]
    answers += [alice.options("/api"), httpx.get(house[1]), alice.request("TRACE", "/api")]
    for said in answers:
        head = said.headers
        assert not [k for k in head if k.startswith("access-control")], said.url
        policy = head["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert (head["x-content-type-options"], head["referrer-policy"]) == ("nosniff", "no-referrer")
        assert "server" not in head and head["cross-origin-resource-policy"] == "same-origin"
    page = answers[0].text
    assert "<script" not in page and "http://" not in page and "https://" not in page   # nothing of a network


def test_two_users_do_not_see_each_other(house, alice):
    with http(house[1], BOB) as bob:
        opened = alice.post("/api/documents", json=dict(path="invoice.pdf")).json()
        asked = alice.post(f"/api/documents/{opened['id']}/questions", json=dict(question=QUESTION, wait=60)).json()
        assert asked["answer"] == "36,871.72 USD"
        d, e = f"/api/documents/{opened['id']}", f"/api/episodes/{asked['id']}"
        for path in (d, f"{d}/pages/1", f"{d}/pages/1/print", f"{d}/find?q=x", e, f"{e}/events", f"{e}/record",
                     f"{e}/page"):
            assert alice.get(path).status_code == 200 and bob.get(path).status_code == 404, path
        assert bob.post(f"{d}/questions", json=dict(question=QUESTION)).status_code == 404
        assert bob.post(f"{e}/stop").status_code == bob.post(f"{e}/mark", json=dict(right=True)).status_code == 404
        assert bob.delete(d).status_code == 404
        assert bob.get("/api/documents").json() == bob.get("/api/episodes").json() == []
        assert bob.post("/v1/chat/completions", json=dict(model="cosee", messages=[dict(role="user", content=[
            dict(type="file", file=dict(file_id=opened["id"])), dict(type="text", text="?")])])).status_code == 404


def test_a_shared_desk_shows_everything_and_lets_only_owners_remove(tmp_path):
    tokens = Tokens({"alice": ALICE, "bob": BOB})
    with (served(tmp_path / "kept", tokens=tokens, roots=[samples_dir()], shared=True) as (_, url),
          http(url) as alice, http(url, BOB) as bob):
        opened = alice.post("/api/documents", json=dict(path="invoice.pdf")).json()
        assert bob.get(f"/api/documents/{opened['id']}").status_code == 200
        assert bob.delete(f"/api/documents/{opened['id']}").status_code == 403


def test_beyond_this_machine_a_name_must_be_known():
    names = hosts_for("0.0.0.0", ["documents.example.org"])
    assert names.allows("documents.example.org:443") and names.allows("10.1.2.3") and names.allows("[fe80::1]:80")
    assert not names.allows("evil.example") and not names.allows("10.1.2.3.evil.example")


# --- slow and endless requests ---

def raw(url, data, wait=20.):
    "What a server says to bytes, until it ends the connection."
    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/"))), timeout=wait) as s:
        s.sendall(data)
        out = b""
        while part := s.recv(65536): out += part
        return out


def test_slow_and_endless_requests_are_ended(tmp_path):
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {ALICE}\r\n"
    with served(tmp_path / "kept", tokens=Tokens({"alice": ALICE}), between=.2) as (_, url):
        assert raw(url, b"") == b""                                          # says nothing
        assert raw(url, b"GET /api HTTP/1.1\r\nHost: 127") == b""            # a head without an end
        half = f"POST /api/documents/upload HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\nabc".encode()
        assert raw(url, half).startswith(b"HTTP/1.1 408")                    # a body without an end
        chunked = f"POST /api/documents/upload HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        assert raw(url, chunked.encode()).startswith(b"HTTP/1.1 408")
        assert raw(url, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431")
        assert raw(url, b"\x16\x03\x01 no http").startswith(b"HTTP/1.1 400")
        assert httpx.get(f"{url}api", headers={"Authorization": f"Bearer {ALICE}"}).status_code == 200
        assert [*(tmp_path / "kept").glob("uploads/*")] == []


def test_fifty_silent_connections_keep_nobody_out(tmp_path):
    with served(tmp_path / "kept") as (_, url):
        place = ("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/")))
        silent = [socket.create_connection(place) for _ in range(50)]
        assert httpx.get(f"{url}api").status_code == 200
        for s in silent:
            s.settimeout(20)
            assert s.recv(10) == b""   # ended by the server
            s.close()


def test_who_never_reads_keeps_nobody_out(tmp_path):
    with served(tmp_path / "kept", reading=.3) as (_, url):
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1500
        whole = 1500 * len(httpx.get(f"{url}openapi.json").content)   # some 50 MB
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/"))), timeout=30) as idle:
            idle.sendall(asked)
            time.sleep(4)
            for _ in range(5): assert httpx.get(f"{url}api").status_code == 200
            read = 0
            while part := idle.recv(1 << 20): read += len(part)
        assert read < whole   # it was ended before


# --- whose turn it is ---

@pytest.mark.slow
def test_fifty_clients_are_all_answered_in_turn(tmp_path):
    client = Gated(120)
    with served(tmp_path / "kept", client, roots=[samples_dir()]) as (service, url):
        def ask(who):
            with httpx.Client(base_url=url, timeout=110, headers={"X-CoSee-Session": who}) as mine:
                opened = mine.post("/api/documents", json=dict(path="invoice.pdf")).json()
                return mine.post(f"/api/documents/{opened['id']}/questions",
                                 json=dict(question=QUESTION, settings=QUICK)).json()
        greedy = [ask("greedy") for _ in range(12)]
        names = [f"client {i}" for i in range(49)]
        with ThreadPoolExecutor(49) as pool: others = list(pool.map(ask, names))
        client.gate.set()
        with httpx.Client(base_url=url, timeout=110) as mine:
            asked = [(said["id"], who) for who, found in (("greedy", greedy), *zip(names, ([o] for o in others)))
                     for said in found]
            for id, who in asked:
                ended = mine.get(f"/api/episodes/{id}?wait=110", headers={"X-CoSee-Session": who}).json()
                assert ended["state"] == "done"
        found = list(Run(tmp_path / "kept"))
        assert not [r["error"] or r["trace"] for r in found if r["answer"] != "36,871.72 USD"] and len(found) == 61
        assert sorted(r["index"] for r in found) == [*range(61)]   # each has a place of its own
        lines = (tmp_path / "kept/records.jsonl").read_text().splitlines()
        order, mine = [json.loads(line)["sample"] for line in lines], {said["id"] for said in greedy}
        assert sum(id in mine for id in order[:-9]) <= 4   # two ran when the others came; then one in each round
        assert len(service._jobs) == 61 and all(job.live is None for job in service._jobs.values())


def test_a_line_has_an_end(tmp_path):
    client = Gated(120)
    with (served(tmp_path / "kept", client, roots=[samples_dir()], limits=Limits(waiting=3), at_once=1) as (_, url),
          httpx.Client(base_url=url, timeout=60) as mine):
        path = questions(mine)
        asked = [mine.post(path, json=dict(question=QUESTION)) for _ in range(4)]
        assert [a.status_code for a in asked] == [202] * 3 + [429]
        states = {e["state"] for e in mine.get("/api/episodes").json()}
        assert states == {"running", "waiting"}
        client.gate.set()
        assert mine.get(f"/api/episodes/{asked[0].json()['id']}?wait=60").json()["state"] == "done"


def test_an_episode_is_stopped_between_two_calls_and_one_that_waits_at_once(tmp_path):
    client = Gated(120)
    with (served(tmp_path / "kept", client, roots=[samples_dir()], at_once=1) as (_, url),
          httpx.Client(base_url=url, timeout=60) as mine):
        path = questions(mine)
        first, second = (mine.post(path, json=dict(question=QUESTION)).json()["id"] for _ in range(2))
        assert client.asked.wait(60)
        assert mine.post(f"/api/episodes/{second}/stop").json()["state"] == "stopped"
        assert mine.post(f"/api/episodes/{first}/stop").json()["state"] == "running"
        client.gate.set()
        ended = mine.get(f"/api/episodes/{first}?wait=60").json()
        assert (ended["state"], ended["error"]) == ("stopped", "stopped: stopped by hand")
        record = mine.get(f"/api/episodes/{first}/record").json()
        assert len(record["board"]["cells"]) <= 1   # what the first agent wrote, if it came to that, is kept
        on = mine.post(path, json=dict(question=QUESTION, earlier=first, wait=60)).json()
        assert on["state"] == "done" and on["answer"] == "36,871.72 USD"


def test_an_episode_that_waits_about_a_removed_document_can_be_stopped(tmp_path):
    client = Gated(120)
    with (served(tmp_path / "kept", client, roots=[samples_dir()], at_once=1) as (_, url),
          httpx.Client(base_url=url, timeout=60) as mine):
        path = questions(mine)
        first, second = (mine.post(path, json=dict(question=QUESTION)).json()["id"] for _ in range(2))
        assert client.asked.wait(60)
        assert mine.delete(path.rpartition("/")[0]).status_code < 300
        assert mine.post(f"/api/episodes/{second}/stop").json()["state"] == "stopped"
        client.gate.set()
        assert mine.get(f"/api/episodes/{first}?wait=60").json()["state"] in ("done", "failed")


def test_an_episode_ends_when_its_time_is_over(tmp_path):
    with served(tmp_path / "kept", roots=[samples_dir()], limits=Limits(seconds=0)) as (service, _):
        job = ask_and_wait(service, caller_of(), service.library.open_path(caller_of(), "invoice.pdf").id, QUESTION)
        assert service.episode(caller_of(), job.id)["error"] == "stopped: no answer within 0 seconds"
        with pytest.raises(BudgetExceeded): job.check()


def test_who_was_cut_off_goes_on_behind_the_last_event(tmp_path):
    with served(tmp_path / "kept", roots=[samples_dir()]) as (_, url), httpx.Client(base_url=url, timeout=60) as mine:
        opened = mine.post("/api/documents", json=dict(path="invoice.pdf")).json()
        asked = mine.post(f"/api/documents/{opened['id']}/questions", json=dict(question=QUESTION, wait=60)).json()
        def ids(**headers):
            text = mine.get(f"/api/episodes/{asked['id']}/events", headers=headers).text
            return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]
        every = ids()
        assert every == list(range(1, len(every) + 1))
        assert ids(**{"Last-Event-ID": "5"}) == every[5:] and ids(**{"Last-Event-ID": "-1"}) == every


# --- a kill ---

SERVER = """
import sys, threading
from cosee.server.http import create_app, protect
from cosee.server.answering import Clients
from cosee.server.episodes import EpisodeService
from cosee.server.documents import AllowedPaths
from cosee.server.serve import address_of, listening, serve
from cosee.models.client import ask_many
from cosee.models.wrappers import ClientWrapper
from cosee.models.reader_client import OcrClient
class Client(ClientWrapper):
    def _respond_many(self, requests):
        if any('WAIT' in r.question for r in requests):
            print('begun', flush=True)
            threading.Event().wait()
        return ask_many(self.client, requests)
clients = Clients({'ocr': lambda: Client(OcrClient())})
with EpisodeService(sys.argv[1], clients, AllowedPaths([sys.argv[2]]), at_once=10) as service:
    sock = listening()
    print(address_of(sock), flush=True)
    serve(protect(service, create_app(service)), sock)
"""


def test_a_kill_loses_no_answer_and_names_what_was_running(tmp_path):
    kept, env = tmp_path / "kept", {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(kept), str(samples_dir())], stdout=subprocess.PIPE,
                              text=True,
                              env=env)
    url = server.stdout.readline().strip()
    with httpx.Client(base_url=url, timeout=100) as mine:
        path = questions(mine)
        done = [mine.post(path, json=dict(question=QUESTION, settings=QUICK, wait=90)).json() for _ in range(4)]
        cut = [mine.post(path, json=dict(question=f"WAIT {QUESTION}")).json() for _ in range(12)]
        assert [server.stdout.readline().strip() for _ in range(10)] == ["begun"] * 10   # two wait
    server.send_signal(signal.SIGKILL)
    server.wait(20)
    with open(kept / "asked.jsonl", "ab") as f: f.write(b'{"id": "torn')   # a line that was cut
    with EpisodeService(kept, Clients({"ocr": OcrClient}), AllowedPaths([samples_dir()])) as service:
        found = {e["id"]: e for e in service.episodes(caller_of())}
        assert [found[d["id"]]["answer"] for d in done] == ["36,871.72 USD"] * 4
        assert {found[c["id"]]["state"] for c in cut} == {"interrupted"} and len(found) == 16
        assert all("ask again" in found[c["id"]]["error"] for c in cut)
        assert [d.name for d in service.library.seen_by(caller_of())] == ["invoice.pdf"]
        assert ask_and_wait(service, caller_of(), service.library.seen_by(caller_of())[0].id, QUESTION).state == "done"
    status = Run(kept).status()
    assert (sum(s["ok"] for s in status.values()), status.failed) == (5, 12)


def test_one_folder_has_one_writer_and_what_is_kept_is_for_its_owner(tmp_path):
    with EpisodeService(tmp_path / "kept", Clients({"ocr": OcrClient}), AllowedPaths([samples_dir()])) as service:
        service.library.hand_in(caller_of(), "x.pdf", (samples_dir() / "invoice.pdf").read_bytes())
        ask_and_wait(service, caller_of(), service.library.seen_by(caller_of())[0].id, QUESTION)
        service.mark(caller_of(), service.episodes(caller_of())[0]["id"], True)
        code = f"from cosee.server.episodes import EpisodeStore; EpisodeStore({str(tmp_path / 'kept')!r}).__enter__()"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                               env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert "is being written by another process" in other.stderr
    for path in [tmp_path / "kept", *(tmp_path / "kept").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0 or path.name == ".lock", path


@pytest.mark.slow
def test_cosee_view_shows_the_pages_of_what_a_server_was_asked(tmp_path):
    lies = tmp_path / "open/invoice.pdf"
    lies.parent.mkdir()
    lies.write_bytes((samples_dir() / "invoice.pdf").read_bytes())
    with EpisodeService(tmp_path / "kept", Clients({"ocr": OcrClient}), AllowedPaths([lies.parent])) as service:
        handed = service.library.hand_in(caller_of(), "slides.pdf", (samples_dir() / "slides.pdf").read_bytes())
        other = service.library.hand_in(caller_of(), "report.pdf", (samples_dir() / "report.pdf").read_bytes())
        for document in (service.library.open_path(caller_of(), "invoice.pdf"), handed, other):
            ask_and_wait(service, caller_of(), document.id, f"{QUESTION} In {document.name}?", QUICK)
        service.library.remove(caller_of(), other.id)

    def shown(folder, out):
        export_viewer(Viewer([folder]), tmp_path / out, "all")
        pages = [path.read_text() for path in (tmp_path / out / "episodes").iterdir()]
        names = ("invoice.pdf", "slides.pdf", "report.pdf")
        return {name: next(p for p in pages if f"In {name}?" in p) for name in names}
    found = shown((tmp_path / "kept").rename(tmp_path / "elsewhere"), "first")
    pictures = {name: page.count("data:image/") for name, page in found.items()}
    assert pictures["invoice.pdf"] > pictures["report.pdf"] < pictures["slides.pdf"], pictures   # that one was removed
    lies.write_bytes((samples_dir() / "slides.pdf").read_bytes())
    changed = shown(tmp_path / "elsewhere", "second")
    assert changed["invoice.pdf"].count("data:image/") == pictures["report.pdf"]
    assert changed["slides.pdf"].count("data:image/") == pictures["slides.pdf"]


# --- the command ---

def command(*args, **env):
    code = "import sys; from cosee.cli.start import main; sys.exit(main())"
    return subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True,
                            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **env})


@pytest.mark.slow
@pytest.mark.parametrize("args, says", [
    (("serve", "--host", "0.0.0.0"), "others can reach this address"), (("serve", "/no/such/folder"),
                                                                        "no such file or folder"),
    (("serve", "--client", "nobody"), "there is no client 'nobody'"), (("serve", "--tokens", "/no/file"),
                                                                       "cannot be read"),
    (("mcp",), "missing argument 'FOLDER...'; `cosee mcp --help` says"),
    (("mcp", "/no/such/folder"), "no such file or folder"),
    (("serve", "--price", "ocr=much"), "openai=2.5/10"),
    (("serve", "--client", "none", "--price", "openai=2.5/10"), "not offered"),
])
def test_what_cannot_be_served_is_one_line(tmp_path, args, says):
    done = command(*args, *(["--store", str(tmp_path / "kept")] if len(args) > 1 else []))
    out, err = done.communicate(timeout=60)
    assert done.returncode == 2 and says in err and "Traceback" not in err and out == ""


def test_the_server_says_nothing_of_documents_and_ends_on_ctrl_c(tmp_path):
    server = command("serve", str(samples_dir()), "--store", str(tmp_path / "kept"), "--json", COSEE_TOKEN=ALICE)
    url = json.loads(server.stdout.readline())["url"]
    with http(url) as mine:
        opened = mine.post("/api/documents/upload", params=dict(name="Payslip of Bob.pdf"),
                           content=(samples_dir() / "invoice.pdf").read_bytes()).json()
        mine.post(f"/api/documents/{opened['id']}/questions", json=dict(question="What does Bob earn?", wait=60))
        mine.get(f"/api/documents/{opened['id']}/pages/77")
        (tmp_path / "kept/records.jsonl").unlink()   # a failure that nobody thought of
        assert mine.get("/api/episodes").status_code == 200
    assert httpx.get(f"{url}api").status_code == 401
    server.send_signal(signal.SIGINT)
    out, err = server.communicate(timeout=30)
    assert server.returncode == 0 and "Bob" not in out + err and ALICE not in out + err and opened["id"] not in err


# --- OpenAI's own client ---

def test_the_openai_client_streams_an_answer_with_exact_usage_and_evidence(house):
    client = openai.OpenAI(base_url=f"{house[1]}v1", api_key=ALICE, max_retries=0)
    pdf = "data:application/pdf;base64," + base64.b64encode((samples_dir() / "invoice.pdf").read_bytes()).decode()
    messages = [dict(role="user", content=[dict(type="file", file=dict(filename="i.pdf", file_data=pdf)),
                                           dict(type="text", text=QUESTION)])]
    whole = client.chat.completions.create(model="cosee", messages=messages)
    chunks = list(client.chat.completions.create(model="cosee", messages=messages, stream=True,
                                                 stream_options=dict(include_usage=True)))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content == "36,871.72 USD" and chunks[-1].usage == whole.usage
    record = house[0].record(caller_of("alice"), whole.cosee["id"])
    entries = record["trace"]["ledger"]["entries"]
    spent = whole.usage
    assert spent.total_tokens == sum(e["usage"]["total_tokens"] for e in entries)
    assert spent.total_tokens == spent.prompt_tokens + spent.completion_tokens
    assert whole.cosee["page"] == 1 and whole.cosee["evidence"][0]["bbox"]
    with pytest.raises(openai.AuthenticationError): openai.OpenAI(base_url=f"{house[1]}v1", api_key="x",
                                                                  max_retries=0).models.list()
    with pytest.raises(openai.NotFoundError, match="no model"): client.chat.completions.create(model="x",
                                                                                               messages=messages)
    for url in ("http://127.0.0.1:1/x.png", "https://evil.example/x.png", "file:///etc/passwd", "ftp://x/y",
                "/etc/passwd"):
        bad = [dict(role="user", content=[dict(type="image_url", image_url=dict(url=url)),
                                          dict(type="text", text="?")])]
        with pytest.raises(openai.BadRequestError): client.chat.completions.create(model="cosee", messages=bad)


def in_lines(text): return "\r\n".join(text[i:i + 76] for i in range(0, len(text), 76))


@pytest.mark.parametrize("form", [in_lines, str.strip, lambda t: t.rstrip("="), lambda t: f" {t}\n",
                                  lambda t: in_lines(t.translate({43: "-", 47: "_"}).rstrip("="))])
@pytest.mark.parametrize("head", ["data:application/pdf;base64,", ""])
def test_base64_is_read_in_every_form_that_tools_write(house, form, head):
    data = (samples_dir() / "invoice.pdf").read_bytes() + b"%" + b"\xfb\xef\xff" * 9
    data += b"\n" * ((1 - len(data)) % 3)   # so that there is padding
    text = base64.b64encode(data).decode()
    assert text.endswith("=") and {"+", "/"} <= set(text)
    client = openai.OpenAI(base_url=f"{house[1]}v1", api_key=ALICE, max_retries=0)
    messages = [dict(role="user", content=[dict(type="file", file=dict(filename="i.pdf", file_data=head + form(text))),
                                           dict(type="text", text=QUESTION)])]
    found = client.chat.completions.create(model="cosee", messages=messages)
    assert found.choices[0].message.content == "36,871.72 USD"


@pytest.mark.parametrize("text", ["***", "A", "QUJD=QUJD", "QUJ\0D", "QUJDé"])
def test_what_is_no_base64_is_refused_by_its_place(house, text):
    client = openai.OpenAI(base_url=f"{house[1]}v1", api_key=ALICE, max_retries=0)
    bad = [dict(role="user", content=[dict(type="image_url", image_url=dict(url=f"data:image/png;base64,{text}")),
                                      dict(type="text", text="?")])]
    with pytest.raises(openai.BadRequestError, match=r"messages.0.content.0.image_url: the content is no base64"):
        client.chat.completions.create(model="cosee", messages=bad)


def test_a_failed_episode_is_an_error_of_the_stream(tmp_path):
    def broken(): raise ValueError("the model is gone")
    with (EpisodeService(tmp_path / "kept", Clients({"ocr": OcrClient, "broken": broken})) as service,
          running(protect(service, create_app(service, chat))) as url):
        client = openai.OpenAI(base_url=f"{url}v1", api_key="x", max_retries=0)
        png = "data:image/png;base64," + base64.b64encode(picture()).decode()
        messages = [dict(role="user",
                         content=[dict(type="image_url", image_url=dict(url=png)), dict(type="text", text="?")])]
        with pytest.raises(openai.InternalServerError, match="the model is gone"):
            client.chat.completions.create(model="broken", messages=messages)
        with pytest.raises(openai.APIError, match="the model is gone"):
            list(client.chat.completions.create(model="broken", messages=messages, stream=True))


def test_roots_are_told_apart_from_what_is_missing(place):
    with pytest.raises(RequestError) as outside: AllowedPaths([place / "open"]).find(str(place / "closed/none.pdf"))
    with pytest.raises(RequestError) as there: AllowedPaths([place / "open"]).find(str(place / "closed/invoice.pdf"))
    assert str(outside.value).split(": ", 1)[1] == str(there.value).split(": ", 1)[1]
