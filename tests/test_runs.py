"""Runs survive: a driver that is killed in the middle of a line, again and again, full disks, broken images, models
that raise or hang. What is left is resumed, and in the end every question has been answered by every method exactly
once, as in a run that nothing disturbed.

COSEE_KILLS=30 COSEE_SAMPLES=300 makes the test of killing as long as one likes."""
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import echo_plugin  # noqa: F401  its client stands in the table from the start, so `tables` leaves it there
import pytest
import yaml
from PIL import Image

from cosee.cli.entry import main
from cosee.datasets.folder import to_jsonl
from cosee.runs.log import RunError, RunLog, read_records, without_times
from cosee.runs.report import Report
from cosee.runs.table import Run, join_runs
from cosee.experiments import run_experiment
from cosee.models.testing import ScriptedClient
from cosee.runs.config import make_config, read_config

TESTS = Path(__file__).parent
KILLS, SAMPLES = int(os.environ.get("COSEE_KILLS", 6)), int(os.environ.get("COSEE_SAMPLES", 40))
METHODS = ["direct", "cot", {"type": "self_consistency", "num_samples": 2.5}, "chat", "cosee_base"]
sys.path.insert(0, str(TESTS))


def write_data(folder, n):
    page = Image.new("RGB", (64, 64), "white")
    made = ({"images": [page] * (1 + i % 3), "question": f"What is value w{i}w?", "answer": [f"value {i % 3}"],
             "meta": {"id": f"q{i}", "doc_id": f"d{i // 4}", "evidence_pages": [1]}} for i in range(n))
    return to_jsonl(made, folder)


def write_config(path, data, **more):
    fields = {"dataset": {"name": "jsonl", "root": str(data)}, "client": "echo", "methods": METHODS,
              "plugins": ["echo_plugin"], **more}
    path.write_text(yaml.safe_dump(fields))
    return path


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_data(folder / "data", SAMPLES)
    write_config(folder / "config.yaml", folder / "data")
    return folder


@pytest.fixture(scope="module")
def undisturbed(here):
    "The records of a run that nothing disturbed, and the lines of its log."
    run = run_experiment(read_config(here / "config.yaml"), here / "undisturbed")
    return [without_times(r) for r in run], [without_times(r) for _, r in read_records(run.path)]


