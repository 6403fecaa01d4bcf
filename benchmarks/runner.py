"""What a run costs beside the model: episodes a second through runner, ledger and log, re-scoring, memory.

    python benchmarks/runner.py            a table
    python benchmarks/runner.py --json     one JSON object a line

Episodes are of three agents and three steps, answered by a ScriptedClient that costs next to nothing; traces are
written. All times are of one process; `cpu_s` is its CPU time, which other processes on the machine do not change.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

NOTE = {"action": "INSPECT", "content": "Table of sales by region.",
        "view": {"page": 1, "bbox_2d": [100, 200, 900, 600]}, "tags": ["table"]}
GUESS = {"action": "HYPOTHESIZE", "answer": "$3.4M", "content": "The total row.", "confidence": .5,
         "supporting_cells": [1],
         "view": {"page": 1, "bbox_2d": [100, 560, 900, 600]}}
AGAIN = {"action": "REVISE", "target_cell_id": 1, "content": "The table is of costs.", "view": {"page": 1}}


def samples(n, style=""):
    "Questions on three small pages, made as they are asked for; there is one style."
    from PIL import Image
    pages = [Image.new("RGB", (64, 64), "white") for _ in range(3)]
    for i in range(n):
        yield {"images": pages, "question": f"What is value {i}?", "answer": ["$3.4M", "3.4 million"],
               "meta": {"id": f"q{i}", "doc_id": f"d{i // 5}", "evidence_pages": [1]}}


def peak_mb(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def episodes(n, trace=True):
    "A run of `n` episodes: rate, size and peak of memory."
    from collections import deque
    from cosee.datasets.registry import LOADERS, Loader
    from cosee.experiments import run_experiment
    from cosee.runs.config import make_config
    from cosee.models.testing import ScriptedClient
    LOADERS["numbered"] = Loader(samples, "questions on three small pages", splits=("dev",), kind="synthetic")
    client = ScriptedClient({"scanner": [NOTE], "detail reader": [GUESS], "cross-checker": [AGAIN]}, cycle=True)
    client.calls = deque(maxlen=1)
    method = {"type": "cosee", "name": "3x3", "max_steps": 3, "agreement": 9}
    config = make_config({"dataset": {"name": "numbered", "limit": n}, "methods": [method], "trace": trace})
    with tempfile.TemporaryDirectory() as folder:
        before, cpu = time.perf_counter(), time.process_time()
        run = run_experiment(config, folder, client=client)
        wall, cpu = time.perf_counter() - before, time.process_time() - cpu
        size = run.path.stat().st_size
        peak = peak_mb()
        status = run.status()["3x3"]
    assert status["ok"] == n and status["calls"] == 9 * n, status
    return dict(work="episodes 3x3" + ("" if trace else ", no traces"), n=n, cpu_s=round(cpu, 2),
                wall_s=round(wall, 2),
                per_cpu_s=round(n / cpu), kb_each=round(size / n / 1024, 1), peak_mb=round(peak))


def rescoring(n):
    "Reading and scoring `n` records again: ANLS, EM and F1."
    from cosee.runs.log import RunLog, write_about
    from cosee.runs.table import Run, score_records, slim
    with tempfile.TemporaryDirectory() as folder:
        write_about(folder, {"hash": "x", "methods": ["a"], "metrics": {"anls": "rrc", "em": "squad", "f1": "squad"}})
        with RunLog(folder, fsync=60) as log:
            for i in range(n):
                log.write({"sample": f"q{i}", "index": i, "method": "a", "doc": f"d{i // 5}",
                           "question": f"What is value {i}?", "gold": [f"value {i}", str(i)],
                           "status": "ok", "answer": f"value {i + i % 3}", "page": 1, "confidence": .5,
                           "usage": {"total_tokens": 900, "calls": 9},
                           "evidence": [{"page": 1, "bbox": [.1, .2, .3, .4], "content": "a note", "cell": 1}]})
        before, cpu = time.perf_counter(), time.process_time()
        scores = score_records(map(slim, Run(folder)), {"anls": "rrc", "em": "squad", "f1": "squad"})["a"]
        wall, cpu = time.perf_counter() - before, time.process_time() - cpu
    assert all(s.n == n for s in scores.values())
    return dict(work="re-scoring", n=n, cpu_s=round(cpu, 2), wall_s=round(wall, 2), per_cpu_s=round(n / cpu),
                peak_mb=round(peak_mb()))


WORK = {"episodes": episodes, "rescoring": rescoring}


def fresh(name, n):
    "One measurement in a process of its own, so that peaks of memory do not mix."
    r = subprocess.run([sys.executable, __file__, "--child", name, str(n)], capture_output=True, text=True,
                       env={**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"})
    if r.returncode: raise SystemExit(r.stderr[-3000:])
    return json.loads(r.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="one JSON object a line")
    p.add_argument("--episodes", type=int, nargs="*", default=[500, 2000, 8000], help="sizes of runs")
    p.add_argument("--records", type=int, default=100_000, help="records to score again")
    p.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child: return print(json.dumps(WORK[args.child[0]](int(args.child[1]))))
    for name, n in [*(("episodes", n) for n in args.episodes), ("rescoring", args.records)]:
        line = fresh(name, n)
        print(json.dumps(line) if args.json else "  ".join(f"{k}={v}" for k, v in line.items()), flush=True)


if __name__ == "__main__": main()
