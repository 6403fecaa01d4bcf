"""Ask a tiny Qwen3-VL everything, through the real client, on documents that it has never seen.

    python examples/tiny_qwen3vl/evaluate.py runs/tiny-evaluation                             the one of the package
    python examples/tiny_qwen3vl/evaluate.py runs/check --checkpoint runs/tiny/last --documents 12

OUT/reading.json holds a row for each question; what is printed sums it up. Everything is greedy, under the grammar of
the role's schema. The methods are compared by `cosee run examples/tiny_qwen3vl/methods.yaml`.
"""
import argparse
import json
import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from lessons import Trajectory, find_truth
from transformers.utils import logging

from cosee.agents import CrossCheckerAgent, parse_action
from cosee.board import Board
from cosee.datasets.synthetic.document import make_samples, render
from cosee.datasets.synthetic.small import SMALL_FONTS, shift, small_document
from cosee.eval.statistics import bootstrap
from cosee.models.checkpoint import ModelError
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.utils.boxes import box_iou
from cosee.utils.text import abstains, same_answer

PLAIN = ('1-3 pages', '4-6 pages', 'unseen labels, 1-3 pages', 'unseen labels, 4-6 pages')   # pages without noise


def ask_checker(client, images, questions, boards=None):
    "The actions of the cross-checker on each question, with a Board for each or an empty one; one batch."
    agent, boards = CrossCheckerAgent(client), boards or [Board() for _ in questions]
    requests = [agent.request(list(images), q, board) for q, board in zip(questions, boards)]
    return [parse_action(reply.text) for reply in client.respond_many(requests)]


def judge(action, question):
    "Compare an action with the truth."
    said, gold = str(action.get('answer', '')), question['answers'][0]
    out = dict(em=float(same_answer(said, gold)), answerable=question['fact'] is not None, said=said, gold=gold,
               question=question['question'], confidence=action.get('confidence'), action=action.get('action', ''))
    if question['fact'] is None: return out
    evidence, view = question['evidence'][0], action.get('view') or {}
    on_page, box = view.get('page') == evidence['page'], view.get('bbox')
    return out | dict(page=float(on_page), iou=round(box_iou(box, evidence['bbox']), 4) if on_page and box else 0.)


def read_documents(client, name, n, pages, jitter=0, effects=None, **kwargs):
    "Read `n` documents of so many pages in turn, moved by `jitter` pixels, with `effects` of a scan."
    rows = []
    for i in range(n):
        doc, rng = small_document(f'eval-{i}', pages[i % len(pages)], **kwargs), random.Random(f'{name}/{i}')
        images = render(doc, 72, **(effects or {}))
        if jitter: images = [shift(im, rng.choice((-jitter, jitter)), rng.choice((-jitter, jitter))) for im in images]
        actions = ask_checker(client, images, [q['question'] for q in doc.questions])
        rows += [dict(group=name, doc=i, pages=doc.pages) | judge(a, q) for a, q in zip(actions, doc.questions)]
    return rows


