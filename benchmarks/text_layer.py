"""How far the text that PDFs carry agrees with OCR of the same pages: words, their places, what is refused and why.

    python benchmarks/text_layer.py --json FOLDER [FOLDER ...] [--cache FOLDER] [--out FILE]

Two pages of every PDF in the folders are read both ways: the second and the middle one (of a file of one page, that).
Words are compared without case, accents and signs. A word of the text layer is alike if OCR has it at the same place;
where OCR put other spaces, or cut a line elsewhere, the letters at that place are compared instead of the words. What
differs is counted by kind: OCR left it out, OCR took a few letters for others (at most a third of the word), or it is
another word. Only lines whose source is the text layer are counted, and only words of letters that OCR's models know.
The results hold counts and the files' checksums, no text of the documents. OCR of the pages is kept in --cache.
"""
import argparse
import hashlib
import json
import re
import sys
import time
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from statistics import mean, median

from PIL import Image

from cosee.utils.boxes import box_iou
from cosee.text.ocr import TextExtractor
from cosee.text.pdf_visibility import Memory, latin, read_layer
from cosee.text.page_text import PageText
from cosee.pages import PageError, load_pages


def chosen(n):
    "Numbers of the pages that are read of a document of `n` pages."
    return sorted({min(2, n), (n + 1) // 2})


def ocr_page(pages, number, sha, folder, reader):
    "The page by OCR, from the folder if it was read before, and its CPU-seconds."
    file = Path(folder) / f"{sha[:16]}-{number}.json" if folder else None
    if file and file.exists():
        kept = json.loads(file.read_text())
        return kept["page"], kept["cpu"]
    start = time.process_time()
    page = reader.ocr(pages.page(number))
    cpu = time.process_time() - start
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dict(page=page, cpu=cpu)))
    return page, cpu


def words(page, keep=lambda line: True):
    "(letters, box) of every word that has some."
    for line in filter(keep, page["lines"]):
        for text, (left, right) in zip(line["text"].split(), line["words"], strict=True):
            plain = latin(text)
            if plain and len(plain) >= 0.7 * sum(c.isalnum() for c in text):
                yield plain, (left, line["bbox"][1], right, line["bbox"][3])


def near(box, others):
    "Words whose middle lies in a box or that hold its middle, from left to right."
    def inside(a, b):
        x, y = (a[0] + a[2]) / 2, (a[1] + a[3]) / 2
        return b[0] <= x <= b[2] and b[1] <= y <= b[3]
    return sorted((o for o in others if inside(o[1], box) or inside(box, o[1])), key=lambda o: o[1][0])


def compare(text, other):
    "How each word of the text layer fares: ('same' | 'spaces' | 'letters' | 'missed' | 'other', IoU or None)."
    for word, box in text:
        found = near(box, other)
        same = [box_iou(box, b) for w, b in found if w == word]
        if same: yield "same", max(same)
        elif not found: yield "missed", None
        elif word in "".join(w for w, _ in found): yield "spaces", None
        else:
            mine = "".join(w for w, _ in near_all(found, text))
            theirs = "".join(w for w, _ in found)
            best = max(SequenceMatcher(None, word, w, autojunk=False).ratio() for w, _ in found)
            if mine == theirs or theirs and theirs in mine: yield "spaces", None
            else: yield ("letters" if best >= 2 / 3 else "other"), None


def near_all(found, text):
    "The words of the text layer at the place of some words of OCR."
    box = [f([b[i] for _, b in found]) for i, f in enumerate((min, min, max, max))]
    return near(box, text)


def no_ocr(image, box):
    "Stands in for OCR where only the words of the text layer are wanted."
    return PageText(size=list(image.size), skew=0.0, lines=[], source="ocr", turned=0)


def timed(call):
    "What a call gives, and its CPU milliseconds."
    start = time.process_time()
    result = call()
    return result, round(1000 * (time.process_time() - start), 1)


