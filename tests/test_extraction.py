"""What people hand to `cosee extract`: amounts under any label, numbers of any country, piles in one file."""
import json

import pytest
from cosee.cli.entry import main
from cosee.extraction.folder import Extracted
from cosee.extraction.review import Review, Statement
from reportlab.pdfgen.canvas import Canvas


def write_pdf(path, *pages, title="Invoice"):
    "A PDF whose pages are labels with values, or functions that draw."
    pdf = Canvas(str(path), pagesize=(595, 842), invariant=1)
    for rows in pages:
        pdf.setFont("Helvetica-Bold", 18)
        pdf.drawString(60, 782, title)
        pdf.setFont("Helvetica", 12)
        if callable(rows): rows(pdf)
        for i, (label, value) in enumerate(() if callable(rows) else rows):
            pdf.drawString(60, 732 - 26 * i, f"{label}:")
            pdf.drawString(330, 732 - 26 * i, value)
        pdf.showPage()
    pdf.save()


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    "Runs `cosee extract` in a folder; its lines, and what it says."
    monkeypatch.chdir(tmp_path)

    def run(*args, schema="invoice", code=0):
        if not isinstance(schema, str):
            (tmp_path / "schema.json").write_text(json.dumps(schema))
            schema = "schema.json"
        capsys.readouterr()
        assert main(["extract", *map(str, args), "--schema", schema, "--client", "none"]) == code
        out, said = capsys.readouterr()
        return [json.loads(line) for line in out.splitlines()], said
    return run


def form(**fields):
    kinds = {int: "integer", float: "number", str: "string", bool: "boolean"}
    return {"type": "object", "properties": {k: {"type": kinds[t], "description": d} for k, (t, d) in fields.items()}}


# --- labels ---

LABELS = ("Total", "Total due", "Amount due", "Balance due", "Grand total", "Invoice total", "Total amount",
          "Total incl. VAT", "Total payable", "Amount payable", "Please pay", "Gross total", "Gross amount",
          "Gesamtbetrag", "Rechnungsbetrag", "Bruttobetrag", "Summe", "Zu zahlen", "Total TTC", "Montant total",
          "Net à payer")


def test_the_total_is_found_under_every_usual_label_and_no_place_is_taken_twice(command, tmp_path):
    for i, label in enumerate(LABELS):
        write_pdf(tmp_path / f"{i:02}.pdf", [
            ("Invoice number", "K-4410"), ("Invoice date", "2024-09-17"), ("Subtotal", "EUR 235.13"),
            ("VAT 19 %", "EUR 44.68"), (label, "EUR 279.81")])
    lines, _ = command(*sorted(tmp_path.glob("*.pdf")))
    for label, line in zip(LABELS, lines, strict=True):
        value = line["value"]
        assert [value[k] for k in ("total", "net", "tax", "number", "purchase_order")] == [
            279.81, 235.13, 44.68, "K-4410", None], label
        assert value["buyer"]["customer_number"] is None and value["due"] is None, label


def test_a_label_is_as_good_as_a_question(command, tmp_path):
    rows = [("Staff No.", "P-1041"), ("Pay period", "May 2024"), ("Gross pay", "3,870.01"), ("Net pay", "2,925.15")]
    write_pdf(tmp_path / "a.pdf", rows, title="Harbour Freight Ltd")
    for staff, net in (("Staff No.", "Net pay"), ("What is the staff no.?", "How much is the net pay?"),
                       ("staff no.:", "Net pay:")):
        lines, _ = command("a.pdf", schema={**form(a=(str, staff), b=(float, net)), "title": "Payslip"})
        assert lines[0]["value"] == {"a": "P-1041", "b": 2925.15}, staff


# --- doubts ---

def test_what_a_person_should_look_at_is_doubtful(command, tmp_path):
    write_pdf(tmp_path / "a.pdf", [("Invoice number", "A-1"), ("Invoice date", "04/05/2024"), ("Total", "$ 310.00")])
    write_pdf(tmp_path / "b.pdf", [
        ("Invoice number", "A-2"), ("Invoice date", "04/25/2024"), ("Due date", "05/06/2024")])
    write_pdf(tmp_path / "c.pdf", [("Invoice number", "A-3"), ("Invoice date", "04.05.2024"), ("Total", "310.00")])
    (two_ways, us, dots), _ = command("a.pdf", "b.pdf", "c.pdf")
    assert two_ways["doubtful"] == ["date"] and two_ways["value"]["date"] == "2024-05-04"
    reason = next(f["reason"] for f in two_ways["fields"] if f["path"] == "date")
    assert reason == "'04/05/2024': it can be read as 2024-04-05, too"
    assert (us["value"]["date"], us["value"]["due"], us["doubtful"]) == ("2024-04-25", "2024-05-06", ["total"])
    assert dots["value"]["date"] == "2024-05-04" and not dots["doubtful"]


def test_one_printed_value_that_fills_two_fields_is_doubtful_in_both(command, tmp_path):
    write_pdf(tmp_path / "a.pdf", [("Invoice number", "A-1"), ("Invoice date", "5 May 2024")])
    same = form(bill=(str, "What is the invoice number?"), ref=(str, "What is the number of the invoice?"))
    (line,), _ = command("a.pdf", schema=same)
    assert line["value"] == {"bill": "A-1", "ref": "A-1"} and line["doubtful"] == ["bill", "ref"]
    assert [f["reason"] for f in line["fields"]] == ["the same print fills ref", "the same print fills bill"]


# --- numbers and ticks ---

