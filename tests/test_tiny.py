"""The tiny model: what it reads, its documents, and the scripts that train and measure it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "examples" / "tiny_qwen3vl"
sys.path.insert(0, str(SCRIPTS))

import evaluate
import model as tiny_qwen3vl
import train
from cosee.agents import team
from cosee.datasets.synthetic.small import is_held_out, small_document, small_samples


@pytest.fixture(scope="module")
def tiny():
    from cosee.models.qwen_vl_wrapper import QwenVLClient

    return QwenVLClient.tiny()


def script(name, *args, **kwargs):
    "A script of the example in a process of its own, as people start it."
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, SCRIPTS / name, *map(str, args)], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)


# --- the checkpoint of the package ---

def test_the_checkpoint_of_the_package_is_small_and_whole():
    from cosee.models.checkpoint import ModelError, check_model_path
    from cosee.models.qwen_vl_wrapper import QwenVLClient, tiny_folder

    assert sum(p.stat().st_size for p in tiny_folder().iterdir()) < 10_000_000
    check_model_path(tiny_folder())
    files = {"README.md", "model.safetensors", "tokenizer.json", "processor_config.json", "chat_template.jinja"}
    assert files <= {p.name for p in tiny_folder().iterdir()}
    with pytest.raises(ModelError, match="no such directory"):
        QwenVLClient.tiny(tiny_folder() / "nothing")


def test_its_card_says_what_was_measured():
    found = json.loads((ROOT / "benchmarks/results/tiny/reading.json").read_text())
    assert evaluate.summarize(found) in (ROOT / "cosee/data/tiny/README.md").read_text()


def test_its_tokenizer_knows_todays_prompts(tiny):
    "A prompt that changes is not known to the checkpoint: it has to be trained again."
    tok = tiny_qwen3vl.tiny_tokenizer()
    assert tok.get_vocab() == tiny.processor.tokenizer.get_vocab()
    for name, text in tiny_qwen3vl.prompts().items(): assert len(tok.encode(text)) <= 4, name
    assert tok.decode(tok.encode("Zürich → 12 °C\n")) == "Zürich → 12 °C\n"


@pytest.mark.parametrize("settings, least", [
    (dict(pages=(1, 2, 3)), .95), pytest.param(dict(pages=(4, 5, 6)), .9, marks=pytest.mark.slow),
    pytest.param(dict(pages=(1, 2, 3), style="held_out"), .9, marks=pytest.mark.slow)])
def test_it_reads(tiny, settings, least):
    rows = evaluate.read_documents(tiny, "test", 12, **settings)
    there = [r for r in rows if r["answerable"]]
    assert sum(r["em"] for r in there) / len(there) >= least
    assert sum(r["page"] for r in there) / len(there) >= .85 and sum(r["iou"] for r in there) / len(there) >= .6


@pytest.mark.slow
def test_it_answers_in_spite_of_a_wrong_note_and_leaves_a_right_one(tiny):
    found = evaluate.check_notes(tiny, 12)
    wrong, right = ([r for r in found if r["wrong"] == w] for w in (True, False))
    assert sum(r["overruled"] for r in wrong) >= .85 * len(wrong)
    assert sum(r["spoiled"] for r in right) <= .05 * len(right)
    assert sum(r["corrected"] for r in wrong) >= .8 * len(wrong)


def test_it_does_not_pretend_to_read_ordinary_pages(tiny):
    assert all(r["abstained"] for r in evaluate.read_ordinary_pages(tiny, 6))


def test_a_team_answers_in_parallel_as_well(tiny):
    from cosee.controller import CoSeeController
    from cosee.utils.text import answer_key

    right, asked = 0, list(small_samples(8, seed="team", pages=2, unanswerable=0.))
    for s in asked:
        episode = CoSeeController(team(tiny), order="parallel", max_steps=2).run(s["images"], s["question"])
        assert episode["trace"]["invalid"] == 0
        right += answer_key(episode["answer"]) == answer_key(s["answer"][0])
    assert right >= 6


# --- its documents ---

def test_documents_are_what_their_questions_say():
    for i in range(60):
        doc = small_document(f"test-{i}", style=("dev", "held_out")[i % 2])
        seen = {(f["label"], f["page"]): f["value"] for f in doc.facts}
        assert len(seen) == len(doc.facts)
        for f in doc.facts:
            x0, y0, x1, y1 = f["row_bbox"]
            assert 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
            if len(f["label"].split()) == 1:
                assert is_held_out(f["label"]) == (i % 2 == 1)
        for q in doc.questions:
            if q["fact"] is None:
                named = [p for label, p in seen if label == q["label"]]
                assert q["answers"] == ["not answerable"]
                assert not named or q["asked_page"] not in named and q["asked_page"]
            else:
                same = [f for f in doc.facts if f["label"] == q["label"]]
                assert q["asked_page"] or len(same) == 1
                assert q["answers"] == [q["fact"]["value"]] and q["evidence_pages"] == [q["fact"]["page"]]


# --- what it learns from ---

# --- the scripts ---

@pytest.mark.slow
@pytest.mark.timeout(1800)   # a step takes half a minute on a slow processor
def test_a_training_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path):
    from safetensors.torch import load_file

    whole, parts, short = tmp_path / "whole", tmp_path / "parts", ("--steps", 2, "--every", 1)
    assert script("train.py", whole, *short).wait() == 0
    killed = script("train.py", parts, *short)
    while not (parts / "last" / "training.json").exists() and killed.poll() is None: time.sleep(.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert json.loads((parts / "last" / "training.json").read_text())["step"] == 1
    other = script("train.py", parts, "--steps", 9)
    assert "give the same, or another folder" in other.communicate()[0] and other.returncode == 2
    resumed = script("train.py", parts, *short)
    assert "holds the checkpoint of step 2" in resumed.communicate()[0] and resumed.returncode == 0
    logs = [json.loads((folder / "last" / "training.json").read_text())["log"] for folder in (whole, parts)]
    first, second = ([{k: v for k, v in line.items() if k != "cpu_s"} for line in log] for log in logs)
    assert first == second and first[1]["loss"] < first[0]["loss"] and first[1]["letters"] < first[0]["letters"]
    a, b = (load_file(folder / "last" / "model.safetensors") for folder in (whole, parts))
    assert a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)
    measured = script("evaluate.py", tmp_path, "--checkpoint", whole / "last", "--documents", 1)
    assert "wrong notes corrected" in measured.communicate()[0] and measured.returncode == 0
    assert (tmp_path / "reading.json").exists()


@pytest.mark.faults("a file cut or damaged by a loss of power")
def test_a_torn_checkpoint_leaves_the_one_before(tmp_path):
    training = train.Training(tmp_path, steps=9)
    for training.step in (1, 2): training.save()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "model.safetensors").write_bytes(b"half")
    assert train.Training(tmp_path, steps=9).step == 2
    (tmp_path / "last").rename(tmp_path / "old")   # killed between the two renames
    assert train.Training(tmp_path, steps=9).step == 2


@pytest.mark.parametrize("name, says", [("train.py", "--stop"), ("evaluate.py", "--checkpoint")])
def test_scripts_have_help_and_refuse_what_is_wrong(name, says, tmp_path):
    asked = script(name, "--help")
    assert says in asked.communicate()[0] and asked.returncode == 0
    wrong = script(name, tmp_path, *(["--steps", 0] if name == "train.py" else ["--checkpoint", "nowhere"]))
    assert "error: " in wrong.communicate()[0] and wrong.returncode == 2


def test_a_reply_that_has_no_room_is_an_invalid_turn(tiny):
    from PIL import Image

    from cosee import CoSeeController
    from cosee.board import Board

    agent, page = team(tiny, ["detail_reader"])[0], Image.new("RGB", (300, 300), "white")
    action = agent.act([page], "How much?", Board(), dict(max_new_tokens=5))
    assert action["action"] == "INVALID" and "max_new_tokens=5 is too small" in action["error"]
    episode = CoSeeController([agent], 1, dict(max_new_tokens=5), guess=False).run([page], "How much?")
    assert "is too small" in episode["trace"]["events"][0]["error"] and not episode["answer"]
