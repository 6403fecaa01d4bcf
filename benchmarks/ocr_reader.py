"""How well OCR plus reader answer questions: exact match, ANLS and page accuracy by kind of document and wording.

    python benchmarks/ocr_reader.py --style held_out --docs 4
    python benchmarks/ocr_reader.py --set own --json benchmarks/results/ocr_reader_own.json

Sets: `made` (the seeded generator, styles dev and held_out), `own` (other layouts, drawn by tests/other_layouts.py).
Page accuracy counts every answer that is given, wrong ones too: a reader that gives more wrong answers gains by it.
Read it beside the share of unanswerable questions that get none.
"""
import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'tests')]

MADE = ('set', 'style', 'docs', 'seed', 'kinds', 'dpi', 'max_side', 'rotate', 'noise')
KINDS = ['invoice', 'form', 'report', 'slides', 'datasheet', 'contract', 'timetable']


def made(args):
    "Made documents as (kind, pages, questions)"
    from cosee.datasets.synthetic.document import make_document, render
    for kind in args.kinds:
        for i in range(args.docs):
            doc = make_document(kind, args.seed + i, args.style)
            effects = dict(rotate=args.rotate, noise=args.noise) if args.rotate or args.noise else {}
            questions = [dict(question=q['question'], answers=q['answers'], wording=q['wording'],
                              pages=q['evidence_pages']) for q in doc.questions]
            yield kind, render(doc, args.dpi, **effects), questions


def own(args):
    "Documents in other layouts, which nothing is tuned on"
    from other_layouts import documents
    for doc in documents():
        if doc['kind'] in args.kinds: yield doc['kind'], doc['pages'], doc['questions']


def judge(found, q, abstain) -> dict:
    "Scores of one answer"
    from cosee.eval.metrics import anls, exact_match
    confidence = found['confidence'] if found else 0.0
    gave = found is not None and confidence >= abstain
    if not q['answers'] or q['wording'] == 'unanswerable':
        return dict(em=float(not gave), anls=float(not gave), page=float(not gave), confidence=confidence)
    answer = found['answer'] if gave else ''
    return dict(em=exact_match(answer, q['answers']), anls=anls(answer, q['answers']), confidence=confidence,
                page=float(bool(gave and found['page'] in q['pages'])))


def run(args) -> list:
    "A row for each question and variant: with the lexicon alone, and with the sentence encoder"
    from cosee.text.encoder import sentence_encoder
    from cosee.models.reader_client import OcrClient
    from cosee.text.reader import Reader
    client, rows = OcrClient(cache=args.cache, max_side=args.max_side), []
    variants = {'lexicon': None, 'encoder': sentence_encoder()}
    for kind, images, questions in (own if args.set == 'own' else made)(args):
        pages = client.words.read(images)
        for variant, embeddings in variants.items():
            doc = Reader(pages, embeddings)
            for q in questions: rows.append(answer_row(doc, kind, variant, q, client.abstain, args.wrong))
    return rows


def answer_row(doc, kind, variant, q, abstain, wrong) -> dict:
    found = doc.answer(q['question'])
    row = dict(kind=kind, variant=variant, wording=q['wording'], question=q['question'], gold=q['answers'],
               answer=found and found['answer'], **judge(found, q, abstain))
    if wrong and not row['em']: show(kind, q, doc)
    return row


def show(kind, q, doc):
    print(f"[{kind}, {q['wording']}] {q['question']} -> {q['answers']} (page {q['pages']})")
    for c in doc.candidates(q['question'], 4):
        scores = f"{c['score']:.2f} cover {c['cover']:.2f} label {c['label']:.2f}"
        print(f"    {scores} {c['kind']}: {c['answer']!r} page {c['page']} {c['fact']['labels'][:1]}")


def mean(rows, key): return round(sum(r[key] for r in rows) / len(rows), 3)


def table(rows) -> list:
    "Means by kind and wording, and over all kinds"
    groups = defaultdict(list)
    for r in rows:
        for kind in (r['kind'], 'all'): groups[r['variant'], r['wording'], kind].append(r)
    return [dict(variant=v, wording=w, kind=k, n=len(g), em=mean(g, 'em'), anls=mean(g, 'anls'), page=mean(g, 'page'))
            for (v, w, k), g in sorted(groups.items(), key=lambda t: (t[0][0], t[0][1], t[0][2] == 'all', t[0][2]))]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--set', choices=['made', 'own'], default='made', help='made documents, or the other layouts')
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
    p.add_argument('--json', default=None, help='write settings and table to this file')
    p.add_argument('--rows', action='store_true', help='with --json: every question and answer too')
    args = p.parse_args()
    rows = run(args)
    if not rows: sys.exit('no questions')
    result = table(rows)
    for r in result:
        print(f"{r['variant']:8} {r['wording']:13} {r['kind']:10} n={r['n']:<4}"
              f" EM {r['em']:.2f}  ANLS {r['anls']:.2f}  page {r['page']:.2f}")
    if args.json:
        named = MADE if args.set == 'made' else ('set', 'kinds', 'max_side')
        settings = {k: v for k, v in vars(args).items() if k in named}
        out = dict(settings=settings, table=result, **({'rows': rows} if args.rows else {}))
        Path(args.json).write_text(json.dumps(out, ensure_ascii=False, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__': main()
