"""Pages that a model writes down: what it wrote comes back word for word, nothing that it may write does harm, and
every door of the house reads it with honest places and an honest bill."""
import html
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import fake_servers as fake
from conftest import ROOT
from cosee.cli.entry import main
from cosee.utils.config import ConfigError
from cosee.datasets.made.document import make_document
from cosee.minds.client import PrintClient
from cosee.minds.places import snapped
from cosee.minds.sight import Sight
from cosee.models.client import Reply, build_messages, page_request
from cosee.models.testing import ScriptedClient
from cosee.models.registry import create_vlm_client, make_client
from cosee.models.remote import ImagesRefused
from cosee.minds.reader_client import OcrClient
from cosee.text.ocr import TextExtractor
from cosee.text.page_text import sure_box, valid_page
from cosee.text.doctags import read_doctags
from cosee.text.markdown import read_markdown
from cosee.text.markup import markup_of, read_layout, read_markup
from cosee.minds.transcriber import PageReader, make_page_reader
from cosee.text.markup_passages import MOST_PASSAGES, GridCell, Passage
from cosee.text.spotting import read_spots
from cosee.text.typeset import transcribed_page, typeset
from cosee.pages import load_pages
from cosee.tools.sight import FindPage
from cosee.tools.sight import Sight as Looking

pytestmark = pytest.mark.slow

SIZE = (800, 1000)
SHEET = Image.effect_noise(SIZE, 60)

# --- writers: what a model would write of passages ---

WORD = st.text("abcXYZ019éß&<>|*_#", min_size=1, max_size=7).filter(lambda w: any(c.isalnum() for c in w))
PLAIN = st.text("abcdXYZ0189éß", min_size=1, max_size=7).filter(str.isalnum)


def lines(word): return st.lists(word, min_size=1, max_size=6).map(" ".join)


BOX = st.tuples(*[st.integers(0, 240)] * 2, *[st.integers(250, 499)] * 2)


@st.composite
def grids(draw, word):
    "The text of each cell of a table, and which cells go over two columns."
    rows, cols = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    wide = {(r, 0) for r in range(rows) if draw(st.booleans())}
    return tuple(GridCell(draw(lines(word)), r, c, 1, 2 if (r, c) in wide else 1)
                 for r in range(rows) for c in range(cols) if (r, c - 1) not in wide or c != 1)


def passages(word, boxes=True):
    box = BOX.map(lambda b: tuple(v / 500 for v in b)) if boxes else st.none()
    kinds = st.sampled_from(["text", "title", "heading", "item"])
    text = st.tuples(kinds, lines(word), box).map(lambda said: Passage(*said))
    table = st.tuples(grids(word), box).map(lambda said: Passage("table", "", said[1], said[0]))
    return st.lists(st.one_of(text, table), min_size=1, max_size=6)


def locs(box): return "".join(f"<loc_{round(v * 500)}>" for v in box)


def otsl(cells):
    rows = {}
    for c in cells: rows.setdefault(c.row, []).append("<fcel>" + html.escape(c.text) + "<lcel>" * (c.cols - 1))
    return "".join("".join(row) + "<nl>" for row in rows.values())


TAGS = {"text": "text", "title": "title", "heading": "section_header_level_1", "item": "list_item"}


def doctags(found, closed=True):
    out = []
    for p in found:
        name = TAGS.get(p.kind, "otsl")
        said = otsl(p.cells) if p.cells else html.escape(p.text)
        out.append(f"<{name}>{locs(p.box)}{said}" + f"</{name}>" * closed)
    return "<doctag>" + "\n".join(out)


def html_table(cells):
    rows = {}
    for c in cells: rows.setdefault(c.row, []).append(f'<td colspan="{c.cols}">{html.escape(c.text)}</td>')
    return "<table>" + "".join(f"<tr>{''.join(row)}</tr>" for row in rows.values()) + "</table>"


def layout(found):
    return json.dumps([{"bbox": [round(v * s) for v, s in zip(p.box, SIZE * 2, strict=True)],
                        "category": "Table" if p.cells else p.kind.title(),
                        "text": html_table(p.cells) if p.cells else p.text} for p in found])


