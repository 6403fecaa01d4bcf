"""Run notebooks and store their outputs, each in a process of its own; then `make sync`.

  python tools/run_notebooks.py                     all notebooks
  python tools/run_notebooks.py nbs/01_board.ipynb  one or more
  python tools/run_notebooks.py --check             run, store nothing, fail where stored outputs are stale
  python tools/run_notebooks.py --flags gpu         run the cells marked gpu too
  python tools/run_notebooks.py --flags weights     run those that need the weights which COSEE_GGUF names

A notebook that fails keeps its stored outputs. Cells marked `eval: false` or with one of the
tst_flags of settings.ini are not run and keep theirs. tools/outputs.py says what counts as stale; a cell that shows
something else each time begins with `#| varies`.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from multiprocessing import forkserver, get_context
from pathlib import Path

import outputs
import sync

ROOT = sync.ROOT
# What would make outputs differ from one run to the next.
STEADY = {"PYTHONHASHSEED": "0", "MPLBACKEND": "agg", "TQDM_DISABLE": "1", "NO_COLOR": "1", "COLUMNS": "100",
          "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
          "TOKENIZERS_PARALLELISM": "false", "COSEE_CLIENT": "none", "COSEE_SERVERS": "none"}
WIDGET = "application/vnd.jupyter.widget-view+json"
STALE = 3   # exit code of a notebook that runs and shows something else than it stores
# What every notebook's process needs before its first cell, and half of the time that most take; and what takes those
# longest that ask a local model. Nothing of the package: it is as its files say when a notebook runs.
PRELOADED = ["execnb.shell", "nbdev.process", "nbdev.clean", "nbdev.config", "fastcore.all", "numpy", "PIL.ImageDraw",
             "pydantic", "run_notebooks", "pandas", "matplotlib.figure", "torch", "torchvision",
             "transformers.cache_utils", "transformers.masking_utils", "transformers.models.auto.modeling_auto",
             "transformers.models.qwen3_vl.modeling_qwen3_vl", "transformers.models.qwen3_vl.processing_qwen3_vl",
             "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"]


def skipped(cell, flags):
    "Is this a cell that tests do not run?"
    from nbdev.process import extract_directives
    directives = extract_directives(cell, remove=False)
    return directives.get("eval:", [""])[0].lower() == "false" or bool(flags & directives.keys())


def run(path, flags):
    "The notebook at `path` with fresh outputs; exits with a message where a cell fails."
    from execnb.nbio import read_nb
    from execnb.shell import CaptureShell
    nb = read_nb(path)
    os.chdir(path.parent)
    sys.path.insert(0, str(ROOT))
    shell = CaptureShell(path)
    for cell in nb.cells:
        if cell.cell_type != "code" or skipped(cell, flags):
            continue
        cell.outputs = []
        shell.cell(cell)
        if shell.exc:
            sys.exit(f"{name(path)}: this cell failed:\n\n{cell.source}\n\n" + shell.prettytb(path.name))
        for output in cell.outputs:
            output.get("data", {}).pop(WIDGET, None)
    return nb


def name(path):
    "How a notebook is called: by its path in the repository, if it is there."
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def told(stale):
    "What is said of the cells that are stale, see `outputs.stale`."
    return "\n".join("\n    ".join([f"  cell {n} is stale:", *lines]) for n, lines in stale.items())


def one(path, flags, check):
    "Run one notebook here; store it, or with `check` exit with `STALE` where its stored outputs are that."
    from execnb.nbio import read_nb, write_nb
    from nbdev.clean import clean_nb, nbdev_clean
    from nbdev.config import get_config
    config = get_config(path=ROOT)
    nb = run(path, set(config.tst_flags.split()) - set(flags.split()))
    if not check:
        write_nb(nb, path)
        return nbdev_clean(str(path))
    clean_nb(nb)
    if stale := outputs.stale(read_nb(path), nb):
        print(told(stale))
        sys.exit(STALE)


def alone(path, flags, check, log):
    "Run one notebook in this process, which was made for it; what it prints goes into `log`."
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = [__file__]
    one(path, flags, check)


@lru_cache
def template():
    "The process that is copied, with the environment that notebooks run in."
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    before = dict(os.environ)
    os.environ.update(STEADY)
    try: forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return context


def forked(path, limit, flags="", check=True):
    """Exit code and prints of a notebook in a process of its own, which begins as a copy of one that has imported what
    every notebook needs; after `limit` seconds it is ended (exit code below 0)."""
    context = template()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = context.Process(target=alone, args=(path, flags, check, log))
        process.start()
        process.join(limit)
        if process.is_alive(): process.kill()
        process.join()
        return process.exitcode, log.read_text() if log.exists() else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--flags", default="", help="test flags to run all the same, as in nbdev_test")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    paths = [p.resolve() for p in args.notebooks] or sync.notebooks()
    if args.here:
        return one(paths[0], args.flags, args.check)
    failed = []
    for path in paths:
        print(name(path), flush=True)
        command = [sys.executable, __file__, str(path), "--here", f"--flags={args.flags}"] + ["--check"] * args.check
        if subprocess.run(command, env={**os.environ, **STEADY}, cwd=ROOT).returncode:
            failed.append(name(path))
    if not args.check and not failed:
        sync.sync()
    if failed:
        sys.exit(f"{'Stale or failed' if args.check else 'Failed'}: " + " ".join(map(str, failed)))


if __name__ == "__main__":
    main()
