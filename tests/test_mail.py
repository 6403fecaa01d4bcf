"""Mails: their head and text on a page, what is attached behind it, and nothing that runs, fetches or never ends."""
import io
import struct
import sys
import time
from email.message import EmailMessage

import cosee
import pytest
from cosee import samples_dir
from cosee.app.server import create_page_app
from cosee.models.reader_client import OcrClient
from cosee.office.mail import make_page, parse_eml
from cosee.pages import PageError, files_of, load_pages
from cosee.server.answering import Clients
from cosee.server.episodes import EpisodeService
from cosee.text.ocr import TextExtractor
from fastapi.testclient import TestClient
from office_files import write_mail
from PIL import Image, ImageDraw
from reportlab.pdfgen.canvas import Canvas


@pytest.fixture(autouse=True)
def without_soffice(monkeypatch): monkeypatch.setenv("COSEE_SOFFICE", "off")


def text_of(pages): return ["\n".join(line["text"] for line in page["lines"]) for page in TextExtractor().read(pages)]


def bill(*lines):
    out = io.BytesIO()
    pdf = Canvas(out, invariant=1)
    for n, line in enumerate(lines): pdf.drawString(60, 760 - 20 * n, line)
    pdf.save()
    return out.getvalue()


def picture(kind="PNG"):
    out, image = io.BytesIO(), Image.new("RGB", (400, 200), "white")
    ImageDraw.Draw(image).rectangle((20, 20, 200, 100), "red")
    image.save(out, kind)
    return out.getvalue()


# --- the page ---

def test_a_mail_shows_its_head_its_text_and_the_names_of_its_files(tmp_path):
    path = write_mail(tmp_path / "a.eml", "Dear Bob,\n\nOrder number: 4711\n", files=[("bill.pdf", bill("x"))],
                      Cc="carl@home.example", Date="Mon, 02 Nov 2026 10:00:00 +0000", Subject="Grüße über alles")
    first = text_of(load_pages(path))[0]
    for said in ("From: Ann <ann@shop.example>", "To: bob@home.example", "Cc: carl@home.example", "02 Nov 2026",
                 "Subject: Grüße über alles", "Attachments: bill.pdf", "Order number: 4711"):
        assert said in first, said
    assert cosee.ask(path, "What is the order number?", "ocr")["answer"] == "4711"


@pytest.mark.parametrize("text, html, seen", [
    ("plain words here", "<p>plain words here</p>", "pre"),   # the same twice
    ("see the HTML", "<table><tr><td>Tea<td>3.50</table>", "table"),   # what people see
    ("", "<p>only this</p>", "p>only"),
    ("short", "<p>" + "many more words " * 9 + "</p>", "many"),
    ("plain", "", "pre")])
def test_which_form_of_the_text_is_shown(tmp_path, text, html, seen):
    page = make_page(parse_eml(write_mail(tmp_path / "a.eml", text, html).read_bytes()))
    assert f"<{seen}" in page.html or seen in page.html.split("<hr>")[1]
    assert ("<pre>" in page.html) == (seen == "pre")


def test_pictures_in_the_html_are_shown_and_are_no_files(tmp_path):
    html = '<p>hello<img src="cid:logo"><img src="https://spy.example/a.png"><img src="//spy.example/b" width=1>'
    path = write_mail(tmp_path / "a.eml", "hello", html, related=[("logo", picture())])
    found = make_page(parse_eml(path.read_bytes()))
    assert 'src="data:image/png;base64,' in found.html and "spy" not in found.html and found.parts == []
    assert found.notes == ["1 picture is not loaded from the net"]


def test_letters_of_old_mails_are_read(tmp_path):
    data = "From: a@b.org\nSubject: =?iso-8859-1?q?f=FCr_dich?=\nContent-Type: text/plain; charset=unheard-of\n\nGrüße"
    (tmp_path / "a.eml").write_bytes(data.encode("cp1252"))
    text, = text_of(load_pages(tmp_path / "a.eml"))
    assert "für dich" in text and "Grüße" in text


