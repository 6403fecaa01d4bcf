"""Kinds of input between page text and answer that people report: small files in, the value or none out."""

import pytest
from PIL import Image, ImageDraw
from reportlab.pdfgen.canvas import Canvas
from cosee.text.linearization import layout, write_page
from cosee.models.reader_client import OcrClient
from cosee.models.client import page_request
from cosee.pages import load_pages
from cosee.text.layout import typed_page
from typed_pages import InOrder

TOP = 760


@pytest.fixture(scope='module')
def client(): return OcrClient(cache=None)


def pdf(path, *pages, size=12):
    "A PDF whose pages are drawn by functions, or are rows of (x, text)"
    canvas = Canvas(str(path), invariant=1)
    for page in pages:
        canvas.setFont('Helvetica', size)
        if callable(page): page(canvas)
        else:
            for i, row in enumerate(page):
                for x, text in row: canvas.drawString(x, TOP - 24 * i, text)
        canvas.showPage()
    canvas.save()
    return path


def said(client, path, question):
    "What the client says; 'not answerable' where it is not sure"
    pages = load_pages(path)
    return client.respond(page_request(pages, question)).text.rpartition('Answer: ')[2]


def typed(question, *texts):
    "What is said about typed pages"
    client = OcrClient(words=InOrder([typed_page(t) for t in texts]))
    images = [Image.new('RGB', (20, 20))] * len(texts)
    return client.respond(page_request(images, question)).text.rpartition('Answer: ')[2]


UNITS = [[[(60, 'Inspection record')], [(60, f'Unit {n}')], [(60, 'Serial number:'), (300, f'SN-{7000 + 13 * n}')],
          [(60, 'Inspector:'), (300, 'R. Varga')]] for n in range(1, 101)]


@pytest.fixture(scope='module')
def hundred(tmp_path_factory): return pdf(tmp_path_factory.mktemp('units') / 'units.pdf', *UNITS)


@pytest.mark.parametrize('question, answer', [
    ('What is the serial number of unit 73?', 'SN-7949'), ('What is the serial number of unit 7?', 'SN-7091'),
    ('What is the serial number of unit 473?', 'not answerable'), ('Who is the inspector of unit 12?', 'R. Varga')])
def test_the_page_that_a_number_names(client, hundred, question, answer):
    assert said(client, hundred, question) == answer


def test_the_block_that_a_number_names():
    "The same with units below each other on one page"
    page = '\n\n'.join(f'Unit {n}\nSerial number:   SN-{70 + n}\nWeight:   {n} kg' for n in range(1, 6))
    assert typed('What is the serial number of unit 4?', page) == 'SN-74'
    assert typed('What is the serial number of unit 9?', page) == 'not answerable'


def scan(path, file):
    "The first page of a PDF as a scan: a picture and nothing else"
    load_pages(file)[0].convert('L').save(path)
    return path


def both(client, tmp_path, question, page):
    "What is said of a drawn page, and of its scan"
    file = pdf(tmp_path / 'page.pdf', page)
    return said(client, file, question), said(client, scan(tmp_path / 'page.png', file), question)


# ---- check boxes

def boxes(*rows, tick='cross'):
    "A page of labels with a box for yes and one for no"
    def draw(canvas):
        for i, (label, states) in enumerate(rows):
            y = TOP - 30 * i
            canvas.drawString(60, y, label)
            for x, word, on in zip((330, 430), ('Yes', 'No'), states):
                canvas.rect(x, y - 1, 11, 11)
                canvas.drawString(x + 18, y, word)
                if on and tick == 'cross': canvas.lines([(x + 2, y + 1, x + 9, y + 8), (x + 2, y + 8, x + 9, y + 1)])
                elif on: canvas.lines([(x + 2, y + 4, x + 5, y), (x + 5, y, x + 14, y + 14)])
    return draw


FORM = ('Smoker:', (0, 1)), ('Married:', (1, 0)), ('Insured:', (0, 0))


@pytest.mark.parametrize('tick', ['cross', 'tick'])
def test_boxes_that_are_drawn(client, tmp_path, tick):
    page = boxes(*FORM, tick=tick)
    assert both(client, tmp_path, 'Is the person a smoker?', page) == ('No', 'No')
    assert both(client, tmp_path, 'Is the person married?', page) == ('Yes', 'Yes')
    assert both(client, tmp_path, 'Is the person insured?', page) == ('not answerable',) * 2


def test_fields_of_a_form(client, tmp_path):
    def draw(canvas):
        for i, (label, states) in enumerate(FORM):
            y = TOP - 30 * i
            canvas.drawString(60, y, label)
            for x, word, on in zip((330, 430), ('Yes', 'No'), states):
                canvas.acroForm.checkbox(name=f'{label}{word}', checked=bool(on), x=x, y=y - 3, size=14)
                canvas.drawString(x + 20, y, word)
    file = pdf(tmp_path / 'form.pdf', draw)
    assert [said(client, file, f'Is the person {a}?') for a in ('a smoker', 'married', 'insured')] == \
        ['No', 'Yes', 'not answerable']
    assert '☒ No' in [line['text'] for line in client.document(load_pages(file)).pages[0]['lines']]


