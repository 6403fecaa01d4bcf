"""Pages that a model writes down: what it wrote comes back word for word, nothing that it may write does harm, and
every command reads it with honest places and an honest bill."""
import html
import json
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import fake_servers as fake
from conftest import ROOT
from cosee.models.text_client import TextClient
from cosee.text.grounding import ground
from cosee.models.text_client import MultimodalClient
from cosee.models.transcriber import Transcriber, make_transcriber
from cosee.models.client import Reply, build_messages, page_request
from cosee.models.registry import create_vlm_client, make_client
from cosee.models.remote import ImagesRefused
from cosee.models.testing import ScriptedClient
from cosee.text.page_text import sure_box, valid_page
from cosee.text.transcripts import MOST_LINES, Block, transcribed_page
from cosee.tools.sight import FindPage
from cosee.tools.sight import Sight as Looking

pytestmark = pytest.mark.slow

SIZE = (800, 1000)
SHEET = Image.effect_noise(SIZE, 60)

# --- writers: what a model would write of blocks ---

WORD = st.text("abcXYZ019éß&<>|*_#", min_size=1, max_size=7).filter(lambda w: any(c.isalnum() for c in w))
PLAIN = st.text("abcdXYZ0189éß", min_size=1, max_size=7).filter(str.isalnum)
BOX = st.tuples(*[st.integers(0, 240)] * 2, *[st.integers(250, 499)] * 2).map(lambda b: tuple(v / 500 for v in b))


def blocks(word, box=BOX):
    "Lines of text, and tables whose rows have as many cells."
    line = st.lists(word, min_size=1, max_size=6).map(" ".join)
    table = st.integers(2, 4).flatmap(
        lambda n: st.lists(st.lists(line, min_size=n, max_size=n), min_size=2, max_size=4))
    rows = st.one_of(line.map(lambda text: [[text]]), table)
    return st.lists(st.builds(Block, rows, box), min_size=1, max_size=6)


def doctags(found, closed=True):
    out = []
    for rows, box in found:
        name = "text" if len(rows) == len(rows[0]) == 1 else "otsl"
        cell = "<fcel>" if name == "otsl" else ""
        said = "".join("".join(cell + html.escape(text) for text in row) + "<nl>" * bool(cell) for row in rows)
        locs = "".join(f"<loc_{round(v * 500)}>" for v in box)
        out.append(f"<{name}>{locs}{said}" + f"</{name}>" * closed)
    return "<doctag>" + "\n".join(out)


def html_table(rows):
    cells = ("".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows)
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def pipes(rows):
    said = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([said[0], "|" + "---|" * len(rows[0]), *said[1:]])


def layout(found):
    return json.dumps([{"bbox": [round(v * s) for v, s in zip(box, SIZE * 2, strict=True)], "category": "Text",
                        "text": html_table(rows) if len(rows) > 1 else rows[0][0]} for rows, box in found])


def words(lines): return sorted(w for line in lines for w in line["text"].split())


def words_of(found): return sorted(w for rows, _ in found for row in rows for text in row for w in text.split())


def places(lines): return {tuple(round(v, 3) for v in line.get("region", line["bbox"])) for line in lines}


# --- the same words come back ---

@settings(deadline=None)
@given(blocks(WORD), st.booleans())
def test_doctags_come_back_word_for_word_with_their_boxes(found, closed):
    read = transcribed_page(doctags(found, closed), SIZE)["lines"]
    assert words(read) == words_of(found)
    assert places(read) <= {tuple(round(v, 3) for v in box) for _, box in found}


@settings(deadline=None)
@given(blocks(PLAIN), st.sampled_from([html_table, pipes]))
def test_markdown_comes_back_word_for_word_somewhere_on_the_page(found, table):
    text = "\n\n".join(table(rows) if len(rows) > 1 else "## " + rows[0][0] for rows, _ in found)
    read = transcribed_page(text, SIZE)["lines"]
    assert words(read) == words_of(found) and places(read) == {(0, 0, 1, 1)}
    tables = [rows for rows, _ in found if len(rows) > 1]
    assert len({line["bbox"][1] for line in read}) >= len(found) - len(tables) + sum(map(len, tables))


@settings(deadline=None)
@given(blocks(PLAIN))
def test_a_layout_comes_back_with_its_boxes(found):
    read = transcribed_page(layout(found), SIZE)["lines"]
    assert words(read) == words_of(found)
    boxes = [box for _, box in found]
    assert all(any(place == pytest.approx(box, abs=.002) for box in boxes) for place in places(read))


