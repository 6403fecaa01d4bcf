"""Thirty payslips or invoices in one PDF: a question about one of them is answered from its pages, or not at all."""
import json

import pytest
from cosee.cli.entry import main
from reportlab.pdfgen.canvas import Canvas

NAMES = [f"{first} {last}" for first in ("Maria", "Marta", "Juan", "Elena", "Peter", "Ruth")
         for last in ("Lopez", "Torres", "Novak", "Brandt", "Okafor")]   # each shares a word with nine others


def sums(i):
    "Gross pay, tax and net pay of a person, or subtotal, tax and total of a bill."
    gross = 2100 + 137 * i
    return [f"{v:,.2f}" for v in (gross, .2 * gross, .8 * gross)]


def labelled(pdf, i, name):
    pdf.drawString(60, 780, "Payslip May 2024")
    write_rows(pdf, (("Employee:", name), ("Personnel number:", f"P-{2040 + i}"),
                     *zip(("Gross pay:", "Tax:", "Net pay:"), sums(i))))


def addressed(pdf, i, name):
    "The name stands in an address, without a label."
    for k, line in enumerate((name, f"{i + 1} Mill Road", "Leeds LS1 4AB")): pdf.drawString(60, 790 - 15 * k, line)
    write_rows(pdf, (("Description", "Amount (EUR)"), *zip(("Gross pay", "Income tax", "Net pay"), sums(i))), 650)


def boxed(pdf, i, name):
    "Labels above their values."
    gross, tax, net = sums(i)
    for k, (label, value) in enumerate((("Name", name), ("Staff no.", f"P-{2040 + i}"), ("Month", "May 2024"),
                                        ("Gross pay", gross), ("Tax", tax), ("Net pay", net))):
        x, y = 60 + 180 * (k % 3), 740 - 60 * (k // 3)
        pdf.setFont("Helvetica", 8)
        pdf.drawString(x, y, label)
        pdf.setFont("Helvetica", 12)
        pdf.drawString(x, y - 15, value)


def two_pages(pdf, i, name):
    "The name stands on the first page, net pay on the second."
    gross, tax, net = sums(i)
    pdf.drawString(60, 780, "Payslip May 2024")
    write_rows(pdf, (("Employee:", name), ("Personnel number:", f"P-{2040 + i}"), ("Gross pay:", gross)))
    pdf.showPage()
    write_rows(pdf, (("Income tax:", tax), ("Net pay:", net), ("Paid on:", "31 May 2024")))


def billed(pdf, i, name):
    pdf.drawString(60, 780, f"Invoice K-{4400 + i}")
    write_rows(pdf, (("Customer:", name), ("Date:", "3 May 2024"), *zip(("Subtotal:", "VAT:", "Total:"), sums(i))))


def write_rows(pdf, rows, top=740):
    for k, (label, value) in enumerate(rows):
        pdf.drawString(60, top - 22 * k, label)
        pdf.drawString(260, top - 22 * k, value)


@pytest.fixture
def ask(tmp_path, capsys):
    "Makes a batch file and gives the answers of `cosee ask` about it."
    def run(layout, count, questions):
        pdf = Canvas(str(tmp_path / "pile.pdf"), invariant=1)
        for i, name in enumerate(NAMES[:count]):
            layout(pdf, i, name)
            pdf.showPage()
        pdf.save()
        asked = [arg for q in questions for arg in ("-q", q)]
        main(["ask", str(tmp_path / "pile.pdf"), *asked, "--json", "--quiet", "--client", "none"])
        return [found["answer"] for found in json.loads(capsys.readouterr().out)]
    return run


@pytest.mark.parametrize("layout, count", [
    (labelled, 30), (addressed, 30), (boxed, 6), (two_pages, 30), (two_pages, 5)])
def test_a_question_that_names_a_person_is_answered_from_that_persons_pages(ask, layout, count):
    people = 1, count - 2
    questions = [f"What is the net pay of {NAMES[people[0]]}?", f"How much is {NAMES[people[1]]}'s gross pay?"]
    assert ask(layout, count, questions) == [sums(people[0])[2], sums(people[1])[0]]


def test_a_code_names_a_record_too(ask):
    assert ask(billed, 30, ["What is the total of invoice K-4410?", "How much is the VAT of invoice K-4423?"]) == [
        sums(10)[2], sums(23)[1]]


@pytest.mark.parametrize("layout, count", [(labelled, 30), (boxed, 8), (two_pages, 30)])
def test_nobody_is_given_anothers_number(ask, layout, count):
    "A name that is not there, though both of its words are; one word of several names; nobody; a number of no one."
    questions = ["What is the net pay of Maria Garcia?", "What is the net pay of Karl Weber?",
                 "What is the net pay of Lopez?", "What is the net pay?", "What is the net pay of P-9999?"]
    assert ask(layout, count, questions) == [None] * len(questions)


def test_what_is_the_same_in_every_record_is_answered_without_a_name(ask):
    assert ask(billed, 30, ["What is the date?"]) == ["3 May 2024"]
