"""What people ask of receipts, letters and reports, from the outside: pages in, an answer or none out."""
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageDraw, ImageFont
from cosee.models.client import build_messages
from cosee.ocr.client import OcrClient
from cosee.ocr.engine import WordReader
from cosee.ocr.reader import CALIBRATION, Reader, calibrated
from cosee.ocr.spans import typed_page
from typed_pages import InOrder


def said(question, *texts):
    "What the client says to a question about typed pages"
    client = OcrClient(words=InOrder([typed_page(t) for t in texts]), embeddings=False)
    images = [Image.new('RGB', (20, 20))] * len(texts)
    return client.chat(build_messages(images, f'Question: {question}')).text.rpartition('Answer: ')[2]


RECEIPT = '''
   HILLTOP HARDWARE
  TRADING SDN BHD
    (812345-X)
  NO. 7, JALAN MERANTI 2,
  47100 PUCHONG
  TEL: 03-5551234
  TAX INVOICE
  12/03/2018 10:25
  Nails 2 kg          7.02
  Sub total           7.02
  Total            RM 7.02
  Rounding           -0.02
  Rounded total       7.00
  Cash               10.00
  Change              3.00
  GST Summary   Amount    Tax
  Total           6.62   0.40
'''


@pytest.mark.parametrize('question, answer', [
    ('What is the total amount of the receipt?', '7.00'),
    ('What is the date of the receipt?', '12/03/2018'),
    ('What is the name of the company that issued the receipt?', 'HILLTOP HARDWARE TRADING SDN BHD'),
    ('What is the address of the company that issued the receipt?', 'NO. 7, JALAN MERANTI 2, 47100 PUCHONG')])
def test_a_receipt(question, answer): assert said(question, RECEIPT) == answer


@pytest.mark.parametrize('question', ['Who is the patient?', 'What is the email address of the customer?'])
def test_what_a_receipt_does_not_say(question): assert said(question, RECEIPT) == 'not answerable'


def test_a_drawn_receipt():
    "The same through OCR, with the box of the sum that was paid"
    image = Image.new('RGB', (520, 760), 'white')
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(24)
    for i, line in enumerate(RECEIPT.strip('\n').split('\n')):
        draw.text((30, 20 + 40 * i), line[:17].strip(), 'black', font)
        draw.text((340, 20 + 40 * i), line[17:].strip(), 'black', font)
    found = Reader(WordReader(cache=False).read([image])).answer('What is the total amount of the receipt?')
    x0, y0, x1, y1 = found['bbox']
    assert found['answer'] == '7.00' and 0.6 < x0 < x1 < 0.8
    assert y0 * 760 - 12 < 20 + 40 * 12 + 12 < y1 * 760 + 12


CONTENTS = '''
  Contents
  1 Letter to shareholders ......... 4
  2 Revenue ........................ 17
  3 Outlook ........................ 29
  4 Index .......................... 88
'''
REPORT = 'Results of the year\n\nRevenue: 412 million euros\nEmployees: 1,204'


def test_a_line_of_contents_is_no_answer():
    assert said('What is the revenue?', CONTENTS) == 'not answerable'
    assert said('What is the revenue?', CONTENTS, REPORT) == '412 million euros'


def test_a_line_of_contents_says_where():
    assert said('On which page does Revenue begin?', CONTENTS, REPORT) == '17'


def test_prices_behind_dots_are_answers():
    menu = 'Drinks\n\nCoffee ............... 3.20\nTea .................. 2.50\nWater ................ 1.00'
    assert said('What is the price of tea?', menu) == '2.50'


def test_running_heads_and_page_numbers_are_no_answers():
    pages = [f'Annual report: 2019\n\n\n\n\nPart {n}: text\n\n\n\n\n\n\n\n\n\n\n{n}' for n in (1, 2, 3, 4)]
    facts = Reader([typed_page(p) for p in pages]).facts
    assert {f['page'] for f in facts if f['value'] == '2019'} == {1}