def said(found): return [p.text or [c[:5] for c in p.cells] for p in found]


# --- the same words come back ---

@given(passages(WORD), st.booleans())
def test_doctags_come_back_word_for_word_with_their_boxes(found, closed):
    read = read_doctags(doctags(found, closed))
    assert said(read) == said(found) and markup_of(doctags(found)) == "doctags"
    assert [p.box for p in read] == [pytest.approx(p.box) for p in found]
    assert [p.kind for p in read] == [p.kind for p in found]


@given(passages(PLAIN, boxes=False))
def test_markdown_comes_back_word_for_word(found):
    marks = {"title": "# ", "heading": "## ", "item": "- "}
    text = "\n".join(html_table(p.cells) if p.cells else marks.get(p.kind, "") + p.text for p in found)
    assert said(read_markdown(text)) == said(found)


@settings(max_examples=50)
@given(grids(PLAIN))
def test_a_table_is_the_same_in_every_markup(cells):
    flat = [c for c in cells if c.cols == 1]
    tables = read_doctags(otsl(cells)), read_markdown(html_table(cells))
    assert [said(t) for t in tables] == [said([Passage("table", "", None, cells)])] * 2
    if len(flat) == len(cells):
        rows = [[c.text for c in cells if c.row == r] for r in range(cells[-1].row + 1)]
        pipes = "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])
        assert said(read_markdown(pipes)) == said(tables[0])


@given(passages(PLAIN))
def test_a_layout_comes_back_with_its_boxes(found):
    read = read_markup(layout(found), SIZE)
    assert said(read) == said(found)
    assert [p.box for p in read] == [pytest.approx(p.box, abs=.002) for p in found]


def spots(passage, marked):
    "A line as PaddleOCR-VL spots it, with the corners of its place clockwise."
    x0, y0, x1, y1 = (round(1000 * v) for v in passage.box)
    place = "".join(f"<|LOC_{n}|>" for n in (x0, y0, x1, y0, x1, y1, x0, y1))
    if not marked: return f"{passage.text}{place}\n"
    return f"<|TEXT_START|>{passage.text}<|TEXT_END|><|LOC_BEGIN|>{place}<|LOC_END|>"


LINES = st.lists(st.tuples(lines(PLAIN), BOX), min_size=1, max_size=6).map(
    lambda said: [Passage("text", text, tuple(v / 500 for v in box)) for text, box in said])


@given(LINES, st.booleans())
def test_spotted_lines_come_back_with_their_boxes(found, marked):
    text = "".join(spots(p, marked) for p in found)
    assert markup_of(text) == "spotting"
    read = read_markup(text, SIZE)
    assert said(read) == said(found) and [p.box for p in read] == [pytest.approx(p.box, abs=.001) for p in found]
    cut = read_spots(text[:text.rindex("<|LOC_")] if not marked else text.rpartition("<|TEXT_START|>")[0])
    assert [p.box for p in cut][:len(found) - 1] == [pytest.approx(p.box, abs=.001) for p in found[:-1]]
    assert all(p.box is None for p in cut[len(found) - 1:])   # a place that was cut off is none


@given(passages(PLAIN))
def test_parts_with_their_places_in_front_come_back(found):
    names = {"text": "text", "title": "title", "heading": "section_header", "item": "list_item", "table": "table"}
    text = "".join(f"<|ref|>{names[p.kind]}<|/ref|><|det|>{[[round(1000 * v) for v in p.box]]}<|/det|>\n"
                   f"{html_table(p.cells) if p.cells else p.text}\n\n" for p in found)
    read = read_markup(text, SIZE)
    assert said(read) == said(found) and markup_of(text) == "grounding"
    assert [p.box for p in read] == [pytest.approx(p.box, abs=.001) for p in found]
    assert [p.kind for p in read] == [p.kind for p in found]


