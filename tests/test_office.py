"""Office files: told by their content, drawn from a PDF that LibreOffice makes, and answered like a PDF."""
import json
import os
import shutil
import struct
import subprocess
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cosee
import pytest
from conftest import ROOT, shell
from cosee.cli.ask import AskOptions
from cosee.cli.extract import ExtractOptions
from cosee.office import convert
from cosee.office.html import clean_html
from cosee.office.kinds import OLE
from cosee.models.reader_client import OcrClient
from cosee.pages import READS, PageError, files_inside, load_pages
from cosee.server.answering import Clients
from cosee.server.episodes import EpisodeService
from cosee.server.http import create_app, protect
from cosee.text.ocr import TextExtractor
from fastapi.testclient import TestClient
from office_files import (
    MIME,
    WORD,
    SHEET,
    change,
    linked_picture,
    run,
    write_docx,
    write_mail,
    write_odf,
    write_pptx,
    write_xlsx,
)
from PIL import Image, features
from reportlab.pdfgen.canvas import Canvas

SOFFICE = shutil.which("soffice") or shutil.which("libreoffice")
needs_soffice = pytest.mark.skipif(SOFFICE is None, reason="no LibreOffice on this machine")
BILL = ["Invoice", "Invoice number: 4711", "Due date: 12 March 2026", "Total due: 250.00 EUR"]
QUESTIONS = {"What is the invoice number?": "4711", "What is the total due?": "250.00 EUR"}


@pytest.fixture
def without_soffice(monkeypatch): monkeypatch.setenv("COSEE_SOFFICE", "off")


def text_of(pages): return ["\n".join(line["text"] for line in page["lines"]) for page in TextExtractor().read(pages)]


def ask(path, question):
    "Answer and page."
    said = cosee.ask(path, question, "ocr")
    return said["answer"], said["page"]


def why(path, **how):
    with pytest.raises(PageError) as error: load_pages(path, **how)
    said = str(error.value)
    assert said.startswith(str(path)) and "\n" not in said and len(said) < 400, said
    return said


# --- kinds ---

def test_what_is_none_of_what_it_claims_is_refused_in_a_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as file: file.writestr("a.jpg", "x")
    shutil.copy(tmp_path / "photos.zip", tmp_path / "fake.docx")
    (tmp_path / "text.docx").write_text("hello")
    (tmp_path / "nul.csv").write_bytes(b"a,b\0c")
    (tmp_path / "old.doc").write_bytes(OLE + bytes(600))
    (tmp_path / "box.mbox").write_text("From a@b Mon\nFrom: a@b\nSubject: x\n\nhello")
    write_docx(tmp_path / "cut.docx", *BILL)
    os.truncate(tmp_path / "cut.docx", 300)
    assert "unpack it" in why(tmp_path / "photos.zip") and "not a DOCX" in why(tmp_path / "fake.docx")
    assert READS in why(tmp_path / "text.docx") and "not a CSV" in why(tmp_path / "nul.csv")
    assert "broken" in why(tmp_path / "old.doc") and "broken" in why(tmp_path / "cut.docx")
    assert "save them as .eml" in why(tmp_path / "box.mbox")


def test_traps_are_refused_before_anything_opens_them(tmp_path):
    bomb = write_docx(tmp_path / "bomb.docx", **{"word/media/a.bin": bytes(200_000_000)})
    started = time.monotonic()
    assert "trap" in why(bomb) and time.monotonic() - started < 10
    laughs = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
    assert "entities" in why(write_docx(tmp_path / "laughs.docx", **{"word/styles.xml": laughs}))
    wide = write_docx(tmp_path / "wide.docx", **{"word/styles.xml": laughs.encode("utf-16").decode("latin-1")})
    assert "entities" in why(wide) or SOFFICE is None
    many = write_docx(tmp_path / "many.docx", **{f"word/{n}.xml": "" for n in range(20_001)})
    assert "20,000 parts" in why(many)