def test_cells_below_a_merged_one_keep_their_columns():
    rows = ("<tr><th rowspan=2>Region</th><th colspan='2'>Sold</th></tr><tr><td>2023</td><td>2024</td></tr>"
            "<tr><td>North</td><td>310</td><td>355</td></tr>")
    tags = ("<otsl><ched>Region<ched>Sold<lcel><nl><ucel><fcel>2023<fcel>2024<nl>"
            "<fcel>North<fcel>310<fcel>355<nl></otsl>")
    for text in (f"<table>{rows}</table>", tags):
        left = {line["text"]: line["bbox"][0] for line in transcribed_page(text, SIZE)["lines"]}
        assert left["North"] == left["Region"] < left["310"] == left["2023"] < left["355"] == left["2024"]


# --- whatever comes ---

PIECES = ["<doctag>", "<text>", "</text>", "<otsl>", "</otsl>", "<fcel>", "<lcel>", "<ucel>", "<xcel>", "<nl>",
          "<caption>", "<picture>", "</picture>", "<inline>", "</inline>", "<loc_5>", "<loc_499>", "<loc_99999999999>",
          "<loc_", "<b>", "<|x|>", "<list_item>", "<table>", "</table>", "<tr>", "<td rowspan=9999>",
          "<td colspan='-1'>", "</td>", "<img>", "|", "|-|", "# ", "**", "`",
          "```json\n", "[", "]", "{", "}", '{"bbox": [1, 2, 3, 4], "text": "a"}', '{"bbox": [NaN, 1e999, "x", {}]}',
          '"bbox":', "$", "\\[", "\n", "a b", "&#0;", "&#xD800;", "\x00", "\ud800", "<!--", "<![CDATA[", "---\n"]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["", "<doctag>", '[{"bbox": [1, 2, 3, 4]},']),
       st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_nothing_that_is_written_raises_or_leaves_the_page(start, text):
    page = transcribed_page(start + text, SIZE)
    assert valid_page(page)
    json.dumps(page, allow_nan=False).encode()


@pytest.mark.parametrize("piece", ["<text>a", "<otsl><fcel>a", "<fcel>a<nl>", "<otsl><caption>a", "<inline>",
                                   "<table><tr><td>a", "|a|\n|-|\n", "a\n", "**a", "![", "<loc_1>", "<",
                                   '{"bbox":[1,2,3,4],"text":"a"},', "<caption><picture><list_item>",
                                   "<td rowspan=99 colspan=99>"])
@pytest.mark.parametrize("start", ["", "<doctag>", '[{"bbox": [1, 2, 3, 4]},'])
def test_a_hundred_thousand_of_anything_is_bounded(start, piece):
    began = time.process_time()
    page = transcribed_page(start + piece * 100_001, SIZE)
    assert valid_page(page) and len(page["lines"]) <= MOST_LINES
    assert "letters" in page["unfinished"] and time.process_time() - began < 20


@pytest.mark.parametrize("end", ["<text><loc_50><loc_200><loc_140><loc_210>Total: 43.50", "<text><loc_50><lo", "<"])
def test_a_page_that_is_cut_off_keeps_what_was_written(end):
    cut = f"<doctag><otsl><loc_50><loc_100><loc_450><loc_160><ched>Item<ched>Price<nl><fcel>Ink<fcel>19.50<nl>{end}"
    texts = [line["text"] for line in transcribed_page(cut, SIZE)["lines"]]
    assert texts == ["Item", "Price", "Ink", "19.50", *["Total: 43.50"] * ("Total" in end)]
    table = "<table><tr><td>Item</td><td>Price</td></tr><tr><td>Ink</td><td>19.50"
    assert [line["text"] for line in transcribed_page(table, SIZE)["lines"]] == texts[:4]


def test_nothing_is_opened_or_fetched(tmp_path, monkeypatch):
    (tmp_path / "secret.txt").write_text("planted")
    transcribed_page("<doctag><text>warm</text>", SIZE)   # modules are read from files
    monkeypatch.setattr("builtins.open", lambda *a, **kw: pytest.fail(f"opened {a}"))
    monkeypatch.setattr("socket.socket", lambda *a, **kw: pytest.fail("fetched"))
    for text in (f"<doctag><picture><loc_1><loc_1><loc_400><loc_400>{tmp_path}/secret.txt</picture><text>a</text>",
                 str(tmp_path / "secret.txt"), f"![a](file://{tmp_path}/secret.txt) a",
                 "<table><tr><td><img src='http://127.0.0.1:9/x.png'>a</td></tr></table>"):
        assert "planted" not in json.dumps(transcribed_page(text, SIZE))


def test_boxes_that_are_counted_otherwise_are_not_believed():
    entry = {"bbox": [100, 100, 900, 1400], "category": "Text", "text": "a b"}
    page = transcribed_page(json.dumps([entry, dict(entry, bbox=[1, 1, 9, 9])]), SIZE)
    assert [line["region"] for line in page["lines"]] == [[0, 0, 1, 1]] * 2


