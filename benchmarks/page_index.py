"""How often the page index finds the pages that hold the evidence: recall among the first k pages, by way of search.

    python benchmarks/page_index.py --mmlong FOLDER --finance FOLDER --json benchmarks/results/page_index.json

`--mmlong` is a folder with PDFs of MMLongBench-Doc and samples_v2.json (corrected answers and evidence pages),
`--finance` one with filings of FinanceBench and financebench_open_source.jsonl; questions about files that are not
there, or without an evidence page in the file, are left out. `any` is the share of questions with an evidence page
among the first k, `all` of those with all of them; intervals come from drawing whole documents. Page text comes from
`TextExtractor`, or from `--lines`, a folder with NAME.pdf.json: {"pages": [[[text, [left, top, right, bottom]], ...]],
"toc": [[title, level, page], ...]}. With `--checkpoint` each document's rows are kept as soon as they are there, and a
run that was stopped goes on with the next one. The results hold numbers and checksums, no text of a document.
"""
import argparse
import ast
import hashlib
import json
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

KS = (1, 3, 4, 5, 8, 10)
GOALS = {1: .55, 3: .73, 5: .82}   # any, on the documents for development


def mmlong(folder):
    "Questions of MMLongBench-Doc as (file, question, evidence pages)"
    for row in json.loads((folder / "samples_v2.json").read_text(encoding="utf-8")):
        yield row["doc_id"], row["question"], ast.literal_eval(row["evidence_pages"])


