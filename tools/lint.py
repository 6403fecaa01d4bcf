"""Hold the code against ruff, pyright and the house rules: `make lint`.

What is found is counted by rule, and tools/budget.json says how much of each there may be. The numbers only fall:
more than the budget fails and names the newest finds, fewer asks for `python tools/lint.py --lower`, which writes the
new numbers. `--all` lists everything that is found.
"""
import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import contracts
import sync
import unused

ROOT = sync.ROOT
BUDGET = ROOT / "tools/budget.json"
LONGEST = 119  # characters of a line
TALLEST = 30   # lines of an exported cell; classes, tables and prompts stay whole, and signatures take a line each
SHOWN = 10     # finds that a failure names beyond those that are too many


class Find(NamedTuple):
    rule: str  # e.g. "ruff F401"
    path: str  # from the root
    line: int  # from 1; in a notebook the number of the cell, from 0
    said: str


def json_of(*command):
    "What a command prints as JSON; these linters exit with 1 where they find something."
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1): sys.exit(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def from_root(path):
    return Path(path).resolve().relative_to(ROOT).as_posix()


def ruff():
    "What ruff finds in the package, the tests, the tools and the benchmarks."
    for found in json_of(sync.BIN / "ruff", "check", "--output-format=json", "."):
        yield Find(f"ruff {found['code']}", from_root(found["filename"]), found["location"]["row"], found["message"])


def pyright():
    "What pyright finds in the package."
    told = json_of(sync.BIN / "basedpyright", "--outputjson", "--pythonpath", sys.executable)
    for found in told["generalDiagnostics"]:
        where, said = found["range"]["start"]["line"] + 1, found["message"].splitlines()[0]
        yield Find(f"pyright {found.get('rule', 'syntax')}", from_root(found["file"]), where, said)


def cell_finds(lines):
    "Rule and words for what reads badly in a code cell."
    long = [str(len(line)) for line in lines if len(line) > LONGEST]
    for length in long: yield "long line", f"a line of {length} characters"
    if len(lines) > TALLEST and any(line.startswith("#| export") for line in lines):
        yield "long cell", f"exports {len(lines)} lines"
    first = [line.split()[0] for line in lines if line[:1].isalpha()]
    if {"import", "from"} & set(first) and set(first) - {"import", "from"}:
        yield "import beside code", "imports beside other code: the site runs such cells"


def notebooks(root=ROOT):
    "What reads badly in the notebooks."
    for path in sync.notebooks(root):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for n, cell in enumerate(cells):
            lines = "".join(cell["source"]).splitlines() if cell["cell_type"] == "code" else []
            for rule, said in cell_finds(lines):
                yield Find(f"notebook {rule}", path.relative_to(root).as_posix(), n, said)


def imports():
    "Private names that one module imports from another."
    for path, line, name in contracts.private_imports():
        yield Find("private import", path, line, f"{name} belongs to its own module")


def names():
    "Public names that nobody uses, and reasons for them that nobody needs."
    for fault in unused.faults():
        name, said = fault.split(": ", 1)
        yield Find("unused name", contracts.file_of(name), 1, f"{name}: {said}")


def finds():
    return [find for source in (ruff, pyright, notebooks, imports, names) for find in source()]


def ages(path):
    "When each line of a file was written, by its number; nothing where git does not know."
    done = subprocess.run(["git", "blame", "--line-porcelain", path], cwd=ROOT, capture_output=True, text=True)
    times = re.findall(r"^committer-time (\d+)$", done.stdout, flags=re.M)
    return dict(enumerate(map(int, times), 1))


def newest_first(found):
    "The finds, those in the youngest lines first; a notebook is as young as its youngest line."
    blame = {path: ages(path) for path in {f.path for f in found}}

    def age(find):
        lines = blame[find.path]
        if not lines: return time.time()
        return max(lines.values()) if find.path.endswith(".ipynb") else lines.get(find.line, 0)
    return sorted(found, key=age, reverse=True)


def shown(find):
    at = f"{find.path}, cell {find.line}" if find.path.endswith(".ipynb") else f"{find.path}:{find.line}"
    return f"{at}: {find.rule}: {find.said}"


def over(found, budget):
    "What is more than the budget: a line a rule, each with its newest finds."
    for rule, count in sorted(Counter(f.rule for f in found).items()):
        allowed = budget.get(rule, 0)
        if count <= allowed: continue
        yield f"{rule}: {count}, and the budget is {allowed}. The newest:"
        newest = newest_first([f for f in found if f.rule == rule])
        yield from (f"  {shown(f)}" for f in newest[:count - allowed + SHOWN])


def lower(found, budget):
    "The budget with the numbers that have fallen; rules without finds go."
    counts = Counter(f.rule for f in found)
    return {rule: min(allowed, counts[rule]) for rule, allowed in sorted(budget.items()) if counts[rule]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lower", action="store_true", help="write the numbers that have fallen into the budget")
    parser.add_argument("--all", action="store_true", help="list everything that is found")
    args = parser.parse_args()
    budget, found = json.loads(BUDGET.read_text()), finds()
    if args.all: print(*map(shown, sorted(found)), sep="\n")
    lowered = lower(found, budget)
    if args.lower: BUDGET.write_text(json.dumps(lowered, indent=1) + "\n")
    if complaints := list(over(found, budget)): sys.exit("\n".join(complaints))
    print(f"{len(found)} finds, none more than tools/budget.json allows.")
    fallen = sum(budget.values()) - sum(lowered.values())
    if fallen and not args.lower: print(f"{fallen} fewer than allowed: python tools/lint.py --lower")


if __name__ == "__main__":
    main()
