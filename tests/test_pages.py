"What hostile and odd files do to `cosee.pages`; the ordinary ways are shown in nbs/core/05_pages.ipynb."
import io, os, struct, threading, zlib

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image

from cosee.pages import PageError, open_image, page_count, load_pages, parse_pages
from cosee.files import image_hash


def pdf(path, n=1, size=(200, 300), **kw):
    "A PDF of `n` pages with a word on each"
    from reportlab.pdfgen.canvas import Canvas
    c = Canvas(str(path), pagesize=size, **kw)
    for i in range(n):
        c.drawString(20, size[1] / 2, f"page {i + 1}")
        c.showPage()
    c.save()
    return path


def says(error, *parts):
    "One line that holds all `parts`"
    text = str(error.value)
    assert "\n" not in text and "\r" not in text and "\x1b" not in text
    for p in parts: assert p in text
    return True


def fails(source, *parts, **kw):
    with pytest.raises(PageError) as e: list(load_pages(source, **kw))
    return says(e, *parts)


def test_password(tmp_path):
    f = pdf(tmp_path / "secret.pdf", encrypt="open sesame")
    fails(f, "secret.pdf", "password")
    fails(f, "secret.pdf", "wrong", password="guess")
    assert len(load_pages(f, password="open sesame")) == 1


def test_pdf_without_pages(tmp_path):
    f = tmp_path / "none.pdf"
    f.write_bytes(b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count "
                  b"0>>endobj\n"
                  b"trailer<</Root 1 0 R/Size 3>>\n%%EOF")
    fails(f, "none.pdf")


@pytest.mark.parametrize("cut", [8, 30, 200, 600])
def test_cut_pdf(tmp_path, cut):
    f = pdf(tmp_path / "cut.pdf", 3)
    f.write_bytes(f.read_bytes()[:cut])
    fails(f, "cut.pdf")


def test_huge_and_tiny_pdf_pages_are_capped(tmp_path):
    huge = pdf(tmp_path / "huge.pdf", size=(14_400, 14_400))
    assert load_pages(huge)[0].size == (2400, 2400)
    fails(huge, "huge.pdf, page 1", "28,800 x 28,800", max_side=None)
    thin = pdf(tmp_path / "thin.pdf", size=(14_400, 3))
    fails(thin, "thin.pdf, page 1", "narrow")


def test_filled_form_fields_are_drawn(tmp_path):
    from reportlab.pdfgen.canvas import Canvas
    drawn = []
    for value in ("", "FILLED IN"):
        c = Canvas(str(tmp_path / "form.pdf"), pagesize=(200, 100))
        c.acroForm.textfield(name="n", value=value, x=10, y=10, width=150, height=30)
        c.showPage()
        c.save()
        drawn.append(image_hash(load_pages(tmp_path / "form.pdf")[0]))
    assert drawn[0] != drawn[1]


def png_header(w, h):
    "A PNG of a few bytes that claims to hold w x h pixels"
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + chunk(b"IDAT", b"")
            + chunk(b"IEND", b""))


@pytest.mark.parametrize("w,h", [(20_000, 10_000), (10_000, 9_000), (2**31 - 1, 2**31 - 1), (60_000, 60_000)])
def test_bombs_are_refused_by_their_header(tmp_path, w, h, recwarn):
    f = tmp_path / "bomb.png"
    f.write_bytes(png_header(w, h))
    fails(f, "bomb.png", "pixels")
    assert not recwarn.list


def test_bomb_in_a_later_frame(tmp_path):
    f = tmp_path / "two.tiff"
    Image.new("1", (10, 10)).save(f, save_all=True, append_images=[Image.new("1", (12_000, 9_000))],
                                  compression="group4")
    fails(f, "two.tiff, page 2", "12,000 x 9,000")
    assert len(load_pages(f, pages=1)) == 1


def test_multi_page_tiff_keeps_order(tmp_path):
    f = tmp_path / "fax.tif"
    ims = [Image.new("RGB", (30 + i, 40), (i * 50, 0, 0)) for i in range(4)]
    ims[0].save(f, save_all=True, append_images=ims[1:])
    assert page_count(f) == 4
    got = load_pages(f, pages="4,2")
    assert [(im.size[0], im.info["page"]) for im in got] == [(33, 4), (31, 2)]


def test_animations_are_their_first_frame(tmp_path):
    ims = [Image.new("RGB", (30, 40), c) for c in ("red", "blue")]
    ims[0].save(tmp_path / "a.webp", save_all=True, append_images=ims[1:], lossless=True)
    ims[0].save(tmp_path / "a.png", save_all=True, append_images=ims[1:])
    for name in ("a.webp", "a.png"):
        assert [im.getpixel((5, 5)) for im in load_pages(tmp_path / name)] == [(255, 0, 0)]


