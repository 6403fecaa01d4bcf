"""How fast answers are scored: ANLS (rrc) of a million pairs, against a plain Python version on the same pairs.

    python benchmarks/scoring.py               # a table
    python benchmarks/scoring.py --json        # one JSON object
    python benchmarks/scoring.py --part 1000000  # the plain version on every pair, which takes a minute

The plain version does what the official script does: it normalises both texts for each pair and fills the Levenshtein
table in Python. It is timed on a random part of the pairs (--part) and its time scaled to all of them; the scores of
that part have to be equal. Times are CPU seconds of one process, medians of --repeat runs.
The command ends with 1 if any score differs.

    python benchmarks/scoring.py --official FOLDER   # against the official code, on --pairs pairs of each data set

FOLDER holds whatever there is of DUDE's evaluate_submission.py, MMLongBench-Doc's eval_score.py, ChartQAPro's
evaluate_predictions.py, DocVQA-2026's eval_utils.py, metrics.py of the MP-DocVQA framework, and the packages
anls_star, munkres (1.1.4), anls, Levenshtein and editdistance. Random answers are put into records, as a
run keeps them, and into the official code in the form in which a submission holds them: what is compared is the whole
way from an answer to its figure. What is not in FOLDER is left out, and the result says so.
"""
import argparse, contextlib, importlib, io, json, logging, platform, random, statistics, string, sys, time, types
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def answers(rng: random.Random, n: int) -> list:
    "Gold answers like those of document questions: numbers, amounts, dates, names, phrases"
    words = [''.join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 10))) for _ in range(5000)]
    months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October',
              'November', 'December']
    kinds = [lambda: str(rng.randint(0, 5000)), lambda: f'${rng.randint(1, 10**7) / 100:,.2f}',
             lambda: f'{rng.randint(0, 1000) / 10}%',
             lambda: f'{rng.choice(months)} {rng.randint(1, 28)}, {rng.randint(1950, 2026)}',
             lambda: ' '.join(rng.choices(words, k=2)).title(),
             lambda: ' '.join(rng.choices(words, k=rng.randint(1, 4))),
             lambda: ' '.join(rng.choices(words, k=rng.randint(5, 9))).capitalize(), lambda: rng.choice(words).upper()]
    return [rng.choice(kinds)() for _ in range(n)]


def predictions(rng: random.Random, golds: list) -> list:
    "What a model may say: right (40 %), other case or space, slips of a few letters, framed, something else, nothing"
    def slip(text):
        letters = list(text)
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(letters) + 1)
            letters[i:i + rng.randint(0, 1)] = rng.choice(['', 'e', 'x', '1', '.', ' '])
        return ''.join(letters)
    ways = [lambda g: g, lambda g: g.upper(), lambda g: f' {g}  ', slip, slip, lambda g: f'{g}.',
            lambda g: f'It is {g}.',
            lambda g: rng.choice(golds), lambda g: rng.choice(golds),
            lambda g: rng.choice(['', 'not answerable', 'straße', '北京'])]
    return [rng.choice(ways)(g) if rng.random() < .6 else g for g in golds]


def plain_distance(a: str, b: str) -> int:
    "Levenshtein distance by the textbook's table, a row at a time"
    if len(a) > len(b): a, b = b, a
    above = list(range(len(a) + 1))
    for j, y in enumerate(b, 1):
        row = [j]
        for i, x in enumerate(a):
            row.append(above[i] if x == y else 1 + min(above[i], above[i + 1], row[i]))
        above = row
    return above[-1]


def plain_anls(pred: str, gold: str, threshold: float = 0.5) -> float:
    "ANLS of one pair, by the rules of the RRC"
    length = max(len(pred.upper()), len(gold.upper()))
    edits = plain_distance(' '.join(pred.strip().lower().split()), ' '.join(gold.strip().lower().split()))
    similarity = 1 - (edits / length if length else 0.0)
    return similarity if similarity >= threshold else 0.0


def timed(f, repeat: int) -> tuple:
    "Result of `f` and the median of its CPU times"
    spent = []
    for _ in range(repeat):
        start = time.process_time()
        result = f()
        spent.append(time.process_time() - start)
    return result, statistics.median(spent)


