"Archives that are whole or refused, and figures of a report that are what a count by hand gives."
import contextlib
import io
import json
import lzma
import random
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from cosee.cli.entry import main
from cosee.eval.statistics import compare_pair, holm
from cosee.experiments import run_experiment
from cosee.models.testing import ScriptedClient
from cosee.runs.analysis import (Analysis, accuracy_by_part, accuracy_cost, calibration, herding, paired_comparison,
                                 summarize_comparisons)
from cosee.runs.answers import Cost, Proposal, example_answer, read_answers, read_condition
from cosee.runs.config import make_config
from cosee.runs.log import RunError, RunLog, write_about
from cosee.runs.pack import LONGEST, open_pack, pack_records, read_pack
from cosee.runs.report import Report, table_html
from cosee.runs.table import Run, join_runs, replay_record

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
MADE = dict(name="made", limit=6, options=dict(kinds=["invoice", "letter"], per_doc=3, dpi=72))
METHODS = ["direct", dict(type="self_consistency", name="votes@3", budget=dict(calls=3)),
           dict(type="cosee_base", name="team@3", budget=dict(calls=3))]


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
    return run, join_runs([folder], folder.with_name("made.pack"))


# --- packs ---

def test_a_pack_says_what_its_run_says(ran, tmp_path):
    run, pack = ran
    assert list(pack) == list(run) and pack.status() == run.status()
    assert pack.scores("em") == run.scores("em") and pack.documents() == run.documents()
    team = next(r for r in pack if r["method"] == "team@3")
    assert replay_record(team)["answer"] == team["answer"]
    back = join_runs([pack.folder], tmp_path / "folder")
    assert list(back) == list(run)
    again = join_runs([back.folder], tmp_path / "again.pack")
    assert again.path.read_bytes() == pack.path.read_bytes()
    assert len(pack.path.read_bytes()) < run.path.stat().st_size / 5


def test_the_same_records_are_the_same_bytes_in_any_order(ran, tmp_path):
    run, pack = ran
    lines = run.path.read_bytes().splitlines(keepends=True)
    for n, part in enumerate((lines[1::2], lines[::2])):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "run.json").write_bytes((run.folder / "run.json").read_bytes())
        (tmp_path / str(n) / "records.jsonl").write_bytes(b"".join(part[::-1]))
    joined = join_runs([tmp_path / "0", tmp_path / "1"], tmp_path / "joined.pack")
    assert joined.path.read_bytes() == pack.path.read_bytes()


def test_runs_of_one_configuration_may_lie_anywhere(ran, tmp_path):
    run, _ = ran
    folders = [tmp_path / name for name in "abc"]
    for folder, root, seed in zip(folders, ("/one/docs", "/other/place/docs", "/one/docs"), (0, 0, 1), strict=True):
        folder.mkdir()
        config = dict(run.about["config"], dataset=dict(name="folder", root=root), seed=seed)
        (folder / "run.json").write_text(json.dumps({**run.about, "config": config, "hash": folder.name}))
        (folder / "records.jsonl").write_bytes(run.path.read_bytes())
    joined = join_runs(folders[:2], tmp_path / "joined.pack")
    assert list(joined) == list(run) and joined.about["config"]["dataset"]["root"] == "docs"
    assert b"/one" not in open_pack(joined.path).readline()
    with pytest.raises(RunError, match="differ in their configuration"):
        join_runs(folders, tmp_path / "joined.pack")


def test_an_archive_of_a_stopped_run_says_how_many_questions_it_has(ran, tmp_path):
    run, _ = ran
    lines = run.path.read_text().splitlines(keepends=True)
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "run.json").write_bytes((run.folder / "run.json").read_bytes())
    (tmp_path / "stopped" / "records.jsonl").write_text("".join(lines[:4]) + lines[4][:40])
    code, said = cosee("report", tmp_path / "stopped", "-o", tmp_path / "whole.pack")
    assert code == 0 and said.strip() == str(tmp_path / "whole.pack")
    whole = Run(tmp_path / "whole.pack")
    assert len(list(whole)) == 4 and whole.about["questions"] == 2


def test_the_commands_read_packs(ran, tmp_path):
    run, pack = ran
    sample = next(iter(run))["sample"]
    for more in (["--metric", "em", "--format", "text"], ["--episode", sample, "--json"],
                 ["-o", tmp_path / "t.csv"]):
        said = cosee("report", pack.path, *more)
        assert said == cosee("report", run.folder, *more) and said[0] == 0, more
    code, said = cosee("view", pack.path, "--export", tmp_path / "site", "--json", "--quiet")
    assert code == 0 and json.loads(said)["records"] == len(run.entries())
    code, said = cosee("run", pack.path)
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


