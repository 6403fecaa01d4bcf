"""Scores of fields: gold of strangers, rows in another order, official rules, schemas that come along."""
import importlib.util
import json
import random
import time

import pytest
from conftest import ROOT
from cosee.cli.entry import main
from cosee.datasets.forms import CONTRACT_QUESTIONS, RECEIPT_QUESTIONS
from cosee.eval.form_scores import field_counts, form_f1
from cosee.extraction.extract import extract
from cosee.extraction.schema import SchemaError, packaged_schemas, read_schema
from cosee.extraction.scores import score_fields
from cosee.models.testing import ScriptedClient
from cosee.models.reader_client import OcrClient
from cosee.text.layout import typed_page
from cosee.pages import load_pages
from PIL import Image
from typed_pages import InOrder

ROWS = {"type": "array", "items": {"type": "object", "properties": {
    "what": {"type": "string"}, "amount": {"type": "number"}}}}
SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}, "total": {"type": "number"}, "rows": ROWS}}


def said(value): return {"value": value}


def read(page, schema):
    "What the rules find on a page that was typed."
    client = OcrClient(words=InOrder([typed_page(page)]))
    return extract([Image.new("RGB", (800, 600), "white")], schema, client)


# --- scores ---


def test_rows_are_paired_whatever_their_order_and_each_once():
    rng = random.Random(4)
    gold = [{"what": f"part {i % 7}", "amount": i} for i in range(40)]
    for _ in range(5):
        found = rng.sample(gold, 40)
        assert score_fields({"a": said({"rows": found})}, {"a": {"rows": gold}}, SCHEMA).all.f1 == 1
    twice = score_fields({"a": said({"rows": gold + gold[:10]})}, {"a": {"rows": gold}}, SCHEMA).all
    assert (twice.right, twice.said, twice.gold) == (80, 100, 80)


@pytest.mark.slow
def test_many_rows_that_agree_in_nothing_take_seconds():
    found = [{"what": f"a{i}", "amount": i + .5} for i in range(400)]
    gold = [{"what": f"b{i}", "amount": -i - 1} for i in range(400)]
    start = time.process_time()
    assert score_fields({"a": said({"rows": found})}, {"a": {"rows": gold}}, SCHEMA).all.f1 == 0
    assert time.process_time() - start < 20


def test_lines_of_a_review_count_the_latest_and_leave_rows_alone_that_nobody_looked_at():
    found = [{"file": "in/a.pdf", "value": {"number": "A", "total": 5, "rows": [
        {"what": "x", "amount": 1}, {"what": "y", "amount": 2}, {"what": "z", "amount": 3},
        {"what": "a", "amount": 4}]}}, {"file": "in/b.pdf", "error": "broken"}]
    lines = [dict(file="a.pdf", path="number", value="B", how="corrected"),
             dict(file="a.pdf", path="number", value="A", how="accepted"),
             dict(file="a.pdf", path="total", value=6, how="corrected"),
             dict(file="a.pdf", path="total", value=None, how="open"),
             dict(file="a.pdf", path="rows[1].what", value="y", how="accepted"),
             dict(file="a.pdf", path="rows[3].what", value="A4", how="corrected"),   # both cells of the row
             dict(file="a.pdf", path="rows[3].amount", value=40, how="corrected"),
             dict(file="a.pdf", path="other", value=1, how="accepted")]
    scores = score_fields(found, lines, SCHEMA)
    assert {p: (s.right, s.said, s.gold) for p, s in scores.fields.items()} == {
        "number": (1, 1, 1), "rows[].what": (1, 2, 2), "rows[].amount": (0, 1, 1)}


@pytest.mark.parametrize("table, row", [(ROWS, {"what": "x", "amount": 1}),
                                        ({"type": "array", "items": {"type": "string"}}, "x")])
def test_a_row_that_the_reviewer_took_out_was_wrong(table, row):
    schema = {"type": "object", "properties": {"rows": table}}
    lines = [dict(file="a.pdf", path="rows[1]", value=None, how="absent")]
    scores = score_fields([{"file": "a.pdf", "value": {"rows": [row, row]}}], lines, schema)
    assert (scores.all.right, scores.all.said, scores.all.gold) == (0, len(row), 0)


def test_f1_has_an_interval_from_whole_documents():
    gold = {f"{i}": {"number": "A", "total": 1} for i in range(30)}
    found = {f"{i}": said({"number": "A", "total": 1} if i % 3 else {"number": "B", "total": 2}) for i in range(30)}
    scores = score_fields(found, gold, SCHEMA)
    interval = scores.all.interval()
    assert interval.mean == pytest.approx(scores.all.f1) == pytest.approx(2 / 3)
    assert .4 < interval.low < .6 < .75 < interval.high < .9 and interval.documents == 30


# --- official rules ---

