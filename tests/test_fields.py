"""Forms: values with their places, the command that reads many documents, and three hundred schemas and replies that
nobody would write who means well."""
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc

import pytest
from cosee.utils.boxes import is_box
from cosee.utils.config import ConfigError
from cosee.extraction.extract import extract
from cosee.extraction.lookup import form_prompt, reply_schema
from cosee.extraction.schema import SchemaError, read_schema, read_value
from cosee.models.client import prompt_text
from cosee.models.testing import ScriptedClient
from cosee.text.layout import typed_page
from cosee.pages import load_pages
from conftest import ROOT
from PIL import Image

INVOICE = ROOT / "cosee/samples/invoice.pdf"
SCHEMA = {"type": "object", "title": "Invoice", "required": ["total"], "properties": {
    "number": {"type": "string", "description": "What is the invoice number?"},
    "total": {"type": "number", "description": "What is the gross total?"}}}


# --- places ---

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


# --- schemas and replies of strangers ---

N = 300
TEXT = {"type": "string"}


def within(**properties):
    return {"type": "object", "properties": properties}


def nested(rng):
    "Objects, lists and choices in each other, far too deep"
    schema, deep = TEXT, rng.choice([1, 4, 6, 50, 900, 3000])
    for _ in range(deep):
        how = rng.choice(["object", "object", "items", "anyOf"])
        if how == "object": schema = within(a=schema)
        elif how == "items": schema = {"type": "array", "items": schema}
        else: schema = {"anyOf": [schema, {"type": "null"}]}
    return within(a=schema)


def circle(rng):
    "References that lead in a ring, through properties, rows or choices, or into nothing"
    n = rng.randint(1, 30)
    defs = {}
    for i in range(n):
        goal = {"$ref": f"#/$defs/d{(i + 1) % n}"}
        defs[f"d{i}"] = rng.choice([goal, within(a=goal), {"type": "array", "items": goal}, {"anyOf": [goal, TEXT]},
                                    {"anyOf": [goal, {"type": "null"}]}, {"oneOf": [goal]}])
    start = rng.choice(["#/$defs/d0", "#", "#/", "#/$defs/none", "#/$defs/~2", "http://[", 3, None, "#/properties/a"])
    return {**within(a={"$ref": start}), "$defs": defs}


def laughs(rng):
    "Objects that name the next one many times over"
    many, levels = rng.choice([3, 20, 90]), rng.randint(1, 5)
    defs = {f"d{i}": within(**{f"p{j}": {"$ref": f"#/$defs/d{i + 1}"} for j in range(many)}) for i in range(levels)}
    rows = {"type": "array", "items": {"$ref": "#/$defs/d0"}}
    start = rng.choice([{"$ref": "#/$defs/d0"}, rows])
    return {**within(a=start), "$defs": {**defs, f"d{levels}": rng.choice([TEXT, within(a=TEXT)])}}


def pattern(rng):
    "Expressions that explode where they are matched by trying"
    told = rng.choice(["^(a+)+$", "(a|a)*b", "(" * 90, "a{1000000}", "((a{90}){90}){90}", r"(a)\1", "(?=a)a", "[", "*",
                       "a" * 5000, ".*" * 60, "(x+x+)+y", r"\p{L}{500}", "\ud800", 7, None, ["a"]])
    return within(a={"type": "string", "pattern": told})


def choices(rng):
    "Lists of values without end or sense"
    told = rng.choice([list(range(100_000)), ["x" * 10_000], [], [None], [[1]], [{}], [float("nan")], [10 ** 400], 3,
                       ["a", "A", "a "], ["\ud800"], [True, 1, "1"], "abc", {"a": 1}, ["(" * 50] * 300])
    return within(a={rng.choice(["enum", "const"]): told})


ANYTHING = ["object", "array", "string", "number", "date", None, 3, -1, True, 1e308, float("inf"), float("nan"), [],
            {}, [None], ["x", None], [[]], {"a": {}}, "#/a", "x" * 100_000,
            "\x00\x1b[2J</script>", 10 ** 400, b"bytes"]
