"""Evidence on page text: how well do boxes of answers lie on the words that say them, before and after?

    python benchmarks/snapped_boxes.py --json
    python benchmarks/snapped_boxes.py --made 27 --small 24 --ocr 4 --out benchmarks/results/snapped_boxes.json --json

Documents are made, so that the place of every value is known. `scripted` are episodes of a client that copies the
answer as it is printed and points at its words, shifted both ways by up to a twentieth of the page; `absent` are the
same with a digit of the answer changed, or its letters turned round, so that no text of the page says it; `scanned`
are those of `scripted` on pictures of pages, read by OCR because that is asked for; `tiny` is the model of the
package, one cross-checker a question, on pages of its own kind. `own` is the mean intersection over union of the
model's box with the words of the answer, `snapped` that of the evidence, `lines` that of its lines with the line of
the words, `found` the share of evidence that the page says, `worse` the share whose box lies less well than the
model's own, and `moved` the share whose box is another one than the model's. `seconds` are CPU time for a
question's evidence, `cold` the first in a document.
"""
import argparse
import json
import random
import sys
import time
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
KINDS = 'invoice', 'report', 'receipt', 'letter', 'form', 'slides'


def shifted(box, rng, most=.05):
    "A box that is off by up to a part of the page, both ways"
    x, y = rng.uniform(-most, most), rng.uniform(-most, most)
    x0, y0, x1, y1 = (min(1., max(0., v + d)) for v, d in zip(box, (x, y, x, y), strict=True))
    return [round(1000 * v) for v in (x0, y0, max(x1, x0 + .002), max(y1, y0 + .002))]


def changed(answer, said, rng):
    "An answer that no text of a page says: another digit, or where it has none its letters backwards"
    from cosee.utils.text import letters_of
    digits = [i for i, c in enumerate(answer) if c.isdigit()]
    for _ in range(50 if digits else 0):
        at = rng.choice(digits)
        other = answer[:at] + rng.choice([d for d in '0123456789' if d != answer[at]]) + answer[at + 1:]
        if letters_of(other) not in said: return other
    return f'{answer[::-1]} qxzvw'


def episode(client, pages, question, snap='auto'):
    "What one agent makes of a question in one turn"
    from cosee.agents import CrossCheckerAgent
    from cosee.controller import CoSeeController
    return CoSeeController([CrossCheckerAgent(client)], max_steps=1, snap=snap).run(pages, question)


def scripted(pages, question, answer, page, box, snap):
    "An episode of a client that says what it is told"
    from cosee.models.testing import ScriptedClient
    said = dict(action='HYPOTHESIZE', view=dict(page=page, bbox_2d=box), content=f'It says {answer}', answer=answer,
                supporting_cells=[], confidence=.9)
    return episode(ScriptedClient([json.dumps(said)]), pages, question, snap)


def judged(found, page, box, line=None):
    "A row of measures of one evidence; None where there is none with a box"
    from cosee.utils.boxes import box_iou
    if not found or not (own := found[0].get('own_bbox', found[0]['bbox'])): return None
    right, now = found[0]['page'] == page, found[0]['bbox']
    row = dict(own=box_iou(own, box) if right else 0., snapped=box_iou(now, box) if right else 0.,
               found=float(bool(found[0].get('found'))), moved=float(now != own), line=None)
    if line and right: row['line'] = box_iou(found[0].get('line_bbox') or now, line)
    return {**row, 'worse': float(row['snapped'] < row['own'] - 1e-9)}


