"""Workers die at the worst moment, and the run does not mind: processes on this machine, actors on Ray."""
import os
import signal
import sys

import pytest

from cosee.runs.engines import run_ray
from cosee.runs.log import without_times
from cosee.runs.table import Run
from cosee.utils.config import ConfigError
from cosee.experiments import run_experiment
from cosee.runs.config import read_config
from test_runs import TESTS, write_config, write_data

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    write_data(folder / "data", 8)
    write_config(folder / "config.yaml", folder / "data")
    run_experiment(read_config(folder / "config.yaml"), folder / "one")
    return folder


@pytest.fixture(autouse=True)
def path(monkeypatch):
    "Workers find the plugin."
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent)]))


def same(run, here): return [without_times(r) for r in run] == [without_times(r) for r in Run(here / "one")]


@pytest.mark.faults("a worker process killed in the middle of a question")
def test_a_worker_that_dies_once_costs_nothing(here, tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_TRAP", f"die:w5w:{tmp_path / 'died'}")
    run = run_experiment(read_config(here / "config.yaml"), tmp_path / "run", workers=2)
    assert (tmp_path / "died").exists()
    assert run.status().failed == 0 and same(run, here)


@pytest.mark.faults("a worker process killed in the middle of a question")
def test_a_question_that_kills_every_worker_is_given_up(here, tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_TRAP", "die:w1w")
    config = read_config(here / "config.yaml", ["dataset.limit=3", "methods=[direct, cot]"])
    run = run_experiment(config, tmp_path / "run", workers=2)
    assert {(r["sample"], r["method"]): r["status"] for r in run} == {(f"q{i}", m): "failed" if i == 1 else "ok"
                                                                      for i in range(3) for m in ("direct", "cot")}
    assert all(f"code {-signal.SIGKILL}" in r["error"] for r in run if r["status"] == "failed")


def test_workers_that_cannot_begin_stop_the_run_with_a_reason(here, tmp_path):
    config = read_config(here / "config.yaml", ["client={type: scripted, options: {}}"])
    with pytest.raises(ConfigError, match="replies"): run_experiment(config, tmp_path / "run", workers=2)


@pytest.mark.faults("a Ray actor killed in the middle of a question")
def test_ray_actors_die_and_nothing_is_lost(here, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: pip install 'cosee[ray]'")
    monkeypatch.setenv("COSEE_TRAP", f"die:w5w:{tmp_path / 'died'}")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        run = run_experiment(read_config(here / "config.yaml"), tmp_path / "run",
                             engine=lambda c, jobs: run_ray(c, jobs, actors=2, num_cpus=.5))
        assert (tmp_path / "died").exists()
        assert run.status().failed == 0 and same(run, here)
    finally: ray.shutdown()


def test_without_ray_the_error_says_what_to_install(here, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"\[ray\]"):
        run_experiment(read_config(here / "config.yaml"), tmp_path / "run", engine=lambda c, jobs: run_ray(c, jobs))
