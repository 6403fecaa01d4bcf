"""Actions that a language model writes about print: is each valid, is each line real, does each box lie on its words?

    python benchmarks/print_actions.py --gguf small.gguf --actions 1000 --kept actions.jsonl --out actions.json --json
    python benchmarks/print_actions.py --gguf small.gguf --sroie FOLDER --cache ~/pages

Every role takes its turn about made receipts, and with --sroie about real ones (those for development alone: the
SHA-1 of their file's name leaves 0 when divided by 3). Replies are drawn hot, four to a prompt, each from a seed of
its own, and all that are asked about a page follow each other, so that its print is paid for once. Held against the
print are the reply of the model itself, as it came (`lines`: all numbers in it, `real`: those that a line has), and
the action that was made of it (`placed`: it has a box, `on_words`: the box is the smallest one around words of that
page). --kept is a file of single actions: a run that was cut off goes on behind them. Results hold numbers and
checksums, no text of a document.
"""
import argparse
import hashlib
import json
import os
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

QUESTIONS = ('What is the total?', 'What is the date?', 'Who issued it?', 'How was it paid?', 'What is the address?')
NOTES = ('', 'TOTAL stands at the bottom of the page')
DRAWS = 4   # replies to each prompt


def hashed(name) -> int:
    "A number that depends on a name alone"
    return int(hashlib.sha1(str(name).encode()).hexdigest()[:8], 16)


def pages(args):
    "(name, page, words) of every page that is asked about"
    from cosee.datasets.synthetic.document import make_document
    from cosee.text.ocr import TextExtractor
    from cosee.pages import load_pages
    with TemporaryDirectory() as folder:
        for seed in range(args.made):
            file = make_document('receipt', seed, pages=1).save(Path(folder) / f'made-{seed}.pdf')
            yield file.stem, load_pages(file), TextExtractor(text_source='text')
    files = sorted((args.sroie / 'img').iterdir(), key=lambda p: hashed(p.name)) if args.sroie else []
    words = TextExtractor(cache=args.cache or True, workers=1)
    for path in [p for p in files if hashed(p.name) % 3 == 0][:args.real]:
        yield path.name, load_pages(path), words


def heard(llm):
    "A llm that remembers what it said last"
    from cosee.models.client import ask_many
    from cosee.models.wrappers import ClientWrapper

    class Heard(ClientWrapper):
        def _respond_many(self, requests):
            replies = ask_many(self.client, requests)
            self.said = getattr(replies[-1], 'text', '')
            return replies

    return Heard(llm)


def numbers(reply) -> list:
    "Every `line` in a reply"
    if isinstance(reply, list): return [n for r in reply for n in numbers(r)]
    if not isinstance(reply, dict): return []
    return [v for k, v in reply.items() if k == 'line'] + numbers(list(reply.values()))


def around_words(view, lines) -> bool:
    "Is a box the smallest one around words of its page?"
    from cosee.text.linearization import around
    box = view['bbox']
    inside = [w.bbox for l in lines if l.page == view['page'] for w in l.words
              if w.bbox[0] >= box[0] - .0015 and w.bbox[1] >= box[1] - .0015
              and w.bbox[2] <= box[2] + .0015 and w.bbox[3] <= box[3] + .0015]
    return bool(inside) and max(abs(a - b) for a, b in zip(around(inside), box, strict=True)) <= .0015


def acted(agent, llm, images, question, note, lines, seed) -> dict:
    "One action, drawn hot, held against the print"
    from cosee.board import Board
    board = Board()
    if note: board.add_cell({'page': 1, 'bbox': (0., 0., 1., 1.)}, note)
    act = agent.act(images, question, board, dict(temperature=1., seed=seed, max_new_tokens=300))
    said = numbers(json.loads(llm.said)) if act['action'] != 'INVALID' else []
    view = act.get('view')
    return dict(role=agent.name, kind=act['action'], valid=act['action'] != 'INVALID', lines=len(said),
                real=sum(isinstance(n, int) and 1 <= n <= len(lines) for n in said), placed=view is not None,
                on_words=view is not None and around_words(view, lines))


def kept(args) -> list:
    "Actions that were made before"
    if not args.kept or not args.kept.exists(): return []
    return [json.loads(line) for line in args.kept.read_text(encoding='utf-8').splitlines()]


def made(args):
    "Every action that is asked for, with its page; those that were made before are not made again"
    from tqdm import tqdm
    from cosee.agents import team
    from cosee.models.text_client import TextClient
    from cosee.models.client import page_request
    from cosee.models.gguf_client import GgufClient
    llm = heard(GgufClient(str(args.gguf), threads=args.threads, context=4096))
    rows, bar = kept(args), tqdm(total=args.actions, unit='action', disable=None)
    todo = args.actions
    for name, images, words in pages(args):
        client = TextClient(llm, words=words)
        crew, lines = team(client), client.shown(page_request(list(images), '')).lines
        turns = [*product(QUESTIONS, NOTES, crew)]
        for i in range(min(todo, -(-args.actions // (args.made + args.real * bool(args.sroie))))):
            at = args.actions - todo
            question, note, agent = turns[at // DRAWS % len(turns)]
            row = rows[at] if at < len(rows) else dict(
                page=name, **acted(agent, llm, list(images), question, note, lines, hashed(f'{name}/{i}') % 2**31))
            todo -= 1
            bar.update()
            yield row, at >= len(rows)


def results(args) -> dict:
    "All actions, counted"
    found = []
    for row, new in made(args):
        found.append(row)
        if new and args.kept:
            with args.kept.open('a', encoding='utf-8') as f: f.write(json.dumps(row) + '\n')
    return counted(found, args.gguf)


def counted(found, file) -> dict:
    "What is said of actions"
    total = {k: sum(r[k] for r in found) for k in ('valid', 'lines', 'real', 'placed', 'on_words')}
    return dict(model={file.name: hashlib.sha256(file.read_bytes()).hexdigest()}, actions=len(found),
                roles=dict(Counter(r['role'] for r in found)), kinds=dict(Counter(r['kind'] for r in found)), **total,
                made_pages=len({r['page'] for r in found if r['page'].startswith('made-')}),
                real_pages=len({r['page'] for r in found if not r['page'].startswith('made-')}))


def arguments():
    "What can be said on the command line"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--gguf', type=Path, required=True, help='the model')
    p.add_argument('--actions', type=int, default=1000, help='how many')
    p.add_argument('--made', type=int, default=10, help='made pages')
    p.add_argument('--real', type=int, default=4, help='real pages, with --sroie')
    p.add_argument('--sroie', type=Path, default=os.environ.get('COSEE_SROIE'), help='folder with img')
    p.add_argument('--cache', default=None, help='folder that keeps what was read')
    p.add_argument('--threads', type=int, default=1, help='of the engine')
    p.add_argument('--kept', type=Path, default=None, help='file of single actions, to go on with')
    p.add_argument('--counted', action='store_true', help='count what is in --kept, and make none')
    p.add_argument('--json', action='store_true', help='print the results as JSON')
    p.add_argument('--out', type=Path, default=None, help='write the results to this file')
    args = p.parse_args()
    if args.sroie: args.sroie = Path(args.sroie)
    return args


def main():
    args = arguments()
    found = counted(kept(args), args.gguf) if args.counted else results(args)
    if args.out: args.out.write_text(json.dumps(found, indent=1) + '\n', encoding='utf-8')
    print(json.dumps(found) if args.json else '\n'.join(f'{k:10} {v}' for k, v in found.items()))


if __name__ == '__main__': main()
