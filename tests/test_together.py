"""Several answers at once are the answers of one after the other: every field of every record but times, whatever the
method and the budget, also where an episode fails, the process is killed, or the run is given up in the middle."""
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from cosee.utils.config import ConfigError
from cosee.datasets.synthetic.small import small_samples
from cosee.policies import register_method
from cosee.experiments import run_experiment
from cosee.models.client import build_messages
from cosee.models.testing import ScriptedClient
from cosee.models.batching import own_account
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.runs.config import make_config
from cosee.runs.engines import answers_together, run_together, side_by_side
from cosee.runs.log import read_records, without_times
from cosee.runs.record import Job, jobs_of
from cosee.runs.table import Run
from asking import chat_many

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent
METHODS = ["direct", {"type": "cot", "max_new_tokens": 48}, {"type": "self_consistency", "max_new_tokens": 48},
           "cosee_base", {"type": "cosee", "name": "parallel", "order": "parallel"}]


def config(methods=METHODS, n=6, per_doc=3, **more):
    data = {"name": "small", "limit": n, "options": {"per_doc": per_doc, "pages": 2}}
    return make_config({"dataset": data, "client": "tiny", "methods": methods, **more})


def records(run): return [without_times(r) for r in run]


@pytest.fixture(scope="module")
def client(): return QwenVLClient.tiny(lookup=False)   # so that passes can be counted


@pytest.fixture
def no_thread_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before   # those of earlier tests may have ended meanwhile


@pytest.mark.parametrize("budget", [{}, {"max_tokens": 420, "count": "uncached"}, {"max_tokens": 450},
                                    {"max_tokens": 70, "count": "output"}], ids=str)
def test_records_are_those_of_one_after_the_other(client, tmp_path, budget, no_thread_left):
    passes, runs = [client.passes], []
    for n in (1, 16):
        run = run_experiment(config(n=4, per_doc=2, budget=budget), tmp_path / str(n), client=client, together=n)
        runs.append(records(run))
        passes.append(client.passes)
    assert runs[0] == runs[1] and len(runs[0]) == 4 * len(METHODS)
    assert (passes[2] - passes[1]) * 2 < passes[1] - passes[0]   # it was really done together
    if budget: assert any(r["stopped"].startswith("budget") for r in runs[0])
    assert all(r["status"] == "ok" for r in runs[0])


def test_a_record_does_not_depend_on_what_was_asked_before(client, tmp_path):
    "Neither on the cache, nor on shards; one after the other, too."
    whole = run_experiment(config(["direct", "cosee_base"]), tmp_path / "whole", client=client, together=1)
    parts = [run_experiment(config(["direct", "cosee_base"]), tmp_path / f"{i}", client=client, shard=f"{i}/2")
             for i in (1, 2)]
    assert sorted((r for p in parts for r in records(p)), key=str) == sorted(records(whole), key=str)
    first = [r["usage"]["cached_tokens"] for r in whole if r["method"] == "direct"]
    assert first == [0] * 6   # one call each: nothing of it was sent before


def test_the_account_is_that_of_a_client_that_has_seen_nothing_else():
    sample = next(small_samples(1, pages=2))
    def calls(client):
        for i in range(4):
            messages = build_messages(sample["images"], sample["question"], "a note. " * i, "Write what you see.")
            yield client.chat(messages, max_new_tokens=2).usage.cached_tokens
        batch = chat_many(client, [messages] * 3, max_new_tokens=2, seed=1)
        yield from (r.usage.cached_tokens for r in batch)
    fresh, used = QwenVLClient.tiny(), QwenVLClient.tiny()
    alone = list(calls(fresh))
    list(calls(used))
    with own_account(): assert list(calls(used)) == alone
    assert alone[0] == 0 < alone[1] < alone[-1]


def test_what_fails_is_its_own_episode(client, tmp_path, monkeypatch, no_thread_left):
    "Prompts that do not fit, methods that raise or never ask, and a batch that breaks on one of its rows."
    @register_method("raises")
    def raises(task):
        task.ask("What?", max_new_tokens=2)
        raise RuntimeError("half-way")

    @register_method("idle")
    def idle(task): return task.outcome("nothing")

    methods = ["direct", {"type": "direct", "name": "endless", "max_new_tokens": 10**6}, "raises", "idle",
               "cosee_base"]
    write = client._write
    def breaks(calls, key):
        if any("Reply with exactly one JSON" in client.tokenizer.decode(c.prompt.ids) and len(calls) > 1
               for c in calls): raise MemoryError("too many rows")
        return write(calls, key)
    monkeypatch.setattr(client, "_write", breaks)
    one, many = (run_experiment(config(methods), tmp_path / str(n), client=client, together=n) for n in (1, 16))
    assert records(one) == records(many)
    failed = {r["method"]: r["error"].split(":")[0] for r in many if r["status"] == "failed"}
    assert failed == {"endless": "ContextOverflow", "raises": "RuntimeError"}
    assert many.status()["cosee_base"]["ok"] == many.status()["idle"]["ok"] == 6


