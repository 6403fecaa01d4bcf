"""One transcriber and one visual retriever wherever it is asked for: the same options, the same errors, one model
for many documents, and a bill for what the reading of pages cost."""
import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest
from PIL import Image

import fake_servers as fake
from conftest import ROOT
from cosee.cli import entry, options
from cosee.runs.table import Run

pytestmark = pytest.mark.slow

BILL = """<doctag><title><loc_50><loc_40><loc_250><loc_60>Invoice 2041</title>
<text><loc_50><loc_200><loc_140><loc_210>Total: 43.50</text></doctag>"""
START = "import sys; from cosee.cli.start import main; sys.exit(main())"
QUICK = dict(agents=["detail_reader"], max_steps=1)
COMMANDS = "ask", "extract", "run", "serve", "app", "mcp"
COSTS = "text_tokens", "image_tokens", "completion_tokens"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path, server_key):
    monkeypatch.setenv("COSEE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def sheets(tmp_path):
    "Two pages of noise: what is said of them comes from the model that writes them down."
    folder = tmp_path / "sheets"
    folder.mkdir()
    for i, name in enumerate("ab"): Image.effect_noise((400, 500), 60 + i).save(folder / f"{name}.png")
    return folder


def writer(**kw): return fake.FakeServer("openai", answer=lambda body: BILL, **kw)


def reader_of(server): return "--transcriber-url", server.base_url, "--transcriber-model", "granite-docling-258M"


# --- the same words everywhere ---

READING = {"--text-source", "--transcriber", "--transcriber-path", "--transcriber-model", "--transcriber-url",
           "--transcriber-family", "--page-tokens", "--visual", "--no-cache"}


def options_of(command):
    "Option -> its help and its metavar."
    known = options.parameters(options.options_of(entry.COMMANDS[command].load()))
    return {name: (p.help, p.metavar) for p in known for name in p.names}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_the_same_options(command):
    usual, mine = options_of("ask"), options_of(command)
    assert {k: mine[k] for k in READING} == {k: usual[k] for k in READING}


def argv_of(command, sheets, tmp_path):
    "A command with what it cannot do without."
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"total": {"type": "number"}}}')
    (tmp_path / "q.csv").write_text("file,question,answer\nsheets/a.png,What is the total?,43.50\n")
    store = "--store", tmp_path / "kept"
    return dict(ask=["ask", sheets / "a.png", "-q", "What is the total?"],
                extract=["extract", sheets, "--schema", schema],
                run=["run", "--dataset", "folder", "--root", tmp_path / "q.csv", "--output-dir", tmp_path / "run"],
                serve=["serve", *store], app=["app", *store, "--no-browser"], mcp=["mcp", sheets, *store])[command]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("argv, why", [
    (["--text-source", "model"], "--text-source model needs --transcriber, the client that writes pages down"),
    (["--text-source", "ocr", "--transcriber", "openai"], "--transcriber is for --text-source model or image_and"),
    (["--transcriber", "ocr"], "transcriber: ocr sees no pages: it is given their page text itself"),
    (["--transcriber-path", "/nowhere"], "/nowhere"),
    (["--transcriber-url", "http://127.0.0.1:9/v1", "--transcriber-model", "m", "--transcriber-family", "doclink"],
     "did you mean 'docling'")])
def test_every_command_refuses_a_reader_in_one_line(run, command, argv, why, sheets, tmp_path):
    code, out, err = run(*argv_of(command, sheets, tmp_path), *argv, "--quiet")
    assert code == 2 and not out and why in err and err.count("\n") == 1, err


@pytest.mark.parametrize("command", ["extract", "run", "serve", "app", "mcp"])
def test_every_command_refuses_a_retriever_in_one_line(run, command, sheets, tmp_path):
    code, out, err = run(*argv_of(command, sheets, tmp_path), "--visual", tmp_path / "nothing", "--quiet")
    assert code == 2 and not out and "nothing: no such directory" in err and err.count("\n") == 1, err
    assert not (tmp_path / "run").exists()


# --- a server ---

@contextmanager
def serving(said, command, *argv):
    "A server in a process of its own: its address; what it says is written into a file."
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", START, command, *map(str, argv), "--json"]
    with open(said, "w") as err, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=err, env=env) as server:
        try: yield json.loads(server.stdout.readline())["url"]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def answered(http, document, question="What is the total?"):
    asked = dict(question=question, settings=QUICK, wait=100)
    return http.post(f"/api/documents/{document['id']}/questions", json=asked).json()