def finance(folder):
    "Questions of FinanceBench, whose pages are counted from 0"
    for line in (folder / "financebench_open_source.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield f"{row['doc_name']}.pdf", row["question"], sorted({e["evidence_page_num"] + 1 for e in row["evidence"]})


class Lines:
    "Reads pages of text from a file that was made before."
    def __init__(self, path):
        said = json.loads(path.read_text(encoding="utf-8"))
        self.pages, self.toc = said["pages"], said["toc"]

    def read(self, items, text_source=None):
        return [dict(lines=[dict(text=text, bbox=box) for text, box in self.pages[i.number - 1]]) for i in items]


def opened(path, lines, reader):
    "The pages of a document, and the reader of their text"
    from cosee.pages import Pages, load_pages
    pages = load_pages(path, max_pages=5000)
    assert isinstance(pages, Pages)
    return pages, Lines(lines / f"{path.name}.json") if lines else reader


def ranking(scores):
    "Pages from 1, best first"
    import numpy as np
    return [int(i) + 1 for i in np.argsort(-scores, kind="stable")]


def by_meaning(index, question):
    "Pages by meaning alone, all of them looked at, and by name"
    return index.semantic_scores(question) + index.word_index().reference_scores(question)


def plain_bm25(index):
    "BM25 over the words of a page as they are: what is usually done"
    import re
    from bm25s import BM25
    texts = [" ".join(line["text"] for line in index.lines_of(n)) for n in index.numbers]
    pages = [re.findall(r"\w+", text.lower()) or ["\0"] for text in texts]
    bm25 = BM25(k1=1.5, b=.75)
    bm25.index(pages, show_progress=False)
    return lambda question: bm25.get_scores([w for w in re.findall(r"\w+", question.lower()) if w in bm25.vocab_dict]
                                            or ["\0"])


def ways(index, without):
    "Name of each way of searching -> question -> pages, best first"
    base = plain_bm25(index)
    found = {"plain BM25": lambda q: ranking(base(q)),
             "lexical": lambda q: [hit.page for hit in without.search(q, len(without))]}
    if index.encoder:
        found |= {"embeddings": lambda q: ranking(by_meaning(index, q)),
                  "both": lambda q: [hit.page for hit in index.search(q, len(index))]}
    return found


def document(path, questions, args, reader):
    "Rows for the questions about one document, and what reading and searching took"
    from cosee.retrieval.index import PageIndex
    pages, words = opened(path, args.lines, reader)
    without = PageIndex(pages, words=words, embeddings=False)
    index = PageIndex(pages, words=words, embeddings=False if args.no_embeddings else None, folder=args.vectors)
    times, rows, before = defaultdict(float), [], Counter(reader.counts)
    start = time.process_time()
    without.read()
    times["read"] = time.process_time() - start
    came = Counter(reader.counts) - before
    index.read()
    start = time.process_time()
    without.search("anything", 1)
    times["index"] = time.process_time() - start
    for name, search in ways(index, without).items():
        start = time.process_time()
        rows += [dict(way=name, file=path.name, order=search(q), evidence=e) for q, e in questions]
        times[name] = time.process_time() - start
    return rows, dict(times, pages=len(index), failed=len(index.failed), questions=len(questions), came=came)


def recalls(rows):
    "Recall at each k with its interval, for any and for all evidence pages"
    from cosee.eval.statistics import bootstrap
    out = {}
    for kind, holds in (("any", lambda top, e: bool(top & e)), ("all", lambda top, e: e <= top)):
        for k in KS:
            est = bootstrap([holds(set(r["order"][:k]), set(r["evidence"])) * 1. for r in rows],
                            [r["file"] for r in rows])
            out[f"{kind}@{k}"] = [round(v, 3) for v in (est.mean, est.low, est.high)]
    return out


def kept_rows(checkpoint, name):
    "What an earlier run left in the file `checkpoint`, by document"
    if not checkpoint or not checkpoint.is_file(): return {}
    said = [json.loads(line) for line in checkpoint.read_text(encoding="utf-8").splitlines()]
    return {row["file"]: (row["rows"], row["cost"]) for row in said if row["set"] == name}


def measured_document(name, path, questions, args, reader):
    "`document`, kept in the file of `--checkpoint`"
    rows, cost = document(path, questions, args, reader)
    if args.checkpoint:
        with args.checkpoint.open("a", encoding="utf-8") as out:
            out.write(json.dumps(dict(set=name, file=path.name, rows=rows, cost=cost)) + "\n")
    print(f"{name} {path.name[:50]}: {cost['pages']} pages", flush=True)
    return rows, cost


def measured(name, questions, folder, args, reader):
    "The results of one set"
    asked, left_out, before = defaultdict(list), 0, kept_rows(args.checkpoint, name)
    for file, question, evidence in questions:
        if (folder / file).is_file(): asked[file].append((question, evidence))
    rows, costs, sums = [], [], {}
    for file in sorted(asked):
        pages, _ = opened(folder / file, args.lines, reader)
        kept = [(q, e) for q, e in asked[file] if e and max(e) <= len(pages) and min(e) >= 1]
        left_out += len(asked[file]) - len(kept)
        if not kept: continue
        found, cost = before.get(file) or measured_document(name, folder / file, kept, args, reader)
        rows, costs = rows + found, [*costs, cost]
        sums[file] = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    total = {key: sum(c.get(key, 0) for c in costs) for key in {k for c in costs for k in c} - {"came"}}
    came = sum((Counter(c["came"]) for c in costs), Counter())
    by_way = {way: recalls([r for r in rows if r["way"] == way]) for way in dict.fromkeys(r["way"] for r in rows)}
    return dict(set=name, documents=len(sums), pages=total["pages"], questions=total["questions"], left_out=left_out,
                ways=by_way, cpu_seconds={k: round(v, 2) for k, v in sorted(total.items())
                                          if k not in ("pages", "questions", "failed")},
                pages_not_read=total["failed"], print_came_from=came, sha256=sums)


def shown(result):
    "The table of one set"
    print(f"\n{result['set']}: {result['questions']} questions, {result['documents']} documents, "
          f"{result['pages']} pages")
    print(f"{'':12}", *(f"{k:>8}" for k in next(iter(result["ways"].values()))))
    for way, values in result["ways"].items(): print(f"{way:12}", *(f"{v[0]:8.3f}" for v in values.values()))
    for k, goal in GOALS.items() if result["set"] == "mmlong" else ():
        value = list(result["ways"].values())[-1][f"any@{k}"][0]
        print(f"goal any@{k} {goal}: {'met' if value >= goal else 'not met'} ({value})")


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--mmlong", type=Path, help="folder of MMLongBench-Doc")
    p.add_argument("--finance", type=Path, help="folder of FinanceBench")
    p.add_argument("--lines", type=Path, help="folder of text that was made before")
    p.add_argument("--vectors", type=Path, help="folder for vectors of passages")
    p.add_argument("--text-source", default="auto", choices=["auto", "text", "ocr"], help="where page text comes from")
    p.add_argument("--no-embeddings", action="store_true")
    p.add_argument("--checkpoint", type=Path, help="file that keeps each document's rows until all are there")
    p.add_argument("--json", type=Path, help="file for the results")
    args = p.parse_args(argv)
    from cosee.text.ocr import TextExtractor
    reader = TextExtractor(text_source=args.text_source, workers=1)
    results = [measured(name, load(folder), folder, args, reader) for name, load, folder in
               (("mmlong", mmlong, args.mmlong), ("finance", finance, args.finance)) if folder]
    for result in results: shown(result)
    said = SimpleNamespace(text_source="lines made before" if args.lines else args.text_source, sets=results)
    if args.json: args.json.write_text(json.dumps(vars(said), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