def test_a_caption_without_a_place_is_somewhere_at_its_table():
    text = "<otsl><loc_50><loc_100><loc_450><loc_200><caption>Table 1: Sold</caption><fcel>a<fcel>b<nl></otsl>"
    read = transcribed_page(text, SIZE)["lines"]
    assert [line["region"] for line in read] == [[.1, .2, .9, .4]] * 3
    assert read[0]["text"] == "Table 1: Sold" and read[0]["bbox"][3] < read[1]["bbox"][1]


def test_doctags_without_their_parser_are_one_line_before_a_page_is_paid_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "docling_core", None)
    client = ScriptedClient(["<doctag><text>a</text></doctag>"])
    with pytest.raises(ImportError, match=r'needs docling_core.*\[transcripts\]"'):
        Transcriber(client, family="docling", cache=None)
    assert not client.calls
    assert Transcriber(ScriptedClient(["Total: 42"]), cache=None).read([SHEET])[0]["lines"][0]["text"] == "Total: 42"


# --- a transcriber ---

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
    reader = Transcriber(ScriptedClient([BILL]), family="docling", cache=None)
    page = reader.read([SHEET])[0]
    evidence = [{"page": 1, "bbox": None, "content": "Black ink: 19.50", "cell": 1}]
    place = ground(evidence, "19.50", [SHEET], reader)[0]
    assert (place["bbox"], place["printed"]) == ([.1, .2, .9, .32], "19.50")
    exact = ground([dict(evidence[0], content="Total: 43.50")], "43.50", [SHEET], reader)[0]["bbox"]
    assert .1 < exact[0] < exact[2] <= .2801 and exact[1:4:2] == [.4, .42]
    assert FindPage(Looking([SHEET], words=reader)).execute(text="Black ink").bbox == (.1, .2, .9, .32)
    client = TextClient(ScriptedClient(["Answer: 19.50"]), words=reader)
    shown = client.shown(page_request([SHEET], "What is the price of black ink?"))
    assert {w.bbox for line in shown.lines for w in line.words if w.text in ("ink", "24.00")} == {(.1, .2, .9, .32)}
    assert sure_box(page, (.15, .41, .2, .415)) == (.15, .41, .2, .415)


def test_a_page_is_asked_for_once_whoever_asks(tmp_path):
    client = ScriptedClient([BILL, MARKDOWN])
    reader = Transcriber(client, family="docling", cache=tmp_path)
    assert reader.at_hand(SHEET) is None
    first = reader.read([SHEET, SHEET])
    assert first[0] == first[1] and len(client.calls) == 1
    assert client.calls[0]["messages"][0]["content"][1]["text"] == "Convert this page to docling."
    assert (reader.usage.calls, reader.tokens) == (1, reader.usage.total_tokens) and reader.tokens > 0
    again = Transcriber(ScriptedClient([]), family="docling", cache=tmp_path)
    assert again.read([SHEET])[0] == first[0] and again.at_hand(SHEET) == first[0] and again.tokens == 0
    other = Transcriber(client, prompt="Write it down.", cache=tmp_path)   # another prompt is another transcript
    assert other.read([SHEET])[0]["lines"][0]["region"] == [0, 0, 1, 1] and len(client.calls) == 2


def test_retries_are_bounded_and_paid_for():
    client = ScriptedClient(["", Reply("x", finish_reason="refusal"), "", BILL])
    reader = Transcriber(client, attempts=3, cache=None)
    page = reader.read([SHEET])[0]
    assert page["unread"] == "scripted wrote nothing down" and not page["lines"] and "unfinished" not in page
    assert len(client.calls) == 3 and page["cost"]["calls"] == 3
    assert client.calls[0]["temperature"] == 0 and client.calls[1]["temperature"] > 0
    assert reader.read([SHEET])[0]["lines"]   # of what was not read nothing is kept


def test_noise_of_random_weights_is_survived():
    pytest.importorskip("transformers")
    writes = dict(client="random", max_tokens=40, side=128, attempts=1)
    client = make_client("ocr", text_source="model", transcriber=writes)
    page = client.words.read([SHEET])[0]
    assert valid_page(page) and page["source"] == "model" and page["cost"]["completion_tokens"] > 0
    reply = client.chat(build_messages([SHEET], "What is the total?"))
    assert reply.text


# --- behind servers, from outside ---

def writer(text, **kw): return fake.FakeServer("openai", answer=lambda body: text, **kw)


def reader_of(server, model="granite-docling-258M"):
    return "--transcriber-url", server.base_url, "--transcriber-model", model


def ask(sheet, *argv):
    return ("ask", sheet, "-q", "What is the price of black ink?", "--agents", "detail_reader", "--max-steps", 1,
            "--json", *argv)


