"""What pyright and mypy say about a script as a user writes it: nothing, or the one misspelt method in it."""
import json
import subprocess
import sys

import pytest
import sync
from conftest import ROOT

# The package's own face is computed, which no type checker can follow; true once it has a table and a stub.
FACE = (ROOT / "cosee/__init__.pyi").exists()
SCRIPT = (ROOT / "tests/typing/user_script.py").read_text(encoding="utf-8")
TYPO = SCRIPT.replace("board.get_cells(", "board.get_cels(")


def pyright(path):
    "The errors that pyright finds in the script at `path`."
    config = path.with_name("pyrightconfig.json")
    config.write_text(json.dumps({"include": [path.name], "extraPaths": [str(ROOT)], "typeCheckingMode": "basic"}))
    command = [sync.BIN / "basedpyright", "-p", config, "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    told = json.loads(done.stdout)["generalDiagnostics"]
    return [found["message"] for found in told if found["severity"] == "error"]


def mypy(path):
    "The errors that mypy finds in the script at `path`."
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "mypy.ini", "--no-error-summary", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def errors(checker, source, tmp_path):
    (tmp_path / "script.py").write_text(source, encoding="utf-8")
    return checker(tmp_path / "script.py")


@pytest.mark.parametrize("checker", [pyright, mypy])
@pytest.mark.skipif(not FACE, reason="the package has no stub for its public names")
def test_a_users_script_has_no_errors_and_a_typo_is_the_only_one(checker, tmp_path):
    assert errors(checker, SCRIPT, tmp_path) == []
    found = errors(checker, TYPO, tmp_path)
    assert len(found) == 1 and "get_cels" in found[0]


@pytest.mark.parametrize("checker", [pyright, mypy])
def test_methods_told_in_notebooks_are_seen_and_misspelt_ones_too(checker, tmp_path):
    source = "from cosee.board import Board\nprint(Board().to_text())\nprint(Board().to_txt())\n"
    found = errors(checker, source, tmp_path)
    assert len(found) == 1 and "to_txt" in found[0]


@pytest.mark.skipif(not FACE, reason="the package has no stub for its public names")
def test_a_users_script_runs():
    done = subprocess.run([sys.executable, "tests/typing/user_script.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "36,871.72 USD 1" in done.stdout, done.stderr