def test_content_counts_not_the_name(tmp_path):
    Image.new("RGB", (30, 40), "red").save(tmp_path / "x.png")
    os.rename(tmp_path / "x.png", tmp_path / "x.pdf")
    assert load_pages(tmp_path / "x.pdf")[0].size == (30, 40)
    (tmp_path / "t.png").write_text("hello")
    fails(tmp_path / "t.png", "t.png", "not a PNG")
    Image.new("RGB", (30, 40)).save(tmp_path / "y.gif")
    fails(tmp_path / "y.gif", "y.gif", "PNG, JPEG")


def test_folder(tmp_path):
    for i in (10, 9, 1): Image.new("RGB", (30 + i, 40)).save(tmp_path / f"p{i}.png")
    (tmp_path / "notes.txt").write_text("not a page")
    (tmp_path / ".hidden.png").write_text("not a page")
    (tmp_path / "sub").mkdir()
    assert [im.info["source"] for im in load_pages(tmp_path)] == ["p1.png", "p9.png", "p10.png"]
    (tmp_path / "p5.png").touch()
    fails(tmp_path, "p5.png", "empty")


def test_odd_paths(tmp_path):
    fails("", "empty")
    fails("a\0b.pdf", "a?b.pdf")
    fails("no\nsuch\x1b[2Jfile.pdf", "no?such?[2Jfile.pdf")
    fails("x" * 5000 + ".pdf", "xxx")
    fails("http://localhost/x.png", "addresses")
    fails("file:///etc/passwd", "addresses")
    fails("data:image/png;base64,AAAA", "addresses")
    fails(7, "int")
    fails({"a": 1}, "dict")
    fails(None, "NoneType")
    fails([["nested.pdf", None]], "NoneType")
    os.mkfifo(tmp_path / "pipe.png")
    fails(tmp_path / "pipe.png", "pipe.png", "regular")


def test_too_many_pages(tmp_path):
    f = pdf(tmp_path / "long.pdf", 12)
    fails(f, "12 pages", "pages 1-10", max_pages=10)
    assert len(load_pages(f, pages="3-12", max_pages=10)) == 10


@pytest.mark.parametrize("kw", [dict(dpi=0), dict(dpi=1e9), dict(dpi=float("nan")), dict(max_side=0)])
def test_silly_settings(tmp_path, kw):
    fails(pdf(tmp_path / "a.pdf"), "choose", **kw)


@given(st.text(max_size=12) | st.integers() | st.lists(st.integers() | st.text(max_size=4), max_size=4),
       st.integers(1, 50))
def test_any_selection(spec, n):
    try: got = parse_pages(spec, n)
    except PageError: return
    assert all(1 <= p <= n for p in got) and len(set(got)) == len(got)


def sample_files():
    im, out = Image.radial_gradient("L").convert("RGB").resize((64, 48)), {}
    for kind in ("PNG", "JPEG", "WEBP", "TIFF", "PDF"):
        b = io.BytesIO()
        im.save(b, kind)
        out[kind] = b.getvalue()
    return out


FILES = sample_files()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(FILES)), st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=8)),
                                                max_size=6),
       st.none() | st.integers(0, 4000))
def test_damaged_files_end_in_pages_or_page_errors(tmp_path, kind, edits, cut):
    data = bytearray(FILES[kind])
    for at, new in edits: data[at % len(data):at % len(data) + len(new)] = new
    f = tmp_path / "damaged"
    f.write_bytes(bytes(data[:cut]))
    try: got = list(load_pages(f))
    except PageError as e: assert "\n" not in str(e)
    else: assert all(im.mode == "RGB" for im in got)


def test_threads_draw_the_same_pages(tmp_path):
    f, out = pdf(tmp_path / "a.pdf", 3), {}
    def work(i): out[i] = [image_hash(im) for im in load_pages(f, dpi=72)]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert len(out) == 6 and all(v == out[0] for v in out.values())


def test_open_image_keeps_its_hands_off_a_good_image():
    im = Image.new("RGB", (8, 8))
    assert open_image(im) is im
    with pytest.raises(PageError): open_image(b"bytes")


def test_metadata_stays_behind(tmp_path):
    im = Image.new("RGB", (8, 8))
    im.save(tmp_path / "a.jpg", comment=b"secret", dpi=(300, 300))
    assert load_pages(tmp_path / "a.jpg")[0].info == {"source": "a.jpg", "page": 1}
