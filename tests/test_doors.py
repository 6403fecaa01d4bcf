"""One question, one answer: the same at every door, for each way of reading."""
import html
import json
import shutil
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import mcp
import pytest
from asking import ask_and_wait
from fake_servers import FakeServer
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

import cosee
from cosee.app.server import create_page_app, episode_to_markdown
from cosee.models.backends import Backend
from cosee.models.providers import OpenAIVLMClient
from cosee.models.remote import AccountError, AuthenticationError, ContextError, QuotaError, VLMClientError
from cosee.models.registry import CLIENTS, ClientEntry, make_client
from cosee.models.testing import ScriptedClient
from cosee.budgets import fault_of
from cosee.chat import Chat
from cosee.episode import GUESS_IS, Episode, answer_words
from cosee.experiments import run_experiment
from cosee.pagewise import PageByPage
from cosee.policies import Single, Team, Vote, make_method
from cosee.pages import PageError, load_pages
from cosee.qa import choose_policy
from cosee.runs.config import make_config
from cosee.runs.figures import episode_markdown
from cosee.runs.log import record_fault
from cosee.runs.record import answer_one
from cosee.runs.table import Run
from cosee.server.answering import Clients
from cosee.server.documents import AllowedPaths, Limits, caller_of
from cosee.server.episodes import EpisodeService
from cosee.server.http import create_app, protect
from cosee.server.mcp import mcp_server
from cosee.server.openai_api import chat
from cosee.server.serve import running
from cosee.text.grounding import open_locator
from cosee.utils.text import abstains
from cosee.view.episode import episode_html
from cosee.view.widget import episode_fallback

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
    shell = by_shell(run, folder, question, "auto", "--client", "ocr")
    assert fields(python) == fields(shell)
    assert fields(python) == fields(by_server(tmp_path, folder, question, "auto", lambda: make_client("ocr")))


LEASE = (["Rent:  840.00 EUR", "Deposit:  250.00 EUR", "Begin of the lease:  3 May 2024", "Either party may end this "
          "lease with thirty days' written notice to the other."], ["The rent of 840.00 EUR is due on the first day."])


@pytest.mark.parametrize("said, printed, place", [
    ("blue", False, None), ("1,090.00 EUR", False, None), ("2", None, None), ("yes", None, None),
    ("with thirty days' notice", False, None), ("840.00 EUR", True, 1), ("The rent is 840.00 EUR.", True, 1),
    ("2024-05-03", True, 1), ("May 3, 2024", True, 1), ("03.05.2024", True, 1), ("2024-05-04", False, None),
    ("840.00 EUR\nPage: 2", True, 2), ("250.00 EUR\nPage: 2", False, 2)])
def test_what_a_model_that_sees_says_is_given_and_looked_up(tmp_path, said, printed, place):
    write_pages(tmp_path / "lease.pdf", [(lines, None) for lines in LEASE])
    episode = cosee.ask(tmp_path / "lease.pdf", "What is it?", ScriptedClient([f"Answer: {said}"]), "direct")
    answer, box = said.partition("\n")[0], episode["evidence"][0]["bbox"] if episode["evidence"] else None
    assert (episode["answer"], episode["printed"], episode["page"]) == (answer, printed, place)
    assert bool(box) == bool(printed)   # no box is invented


@pytest.mark.parametrize("method, said, looked", [
    ("direct", "840.00 EUR", [1]), ("require_evidence", "840.00 EUR", [1]), ("require_evidence", "blue", [1, 2]),
    ("min_confidence", "Page: 2\nConfidence: 0.9\nAnswer: 840.00 EUR", [2])])
def test_a_page_is_opened_once_to_look_an_answer_up(tmp_path, monkeypatch, method, said, looked):
    write_pages(tmp_path / "lease.pdf", [(lines, None) for lines in LEASE])
    opened = []

    def open_page(document, numbers, *more):
        opened.extend(numbers)
        return open_locator(document, numbers, *more)
    monkeypatch.setattr("cosee.cascade.open_locator", open_page)
    client = ScriptedClient([said if "\n" in said else f"Answer: {said}"])
    episode = cosee.ask(tmp_path / "lease.pdf", "What is it?", client, method)
    assert sorted(opened) == looked and episode["printed"] is ("840" in said)
    assert abstains(episode["answer"]) == (not episode["printed"])


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


