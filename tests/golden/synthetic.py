"""What a seed draws: the file, the questions, values and lines of each kind of synthetic document, and its pages.

    python tests/golden/synthetic.py          compare with synthetic.jsonl
    python tests/golden/synthetic.py --write  write it anew

The tiny model was trained on these documents, and stored records name their questions by seed: a difference is a
fault. Pixels differ between versions of PDFium and Pillow, so the tests compare them only where the record's are at
hand.
"""
import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

RECORD = HERE / "synthetic.jsonl"
SEEDS = (0, 1, 7)
SCANNED = dict(noise=.05, rotate=.5, blur=.3, jpeg=60, paper=240)


def digest(*parts):
    "The SHA-256 of bytes, and of what can be said as JSON."
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
    return found.hexdigest()


def drawn(images):
    return digest(*(part for image in images for part in (list(image.size), image.tobytes())))


def told(doc):
    "What is recorded of a document, but for its pixels."
    return dict(document=doc.doc_id, pages=doc.pages, pdf=digest(doc.pdf), questions=digest(doc.questions),
                facts=digest(doc.facts), marks=digest(doc.marks))


def row(doc, dpi, **effects):
    "One document as it is recorded."
    from cosee.datasets.synthetic.document import render
    return told(doc) | dict(drawn=drawn(render(doc, dpi, **effects)))


def recorded(): return [json.loads(line) for line in RECORD.read_text().splitlines()]


def write_samples(folder):
    "The sample documents of the package with their questions, made anew; the files."
    from cosee.datasets.synthetic.document import make_document
    from cosee.datasets.synthetic.small import small_document
    wanted = dict(invoice=("invoice", 43, 1), report=("report", 59, 5), slides=("slides", 7, 6))   # kind, seed, pages
    made = {name: make_document(kind, seed, pages=pages, conflict=False, n_questions=16)
            for name, (kind, seed, pages) in wanted.items()}
    made["small"] = small_document("sample", 3, "held_out", lines=(4, 6), n_questions=6, unanswerable=.2)
    lines = dict.fromkeys(("questions.jsonl", "small.jsonl"), "")
    for name, doc in made.items():
        for q in doc.questions:
            place = q["evidence"][0] if q["evidence"] else dict(page=None, bbox=None)
            record = dict(file=f"{name}.pdf", question=q["question"], answer=q["answers"], page=place["page"],
                          bbox=place["bbox"], wording=q["wording"])
            file = "small.jsonl" if name == "small" else "questions.jsonl"
            lines[file] += json.dumps(record, ensure_ascii=False) + "\n"
    for name, text in lines.items(): (folder / name).write_text(text, encoding="utf-8")
    return [*(doc.save(folder / f"{name}.pdf") for name, doc in made.items()), *(folder / name for name in lines)]


def documents():
    "Every kind in both styles, with three seeds; options take turns."
    from cosee.datasets.synthetic.document import make_document
    from cosee.datasets.synthetic.kinds import DOCUMENT_TYPES
    from cosee.datasets.synthetic.long import long_document
    from cosee.datasets.synthetic.small import small_document
    for kind in DOCUMENT_TYPES:
        for style in ("dev", "held_out"):
            for i, seed in enumerate(SEEDS):
                more = (dict(), dict(pages=3, conflict=True), dict(small_print=True, n_questions=40))[i]
                yield row(make_document(kind, seed, style, **more), 40, **(SCANNED if i == 1 else {}))
            yield row(make_document(kind, 3, style, small_print="only"), 40)
    for style in ("dev", "held_out"):
        for seed in SEEDS:
            yield row(small_document(seed, style=style), 72)
            yield row(long_document(seed, 24, style), 20)


def samples():
    "What the data sets hand out, with pages."
    from cosee import load
    for name, options in (("made", dict(dpi=40, per_doc=3)), ("small", dict(jitter=3, effects=dict(noise=.03))),
                          ("long", dict(pages=12, dpi=20))):
        for style in ("dev", "held_out"):
            for seed in SEEDS:
                for n, s in enumerate(load(name, style, n=9, seed=seed, **options)):
                    told = {key: value for key, value in s["meta"].items() if key != "dataset"}
                    yield dict(sample=f"{name} {style} {seed} {n}", drawn=drawn(s["images"]),
                               asked=digest(s["question"], s["answer"], told))


def rows():
    "All that is recorded, with the versions that pixels depend on first."
    yield dict(versions=[version("pypdfium2"), version("pillow"), version("numpy")])
    yield from documents()
    yield from samples()


def differing():
    "Names of what differs from the record; of other versions than the record's, pixels are not compared."
    before, found = recorded(), list(rows())
    skip = set() if found[0] == before[0] else {"drawn"}
    names = [r.get("document") or r.get("sample") for r in before]
    if names != [r.get("document") or r.get("sample") for r in found]: return ["the documents themselves"]
    return [f"{name}: {key}" for name, a, b in zip(names[1:], before[1:], found[1:])
            for key in a if a[key] != b[key] and key not in skip]


if __name__ == "__main__":
    if "--write" in sys.argv: RECORD.write_text("".join(json.dumps(r) + "\n" for r in rows()))
    else: sys.exit("\n".join(differing()) or None)
