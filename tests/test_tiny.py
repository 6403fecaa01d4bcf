"""The tiny model: its documents, its lessons and its training."""

import json
import random

import pytest

pytest.importorskip("torch")

from cosee.agents import ROLES, parse_reply, team
from cosee.datasets.synthetic.small import is_held_out, letter_places, small_document, small_samples
from cosee.models.testing import ScriptedClient
from cosee.tiny.lessons import (checker_reply, corrupt, demonstrate, drill, make_lesson, reader_reply, text_of,
                                truth_of)
from cosee.tiny.batches import LETTERS, PARTS, collate, document_row, letter_grid, make_batch, stage
from cosee.tiny.losses import GROWN_LAYERS, answers
from cosee.tiny.training import SURES, restate, train


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


def test_letters_stand_within_their_lines():
    for i in range(20):
        doc = small_document(f"letters-{i}", 3)
        for page in (1, 2, 3):
            marks = [m for m in doc.marks if m["page"] == page]
            grid = letter_grid(marks, (320, 320)).reshape(10, -1)
            for m in marks:
                places = letter_places(m)
                assert "".join(c for c, _, _ in places) == m["text"].replace(" ", "")
                assert all(LETTERS[grid[row, col] - 1] == c for c, row, col in places)
                assert 0 <= m["bbox"][0] < m["bbox"][2] <= 1 and 0 <= m["bbox"][1] < m["bbox"][3] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_lessons_are_valid_replies_of_their_roles(role):
    agent = team(ScriptedClient([]), (role,))[0]
    weights = dict.fromkeys(("direct", "read", "cot", "chat", *ROLES), 0) | {role: 1}
    for i in range(150):
        doc, rng = small_document(f"role-{i}"), random.Random(i)
        lesson = make_lesson(doc, rng.choice(doc.questions), rng, weights=weights)
        read = parse_reply(lesson.text)
        assert read.how == "strict" and read.action["action"] in agent.actions
        view = read.action.get("view")
        assert view is None or 1 <= view["page"] <= doc.pages


@pytest.mark.slow
def test_a_misreading_is_never_the_truth():
    for i in range(200):
        doc, rng = small_document(f"mis-{i}"), random.Random(i)
        t = truth_of(rng.choice(doc.questions))
        wrong = corrupt(t, doc, rng)
        assert wrong.answer != t.answer and wrong.answer


@pytest.mark.slow
def test_a_wrong_note_is_revised_and_a_right_one_confirmed():
    kinds = set()
    for i in range(300):
        doc, rng = small_document(f"note-{i}"), random.Random(i)
        s = demonstrate(doc, truth_of(rng.choice(doc.questions)), rng, "cross_checker")
        action = parse_reply(text_of(checker_reply(s))).action
        kinds.add(action["action"])
        assert (action["action"] == "REVISE") == bool(s.wrong)
        if s.wrong:
            assert action["target_cell_id"] == s.wrong[0] and action["answer"] == s.t.answer
    assert kinds == {"HYPOTHESIZE", "REVISE", "LINK"}


def test_a_drill_revises_the_first_of_many_slips():
    wrong = 0
    for i in range(60):
        doc, rng = small_document(f"drill-{i}", unanswerable=0.), random.Random(i)
        t = truth_of(rng.choice([q for q in doc.questions if q["fact"]]))
        s = drill(doc, t, rng)
        action = parse_reply(text_of(checker_reply(s))).action
        notes = [c for c in s.board.list_cells() if c["author"] == "detail_reader"]
        assert 2 <= len(notes) <= 5 and all(c["content"].startswith(f"{t.label}: ") for c in notes)
        assert [c["id"] for c in notes if c["content"] != t.content] == s.wrong
        assert action.get("target_cell_id") == (s.wrong or [None])[0]
        wrong += len(s.wrong)
    assert 60 < wrong < 180


