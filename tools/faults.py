"""Run the fault tests at their full counts: python tools/faults.py

Tests with the marker `faults` try what surroundings can do: processes killed at random, full disks, folders that
cannot be written, clocks that jump, two writers, hostile servers, replies, texts and files. The test suite runs each
in a short form; here they run as often as FULL says, or as an environment variable of that name. What came of each is
counted, and `--save` puts the counts into benchmarks/results/faults.json, in place of those of the same tests.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/faults.json"
FULL = {"COSEE_KILLS": "45", "COSEE_SAMPLES": "120",  # 45 kills of a run in one process, 15 of one with workers
        "COSEE_REPLIES": "50000", "COSEE_SERVER_CASES": "2000", "COSEE_TEXTS": "500",
        "COSEE_DOCUMENTS": "500"}  # whose fields are read by a command that is killed ten times


def rows_of(lines):
    "The counts of each kind of fault, added up over its tests."
    rows = {}
    for line in lines:
        row = rows.setdefault(line["what"], {"what": line["what"], "tried": 0, "outcomes": Counter(), "cpu_s": 0.,
                                             "tests": []})
        row["outcomes"].update(line["outcomes"])
        row["tried"] = sum(row["outcomes"].values())
        row["cpu_s"] = round(row["cpu_s"] + line["cpu_s"], 1)
        row["tests"] = sorted({*row["tests"], line["test"]})
    return list(rows.values())


def run(quick, only):
    "Run the tests; exit code, and a line for each that passed."
    env = {**os.environ} if quick else {**FULL, **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "counts.jsonl")
        file.touch()
        tests = sorted(p for p in ROOT.glob("tests/test_*.py") if "mark.faults(" in p.read_text(encoding="utf-8"))
        argv = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-m", "faults", *map(str, tests)]
        if only: argv += ["-k", only]
        code = subprocess.call(argv, cwd=ROOT, env={**env, "COSEE_FAULTS": str(file)})
        return code, [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def save(rows, file=RESULTS):
    "Put rows into the file of results; rows of other faults stay."
    known = {row["what"]: row for row in json.loads(file.read_text(encoding="utf-8"))["rows"]} if file.exists() else {}
    for row in rows:
        known[row["what"]] = row | {"date": str(date.today()), "python": platform.python_version()}
    text = json.dumps({"rows": sorted(known.values(), key=lambda row: row["what"])}, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def main():
    "Run, print a table, save on request."
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="the short forms, as in the test suite")
    p.add_argument("-k", metavar="EXPRESSION", help="only some of the tests, as for pytest")
    p.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    args = p.parse_args()
    code, lines = run(args.quick, args.k)
    rows = rows_of(lines)
    for row in rows:
        told = ", ".join(f"{n:,} {outcome}" for outcome, n in row["outcomes"].items())
        print(f"{row['what']}: {row['tried']:,} tried, {told} ({row['cpu_s']} CPU-s)")
    if args.save and not code: save(rows)
    sys.exit(code)


if __name__ == "__main__":
    main()