def test_a_server_reads_many_documents_by_one_reader_and_tells_what_it_cost(sheets, tmp_path):
    with writer() as server:
        argv = sheets, "--store", tmp_path / "kept", *reader_of(server)
        with serving(tmp_path / "said", "serve", *argv) as url, httpx.Client(base_url=url, timeout=120) as http:
            about = http.get("/api").json()["reading"]
            a, b = (http.post("/api/documents", json=dict(path=f"{n}.png")).json() for n in "ab")
            first, second, again = answered(http, a), answered(http, b), answered(http, a, "What is the number?")
            record = http.get(f"/api/episodes/{first['id']}/record").json()
            lines = http.get(f"/api/documents/{a['id']}/pages/1/print").json()
            parts = [dict(type="file", file=dict(file_id=b["id"])), dict(type="text", text="What is the total?")]
            asked = dict(model="cosee/direct", messages=[dict(role="user", content=parts)])
            chat = http.post("/v1/chat/completions", json=asked).json()
        assert len(server.requests) == 2   # a page each, for questions, page text and all
    assert about == {"text_source": "model", "transcriber": "openai.granite-docling-258M", "visual": ""}
    assert "pages are written down by openai.granite-docling-258M, each once" in (tmp_path / "said").read_text()
    assert first["answer"] == second["answer"] == "43.50" and lines[1]["text"] == "Total: 43.50"
    for told in (first, second):
        assert (told["reading"]["pages"], told["reading"]["kept"]) == (1, 0)
        assert told["reading"]["total_tokens"] == sum(told["reading"][k] for k in COSTS) > 0
    assert record["reading"] == first["reading"]
    assert chat["choices"][0]["message"]["content"] == "43.50" and chat["cosee"]["reading"]["kept"] == 1
    assert (again["reading"]["pages"], again["reading"]["kept"], again["reading"]["total_tokens"]) == (0, 1, 0)
    assert again["reading"]["kept_tokens"] == first["reading"]["total_tokens"]


@pytest.mark.timeout(120)
def test_an_assistant_is_told(sheets, tmp_path):
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import StdioServerParameters, stdio_client
    async def talk(params, errlog):
        async with stdio_client(params, errlog) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            about = json.loads((await session.read_resource("cosee://reading")).contents[0].text)
            asked = dict(document="a.png", question="What is the total?", settings=QUICK)
            return about, (await session.call_tool("ask_document", asked)).structured_content
    with writer() as server:
        argv = [sheets, "--store", tmp_path / "kept", *reader_of(server)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = ["-c", START, "mcp", *map(str, argv)]
        params = StdioServerParameters(command=sys.executable, args=words, env=env)
        with open(os.devnull, "w") as nowhere: about, answer = asyncio.run(talk(params, nowhere))
    assert about["transcriber"] == "openai.granite-docling-258M"
    assert answer["answer"] == "43.50" and answer["reading"]["pages"] == 1


# --- fields and runs ---

def test_fields_are_read_by_it_and_the_bill_counts_in_the_budget(run, sheets, tmp_path):
    with writer() as server:
        argv = [*argv_of("extract", sheets, tmp_path), *reader_of(server), "--out", tmp_path / "out.jsonl"]
        code, _, err = run(*argv)
        assert (code, len(server.requests)) == (0, 2)
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [line["value"]["total"] for line in lines] == [43.5, 43.5]
        assert all(line["reading"]["pages"] == 1 and line["reading"]["total_tokens"] > 0 for line in lines)
        assert "a.png: 1 of 1 value; 1 page written down for" in err
        code, _, err = run(*argv[:-1], tmp_path / "folder", "--total-tokens", 1)   # pages are kept: nothing is spent
        assert "1 page kept from before for none" in err and "not begun" not in err and len(server.requests) == 2
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    with writer() as server:
        argv = [*argv_of("extract", sheets, tmp_path), *reader_of(server), "--out", tmp_path / "third"]
        code, _, err = run(*argv, "--total-tokens", 1)
        assert code == 1 and len(server.requests) == 1 and "1 not begun: the tokens of --total-tokens are used" in err
    report = (tmp_path / "third/report.html").read_text()
    assert "tokens of the model that wrote pages down" in report


def test_a_run_is_resumed_with_its_transcriber_from_a_folder_beside_it(run, sheets, tmp_path):
    pytest.importorskip("torch")
    from cosee.models.testing import random_model
    random_model(tmp_path / "models/granite-docling", "granite_docling")
    rows = "".join(f"sheets/{n}.png,{q},43.50\n" for n in "ab" for q in ("What is the total?", "What is the number?"))
    (tmp_path / "q.csv").write_text("file,question,answer\n" + rows)
    reader = dict(model_path="models/granite-docling", max_tokens=40, side=128, attempts=1)
    config = dict(name="r", dataset=dict(name="folder", root="q.csv"), methods=["direct"],
                  client=dict(type="ocr", options=dict(text_source="model", transcriber=reader)))
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    folder = tmp_path / "run"
    code, out, _ = run("run", tmp_path / "run.yaml", "--output-dir", folder, "--quiet")
    records = list(Run(folder))
    assert code == 0 and len(records) == 4 and "tokens of the transcriber, apart from the methods" in out
    assert [(r["reading"]["pages"], r["reading"]["kept"]) for r in records] == [(1, 0), (0, 1)] * 2
    spent = records[0]["reading"]
    assert spent["completion_tokens"] == 40 and spent["image_tokens"] > 0 and spent["text_tokens"] > 0
    assert records[1]["reading"]["total_tokens"] == 0 and records[1]["reading"]["kept_tokens"] == spent["total_tokens"]
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "records.jsonl").write_bytes(b"".join(lines[:3]))   # as if it had been killed
    assert run("run", folder, "--quiet")[0] == 0
    again = list(Run(folder))
    assert [r["answer"] for r in again] == [r["answer"] for r in records]
    assert (again[3]["reading"]["pages"], again[3]["reading"]["kept"]) == (0, 1)   # kept on disk
    total = sum(r["reading"]["total_tokens"] for r in again)
    status = json.loads(run("report", folder, "--format", "status", "--json")[1])
    assert status["methods"]["direct"]["reading_tokens"] == total > 0
    run("report", folder, "-o", tmp_path / "report.html")
    assert f"A model wrote the pages down for {total:,} tokens in all" in (tmp_path / "report.html").read_text()


