"Kinds of pages that people report: what is covered, switched off, struck, raised, or drawn on a strange ground."

import pytest
from PIL import Image, ImageDraw, ImageFont

from cosee.pages import load_pages, open_image
from cosee.text.ocr import TextExtractor
from test_layer import Pdf, say


@pytest.fixture(scope="module")
def reader(): return TextExtractor(workers=1, cache=None)


def read(path, reader, **kw):
    with load_pages(path) as pages: return reader.read([pages.info(1)], **kw)[0]


def texts(page): return [line["text"] for line in page["lines"]]


def picture(text, ink, ground, mode, size=(600, 120)):
    "A picture with a line of print"
    im = Image.new(mode, size, ground)
    ImageDraw.Draw(im).text((30, 30), text, fill=ink, font=ImageFont.load_default(44))
    return im


@pytest.mark.parametrize("ink", [(0, 0, 0, 255), (255, 255, 255, 255), (235, 235, 210, 255)])
def test_print_on_a_clear_ground(tmp_path, reader, ink):
    picture("Delivery note 50938", ink, (0, 0, 0, 0), "RGBA").save(tmp_path / "a.png")
    assert "50938" in " ".join(texts(read(tmp_path / "a.png", reader)))


def test_clear_corners_stay_white():
    im = Image.new("RGBA", (100, 80), (250, 250, 250, 255))
    im.paste((0, 0, 0, 0), (0, 0, 10, 10))
    assert open_image(im).getpixel((0, 0)) == (255, 255, 255)


def test_pixels_of_a_fax_are_made_square(tmp_path):
    fax = picture("Sent at 10:42", "black", "white", "RGB").convert("1").resize((600, 60))
    fax.save(tmp_path / "fax.tif", dpi=(204, 102))
    fax.save(tmp_path / "square.tif", dpi=(200, 200))
    fax.save(tmp_path / "unknown.tif")
    sizes = {}
    for name in "fax", "square", "unknown":
        with load_pages(tmp_path / f"{name}.tif") as pages:
            assert pages.sizes == [pages[0].size]
            sizes[name] = pages[0].size
    assert sizes == {"fax": (600, 120), "square": (600, 60), "unknown": (600, 60)}


class Sheet:
    "A PDF of one page by reportlab; lines of print 40 points apart"
    def __init__(self, path):
        from reportlab.pdfgen.canvas import Canvas
        self.path, self.canvas = path, Canvas(str(path), pagesize=(400, 300))
        self.canvas.setFont("Helvetica", 12)

    def print(self, *rows):
        for n, text in enumerate(rows): self.canvas.drawString(40, 240 - 40 * n, text)
        return self

    def box(self, n, colour, inset=0., **kw):
        "A box over the print of row `n`, which is smaller by `inset` points"
        from reportlab.lib.colors import HexColor
        self.canvas.setFillColor(HexColor(colour))
        wide = self.canvas.stringWidth("Salary 81,450 EUR", "Helvetica", 12)
        self.canvas.rect(40 + inset, 237 - 40 * n + inset, wide - 2 * inset, 12 - 2 * inset, stroke=0, fill=1, **kw)
        return self

    def save(self):
        self.canvas.save()
        return self.path


ROWS = "Name R. Lindqvist", "Salary 81,450 EUR", "Office 14 North"


@pytest.mark.parametrize("colour", ["#000000", "#ffffff", "#000080", "#fff060", "#808080"])
def test_covered_print_is_not_on_the_page(tmp_path, reader, colour):
    page = read(Sheet(tmp_path / "a.pdf").print(*ROWS).box(1, colour).save(), reader)
    assert texts(page) == [ROWS[0], ROWS[2]] and "3 words that cannot be seen" in page["why"]


@pytest.mark.parametrize("colour, ink", [("#000000", 1), ("#fff060", 0), ("#ffffff", 0)])
def test_print_on_a_box_is_read(tmp_path, reader, colour, ink):
    sheet = Sheet(tmp_path / "a.pdf").print(ROWS[0], ROWS[1]).box(1, colour)
    sheet.canvas.setFillGray(ink)
    sheet.canvas.drawString(40, 200, "Salary 64,200 EUR")
    assert texts(read(sheet.save(), reader)) == [ROWS[0], "Salary 64,200 EUR"]


def test_print_in_the_colour_of_its_box(tmp_path, reader):
    sheet = Sheet(tmp_path / "a.pdf").print(ROWS[0]).box(1, "#000000")
    sheet.canvas.drawString(40, 200, ROWS[1])
    assert texts(read(sheet.save(), reader)) == [ROWS[0]]


def test_most_letters_have_to_show(tmp_path, reader):
    for width, shown in (12, True), (90, False):
        sheet = Sheet(tmp_path / f"{width}.pdf").print(ROWS[0])
        sheet.canvas.drawString(40, 200, "NX-4471-902-118")
        sheet.canvas.rect(40, 195, width, 16, stroke=0, fill=1)
        assert ("NX-4471-902-118" in texts(read(sheet.save(), reader, print="text"))) == shown


def test_a_layer_that_is_off(tmp_path, reader):
    pdf = Pdf()
    on, off = (pdf.add(f"<< /Type /OCG /Name ({name}) >>") for name in ("new", "old"))
    pdf.page(say(ROWS[0]) + "/OC /Off BDC " + say("Price 44.90 EUR", y=100) + "EMC /OC /On BDC "
             + say("Price 51.30 EUR", y=100) + "EMC")
    layers = f"/Resources << /Properties << /On {on} 0 R /Off {off} 0 R >> ".encode()
    pdf.objects[-1] = pdf.objects[-1].replace(b"/Resources << ", layers)
    f = pdf.save(tmp_path / "a.pdf", f"/OCProperties << /OCGs [{on} 0 R {off} 0 R] /D << /OFF [{off} 0 R] >> >>")
    assert " ".join(texts(read(f, reader))) == f"{ROWS[0]} Price 51.30 EUR"


def test_a_bar_on_a_scan_with_a_layer(tmp_path, reader):
    "The layer still says what the bar hides"
    from reportlab.lib.utils import ImageReader
    rows = "Delivery note number 48213", "Salary of the driver 81450", "Fourteen boxes of green apples"
    im = Image.new("RGB", (1600, 1200), "white")
    draw = ImageDraw.Draw(im)
    for n, text in enumerate(rows): draw.text((160, 200 + 160 * n), text, fill="black", font=ImageFont.load_default(48))
    draw.rectangle((150, 355, 900, 425), fill="black")
    sheet = Sheet(tmp_path / "a.pdf")
    sheet.canvas.drawImage(ImageReader(im), 0, 0, 400, 300)
    for n, text in enumerate(rows):
        layer = sheet.canvas.beginText(40, 239 - 40 * n)
        layer.setTextRenderMode(3)
        layer.textOut(text)
        sheet.canvas.drawText(layer)
    said = " ".join(texts(read(sheet.save(), reader)))
    assert "48213" in said and "green apples" in said and "81450" not in said
