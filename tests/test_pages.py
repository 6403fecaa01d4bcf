"What hostile and odd files do to `cosee.pages`; the ordinary ways are shown in nbs/core/00_pages.ipynb."
import io, multiprocessing, os, pickle, struct, sys, threading, zlib
from concurrent.futures import ProcessPoolExecutor
from subprocess import run

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image

from cosee.pages import (PageError, load_pages, page_count,
                         page_of, page_sizes, parse_pages)
from cosee.utils.files import image_hash


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
    assert load_pages(tmp_path / "y.gif")[0].size == (30, 40)
    (tmp_path / "y.log").write_text("hello")
    fails(tmp_path / "y.log", "y.log", "an office file or a mail")


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


def test_metadata_stays_behind(tmp_path):
    im = Image.new("RGB", (8, 8))
    im.save(tmp_path / "a.jpg", comment=b"secret", dpi=(300, 300))
    assert load_pages(tmp_path / "a.jpg")[0].info == {"source": "a.jpg", "page": 1}


def count_draws(monkeypatch):
    "A list to which the number of each page that is drawn of a PDF is added"
    import cosee.pages as pages
    drawn, draw = [], pages._draw
    def counted(file, page, *args):
        drawn.append(page)
        return draw(file, page, *args)
    monkeypatch.setattr(pages, "_draw", counted)
    return drawn


def test_nothing_is_drawn_until_it_is_looked_at(tmp_path, monkeypatch):
    drawn = count_draws(monkeypatch)
    pages = load_pages(pdf(tmp_path / "a.pdf", 30))
    assert len(pages) == 30 and pages.sizes[3] == (400, 600) and pages.infos[4].size == (200, 300)
    assert len(pages[10:20]) == 10 and not drawn
    assert pages[4].info == {"source": "a.pdf", "page": 5} and pages[4] is pages[4] and drawn == [5]
    assert [page_of(im).number for im in pages[28:]] == [29, 30] and drawn == [5, 29, 30]
    assert pages[-1] is pages.page(30) and pages[::-1][0] is pages[29]
    with pytest.raises(IndexError): pages[30]


def test_other_resolutions(tmp_path):
    pages = load_pages(pdf(tmp_path / "a.pdf", 60))
    assert pages.page(57, dpi=288).size == (800, 1200) and pages.thumbnail(57).size == (128, 192)
    assert pages[56].size == pages.sizes[56] == (400, 600)
    page = page_of(pages[56])
    assert (page.number, page.kind, page.file_page, page.size) == (57, "PDF", 57, (200, 300))
    assert page.draw(dpi=288) is pages.page(57, dpi=288) and page_of(page.thumbnail()) == page
    for wrong in (0, 61, -1, True, "3"):
        with pytest.raises(PageError, match="choose from 1 to 60"): pages.page(wrong)
    with pytest.raises(PageError, match="dpi"): pages.page(1, dpi=0)


KINDS = [("JPEG", (5000, 3001)), ("JPEG", (301, 4999)), ("PNG", (2401, 77)), ("WEBP", (3000, 2999)),
         ("TIFF", (50, 60))]


@pytest.mark.slow
@pytest.mark.parametrize("kind,size", KINDS)
@pytest.mark.parametrize("turned", [1, 6])
def test_sizes_are_told_before_drawing(tmp_path, kind, size, turned):
    im = Image.new("RGB", size)
    im.getexif()[0x0112] = turned
    im.save(tmp_path / "x", kind, exif=im.getexif())
    for side in (None, 2400, 333):
        pages = load_pages(tmp_path / "x", max_side=side)
        assert pages.sizes == [pages[0].size] == page_sizes(pages)
    data = (tmp_path / "x").read_bytes()
    whole, drawn = pages.infos[0].size, pages[0].size
    assert page_sizes([tmp_path / "x", data, pages[0], "none.png"]) == [whole, whole, drawn, None]


def test_a_limit_that_is_checked_before_any_work(tmp_path, monkeypatch):
    from cosee.pages import MAX_PAGES
    assert MAX_PAGES == 5000
    long = pdf(tmp_path / "long.pdf", 5001, size=(20, 30))
    drawn = count_draws(monkeypatch)
    fails(long, "5001 pages are more than the 5000 allowed")
    assert load_pages(long, pages="5001")[0].info["page"] == 5001 and drawn == [5001]
    opened = []
    monkeypatch.setattr("cosee.pages._detect_kind", opened.append)
    fails([f"{i}.png" for i in range(5001)], "0.png: 5001 pages are more")
    assert not opened


MEMORY = """
import resource, sys
from cosee.datasets.folder import Folder
from cosee.pages import load_pages
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
load_pages(sys.argv[1], pages=1)[0]
pages, before = load_pages(sys.argv[1]), peak()
seen = [pages[i].size for i in range(0, 400, 10)]
assert pages.page(57, dpi=288).size == (1200, 1600)
(sample,) = Folder(sys.argv[2])
assert sum(im.width for im in sample['images']) == 600 * 400
print(peak() - before)
"""


