"""Rows as files: whatever stands in a cell comes back, and nothing in it is run."""
import csv
import io
import json
import math
import re
import sys
import zipfile

import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st
from test_extras import cosee

from cosee import samples_dir
from cosee.runs.analysis import Table
from cosee.utils.config import MissingExtra
from cosee.utils.tables import require_table, tex_table, write_table
from cosee.utils.text import one_line

HOSTILE = "=+-@＝－\t\r\n\"',;|\\&%$#_{}~^<>[]*`\x00\x08\x1a\x7f\x85\u2028\ufeff\ufffe\ud83d\udc00 aä字😀"
TEXTS = st.text(st.sampled_from(HOSTILE) | st.characters(), max_size=12) | st.sampled_from(
    ["=1+1", "@SUM(A1)", "-2+3", "#N/A", "_x0041_", "NA", "nan", "1e5", "True", "a\r\nb", '","', "''", "---"])
NUMBERS = st.booleans() | st.integers(-10**18, 10**18) | st.floats()
CELLS = st.none() | TEXTS | NUMBERS
TABLES = st.lists(st.tuples(CELLS, CELLS), max_size=5)


def write(path, rows):
    "Write rows of two columns."
    return write_table(path, [dict(zip(("one", "two"), row, strict=True)) for row in rows], ["one", "two"])


def clean(value):
    "What a table can hold of a value."
    if value is None or value != value: return None
    if not isinstance(value, str): return value
    return "".join("\ufffd" if (c < " " and c not in "\t\r\n") or "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff"
                   else c for c in value)


def in_csv(value):
    "The text that a reader of CSV gives for a value."
    if isinstance(value := clean(value), str): return "'" * (value[:1] in set("=+-@\t\r\n＝＋－＠")) + value
    return "" if value is None else str(value)


@pytest.fixture(scope="module")
def place(tmp_path_factory): return tmp_path_factory.mktemp("tables")


@settings(max_examples=40)
@given(TABLES)
def test_csv_comes_back_as_it_was(place, rows):
    path = write(place / "t.csv", rows)
    wanted = [["one", "two"], *([*map(in_csv, row)] for row in rows)]
    with path.open(encoding="utf-8", newline="") as file: assert list(csv.reader(file)) == wanted
    read = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    assert [list(read), *read.values.tolist()] == wanted


PLAIN = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]) | st.sampled_from(",\"\n'"), max_size=8)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.none() | PLAIN | NUMBERS, st.none() | PLAIN), max_size=4))
def test_csv_is_that_of_pandas(place, rows):
    found = write(place / "p.csv", rows).read_text()
    def safe(value): return in_csv(value) if isinstance(value, str) else value
    frame = pd.DataFrame([[*map(safe, row)] for row in rows], columns=["one", "two"], dtype=object)
    assert found == frame.to_csv(index=False)


def test_columns_come_in_order_of_appearance(tmp_path):
    path = write_table(tmp_path / "t.csv", iter([{"b": 1}, {"a": 2.0, "b": None, "=c": True}]))
    assert path.read_bytes() == b"b,a,'=c\n1,,\n,2.0,True\n"


@settings(max_examples=40)
@given(TABLES)
def test_a_sheet_holds_numbers_and_texts_and_no_formula(place, rows):
    openpyxl = pytest.importorskip("openpyxl")
    path = write(place / "t.xlsx", rows)
    with zipfile.ZipFile(path) as packed: sheet = packed.read("xl/worksheets/sheet1.xml").decode()
    assert "<f" not in sheet
    book = openpyxl.load_workbook(path)
    cells = list(book.active.iter_rows(min_row=2, max_row=len(rows) + 1, max_col=2)) if rows else []
    for row, found in zip(rows, cells, strict=True):
        for value, cell in zip(map(clean, row), found, strict=True):
            if isinstance(value, str) and value:
                assert cell.data_type == "s"
                assert cell.value.replace("_x005F_", "_") == re.sub("\r\n?", "\n", value)
            elif isinstance(value, (int, float)) and (abs(value) < 10**15 or isinstance(value, float)
                                                      and abs(value) < 1e307):
                assert cell.data_type in ("n", "b") and cell.value == pytest.approx(value, rel=1e-15)
            elif value or value == 0: assert cell.value == str(value)
            else: assert cell.value is None


def test_what_a_sheet_cannot_hold_is_said(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    path = write_table(tmp_path / "t.xlsx", [dict(a="😀" * 40_000, b=1234567890123456789)])
    (_, (a, b)) = openpyxl.load_workbook(path).active.iter_rows()
    assert len(a.value.encode("utf-16-le")) <= 2 * 32_767 and a.value.endswith("😀…")
    assert b.value == "1234567890123456789"
    with pytest.raises(ValueError, match="a sheet does not hold 1 rows of 16,385 columns; write .csv or .parquet"):
        write_table(tmp_path / "w.xlsx", [{}], [f"c{n}" for n in range(16_385)])


@settings(max_examples=40)
@given(TABLES)
def test_parquet_holds_a_type_for_each_column(place, rows):
    read = pd.read_parquet(write(place / "t.parquet", rows))
    assert list(read) == ["one", "two"] and len(read) == len(rows)
    for i, name in enumerate(read):
        wanted = [clean(row[i]) for row in rows]
        for value, found in zip(wanted, read[name].tolist(), strict=True):
            if value is None: assert found is None or math.isnan(found)
            elif isinstance(found, str): assert found == str(value)
            else: assert found == pytest.approx(value, rel=1e-15)


COMMANDS = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textless{}": "<",
            r"\textgreater{}": ">", r"\textbar{}": "|", r"\symbol{34}": '"', r"\symbol{96}": "`", "{[}": "[",
            "{]}": "]", "{*}": "*", **{"\\" + mark: mark for mark in "&%$#_{}"}, "{}": ""}


