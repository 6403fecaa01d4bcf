"""Run the quick test files in random order, then each alone: `make random`, or with SEED=7 a certain order.

`--all` (`make random ALL=1`) runs every test file of tests/, each alone and in random order. Files that are named are
run instead of those. A test that leans on another one passes in the order of the files and fails here.
"""
import argparse
import random
import subprocess
import sys
import time

import sync

ROOT = sync.ROOT
# Files that need no model, no browser and no server: each takes seconds
QUICK = ["chat", "config", "document", "episode", "fold", "lint", "metrics", "pages", "quality", "planner",
         "resilience", "runs", "screen_config", "statistics", "tools", "unused", "view", "widget"]
NO_TESTS = 5  # the exit code of pytest where it collected none


def pytest(*args):
    "The exit code of pytest, which prints as it goes."
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--tb=short", *args], cwd=ROOT).returncode


def shuffled(seed, *files):
    "The exit code of pytest on files in the random order of a seed."
    return pytest("-o", "addopts=", f"--randomly-seed={seed}", *files)


def each_shuffled(files, seed):
    "Run each file alone in random order, print a line for it, and return those that failed."
    failed, start = [], time.monotonic()
    for n, file in enumerate(files, 1):
        before = time.monotonic()
        code = shuffled(seed, file)
        result = "no tests" if code == NO_TESTS else f"failed ({code})" if code else "passed"
        print(f"{n}/{len(files)} {file}: {result}, {time.monotonic() - before:.1f} s", flush=True)
        failed += [file] * bool(code)
    print(f"{len(files) - len(failed)} of {len(files)} files passed in {time.monotonic() - start:.0f} s", flush=True)
    return failed


def quick(seed):
    "Run the quick files together in random order, then each alone, and return what failed."
    files = [f"tests/test_{name}.py" for name in QUICK]
    failed = ["random order"] * bool(shuffled(seed, *files))
    return failed + [file for file in files if pytest(file)]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="test files, each alone and in random order")
    parser.add_argument("--seed", type=int, metavar="N", help="of the order (default: another one each time)")
    parser.add_argument("--all", action="store_true", help="every test file of tests/, alone and in random order")
    args = parser.parse_args(argv)
    if args.all and args.files: parser.error("--all runs every file: name none")
    seed = random.randrange(10_000) if args.seed is None else args.seed
    every = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    files = every if args.all else args.files
    print(f"In the order of seed {seed}{', each file alone' if files else ', then each file alone'}", flush=True)
    failed = each_shuffled(files, seed) if files else quick(seed)
    sys.exit(f"seed {seed}: failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