# --- twelve questions on four documents, at seven doors ---

DOORS = ("python", "shell", "http", "chat", "mcp", "run")   # and the app, which is behind the address of `http`
ASKED = dict(
    invoices=(*QUESTIONS, "What is the total?"),
    long=("What is the budget of the harbour office?", "Who wrote the report?", "What colour is the logo?"),
    numbered=("What stands on page ii?", "What is the total of both rows?"),
    sheet=("What is the rent?", "Is the deposit paid?", "When does the lease begin?"))
SEEN = {"harbour office": "4,812.00 EUR", "the report": "not answerable", "logo": "blue", "page 2": "Contents",
        "both rows": "30", "rent": "Answer: 840.00 EUR\nPage: 1", "deposit paid": "yes", "lease begin": "3 May 2024"}


def look(body):
    "A model that sees and says what it was asked, whatever is printed."
    said = json.dumps(body)
    answer = next((answer for words, answer in SEEN.items() if words in said), None)
    if answer is None: return see(body)
    return answer if answer.startswith("Answer") else f"Answer: {answer}"


def write_pages(path, pages):
    "A PDF: of each page the lines, and its label."
    canvas = Canvas(str(path))
    for lines, label in pages:
        for i, line in enumerate(lines):
            for x, text in zip((72, 260), line.split("  "), strict=False): canvas.drawString(x, 700 - 30 * i, text)
        if label: canvas.addPageLabel(canvas.getPageNumber() - 1, label, 1)
        canvas.showPage()
    canvas.save()


@pytest.fixture(scope="module")
def papers(folder, tmp_path_factory):
    "Four documents: a folder of three files, one of a hundred pages, one whose pages have labels, and a sheet."
    home = tmp_path_factory.mktemp("papers").resolve()
    shutil.copytree(folder, home / "invoices")
    sections = [([f"Section {i}", f"Notes about item {i}"], None) for i in range(1, 101)]
    sections[56][0].append("Budget of the harbour office:  4,812.00 EUR")
    write_pages(home / "long.pdf", sections)
    write_pages(home / "numbered.pdf", [(["Preface"], "ROMAN_LOWER"), (["Contents"], None),
                                        (["Row one  10", "Row two  20"], "ARABIC")])
    write_pages(home / "sheet.pdf", [(["Rent:  840.00 EUR", "Deposit:  250.00 EUR", "Paid:  yes",
                                       "Begin of the lease:  2024-05-03"], None)])
    return home


def path_of(papers, name): return papers / name if name == "invoices" else papers / f"{name}.pdf"


def by_run(client, path, question):
    "The record of a run."
    config = make_config(dict(methods=["auto"]))
    sample = dict(images=load_pages(path), question=question, answers=["x"], meta={})
    return answer_one(config, make_method("auto"), 0, sample, client)


def by_address(url, app, id, question):
    "What an address says to a question, what to a chat, and the record; the app shows the same."
    with httpx.Client(base_url=url, timeout=120) as web:
        http = web.post(f"/api/documents/{id}/questions", json=dict(question=question, wait=100)).json()
        parts = [dict(type="file", file=dict(file_id=id)), dict(type="text", text=question)]
        talk = web.post("/v1/chat/completions",
                        json=dict(model="cosee", messages=[dict(role="user", content=parts)])).json()
        record = web.get(f"/api/episodes/{http['id']}/record")
        section = httpx.get(f"{app}api/episodes/{http['id']}/section")
        assert talk["choices"][0]["message"]["content"] == answer_words(talk["cosee"])
        shown = http["answer"] or http["guess"] or "Not answerable"
        assert html.escape(shown, quote=False) in section.text and section.status_code == 200
        return http, talk["cosee"], record.json()


def by_assistant(service, id, question, settings=None):
    "What the tool says."
    async def talk():
        async with mcp.Client(mcp_server(service)) as client:
            return await client.call_tool("ask_document", dict(document=id, question=question, settings=settings))
    return anyio.run(talk)