HURT = dict(text=["report", "--format", "text"], report=["report"], episode=["report", "--episode", "x"],
            status=["report", "--format", "status"], table=["report", "-o", "{}/t.csv"],
            view=["view", "--export", "{}/s"], archive=["report", "-o", "{}/out.pack"], run=["run"],
            folder=["report", "--format", "records", "-o", "{}/out"])


@pytest.mark.parametrize("name", HURT)
def test_a_hurt_pack_costs_a_command_one_line(ran, tmp_path, name):
    (tmp_path / "hurt.pack").write_bytes(ran[1].path.read_bytes()[:-40])
    command, *more = [a.format(tmp_path) for a in HURT[name]]
    code, said = cosee(command, tmp_path / "hurt.pack", *more)
    assert code == 2 and said.count("\n") == 1, said
    assert ("only read" if name == "run" else "its end is missing") in said
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


# --- statistics against known cases ---


def two(n=40, gain=4):
    "Answers of a single call and of a team that is right on every `gain`-th question besides."
    samples = [f"d{d}-{q}" for d in range(n) for q in range(3)]
    once = [example_answer(s, i % 3 > 0) for i, s in enumerate(samples)]
    return once, [example_answer(s, i % 3 > 0 or i % gain == 0, "team", cost=Cost(3, 3000, 900, 2.))
                  for i, s in enumerate(samples)]


def test_comparisons_are_paired_by_question_and_corrected_together():
    once, team = two()
    other = [a._replace(method="chat", role="method") for a in once[::-1]]
    found = paired_comparison([*once, *team, *other[5:]])
    alone = compare_pair([a.right for a in team], [a.right for a in once], [a.document for a in once],
                         ("team", "direct"))
    assert holm([d.found.p for d in found]) == [d.found.adjusted for d in found]
    assert replace(found[0].found, adjusted=None) == alone and found[0].extra == 3
    assert found[1].found.n == len(once) - 5 and found[1].found.mean == 0 and found[1].found.p == 1


def test_power_is_that_of_the_pairs_and_their_documents():
    once, team = two()
    power = paired_comparison([*once, *team])[0].power
    gain = np.array([a.right - b.right for a, b in zip(team, once, strict=True)]).reshape(-1, 3).sum(1)
    error = np.sqrt(40 / 39 * ((gain - 3 * gain.sum() / 120) ** 2).sum()) / 120
    assert power.difference == pytest.approx((norm.ppf(.975) + norm.ppf(.8)) * error)


def test_the_summary_says_what_won_and_what_could_have_been_seen():
    once, team = two()
    said = summarize_comparisons(paired_comparison([*once, *team]))
    assert "1 are clearly better" in said[0] and "80 of 100 times" in said[0] and said[1].startswith("team at 1x")
    same = [a._replace(method="team") for a in once]
    assert "0 are clearly better" in summarize_comparisons(paired_comparison([*once, *same]))[0]


# --- herding, planted ---

def planted(folder):
    "A run in which the scanner writes a wrong number four times, and is corrected once; '71' is right."
    folder.mkdir()
    write_about(folder, dict(methods=["team@3"], metrics=dict(em="squad"), config=dict(
        methods=[dict(type="cosee", name="team@3", budget=dict(calls=3))], client=dict(type="scripted"))))
    said = [("17", "17", "17"), ("17", "17", "17"), ("17", "71", "71"), ("17", "18", "18"), ("71", "71", "71"),
            ("71", "17", "17")]
    names = ("scanner", "reader", "checker")
    with RunLog(folder) as log:
        for i, answers in enumerate(said):
            events = [dict(agent=n, cell=k, applied=dict(action="HYPOTHESIZE", answer=a))
                      for k, (n, a) in enumerate(zip(names, answers, strict=True), 1)]
            cells = [dict(id=1, content=f"The total is {answers[0]}", view=dict(page=1))]
            cells += [dict(id=k, content=a, tags=["hypothesis"]) for k, a in enumerate(answers[1:], 2)]
            entries = [dict(agent=n, usage=dict(calls=1, total_tokens=100 * k)) for k, n in enumerate(names, 1)]
            log.write(dict(sample=f"q{i}", index=i, method="team@3", doc=f"d{i // 2}", question="Total?", gold=["71"],
                           status="ok", answer=answers[2], confidence=.95 if i < 2 else .6, meta=dict(kind="receipt"),
                           board=dict(cells=cells), trace=dict(events=events, ledger=dict(entries=entries)),
                           usage=dict(total_tokens=600, cached_tokens=200, calls=3)))
    return folder


