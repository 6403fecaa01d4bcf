"A study from its records alone: packs that are whole or refused, and figures that are what a count by hand gives."
import contextlib
import io
import json
import lzma
import random
import tracemalloc

import pytest

from cosee.cli.entry import main
from cosee.experiments import run_experiment
from cosee.runs.config import make_config
from cosee.runs.log import RunError
from cosee.runs.pack import LONGEST, open_pack, pack_records, read_pack
from cosee.runs.table import Run, merge_runs, pack_runs, replay_record

MADE = dict(name="made", limit=6, options=dict(kinds=["invoice", "letter"], per_doc=3, dpi=72))
METHODS = ["direct", "self_consistency", "cosee_base"]


def cosee(*argv):
    "Exit code and output of a command line."
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out): code = main([str(a) for a in argv])
    return code, out.getvalue()


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    "A run of three ways of answering, with its episodes, and its pack."
    folder = tmp_path_factory.mktemp("study") / "made"
    run = run_experiment(make_config(dict(name="made", dataset=MADE, client="ocr", methods=METHODS)), folder)
    return run, pack_runs([folder], folder.with_name("made.pack"))


# --- packs ---

def test_a_pack_says_what_its_run_says(ran, tmp_path):
    run, pack = ran
    assert list(pack) == list(run) and pack.status() == run.status()
    assert pack.scores("em") == run.scores("em") and pack.documents() == run.documents()
    team = next(r for r in pack if r["method"] == "cosee_base")
    assert replay_record(team)["answer"] == team["answer"]
    back = merge_runs([pack.folder], tmp_path / "folder")
    assert list(back) == list(run)
    again = pack_runs([back.folder], tmp_path / "again.pack")
    assert again.path.read_bytes() == pack.path.read_bytes()
    assert len(pack.path.read_bytes()) < run.path.stat().st_size / 5


def test_the_same_records_are_the_same_bytes_in_any_order(ran, tmp_path):
    run, pack = ran
    lines = run.path.read_bytes().splitlines(keepends=True)
    for n, part in enumerate((lines[1::2], lines[::2])):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "run.json").write_bytes((run.folder / "run.json").read_bytes())
        (tmp_path / str(n) / "records.jsonl").write_bytes(b"".join(part[::-1]))
    joined = pack_runs([tmp_path / "0", tmp_path / "1"], tmp_path / "joined.pack")
    assert joined.path.read_bytes() == pack.path.read_bytes()


def test_runs_of_one_configuration_may_lie_anywhere(ran, tmp_path):
    run, _ = ran
    folders = [tmp_path / name for name in "abc"]
    for folder, root, seed in zip(folders, ("/one/docs", "/other/place/docs", "/one/docs"), (0, 0, 1), strict=True):
        folder.mkdir()
        config = dict(run.about["config"], dataset=dict(name="folder", root=root), seed=seed)
        (folder / "run.json").write_text(json.dumps({**run.about, "config": config, "hash": folder.name}))
        (folder / "records.jsonl").write_bytes(run.path.read_bytes())
    joined = pack_runs(folders[:2], tmp_path / "joined.pack")
    assert list(joined) == list(run) and joined.about["config"]["dataset"]["root"] == "docs"
    assert b"/one" not in open_pack(joined.path).readline()
    with pytest.raises(RunError, match="differ in their configuration"):
        pack_runs(folders, tmp_path / "joined.pack")


def test_the_commands_read_packs(ran, tmp_path):
    run, pack = ran
    sample = next(iter(run))["sample"]
    for command, *more in (("score", "--metric", "em"), ("compare", "--json"), ("replay", sample, "--json"),
                           ("export", "-o", tmp_path / "t.csv")):
        said = cosee(command, pack.path, *more)
        assert said == cosee(command, run.folder, *more) and said[0] == 0, command
    code, said = cosee("view", pack.path, "--export", tmp_path / "site", "--json", "--quiet")
    assert code == 0 and json.loads(said)["records"] == len(run.entries())
    code, said = cosee("resume", pack.path)
    assert code == 2 and "only read" in said and said.count("\n") == 1


def test_a_pack_that_is_cut_or_changed_is_refused(ran, tmp_path):
    _, pack = ran
    whole, rng = pack.path.read_bytes(), random.Random(0)
    path = tmp_path / "hurt.pack"
    cuts = [whole[:rng.randrange(len(whole))] for _ in range(40)]
    flips = [bytearray(whole) for _ in range(60)]
    for f in flips: f[rng.randrange(len(f))] ^= 1 << rng.randrange(8)
    for data in [*cuts, *map(bytes, flips), whole + b"\0", whole + whole, b"PK\3\4" + whole, b"", b"{}\n"]:
        path.write_bytes(data)
        with pytest.raises(RunError) as e: list(Run(path))
        assert str(path) in str(e.value) and "\n" not in str(e.value)
    path.write_bytes(whole)
    assert len(list(Run(path))) == len(pack.entries())


@pytest.mark.parametrize("name", ["score", "compare", "report", "replay", "status", "export", "view", "pack", "merge"])
def test_a_hurt_pack_costs_a_command_one_line(ran, tmp_path, name):
    (tmp_path / "hurt.pack").write_bytes(ran[1].path.read_bytes()[:-40])
    before = [tmp_path / "out.pack"] if name == "pack" else [tmp_path / "out"] if name == "merge" else []
    more = {"replay": ["x"], "export": ["-o", tmp_path / "t.csv"], "view": ["--export", tmp_path / "s"]}.get(name, [])
    code, said = cosee(name, *before, tmp_path / "hurt.pack", *more)
    assert code == 2 and "its end is missing" in said and said.count("\n") == 1, said
    assert not (tmp_path / "out.pack").exists()


def bomb(head, filling, times):
    "An xz file of a first line, and many megabytes of the same."
    xz = lzma.LZMACompressor(preset=0)
    return b"".join([xz.compress(head), *(xz.compress(filling) for _ in range(times)), xz.flush()])


def test_bombs_are_bounded(tmp_path):
    path, about = tmp_path / "bomb.pack", dict(methods=["direct"])
    head = lzma.decompress(pack_records(about, [], 0))
    greedy = [dict(id=lzma.FILTER_LZMA2, preset=6, dict_size=1 << 28)]
    cases = {"longer than": bomb(head, b"x" * (1 << 20), 64), "line": bomb(b"", b"x" * (1 << 20), 64),
             "record 1": bomb(head, b"\n" * (1 << 20), 64),
             "limit": lzma.compress(head, filters=greedy)}
    for why, data in cases.items():
        path.write_bytes(data)
        tracemalloc.start()
        with pytest.raises(RunError, match=why): list(read_pack(path))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * LONGEST, (why, peak)
    path.write_bytes(bomb(head, b"1\n" * (1 << 19), 40))
    with pytest.raises(RunError, match="more than 20 MB"), open_pack(path, 20 << 20) as f:
        for _ in f: pass
