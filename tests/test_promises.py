"""The page of promises is true: its tests and constants are there, its bounds have reasons, its counts were saved."""
import json

import faults
import promises
import pytest
from conftest import ROOT


def test_every_promise_has_tests_and_every_limit_its_words():
    assert promises.promises().count("](https://") >= len(promises.PROMISES)
    assert all(row.split(" | ")[2].strip(" |") for row in promises.limits().splitlines()[2:])


def test_a_promise_without_its_test_is_found(monkeypatch):
    monkeypatch.setattr(promises, "PROMISES", [("a threat", "a promise", {"test_faults": "test_that_is_gone"})])
    with pytest.raises(KeyError, match="there is no test_that_is_gone"): promises.promises()


def test_bounds_have_reasons_and_no_version_is_older_than_its_mend(monkeypatch):
    assert promises.faults() == []
    monkeypatch.setitem(promises.REASONS, "gone", "no bound")
    monkeypatch.setattr(promises, "DEPENDENCIES", [("pillow", "1", "a weakness", "999.0", "")])
    assert len(promises.faults()) == 2


def test_what_is_saved_names_tests_that_are_there():
    for row in json.loads(faults.RESULTS.read_text(encoding="utf-8"))["rows"]:
        assert row["tried"] == sum(row["outcomes"].values()) > 0
        for test in row["tests"]:
            file, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_counts_are_added_up_and_kept_beside_those_of_other_faults(tmp_path):
    lines = [dict(what="a", test=f"t.py::{i}", outcomes={"held": 1, "told": i}, cpu_s=.5) for i in (1, 2)]
    rows = faults.rows_of(lines)
    assert rows == [dict(what="a", tried=5, outcomes={"held": 2, "told": 3}, cpu_s=1., tests=["t.py::1", "t.py::2"])]
    faults.save(rows, tmp_path / "f.json")
    faults.save([dict(rows[0], what="b")], tmp_path / "f.json")
    assert [r["what"] for r in json.loads((tmp_path / "f.json").read_text())["rows"]] == ["a", "b"]


def test_those_who_install_it_find_how_to_report():
    assert "SECURITY.md" in (ROOT / "README.md").read_text() and "SECURITY.md" in (ROOT / "MANIFEST.in").read_text()
