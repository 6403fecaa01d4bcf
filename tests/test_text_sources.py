"""Page text and text models from everywhere: the command line, files of backends, runs and Python; what cannot be used
is one clear line before any work."""
import hashlib
import json
import struct
import warnings

import pytest
from PIL import Image

import fake_servers as fake
from conftest import ROOT
from cosee.utils.config import ConfigError
from cosee.policies import make_method
from cosee.budgets import Task
from cosee.models.text_client import MultimodalClient, TextClient
from cosee.models.text_prompts import CHECK_PROMPT
from cosee.models.testing import ScriptedClient, random_gguf
from cosee.models import weights
from cosee.models.client import build_messages
from cosee.models.usage import Ledger
from cosee.models.providers import OpenAIVLMClient
from cosee.models.registry import client_for, create_vlm_client, make_client
from cosee.models.remote import ImagesRefused, RequestError, ServerError
from cosee.models.weights import WEIGHTS, RemoteFile, Weights
from cosee.text.layout import typed_page
from cosee.pages import load_pages
from asking import chat_many
from raw_pdf import Pdf

pytestmark = pytest.mark.slow

INVOICE = str(ROOT / "cosee/samples/invoice.pdf")
PAGES = [Image.new("RGB", (96, 64), "white")]
FOUND = json.dumps({"action": "HYPOTHESIZE", "view": {"line": 50}, "content": "It is printed.", "tags": [],
                    "answer": "36,871.72 USD", "supporting_cells": [], "confidence": 0.95})


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path, server_key):
    monkeypatch.setenv("COSEE_MODELS", str(tmp_path / "models"))


def ask(run, *argv):
    return run("ask", INVOICE, "-q", "What is the subtotal?", "--agents", "detail_reader", "--max-steps", 1, *argv)


def images_in(request): return "image_url" in json.dumps(request["body"]["messages"])


def printed(request): return "36,871.72 USD" in json.dumps(request["body"]["messages"])


class TextServer(fake.FakeServer):
    "Refuses images with a status and words of its own."
    def __init__(self, status=500, words="image input is not supported - hint: you may need to provide the mmproj"):
        super().__init__("openai", answer=lambda body: FOUND)
        self.status, self.words, self.script = status, words, Refusals(self)


class Refusals(list):
    "A script that decides by the request: an error for each image, an answer for each text."
    def __init__(self, server): self.server = server
    def __bool__(self): return True

    def pop(self, _):
        if images_in(self.server.requests[-1]): return "refused"
        return "ok"


@pytest.fixture
def refused(monkeypatch):
    usual = fake.Handler.act

    def act(self, said, body):
        if said != "refused": return usual(self, said, body)
        error = {"error": {"message": self.server.words, "type": "invalid_request_error", "code": self.server.status}}
        return self.send(self.server.status, json.dumps(error).encode())
    monkeypatch.setattr(fake.Handler, "act", act)


# --- a llm behind any server ---

@pytest.mark.parametrize("argv", [["--client", "text"], ["--client", "text", "--llm", "openai"]])
def test_a_text_server_is_the_mind(run, argv):
    with fake.FakeServer("openai", answer=lambda body: FOUND) as server:
        code, out, _ = ask(run, *argv, "--base-url", server.base_url, "--model", "m", "--json")
        assert len(server.requests) == 1 and printed(server.requests[0]) and not images_in(server.requests[0])
    result = json.loads(out)[0]
    assert code == 0 and result["answer"] == "36,871.72 USD" and result["client"] == "text+openai.m"
    x0, y0, x1, y1 = result["evidence"][0]["bbox"]
    assert .77 < x0 < x1 < .90 and .53 < y0 < y1 < .56


def backends(tmp_path, **entries):
    (tmp_path / "b.yaml").write_text(json.dumps({"backends": entries}))
    return tmp_path / "b.yaml"


def test_a_mind_by_the_id_of_its_backend(run, tmp_path):
    with fake.FakeServer("openai", answer=lambda body: FOUND) as server:
        file = backends(tmp_path, here={"kind": "openai", "base_url": server.base_url, "models": {"m": "m"}})
        code, out, _ = ask(run, "--client", "text", "--llm", "here.m", "--config", file, "--json")
        assert code == 0 and not images_in(server.requests[0])
    assert json.loads(out)[0]["client"] == "text+here.m"


