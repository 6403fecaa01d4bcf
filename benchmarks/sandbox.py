"""What it costs that documents are drawn and scanned in another process: seconds and memory, with it and without.

    python benchmarks/sandbox.py --json benchmarks/results/sandbox.json
    python benchmarks/sandbox.py --pdfs ~/reports --most 10 --json benchmarks/results/sandbox_real.json

Each measurement is a process of its own, with and without the sandbox in turn, so that whatever else the machine does
falls on both. `draw` opens a document and draws its pages, `print` reads their text layer too; with `--ask` a whole
command on the first document is measured as well. Seconds are those of the processor, of the process and its worker
together. The first page is told apart from the others: with it come the imports, here or there, and the start of the
worker. Other work of the machine only adds to a measurement, so the least of the repeats counts. Memory is the sum of
both peaks, and what is drawn and read is compared byte by byte.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHILD = """
import hashlib, json, os, resource, sys, time
from cosee.pages import load_pages
from cosee.text.ocr import TextExtractor
way, most, *files = sys.argv[1:]
seen, pages, checks, memory = hashlib.sha256(), 0, 0., 0.
words = TextExtractor(workers=1, cache=None, text_source='text')
def both():
    worker = sys.modules['cosee.utils.isolation']._keeper.worker
    return ['self', worker.process.pid] if worker else ['self']
def mb(pid, name):
    with open(f'/proc/{pid}/status') as f: return next(int(l.split()[1]) / 1024 for l in f if l.startswith(name))
def forget(pid):
    with open(f'/proc/{pid}/clear_refs', 'w') as f: f.write('5')   # its peak is what it has now
def used():
    worker = sys.modules['cosee.utils.isolation']._keeper.worker
    return time.process_time() + (time.clock_gettime(~worker.process.pid << 3 | 2) if worker else 0)
for file in files:
    with load_pages(file) as document:
        for page in document.infos[:int(most)]:
            pages += 1
            for pid in both(): forget(pid)
            image = page.draw()
            read = words.read([page])[0]['lines'] if way == 'print' else []
            if pages == 1: first = used()
            before = used()
            memory = max(memory, sum(mb(pid, 'VmHWM') for pid in both()) - sum(mb(p, 'RssShmem') for p in both()[1:]))
            seen.update(image.tobytes() + json.dumps(read).encode())
            checks += used() - before   # no part of the cost
end = used() - checks
print(json.dumps(dict(start=first, page=(end - first) / max(1, pages - 1), cpu=end, memory=memory, pages=pages,
                      hash=seen.hexdigest())))
"""


def made_files(folder: Path) -> 'dict[str, list[str]]':
    "Documents by kind: made ones as PDFs, and their pages as pictures"
    from cosee.datasets.synthetic.document import make_document
    from cosee.pages import load_pages
    pdfs, pictures = [], []
    for kind, seed in (('report', 2), ('contract', 1), ('invoice', 0), ('slides', 7), ('form', 4), ('datasheet', 3)):
        pdfs.append(str(make_document(kind, seed, 'dev').save(folder / f'{kind}.pdf')))
        for i, image in enumerate(load_pages(pdfs[-1])):
            pictures.append(str(folder / f'{kind}{i}.{"jpg" if i % 2 else "png"}'))
            image.save(pictures[-1])
    return dict(pdfs=pdfs, pictures=pictures)


def environment(sandbox: bool) -> 'dict[str, str]':
    return {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1', 'COSEE_CACHE': 'off',
            'COSEE_SANDBOX': 'on' if sandbox else 'off'}


def measured(way: str, sandbox: bool, files: list, most: int) -> dict:
    "What one run costs"
    done = subprocess.run([sys.executable, '-c', CHILD, way, str(most), *files], env=environment(sandbox),
                          capture_output=True, text=True)
    if done.returncode: raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def asked(sandbox: bool, file: str) -> float:
    "Seconds of a processor of a whole command, its worker included"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = 'import sys; from cosee.cli.start import main; sys.exit(main())'
    subprocess.run([sys.executable, '-c', code, 'ask', file, '-q', 'What is the total?', '--no-cache'], check=True,
                   env=environment(sandbox), capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compared(way: str, files: list, repeats: int, most: int) -> dict:
    "The least with the sandbox and without, and what the difference is"
    if way == 'ask':
        runs = [[asked(sandbox, files[0]) for sandbox in (True, False)] for _ in range(repeats)]
        apart, inside = (min(run[i] for run in runs) for i in (0, 1))
        return dict(sandbox=dict(cpu=round(apart, 2)), inside=dict(cpu=round(inside, 2)),
                    extra_cpu=round(apart / inside - 1, 3))
    runs = [[measured(way, sandbox, files, most) for sandbox in (True, False)] for _ in range(repeats)]
    apart, inside = ({name: min(run[i][name] for run in runs) for name in ('start', 'page', 'cpu', 'memory')}
                     for i in (0, 1))
    told = [dict(start_s=round(r['start'], 3), page_ms=round(1000 * r['page'], 2), cpu=round(r['cpu'], 2),
                 memory=round(r['memory'], 1)) for r in (apart, inside)]
    return dict(pages=runs[0][0]['pages'], same=len({r['hash'] for run in runs for r in run}) == 1,
                sandbox=told[0], inside=told[1], extra_start_s=round(apart['start'] - inside['start'], 3),
                extra_page=round(apart['page'] / inside['page'] - 1, 3),
                extra_cpu=round(apart['cpu'] / inside['cpu'] - 1, 3),
                extra_mb=round(apart['memory'] - inside['memory'], 1))


def main():
    "Measure and print"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', metavar='FILE')
    p.add_argument('--pdfs', metavar='FOLDER', help='PDFs to measure in place of made ones')
    p.add_argument('--repeats', type=int, default=5)
    p.add_argument('--ask', action='store_true', help='measure a whole command too')
    p.add_argument('--most', type=int, default=24, metavar='PAGES', help='of a document')
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.pdfs: sets = dict(pdfs=sorted(map(str, Path(args.pdfs).expanduser().rglob('*.pdf'))))
        else: sets = made_files(Path(folder))
        results = {}
        for name, files in sets.items():
            for way in ('draw', 'print', *['ask'] * args.ask) if name == 'pdfs' else ('draw',):
                results[f'{name}, {way}'] = found = compared(way, files, args.repeats, args.most)
                print(f'{name}, {way}:', json.dumps(found), flush=True)
    found = dict(repeats=args.repeats, most=args.most, results=results)
    if args.json: Path(args.json).write_text(json.dumps(found, indent=1) + '\n')


if __name__ == '__main__': main()