def test_what_a_note_should_have_said_ends_with_its_first_mistake():
    from cosee.tiny.tokens import tiny_tokenizer
    from cosee.tiny.batches import read_verdicts

    tok = tiny_tokenizer()
    text = "- (#2, detail_reader, step 1) Total: 4.95\n- (#3, cross_checker, step 1) Total: 4.35\n"
    ids, told, meant, at = read_verdicts(tok, text, "Total: 4.35", 2)
    assert ids == tok.encode(text)
    assert "".join(tok.decode([t]) for t in meant if t >= 0) == "Total: 4.3" + "Total: 4.35"
    assert tok.decode([ids[at]]) == "9"
    assert all(ids[i + 1] == t or told[i + 1] == 2 for i, t in enumerate(meant) if t >= 0)


def test_a_reader_who_finds_nothing_abstains_and_leans_on_nothing():
    abstained = 0
    for i in range(100):
        doc, rng = small_document(f"reader-{i}"), random.Random(i)
        t = truth_of(rng.choice(doc.questions))
        s = demonstrate(doc, t, rng, "detail_reader")
        action = parse_reply(text_of(reader_reply(s))).action
        assert action["action"] == "HYPOTHESIZE" and action["answer"] == t.answer
        assert t.found or action.get("supporting_cells", []) == []
        abstained += not t.found
    assert abstained > 5


@pytest.mark.slow
def test_the_pieces_of_a_reply_are_the_tokens_of_the_whole():
    from cosee.tiny.tokens import tiny_tokenizer

    tok, kinds = tiny_tokenizer(), set()
    for i in range(200):
        doc, rng = small_document(f"pieces-{i}"), random.Random(i)
        lesson = make_lesson(doc, rng.choice(doc.questions), rng)
        assert [t for p in lesson.reply for t in tok.encode(p.text)] == tok.encode(lesson.text)
        assert [p.text for p in lesson.reply if p.kind == "sure"] in ([], ["0.95"], ["0.2"])
        kinds |= {p.kind for p in lesson.reply}
    assert kinds == set(PARTS)


@pytest.mark.slow
def test_verdicts_find_the_letter_where_a_note_goes_wrong():
    from cosee.tiny.lessons import note_of
    from cosee.tiny.tokens import tiny_tokenizer
    from cosee.tiny.batches import read_verdicts

    tok, found = tiny_tokenizer(), {True: 0, False: 0}
    for i in range(200):
        doc, rng = small_document(f"verdict-{i}"), random.Random(i)
        t = truth_of(rng.choice(doc.questions))
        s = demonstrate(doc, t, rng, "cross_checker")
        text, note = s.board.to_text(), note_of(t)
        spans, told = tok(text, return_offsets_mapping=True)["offset_mapping"], read_verdicts(tok, text, note)[1]
        assert len(spans) == len(told)
        at = 0
        for line in text.splitlines(keepends=True):
            marks = [v for (a, _), v in zip(spans, told, strict=True) if at <= a < at + len(line)]
            at += len(line)
            if not line.startswith("- (#") or ", scanner, " in line or ") Links #" in line:
                assert set(marks) <= {0}
                continue
            says = line.split(") ", 1)[1].rstrip("\n")
            says = says.split(": ", 1)[1] if says.startswith("Corrects #") else says
            marks = [v for v in marks if v]
            assert marks == sorted(marks)   # wrong once, wrong to the end
            assert marks[-1] == 1 if note.startswith(says) else 2 in marks
            found[says == note] += 1
    assert found[True] > 50 and found[False] > 30


@pytest.mark.slow
def test_a_restated_confidence_is_the_probability_of_the_reading():
    import torch
    from safetensors.torch import load_file
    from cosee.models.qwen_vl_wrapper import tiny_folder
    from cosee.tiny.tokens import tiny_model

    model, processor = tiny_model(0, GROWN_LAYERS)
    model.load_state_dict(load_file(tiny_folder() / "model.safetensors"), strict=False)
    torch.manual_seed(0)
    for p in model.model.visual.parameters():   # so that it misreads now and then
        p.data += .3 * p.data.std() * torch.randn_like(p) if p.numel() > 1 else 0
    tok = processor.tokenizer
    rows = [document_row(tok, f"sure-{i}", 1 + i % 3, outside=0) for i in range(8)]
    before = collate(rows, tok.pad_token_id)
    after = restate(model, tok, before)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits, labels = answers(model, before)
    where, said, stated = (before["labels"] >= 0).nonzero().tolist(), {}, []
    best = logits.float().softmax(-1).max(-1)
    columns = where, best.values.tolist(), best.indices.tolist(), labels.tolist()
    for (i, at), p, token, label in zip(*columns, strict=True):
        key, kind = (i, int(before["branch"][i, at])), PARTS[before["parts"][i, at]]
        now, learned = int(after["input_ids"][i, at + 1]), int(after["labels"][i, at])
        if kind == "reading":
            p0, wrong, seen = said.get(key, (1., False, []))
            said[key] = (p0 * p, wrong or token != label, [*seen, (token, label, now, learned)])
        elif kind == "sure" and key in said:
            level = next(text for least, text in SURES if said[key][0] >= least)
            near = any(abs(said[key][0] - least) < 1e-5 for least, _ in SURES)
            assert near or now == learned == tok.convert_tokens_to_ids(level)
            stated.append(level)
        else:
            assert now == learned == label
    assert len(stated) > 10 and {"0.95"} < set(stated)
    for _, _, seen in said.values():
        assert all(label == now == learned for _, label, now, learned in seen)
    assert any(wrong for _, wrong, _ in said.values())


