"""How sure is a language model that reads page text, and how sure may it be? Fits `TextClient` on real receipts.

    python benchmarks/calibrate_print.py --sroie DIR --gguf small.gguf --gguf large.gguf --limit 16 \\
        --rows rows.jsonl --out benchmarks/results/calibrate_print.json

Each model is asked for the four fields of receipts of SROIE, and for four things that no receipt of these says. What
stands in a reply is kept as numbers alone (`Signs`, and whether the answer was right: ANLS of 0.8), so that a run
that was cut off goes on and a file of rows can be fitted again with --fit. Receipts count only where the SHA-1 of
their file's name leaves 0 when divided by 3. A logistic function is fitted to answers that were given; the errors are
those of five folds over documents, by model. `refusing` says what --abstain does: the share of unanswerable
questions that are refused, by the model alone and with the bound, and the share of right answers that the bound loses.
What is found is reported, not written: the weights stand in the notebook of the confidence.
"""
import argparse
import hashlib
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'benchmarks')]

FOLDS = 5
PENALTY = .02     # on the squares of the weights, of signs in units of their spread
READ_RIGHT = .8   # ANLS from which an answer counts as right
NOWHERE = ('What is the date of birth?', 'What is the amount of the deposit?', 'What is the name of the patient?',
           'What is the passport number?')


def hashed(name) -> int:
    "A number that depends on a name alone"
    return int(hashlib.sha1(str(name).encode()).hexdigest()[:8], 16)


def questions(args) -> list:
    "(document, field, question, answers, pages) of every receipt; one without answers has none"
    from real_documents import accepted, drawn
    samples = drawn('sroie', args.sroie, args)
    out = [(s['meta']['doc_id'], s['meta']['field'], s['question'], accepted(s), s['images']) for s in samples]
    pages = {file: images for file, *_, images in out}
    out += [(file, f'nowhere {i}', q, [], images) for file, images in pages.items() for i, q in enumerate(NOWHERE)]
    return sorted(out, key=lambda row: hashed(row[0]))


def asked(client, question, answers, pages) -> dict:
    "One question: is the answer right, and what do its tokens tell?"
    from cosee.eval.metrics import anls
    from cosee.budgets import DIRECT
    from cosee.models.client import page_request
    from cosee.utils.json_scan import read_answer
    from cosee.models.text_prompts import answer_signs
    from cosee.utils.text import abstains
    asked = page_request(list(pages), question, settings=dict(max_new_tokens=128)).but(**DIRECT._asdict())
    reply = client.respond(asked)
    said = read_answer(reply.text)
    refused = abstains(said['answer'])
    signs = None if refused else answer_signs(reply.logprobs, said['page'] is not None)
    return dict(answerable=bool(answers), refused=refused, signs=signs and list(signs),
                right=bool(answers) and not refused and anls(said['answer'], answers) >= READ_RIGHT)


def rows(args) -> list:
    "A row for each model and question; those of --rows are not asked again"
    from tqdm import tqdm
    from cosee.models.text_client import TextClient
    from cosee.models.gguf_client import GgufClient
    from cosee.text.ocr import TextExtractor
    found, words = kept(args.rows), TextExtractor(cache=args.cache or True, workers=1)
    done = {(r['model'], r['file'], r['field']) for r in found}
    for path in [] if args.fit else args.gguf:
        llm = GgufClient(str(path), threads=1, context=8192)
        client = TextClient(llm, words=words, abstain=0.)
        for file, field, question, answers, pages in tqdm(questions(args), desc=path.stem, disable=None):
            if (path.stem, file, field) in done: continue
            row = dict(model=path.stem, file=file, field=field, **asked(client, question, answers, pages))
            found.append(row)
            if args.rows:
                with args.rows.open('a', encoding='utf-8') as f: f.write(json.dumps(row) + '\n')
    return found


def kept(path) -> list:
    "Rows of a run before"
    if not path or not path.exists(): return []
    return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]