def essence(said):
    "What has to be the same at every door."
    answer = None if abstains(said["answer"]) else said["answer"]
    boxes = [(e["page"], e["bbox"] and [round(v, 6) for v in e["bbox"]]) for e in said["evidence"]]
    sure = said.get("confidence")
    return dict(answer=answer, guess=said.get("guess"), reason=said.get("reason"), page=said["page"], evidence=boxes,
                stopped=said["stopped"], confidence=None if sure is None else round(sure, 3),
                printed=said.get("printed"), files=said.get("files") or [])


def cost(usage): return [usage[k] for k in ("prompt_tokens", "completion_tokens", "total_tokens", "calls")]


def tale(trace):
    "A trace without what a clock, a cache or a place on the disk put into it."
    if isinstance(trace, dict):
        left_out = ("seconds", "at", "cached_tokens", "seed", "page_selection", "file", "usage", "ledger", "model")
        return {k: tale(v) for k, v in trace.items() if k not in left_out}
    return [tale(v) for v in trace] if isinstance(trace, (list, tuple)) else trace


@contextmanager
def reader(kind):
    "A way to make a client, and the words by which the shell makes the same."
    if kind != "vision": yield lambda: make_client(kind), ("--client", kind)
    else:
        with FakeServer("openai", answer=look) as server:
            yield lambda: served_model(server.base_url), ("--client", "openai", "--model", "m",
                                                          "--base-url", server.base_url)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ocr", "vision", "tiny"])
def test_twelve_questions_have_one_answer_at_every_door(run, tmp_path, papers, kind):
    assert sum(map(len, ASKED.values())) == 12
    given = dict[str, Any]()
    with reader(kind) as (make, words):
        made = make()
        service = EpisodeService(tmp_path / "kept", Clients({"m": lambda: made}), AllowedPaths([papers]), shared=True)
        with (service, running(protect(service, create_app(service, chat))) as url,
              running(create_page_app(service)) as app):
            for name, questions in ASKED.items():
                path = path_of(papers, name)
                id = service.library.open_path(caller_of(None), str(path)).id
                for question in questions:
                    python, record = cosee.ask(path, question, made), by_run(made, path, question)
                    http, talk, kept = by_address(url, app, id, question)
                    tool = by_assistant(service, id, question).structured_content
                    shell = by_shell(run, path, question, "auto", *words)
                    doors = dict(zip(DOORS, (python, shell, http, talk, tool, record), strict=True))
                    told = {door: essence(said) for door, said in doors.items()}
                    assert all(one == told["python"] for one in told.values()), (question, told)
                    spent = [python["usage"], shell["tokens"], http["usage"], talk["usage"], record["usage"]]
                    assert all(cost(u) == cost(spent[0]) for u in spent), question
                    assert tool["tokens"] == spent[0]["total_tokens"]
                    assert tale(python["trace"]) == tale(record["trace"]) == tale(kept["trace"]), question
                    given[question] = told["python"]
    if kind == "vision":
        assert given["What colour is the logo?"] == {**given["What colour is the logo?"], "answer": "blue",
                                                     "printed": False, "evidence": []}
        assert given["What is the total of both rows?"]["answer"] == "30"
        assert (given["What is the rent?"]["printed"], given["What is the rent?"]["page"]) == (True, 1)
        assert given[QUESTIONS[0]]["files"] == ["beta_april.pdf"]
    if kind == "ocr":
        assert (given[ASKED["long"][0]]["answer"], given[ASKED["long"][0]]["page"]) == ("4,812.00 EUR", 57)
        assert any(one["guess"] for one in given.values())


