"""How long it takes to compare a question with the images of 1,000 pages, once they are encoded.

    python benchmarks/visual_index.py            a table
    python benchmarks/visual_index.py --json     one JSON object

Vectors of length 1 are drawn by chance: what they say does not matter for the time. Each row of the result is a
document whose pages have so many vectors: as many as ColPali makes of a page, as many as a square of 27 by 27 patches,
and a mixture of lengths, as ColQwen2 makes. They are kept as `PageIndex` keeps them, a file for each page, and a new
process reads them and asks, on one thread; figures are CPU seconds:

    open      reading all pages, each held against its fingerprint
    search    `late_interaction` over all pages: the median over the questions

`peak MB` is the peak of memory of the process.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"): os.environ.setdefault(name, "1")

WIDE = 128
LENGTHS = {"1030": (1030, 1030), "729": (729, 729), "600 to 1030": (600, 1030)}   # fewest and most vectors of a page


def unit(rng, rows):
    "Vectors of length 1."
    import numpy as np
    found = rng.normal(size=(rows, WIDE)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def write(folder, pages, low, high):
    "A document of so many pages, kept; its bytes."
    import numpy as np
    from cosee.retrieval.embeddings import vectors_to_bytes
    from cosee.utils.files import FileCache
    files, rng = FileCache(folder, 10**12), np.random.default_rng(0)
    for i in range(pages):
        files.put(f"page{i}", vectors_to_bytes(unit(rng, int(rng.integers(low, high + 1))).astype(np.float16)))
    assert files.usage()[0] == pages, "not all pages could be kept"
    return files.usage()[1]


def ask(folder, pages, tokens, repeat):
    "Reads the pages and asks: what that took, in this process."
    import numpy as np
    from cosee.retrieval.embeddings import late_interaction, vectors_from_bytes
    from cosee.utils.files import FileCache
    files, rng, times = FileCache(folder, 10**12), np.random.default_rng(1), []
    start = time.process_time()
    rows = [vectors_from_bytes(files.get(f"page{i}") or b"") for i in range(pages)]
    opened = time.process_time() - start
    for _ in range(repeat):
        question, start = unit(rng, tokens), time.process_time()
        assert len(late_interaction(question, rows)) == pages
        times.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"open": round(opened, 2), "search": round(statistics.median(times), 2), "peak MB": round(peak)}


def row(name, args):
    "The measurements of one kind of page."
    with tempfile.TemporaryDirectory() as folder:
        size = write(folder, args.pages, *LENGTHS[name])
        command = [sys.executable, __file__, "--folder", folder, "--pages", args.pages, "--tokens", args.tokens,
                   "--repeat", args.repeat]
        found = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    return {"vectors of a page": name, "MB": round(size / 1e6), **json.loads(found)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="one JSON object")
    p.add_argument("--pages", type=int, default=1000)
    p.add_argument("--tokens", type=int, default=32, help="of a question")
    p.add_argument("--repeat", type=int, default=9, help="questions")
    p.add_argument("--lengths", nargs="*", default=list(LENGTHS), choices=list(LENGTHS), help="vectors of a page")
    p.add_argument("--folder", help=argparse.SUPPRESS)   # a process of its own asks
    args = p.parse_args()
    if args.folder: return print(json.dumps(ask(args.folder, args.pages, args.tokens, args.repeat)))
    rows = [row(name, args) for name in args.lengths]
    if args.json: return print(json.dumps(dict(pages=args.pages, tokens=args.tokens, repeat=args.repeat, rows=rows)))
    for found in rows: print("  ".join(f"{k}={v}" for k, v in found.items()))


if __name__ == "__main__": main()
