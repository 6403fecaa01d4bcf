"""Nothing is lost in silence: what is not read, cannot be read, was read before from another file, or is cut off."""
import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile

import anyio
import cosee
import mcp
import pytest
from cosee.cli.entry import main
from cosee.datasets.folder import Folder
from cosee.datasets.records import DataError, read_csv
from cosee.extraction.folder import Extracted
from cosee.extraction.review import report_html
from cosee.extraction.scores import read_lines
from cosee.models.testing import ScriptedClient
from cosee.pages import PageError, files_inside, load_pages
from cosee.runs.log import locked_file
from cosee.server.answering import Clients
from cosee.server.documents import AllowedPaths
from cosee.server.episodes import EpisodeService
from cosee.server.http import create_app, protect
from cosee.server.mcp import mcp_server
from fastapi.testclient import TestClient
from PIL import Image
from raw_pdf import Pdf, say
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

QUESTION = "What is the total due?"


def write(path, *totals, **how):
    "A PDF with a total on each page."
    pdf = Canvas(str(path), invariant=1, **how)
    for total in totals:
        pdf.drawString(60, 732, "Total due:")
        pdf.drawString(330, 732, f"{total} EUR")
        pdf.showPage()
    pdf.save()
    return path


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    "Types a command in a folder; its exit code, output and errors."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args):
        capsys.readouterr()
        code = main([*map(str, args), "--client", "ocr"])
        return code, *capsys.readouterr()
    return run


@pytest.fixture
def inbox(tmp_path):
    "A folder with one document and what people put beside it."
    folder = tmp_path / "inbox"
    folder.mkdir()
    write(folder / "bill.pdf", "125.00")
    with zipfile.ZipFile(folder / "a.docx", "w") as file: file.writestr("word/document.xml", "<w/>")
    (folder / "a.mbox").write_text("From a@b.org\nSubject: the bill\n\nDear Sir")
    (folder / "a.7z").write_bytes(b"7z\xbc\xaf" + bytes(40))
    (folder / "notes.txt").write_text("Pay it.")
    (folder / "empty").touch()
    (folder / "gone.pdf").symlink_to("nowhere.pdf")
    (folder / ".hidden.docx").touch()
    (folder / "Thumbs.db").touch()
    return folder


OTHERS = {"a.docx": "archive", "a.mbox": "mails", "a.7z": "archive", "notes.txt": "not a PDF", "empty": "empty",
          "gone.pdf": "leads nowhere"}


# --- folders ---

def test_a_folder_says_of_each_file_whether_it_is_read_and_why_not(inbox):
    (inbox / "more").mkdir()
    write(inbox / "more/second.pdf", "1.00")
    read, left_out = files_inside(inbox)
    assert [p.name for p in read] == ["bill.pdf"]
    found = {file.removeprefix(f"{inbox}/"): why for file, why in left_out}
    assert found.keys() == {*OTHERS, "more"} and "name it too" in found["more"]
    assert all(why in found[name] for name, why in OTHERS.items())
    read, left_out = files_inside(inbox, deep=True)
    assert [p.name for p in read] == ["bill.pdf", "second.pdf"] and len(left_out) == len(OTHERS)
    assert load_pages([load_pages(inbox), inbox / "bill.pdf"]).left_out == load_pages(inbox).left_out
    for path in inbox.glob("*.pdf"): path.unlink()
    with pytest.raises(PageError, match="box of mails"): files_inside(inbox)


def test_ask_names_what_it_left_out(shell, inbox):
    code, out, said = shell("ask", "inbox", "-q", QUESTION)
    assert code == 0 and "125.00 EUR" in out
    assert all(name in out and name in said and why in out for name, why in OTHERS.items())
    code, out, said = shell("ask", "inbox", "-q", QUESTION, "--json", "--quiet")
    left_out = {one["file"]: one["why"] for one in json.loads(out)[0]["left_out"]}
    assert code == 0 and not said and left_out.keys() == {f"inbox/{name}" for name in OTHERS}
    assert "left_out" not in json.loads(shell("ask", "inbox/bill.pdf", "-q", QUESTION, "--json")[1])[0]