def test_a_guess_that_is_withheld_is_said_in_the_same_words_at_every_door(run, tmp_path, monkeypatch, folder):
    def client(): return ScriptedClient(["Answer: blue"] * 9)
    monkeypatch.setitem(CLIENTS, "blue", ClientEntry(client))
    path, question, method = folder / "alpha_march.pdf", "Which colour is the logo?", "require_evidence"
    words, written = "Withheld; the guess is: blue", {}
    python = cosee.ask(path, question, client(), method)
    written.update(python=answer_words(python), lab=python._repr_html_(), widget=episode_fallback(python),
                   shell=run("ask", path, "-q", question, "--method", method, "--client", "blue")[1])
    with EpisodeService(tmp_path / "kept", Clients(dict(m=client)), AllowedPaths([folder]), shared=True) as service:
        id = service.library.open_path(caller_of(None), str(path)).id
        with running(protect(service, create_app(service, chat))) as url:
            talk = dict(model="cosee", cosee=dict(method=method), messages=[dict(role="user", content=[
                dict(type="file", file=dict(file_id=id)), dict(type="text", text=question)])])
            written["chat"] = httpx.post(f"{url}v1/chat/completions", json=talk, timeout=60).text
        written["mcp"] = by_assistant(service, id, question, dict(method=method)).content[0].text
        wrong = by_assistant(service, id, question, dict(method=method, set=dict(num_agents=999)))
        assert wrong.is_error and "at most 200" in wrong.content[0].text
        job = ask_and_wait(service, caller_of(None), id, question, dict(method=method))
        written["markdown"] = episode_to_markdown(service, caller_of(None), job.id)
    made = dict(name="made", limit=1, options=dict(kinds=["invoice"], per_doc=1, dpi=50))
    run_experiment(dict(methods=[method], dataset=made), tmp_path / "run", client=client())
    [record] = Run(tmp_path / "run")
    written.update(report=run("report", tmp_path / "run", "--episode", record["sample"])[1],
                   file=episode_markdown(record))
    assert {door: words in text for door, text in written.items()} == dict.fromkeys(written, True), written
    assert GUESS_IS in episode_html(python)   # as a label before the guess


SUM = "How much is the deposit plus rent?"   # the reader guesses 250.00 EUR, and is not sure


@pytest.mark.parametrize("how, flags", [
    (dict(), ()), (dict(method="team"), ("--method", "team")),
    (dict(agents=["scanner", "detail_reader"]), ("--agents", "scanner,detail_reader")),
    (dict(order="parallel"), ("--order", "parallel")), (dict(max_steps=1), ("--max-steps", 1)),
    (dict(method="cosee_light"), ("--method", "cosee_light"))])
@pytest.mark.parametrize("sure", [None, .2])
def test_the_reader_by_rules_gives_what_it_is_sure_of_in_any_team(run, tmp_path, papers, how, flags, sure):
    python = cosee.ask(papers / "sheet.pdf", SUM, "ocr", choose_policy(**how, sure=sure))
    more = () if sure is None else ("--sure", sure)
    code, out, _ = run("ask", papers / "sheet.pdf", "-q", SUM, "--client", "ocr", "--json", *flags, *more)
    service = EpisodeService(tmp_path / "kept", Clients(dict(m=lambda: make_client("ocr"))), AllowedPaths([papers]),
                             shared=True)
    with service, running(protect(service, create_app(service, chat))) as url:
        id = service.library.open_path(caller_of(None), str(papers / "sheet.pdf")).id
        http = httpx.post(f"{url}api/documents/{id}/questions", timeout=60, json=dict(
            question=SUM, wait=50, settings=dict(how, sure=sure))).json()
    told = {(essence(said)["answer"], said.get("guess")) for said in (python, json.loads(out)[0], http)}
    assert told == {(None, "250.00 EUR") if sure is None else ("250.00 EUR", None)}
    assert code == (3 if sure is None else 0)


def test_a_run_measures_a_team_bare_and_a_right_answer_is_given(papers):
    sample = dict(images=load_pages(papers / "sheet.pdf"), question=SUM, answers=["x"], meta={})
    records = {m: answer_one(make_config(dict(methods=[m])), make_method(m), 0, sample, make_client("ocr"))
               for m in ("team", "auto")}
    assert {m: r["answer"] for m, r in records.items()} == dict(team="250.00 EUR", auto="not answerable")
    for method in ("direct", "chat", "cosee_pages", "rules_first", "min_confidence", "team"):
        assert cosee.ask(papers / "sheet.pdf", "What is the rent?", "ocr", method)["answer"] == "840.00 EUR", method


FAULTS = [(401, "this key is not known", AuthenticationError, "account"),
          (429, "You exceeded your current quota (insufficient_quota)", QuotaError, "account"),
          (400, "This model's maximum context length is 4096 tokens", ContextError, "context")]


@pytest.mark.parametrize("method, status, text, error, fault", [
    *(("direct", *row) for row in FAULTS), *(("team", *row) for row in FAULTS),
    ("direct", 500, "it broke", VLMClientError, "model"),   # a team asks again, turn by turn
    ("team", 400, "This model only supports streaming", VLMClientError, "model")])