def test_planted_herding_is_found(tmp_path):
    study = Report(planted(tmp_path / "run"), n_resamples=200).analysis
    (h,) = study.herding
    assert h.flow == (1, 2, 1, 1, 1)
    assert (h.rescue.mean, h.herd.mean, h.spoiled.mean) == (.25, .5, .5)
    assert (h.follow_wrong.mean, h.follow_right.mean) == (4 / 8, 2 / 4)
    assert (h.wrong, h.noted) == (4, 2)   # two of the wrong answers are what the scanner's note said
    (t,) = study.calibration
    assert (t.wrong, t.confident_and_wrong) == (4, 2) and t.agreement.answers == 6
    (s,) = study.usage
    assert s.roles["checker"].tokens == 6 * 300 and s.turns == (18, 0, 6)   # nothing refers to the first note


def test_an_account_of_a_method_stands_in_for_the_trace(tmp_path):
    planted(tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/records.jsonl").open()]
    for r in lines:
        first = [dict(agent=e["agent"], answer=e["applied"]["answer"], blind=True) for e in r["trace"]["events"]]
        r["meta"]["did"] = dict(first=first, votes=first[1:])
        del r["trace"], r["board"]
    (tmp_path / "run/records.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in lines))
    (h,) = herding(read_answers([tmp_path / "run"]), 200)
    assert h.flow == (1, 2, 1, 1, 1) and (h.wrong, h.noted) == (0, 0)


# --- from a run to published files ---

def test_methods_budgets_and_roles_come_from_the_configuration():
    oracle = dict(name="oracle", type="direct", focus="oracle")
    named = dict(read_condition(e, {}) for e in [*METHODS, oracle, "cosee"])
    assert {m: c[:3] for m, c in named.items()} == {
                     "direct": ("direct", "1 call", "baseline"), "votes@3": ("votes", "3x", "baseline"),
                     "team@3": ("team", "3x", "method"), "oracle": ("oracle", "1 call", "bound"),
                     "cosee": ("cosee", "free", "method")}
    assert [m for m, c in named.items() if c.one_call] == ["direct"]
    assert read_condition("cosee", dict(equal=3.))[1].budget == "3x"
    assert read_condition(dict(type="cosee", name="gpt@4"), dict(calls=9))[1].method == "gpt@4"


def test_answers_are_what_the_run_scored(ran):
    run, pack = ran
    found = {(a.sample, a.method): a for a in read_answers([pack.folder])}
    for r in run:
        a = found[r["sample"], r["method"].removesuffix("@3")]
        assert a.right == r["right"] and a.cost.tokens == r["usage"]["total_tokens"] and a.kind == r["meta"]["kind"]
        proposed = [e for e in r["trace"].get("events", []) if (e["applied"] or {}).get("answer")]
        assert len(a.said) == len(proposed or r["trace"]["calls"])
    assert {d.baseline.method for d in paired_comparison(found.values(), n_resamples=50)} == {"direct", "votes"}


def test_a_failed_question_is_wrong_also_where_there_is_no_answer(tmp_path):
    write_about(tmp_path, dict(methods=["direct"], metrics=dict(em="squad"), config=dict(methods=["direct"])))
    asked = dict(index=0, method="direct", gold=["not answerable"], answer="")
    with RunLog(tmp_path) as log:
        log.write(dict(asked, sample="a", status="failed", error="boom"))
        log.write(dict(asked, sample="b", status="ok", answer="not answerable"))
        log.write(dict(asked, sample="c", status="ok", answer="not answerable", gold=["7"]))
    a, b, c = read_answers([tmp_path])
    assert (a.right, a.abstained, b.right, b.abstained) == (False, False, True, True)
    assert [x.withheld for x in (a, b, c)] == [False, False, True] and accuracy_cost([a, b, c], 50)[0].withheld == 1
    (t,) = calibration([a, b], 50)
    assert t.abstains.mean == .5 and t.gives_up is None and t.confidence is None


def test_the_same_records_give_the_same_report(ran, tmp_path):
    run, pack = ran
    first, again = (Report(r.folder, n_resamples=200) for r in (pack, run))
    assert first.analysis.to_json() == again.analysis.to_json() and first.table == again.table
    for end in ("html", "md", "json"):
        assert cosee("report", pack.folder, "-o", tmp_path / f"r.{end}", "--resamples", 200)[0] == 0
        assert (tmp_path / f"r.{end}").read_bytes() == first.save(tmp_path / f"s.{end}").read_bytes()


def test_a_changed_answer_changes_the_figures(ran, tmp_path):
    lines = ran[0].path.read_text().splitlines(keepends=True)
    i = next(i for i, line in enumerate(lines) if json.loads(line)["right"])
    lines[i] = json.dumps({**json.loads(lines[i]), "answer": "something else"}) + "\n"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_bytes((ran[0].folder / "run.json").read_bytes())
    (tmp_path / "run/records.jsonl").write_text("".join(lines))
    before, after = (Report(r, n_resamples=100).table for r in (ran[0], tmp_path / "run"))
    changed = [m for m in before if before[m]["score"] != after[m]["score"]]
    assert changed == [json.loads(lines[i])["method"]]


def test_a_report_for_a_paper_says_what_was_run(ran):
    page = Report(ran[0], n_resamples=100).markdown()
    for word in ("invoice", "seed", "data set", "split", "documents", "settings", "invalid replies", "## Definitions",
                 "95 % percentile interval", "Holm"): assert word in page, word


def test_replies_that_say_nothing_are_counted(tmp_path):
    "A model whose every reply is of no use has failed no question, and shows it all the same."
    client = ScriptedClient([""], cycle=True)
    run = run_experiment(make_config(dict(dataset=dict(MADE, limit=2), methods=["cosee_light"])), tmp_path, client)
    row = Report(run, n_resamples=50).table["cosee_light"]
    assert row["failed"] == 0 and row["invalid"] == 1
    assert "100.0%" in cosee("report", tmp_path, "--format", "status")[1]


def test_shards_are_one_run_and_two_runs_are_told_apart(tmp_path):
    config = make_config(dict(dataset=dict(MADE, limit=4), methods=["direct"]))
    client = ScriptedClient(["Answer: 7"], cycle=True)
    for i in (1, 2): run_experiment(config, tmp_path / f"all/shard-{i}-of-2", client, shard=f"{i}/2")
    run_experiment(config, tmp_path / "again", client)
    report = Report([tmp_path / "all", tmp_path / "again"], n_resamples=50)
    assert {m: r["questions"] for m, r in report.table.items()} == {"all: direct": 4, "again: direct": 4}
    assert len(report.analysis.accuracy_cost) == 2


def test_what_a_stranger_wrote_stays_text():
    bad = [example_answer("=1+1-1", False, "<script>x", answer="=cmd()|'x'!A1\n<img src=x>", model="</title><b>",
                       said=(Proposal("<i>", "8", False), Proposal("b", "9", False)), confidence=7.)]
    for table in Analysis(bad, n_resamples=50).tables().values():
        page = table_html(table) + table.markdown()
        assert "<script" not in page and "<img" not in page and "</title><b>" not in page
    assert accuracy_by_part(bad, 50) == []


def test_runs_that_cannot_be_reported_are_refused_in_a_line(ran, tmp_path):
    write_about(tmp_path, dict(methods=["direct"], metrics=dict(magic="own")))
    for argv, words in (((tmp_path,), "unknown metric 'magic'"), ((ran[0].folder, "-o", tmp_path / "x.txt"), ".html"),
                        ((tmp_path / "none",), "no run folder")):
        code, said = cosee("report", *argv)
        assert code == 2 and words in said and said.count("\n") == 1, said


@pytest.mark.parametrize("name", ["made", "room_small"])   # the latter was asked when teams always answer
def test_the_page_of_the_verdict_runs_on_any_packs(ran, tmp_path, monkeypatch, name):
    from execnb.nbio import read_nb
    from execnb.shell import CaptureShell
    (tmp_path / f"{name}.pack").write_bytes(ran[1].path.read_bytes())
    monkeypatch.setenv("COSEE_VERDICT", str(tmp_path))
    monkeypatch.setenv("COSEE_VERDICT_DRAWS", "200")
    monkeypatch.chdir(ROOT / "nbs/explain")
    shell, shown = CaptureShell(), []
    for cell in read_nb(ROOT / "nbs/explain/verdict.ipynb").cells:
        if cell.cell_type != "code": continue
        shell.cell(cell)
        assert not shell.exc, shell.prettytb()
        shown.append(str(cell.outputs))
    said = "\n".join(shown)
    assert "18 answers to 6 questions" in said and "<svg" in said and re.search(r"\bteam +3x", said)
    assert "No record says anything" in said   # there is no dev third here
    asked = "That run is not there yet" not in said
    assert asked == ("6 questions" in said and "leave room" in said) == (name == "room_small")