def test_numbers_of_any_country_are_read(command, tmp_path):
    rows = {"Count": ("2.4E+06", 2400000), "Resistance": ("1.2 x 10^6", 1200000), "Discount": ("250,00- EUR", -250),
            "Net amount": ("Rs 12.5 Lakh", 1250000), "Deposit": ("1,23,456.78", 123456.78),
            "Rent": ("CHF 1'200.-", 1200), "Loss": ("(48)", -48)}
    write_pdf(tmp_path / "a.pdf", [(label, text) for label, (text, _) in rows.items()], title="Statement")
    asked = {f"f{i}": (float, label) for i, label in enumerate(rows)}
    (line,), _ = command("a.pdf", schema=form(**asked))
    assert list(line["value"].values()) == [number for _, number in rows.values()]


def test_a_box_says_what_is_ticked_and_nothing_where_none_is(command, tmp_path):
    def draw(pdf):
        for i, (label, ticked) in enumerate((("Smoker", 1), ("Married", 0), ("Insured", None))):
            y = 700 - 40 * i
            pdf.drawString(60, y, f"{label}:")
            for place, word in enumerate(("Yes", "No")):
                x = 200 + 90 * place
                pdf.rect(x, y - 1, 11, 11)
                if place == ticked:
                    pdf.line(x + 2, y + 1, x + 9, y + 8)
                    pdf.line(x + 2, y + 8, x + 9, y + 1)
                pdf.drawString(x + 17, y, word)
    write_pdf(tmp_path / "a.pdf", draw, title="Application")
    asked = form(smoker=(bool, "Is the person a smoker?"), married=(bool, "Is the person married?"),
                 insured=(bool, "Is the person insured?"))
    (line,), _ = command("a.pdf", schema=asked)
    assert line["value"] == {"smoker": False, "married": True, "insured": None}


# --- batch files ---

PEOPLE = [("Ada Lund", 2100.5), ("Ben Moor", 1980.25), ("Cleo Nash", 2100.5), ("Dan Okafor", 3020.0)]
PAYSLIP = {**form(name=(str, "Employee"), number=(str, "Employee No."), net=(float, "Net pay")), "title": "Payslip"}


@pytest.fixture
def pile(tmp_path):
    "Four payslips in one PDF."
    write_pdf(tmp_path / "pile.pdf", *([("Employee", name), ("Employee No.", f"P-{i}"), ("Company No.", "HF-4711"),
                                        ("Net pay", f"{net:,.2f}"), ("Page", f"{i} of 4")]
                                       for i, (name, net) in enumerate(PEOPLE, 1)), title="Payslip May 2024")
    return [{"name": name, "number": f"P-{i}", "net": net} for i, (name, net) in enumerate(PEOPLE, 1)]


def test_a_pile_in_one_file_is_named_and_split(command, pile, tmp_path):
    (line,), said = command("pile.pdf", schema=PAYSLIP)
    assert "pages" not in line and line["records"] == {"count": 4, "key": "Employee No."}
    assert "pile.pdf looks like 4 records in one file" in said and "--split auto" in said
    for how in ("auto", "page", "1"):
        lines, said = command("pile.pdf", "--split", how, schema=PAYSLIP)
        assert [line["value"] for line in lines] == pile and "4 records in 1 file" in said, how
        assert [line["pages"] for line in lines] == [[i, i] for i in range(1, 5)]
        assert all({f["page"] for f in line["fields"]} == {line["pages"][0]} for line in lines)
    lines, _ = command("pile.pdf", "--split", "3", schema=PAYSLIP)
    assert [line["pages"] for line in lines] == [[1, 3], [4, 4]]
    command("pile.pdf", "--split", "0", schema=PAYSLIP, code=2)


def test_one_document_on_several_pages_is_none(command, tmp_path):
    pages = [[("Invoice number", "A-1"), ("Customer", "Blue Heron"), ("Page", str(i)),
              ("Carried over", f"{90 * i}.50")] for i in (1, 2, 3)]
    write_pdf(tmp_path / "a.pdf", *pages)
    (line,), said = command("a.pdf", "--split", "auto")
    assert "pages" not in line and "records" not in line and "looks like" not in said


def test_a_pile_that_is_interrupted_goes_on_and_holds_no_record_twice(command, pile, tmp_path):
    more = "pile.pdf", "--split", "auto", "--out", "run"
    command(*more, schema=PAYSLIP)
    file = tmp_path / "run/documents.jsonl"
    whole = file.read_bytes()
    file.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]) + b'{"file": "pile.p')   # the power failed
    _, said = command(*more, schema=PAYSLIP)
    assert "2 documents of 4 there already" in said
    run = Extracted("run")
    assert [{f.path: f.value for f in line.fields} for line in run.lines()] == pile
    assert len({line.key for line in run.lines()}) == 4
    table = (tmp_path / "run/values.csv").read_text().splitlines()
    assert table[0].startswith("file,_pages,name,number,net,") and ",2-2,Ben Moor,P-2,1980.25," in table[2]


def test_records_are_reviewed_and_scored_each_by_itself(command, pile, capsys):
    command("pile.pdf", "--split", "page", "--out", "run", schema=PAYSLIP)
    review = Review(Extracted("run"))
    assert [entry["name"] for entry in review.entries()] == [f"pile.pdf, page {i}" for i in range(1, 5)]
    assert review.images.crop(review.lines[3], review.lines[3].fields[1]) is not None
    review.say(Statement(document=1, path="net", how="accepted", texts={"net": "1980.00"}))
    review.say(Statement(document=3, path="number", how="accepted"))
    capsys.readouterr()
    assert main(["report", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["documents"], found["all"]["right"], found["all"]["gold"]) == (2, 1, 2)
