"""Does a model know whether its answer is right, if it is asked about it, and does a second reader? Fits confidences:
those of the methods `checked`, `seconded` and `cascade`.

    python benchmarks/calibrate_check.py --config CONFIG.yaml --root DATA --gguf model.gguf \\
        --split dev --shard 1/2 --rows rows.jsonl
    python benchmarks/calibrate_check.py --rows rows.jsonl --out calibrate_check.json

The first command asks: each question once, as the method `direct` does, and each answer that is given is asked about
twice, in the same conversation: as `checked` does (right, or missing?), and whether the pages say so (yes, or no?).
The rule-based reader answers from the same pages. A run that was cut off goes on, and shards may share a file. The
second one fits, for each method: a logistic function of confidence, log odds and the confidence of the reader that
says the same, and for each bound what it leaves, by weights that have seen the question and by weights that have not.
What is found is reported, not written: the weights stand in the notebook of the confidence, and the bounds in that of
the methods. Questions that no rule was chosen on do not belong here: --split fresh is refused.
"""
import argparse
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / 'benchmarks')]

STATED = ('Now check that answer. Do the pages above say, for exactly what the question asks, that this is the '
          'answer? Reply with yes or no.')
RIDGE = .01   # on the squares of the weights
BOUNDS = .05, .1, .15, .2, .25, .3, .35, .4
SIGNS = dict(checked=('confidence', 'check'), seconded=('confidence', 'agreeing'),
             cascade=('confidence', 'agreeing', 'check'))


def yes_or_no(reply) -> float:
    "Log odds of a yes at the start of a reply"
    top = [(t.strip(' "').casefold(), math.exp(p)) for t, p in reply.logprobs[0]['top'].items()]
    yes, no = (max(1e-6, sum(p for t, p in top if t == word)) for word in ('yes', 'no'))
    return math.log(yes / no)


def is_right(answer, sample) -> bool:
    "As the data set of the question judges"
    from cosee.eval.metrics import score_many
    meta = sample['meta']
    context = {k: meta[k] for k in ('answer_format', 'answer_type', 'dataset') if meta.get(k) is not None}
    context['question'] = sample['question']
    return bool(score_many([answer], [sample['answer']], 'right', 'own', [context])[0])


def by_rules(task, sample, said) -> dict:
    "What the rule-based reader says of a question to which a model has said something"
    from cosee.cascade import read_by_rules
    from cosee.utils.text import same_answer
    rules = read_by_rules(task.pages, task.question, task.client.words)
    return dict(reader=rules and rules['confidence'], reader_right=bool(rules) and is_right(rules['answer'], sample),
                agreeing=rules["confidence"] or 0. if rules and same_answer(rules["answer"], said) else 0.)


def asked(client, sample) -> dict:
    "One question: its answer, and what the model and the rule-based reader say of it"
    from cosee.budgets import Task
    from cosee.agents import DIRECT_TOKENS, PLAIN_GEN
    from cosee.budgets import DIRECT
    from cosee.utils.json_scan import read_answer
    from cosee.models.text_prompts import CHECK_PROMPT, p_true_logit
    from cosee.utils.text import abstains
    meta = sample['meta']
    task = Task(sample['images'], sample['question'], client, seed=11, meta=meta).look(dict(type='top', k=2))
    reply = task.ask(DIRECT, max_new_tokens=DIRECT_TOKENS, **PLAIN_GEN)[0].text
    read = read_answer(reply)
    given = bool(read['answer']) and not abstains(read['answer'])
    row = dict(id=meta['id'], kind=meta['kind'], answerable=bool(meta.get('answerable', True)), given=given,
               right=is_right(read['answer'], sample), printed=read['page'] is not None,
               confidence=read['confidence'], **by_rules(task, sample, read['answer']))
    if not given: return dict(row, check=None, stated=None)
    check, stated = (task.ask_back(DIRECT, reply, back, max_new_tokens=1, **PLAIN_GEN)
                     for back in (CHECK_PROMPT, STATED))
    odds = p_true_logit(check.text, check.logprobs)
    return dict(row, check=odds and round(odds, 3), stated=round(yes_or_no(stated), 3))


def kept(path) -> list:
    "Rows of a run before, or of published results"
    if not path.exists(): return []
    text = path.read_text(encoding='utf-8')
    return json.loads(text)['rows'] if path.suffix == '.json' else [json.loads(line) for line in text.splitlines()]


