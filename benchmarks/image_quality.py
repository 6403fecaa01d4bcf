"""Does the measured image quality name the distortion that was put in, and put its strengths in order?

Pages of made documents, one distortion at a time in four strengths:
    python benchmarks/image_quality.py --pages 25 --json benchmarks/results/image_quality.json
"""
import argparse
import json
import random
import time
from collections import Counter
from itertools import pairwise

from cosee.datasets.synthetic.kinds import DOCUMENT_TYPES
from cosee.datasets.synthetic.document import make_document, render, scan
from cosee.planner.quality import FINDINGS, image_quality, quality_findings

# distortion -> (measure, argument of `scan`, from weak to strong)
STRENGTHS = {"blur": ("sharpness", "blur", (1, 1.5, 2.2, 3.2)),
             "noise": ("noise", "noise", (0.03, 0.06, 0.11, 0.18)),
             "darkness": ("brightness", "paper", (190, 150, 100, 60)),
             "compression": ("blockiness", "jpeg", (20, 13, 8, 4)),
             "skew": ("skew", "rotate", (1.5, 2.5, 4, 6))}


class Turn(random.Random):
    "Turns a page by the whole angle, one way or the other."

    def uniform(self, low, high):
        return self.choice((low, high))


def page(n, seed=0, style="dev", dpi=100):
    "A page of a made document, another for each `n`."
    names = list(DOCUMENT_TYPES)
    doc = make_document(names[n % len(names)], seed=1000 * seed + n, style=style)
    return render(doc, dpi, [random.Random(n).randint(1, doc.pages)])[0]


def cases(clean, n=0):
    "(distortion, strength from 1, image) of a page."
    for name, (_, argument, strengths) in STRENGTHS.items():
        for level, value in enumerate(strengths, 1):
            yield name, level, scan(clean, Turn(n), **{argument: value})


def judge(clean, n=0):
    "Outcome of every case of a page, and whether each distortion's strengths came out in order."
    found, at = [], {name: [] for name in STRENGTHS}
    plain = image_quality(clean)
    for name, level, image in cases(clean, n):
        measures = image_quality(image)
        named = [f["distortion"] for f in quality_findings(measures) if f["distortion"] != "small print"][:1]
        found.append(dict(distortion=name, strength=level, named=named[0] if named else None))
        at[name].append(measures[STRENGTHS[name][0]])
    ordered = {}
    for name, values in at.items():
        measure = STRENGTHS[name][0]
        values = [abs(v) for v in [plain[measure], *values]]
        worse = (lambda a, b: b > a) if FINDINGS[measure][2] > FINDINGS[measure][1] else (lambda a, b: b < a)
        ordered[name] = all(worse(a, b) for a, b in pairwise(values))
    false = [f["distortion"] for f in quality_findings(plain) if f["distortion"] != "small print"]
    return found, ordered, false


def run(pages, seed=0, style="dev"):
    "The whole experiment as a dict."
    start, rows, ordered, false = time.perf_counter(), [], Counter(), []
    for n in range(pages):
        found, order, alarms = judge(page(n, seed, style), n)
        rows += found
        ordered.update(name for name, ok in order.items() if ok)
        false += alarms
    right = Counter(r["distortion"] for r in rows if r["named"] == r["distortion"])
    missed = [r for r in rows if r["named"] != r["distortion"]]
    wrong = Counter(f"{r['distortion']} {r['strength']} as {r['named']}" for r in missed)
    each = len(rows) // len(STRENGTHS)
    hits = sum(right.values())
    return dict(pages=pages, cases=len(rows), style=style, named_right=hits, named=round(hits / len(rows), 4),
                by_distortion={k: f"{right[k]}/{each}" for k in STRENGTHS},
                in_order={k: f"{ordered[k]}/{pages}" for k in STRENGTHS},
                wrong=dict(wrong.most_common()), false_alarms=dict(Counter(false)), clean_pages=pages,
                seconds_per_image=round((time.perf_counter() - start) / (len(rows) + pages), 3))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pages", type=int, default=25, help="pages; each gives 20 cases (default: 25)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--style", choices=("dev", "held_out"), default="held_out",
                   help="of the made documents (default: held_out)")
    p.add_argument("--json", metavar="FILE", help="write the result here")
    args = p.parse_args()
    out = json.dumps(run(args.pages, args.seed, args.style), indent=2)
    print(out)
    if args.json:
        with open(args.json, "w") as f:
            f.write(out + "\n")


if __name__ == "__main__":
    main()
