"""What models are sent, at the wire: some eighty calls, as they were before anything was rewritten.

    python tests/golden/calls.py          compare with calls.jsonl
    python tests/golden/calls.py --write  write it anew, where a prompt changes on purpose: say why in the commit

Requests leave through the real SDKs, the real processor and the real engine; replies are made up from the
schema of each request. A picture is recorded by its size: each page has its own. Of the reader that asks no model,
what comes back is recorded.
"""
import base64
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from fake_servers import FakeServer

from cosee.agents import ROLES, Agent, DetailReaderAgent, team
from cosee.board import Board
from cosee.controller import CoSeeController
from cosee.eval.baselines import direct_answer, self_consistency, single_agent_cot
from cosee.eval.baselines import multi_agent_chat_no_board
from cosee.eval.judge import judge_answer
from cosee.policies import build_team
from cosee.document import InteractiveDocument, VLMLanguageModel
from cosee.extraction.extract import extract
from cosee.models.backends import Backend
from cosee.models.registry import create_vlm_client
from cosee.models.reader_client import OcrClient
from cosee.models.transcriber import Transcriber
from cosee.pages import load_pages
from cosee.planner.document_plan import plan_document
from cosee.planner.nodes.planner import plan
from cosee.cascade import Cascade
from cosee.screen.agent import ScreenAgent
from cosee.tools.agent import with_tools

QUESTION = "What is the total due?"
LINES = {1: ["BLUE HERON BOOKS LTD", "14 Mill Lane, Bath BA1 2QT", "Invoice No: A-2291", "Date: 3 March 2021"],
         2: ["Atlas of Ferries     18.00", "Total due            21.60", "Payment by transfer"],
         3: ["Terms: goods remain ours until they are paid.", "Contact: office@heron.example"]}
FORM = {"type": "object", "title": "an invoice", "properties": {
    "supplier": {"type": "string", "description": "name of the company"},
    "total": {"type": "number", "description": "total due"},
    "lines": {"type": "array", "items": {"type": "object", "properties": {
        "item": {"type": "string"}, "price": {"type": "number"}}}}}}


def document(folder, pages=3):
    "A PDF whose pages differ in size, so that a picture's size names its page."
    canvas = Canvas(str(folder / f"{pages}.pdf"), invariant=1)
    for n in range(1, pages + 1):
        canvas.setPageSize((300 + 16 * n, 200))
        for i, line in enumerate(LINES.get(n, [f"Chapter {n} is about nothing of note."])):
            canvas.drawString(30, 160 - 24 * i, line)
        canvas.showPage()
    canvas.save()
    return load_pages(folder / f"{pages}.pdf", dpi=72)


def filled_board():
    "Notes of a team, one of them corrected."
    board = Board()
    board.add_cell({"page": 1, "bbox": (.1, .1, .9, .3)}, "The invoice's head: number and date", ["section"],
                   "scanner", 1)
    board.add_cell({"page": 2, "bbox": (.1, .3, .6, .4)}, "Answer: 18.00. Atlas of Ferries 18.00", ["answer"],
                   "detail_reader", 1)
    board.add_cell({"page": 2}, "Corrects #2: Total due 21.60", ["correction"], "cross_checker", 1, refs=[2])
    return board


# --- what each call of the house is made by ---

def act(role, board):
    return lambda client, doc: ROLES[role](client).act(list(doc), QUESTION, board())


def chat(client, doc):
    return multi_agent_chat_no_board(team(client)[:2], list(doc), QUESTION, max_turns=1)


def check(client, doc):
    return Cascade(accept=["self_check"], focus="all").answer(list(doc), QUESTION, client)


def tools(client, doc):
    return with_tools([DetailReaderAgent(client)])[0].act(list(doc), QUESTION, Board())


def own_prompt(client, doc):
    return Agent("auditor", "You audit the figures. Reply in JSON.", client).act(list(doc), QUESTION, Board())


def own_duty(client, doc):
    agent, = build_team(client, [{"name": "auditor", "duty": "You audit the figures."}])
    return agent.act(list(doc), QUESTION, Board())


def parallel(client, doc):
    return CoSeeController(team(client), 1, order="parallel").run(list(doc), QUESTION)


def some_pages(client, doc):
    longer = document(Path(doc.infos[0].file).parent, 12)
    return CoSeeController([DetailReaderAgent(client)], 1, page_selection="top").run(longer, QUESTION)


def write(client, doc):
    InteractiveDocument(VLMLanguageModel(client, list(doc)[:1])).open_question("What is this page about?")


def choose(client, doc):
    model = VLMLanguageModel(client)
    document = InteractiveDocument(model, rng=np.random.default_rng(0))
    document.multiple_choice_question("Is it an invoice?", ["yes", "no"])