def run(args) -> dict:
    from cosee.eval.metrics import anls_many
    from cosee.models.checkpoint import processor_name
    rng = random.Random(args.seed)
    golds = answers(rng, args.pairs)
    preds = predictions(rng, golds)
    part = rng.sample(range(args.pairs), min(args.part, args.pairs))
    anls_many(preds[:1000], golds[:1000])  # loads the libraries
    fast, fast_time = timed(lambda: anls_many(preds, golds), args.repeat)
    slow, slow_time = timed(lambda: [plain_anls(preds[i], golds[i]) for i in part],
                            1 if len(part) > 10**5 else args.repeat)
    scaled = slow_time * args.pairs / len(part)
    return dict(pairs=args.pairs, mean_anls=round(float(fast.mean()), 4), fast_cpu_seconds=round(fast_time, 3),
                plain_part=len(part), plain_cpu_seconds=round(slow_time, 3), plain_cpu_seconds_scaled=round(scaled, 2),
                ratio=round(scaled / fast_time, 1),
                different_scores=sum(s != f for s, f in zip(slow, fast[part].tolist(), strict=True)),
                seed=args.seed, python=platform.python_version(), processor=processor_name())


# --- against the official code ---

LISTS = (lambda rng, g: json.dumps(g), lambda rng, g: str(g), lambda rng, g: json.dumps(rng.sample(g, len(g))),
         lambda rng, g: json.dumps([*g, 'x']), lambda rng, g: json.dumps(g[1:] or g), lambda rng, g: g[0])
NONE = ('not answerable', 'Not answerable.', '', 'unanswerable', 'The question cannot be answered.', 'not available')


def said(rng: random.Random, gold: list) -> str:
    "What may be answered where `gold` is accepted"
    if rng.random() < .15: return rng.choice(NONE)
    return rng.choice(LISTS)(rng, gold) if len(gold) > 1 else predictions(rng, gold)[0]


def own_scores(flavour: str, metric: str, rows: list) -> list:
    "Scores as a run has them, of rows (gold, answer, meta)"
    from cosee.runs.table import score_records
    records = [dict(sample=str(i), method='m', question='Which?', gold=gold, answer=answer, meta=meta)
               for i, (gold, answer, meta) in enumerate(rows)]
    return list(score_records(records, {metric: flavour})['m'][metric])


def against_dude(rng: random.Random, n: int) -> list:
    "Pairs (ours, official) of DUDE: single answers, lists and questions without an answer"
    sys.modules.setdefault('evaluate', types.ModuleType('evaluate'))   # of its calibration only
    official = importlib.import_module('evaluate_submission')
    from cosee.datasets.submissions import FORMS
    rows, pool = [], answers(rng, 2000)
    for _ in range(n):
        kind = rng.choice(['extractive', 'abstractive', 'list/extractive', 'not-answerable'])
        gold = rng.sample(pool, rng.randint(2, 4) if 'list' in kind else rng.randint(1, 2))
        known = ['not answerable'] if kind == 'not-answerable' else gold
        rows.append((known, said(rng, gold), dict(answer_type=kind)))
    theirs = [dict(questionId=str(i), question='', answers=[''] if 'not' in m['answer_type'] else g, **m)
              for i, (g, _, m) in enumerate(rows)]
    handed = [FORMS['dude'].write(dict(id=str(i), answer=a)) for i, (_, a, _) in enumerate(rows)]
    how = argparse.Namespace(anls_threshold=.5, answer_types=False, score_calibration=False)
    found = official.evaluate_method(dict(data=theirs), handed, how)['per_sample_result']
    return list(zip(own_scores('dude', 'anls', rows), (found[str(i)]['anls'] for i in range(n)), strict=True))