def test_protected_files_are_named(tmp_path):
    entry = "EncryptedPackage".encode("utf-16-le")
    folder = [("Root Entry".encode("utf-16-le"), 5, 1), (entry, 2, 0xFFFFFFFF)]
    data = OLE + bytes(16) + struct.pack("<5H", 62, 3, 0xFFFE, 9, 6) + bytes(10)
    data += struct.pack("<7I", 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE) + bytes(4) + struct.pack("<I", 0)
    data = data.ljust(512, b"\xff") + struct.pack("<2I", 0xFFFFFFFD, 0xFFFFFFFE).ljust(512, b"\xff")
    for name, kind, child in folder:
        data += name.ljust(64, b"\0") + struct.pack("<HBBIII", len(name) + 2, kind, 1, 0xFFFFFFFF, 0xFFFFFFFF, child)
        data += bytes(48)
    (tmp_path / "a.xlsx").write_bytes(data + bytes(256))
    assert "password" in why(tmp_path / "a.xlsx")
    odt = write_odf(tmp_path / "a.odt", "text", "<text:p>x</text:p>")
    with zipfile.ZipFile(odt, "a") as file: file.writestr("META-INF/manifest.xml", "<m:encryption-data/>")
    assert "password" in why(odt)


def test_where_libreoffice_is_missing_the_error_names_the_package(tmp_path, without_soffice):
    said = why(write_xlsx(tmp_path / "a.xlsx", {"A": [[1]]}))
    assert "an Excel workbook, which LibreOffice reads" in said and said.endswith("or save it as PDF")
    assert convert.advise_install("pptx", "linux", "ID=debian\n") == "apt install libreoffice-impress"
    assert convert.advise_install("docx", "linux", "ID=nixos\n") == "install LibreOffice from libreoffice.org"
    (tmp_path / "b.html").write_text("<p>hello")
    read, left_out = files_inside(tmp_path)
    assert [path.name for path in read] == ["b.html"] and "LibreOffice" in left_out[0].why


def test_a_wrong_name_of_libreoffice_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_SOFFICE", "/no/such/soffice")
    assert "COSEE_SOFFICE" in why(write_docx(tmp_path / "a.docx", "x"))


# --- without LibreOffice ---

def test_tables_and_web_pages_are_read_without_libreoffice(tmp_path, without_soffice):
    (tmp_path / "a.csv").write_text("item;price\ntea;3,50\n\"coffee; black\";4,20\n", "cp1252")
    (tmp_path / "a.html").write_text("<title>t</title><h1>Invoice</h1>" + "".join(f"<p>{line}" for line in BILL[1:]))
    assert text_of(load_pages(tmp_path / "a.csv")) == ["item\nprice\ntea\n3,50\ncoffee; black\n4,20"]
    pages = load_pages(tmp_path / "a.html")
    assert pages.left_out == [] and pages.infos[0].kind == "PDF" and pages.infos[0].file == str(tmp_path / "a.html")
    for question, answer in QUESTIONS.items():
        assert ask(tmp_path / "a.html", question)[0] == answer
    (tmp_path / "long.csv").write_text("".join(f"row {n},{n}\n" for n in range(50_100)))
    assert "50,000 rows" in load_pages(tmp_path / "long.csv").left_out[0].why


def test_what_no_font_has_is_said(tmp_path, without_soffice):
    (tmp_path / "a.html").write_text("<p>tea \U0001f375", "utf-8")
    assert "no font" in load_pages(tmp_path / "a.html").left_out[0].why


def test_a_web_page_brings_nothing_but_its_words(tmp_path, without_soffice):
    (tmp_path / "a.html").write_text('<p>seen<p style="display:none">hidden<script>run()</script><iframe src=x>framed'
                                     '</iframe><p><img src="http://127.0.0.1:9/a.png" alt="logo">' + "<div>" * 50_000)
    pages = load_pages(tmp_path / "a.html")
    assert text_of(pages) == ["seen\nlogo"] and "not loaded" in pages.left_out[0].why


# --- pictures ---

@pytest.mark.parametrize("kind", ["GIF", "BMP", "JPEG2000", "AVIF", "HEIF"])
def test_pictures_of_other_kinds_are_read(tmp_path, kind):
    if kind == "AVIF" and not features.check("avif"): pytest.skip("this Pillow has no AVIF")
    if kind == "HEIF": pytest.importorskip("pillow_heif").register_heif_opener()
    image = Image.new("RGB", (320, 240), (250, 250, 250))
    image.paste((200, 0, 0), (0, 0, 160, 240))
    image.save(tmp_path / "a", kind)
    pages = load_pages(tmp_path / "a")
    assert pages.infos[0].kind == kind and pages.sizes == [(320, 240)]
    assert pages[0].getpixel((40, 100))[0] > 150 and pages[0].getpixel((40, 100))[1] < 60
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "cut").write_bytes(data[:60])
    with pytest.raises(PageError, match="broken|pixels|not a kind"): load_pages(tmp_path / "cut")[0].load()