CASE = {"question": QUESTION, "gold": "21.60", "answer": "21.6", "answer_format": "Float"}
TOOL_CALL = json.dumps({"tool": "zoom", "args": {"page": 2, "bbox": [0, 0, 1, .5]}})
LINE_CALL = json.dumps({"tool": "zoom", "args": {"line": 5}})
STEP = json.dumps({"name": "computer_use", "arguments": {"action": "wait", "time": 1}})
PLAN = json.dumps({"task_type": "IQA", "reference_type": "No-Reference", "required_object_names": None,
                   "required_distortions": None, "required_tools": None, "distortion_source": "Inferred",
                   "plan": {"distortion_detection": False, "distortion_analysis": False, "tool_selection": False,
                            "tool_execution": False}})
REPLIES = {"tools": [TOOL_CALL], "plan": [PLAN], "plan a document": [PLAN], "choose": ["a"], "screen": [STEP]}

CALLS = {
    "scanner": act("scanner", Board), "scanner+board": act("scanner", filled_board),
    "detail_reader": act("detail_reader", Board), "detail_reader+board": act("detail_reader", filled_board),
    "cross_checker": act("cross_checker", Board), "cross_checker+board": act("cross_checker", filled_board),
    "parallel": parallel, "some pages": some_pages, "own prompt": own_prompt, "own duty": own_duty,
    "direct": lambda client, doc: direct_answer(client, list(doc), QUESTION),
    "cot": lambda client, doc: single_agent_cot(client, list(doc), QUESTION),
    "votes": lambda client, doc: self_consistency(client, list(doc), QUESTION, num_samples=2),
    "chat": chat, "check": check, "tools": tools,
    "fields": lambda client, doc: extract(doc, FORM, client),
    "fields, one by one": lambda client, doc: extract(doc, FORM, client, by="question"),
    "judge": lambda client, doc: judge_answer(client, CASE),
    "plan": lambda client, doc: plan("Is it sharp?", list(doc)[0], client=client, cache=None),
    "plan a document": lambda client, doc: plan_document("What is due, and when?", doc, client),
    "write": write, "choose": choose,
    "screen": lambda client, doc: ScreenAgent(client).act(list(doc)[0], "Press the button 'Save'"),
    "write down": lambda client, doc: Transcriber(client, cache=False).read(list(doc)[:1]),
}
FEW = ("detail_reader+board", "direct", "check", "tools", "plan", "write")
SEEING = [name for name in CALLS if name not in ("own duty",)]
READING = [name for name in CALLS if name not in ("plan", "screen", "write down")]
WHO = {"openai": SEEING, "openai, text": READING, "openai, both": FEW, "anthropic": FEW, "google": FEW, "qwen": SEEING,
       "gguf": READING}
RULES = ("scanner", "scanner+board", "detail_reader", "detail_reader+board", "cross_checker", "cross_checker+board",
         "parallel", "some pages", "direct", "cot", "votes", "chat", "check", "tools", "fields")


# --- replies from the schema, and wires ---

