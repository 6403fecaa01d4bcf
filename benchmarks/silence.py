"""What the published runs say since silence and failure are no answers: only what changes, a line for each figure.

    python benchmarks/silence.py --out benchmarks/results/silence.json

Before, an empty answer was read as the word that there is none. So it counted as right where a question has no
answer, and as withheld where it has one; a method that failed was right there, too, by every metric but the first.
"""
import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from cosee.eval.metrics import DEFAULT_METRICS
from cosee.runs.log import OUTCOMES, Record, record_outcome
from cosee.runs.table import Run, score_all
from cosee.utils.text import NOT_ANSWERABLE, means_none

RESULTS = Path(__file__).parent / "results"


def list_runs() -> list[Path]:
    "Every published run: archives and run folders."
    return sorted([*RESULTS.rglob("*.pack"), *(p.parent for p in RESULTS.rglob("run.json"))])


def read_as_before(record: Record, first: bool) -> Record:
    "A record whose silence is an abstention; one that failed is no answer by the first metric alone."
    if record["status"] != "ok" and first: return record
    return {**record, "status": "ok", "answer": record.get("answer") or NOT_ANSWERABLE}


def compare(own: list[Record], metrics: dict[str, str]) -> dict[str, Any]:
    "Means of one method before and now, 0-100, and the outcomes of its questions."
    scored = [r for r in own if r.get("gold")]
    counts = Counter(map(record_outcome, own))
    out: dict[str, Any] = {"questions": len(own), **{o: counts[o] for o in OUTCOMES if counts[o]}}
    for i, (metric, flavour) in enumerate(metrics.items() if scored else ()):
        before = score_all([read_as_before(r, i == 0) for r in scored], metric, flavour).mean
        now = score_all(scored, metric, flavour).mean
        out[f"{metric} ({flavour})"] = [round(100 * before, 2), round(100 * now, 2)]
    def withheld(says_none) -> int:
        return sum(says_none(r) for r in scored if not all(map(means_none, r["gold"])))
    out["withheld"] = [withheld(lambda r: r["status"] == "ok" and means_none(r.get("answer"))),
                       withheld(lambda r: record_outcome(r) == "abstained")]
    return out


def list_changes() -> list[dict[str, Any]]:
    "A line for each published method of which a figure changes: [before, now]."
    lines = []
    for path in list_runs():
        run = Run(path)
        metrics = {str(m): str(f) for m, f in (run.about.get("metrics") or DEFAULT_METRICS).items()}
        rows = list(run)
        for method in dict.fromkeys(r["method"] for r in rows):
            found = compare([r for r in rows if r["method"] == method], metrics)
            kept = {k: v for k, v in found.items() if not isinstance(v, list) or v[0] != v[1]}
            if any(isinstance(v, list) for v in kept.values()):
                lines.append({"run": str(path.relative_to(RESULTS)), "method": method, **kept})
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the lines to this file")
    args, lines = parser.parse_args(), [json.dumps(line) for line in list_changes()]
    if args.out: args.out.write_text("[\n" + ",\n".join(f" {line}" for line in lines) + "\n]\n")
    print(*lines, sep="\n")


if __name__ == "__main__": main()
