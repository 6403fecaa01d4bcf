"""What a trace can prove of a team, from hand-made records to the page of a report."""
import re

import pytest

from cosee.cli.entry import main
from cosee.runs.analysis import paired_comparison, summarize_comparisons
from cosee.runs.answers import example_answer, read_answers
from cosee.runs.log import RunLog, write_about
from cosee.runs.report import Report
from cosee.runs.table import Run
from cosee.runs.teamwork import TEAMWORK, TEAMWORK_TERMS, teamwork
from cosee.runs.viewer import Viewer, export_viewer

METHODS = ["direct", dict(type="cosee_base", name="team")]
ABOUT = dict(hash="h", methods=["direct", "team"], metrics=dict(em="plain"), config=dict(methods=METHODS))


def cell(id, author, content, page=1):
    return dict(id=id, author=author, content=content, view=dict(page=page), step=1, tags=[])


def turn(agent, cell, answer=None, **more):
    applied = dict(action="HYPOTHESIZE", answer=answer) if answer else dict(action="INSPECT")
    return dict(agent=agent, step=1, cell=cell, applied=applied, calls=[], error="", board_cells=cell - 1, **more)


def record(method, sample, answer, calls, **more):
    return dict(sample=sample, index=int(sample[1:]), method=method, status="ok", question="When?", answer=answer,
                gold=["12 May"], usage=dict(calls=calls, total_tokens=3 * calls), data="d", **more)


def team(sample, answer, turns, cells, printed=(), **more):
    evidence = [dict(page=page, cell=c, bbox=None, content="", printed=text) for page, c, text in printed]
    trace = dict(version=1, kind="board", events=turns, **more)
    return record("team", sample, answer, len(turns), evidence=evidence, board=dict(cells=cells), trace=trace)


def plain(sample, answer):
    return record("direct", sample, answer, 1, trace=dict(kind="calls", calls=[dict(agent="solo", text=answer)]))


both = [cell(1, "scanner", "It says 3 June."), cell(2, "detail_reader", "Answer: 3 June.")]
turns = [turn("scanner", 1), turn("detail_reader", 2, "3 June")]
TEAM = [team("q0", "3 June", turns, both),                                   # from a note that nobody proved
        team("q1", "3 June", turns, both, [(1, 2, "3 June")]),               # from a note that is in print
        team("q2", "3 June", turns, both, [(1, 2, None)]),                   # nobody could look
        team("q3", "May", [turn("scanner", 1), turn("detail_reader", 2, "May")],
             [cell(1, "scanner", "A date"), cell(2, "detail_reader", "Answer: May.")], [(1, 2, "May")]),
        team("q4", "7", [turn("scanner", 1), turn("detail_reader", 2, "7")],
             [cell(1, "scanner", "Page 17"), cell(2, "detail_reader", "Answer: 7.")]),
        team("q5", "3 June", turns[:1], both[:1]),                           # one agent only
        team("q6", "12 May", turns, both, fallback=True),
        team("q7", "not answerable", turns, both)]
# one call is wrong on q0 and q1, and withholds q7
ONE = [plain(f"q{i}", "4 July" if i < 2 else "not answerable" if i == 7 else "12 May") for i in range(8)]


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    with RunLog(folder) as log:
        for record in [*ONE, *TEAM]: log.write(record)
    write_about(folder, ABOUT)
    return Run(folder)


def alone(method, sample, agents, **more):
    trace = dict(kind="calls", calls=[dict(agent=a, text="Answer: 12 May") for a in agents], fallback=True, **more)
    return record(method, sample, "12 May", len(agents), trace=trace)


def test_the_plain_call_behind_a_method_is_no_second_agent(tmp_path):
    with RunLog(tmp_path) as log:
        log.write(alone("direct", "q0", ["solo", "fallback"]))                       # a sample, and the plain call
        log.write(alone("team", "q0", ["fallback"], left_out=["scanner", "reader"])) # nobody of the team had a turn
    write_about(tmp_path, ABOUT)
    (t,) = teamwork(read_answers([Run(tmp_path)]), 50)
    assert (t.group.method, t.episodes, t.second, t.fallbacks) == ("team", 1, 0, 1)


