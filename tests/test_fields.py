"""Forms: schemas and replies of strangers, values with their places, and the command that reads many documents."""
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from cosee.utils.boxes import box_iou
from cosee.extraction.extract import extract
from cosee.extraction.lookup import read_reply, reply_schema
from cosee.extraction.schema import SchemaError, read_schema, read_value
from cosee.text.grounding import TextLocator
from cosee.models.client import prompt_text
from cosee.models.testing import ScriptedClient
from cosee.text.ocr import TextExtractor
from cosee.text.layout import typed_page
from cosee.pages import load_pages
from conftest import ROOT
from PIL import Image

INVOICE = ROOT / "cosee/samples/invoice.pdf"
SCHEMA = {"type": "object", "title": "Invoice", "required": ["total"], "properties": {
    "number": {"type": "string", "description": "What is the invoice number?"},
    "total": {"type": "number", "description": "What is the gross total?"}}}


def of(**schema):
    return read_schema({"type": "object", "properties": {"a": schema}}).fields[0]


# --- schemas of strangers ---

def nested(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


HOSTILE = {
    "deep": nested(60), "itself": {"$ref": "#"}, "circle": {"$ref": "#/$defs/a", "$defs": {
        "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "abroad": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
    "many": {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(5000)}},
    "enum": {"type": "object", "properties": {"a": {"enum": list(range(100_000))}}},
    "pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(" * 90}}},
    "long pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "a" * 5000}}},
    "name": {"type": "object", "properties": {"a\n</script>": {"type": "string"}}},
    "empty": {"type": "object", "properties": {}}, "text": {"type": "string"}, "none": {},
    "rows in rows": {"type": "object", "properties": {"a": {"type": "array", "items": {
        "type": "array", "items": {"type": "string"}}}}},
    "two types": {"type": "object", "properties": {"a": {"type": ["string", "number"]}}},
    "minimum": {"type": "object", "properties": {"a": {"type": "number", "minimum": "low"}}},
    "properties": {"type": "object", "properties": ["a"]}, "items": {"type": "object", "properties": {
        "a": {"type": "array", "items": [1]}}}, "allOf": {"type": "object", "allOf": [{}]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_that_cannot_be_read_is_named_in_one_line(name):
    with pytest.raises(SchemaError) as found:
        read_schema(HOSTILE[name])
    assert len(str(found.value)) < 400 and "\n" not in str(found.value)


def test_a_pattern_that_explodes_elsewhere_costs_nothing():
    field, start = of(type="string", pattern="^(a+)+$"), time.process_time()
    assert read_value(field, "a" * 1500 + "b").fault.startswith("String should match pattern")
    assert time.process_time() - start < 5


def test_random_schemas_are_read_or_refused():
    words = ["type", "properties", "items", "enum", "$ref", "anyOf", "format", "minimum", "required", "const", "a"]
    values = ["object", "array", "string", None, 3, True, "#/a", "date", [], ["x", None], {}]

    def any_schema(rng, depth=0):
        held = {rng.choice(words): rng.choice(values) for _ in range(rng.randint(0, 3))}
        if depth < 4 and rng.random() < .8:
            held["properties"] = {rng.choice("abc"): any_schema(rng, depth + 1) for _ in range(2)}
            held["type"] = "object"
        return held
    read = 0
    for seed in range(300):
        try:
            form = read_schema(any_schema(random.Random(seed)))
        except SchemaError:
            continue
        json.dumps(reply_schema(form, form.fields, form.tables, 3))
        read += 1
    assert 5 < read < 300


# --- replies of strangers ---

def test_random_replies_fill_in_nothing_but_what_was_asked():
    form = read_schema({**SCHEMA, "properties": {**SCHEMA["properties"], "items": {
        "type": "array", "items": {"type": "object", "properties": {"text": {"type": "string"}}}}}})
    values = ["x", 1e400, -1, None, True, [], {}, [[]], {"answer": {"answer": 1}}, {"answer": "y", "page": 10**30},
              {"answer": "y", "page": 1, "bbox_2d": ["a", 1, None, 4]}, "\ud800", "9" * 400, [{"text": "a"}] * 500]
    rng = random.Random(7)
    for _ in range(400):
        said = {rng.choice(["number", "total", "items", "other"]): rng.choice(values) for _ in range(3)}
        text = json.dumps(said)
        found = read_reply(text[:rng.randint(1, len(text))] if rng.random() < .3 else text, form.fields, form.tables)
        assert set(found.fields) <= {"number", "total"} and set(found.rows) <= {"items"}
        assert all(len(e.printed) <= 600 for e in found.fields.values()) and len(found.rows.get("items", [])) <= 60
        for field in form.fields:
            read_value(field, found.fields[field.path].printed if field.path in found.fields else "")


def test_a_reply_of_any_kind_ends_in_a_whole_result():
    page = Image.new("RGB", (40, 40), "white")
    for text in ("", "{", "null", '{"total": NaN}', '{"total": {"answer": "7", "page": 99}}', "[" * 5000):
        found = extract([page], SCHEMA, ScriptedClient([text] * 2))
        assert list(found["value"]) == ["number", "total"] and found["stopped"] == "complete"
        json.dumps(found)


# --- places ---

def test_boxes_that_are_off_by_a_twentieth_of_the_page_find_their_words():
    pages = load_pages(INVOICE)
    words = TextExtractor().read([pages[0]])[0]
    printed, rng, found = TextLocator({1: words}), random.Random(3), []
    lines = [l for l in words["lines"] if len(l["text"]) > 3]
    for line in lines:
        off = [min(1, max(0, v + rng.uniform(-.05, .05))) for v in line["bbox"]]
        place = printed.locate(line["text"], (1, (min(off[0], off[2]), min(off[1], off[3]), max(off[0], off[2]),
                                                max(off[1], off[3]))))
        found.append(box_iou(place.bbox, tuple(line["bbox"])) if place else 0.)
    assert sum(found) / len(found) > .75, found


def test_digits_that_are_not_printed_are_never_found():
    printed = TextLocator({1: typed_page("Total due    39,452.74\nInvoice      INV-82635")})
    for said in ("39,542.74", "INV-82653", "39,452.7", "Total due 39,452.75"):
        assert printed.locate(said) is None, said
    assert printed.locate("39452.74 USD").match == "number" and printed.locate("lnvoice INV-82635").match == "nearly"


def test_a_value_without_print_keeps_the_models_box_and_is_doubtful():
    page = Image.new("RGB", (200, 200), "white")
    reply = json.dumps({"number": {"answer": "A-1", "page": 1, "bbox_2d": [100, 100, 300, 200]}})
    found = extract([page], SCHEMA, ScriptedClient([reply] * 2))
    field = found["fields"][0]
    assert (field["value"], field["bbox"], field["own_bbox"]) == ("A-1", [.1, .1, .3, .2], [.1, .1, .3, .2])
    assert field["found"] == "" and "number" in found["doubtful"]


def test_rows_over_pages_are_neither_lost_nor_doubled(tmp_path):
    from reportlab.pdfgen.canvas import Canvas
    pdf = Canvas(str(tmp_path / "rows.pdf"), pagesize=(400, 600))
    for page in range(3):
        pdf.drawString(40, 560, "Item")
        pdf.drawString(200, 560, "Quantity")
        pdf.drawString(300, 560, "Amount")
        for i in range(12):
            pdf.drawString(40, 530 - 20 * i, f"Part {12 * page + i} of the list")
            pdf.drawRightString(240, 530 - 20 * i, f"{i % 3 + 1}")
            pdf.drawRightString(340, 530 - 20 * i, f"{100 + 12 * page + i}.50")
        pdf.showPage()
    pdf.save()
    rows = {"type": "array", "items": {"type": "object", "properties": {
        "item": {"type": "string"}, "amount": {"type": "number"}}}}
    schema = {"type": "object", "properties": {"rows": rows}}
    want = [(f"Part {i} of the list", 100.5 + i) for i in range(36)]
    found = extract(load_pages(tmp_path / "rows.pdf"), schema)["value"]["rows"]
    assert [(r["item"], r["amount"]) for r in found] == want
    said = [{"item": item, "amount": str(amount)} for item, amount in want]
    client = ScriptedClient([json.dumps({"rows": [*said, *said[:5]]})])
    assert [(r["item"], r["amount"]) for r in extract(load_pages(tmp_path / "rows.pdf"), schema, client)
            ["value"]["rows"]] == want


# --- clients ---

def test_a_mind_of_text_is_shown_print_and_fields_alone():
    from cosee.models.text_client import TextClient
    llm = ScriptedClient([json.dumps({"number": "INV-82635", "total": "39,452.74 USD"})])
    found = extract(load_pages(INVOICE), SCHEMA, TextClient(llm))
    assert found["value"] == {"number": "INV-82635", "total": 39452.74} and not found["doubtful"]
    sent = llm.calls[0] if hasattr(llm, "calls") else None
    text = prompt_text(sent["messages"]) if sent else "\n".join(found["calls"][0]["prompt"])
    assert "- total: What is the gross total?" in text


def test_a_tiny_model_that_looks_writes_nothing_but_the_form():
    from cosee import QwenVLClient
    pages = load_pages(ROOT / "cosee/samples/small.pdf", dpi=72)
    schema = {"type": "object", "properties": {"total": {"type": "number"}, "kind": {"enum": ["invoice", "report"]}}}
    found = extract(pages[:1], schema, QwenVLClient.tiny(), check=False)
    reply = json.loads(found["calls"][0]["text"])
    assert list(reply) == ["total", "kind"] and reply["kind"]["answer"] in ("invoice", "report", "not answerable")


# --- the command ---

def command(folder, *more):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COSEE_CACHE": str(folder / "cache")}
    start = "from cosee.cli.start import main; raise SystemExit(main())"
    args = [sys.executable, "-c", start, "extract", *map(str, more)]
    return subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


@pytest.fixture
def inbox(tmp_path):
    "Pictures with a number each, and a schema."
    from PIL import ImageDraw, ImageFont
    (tmp_path / "inbox").mkdir()
    for i in range(8):
        page = Image.new("RGB", (500, 160), "white")
        font = ImageFont.load_default(26)
        ImageDraw.Draw(page).text((30, 30), f"Invoice number: AB-10{i}", "black", font)
        ImageDraw.Draw(page).text((30, 90), f"Gross total: {200 + i}.50", "black", font)
        page.save(tmp_path / f"inbox/{i}.png")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    return tmp_path


@pytest.mark.slow
def test_killed_ten_times_every_document_is_there_once(inbox):
    args = inbox / "inbox", "--schema", inbox / "schema.json", "--out", inbox / "out.jsonl", "--quiet"
    rng = random.Random(5)
    for _ in range(10):
        run = command(inbox, *args)
        try:
            run.wait(rng.uniform(.5, 4))
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
        run.communicate()
    run = command(inbox, *args)
    _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    lines = []
    for line in (inbox / "out.jsonl").read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue   # cut off by a kill
    assert sorted(line["file"] for line in lines) == sorted(str(p) for p in (inbox / "inbox").iterdir())
    assert {line["value"]["number"]: line["value"]["total"] for line in lines} == {
        f"AB-10{i}": 200.5 + i for i in range(8)}


def test_what_cannot_be_read_is_named_and_the_others_go_on(inbox):
    (inbox / "inbox/3.png").write_bytes(b"\x89PNG no picture")
    run = command(inbox, inbox / "inbox/3.png", inbox / "inbox/4.png", "--schema", inbox / "schema.json")
    out, said = run.communicate(timeout=200)
    lines = [json.loads(line) for line in out.splitlines()]
    assert run.returncode == 1 and "Traceback" not in said and "3.png" in said
    assert "error" in lines[0] and lines[1]["value"]["number"] == "AB-104"


def test_errors_of_the_command_say_the_mend(inbox):
    (inbox / "bad.json").write_text('{"type": "object", "properties": {"a": {"$ref": "http://elsewhere"}}}')
    for args, mend in (([inbox / "inbox", "--schema", inbox / "bad.json"], "leads out of the schema"),
                       ([inbox / "inbox", "--schema", inbox / "none.json"], "none.json"),
                       ([inbox / "nothing", "--schema", inbox / "schema.json"], "does not exist")):
        run = command(inbox, *args)
        _, said = run.communicate(timeout=60)
        assert run.returncode == 2 and mend in said and said.count("\n") == 1, said
