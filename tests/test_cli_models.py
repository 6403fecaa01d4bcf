"""The command line against models of providers and servers: asked, repeated, replaced, remembered, listed; and no key
shown."""
import json
import random

import pytest
from conftest import ROOT
from cosee.datasets.synthetic.document import make_document, render, scan
from fake_servers import FOUND, FakeServer

KEY = "planted-0123456789-key"


@pytest.fixture
def run(run, server_key):
    "The same, where what is printed may not hold the key."
    def go(*argv):
        code, out, err = run(*argv)
        assert server_key not in out + err
        return code, out, err
    return go


def test_ask_a_server(run, doc):
    with FakeServer("openai", answer=lambda body: FOUND) as server:
        code, out, _ = run("ask", doc, "-q", "What is the total?", "--client", "openai", "--base-url", server.base_url,
                           "--model", "m",
                           "--agents", "detail_reader", "--json")
        assert code == 0 and len(server.requests) == 1 and f"Bearer {KEY}" in server.requests[0]["headers"].values()
    result = json.loads(out)[0]
    assert (result["answer"], result["tokens"]["prompt_tokens"], result["tokens"]["cached_tokens"]) == (
        "1,250.00 EUR", 200, 64)


def test_retry_fallback_and_cache_by_one_flag_each(run, doc, tmp_path):
    with (FakeServer("openai", ["empty"] * 2, lambda body: "prose") as dull,
          FakeServer("openai", answer=lambda body: FOUND) as bright):
        config = tmp_path / "b.yaml"
        config.write_text(json.dumps({"backends": {n: {"kind": "openai", "base_url": s.base_url, "models": {"m": "m"}}
                                                   for n, s in (("dull", dull), ("bright", bright))}}))
        argv = ["ask", doc, "-q", "What is the total?", "--config", str(config), "--client", "dull.m", "--agents",
                "detail_reader",
                "--retry", "3", "--fallback", "bright.m", "--cache", str(tmp_path / "c.sqlite"), "--json"]
        for _ in range(2):
            code, out, _ = run(*argv)
            result = json.loads(out)[0]
            assert code == 0 and result["answer"] == "1,250.00 EUR" and result["tokens"]["calls"] == 4
        assert (len(dull.requests), len(bright.requests)) == (3, 1)