def cosee(*argv, **env):
    "`cosee ...` in a process of its own: exit code and standard error."
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
           "COSEE_ARMED": str(os.getpid()), **{k: str(v) for k, v in env.items()}}
    done = subprocess.run([sys.executable, "-c", "from cosee.cli.entry import main; raise SystemExit(main())",
                           *map(str, argv)],
                          env=env, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stderr + done.stdout


def torn(path):
    return not path.read_bytes().endswith(b"\n")


# --- kill -9 ---

@pytest.mark.faults("a run killed in the middle of writing a line (kill -9)")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_survives_being_killed_in_the_middle_of_a_line(here, undisturbed, workers, counts):
    rng, folder, kills = (random.Random(workers), here / f"killed-{workers}",
                          KILLS if workers == 1 else max(2, KILLS // 3))
    each, left_torn = len(undisturbed[0]) // (kills + 1), 0
    for _ in range(kills):
        code, said = cosee("run", here / "config.yaml", "--output-dir", folder, "--workers", workers, "--quiet",
                           COSEE_KILL_AT=rng.randint(1, each))
        assert code == -9, said
        left_torn += torn(folder / "records.jsonl")
    assert left_torn == kills
    counts["killed, and resumed to the records of a run that nothing disturbed"] = kills
    code, said = cosee("run", folder, "--workers", workers, "--quiet", "--allow-plugins")
    assert code == 0, said
    lines = [without_times(r) for _, r in read_records(folder / "records.jsonl")]
    keys = [(r["sample"], r["method"]) for r in lines]
    assert len(keys) == len(set(keys)) == len(METHODS) * SAMPLES
    assert [without_times(r) for r in Run(folder)] == undisturbed[0]
    if workers == 1: assert lines == undisturbed[1]   # and in the order of a run that nothing disturbed


def test_two_runs_of_one_configuration_are_the_same_files(here, undisturbed):
    code, said = cosee("run", here / "config.yaml", "--output-dir", here / "again", "--quiet")
    assert code == 0, said
    assert [without_times(r) for _, r in read_records(here / "again/records.jsonl")] == undisturbed[1]
    about = [without_times(json.loads((here / f / "run.json").read_text())) for f in ("again", "undisturbed")]
    assert about[0] == about[1]


def test_shards_merge_to_the_same_run(here, undisturbed):
    for i in (1, 2, 3):
        run_experiment(read_config(here / "config.yaml"), here / "sharded" / f"shard-{i}-of-3", shard=f"{i}/3")
    code, said = cosee("report", here / "sharded", "--format", "records", "-o", here / "joined")
    assert code == 0, said
    assert [without_times(r) for r in Run(here / "joined")] == undisturbed[0]


# --- disks and folders ---

@pytest.mark.faults("a disk that is full")
def test_a_full_disk_stops_the_run_and_loses_nothing(here, undisturbed):
    folder = here / "full"
    limit = sum(len(json.dumps(r)) for r in undisturbed[1]) // 3
    code, said = cosee("run", here / "config.yaml", "--output-dir", folder, "--quiet", COSEE_FILE_LIMIT=limit)
    assert code == 1 and "make room and resume" in said and "Traceback" not in said
    assert not torn(folder / "records.jsonl") and 0 < len(list(Run(folder))) < len(undisturbed[0])
    assert cosee("run", folder, "--quiet", "--allow-plugins")[0] == 0
    assert [without_times(r) for _, r in read_records(folder / "records.jsonl")] == undisturbed[1]


@pytest.mark.faults("a folder that cannot be written")
def test_a_folder_that_cannot_be_written_is_refused_before_any_work(here, tmp_path):
    (tmp_path / "file").touch()
    code, said = cosee("run", here / "config.yaml", "--output-dir", tmp_path / "file" / "run", COSEE_TRAP="die:What")
    assert code == 2 and "cannot be written" in said


@pytest.mark.faults("two writers of one file")
def test_one_writer(here, tmp_path):
    config = read_config(here / "config.yaml", ["dataset.limit=1"])
    with RunLog(tmp_path / "run"), pytest.raises(RunError, match="another process"):
        run_experiment(config, tmp_path / "run")


@pytest.mark.faults("a file cut or damaged by a loss of power")
def test_a_power_cut_in_the_middle_of_the_log_costs_only_its_line(here, undisturbed, tmp_path):
    run = run_experiment(read_config(here / "config.yaml", ["dataset.limit=4"]), tmp_path / "run")
    lines = run.path.read_bytes().splitlines(keepends=True)
    run.path.write_bytes(b"".join(lines[:3]) + b"\0" * 500 + b"\n" + b"".join(lines[4:]))
    again = run_experiment(read_config(here / "config.yaml", ["dataset.limit=4"]), tmp_path / "run")
    assert [without_times(r) for r in again] == undisturbed[0][:4 * len(METHODS)]


# --- configurations and data do not mix ---

def test_a_changed_configuration_or_changed_data_never_mixes_into_a_run(tmp_path):
    data = write_data(tmp_path / "data", 4)
    config = read_config(write_config(tmp_path / "c.yaml", tmp_path / "data", methods=["direct"]))
    run_experiment(config, tmp_path / "run")
    with pytest.raises(RunError, match="in gen.temperature"):
        run_experiment(make_config({**config.model_dump(), "gen": {"temperature": .5}}), tmp_path / "run")
    with pytest.raises(RunError, match="shard"): run_experiment(config, tmp_path / "run", shard="1/2")
    data.write_text(data.read_text().replace("w2w", "x2x"))
    with pytest.raises(RunError, match="the data changed"): run_experiment(config, tmp_path / "run")


@pytest.mark.parametrize("path", sorted(set((TESTS.parent / "configs").glob("*.yaml"))
                                        - {TESTS.parent / "configs/model_backends.yaml"}), ids=lambda p: p.stem)
def test_the_configurations_that_users_copy_are_valid(path):
    from cosee.datasets.registry import LOADERS
    from cosee.models.registry import CLIENTS
    config = read_config(path)
    assert CLIENTS.find(config.client.type) and config.name == path.stem
    loader = LOADERS.find(config.dataset.name)
    assert loader.kind == "synthetic" or not loader.splits or config.dataset.split in loader.splits


# --- what breaks on the way ---

def test_failures_are_recorded_and_retried_on_demand(here, undisturbed, tmp_path):
    argv = "run", here / "config.yaml", "--set", "dataset.limit=6", "--quiet", "--output-dir", tmp_path / "run"
    code, said = cosee(*argv, COSEE_TRAP="raise:w3w")
    assert code == 1
    failed = [r for r in Run(tmp_path / "run") if r["status"] == "failed"]
    assert {r["sample"] for r in failed} == {"q3"} and all("went away" in r["error"] for r in failed)
    code, said = cosee("report", tmp_path / "run", "--format", "status")
    assert code == 1 and "failed: q3, direct: ConnectionError: the server went away" in said
    assert cosee("run", tmp_path / "run", "--quiet", "--allow-plugins")[0] == 1   # left alone
    assert cosee("run", tmp_path / "run", "--quiet", "--retry-failed", "--allow-plugins")[0] == 0
    found = [without_times(r) for r in Run(tmp_path / "run")]
    assert {r["attempt"] for r in found if r["sample"] == "q3" and r["method"] == "direct"} == {2}
    assert [{**r, "attempt": 1} for r in found] == undisturbed[0][:6 * len(METHODS)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hang", "stuck"])
def test_a_hanging_model_costs_its_question_and_no_more(here, tmp_path, monkeypatch, kind):
    "`hang` is ended by the timer in the worker, `stuck` by killing the worker."
    from cosee.runs import engines as cluster
    monkeypatch.setattr(cluster, "GRACE", .5)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent)]))
    monkeypatch.setenv("COSEE_TRAP", f"{kind}:w1w")
    config = read_config(here / "config.yaml", ["dataset.limit=3", "methods=[direct, cot]"])
    run = run_experiment(config, tmp_path / "run", time_limit=6)
    assert ([(r["sample"], r["status"]) for r in run] == [("q0", "ok")] * 2 + [("q1", "failed")] * 2
            + [("q2", "ok")] * 2)
    assert all(r["error"].startswith("Timeout: no answer within 6 s") for r in run if r["status"] == "failed")