def test_faults_are_told_apart_at_every_door(run, tmp_path, folder, method, status, text, error, fault):
    with FakeServer("openai", script=[(status, {}, text)] * 99) as server:
        with pytest.raises(error): cosee.ask(folder, QUESTIONS[0], served_model(server.base_url), method)
        code, _, err = run("ask", folder, "-q", QUESTIONS[0], "--method", method, "--client", "openai", "--model", "m",
                           "--base-url", server.base_url, "--json")
        said = by_server(tmp_path, folder, QUESTIONS[0], method, lambda: served_model(server.base_url))
    assert code == 1 and text in err and (said["state"], said["fault"]) == ("failed", fault)


def test_a_budget_that_covers_no_call_is_told_as_that(run, tmp_path, folder):
    with FakeServer("openai", answer=see) as server:
        python = cosee.ask(folder, QUESTIONS[0], served_model(server.base_url), max_tokens=5)
        code, out, _ = run("ask", folder, "-q", QUESTIONS[0], "--max-tokens", 5, "--client", "openai", "--model", "m",
                           "--base-url", server.base_url, "--json")
        assert not server.requests
    assert python["fault"] == json.loads(out)[0]["fault"] == "budget" and not python["answer"] and code == 3


def test_pages_that_cannot_be_drawn_are_told_as_that(run, tmp_path):
    Image.effect_noise((300, 400), 90).convert("RGB").save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:90_000])
    with FakeServer("openai", answer=see) as server:
        with pytest.raises(PageError, match="cut.png"):
            cosee.ask(tmp_path / "cut.png", "What is the total?", served_model(server.base_url))
        code, out, _ = run("ask", tmp_path / "cut.png", "-q", "What is the total?", "--client", "openai", "--model",
                           "m", "--base-url", server.base_url, "--json")
        said = by_server(tmp_path, tmp_path / "cut.png", "What is the total?", "auto",
                         lambda: served_model(server.base_url))
        assert not server.requests
    assert code == 1 and json.loads(out)[0]["fault"] == "pages"
    assert (said["state"], said["fault"]) == ("failed", "pages")


class LicenceError(Exception):
    "What a client of somebody's own raises."
    final, fault = True, "account"


@pytest.mark.parametrize("raised, fault, error", [(LicenceError("ask the office"), "account", AccountError),
                                                  (OSError("it broke"), "model", VLMClientError)])
@pytest.mark.parametrize("method", ["direct", "auto", "team"])
def test_an_error_of_ones_own_has_its_fault(run, monkeypatch, tmp_path, folder, method, raised, fault, error):
    def client(): return ScriptedClient([raised] * 99)
    monkeypatch.setitem(CLIENTS, "licensed", ClientEntry(client))
    own = method == "direct"   # one call raises what its client does
    with pytest.raises(type(raised) if own else error, match=str(raised)):
        cosee.ask(folder, QUESTIONS[0], client(), method)
    code, _, err = run("ask", folder, "-q", QUESTIONS[0], "--method", method, "--client", "licensed", "--json")
    said = by_server(tmp_path, folder, QUESTIONS[0], method, client)
    assert code == 1 and str(raised) in err
    assert (said["state"], said["fault"]) == ("failed", None if own and fault == "model" else fault)
    config = make_config(dict(methods=[method]))
    sample = dict(images=load_pages(folder), question=QUESTIONS[0], answers=["x"], meta={})
    record = answer_one(config, make_method(method), 0, sample, client())
    assert fault_of(json.loads(json.dumps(record))) == said["fault"] and not record_fault(record)


def test_older_records_are_read_by_their_words():
    told = {"AuthenticationError: no": "account", "RuntimeError: no agent could act: ContextOverflow: long": "context",
            "ServerError: it broke": "model", "PageError: cut.png": "pages", "ValueError: what?": None}
    assert {error: fault_of(dict(answer="", error=error)) for error in told} == told
    assert fault_of(dict(answer="", error="AuthenticationError: no", fault="budget")) == "budget"
    assert fault_of(dict(answer="", error="AuthenticationError: no", fault=["budget"])) == "account"
