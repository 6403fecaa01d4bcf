"""Scans that lie askew: the value of the same row or none, at its place on the page as it is drawn."""
import math
import pytest
from hypothesis import given, strategies as st
from PIL import Image, ImageDraw, ImageFont
from cosee.text.ocr import TextExtractor
from cosee.pages import load_pages
from cosee.retrieval.index import PageIndex, find_headings
from cosee.text.facts import below_facts, right_facts
from cosee.text.layout import page_rows, page_spans
from cosee.text.page_text import PageText, TextLine, drawn_box, read_box, skew_angle, slant_page, upright, valid_page
from raw_pdf import Pdf
from typed_pages import InOrder
from cosee.text.reader import Reader

FORM = [('Customer', 'Harbour Mills'), ('Order number', 'HM-50713'), ('Subtotal', '1,310.00 EUR'),
        ('VAT (21 %)', '275.10 EUR'), ('Amount due', '1,585.10 EUR'), ('Due date', '14 March 2025')]
TABLE = [('Branch', 'Orders', 'Boats', 'Crew'), ('Ellwick', '214', '7', '31'), ('Farnby', '1,388', '12', '58'),
         ('Gorsea', '967', '9', '40'), ('Hethon', '455', '5', '22')]
RECEIPT = [('TEA', '2.40'), ('BREAD ROLL', '1.10'), ('ORANGES', '3.75'), ('SUBTOTAL', '7.25'),
           ('DISCOUNT', '-0.75'), ('TOTAL', '6.50'), ('CASH', '10.00'), ('CHANGE', '3.50')]
KINDS = dict(   # rows, left edges, distance of rows, size of letters, page; questions with their answers
    form=(FORM, (90, 420), 48, 22, (850, 1100),
          {'What is the subtotal?': '1,310.00 EUR', 'What is the amount due?': '1,585.10 EUR'}),
    landscape=(FORM, (90, 480), 44, 22, (1100, 850),
               {'What is the subtotal?': '1,310.00 EUR', 'What is the amount due?': '1,585.10 EUR'}),
    table=(TABLE, (90, 320, 480, 640), 46, 22, (850, 1100),
           {'How many orders does Farnby have?': '1,388', 'How many boats does Gorsea have?': '9'}),
    receipt=(RECEIPT, (60, 370), 38, 20, (520, 800),
             {'What is the total?': '6.50', 'How much cash was given?': '10.00'}))


@pytest.fixture(scope='module')
def extractor(): return TextExtractor(cache=None, workers=1)


def draw(kind):
    rows, edges, step, height, size, _ = KINDS[kind]
    page, font = Image.new('RGB', size, 'white'), ImageFont.load_default(height)
    for i, row in enumerate(rows):
        for x, text in zip(edges, row): ImageDraw.Draw(page).text((x, 110 + i * step), text, fill='black', font=font)
    return page


def turn(page, degrees): return page.rotate(-degrees, Image.Resampling.BICUBIC, fillcolor='white')   # clockwise


def place(kind, text, degrees):
    "The middle of what is printed, 0-1, on the turned page"
    rows, edges, step, height, (w, h), _ = KINDS[kind]
    row = next(i for i, cells in enumerate(rows) if text in cells)
    left, top, right, bottom = ImageFont.load_default(height).getbbox(text)
    x = edges[rows[row].index(text)] + (left + right) / 2 - w / 2
    y = 110 + row * step + (top + bottom) / 2 - h / 2
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return .5 + (x * c - y * s) / w, .5 + (x * s + y * c) / h


def check(kind, degrees, extractor):
    "Right values, at their places"
    page, = extractor.read([turn(draw(kind), degrees)])
    assert page['size'] == [*KINDS[kind][4]]
    w, h = page['size']
    assert math.degrees(math.atan(page['skew'] * h / w)) == pytest.approx(degrees, abs=.6)
    reader = Reader([page])
    for question, right in KINDS[kind][5].items():
        found = reader.answer(question)
        assert found is not None and found['answer'] == right, (question, found)
        x, y = place(kind, right, degrees)
        x0, y0, x1, y1 = found['bbox']
        assert x0 < x < x1 and y0 < y < y1 and y1 - y0 < .06
    return page


@pytest.mark.parametrize('kind, degrees', [('form', -5), ('table', 3), ('receipt', 10), ('landscape', 2)])
def test_values_of_their_own_rows(kind, degrees, extractor): check(kind, degrees, extractor)


@pytest.mark.slow
@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('degrees', [-10, -7, -3, -2, -1, 1, 2, 4, 5, 7, 10])
def test_every_slope(kind, degrees, extractor): check(kind, degrees, extractor)


@pytest.mark.parametrize('kind', ['form', 'receipt'])
def test_straight_pages_have_no_skew(kind, extractor):
    page = check(kind, 0, extractor)
    assert page['skew'] == 0 and upright(page) is page and not any('apart' in l for l in page['lines'])


