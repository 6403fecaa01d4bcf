"""What a person sets once: a file of options, a usual model, and what the command says where it cannot go on."""
import json
import re

import pytest
import yaml
from conftest import ROOT
from fake_servers import FOUND, FakeServer

INVOICE, SUBTOTAL = str(ROOT / "cosee/samples/invoice.pdf"), "How much is the subtotal?"


@pytest.fixture
def own(monkeypatch, tmp_path):
    "The user's own file, which is not there yet."
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("COSEE_CLIENT", raising=False)
    return tmp_path / "cosee/config.yaml"


def test_the_help_shows_what_people_use_and_names_the_rest(run):
    code, brief, _ = run("ask", "--help")
    options = re.findall(r"^  (--?[a-z][-a-z]*)", brief, re.M)
    assert code == 0 and 8 < len(options) <= 16 and "--write-config" in options and "--snap" not in brief
    code, whole, _ = run("ask", "--help-all")
    assert code == 0 and len(whole) > 2 * len(brief) and "--snap" in whole


def test_options_of_a_file_hold_and_the_command_line_goes_before_them(run, doc, tmp_path):
    with FakeServer("openai", answer=lambda body: FOUND) as server:
        served = "--client", "openai", "--base-url", server.base_url, "--model", "m"
        file = tmp_path / "ask.yaml"
        code, out, err = run("ask", doc, "-q", "What is the total?", *served, "--method", "team", "--agents",
                             "detail_reader", "--max-steps", "1", "--write-config", str(file), "--json")
        assert code == 0 and len(server.requests) == 1 and str(file) in err
        said = yaml.safe_load(file.read_text())["options"]
        assert said == {"client": "openai", "base-url": server.base_url, "model": "m", "method": "team",
                        "agents": "detail_reader", "max-steps": 1, "json": True}
        code, again, _ = run("ask", doc, "-q", "What is the total?", "--config", str(file), "--quiet")
        assert code == 0 and json.loads(again)[0]["answer"] == json.loads(out)[0]["answer"]
        assert len(server.requests) == 2
        run("ask", doc, "-q", "What is the total?", "--config", str(file), "--agents", "detail_reader,cross_checker",
            "--quiet")
        assert len(server.requests) > 3
        code, _, err = run("ask", doc, "-q", "What?", *served, "--write-config", str(file))
        assert code == 2 and "is there already" in err


def test_the_demo_writes_its_options_too(run, tmp_path):
    file = tmp_path / "demo.yaml"
    code, _, err = run("demo", "invoice", "-q", SUBTOTAL, "--method", "team", "--html", str(tmp_path / "a.html"),
                       "--no-open", "--write-config", str(file))
    assert code == 0 and str(file) in err
    assert yaml.safe_load(file.read_text())["options"]["method"] == "team"


@pytest.mark.parametrize("text, says", [
    ("options: {max-step: 3}", "x.yaml: options: there is no option 'max-step'; did you mean 'max-steps'?"),
    ("options: {max_steps: 0}", "x.yaml: options: max-steps"), ("options: {tools: 3}", "tools: true or false"),
    ("options: {method: luck}", "method: there is no method 'luck'"), ("option: {}", "x.yaml: option is not a field"),
    ("options: {question: a}", "there is no option 'question'")])
def test_an_option_that_cannot_be_is_named_with_its_file(run, doc, tmp_path, text, says):
    (tmp_path / "x.yaml").write_text(text)
    code, out, err = run("ask", doc, "-q", "What?", "--config", str(tmp_path / "x.yaml"), "--client", "a.m")
    assert code == 2 and not out and says in err and err.count("\n") == 1


def test_a_model_that_is_chosen_once_is_asked_from_then_on(run, doc, own):
    with FakeServer("openai", answer=lambda body: FOUND, lists={"/v1/models": dict(data=[dict(id="m")])}) as server:
        code, out, _ = run("models", "use", "m", "--base-url", server.base_url)
        assert code == 0 and str(own) in out and yaml.safe_load(own.read_text())["client"].endswith(".m")
        code, out, err = run("ask", doc, "-q", "What is the total?", "--json")
        assert code == 0 and json.loads(out)[0]["answer"] == "1,250.00 EUR" and server.requests
        code, _, err = run("models", "use", "z", "--base-url", server.base_url)
        assert code == 2 and "has m, not 'z'" in err
        asked = len(server.requests)
        run("models", "use", "none")
        assert run("ask", INVOICE, "-q", SUBTOTAL, "--json")[0] == 0 and len(server.requests) == asked
    assert run("models", "use", "nobody")[0] == 2 and yaml.safe_load(own.read_text())["client"] == "none"


def test_an_address_without_v1_and_a_model_that_is_not_there_are_one_line_with_the_mend(run, doc):
    missing = [(404, {}, "no such thing")]
    with FakeServer("openai", missing * 9, lists={"/v1/models": dict(data=[dict(id="m1"), dict(id="m2")])}) as server:
        ask = "ask", doc, "-q", "What is the total?", "--quiet", "--model", "m", "--base-url"
        code, _, err = run(*ask, server.url)
        assert code == 1 and f"at {server.url}/v1" in err and err.count("\n") == 1
        code, _, err = run(*ask, server.base_url)
        assert code == 1 and "the server has m1, m2; name one of them with --model" in err


def test_who_got_no_answer_is_told_what_would_help(run, doc):
    code, out, _ = run("ask", doc, "-q", "Who painted the ceiling?", "--client", "none", "--json")
    assert code == 3 and "cosee models fetch" in json.loads(out)[0]["hint"]
    code, out, _ = run("ask", doc, "-q", "Who painted the ceiling?", "--client", "none")
    assert "Hint" in out and "cosee models fetch" in " ".join(out.split())
    code, out, _ = run("ask", INVOICE, "-q", SUBTOTAL, "--client", "none", "--json")
    assert code == 0 and "hint" not in json.loads(out)[0]
