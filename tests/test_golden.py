"What models are sent, what pages say and what servers offer is what was recorded: see golden/."
import json
import subprocess
import sys
from pathlib import Path

import pytest
from golden import calls, interfaces, methods, page_text, synthetic
from golden.wording import structure


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


def test_the_samples_say_what_they_said():
    rows = list(page_text.from_files())
    before = [row for row in page_text.recorded() if row.get("source") == "text"]
    assert len(rows) > 10 and json.loads(json.dumps(rows)) == before


@pytest.mark.parametrize("who", ["openai, text", "openai, both", "openai", "gguf"])
def test_no_client_reads_the_wording_of_a_prompt(who, tmp_path):
    "With other words in every prompt the same turns, examples, pages and schemas are sent."
    if who == "gguf": pytest.importorskip("xllamacpp")
    script = Path(calls.__file__).with_name("wording.py")
    run = subprocess.run([sys.executable, script, tmp_path, who], capture_output=True, text=True, timeout=300)
    assert not run.returncode, run.stderr[-2000:]
    *rows, changed = map(json.loads, filter(lambda line: line[:1] in "{[", run.stdout.splitlines()))
    assert len(changed) >= 15 and "cosee.agents.DIRECT_PROMPT" in changed
    before = [row for row in calls.recorded() if row["who"] == who]
    for row, old in zip(rows, before, strict=True):
        assert row == {**old, "sent": structure(old["sent"])}, row["call"]


def test_methods_ask_and_answer_as_they_did():
    before = [json.loads(line) for line in methods.FILE.read_text().splitlines()]
    for line, old in zip(methods.lines(), before, strict=True): assert line == old, (old["method"], old["told"])


def test_a_seed_draws_the_document_that_it_drew():
    from cosee.datasets.synthetic.document import make_document
    from cosee.datasets.synthetic.kinds import DOCUMENT_TYPES
    before = {row.get("document"): row for row in synthetic.recorded()}
    for kind in DOCUMENT_TYPES:
        doc = make_document(kind, 0, "dev")
        assert synthetic.told(doc).items() <= before[doc.doc_id].items(), kind


def test_servers_take_and_give_what_they_did():
    for name, found in interfaces.current().items():
        assert not [*interfaces.differences(interfaces.recorded(name), found)], name
