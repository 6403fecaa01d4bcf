"""How well readers answer questions about real documents, and what that costs: score, page, box, refusals, confidence.

    python benchmarks/real_documents.py --sroie FOLDER --adbuy FOLDER --mmlong FOLDER --own QUESTIONS.jsonl --json
    python benchmarks/real_documents.py --sroie FOLDER --reader ocr --reader text --gguf small.gguf --gguf large.gguf

Sets: SROIE (task 3), the ad buys of DeepForm, the questions of MMLongBench-Doc-V2 that text alone answers together
with as many that no page answers, and questions of your own, one JSON object a line with file, question, answers and,
if known, page and answerable. Folders can be given as COSEE_SROIE, COSEE_ADBUY, COSEE_MMLONG and COSEE_OWN, too.
Readers: `ocr` (rules, no model), `text` with each file of --gguf, or any client by its name. Of a document with more
than --pages pages, those that the page index finds best are shown.

A document is for development if the SHA-1 of its file name, as a number of eight hexadecimal digits, leaves 0 when
divided by 3: --third names another remainder, or `all`. --limit draws so many documents of a set by a hash of their
names, so that a smaller sample is a part of a larger one. --kept is a file of single answers: what stands in it is
not asked again. Results hold numbers and checksums, no text of a document.

Columns: `score` is the official one of the set, with an interval from drawing whole documents; `box` is the share of
boxes that overlap the words of the gold answer by half or more (IoU), among answerable questions whose gold answer is
printed on a page of evidence; `sure` and `ece` speak of answers that came with a confidence. CPU-seconds are those of
this process without reading page text, which is timed by itself; tokens are of prompts, without what was cached.
"""
import argparse
import hashlib
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]


class Rules(NamedTuple):
    "Where a set lies and how it is scored."
    loader: str
    split: str
    metric: str
    flavour: str


SETS = dict(sroie=Rules("sroie", "train", "anls", "rrc"), adbuy=Rules("deepform", "all", "em", "deepform"),
            mmlong=Rules("mmlongbench_v2", "test", "accuracy", "mmlongbench"), own=Rules("", "", "em", "squad"))
TEXT = [["Pure-text (Plain-text)"]]   # evidence of questions that text alone answers


# --- questions ---

def hashed(*parts) -> int:
    "A number that depends on these texts alone"
    return int(hashlib.sha1("\x1f".join(map(str, parts)).encode()).hexdigest()[:8], 16)


def in_third(name, third) -> bool:
    "Does a document belong to this third?"
    return third == "all" or hashed(name) % 3 == int(third)


def own_questions(path):
    "Questions of your own as samples"
    from cosee.pages import load_pages
    for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        known = dict(answerable=row.get("answerable", bool(row.get("answers"))), doc_id=row["file"], id=n)
        if row.get("page"): known["evidence_pages"] = [row["page"]]
        yield dict(images=load_pages(path.parent / row["file"], max_pages=5000), question=row["question"],
                   answer=row.get("answers") or [], meta=known)


def questions(name, folder):
    "All samples of a set that are asked"
    from cosee.datasets.registry import load
    rules = SETS[name]
    if name == "own": return list(own_questions(folder))
    samples = list(load(rules.loader, rules.split, root=folder, errors="skip"))
    if name != "mmlong": return samples
    answerable = [s for s in samples if s["meta"]["answerable"] and s["meta"]["evidence_sources"] in TEXT]
    others = sorted((s for s in samples if not s["meta"]["answerable"]), key=lambda s: hashed(s["meta"]["id"]))
    return answerable + others[:len(answerable)]


def drawn(name, folder, args):
    "The samples of the documents that are drawn, document by document"
    by_file = defaultdict(list)
    for sample in questions(name, folder):
        if in_third(Path(sample["meta"]["doc_id"]).name, args.third): by_file[sample["meta"]["doc_id"]].append(sample)
    files = sorted(by_file, key=lambda f: hashed("sample", f))[:args.limit]
    asked = [s for f in files for s in by_file[f] if not args.fields or s["meta"].get("field") in args.fields]
    return [s for s in asked if s["meta"].get("answerable", True) or not args.answerable][:args.questions]


def accepted(sample) -> list:
    "The answers of a sample"
    answer = sample["answer"]
    return [answer] if isinstance(answer, str) else [*answer]


# --- readers ---

class Answered(NamedTuple):
    "What a reader said, and what it cost."
    answer: str
    page: Any = None
    bbox: Any = None
    confidence: Any = None
    usage: Any = None


