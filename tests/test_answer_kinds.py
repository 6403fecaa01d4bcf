"""Kinds of input between page text and answer that people report: small files in, the value or none out."""

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas
from cosee.minds.reader_client import OcrClient
from cosee.models.client import page_request
from cosee.pages import load_pages
from cosee.text.layout import typed_page
from typed_pages import InOrder

TOP = 760


@pytest.fixture(scope='module')
def client(): return OcrClient(cache=None, embeddings=False)


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
    client = OcrClient(words=InOrder([typed_page(t) for t in texts]), embeddings=False)
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