def reply_to(schema):
    "Something that fits a schema."
    if "anyOf" in schema:
        return reply_to(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {k: reply_to(v) for k, v in schema.get("properties", {}).items()}
    if kind == "array":
        return [reply_to(schema["items"]) for _ in range(schema.get("minItems", 0))]
    said = {"integer": max(1, schema.get("minimum", 1)), "number": .9, "boolean": True, "null": None}
    return said.get(kind, "21.60")


def schema_in(body):
    "The first JSON schema of an object in a request."
    if isinstance(body, dict):
        if "properties" in body and body.get("type") in ("object", "OBJECT"):
            return body
        body = list(body.values())
    return next((found for part in body if (found := schema_in(part))), None) if isinstance(body, list) else None


def said_to(schema, replies):
    "The reply to the next request."
    if replies:
        return replies.pop(0)
    return "Page: 2\nAnswer: 21.60" if schema is None else json.dumps(reply_to(schema))


def bare(body):
    "A request with each picture as its size."
    if isinstance(body, list):
        return [bare(v) for v in body]
    if isinstance(body, dict):
        return {k: bare(v) for k, v in body.items()}
    if isinstance(body, str) and len(body) > 200:
        with contextlib.suppress(ValueError, OSError):
            data = base64.b64decode(body.rpartition("base64,")[2].translate({45: "+", 95: "/"}), validate=True)
            return "picture of {}x{}".format(*Image.open(io.BytesIO(data)).size)
    return body


@contextlib.contextmanager
def served(kind, replies, **fields):
    "A provider's client before a server of this machine"
    with FakeServer(kind, answer=lambda body: said_to(schema_in(body), replies)) as server:
        client = create_vlm_client(f"{kind}.m", base_url=server.base_url, in_flight=1, api_key="none", **fields)
        yield client, lambda: [bare(r["body"]) for r in server.requests]


@contextlib.contextmanager
def qwen(replies, folder):
    "A Qwen3-VL of random weights: what its processor made, with schema and settings"
    from cosee.models.transformers_client import TransformersClient
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    from cosee.models.testing import random_checkpoint
    random_checkpoint(folder / "qwen")
    client, sent = QwenVLClient(folder / "qwen", lookup=False), []

    def written(calls):
        out = []
        for call in calls:
            if isinstance(call, Exception):
                out.append(call)
                continue
            p, schema = call.prompt, schemas.pop(0)
            text = client.tokenizer.decode(p.ids).replace("<|image_pad|>" * 2, "")
            sent.append({"text": text, "pictures": [list(s) for s in p.sizes], "schema": schema,
                         "settings": {**vars(call.s), "stops": list(call.s.stops)}, "extra": call.extra})
            said = said_to(schema, replies)
            out.append(client._reply(p, client.tokenizer(said)["input_ids"], call.s))
        return out

    schemas = []

    def noted(self, schema, s):
        schemas.append(schema)
        return TransformersClient._grammar(self, schema, s)
    client._run, client._grammar = written, noted.__get__(client)
    client.reuse = False
    yield client, lambda: sent


@contextlib.contextmanager
def gguf(replies, folder):
    "A GGUF file of random weights: what the engine is asked"
    import xllamacpp

    from cosee.models import gguf_client
    from cosee.models.testing import random_gguf
    file = random_gguf(folder / "m.gguf", context=32768)
    client = create_vlm_client(Backend(id="m", kind="gguf", model_path=str(file), context=32768))
    sent, engine = [], client.llm._server

    def answer(body, heard):
        schema = json.loads(body["grammar"]) if "grammar" in body else None
        sent.append({k: v for k, v in body.items() if k != "grammar"} | {"schema": schema})
        choice = {"index": 0, "delta": {"content": said_to(schema, replies)}, "finish_reason": None}
        heard({"choices": [choice]})
        heard({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        heard({"choices": [], "usage": {"completion_tokens": 9}})
    client.llm._server = SimpleNamespace(listening_address=engine.listening_address, engine=engine,
                                          handle_chat_completions=answer)
    gguf_client._compile_grammar.cache_clear()
    with mock.patch.object(xllamacpp, "json_schema_to_grammar", str), \
         mock.patch.object(gguf_client, "_find_mismatch", lambda *_: ""):   # some replies here are of other schemas
        yield client, lambda: sent
    gguf_client._compile_grammar.cache_clear()


def wire(who, replies, folder):
    "A client, and what it sends."
    if who == "qwen":
        return qwen(replies, folder)
    if who == "gguf":
        return gguf(replies, folder)
    kind, _, how = who.partition(", ")
    fields = {"text": {"images": False}, "both": {"text_source": "image_and_text"}}.get(how, {})
    return served(kind, replies, **fields)


def calls_of(who, folder):
    "All calls of a client: dicts with who, call, and what was sent."
    rows, seen, replies, doc = [], 0, [], document(folder)
    with wire(who, replies, folder) as (client, sent):
        for name in WHO[who]:
            lines = who in ("gguf", "openai, text")
            replies[:] = [LINE_CALL] if name == "tools" and lines else REPLIES.get(name, [])
            CALLS[name](client, doc)
            rows += [{"who": who, "call": name, "sent": s} for s in sent()[seen:]]
            seen = len(sent())
    return json.loads(json.dumps(rows))


def plain(found):
    "What is compared of a result: no costs, and nothing that was said to get there."
    if isinstance(found, dict):
        return {k: plain(v) for k, v in found.items() if k not in ("usage", "trace", "board", "calls")}
    return [plain(v) for v in found] if isinstance(found, (list, tuple)) else found


def found_by_rules(folder):
    "What the rule-based reader makes of the calls."
    doc = document(folder)
    rows = [{"who": "ocr", "call": name, "found": plain(CALLS[name](OcrClient(), doc))} for name in RULES]
    return json.loads(json.dumps(rows))


def recorded():
    "The calls as they are in calls.jsonl."
    return [json.loads(line) for line in (HERE / "calls.jsonl").read_text(encoding="utf-8").splitlines()]


def main():
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for who in WHO for row in calls_of(who, Path(folder))] + found_by_rules(Path(folder))
    file = HERE / "calls.jsonl"
    if "--write" in sys.argv:
        file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} calls,", "written" if "--write" in sys.argv else
          "as recorded" if rows == recorded() else "which differ from the record")


if __name__ == "__main__":
    main()
