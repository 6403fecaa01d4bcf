"""What surroundings do: folders that cannot be written, memory that runs out, clocks that jump, a second process at
the same work, checkpoints that were cut. Other faults are tested beside what they concern, under the same marker."""
import ctypes
import itertools
import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from PIL import Image

from cosee.experiments import run_experiment
from cosee.utils.files import FileCache
from cosee.models.testing import ScriptedClient
from cosee.models.remote import RateLimitError, TimeoutError
from cosee.runs.config import make_config, read_config
from cosee.runs.log import read_records, record_fault, without_times
from cosee.runs.record import answer_one, samples_of
from cosee.runs.table import Run
from test_quality import FOUND, PLAN, graph
from test_runs import TESTS, write_config, write_data

TIMES = int(os.environ.get("COSEE_KILLS", 6))   # how often a fault at random is tried


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    "A run that nothing disturbed, and its configuration."
    folder = tmp_path_factory.mktemp("faults")
    write_data(folder / "data", 6)
    write_config(folder / "config.yaml", folder / "data")
    sys.path.insert(0, str(TESTS))
    run_experiment(read_config(folder / "config.yaml"), folder / "one")
    return folder


def records(folder): return [without_times(r) for r in Run(folder)]


# --- folders that cannot be written ---

OVERRIDE, DROP = 1, 24   # CAP_DAC_OVERRIDE, by which root writes anywhere, and PR_CAPBSET_DROP, which takes it away


def give_up_root():
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(DROP, OVERRIDE, 0, 0, 0): os._exit(77)


COMMANDS = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from cosee.cli.entry import main
for argv in json.loads(sys.argv[1]):
    said = StringIO()
    with redirect_stderr(said), redirect_stdout(StringIO()):
        try: code = main(argv)
        except SystemExit as e: code = e.code
    print(json.dumps([code, said.getvalue()]))
"""


def commands(argvs, **env):
    "Exit code and standard error of each of several commands, in a process that has no more rights than others."
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]), **env}
    done = subprocess.run([sys.executable, "-c", COMMANDS, json.dumps([list(map(str, a)) for a in argvs])], env=env,
                          capture_output=True, text=True, timeout=240, preexec_fn=give_up_root)
    if done.returncode == 77: pytest.skip("this process cannot give up its rights")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def closed(here, tmp_path):
    "A folder with a run in it, none of which can be changed."
    run_experiment(read_config(here / "config.yaml", ["dataset.limit=2"]), tmp_path / "closed/run")
    inside = [tmp_path / "closed", *(tmp_path / "closed").rglob("*")]
    modes = {p: p.stat().st_mode for p in inside}
    for p in inside: p.chmod(modes[p] & ~0o222)
    yield tmp_path / "closed"
    for p in inside: p.chmod(modes[p])


@pytest.mark.slow
@pytest.mark.faults("a folder that cannot be written")
@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_a_read_only_folder_is_read_and_writing_into_it_is_one_line(here, closed, tmp_path, counts):
    before = {p: p.read_bytes() for p in closed.rglob("*") if p.is_file()}
    writing = [["run", here / "config.yaml", "--output-dir", closed / "new", "--quiet"],
               ["run", closed / "run", "--quiet", "--allow-plugins"],
               ["report", closed / "run", "--output", closed / "report.html"],
               ["report", closed / "run", "--output", closed / "table.csv"],
               ["view", closed / "run", "--export", closed / "site", "--quiet"]]
    reading = [["report", closed / "run", "--format", "status"], ["report", closed / "run", "--format", "text"],
               ["report", closed / "run", "--episode", "q1"]]
    for argv, (code, said) in zip(writing, commands(writing), strict=True):
        assert code in (1, 2) and said.count("\n") == 1 and "Traceback" not in said, (argv, code, said)
        counts["refused in one line"] += 1
    for argv, (code, said) in zip(reading, commands(reading), strict=True):
        assert code == 0, (argv, said)
        counts["read"] += 1
    assert {p: p.read_bytes() for p in closed.rglob("*") if p.is_file()} == before


@pytest.mark.slow
@pytest.mark.faults("a folder that cannot be written")
@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_a_cache_that_cannot_be_written_costs_only_the_cache(tmp_path, doc):
    (tmp_path / "cache").mkdir(mode=0o555)
    asked = ["ask", doc, "-q", "What is the invoice number?", "--quiet"]
    [(code, said)] = commands([asked], COSEE_CACHE=str(tmp_path / "cache"))
    assert code == 3 and "Traceback" not in said, said   # the page is empty, and was read


# --- memory ---

@pytest.mark.faults("memory that runs out")
@pytest.mark.parametrize("where", ["client", "method"])
def test_a_question_without_memory_has_failed_and_the_next_is_answered(where):
    from types import SimpleNamespace
    config = make_config(dict(dataset=dict(limit=1, options=dict(pages=1)), methods=["direct"]))
    index, sample = next(samples_of(config.dataset))
    def greedy(*args, **kwargs): return bytes(1 << 60)
    client = ScriptedClient(["Answer: 7"])
    if where == "client": client.send = greedy
    from cosee.runs.record import make_method
    own = SimpleNamespace(name="own", policy=None, run=greedy)
    method = make_method(config.methods[0]) if where == "client" else own
    record = answer_one(config, method, index, sample, client)
    assert record["status"] == "failed" and "Memory" in record["error"] and not record_fault(record)


LITTLE = """
import resource, sys
from cosee.cli.entry import main
from cosee.runs.table import Run
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.faults("memory that runs out")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("more", [4, 40])
def test_a_command_without_memory_ends_without_a_traceback(here, more):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    done = subprocess.run([sys.executable, "-c", LITTLE, str(more << 20), "report", str(here / "one"), "--output",
                           str(here / f"{more}.html")], capture_output=True, text=True, timeout=120, env=env)
    whole = (here / f"{more}.html").exists()
    assert (done.returncode == 0) == whole and "Traceback" not in done.stderr, done.stderr
    if not whole: assert done.stderr.count("\n") == 1


