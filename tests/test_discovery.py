"The best model at hand is found, said, and asked; nothing else is."
import json
import socket
import threading

import pytest
from fake_servers import FOUND, FakeServer, LocalServer, asked, ollama

from cosee import samples_dir
from cosee.cli.entry import main
from cosee.models.discovery import find_servers

INVOICE = str(samples_dir() / "invoice.pdf")
QUESTION = "What is the total?"
EYES = {"qwen3-vl:4b": (3_300_000_000, ["vision"], 0), "qwen3:8b": (5_200_000_000, ["tools"], 4096)}


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch, tmp_path):
    "As on a machine of somebody who has configured nothing, has fetched nothing and runs no server"
    for name in ("COSEE_CLIENT", "COSEE_BACKENDS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COSEE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def serving(monkeypatch, *servers):
    monkeypatch.setenv("COSEE_SERVERS", ",".join(s if isinstance(s, str) else s.url for s in servers) or "none")


def ask(capsys, *more, code=0):
    "What `cosee ask` writes to standard output as JSON, and to standard error"
    assert main(["ask", INVOICE, "-q", QUESTION, "--method", "team", "--json", *more]) == code
    said = capsys.readouterr()
    return json.loads(said.out)[0] if said.out else None, said.err


def images(server):
    return [b for r in server.requests for m in r["body"]["messages"] if isinstance(m["content"], list)
            for b in m["content"] if b["type"] == "image_url"]


def test_a_server_is_found_and_told(monkeypatch, capsys):
    with FakeServer(answer=lambda body: FOUND, lists=ollama(**EYES)) as server:
        serving(monkeypatch, server)
        result, told = ask(capsys)
        assert result["client"] == result["model"] == "ollama.qwen3-vl:4b" and result["answer"] == "1,250.00 EUR"
        assert images(server) and server.requests[0]["body"]["model"] == "qwen3-vl:4b"
    assert "asking qwen3-vl:4b of Ollama at 127.0.0.1:" in told and "a vision model" in told
    assert "--client none asks no model" in told
    result, told = ask(capsys)   # the server is gone
    assert result["client"] == "ocr" and result["model"] is None and result["answer"]
    assert "no model is at hand" in told and "cosee models" in told


@pytest.mark.parametrize("argv, says", [
    (["ask", "missing.pdf", "-q", "x"], "missing.pdf: no such file"), (["ask", INVOICE, "-q", " "], "--question"),
    (["ask", INVOICE, "-q", "x", "--pages", "9"], "pages 9"),
    (["ask", INVOICE, "-q", "x", "--agents", "nobody"], "nobody"),
    (["extract", "missing.pdf", "--schema", "invoice"], "missing.pdf does not exist"),
    (["extract", INVOICE, "--schema", "nothing"], "--schema: nothing"), (["serve", "missing"], "missing: "),
    (["serve", "--price", "m=1/2"], "'m' is not offered")])
def test_what_is_wrong_is_said_without_a_word_on_models(argv, says, monkeypatch, capsys):
    serving(monkeypatch)
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cosee: ") and says in line


def test_a_text_model_is_given_the_text_of_the_pages(monkeypatch, capsys):
    lists = ollama(**{"qwen3:8b": EYES["qwen3:8b"]})
    with FakeServer(answer=lambda body: json.dumps({"answer": "39,452.74", "line": 1}), lists=lists) as server:
        serving(monkeypatch, server)
        result, told = ask(capsys)
        assert server.requests and not images(server) and "39,452.74" in asked(server.requests[0]["body"])
    assert result["client"] == "ollama.qwen3:8b" and "a text model that is loaded" in told
    assert "OLLAMA_CONTEXT_LENGTH" in told   # 4,096 tokens are two pages


def test_a_vision_model_before_a_text_model_the_loaded_before_the_largest(monkeypatch):
    many = {"big-vl:32b": (20e9, ["vision"], 0), "small-vl:2b": (2e9, ["vision"], 8192), "text:70b": (40e9, [], 8192),
            "mid-vl:8b": (6e9, ["vision"], 0)}
    with FakeServer(lists=ollama(**many)) as server:
        found = [f.backend.model for f in find_servers([server.url], 20)]
    assert found == ["small-vl:2b", "big-vl:32b", "mid-vl:8b", "text:70b"]


def test_a_key_is_mentioned_and_never_used(monkeypatch, capsys):
    with FakeServer() as provider:
        serving(monkeypatch)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-of-somebody")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        result, told = ask(capsys)
        assert not provider.requests
    assert result["client"] == "ocr"
    assert "OPENAI_API_KEY is set: --client openai.gpt-4o sends pages there" in told and "sk-a-key" not in told


def test_what_is_configured_comes_first(monkeypatch, capsys, tmp_path):
    with FakeServer(lists=ollama(**EYES)) as idle, FakeServer(answer=lambda body: FOUND) as mine:
        serving(monkeypatch, idle)
        file = tmp_path / "models.yaml"
        file.write_text(f"client: lab.large\nbackends: {{lab: {{kind: openai, base_url: '{mine.base_url}', "
                        "models: {small: s, large: l}}}")
        result, told = ask(capsys, "--config", str(file))
        assert result["client"] == "lab.large" and f"lab.large, as {file} says" in told
        monkeypatch.setenv("COSEE_CLIENT", "none")
        result, told = ask(capsys, "--config", str(file))
        assert result["client"] == "ocr"
        monkeypatch.setenv("COSEE_CLIENT", "nobody")
        _, told = ask(capsys, code=2)
        assert "nobody, as COSEE_CLIENT says" in told
        monkeypatch.delenv("COSEE_CLIENT")
        assert ask(capsys, "--client", "none")[0]["client"] == "ocr"
        assert not idle.requests


def test_an_address_or_a_name_alone_is_enough(monkeypatch, capsys):
    with FakeServer(answer=lambda body: FOUND, lists=ollama(**EYES)) as server:
        serving(monkeypatch)
        assert ask(capsys, "--base-url", server.base_url)[0]["client"] == "ollama.qwen3-vl:4b"
        assert "no server on this machine has 'qwen3:8b'" in ask(capsys, "--model", "qwen3:8b", code=2)[1]
        serving(monkeypatch, server)
        assert ask(capsys, "--model", "qwen3:8b")[0]["client"] == "ollama.qwen3:8b"
    assert "tells of no model" in ask(capsys, "--base-url", server.base_url, code=2)[1]


def test_a_run_takes_an_address_or_a_name_alone(monkeypatch, capsys, tmp_path):
    def run(*more):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        code = main(["run", "--limit", "1", "--method", "direct", "--output-dir", str(folder), "--quiet", *more])
        return code, capsys.readouterr().err
    with FakeServer(answer=lambda body: "Page: 1\nAnswer: 7", lists=ollama(**EYES)) as server:
        serving(monkeypatch, server)
        assert run("--base-url", server.url)[0] == run("--model", "qwen3-vl:4b")[0] == 0
        assert {r["body"]["model"] for r in server.requests} == {"qwen3-vl:4b"}
        code, told = run("--model", "another")
        assert code == 2 and "--model" in told and "--base-url or --client" in told
    code, told = run("--model", "qwen3-vl:4b", "--base-url", server.base_url)   # it is gone
    assert code == 1 and "1 failed: " in told and server.url in told


def test_the_app_offers_what_was_found(monkeypatch):
    from cosee.cli.server import ServiceOptions, make_clients
    with FakeServer(lists=ollama(**EYES)) as server:
        serving(monkeypatch, server)
        clients = make_clients(ServiceOptions(quiet=True))
        assert clients.names == ["ollama.qwen3-vl:4b", "ollama.qwen3:8b", "ocr"]
        assert clients.get("ollama.qwen3:8b").name == "ollama.qwen3:8b"
        assert "a vision model" in clients.about["ollama.qwen3-vl:4b"] and not clients.advice
        clients = make_clients(ServiceOptions(quiet=True, client="ocr", price="ocr=2/10"), look_around=True)
        assert clients.names == ["ocr", "ollama.qwen3-vl:4b", "ollama.qwen3:8b"]
        assert clients.cost("", dict(prompt_tokens=1000, completion_tokens=100)) == .003
    serving(monkeypatch)
    clients = make_clients(ServiceOptions(quiet=True))
    assert clients.names == ["ocr"] and "cosee models fetch" in clients.advice


def test_extract_asks_it_too(monkeypatch, capsys, tmp_path):
    with FakeServer(answer=lambda body: "{}", lists=ollama(**EYES)) as server:
        serving(monkeypatch, server)
        assert main(["extract", INVOICE, "--schema", "invoice", "--out", str(tmp_path / "o.jsonl")]) in (0, 1)
        assert server.requests and "asking qwen3-vl:4b of Ollama" in capsys.readouterr().err


def test_weights_in_the_cache_of_the_hub_are_found_and_asked(monkeypatch, capsys, tmp_path):
    from cosee.models.qwen_vl_wrapper import tiny_folder
    serving(monkeypatch)
    folder = tmp_path / "hub/models--Org--Small-VL/snapshots/1"
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tiny_folder())
    assert main(["ask", str(samples_dir() / "small.pdf"), "-q", "Find the Ground.", "--dpi", "72", "--json"]) == 0
    said = capsys.readouterr()
    result, = json.loads(said.out)
    assert (result["client"], result["answer"], result["page"]) == ("qwen.Org/Small-VL", "J3191", 1)
    assert "asking Org/Small-VL of weights on this machine, a vision model" in said.err


