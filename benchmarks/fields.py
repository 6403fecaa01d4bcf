"""Are fields filled in all at once as good as questions asked one at a time, and what does each cost?

    python benchmarks/fields.py --sroie FOLDER --reader ocr
    python benchmarks/fields.py --sroie FOLDER --deepform FOLDER --kleister FOLDER --gguf small.gguf --kept rows.jsonl

Sets: the receipts of SROIE, the ad buys of DeepForm, the contracts of Kleister-NDA, of which the fields that have one
value are asked for (the parties of a contract are rows, for which a question a field has no form). Folders can be
given as COSEE_SROIE, COSEE_DEEPFORM and COSEE_KLEISTER, too. Readers: `ocr` (rules, no model) and `text` with each
file of --gguf; every document is read twice, by `form` and by `question`, the same document never twice in a row, so
that neither way finds the other's prompt in the engine's memory.

A document is for development if the SHA-1 of its file name, as a number of eight hexadecimal digits, leaves 0 when
divided by 3: --third names another remainder, or `all`. --limit draws so many documents of a set by a hash of their
names, so that a smaller sample is a part of a larger one. --kept is a file of single results: what stands in it is
not read again, and --summary makes the table of that alone. Results hold numbers and checksums, no text of a document.

Columns: `f1` is that of the set's own rules over all fields, `exact` the share of gold values that were found, with an
interval from drawing whole documents; `tokens` counts prompts and replies whole, `paid` leaves out what the engine had
in memory; CPU-seconds are those of this process without reading page text.
"""
import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
from cosee.datasets.forms import CONTRACT_QUESTIONS, FORM_QUESTIONS, RECEIPT_QUESTIONS
from cosee.eval.form_scores import field_counts, form_f1, kleister_form
from cosee.extraction.schema import read_schema, read_value

SETS = dict(sroie=("sroie", "train"), deepform=("deepform", "all"), kleister=("kleister_nda", "train"))
WAYS = ("form", "question")


def hashed(*parts) -> int:
    "A number that depends on these texts alone"
    return int(hashlib.sha1("\x1f".join(map(str, parts)).encode()).hexdigest()[:8], 16)


def in_third(name, third) -> bool:
    "Does a document belong to this third?"
    return third == "all" or hashed(name) % 3 == int(third)


def checksum(path) -> str: return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# --- the rules of the sets ---

class Official(NamedTuple):
    "A data set whose documents are asked for fields"
    schema: dict    # JSON Schema
    flavour: str    # its rules, see `field_counts`
    types: dict     # field -> how the rules compare it


def schema(title, questions, **kinds) -> dict:
    "A schema with a question for each field, of texts where nothing else is said"
    props = {name: {"type": "string", **kinds.get(name, {}), "description": question}
             for name, question in questions.items()}
    return dict(type="object", title=title, properties=props)


DATE, NUMBER = dict(format="date"), dict(type="number")
AD_TYPES = dict(advertiser="GeneralStringMatch", contract_num="NumericalStringMatch", flight_from="DateMatch",
                flight_to="DateMatch", gross_amount="PriceMatch")
AD_KINDS = dict(flight_from=DATE, flight_to=DATE, gross_amount=NUMBER)
CONTRACT = {name: question.split("? ")[0].rstrip("?") + "?" for name, question in CONTRACT_QUESTIONS.items()}
PARTIES = dict(type="array", items=dict(type="string", description="Who is a party to the agreement?"))
OFFICIAL = dict(
    sroie=Official(schema("Receipt", RECEIPT_QUESTIONS, date=DATE, total=NUMBER), "sroie", {}),
    deepform=Official(schema("Order", {k: FORM_QUESTIONS[k] for k in AD_TYPES}, **AD_KINDS), "deepform", AD_TYPES),
    kleister_nda=Official(schema("Agreement", CONTRACT, effective_date=DATE, party=PARTIES), "kleister",
                          dict(effective_date="date", term="term", party="list")))


def shortest_print(asked, printed) -> str:
    "The fewest words of a page text that are read as the same value: 25/12/2018 of a line with the time behind it"
    words, value = printed.split()[:40], read_value(asked, printed).value
    if asked.kind in ("text", "choice") or value is None: return printed
    runs = (" ".join(words[i:i + n]) for n in range(1, len(words) + 1) for i in range(len(words) - n + 1))
    said = next((run for run in runs if read_value(asked, run).value == value), printed)
    return re.sub(r"^[^\d(-]+|[^\d)%]+$", "", said) if asked.kind in ("number", "integer") else said