# --- doors ---

def test_every_door_names_the_same_kinds():
    helps = [model.model_fields["files"].description or "" for model in (AskOptions, ExtractOptions)]
    schema = (ROOT / "tests/golden/http_schema.json").read_text() + (ROOT / "tests/golden/mcp_tools.json").read_text()
    page = (ROOT / "cosee/app/assets/app.html").read_text()
    assert all(READS in text for text in (*helps, page)) and schema.count(READS) >= 2
    from cosee.office.kinds import KINDS
    assert all(f".{kind}" in page for kind in KINDS)


def test_what_cosee_wrote_into_a_folder_is_no_document(tmp_path, without_soffice):
    write_mail(tmp_path / "a.eml", "Total due: 250.00 EUR")
    page = tmp_path / "said.html"
    assert shell("ask", tmp_path, "-q", "What is the total due?", "--html", page, "--client", "ocr")[0] == 0
    for name in ("one", "two"):
        code, _, said = shell("extract", tmp_path, "--schema", "invoice", "--out", tmp_path / name, "--client", "ocr")
        assert code == 0 and "1 document read" in said, said
    read, left_out = files_inside(tmp_path, deep=True)
    assert [path.name for path in read] == ["a.eml"]
    assert sorted(one.why for one in left_out) == ["a page that CoSee wrote", "a run of CoSee", "a run of CoSee"]


# --- with LibreOffice ---

@needs_soffice
def test_a_word_document_is_answered_like_a_pdf(tmp_path):
    body = f"<w:p>{run('Total due: ')}{change('100.00 EUR', '250.00 EUR')}</w:p>"
    path = write_docx(tmp_path / "bill.docx", *BILL[:3], body=body)
    with load_pages(path) as pages:
        assert len(pages) == 1 and pages.paths == [path] and pages.left_out == [
            (str(path), "2 tracked changes are shown as accepted; what was there before is not read")]
        assert "100.00" not in text_of(pages)[0]
    assert ask(path, "What is the total due?") == ("250.00 EUR", 1)
    pages = load_pages(path)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(PageError, match="changed"): pages.page(1, 100)


@needs_soffice
def test_a_workbook_has_each_sheet_on_a_page_of_its_own(tmp_path):
    wide = [["Month", *(f"Column {n}" for n in range(30))], *([f"Row {r}", *range(r, r + 30)] for r in range(20))]
    path = write_xlsx(tmp_path / "a.xlsx", {"Wide": wide, "Secret": [["hidden", 1]], "Costs": [["Rent", 900]]},
                      hidden=["Secret"])
    pages = load_pages(path)
    assert len(pages) == 2 and [(h.title, h.page) for h in pages.outline] == [("Wide", 1), ("Costs", 2)]
    first, second = text_of(pages)
    assert "Column 29" in first and "Row 19" in first and "Rent" in second and "hidden" not in first + second
    assert [one.why for one in pages.left_out] == ["1 hidden sheet is not read; show and save it again"]


# --- with LibreOffice, at length ---

def as_pdf(path, lines):
    pdf = Canvas(str(path), invariant=1)
    for n, line in enumerate(lines): pdf.drawString(60, 760 - 20 * n, line)
    pdf.save()
    return path


def convert_by_soffice(source, kind):
    "An older form of a file, which LibreOffice itself writes."
    profile = (source.parent / f"profile-{kind}").as_uri()
    subprocess.run([SOFFICE, f"-env:UserInstallation={profile}", "--headless", "--convert-to", kind, "--outdir",
                    source.parent, source], check=True, capture_output=True, timeout=120)
    return source.with_suffix(f".{kind}")