@pytest.mark.parametrize("lists", [
    {}, {"/v1/models": []}, {"/v1/models": {"data": "qwen3-vl"}}, {"/v1/models": {"data": [7, None, {"id": 3}]}},
    {"/v1/models": {"data": [{"id": "vl\x1b[31m"}, {"id": ""}, {"id": "x" * 10_000}, {"id": "nomic-embed-text"}]}},
])
def test_servers_that_tell_nonsense(lists):
    with FakeServer(lists=lists) as server:
        assert find_servers([server.url], 20) == []


def test_what_never_answers_keeps_nobody_waiting(monkeypatch, capsys):
    "A port that says nothing, one that sends a byte now and then, and one that nobody listens on."
    def drip(server):
        while True:
            try: connection, _ = server.accept()
            except OSError: return
            threading.Thread(target=slowly, args=(connection,), daemon=True).start()

    def slowly(connection):
        try:
            while not over.wait(.05): connection.sendall(b"HTTP/1.1 200 OK\r\n"[:1])
        except OSError: pass

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as slow:
        threading.Thread(target=drip, args=(slow,), daemon=True).start()
        ports = [f"127.0.0.1:{s.getsockname()[1]}" for s in (silent, slow)]
        serving(monkeypatch, *ports, "127.0.0.1:9")
        result, told = ask(capsys)
        over.set()
    assert result["client"] == "ocr" and "no model is at hand" in told


def test_redirects_are_not_followed():
    from http.server import BaseHTTPRequestHandler
    with FakeServer(lists=ollama(**EYES)) as elsewhere:
        class Away(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(302)
                self.send_header("Location", f"{elsewhere.url}{self.path}")
                self.end_headers()

            def log_message(self, *args):
                pass
        with LocalServer(Away) as server:
            assert find_servers([server.url], 5) == []


def test_a_bad_address_is_told(monkeypatch, capsys):
    serving(monkeypatch, "127.0.0.1:port")
    assert "127.0.0.1:port" in ask(capsys, code=2)[1]
