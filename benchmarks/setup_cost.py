"""What a first set-up costs, in a fresh clone each: `make core` (what `make demo` needs), `make setup` (everything).

    python benchmarks/setup_cost.py --out benchmarks/results/setup_cost.json

Everything is downloaded anew (pip keeps no cache), one after the other on one machine. `took` is the wall time rounded
up for people; how fast the network is has the greatest share in it, and `load` tells how busy the machine was besides
(processes that wanted a core in the last five minutes). The disk is that of clone and .venv together.
"""
import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {"core": "core", "dev": "setup"}  # name in tools/env.py -> target of make


def size(folder):
    "Bytes on disk of everything in a folder; what two names share counts once."
    files = (p.lstat() for p in folder.rglob("*"))
    return sum({s.st_ino: s.st_blocks * 512 for s in files}.values())


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_words(seconds):
    "A time as people say it, rounded up to half a minute."
    halves = max(1, -int(-seconds // 30))
    if halves == 1: return "half a minute"
    return f"{halves / 2:g} minutes" if halves > 2 else "a minute"


def install(name, python, keep=None):
    "Clone the repository and set it up; what that cost."
    with nullcontext(keep / name) if keep else tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "cosee"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        start, before = time.perf_counter(), cpu_seconds()
        subprocess.run(["make", "--no-print-directory", TARGETS[name], f"PYTHON={python}"], cwd=clone, check=True,
                       env={**env, "PIP_NO_CACHE_DIR": "1"}, stdout=sys.stderr, stdin=subprocess.DEVNULL)
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - before
        packages = len(list(clone.glob(".venv/lib/python*/site-packages/*.dist-info")))
        return dict(seconds=round(seconds, 1), cpu_seconds=round(cpu, 1), took=in_words(seconds),
                    gb=round(size(clone) / 1e9, 2), packages=packages, load=round(os.getloadavg()[1], 1))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, help="write the result here, too")
    p.add_argument("--python", default=sys.executable, help="the Python that makes the environments")
    p.add_argument("--only", choices=TARGETS, help="measure this one; the other stays as it stands in --out")
    p.add_argument("--keep", type=Path, help="leave the clones in this folder")
    args = p.parse_args()
    found = json.loads(args.out.read_text()) if args.only and args.out and args.out.exists() else {}
    for name in [args.only] if args.only else TARGETS: found[name] = install(name, args.python, args.keep)
    version = subprocess.check_output([args.python, "-V"], text=True).split()[1]
    found["machine"] = f"{os.cpu_count()} cores, {platform.machine()}, Python {version}"
    text = json.dumps(found, indent=1)
    if args.out: args.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