class Rulebook:
    "The reader of rules."
    name = "ocr"

    def __init__(self, words):
        from cosee.models.reader_client import OcrClient
        self.words, self.client = words, OcrClient(words=words)

    def answer(self, sample, pages, numbers) -> Answered:
        "The answer, with the confidence that it comes with"
        found = self.client.document(pages, numbers).answer(sample["question"])
        if found is None or found["confidence"] < self.client.abstain: return Answered("not answerable")
        return Answered(found["answer"], found["page"], found["bbox"], found["confidence"])


class Model:
    "Any client, asked once for the answer alone."
    def __init__(self, client, name, words):
        self.client, self.name, self.words = client, name, words

    def answer(self, sample, pages, numbers) -> Answered:
        "One call about the pages"
        from cosee.policies import Single
        from cosee.budgets import Task
        out = Task(pages, sample["question"], self.client).run(Single(focus="all", max_new_tokens=128).solve)
        place = out["evidence"][0] if out["evidence"] else {}
        page = numbers[place["page"] - 1] if place else None
        return Answered(out["answer"], page, place.get("bbox"), out["confidence"], out["usage"])


def readers(args, words):
    "Readers by name; a model is opened when its turn comes"
    from cosee.models.text_client import TextClient
    from cosee.models.gguf_client import GgufClient
    from cosee.models.registry import make_client
    for kind in args.reader:
        if kind == "ocr": yield Rulebook(words)
        elif kind == "text":
            for path in args.gguf:
                llm = GgufClient(str(path), threads=args.threads, context=args.context)
                more = dict(page_tokens=args.page_tokens) if args.page_tokens else {}
                for form in args.form or [None]:
                    client = TextClient(llm, words=words, **more, **(dict(form=form) if form else {}))
                    yield Model(client, f"text {path.stem}" + (f" {form}" if form else ""), words)
        else: yield Model(make_client(kind), kind, words)


# --- one answer ---

_indexes: dict = {}


def looked_at(sample, words, k):
    "The pages that are shown, and their numbers"
    images = sample["images"]
    numbers = list(range(1, len(images) + 1))
    if len(images) > k:
        from cosee.retrieval.index import PageIndex
        key = sample["meta"]["doc_id"]
        if key not in _indexes: _indexes.clear(), _indexes.update({key: PageIndex(images, words=words)})
        hits = [h.page for h in _indexes[key].search(sample["question"], k)]
        numbers = sorted(dict.fromkeys([*hits, *numbers]), key=[*hits, *numbers].index)[:k]
    return [images[n - 1] for n in sorted(numbers)], sorted(numbers)


def gold_places(answers, pages, numbers, evidence):
    "Boxes of the words of the gold answer on the pages of evidence, by page"
    from cosee.text.linearization import around, layout, write_page
    from cosee.models.text_prompts import find_words
    found = set()
    for page, number in zip(pages, numbers, strict=True):
        if evidence and number not in evidence: continue
        lines = write_page(layout(page), number).lines
        for answer in answers:
            for line in lines[:400]:
                place = find_words([l for l in lines if abs(l.id - line.id) <= 5], line, answer)
                if place: found.add((number, around([w.bbox for w in place[1]])))
    return found


def judged(sample, said, places, rules) -> dict:
    "Scores of one answer"
    from cosee.utils.boxes import box_iou
    from cosee.eval.metrics import anls, score
    from cosee.utils.text import abstains
    answers, refused = accepted(sample), not said.answer or abstains(said.answer)
    answerable = sample["meta"].get("answerable", True)
    context = {k: sample["meta"][k] for k in ("answer_type", "answer_format") if sample["meta"].get(k)}
    out = dict(refused=refused, answerable=answerable, confidence=said.confidence)
    if not answerable: return dict(out, score=float(refused))
    gold = sample["answer"] if rules.metric == "accuracy" else answers
    out["score"] = float(score(said.answer, gold, rules.metric, rules.flavour, **context)) if not refused else 0.
    out["anls"] = anls(said.answer, answers) if not refused else 0.
    evidence = sample["meta"].get("evidence_pages")
    if evidence: out["on_page"] = float(not refused and said.page in evidence)
    if places:
        hit = [box_iou(said.bbox, box) for page, box in places if page == said.page] if said.bbox else []
        out["iou"] = round(max(hit, default=0.), 3)
    return out


