"""Where should tokens go in a long document: to a few pages in full, or to all of them, made small?

    python benchmarks/focus_budget.py                           the tiny model on made documents of 40 and 200 pages
    python benchmarks/focus_budget.py --client ocr --pages 40   the OCR reader on scans of made reports
    python benchmarks/focus_budget.py --json --out results.json one JSON object a line; rows, seeds and goals in a file

Both teams are the same agents on the same model with the same questions. The focused one is shown the pages that the
page index finds for the question. The other one is shown all pages, each made smaller until a prompt costs no more
tokens than a prompt with as many full pages as the index may choose; where even the smallest pictures cost more, it
may spend more. Answers are compared question by question; intervals are by document.

The tiny model reads documents of small pages. It has learned prompts that say nothing of other pages, so the note that
tells of them is left out for it, and the letters of these pages stand so far apart that their text is taken from the
maker. The OCR reader sees the pictures alone: its documents are scans without a text layer.
"""
import argparse
import json
import math
import platform
import tempfile
import time
from pathlib import Path

from cosee import CoSeeController, load_pages, team
from cosee.eval.statistics import compare_pair
from cosee.focus import make_focus
from cosee.retrieval.index import PageIndex
from cosee.models.usage import image_tokens
from cosee.models.reader_client import OcrClient
from cosee.text.ocr import TextExtractor
from cosee.pages import ShownPages
from cosee.utils.text import same_answer

GOAL = .15   # by how much the focused team is right more often
SEED = 41
SIDES = {"tiny": (224, 192, 160, 128, 96, 64), "ocr": (1200, 1000, 800, 640, 500, 400, 320, 240, 160)}


def tiny_client():
    "The tiny model, which is not told of pages that it does not see."
    from cosee import QwenVLClient

    class Quiet(QwenVLClient):
        def build_messages(self, images, *rest):
            if isinstance(images, ShownPages): images = ShownPages(images, images.numbers, images.num_pages)
            return super().build_messages(images, *rest)

    return Quiet.tiny(min_pixels=64 * 64)


class KnownText(TextExtractor):
    "The text that the pages of a made document were drawn with."
    def __init__(self, doc):
        super().__init__(cache=None)
        self.lines = {n: [] for n in range(1, doc.pages + 1)}
        for mark in doc.marks: self.lines[mark["page"]].append({"text": mark["text"], "bbox": mark["bbox"]})

    def read(self, items, text_source=None): return [{"lines": self.lines[page.number]} for page in items]


CLIENTS = {"tiny": tiny_client, "ocr": lambda: OcrClient(words=TextExtractor(text_source="ocr"))}
ROLES = {"tiny": ["detail_reader", "cross_checker"], "ocr": ["scanner", "detail_reader"]}


def small_pages(folder, i, pages, n):
    "A document of small pages, questions that name no page, and its text."
    from cosee.datasets.synthetic.small import small_document
    doc = small_document(f"focus-{SEED}-{i}", pages, n_questions=2 * n, repeats=0., unanswerable=0.)
    plain = [q for q in doc.questions if not q["asked_page"]]
    pages = load_pages(doc.save(folder / f"{doc.doc_id}.pdf"), dpi=72)
    return pages, plain[:n], KnownText(doc)


def scans(folder, i, pages, n):
    "A scan of a report, questions about its parts, and the reader of its text."
    from cosee.datasets.synthetic.long import long_document, scan_pdf
    doc, file = long_document(f"focus-{SEED}-{i}", pages, n_questions=n), folder / f"scan-{i}.pdf"
    file.write_bytes(scan_pdf(doc, 110, noise=.01))
    return load_pages(file, dpi=110), doc.questions, TextExtractor(text_source="ocr")


DOCUMENTS = {"tiny": small_pages, "ocr": scans}


def tokens_of(client, agent, images, question):
    "What a prompt costs with these pages."
    from cosee.board import Board
    if isinstance(client, OcrClient): return sum(image_tokens(*im.size) for im in images)
    return client.estimate(agent.request(images, question, Board())).prompt_tokens


def resized(im, side):
    "A copy of a page whose longest side is `side`, and which nobody knows for that page any more."
    scale = min(1., side / max(im.size))
    step = 32 if side < 300 else 1
    return im.resize([max(step, step * round(s * scale / step)) for s in im.size])


