"""Office files that tests write themselves: the smallest documents, workbooks and presentations, and mails."""
import zipfile
from email.message import EmailMessage
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LINKS = "application/vnd.openxmlformats-package.relationships+xml"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = ("http://schemas.openxmlformats.org/presentationml/2006/main",
         "http://schemas.openxmlformats.org/drawingml/2006/main")
MIME = "application/vnd.openxmlformats-officedocument."


def relations(*found):
    "The relations of a part: (id, kind, target), and whether the target lies outside."
    lines = (f"<Relationship Id={quoteattr(name)} Type={quoteattr(f'{KIND}/{kind}')} Target={quoteattr(target)}"
             + ' TargetMode="External"' * bool(outside) + "/>" for name, kind, target, *outside in found)
    return f'<Relationships xmlns="{RELATIONS}">{"".join(lines)}</Relationships>'


def package(path, main, kinds, parts, method=zipfile.ZIP_DEFLATED):
    "Write an OOXML file: its main part, what kind each part is, and the parts."
    named = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in kinds.items())
    with zipfile.ZipFile(path, "w", method) as out:
        out.writestr("[Content_Types].xml",
                     f'<Types xmlns="{TYPES}"><Default Extension="xml" ContentType="application/xml"/>'
                     f'<Default Extension="rels" ContentType="{LINKS}"/>'
                     f'<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/>{named}</Types>')
        out.writestr("_rels/.rels", relations(("r1", "officeDocument", main)))
        for name, text in parts.items(): out.writestr(name, text)
    return Path(path)


def run(text): return f'<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r>'


def write_docx(path, *lines, body="", links=(), kinds=None, **more):
    "A Word document with a paragraph for each line, and `body` as XML behind them; further parts and their kinds."
    text = "".join(f"<w:p>{run(line)}</w:p>" for line in lines)
    parts = {"word/document.xml": f'<w:document xmlns:w="{WORD}" xmlns:r="{KIND}" '
                                  'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
                                  f'xmlns:a="{SLIDE[1]}" '
                                  'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture">'
                                  f"<w:body>{text}{body}</w:body></w:document>"}
    if links: parts["word/_rels/document.xml.rels"] = relations(*links)
    kinds = {"word/document.xml": MIME + "wordprocessingml.document.main+xml", **(kinds or {})}
    return package(path, "word/document.xml", kinds, {**parts, **more})


def change(old, new):
    "A tracked change of one text for another."
    deleted = f'<w:del w:id="1" w:author="a"><w:r><w:delText>{escape(old)}</w:delText></w:r></w:del>'
    return f'{deleted}<w:ins w:id="2" w:author="a">{run(new)}</w:ins>'


def linked_picture(address):
    "XML of a picture that lies elsewhere, and the relation that says where."
    shape = ('<w:p><w:r><w:drawing><wp:inline><wp:extent cx="900000" cy="900000"/><wp:docPr id="1" name="p"/>'
             '<a:graphic><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:pic>'
             '<pic:nvPicPr>'
             '<pic:cNvPr id="1" name="p"/><pic:cNvPicPr/></pic:nvPicPr><pic:blipFill><a:blip r:link="rp"/>'
             '</pic:blipFill><pic:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="900000" cy="900000"/></a:xfrm>'
             '<a:prstGeom prst="rect"/>'
             '</pic:spPr></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>')
    return shape, ("rp", "image", address, True)


def _cell(value):
    if isinstance(value, str) and value.startswith("="): return f"<c><f>{escape(value[1:])}</f></c>"
    if isinstance(value, str): return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return "<c/>" if value is None else f"<c><v>{value}</v></c>"


def _sheet(rows):
    if isinstance(rows, str): return rows
    lines = "".join(f'<row r="{n}">{"".join(map(_cell, row))}</row>' for n, row in enumerate(rows, 1))
    return f'<worksheet xmlns="{SHEET}"><sheetData>{lines}</sheetData></worksheet>'


