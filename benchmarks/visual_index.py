"""How long it takes to compare a question with the pictures of 1,000 pages, once they were looked at.

    python benchmarks/visual_index.py            a table
    python benchmarks/visual_index.py --json     one JSON object

Vectors of length 1 are drawn by chance: what they say does not matter for the time. Each row of the result is a
document whose pages have so many vectors: as many as ColPali makes of a page, as many as a square of 27 by 27 patches,
and a mixture of lengths, as ColQwen2 makes. They are kept in a file by
`cosee.retrieval.visual_embeddings.Looks`, and a new process opens it:
it maps the file, holds every record against its fingerprint, and asks. Ways take turns, in changing order,
in one process on one thread; figures are CPU seconds, medians over the questions:

    open and check   the file, to where it can be asked
    search           `Looks.scores`: blocks, one matrix product each, the best of each page by `reduceat`
    padded           the same blocks, each page padded to the longest of its block, the best by one `max`
    plain            `late_interaction`, page by page
    plain / search   how many times as long the plain way takes: the median over the questions

All ways have to give the same scores to 0.0001. `peak MB` is the peak of memory of the process, mapped pages of the
file and PyTorch included.
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
    "A document of so many pages, kept."
    import numpy as np
    from cosee.utils.files import FileCache
    from cosee.retrieval.visual_embeddings import Looks
    rng = np.random.default_rng(0)
    looks = Looks("bench", pages, WIDE, FileCache(folder, 10**12))
    for start in range(0, pages, 8):
        looks.add({i: unit(rng, int(rng.integers(low, high + 1))).astype(np.float16)
                   for i in range(start, min(pages, start + 8))})
    assert not looks.missing and looks.path, "nothing could be kept"
    return looks.path.stat().st_size


def padded(looks, question):
    "As `Looks.scores`, each page padded to the longest of its block."
    import numpy as np
    import torch
    from cosee.retrieval.visual_embeddings import BLOCK
    out, asked, room = np.full(looks.pages, -1.), torch.from_numpy(question), torch.empty(2 * BLOCK, WIDE)
    for block in looks._blocks():
        longest = max(len(looks.rows[page]) for page in block)
        for i, page in enumerate(block):
            rows = torch.from_numpy(looks.rows[page])
            end = i * longest + len(rows)
            room[i * longest:end].copy_(rows)
            room[end:(i + 1) * longest] = rows[0]   # a vector that is there anyway changes no maximum
        found = torch.mm(asked, room[:len(block) * longest].T).view(len(question), len(block), longest)
        out[block] = found.amax(2).mean(0).numpy()
    return out


def spent(work, *args):
    "What it gives, and the CPU seconds that it takes."
    start = time.process_time()
    found = work(*args)
    return found, time.process_time() - start


def measure(folder, pages, tokens, repeat):
    "A row of figures, in this process."
    import numpy as np
    import torch
    from cosee.utils.files import FileCache
    from cosee.retrieval.visual_embeddings import Looks
    from cosee.retrieval.visual import late_interaction
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    looks, opened = spent(Looks, "bench", pages, WIDE, FileCache(folder, 10**12))
    assert not looks.missing, "the file is damaged"
    rows = [looks.rows[i] for i in range(pages)]
    ways = {"search": looks.scores, "padded": lambda q: padded(looks, q),
            "plain": lambda q: late_interaction(q, rows)}
    times, peak = {way: [] for way in ways}, 0
    for turn in range(repeat + 1):   # the first one warms up
        question, found = unit(rng, tokens), {}
        for way in [*ways][turn % 3:] + [*ways][:turn % 3]:
            found[way], seconds = spent(ways[way], question)
            if turn: times[way].append(seconds)
            if way == "search": peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        for way in ("search", "padded"): assert np.abs(found[way] - found["plain"]).max() < 1e-4, way
    ratio = statistics.median(p / s for p, s in zip(times["plain"], times["search"], strict=True))
    return {"open and check": round(opened, 2), **{way: round(statistics.median(t), 2) for way, t in times.items()},
            "plain / search": round(ratio, 1), "peak MB": peak}


def row(length, pages, tokens, repeat):
    "Figures of a document, asked by a new process."
    with tempfile.TemporaryDirectory() as folder:
        size = write(folder, pages, *LENGTHS[length])
        args = [sys.executable, __file__, "--folder", folder, "--pages", str(pages), "--tokens", str(tokens),
                "--repeat", str(repeat)]
        done = subprocess.run(args, capture_output=True, text=True, check=False)
        if done.returncode: raise SystemExit(done.stderr[-2000:])
    return {"vectors of a page": length, "MB": round(size / 1e6), **json.loads(done.stdout)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pages", type=int, default=1000)
    p.add_argument("--tokens", type=int, default=32, help="of a question")
    p.add_argument("--repeat", type=int, default=9, help="questions")
    p.add_argument("--lengths", nargs="+", choices=LENGTHS, default=list(LENGTHS), metavar="N")
    p.add_argument("--json", action="store_true")
    p.add_argument("--folder", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.folder:
        print(json.dumps(measure(args.folder, args.pages, args.tokens, args.repeat)))
        return
    rows = [row(length, args.pages, args.tokens, args.repeat) for length in args.lengths]
    settings = dict(pages=args.pages, tokens=args.tokens, repeat=args.repeat)
    if args.json: print(json.dumps(dict(**settings, rows=rows), indent=1))
    else:
        print(*rows[0], sep="\t")
        for found in rows: print(*found.values(), sep="\t")


if __name__ == "__main__":
    main()
