"""How often is the reader of page text right, and how sure may it be? Asks all sets and fits the confidence.

    python benchmarks/calibrate_reader.py --made 10 --layouts --sroie DIR --mmlong DIR \\
        --own OWN/questions.jsonl --own UNSEEN/questions.jsonl --judge UNSEEN --rows rows.jsonl --cache PAGES \\
        --json benchmarks/results/calibrate_reader.json

It asks every question of made documents, of the layouts that the tests draw, of the receipts of SROIE (folders img
and key), of the reports of MMLongBench-Doc-V2 (--mmlong DIR: samples_v2.json beside the PDFs; four pages found by
words, their text layer alone), of documents of your own (--own, as often as you like; own_documents.py fetches two
such sets), and keeps the evidence of the best candidate and whether it was right (receipts: ANLS of 0.8; reports: the
official score; others: exact match). Receipts and reports count only where the SHA-1 of their file's name leaves 0 by
3: the others judge. A logistic function of --signs is fitted to all of it. For each set and each way of weighing it
says: how often the first answer and one of the first three is right, how many answers are given at --bound, how many
of them are right, which share is wrong (an answer to a question that has none is wrong), how many right ones are
withheld, how many questions without an answer are refused, and the calibration error. `held_out` are five folds over
documents, `left_out` weights that the set had no part in; with --judge, a set is judged and not fitted. `--rows`
keeps what was asked, so that a run that was cut off goes on. What is found is reported, not written: the table stands
in the notebook of the reader.

`calibrate_reader_before.json` is of the reader at commit 810eb6ea: this file as of commit 51ad3284 in its folder
benchmarks, with --encoder, where `reader.surest` is given `ranked[0]`. Long reports are in no stored result: they take
half an hour.
"""
import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'benchmarks'), str(ROOT / 'tests')]

FOLDS = 5
PENALTY = 0.002       # on the squares of the weights: few documents must not make a confidence of 1
READ_RIGHT = 0.8      # ANLS from which a field of a receipt counts as right
SHOWN = 4             # pages of a report, found by words


def is_dev(name: str) -> bool:
    "Is a file one of those for development?"
    return int(hashlib.sha1(name.encode()).hexdigest()[:8], 16) % 3 == 0


def asked(reader, question: str, right, answerable: bool = True) -> dict:
    "The evidence of the best candidate for a question, and which of the first three are right"
    start = time.process_time()
    ranked = reader.candidates(question, 8)
    seen = reader.evidence(question, ranked) if ranked else None
    most = reader.surest(question, ranked) if ranked else 0.0
    spent = time.process_time() - start
    hits = [answerable and bool(right(c['answer'])) for c in ranked[:3]]
    return dict(question=question, seen=seen, kind=ranked[0]['kind'] if ranked else '', most=most,
                right=bool(hits and hits[0]), three=any(hits), answerable=answerable, seconds=round(spent, 3))


def receipts(args, encoder, words):
    "(name, rows) of every receipt"
    from cosee.datasets.forms import RECEIPT_QUESTIONS
    from cosee.eval.metrics import anls
    from cosee.text.reader import Reader
    root = Path(args.sroie)
    for path in sorted(p for p in (root / 'img').iterdir() if is_dev(p.name))[:args.most]:
        if path.name in args.done: continue
        gold = json.loads((root / 'key' / f'{path.stem}.json').read_text(encoding='utf-8'))
        reader = Reader(words.read([path]), encoder)
        yield path.name, [asked(reader, q, lambda a, g=gold[field]: anls(a, [g]) >= READ_RIGHT)
                          for field, q in RECEIPT_QUESTIONS.items() if gold.get(field)]


def report_rows(pages, index, samples, encoder, words) -> list[dict]:
    "The rows of one report"
    from cosee.eval.metrics import score
    from cosee.text.reader import Reader
    out = []
    for s in samples:
        numbers = sorted(h.page for h in index.search(s['question'], SHOWN)) or [1]
        reader = Reader(words.read([pages.infos[n - 1] for n in numbers], text_source='text'), encoder)
        def right(answer, s=s):
            return score(answer, s['answer'], 'accuracy', 'mmlongbench', answer_format=s['answer_format']) > 0.5
        out.append(asked(reader, s['question'], right, s['answer_format'] != 'None'))
    return out