def against_mmlongbench(rng: random.Random, n: int) -> list:
    "Pairs (ours, official) of MMLongBench-Doc in all its formats"
    official = importlib.import_module('eval_score')
    from cosee.datasets.submissions import official_prediction
    rows, pool = [], answers(rng, 2000)
    for _ in range(n):
        kind = rng.choice(['Str', 'Int', 'Float', 'List', 'None'])
        several = rng.sample(pool, rng.randint(2, 4))
        gold = dict(Str=several[0], Int=str(rng.randint(0, 99)), Float=f'{rng.randint(0, 9999) / 100}%',
                    List=str(several)).get(kind, 'Not answerable')
        rows.append(([gold], said(rng, several if kind == 'List' else [gold]), dict(answer_format=kind)))
    def score(gold, answer, kind):
        try: return official.eval_score(gold, official_prediction('mmlongbench', answer), kind)
        except Exception: return 0.   # as its run_api.py does
    with contextlib.redirect_stdout(io.StringIO()): theirs = [score(g[0], a, m['answer_format']) for g, a, m in rows]
    return list(zip(own_scores('mmlongbench', 'accuracy', rows), theirs, strict=True))


def against_chartqapro(rng: random.Random, n: int) -> list:
    "Pairs (ours, official) of ChartQAPro with years, lists and conversations"
    official = importlib.import_module('evaluate_predictions')
    from cosee.datasets.benchmarks import year_flags
    from cosee.datasets.submissions import official_prediction
    rows, theirs, pool = [], [], [str(rng.choice([rng.randint(1950, 2026), rng.randint(0, 99), w]))
                                  for w in answers(rng, 2000) if not set(w) & set('[]\'"\\')]
    for _ in range(n):
        several = rng.sample(pool, rng.choice([1, 1, 2, 3]))
        gold = str(several) if len(several) > 1 else rng.choice([several[0], 'Unanswerable'])
        row = {'Answer': [gold], 'Question Type': rng.choice(['Factoid', 'Conversational']),
               'Year': [rng.choice(['YES', 'NO']) for _ in several]}
        answer = said(rng, several)
        rows.append(([gold], answer, dict(year_flag=year_flags(row, 'row'))))
        handed = {**row, 'prediction': official_prediction('chartqapro', answer)}
        theirs.append(official.evaluate_predictions_chartqapro([handed])['Overall'])
    return list(zip(own_scores('chartqapro', 'accuracy', rows), theirs, strict=True))


WRITTEN = (lambda d: d.isoformat(), lambda d: f'{d:%d %B %Y}', lambda d: f'{d:%B} {d.day}, {d.year}',
           lambda d: f'{d:%m/%d/%Y}', lambda d: f'{d:%b} {d.year}')
UNITS = ('', '%', ' %', ' kg', 'kg', ' USD', ' m', ' kilograms')


def value_2026(rng: random.Random) -> str:
    "A date, a quantity, a version or a text, of few kinds, so that many come near one another"
    kind = rng.random()
    if kind < .3: return rng.choice(WRITTEN)(date(rng.randint(2019, 2021), rng.randint(1, 3), rng.randint(1, 12)))
    if kind < .6: return f"{rng.randint(-20, 20)}{rng.choice(['', '.0', '.5'])}{rng.choice(UNITS)}"
    if kind < .65: return f'{rng.randint(1, 2)}.{rng.randint(0, 2)}.{rng.randint(0, 9)}'
    return answers(rng, 1)[0]


def against_docvqa2026(rng: random.Random, n: int) -> list:
    "Pairs (ours, official) of DocVQA-2026 with dates, quantities, versions, texts and several gold answers"
    official = importlib.import_module('eval_utils')
    from cosee.datasets.submissions import official_golds, official_prediction
    rows, theirs, pool = [], [], [value_2026(rng) for _ in range(2000)]
    for _ in range(n):
        golds = rng.sample(pool, rng.choice([1, 1, 1, 2])) if rng.random() < .9 else ['not answerable']
        answer = rng.choice([said(rng, [rng.choice(golds)]), rng.choice(golds), rng.choice(pool), value_2026(rng)])
        gold = official_golds('docvqa2026', golds)
        rows.append((golds, answer, {}))
        right, _ = official.evaluate_docvqa_prediction(official_prediction('docvqa2026', answer),
                                                       str(gold) if len(gold) > 1 else gold[0])
        theirs.append(float(right))
    return list(zip(own_scores('docvqa2026', 'accuracy', rows), theirs, strict=True))


