"""Silence is no answer and failure is no answer: neither is right, withheld or answered, wherever it is counted."""
import json
import sys

import pytest

from cosee.cli.entry import main
from cosee.eval.metrics import flavours
from cosee.models.reader_client import OcrClient
from cosee.models.testing import ScriptedClient
from cosee.policies import METHODS, register_method
from cosee.runs.analysis import calibration
from cosee.runs.answers import read_answers
from cosee.runs.inspect_log import write_inspect
from cosee.runs.log import OUTCOMES, RunLog, parse_record, record_outcome, to_line, write_about
from cosee.runs.report import Report
from cosee.runs.table import Run, flat, join_runs, score_all
from cosee.runs.viewer import Viewer
from cosee.experiments import run_experiment

BUDGET = "budget: the next call may cost 456 tokens, but 432 of 570 are left (total)"
NONE = "not answerable"


def record(method, sample, answer="", gold=NONE, status="ok", calls=1, stopped="answered", **more):
    usage = dict(calls=calls, total_tokens=100 * calls)
    return dict(sample=sample, index=int(sample[1:]), method=method, status=status, question="?", answer=answer,
                gold=[gold], usage=usage, stopped=stopped, attempt=1, data="d", error="no" if status != "ok" else None,
                meta=dict(evidence_pages=[1]), **more)


ENDS = dict(answered=dict(answer="7"), abstained=dict(answer=NONE), silent=dict(stopped=BUDGET),
            **{"not asked": dict(calls=0, stopped=BUDGET)}, failed=dict(status="failed"))


@pytest.fixture
def run(tmp_path):
    "Five methods that each end in one way, on a question without an answer and one with, as an older version wrote it"
    folder = tmp_path / "run"
    with RunLog(folder) as log:
        for sample, gold in (("q0", NONE), ("q1", "7")):
            for method, fields in ENDS.items():
                more = {} if method == "failed" else dict(
                    scores=dict(anls=1., em=1., page_hit=1., page_recall=1.), right=True, confidence=.9)
                log.write(record(method, sample, gold=gold, **{**fields, **more}))
    write_about(folder, dict(hash="h", methods=[*ENDS], metrics=dict(anls="rrc", em="plain", f1="plain"), questions=2))
    return Run(folder)


def test_each_end_is_told_and_only_answers_have_credit(run):
    by = {(r["method"], r["sample"]): r for r in run}
    assert [record_outcome(by[m, "q0"]) for m in ENDS] == [r["outcome"] for r in list(run)[:5]] == [*OUTCOMES]
    assert by["silent", "q0"]["scores"] == dict(anls=0, em=0, page_hit=0, page_recall=1)   # the page was shown
    assert [by[m, "q0"].get("right") for m in ENDS] == [True, True, False, False, None]
    for metric in ("anls", "em", "f1"):
        assert run.scores(metric) == dict(answered=dict(q0=0, q1=1), abstained=dict(q0=1, q1=0),
                                          **{m: dict(q0=0, q1=0) for m in ("silent", "not asked", "failed")})


@pytest.mark.parametrize("metric, flavour", [(m, f) for m, fs in flavours().items() for f in fs])
@pytest.mark.parametrize("gold", [NONE, ""])
def test_silence_scores_nothing_by_any_rules(metric, flavour, gold):
    for format in ("None", "Str", "List", "String", "Integer"):
        meta = dict(answer_format=format, evidence_pages=[], relevance={}, answerable=False)
        rows = [dict(record("m", "q0", gold=gold, **ENDS[m]), meta=meta) for m in ("silent", "not asked", "failed")]
        assert list(score_all(rows, metric, flavour)) == [0, 0, 0]


def test_counts_and_tables_have_columns_of_their_own(run, tmp_path, capsys):
    status = run.status()
    assert [[c[k] for k in ("ok", "silent", "not_asked", "failed")] for c in status.values()] == [
        [2, 0, 0, 0], [2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 2]]
    assert (status.done, status.failed, status.unanswered, run.progress()["done"]) == (10, 2, 4, 10)
    report = Report(run, n_resamples=50)
    table = {row[0]: dict(zip(report.method_table().columns, row)) for row in report.method_table().rows}
    for name in ("silent", "not asked", "failed"):
        assert [row[name] for row in table.values()] == [2 * (m == name) for m in table]
        assert [table[name][k] for k in ("score", "em", "f1", "withheld")] == [0, 0, 0, 0]
    assert table["abstained"]["withheld"] == 1
    team = {row[0]: row for row in report.team_table().rows}
    assert team["silent"][5] == team["failed"][5] == 0 and team["answered"][5] == 1   # the right page
    assert "(silent)" in report.markdown() and "(not asked)" in report.html()
    assert main(["report", str(run.folder), "--format", "status"]) == 1   # something failed
    shown = capsys.readouterr().out
    assert "silent" in shown.splitlines()[0] and "not asked" in shown.splitlines()[0]
    packed = join_runs([run.folder], tmp_path / "run.pack")
    assert (packed.status(), packed.scores()) == (status, run.scores())