def read_page(page, memory, scanned, reader):
    "What becomes of one page, and the overlap of each word that both ways place."
    printed, auto = timed(lambda: reader.read([page])[0])
    layer, _ = timed(lambda: read_layer(page, memory, no_ocr, reader.line))
    _, quick = timed(lambda: reader.read([page], text_source="text"))
    other = list(words(scanned))
    found = list(compare(list(words(layer)), other))
    return dict(page=page.number, source=printed["source"], why=printed.get("why", ""), words=len(found),
                ocr_words=len(other), kinds=dict(Counter(kind for kind, _ in found)),
                iou=[value for _, value in found if value is not None], layer_ms=quick, auto_ms=auto)


def read_document(path, folder, reader):
    "What becomes of the pages of one PDF."
    sha, memory, rows = hashlib.sha256(path.read_bytes()).hexdigest(), Memory(), []
    with load_pages(path) as pages:
        for number in chosen(len(pages)):
            scanned, seconds = ocr_page(pages, number, sha, folder, reader)
            row = read_page(pages.info(number), memory, scanned, reader)
            rows.append(dict(sha256=sha, ocr_ms=round(1000 * seconds, 1), **row))
    return rows


def reasons(rows):
    "How many pages say what of their text layer, without the numbers."
    count = Counter()
    for row in rows:
        for part in filter(None, row["why"].split("; ")):
            plain = re.sub(r"\d[\d,]*", "n", part)
            count[re.sub(r"\b(word|place|character)s\b", r"\1", plain)] += 1
    return dict(sorted(count.items(), key=lambda item: -item[1]))


def cost(rows, middle):
    "CPU milliseconds of a page: its text layer alone, with samples and OCR where they are needed, OCR alone."
    return {way: round(middle(row[f"{way}_ms"] for row in rows), 1) for way in ("layer", "auto", "ocr")}


def summary(rows):
    "Aggregates over all pages."
    kinds = Counter()
    for row in rows: kinds.update(row["kinds"])
    total, ious = sum(kinds.values()), [v for row in rows for v in row["iou"]]
    alike = kinds["same"] + kinds["spaces"]
    return dict(documents=len({row["sha256"] for row in rows}), pages=len(rows),
                sources=dict(Counter(row["source"] for row in rows)), words=total, kinds=dict(kinds),
                alike=round(alike / total, 4), alike_or_misread=round((alike + kinds["letters"]) / total, 4),
                alike_where_ocr_read=round(alike / (total - kinds["missed"]), 4),
                mean_iou=round(mean(ious), 3), median_iou=round(median(ious), 3), why=reasons(rows),
                median_ms=cost(rows, median), mean_ms=cost(rows, mean))


def main(argv=None):
    "Read the documents, print and write the results."
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--json", nargs="+", required=True, metavar="FOLDER", help="folders of PDFs")
    p.add_argument("--cache", metavar="FOLDER", help="where OCR of the pages is kept")
    p.add_argument("--out", metavar="FILE", help="where the results are written")
    p.add_argument("--most", type=int, default=1000, help="documents at most")
    args = p.parse_args(argv)
    files = sorted(f for folder in args.json for f in Path(folder).glob("*.pdf"))[:args.most]
    reader, rows, failed = TextExtractor(workers=1, cache=None), [], []
    reader.line(Image.new("RGB", (200, 40), "white"))   # the models are loaded
    for file in files:
        try: rows += read_document(file, args.cache, reader)
        except PageError as e: failed.append(str(e).split(": ", 1)[-1])
        latest = [(row["page"], row["source"], row["kinds"], row["auto_ms"]) for row in rows[-2:]]
        print(file.name[:40], *latest, file=sys.stderr)
    result = dict(what="words of the text layer against OCR of the same page", summary=summary(rows), failed=failed,
                  pages=[row | dict(iou=round(mean(row["iou"]), 3) if row["iou"] else None) for row in rows])
    print(json.dumps(result["summary"], indent=1))
    if args.out: Path(args.out).write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    return result


if __name__ == "__main__": main()