def measured(name, sample, reader, args) -> dict:
    "A row: one question, one reader"
    pages, numbers = looked_at(sample, reader.words, args.pages)
    start = time.process_time()
    read = reader.words.read(pages)
    reading, start = time.process_time() - start, time.process_time()
    try: said, error = reader.answer(sample, pages, numbers), ""
    except Exception as e: said, error = Answered(""), f"{type(e).__name__}: {e}"[:200]
    cpu = time.process_time() - start
    answers = accepted(sample) if sample["meta"].get("answerable", True) else []
    places = gold_places(answers, read, numbers, sample["meta"].get("evidence_pages"))
    return dict(set=name, reader=reader.name, id=str(sample["meta"]["id"]), file=sample["meta"]["doc_id"],
                field=sample["meta"].get("field", ""), answer=said.answer, error=error,
                **judged(sample, said, places, SETS[name]),
                read_s=round(reading, 2), cpu_s=round(cpu, 2), usage=said.usage or {})


# --- all of them ---

class Kept:
    "Answers that were given before, in a file of JSON Lines"
    def __init__(self, path, settings):
        self.path, self.mark = path, hashlib.sha1(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        self.rows = {}
        if path and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                if row.pop("settings") == self.mark: self.rows[self.key(row)] = row

    @staticmethod
    def key(row): return row["set"], row["reader"], row["id"]

    def add(self, row):
        "Keep a row, also in the file"
        self.rows[self.key(row)] = row
        if not self.path: return
        with self.path.open("a", encoding="utf-8") as f:
            f.write(json.dumps(dict(row, settings=self.mark), ensure_ascii=False) + "\n")


def asked(folders, args, kept):
    "Rows of all readers, sets and questions"
    from tqdm import tqdm
    from cosee.text.ocr import TextExtractor
    words = TextExtractor(cache=args.cache or True, workers=1, text_source=args.text_source)
    samples = {name: drawn(name, folder, args) for name, folder in folders.items()}
    rows = []
    for reader in readers(args, words):
        todo = [(name, s) for name in samples for s in samples[name]]
        for name, sample in tqdm(todo, desc=reader.name, disable=None):
            key = name, reader.name, str(sample["meta"]["id"])
            if key not in kept.rows: kept.add(measured(name, sample, reader, args))
            rows.append(kept.rows[key])
    return rows


def interval(rows, key):
    "Mean of a column with its interval, drawn by document"
    from cosee.eval.statistics import bootstrap
    rows = [r for r in rows if r.get(key) is not None]
    if not rows: return None
    found = bootstrap([float(r[key]) for r in rows], [r["file"] for r in rows])
    return [round(x, 3) for x in (found.mean, found.low, found.high)]


def mean(rows, key, digits=2):
    "Mean of a column where it is known"
    values = [r[key] for r in rows if r.get(key) is not None]
    return round(sum(values) / len(values), digits) if values else None


def reliability(rows):
    "How sure, how often right: bins of equal width, and the error"
    from cosee.eval.statistics import expected_calibration_error
    rows = [r for r in rows if r.get("confidence") is not None and not r["refused"]]
    bins = [[r for r in rows if min(4, int(r["confidence"] * 5)) == i] for i in range(5)]
    table = [dict(n=len(b), confidence=mean(b, "confidence", 3), right=mean(b, "score", 3)) for b in bins if b]
    ece = expected_calibration_error([r["confidence"] for r in rows], [r["score"] for r in rows]) if rows else None
    return dict(sure=len(rows), ece=None if ece is None else round(ece, 3), reliability=table)


def tokens(rows):
    "Tokens a question: paid and cached ones of the prompt, written ones"
    used = [r["usage"] for r in rows if r.get("usage")]
    if not used: return {}
    cached = sum(u["cached_tokens"] for u in used)
    prompt = sum(u["text_tokens"] + u["image_tokens"] for u in used)
    return dict(paid=round((prompt - cached) / len(used)), cached=round(cached / len(used)),
                written=round(sum(u["completion_tokens"] for u in used) / len(used)))


def summary(rows) -> dict:
    "What is said of one reader on one set"
    good = [r for r in rows if r["answerable"]]
    bad = [r for r in rows if not r["answerable"]]
    boxes = [dict(r, box=float(r["iou"] >= .5)) for r in good if r.get("iou") is not None]
    names = sorted({r["field"] for r in good} - {""})
    fields = {f: mean([r for r in good if r["field"] == f], "score", 3) for f in names}
    return dict(n=len(good), documents=len({r["file"] for r in rows}), score=interval(good, "score"),
                anls=interval(good, "anls"), fields=fields, page=interval(good, "on_page"),
                box=interval(boxes, "box"), iou=mean(boxes, "iou", 3), boxes=len(boxes),
                unanswerable=len(bad), refused=mean(bad, "score", 3), refused_wrongly=mean(good, "refused", 3),
                **reliability(rows), cpu_s=mean(rows, "cpu_s"), read_s=mean(rows, "read_s"),
                cpu_s_a_document=round(sum(r["cpu_s"] for r in rows) / len({r["file"] for r in rows}), 2),
                tokens=tokens(rows), errors=sum(bool(r["error"]) for r in rows))


def table(rows) -> list:
    "A line for each set and reader"
    groups = defaultdict(list)
    for r in rows: groups[r["set"], r["reader"]].append(r)
    return [dict(set=s, reader=name, **summary(group)) for (s, name), group in groups.items()]


def checksum(path) -> str: return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def files_of(folders, rows) -> dict:
    "Checksum of each document that was asked about"
    wanted = {(r["set"], r["file"]) for r in rows}
    out = {}
    for name, file in sorted(wanted):
        root = folders[name].parent if folders[name].is_file() else folders[name]
        out[file] = next((checksum(p) for p in root.rglob(Path(file).name)), None)
    return out


SETTINGS = ("pages", "page_tokens", "text_source", "context")


def arguments():
    "What can be said on the command line"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SETS:
        p.add_argument(f"--{name}", type=Path, default=os.environ.get(f"COSEE_{name.upper()}"), help="where it lies")
    p.add_argument("--reader", action="append", help="ocr, text, or a client's name; more than once for several")
    p.add_argument("--gguf", type=Path, action="append", default=[], help="a language model")
    p.add_argument("--form", action="append", help="how the text is written, see write_page; more than once: several")
    p.add_argument("--third", default="0", choices=["0", "1", "2", "all"], help="which documents")
    p.add_argument("--limit", type=int, default=None, help="most documents of a set")
    p.add_argument("--questions", type=int, default=None, help="most questions of a set")
    p.add_argument("--fields", nargs="*", default=[], help="fields of forms that are asked for; none: all")
    p.add_argument("--answerable", action="store_true", help="leave out what no page answers")
    p.add_argument("--pages", type=int, default=4, help="most pages that are shown")
    p.add_argument("--page-tokens", type=int, default=None, help="most tokens of a page")
    p.add_argument("--text-source", default="auto", choices=["auto", "text", "ocr"], help="where page text comes from")
    p.add_argument("--context", type=int, default=8192, help="tokens of prompt and reply")
    p.add_argument("--threads", type=int, default=1, help="of the engine")
    p.add_argument("--cache", default=None, help="folder that keeps what was read")
    p.add_argument("--kept", type=Path, default=None, help="file of single answers, to go on with")
    p.add_argument("--json", action="store_true", help="print the results as JSON")
    p.add_argument("--out", type=Path, default=None, help="write the results to this file")
    args = p.parse_args()
    args.reader = args.reader or (["ocr", "text"] if args.gguf else ["ocr"])
    return args


def shown(r) -> str:
    "A line for people"
    score = "-" if r["score"] is None else "{:.3f} [{:.3f}, {:.3f}]".format(*r["score"])
    parts = [f"{r['set']:7} {r['reader']:44} n={r['n']:<4} {score}"]
    parts += [f"{k} {r[k][0] if isinstance(r[k], list) else r[k]}" for k in
              ("anls", "page", "box", "refused", "ece", "cpu_s", "cpu_s_a_document", "errors") if r[k] is not None]
    return "  ".join(parts)


def results(args) -> dict:
    "Everything that is written"
    settings = {k: getattr(args, k) for k in SETTINGS}
    folders = {name: Path(f) for name in SETS if (f := getattr(args, name))}
    if not folders: raise SystemExit("name a set: " + ", ".join(f"--{n}" for n in SETS))
    rows = asked(folders, args, Kept(args.kept, settings))
    return dict(settings=dict(settings, third=args.third, limit=args.limit, questions=args.questions),
                models={p.name: checksum(p) for p in args.gguf}, table=table(rows), documents=files_of(folders, rows))


def main():
    args = arguments()
    found = results(args)
    if args.out: args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if args.json: print(json.dumps(found))
    else:
        for r in found["table"]: print(shown(r))


if __name__ == "__main__": main()
