"""Each test file alone and in random order: every one is run and told, and one that fails is the exit code."""
import pytest
import quick_tests


def test_each_file_is_told_and_a_failing_one_is_named(tmp_path, capsys):
    good, bad, empty = (tmp_path / f"test_{name}.py" for name in ("good", "bad", "empty"))
    good.write_text("def test_it(): pass\n")
    bad.write_text("def test_it(): assert False\n")
    empty.write_text("")
    with pytest.raises(SystemExit, match=f"^seed 7: failed: {bad}, {empty}$"):
        quick_tests.main(["--seed", "7", str(bad), str(empty), str(good)])
    out = capsys.readouterr().out.splitlines()
    assert [line.rpartition(",")[0] for line in out[1:4]] == [
        f"1/3 {bad}: failed (1)", f"2/3 {empty}: no tests", f"3/3 {good}: passed"]
    assert out[4].startswith("1 of 3 files passed in ")


def test_all_leaves_no_file_out(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(quick_tests, "pytest", lambda *args: ran.append(args) or 0)
    with pytest.raises(SystemExit) as done: quick_tests.main(["--all", "--seed", "7"])
    files = sorted(path.name for path in (quick_tests.ROOT / "tests").glob("test_*.py"))
    assert done.value.code == 0 and [args[-1] for args in ran] == [f"tests/{name}" for name in files]
    assert all("--randomly-seed=7" in args for args in ran)


def test_the_quick_files_are_there():
    assert [name for name in quick_tests.QUICK if not (quick_tests.ROOT / f"tests/test_{name}.py").is_file()] == []


def test_all_and_names_together_are_refused(capsys):
    with pytest.raises(SystemExit) as done: quick_tests.main(["--all", "tests/test_fold.py"])
    assert done.value.code == 2 and "name none" in capsys.readouterr().err
