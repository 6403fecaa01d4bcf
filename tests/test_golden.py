"What models are sent is what was recorded: see golden/calls.py, which writes the record anew."
import pytest
from golden import calls


@pytest.mark.parametrize("who", calls.WHO)
def test_models_are_sent_what_they_were_sent(who, tmp_path):
    if who == "qwen": pytest.importorskip("torch")
    if who == "gguf": pytest.importorskip("xllamacpp")
    now = calls.calls_of(who, tmp_path)
    before = [row for row in calls.recorded() if row["who"] == who]
    assert [row["call"] for row in now] == [row["call"] for row in before]
    for row, old in zip(now, before, strict=True):
        assert row["sent"] == old["sent"], row["call"]


def test_the_reader_by_rules_finds_what_it_found(tmp_path):
    for row in calls.found_by_rules(tmp_path):
        assert row in calls.recorded(), row["call"]
