"Every notebook runs from top to bottom, each in a process of its own, so that none leans on another."
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from run_notebooks import ROOT, STEADY
from sync import notebooks

# A notebook that takes this long hangs: the slowest takes a minute.
LIMIT = 900

RUN = """
import sys
from pathlib import Path
from nbdev.config import get_config
from nbdev.test import test_nb
config = get_config()
passed, seconds = test_nb(Path(sys.argv[1]), skip_flags=config.tst_flags.split(), basepath=config.config_path)
sys.exit(not passed)
"""


def run(path):
    "Run the notebook at `path` as nbdev_test does, in a fresh process."
    return subprocess.run([sys.executable, "-c", RUN, str(path)], cwd=ROOT, env={**os.environ, **STEADY},
                          capture_output=True, text=True, timeout=LIMIT)


@pytest.fixture(scope="session")
def runs(request):
    "The selected notebooks, started two at a time; a test waits for its own."
    selected = [item.callspec.params["path"] for item in request.session.items if item.function is test_notebook]
    with ThreadPoolExecutor(max_workers=2) as pool:
        started = {path: pool.submit(run, path) for path in selected}
        yield started
        for future in started.values():
            future.cancel()


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.relative_to(ROOT / "nbs").as_posix())
def test_notebook(path, runs):
    done = runs[path].result()
    assert done.returncode == 0, f"{path.relative_to(ROOT)} failed:\n{done.stdout[-2000:]}{done.stderr[-6000:]}"


def test_a_failing_cell_fails(tmp_path):
    "The runner itself: one notebook that holds, one that does not."
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": None, "outputs": []}
    for name, source in (("good", "assert True is not False"), ("bad", "assert 1 == 2, 'planted'")):
        nb = {"cells": [{**cell, "source": source}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(nb))
    assert run(tmp_path / "good.ipynb").returncode == 0
    bad = run(tmp_path / "bad.ipynb")
    assert bad.returncode == 1 and "planted" in bad.stderr