def test_equal_calls_of_two_episodes_have_one_reply(client, tmp_path):
    "Within a batch of one episode equal calls are several samples; in two episodes they are the same call."
    @register_method("fixed")
    def fixed(task, other=0):
        batch = [task.client.build_messages(task.pages, "What?", None, "Write.")] * 2
        said = chat_many(task.client, batch, seed=5, temperature=1.5, top_k=0, top_p=1., max_new_tokens=6)
        return task.outcome("|".join(r.text for r in said))

    twice = ["fixed", {"type": "fixed", "name": "again", "other": 1}]
    one, many = (run_experiment(config(twice, 3), tmp_path / str(n), client=client, together=n) for n in (1, 16))
    assert records(one) == records(many)
    assert len({r["answer"] for r in many}) == 1 and len({*next(iter(many))["answer"].split("|")}) == 2


# --- ends ---

@pytest.mark.faults("a run of several answers at once, killed in the middle of writing a line (kill -9)")
def test_killed_and_resumed(client, tmp_path):
    fields = config(["direct", "cosee_base"], 6, plugins=["echo_plugin"])
    (tmp_path / "run.yaml").write_text(fields.model_dump_json())
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
           "COSEE_ARMED": str(os.getpid())}
    def cosee(*argv, **more):
        return subprocess.run([sys.executable, "-c", "from cosee.cli.entry import main; raise SystemExit(main())",
                               *map(str, argv)], env=env | more, capture_output=True, text=True, timeout=300)
    killed = cosee("run", tmp_path / "run.yaml", "--output-dir", tmp_path / "run", COSEE_KILL_AT="8")
    assert killed.returncode == -9 and "up to 16 answers about a document" in killed.stderr, killed.stderr
    kept = [r for _, r in read_records(tmp_path / "run/records.jsonl")]
    assert len(kept) == 7
    resumed = cosee("run", tmp_path / "run", "--quiet", "--allow-plugins")
    assert resumed.returncode == 0, resumed.stderr
    lines = [r for _, r in read_records(tmp_path / "run/records.jsonl")]
    assert lines[:7] == kept and len(lines) == 12
    alone = run_experiment(fields, tmp_path / "alone", client=client, together=1)
    assert records(Run(tmp_path / "run")) == records(alone)


def test_a_run_that_is_given_up_leaves_no_thread(client, no_thread_left):
    settings = config(["direct", "cosee_base"])
    coming = run_together(settings, jobs_of(settings, {}), client, 16)
    assert next(coming)["method"] == "direct"
    coming.close()   # others wait for the model meanwhile


def test_an_interrupt_ends_all(client, monkeypatch, no_thread_left):
    def interrupted(*args): raise KeyboardInterrupt
    monkeypatch.setattr(client, "_write", interrupted)
    settings = config(["direct", "cosee_base"])
    with pytest.raises(KeyboardInterrupt): list(run_together(settings, jobs_of(settings, {}), client, 4))


def test_work_that_never_asks_or_catches_everything_does_not_stop_the_others(client, no_thread_left):
    messages = build_messages([], "What?")
    def asks(n): return lambda: [client.chat(messages, max_new_tokens=1).text for _ in range(n)]
    def stubborn():
        for _ in range(3):
            with suppress(BaseException): client.chat(messages, max_new_tokens=1)
        return "stubborn"
    works = [asks(2), lambda: "idle", stubborn, asks(0), asks(5)]
    found = [r for r, *_ in side_by_side(works, 3)]
    assert [len(r) for r in found] == [4, 0, 2, 8, 5] and found[0] == "idle"   # in the order in which they end
    def fails(): raise SystemError("of the work itself")
    with pytest.raises(SystemError): list(side_by_side([stubborn, asks(3), fails], 3))


def test_an_error_in_reading_on_comes_behind_the_answers_before_it(client):
    settings = config(["direct"], 3)
    def jobs():
        yield from jobs_of(settings, {})
        raise RuntimeError("the file ends here")
    found = []
    with pytest.raises(RuntimeError, match="ends here"):
        for record in run_together(settings, jobs(), client, 16): found.append(record["status"])
    assert found == ["ok"] * 3


def test_guesses_change_no_record(tmp_path):
    runs = [run_experiment(config(n=2, per_doc=2), tmp_path / str(n), client=QwenVLClient.tiny(), together=n)
            for n in (1, 16)]
    assert records(runs[0]) == records(runs[1])


def test_documents_are_put_together_where_they_stand_apart(client):
    settings = config(["direct"], 6)
    first, second = [list(jobs_of(settings, {}))[i:i + 3] for i in (0, 3)]
    mixed = [Job(j.index, j.sample, j.methods) for pair in zip(first, second, strict=True) for j in pair]
    before, looks = client.passes, [r["index"] for r in run_together(settings, mixed, client, 6)]
    assert looks[:3] == [0, 1, 2] and sorted(looks) == list(range(6))
    assert client.passes - before < 40


# --- who may ---

def test_who_answers_together(client, tmp_path):
    assert answers_together(client) == 16 and answers_together(ScriptedClient([])) == 1
    assert answers_together(QwenVLClient.tiny(reuse=False)) == 1
    assert answers_together(QwenVLClient.tiny(dtype="bfloat16")) == 1
    with pytest.raises(ConfigError, match="one question after the other"): answers_together(ScriptedClient([]), 2)
    for more in ({"workers": 2}, {"in_flight": 2}, {"time_limit": 9.}):
        with pytest.raises(ConfigError, match="one process"):
            run_experiment(config(), tmp_path / "no", together=2, **more)
    assert not (tmp_path / "no").exists()