def reports(args, encoder, words):
    "(name, rows) of every report"
    from cosee.retrieval.index import PageIndex
    from cosee.text.ocr import TextExtractor
    from cosee.pages import load_pages
    root = Path(args.mmlong)
    samples = json.loads((root / 'samples_v2.json').read_text(encoding='utf-8'))
    for path in sorted(p for p in root.glob('*.pdf') if is_dev(p.name)):
        mine = [s for s in samples if s['doc_id'] == path.name]
        if path.name in args.done or not mine: continue
        pages = load_pages(path)
        index = PageIndex(pages, words=TextExtractor(cache=False, text_source='text'), embeddings=False)
        index.read()
        yield path.name, report_rows(pages, index, mine, encoder, words)


def own_documents(args, encoder, words):
    "(name, rows) of every document of one's own"
    from cosee.eval.metrics import score
    from cosee.models.reader_client import OcrClient
    from real_documents import accepted, looked_at, own_questions
    client = OcrClient(words=words)
    samples = [(Path(path).resolve().parent.name, s) for path in args.own for s in own_questions(Path(path))]
    for folder, name in dict.fromkeys((folder, s["meta"]["doc_id"]) for folder, s in samples):
        if f'{folder} {name}' in args.done: continue
        rows = []
        for s in (s for f, s in samples if (f, s["meta"]["doc_id"]) == (folder, name)):
            def right(answer, s=s): return score(answer, accepted(s), "em", "squad") == 1.0
            rows.append(asked(client.document(*looked_at(s, words, SHOWN)), s["question"], right,
                              s["meta"].get("answerable", True)))
        yield f'{folder} {name}', rows


def made_documents(args, encoder, words):
    "(name, rows) of every made document"
    from cosee.eval.metrics import exact_match
    from cosee.text.reader import Reader
    from ocr_reader import KINDS, made
    settings = argparse.Namespace(kinds=KINDS, docs=args.made, seed=args.seed, style='dev', dpi=120, rotate=0, noise=0)
    for n, (kind, images, questions) in enumerate(made(settings)):
        name = f'{kind}-{n}'
        if name in args.done: continue
        reader = Reader(words.read(images), encoder)
        yield name, [asked(reader, q['question'], lambda a, q=q: exact_match(a, q['answers']) == 1.0,
                           bool(q['answers']) and q['wording'] != 'unanswerable') for q in questions]


def layouts(args, encoder, words):
    "(name, rows) of the documents that the tests draw"
    from other_layouts import documents
    from cosee.eval.metrics import exact_match
    from cosee.text.reader import Reader
    for n, d in enumerate(documents()):
        name = f"layout {d['kind']}-{n}"
        if name in args.done: continue
        reader = Reader(words.read(d['pages']), encoder)
        yield name, [asked(reader, q['question'], lambda a, q=q: exact_match(a, q['answers']) == 1.0,
                           bool(q['answers'])) for q in d['questions']]


def gathered(args, words) -> list[dict]:
    "Every question with its evidence, from the file of rows and by asking"
    from cosee.text.encoder import sentence_encoder
    encoder = sentence_encoder()
    path = Path(args.rows)
    rows = [json.loads(l) for l in path.read_text().splitlines()] if path.exists() else []
    args.done = {r['document'] for r in rows}
    sets = dict(made=made_documents if args.made else None, layouts=layouts if args.layouts else None,
                own=own_documents if args.own else None, receipts=receipts if args.sroie else None,
                reports=reports if args.mmlong else None)
    for name, source in sets.items():
        for document, found in source(args, encoder, words) if source else ():
            kind = document.split()[0] if name == 'own' else name
            new = [dict(set=kind, document=document, **r) for r in found]
            with path.open('a', encoding='utf-8') as f: f.writelines(json.dumps(r) + '\n' for r in new)
            rows += new
    return rows


def fitted(rows, names) -> dict:
    "The weights that make the log-loss least; every set of documents counts the same"
    import numpy as np
    from scipy.optimize import minimize
    rows = [r for r in rows if r['seen']]
    x = np.array([[1.0, *(r['seen'][n] for n in names)] for r in rows])
    y = np.array([r['right'] for r in rows], dtype=float)
    sizes = {s: sum(r['set'] == s for r in rows) for s in {r['set'] for r in rows}}
    share = np.array([1 / sizes[r['set']] for r in rows]) / len(sizes)

    def loss(w):
        z = x @ w
        return float((share * (np.logaddexp(0, z) - y * z)).sum() + PENALTY * np.square(w[1:]).mean() / 10)
    found = minimize(loss, np.zeros(len(names) + 1), method='BFGS')
    return dict(zip(('bias', *names), (round(float(v), 2) for v in found.x), strict=True))