def test_a_file_in_the_file_of_backends(run, tmp_path):
    pytest.importorskip("xllamacpp")
    llm = random_gguf(tmp_path / "tiny.gguf")
    file = backends(tmp_path, here={"kind": "gguf", "page_tokens": 300, "models": {"m": {"model_path": str(llm)}}})
    client = create_vlm_client("here.m", file)
    assert isinstance(client, TextClient) and (client.name, client.page_tokens) == ("here.m", 300)
    code, out, _ = run("models", "backends", "--config", file, "--check", "--json")
    assert code == 0 and json.loads(out)[0] == {"id": "here.m", "kind": "gguf", "model": str(llm), "address": "",
                                                "key": "none", "state": "answers"}
    llm.write_bytes(llm.read_bytes()[:900])
    assert "cut off or damaged" in run("models", "backends", "--config", file, "--check")[1]
    with pytest.raises(ValueError, match="nowhere"): create_vlm_client("gguf.nowhere")
    with pytest.raises(ValueError, match="qwen3-0.6b: is not on this machine; get it with: cosee models fetch"):
        create_vlm_client("gguf.qwen3-0.6b")


def test_a_run_on_a_file(run, tmp_path):
    pytest.importorskip("xllamacpp")
    llm = random_gguf(tmp_path / "tiny.gguf")
    config = {"name": "text_models", "dataset": {"name": "made", "limit": 2,
                                           "options": {"kinds": ["letter"], "per_doc": 2, "dpi": 40}},
              "methods": ["direct", {"type": "single_board", "max_steps": 1}], "gen": {"max_new_tokens": 60}}
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    code, _, err = run("run", tmp_path / "run.yaml", "--output-dir", tmp_path / "run", "--model-path", llm,
                       "--text-source", "text", "--page-tokens", 200, "--quiet")
    assert code == 0, err
    about = json.loads((tmp_path / "run/run.json").read_text())
    assert about["config"]["client"] == {"type": "text", "options": {"model_path": str(llm), "text_source": "text",
                                                                      "page_tokens": 200}}


def test_a_model_is_asked_about_its_answers_in_a_run_and_the_study_counts_two_calls(run, tmp_path):
    pytest.importorskip("xllamacpp")
    llm = random_gguf(tmp_path / "tiny.gguf")
    code, _, err = run("run", "--limit", 4, "--method", "direct,self_check,rules_first,rules_first_self_check",
                       "--client", "text", "--model-path", llm, "--text-source", "text", "--page-tokens", 200,
                       "--output-dir", tmp_path / "run",
                       "--quiet")
    assert code == 0, err
    told = [json.loads(line) for line in (tmp_path / "run/records.jsonl").read_text().splitlines()]
    asked = [r for r in told if r["method"] == "self_check" and r["usage"]["calls"] == 2]
    assert asked and all(r["trace"]["events"][0]["calls"][1]["prompt"][-1] == CHECK_PROMPT for r in asked)
    code, out, err = run("report", tmp_path / "run", "--json", "--resamples", 100, "--quiet")
    assert code == 0, err
    groups = {(row[1], row[2]) for row in json.loads(out)["tables"]["accuracy_cost"]["rows"]}
    assert groups == {("direct", "1 call"), ("self_check", "2 calls"), ("rules_first", "1 call"),
                      ("rules_first_self_check", "2 calls")}


def test_weights_say_which_client_is_meant(run, tmp_path):
    assert [client_for(w) for w in ("x/y.gguf", "qwen3-0.6b", "qwen3-vl-2b", tmp_path)] == [
        "text", "text", "qwen", "qwen"]
    code, _, err = ask(run, "--model-path", "qwen3-0.6b", "--quiet")
    assert code == 2 and "get it with: cosee models fetch qwen3-0.6b" in err


# --- one call first ---

def first_call(body): return "You are the" not in json.dumps(body["messages"][-1])