def test_encrypted_and_signed_mails_say_so(tmp_path):
    head = "From: a@b.org\nSubject: secret\n"
    (tmp_path / "a.eml").write_text(head + "Content-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMIAG\n")
    (tmp_path / "b.eml").write_text(
        head + 'Content-Type: multipart/encrypted; boundary=x; protocol="application/pgp-encrypted"\n\n--x\n'
               "Content-Type: application/pgp-encrypted\n\nVersion: 1\n--x\nContent-Type: application/octet-stream\n\n"
               "-----BEGIN PGP MESSAGE-----\n--x--\n")
    (tmp_path / "c.eml").write_text(
        head + "Content-Type: multipart/signed; boundary=x\n\n--x\nContent-Type: text/plain\n\nOrder: 5\n--x\n"
               "Content-Type: application/pkcs7-signature; name=smime.p7s\n\nMIAG\n--x--\n")
    for name in ("a.eml", "b.eml"):
        pages = load_pages(tmp_path / name)
        assert "encrypted" in pages.left_out[0].why and "encrypted" in text_of(pages)[0] and len(pages) == 1
    pages = load_pages(tmp_path / "c.eml")
    assert "Order: 5" in text_of(pages)[0] and pages.left_out[0].why == "its signature is not checked"


# --- what is attached ---

def test_files_stand_behind_the_mail_under_its_name(tmp_path):
    inner = EmailMessage()
    inner["From"], inner["Subject"] = "carl@home.example", "Re: old/bill"
    inner.set_content("Old number: 12")
    inner.add_attachment(bill("Deepest: 13"), maintype="application", subtype="pdf", filename="deep.pdf")
    outer = EmailMessage()
    outer["From"], outer["Subject"] = "ann@shop.example", "Bills"
    outer.set_content("See below.")
    outer.add_attachment(bill("Total due: 250.00 EUR"), maintype="application", subtype="pdf", filename="../bill.pdf")
    outer.add_attachment(picture("JPEG"), maintype="image", subtype="jpeg", filename="photo.jpg")
    outer.add_attachment(inner)
    for name, data in {"cut.pdf": b"%PDF-1.7", "x.exe": b"MZ", "a.zip": b"PK\3\4", "empty.pdf": b""}.items():
        outer.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    path = tmp_path / "mail.eml"
    path.write_bytes(bytes(outer))
    with load_pages(path) as pages:
        inside = ["bill.pdf", "photo.jpg", "Re_ old-bill.eml", "Re_ old-bill.eml: deep.pdf"]
        assert list(files_of(pages)) == ["mail.eml", *(f"mail.eml: {name}" for name in inside)]
        assert [page.file_page for page in pages.infos] == [1] * 5 and pages.paths == [path]
        left = {one.file.removeprefix(f"{path}: "): one.why for one in pages.left_out}
        assert left.keys() == {"cut.pdf", "x.exe", "a.zip", "empty.pdf"}
        assert "/" not in "".join(left.values())
        assert "broken" in left["cut.pdf"] and "empty" in left["empty.pdf"] and "not a kind" in left["x.exe"]
        mark = pages.mark
    said = cosee.ask(path, "What is the total due?", "ocr")
    assert (said["answer"], said["page"]) == ("250.00 EUR", 2)
    assert load_pages(path).mark == mark and load_pages(path, pages="2").mark != load_pages(path, pages="3").mark
    pages = load_pages(path)
    path.write_bytes(bytes(outer) + b"\n")
    with pytest.raises(PageError, match="changed"): pages.page(2)


