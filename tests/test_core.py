"""Each decision that several rooms take is taken in one place: which answers are the same and which are none, what a
box is, how a file is written and which paths may be opened."""
import errno
import os
import stat
import threading

import pytest
from hypothesis import example, given, settings, strategies as st

from cosee.cli.start import main
from cosee.agents import read_view
from cosee.board import Board
from cosee.utils.boxes import (check_bbox, from_thousandths, is_box, ordered, pixel_box, placed, read_box,
                         rounded, unit_box)
from cosee.controller import CoSeeController
from cosee.datasets.submissions import read_submission, write_submission
from cosee.utils.files import PathError, file_hash, inside, write_whole
from cosee.models.testing import ScriptedClient
from cosee.models.registry import CLIENTS, ClientEntry
from cosee.utils.text import NOT_ANSWERABLE, clean, md_line, one_line
from test_cli import FOUND, NOTHING, SCAN, ask
from test_pages import pdf

SPELT = ["not answerable", "Not answerable.", "NOT ANSWERABLE", '"Not answerable"', "(not answerable)",
         "\uff2eot answerable", " not\u00a0 answerable! "]
# --- answers: the page, the controller and the command line agree ---


@pytest.mark.parametrize("spelt", SPELT)
def test_a_model_that_abstains_in_its_own_spelling_gives_no_answer(spelt, tmp_path, monkeypatch, capsys):
    told = [SCAN, {**NOTHING, "answer": spelt, "content": "nothing"}, {**NOTHING, "answer": spelt}]
    monkeypatch.setitem(CLIENTS, "told", ClientEntry(lambda: ScriptedClient(told, cycle=True)))
    code = main([str(a) for a in ask(pdf(tmp_path / "doc.pdf", 2), "-q", "Who?", "--quiet")])
    out = capsys.readouterr().out
    assert code == 3, out
    assert "Not answerable from these pages" in out and "confidence" not in out and "Where" not in out
    assert ".." not in out


def test_a_note_keeps_the_full_stop_of_its_answer_once():
    controller, board = CoSeeController([]), Board()
    for name in ("Acme Inc.", "Acme"):
        action = dict(FOUND, answer=name, content="the seller")
        controller.apply_action(board, controller.validate_action(action), 1, "reader")
    revise = dict(action="REVISE", content="it is", answer="Acme Inc.", target_cell_id=1, view={"page": 1})
    controller.apply_action(board, controller.validate_action(revise), 1, "checker")
    assert [c["content"] for c in board.list_cells()] == [
        "Answer: Acme Inc. the seller", "Answer: Acme. the seller", "Corrects #1: it is Answer: Acme Inc."]


@pytest.mark.parametrize("spelt", SPELT)
def test_a_leaderboard_gets_its_own_word_for_no_answer(spelt, tmp_path):
    for name in ("mpdocvqa", "dude", "docvqa2026"):
        path = write_submission(name, [dict(id="1", answer=spelt)], ["1"], tmp_path / f"{name}.json")
        assert [p["answer"] for p in read_submission(name, path)] == [NOT_ANSWERABLE]


# --- strangers' text ---

@given(st.text())
def test_text_of_strangers_is_harmless(text):
    line = one_line(text)
    assert "\n" not in line and "\u202e" not in line and not line.lower().startswith("[page")
    assert not {"\x00", "\x1b", "\u202e", "\u2028"} & set(clean(text))
    assert "\n" not in md_line(text) and "<" not in md_line(text) and "://" not in md_line(text)


# --- boxes ---

unit = st.floats(0, 1)
unit_boxes = (st.tuples(unit, unit, unit, unit).map(ordered)
              .filter(lambda b: b[2] - b[0] > 1e-3 and b[3] - b[1] > 1e-3))
sizes = st.tuples(st.integers(1, 9000), st.integers(1, 9000))
number = st.one_of(st.floats(), st.integers(), st.text(max_size=4), st.booleans(), st.none())
anything = st.one_of(number, st.dictionaries(st.text(max_size=2), number, max_size=4), st.lists(number, max_size=6))


