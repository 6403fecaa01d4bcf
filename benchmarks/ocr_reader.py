"""How well OCR plus reader answer questions: exact match, ANLS and page accuracy by kind of document and wording.

    python benchmarks/ocr_reader.py --style held_out --docs 4
    python benchmarks/ocr_reader.py --set own --json results.json

Sets: `made` (the seeded generator, styles dev and held_out) and `own` (other layouts, drawn by tests/other_layouts.py).
"""
import argparse, json, sys, time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'tests')]

KINDS = 'invoice form report slides datasheet contract timetable'.split()


def made(args):
    "Made documents as (kind, pages, questions)"
    from cosee.datasets.made import make_document, render
    for kind in args.kinds:
        for i in range(args.docs):
            doc = make_document(kind, args.seed + i, args.style)
            effects = dict(rotate=args.rotate, noise=args.noise) if args.rotate or args.noise else {}
            questions = [dict(question=q['question'], answers=q['answers'], wording=q['wording'], pages=q['evidence_pages']) for q in doc.questions]
            yield kind, render(doc, args.dpi, **effects), questions


def own(args):
    "Documents in other layouts, which nothing is tuned on"
    from other_layouts import documents
    for doc in documents():
        if doc['kind'] in args.kinds: yield doc['kind'], doc['pages'], doc['questions']


def judge(found, q, abstain) -> dict:
    "Scores of one answer"
    from cosee.eval.metrics import anls, exact_match
    gave = found is not None and found['confidence'] >= abstain
    if not q['answers'] or q['wording'] == 'unanswerable':
        return dict(em=float(not gave), anls=float(not gave), page=float(not gave), confidence=found['confidence'] if found else 0.0)
    answer = found['answer'] if gave else ''
    return dict(em=exact_match(answer, q['answers']), anls=anls(answer, q['answers']), confidence=found['confidence'] if found else 0.0,
                page=float(bool(gave and found['page'] in q['pages'])))


def run(args) -> list:
    "A row for each question"
    from cosee.models.ocr import OcrClient
    client, rows = OcrClient(cache=args.cache, max_side=args.max_side), []
    for kind, pages, questions in (own if args.set == 'own' else made)(args):
        start = time.perf_counter()
        doc = client.document(pages)
        spent = time.perf_counter() - start
        for q in questions:
            found = doc.answer(q['question'])
            rows.append(dict(kind=kind, wording=q['wording'], question=q['question'], gold=q['answers'], answer=found and found['answer'],
                             pages=len(pages), seconds=spent / len(questions), **judge(found, q, client.abstain)))
            if args.wrong and not rows[-1]['em']: show(kind, q, doc)
    return rows


def show(kind, q, doc):
    print(f"[{kind}, {q['wording']}] {q['question']} -> {q['answers']} (page {q['pages']})")
    for c in doc.candidates(q['question'], 4):
        print(f"    {c['score']:.2f} cover {c['cover']:.2f} label {c['label']:.2f} {c['kind']}: {c['answer']!r} page {c['page']} {c['fact']['labels'][:1]}")


def mean(rows, key): return round(sum(r[key] for r in rows) / len(rows), 3)


def table(rows) -> list:
    "Means by kind and wording, and over all kinds"
    groups = defaultdict(list)
    for r in rows: groups[r['kind'], r['wording']].append(r); groups['all', r['wording']].append(r)
    return [dict(kind=k, wording=w, n=len(g), em=mean(g, 'em'), anls=mean(g, 'anls'), page=mean(g, 'page'))
            for (k, w), g in sorted(groups.items(), key=lambda t: (t[0][1], t[0][0] == 'all', t[0][0]))]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--set', choices=['made', 'own'], default='made', help='documents of the generator, or the other layouts')
    p.add_argument('--style', choices=['dev', 'held_out'], default='dev', help='style of the generator')
    p.add_argument('--docs', type=int, default=2, help='documents of each kind')
    p.add_argument('--seed', type=int, default=0, help='first seed')
    p.add_argument('--kinds', nargs='+', default=KINDS, help='kinds of documents')
    p.add_argument('--dpi', type=float, default=120, help='resolution of the pages')
    p.add_argument('--max-side', type=int, default=1600, help='longest side at which pages are read')
    p.add_argument('--rotate', type=float, default=0, help='degrees that the pages are turned by')
    p.add_argument('--noise', type=float, default=0, help='noise on the pages')
    p.add_argument('--cache', default=None, help='folder that keeps what was read')
    p.add_argument('--wrong', action='store_true', help='show the questions that were missed')
    p.add_argument('--json', default=None, help='write table, settings and rows to this file')
    args = p.parse_args()
    rows = run(args)
    if not rows: sys.exit('no questions')
    result = table(rows)
    for r in result: print(f"{r['wording']:13} {r['kind']:10} n={r['n']:<4} EM {r['em']:.2f}  ANLS {r['anls']:.2f}  page {r['page']:.2f}")
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k not in ('json', 'wrong', 'cache')}
        Path(args.json).write_text(json.dumps(dict(settings=settings, table=result, rows=rows), ensure_ascii=False, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__': main()