def test_extract_names_what_it_left_out_on_every_way_out(shell, inbox, tmp_path):
    code, out, said = shell("extract", "inbox", "--schema", "invoice", "--json")
    lines = {line["file"].removeprefix("inbox/"): line for line in map(json.loads, out.splitlines())}
    assert code == 0 and lines.keys() == {"bill.pdf", *OTHERS}
    assert all(why in lines[name]["error"] and name in said for name, why in OTHERS.items())
    assert f"1 document read, {len(OTHERS)} other files left out" in said
    for out in ("march", "march", "inbox/fields.jsonl", "inbox/fields.jsonl"):
        assert shell("extract", "inbox", "--schema", "invoice", "--out", out)[0] == 0
    run = Extracted(tmp_path / "march")
    report, table = report_html(run), (tmp_path / "march/values.csv").read_text()
    assert all(name in report and name in table and why in report for name, why in OTHERS.items())
    lines = [json.loads(line)["file"] for line in (inbox / "fields.jsonl").read_text().splitlines()]
    assert sorted(lines) == sorted(f"inbox/{name}" for name in ("bill.pdf", *OTHERS))   # without itself


def test_the_app_lists_what_cannot_be_opened(inbox, tmp_path):
    write(tmp_path / "outside.pdf", "1.00")
    (inbox / "led.pdf").symlink_to("../outside.pdf")
    shutil.copy(inbox / "bill.pdf", inbox / "scan0001")   # told by its content
    found = AllowedPaths([inbox]).listing()
    assert found.documents == ["bill.pdf", "scan0001"]
    why = dict(found.left_out)
    assert why.keys() == {*OTHERS, "led.pdf"} and "leads out" in why["led.pdf"]
    cut = AllowedPaths([inbox]).listing(1)
    assert cut.documents == ["bill.pdf"] and cut.left_out[-1].file.endswith("more")


# --- archives, and what a PDF holds besides pages ---

def test_an_archive_of_pdfs_is_none(shell, tmp_path):
    bill = write(tmp_path / "bill.pdf", "125.00")
    with zipfile.ZipFile(tmp_path / "two.zip", "w", zipfile.ZIP_STORED) as file: file.write(bill, "bill.pdf")
    with tarfile.open(tmp_path / "two.tar", "w") as file: file.add(bill, "bill.pdf")
    shutil.copy(tmp_path / "two.zip", tmp_path / "named.pdf")
    for name in ("two.zip", "two.tar", "named.pdf"):
        code, out, said = shell("ask", name, "-q", QUESTION)
        assert code == 2 and not out and name in said and "unpack it" in said
    (tmp_path / "junk.pdf").write_bytes(b"HTTP/1.1 200 OK\r\n\r\n" + bill.read_bytes())
    assert shell("ask", "junk.pdf", "-q", QUESTION)[0] == 0


def attach(path, *names):
    "A portfolio: a PDF with a page that says nothing, and attached files."
    pdf = Pdf().page(say("Open it with another program."))
    file = pdf.add("<< /Type /EmbeddedFile >>", "%PDF-1.7")
    specs = [pdf.add(f"<< /Type /Filespec /F ({n}) /UF ({n}) /EF << /F {file} 0 R >> >>") for n in names]
    entries = " ".join(f"({n}) {at} 0 R" for n, at in zip(names, specs, strict=True))
    return pdf.save(path, f"/Collection << >> /Names << /EmbeddedFiles << /Names [{entries}] >> >>")


def test_what_stands_on_no_page_of_a_pdf_is_named(shell, tmp_path):
    attach(tmp_path / "folio.pdf", "one.pdf", "two.pdf")
    pdf = Pdf().page(say("Please wait..."))
    xfa = pdf.add("<< >>", "<xdp/>")
    pdf.save(tmp_path / "form.pdf", f"/NeedsRendering true /AcroForm << /Fields [] /XFA {xfa} 0 R >>")
    assert "form.pdf" in load_pages(tmp_path / "form.pdf").left_out[0].file
    code, out, _ = shell("ask", "folio.pdf", "form.pdf", "-q", QUESTION)
    assert code == 3 and "folio.pdf: one.pdf: attached" in out and "folio.pdf: two.pdf: attached" in out
    assert "form.pdf: its XFA form is not read" in out
    _, out, said = shell("extract", "folio.pdf", "--schema", "invoice", "--out", "march")
    assert "folio.pdf: two.pdf: attached" in said and "two.pdf" in report_html(Extracted(tmp_path / "march"))