spec = importlib.util.spec_from_file_location("fields_benchmark", ROOT / "benchmarks/fields.py")
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)
OFFICIAL, official_answers, official_golds = benchmark.OFFICIAL, benchmark.official_answers, benchmark.official_golds


def official_score(name, result, golds, flavour=None):
    "Micro average over the fields of one document."
    return form_f1(benchmark.official_counts(name, official_answers(name, result), golds, flavour).values())


def test_each_official_schema_asks_for_the_fields_of_its_set():
    for name, known in OFFICIAL.items():
        asked = read_schema(known.schema)
        assert {f.path for f in asked.fields} | {t.path for t in asked.tables} == set(known.schema["properties"]), name
    assert set(OFFICIAL["sroie"].schema["properties"]) == set(RECEIPT_QUESTIONS)
    assert set(OFFICIAL["kleister_nda"].schema["properties"]) == set(CONTRACT_QUESTIONS)


RECEIPT = {"company": ("Mr. Tan", "MR. TAN"), "date": ("25/12/2018 8:13:39 PM", "25/12/2018"),
           "address": ("1 Jalan Besar", "1 Jalan Besar"), "total": ("RM 9.00", "9.00")}


def test_receipts_are_scored_as_the_official_figures_say():
    reply = json.dumps({k: {"answer": v[0], "page": 1} for k, v in RECEIPT.items()})
    found = extract([Image.new("RGB", (40, 40), "white")], OFFICIAL["sroie"].schema, ScriptedClient([reply] * 2))
    golds = {k: [v[1]] for k, v in RECEIPT.items()}
    assert official_answers("sroie", found) == {"company": ["Mr. Tan"], "date": ["25/12/2018"],
                                                "address": ["1 Jalan Besar"], "total": ["9.00"]}
    by_hand = form_f1([field_counts(*pair, "sroie") for pair in [
        ("Mr. Tan", "MR. TAN"), ("25/12/2018", "25/12/2018"), ("1 Jalan Besar", "1 Jalan Besar"), ("9.00", "9.00")]])
    assert official_score("sroie", found, golds) == by_hand
    assert by_hand.f1 == .75


def test_orders_and_contracts_are_scored_as_the_official_figures_say():
    order = {"fields": [dict(path=p, printed=p_, value=v) for p, p_, v in [
        ("gross_amount", "USD 1,200.00 net", 1200), ("flight_from", "01/06/20", "2020-06-01"),
        ("advertiser", "Smith for Senate", "Smith for Senate"), ("contract_num", "", None)]]}
    golds = {"gross_amount": ["$1,200.00"], "flight_from": ["01/06/20"], "advertiser": ["SMITH FOR SENATE"],
             "contract_num": ["4711"]}
    pairs = [("1,200.00", "$1,200.00", "PriceMatch"), ("01/06/20", "01/06/20", "DateMatch"),
             ("Smith for Senate", "SMITH FOR SENATE", "GeneralStringMatch"), (None, "4711", "NumericalStringMatch")]
    for flavour in ("deepform", "vrdu"):
        by_hand = form_f1([field_counts(a, g, flavour, t) for a, g, t in pairs])
        assert official_score("deepform", order, golds, flavour) == by_hand
    contract = {"fields": [dict(path="party[0]", printed="Acme Inc.", value="Acme Inc."),
                           dict(path="party[1]", printed="Bolt", value="Bolt"),
                           dict(path="term", printed="two (2) years", value="two (2) years"),
                           dict(path="effective_date", printed="the 2nd day of March, 2014", value="2014-03-02")]}
    golds = {"party": ["Acme Inc."], "term": ["2 years"], "effective_date": ["2014-03-02"], "jurisdiction": []}
    by_hand = form_f1([field_counts(["Acme Inc.", "Bolt"], ["Acme Inc."], "kleister"),
                       field_counts("2 years", ["2 years"], "kleister"),
                       field_counts("2014-03-02", ["2014-03-02"], "kleister"), field_counts(None, [], "kleister")])
    assert official_score("kleister_nda", contract, golds) == by_hand


def test_gold_values_of_a_set_are_gathered_by_document():
    samples = [dict(answer="9.00", meta=dict(doc_id="1.jpg", field="total")),
               dict(answer=["A", "B"], meta=dict(doc_id="1.jpg", field="company"))]
    assert official_golds(samples) == {"1.jpg": {"total": ["9.00"], "company": ["A", "B"]}}


# --- schemas that come along ---