def test_mails_within_mails_and_many_files_have_an_end(tmp_path):
    mail = EmailMessage()
    mail.set_content("innermost")
    for n in range(40):
        outer = EmailMessage()
        outer["Subject"] = f"level {n}"
        outer.set_content("see below")
        outer.add_attachment(mail)
        mail = outer
    (tmp_path / "deep.eml").write_bytes(bytes(mail))
    pages = load_pages(tmp_path / "deep.eml")
    assert len(pages) == 4 and "mail within mails" in pages.left_out[-1].why
    many = EmailMessage()
    many.set_content("many")
    for n in range(1000): many.add_attachment(b"a,b\n", maintype="text", subtype="csv", filename=f"{n}.txt")
    (tmp_path / "many.eml").write_bytes(bytes(many))
    started = time.monotonic()
    pages = load_pages(tmp_path / "many.eml")
    assert any("900 more files" in one.why for one in pages.left_out) and time.monotonic() - started < 30


@pytest.mark.parametrize("data", [
    b"From: a@b\nSubject: x\nContent-Type: multipart/mixed; boundary=\n\n--\n--\n",
    b"From: a@b\nSubject: x\nContent-Type: multipart/mixed\n\nno parts",
    b"From: \xff\xfe@\nSubject: =?utf-8?b?////?=\nDate: never\nContent-Transfer-Encoding: base64\n\n!!!!",
    b"From: a@b\nTo: " + b"<" * 100_000 + b"\nSubject: x\n\nhello",
    b"From: a@b\nSubject: x\nContent-Type: message/rfc822\n\n",
    b"From: a@b\nSubject: x\nContent-Type: text/html\n\n" + b"<table><tr><td>" * 20_000])
def test_broken_mails_are_read_as_far_as_they_go_or_refused_in_a_line(tmp_path, data):
    (tmp_path / "a.eml").write_bytes(data)
    started = time.monotonic()
    try: assert len(load_pages(tmp_path / "a.eml")) >= 1
    except PageError as e: assert "\n" not in str(e) and "a.eml" in str(e)
    assert time.monotonic() - started < 30


# --- Outlook ---