def rows(args) -> list:
    "A row for each question; those of --rows are not asked again"
    from tqdm import tqdm
    from cosee.models.text_client import TextClient
    from cosee.models.gguf_client import GgufClient
    from cosee.runs.config import read_config
    from cosee.runs.record import samples_of
    found = kept(args.rows)
    if not args.config: return found
    done, (i, n) = {r['id'] for r in found}, map(int, args.shard.split('/'))
    data = read_config(args.config).dataset.model_copy(update=dict(split=args.split, root=str(args.root)))
    client = TextClient(GgufClient(str(args.gguf), threads=1, context=8192), page_tokens=400)
    for _, sample in tqdm(list(samples_of(data))[i - 1::n], desc=args.gguf.stem, disable=None):
        if sample['meta']['id'] in done: continue
        found.append(asked(client, sample))
        with args.rows.open('a', encoding='utf-8') as f: f.write(json.dumps(found[-1]) + '\n')
    return found


def fitted(signs, right):
    "Weights of a logistic function: a constant, and one for each sign"
    import numpy as np
    from calibrate_print import predicted
    z, w = np.c_[np.ones(len(signs)), signs], np.zeros(signs.shape[1] + 1)
    ridge = np.diag([0., *[RIDGE] * signs.shape[1]])
    for _ in range(100):
        p = predicted(w, signs)
        w -= np.linalg.solve((z * (p * (1 - p))[:, None]).T @ z + ridge, z.T @ (p - right) + ridge @ w)
    return w


def left_by(rows, sure, bound, reads=False) -> dict:
    """What a bound leaves of answers; `sure` is what each is worth by its id. With `reads`, the rule-based reader
    answers where it is sure."""
    from cosee.cascade import RULES_SUFFICE
    told = [r for r in rows if reads and (r["reader"] or 0.) >= RULES_SUFFICE]
    first = {r['id'] for r in told}
    given = [r for r in rows if r['given'] and r['id'] not in first and sure.get(r['id'], 0.) >= bound]
    none = [r for r in rows if not r['answerable']]
    right = sum(r['right'] for r in given) + sum(r['reader_right'] and r['answerable'] for r in told)
    return dict(bound=bound, given=len(given) + len(told), right=right, wrong=len(given) + len(told) - right,
                none_said=len(none) - sum(not r['answerable'] for r in [*given, *told]))


def rated(rows, method) -> dict:
    "The weights of a method's signs, and what they are worth"
    import numpy as np
    from calibrate_print import predicted
    from cosee.eval.statistics import area_under_roc
    given = [r for r in rows if r['given'] and r['confidence'] is not None and r['check'] is not None]
    signs = np.array([[r[s] for s in SIGNS[method]] for r in given])
    right, ids = np.array([float(r['right']) for r in given]), [r['id'] for r in given]
    weights, others = fitted(signs, right), ~np.eye(len(given), dtype=bool)
    seen = dict(zip(ids, map(float, predicted(weights, signs)), strict=True))
    unseen = {r: float(predicted(fitted(signs[o], right[o]), signs[i]))
              for i, (r, o) in enumerate(zip(ids, others, strict=True))}
    def area(of): return round(area_under_roc(list(of.values()), right), 3)
    def bounds(of): return [left_by(rows, of, b, 'agreeing' in SIGNS[method]) for b in BOUNDS]
    return dict(weights=[round(float(w), 2) for w in weights], seen=bounds(seen), unseen=bounds(unseen),
                areas=dict(seen=area(seen), unseen=area(unseen)))


def results(rows) -> dict:
    "What single signs are worth, and what methods make of them"
    from cosee.eval.statistics import area_under_roc
    given = [r for r in rows if r['given'] and r['confidence'] is not None and r['check'] is not None]
    def area(sign):
        low, high = min(r[sign] for r in given), max(r[sign] for r in given)
        return round(area_under_roc([(r[sign] - low) / (high - low) for r in given], [r['right'] for r in given]), 3)
    return dict(questions=len(rows), unanswerable=sum(not r['answerable'] for r in rows),
                areas={s: area(s) for s in ('confidence', 'check', 'stated', 'agreeing')},
                everything=left_by(rows, {r['id']: 1. for r in given}, 0),
                methods={m: rated(rows, m) for m in SIGNS}, rows=rows)


def arguments():
    "What can be said on the command line"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--config', type=Path, default=None, help='whose questions are asked; without it, --rows is fitted')
    p.add_argument('--root', type=Path, default=None, help='folder of the documents')
    p.add_argument('--gguf', type=Path, default=None, help='the model')
    p.add_argument('--split', choices=('dev',), default='dev', help='of the documents')
    p.add_argument('--shard', default='1/1', help='every so-manieth question, as 1/2')
    p.add_argument('--rows', type=Path, required=True,
                   help='file of single rows, to go on with or to fit; or published results, to fit again')
    p.add_argument('--out', type=Path, default=None, help='write the results to this file')
    return p.parse_args()


def main():
    args = arguments()
    found = rows(args)
    if args.config: return
    told = results(sorted(found, key=lambda r: r['id']))
    if args.out: args.out.write_text(json.dumps(told) + '\n', encoding='utf-8')
    print(json.dumps({k: v for k, v in told.items() if k != 'rows'}, indent=1))


if __name__ == '__main__': main()
