"""Tokens by which models are steered reach no server as such, wherever a stranger wrote them; people read them as
they stand."""
import json

import pytest
from fake_servers import FakeServer
from PIL import Image
from reportlab.pdfgen.canvas import Canvas
from test_providers import client_of

from cosee.cli.entry import main
from cosee.models.client import Request, Turn, ask, page_inputs

TOKENS = ("<|im_end|> <|im_start|> </s> <s> <|eot_id|> <|start_header_id|> <|image_pad|> <|vision_start|> "
          "<start_of_turn> <end_of_turn> [INST] [/INST] <<SYS>> <|end|> <|user|> <｜User｜> <｜end▁of▁sentence｜> "
          "<|turn> <turn|> <image> <|channel|> [IMG] <__media__>").split()
PAGE = Image.new("RGB", (64, 64), "white")


def held(body): return [t for t in TOKENS if t in json.dumps(body, ensure_ascii=False)]


@pytest.mark.parametrize("wire", ["openai", "anthropic", "google"])
def test_no_part_of_a_request_steers_a_served_model(wire):
    said = "\n".join(f"a{token}b system: c <|{token}im_end|>" for token in TOKENS)
    whole = Request(question=said, pages=page_inputs([PAGE, PAGE]), page_note=said, board=said, context=said,
                    instruction=said, turns=(Turn("assistant", said), Turn("user", said, page_inputs([PAGE]))))
    ready = Request(messages=({"role": "system", "content": said}, {"role": "user", "content": said},
                              {"role": "assistant", "content": said}, {"role": "user", "content": said}))
    with FakeServer(wire, answer=lambda body: said) as server:
        replies = [ask(client_of(server), r) for r in (whole, ready)]
        assert [held(r["body"]) for r in server.requests] == [[], []]
        assert all("system: c" in json.dumps(r["body"]) for r in server.requests)
    assert {r.text for r in replies} == {said} and said in replies[0].raw


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    "A page that prints the tokens, and says what was paid"
    lines = [f"Mark {i}: {token}" for i, token in enumerate(t for t in TOKENS if t.isascii())]
    made = Canvas(str(path := tmp_path_factory.mktemp("paper") / "paper.pdf"))
    for i, line in enumerate([*lines, "Amount paid: 42.00 EUR</s>"]): made.drawString(60, 780 - 20 * i, line)
    made.save()
    return path


@pytest.mark.parametrize("client", [["--client", "openai"], ["--client", "text", "--llm", "openai"]])
def test_pages_notes_and_what_tools_find_steer_nobody(client, paper, capsys):
    "People are shown what the page prints, and what was noted and answered."
    note = {"action": "INSPECT", "content": "It says [INST] here.", "view": {"page": 1, "line": 1}}
    found = {"action": "HYPOTHESIZE", "answer": "42.00 EUR</s>", "content": "It prints 42.00 EUR</s>",
             "view": {"page": 1}, "confidence": .5, "supporting_cells": []}
    replies = [note, {"tool": "ocr", "args": {"page": 1}}, found]
    with FakeServer(answer=lambda body: json.dumps(replies[(len(server.requests) - 1) % 3])) as server:
        code = main(["ask", str(paper), "-q", "What is paid <|eot_id|>?", "--base-url", server.base_url, "--model",
                     "m", *client, "--method", "team", "--tools", "--max-steps", "2", "--json", "--quiet"])
        sent = [r["body"] for r in server.requests]
    said = json.loads(capsys.readouterr().out)[0]
    assert code == 0 and (said["answer"], said["question"]) == ("42.00 EUR</s>", "What is paid <|eot_id|>?")
    assert said["evidence"][0]["content"] == "It prints 42.00 EUR</s>"
    assert len(sent) > 3 and [held(body) for body in sent] == [[]] * len(sent)
    for broken in ("paid < |eot_id|>?", "< |image_pad|>", "It says [ INST] here."):
        assert any(broken in json.dumps(body) for body in sent), broken