class Chains:
    "Blocks cut into sectors, and the table that chains them."
    def __init__(self, size): self.size, self.table, self.sectors = size, [], []

    def store(self, block):
        "Where the block begins."
        n, start = -(-len(block) // self.size), len(self.sectors)
        self.sectors += [block[i * self.size:(i + 1) * self.size].ljust(self.size, b"\0") for i in range(n)]
        self.table += [*range(start + 1, start + n), 0xFFFFFFFE] if n else []
        return start if n else 0xFFFFFFFE


def compound(tree):
    "A compound file of folders and streams: name -> bytes, or the same again."
    entries = [["Root Entry", 5, [], b""]]

    def add(parent, inside):
        for name, found in inside.items():
            entries.append([name, 1 if isinstance(found, dict) else 2, [], b"" if isinstance(found, dict) else found])
            entries[parent][2].append(len(entries) - 1)
            if isinstance(found, dict): add(len(entries) - 1, found)
    add(0, tree)
    large, small = Chains(512), Chains(64)
    starts = [(small if len(block) < 4096 else large).store(block) for *_, block in entries]
    entries[0][3] = b"".join(small.sectors)
    starts[0] = large.store(entries[0][3])
    folder = b""
    for at, (name, kind, inside, block) in enumerate(entries):
        text = name.encode("utf-16-le")
        beside = next((e[2] for e in entries if at in e[2]), [at])
        after = beside[beside.index(at) + 1:beside.index(at) + 2] or [0xFFFFFFFF]
        first = inside[0] if inside else 0xFFFFFFFF
        folder += text.ljust(64, b"\0") + struct.pack("<HBBIII", len(text) + 2, kind, 1, 0xFFFFFFFF, *after, first)
        folder += bytes(36) + struct.pack("<IQ", starts[at], len(block))
    folder += (bytes(68) + struct.pack("<3I", *[0xFFFFFFFF] * 3) + bytes(48)) * (-len(entries) % 4)
    listed = large.store(folder)
    table = large.store(struct.pack(f"<{len(small.table)}I", *small.table).ljust(512, b"\xff"))
    tables = -(-(len(large.table) + 1) // 127)
    places = [len(large.sectors) + n for n in range(tables)]
    full = [*large.table, *[0xFFFFFFFD] * tables]
    full += [0xFFFFFFFF] * (tables * 128 - len(full))
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<5H", 62, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<9I", 0, tables, listed, 0, 4096, table, 1, 0xFFFFFFFE, 0)
    head += struct.pack("<109I", *places, *[0xFFFFFFFF] * (109 - tables))
    return head + b"".join(large.sectors) + struct.pack(f"<{len(full)}I", *full)


def properties(head, values):
    "The stream of properties, and those that are streams: number -> text or bytes."
    stream, out = head, {}
    for number, value in values.items():
        if isinstance(value, int): stream += struct.pack("<HHIQ", 3, number, 6, value)
        else:
            kind, data = (0x1F, value.encode("utf-16-le")) if isinstance(value, str) else (0x102, value)
            out[f"__substg1.0_{number:04X}{kind:04X}"] = data
            stream += struct.pack("<HHIII", kind, number, 6, len(data) + 2 * (kind == 0x1F), 0)
    return {"__properties_version1.0": stream, **out}


def write_msg(path):
    file = bill("Total due: 250.00 EUR", *(f"line {n}" for n in range(900)))
    attached = properties(bytes(8), {0x3707: "bill.pdf", 0x3705: 1, 0x3701: file})
    to = properties(bytes(8), {0x3001: "Bob", 0x3003: "bob@home.example", 0x0C15: 1})
    head = bytes(8) + struct.pack("<4I", 1, 1, 1, 1) + bytes(8)
    said = {0x001A: "IPM.Note", 0x0037: "Your bill", 0x1000: "Order number: 4711", 0x0C1A: "Ann",
            0x0C1F: "ann@shop.example"}
    path.write_bytes(compound({**properties(head, said), "__recip_version1.0_#00000000": to,
                               "__attach_version1.0_#00000000": attached}))
    return path


def test_a_mail_of_outlook_is_read(tmp_path):
    pytest.importorskip("oxmsg")
    pages = load_pages(write_msg(tmp_path / "a.msg"))
    first = text_of(pages)[0]
    assert "Ann" in first and "Subject: Your bill" in first and "Order number: 4711" in first
    assert list(files_of(pages)) == ["a.msg", "a.msg: bill.pdf"] and "250.00 EUR" in text_of(pages)[1]


def test_without_what_reads_it_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "oxmsg", None)
    monkeypatch.setenv("COSEE_SANDBOX", "off")
    write_msg(tmp_path / "a.msg")
    with pytest.raises(PageError, match=r"oxmsg.*\[office\].*save it as .eml"): load_pages(tmp_path / "a.msg")


def test_the_app_calls_what_is_attached_by_its_name_and_says_what_is_not_read(tmp_path):
    mail = write_mail(tmp_path / "bill.eml", "The bill is attached.",
                      files=[("bill.pdf", (samples_dir() / "invoice.pdf").read_bytes()), ("x.zip", b"PK\3\4 nothing")])
    with EpisodeService(tmp_path / "kept", Clients({"ocr": OcrClient})) as service:
        web = TestClient(create_page_app(service), base_url="http://127.0.0.1")
        sent = dict(params=dict(name="bill.eml"), content=mail.read_bytes())
        told = web.post("/api/documents/upload", **sent).json()
        opened = web.get(f"/api/documents/{told['id']}/sizes").json()
        assert opened["pages"] == 2 and [one.partition(": ")[0] for one in opened["left_out"]] == ["bill.eml"]
        assert "x.zip" in opened["left_out"][0]
        form = dict(question="How much is the subtotal?", wait=50)
        ended = web.post(f"/api/documents/{told['id']}/questions", json=form).json()
        shown = web.get(f"/api/episodes/{ended['id']}/export.html").text
    assert ended["page"] == 2 and "bill.eml: bill.pdf, page 1" in shown and told["id"] not in shown
