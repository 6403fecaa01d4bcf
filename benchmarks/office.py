"""A day in an office: papers that nobody had prepared, asked with and without a model.

    python benchmarks/own_documents.py FOLDER --questions benchmarks/office_questions.jsonl
    python benchmarks/office.py FOLDER                                    # the rule-based reader, no model
    python benchmarks/office.py FOLDER --gguf small.gguf --gguf large.gguf # text models, each by itself
    python benchmarks/office.py --table benchmarks/results/office.json

office_questions.jsonl: sixty questions about fifteen papers (invoices in four languages, statements, tables, a scanned
transcript, a standard of fifty pages), written from pictures of the pages before any reader had answered one; ten ask
for what no page says. An answer is right if it is a gold answer, case, spaces and marks around it aside. What `cosee
ask` calls a guess, being below the bound of its client, is withheld. Answers are appended to FOLDER/READER.jsonl, so
that the same command goes on where it was stopped; results hold numbers alone, no text of a document.
"""
import argparse
import json
import time
from collections import Counter
from pathlib import Path

OUTCOMES = ("right", "wrong", "withheld", "refused", "invented")


def outcome(row, bound):
    "What became of a question."
    from cosee.utils.text import abstains, same_answer
    none = not row["answer"] or abstains(row["answer"]) or (row["confidence"] or 0) < bound
    if not row["answers"]: return "refused" if none else "invented"
    if none: return "withheld"
    return "right" if any(same_answer(row["answer"], gold) for gold in row["answers"]) else "wrong"


def ask_all(folder, reader, client, bound):
    "Ask what was not asked yet; yields all rows."
    import cosee
    path = folder / f"{reader}.jsonl"
    known = {r["id"]: r for r in map(json.loads, path.read_text().splitlines())} if path.exists() else {}
    for line in (folder / "questions.jsonl").read_text().splitlines():
        question = json.loads(line)
        if question["id"] not in known:
            start = time.process_time()
            found = cosee.ask(folder / question["file"], question["question"], client=client)
            row = dict(id=question["id"], answers=question["answers"], answer=found["answer"],
                       confidence=found["confidence"], tokens=found["usage"]["total_tokens"],
                       cpu=round(time.process_time() - start, 1))
            known[row["id"]] = row
            with path.open("a") as log: log.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(reader, question["id"], outcome(row, bound), f"{row['cpu']:.0f} s", flush=True)
        yield known[question["id"]]


def compare_confidence(rows):
    "How sure the reader was of its answers, guesses too, and how often they were right, in five bins."
    from cosee.eval.statistics import reliability
    outcomes = [(r["confidence"] or 0, outcome(r, 0)) for r in rows]
    given = [(sure, became == "right") for sure, became in outcomes if became in ("right", "wrong", "invented")]
    return [dict(answers=b.answers, stated=round(b.confidence, 3), right=round(b.right, 3))
            for b in reliability(*zip(*given), 5)]


def summarize(rows, bound):
    "Count what became of the questions."
    counts = Counter(outcome(r, bound) for r in rows)
    return dict({name: counts[name] for name in OUTCOMES}, questions=len(rows),
                answerable=sum(bool(r["answers"]) for r in rows), bound=bound, cpu_seconds=sum(r["cpu"] for r in rows),
                tokens=sum(r["tokens"] for r in rows), confidence=compare_confidence(rows))


def table(results):
    "Lines of Markdown."
    head = ["reader", *OUTCOMES, "right of answerable", "wrong or invented of all", "CPU-s a question"]
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for reader, r in results.items():
        bad = r["wrong"] + r["invented"]
        cells = [reader, *(str(r[name]) for name in OUTCOMES), f"{100 * r['right'] / r['answerable']:.0f} %",
                 f"{100 * bad / r['questions']:.0f} %", f"{r['cpu_seconds'] / r['questions']:.1f}"]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield "| reader | answers | how sure it was | how often it was right |"
    yield "|---|---|---|---|"
    for reader, r in results.items():
        for b in r["confidence"]:
            yield f"| {reader} | {b['answers']} | {100 * b['stated']:.0f} % | {100 * b['right']:.0f} % |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="with questions.jsonl and documents")
    parser.add_argument("--gguf", type=Path, action="append", default=[], help="a text model")
    parser.add_argument("--out", type=Path, help="write the counts to this JSON file, beside those that are there")
    parser.add_argument("--table", type=Path, help="show the counts of such a file")
    args = parser.parse_args()
    if args.table: return print("\n".join(table(json.loads(args.table.read_text()))))
    from cosee.models.registry import make_client
    from cosee.text.encoder import BOUND
    results = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    if not args.gguf:
        rows = [*ask_all(args.folder, "reader", make_client("ocr"), BOUND)]
        results["no model"] = summarize(rows, BOUND)
    for path in args.gguf:
        client = make_client("text", model_path=path, threads=1)
        results[path.stem] = summarize([*ask_all(args.folder, path.stem, client, 0)], 0)
    print("\n".join(table(results)))
    if args.out: args.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__": main()