def test_a_server_tells_of_a_document_what_it_left_out(inbox, tmp_path):
    def client(): return ScriptedClient(["Answer: 125.00 EUR"] * 9)
    def serve(): return EpisodeService(tmp_path / "kept", Clients(dict(m=client)), AllowedPaths([inbox]), shared=True)
    folio = attach(tmp_path / "folio.pdf", "one.pdf", "two.pdf").read_bytes()
    with serve() as service:
        web = TestClient(protect(service, create_app(service)), base_url="http://127.0.0.1")
        opened = web.post("/api/documents", json=dict(path=str(inbox)))
        told = {one["file"]: one["why"] for one in opened.json()["left_out"]}
        assert opened.status_code == 201 and told.keys() == OTHERS.keys()
        assert all(why in told[name] for name, why in OTHERS.items()) and str(tmp_path) not in opened.text
        (inbox / "late.docx").write_bytes((inbox / "a.docx").read_bytes())
        again = web.post("/api/documents", json=dict(path=str(inbox))).json()
        assert again["id"] == opened.json()["id"] and "late.docx" in str(again["left_out"])
        handed = web.post("/api/documents/upload", params=dict(name="march.pdf"), content=folio).json()
        files = [one["file"] for one in handed["left_out"]]
        assert len(files) == 2 and {*files} == {"march.pdf: one.pdf", "march.pdf: two.pdf"}, files
        for n in range(150): (inbox / f"n{n}.docx").touch()
        many = web.post("/api/documents", json=dict(path=str(inbox))).json()["left_out"]
        assert len(many) == 101 and many[-1]["file"] == "57 more"

        async def talk():
            async with mcp.Client(mcp_server(service)) as tools:
                return [await tools.call_tool("open_document", dict(path=str(inbox))),
                        await tools.call_tool("ask_document", dict(document=str(inbox), question=QUESTION))]
        for said in anyio.run(talk):
            text = said.content[0].text
            assert "Not read: a.7z: an archive" in text and "95 more" in text, text
            assert said.structured_content["left_out"] == many
    with serve() as service:   # another day
        web = TestClient(protect(service, create_app(service)), base_url="http://127.0.0.1")
        assert web.get(f"/api/documents/{again['id']}").json()["left_out"] == many


# --- pages that cannot be read ---

def cut(path, share=.5):
    "A picture of lines that breaks off."
    image = Image.effect_noise((300, 400), 90).convert("RGB")
    image.save(path)
    path.write_bytes(path.read_bytes()[:int(share * path.stat().st_size)])
    return path


@pytest.mark.parametrize("name", ["cut.jpg", "cut.png"])
def test_a_picture_that_is_cut_off_is_no_page_that_says_nothing(shell, tmp_path, name):
    cut(tmp_path / name)
    code, out, _ = shell("ask", name, "-q", QUESTION, "--json", "--quiet")
    [found] = json.loads(out)
    assert code == 1 and found["answer"] is None and "hint" not in found
    assert found["reason"].startswith("No page can be read") and name in found["reason"]
    assert [(one["page"], one["file"]) for one in found["unread"]] == [(1, name)]
    code, out, _ = shell("ask", name, "-q", QUESTION)
    assert code == 1 and "No answer" in out and "broken or cut off" in out and "Nothing on the pages" not in out
    write(tmp_path / "bill.pdf", "125.00")
    code, out, _ = shell("ask", name, "bill.pdf", "-q", QUESTION, "-q", "Who is the carrier?", "--json")
    answered, open_one = json.loads(out)
    assert code == 0 and answered["answer"] == "125.00 EUR" and answered["unread"][0]["page"] == 1
    assert "Page 1 cannot be read" in open_one["reason"]


def test_a_page_that_the_index_could_not_read_is_told_too(shell, tmp_path):
    (tmp_path / "scans").mkdir()
    for n in range(13): cut(tmp_path / f"scans/{n}.jpg")
    code, out, _ = shell("ask", "scans", "-q", QUESTION, "--json", "--quiet")
    [found] = json.loads(out)
    assert code == 1 and len(found["unread"]) == 13 and found["reason"].startswith("No page can be read")