def test_a_local_model_keeps_the_places_that_it_spots(tmp_path):
    pytest.importorskip("torch")
    from cosee.models.local.client import LocalVLMClient
    from cosee.models.testing import random_model
    client = LocalVLMClient(random_model(tmp_path / "paddleocr-vl", "paddleocr_vl"))
    client.tokenizer.add_special_tokens({"extra_special_tokens": [f"<|LOC_{n}|>" for n in range(1001)]},
                                        replace_extra_special_tokens=False)
    written = spots(Passage("text", "Total: 43.50", (.1, .4, .28, .42)), False)
    ids = client.tokenizer.encode(written, add_special_tokens=False)
    line = transcribed_page(client._text([*ids, *client.ends]), SIZE)["lines"][0]
    assert line["text"] == "Total: 43.50" and line["bbox"][1] == .4 and "region" not in line


def test_boxes_in_thousandths_of_a_model_that_is_asked_for_them():
    entry = {"bbox": [100, 400, 280, 420], "category": "Text", "text": "Total: 43.50"}
    client = ScriptedClient([json.dumps([entry])] * 2)
    line = PageReader(client, family="thousandths", cache=None).read([SHEET])[0]["lines"][0]
    assert line["bbox"][1] == .4 and line["bbox"][3] == .42
    asked = client.calls[0]["messages"][0]["content"][1]["text"]
    assert "whole numbers from 0 to 1000 of the page's width and height" in asked
    pixels = PageReader(client, family="dots-ocr", cache=None).read([SHEET])[0]["lines"][0]
    assert pixels["bbox"][1] == pytest.approx(.4, abs=.02)   # of a picture of 812 by 1008


@given(passages(PLAIN), st.booleans())
def test_every_word_is_set_once_and_stands_on_the_page(found, placed):
    known = [p if placed else p._replace(box=None) for p in found]
    words = sorted(w for p in found for t in ([p.text] if p.text else [c.text for c in p.cells]) for w in t.split())
    read = typeset(known, SIZE)
    assert sorted(w for line in read for w in line["text"].split()) == words
    assert all(0 <= v <= 1 for line in read for v in (*line["bbox"], *line.get("region", ())))
    assert placed or all(line["region"] == [0, 0, 1, 1] for line in read)


def test_a_page_of_a_made_document_says_the_same_as_its_own_text(tmp_path):
    pages = load_pages(make_document("invoice", seed=3).save(tmp_path / "made.pdf"))
    page = TextExtractor(print="text", cache=None).read(pages.infos)[0]
    tags = doctags([Passage("text", line["text"], tuple(line["bbox"])) for line in page["lines"]])
    again = transcribed_page(tags, tuple(page["size"]))
    assert {" ".join(line["text"].split()) for line in page["lines"]} == {line["text"] for line in again["lines"]}
    client, other = (OcrClient(words=TextExtractor(cache=None)) for _ in range(2))
    client.words.read = lambda pages, print=None: [again]
    other.words.read = lambda pages, print=None: [page]
    for question in ("What is the total?", "What is the invoice number?"):
        found = [c.document([SHEET]).answer(question)["answer"] for c in (client, other)]
        assert found[0] == found[1]


# --- whatever comes ---

PIECES = ["<doctag>", "<text>", "</text>", "<otsl>", "</otsl>", "<fcel>", "<lcel>", "<ucel>", "<xcel>", "<nl>",
          "<caption>", "<picture>", "</picture>", "<loc_5>", "<loc_499>", "<loc_99999999999>", "<loc_", "<b>", "<|x|>",
          "<list_item>", "<table>", "</table>", "<tr>", "<td rowspan=9999>", "<td colspan='-1'>", "</td>", "<img>",
          "|", "|-|", "# ", "**", "`",
          "```json\n", "[", "]", "{", "}", '{"bbox": [1, 2, 3, 4], "text": "a"}', '{"bbox": [NaN, 1e999, "x", {}]}',
          '"bbox":', "$", "\\frac{", "\\[", "\n", "a b", "&#0;", "&#xD800;", "\x00", "\ud800", "<!--",
          "<![CDATA[", "---\n", "<|LOC_1|>", "<|LOC_1000|>", "<|LOC_9999|>", "<|LOC_", "<|TEXT_START|>",
          "<|TEXT_END|>",
          "<|LOC_BEGIN|>", "<|LOC_END|>", "<|ref|>a<|/ref|>", "<|det|>[[1, 2, 3, 4]]<|/det|>", "<|ref|>", "<|det|>"]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
       st.sampled_from([None, "doctags", "layout", "markdown", "spotting", "grounding"]))