def test_memory_stays_flat(tmp_path):
    "All 400 pages at once would take 767 MB, and those that are kept take 256 at most"
    pdf(tmp_path / "long.pdf", 400, size=(300, 400))
    (tmp_path / "q.jsonl").write_text('{"file": "long.pdf", "question": "?"}\n')
    files = [tmp_path / "long.pdf", tmp_path / "q.jsonl"]
    done = run([sys.executable, "-c", MEMORY, *files], text=True, capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr   # closes its PDFs without a word
    assert int(done.stdout) < 400


def sizes_of(pages): return [(im.size, im.info["page"], page_of(im).number) for im in pages]


def test_pages_travel_to_another_process(tmp_path):
    pages = load_pages([pdf(tmp_path / "a.pdf", 3, encrypt="sesame"), Image.new("RGB", (30, 40))], password="sesame")
    here = sizes_of(pages)
    assert len(pickle.dumps(pages)) < 20_000 and "sesame" not in repr(pages) + repr(pages.infos)
    for way in ("spawn", "fork"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(way)) as pool:
            assert pool.submit(sizes_of, pages).result() == here
            assert pool.submit(sizes_of, pages[1:]).result() == here[1:]
    assert sizes_of(pages) == here


def test_threads_share_a_document(tmp_path):
    import cosee.pages as module
    files = [pdf(tmp_path / f"{i}.pdf", 6) for i in range(module.OPEN_PDFS + 4)]
    documents, out = [load_pages(f, dpi=36) for f in files], []
    def work(i):
        for n in range(6):
            for d in documents[i:] + documents[:i]: out.append((d[n].size, page_of(d[n]).number == n + 1))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert len(out) == 4 * 6 * len(files) and set(out) == {((100, 150), True)}
    assert len(module._open_pdfs) <= module.OPEN_PDFS and not any(o.users for o in module._open_pdfs.values())


def test_a_leaf_stays_open_while_others_come_and_go(tmp_path):
    import cosee.pages as module
    page = load_pages(pdf(tmp_path / "a.pdf", 2)).info(2)
    with page.leaf() as leaf:
        for i in range(module.OPEN_PDFS + 2): load_pages(pdf(tmp_path / f"{i}.pdf"))[0]
        page.document.close()
        assert leaf.get_size() == (200, 300)
    with pytest.raises(PageError, match="closed"): page.leaf()
    Image.new("RGB", (9, 9)).save(tmp_path / "x.png")
    with pytest.raises(PageError, match="no page of a PDF"): load_pages(tmp_path / "x.png").info(1).leaf()


def test_closing(tmp_path):
    import cosee.pages as module
    with load_pages(pdf(tmp_path / "a.pdf", 3)) as pages: im, part = pages[0], pages[1:]
    pages.close()
    assert im.size == (400, 600) and pages.closed and part.closed
    assert str(tmp_path / "a.pdf") not in [str(f.path) for f in module._open_pdfs]
    for closed in (pages, part, pickle.loads(pickle.dumps(pages))):
        with pytest.raises(PageError, match="closed"): closed[1]
    assert load_pages(tmp_path / "a.pdf")[1].size == (400, 600)


def test_a_file_that_changes_or_vanishes(tmp_path):
    pages = load_pages(pdf(tmp_path / "a.pdf", 3))
    first = pages[0]
    pdf(tmp_path / "a.pdf", 4, size=(20, 30))
    with pytest.raises(PageError, match="a.pdf: the file has changed; open the document again"): pages[1]
    assert pages[0] is first and load_pages(tmp_path / "a.pdf")[1].size == (40, 60)
    (tmp_path / "a.pdf").unlink()
    with pytest.raises(PageError, match="a.pdf: cannot be read any more"): pages[1]


def test_the_place_where_one_stands_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages = load_pages(pdf("a.pdf", 2))
    monkeypatch.chdir("/")
    assert pages[1].size == (400, 600) and pages.info(2).file == "a.pdf"


def test_an_image_whose_file_is_closed_behind_it(tmp_path):
    Image.new("RGB", (30, 40)).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as im: pages = load_pages([im, im])
    im.close()
    assert [p.info for p in pages] == [{"source": "a.png", "page": 1}] * 2 and pages[0].size == (30, 40)


def test_a_document_is_opened_again_from_its_pages(tmp_path):
    pages = load_pages([pdf(tmp_path / "a.pdf", 4), Image.new("RGB", (30, 40))])
    again = load_pages([pages[2:], pages[:1]], dpi=36)
    assert [(p.file_page, p.number) for p in again.infos] == [(3, 1), (4, 2), (1, 3), (1, 4)]
    assert again.sizes == [(100, 150), (100, 150), (30, 40), (100, 150)] == [im.size for im in again]


def test_outline(tmp_path):
    from reportlab.pdfgen.canvas import Canvas
    c = Canvas(str(tmp_path / "a.pdf"))
    for i, title in enumerate(["One", "One  part", "Two"]):
        c.bookmarkPage(f"k{i}")
        c.addOutlineEntry(title, f"k{i}", level=i % 2)
        c.showPage()
    c.save()
    both = [tmp_path / "a.pdf", pdf(tmp_path / "b.pdf"), tmp_path / "a.pdf"]
    assert load_pages(both).outline[:3] == [("One", 0, 1), ("One part", 1, 2), ("Two", 0, 3)]
    assert load_pages(tmp_path / "a.pdf", pages="3,1").outline == [("One", 0, 2), ("Two", 0, 1)]
    assert load_pages(tmp_path / "b.pdf").outline == []