def test_a_long_document_is_extracted_without_the_page_that_cannot_be_read_and_says_so(shell, tmp_path):
    pages = [Image.effect_noise((300, 200), 90).convert("RGB") for _ in range(14)]
    pages[0].save(tmp_path / "fax.tiff", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    data = (tmp_path / "fax.tiff").read_bytes()
    with Image.open(tmp_path / "fax.tiff") as im:
        im.seek(5)
        at = im.tag_v2[273][0]   # where the strips of the sixth page lie
    (tmp_path / "fax.tiff").write_bytes(data[:at] + b"\xff" * 600 + data[at + 600:])
    with pytest.raises(PageError): load_pages(tmp_path / "fax.tiff")[5].load()
    code, out, said = shell("extract", "fax.tiff", "--schema", "invoice", "--json")
    assert code == 0 and [one["file"] for one in json.loads(out)["left_out"]] == ["fax.tiff, page 6"]
    assert "fax.tiff, page 6" in said


def test_a_model_that_sees_is_asked_about_no_page_that_is_not_there(tmp_path):
    client = ScriptedClient(['{"answer": "12.00 EUR"}'] * 4)
    with pytest.raises(PageError, match="cut.jpg"): cosee.ask(cut(tmp_path / "cut.jpg"), QUESTION, client)
    assert not client.calls


# --- going on ---

def lines_of(path): return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_that_are_gone_on_with_are_of_this_schema_and_these_files(shell, tmp_path):
    for name, total in (("a.pdf", "10.00"), ("b.pdf", "20.00")): write(tmp_path / name, total)
    out = tmp_path / "fields.jsonl"
    command = "extract", "a.pdf", "b.pdf", "--schema", "invoice", "--out", out
    assert shell(*command)[0] == 0
    first = lines_of(out)
    write(tmp_path / "b.pdf", "30.00")
    with out.open("a") as file: file.write('{"file": "c.pdf", "ke')   # killed as it wrote
    code, _, said = shell(*command)
    assert code == 0 and "1 document of 2 there already" in said
    assert [line["value"]["total"] for line in lines_of(out)] == [10, 30] and lines_of(out)[0] == first[0]
    whole = out.read_bytes()
    assert shell(*command)[0] == 0 and out.read_bytes() == whole
    code, _, said = shell("extract", "a.pdf", "--schema", "receipt", "--out", out)
    assert code == 2 and "another schema" in said and out.read_bytes() == whole
    with locked_file(tmp_path / ".fields.jsonl.lock"):
        code, _, said = shell(*command)
        assert code == 2 and "another process" in said and out.read_bytes() == whole


@pytest.mark.parametrize("text", ['{"my": "own data"}\n', "Dear Sir\n", '["a"]\n'])
def test_a_file_of_something_else_is_not_written_over(shell, tmp_path, text):
    write(tmp_path / "a.pdf", "10.00")
    (tmp_path / "mine.jsonl").write_text(text)
    code, _, said = shell("extract", "a.pdf", "--schema", "invoice", "--out", "mine.jsonl")
    assert code == 2 and "mine.jsonl, line 1" in said and (tmp_path / "mine.jsonl").read_text() == text


def test_a_run_does_not_go_on_with_another_document(shell, tmp_path):
    write(tmp_path / "a.pdf", "10.00")
    (tmp_path / "own.csv").write_text(f"file,question,answer\na.pdf,{QUESTION},10.00 EUR\n")
    (tmp_path / "run.yaml").write_text("dataset: {name: folder, root: own.csv}\nmethods: [direct]\n")
    command = "run", "run.yaml", "--output-dir", "out"
    assert shell(*command)[0] == 0 and shell(*command)[0] == 0
    records = tmp_path / "out/records.jsonl"
    [record] = lines_of(records)
    assert len(record["doc_hash"]) == 64
    write(tmp_path / "a.pdf", "99.00")
    code, _, said = shell(*command)
    assert code == 2 and "a.pdf" in said and "changed" in said and len(lines_of(records)) == 1
    del record["doc_hash"]                                  # as older versions wrote it
    records.write_text(json.dumps(record) + "\n")
    code, out, said = shell(*command)
    assert code == 0 and "1 of 1 answer" in out + said


# --- question files ---

def test_a_quote_that_is_not_closed_swallows_no_questions(tmp_path):
    write(tmp_path / "a.pdf", "10.00")
    table = tmp_path / "own.csv"
    table.write_text('file,question\na.pdf,Is it a 5" pipe?\n\na.pdf,"Who pays?\na.pdf,When?\n')
    with pytest.raises(DataError, match="own.csv, line 4: .*quote"): list(Folder(table))
    table.write_text('sep=;\nfile;question\na.pdf;"Who pays?"\na.pdf;"Who" else?\n')
    with pytest.raises(DataError, match="own.csv, line 4: .*quote"): list(Folder(table))
    table.write_text('"file,question\na.pdf,Who pays?\n')
    with pytest.raises(DataError, match="own.csv"): list(Folder(table))
    table.write_text('file,question\na.pdf,"Who pays,\nand ""when""?"\n')
    assert [s["question"] for s in Folder(table)] == ['Who pays,\nand "when"?']
    with pytest.raises(DataError, match="any.csv, line 2"): list(read_csv(io.StringIO('a,b\n"c,d\n'), "any.csv"))


def test_a_broken_line_of_gold_is_named(tmp_path):
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"file": "a.pdf"}\n{"file": "b.pdf",}\n{"file": "c.pdf"}\n')
    with pytest.raises(ValueError, match="gold.jsonl, line 2"): read_lines(gold)