def test_broken_images_are_named_and_the_others_go_on(tmp_path):
    write_data(tmp_path / "data", 5)
    pages = sorted((tmp_path / "data/images").glob("*.png"))
    cut, inner = ([p for p in pages if p.name.startswith("000001")][0],
                  [p for p in pages if p.name.startswith("000003")][0])
    cut.write_bytes(cut.read_bytes()[:40])   # seen when the sample is read
    whole = inner.read_bytes()
    # seen when the page is opened
    inner.write_bytes(whole[:45] + bytes(b ^ 255 for b in whole[45:-20]) + whole[-20:])
    write_config(tmp_path / "c.yaml", tmp_path / "data", methods=["direct"])
    code, said = cosee("run", tmp_path / "c.yaml", "--output-dir", tmp_path / "run", "--quiet")
    assert code == 1 and "not readable" in said and cut.name in said
    found = {r["sample"]: r for r in Run(tmp_path / "run")}
    assert {k: r["status"] for k, r in found.items()} == {"q0": "ok", "q2": "ok", "q3": "failed", "q4": "ok"}
    assert "image 1" in found["q3"]["error"]


def test_an_answer_that_breaks_json_cannot_break_the_log(tmp_path):
    from cosee.policies import METHODS as known, register_method

    @register_method("odd")
    def odd(task): return {**task.outcome("\ud800 \x00 \u2028"), "confidence": float("nan")}
    try:
        data = write_data(tmp_path / "data", 1)
        config = make_config({"dataset": {"name": "jsonl", "root": str(data)}, "methods": ["odd", "direct"],
                              "client": {"type": "scripted", "options": {"replies": ["\ud800 \u2028"]}}})
        run = run_experiment(config, tmp_path / "run")
        assert [(r["method"], r["status"]) for r in run] == [("odd", "failed"), ("direct", "ok")]
        assert len(run.path.read_bytes().splitlines()) == 2
    finally: known.pop("odd")


