"""What the linters find may only become less, and whoever adds to it is told where."""
import json

import lint
import pytest
from lint import Find

OLD, NEW = Find("ruff F401", "tools/sync.py", 1, "old"), Find("ruff F401", "tools/sync.py", 9, "new")


@pytest.fixture
def ages(monkeypatch):
    monkeypatch.setattr(lint, "ages", lambda path: {1: 100, 9: 200})


def test_as_much_as_the_budget_passes():
    assert list(lint.over([OLD, NEW], {"ruff F401": 2})) == []


def test_more_than_the_budget_names_the_newest_first(ages):
    told = list(lint.over([OLD, NEW], {"ruff F401": 1}))
    assert told == ["ruff F401: 2, and the budget is 1. The newest:",
                    "  tools/sync.py:9: ruff F401: new", "  tools/sync.py:1: ruff F401: old"]


def test_a_rule_without_a_budget_allows_nothing(ages):
    assert list(lint.over([OLD], {"ruff B905": 9}))[0] == "ruff F401: 1, and the budget is 0. The newest:"


def test_a_file_that_git_does_not_know_is_the_newest(monkeypatch):
    monkeypatch.setattr(lint, "ages", lambda path: {1: 100} if path == OLD.path else {})
    unknown = Find("ruff F401", "new.py", 3, "unknown")
    assert lint.newest_first([OLD, unknown]) == [unknown, OLD]


def test_the_budget_is_lowered_and_never_raised():
    assert lint.lower([OLD, NEW], {"ruff F401": 5, "ruff B905": 3}) == {"ruff F401": 2}
    assert lint.lower([OLD, NEW], {"ruff F401": 1}) == {"ruff F401": 1}


@pytest.mark.parametrize("lines, rule", [
    (["x" * 120], "long line"),
    (["#| export", *["x = 1"] * 30], "long cell"),
    (["import os", "os.getcwd()"], "import beside code"),
])
def test_what_reads_badly_in_a_cell_is_found(lines, rule):
    assert [found for found, _ in lint.cell_finds(lines)] == [rule]


def test_a_good_cell_has_no_finds():
    assert list(lint.cell_finds(["#| export", "def f():", "    import os", "x" * 119])) == []


def test_a_planted_fault_is_found_by_ruff(tmp_path):
    (tmp_path / "planted.py").write_text("import os\nx = 1; y = 2\n")
    config = f"--config={lint.ROOT / 'ruff.toml'}"
    told = lint.json_of(lint.sync.BIN / "ruff", "check", "--output-format=json", config, str(tmp_path))
    assert [found["code"] for found in told] == ["F401", "E702"]


def test_the_budget_holds_whole_numbers_above_zero():
    budget = json.loads(lint.BUDGET.read_text())
    assert budget == dict(sorted(budget.items())) and all(isinstance(n, int) and n > 0 for n in budget.values())