def official_answers(name, result) -> dict:
    "Field -> values, as the scorer of a set takes them; no values where nothing was found"
    form, types = read_schema(OFFICIAL[name].schema), OFFICIAL[name].types
    asked = {f.path.replace("[]", ""): f for f in (*form.fields, *form.columns)}
    out = {path: [] for path in asked}
    for f in result.get("fields") or ():
        path, printed, value = re.sub(r"\[\d+\]", "", f["path"]), f.get("printed") or "", f["value"]
        if value is None or path not in asked: continue
        kind = types.get(path, "")
        if kind == "date": out[path].append(str(value))
        else: out[path].append(kleister_form(shortest_print(asked[path], printed) if printed else str(value), kind))
    return out


def official_golds(samples) -> dict:
    "File name -> field -> gold values"
    out = {}
    for s in samples:
        found, answer = out.setdefault(s["meta"]["doc_id"], {}), s["answer"]
        if field := s["meta"].get("field"): found[field] = [answer] if isinstance(answer, str) else [*answer]
    return out


def official_counts(name, answers, golds, flavour=None) -> dict:
    "Field -> what one document adds to right, predicted and gold values; by the set's own rules, or others"
    known, out = OFFICIAL[name], {}
    rules = flavour or known.flavour
    for path, gold in golds.items():
        said = answers.get(path) or []
        one = said if rules.startswith("kleister") else said[0] if said else None
        if path in known.schema["properties"]: out[path] = field_counts(one, gold, rules, known.types.get(path, ""))
    return out


# --- documents ---

def drawn(name, folder, args) -> dict:
    "File -> its pages and gold values, of the documents that are drawn"
    from cosee.datasets.registry import load
    loader, split = SETS[name]
    by_file = defaultdict(list)
    for sample in load(loader, split, root=folder, errors="skip"):
        if in_third(Path(sample["meta"]["doc_id"]).name, args.third): by_file[sample["meta"]["doc_id"]].append(sample)
    files = sorted(by_file, key=lambda f: hashed("sample", f))
    if args.pages: files = [f for f in files if len(by_file[f][0]["images"]) <= args.pages]
    files = files[:args.limit]
    return {f: (by_file[f][0]["images"], official_golds(by_file[f])[f]) for f in files}


def schema_of(name) -> dict:
    "The schema of a set without its rows"
    whole = OFFICIAL[SETS[name][0]].schema
    alone = {k: p for k, p in whole["properties"].items() if p["type"] != "array"}
    return dict(whole, properties=alone)


def readers(args, words):
    "Readers by name; a model is opened when its turn comes"
    from cosee.models.text_client import TextClient
    from cosee.models.gguf_client import GgufClient
    from cosee.models.reader_client import OcrClient
    if "ocr" in args.reader: yield "ocr", OcrClient(words=words)
    for path in args.gguf:
        llm = GgufClient(path, context=args.context, threads=args.threads, cache_mib=0)
        yield f"text {path.stem}", TextClient(llm, words=words)


def in_turn(files, ways) -> list:
    "Every document in every way, never the same one twice in a row where there are two"
    turns = [(files[i - lag], way) for i in range(len(files) + len(ways) - 1) for lag, way in enumerate(ways)
             if 0 <= i - lag < len(files)]
    return turns


# --- one document ---

def measured(name, file, images, client, way, words) -> dict:
    "A row: one document, one reader, one way"
    from cosee.extraction.extract import extract
    words.read([images[i] for i in range(min(len(images), 30))])
    start = time.process_time()
    try: found, error = extract(images, schema_of(name), client, by=way, words=words), ""
    except Exception as e: found, error = {}, f"{type(e).__name__}: {e}"[:200]
    kept = [{k: f[k] for k in ("path", "value", "printed", "page", "found")} for f in found.get("fields", ())]
    return dict(set=name, file=file, way=way, fields=kept, usage=found.get("usage") or {}, error=error,
                doubtful=found.get("doubtful", []), cpu_s=round(time.process_time() - start, 2))