# --- a budget holds for every method ---

# --- records survive a round trip ---

def test_replay_and_rescoring_agree_with_the_run(here, undisturbed):
    from cosee.runs.table import replay_record, score_records
    run = Run(here / "undisturbed")
    for r in list(run)[:30]:
        if r["board"]: assert replay_record(r)["answer"] == r["answer"]
    again = score_records(run, run.about["metrics"])
    for m, by in again.items():
        for metric, scores in by.items():
            assert list(scores) == pytest.approx([r["scores"][metric] for r in run if r["method"] == m], abs=1e-6)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    "Peak memory allocated while a run writes, at 40 and at 400 questions."
    import tracemalloc
    from cosee.runs import record
    from cosee.models.testing import ScriptedClient
    page = Image.new("RGB", (8, 8))

    class Many:
        def __init__(self, n): self.n = n
        def __iter__(self):
            return ({"images": [page], "question": f"Q{i}?", "answer": ["7"], "meta": {"id": i}}
                    for i in range(self.n))

    def peak(n):
        client = ScriptedClient(["Answer: 7"], cycle=True)
        client.calls = type("Forgetful", (list,), {"append": lambda self, x: None})()
        with pytest.MonkeyPatch.context() as m:
            m.setattr(record, "split_of", lambda data: Many(n))
            tracemalloc.start()
            try: run_experiment({"methods": ["direct"]}, tmp_path / str(n), client=client)
            finally:
                top = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
        return top

    peak(5)   # imports
    small, large = peak(40), peak(400)
    assert large < small + 200_000


def test_the_committed_run_is_whole_and_still_scores_as_it_did():
    from cosee.runs.table import score_records
    run = Run(TESTS.parent / "benchmarks/results/verdict/fresh_pixels.pack")
    records = list(run)
    assert len(records) == 322 * len(run.methods) == len({(r["sample"], r["method"]) for r in records})
    for m, by in score_records(records, run.about["metrics"]).items():
        assert list(by["anls"]) == pytest.approx([r["scores"]["anls"] for r in records if r["method"] == m], abs=1e-6)

# --- a run that becomes larger ---

MADE = dict(dataset=dict(name="made", limit=2, options=dict(kinds=["invoice"], per_doc=4, dpi=60)), methods=["direct"])


def growing(**changed):
    return make_config({**MADE, **changed, "dataset": {**MADE["dataset"], **changed.get("dataset", {})}})


def test_a_run_grows_by_methods_and_questions_and_asks_nothing_twice(tmp_path):
    class Counting(ScriptedClient):
        asked = 0
        def send(self, *args, **kw):
            self.asked += 1
            return super().send(*args, **kw)

    client = Counting(["Page: 1\nAnswer: 7"], cycle=True)
    at_once = run_experiment(growing(methods=["cot", "direct"], dataset=dict(limit=4)), tmp_path / "b", client=client)
    whole, client.asked = client.asked, 0
    steps = growing(), growing(methods=["cot", "direct"]), growing(methods=["cot", "direct"], dataset=dict(limit=4))
    for config in steps: grown = run_experiment(config, tmp_path / "a", client=client)
    assert client.asked == whole == 8 and grown.about["questions"] == 4 and grown.about["methods"] == ["cot", "direct"]
    assert list(map(without_times, grown)) == list(map(without_times, at_once))
    assert Run(tmp_path / "a").about["hash"] == at_once.about["hash"]


@pytest.mark.parametrize("changed", [
    dict(dataset=dict(limit=1)), dict(methods=["cot"]), dict(methods=[{"type": "direct", "name": "direct", "k": 1}]),
    dict(dataset=dict(limit=4, shuffle=1)), dict(dataset=dict(limit=4), seed=1),
    dict(dataset=dict(limit=4), client="ocr")])