# --- found by their looks ---

@pytest.fixture(scope="module")
def retriever(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from cosee.models.testing import random_retriever
    return random_retriever(tmp_path_factory.mktemp("retrievers") / "colpali", "colpali")


def paper(path, pages):
    "A document of noise, each page another."
    first, *rest = (Image.effect_noise((90, 120), 40 + i).convert("L") for i in range(pages))
    first.save(path, save_all=True, append_images=rest)
    return path


def test_a_server_finds_pages_by_their_looks_and_keeps_its_folders_to_itself(retriever, tmp_path):
    paper(tmp_path / "long.tiff", 15)
    argv = tmp_path / "long.tiff", "--store", tmp_path / "kept", "--text-source", "text", "--visual", retriever
    with serving(tmp_path / "said", "serve", *argv) as url, httpx.Client(base_url=url, timeout=120) as http:
        assert http.get("/api").json()["reading"] == {"text_source": "text", "transcriber": "", "visual": "colpali"}
        document = http.post("/api/documents", json=dict(path="long.tiff")).json()
        found = http.get(f"/api/documents/{document['id']}/find", params=dict(q="What is the total?", k=3)).json()
        assert len({hit["score"] for hit in found}) == 3   # there is no page text: all are the same
        best = {hit["page"] for hit in found}
        for more in (QUICK, dict(QUICK, max_tokens=1_000_000), dict(method="direct")):
            asked = dict(question="What is the total?", settings=dict(focus="top", k=3, **more), wait=100)
            told = http.post(f"/api/documents/{document['id']}/questions", json=asked).json()
            record = http.get(f"/api/episodes/{told['id']}/record").json()
            assert told["state"] == "done" and str(retriever) not in json.dumps(record)
            if "method" not in more: assert set(record["shown"]) == best
            else: assert best <= set(record["shown"])   # of its usual four
    assert (tmp_path / "cache/looks").is_dir()


def test_fields_and_runs_find_pages_by_their_looks(run, retriever, tmp_path):
    paper(tmp_path / "long.tiff", 15)
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"total": {"type": "number"}}}')
    argv = "--text-source", "text", "--visual", retriever
    code, out, _ = run("extract", tmp_path / "long.tiff", "--schema", schema, *argv)
    assert code == 0 and 0 < len(json.loads(out)["shown"]) < 15 and (tmp_path / "cache/looks").is_dir()
    (tmp_path / "q.csv").write_text("file,question,answer\nlong.tiff,What is the total?,43.50\n")
    argv = "--dataset", "folder", "--root", tmp_path / "q.csv", *argv, "--quiet"
    code, _, err = run("run", *argv, "--method", "direct,cosee_base", "--output-dir", tmp_path / "run")
    assert code == 0, err
    for record in Run(tmp_path / "run"): assert 0 < len(record["shown"]) < 15
    methods = json.loads((tmp_path / "run/run.json").read_text())["config"]["methods"]
    assert [m["focus"] for m in methods] == [dict(type="auto", visual=dict(folder=str(retriever)))] * 2
    config = dict(methods=[dict(type="direct", focus=dict(type="top", visual="x"))])
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    code, _, err = run("run", tmp_path / "run.yaml", "--output-dir", tmp_path / "no", "--quiet")
    assert code == 2 and "field methods.0.focus.visual: x: no such directory" in err and not (tmp_path / "no").exists()
