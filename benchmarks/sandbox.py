"""What it costs that documents are drawn and scanned in another process: seconds and memory, with it and without.

    python benchmarks/sandbox.py --json benchmarks/results/sandbox.json
    python benchmarks/sandbox.py --pdfs ~/reports --repeats 5

Each measurement is a process of its own, with and without the sandbox in turn, so that whatever else the machine does
falls on both. `draw` opens a document and draws its pages, `print` reads their text layer too. Seconds are those of
the processor, of the process and its worker together; memory is the sum of both peaks. The median of the repeats
counts, and pages that are drawn are compared byte by byte.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 24   # pages of a document
CHILD = """
import hashlib, json, os, resource, sys, time
start = time.perf_counter()
from cosee.pages import load_pages
from cosee.ocr.engine import WordReader
way, most, *files = sys.argv[1:]
seen, pages, words = hashlib.sha256(), 0, WordReader(workers=1, cache=None, print='text')
for file in files:
    with load_pages(file) as document:
        for page in document.infos[:int(most)]:
            pages += 1
            seen.update(page.draw().tobytes())
            if way == 'print': seen.update(json.dumps(words.read([page])[0]['lines']).encode())
wall = time.perf_counter() - start
def peak(pid):
    with open(f'/proc/{pid}/status') as f: return next(int(l.split()[1]) / 1024 for l in f if l.startswith('VmHWM'))
worker = sys.modules['cosee.sandbox.apart']._keeper.worker
memory = peak('self') + (peak(worker.process.pid) if worker else 0)
if worker: sys.modules['cosee.sandbox.apart']._keeper.end()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps(dict(cpu=sum(u.ru_utime + u.ru_stime for u in used), wall=wall, memory=memory, pages=pages,
                      hash=seen.hexdigest())))
"""


def made_files(folder: Path) -> 'dict[str, list[str]]':
    "Documents by kind: made ones as PDFs, and their pages as pictures"
    from cosee.datasets.made.document import make_document
    from cosee.pages import load_pages
    pdfs, pictures = [], []
    for kind, seed in (('report', 2), ('contract', 1), ('invoice', 0), ('slides', 7), ('form', 4), ('datasheet', 3)):
        pdfs.append(str(make_document(kind, seed, 'dev').save(folder / f'{kind}.pdf')))
        for i, image in enumerate(load_pages(pdfs[-1])):
            pictures.append(str(folder / f'{kind}{i}.{"jpg" if i % 2 else "png"}'))
            image.save(pictures[-1])
    return dict(pdfs=pdfs, pictures=pictures)


def measured(way: str, sandbox: bool, files: list) -> dict:
    "What one run costs"
    env = {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1', 'COSEE_SANDBOX': 'on' if sandbox else 'off'}
    done = subprocess.run([sys.executable, '-c', CHILD, way, str(MOST), *files], env=env,
                          capture_output=True, text=True)
    if done.returncode: raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def compared(way: str, files: list, repeats: int) -> dict:
    "Medians with the sandbox and without, and what the difference is"
    runs = [[measured(way, sandbox, files) for sandbox in (True, False)] for _ in range(repeats)]
    apart, inside = ({name: statistics.median(run[i][name] for run in runs) for name in ('cpu', 'wall', 'memory')}
                     for i in (0, 1))
    extra = {name: statistics.median(run[0][name] / run[1][name] for run in runs) - 1 for name in ('cpu', 'wall')}
    found = dict(pages=runs[0][0]['pages'], same=len({r['hash'] for run in runs for r in run}) == 1,
                 sandbox={k: round(v, 2) for k, v in apart.items()},
                 inside={k: round(v, 2) for k, v in inside.items()},
                 extra_cpu=round(extra['cpu'], 3), extra_wall=round(extra['wall'], 3),
                 extra_mb=round(apart['memory'] - inside['memory'], 1))
    return found


def main():
    "Measure and print"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', metavar='FILE')
    p.add_argument('--pdfs', metavar='FOLDER', help='PDFs to measure in place of made ones')
    p.add_argument('--repeats', type=int, default=3)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.pdfs: sets = dict(pdfs=sorted(map(str, Path(args.pdfs).expanduser().rglob('*.pdf'))))
        else: sets = made_files(Path(folder))
        results = {}
        for name, files in sets.items():
            for way in ('draw', 'print') if name == 'pdfs' else ('draw',):
                results[f'{name}, {way}'] = found = compared(way, files, args.repeats)
                print(f'{name}, {way}:', json.dumps(found), flush=True)
    if args.json: Path(args.json).write_text(json.dumps(dict(repeats=args.repeats, results=results), indent=1) + '\n')


if __name__ == '__main__': main()