# --- clocks ---

@pytest.fixture
def jumping(monkeypatch):
    "The time of day jumps by up to ten years, back and forth, whenever somebody looks."
    rng, now = random.Random(0), time.time
    monkeypatch.setattr(time, "time", lambda: now() + rng.uniform(-3e8, 3e8))


@pytest.mark.faults("a clock that jumps by years")
def test_a_run_under_a_jumping_clock_is_the_same_run(here, tmp_path, jumping):
    run = run_experiment(read_config(here / "config.yaml"), tmp_path / "run")
    assert records(tmp_path / "run") == records(here / "one")
    assert all(r["times"]["seconds"] >= 0 for r in run) and run.status()["direct"]["seconds"] >= 0


@pytest.mark.faults("a clock that jumps by years")
def test_a_cache_under_a_jumping_clock_keeps_what_it_is_given(tmp_path, jumping):
    cache = FileCache(tmp_path / "cache", limit=10**6)
    for i in range(30):
        cache.put(f"{i:064x}", str(i).encode())
        for path in tmp_path.rglob("*"): os.utime(path, (10**9 * (i % 4), 10**9 * (i % 4)))
    assert [cache.get(f"{i:064x}") for i in range(30)] == [str(i).encode() for i in range(30)]


@pytest.mark.faults("a clock that jumps by years")
def test_waiting_for_a_server_does_not_follow_the_clock(jumping):
    from fake_servers import FakeServer
    from test_hardened_keys import ask, client_at
    later = {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}
    with FakeServer("openai", [(429, later), (503, {"Retry-After": "0.01"})]) as server:
        client, begin = client_at(server.url, "openai", max_retries=2, deadline=1.5), time.monotonic()
        with suppress(TimeoutError, RateLimitError): ask(client)
        assert time.monotonic() - begin < 10   # of years; the machine has other things to do


# --- two at the same work ---

@pytest.mark.faults("two writers of one file")
def test_two_commands_at_one_run_one_of_them_works(here, tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    argv = [sys.executable, "-c", "from cosee.cli.entry import main; raise SystemExit(main())", "run",
            str(here / "config.yaml"), "--output-dir", str(tmp_path / "run"), "--quiet"]
    both = [subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [p.communicate(timeout=120)[1] for p in both]
    assert sorted(p.returncode for p in both)[0] == 0 and "Traceback" not in "".join(said)
    assert records(tmp_path / "run") == records(here / "one")
    keys = [(r["sample"], r["method"]) for _, r in read_records(tmp_path / "run/records.jsonl")]
    assert len(keys) == len({*keys})


# --- files that were cut ---

@pytest.mark.faults("a file cut or damaged by a loss of power")
def test_a_log_cut_anywhere_is_gone_on_with(here, tmp_path, counts):
    whole, about = (here / "one/records.jsonl").read_bytes(), (here / "one/run.json").read_bytes()
    for i in range(TIMES):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "run.json").write_bytes(about)
        (folder / "records.jsonl").write_bytes(whole[:random.Random(i).randrange(len(whole))])
        run_experiment(read_config(here / "config.yaml"), folder)
        assert records(folder) == records(here / "one")
        counts["gone on with, to the same records"] += 1


@pytest.mark.faults("a checkpoint of LangGraph that was cut")
def test_a_cut_checkpoint_is_told_or_not_needed(tmp_path, counts):
    pytest.importorskip("langgraph")
    from cosee.planner.graph import memory
    Image.new("RGB", (40, 40), "white").save(tmp_path / "page.png")
    thread = {"configurable": {"thread_id": "t"}}
    for i in range(2 * TIMES):
        rng, saver = random.Random(i), memory()
        with pytest.raises(KeyboardInterrupt):
            graph(ScriptedClient([json.dumps(PLAN)]), [KeyboardInterrupt()], tmp_path,
                  saver).invoke({"query": "Who signed?", "image_path": "page.png"}, thread)
        key = rng.choice([k for k, (_, data) in saver.blobs.items() if data])
        kind, data = saver.blobs[key]
        saver.blobs[key] = kind, data[:rng.randrange(len(data))]
        try: out = graph(ScriptedClient([]), [FOUND], tmp_path, saver).invoke(None, thread)
        except ValueError as e:
            assert "a checkpoint is damaged" in str(e) and "thread_id" in str(e)
            counts["refused in words"] += 1
        else:
            assert out["answer"] == "A. Lovelace" and out["query"] == "Who signed?"
            counts["not needed, and answered"] += 1


@pytest.mark.faults("a file cut or damaged by a loss of power")
def test_kept_pages_that_were_cut_are_read_anew(tmp_path, counts):
    cache = FileCache(tmp_path / "cache")
    for i, length in itertools.product(range(TIMES), (0, 1, 7)):
        key = f"{i * 10 + length:064x}"
        cache.put(key, b"what was read of a page")
        file = max((p for p in (tmp_path / "cache").rglob("*") if p.is_file()), key=lambda p: p.stat().st_mtime_ns)
        file.write_bytes(file.read_bytes()[:length])
        assert cache.get(key) is None
        cache.put(key, b"again")
        assert cache.get(key) == b"again"
        counts["missing, and read anew"] += 1
