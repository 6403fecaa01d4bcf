"Kinds of pages that people report: what is covered, switched off, struck, raised, or drawn on a strange ground."

import pytest
from PIL import Image, ImageDraw, ImageFont

from cosee.pages import load_pages, open_image
from cosee.text.ocr import TextExtractor


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
    assert " ".join(texts(read(tmp_path / "a.png", reader))).replace(" ", "") == "Deliverynote50938"


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