def says(first, team=FOUND):
    "What a server answers to a plain question, and to the turns of a team."
    return lambda body: first if first_call(body) else team


def asked_plainly(run, first, *argv, question="Which subtotal does the firm charge?"):
    """Result, calls (True: plain ones) and progress of a question to a model that reads text, with the usual team.
    The rule-based reader knows the answer, and is not sure enough to give it alone."""
    with fake.FakeServer("openai", answer=says(first)) as server:
        code, out, err = run("ask", INVOICE, "-q", question, "--client", "text", "--base-url",
                             server.base_url, "--model", "m", "--max-steps", 1, "--json", *argv)
        result = json.loads(out)[0]
        assert code == 3 if result["answer"] is None else code in (0, 1), err
        return result, [first_call(r["body"]) for r in server.requests], err


def test_one_call_is_enough_where_the_page_says_so(run):
    result, calls, err = asked_plainly(run, "Page: 1\nAnswer: 36,871.72 USD")
    assert result["answer"] == "36,871.72 USD" and calls == [True]
    assert result["stopped"] == "one call" and result["evidence"][0]["printed"]
    assert result["tokens"]["calls"] == 1 and "not enough" not in err


@pytest.mark.parametrize("first, why", [("Answer: not answerable", "it found no answer"),
                                        ("Page: 1\nAnswer: 99.10 USD", "it is not printed on page 1")])
def test_a_team_is_asked_where_one_call_is_in_doubt(run, first, why):
    result, calls, err = asked_plainly(run, first, "--method", "escalate")
    assert result["answer"] == "36,871.72 USD" and calls[0] and not any(calls[1:]) and len(calls) > 1
    assert result["tokens"]["calls"] == len(calls) and f"one call is not enough: {why}" in err


@pytest.mark.parametrize("first, why", [("Answer: not answerable", "The pages that were shown do not say"),
                                        ("Answer: 99.10 USD", "Withheld: it is printed on no page"),
                                        ("Page: 1\nAnswer: 99.10 USD", "Withheld: it is not printed on page 1"),
                                        ("Page: 1\nConfidence: 0.4\nAnswer: 2,581.02 USD",
                                         "Withheld: its confidence of 1% is below 20%")])
def test_what_no_page_says_is_not_given(run, first, why):
    result, calls, err = asked_plainly(run, first)
    assert result["answer"] is None and calls == [True] and "not enough" not in err
    assert why in result["reason"]


@pytest.mark.parametrize("said, given", [("right", "36,871.72 USD"), ("missing", None)])
def test_a_model_is_asked_about_its_answer(run, said, given):
    def answers(body):
        last = body["messages"][-1]
        return said if last["role"] == "user" and CHECK_PROMPT in str(last) \
            else "Page: 1\nConfidence: 0.7\nAnswer: 36,871.72 USD"
    with fake.FakeServer("openai", answer=answers) as server:
        code, out, err = run("ask", INVOICE, "-q", "What is the subtotal?", "--client", "text", "--base-url",
                             server.base_url, "--model", "m", "--method", "self_check", "--json")
        result, bodies = json.loads(out)[0], [r["body"]["messages"] for r in server.requests]
    assert result["answer"] == given and code == (0 if given else 3), err
    assert [len(b) - len(bodies[0]) for b in bodies] == [0, 2] and bodies[1][-2]["role"] == "assistant"


@pytest.mark.parametrize("method", ["auto", "rules_first_self_check"])
def test_nobody_is_asked_where_the_rules_are_sure(run, tmp_path, method):
    result, calls, err = asked_plainly(run, "Page: 1\nAnswer: 99.10 USD", "--method", method, "--html",
                                       tmp_path / "a.html", question="What is the subtotal?")
    assert (result["answer"], calls, result["tokens"]["calls"]) == ("36,871.72 USD", [], 0), err
    assert result["evidence"][0]["printed"] and "the rule-based reader was sure" in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize("method, stated, said, given, asked", [
    ("rules_first", .3, None, True, 1), ("rules_first_self_check", .3, "right", True, 2),
    ("rules_first_self_check", .3, "missing", False, 2)])
