"""Pictures: names are letters, whatever they are; numbers are those of the records; nothing of the user's settings
changes."""

import re
import sys
from html import unescape
from xml.etree import ElementTree as ET

import pytest

from cosee.runs.analysis import calibration, herding
from cosee.runs.answers import Cost, Proposal, example_answer
from cosee.runs.figures import (ScorePoint, herding_picture, reliability_picture, score_picture, usage_by_agent,
                                usage_picture)
from cosee.runs.report import Report
from test_exports import HOSTILE, made_run

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {SVG + t for t in ("svg", "g", "path", "defs", "clipPath", "rect", "text", "tspan", "title", "desc", "use")}


def point(name, score=50., tokens=1000, low=None, high=None):
    ends = (score - 5 if low is None else low, score + 5 if high is None else high)
    return ScorePoint(name, name, tokens, score, *ends)


def team(name="team", n=4, agents=("a", "b")):
    "Answers of a team: the first agent is wrong on every second question, the last one is right on all but one."
    return [example_answer(f"d{i}", i > 0, name, confidence=.9 if i % 2 else .4,
                           roles={a: Cost(1, 100, 100, .1) for a in agents},
                           said=(Proposal("a", "8", False), Proposal("b", "87"[i > 0], i > 0)) if i % 2 == 0 else
                           (Proposal("a", "7", True), Proposal("b", "7", True))) for i in range(n)]


def check(svg):
    "The root of a picture that holds nothing but drawing"
    root = ET.fromstring(svg)
    assert (
        {e.tag for e in root.iter()} <= ELEMENTS
        and root.get("role") == "img"
        and root[0].tag == SVG + "title"
        and root[1].tag == SVG + "desc"
    )
    for e in root.iter():
        for k, v in e.attrib.items():
            assert not k.lower().startswith("on") and (not k.endswith("href") or v.startswith("#")), (k, v)
            assert not re.search(r"url\((?!#)", v)
    assert not re.search(r"https?://(?!www\.w3\.org/)", re.sub(r">[^<]*<", "><", svg))
    return root


NAMES = [h for h in HOSTILE if len(h) < 200] + ["\u65e5\u672c\u8a9e", "\U0001f600", "e\u0301", "\ud800"]


@pytest.mark.slow
@pytest.mark.parametrize("names", [NAMES[i:i + 6] for i in range(0, len(NAMES), 6)])
def test_names_are_letters_in_every_picture(names):
    rows = {name: team(name, agents=(name, "b")) for name in names}
    answers = [a for r in rows.values() for a in r]
    drawn = [score_picture([point(name, 40 + 7 * i, 1000 * 2 ** i) for i, name in enumerate(names)], names[0]),
             usage_picture(rows), herding_picture(herding(answers, 20)), reliability_picture(calibration(answers, 20))]
    for p in drawn:
        root = check(svg := p.svg())
        assert "\u202e" not in svg and "\x00" not in svg and len(root[1].text) < 4000


def test_words_hold_the_numbers():
    p = score_picture([point("direct", 64.06, 2126)], "anls")
    assert p.title == "anls against tokens" and p.alt == "direct: 64.1 (59.1 to 69.1) at 2,126 tokens."
    assert "team: a 1.0 calls and 100 tokens, b 1.0 calls and 100 tokens" in usage_picture({"team": team()}).alt
    assert "right, kept 50 %, wrong, rescued 25 %" in herding_picture(herding(team(), 20)).alt
    assert "100 % right where 90 % sure (2)" in reliability_picture(calibration(team(), 20)).alt


def test_numbers_are_those_of_the_records(tmp_path):
    run = made_run(tmp_path / "run", methods=("chat", "cosee_light"), n=4)
    for rows in Report(run).rows.values():
        spent = usage_by_agent(rows)
        used = [a.record["usage"] for a in rows]
        assert sum(c for c, _ in spent.values()) == pytest.approx(sum(u["calls"] for u in used) / 4)
        assert sum(t for _, t in spent.values()) == pytest.approx(sum(u["total_tokens"] for u in used) / 4)


def test_what_the_records_do_not_say_is_not_drawn(tmp_path):
    silent = [example_answer("d1", True, cost=Cost(2, 200, 200, .1))]
    assert usage_by_agent(silent) == {"": (2, 200)} and herding(silent, 20) == []
    assert usage_by_agent([*silent, team(n=1)[0]]) == {"": (1, 100), "a": (.5, 50), "b": (.5, 50)}
    assert [p.title for p in Report(made_run(tmp_path / "run", methods=("direct",), n=2)).pictures()][0].endswith(
        "against tokens")


@pytest.mark.parametrize("points", [[point("a", 0, 0, 0., 0.)], [point("a", 100, 5, 100., 100.)],
                                    [point(f"m{i}") for i in range(25)], [point("a", 50, 1), point("b", 60, 10 ** 9)],
                                    [point("a", 50, 0), point("b", 50, 0)]])
def test_odd_numbers_are_drawn(points): check(score_picture(points).svg())


def test_settings_of_the_user_do_not_matter_and_stay():
    matplotlib = pytest.importorskip("matplotlib")
    plain = score_picture([point("a_$1$")]).svg()
    with matplotlib.rc_context(
        {"text.parse_math": True, "font.size": 30, "svg.fonttype": "path", "axes.facecolor": "red"}
    ):
        assert score_picture([point("a_$1$")]).svg() == plain and matplotlib.rcParams["font.size"] == 30
    assert "a_$1$" in plain


def test_without_matplotlib_the_error_names_the_extra_and_reports_go_on(tmp_path, monkeypatch):
    run = made_run(tmp_path / "run", n=2)
    assert Report(run).html().count("<figure><svg") >= 2
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"\[pictures\]"): score_picture([point("a")]).svg()
    page = Report(run).html()
    assert "<figure><svg" not in page and "The figures are left out" in page and "[pictures]" in page


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE[:12])
def test_a_report_of_hostile_names_shows_letters(tmp_path, text):
    page = Report(made_run(tmp_path / "run", question=text, n=2)).html()
    assert (
        "<script" not in page
        and not re.search(r"<(img|iframe|link|a)\b", page)
        and "default-src 'none'" in unescape(page)
    )