@pytest.fixture(scope="module")
def bills(tmp_path_factory):
    "The same bill in every kind."
    if SOFFICE is None: pytest.skip("no LibreOffice on this machine")
    folder = tmp_path_factory.mktemp("bills")
    rows = [line.split(": ") for line in BILL]
    docx, xlsx = write_docx(folder / "a.docx", *BILL), write_xlsx(folder / "b.xlsx", {"Bill": rows})
    slides = [("Invoice", "Invoice number: 4711", ""), ("Money", "Total due: 250.00 EUR", "")]
    pptx = write_pptx(folder / "c.pptx", slides)
    found = {"pdf": as_pdf(folder / "a.pdf", BILL), "docx": docx, "xlsx": xlsx, "pptx": pptx}
    for source, kinds in ((docx, ("doc", "odt", "rtf")), (xlsx, ("xls", "ods")), (pptx, ("ppt", "odp"))):
        found |= {kind: convert_by_soffice(source, kind) for kind in kinds}
    (folder / "d.html").write_text("".join(f"<p>{line}</p>" for line in BILL))
    (folder / "d.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    mail = write_mail(folder / "d.eml", "\n".join(BILL))
    return {**found, "html": folder / "d.html", "csv": folder / "d.csv", "eml": mail}


KINDS = ["docx", "doc", "odt", "rtf", "xlsx", "xls", "ods", "csv", "pptx", "ppt", "odp", "html", "eml"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_answers_like_the_pdf_of_the_same_content(bills, kind):
    for question, answer in QUESTIONS.items():
        page = 2 if "total" in question and kind in ("pptx", "ppt", "odp") else 1
        assert ask(bills["pdf"], question) == (answer, 1) and ask(bills[kind], question) == (answer, page), question


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["docx", "xls", "odp", "eml", "csv"])
def test_the_command_line_and_the_server_answer_too(bills, kind, tmp_path):
    code, out, said = shell("ask", bills[kind], "-q", "What is the total due?", "--client", "ocr", "--json", "--quiet")
    answer = json.loads(out)[0]
    assert code == 0 and answer["answer"] == "250.00 EUR" and not said
    with EpisodeService(tmp_path / "kept", Clients({"ocr": OcrClient})) as service:
        web = TestClient(protect(service, create_app(service)), base_url="http://127.0.0.1")
        sent = dict(params=dict(name=f"march.{kind}"), content=bills[kind].read_bytes())
        told = web.post("/api/documents/upload", **sent).json()
        assert told["name"] == f"march.{kind}" and told["pages"] == (2 if kind == "odp" else 1), told
        form = dict(question="What is the total due?", wait=50)
        ended = web.post(f"/api/documents/{told['id']}/questions", json=form).json()
        assert (ended["answer"], ended["page"]) == ("250.00 EUR", told["pages"]), ended
        assert web.get(f"/api/documents/{told['id']}/pages/1").headers["content-type"] == "image/webp"


@pytest.mark.slow
@needs_soffice
def test_slides_keep_their_numbers_and_their_notes(tmp_path):
    slides = [("Start", "Budget: 900", ""), ("Plan", "Goal: 12", "Contract number: 555"), ("Hidden", "kept: 1", ""),
              ("Long", "text", "word " * 900 + "last"), ("End", "thanks", "Call Ann: 77")]
    pages = load_pages(write_pptx(tmp_path / "a.pptx", slides, hidden=[3]))
    assert len(pages) == 5 and [(h.title, h.page) for h in pages.outline] == [
        ("Start", 1), ("Plan", 2), ("Hidden", 3), ("Long", 4), ("End", 5)]
    texts = text_of(pages)
    assert all(title in text and shown in text for (title, shown, _), text in zip(slides, texts, strict=True))
    assert "555" in texts[1] and "last" in texts[3] and "77" in texts[4] and pages.left_out == []


@pytest.mark.slow
@needs_soffice
def test_several_conversions_run_at_once_and_the_same_one_runs_once(tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_CACHE", "off")
    started, real = [], convert._run_soffice
    monkeypatch.setattr(convert, "_run_soffice", lambda *args: started.append(args) or real(*args))
    paths = [write_docx(tmp_path / f"{n}.docx", f"Number: {n}") for n in range(4)] * 2
    with ThreadPoolExecutor(8) as pool: found = list(pool.map(lambda path: text_of(load_pages(path))[0], paths))
    assert found == [f"Number: {n}" for n in range(4)] * 2 and len(started) == 4
    assert all("profile" not in str(path) for path in convert.work_folder().rglob("*"))


@pytest.mark.slow
@needs_soffice
def test_a_conversion_is_kept_between_processes(tmp_path, monkeypatch):
    path = write_docx(tmp_path / "a.docx", "Number: 12345")
    load_pages(path)
    convert._known.clear()
    monkeypatch.setattr(convert, "_run_soffice", lambda *args: pytest.fail("converted again"))
    assert text_of(load_pages(path)) == ["Number: 12345"]


@pytest.mark.slow
@needs_soffice
def test_names_of_files_are_no_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("--convert-to.docx", "a b;\"c'$(x)%41.docx", "-h.docx", "ä\u202eö.docx"):
        write_docx(Path(name), "Number: 7")
        assert text_of(load_pages(Path(name))) == ["Number: 7"]


# --- hostile files ---

@pytest.fixture
def listening():
    "The address of a server, and what it was asked for."
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)
        do_HEAD = do_OPTIONS = do_PROPFIND = do_POST = do_GET
        def log_message(self, *args): pass
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@needs_soffice
@pytest.mark.parametrize("alone", [True, False])
def test_nothing_is_fetched_from_the_net_or_the_disk(tmp_path, listening, monkeypatch, alone):
    address, asked = listening
    monkeypatch.setenv("COSEE_CACHE", "off")
    if not alone: monkeypatch.setattr(convert, "_cut_network", list)
    convert._known.clear()
    secret = tmp_path / "secret.txt"
    secret.write_text("TOPSECRET")
    Image.new("RGB", (60, 60), "red").save(tmp_path / "red.png")
    shape, relation = linked_picture(f"{address}/a.png")
    near, beside = linked_picture((tmp_path / "red.png").as_uri())
    frame = '<text:p><draw:frame svg:width="3cm" svg:height="3cm"><draw:image xlink:href="{}"/></draw:frame></text:p>'
    section = '<text:section text:name="s"><text:section-source xlink:href="{}"/><text:p>old</text:p></text:section>'
    cells = (f'<table:table-cell table:formula="of:=WEBSERVICE(&quot;{address}/w&quot;)"/>'
             f'<table:table-cell table:formula="of:=&apos;{secret.as_uri()}&apos;#$A.A1"/>')
    files = [write_docx(tmp_path / "a.docx", "x", body=shape, links=[relation]),
             write_docx(tmp_path / "b.docx", "x", body=near, links=[beside]),
             write_odf(tmp_path / "c.odt", "text", frame.format(f"{address}/c.png")),
             write_odf(tmp_path / "d.odt", "text", frame.format((tmp_path / "red.png").as_uri())),
             write_odf(tmp_path / "e.odt", "text", section.format(f"{address}/e")),
             write_odf(tmp_path / "f.odt", "text", section.format(secret.as_uri())),
             write_odf(tmp_path / "g.ods", "spreadsheet", f'<table:table table:name="A"><table:table-row>{cells}'
                                                          '</table:table-row></table:table>'),
             write_mail(tmp_path / "h.eml", html=f'<table><tr><td>a<td>b</table><img src="{address}/h.png">')]
    (tmp_path / "i.html").write_text(f'<link rel=stylesheet href="{address}/i"><img src="{secret.as_uri()}">x')
    (tmp_path / "j.rtf").write_text(
        r'{\rtf1 x{\field{\*\fldinst INCLUDEPICTURE "ADDRESS/j" \\d}{\fldrslt old}}}'.replace("ADDRESS", address))
    for path in [*files, tmp_path / "i.html", tmp_path / "j.rtf"]:
        pages = load_pages(path)
        assert "TOPSECRET" not in "".join(text_of(pages))
        reds = sum(n for n, (r, g, b) in pages[0].getcolors(1 << 24) if r > 200 and g < 60)
        assert reds < 50 and asked == [], path.name


MACRO = """<?xml version="1.0"?><script:module xmlns:script="http://openoffice.org/2000/script" script:name="Module1"
script:language="StarBasic">Sub Main
Open "{}" For Output As #1
Print #1, "run"
Close #1
End Sub</script:module>"""
LIBRARY = 'xmlns:library="http://openoffice.org/2000/library" xmlns:xlink="http://www.w3.org/1999/xlink"'


def with_macro(path, target):
    "A text whose macro writes a file as soon as it is opened."
    calls = ('<office:scripts><office:event-listeners><script:event-listener script:language="ooo:script" '
             'script:event-name="dom:load" xlink:type="simple" '
             'xlink:href="vnd.sun.star.script:Standard.Module1.Main?language=Basic&amp;location=document"/>'
             "</office:event-listeners></office:scripts>")
    return write_odf(path, "text", "<text:p>Number: 5</text:p>", calls, **{
        "Basic/script-lc.xml": f'<library:libraries {LIBRARY}><library:library library:name="Standard" '
                               'library:link="false"/></library:libraries>',
        "Basic/Standard/script-lb.xml": f'<library:library {LIBRARY} library:name="Standard" library:readonly="false" '
                                        'library:passwordprotected="false"><library:element library:name="Module1"/>'
                                        "</library:library>",
        "Basic/Standard/Module1.xml": MACRO.format(target)})


@pytest.mark.slow
@needs_soffice
def test_no_macro_of_a_document_runs(tmp_path, monkeypatch):
    path = with_macro(tmp_path / "a.odt", tmp_path / "run")
    assert text_of(load_pages(path)) == ["Number: 5"] and not (tmp_path / "run").exists()
    monkeypatch.setattr(convert, "SECONDS", 8)
    for level in ("3", "0"):   # opened as people do, for which it waits: the profile forbids it, and the macro is one
        folder = tmp_path / level
        folder.mkdir()
        convert._write_profile(folder, path, "odt")
        settings = folder / "profile/user/registrymodifications.xcu"
        settings.write_text(settings.read_text().replace("<value>3</value>", f"<value>{level}</value>"))
        with suppress(convert.OfficeError): convert._run_soffice(SOFFICE, folder, str(shutil.copy(path, folder)))
        assert (tmp_path / "run").exists() == (level == "0")


@pytest.mark.slow
@needs_soffice
def test_large_sheets_end_in_bounded_time(tmp_path):
    rows = [[f"Row {n}", n, n * 2.5, f"text of {n}"] for n in range(50_000)]
    started = time.monotonic()
    pages = load_pages(write_xlsx(tmp_path / "a.xlsx", {"A": rows}))
    assert 500 < len(pages) < 2000 and pages.left_out == [] and time.monotonic() - started < 100
    assert "Row 49999" in text_of(pages[-1:])[0]
    last = (f'<worksheet xmlns="{SHEET}"><sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
            '<row r="1048576"><c r="A1048576"><v>2</v></c></row></sheetData></worksheet>')
    ends = load_pages(write_xlsx(tmp_path / "b.xlsx", {"A": last}))
    assert "50,000 rows" in ends.left_out[0].why
    across = load_pages(write_xlsx(tmp_path / "c.xlsx", {"A": [list(range(2000))]}))
    assert "300 columns" in across.left_out[0].why


@pytest.mark.slow
@needs_soffice
def test_what_takes_too_long_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    slow = tmp_path / "soffice"
    slow.write_text(f"#!/bin/sh\nsleep 987 &\necho $! > {tmp_path}/child\nsleep 987\n")
    slow.chmod(0o755)
    monkeypatch.setenv("COSEE_SOFFICE", str(slow))
    monkeypatch.setattr(convert, "SECONDS", 2)
    assert "needs more than 2 seconds" in why(write_docx(tmp_path / "a.docx", "unique text"))
    time.sleep(0.3)
    state = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not state.exists() or " Z " in state.read_text()   # it is gone, or nobody has asked what became of it


@pytest.mark.slow
@needs_soffice
def test_comments_of_a_word_document_are_counted_and_not_read(tmp_path):
    "Some of them make LibreOffice 7.4 crash where it lays them out."
    word = f'xmlns:w="{WORD}"'
    notes = "".join(f'<w:comment w:id="{n}" w:author="a" w:initials="a"><w:p>{run(f"remark {n}")}</w:p></w:comment>'
                    for n in range(3))
    body = "".join(f'<w:p><w:commentRangeStart w:id="{n}"/>{run(f"line {n} of the letter")}'
                   f'<w:commentRangeEnd w:id="{n}"/><w:r><w:commentReference w:id="{n}"/></w:r></w:p>'
                   for n in range(3))
    path = write_docx(tmp_path / "a.docx", "Delivery time: six weeks", body=body,
                      kinds={"word/comments.xml": MIME + "wordprocessingml.comments+xml"},
                      links=[("c1", "comments", "comments.xml")],
                      **{"word/comments.xml": f"<w:comments {word}>{notes}</w:comments>"})
    pages = load_pages(path)
    assert [one.why for one in pages.left_out] == ["3 comments are not read"]
    said = " ".join(line["text"] for line in TextExtractor().read(pages)[0]["lines"])
    assert "six weeks" in said and "line 2" in said and "remark" not in said


def test_a_text_file_is_read_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_SOFFICE", "off")
    (tmp_path / "notes.txt").write_text("Meeting\n\n<b>Room:</b> 204 & 205\n")
    said = [line["text"] for line in TextExtractor().read(load_pages(tmp_path / "notes.txt"))[0]["lines"]]
    assert said == ["Meeting", "<b>Room:</b> 204 & 205"]


def test_several_office_files_are_converted_side_by_side_and_stay_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_SOFFICE", "off")
    for n in range(5): (tmp_path / f"{n}.csv").write_text(f"name,value\nrow,{n}00\n")
    told = []
    pages = load_pages(tmp_path, on_convert=lambda n, of: told.append((n, of)))
    assert told == [(n, 5) for n in range(1, 6)]
    assert [Path(page.file).name for page in pages.infos] == [f"{n}.csv" for n in range(5)]
    assert [f"{n}00" in page["lines"][-1]["text"] for n, page in enumerate(TextExtractor().read(pages))] == [True] * 5
    (tmp_path / "3.docx").write_bytes(b"PK\3\4 nothing")
    with pytest.raises(PageError, match=r"3\.docx: "): load_pages(sorted(tmp_path.iterdir()))


@pytest.mark.slow
@needs_soffice
def test_nothing_of_long_cells_and_wide_tables_is_lost(tmp_path):
    words = [f"w{n:04}" for n in range(700)]
    (tmp_path / "a.csv").write_text(f'a,b\nx,"{" ".join(words[:150])}"\n')
    write_xlsx(tmp_path / "b.xlsx", {"one": [("a", " ".join(words))]})
    heads = [f"Quarter{n}" for n in range(20)]
    row = "".join(f"<th>{head}</th>" for head in heads)
    (tmp_path / "c.html").write_text(f"<table><tr>{row}</tr><tr>{row.lower()}</tr></table>")
    for name, wanted in (("a.csv", words[:150]), ("b.xlsx", words), ("c.html", heads)):
        said = " ".join(line["text"] for page in TextExtractor().read(load_pages(tmp_path / name))
                        for line in page["lines"])
        assert not [word for word in wanted if word not in said], name


@pytest.mark.parametrize(("html", "seen"), [
    ("<ul><li hidden>no<li>b</ul><p>c", "<ul><li>b</li></ul><p>c</p>"),
    ('<table><tr><td style="display:none">no<td>y</table>z', "<table><tr><td>y</td></tr></table>z"),
    ("<ul><li hidden><ul><li>no</ul>no<li>seen</ul>end", "<ul><li>seen</li></ul>end"),
    ("<dl><dt hidden>no</dl><p>seen", "<dl></dl><p>seen</p>")])
def test_what_is_hidden_ends_where_its_element_ends(html, seen):
    assert clean_html(html).html == seen


def test_the_folder_of_a_process_is_made_once_and_again_where_it_is_gone(tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_SOFFICE", "off")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    shutil.rmtree(convert.work_folder())
    with ThreadPoolExecutor(8) as pool: folders = set(pool.map(lambda _: convert.work_folder(), range(8)))
    shutil.rmtree(folders.pop())
    assert not folders and len(load_pages(tmp_path / "a.csv")) == 1


def test_more_office_files_than_a_document_may_have_stay_open():
    from cosee.office.mail import MOST_UNPACKED
    from cosee.pages import MAX_PAGES
    assert convert.MOST_OPEN > MAX_PAGES < MOST_UNPACKED


def test_what_killed_processes_left_behind_is_removed_after_a_day(tmp_path, monkeypatch):
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(convert.tempfile, "gettempdir", lambda: str(tmp_path))
    old = time.time() - 100_000
    for name, age in ((f"cosee-office-{ended.pid}-x", old), (f"cosee-office-{ended.pid}-y", time.time()),
                      (f"cosee-office-{os.getpid()}-z", old), ("cosee-office-odd", old)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (age, age))
    convert._sweep()
    assert {path.name.rpartition("-")[2] for path in tmp_path.iterdir()} == {"y", "z", "odd"}