def test_samples_can_be_iterated_as_a_data_set():
    from cosee.runs.config import DataConfig
    from cosee.runs.record import split_of

    split = split_of(DataConfig(name="small", limit=5, options=dict(pages=1)))
    asked = [s["question"] for s in small_samples(5, pages=1)]
    assert [s["question"] for s in split] == [s["question"] for s in split] == asked


def test_what_a_step_learns_depends_on_its_number_alone():
    import torch
    from cosee.tiny.tokens import tiny_tokenizer

    tok = tiny_tokenizer()
    a, b, other = (make_batch(tok, step, 100, seed=3) for step in (40, 40, 41))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert a["input_ids"].shape != other["input_ids"].shape or not torch.equal(a["input_ids"], other["input_ids"])
    assert stage(0)[0] == (1, 1) and stage(1)[0] == (1, 6)


@pytest.mark.slow
@pytest.mark.timeout(1800)   # a step takes half a minute on a slow processor
def test_training_falls_and_resumes_exactly(tmp_path):
    from safetensors.torch import load_file

    log = train(tmp_path / "whole", steps=4, every=2, workers=0, progress=False)
    train(tmp_path / "parts", steps=4, stop=2, every=2, workers=0, progress=False)
    again = train(tmp_path / "parts", steps=4, every=2, workers=0, progress=False)
    assert log[1]["loss"] < log[0]["loss"] and log[1]["letters"] < log[0]["letters"]
    assert [(r["step"], r["loss"], r["letters"]) for r in again] == [(r["step"], r["loss"], r["letters"]) for r in log]
    a, b = (load_file(tmp_path / n / "last" / "model.safetensors") for n in ("whole", "parts"))
    assert a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)
    with pytest.raises(ValueError, match="give the same"):
        train(tmp_path / "parts", steps=90, progress=False)
    assert json.loads((tmp_path / "parts" / "last" / "training.json").read_text())["step"] == 4


def test_a_training_without_batches_does_not_end_as_if_it_were_done(tmp_path, monkeypatch):
    from cosee.tiny import training

    monkeypatch.setattr(training, "batches", lambda *args: iter([]))   # what a StopIteration in a worker looks like
    with pytest.raises(RuntimeError, match="no batch came for step 0"):
        train(tmp_path, steps=3, progress=False)


@pytest.mark.slow
def test_reading_apart_is_reading():
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    from cosee.tiny.evaluation import read_documents, read_groups

    groups, client = {"a": dict(n=1, pages=(1,)), "b": dict(n=1, pages=(2,))}, QwenVLClient.tiny()
    here = [read_documents(client, name, **settings) for name, settings in groups.items()]
    assert list(read_groups(client, groups, 1)) == here


@pytest.mark.faults("a file cut or damaged by a loss of power")
def test_a_torn_checkpoint_leaves_the_one_before(tmp_path):
    from cosee.tiny.losses import letter_head
    from cosee.tiny.training import last_state, load_state, optimizers, save_state
    from cosee.tiny.tokens import tiny_model

    model, processor = tiny_model()
    head = letter_head(model)
    opts = optimizers(model, head)
    for step in (1, 2):
        save_state(tmp_path, model, head, processor, opts, dict(step=step))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "model.safetensors").write_bytes(b"half")
    assert json.loads(last_state(tmp_path).read_text())["step"] == 2
    (tmp_path / "last").rename(tmp_path / "old")   # killed between the two renames
    assert json.loads(last_state(tmp_path).read_text())["step"] == 2
    load_state(last_state(tmp_path).parent, model, head, opts)