@given(unit_boxes, sizes)
def test_a_box_survives_its_units(box, size):
    close = pytest.approx(box, abs=1e-9)
    assert is_box(box) and check_bbox(box) == box
    assert unit_box(pixel_box(box, size), size) == close
    x, y, w, h = placed(box, size)
    assert (x, y, x + w, y + h) == pytest.approx(pixel_box(box, size), abs=1e-6)
    assert from_thousandths([v * 1000 for v in box]) == close
    assert rounded(box) == pytest.approx(box, abs=5.1e-5)


@given(anything, st.one_of(st.none(), sizes))
@example("0123", None)
@example([1, 2, 3, 10 ** 400], None)
@example([0, 0, float("nan"), 1], (10, 10))
def test_a_box_is_sound_or_an_error(raw, size):
    for f in (lambda: check_bbox(raw, size), lambda: read_box(raw), lambda: from_thousandths(raw)):
        try: x0, y0, x1, y1 = f()
        except ValueError: continue
        assert x0 < x1 and y0 < y1
    for key in ("bbox", "bbox_2d"):
        for space in ("thousandths", "pixels"): assert "page" in read_view({"page": 1, key: raw}, space)
    if is_box(raw): assert check_bbox(raw) == tuple(raw)


# --- files ---

PARTS = ["..", ".", "a", "b.png", "out", "", "C:", "\\", "~"]


@pytest.fixture
def target(tmp_path):
    write_whole(tmp_path / "page.html", "old")
    return tmp_path / "page.html"


@pytest.mark.faults("a disk that is full")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(target, step, monkeypatch):
    def full(*args): raise OSError(errno.ENOSPC, "no space")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="no space"): write_whole(target, "new")
    assert target.read_text() == "old" and list(target.parent.iterdir()) == [target]


def test_a_device_without_fsync_is_no_error(target, monkeypatch):
    def cannot(fd): raise OSError(errno.EINVAL, "invalid")
    monkeypatch.setattr(os, "fsync", cannot)
    assert write_whole(target, "new").read_text() == "new"


def test_permissions_stay(target):
    target.chmod(0o604)
    assert stat.S_IMODE(write_whole(target, "new").stat().st_mode) == 0o604
    old = os.umask(0o027)
    try: assert stat.S_IMODE(write_whole(target.with_name("other"), "x").stat().st_mode) == 0o640
    finally: os.umask(old)


@pytest.mark.faults("two writers of one file")
def test_many_writers_leave_one_whole_file(target):
    texts = [str(i) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=write_whole, args=(target, t, False)) for t in texts]
    for t in threads: t.start()
    for t in threads: t.join()
    assert target.read_text() in texts and list(target.parent.iterdir()) == [target]


def test_a_long_name_and_a_link_and_a_pipe(tmp_path):
    write_whole(tmp_path / ("ü" * 120), "x")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").write_text("kept")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "kept").read_text() == "kept" and not (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_whole(tmp_path / "pipe", "through")
    reader.join(10)
    assert got == ["through"] and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@given(st.one_of(st.text(max_size=20), st.lists(st.sampled_from(PARTS), max_size=5).map("/".join)))
@settings(max_examples=200, deadline=None)
def test_nothing_outside_is_opened(tmp_path_factory, name):
    root = tmp_path_factory.getbasetemp() / "root"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        (root / "a" / "b.png").write_bytes(b"x")
        (root / "out").symlink_to(root.parent)
    try: found = inside(root, name)
    except PathError as e: assert e.why in ("no name", "outside", "link", "missing") and str(e)
    else: assert found.resolve().is_relative_to(root.resolve())


def test_a_file_is_known_by_its_bytes(target):
    same = write_whole(target.with_name("copy"), "old")
    assert file_hash(same) == file_hash(target) != file_hash(write_whole(same, "new"))