@pytest.mark.parametrize('row, answer', [
    ('Smoker: [x] No [ ] Yes', 'No'), ('Smoker:   [ ] Yes   [X] No', 'No'), ('Smoker:   ☐ Yes   ☒ No', 'No'),
    ('Smoker:   ☑ Yes   ☐ No', 'Yes'), ('Smoker:   [ ] Yes   [ ] No', 'not answerable'),
    ('Smoker:   ☐ Yes   ☐ No', 'not answerable'), ('Smoker:   Yes   No', 'not answerable'),
    ('Smoker:   No', 'No')])
def test_boxes_in_print(row, answer):
    assert typed('Is the person a smoker?', f'Travel form\n{row}\nName:   R. Varga') == answer


def test_letters_are_no_boxes():
    from cosee.text.layout import find_boxes
    page = Image.new('L', (1000, 300), 'white')
    for i, text in enumerate(('D O o 0 B 8 Q', 'Do On DO OD BOB 0 D')):
        ImageDraw.Draw(page).text((40, 40 + 90 * i), text, fill=0, font_size=22 + 30 * i)
    assert find_boxes(page) == []


# ---- turned blocks, columns, rows

TABLE = ('Depot', 'Pallets', 'Vans'), ('Aldern', '412', '7'), ('Brixby', '388', '5'), ('Corley', '1,045', '12')


def with_table(turn):
    "Upright lines and a table that is turned"
    def draw(canvas):
        for i, text in enumerate(('This annex lists all depots of the company.', 'Annex number: 7')):
            canvas.drawString(60, TOP - 24 * i, text)
        canvas.translate(300, 400)
        canvas.rotate(turn)
        for i, row in enumerate(TABLE):
            for j, text in enumerate(row): canvas.drawString(110 * j - 160, 40 - 24 * i, text)
    return draw


@pytest.mark.parametrize('turn', [0, 90, 180, 270])
def test_a_table_that_is_turned(client, tmp_path, turn):
    file = pdf(tmp_path / 'annex.pdf', with_table(turn))
    assert said(client, file, 'How many vans are there in Brixby?') == '5'
    assert said(client, file, 'What is the annex number?') == '7'
    page = client.words.read(load_pages(file))[0]
    assert 'Brixby | 388 | 5' in write_page(layout(page), 1, 'plain').text.split('\n')


def test_a_scan_of_a_table_that_stands(client, tmp_path):
    file = pdf(tmp_path / 'annex.pdf', with_table(90))
    shown = scan(tmp_path / 'annex.png', file)
    assert said(client, shown, 'How many pallets are there in Corley?') == '1,045'


def test_columns_of_text(client, tmp_path):
    left = ('The mill was built by the county', 'in spring. The height of the dam is', '41 metres, less than planned.')
    right = ('The bridge was built by the port', 'office in June. Its wall was', '17 metres high, but fell in May.')
    page = [[(60, a), (320, b)] for a, b in zip(left, right)]
    assert said(client, pdf(tmp_path / 'columns.pdf', page), 'What is the height of the dam?') == '41 metres'


def test_a_sentence_behind_a_firm():
    text = 'The walls of the port were built\nby Kvist & Co. The captain of the\nferry is Oskar Reeve, a sailor.'
    assert typed('Who is the captain of the ferry?', text).startswith('Oskar Reeve')


def test_a_row_label_that_is_printed_once(client, tmp_path):
    rows = ('Branch', 'Day', 'Opens'), ('Elmgate', 'Monday', '08:30'), ('', 'Saturday', '09:15'), \
        ('Quayside', 'Monday', '07:45'), ('', 'Saturday', '10:00')
    file = pdf(tmp_path / 'hours.pdf', [[(60 + 130 * j, t) for j, t in enumerate(row) if t] for row in rows])
    assert said(client, file, 'When does the Quayside branch open on Saturday?') == '10:00'
    assert said(client, file, 'When does the Elmgate branch open on Saturday?') == '09:15'


# ---- amounts, addresses

@pytest.mark.parametrize('amount', ['3.379,60 EUR', "CHF 3'070.05", 'CHF 3’070.05', '14.279,81 €', 'EUR 3 379.60',
                                    '8.450,00 kr', 'JPY 31,240', '2,189.60 EUR', '$2,189.60'])
def test_amounts_as_they_are_printed(amount):
    page = f'Invoice\nQuantity:   12\nSubtotal:   1.00\nVAT:   0.20\nTotal due:   {amount}'
    assert typed('What is the total due?', page) == amount


def test_a_space_that_does_not_break(client, tmp_path):
    rows = ('Quantity:', '12'), ('VAT:', 'EUR 539.60'), ('Total due:', 'EUR 3\u00a0379.60')
    file = pdf(tmp_path / 'bill.pdf', [[(60, 'Invoice')], *([(60, a), (330, b)] for a, b in rows)])
    assert said(client, file, 'What is the total due?') == 'EUR 3 379.60'


def test_two_addresses_side_by_side(client, tmp_path):
    rows = ('Bill to:', 'Ship to:'), ('Kestrel Foods Ltd', 'Kestrel Depot 3'), ('14 Mill Lane', '2 Dock Road'), \
        ('Norwich NR3 1AB', 'Felixstowe IP11 4QX')
    page = [[(60, 'Delivery note 5512')], *([(60, a), (330, b)] for a, b in rows)]
    file = pdf(tmp_path / 'note.pdf', page)
    assert said(client, file, 'What is the shipping address?') == \
        'Kestrel Depot 3, 2 Dock Road, Felixstowe IP11 4QX'
    assert said(client, file, 'What is the billing address?') == 'Kestrel Foods Ltd, 14 Mill Lane, Norwich NR3 1AB'
