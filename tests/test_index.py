"Finding pages: what only guards."
import stat

import numpy as np
import pytest
from PIL import Image

from cosee.retrieval.lexical import (MAX_LINES, WordIndex, tokenize)
from cosee.retrieval.embeddings import passages, similarity
from cosee.retrieval.index import PageHit, PageIndex
from cosee.pages import PageError
from cosee.text.ocr import TextExtractor
from cosee.tools.sight import FindPage, Sight


def line(text, top=.1, height=.02):
    return dict(text=text, bbox=[.1, top, .9, top + height], score=1., words=[[.1, .9]] * len(text.split()))


def lines(*texts): return [line(t, .05 + .9 * i / max(1, len(texts))) for i, t in enumerate(texts)]


class Words:
    "A reader that knows what stands on which page by the height of its image, and counts."
    def __init__(self, *pages): self.prints, self.read_pages = [lines(*p) for p in pages], []

    def read(self, images, text_source=None):
        self.read_pages += [im.height - 50 for im in images]
        for im in images:
            if self.prints[im.height - 50] == lines("broken"): raise PageError("page cannot be read")
        return [dict(lines=self.prints[im.height - 50]) for im in images]


class Letters:
    "An encoder whose vectors say which letters a text has; counts what it encodes."
    def __init__(self): self.seen = []
    def __repr__(self): return "Letters()"

    def encode(self, texts):
        self.seen += texts
        rows = np.array([[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for t in texts], float) + 1e-6
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def document(n): return [Image.new("RGB", (50, 50 + i), "white") for i in range(n)]


def index_of(*pages, **kw):
    kw.setdefault("embeddings", False)
    return PageIndex(document(len(pages)), words=Words(*pages), **kw)


def found(index, query, k=1): return [hit.page for hit in index.search(query, k)]


# --- terms ---

@pytest.mark.parametrize("asked, printed", [
    ("INV-2024/0815", "Invoice no. INV-2024/0815"), ("2024/0815", "INV-2024/0815"), ("§12", "see § 12 of the act"),
    ("1234.50", "a total of 1,234.50"), ("1,234.50", "1.234,50 EUR"), ("1234,5", "1\u202f234,50 EUR"),
    ("Strasse", "Straße"), ("resume", "Résumé"), ("lodz", "Łódź"), ("stepback", "Step-Back"), ("back", "Step-Back"),
    ("2015", "FY2015"), ("charges", "charged"), ("e-mail", "email"), ("ﬁnal", "final"), ("東京", "東京都"),
    ("हिन्दी", "यह हिन्दी है"), ("привет", "Привет"), ("10,000", "10000"), ("A4", "a4"), ("U.S.", "US")])
def test_what_is_asked_meets_what_is_printed(asked, printed):
    assert set(tokenize(asked)) & set(tokenize(printed))


# --- words ---

PAGES = [["Annual report", "2023"], ["Sales", "Net sales rose to 1,234.50"], ["Costs", "Wages fell"],
         ["Table 1: staff", "Offices 7"], ["Notes", "as Table 1 says"]]


def test_hits_say_why_and_where():
    hit = index_of(*PAGES).search("How much did net sales rise?", 1)[0]
    assert isinstance(hit, PageHit) and hit.page == 2 and hit.why[0]["text"] == "Net sales rose to 1,234.50"
    assert hit.why[0]["bbox"] == lines(*PAGES[1])[1]["bbox"]


def test_a_page_and_a_table_that_are_named_come_first():
    index = index_of(*PAGES)
    assert found(index, "What does it say of sales on page 5?") == [5] and found(index, "wages in Table 1", 1) == [4]
    assert found(index, "What is on the last page?") == [5]


def test_compounds_parts_and_slips_are_found():
    german = [["Die Einkommensteuererklärung und der Bescheid mit der Frist", "das ist die Regel für die Abgabe"],
              ["Das Netzteil und die Spannung sind mit dem Gerät", "die Rechnungsnummer ist auf der Seite"],
              ["Der Umsatz", "von der Netflix ist auf dem Blatt und in der Liste"]]
    index = index_of(*german)
    assert found(index, "Steuererklärung") == [1] and found(index, "Netzteilspannung") == [2]
    assert found(index, "Netfilx") == [3] and found(index, "Wo ist die Rechnung?") == [2]


def test_headings_count_more_and_are_told():
    pages = [["Intro", "risk here", "x y z w", "so"], ["Other", "a b c d", "e f g h", "no"]]
    prints = [[line("Risk", .05, .06), line("text one"), line("text two"), line("text three")],
              [line("text", .05), line("some risk"), line("text two"), line("text three")]]
    index = index_of(*pages)
    index.words.prints = prints
    assert index.headings(1) == ["Risk"] and index.headings(2) == [] and found(index, "risk") == [1]


@pytest.mark.parametrize("pages", [[[]], [[], []], [["a" * 200_000]], [["\0\ud800\x00 §_ ___ "], ["ok fine"]],
                                   [["x " * 60_000]], [["\u202e(((" * 500]]])
def test_hostile_print_is_no_error(pages):
    hits = index_of(*pages).search("What is it? Table 1 page 1 x", 3)
    assert [h.page for h in hits][:1] == [1] and all(0 <= h.score < 9 for h in hits)


def test_a_page_of_very_many_lines_is_cut_short():
    index = index_of(["word"] * (MAX_LINES + 500)).word_index()
    assert [len(lines) for lines in index.lines] == [MAX_LINES]


def test_bad_questions_are_refuse_ranks():
    index = index_of(*PAGES)
    for query, k in ((" ", 3), ("sales", 0)):
        with pytest.raises(ValueError, match="what to look for"): index.search(query, k)
    with pytest.raises(ValueError, match="no page 9"): index.lines_of(9)
    with pytest.raises(ValueError, match="needs a page"): WordIndex([], [])
    assert PageIndex([], words=Words(), embeddings=False).search("anything") == []
    assert index.search("word " * 20_000, 2)


def test_a_long_query_with_notes_still_finds():
    notes = "- note: the company sells pens; the board met in May. " * 30
    assert found(index_of(*PAGES), "How much did net sales rise?\n" + notes, 1) == [2]


# --- reading ---

def test_pages_are_read_once_when_they_are_needed():
    index, told = index_of(*PAGES), []
    assert index.words.read_pages == []
    assert index.lines_of(3)[0]["text"] == "Costs" and index.words.read_pages == [2]
    assert index.read(progress=lambda *a: told.append(a)) == 4 and told == [(4, 4)]
    index.search("sales")
    assert sorted(index.words.read_pages) == [0, 1, 2, 3, 4] and index.read() == 0


def test_a_page_that_cannot_be_read_is_told_and_the_rest_is_found():
    index = index_of(["first page"], ["broken"], ["sales rose"])
    assert found(index, "sales") == [3] and list(index.failed) == [2]


def test_pages_keep_the_numbers_of_their_document(tmp_path):
    from cosee.pages import load_pages
    paths = []
    for im in document(4):
        paths.append(tmp_path / f"{im.height}.png")
        im.save(paths[-1])
    part = load_pages(paths)[2:]

    class Handles(Words):
        def read(self, items, text_source=None): return super().read([item.draw() for item in items])

    index = PageIndex(part, words=Handles(*PAGES), embeddings=False)
    assert index.numbers == [3, 4] and found(index, "wages") == [3] and found(index, "page 4") == [4]


# --- meaning ---

def test_vectors_are_kept_and_read_again(tmp_path):
    first, again = Letters(), Letters()
    query = "zebra"
    one = index_of(*PAGES, embeddings=first, folder=tmp_path).search(query, 5)
    two = index_of(*PAGES, embeddings=again, folder=tmp_path).search(query, 5)
    assert one == two and len(first.seen) > 1 and again.seen == [query]
    kept = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert kept and all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in kept)
    for p in kept: p.write_bytes(b"\x80" + p.read_bytes()[::-1])
    third = Letters()
    assert index_of(*PAGES, embeddings=third, folder=tmp_path).search(query, 5) == one and len(third.seen) > 1