def test_nothing_that_is_written_raises_or_leaves_the_page(text, markup):
    page = transcribed_page(text, SIZE, markup)
    assert valid_page(page)
    json.dumps(page, allow_nan=False).encode()


@pytest.mark.parametrize("piece", ["<text>a", "<otsl><fcel>a", "<fcel>a<nl>", "<table><tr><td>a", "|a|\n|-|\n", "a\n",
                                   '{"bbox":[1,2,3,4],"text":"a"},', "<caption><picture><list_item>",
                                   "<td rowspan=99 colspan=99>", "a<|LOC_1|>", "<|LOC_5|>" * 8, "<|TEXT_START|>a",
                                   "<|ref|>a<|/ref|><|det|>[[1, 2, 3, 4]]<|/det|>b"])
def test_a_hundred_thousand_of_anything_is_bounded(piece):
    for markup in ("doctags", "layout", "markdown", "spotting", "grounding"):
        found = read_markup(piece * 100_000, SIZE, markup)
        assert len(found) <= MOST_PASSAGES and sum(len(p.cells) for p in found) <= 20_000
    assert valid_page(transcribed_page(piece * 2000, SIZE))


def test_boxes_that_are_counted_otherwise_are_not_believed():
    entry = {"bbox": [100, 100, 900, 1400], "category": "Text", "text": "a b"}
    assert read_layout(json.dumps([entry, dict(entry, bbox=[1, 1, 9, 9])]), SIZE)[1].box is None
    line = transcribed_page(json.dumps([entry]), SIZE)["lines"][0]
    assert line["region"] == [0, 0, 1, 1]


def test_a_caption_without_a_place_is_somewhere_at_its_table():
    text = "<otsl><loc_50><loc_100><loc_450><loc_200><caption>Table 1: Sold</caption><fcel>a<fcel>b<nl></otsl>"
    read = transcribed_page(text, SIZE)["lines"]
    assert [line["region"] for line in read] == [[.1, .2, .9, .4]] * 3
    assert read[0]["text"] == "Table 1: Sold" and read[0]["bbox"][3] < read[1]["bbox"][1]


# --- a reader of pages ---

BILL = """<doctag><title><loc_50><loc_40><loc_250><loc_60>Invoice 2041</title>
<otsl><loc_50><loc_100><loc_450><loc_160><ched>Item<ched>Quantity<ched>Price<nl>
<fcel>Blue pens<fcel>12<fcel>24.00<nl><fcel>Black ink<fcel>3<fcel>19.50<nl></otsl>
<text><loc_50><loc_200><loc_140><loc_210>Total: 43.50</text></doctag>"""
MARKDOWN = """# Invoice 2041

| Item | Quantity | Price |
|---|---|---|
| Blue pens | 12 | 24.00 |
| Black ink | 3 | 19.50 |

Total: 43.50"""


@pytest.fixture
def sheet(tmp_path):
    "A page on which nothing can be read: what is answered comes from the model that writes it down."
    SHEET.save(tmp_path / "bill.png")
    return tmp_path / "bill.png"


def test_places_are_told_as_far_as_they_are_known():
    reader = PageReader(ScriptedClient([BILL]), family="docling", cache=None)
    page = reader.read([SHEET])[0]
    evidence = [{"page": 1, "bbox": None, "content": "Black ink: 19.50", "cell": 1}]
    place = snapped(evidence, "19.50", [SHEET], reader)[0]
    assert (place["bbox"], place["printed"]) == ([.1, .2, .9, .32], "19.50")
    exact = snapped([dict(evidence[0], content="Total: 43.50")], "43.50", [SHEET], reader)[0]["bbox"]
    assert .1 < exact[0] < exact[2] <= .2801 and exact[1:4:2] == [.4, .42]
    assert FindPage(Looking([SHEET], words=reader)).execute(text="Black ink").bbox == (.1, .2, .9, .32)
    client = PrintClient(ScriptedClient(["Answer: 19.50"]), words=reader)
    shown = client.shown(page_request([SHEET], "What is the price of black ink?"))
    assert {w.bbox for line in shown.lines for w in line.words if w.text in ("ink", "24.00")} == {(.1, .2, .9, .32)}
    assert sure_box(page, (.15, .41, .2, .415)) == (.15, .41, .2, .415)


