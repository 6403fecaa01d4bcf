"""How fast answers are scored: ANLS (rrc) of a million pairs, against a plain Python version on the same pairs.

    python benchmarks/scoring.py               # a table
    python benchmarks/scoring.py --json        # one JSON object
    python benchmarks/scoring.py --part 1000000  # the plain version on every pair, which takes a minute

The plain version does what the official script does: it normalises both texts for each pair and fills the Levenshtein
table in Python. It is timed on a random part of the pairs (--part) and its time scaled to all of them; the scores of
that part have to be equal. Times are CPU seconds of one process, medians of --repeat runs.
The command ends with 1 if any score differs.
"""
import argparse, json, platform, random, statistics, string, sys, time
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
                seed=args.seed, python=platform.python_version(), processor=processor())


def processor() -> str:
    "Name of the processor, as far as the system tells"
    try: lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError: lines = []
    return next((line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')),
                platform.processor() or platform.machine())


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object instead of the table')
    p.add_argument('--pairs', type=int, default=1_000_000)
    p.add_argument('--part', type=int, default=30_000, help='pairs that the plain version is timed on')
    p.add_argument('--repeat', type=int, default=3)
    p.add_argument('--seed', type=int, default=0)
    args = p.parse_args()
    result = run(args)
    if args.json: print(json.dumps(result, indent=1))
    else:
        print('\n'.join(f'{k:26} {v:>12,}' if isinstance(v, (int, float)) else f'{k:26} {v}'
                        for k, v in result.items()))
    return int(result['different_scores'] > 0)


if __name__ == '__main__': sys.exit(main())
