"""How fast screens are drawn with one process and with several, and whether the files are the same.

    python benchmarks/screens.py                  # a table
    python benchmarks/screens.py --json           # one JSON object
    python benchmarks/screens.py --samples 200    # a quick look

All twelve tasks in equal parts, stored as PNG of about 1366 x 768 pixels, with 100 test cases of which ten are
annotated. Times are wall-clock seconds; the runs alternate, and the best of --repeat runs counts for each number of
processes, since whatever else the machine does only adds time. The command ends with 1 if any byte differs.
"""
import argparse, json, platform, shutil, sys, tempfile, time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def digest(folder) -> dict:
    "Hash of every file of a data set"
    from cosee.utils.files import file_hash
    return {p.relative_to(folder).as_posix(): file_hash(p) for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def config(samples: int, image_format: str) -> dict:
    from cosee.screen.config import share_out
    from cosee.screen.tasks import SCREEN_TASKS
    tasks = {k: n for k, n in share_out(samples, dict.fromkeys(SCREEN_TASKS, 1)).items() if n}
    return dict(name_prefix="bench", seed=1, tasks=tasks, test=dict(count=min(100, samples)),
                output=dict(image_format=image_format))


def made(samples: int, image_format: str, workers: int) -> tuple:
    "Seconds, hashes and faults of one run"
    from cosee.screen.check import make_screens, validate_dataset
    out = tempfile.mkdtemp()
    try:
        start = time.perf_counter()
        folder = make_screens(config(samples, image_format), out, workers=workers, timestamp="20260101_000000",
                              progress=False)
        took = time.perf_counter() - start
        return took, digest(folder), len(validate_dataset(folder))
    finally: shutil.rmtree(out)


def run(args) -> dict:
    made(24, args.format, 1)  # loads the libraries
    seconds, hashes, faults = {1: [], args.workers: []}, [], 0
    for _ in range(args.repeat):
        for workers in seconds:
            took, files, wrong = made(args.samples, args.format, workers)
            seconds[workers].append(round(took, 2))
            hashes.append(files)
            faults += wrong
    best = {w: min(s) for w, s in seconds.items()}
    return dict(samples=args.samples, format=args.format, files=len(hashes[0]),
                seconds={str(w): s for w, s in seconds.items()},
                samples_per_second={str(w): round(args.samples / s, 1) for w, s in best.items()},
                speedup=round(best[1] / best[args.workers], 2),
                workers=args.workers, identical=all(h == hashes[0] for h in hashes), faults=faults,
                python=platform.python_version())


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--samples", type=int, default=2000)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--repeat", type=int, default=2)
    p.add_argument("--format", choices=("png", "jpg"), default="png")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    args = p.parse_args()
    result = run(args)
    if args.json: print(json.dumps(result, indent=2))
    else:
        for w, times in result["seconds"].items():
            print(f"{w} process(es)  {min(times):7.1f} s  {result['samples_per_second'][w]:6.1f} samples/s")
        print(f"{result['speedup']:.2f} times as fast; {result['files']:,} files, "
              f"{'identical' if result['identical'] else 'DIFFERENT'}, {result['faults']} faults")
    return 0 if result["identical"] and not result["faults"] else 1


if __name__ == "__main__": sys.exit(main())