@pytest.fixture(scope="module")
def tiny():
    from cosee.models.qwen_vl_wrapper import QwenVLClient

    return QwenVLClient.tiny()


def test_the_checkpoint_of_the_package_is_small_and_whole():
    from cosee.models.qwen_vl_wrapper import QwenVLClient, tiny_folder
    from cosee.models.checkpoint import ModelError, check_model_path

    assert sum(p.stat().st_size for p in tiny_folder().iterdir()) < 10_000_000
    check_model_path(tiny_folder())
    files = {"README.md", "model.safetensors", "tokenizer.json", "processor_config.json", "chat_template.jinja"}
    assert files <= {p.name for p in tiny_folder().iterdir()}
    with pytest.raises(ModelError, match="no such directory"):
        QwenVLClient.tiny(tiny_folder() / "nothing")


@pytest.mark.parametrize("settings, least", [
    (dict(pages=(1, 2, 3)), .95), pytest.param(dict(pages=(4, 5, 6)), .9, marks=pytest.mark.slow),
    pytest.param(dict(pages=(1, 2, 3), style="held_out"), .9, marks=pytest.mark.slow)])
def test_it_reads(tiny, settings, least):
    from cosee.tiny.evaluation import read_documents

    rows = read_documents(tiny, "test", 12, **settings)
    there = [r for r in rows if r["answerable"]]
    assert sum(r["em"] for r in there) / len(there) >= least
    assert sum(r["page"] for r in there) / len(there) >= .85 and sum(r["iou"] for r in there) / len(there) >= .6


@pytest.mark.slow
def test_it_answers_in_spite_of_a_wrong_note_and_leaves_a_right_one(tiny):
    from cosee.tiny.evaluation import check_notes

    found = check_notes(tiny, 12)
    wrong, right = ([r for r in found if r["wrong"] == w] for w in (True, False))
    assert sum(r["overruled"] for r in wrong) >= .85 * len(wrong)
    assert sum(r["spoiled"] for r in right) <= .05 * len(right)
    assert sum(r["corrected"] for r in wrong) >= .8 * len(wrong)


def test_it_does_not_pretend_to_read_ordinary_pages(tiny):
    from cosee.tiny.evaluation import read_strangers

    assert all(r["abstained"] for r in read_strangers(tiny, 6))


def test_a_team_answers_in_parallel_as_well(tiny):
    from cosee.controller import CoSeeController
    from cosee.utils.text import answer_key

    right, asked = 0, list(small_samples(8, seed="team", pages=2, unanswerable=0.))
    for s in asked:
        episode = CoSeeController(team(tiny), order="parallel", max_steps=2).run(s["images"], s["question"])
        assert episode["trace"]["invalid"] == 0
        right += answer_key(episode["answer"]) == answer_key(s["answer"][0])
    assert right >= 6


def test_an_evaluation_asks_everything_and_sums_up(tmp_path):
    from cosee.tiny.evaluation import METHODS_CONFIG, evaluate, reading_groups, summary_text

    reply = ('{"action":"HYPOTHESIZE","view":{"page":1,"bbox_2d":[0,0,1000,1000]},"content":"not found",'
             '"answer":"not answerable","supporting_cells":[],"confidence":0.95}')
    found = evaluate(tmp_path, n=1, limit=2, client=ScriptedClient([reply], cycle=True), progress=False)
    assert set(found["reading"]) <= set(reading_groups(1)) and all(r["em"] == 0 for r in found["reading"].values())
    assert found["notes"]["corrected"] == 0 and found["strangers"]["abstained"] == 1
    records = [json.loads(line) for line in (tmp_path / "methods" / "records.jsonl").read_text().splitlines()]
    assert len([r for r in records if "method" in r]) == 2 * len(METHODS_CONFIG["methods"])
    assert "wrong notes corrected" in summary_text(found)