def write_xlsx(path, sheets, hidden=()):
    "An Excel workbook: name of a sheet -> its rows."
    names = [f"xl/worksheets/sheet{n}.xml" for n in range(1, len(sheets) + 1)]
    listed = "".join(f'<sheet name={quoteattr(name)} sheetId="{n}" r:id="r{n}"'
                     + ' state="hidden"' * (name in hidden) + "/>" for n, name in enumerate(sheets, 1))
    main = f'<workbook xmlns="{SHEET}" xmlns:r="{KIND}"><sheets>{listed}</sheets></workbook>'
    links = relations(*((f"r{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)))
    kinds = {"xl/workbook.xml": MIME + "spreadsheetml.sheet.main+xml",
             **dict.fromkeys(names, MIME + "spreadsheetml.worksheet+xml")}
    return package(path, "xl/workbook.xml", kinds, {"xl/workbook.xml": main, "xl/_rels/workbook.xml.rels": links,
                                                    **dict(zip(names, map(_sheet, sheets.values()), strict=True))})


LAYOUT = ("l1", "slideLayout", "../slideLayouts/slideLayout1.xml")
_SPACE = f'xmlns:p="{SLIDE[0]}" xmlns:a="{SLIDE[1]}" xmlns:r="{KIND}"'


def _tree(*shapes):
    return ('<p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr>'
            f'<p:grpSpPr/>{"".join(shapes)}</p:spTree></p:cSld>')


def _shape(n, text, top, place=""):
    return (f'<p:sp><p:nvSpPr><p:cNvPr id="{n}" name="s{n}"/><p:cNvSpPr/><p:nvPr>{place}</p:nvPr></p:nvSpPr>'
            f'<p:spPr><a:xfrm><a:off x="500000" y="{top}"/><a:ext cx="8000000" cy="1000000"/></a:xfrm></p:spPr>'
            f'<p:txBody><a:bodyPr/><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:txBody></p:sp>')


def write_pptx(path, slides, hidden=()):
    "A PowerPoint presentation: (title, text, notes) of each slide; `hidden` are numbers from 1."
    numbers, made = range(1, len(slides) + 1), MIME + "presentationml."
    notes = [n for n in numbers if slides[n - 1][2]]
    kinds = {"ppt/presentation.xml": made + "presentation.main+xml",
             "ppt/slideMasters/slideMaster1.xml": made + "slideMaster+xml",
             "ppt/slideLayouts/slideLayout1.xml": made + "slideLayout+xml",
             **{f"ppt/slides/slide{n}.xml": made + "slide+xml" for n in numbers},
             **{f"ppt/notesSlides/notesSlide{n}.xml": made + "notesSlide+xml" for n in notes}}
    colours = " ".join(f'{name}="{name}"' for name in (*(f"accent{n}" for n in range(1, 7)), "hlink", "folHlink"))
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="s{n}"/>' for n in numbers)
    parts = {
        "ppt/presentation.xml":
            f'<p:presentation {_SPACE}><p:sldMasterIdLst><p:sldMasterId id="2147483648" r:id="m1"/></p:sldMasterIdLst>'
            f'<p:sldIdLst>{listed}</p:sldIdLst><p:sldSz cx="9144000" cy="6858000"/>'
            '<p:notesSz cx="6858000" cy="9144000"/></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(("m1", "slideMaster", "slideMasters/slideMaster1.xml"),
                                                     *((f"s{n}", "slide", f"slides/slide{n}.xml") for n in numbers)),
        "ppt/slideMasters/slideMaster1.xml":
            f'<p:sldMaster {_SPACE}>{_tree()}<p:clrMap bg1="lt1" tx1="dk1" bg2="lt2" tx2="dk2" {colours}/>'
            '<p:sldLayoutIdLst><p:sldLayoutId id="2147483649" r:id="l1"/></p:sldLayoutIdLst></p:sldMaster>',
        "ppt/slideMasters/_rels/slideMaster1.xml.rels": relations(LAYOUT),
        "ppt/slideLayouts/slideLayout1.xml": f"<p:sldLayout {_SPACE}>{_tree()}</p:sldLayout>",
        "ppt/slideLayouts/_rels/slideLayout1.xml.rels": relations(
            ("m1", "slideMaster", "../slideMasters/slideMaster1.xml"))}
    for n, (title, text, said) in enumerate(slides, 1):
        shown = ' show="0"' if n in hidden else ""
        shapes = _tree(_shape(2, title, 400000, '<p:ph type="title"/>'), _shape(3, text, 2000000))
        more = [("n1", "notesSlide", f"../notesSlides/notesSlide{n}.xml")] if said else []
        parts[f"ppt/slides/slide{n}.xml"] = f"<p:sld {_SPACE}{shown}>{shapes}</p:sld>"
        parts[f"ppt/slides/_rels/slide{n}.xml.rels"] = relations(LAYOUT, *more)
        if not said: continue
        place = '<p:ph type="body" idx="1"/>'
        page = _tree(_shape(2, said, 100, place))
        parts[f"ppt/notesSlides/notesSlide{n}.xml"] = f"<p:notes {_SPACE}>{page}</p:notes>"
        parts[f"ppt/notesSlides/_rels/notesSlide{n}.xml.rels"] = relations(("s", "slide", f"../slides/slide{n}.xml"))
    return package(path, "ppt/presentation.xml", kinds, parts)


def write_odf(path, kind, body, before="", **more):
    "A file of LibreOffice: 'text', 'spreadsheet' or 'presentation', the XML of its body, and other members."
    names = ("office", "text", "table", "draw", "presentation", "style", "script")
    full = {name: name for name in names} | {"draw": "drawing"}
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full[name]}:1.0"' for name in names)
    mime = f"application/vnd.oasis.opendocument.{kind}"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("mimetype", mime)
        out.writestr("content.xml", f'<office:document-content {spaces} xmlns:xlink="http://www.w3.org/1999/xlink" '
                                    'xmlns:dom="http://www.w3.org/2001/xml-events" '
                                    'xmlns:ooo="http://openoffice.org/2004/office" '
                                    'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" '
                                    f'office:version="1.2">{before}<office:body><office:{kind}>{body}</office:{kind}>'
                                    '</office:body></office:document-content>')
        space = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
        out.writestr("META-INF/manifest.xml",
                     f'<m:manifest xmlns:m="{space}"><m:file-entry m:full-path="/" m:media-type="{mime}"/>'
                     + "".join(f'<m:file-entry m:full-path="{name}" m:media-type="text/xml"/>'
                               for name in ("content.xml", *more)) + "</m:manifest>")
        for name, text in more.items(): out.writestr(name, text)
    return Path(path)


def write_mail(path, text="", html="", files=(), related=(), **heads):
    "A mail of the net: its text, its HTML, (name, bytes) of files, (id, bytes) of pictures in the HTML."
    mail = EmailMessage()
    usual = {"From": "Ann <ann@shop.example>", "To": "bob@home.example", "Subject": "Your bill"}
    for name, value in {**usual, **heads}.items(): mail[name] = value
    if text or not html: mail.set_content(text)
    if html and text: mail.add_alternative(html, subtype="html")
    elif html: mail.set_content(html, subtype="html")
    for name, data in related:
        page = mail.get_payload()[-1] if mail.is_multipart() else mail
        page.add_related(data, "image", "png", cid=f"<{name}>")
    for name, data in files:
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    Path(path).write_bytes(bytes(mail))
    return Path(path)