def test_meaning_finds_what_words_do_not():
    index = index_of(["aaaa aaaa"], ["bbbb bbbb"], ["cccc cccc"], embeddings=Letters())
    assert found(index, "bob bbq") == [2] and index.semantic_scores("ccc").argmax() == 2
    with pytest.raises(ValueError, match="sentence encoder"): index_of(*PAGES).semantic_scores("x")
    assert passages(["word"] * 10_000)[-1] and list(similarity(np.ones(3), [np.zeros((0, 1))])) == [-1]


# --- the tool ---

def test_find_page_in_a_long_document():
    pages = [[f"Chapter {n}", "nothing here"] for n in range(1, 20)]
    pages[13], pages[4] = ["Costs", "Total due: 42 EUR"], ["Deliveries were charged", "in May"]
    sight = Sight(document(19), words=Words(*pages))
    sight.index.encoder = None
    hit = FindPage(sight).execute(text="total  due")
    assert hit.startswith("page 14, region [") and hit.page == 14 and "Total due: 42 EUR" in hit
    assert FindPage(sight).execute(text="charge for delivery").page == 5
    assert sorted(sight.words.read_pages) == list(range(19))
    assert "no page shows" in FindPage(sight).execute(text="zebra qqqq")


def test_another_file_than_the_known_one_is_no_sentence_encoder(tmp_path):
    from cosee.text.encoder import encoder_bytes
    path = tmp_path / "model.onnx"
    path.write_bytes(encoder_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="not the sentence encoder.*pip install") as told: encoder_bytes(path)
    assert str(path) in str(told.value)


# --- long documents with pictures ---

def test_pictures_of_a_long_document_are_read_on_pages_that_are_shown_alone(tmp_path):
    "A manual has a screenshot on each page; a scanned page among them has nothing but its picture."
    from cosee.pages import load_pages
    from PIL import ImageDraw, ImageFont
    from reportlab.pdfgen.canvas import Canvas
    shot = Image.new("RGB", (600, 200), "white")
    ImageDraw.Draw(shot).text((30, 60), "Serial 4711-K", "black", font=ImageFont.load_default(60))
    shot.save(tmp_path / "shot.png")
    canvas = Canvas(str(tmp_path / "manual.pdf"))
    for n in range(13):
        for k in range(8 if n else 0):
            canvas.drawString(60, 780 - 20 * k, f"Chapter {n}: turn the valve and wait for lamp {k}.")
        canvas.drawImage(str(tmp_path / "shot.png"), 60, 300, 450, 150)
        canvas.showPage()
    canvas.save()
    words = TextExtractor(cache=None)
    pages = load_pages(tmp_path / "manual.pdf")
    hits = PageIndex(pages, words, embeddings=False).search("serial number 4711-K", 1)
    assert [hit.page for hit in hits] == [1] and words.counts["ocr"] + words.counts["part"] == 1
    assert any("4711" in line["text"] for line in words.read([pages.infos[4]])[0]["lines"])