def fold_of(document: str) -> int: return int(hashlib.sha1(f'fold {document}'.encode()).hexdigest()[:8], 16) % FOLDS


def held_out(rows, names) -> list[float]:
    "The confidence in each row, by weights that its document had no part in"
    weights = {f: fitted([r for r in rows if fold_of(r['document']) != f], names) for f in range(FOLDS)}
    return [stated(r, weights[fold_of(r['document'])]) for r in rows]


def left_out(rows, names) -> list[float]:
    "The confidence in each row, by weights that its set had no part in"
    weights = {s: fitted([r for r in rows if r['set'] != s], names) for s in {r['set'] for r in rows}}
    return [stated(r, weights[r['set']]) for r in rows]


def stated(row, weights: dict) -> float:
    "The confidence that an answer comes with"
    from cosee.text.reader import calibrated
    return min(row['most'], calibrated(row['seen'], weights)) if row['seen'] else 0.0


def of_set(rows, confidence, bound: float) -> dict:
    "What is right of some questions, and what is said at a bound"
    from cosee.eval.statistics import expected_calibration_error
    given = [r for r, c in zip(rows, confidence, strict=True) if c >= bound]
    right, found = [float(r['right']) for r in rows], sum(r['right'] for r in given)
    none = [r for r in rows if not r['answerable']]
    return dict(documents=len({r['document'] for r in rows}), n=len(rows), answerable=len(rows) - len(none),
                first=int(sum(right)), three=sum(r['three'] for r in rows), given=len(given), right=found,
                wrong=round(1 - found / len(given), 3) if given else 0.0,
                withheld=int(sum(right)) - found, refused=len(none) - sum(not r['answerable'] for r in given),
                ece=round(float(expected_calibration_error(confidence, right)), 3),
                seconds=round(sum(r['seconds'] for r in rows) / len(rows), 2))


def summary(rows, confidence, bound: float) -> dict:
    "The same of each set"
    pairs, out = [*zip(rows, confidence, strict=True)], {}
    for name in sorted({r['set'] for r in rows}):
        mine = [p for p in pairs if p[0]['set'] == name]
        out[name] = of_set([r for r, _ in mine], [c for _, c in mine], bound)
    return out


def run(args) -> dict:
    from cosee.text.ocr import TextExtractor
    from cosee.text.reader import CALIBRATION
    words = TextExtractor(cache=args.cache)
    rows = gathered(args, words)
    if not rows: sys.exit('no questions: name --sroie, --mmlong, --own or --made')
    used, names, bound = CALIBRATION, args.signs or [*CALIBRATION][1:], args.bound
    fit = [r for r in rows if r['set'] not in args.judge]
    sets = len({r['set'] for r in fit})
    apart = dict(left_out=summary(fit, left_out(fit, names), bound)) if sets > 1 else {}
    best = fitted(fit, names)
    return dict(documents=len({r['document'] for r in rows}), judged=args.judge, bound=bound,
                used=used, with_used=summary(rows, [stated(r, used) for r in rows], bound),
                best=best, with_best=summary(rows, [stated(r, best) for r in rows], bound),
                held_out=summary(fit, held_out(fit, names), bound), **apart)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--sroie', default=None, help='folder with img and key')
    p.add_argument('--mmlong', default=None, help='folder with samples_v2.json and PDFs')
    p.add_argument('--own', action='append', default=[], help='questions about documents of your own (JSON Lines)')
    p.add_argument('--made', type=int, default=0, help='made documents of each kind')
    p.add_argument('--seed', type=int, default=9100, help='first seed of made documents')
    p.add_argument('--most', type=int, default=None, help='most receipts')
    p.add_argument('--layouts', action='store_true', help='documents that the tests draw')
    p.add_argument('--signs', nargs='+', help='what the confidence is a function of (default: what it is)')
    p.add_argument('--bound', type=float, default=0.6, help='confidence from which an answer is given')
    p.add_argument('--judge', nargs='+', default=[], help='sets that are judged alone, and not fitted')
    p.add_argument('--rows', default='calibrate_rows.jsonl', help='file that keeps what was asked')
    p.add_argument('--cache', default=None, help='folder that keeps what was read')
    p.add_argument('--json', default=None, help='write the result to this file')
    args = p.parse_args()
    result = run(args)
    print(json.dumps(result, indent=1))
    if args.json: Path(args.json).write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
