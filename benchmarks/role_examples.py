"""Do examples help the roles of a small language model? Each takes turns with and without those of `role_examples`.

    python benchmarks/role_examples.py --gguf small.gguf --questions 40 --kept turns.jsonl --out results.json --json

Made pages of four kinds, one question each. The scanner sees an empty Board and is right if its box touches the words
of the answer; the detail reader sees a note on the right place and is right if it proposes the answer; the
cross-checker sees a proposal, wrong (the answer to another question about the page) or right, and is right if its own
answer is. Both prompts see the same pages, notes and seeds, so that turns are compared in pairs: `gained` are those
that only the example made right, `lost` those that it made wrong, `p` is the two-sided sign test over both. --kept is
a file of single turns: a run that was cut off goes on behind them.
"""
import argparse
import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

KINDS = ('invoice', 'receipt', 'form', 'contract')
TURNS = (('scanner', ''), ('detail_reader', 'place'), ('cross_checker', 'wrong'), ('cross_checker', 'right'))


def asked(seed, folder):
    "(pages, question, another question) of a made page, or None where it has no two with different answers"
    from cosee.datasets.synthetic.document import make_document
    from cosee.pages import load_pages
    made = make_document(KINDS[seed % len(KINDS)], seed, 'dev', pages=1, wordings=('literal', 'paraphrase'))
    one, *rest = [q for q in made.questions if q['evidence']]
    other = next((q for q in rest if q['answers'] != one['answers']), None)
    return (load_pages(made.save(Path(folder) / f'{seed}.pdf')), one, other) if other else None


def board_for(note, one, other):
    "A Board as a team would have it when the turn comes"
    from cosee.board import Board
    board = Board()
    if not note: return board
    said = other if note == 'wrong' else one
    view = dict(page=1, bbox=tuple(said['evidence'][0]['bbox']))
    if note == 'place':
        board.add_cell(view, f"The value of {one['label'] or 'what is asked'} stands here", ['field'], 'scanner', 1)
    else: board.add_cell(view, f"Answer: {said['answers'][0]}.", ['hypothesis'], 'detail_reader', 1)
    return board


def is_right(act, one):
    "Did a turn do what its role is for?"
    from cosee.utils.text import same_answer
    if act['action'] == 'INSPECT':
        box, gold = act.get('view', {}).get('bbox'), one['evidence'][0]['bbox']
        return bool(box) and box[0] < gold[2] and gold[0] < box[2] and box[1] < gold[3] and gold[1] < box[3]
    return any(same_answer(str(act.get('answer', '')), a) for a in one['answers'])


def turns(args, done):
    "Every turn that is not done yet"
    import cosee.models.text_client as module
    from cosee.agents import team
    from cosee.models.text_client import TextClient
    from cosee.models.gguf_client import GgufClient
    from cosee.text.ocr import TextExtractor
    from tqdm import tqdm
    llm = GgufClient(str(args.gguf), threads=args.threads, context=4096)
    client = TextClient(llm, words=TextExtractor(text_source='text'))
    crew, shown = {a.name: a for a in team(client)}, module.role_examples
    with TemporaryDirectory() as folder:
        found = (f for seed in range(args.seed, args.seed + 9 * args.questions) if (f := asked(seed, folder)))
        for at, (pages, one, other) in zip(tqdm(range(args.questions), unit='question', disable=None), found,
                                           strict=False):
            for way, (role, note) in [(w, t) for w in ('plain', 'example') for t in TURNS]:
                if (at, role, note, way) in done: continue
                module.role_examples = shown if way == 'example' else lambda form: ()
                act = crew[role].act(list(pages), one['question'], board_for(note, one, other),
                                dict(temperature=0., max_new_tokens=200))
                yield dict(at=at, role=role, note=note, way=way, right=is_right(act, one), kind=act['action'])


def table(rows):
    "Turns, counted"
    from cosee.eval.statistics import mcnemar
    out = []
    by = {(r['at'], r['role'], r['note'], r['way']): r for r in rows}
    for role, note in TURNS:
        pairs = [(p['right'], by[k[:3] + ('example',)]['right']) for k, p in by.items()
                 if k[1:] == (role, note, 'plain') and k[:3] + ('example',) in by]
        test = mcnemar([a for a, _ in pairs], [b for _, b in pairs])
        kinds = {w: dict(Counter(r['kind'] for r in rows if (r['role'], r['note'], r['way']) == (role, note, w)))
                 for w in ('plain', 'example')}
        out.append(dict(role=role, note=note or 'none', n=len(pairs), plain=sum(a for a, _ in pairs),
                        example=sum(b for _, b in pairs), gained=test.only_b, lost=test.only_a, p=round(test.p, 3),
                        actions=kinds))
    return out


def arguments():
    "What can be said on the command line"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--gguf', type=Path, required=True, help='the model')
    p.add_argument('--questions', type=int, default=40, help='how many, each about a page of its own')
    p.add_argument('--seed', type=int, default=600, help='of the first page')
    p.add_argument('--threads', type=int, default=1, help='of the engine')
    p.add_argument('--kept', type=Path, default=None, help='file of single turns, to go on with')
    p.add_argument('--json', action='store_true', help='print the results as JSON')
    p.add_argument('--out', type=Path, default=None, help='write the results to this file')
    return p.parse_args()


def main():
    args = arguments()
    rows = []
    if args.kept and args.kept.exists():
        rows = [json.loads(line) for line in args.kept.read_text(encoding='utf-8').splitlines()]
    for row in turns(args, {(r['at'], r['role'], r['note'], r['way']) for r in rows}):
        rows.append(row)
        if args.kept:
            with args.kept.open('a', encoding='utf-8') as f: f.write(json.dumps(row) + '\n')
    found = dict(model={args.gguf.name: hashlib.sha256(args.gguf.read_bytes()).hexdigest()}, table=table(rows))
    if args.out: args.out.write_text(json.dumps(found, indent=1) + '\n', encoding='utf-8')
    print(json.dumps(found) if args.json else
          '\n'.join('  '.join(f'{k} {v}' for k, v in r.items() if k != 'actions') for r in found['table']))


if __name__ == '__main__': main()
