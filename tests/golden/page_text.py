"""The text of some forty pages, and what is answered about the samples, as they were before anything was rewritten.

    python tests/golden/page_text.py          compare with page_text.jsonl
    python tests/golden/page_text.py --write  write it anew, where something changes on purpose: say why in the commit

The samples are read from their own text, and one page of each by OCR; the pages of tests/other_layouts.py by OCR. What
OCR reads, and a confidence near its bound, differ by processor here and there: look at what is told before you write.
The tests compare the pages that are read from their own text.
"""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from cosee import samples_dir

RECORD = HERE / "page_text.jsonl"
FILES = ("invoice.pdf", "report.pdf", "slides.pdf", "small.pdf")


def row(name, page):
    "One page as it is recorded: the lines in their order, with boxes in thousandths."
    lines = [[line["text"], [round(1000 * v) for v in line["bbox"]]] for line in page["lines"]]
    return dict(page=name, source=page["source"], turned=page["turned"], lines=lines)


def from_files():
    "Pages of the samples by their own text."
    from cosee.pages import load_pages
    from cosee.text.ocr import TextExtractor
    for file in FILES:
        pages = TextExtractor(cache=None).read(load_pages(samples_dir() / file))
        for number, page in enumerate(pages, 1): yield row(f"{file} {number}", page)


def by_ocr():
    "The first page of each sample and the pages of the other layouts, read by OCR."
    from cosee.pages import load_pages
    from cosee.text.ocr import TextExtractor
    from other_layouts import documents
    read = TextExtractor(cache=None, text_source="ocr").read
    for file in FILES: yield row(f"{file} 1, drawn", read(load_pages(samples_dir() / file)[:1])[0])
    for n, doc in enumerate(documents(), 1):
        for number, page in enumerate(read(doc["pages"]), 1): yield row(f"{doc['kind']} {n}, page {number}", page)


def answers():
    "What is answered about the samples when no model is asked."
    from cosee.pages import load_pages
    from cosee.models.reader_client import OcrClient
    client, documents = OcrClient(cache=None), {file: load_pages(samples_dir() / file) for file in FILES}
    for line in (samples_dir() / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        found = client.document(documents[asked["file"]]).answer(asked["question"])
        given = found is not None and found["confidence"] >= client.abstain
        yield dict(file=asked["file"], question=asked["question"], answer=found["answer"] if given else None,
                   page=found["page"] if given else None)


def recorded():
    "The rows of the record."
    return [json.loads(line) for line in RECORD.read_text(encoding="utf-8").splitlines()]


def main():
    rows = [*from_files(), *by_ocr(), *answers()]
    if "--write" in sys.argv:
        with RECORD.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        return
    before = recorded()
    changed = [r for r in json.loads(json.dumps(rows)) if r not in before]
    for r in changed: print(json.dumps(r, ensure_ascii=False)[:300])
    sys.exit(f"{len(changed)} of {len(before)} rows changed" if changed else 0)


if __name__ == "__main__": main()
