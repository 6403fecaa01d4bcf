"""What a whole run costs with a local model, one answer after the other and several about a document at once.

    python benchmarks/together.py            a table
    python benchmarks/together.py --json     one JSON object a line

Each run is a process of its own on one thread: the tiny trained checkpoint, synthetic documents of small pages, traces
written. `cpu_s` is the CPU time of the whole process, from its start: imports, weights, documents and log included;
`answering_s` is the part of it behind loading. Ways take turns, the median counts, and the records of all runs have to
be the same in every field but times.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORK = {"direct + cosee_base": ["direct", "cosee_base"],
        "self_consistency": ["self_consistency"],
        "cosee, parallel": [{"type": "cosee", "name": "parallel", "order": "parallel"}]}
WAYS = {"one": 1, "together": None}


def answer(work, way, folder, questions, per_doc):
    "One run in this process: what it cost."
    from cosee.experiments import run_experiment
    from cosee.models.registry import make_client
    from cosee.runs.config import make_config
    client = make_client("tiny")
    loaded, begin = time.process_time(), time.perf_counter()
    data = {"name": "small", "limit": questions, "options": {"per_doc": per_doc}}
    config = make_config({"dataset": data, "client": "tiny", "methods": WORK[work]})
    run = run_experiment(config, folder, client=client, together=WAYS[way])
    failed = [f"{r['sample']}, {r['method']}: {r['error']}" for r in run if r["status"] != "ok"]
    assert not failed, failed[:3]
    return dict(answers=run.status().done, documents=len(set(run.documents().values())), passes=client.passes,
                cpu_s=time.process_time(), answering_s=time.process_time() - loaded,
                wall_s=time.perf_counter() - begin)


def fresh(env, *args):
    "A run in a process of its own."
    r = subprocess.run([sys.executable, __file__, "--child", *map(str, args)], capture_output=True, text=True, env=env)
    if r.returncode: raise SystemExit(r.stderr[-3000:])
    return json.loads(r.stdout.splitlines()[-1])


def records(folder):
    "The records of a run, without times."
    from cosee.runs.log import without_times
    from cosee.runs.table import Run
    return [without_times(r) for r in Run(folder)]


def median(costs):
    "The median of each number."
    return {k: round(statistics.median(c[k] for c in costs), 2 if k.endswith("_s") else None) for k in costs[0]}


def measure(work, args, env, scratch):
    "Both ways of one piece of work, in turn."
    costs, said = {way: [] for way in WAYS}, []
    for i in range(args.runs):
        for way in WAYS:
            folder = scratch / f"{work}-{i}-{way}"
            costs[way].append(fresh(env, work, way, folder, args.questions, args.per_doc))
            said.append(records(folder))
    found = {way: median(c) for way, c in costs.items()}
    for way, cost in found.items():
        yield dict(work=work, way=way, **cost, runs=args.runs, identical=all(s == said[0] for s in said),
                   ratio=round(cost["cpu_s"] / found["one"]["cpu_s"], 3),
                   answering_ratio=round(cost["answering_s"] / found["one"]["answering_s"], 3))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="one JSON object a line")
    p.add_argument("--questions", type=int, default=60)
    p.add_argument("--per-doc", type=int, default=5, help="questions about one document")
    p.add_argument("--runs", type=int, default=3, help="runs of each way; the median counts")
    p.add_argument("--work", nargs="*", choices=WORK, default=list(WORK))
    p.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        *what, questions, per_doc = args.child
        return print(json.dumps(answer(*what, int(questions), int(per_doc))))
    with tempfile.TemporaryDirectory() as scratch:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= dict(OMP_NUM_THREADS="1", TQDM_DISABLE="1", PYTHONPYCACHEPREFIX=f"{scratch}/compiled")
        fresh(env, args.work[0], "one", f"{scratch}/first", 1, 1)   # so that all find the code compiled
        for work in args.work:
            for line in measure(work, args, env, Path(scratch)):
                print(json.dumps(line) if args.json else "  ".join(f"{k}={v}" for k, v in line.items()), flush=True)


if __name__ == "__main__": main()