def test_ask_in_a_process_of_its_own(sheet, tmp_path):
    cache = {"COSEE_CACHE": str(tmp_path / "cache"), "COSEE_API_KEY": "planted-0123456789-key"}
    code = f"import os, sys; os.environ.update({cache!r}); from cosee.cli.entry import main; sys.exit(main())"
    with writer(BILL) as server:
        argv = [*ask(sheet, "-q", "What is the total?", "--text-source", "model", *reader_of(server))]
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
        code, out, _ = run(*ask(sheet, *reader_of(server, "glm-ocr"), "--no-cache"))   # --text-source model is meant
        assert "Text Recognition:" in json.dumps(server.requests[0]["body"])
    result = json.loads(out)[0]
    assert code == 0 and result["answer"] == "19.50" and result["evidence"][0]["bbox"] == [0, 0, 1, 1]


def test_a_model_reads_what_a_transcriber_wrote(run, sheet):
    said = json.dumps({"action": "HYPOTHESIZE", "view": {"line": 4}, "content": "It is printed.", "tags": [],
                       "answer": "19.50", "supporting_cells": [], "confidence": .9})
    with writer(BILL) as server, writer(said) as llm:
        argv = *reader_of(server), "--client", "text", "--base-url", llm.base_url, "--model", "m", "--no-cache"
        code, out, _ = run(*ask(sheet, "--text-source", "model", *argv))
        assert "Black ink | 3 | 19.50" in json.dumps(llm.requests[0]["body"]) and len(llm.requests) == 1
        assert "image_url" not in json.dumps(llm.requests[0]["body"])
        result = json.loads(out)[0]
        assert code == 0 and result["client"] == "text+openai.m"
        assert result["evidence"][0]["bbox"] == [.1, .2, .9, .32]
        argv = [a if a != "text" else "openai" for a in argv]
        assert run(*ask(sheet, "--text-source", "image_and_text", *argv))[0] == 0
        beside = json.dumps(llm.requests[1]["body"])
        assert "image_url" in beside and "Black ink | 3 | 19.50" in beside


def test_a_file_of_backends_names_the_reader(run, sheet, tmp_path):
    with writer(BILL) as server, writer("Answer: 19.50") as llm:
        here = dict(kind="openai", base_url=server.base_url, models={"tags": "granite-docling"})
        mine = dict(kind="openai", base_url=llm.base_url, images=False, text_source="model", transcriber="here.tags",
                    models={"m": "m"})
        (tmp_path / "b.yaml").write_text(json.dumps({"backends": {"here": here, "mine": mine}}))
        client = create_vlm_client("mine.m", tmp_path / "b.yaml")
        assert "19.50" in str(client.chat(build_messages([SHEET], "What is the price of black ink?")))
        assert len(server.requests) == 1 and "Black ink" in json.dumps(llm.requests[0]["body"])
        code, out, _ = run(*ask(sheet, "--transcriber", "here.tags", "--config", tmp_path / "b.yaml", "--no-cache"))
        assert code == 0 and json.loads(out)[0]["answer"] == "19.50"


def test_a_transcription_that_was_cut_off_is_told(run, sheet):
    cut = fake.WIRES["openai"](BILL.partition("<text>")[0])
    cut["choices"][0]["finish_reason"] = "length"
    with writer(BILL, script=[cut]) as server:
        code, out, err = run(*ask(sheet, *reader_of(server), "--no-cache"))
    assert code == 0 and "page 1 is not read to its end: the model wrote 8,192 tokens and was not done" in err
    assert json.loads(out)[0]["answer"] == "19.50"


def test_a_reader_behind_a_dead_server_or_without_eyes_is_one_line(run, sheet):
    with writer(BILL) as server: gone = reader_of(server)
    code, _, err = run(*ask(sheet, *gone, "--no-cache", "--quiet"))
    assert code == 1 and err.count("\n") == 1 and "granite-docling" in err, err
    blind = MultimodalClient(ScriptedClient([ImagesRefused("no images"), "Total: 42"]))
    with pytest.warns(UserWarning, match="takes no images"), pytest.raises(ImagesRefused, match="cannot read pages"):
        Transcriber(blind, cache=None).read([SHEET])


def test_pages_are_asked_for_side_by_side_of_a_server():
    sheets = [Image.effect_noise((64, 64), 40 + i) for i in range(4)]
    with writer("Total: 42") as server:
        reader = make_transcriber(dict(client="openai", model="m", base_url=server.base_url))
        assert [p["lines"][0]["text"] for p in reader.read(sheets)] == ["Total: 42"] * 4
    assert len(server.requests) == 4 and reader.usage.calls == 4 and reader.workers > 1