def test_where_nothing_is_silent_there_is_no_column_for_it(run, tmp_path):
    plain = tmp_path / "plain"
    with RunLog(plain) as log:
        for r in run:
            if r["method"] == "answered": log.write(r)
    write_about(plain, dict(hash="h", methods=["answered"]))
    assert not {"silent", "not asked"} & {*Report(plain, n_resamples=50).method_table().columns}
    assert "silent" not in Run(plain).status()._repr_markdown_()


def test_neither_abstentions_nor_calibration_count_them(run):
    answers = read_answers([run])
    assert [a.abstained for a in answers if a.sample == "q0"] == [False, True, False, False, False]
    found = {c.group.method: c for c in calibration(answers, 50)}
    for name in ("silent", "not asked", "failed"):
        c = found[name]
        assert (c.abstains.mean, c.gives_up.mean, c.bins, c.wrong, c.confidence) == (0, 0, [], 0, None)
    assert found["abstained"].abstains.mean == found["abstained"].gives_up.mean == 1


def test_viewer_table_and_log_for_inspect(run, tmp_path):
    viewer = Viewer(run.folder)
    viewer.update()
    rows = viewer.data()["rows"]
    assert rows["outcome"][:5] == [*OUTCOMES] and rows["scores"][0][:5] == [1, 1, 0, 0, 0]   # as they are stored
    assert rows["answer"][2:4] == ["", ""]
    assert "(not asked)" in viewer.record_page("q0", "not asked")
    assert {flat(r)["outcome"]: flat(r).get("right") for r in run if r["sample"] == "q0"}["silent"] is False
    inspect_log = pytest.importorskip("inspect_ai.log")
    logs = [inspect_log.read_eval_log(str(p)) for p in write_inspect(run, tmp_path / "logs")]
    means = {g.eval.solver: {s.name: s.metrics["mean"].value for s in g.results.scores} for g in logs}
    assert means["silent"]["anls"] == 0 and means["answered"]["anls"] == 1


def test_a_fresh_record_says_how_it_ended_and_reads_back_the_same(tmp_path):
    @register_method("breaks")
    def breaks(task): raise RuntimeError("no")
    @register_method("says_nothing")
    def says_nothing(task): return task.outcome(task.ask("?", agent="a")[0].text)
    try:
        poor = dict(type="direct", name="poor", budget=dict(max_tokens=1))
        config = dict(dataset=dict(name="synthetic", limit=6), methods=["direct", "breaks", "says_nothing", poor])
        run = run_experiment(config, tmp_path / "run", client=ScriptedClient([""], cycle=True))
    finally:
        for name in ("breaks", "says_nothing"): del METHODS[name]
    ends = {m: {r["outcome"] for r in run if r["method"] == m} for m in run.methods}
    assert ends == dict(direct={"silent"}, breaks={"failed"}, says_nothing={"silent"}, poor={"not asked"})
    assert all(not any(r.get("scores", {}).get(k) for k in ("anls", "em", "f1", "page_hit")) for r in run)
    assert all(parse_record(to_line(r)) == r for r in run)
    assert all(s == 0 for by in run.scores().values() for s in by.values())


def test_a_reader_without_a_model_has_answered(tmp_path):
    run = run_experiment(dict(dataset=dict(name="synthetic", limit=4), methods=["direct", "rules_first"]),
                         tmp_path / "run", client=OcrClient())
    assert {r["outcome"] for r in run} <= {"answered", "abstained"}
    assert not any(r["usage"]["total_tokens"] for r in run)


def test_run_says_on_standard_error_what_got_no_answer(tmp_path, capsys):
    args = ["run", "--limit", "2", "--method", "direct", "--client", "scripted", "--set",
            'client.options.replies=["7", "7"]', "--max-tokens", "1", "--output-dir", str(tmp_path / "run")]
    assert main(args) == 0
    assert "direct: 2 not asked: the budget did not cover a single call" in capsys.readouterr().err


@pytest.mark.slow
def test_the_published_changes_are_those_of_the_published_records():
    sys.path.insert(0, "benchmarks")
    try: from silence import RESULTS, list_changes
    finally: sys.path.pop(0)
    assert list_changes() == json.loads((RESULTS / "silence.json").read_text())
