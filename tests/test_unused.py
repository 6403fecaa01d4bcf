"""Public names that nobody uses are found, and so are reasons for names that somebody uses."""
import json

import pytest
import unused


@pytest.fixture
def house(tmp_path):
    "Two modules, a face, a test, a benchmark and two notebooks, each of which names one function."
    def notebook(*cells):
        return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})
    names = ("module", "face", "test", "benchmark", "tutorial", "itself", "own", "listed")
    defined = "\n".join(f"def by_{name}(): pass" for name in names)
    files = {"cosee/__init__.py": "__all__ = ['by_face']", "cosee/b.py": "from .a import by_module",
             "cosee/a.py": f"__all__ = ['by_listed']\n{defined}\ndef _private(): by_itself()",
             "tests/test_a.py": "by_test()", "benchmarks/a.py": "by_benchmark()",
             "nbs/00_a.ipynb": notebook("#| default_exp a", "by_own()"), "nbs/t.ipynb": notebook("by_tutorial()"),
             "tools/unused.txt": ""}
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


def test_what_only_its_own_module_and_notebook_name_is_unused(house):
    assert unused.unused(house) == ["cosee.a.by_itself", "cosee.a.by_own", "cosee.a.by_listed"]


def test_a_reason_is_enough_and_must_be_needed(house):
    (house / "tools/unused.txt").write_text("# names\ncosee.a.by_own: for users\ncosee.a.by_test: old\n")
    assert unused.faults(house) == ["cosee.a.by_itself: nobody uses it, and tools/unused.txt gives no reason",
                                    "cosee.a.by_listed: nobody uses it, and tools/unused.txt gives no reason",
                                    "cosee.a.by_test: is used or gone; take it out of tools/unused.txt"]


def test_a_type_in_a_signature_is_used(house):
    (house / "cosee/a.py").write_text("class Told: pass\nclass Base: pass\nclass Lost: pass\n"
                                      "def by_test(x: Told): pass\nclass by_benchmark(Base): pass\n")
    assert unused.unused(house) == ["cosee.a.Lost"]
