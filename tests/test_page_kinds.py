"Kinds of pages that people report: what is covered, switched off, struck, raised, or drawn on a strange ground."

import cosee
import pytest
from PIL import Image, ImageDraw, ImageFont

from cosee.pages import load_pages, open_image
from cosee.text.layout import page_paragraphs, page_spans, paragraph_text, typed_page
from cosee.text.ocr import TextExtractor
from cosee.text.page_text import valid_page
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


def scan_with_layer(path, drawn, said, bar=None):
    "A drawn page with an invisible layer of text"
    from reportlab.lib.utils import ImageReader
    im = Image.new("RGB", (1600, 1200), "white")
    for n, text in enumerate(drawn):
        ImageDraw.Draw(im).text((160, 200 + 160 * n), text, fill="black", font=ImageFont.load_default(48))
    if bar: ImageDraw.Draw(im).rectangle(bar, fill="black")
    sheet = Sheet(path)
    sheet.canvas.drawImage(ImageReader(im), 0, 0, 400, 300)
    for n, text in enumerate(said):
        layer = sheet.canvas.beginText(40, 239 - 40 * n)
        layer.setTextRenderMode(3)
        layer.textOut(text)
        sheet.canvas.drawText(layer)
    return sheet.save()


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


def test_what_a_bar_says_of_itself_is_no_value(tmp_path, reader):
    sheet = Sheet(tmp_path / "a.pdf").print(*ROWS).box(1, "#000000")
    sheet.canvas.setFillGray(1)
    sheet.canvas.setFont("Helvetica", 7)
    sheet.canvas.drawString(50, 201, "(b)(6) exempt")
    page = read(sheet.save(), reader)
    assert "(b)(6) exempt" in texts(page) and "exempt" not in " ".join(s["text"] for s in page_spans(page))


def test_a_label_whose_value_is_crossed_out_has_none(tmp_path):
    sheet = Sheet(tmp_path / "a.pdf").print("List price:", "New price:", "Warranty:")
    for n, value in enumerate(("349.00 EUR", "279.00 EUR", "24 months")):
        sheet.canvas.drawString(200, 240 - 40 * n, value)
    sheet.canvas.line(198, 244, 265, 244)
    path = sheet.save()
    assert cosee.ask(path, "What is the list price?", client="ocr")["answer"] == "not answerable"
    assert cosee.ask(path, "What is the new price?", client="ocr")["answer"] == "279.00 EUR"


def test_print_in_the_colour_of_its_box(tmp_path, reader):
    sheet = Sheet(tmp_path / "a.pdf").print(ROWS[0]).box(1, "#000000")
    sheet.canvas.drawString(40, 200, ROWS[1])
    assert texts(read(sheet.save(), reader)) == [ROWS[0]]


def test_most_letters_have_to_show(tmp_path, reader):
    for width, shown in (12, True), (90, False):
        sheet = Sheet(tmp_path / f"{width}.pdf").print(ROWS[0])
        sheet.canvas.drawString(40, 200, "NX-4471-902-118")
        sheet.canvas.rect(40, 195, width, 16, stroke=0, fill=1)
        assert ("NX-4471-902-118" in texts(read(sheet.save(), reader, text_source="text"))) == shown


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
    rows = "Delivery note number 48213", "Salary of the driver 81450", "Fourteen boxes of green apples"
    f = scan_with_layer(tmp_path / "a.pdf", rows, rows, bar=(150, 355, 900, 425))
    said = " ".join(texts(read(f, reader)))
    assert "48213" in said and "green apples" in said and "81450" not in said


@pytest.mark.parametrize("how", ["line", "box"])
def test_print_that_is_crossed_out(tmp_path, reader, how):
    "And what is underlined, or stands beside a rule of a table, is not"
    sheet = Sheet(tmp_path / "a.pdf").print("Price 349.00", "Deposit 20.00", "Weight 4.5 kg")
    c, wide = sheet.canvas, sheet.canvas.stringWidth("Price 349.00", "Helvetica", 12)
    if how == "line": c.line(38, 244, 42 + wide, 244)
    else: c.rect(40, 243.5, wide, 0.8, stroke=0, fill=1)
    c.line(40, 198, 40 + wide, 198)
    c.line(10, 164, 390, 164)
    page = read(sheet.save(), reader)
    assert texts(page) == ["Price 349.00", "Deposit 20.00", "Weight 4.5 kg"]
    assert [line.get("struck", False) for line in page["lines"]] == [True, False, False]
    assert valid_page(page) and "Price" not in " ".join(s["text"] for s in page_spans(page))


