"What all tests share: where the repository is, its tools, and steady surroundings."
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import hypothesis
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

# Two cores are shared by everything that runs; more threads than cores only slow PyTorch and ONNX down.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TQDM_DISABLE", "1")
# No test may reach for a model hub: whatever it needs is in the repository, in a package, or made on the spot.
os.environ["HF_HUB_OFFLINE"] = "1"
# Nor may it find a model that happens to be on the machine: where a test names no client, no model answers.
os.environ["COSEE_CLIENT"] = os.environ["COSEE_SERVERS"] = "none"

# What tests read is kept in a folder of theirs, never in the user's. Workers and the processes that they start
# share it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["COSEE_CACHE"] = tempfile.mkdtemp(prefix="cosee-tests-")
    atexit.register(shutil.rmtree, os.environ["COSEE_CACHE"], ignore_errors=True)

# The same examples in every run, and no clock: --hypothesis-profile=explore looks for new ones.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("steady")


def pytest_addoption(parser):
    parser.addoption("--outputs", action="store_true", help="notebooks must also show what they store")


COMMAND = "import sys; from cosee.cli.start import main; sys.exit(main())"


def shell(*argv, cwd=None):
    "Run `cosee` in a process of its own: code, standard output, standard error."
    done = subprocess.run([sys.executable, "-c", COMMAND, *map(str, argv)], capture_output=True, text=True, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def random_folder(tmp_path_factory):
    "A random checkpoint of each architecture that is asked for, made once."
    from cosee.models.testing import random_model
    made = {}

    def make(kind):
        if kind not in made: made[kind] = random_model(tmp_path_factory.mktemp(kind), kind)
        return made[kind]
    return make


@pytest.fixture(scope="session")
def root():
    "The repository."
    return ROOT


@pytest.fixture(autouse=True)
def tables():
    "What a plugin enters into the tables of this process is taken out again."
    from cosee.policies import METHODS
    from cosee.eval.metrics import OFFICIAL, SCORERS   # from where the scorers of the package have been entered
    from cosee.models.registry import CLIENTS
    kept = [(table, dict(table)) for table in (SCORERS, OFFICIAL, METHODS, CLIENTS)]
    yield
    for table, was in kept:
        table.clear()
        table.update(was)


@pytest.fixture
def server_key(monkeypatch):
    "The key that a server of the user's is asked with, and no file of backends; the key."
    monkeypatch.delenv("COSEE_BACKENDS", raising=False)
    monkeypatch.setenv("COSEE_API_KEY", "planted-0123456789-key")
    return os.environ["COSEE_API_KEY"]


@pytest.fixture
def run(capsys, server_key):
    "Runs the command in this process: code, standard output, standard error."
    from cosee.cli.entry import main

    def go(*argv):
        code = main([str(a) for a in argv])
        return code, *capsys.readouterr()
    return go


@pytest.fixture
def doc(tmp_path):
    "A document of one empty page; its path."
    Image.new("RGB", (200, 280), "white").save(tmp_path / "page.png")
    return str(tmp_path / "page.png")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    "A browser with a profile of its own; without one the test skips."
    from chromium import CHROMIUM, Browser
    if CHROMIUM is None: pytest.skip("no Chromium or Chrome on this machine")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


# --- fault tests: what python tools/faults.py counts ---

@pytest.fixture
def counts(request):
    "What came of the faults that a test tries, by outcome; a test that counts nothing counts as one that held."
    request.node.counts = Counter()
    return request.node.counts


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    "A fault test that passes leaves a line with its counts and processor time in the file COSEE_FAULTS."
    begin = sum(os.times()[:4])
    result = yield
    marker, file = item.get_closest_marker("faults"), os.environ.get("COSEE_FAULTS")
    if marker and file:
        line = {"what": marker.args[0], "test": item.nodeid.partition("[")[0],
                "outcomes": dict(getattr(item, "counts", None) or {"held": 1}), "cpu_s": sum(os.times()[:4]) - begin}
        with open(file, "a", encoding="utf-8") as f: f.write(json.dumps(line) + "\n")
    return result
