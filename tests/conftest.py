"What all tests share: where the repository is, its tools, and steady surroundings."
import atexit
import os
import shutil
import sys
import tempfile
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

# What tests read is kept in a folder of theirs, never in the user's; the processes that they start know it too.
os.environ["COSEE_CACHE"] = tempfile.mkdtemp(prefix="cosee-tests-")
atexit.register(shutil.rmtree, os.environ["COSEE_CACHE"], ignore_errors=True)

# The same examples in every run, and no clock: --hypothesis-profile=explore looks for new ones.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("steady")


def pytest_addoption(parser):
    parser.addoption("--outputs", action="store_true", help="notebooks must also show what they store")


@pytest.fixture(scope="session")
def root():
    "The repository."
    return ROOT


@pytest.fixture
def doc(tmp_path):
    "A document of one empty page; its path."
    Image.new("RGB", (200, 280), "white").save(tmp_path / "page.png")
    return str(tmp_path / "page.png")