def made(n, rng, folder, ocr=0):
    "Rows of `scripted`, `absent` and `scanned` over made documents"
    from cosee.datasets.synthetic.document import make_document
    from cosee.text.ocr import TextExtractor
    from cosee.pages import load_pages
    from cosee.utils.text import letters_of
    out, reader = dict(scripted=[], absent=[], scanned=[]), TextExtractor(cache=None)
    for i in range(n):
        doc = make_document(KINDS[i % len(KINDS)], 9000 + i)
        pages = load_pages(doc.save(Path(folder) / f'{i}.pdf'))
        said = {p: letters_of(' '.join(l['text'] for l in page['lines']))
                for p, page in enumerate(reader.read(pages, 'text'), 1)}
        for q in (q for q in doc.questions if q['verbatim'] and len(q['evidence']) == 1):
            e = q['evidence'][0]
            page, box, gold = e['page'], shifted(e['bbox'], rng), tuple(e['bbox'])
            for name, answer in (('scripted', e['text']), ('absent', changed(e['text'], said[page], rng))):
                found = scripted(pages, q['question'], answer, page, box, 'auto')['evidence']
                out[name].append(judged(found, page, gold))
            if i < ocr and len(out['scanned']) < 12 * ocr:
                pictures = [im.copy() for im in pages]
                for im in pictures: vars(im).pop('cosee_page', None)
                found = scripted(pictures, q['question'], e['text'], page, box, True)['evidence']
                out['scanned'].append(judged(found, page, gold))
    return out


def tiny(n, folder):
    "Rows of the model of the package on its own kind of pages"
    from cosee import QwenVLClient
    from cosee.datasets.synthetic.small import small_document
    from cosee.pages import load_pages
    client, out = QwenVLClient.tiny(), []
    for i in range(n):
        doc = small_document(f'snapped-{i}', i % 3 + 1)
        pages = load_pages(doc.save(Path(folder) / f'small-{i}.pdf'), dpi=72)
        for q in (q for q in doc.questions if q['fact']):
            row = judged(episode(client, pages, q['question'])['evidence'], q['fact']['page'], q['fact']['bbox'],
                         q['fact']['row_bbox'])
            out.append(row or dict(own=0., snapped=0., found=0., moved=0., worse=0., line=0.))
    return out


def cost(folder):
    "Seconds of the processor for evidence on a PDF's own text: the first page of a document, and each one later"
    from cosee.text.grounding import ground
    from cosee.pages import load_pages
    cold, warm = [], []
    for path in sorted(Path(folder).glob('[0-9]*.pdf'))[:12]:
        pages = load_pages(path)
        e = dict(page=1, bbox=[.2, .2, .4, .3], content='', cell=None)
        for into in (cold, warm, warm):
            start = time.process_time()
            ground([e], 'nothing that is printed', pages, None)
            into.append(time.process_time() - start)
    return dict(cold=round(fmean(cold), 4), warm=round(fmean(warm), 4)) if cold else {}


def summed(rows):
    "Means of rows"
    rows = [r for r in rows if r]
    if not rows: return dict(n=0)
    out = {k: round(fmean(r[k] for r in rows), 4) for k in ('own', 'snapped', 'found', 'worse', 'moved')}
    lines = [r['line'] for r in rows if r['line'] is not None]
    return dict(n=len(rows), **out, **(dict(lines=round(fmean(lines), 4)) if lines else {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--made', type=int, default=12, help='documents for scripted replies')
    parser.add_argument('--small', type=int, default=0, help='documents for the tiny model')
    parser.add_argument('--ocr', type=int, default=0, help='of the made documents, so many as pictures')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--out', type=Path)
    parser.add_argument('--json', action='store_true')
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        rows = made(args.made, random.Random(args.seed), folder, args.ocr)
        if args.small: rows['tiny'] = tiny(args.small, folder)
        found = {name: summed(r) for name, r in rows.items() if r}
        found['seconds'] = cost(folder)
    result = dict(made=args.made, small=args.small, ocr=args.ocr, seed=args.seed, **found)
    if args.out: args.out.write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')
    if args.json: print(json.dumps(result))
    else:
        for name, r in found.items(): print(f'{name:10}', '  '.join(f'{k} {v}' for k, v in r.items()))


if __name__ == '__main__': main()