def fitted(signs, right):
    "Weights of a logistic function: a constant, and one for each sign"
    import numpy as np
    middle, spread = signs.mean(0), signs.std(0) + 1e-9
    z = np.c_[np.ones(len(signs)), (signs - middle) / spread]
    w, ridge = np.zeros(z.shape[1]), np.diag([1e-9, *[PENALTY] * signs.shape[1]])
    for _ in range(50):
        p = 1 / (1 + np.exp(-z @ w))
        slope = z.T @ (p - right) / len(right) + ridge @ w
        w -= np.linalg.solve((z * (p * (1 - p))[:, None]).T @ z / len(right) + ridge, slope)
    own = w[1:] / spread
    return np.r_[w[0] - (own * middle).sum(), own]


def predicted(weights, signs):
    "How likely answers are right"
    import numpy as np
    return 1 / (1 + np.exp(-(weights[0] + signs @ weights[1:])))


def held_out(signs, right, files):
    "The confidence of each answer, by weights that have not seen its document"
    import numpy as np
    fold, out = np.array([hashed(f'fold {f}') % FOLDS for f in files]), np.zeros(len(right))
    for i in set(fold): out[fold == i] = predicted(fitted(signs[fold != i], right[fold != i]), signs[fold == i])
    return out


def reliability(sure, right) -> dict:
    "Stated confidence against truth"
    from cosee.eval.statistics import expected_calibration_error
    bins = [[i for i, p in enumerate(sure) if min(4, int(p * 5)) == b] for b in range(5)]
    table = [dict(n=len(b), confidence=round(float(sure[b].mean()), 3), right=round(float(right[b].mean()), 3))
             for b in bins if b]
    ece = expected_calibration_error(sure, right) if len(right) else math.nan
    return dict(answers=len(right), right=round(float(right.mean()), 3), ece=round(ece, 3), reliability=table)


def refusing(rows, sure, bound) -> dict:
    "What a bound does; `sure` is the confidence of each row, None where the model refused itself"
    nowhere = [(r, p) for r, p in zip(rows, sure, strict=True) if not r['answerable']]
    right = [p for r, p in zip(rows, sure, strict=True) if r['right']]
    return dict(unanswerable=len(nowhere), by_itself=sum(r['refused'] for r, _ in nowhere),
                with_bound=sum(p is None or bool(p < bound) for _, p in nowhere), right=len(right),
                lost=sum(bool(p < bound) for p in right))


def results(args) -> dict:
    "Weights, and what they are worth"
    import numpy as np
    found = rows(args)
    given = [r for r in found if r['signs']]
    signs, right = np.array([r['signs'] for r in given]), np.array([float(r['right']) for r in given])
    sure = held_out(signs, right, [r['file'] for r in given])
    by_row = dict(zip(map(id, given), sure, strict=True))
    models = {}
    for name in sorted({r['model'] for r in found}):
        mine = [r for r in found if r['model'] == name]
        at = np.array([r['model'] == name for r in given])
        models[name] = dict(documents=len({r['file'] for r in mine}), **reliability(sure[at], right[at]),
                            refusing=refusing(mine, [by_row.get(id(r)) for r in mine], args.abstain))
    return dict(weights=[round(float(w), 2) for w in fitted(signs, right)], abstain=args.abstain,
                all=reliability(sure, right), models=models)


def arguments():
    "What can be said on the command line"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--sroie', type=Path, help='folder with img and key')
    p.add_argument('--gguf', type=Path, action='append', default=[], help='a model; more than once for several')
    p.add_argument('--limit', type=int, default=16, help='most receipts')
    p.add_argument('--cache', default=None, help='folder that keeps what was read')
    p.add_argument('--rows', type=Path, default=None, help='file of single rows, to go on with')
    p.add_argument('--fit', action='store_true', help='fit what is in --rows, and ask nothing')
    p.add_argument('--abstain', type=float, default=.25, help='the bound')
    p.add_argument('--out', type=Path, default=None, help='write the results to this file')
    args = p.parse_args()
    args.third, args.fields, args.answerable, args.questions = '0', [], False, None
    return args


def main():
    args = arguments()
    found = results(args)
    if args.out: args.out.write_text(json.dumps(found, indent=1) + '\n', encoding='utf-8')
    print(json.dumps(found))


if __name__ == '__main__': main()