class Kept:
    "Results that were there before, in a file of JSON Lines"
    def __init__(self, path, settings):
        self.path, self.mark, self.rows = path, hashed(json.dumps(settings, sort_keys=True)), {}
        if path and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                if row["settings"] == self.mark: self.rows[self.key(row)] = row

    @staticmethod
    def key(row): return row["set"], row["reader"], row["way"], row["file"]

    def add(self, row):
        "Keep a row, also in the file"
        row = dict(row, settings=self.mark)
        self.rows[self.key(row)] = row
        if not self.path: return
        with self.path.open("a", encoding="utf-8") as f: f.write(json.dumps(row, ensure_ascii=False) + "\n")


def asked(sets, args, kept):
    "Read what is not kept"
    from cosee.text.ocr import TextExtractor
    words = TextExtractor(cache=args.cache or True, workers=1)
    for reader, client in readers(args, words):
        ways = WAYS[:1] if reader == "ocr" else WAYS
        for name, documents in sets.items():
            for file, way in in_turn(list(documents), ways):
                if (name, reader, way, file) in kept.rows: continue
                kept.add(dict(measured(name, file, documents[file][0], client, way, words), reader=reader))


# --- all of them ---

def counted(row, golds) -> dict:
    "Right, predicted and gold values of a row's fields, by the set's own rules"
    name, props = SETS[row["set"]][0], schema_of(row["set"])["properties"]
    wanted = {f: v for f, v in golds.items() if f in props}
    return official_counts(name, official_answers(name, row), wanted)


def tokens(rows) -> dict:
    "Tokens a document: all of prompts and replies, and those that were not in the engine's memory"
    used = [r["usage"] for r in rows if r["usage"]]
    if not used or not any(u["calls"] for u in used): return dict(tokens=0, paid=0, calls=0.)
    every = sum(u["prompt_tokens"] + u["completion_tokens"] for u in used)
    cached = sum(u["cached_tokens"] for u in used)
    return dict(tokens=round(every / len(used)), paid=round((every - cached) / len(used)),
                calls=round(sum(u["calls"] for u in used) / len(used), 2))


def interval(values) -> list:
    "Mean of the documents' shares with its interval, drawn by document"
    from cosee.eval.statistics import bootstrap
    found = bootstrap([right for right, _ in values], [file for _, file in values])
    return [round(x, 3) for x in (found.mean, found.low, found.high)]


def summary(rows, golds) -> dict:
    "What is said of one reader, one set, one way"
    counts = {r["file"]: counted(r, golds[r["file"]]) for r in rows}
    every = [c for found in counts.values() for c in found.values()]
    names = sorted({f for found in counts.values() for f in found})
    by_field = {f: form_f1([found[f] for found in counts.values() if f in found]) for f in names}
    values = [(float(c.right > 0), file) for file, found in counts.items() for c in found.values() if c.gold]
    total = form_f1(every)
    return dict(documents=len(rows), values=sum(c.gold for c in every), f1=round(total.f1, 3),
                precision=round(total.precision, 3), recall=round(total.recall, 3), exact=interval(values),
                fields={f: round(x.f1, 3) for f, x in by_field.items()}, **tokens(rows),
                cpu_s=round(sum(r["cpu_s"] for r in rows) / len(rows), 2), errors=sum(bool(r["error"]) for r in rows),
                doubtful=round(sum(len(r["doubtful"]) for r in rows) / len(rows), 2))


def table(rows, sets) -> list:
    "A line for each set, reader and way, over the documents that were read in every way"
    groups = defaultdict(dict)
    for r in rows:
        if r["file"] in sets.get(r["set"], ()): groups[r["set"], r["reader"], r["way"]][r["file"]] = r
    out = []
    for (name, reader, way), found in groups.items():
        both = set.intersection(*(set(g) for k, g in groups.items() if k[:2] == (name, reader)))
        golds = {file: gold for file, (_, gold) in sets[name].items()}
        if both: out.append(dict(set=name, reader=reader, way=way, **summary([found[f] for f in sorted(both)], golds)))
    return out