# --- said plainly ---

def test_pages_go_by_their_labels(shell, tmp_path):
    pdf = Pdf()
    for n in range(1, 7): pdf.page(say(f"Total due: {n}0.00 EUR"))
    pdf.save(tmp_path / "book.pdf", "/PageLabels << /Nums [0 << /S /r >> 3 << /S /D >>] >>")
    assert load_pages(tmp_path / "book.pdf").labels == ["i", "ii", "iii", "1", "2", "3"]
    numbers = [p.file_page for p in load_pages(tmp_path / "book.pdf", pages="II-iii,5").infos]
    assert numbers == [2, 3, 5]
    [found] = json.loads(shell("ask", "book.pdf", "-q", QUESTION, "--pages", "iii", "--json")[1])
    assert found["answer"] == "30.00 EUR"
    code, _, said = shell("ask", "book.pdf", "-q", QUESTION, "--pages", "vii")
    assert code == 2 and "the labels are i, ii, iii" in said
    said = shell("ask", "book.pdf", "-q", "What is the total due on page ii?")[2]
    assert "page ii is page 2 here" in said
    said = shell("ask", "book.pdf", "-q", "What is the total due on page 1?")[2]
    assert "what the PDF calls page 1 is page 4" in said
    write(tmp_path / "plain.pdf", "1.00")
    code, _, said = shell("ask", "plain.pdf", "-q", QUESTION, "--pages", "ii")
    assert code == 2 and "the pages have no labels" in said


def test_a_password_is_asked_for_as_a_shell_gives_it(shell, tmp_path):
    write(tmp_path / "locked.pdf", "10.00", encrypt=StandardEncryption("secret"))
    code, _, said = shell("ask", "locked.pdf", "-q", QUESTION)
    assert code == 2 and "--password" in said
    assert shell("ask", "locked.pdf", "-q", QUESTION, "--password", "secret")[0] == 0
    [line] = map(json.loads, shell("extract", "locked.pdf", "--schema", "invoice", "--json")[1].splitlines())
    assert "--password" in line["error"]
    code, out, _ = shell("extract", "locked.pdf", "--schema", "invoice", "--json", "--password", "secret")
    assert code == 0 and json.loads(out)["value"]["total"] == 10 and "secret" not in out


def test_standard_input_is_read_from_a_file_and_said_of_a_pipe(tmp_path):
    write(tmp_path / "a.pdf", "10.00")
    start = "from cosee.cli.start import main; raise SystemExit(main())"
    command = [sys.executable, "-c", start, "ask", "/dev/stdin", "-q", QUESTION, "--client", "ocr", "--quiet"]
    with (tmp_path / "a.pdf").open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True)
    assert done.returncode == 0 and "10.00 EUR" in done.stdout
    done = subprocess.run(command, input=(tmp_path / "a.pdf").read_bytes(), capture_output=True)
    assert done.returncode == 2 and b"to a file, and name that" in done.stderr
