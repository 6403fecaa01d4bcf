"""Run the quick test files in random order, then each alone: `make random`, or with SEED=7 a certain order.

A test that leans on another one passes in the order of the files and fails here.
"""
import random
import subprocess
import sys

import sync

ROOT = sync.ROOT
# Files that need no model, no browser and no server: each takes seconds
QUICK = ["agents", "chat", "config", "document", "episode", "fold", "jsonscan", "lint", "metrics", "pages", "quality",
         "planner", "resilience", "runs", "screen_config", "statistics", "tools", "unused", "view", "widget"]


def pytest(*args):
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--tb=short", *args], cwd=ROOT).returncode


def main():
    seed = sys.argv[1] if len(sys.argv) > 1 else str(random.randrange(10_000))
    print(f"In the order of seed {seed}, then each file alone", flush=True)
    files = [f"tests/test_{name}.py" for name in QUICK if (ROOT / f"tests/test_{name}.py").exists()]
    failed = ["random order"] * bool(pytest("-o", "addopts=", f"--randomly-seed={seed}", *files))
    failed += [file for file in files if pytest(file)]
    sys.exit(f"seed {seed}: failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