WORDS = ["type", "properties", "items", "enum", "const", "$ref", "anyOf", "oneOf", "format", "minimum", "maximum",
         "exclusiveMinimum", "minLength", "maxLength", "required", "title", "description", "maxItems", "allOf",
         "$defs"]


def odd(rng, depth=0):
    "Values of other types at every keyword"
    held = {rng.choice(WORDS): rng.choice(ANYTHING) for _ in range(rng.randint(0, 3))}
    if depth < 3 and rng.random() < .8:
        names = rng.sample(["a", "b", "a b", "x" * 70, "", "1", "\n", "__class__", "äö", 5, None], 2)
        held["properties"], held["type"] = {n: odd(rng, depth + 1) for n in names}, "object"
    return held if depth else {**within(ok=TEXT), **held}


def wide(rng):
    "More fields than anybody needs"
    n = rng.choice([99, 100, 101, 5000, 50_000])
    rows = {"type": "array", "items": within(**{f"c{i}": TEXT for i in range(n)})}
    return rng.choice([within(**{f"f{i}": TEXT for i in range(n)}), within(a=rows), within(a=rows, b=rows)])


SCHEMAS = [nested, circle, laughs, pattern, choices, odd, odd, wide]


@pytest.mark.slow
def test_three_hundred_schemas_are_read_or_refused_in_one_line():
    read, start = 0, time.process_time()
    tracemalloc.start()
    for seed in range(N):
        rng = random.Random(seed)
        kind = SCHEMAS[seed % len(SCHEMAS)]
        schema = kind(rng)
        tracemalloc.reset_peak()
        before, began = tracemalloc.get_traced_memory()[0], time.process_time()
        try: form = read_schema(schema)
        except SchemaError as e:
            assert 0 < len(str(e)) < 400 and str(e).isprintable(), (kind, seed)
            form = None
        assert time.process_time() - began < 3, (kind, seed)
        assert tracemalloc.get_traced_memory()[1] - before < 30e6, (kind, seed)
        if form is None: continue
        told = form_prompt(form, form.fields, form.tables)
        written = json.dumps(reply_schema(form, form.fields, form.tables, 3))
        assert len(told) < 200_000 and len(written) < 2_000_000
        for f in form.fields: read_value(f, "a" * 1500 + "!")
        read += 1
    tracemalloc.stop()
    assert 20 < read < N - 100
    assert time.process_time() - start < 60


@pytest.mark.parametrize("text, why", [
    ('{"type": "object", "properties": {"a": {"type": "string"}, "a": {"type": "number"}}}', "properties.a"),
    ('{"type": "object", "type": "array", "properties": {"a": {"type": "string"}}}', "'type' stands twice"),
    ("type: object\nproperties:\n  a: {type: string}\n  b: {type: number, type: string}\n", "properties.b.type"),
    ('{"type": "object", "properties": {"a": ' + '{"items": ' * 200 + "1" + "}" * 202, "too deep"),
    ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "references"), ("[]", "object"), ("{", "cannot be read"),
    ("\x00", "cannot be read"), ('{"a": ' + "9" * 5000 + "}", "a number has at most"), ("", "object")])