def test_a_page_is_asked_for_once_whoever_asks(tmp_path):
    client = ScriptedClient([BILL, MARKDOWN])
    reader = PageReader(client, family="docling", cache=tmp_path)
    assert reader.at_hand(SHEET) is None
    first = reader.read([SHEET, SHEET])
    assert first[0] == first[1] and len(client.calls) == 1
    assert client.calls[0]["messages"][0]["content"][1]["text"] == "Convert this page to docling."
    assert (reader.usage.calls, reader.tokens) == (1, reader.usage.total_tokens) and reader.tokens > 0
    again = PageReader(ScriptedClient([]), family="docling", cache=tmp_path)
    assert again.read([SHEET])[0] == first[0] and again.at_hand(SHEET) == first[0] and again.tokens == 0
    other = PageReader(client, prompt="Write it down.", cache=tmp_path)   # another prompt is another transcription
    assert other.read([SHEET])[0]["lines"][0]["region"] == [0, 0, 1, 1] and len(client.calls) == 2


def test_retries_are_bounded_and_paid_for():
    client = ScriptedClient(["", Reply("x", finish_reason="refusal"), "", BILL])
    reader = PageReader(client, attempts=3, cache=None)
    page = reader.read([SHEET])[0]
    assert page["unread"] == "scripted wrote nothing down" and not page["lines"]
    assert len(client.calls) == 3 and page["cost"]["calls"] == 3
    assert client.calls[0]["temperature"] == 0 and client.calls[1]["temperature"] > 0
    assert reader.read([SHEET])[0]["lines"]   # of what was not read nothing is kept


def test_what_a_reader_cannot_be():
    for said, why in ((dict(client="openai", model="m", base_url="http://127.0.0.1:9/v1", family="x"), "family"),
                      (dict(client="scripted", replies=["a"], max_tokens=1), "max_tokens"),
                      (dict(client="scripted", replies=["a"], markup="xml"), "doctags, layout, markdown"),
                      (dict(client="scripted", replies=["a"], attempts=0), "attempts"), (["ocr"], "name a client"),
                      (dict(client=7), "name a client"), ("ocr", "given their printed text itself"),
                      (dict(client="nobody"), "nobody"), ({}, "name a client")):
        with pytest.raises(ConfigError, match=why): make_page_reader(said)
    with pytest.raises(ValueError, match="--page-reader"): TextExtractor(print="model")
    with pytest.raises(ValueError, match="--page-reader"): TextExtractor().read([SHEET], print="model")
    with pytest.raises(ValueError, match="print='model' alone"): OcrClient(page_reader=ScriptedClient([]), print="ocr")
    with pytest.raises(ConfigError, match="page reader"): make_client("scripted", replies=["a"], print="model")


def test_noise_of_random_weights_is_survived():
    pytest.importorskip("transformers")
    client = make_client("ocr", print="model", page_reader=dict(client="random", max_tokens=40, side=128, attempts=1))
    page = client.words.read([SHEET])[0]
    assert valid_page(page) and page["source"] == "model" and page["cost"]["completion_tokens"] > 0
    reply = client.chat(build_messages([SHEET], "What is the total?"))
    assert reply.text


# --- behind servers, from outside ---

def writer(text, **kw): return fake.FakeServer("openai", answer=lambda body: text, **kw)


def reader_of(server, model="granite-docling-258M"):
    return "--page-reader-url", server.base_url, "--page-reader-model", model


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COSEE_API_KEY", "planted-0123456789-key")
    monkeypatch.delenv("COSEE_BACKENDS", raising=False)

    def run(*argv):
        code = main([str(a) for a in argv])
        return (code, *capsys.readouterr())
    return run