def against_mpdocvqa(rng: random.Random, n: int) -> list:
    "Pairs (ours, official) of MP-DocVQA's framework: ANLS of single answers with alternatives"
    official = importlib.import_module('metrics').Evaluator()
    pool = answers(rng, 2000)
    rows = []
    for _ in range(n):
        golds = rng.sample(pool, rng.randint(1, 3))
        rows.append((golds, rng.choice(['none', 'None ', said(rng, [rng.choice(golds)])]), {}))
    theirs = official.get_metrics([g for g, _, _ in rows], [a for _, a, _ in rows])['anls']
    return list(zip(own_scores('mpdocvqa', 'anls', rows), theirs, strict=True))


def tree(rng: random.Random, depth: int, gold: bool):
    "A random tree of texts, numbers, lists, dicts and, in gold answers, alternatives; few words, so that many tie"
    kind = rng.random() if depth else 0
    if kind < .4: return rng.choice(['a', 'b', 'ab', 'abc', 'xyz', 'hello', 'hallo', '12', '', ' A ', None, 1, 2.5])
    if kind < .7: return [tree(rng, depth - 1, gold) for _ in range(rng.randint(0, 4))]
    if kind < .8 and gold: return tuple(tree(rng, depth - 1, gold) for _ in range(rng.randint(1, 3)))
    return {rng.choice('pqrs'): tree(rng, depth - 1, gold) for _ in range(rng.randint(0, 3))}


def changed(rng: random.Random, gold):
    "What may be answered where a tree is accepted: other order, members left out, other words"
    if isinstance(gold, tuple): return changed(rng, rng.choice(gold))
    if isinstance(gold, list): return [changed(rng, g) for g in rng.sample(gold, len(gold)) if rng.random() < .9]
    if isinstance(gold, dict): return {k: changed(rng, v) for k, v in gold.items() if rng.random() < .9}
    return gold if rng.random() < .7 else rng.choice(['a', 'abd', 'help', None])


def against_anls_star(rng: random.Random, n: int) -> list:
    "Pairs (ours, official) of ANLS* on trees"
    official = importlib.import_module('anls_star')
    from cosee.eval.metrics import score
    pairs = []
    while len(pairs) < n:
        gold = tree(rng, 3, True)
        texts = isinstance(gold, list) and all(isinstance(g, str) for g in gold)   # would be alternatives
        if texts: gold = {'p': gold}
        pred = changed(rng, gold) if rng.random() < .7 else tree(rng, 3, False)
        pairs.append((score(pred, gold, 'anls_star'), official.anls_score(gold, pred)))
    return pairs


OFFICIAL = dict(dude=against_dude, mmlongbench=against_mmlongbench, chartqapro=against_chartqapro,
                docvqa2026=against_docvqa2026, mpdocvqa=against_mpdocvqa, anls_star=against_anls_star)


def compared(args) -> dict:
    "For each data set how many pairs were compared, and how many figures differ"
    sys.path.insert(0, str(Path(args.official).resolve()))
    logging.disable(logging.WARNING)   # theirs, for each list where one answer is taken
    out, total = {}, 0
    for name, pairs_of in OFFICIAL.items():
        try: pairs = pairs_of(random.Random(args.seed), args.pairs)
        except ImportError as e:
            out[name] = f'left out: {e}'
            continue
        wrong = sum(bool(abs(ours - theirs) > 1e-9) for ours, theirs in pairs)
        out[name] = f'{len(pairs):,} pairs, {wrong} differ, mean {statistics.fmean(t for _, t in pairs):.4f}'
        total += wrong
    return {**out, 'different_scores': total, 'seed': args.seed, 'python': platform.python_version()}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object instead of the table')
    p.add_argument('--pairs', type=int, default=1_000_000)
    p.add_argument('--part', type=int, default=30_000, help='pairs that the plain version is timed on')
    p.add_argument('--repeat', type=int, default=3)
    p.add_argument('--seed', type=int, default=0)
    p.add_argument('--official', metavar='FOLDER', help='compare with the official code that lies there instead')
    args = p.parse_args()
    result = compared(args) if args.official else run(args)
    if args.json: print(json.dumps(result, indent=1))
    else:
        print('\n'.join(f'{k:26} {v:>12,}' if isinstance(v, (int, float)) else f'{k:26} {v}'
                        for k, v in result.items()))
    return int(result['different_scores'] > 0)


if __name__ == '__main__': sys.exit(main())
