"""What pyright says about a script as a user writes it: nothing, or the one misspelt method in it."""
import json
import subprocess
import sys

import pytest
import sync
from conftest import ROOT

SCRIPT = (ROOT / "tests/typing/user_script.py").read_text(encoding="utf-8")
TYPO = SCRIPT.replace("board.get_cells(", "board.get_cels(")


def errors(source, tmp_path):
    "The errors that pyright finds in a script in its basic mode."
    (tmp_path / "script.py").write_text(source, encoding="utf-8")
    config = {"include": ["script.py"], "extraPaths": [str(ROOT)], "typeCheckingMode": "basic"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sync.BIN / "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [error["message"] for error in found if error["severity"] == "error"]


@pytest.mark.slow
def test_a_users_script_has_no_errors_and_a_typo_is_the_only_one(tmp_path):
    assert errors(SCRIPT, tmp_path) == []
    found = errors(TYPO, tmp_path)
    assert len(found) == 1 and "get_cels" in found[0]


def test_methods_are_seen_and_misspelt_ones_too(tmp_path):
    found = errors("from cosee import Board\nprint(Board().to_text())\nprint(Board().to_txt())\n", tmp_path)
    assert len(found) == 1 and "to_txt" in found[0]


def test_a_users_script_runs():
    done = subprocess.run([sys.executable, "tests/typing/user_script.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "36,871.72 USD 1" in done.stdout, done.stderr