def reading_groups(n):
    "Groups of `n` documents, four times as many where groups are compared; they share documents where pages differ."
    fonts = {f: dict(n=4 * n, pages=(1, 2, 3), fonts=(f,), n_questions=4, unanswerable=0.) for f in SMALL_FONTS}
    return {'1-3 pages': dict(n=4 * n, pages=(1, 2, 3)), '4-6 pages': dict(n=n, pages=(4, 5, 6)),
            'unseen labels, 1-3 pages': dict(n=n, pages=(1, 2, 3), style='held_out'),
            'unseen labels, 4-6 pages': dict(n=n // 2, pages=(4, 5, 6), style='held_out'),
            'moved by 2 pixels, 1-3 pages': dict(n=4 * n, pages=(1, 2, 3), jitter=2),
            'light noise, 1-3 pages': dict(n=n // 2, pages=(1, 2, 3), effects=dict(noise=.03)), **fonts}


def check_notes(client, n):
    """Boards with one note of the detail reader, right or wrong, behind one of the scanner, and what became of it.

    The cross-checker has corrected a wrong note if it revises it to the right answer, and overruled it if it gives the
    right answer at all. It has spoiled a right one if it gives another answer; to revise a right one is needless."""
    rows = []
    for i in range(n):
        doc, rng = small_document(f'check-{i}', 1 + i % 4, unanswerable=0.), random.Random(f'check/{i}')
        questions, stories = [q for q in doc.questions if q['fact']], []
        for k, q in enumerate(doc.questions):
            if not q['fact']: continue
            stories.append(s := Trajectory(doc, find_truth(q), rng))
            s.scan()
            s.read(p_wrong=1. if k % 2 == 0 else 0.)
        asked, boards = [q['question'] for q in questions], [s.board for s in stories]
        rows += [judge_note(i, s, a) for s, a in zip(stories, ask_checker(client, render(doc, 72), asked, boards))]
    return rows


def judge_note(doc, story, action):
    "What an action made of the last note of a Board."
    kind, said, target = action.get('action', ''), action.get('answer'), action.get('target_cell_id')
    right = same_answer(str(action.get('answer', '')), story.truth.answer)
    return dict(doc=doc, wrong=bool(story.wrong), note=story.board.list_cells()[-1]['content'],
                truth=story.truth.answer, action=kind, said=said, target=target, overruled=right,
                corrected=kind == 'REVISE' and right and target in story.wrong,
                spoiled=not right and kind != 'LINK', needless=right and not story.wrong and kind == 'REVISE')


def read_ordinary_pages(client, n):
    "Questions on documents of ordinary size, whose print is too small for it; it should abstain."
    rows = []
    for s in make_samples(n, seed=77, per_doc=2, wordings=('literal',), dpi=60, pages=1):
        action = ask_checker(client, list(s['images'])[:2], [s['question']])[0]
        answer = action.get('answer')
        rows.append(dict(question=s['question'], gold=s['answer'][0], said=answer, content=action.get('content'),
                         doc=s['meta']['doc_id'], abstained=answer is not None and abstains(answer)))
    return rows


def read_group(checkpoint, group):
    "A group, read in a process of its own with one thread, so that the same letters come out however many there are."
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    name, settings = group
    return read_documents(QwenVLClient.tiny(checkpoint), name, **settings)


def evaluate(folder, n=60, checkpoint=None, workers=2):
    "Ask everything; write and return the rows."
    client = QwenVLClient.tiny(checkpoint)
    with ProcessPoolExecutor(workers, get_context('spawn')) as pool:
        groups = list(pool.map(partial(read_group, checkpoint), reading_groups(n).items()))
    reading = [row for rows in groups for row in rows]
    found = dict(reading=reading, notes=check_notes(client, n), strangers=read_ordinary_pages(client, 24))
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / 'reading.json').write_text(json.dumps(found, separators=(',', ':')))
    return found


def mean(rows, key):
    "The mean of a column as text; '-' where there is nothing to count."
    values = [row[key] for row in rows if row.get(key) is not None]
    return f'{sum(values) / len(values):5.2f}' if values else '    -'


def summarize(found):
    "The rows of an evaluation as lines for people; the interval holds documents together."
    lines = [f"{'group':<30} {'n':>4}    em (95 %)          page  iou   abstains"]
    for name in dict.fromkeys(row['group'] for row in found['reading']):
        rows = [row for row in found['reading'] if row['group'] == name]
        there, missing = ([row for row in rows if row['answerable'] == is_there] for is_there in (True, False))
        e = bootstrap([row['em'] for row in there], documents=[row['doc'] for row in there])
        scores = f"{mean(there, 'em')} ({e.low:.2f}-{e.high:.2f})  {mean(there, 'page')} {mean(there, 'iou')}"
        lines.append(f"{name:<30} {len(there):>4} {scores} {mean(missing, 'em')} of {len(missing)}")
    plain = [row for row in found['reading'] if row['group'] in PLAIN and row['confidence'] is not None]
    for confidence in sorted({row['confidence'] for row in plain}, reverse=True):
        rows = [row for row in plain if row['confidence'] == confidence]
        lines.append(f"confidence {confidence}: {len(rows)} replies, right {mean(rows, 'em')}")
    wrong, right = ([row for row in found['notes'] if row['wrong'] == is_wrong] for is_wrong in (True, False))
    lines.append(f"wrong notes corrected: {mean(wrong, 'corrected')} of {len(wrong)}, overruled: "
                 f"{mean(wrong, 'overruled')}; right notes spoiled: {mean(right, 'spoiled')} of {len(right)}, revised "
                 f"without need: {mean(right, 'needless')}")
    ordinary = found['strangers']
    lines.append(f"pages of ordinary print: abstains in {mean(ordinary, 'abstained')} of {len(ordinary)}")
    return '\n'.join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('folder', metavar='OUT', help='where reading.json is written')
    p.add_argument('--checkpoint', metavar='DIR', help="what train.py wrote, OUT/last (default: the package's)")
    p.add_argument('--documents', type=int, default=60, help='documents of a group (default: 60)')
    p.add_argument('--workers', type=int, default=2, help='processes that read (default: 2)')
    args = p.parse_args()
    for name in ('documents', 'workers'):
        if getattr(args, name) < 1: p.error(f'--{name} is at least 1')
    logging.disable_progress_bar()
    try: print(summarize(evaluate(args.folder, args.documents, args.checkpoint, args.workers)))
    except ModelError as e: p.error(str(e))


if __name__ == '__main__': main()