def test_backends_are_listed_without_keys(run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    code, out, _ = run("models", "backends", "--config", str(ROOT / "configs/model_backends.yaml"), "--json")
    rows = {r["id"]: r for r in json.loads(out)}
    assert (code == 0 and rows["openai.gpt-4o"]["key"] == "OPENAI_API_KEY set"
            and rows["google.gemini-2.5-flash"]["key"] == "GOOGLE_API_KEY not set")
    assert len(run("models", "backends")[1].splitlines()) == 3


def test_backends_that_answer(run, tmp_path):
    config = tmp_path / "b.yaml"
    with FakeServer("openai") as server:
        urls = {"up": server.base_url, "down": "http://127.0.0.1:9/v1"}
        config.write_text(json.dumps({"backends": {n: {"kind": "openai", "base_url": u, "models": {"m": "m"}}
                                                   for n, u in urls.items()}}))
        code, out, _ = run("models", "backends", "--config", str(config), "--check", "--json")
    states = {r["id"]: r["state"] for r in json.loads(out)}
    assert code == 0 and states["up.m"] == "answers" and states["down.m"].startswith("ServerError")


@pytest.mark.slow
def test_no_key_in_any_file_of_a_run(run, tmp_path):
    "Good replies, and errors of a gateway that quotes the key."
    config = tmp_path / "run.yaml"
    with FakeServer("openai", ["ok", "echo", "ok", "echo"], answer=lambda body: FOUND) as server:
        config.write_text(json.dumps({
            "name": "keys", "dataset": {"name": "made", "limit": 4,
                                        "options": {"kinds": ["letter"], "per_doc": 4, "dpi": 40}},
            "client": {"type": "backend", "options": {"id": "openai.m", "base_url": server.base_url,
                                                      "cache": str(tmp_path / "c.sqlite")}},
            "methods": ["direct"], "trace": True}))
        code, _, err = run("run", str(config), "--output-dir", str(tmp_path / "runs"))
        assert code in (0, 1), err
        assert len(server.requests) == 4 and KEY in json.dumps(server.requests[1]["headers"])
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert any(b"wrong key in" in p.read_bytes() for p in written) and len(written) > 4
    assert not [p for p in written if KEY.encode() in p.read_bytes()]


# --- the planner's commands ---

PLAN = {"query_type": "IQA", "query_scope": ["the stamp"], "distortion_source": "Explicit",
        "distortions": {"the stamp": ["Blurs"]},
        "reference_mode": "No-Reference", "required_tool": None,
        "plan": {"distortion_detection": False, "distortion_analysis": True, "tool_selection": True,
                 "tool_execution": True}}


def test_plan_for_scripts_and_people(run, doc, tmp_path):
    with FakeServer("openai", ["empty"], answer=lambda body: json.dumps(PLAN)) as server:
        argv = ["plan", doc, "-q", f"Is the stamp blurred? {KEY}", "--client", "openai", "--base-url", server.base_url,
                "--model", "m"]
        code, out, _ = run(*argv, "--json", "--measure", "--log", str(tmp_path / "l.jsonl"))
        result = json.loads(out)
        assert (code == 0 and {k: result[k] for k in PLAN} == PLAN
                and list(result["quality"]["measures"]) == ["sharpness"])
        assert len(server.requests) == 2 and KEY not in (tmp_path / "l.jsonl").read_text()
        code, out, _ = run(*argv, "--reference", doc)
        assert (code == 0 and "reference mode     Full-Reference" in out
                and "steps              distortion analysis, tool selection" in out)


@pytest.mark.parametrize("argv, code, says", [
    (["none.png", "-q", "?"], 2, "none.png: cannot be read"), (["DOC", "-q", " "], 2, "the request is empty"),
    (["DOC", "-q", "?", "--client", "nobody"], 2, "there is no client 'nobody'"),
    (["DOC", "-q", "?"], 2, "OPENAI_API_KEY"),
    (["DOC", "-q", "?", "--client", "openai", "--base-url", "URL", "--model", "m"], 1, "attempt 3")])
def test_plans_that_cannot_be_had(run, doc, monkeypatch, argv, code, says):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeServer("openai", answer=lambda body: "no plan") as server:
        got, out, err = run("plan", *({"DOC": doc, "URL": server.base_url}.get(a, a) for a in argv))
    assert (got, out, err.count("\n")) == (code, "", 1) and says in err


def test_quality_of_a_document(run, tmp_path):
    sample = str(ROOT / "cosee/samples/report.pdf")
    code, out, _ = run("quality", sample, "--pages", "1", "--json")
    row = json.loads(out)[0]
    assert code == 0 and (row["page"], row["file"], row["findings"]) == (1, "report.pdf", [])
    assert "fit to be read" in run("quality", sample, "--pages", "1")[1]
    assert run("quality", str(tmp_path / "none.pdf"))[0] == 2


def test_ask_tells_the_team_of_a_page_that_is_hard_to_read(run, tmp_path):
    page = scan(render(make_document("letter", seed=5), dpi=60, pages=[1])[0], random.Random(1), paper=70)
    page.save(tmp_path / "dark.png")
    with FakeServer("openai", answer=lambda body: FOUND) as server:
        argv = ["ask", str(tmp_path / "dark.png"), "-q", "What?", "--client", "openai", "--base-url", server.base_url,
                "--model", "m",
                "--agents", "detail_reader", "--json", "--quality"]
        code, out, _ = run(*argv)
        assert code == 0 and "page 1 is hard to read: darkness" in json.loads(out)[0]["because"]
        assert "impaired by darkness" in json.dumps(server.requests[0]["body"])
    with FakeServer("openai", [(500, {"Retry-After": "0.01"})] * 99) as server:
        argv[argv.index("--base-url") + 1] = server.base_url
        assert run(*argv)[0] == 1


# --- a model that is tried ---

TRIED = ["4271", "green"]


def tried(body): return json.dumps({"answer": TRIED[0 if "boxes" in json.dumps(body["messages"]) else 1]})


def test_a_model_that_sees_is_tried(run):
    with FakeServer("openai", answer=tried) as server:
        argv = ["models", "try", "openai", "--base-url", server.base_url, "--model", "m"]
        code, out, _ = run(*argv, "--json")
        told = json.loads(out)
        assert code == 0 and len(server.requests) == 2 and "image_url" in json.dumps(server.requests[0]["body"])
        assert json.dumps(server.requests[0]["body"]).count("additionalProperties") == 1   # the schema is asked for
        code, out, _ = run(*argv)
    assert (told["name"], told["client"], told["given"]) == ("openai", "openai", "image")
    found = [(q["answer"], q["right"], q["schema_error"]) for q in told["questions"]]
    assert found == [(t, True, None) for t in TRIED]
    assert told["questions"][1]["cached_tokens"] == 64 and told["seconds_to_open"] >= 0
    assert code == 0 and "given the image of the page" in out and "4271: right; by the schema" in out


def test_a_model_that_takes_no_images_is_given_the_text_of_the_page(run):
    def act(body):
        if "image_url" in json.dumps(body["messages"]): return 400, {}, "This model does not support image inputs."
        assert "4271" in json.dumps(body["messages"])
        return "ok"
    with FakeServer("openai", [act] * 9, answer=lambda body: "It is 4271.") as server:
        code, out, err = run("models", "try", "openai", "--base-url", server.base_url, "--model", "m", "--json")
    told = json.loads(out)
    assert code == 0 and told["given"] == "text" and "takes no images" in err
    assert told["questions"][1]["right"] is False and "no JSON object" in told["questions"][1]["schema_error"]


@pytest.mark.parametrize("argv, code, says", [
    (["nobody"], 2, "there is no model 'nobody'"), (["qwen3-vl-2b"], 2, "get it with: cosee models fetch qwen3-vl-2b"),
    (["none/there.gguf"], 2, "none/there.gguf: no such file"), (["openai"], 2, "needs --model"),
    (["nobody.m"], 2, "write kind.model"), (["a.m", "--config", "none.yaml"], 2, "none.yaml: cannot be read"),
    (["openai", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"], 1, "Connection error")])
def test_a_model_that_cannot_be_tried_is_one_line(run, monkeypatch, tmp_path, argv, code, says):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("COSEE_MODELS", str(tmp_path))
    got, out, err = run("models", "try", *argv)
    assert (got, out, err.count("\n")) == (code, "", 1) and says in err


def test_a_model_that_says_nothing_is_no_success(run):
    with FakeServer("openai", ["empty"] * 9) as server:
        assert run("models", "try", "openai", "--base-url", server.base_url, "--model", "m")[0] == 1


def test_a_backend_and_a_file_are_tried_by_name(run, tmp_path):
    pytest.importorskip("xllamacpp")
    from cosee.models.testing import random_gguf
    llm = random_gguf(tmp_path / "tiny.gguf")
    code, out, _ = run("models", "try", str(llm), "--json")
    told = json.loads(out)
    assert code in (0, 1) and (told["client"], told["given"]) == ("text", "text")
    assert told["questions"][0]["prompt_tokens"] > 20
    config = tmp_path / "b.yaml"
    config.write_text(json.dumps({"backends": {"here": {"kind": "gguf", "models": {"m": {"model_path": str(llm)}}}}}))
    code, out, _ = run("models", "try", "here.m", "--config", str(config), "--json")
    assert json.loads(out)["model"] == "here.m"


def test_the_reader_is_tried_without_any_model(run):
    code, out, _ = run("models", "try", "ocr", "--json")
    assert code == 0 and [q["right"] for q in json.loads(out)["questions"]] == [True, True]