def shrunk(client, agent, pages, k, question, sides):
    "All pages at the largest size at which a prompt costs no more than one with `k` full pages, and that size."
    limit = tokens_of(client, agent, ShownPages([pages[i] for i in range(k)], range(1, k + 1), len(pages)), question)
    for side in sides:
        found = [resized(im, side) for im in pages]
        if tokens_of(client, agent, found, question) <= limit: break
    return found, side


def ask(client, roles, pages, question, focus):
    "The outcome of one team on one question."
    start = time.process_time()
    e = CoSeeController(team(client, roles), 1, page_selection=focus).run(pages, question["question"])
    shown = {n for event in e["trace"]["events"] for n in event.get("shown") or []}
    return dict(answer=e["answer"], right=any(same_answer(e["answer"], a) for a in question["answers"]),
                tokens=e["usage"]["total_tokens"], pages=len(shown) or len(pages),
                recall=not shown or any(p in shown for p in question["evidence_pages"]),
                cpu_s=round(time.process_time() - start, 2))


def study(name, n_pages, docs, per_doc, k):
    "Both teams on every question: rows."
    client, roles = CLIENTS[name](), ROLES[name]
    with tempfile.TemporaryDirectory() as folder:
        for i in range(docs):
            pages, questions, words = DOCUMENTS[name](Path(folder), i, n_pages, per_doc)
            focus = make_focus(dict(type="top", k=k), index=PageIndex(pages, words))
            small, side = shrunk(client, team(client, roles)[0], pages, k, questions[0]["question"], SIDES[name])
            for q in questions:
                yield dict(client=name, pages=n_pages, document=i, question=q["question"], gold=q["answers"][0],
                           side=side, focused=ask(client, roles, pages, q, focus),
                           shrunk=ask(client, roles, small, q, "all"))


def mean(values):
    values = list(values)
    return round(math.fsum(values) / len(values), 4)


def summary(rows):
    "Accuracy of both at their price, and the difference with its interval."
    focused, small = [r["focused"] for r in rows], [r["shrunk"] for r in rows]
    d = compare_pair([float(r["right"]) for r in focused], [float(r["right"]) for r in small],
                     [r["document"] for r in rows], ("focused", "shrunk"), seed=SEED)
    return dict(client=rows[0]["client"], pages=rows[0]["pages"], questions=len(rows), documents=d.documents,
                focused=mean(r["right"] for r in focused), shrunk=mean(r["right"] for r in small),
                difference=round(d.mean, 4), low=round(d.low, 4), high=round(d.high, 4), p=round(d.p, 5),
                tokens_focused=mean(r["tokens"] for r in focused), tokens_shrunk=mean(r["tokens"] for r in small),
                page_recall=mean(r["recall"] for r in focused), side=sorted({r["side"] for r in rows}),
                goal=GOAL, met=d.low > 0 and d.mean >= GOAL)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--client", choices=CLIENTS, default="tiny", help="who reads (default: tiny)")
    p.add_argument("--pages", type=int, nargs="+", default=[40, 200], help="of a document (default: 40 200)")
    p.add_argument("--documents", type=int, default=12, help="documents of each length (default: 12)")
    p.add_argument("--questions", type=int, default=6, help="questions of a document (default: 6)")
    p.add_argument("--k", type=int, default=3, help="pages that the index may choose (default: 3)")
    p.add_argument("--json", action="store_true", help="one JSON object a line")
    p.add_argument("--out", help="add the rows to this file, with seeds")
    args, found, rows = p.parse_args(), [], []
    for n in args.pages:
        of_length = list(study(args.client, n, args.documents, args.questions, args.k))
        found.append(summary(of_length))
        rows += of_length
        print(json.dumps(found[-1]) if args.json else "  ".join(f"{k}={v}" for k, v in found[-1].items()), flush=True)
    if args.out: write(Path(args.out), dict(found=found, rows=rows), args)


def write(path, new, args):
    "Write what was found, beside what the file holds of other clients."
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else dict(found=[], rows=[])
    data = {key: [r for r in old[key] if r["client"] != args.client] + new[key] for key in ("found", "rows")}
    about = dict(seed=SEED, k=args.k, python=platform.python_version())
    path.write_text(json.dumps({**data, **about}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__": main()