def ask(sheet, *argv):
    return ("ask", sheet, "-q", "What is the price of black ink?", "--agents", "detail_reader", "--max-steps", 1,
            "--json", *argv)


def test_ask_in_a_process_of_its_own(sheet, tmp_path):
    cache = {"COSEE_CACHE": str(tmp_path / "cache"), "COSEE_API_KEY": "planted-0123456789-key"}
    code = f"import os, sys; os.environ.update({cache!r}); from cosee.cli.entry import main; sys.exit(main())"
    with writer(BILL) as server:
        argv = [*ask(sheet, "-q", "What is the total?", "--print", "model", *reader_of(server))]
        runs = [subprocess.run([sys.executable, "-c", code, *map(str, argv)], capture_output=True, text=True, cwd=ROOT)
                for _ in range(2)]
        assert [r.returncode for r in runs] == [0, 0], runs[0].stderr
        assert len(server.requests) == 1   # both questions and both commands
        body = server.requests[0]["body"]
    price, total = json.loads(runs[0].stdout)
    assert (price["answer"], total["answer"]) == ("19.50", "43.50")
    assert price["evidence"][0]["bbox"] == [.1, .2, .9, .32]
    assert total["evidence"][0]["bbox"][1:4:2] == [.4, .42]
    assert "1 page read by openai.granite-docling-258M for" in runs[0].stderr and price["reading_tokens"] > 0
    assert "0 pages read, 1 from the cache" in runs[1].stderr and json.loads(runs[1].stdout)[0]["reading_tokens"] == 0
    assert body["messages"][0]["content"][-1]["text"] == "Convert this page to docling." and body["temperature"] == 0


def test_markdown_answers_and_its_evidence_is_the_page(run, sheet):
    with writer(MARKDOWN) as server:
        code, out, _ = run(*ask(sheet, *reader_of(server, "glm-ocr"), "--no-cache"))   # --print model is meant
        assert "Text Recognition:" in json.dumps(server.requests[0]["body"])
    result = json.loads(out)[0]
    assert code == 0 and result["answer"] == "19.50" and result["evidence"][0]["bbox"] == [0, 0, 1, 1]


def test_a_mind_reads_what_a_page_reader_wrote(run, sheet):
    said = json.dumps({"action": "HYPOTHESIZE", "view": {"line": 4}, "content": "It is printed.", "tags": [],
                       "answer": "19.50", "supporting_cells": [], "confidence": .9})
    with writer(BILL) as server, writer(said) as mind:
        argv = *reader_of(server), "--client", "print", "--base-url", mind.base_url, "--model", "m", "--no-cache"
        code, out, _ = run(*ask(sheet, "--print", "model", *argv))
        assert "Black ink | 3 | 19.50" in json.dumps(mind.requests[0]["body"]) and len(mind.requests) == 1
        assert "image_url" not in json.dumps(mind.requests[0]["body"])
        result = json.loads(out)[0]
        assert code == 0 and result["client"] == "print+openai.m"
        assert result["evidence"][0]["bbox"] == [.1, .2, .9, .32]
        argv = [a if a != "print" else "openai" for a in argv]
        assert run(*ask(sheet, "--print", "beside", *argv))[0] == 0
        beside = json.dumps(mind.requests[1]["body"])
        assert "image_url" in beside and "Black ink | 3 | 19.50" in beside


def test_a_file_of_backends_names_the_reader(run, sheet, tmp_path):
    with writer(BILL) as server, writer("Answer: 19.50") as mind:
        here = dict(kind="openai", base_url=server.base_url, models={"tags": "granite-docling"})
        mine = dict(kind="openai", base_url=mind.base_url, images=False, print="model", page_reader="here.tags",
                    models={"m": "m"})
        (tmp_path / "b.yaml").write_text(json.dumps({"backends": {"here": here, "mine": mine}}))
        client = create_vlm_client("mine.m", tmp_path / "b.yaml")
        assert "19.50" in str(client.chat(build_messages([SHEET], "What is the price of black ink?")))
        assert len(server.requests) == 1 and "Black ink" in json.dumps(mind.requests[0]["body"])
        code, out, _ = run(*ask(sheet, "--page-reader", "here.tags", "--config", tmp_path / "b.yaml", "--no-cache"))
        assert code == 0 and json.loads(out)[0]["answer"] == "19.50"