def test_files_that_say_things_twice_or_not_at_all_are_refused_with_the_place(text, why, tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as found: read_schema(path)
    assert why in str(found.value) and "\n" not in str(found.value) and len(str(found.value)) < 600


# --- replies ---

PAGE = typed_page("""
Invoice      INV-82635
Date         3 Mar 2021
Steel rods   12   18.00
Copper wire   7   21.60
Total due         39.60
""")
FORM = {**within(number=TEXT, total={"type": "number"}, day={"type": "string", "format": "date"},
                 paid={"type": "boolean"}, kind={"enum": ["invoice", "report"]}, vat=TEXT,
                 items={"type": "array", "items": within(name=TEXT, count={"type": "integer"})}), "required": ["vat"]}
NAMES = ["number", "total", "day", "paid", "kind", "vat", "items", "other", "__class__", ""]
GOOD = {"number": {"answer": "INV-82635", "page": 1, "bbox_2d": [300, 100, 600, 200]}, "total": "39.60",
        "day": "3 Mar 2021", "kind": "invoice",
        "items": [{"name": "Steel rods", "count": "12"}, {"name": "Copper wire", "count": "7"}]}
ROWS = [{"name": "Steel rods", "count": 12}, {"name": "Copper wire", "count": 7}]


class Typed:
    "Reads the page of these tests, whatever picture it is given."
    def read(self, pages): return [PAGE] * len(pages)


def said(rng):
    "What might stand where a value should"
    box = rng.choice([[5000] * 4, [-1, -1, -2, -2], [0, 0, 0, 0], ["a"] * 4, [1, 2, 3], None, [float("nan")] * 4, {},
                      [1000, 900, 100, 5], [10 ** 400] * 4, "1,2,3,4", [300, 100, 600, 200]])
    page = rng.choice([1, 0, -1, 2, 99, 10 ** 30, "1", "x", None, 1.5, True, [], float("inf")])
    value = rng.choice(["INV-82635", "99", "9" * 400, "-" * 3000, "not answerable", "", None, True, 7, 1e308, -0.0, [],
                        {}, [["x"]], {"answer": {"answer": 1}}, "\ud800", "\x00\x1b[31m", "</script><b>", "1/0", "∞",
                        float("nan"), float("-inf"), 10 ** 400, "٣٩", "3 Mar 2021"])
    return rng.choice([value, {"answer": value, "page": page, "bbox_2d": box}, {"value": value, "bbox": box}, [value]])


def rows(rng):
    row = rng.choice([{"name": "Steel rods", "count": "12"}, {"name": said(rng)}, [], 3, None, {}, "x"])
    return rng.choice([[row] * 5000, [row], [[row]], {"0": row}, row, [{"name": f"Row {i}"} for i in range(3000)]])


def reply(rng):
    "A reply that is JSON, nearly, or not at all"
    held = {rng.choice(NAMES): said(rng) for _ in range(rng.randint(0, 6))}
    if rng.random() < .4: held["items"] = rows(rng)
    text = json.dumps(held)
    how = rng.randrange(9)
    if how == 0: text = text[:rng.randint(0, len(text))]
    if how == 1:
        text = rng.choice(["", "null", "[]", "I would rather not.", "{" * 9000, "[" * 9000, "\x00", '{"a"', "NaN"])
    if how == 2: text = f"Sure!\n```json\n{text}\n```\nAnd also {{}}"
    if how == 3: text = text[:-1] + ', "number": "X-1", "number": "X-2", "total": 1e999}' if len(text) > 2 else text
    if how == 4: text = json.dumps({"result": held})
    if how == 5: text = f"<think>{text}</think>{json.dumps({'total': '39.60'})}"
    if how == 6: text = '{"number": ' + '{"answer": ' * 3000 + "1" + "}" * 3001
    return text


def whole(found, pages):
    "Has a result its shape, and nothing that cannot be?"
    json.dumps(found, allow_nan=False)
    value, kinds = found["value"], dict(number=str, total=(int, float), day=str, paid=bool, kind=str, vat=str)
    assert found["stopped"] == "complete" and set(value) == {*kinds, "items"}
    for name, kind in kinds.items(): assert value[name] is None or isinstance(value[name], kind)
    assert value["kind"] in (None, "invoice", "report") and len(value["items"]) <= 120
    for f in found["fields"]:
        assert f["page"] is None or 1 <= f["page"] <= pages
        assert all(f[b] is None or is_box(f[b]) for b in ("bbox", "own_bbox")), f
        assert f["value"] is None or f["printed"]
        assert len(f["printed"]) <= 600
        if f["found"]: assert f["page"] and f["bbox"]


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_three_hundred_replies_end_in_whole_results_and_nothing_said_is_lost(first):
    pages, start = [Image.new("RGB", (40, 40), "white")] * 2, time.process_time()
    for seed in range(N // 2):
        text = reply(random.Random(seed + 10_000 * first))
        told = [text, text] if first else [json.dumps(GOOD), text]
        found = extract(pages, FORM, ScriptedClient(told), words=Typed())
        whole(found, 2)
        if first: continue
        value = found["value"]
        assert (value["number"], value["total"], value["day"]) == ("INV-82635", 39.6, "2021-03-03"), text
        assert (value["kind"], value["items"]) == ("invoice", ROWS), text
    assert time.process_time() - start < 60
