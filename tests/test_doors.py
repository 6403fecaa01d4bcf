"""One question, one answer: the same from Python, a shell and a server, for each way of reading."""
import json

import pytest
from asking import ask_and_wait
from fake_servers import FakeServer
from reportlab.pdfgen.canvas import Canvas

import cosee
from cosee.models.backends import Backend
from cosee.models.providers import OpenAIVLMClient
from cosee.models.remote import VLMClientError
from cosee.models.registry import make_client
from cosee.chat import Chat
from cosee.controller import Episode
from cosee.pagewise import PageByPage
from cosee.policies import Single, Team, Vote
from cosee.server.answering import Clients
from cosee.server.documents import AllowedPaths, Limits, caller_of
from cosee.server.episodes import EpisodeService

TOTALS = dict(alpha_march="1,000.00 EUR", beta_april="2,000.00 EUR", gamma_may="3,000.00 EUR")
QUESTIONS = ("What is the total in beta_april?", "What is the total in gamma_may?", "Who audited alpha_march?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "Three invoices of one page, in a folder."
    place = tmp_path_factory.mktemp("invoices").resolve()
    for name, total in TOTALS.items():
        page = Canvas(str(place / f"{name}.pdf"))
        for x, y, text in ((72, 700, "Invoice"), (72, 650, "Total"), (200, 650, total)): page.drawString(x, y, text)
        page.save()
    return place


def see(body):
    "A model that sees, and says the total of the file that the question names, whatever is asked."
    said = json.dumps(body)
    return next((f"Answer: {TOTALS[name]}" for name in TOTALS if name in said), "Answer: not answerable")


def served_model(url):
    "A client of a model behind an address."
    return OpenAIVLMClient(Backend(kind="openai", model="m", base_url=url, max_retries=0), "key")


def by_server(tmp_path, folder, question, method, maker):
    "What an episode of a server says."
    with EpisodeService(tmp_path / "kept", Clients(dict(m=maker)), AllowedPaths([folder]), Limits(), 1) as service:
        caller = caller_of(None)
        document = service.library.open_path(caller, str(folder))
        job = ask_and_wait(service, caller, document.id, question, dict(method=method))
        return service.episode(caller, job.id)


def by_shell(run, folder, question, method, *client):
    "What `cosee ask --json` says."
    _, out, err = run("ask", folder, "-q", question, "--method", method, "--json", *client)
    assert out, err
    return json.loads(out)[0]


def fields(said):
    "What has to be the same: no answer is None in some places, and words in others."
    from cosee.utils.text import abstains
    boxes = [(e["page"], e["bbox"]) for e in said["evidence"]]
    return None if abstains(said["answer"]) else said["answer"], said["page"], boxes, said["stopped"]


@pytest.mark.parametrize("method, question", [*(("auto", q) for q in QUESTIONS), *((m, QUESTIONS[0]) for m in
                                                  ("direct", "team", "cosee_pages"))])
def test_a_model_that_sees_says_the_same_at_every_door(run, tmp_path, folder, question, method):
    with FakeServer("openai", answer=see) as server:
        def client(): return served_model(server.base_url)
        python = cosee.ask(folder, question, client(), method)
        shell = by_shell(run, folder, question, method, "--client", "openai", "--model", "m",
                         "--base-url", server.base_url)
        served = by_server(tmp_path, folder, question, method, client)
    assert fields(python) == fields(shell) == fields(served)
    assert python["confidence"] == served["confidence"] == shell["confidence"]
    told = next(total for name, total in TOTALS.items() if name in question)
    assert fields(python)[0] == told


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_reader_without_a_model_says_the_same_at_every_door(run, tmp_path, folder, question):
    python = cosee.ask(folder, question, "ocr")
    shell = by_shell(run, folder, question, "auto", "--client", "ocr", "--sure", 0)
    assert fields(python) == fields(shell)
    assert fields(python) == fields(by_server(tmp_path, folder, question, "auto", lambda: make_client("ocr")))


@pytest.mark.parametrize("policy", [Single(), Vote(num_samples=2), Chat(max_turns=1), Team(max_steps=1), PageByPage()])
def test_every_policy_answers_as_an_object_too(folder, policy):
    with FakeServer("openai", answer=see) as server:
        client = served_model(server.base_url)
        episode = cosee.ask(folder, QUESTIONS[0], client, policy)
    assert isinstance(episode, Episode)
    assert episode["files"] == ["beta_april.pdf"] and episode["trace"]["question"] == QUESTIONS[0]


@pytest.mark.parametrize("method", ["auto", "direct", "team", "chat", "self_consistency"])
def test_a_model_that_cannot_be_reached_is_an_error_at_every_door(run, tmp_path, folder, method):
    url = "http://127.0.0.1:9/v1"
    with pytest.raises(VLMClientError, match="127.0.0.1:9"):
        cosee.ask(folder, QUESTIONS[0], served_model(url), method)
    code, out, err = run("ask", folder, "-q", QUESTIONS[0], "--method", method, "--client", "openai", "--model", "m",
                         "--base-url", url, "--json")
    assert code == 1 and not out and "127.0.0.1:9" in err, err
    said = by_server(tmp_path, folder, QUESTIONS[0], method, lambda: served_model(url))
    assert said["state"] == "failed" and said["answer"] is None and "127.0.0.1:9" in said["error"]