def test_counters_from_hand_made_traces(run):
    (t,) = teamwork(read_answers([run]), 50)
    assert (t.group.method, t.episodes, t.second, t.fallbacks) == ("team", 8, 7, 1)
    assert t.wrong == 5 and (t.repeated, t.reinforced, t.unknown) == (3, 1, 1)   # q0, q1, q2; q0; q2
    assert t.known_right == 4 and (t.collapsed, t.parts) == (2, 1)   # of q2, q3, q4 and q6: q3, a part, and q4
    assert t.accuracy.mean == pytest.approx(1 / 7) and t.one_call == pytest.approx(4 / 7)
    assert {name: a.sample for name, a in t.examples.items()} == {"noise reinforcement": "q0", "policy collapse": "q3"}


def test_the_report_defines_the_figures_beside_them_and_opens_an_episode_of_each(run, capsys, monkeypatch):
    monkeypatch.chdir(run.folder.parent)
    report = Report(run, n_resamples=50)
    for text in (report.html(), report.markdown()):
        start = text.index(TEAMWORK)
        assert all(start < text.index(term, start) < text.index("Questions on which") for term in TEAMWORK_TERMS)
    assert "team at free was one agent only in 1 of 8 episodes" in report.markdown()
    found = re.findall(r"For example, (.+?): team answers .*?(cosee report \S+ --episode (q\d) --method team)",
                       report.markdown().replace("\\", ""))
    assert [(name, sample) for name, _, sample in found] == [("noise reinforcement", "q0"), ("policy collapse", "q3")]
    assert main(found[0][1].split()[1:] + ["--json"]) == 0 and '"events"' in capsys.readouterr().out
    said = report.to_dict()
    assert said["teamwork"]["rows"][0][:4] == ["?", "team", "free", 8] and len(said["examples"]) == 2


def test_links_lead_to_episodes_that_were_written(run, tmp_path):
    folder = tmp_path / "site"
    export_viewer(Viewer(run.folder), folder, "all")
    links = re.findall(r'href="(episodes/\w+\.html)"', (folder / "report.html").read_text())
    assert len(links) == 2 and all((folder / link).is_file() for link in links)
    export_viewer(Viewer(run.folder), folder, "none")
    assert "episodes/" not in (folder / "report.html").read_text()
    viewer = Viewer(run.folder)
    viewer.update()
    assert re.findall(r'href="(episodes/\w+\.html)"', viewer.report()) == links


def test_a_team_of_one_agent_says_so_and_one_call_is_no_team(run, tmp_path):
    alone = tmp_path / "alone"
    with RunLog(alone) as log:
        for r in TEAM: log.write({**r, "trace": {**r["trace"], "events": r["trace"]["events"][:1]}})
        for r in ONE: log.write(r)
    write_about(alone, ABOUT)
    report = Report(alone, n_resamples=50)
    assert "team at free was one agent only: no second one had a turn." in report.sentences()
    assert [t.group.method for t in report.teamwork] == ["team"] and not report.examples()


def test_records_without_traces_make_no_table(run, tmp_path):
    slim = tmp_path / "slim"
    with RunLog(slim) as log:
        for r in [*TEAM, *ONE]: log.write({k: v for k, v in r.items() if k not in ("trace", "board")})
    write_about(slim, ABOUT)
    assert TEAMWORK not in Report(slim, n_resamples=50).html()


@pytest.mark.parametrize("right, room", [(19, False), (18, True), (1, False), (2, True), (20, False), (0, False)])
def test_where_one_call_leaves_no_room_a_comparison_counts_for_nothing(right, room):
    once = [example_answer(f"d{i}", i < right) for i in range(20)]
    won = [example_answer(f"d{i}", not i < right, "team") for i in range(20)]
    (c,) = paired_comparison([*once, *won], n_resamples=200)
    assert (c.has_room, c.clear) == (room, room) and c.one_call == right / 20
    (said, *clear) = summarize_comparisons([c])
    assert ("of 0 comparisons" in said and "1 more have none" in said) is not room and bool(clear) is room


def test_the_row_of_a_comparison_says_no_room(tmp_path):
    config = dict(methods=["direct", dict(type="cosee_base", name="team@3", budget=dict(calls=3))])
    write_about(tmp_path, {**ABOUT, "config": config})
    with RunLog(tmp_path) as log:
        for i in range(6):
            for method, answer in (("direct", "12 May"), ("team@3", "12 May" if i else "3 June")):
                log.write({**plain(f"q{i}", answer), "method": method})
    report = Report(tmp_path, n_resamples=50)
    assert any(s.startswith("No room: direct is right on 100%") for s in report.sentences())
    (table,) = [t for t in report.analysis.tables().values() if t.title == "Against the same tokens"]
    assert dict(zip(table.columns, table.texts()[0]))["room"] == "no room"