def test_an_answer_counts_for_more_where_the_rules_agree(run, method, stated, said, given, asked):
    def answers(body): return said if CHECK_PROMPT in str(body["messages"][-1]) \
        else f"Page: 1\nConfidence: {stated}\nAnswer: 36,871.72 USD"
    with fake.FakeServer("openai", answer=answers) as server:
        code, out, err = run("ask", INVOICE, "-q", "Which subtotal does the firm charge?", "--client", "text",
                             "--base-url", server.base_url, "--model", "m", "--method", method, "--json")
        result, calls = json.loads(out)[0], len(server.requests)
    assert (result["answer"] is not None, calls) == (given, asked) and code == (0 if given else 3), err


@pytest.mark.parametrize("sure, given", [(.95, True), (.2, False)])
def test_how_probable_a_server_holds_its_words_is_how_sure_an_answer_is(run, sure, given):
    def says(body):
        assert body["logprobs"] and body["top_logprobs"] == 10
        return fake.openai(json.dumps({"answer": "2,581.02 USD"}), **fake.spelled('{"answer": "2,581.02 USD"}', sure))
    with fake.FakeServer("openai", script=[says]) as server:
        _, out, err = run("ask", INVOICE, "-q", "Which subtotal does the firm charge?", "--client", "text",
                          "--base-url", server.base_url, "--model", "m", "--json")
    result = json.loads(out)[0]
    assert (result["answer"] is not None, result["stopped"]) == (given, "one call" if given else "withheld"), err


def test_a_server_that_refuses_to_tell_probabilities_is_asked_without(run):
    def refuses(body):
        asked = "logprobs" in body
        return (400, {}, "logprobs are not supported with reasoning models") if asked else fake.openai(
            "Page: 1\nAnswer: 36,871.72 USD")
    with fake.FakeServer("openai", script=[refuses] * 9) as server:
        _, out, err = run("ask", INVOICE, "-q", "Which subtotal does the firm charge?", "-q",
                          "Which subtotal is charged by the firm?", "--client", "text", "--base-url", server.base_url,
                          "--model", "m", "--json")
        asked = ["logprobs" in r["body"] for r in server.requests]
    assert [bool(r["answer"]) for r in json.loads(out)][0] and asked == [True, False, False], (out, err)