def test_a_run_names_the_reader_and_writes_down_what_it_cost(run, tmp_path):
    (tmp_path / "q.csv").write_text("file,question,answer\nbill.png,What is the total?,43.50\n")
    SHEET.save(tmp_path / "bill.png")
    with writer(BILL) as server:
        config = {"name": "r", "dataset": {"name": "folder", "root": str(tmp_path / "q.csv")}, "methods": ["direct"],
                  "client": {"type": "ocr", "options": {"print": "model", "page_reader": {
                      "client": "openai", "model": "granite-docling", "base_url": server.base_url}}}}
        (tmp_path / "run.yaml").write_text(json.dumps(config))
        assert run("run", tmp_path / "run.yaml", "--output-dir", tmp_path / "a", "--no-cache", "--quiet")[0] == 0
        argv = "--dataset", "folder", "--root", tmp_path / "q.csv", "--method", "direct", "--print", "model"
        assert run("run", *argv, *reader_of(server), "--output-dir", tmp_path / "b", "--no-cache", "--quiet")[0] == 0
        assert len(server.requests) == 2
    for name in "ab":
        about = json.loads((tmp_path / name / "run.json").read_text())["config"]["client"]["options"]
        assert about["print"] == "model" and about["page_reader"]["client"] == "openai"
        record = json.loads((tmp_path / name / "records.jsonl").read_text().splitlines()[0])
        assert record["answer"] == "43.50" and record["times"]["reading_tokens"] > 0


def test_a_transcription_that_was_cut_off_is_told(run, sheet):
    cut = fake.WIRES["openai"](BILL.partition("<text>")[0])
    cut["choices"][0]["finish_reason"] = "length"
    with writer(BILL, script=[cut]) as server:
        code, out, err = run(*ask(sheet, *reader_of(server), "--no-cache"))
    assert code == 0 and "page 1 is not read to its end: the model wrote 8,192 tokens and was not done" in err
    assert json.loads(out)[0]["answer"] == "19.50"


@pytest.mark.parametrize("argv, why", [
    (["--print", "model"], "--print model needs --page-reader"),
    (["--print", "ocr", "--page-reader", "openai"], "not for"),
    (["--page-reader", "opnai"], "opnai"), (["--page-reader", "ocr"], "given their printed text itself"),
    (["--page-reader", "openai"], "needs model"), (["--page-reader-path", "/nowhere"], "/nowhere"),
    (["--page-reader-url", "http://127.0.0.1:9/v1", "--page-reader-model", "m", "--page-reader-family", "doclink"],
     "did you mean 'docling'")])
def test_a_reader_that_cannot_be_is_one_line_before_any_work(run, sheet, argv, why):
    code, out, err = run(*ask(sheet, *argv, "--quiet"))
    assert code == 2 and not out and why in err and err.count("\n") == 1, err


def test_a_reader_behind_a_dead_server_or_without_eyes_is_one_line(run, sheet):
    with writer(BILL) as server: gone = reader_of(server)
    code, _, err = run(*ask(sheet, *gone, "--no-cache", "--quiet"))
    assert code == 1 and err.count("\n") == 1 and "granite-docling" in err, err
    blind = Sight(ScriptedClient([ImagesRefused("no images"), "Total: 42"]))
    with pytest.warns(UserWarning, match="takes no images"), pytest.raises(ImagesRefused, match="cannot read pages"):
        PageReader(blind, cache=None).read([SHEET])


def test_pages_are_asked_for_side_by_side_of_a_server():
    sheets = [Image.effect_noise((64, 64), 40 + i) for i in range(4)]
    with writer("Total: 42") as server:
        reader = make_page_reader(dict(client="openai", model="m", base_url=server.base_url))
        assert [p["lines"][0]["text"] for p in reader.read(sheets)] == ["Total: 42"] * 4
    assert len(server.requests) == 4 and reader.usage.calls == 4 and reader.workers > 1