RECHNUNG = '''
  Tischlerei Amsel GmbH
  Gartenstraße 12
  04109 Leipzig

  Rechnungsnummer: R-2023-118
  Rechnungsdatum: 04.05.2023
  Fällig am: 18.05.2023

  Nettobetrag: 400,00 €
  Mehrwertsteuer: 76,00 €
  Gesamtbetrag: 476,00 €
'''
LETTRE = '''
  Cabinet Moreau SARL
  8 rue des Lilas

  Numéro de facture : F-204
  Date d'échéance : 30/06/2023
  Montant total : 1 250,00 €
'''


@pytest.mark.parametrize('question, answer, page', [
    ('Wie hoch ist der Gesamtbetrag?', '476,00 €', RECHNUNG),
    ('Wie lautet die Rechnungsnummer?', 'R-2023-118', RECHNUNG),
    ('What is the invoice number?', 'R-2023-118', RECHNUNG), ('What is the total amount?', '476,00 €', RECHNUNG),
    ('Wann ist die Rechnung fällig?', '18.05.2023', RECHNUNG),
    ('Quel est le montant total ?', '1 250,00 €', LETTRE), ('Quel est le numéro de facture ?', 'F-204', LETTRE),
    ("Quelle est la date d'échéance ?", '30/06/2023', LETTRE)])
def test_german_and_french(question, answer, page): assert said(question, page) == answer


@given(st.fixed_dictionaries({k: st.floats(0, 1) for k in ('cover', 'label', 'lead', 'placed', 'prose', 'many')}),
       st.booleans())
@settings(max_examples=100, deadline=None)
def test_confidence_is_never_above_its_table(seen, encoder):
    "More evidence never makes the table less sure, and none is beyond all evidence of its kind"
    weights = CALIBRATION[encoder]
    best = {k: float(weights.get(k, 0) > 0) for k in seen}
    assert 0 < calibrated(seen, weights) <= calibrated(best, weights) <= 0.99


def test_an_answer_is_never_surer_than_the_table():
    from cosee.ocr.reader import evidence
    reader = Reader([typed_page(RECEIPT)])
    for question in ('What is the total amount of the receipt?', 'Who is the patient?', 'What is the date?'):
        ranked, found = reader.candidates(question, 8), reader.answer(question)
        assert found['confidence'] <= round(calibrated(evidence(ranked, len(reader.facts)), CALIBRATION[False]), 3)


MANUAL = """
OPTIONS
  -a, --all              do not ignore entries starting with .
  -r, --reverse          reverse order while sorting
  -s                     print the size of each file
  -S                     sort by file size, largest first
  --retries=NUMBER       set the number of retries; the default is 20
"""
LOOSE_MANUAL = """
OPTIONS

  -o FILE
      Write output to FILE instead of standard output.

  -S  sort by file size,
      largest first

  Author: Jane Roe
"""


@pytest.mark.parametrize('question, answer, page', [
    ('What does the option -S do?', 'sort by file size, largest first', MANUAL),
    ('What does -s do?', 'print the size of each file', MANUAL),
    ('What does --all do?', 'do not ignore entries starting with .', MANUAL),
    ('Was macht die Option -r?', 'reverse order while sorting', MANUAL),
    ('Which option reverses the order?', '-r, --reverse', MANUAL),
    ('How many retries does --retries set by default?', '20', MANUAL),
    ('What does the option -S do?', 'sort by file size, largest first', LOOSE_MANUAL),
    ('Which option writes the output to a file?', '-o FILE', LOOSE_MANUAL),
    ('Who is the author?', 'Jane Roe', LOOSE_MANUAL)])
def test_lists_of_options(question, answer, page): assert said(question, page) == answer


@pytest.mark.parametrize('question', [
    'What does the option -x do?', 'What does --color do?', 'Which flag sends mail?'])
def test_an_option_that_is_not_listed(question): assert said(question, MANUAL) == 'not answerable'


def test_a_list_of_options_is_pointed_at():
    found = Reader([typed_page(MANUAL)]).answer('What does -S do?')
    x0, y0, x1, y1 = found['bbox']
    assert .3 < x0 < x1 < .9 and .5 < y0 < y1 < .75


@given(st.text(alphabet='-–—aA?xS= ,|[]<>FILE\n', max_size=200))
def test_anything_that_looks_like_options_is_read(text): Reader([typed_page(text or ' ')]).answer('What does -a do?')