def test_what_has_not_only_grown_is_another_run(tmp_path, changed):
    client = ScriptedClient(["Answer: 7"], cycle=True)
    first = growing(client="print", dataset=dict(shuffle=changed.get("dataset", {}).get("shuffle")))
    run = run_experiment(first, tmp_path, client=client)
    before = [p.read_bytes() for p in sorted(tmp_path.iterdir())]
    with pytest.raises(RunError, match="another configuration .*name another"):
        run_experiment(growing(**{"client": "print", **changed}), tmp_path, client=client)
    assert [p.read_bytes() for p in sorted(tmp_path.iterdir())] == before and run.status().done == 2


@pytest.mark.parametrize("damaged", [dict(methods=3), dict(dataset=3), dict(dataset={}),
                                     dict(dataset=dict(limit="x"))])
def test_a_configuration_that_is_damaged_does_not_grow(tmp_path, damaged):
    client = ScriptedClient(["Answer: 7"], cycle=True)
    run_experiment(growing(), tmp_path, client=client)
    about = json.loads((tmp_path / "run.json").read_text())
    about.update(hash="0", config={**about["config"], **damaged})
    (tmp_path / "run.json").write_text(json.dumps(about))
    with pytest.raises(RunError, match="another configuration"): run_experiment(growing(methods=["cot", "direct"]),
                                                                                tmp_path, client=client)


def test_a_pack_goes_on_where_model_and_data_lie_elsewhere(tmp_path):
    data = write_data(tmp_path / "here" / "data", 6)
    def config(root, **more): return make_config(dict(dataset=dict(name="jsonl", root=str(root), **more),
                                                      methods=["direct"], trace=False))
    client = ScriptedClient(["Answer: value 1"], cycle=True)
    halves = [run_experiment(config(data), tmp_path / f"half-{i}", client=client, shard=f"{i}/2") for i in (1, 2)]
    both = join_runs([h.folder for h in halves], tmp_path / "both")
    assert both.about["questions"] == 6 and both.status().done == 6
    assert join_runs([halves[0].folder], tmp_path / "one").about["questions"] is None   # of a half nobody knows
    join_runs([halves[0].folder], tmp_path / "half.pack")
    (tmp_path / "here").rename(tmp_path / "there")
    for folder, more in (("same", {}), ("fewer", dict(limit=2))):
        run = join_runs([tmp_path / "half.pack"], tmp_path / folder)
        moved = config(tmp_path / "there" / Path(data).relative_to(tmp_path / "here"), **more)
        if more:
            with pytest.raises(RunError, match="dataset.limit"): run_experiment(moved, run.folder, client=client)
            continue
        assert run_experiment(moved, run.folder, client=client).status().done == 6
        assert Run(run.folder).about["questions"] == 6
        assert main(["run", str(run.folder), "--quiet"]) == 0   # and is a run like any other
    with pytest.raises(RunError, match="in dataset.root"): run_experiment(moved, tmp_path / "both", client=client)


def test_processor_time_is_kept_of_answers_that_were_computed_alone(here, undisturbed, tmp_path):
    alone = Run(here / "undisturbed")
    assert all(0 <= r["times"]["cpu"] < 60 for r in alone)
    beside = run_experiment(read_config(here / "config.yaml"), tmp_path / "beside", in_flight=2)
    assert not any("cpu" in r["times"] for r in beside)
    assert not Report([beside]).cost_table().rows
    direct = [r for r in alone if r["method"] == "direct"]
    [row] = [row for row in Report([alone]).cost_table().rows if row[0] == "direct"]
    spent, right = sum(r["times"]["cpu"] for r in direct), sum(r["right"] for r in direct)
    assert row[1:3] == [len(direct), right]
    assert row[3] == pytest.approx(spent / len(direct), abs=1e-4) and row[6] == pytest.approx(spent / right, abs=1e-4)
    cached = [r["times"]["cpu"] for r in direct if r["usage"]["cached_tokens"]]
    assert (row[5] is None) if not cached else row[5] == pytest.approx(sum(cached) / len(cached), abs=1e-4)