def compared(lines, rows, sets) -> list:
    "Form against questions: share of tokens, difference of what is right with its interval"
    from cosee.eval.statistics import compare_pair
    by = {(x["set"], x["reader"], x["way"]): x for x in lines}
    out = []
    for (name, reader, way), form in by.items():
        if way != "form" or (name, reader, "question") not in by: continue
        ask = by[name, reader, "question"]
        pairs = paired(name, reader, rows, sets)
        found = compare_pair([a for a, _, _ in pairs], [b for _, b, _ in pairs], [f for _, _, f in pairs])
        out.append(dict(set=name, reader=reader, documents=form["documents"], f1=[form["f1"], ask["f1"]],
                        tokens=round(form["tokens"] / ask["tokens"], 3), paid=round(form["paid"] / ask["paid"], 3),
                        cpu=round(form["cpu_s"] / ask["cpu_s"], 3),
                        difference=[round(x, 3) for x in (found.mean, found.low, found.high)]))
    return out


def paired(name, reader, rows, sets) -> list:
    "Was a gold value found by form, by question? with its document"
    held = {(r["way"], r["file"]): r for r in rows if (r["set"], r["reader"]) == (name, reader)}
    out = []
    for file, (_, gold) in sets[name].items():
        if not all((way, file) in held for way in WAYS): continue
        form, ask = (counted(held[way, file], gold) for way in WAYS)
        out += [(float(form[f].right > 0), float(ask[f].right > 0), file) for f in form if form[f].gold]
    return out


def documents_of(folders, rows) -> dict:
    "Checksum of each document that was read"
    out = {}
    for name, file in sorted({(r["set"], r["file"]) for r in rows}):
        out[file] = next((checksum(p) for p in folders[name].rglob(Path(file).name)), None)
    return out


def arguments():
    "What can be said on the command line"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SETS:
        p.add_argument(f"--{name}", type=Path, default=os.environ.get(f"COSEE_{name.upper()}"), help="where it lies")
    p.add_argument("--reader", action="append", default=[], help="ocr: the rules; models are named by --gguf")
    p.add_argument("--gguf", type=Path, action="append", default=[], help="a model; more than once for several")
    p.add_argument("--third", default="0", choices=["0", "1", "2", "all"], help="which documents")
    p.add_argument("--limit", type=int, default=None, help="most documents of a set")
    p.add_argument("--pages", type=int, default=None, help="leave out documents with more pages")
    p.add_argument("--context", type=int, default=8192, help="tokens of prompt and reply")
    p.add_argument("--threads", type=int, default=1, help="of the engine")
    p.add_argument("--cache", default=None, help="folder that keeps what was read")
    p.add_argument("--kept", type=Path, default=None, help="file of single results, to go on with")
    p.add_argument("--summary", action="store_true", help="read nothing: the table of what is kept")
    p.add_argument("--json", action="store_true", help="print the results as JSON")
    p.add_argument("--out", type=Path, default=None, help="write the results to this file")
    return p.parse_args()


def results(args) -> dict:
    "Everything that is written"
    settings = dict(context=args.context)
    folders = {name: Path(f) for name in SETS if (f := getattr(args, name))}
    if not folders: raise SystemExit("name a set: " + ", ".join(f"--{n}" for n in SETS))
    sets, kept = {name: drawn(name, folder, args) for name, folder in folders.items()}, Kept(args.kept, settings)
    if not args.summary: asked(sets, args, kept)
    rows = [r for r in kept.rows.values() if r["file"] in sets.get(r["set"], ())]
    lines = table(rows, sets)
    return dict(settings=dict(settings, third=args.third, limit=args.limit, pages=args.pages),
                models={p.name: checksum(p) for p in args.gguf}, table=lines, compared=compared(lines, rows, sets),
                documents=documents_of(folders, rows))


def shown(r) -> str:
    "A line for people"
    exact = "{:.3f} [{:.3f}, {:.3f}]".format(*r["exact"])
    return (f"{r['set']:9} {r['reader']:44} {r['way']:9} n={r['documents']:<3} f1 {r['f1']:.3f}  found {exact}  "
            f"tokens {r['tokens']} paid {r['paid']} calls {r['calls']} cpu_s {r['cpu_s']} errors {r['errors']}")


def main():
    args = arguments()
    found = results(args)
    if args.out: args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if args.json: print(json.dumps(found))
    else:
        for r in found["table"]: print(shown(r))
        for r in found["compared"]: print(r)


if __name__ == "__main__": main()
