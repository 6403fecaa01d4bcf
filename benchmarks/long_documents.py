"""What a long document costs: CPU time and peak memory of opening it, of a first answer and of what comes after.

    python benchmarks/long_documents.py                     a table
    python benchmarks/long_documents.py --json              one JSON object a line
    python benchmarks/long_documents.py --folder PDFS       the same on PDFs of your own
    python benchmarks/long_documents.py --out results.json  with versions and the goals that are met

Each line is a process of its own, started from a shell as a user would, with all that it imports: `cpu_s` is user and
system time of the process and of those that it started, `peak_mb` the most memory that it held. Every measurement has
an empty cache of its own but for `second command`, which asks another question about a document that was read before.
The documents are made from a seed; `right` says how many answers were right, and `on_page` how many named a page that
holds the evidence.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEED = 19
GOALS = [   # document, pages, step, most CPU-seconds, most megabytes
    ("born digital", 100, "first answer", 12, None), ("born digital", 1000, "first answer", 60, 1500)]


# A process starts with the peak of the one that started it: a small one stands between, and writes down what was used.
BETWEEN = """
import json, os, subprocess, sys
_, status, used = os.wait4(subprocess.Popen(sys.argv[2:]).pid, 0)
said = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
with open(sys.argv[1], "w") as out: json.dump(said, out)
"""


def measured(command, cache):
    "Runs a command: what it printed, its CPU time, wall time and peak of memory."
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        used, start = Path(folder) / "used", time.perf_counter()
        run = subprocess.run([sys.executable, "-S", "-c", BETWEEN, str(used), *command], env=env, capture_output=True)
        wall = time.perf_counter() - start
        code, cpu, peak = json.loads(used.read_text())
    if code not in (0, 3): raise SystemExit(f"{' '.join(map(str, command))}: {run.stderr.decode()[-2000:]}")
    return run.stdout.decode(), dict(cpu_s=round(cpu, 2), wall_s=round(wall, 2), peak_mb=round(peak))


def ask(file, questions, how, cache):
    "`cosee ask` as a process: its results and what they cost."
    asked = [part for q in questions for part in ("-q", q["question"])]
    code = "from cosee.cli.start import main; raise SystemExit(main())"
    command = [sys.executable, "-c", code, "ask", str(file), *asked, "--json", "--quiet", "--text-source", how]
    said, cost = measured(command, cache)
    return json.loads(said), cost


def opened(file, cache):
    "A process that opens a document and counts its pages."
    code = "import sys; from cosee import load_pages; print(len(load_pages(sys.argv[1])))"
    return measured([sys.executable, "-c", code, str(file)], cache)[1]


def judged(results, questions):
    "How many answers and pages are right."
    from cosee.utils.text import same_answer
    pairs = list(zip(results, questions))
    right = sum(any(same_answer(r["answer"], a) for a in q["answers"]) for r, q in pairs)
    return dict(questions=len(pairs), right=right, on_page=sum(r["page"] in q["evidence_pages"] for r, q in pairs))


def steps(file, questions, how, opening=True):
    "Measurements of one document."
    first, second = questions[:1], questions[1:2]
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as kept:
        if opening: yield dict(step="open", **opened(file, cold))
        results, cost = ask(file, first, how, kept)
        yield dict(step="first answer", **cost, **judged(results, first))
        results, warm = ask(file, second, how, kept)
        yield dict(step="second command", **warm, **judged(results, second))
        results, cost = ask(file, questions[:2], how, cold)
        yield dict(step="two questions", **cost, **judged(results, questions[:2]))


def chosen(doc):
    "Two questions for fields that a document prints once: what is measured is the way, not the reader."
    plain = [q for q in doc.questions if q["where"] == "field" and q["wording"] == "literal"]
    return (plain + doc.questions)[:2]


def made(pages, folder):
    "A born-digital document, its file and two questions."
    from cosee.datasets.synthetic.long import long_document
    doc = long_document(SEED, pages, n_questions=max(24, pages // 4))
    return doc, doc.save(folder / f"{doc.doc_id}.pdf"), chosen(doc)


def scan_of(pages, folder):
    "A scanned document of so many pages, its file and two questions."
    from cosee.datasets.synthetic.long import scan_pdf
    doc, _, questions = made(pages, folder)
    file = folder / f"{doc.doc_id}-scan.pdf"
    file.write_bytes(scan_pdf(doc, 150, noise=.02, blur=.3))
    return file, questions


def illustrated(pages, folder):
    "A born-digital handbook with a screenshot on each page, its file and two questions."
    import pypdfium2 as pdfium
    from cosee import load_pages
    _, file, questions = made(pages, folder)
    shots = [page.crop((0, 0, page.width, page.height // 2)) for page in load_pages(file, dpi=72)[:8]]
    pdf = pdfium.PdfDocument(file)
    for i, leaf in enumerate(pdf):
        shot, shown = shots[i % len(shots)], pdfium.PdfImage.new(pdf)
        shown.set_bitmap(pdfium.PdfBitmap.from_pil(shot))
        shown.set_matrix(pdfium.PdfMatrix().scale(shot.width / 2, shot.height / 2).translate(72, 20))
        leaf.insert_obj(shown)
        leaf.gen_content()
    pdf.save(out := file.with_name(f"{file.stem}-illustrated.pdf"))
    return out, questions


def rows(args):
    "All measurements, one after the other."
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pages in args.pages:
            doc, file, questions = made(pages, folder)
            for row in steps(file, questions, "auto"):
                yield dict(document="born digital", pages=pages, drawn=doc.pages, text_source="auto", **row)
        for pages in args.scanned:
            file, questions = scan_of(pages, folder)
            for row in steps(file, questions, "auto"):
                yield dict(document="scanned", pages=pages, text_source="auto", **row)
        for pages in args.illustrated:
            file, questions = illustrated(pages, folder)
            for row in steps(file, questions, "auto"):
                yield dict(document="illustrated", pages=pages, text_source="auto", **row)
        for pages in args.ocr:
            _, file, questions = made(pages, folder)
            for row in steps(file, questions, "ocr", False):
                yield dict(document="born digital", pages=pages, text_source="ocr", **row)
    yield from real(args.folder, args.limit) if args.folder else ()


def real(folder, limit):
    "The PDFs of a folder, told by their number of pages alone."
    from cosee.pages import page_count
    from cosee.utils.files import digest
    question = {"question": "What is the title of the document?", "answers": [], "evidence_pages": []}
    for file in sorted(Path(folder).glob("**/*.pdf"))[:limit]:
        with tempfile.TemporaryDirectory() as cache:
            n, costs = page_count(file), [opened(file, cache), ask(file, [question], "auto", cache)[1]]
        for step, cost in zip(("open", "first answer"), costs):
            yield dict(document=f"real {digest(file.name)[:6]}", pages=n, text_source="auto", step=step, **cost)


def goals(found):
    "Which goals the measurements meet."
    out = []
    for document, pages, step, cpu, memory in GOALS:
        row = next((r for r in found if (r["document"], r["pages"], r["step"], r["text_source"]) ==
                    (document, pages, step, "auto")), None)
        if row is None: continue
        met = row["cpu_s"] <= cpu and (memory is None or row["peak_mb"] < memory)
        out.append(dict(document=document, pages=pages, step=step, cpu_s=cpu, peak_mb=memory, met=met))
    return out


def about():
    "What measured."
    from importlib.metadata import version
    packages = ("pillow", "pypdfium2", "rapidocr", "onnxruntime", "bm25s")
    return dict(seed=SEED, python=platform.python_version(), machine=platform.machine(), cores=os.cpu_count(),
                packages={p: version(p) for p in packages})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="one JSON object a line")
    p.add_argument("--pages", type=int, nargs="*", default=[10, 100, 1000], help="of born-digital documents")
    p.add_argument("--scanned", type=int, nargs="*", default=[10], help="pages of scanned documents")
    p.add_argument("--illustrated", type=int, nargs="*", default=[100], help="pages of handbooks with screenshots")
    p.add_argument("--ocr", type=int, nargs="*", default=[10], help="pages of documents that are read by OCR alone")
    p.add_argument("--folder", help="PDFs of your own")
    p.add_argument("--limit", type=int, default=40, help="most PDFs of the folder")
    p.add_argument("--out", help="write rows, versions and goals to this file")
    args, found = p.parse_args(), []
    for row in rows(args):
        found.append(row)
        print(json.dumps(row) if args.json else "  ".join(f"{k}={v}" for k, v in row.items()), flush=True)
    if args.out:
        text = json.dumps(dict(rows=found, goals=goals(found), **about()), indent=1) + "\n"
        Path(args.out).write_text(text, encoding="utf-8")


if __name__ == "__main__": main()