def test_an_answer_in_doubt_can_be_read_on_the_page_of_the_episode(run, tmp_path):
    asked_plainly(run, "Page: 1\nAnswer: 99.10 USD", "--html", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    for words in ("99.10 USD", "Withheld; the guess is", "Withheld: it is not printed on page 1"): assert words in page


@pytest.mark.parametrize("argv", [["--method", "team"], ["--order", "parallel"], ["--agents", "detail_reader"]])
def test_who_shapes_the_team_gets_it_at_once(run, argv):
    _, calls, _ = asked_plainly(run, "Page: 1\nAnswer: 36,871.72 USD", *argv)
    assert not any(calls)


def test_the_page_of_an_episode_of_one_call(run, tmp_path):
    asked_plainly(run, "Page: 1\nAnswer: 36,871.72 USD", "--html", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "one call was enough" in page and "36,871.72 USD" in page


@pytest.mark.parametrize("argv, words", [(["--method", "escalate", "--plan"], "--plan"),
                                         (["--method", "direct", "--quality"], "--quality")])
def test_a_first_call_and_a_plan_exclude_each_other(run, argv, words):
    code, _, err = run("ask", INVOICE, "-q", "What?", *argv)
    assert code == 2 and words in err and "--method" in err


# --- page text beside pictures, and instead of them ---

def test_print_beside_the_image(run):
    said = json.dumps(dict(json.loads(FOUND), view={"page": 1, "bbox_2d": [700, 500, 900, 560]}))
    with fake.FakeServer("openai", answer=lambda body: said) as server:
        code, out, _ = ask(run, "--client", "openai", "--base-url", server.base_url, "--model", "m", "--text-source",
                           "image_and_text", "--json")
        assert code == 0 and images_in(server.requests[0]) and printed(server.requests[0])
    place = json.loads(out)[0]["evidence"][0]
    assert place["own_bbox"] == [.7, .5, .9, .56]
    assert (place["found"], place["printed"]) == ("letters", "36,871.72 USD")


REFUSALS = [(500, "image input is not supported - hint: you may need to provide the mmproj"),
            (400, "Invalid content type. image_url is only supported by certain models."),
            (400, "This model does not support image inputs."), (400, "m is not a multimodal model"),
            (400, "At most 0 image(s) may be provided in one prompt."),
            (404, "No endpoints found that support image input"),
            (422, "messages[0]: unknown variant `image_url`, expected `text`"),
            (400, "Image input is not enabled for this model"),
            (400, "'messages.0' : for 'role:user' the message content must be a string")]


@pytest.mark.parametrize("status, words", REFUSALS)
def test_a_model_without_eyes_is_given_print_and_it_is_said_once(run, refused, status, words):
    with TextServer(status, words) as server:
        argv = ("--client", "openai", "--base-url", server.base_url, "--model", "m", "--json")
        code, out, err = run("ask", INVOICE, "-q", "What is the subtotal?", "-q", "How much is it before tax?", *argv,
                             "--agents", "detail_reader", "--max-steps", 1)
        tried = [images_in(r) for r in server.requests]
    assert code == 0 and [r["answer"] for r in json.loads(out)] == ["36,871.72 USD"] * 2
    assert tried == [True] * (1 if status < 500 else 3) + [False] * 2
    said = "takes no images: it is given the text of the pages instead"
    assert err.count(said) == 1 and "Warning" not in err


@pytest.mark.parametrize("status, words, error", [
    (400, "The image is too large: 9000 x 9000 pixels", RequestError),
    (400, "Could not decode the image", RequestError),
    (500, "out of memory while encoding an image", ServerError), (400, "unknown field image_detail", RequestError)])
def test_other_trouble_with_images_is_no_refusal(refused, status, words, error):
    with TextServer(status, words) as server:
        client = create_vlm_client("openai.m", base_url=server.base_url, max_retries=0)
        with pytest.raises(error) as e: client.chat(build_messages(PAGES, "What?"))
        assert not isinstance(e.value, ImagesRefused) and len(server.requests) == 1


def test_a_backend_says_that_its_model_takes_no_images(run, tmp_path, refused):
    with TextServer() as server:
        fields = {"kind": "openai", "base_url": server.base_url, "max_retries": 0}
        file = backends(tmp_path, text={**fields, "images": False, "models": {"m": "m"}},
                        sure={**fields, "images": True, "models": {"m": "m"}})
        code, out, err = ask(run, "--client", "text.m", "--config", file, "--json")
        assert code == 0 and not any(map(images_in, server.requests)) and "takes no images" not in err
        assert json.loads(out)[0]["answer"] == "36,871.72 USD"
        code, _, err = ask(run, "--client", "sure.m", "--config", file, "--quiet")
    assert code == 1 and "image input is not supported" in err


def test_print_is_not_told_twice_where_images_are_refused_beside_it(refused):
    with TextServer(400, REFUSALS[1][1]) as server, warnings.catch_warnings(record=True):
        client = create_vlm_client("openai.m", base_url=server.base_url, text_source="image_and_text")
        for _ in range(2): client.chat(build_messages(list(load_pages(INVOICE)), "What?"))
        texts = [json.dumps(r["body"]["messages"]) for r in server.requests]
    assert [images_in(r) for r in server.requests] == [True, False, False]
    assert [t.count("36,871.72 USD") for t in texts] == [1, 1, 1]


def test_one_refusal_of_a_batch_leaves_the_others(refused):
    with TextServer(400, REFUSALS[2][1]) as server, warnings.catch_warnings(record=True):
        client = create_vlm_client("openai.m", base_url=server.base_url, text_source="auto")
        text = [{"role": "user", "content": "What?"}]
        replies = chat_many(client, [text, build_messages(PAGES, "What?"), text], errors="return")
    assert [str(r) for r in replies[::2]] == [FOUND] * 2 and "36,871.72 USD" in str(replies[1])
    assert [r.model for r in replies] == ["openai.m", "text+openai.m", "openai.m"]


def test_beside_by_name_and_what_cannot_stand_beside():
    client = make_client("scripted", replies=["1"], text_source="image_and_text", page_tokens=64)
    assert isinstance(client, MultimodalClient) and client.now.page_tokens == 64 and client.now.keep_images
    assert isinstance(make_client("scripted", replies=["1"], text_source="auto"), ScriptedClient)
    both = make_client("text", llm="scripted", replies=["1"], text_source="image_and_text")
    assert isinstance(both.llm, ScriptedClient)
    assert isinstance(make_client("text", model="m", base_url="http://127.0.0.1:9/v1").llm, OpenAIVLMClient)
    with pytest.raises(ValueError, match="text_source"): make_client("ocr", text_source="image_and_text")


# --- weights that are there ---

@pytest.fixture
def known(monkeypatch, tmp_path):
    "A set of weights in the table that is a random model; its file is put where weights lie."
    data = random_gguf(tmp_path / "made.gguf").read_bytes()
    file = RemoteFile("small.gguf", len(data), hashlib.sha256(data).hexdigest())
    monkeypatch.setitem(WEIGHTS, "small-llm", Weights("a/b", "main", "none", "text", (file,)))
    folder = tmp_path / "models/small-llm"
    folder.mkdir(parents=True)
    (folder / "small.gguf").write_bytes(data)
    return folder / "small.gguf"


def test_weights_that_are_there_are_found_and_asked(run, known, doc, monkeypatch):
    from cosee.models.discovery import choose_model
    monkeypatch.delenv("COSEE_CLIENT")
    with monkeypatch.context() as m:
        m.setattr(weights, "file_hash", lambda path: pytest.fail("hashed"))
        assert choose_model().client == "gguf.small-llm"
    _, _, err = run("ask", doc, "-q", "What?", "-q", "Who?", "--max-steps", "1")
    assert err.count("asking small-llm of weights on this machine, a text model") == 1
    known.unlink()
    assert "no model is at hand" in run("ask", doc, "-q", "What?")[2]


# --- bad input ---

def one_line(run, path, *more):
    code, out, err = ask(run, "--client", "text", "--model-path", path, "--quiet", *more)
    assert code == 2 and not out and err.count("\n") == 1, err
    return err


def test_files_that_are_no_mind_are_one_line_before_any_work(run, tmp_path, known, monkeypatch):
    monkeypatch.setattr("cosee.text.ocr.TextExtractor.read", lambda *a, **k: pytest.fail("a page was read"))
    data = known.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(data[:-5000])
    assert "cut.gguf is cut off or damaged" in one_line(run, tmp_path / "cut.gguf")
    folder = tmp_path / "Qwen"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    assert "is a directory without a .gguf file: safetensors are for --client qwen" in one_line(run, folder)
    assert "is no GGUF file: safetensors are for" in one_line(run, folder / "model.safetensors")
    (folder / "b.gguf").write_bytes(data)
    assert "is a directory; name the .gguf file in it, such as b.gguf" in one_line(run, folder)
    assert "there is no file" in one_line(run, tmp_path / "none.gguf")
    (tmp_path / "zip.gguf").write_bytes(b"PK\x03\x04" + bytes(99))
    assert "is not a GGUF file" in one_line(run, tmp_path / "zip.gguf")
    assert "no chat template" in one_line(run, random_gguf(tmp_path / "base.gguf", template=""))


def test_a_wrong_checksum_is_told_by_name_and_by_path(run, known, tmp_path):
    data = bytearray(known.read_bytes())
    data[-7] ^= 1
    known.write_bytes(data)
    assert "small-llm: " in (said := one_line(run, "small-llm")) and "is damaged, or another file" in said
    assert "its sha256 is another; fetch it again, or rename it" in one_line(run, known)


def test_a_context_that_is_too_short(run, tmp_path):
    pytest.importorskip("xllamacpp")
    small = random_gguf(tmp_path / "short.gguf", context=1024)
    assert "a context of 1,024 tokens is too short" in one_line(run, small)
    file = backends(tmp_path, here={"kind": "gguf", "context": 500, "models": {"m": {
        "model_path": str(random_gguf(tmp_path / "tiny.gguf"))}}})
    with pytest.raises(ConfigError, match="a context of 500 tokens is too short"): create_vlm_client("here.m", file)


def full_page(path, words, said):
    "A PDF of one page that says so many words."
    rows = [" ".join(said for _ in range(60)) for _ in range(-(-words // 60))]
    text = "BT /F 8 Tf 20 4960 Td 9.5 TL " + " ".join(f"({row}) Tj T*" for row in rows) + " ET"
    return Pdf().page(text, size=(1800, 5000)).save(path)


@pytest.mark.parametrize("words, said, shown", [(29_000, "w", "more lines of this page are left out"),
                                                (30_000, "word", "no print on this page")])
def test_a_page_of_thirty_thousand_words_is_cut_to_its_budget(run, tmp_path, words, said, shown):
    file = full_page(tmp_path / "dense.pdf", words, said)
    reply = json.dumps(dict(json.loads(FOUND), view={"line": 1}))
    with fake.FakeServer("openai", answer=lambda body: reply) as server:
        code, _, err = run("ask", file, "-q", "What?", "--client", "text", "--base-url", server.base_url, "--model",
                           "m", "--agents", "detail_reader", "--max-steps", 1, "--text-source", "text",
                           "--page-tokens", 400)
        sent = json.dumps(server.requests[0]["body"]["messages"])
    assert code == 0 and shown in sent and len(sent) < 8000, err


# --- budgets ---

REPORT = "\n".join(f"Item {i}: the quantity is {i * 7} and the price {i * 11}.00 EUR" for i in range(200))


class Typed:
    "A reader of pages that gives all of them the same text, and counts how often it is asked."
    text_source = "text"
    page, sizes = typed_page(REPORT), []

    def read(self, items, text_source=None):
        self.sizes += [im.size for im in items]
        return [self.page] * len(items)


def counted(words, **options):
    "A language model that says one thing, behind page text."
    return TextClient(ScriptedClient(["Answer: 7"], cycle=True), words=words, **options)


@pytest.mark.parametrize("method", ["direct", {"type": "cosee", "agents": ["detail_reader"], "max_steps": 1}])
def test_a_budget_takes_print_away_and_no_pixels(method):
    page, words = Image.new("RGB", (1240, 1754), "white"), Typed()
    sample, spent = {"images": [page], "question": "What is the price of item 3?"}, {}
    for budget in (None, 1600, 900):
        client, ledger = counted(words), Ledger(budget)
        outcome = make_method(method).run(sample, client, ledger)
        spent[budget] = ledger.spent, outcome["page_tokens"]
        assert client.page_tokens == 1500 and (budget is None or ledger.spent <= budget)
    assert [tokens for _, tokens in spent.values()] == sorted((t for _, t in spent.values()), reverse=True)
    assert spent[None][1] == 1500 > spent[900][1] >= 100 and {*words.sizes} == {page.size}


def test_beside_images_print_is_taken_away_first():
    page = Image.new("RGB", (1240, 1754), "white")
    both = MultimodalClient(ScriptedClient([]), keep_images=True, words=Typed())
    task = Task([page], "What is the price?", both, Ledger(3200))
    assert task.fit([("Answer.", 64)]) and task.client.page_tokens < 1500 and task.images == [page]
    task = Task([page], "What is the price?", both, Ledger(1200))
    assert task.fit([("Answer.", 64)]) and task.client.page_tokens == 100 and task.images[0].width < 1240
    assert task.price("Answer.") <= 1200


def test_the_command_and_the_server_take_every_method_and_the_app_offers_some_of_them():
    from cosee.app.server import offered_methods
    from cosee.cli.ask import TeamOptions
    from cosee.policies import METHODS
    from cosee.qa import method_names
    offered = {m.name: m.about for m in offered_methods()}
    assert method_names() == [m for m in METHODS if m != "screen"]
    assert [TeamOptions(method=m).method for m in method_names()] == method_names()
    assert {*offered} <= {*method_names()} and all(offered.values())