@example([["\\&%$#_{}~^<>[]*`|\"--''", "*"]])
@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=4))
def test_a_table_in_latex_holds_words_alone(rows):
    text = tex_table(["a", "b"], rows)
    lines = text[text.index("\\midrule\n") + 9:text.index("\\bottomrule")].splitlines()
    mark = re.compile("|".join(map(re.escape, sorted(COMMANDS, key=len, reverse=True))))
    assert len(lines) == len(rows)
    for row, line in zip(rows, lines, strict=True):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)&", line.removesuffix(r" \\"))]
        assert [mark.sub(lambda m: COMMANDS[m[0]], cell) for cell in cells] == [*map(one_line, row)]
        for cell in cells: assert not re.search(r"--|''|,,|[&%$#~^<>|\"`\[\]*{}\\]", mark.sub("word", cell))


def test_a_summary_is_written_by_its_ending(tmp_path):
    table = Table("Methods", {"method": "{}", "score, %": "{:.1f}"}, [["a_b", 200 / 3], ["=c", None]])
    assert table.save(tmp_path / "t.csv").read_text() == "method,\"score, %\"\na_b,66.66666666666667\n'=c,\n"
    assert r"a\_b & 66.7 \\" in table.save(tmp_path / "t.tex").read_text()
    assert table.save(tmp_path / "t.md").read_text().splitlines()[2] == r"| a\_b | 66.7 |"
    with pytest.raises(ValueError, match="t.doc: write .csv, .xlsx, .parquet, .md or .tex"): table.save("t.doc")


def test_what_is_missing_is_named_before_rows_are_read(tmp_path, monkeypatch):
    for name in ("openpyxl", "pyarrow"): monkeypatch.setitem(sys.modules, name, None)
    rows = ({"one": 1 / 0} for _ in "1")   # they are not looked at
    for ending, extra in (("xlsx", "office"), ("parquet", "parquet")):
        with pytest.raises(MissingExtra, match=rf'\[{extra}\]"'): require_table(f"t.{ending}")
        with pytest.raises(MissingExtra): write_table(tmp_path / f"t.{ending}", rows)


# --- as users do it, with the core alone ---

@pytest.fixture(scope="module")
def done(tmp_path_factory):
    "A folder of documents, and what `cosee extract` of the core alone says of them twice."
    folder = tmp_path_factory.mktemp("extract")
    (folder / "inbox").mkdir()
    (folder / "inbox/invoice.pdf").write_bytes((samples_dir() / "invoice.pdf").read_bytes())
    item = dict(type="object", properties=dict(description=dict(type="string"), amount=dict(type="number")))
    form = dict(number=dict(type="string", description="What is the invoice number?"),
                items=dict(type="array", items=item))
    (folder / "form.json").write_text(json.dumps(dict(type="object", properties=form)))
    return folder, [extract(folder, "inbox/values.csv") for _ in range(2)]


def extract(folder, out):
    return cosee("extract", str(folder / "inbox"), "--schema", str(folder / "form.json"), "--client", "none", "--out",
                 str(folder / out))


def test_values_go_into_a_spreadsheet_with_the_core_alone(done):
    folder, calls = done
    for call in calls: assert call.returncode == 0 and "not read" not in call.stderr, call.stderr
    assert sorted(p.name for p in (folder / "inbox").glob("values*")) == ["values-items.csv", "values.csv",
                                                                          "values.jsonl"]
    (row,) = csv.DictReader(io.StringIO((folder / "inbox/values.csv").read_text()))
    assert row["number"] == "INV-82635" and row["_error"] == ""
    items = pd.read_csv(folder / "inbox/values-items.csv")
    assert items["_row"].tolist() == [1, 2, 3, 4, 5, 6] and items["amount"].tolist()[:2] == [303.82, 911.52]
    assert "1 document of 1 there already" in calls[1].stderr


@pytest.mark.parametrize("out, says", [
    ("mine.csv", "mine.csv is there, and no mine.jsonl that it was made of"), ("values.json", "ends in .jsonl, .csv"),
    ("values.xlsx", '[office]"'), ("values.parquet", '[parquet]"')])
def test_a_table_that_cannot_be_written_is_refused_before_any_document_is_read(done, out, says):
    folder, _ = done
    (folder / "mine.csv").write_text("mine")
    call = extract(folder, out)
    assert call.returncode == 2 and says in call.stderr and len(call.stderr.splitlines()) == 1
    assert (folder / "mine.csv").read_text() == "mine" and not list(folder.glob("*.jsonl"))
