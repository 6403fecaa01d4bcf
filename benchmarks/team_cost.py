"""What a team costs before and after teams learned to answer always: CPU-seconds, tokens and right answers.

    python benchmarks/team_cost.py --before DIR    a table, written to results/team_cost.json

DIR is a checkout of this project from before ("Keep back what an answer costs" is the first commit after it). Both
checkouts answer the same questions about small made documents with the tiny model. Each method is a process of its
own on one thread, and checkouts take turns. `cpu_s` is the CPU time of the whole process as its parent is told it,
`loading_s` the part before the first question; each is the mean of all rounds, `cpu_low` and `cpu_high` its ends.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILE = Path(__file__).parent / "results" / "team_cost.json"
QUESTIONS, ROUNDS = 60, 2
METHODS = [dict(name="direct", type="direct"),
           *(dict(name=f"{name}@{calls:g}", budget=dict(calls=calls), **settings) for name, calls, settings in (
               ("team", 1.5, dict(type="cosee")), ("team", 3, dict(type="cosee")),
               ("parallel", 3, dict(type="cosee", order="parallel")), ("tools", 3, dict(type="cosee_tools")),
               ("team", 9, dict(type="cosee"))))]


def answer(method, folder, questions):
    "Ask with one method in this process: what is counted of its answers. An empty answer is never right."
    from cosee.experiments import run_experiment
    from cosee.models.registry import make_client
    from cosee.runs.config import make_config
    client = make_client("tiny")
    loaded = time.process_time()
    data = dict(name="small", limit=questions, options=dict(per_doc=2))
    config = make_config(dict(dataset=data, client="tiny", methods=[method], seed=11))
    rows = list(run_experiment(config, folder, client=client))
    failed = [f"{r['sample']}: {r['error']}" for r in rows if r["status"] != "ok"]
    assert not failed, failed[:3]
    return dict(questions=len(rows), tokens=sum(r["usage"]["total_tokens"] for r in rows),
                calls=sum(r["usage"]["calls"] for r in rows),
                right=sum(bool(r["answer"] and r["right"]) for r in rows), empty=sum(not r["answer"] for r in rows),
                loading_s=loaded)


def measure(checkout, method, folder, questions):
    "Ask with a checkout in a process of its own: what `answer` counts, and the CPU time of the process."
    fixed = dict(PYTHONPATH=str(checkout), OMP_NUM_THREADS="1", COSEE_CACHE="off", TQDM_DISABLE="1")
    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
    before = spent()
    argv = [sys.executable, __file__, "--child", json.dumps(method), str(folder), str(questions)]
    r = subprocess.run(argv, capture_output=True, text=True, env=os.environ | fixed, cwd=checkout)
    if r.returncode: raise SystemExit(r.stderr[-3000:])
    return json.loads(r.stdout.splitlines()[-1]) | dict(cpu_s=spent() - before)


def summarize(when, method, rounds):
    "One row of all rounds; what is counted has to be the same in each."
    times = "cpu_s", "loading_s"
    counted = [{k: v for k, v in found.items() if k not in times} for found in rounds]
    assert all(c == counted[0] for c in counted), (when, method["name"], counted)
    means = {k: round(sum(found[k] for found in rounds) / len(rounds), 2) for k in times}
    cpu = [found["cpu_s"] for found in rounds]
    return dict(when=when, method=method["name"], **counted[0], **means, cpu_low=round(min(cpu), 2),
                cpu_high=round(max(cpu), 2), rounds=len(rounds))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--before", type=Path, metavar="DIR", help="a checkout from before")
    p.add_argument("--questions", type=int, default=QUESTIONS)
    p.add_argument("--rounds", type=int, default=ROUNDS)
    names = [method["name"] for method in METHODS]
    p.add_argument("--methods", nargs="*", choices=names, default=names, help="default: all")
    p.add_argument("--out", type=Path, default=FILE)
    p.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        method, folder, questions = args.child
        return print(json.dumps(answer(json.loads(method), folder, int(questions))))
    if not args.before or not (args.before / "cosee").is_dir():
        p.error("--before: name a checkout of this project, with a folder cosee")
    from processor import machine
    checkouts = dict(before=args.before.resolve(), now=Path(__file__).parents[1].resolve())
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for checkout in checkouts.values():   # so that code is compiled and files are at hand
            measure(checkout, METHODS[0], Path(scratch) / f"first-{checkout.name}", 1)
        for method in (m for m in METHODS if m["name"] in args.methods):
            found = {when: [] for when in checkouts}
            for i in range(args.rounds):
                for when, checkout in checkouts.items():
                    folder = Path(scratch) / f"{when}-{method['name']}-{i}"
                    found[when].append(measure(checkout, method, folder, args.questions))
            for when, rounds in found.items():
                rows.append(summarize(when, method, rounds))
                print(json.dumps(rows[-1]), flush=True)
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    args.out.write_text(f'{{"machine": {json.dumps(machine())},\n "rows": [\n{lines}\n ]}}\n')


if __name__ == "__main__": main()