def test_the_struck_part_of_a_line_stands_apart(tmp_path, reader):
    sheet = Sheet(tmp_path / "a.pdf").print("Now 349.00 279.00 EUR")
    left, wide = (sheet.canvas.stringWidth(text, "Helvetica", 12) for text in ("Now ", "349.00"))
    sheet.canvas.line(40 + left, 244, 40 + left + wide, 244)
    lines = read(sheet.save(), reader)["lines"]
    assert [(line["text"], line.get("struck", False)) for line in lines] == [
        ("Now", False), ("349.00", True), ("279.00 EUR", False)]


@pytest.mark.parametrize("base, mark, rest, said", [
    ("1,871", "2", "", "1,871 ²"), ("340", "4", " people", "340 ⁴ people"), ("14.0%", "(3)", "", "14.0% ⁽³⁾"),
    ("56", "b", "", "56 ᵇ"), ("Revenue", "1", "", "Revenue ¹"), ("75 m", "3", " of oil", "75 m³ of oil"),
    ("2.5 km", "2", "", "2.5 km²"), ("3 × 10", "6", "", "3 × 10⁶"), ("the 4", "th", " floor", "the 4th floor")])
def test_raised_marks(tmp_path, reader, base, mark, rest, said):
    sheet = Sheet(tmp_path / "a.pdf")
    text = sheet.canvas.beginText(40, 200)
    for size, rise, part in (12, 0, base), (7, 5, mark), (12, 0, rest):
        text.setFont("Helvetica", size)
        text.setRise(rise)
        if part: text.textOut(part)
    sheet.canvas.drawText(text)
    page = read(sheet.save(), reader, text_source="text")
    assert texts(page) == [said] and valid_page(page)


def test_raised_signs_of_a_font(tmp_path, reader):
    f = Sheet(tmp_path / "a.pdf").print("Sold 1,871² on 75 m²").save()
    assert texts(read(f, reader, text_source="text")) == ["Sold 1,871 ² on 75 m²"]


def test_lowered_signs_stay(tmp_path, reader):
    sheet = Sheet(tmp_path / "a.pdf")
    for x, y, size, part in (40, 200, 12, "H"), (48.7, 197, 8, "2"), (53.1, 200, 12, "O"):
        sheet.canvas.setFont("Helvetica", size)
        sheet.canvas.drawString(x, y, part)
    assert texts(read(sheet.save(), reader, text_source="text")) == ["H2O"]


def test_raised_digits_of_a_scan(tmp_path, reader):
    im = Image.new("RGB", (900, 300), "white")
    draw, font = ImageDraw.Draw(im), ImageFont.load_default(44)
    draw.text((40, 40), "Revenue 1,871", fill="black", font=font)
    draw.text((44 + draw.textlength("Revenue 1,871", font), 36), "2", fill="black", font=ImageFont.load_default(26))
    draw.text((40, 160), "Headcount 5612", fill="black", font=font)
    im.save(tmp_path / "a.png")
    assert texts(read(tmp_path / "a.png", reader)) == ["Revenue 1,871 ²", "Headcount 5612"]


def test_words_cut_at_the_end_of_a_line():
    rows = "The model that was cho-", "sen is the AX-", "700 of the North-", "Sea line, for in-", "and outgoing mail."
    said = [paragraph_text(p)[0] for p in page_paragraphs(page_spans(typed_page("\n".join(rows))))]
    assert said == ["The model that was chosen is the AX-700 of the North-Sea line, for in- and outgoing mail."]


def test_a_wrong_digit_in_an_invisible_layer(tmp_path, reader):
    drawn = "Delivery note number 48213", "Net amount 1,840.00 euros", "Fourteen boxes of green apples"
    page = read(scan_with_layer(tmp_path / "a.pdf", drawn, [drawn[0], "Net amount 1,340.00 euros", drawn[2]]), reader)
    assert "1,840.00" in " ".join(texts(page)) and "1,340.00" not in " ".join(texts(page))
    assert "other digits than drawn" in page["why"]
    assert read(scan_with_layer(tmp_path / "b.pdf", drawn, drawn), reader)["source"] == "text"