STATEMENT = """Account holder:  Nora Lindqvist
Account number:  0071-4452-88          IBAN:  GB29 NWBK 6016 1331 9268 19
Opening balance:  1,204.55 GBP

Date          Description             Amount      Balance
02/07/2025    Rent July               -850.00     354.55
15/07/2025    Salary                  2,310.40    2,664.95"""
RECEIPT_PAGE = """Harbour Tools Ltd
Receipt number:  153486
Date of purchase:  22 March 2025
Paid with:  debit card

Description        Quantity    Amount
Torque wrench      2           51.00
Cable tray         1           9.50

Total:  GBP 60.50"""
CONTRACT = """Contract number:  CT-46621
Effective date:  4 April 2026
Expiry date:  20 February 2027
Notice period:  11 weeks
Governing law:  Austria
Place of jurisdiction:  Vilnius
Contract value:  EUR 48,613.92"""


@pytest.mark.parametrize("name, page, want", [
    ("statement", STATEMENT, {"holder": "Nora Lindqvist", "account": "0071-4452-88", "opening_balance": 1204.55,
                              "currency": "GBP", "iban": "GB29 NWBK 6016 1331 9268 19"}),
    ("receipt", RECEIPT_PAGE, {"number": "153486", "date": "2025-03-22", "total": 60.5, "paid_by": "debit card",
                               "currency": "GBP"}),
    ("contract", CONTRACT, {"number": "CT-46621", "effective_date": "2026-04-04", "expiry_date": "2027-02-20",
                            "notice_period": "11 weeks", "governing_law": "Austria", "jurisdiction": "Vilnius",
                            "value": 48613.92, "currency": "EUR"})])
def test_ready_made_schemas_are_filled_in_from_typed_pages(name, page, want):
    found = read(page, name)["value"]
    assert {k: found[k] for k in want} == want


def test_rows_of_ready_made_schemas():
    assert read(STATEMENT, "statement")["value"]["transactions"] == [
        {"date": "2025-07-02", "description": "Rent July", "amount": -850, "balance": 354.55},
        {"date": "2025-07-15", "description": "Salary", "amount": 2310.4, "balance": 2664.95}]
    assert [r["amount"] for r in read(RECEIPT_PAGE, "receipt")["value"]["items"]] == [51, 9.5]


def test_the_sample_invoice_is_read_by_the_schema_that_comes_along():
    found = extract(load_pages(ROOT / "cosee/samples/invoice.pdf"), "invoice")
    gold = {"number": "INV-82635", "date": "2025-05-23", "due": "2025-10-17", "purchase_order": "PO-82485",
            "currency": "USD", "net": 36871.72, "tax": 2581.02, "total": 39452.74,
            "items": [{"description": "Torque wrench", "quantity": 18, "unit_price": 50.64, "amount": 911.52}]}
    scores = score_fields({"invoice.pdf": found}, {"invoice.pdf": gold}, "invoice")
    assert all(s.recall == 1 for s in scores.fields.values()) and scores.all.gold == 12


def test_ready_made_schemas_are_plain_json_schema_with_questions():
    from jsonschema import Draft202012Validator
    assert set(packaged_schemas()) == {"contract", "invoice", "receipt", "statement"}
    for name, path in packaged_schemas().items():
        schema = json.loads(path.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        form = read_schema(name)
        assert all(f.hint.endswith("?") for f in form.fields), name
        assert {p for f in form.fields if f.required for p in [f.path]} | {t.path for t in form.tables}


def test_a_name_that_is_neither_file_nor_schema_says_which_there_are(tmp_path, monkeypatch):
    with pytest.raises(SchemaError, match="contract, invoice, receipt, statement"):
        read_schema("bill")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "invoice").write_text(json.dumps(SCHEMA))
    assert [f.path for f in read_schema("invoice").fields] == ["number", "total"], "a file comes first"


# --- the command ---

def test_results_are_scored_from_the_shell(run, tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "documents.jsonl").write_text(json.dumps({"file": "in/a.pdf", "value": {"number": "A", "total": 5}}))
    lines = [dict(file="in/a.pdf", path="number", value="A"), dict(file="in/a.pdf", path="total", value=6)]
    (tmp_path / "gold.jsonl").write_text("\n".join(map(json.dumps, lines)))
    code, out, err = run("report", tmp_path, "--json")
    assert code == 0 and json.loads(out)["all"]["f1"] == .5, err
    _, out, _ = run("report", tmp_path / "documents.jsonl", "--gold", tmp_path / "gold.jsonl")
    assert "in/a.pdf, total: 5, right is 6" in out and "1 right of 2 values that were said" in out
    (tmp_path / "gold.jsonl").unlink()
    code, _, err = run("report", tmp_path)
    assert code == 2 and "gold.jsonl" in err and err.count("\n") == 1, err


def test_the_command_takes_a_schema_by_its_name(run):
    code, _, err = run("extract", ROOT / "cosee/samples/invoice.pdf", "--schema", "bill")
    assert code == 2 and "choose from contract, invoice, receipt, statement" in err


def test_the_help_names_the_schemas_that_come_along(capsys):
    assert main(["extract", "--help"]) == 0
    assert f"comes along: {', '.join(packaged_schemas())}" in " ".join(capsys.readouterr().out.split())