# --- too little print to know the slope ---


@pytest.mark.parametrize('degrees', [4, 8])
def test_no_pairs_where_the_slope_is_not_known(degrees, extractor):
    "Two words of a few letters, at some distance: their neighbours are not known"
    page, font = Image.new('RGB', (850, 400), 'white'), ImageFont.load_default(24)
    for at, text in {(60, 100): 'Net', (700, 100): '12', (60, 150): 'Tax', (700, 150): '3'}.items():
        ImageDraw.Draw(page).text(at, text, fill='black', font=font)
    read, = extractor.read([turn(page, degrees)])
    spans = page_spans(upright(read))
    if read['skew']: pytest.fail('so little print does not tell how it lies')
    assert spans and all(l.get('apart') for l in read['lines']) and valid_page(read)
    assert all(len(row) == 1 for row in page_rows(spans)) and not below_facts(spans)
    assert not [f for row in page_rows(spans) for f in right_facts(row)]
    answer = Reader([read]).answer('What is the tax?')
    assert answer is None or answer['answer'] != '12'


# --- from the page as it is drawn to the page as it is read, and back ---


@given(st.floats(-25, 25), st.sampled_from([0, 90, 180, 270]), st.floats(.25, .5), st.floats(.3, .6),
       st.floats(.05, .2), st.floats(.01, .04))
def test_boxes_come_back(degrees, turned, left, top, wide, high):
    size = (1000, 1400) if turned in (0, 180) else (1400, 1000)   # as it is drawn; upright it is 1000 wide
    skew = math.tan(math.radians(degrees)) * 1000 / 1400
    page = PageText(size=[*size], skew=skew, source='ocr', turned=turned, lines=[])
    level = left, top, left + wide, top + high
    assert math.degrees(skew_angle(skew, (1000, 1400))) == pytest.approx(degrees)
    assert read_box(drawn_box(level, size, turned, skew), page) == pytest.approx(level, abs=.003)


@pytest.mark.parametrize('degrees', [-9, 6])
def test_words_keep_their_places(degrees):
    line = TextLine(text='Amount due', score=1., bbox=[.2, .4, .5, .43], words=[[.2, .33], [.36, .5]])
    page = PageText(size=[800, 1000], skew=0., source='ocr', turned=0, lines=[line])
    angle = math.radians(degrees)
    level = upright(slant_page(page, (800, 1000), angle, angle))
    (x0, x1), (x2, x3) = ([v * level['size'][0] for v in edges] for edges in level['lines'][0]['words'])
    assert [x1 - x0, x2 - x1, x3 - x2] == pytest.approx([.13 * 800, .03 * 800, .14 * 800], abs=2)


@pytest.mark.parametrize('degrees', [-6, 4])
def test_a_pdf_whose_own_text_lies_askew(degrees, tmp_path):
    "No picture, so no OCR: the same values"
    c, s = math.cos(math.radians(degrees)), -math.sin(math.radians(degrees))   # PDF counts upwards
    content = ''
    for i, row in enumerate(FORM):
        for x, text in zip((60, 300), row):
            text, y = text.replace('(', '\\(').replace(')', '\\)'), 250 - 26 * i
            at = f'{c:.5f} {s:.5f} {-s:.5f} {c:.5f} {x * c - y * s + 30:.2f} {x * s + y * c + 60:.2f}'
            content += f'BT /F 12 Tf {at} Tm ({text}) Tj ET\n'
    file = Pdf().page(content, size=(595, 420)).save(tmp_path / 'askew.pdf')
    extractor = TextExtractor(cache=None, workers=1)
    with load_pages(file) as pages: page, = extractor.read(pages)
    assert page['source'] == 'text' and not extractor.counts['ocr'] and page['skew']
    reader = Reader([page])
    for question, right in KINDS['form'][5].items(): assert reader.answer(question)['answer'] == right


def test_headings_are_set_larger_not_longer():
    "The box around a long line that sinks is high; its letters are not"
    texts = ['Harbour report', *(' '.join(['rather long line of plain text'] * (1 + i % 2)) for i in range(8))]
    lines = [TextLine(text=t, score=1., words=[[.1, .1]] * len(t.split()),
                      bbox=[.1, .1 + .06 * i, .1 + .012 * len(t), .1 + .06 * i + (.02 if i else .035)])
             for i, t in enumerate(texts)]
    level = PageText(size=[1000, 1400], skew=0., source='ocr', turned=0, lines=lines)
    angle = math.radians(7)
    index = PageIndex([object()], words=InOrder([slant_page(level, (1000, 1400), angle, angle)]))
    index.read()
    assert find_headings(index.lines_of(1)) == [0]
