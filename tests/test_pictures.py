"""Pictures: names are letters, whatever they are; numbers are those of the records; nothing of the user's settings
changes."""

import math
import re
import sys
from html import unescape
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from cosee.runs.figures import (GROUPS, agreement_of, agreement_picture, by_agent, by_agreement, by_page,
                                coverage_picture, record_summary, run_pictures, score_picture, spending_picture)
from cosee.view.figure import COLOURS, Picture, contrast, place_names, spread
from cosee.runs.report import Report
from test_exports import HOSTILE, made_run

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {SVG + t for t in ("svg", "g", "path", "defs", "clipPath", "rect", "text", "tspan", "title", "desc", "use")}


def row(score=50., tokens=1000, **kw): return {**dict(score=score, low=score - 5, high=score + 5, tokens=tokens), **kw}


def record(i, agents=("a", "b"), answers=("1", "1"), noted=(1,), score=1., pages=3):
    seen = dict(
        agents={a: [1, 100] for a in agents},
        answers=list(answers),
        noted=None if noted is None else list(noted),
        gold=[2],
        pages=pages,
    )
    return dict(
        sample=f"q{i}",
        doc=f"d{i}",
        score=score,
        seen=seen,
        usage=dict(calls=len(agents), total_tokens=100 * len(agents)),
    )


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
    table = {name: row(40 + 7 * i, 1000 * 2 ** i) for i, name in enumerate(names)}
    rows = {name: [record(i, agents=(name, "b"), answers=(str(i % 2), "1")) for i in range(4)] for name in names}
    drawn = run_pictures(table, rows, names[0])
    assert len(drawn) == 4
    for p in drawn:
        root = check(svg := p.svg())
        assert "\u202e" not in svg and "\x00" not in svg and len(root[1].text) < 4000


def test_names_of_any_length_do_not_break_the_layout():
    table = {"x" * 100_000 + str(i): row(50, 1000 + i) for i in range(30)}
    root = check(score_picture(table).svg())
    assert float(root.get("height")) < 1500 and all(len("".join(e.itertext())) < 40 for e in root.iter(SVG + "text"))


def test_words_hold_the_numbers():
    p = score_picture({"direct": row(64.06, 2126)}, "anls")
    assert p.title == "anls against tokens" and p.alt == "direct: 64.1 (59.1 to 69.1) at 2,126 tokens."
    assert (
        "team: a 1.0 calls and 100 tokens, b 1.0 calls and 100 tokens" in spending_picture({"team": [record(0)]}).alt
    )
    assert (
        "team: page 1 100 %, page 2 0 %, page 3 0 %; gold evidence: page 1 0 %, page 2 100 %"
        in coverage_picture({"team": [record(0)]}).alt
    )
    assert "team: all agree 100.0" in agreement_picture({"team": [record(0)]}).alt


def test_numbers_are_those_of_the_records(tmp_path):
    run = made_run(tmp_path / "run", methods=("chat", "cosee_light"), n=4)
    rows = Report(run).rows
    for rs in rows.values():
        spent = by_agent(rs)
        assert sum(c for c, _ in spent.values()) == pytest.approx(sum(r["usage"]["calls"] for r in rs) / 4)
        assert sum(t for _, t in spent.values()) == pytest.approx(sum(r["usage"]["total_tokens"] for r in rs) / 4)
    noted, gold = by_page(rows["cosee_light"])
    assert (noted, gold) == ({1: 1.}, {1: 1.}) and by_page(rows["chat"]) == ({}, {})
    assert {m: list(by_agreement(rs)) for m, rs in rows.items()} == dict(chat=["all agree"], cosee_light=["all agree"])


@pytest.mark.parametrize("answers, group", [([], None), (["1"], None), (["1", "1"], 2), (["1", "2"], 0),
                                            (["1", "1", "2"], 1), (["1", "1", "2", "2"], 0), (["1", "2", "3"], 0)])
def test_agreement(answers, group): assert agreement_of(answers) == (None if group is None else GROUPS[group])


def test_what_the_records_do_not_say_is_not_drawn():
    silent = [{**record(0), "seen": record_summary({})}]
    assert [p.title for p in run_pictures({"m": row()}, {"m": silent})] == [
        "score against tokens",
        "Calls and tokens by agent",
    ]
    assert by_agent(silent) == {"": (2, 200)}
    assert by_agent([record(0), {**record(1), "seen": record_summary({})}]) == {
        "a": (0.5, 50),
        "b": (0.5, 50),
        "": (1, 100),
    }


@pytest.mark.parametrize("trace", [{}, {"ledger": None, "calls": None}, {"events": [{"agent": None, "applied": None}]},
                                   {"calls": [{"agent": "a"}]}])
def test_a_summary_of_a_poor_record(trace):
    assert record_summary({"trace": trace, "board": None, "meta": None})["answers"] == []


@pytest.mark.parametrize("table", [{"a": row(0, 0, low=0., high=0.)}, {"a": row(100, 5, low=100., high=100.)},
                                   {f"m{i}": row(50, 1000) for i in range(25)},
                                   {"a": row(50, 1), "b": row(60, 10 ** 9)}, {"a": row(50, 0), "b": row(50, 0)}])
def test_odd_numbers_are_drawn(table): check(score_picture(table).svg())


@given(st.lists(st.floats(0, 700), max_size=14))
def test_places_are_spread_and_keep_their_order(xs):
    out = spread(xs, 11)
    assert sorted(range(len(xs)), key=lambda i: (xs[i], i)) == sorted(
        range(len(xs)), key=lambda i: (out[i], i)
    ) and len(out) == len(xs)
    assert all(b - a >= 11 - 1e-6 for a, b in zip(sorted(out), sorted(out)[1:], strict=False))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=28), st.floats(0, 600), st.floats(0, 100),
                          st.floats(0, 100)), max_size=12))
def test_names_never_overlap(points):
    points = [(n, x, lo, lo + d) for n, x, lo, d in points]
    boxes = [
        (x - len(n) * 3.6, x + len(n) * 3.6, y - 8, y + 8)
        for (n, *_), (x, y) in zip(points, place_names(points), strict=True)
    ]
    for i, (l, r, lo, hi) in enumerate(boxes):
        assert all(r <= l2 or r2 <= l or hi <= lo2 or hi2 <= lo for l2, r2, lo2, hi2 in boxes[:i])


def test_settings_of_the_user_do_not_matter_and_stay():
    matplotlib = pytest.importorskip("matplotlib")
    plain = score_picture({"a_$1$": row()}).svg()
    with matplotlib.rc_context(
        {"text.parse_math": True, "font.size": 30, "svg.fonttype": "path", "axes.facecolor": "red"}
    ):
        assert score_picture({"a_$1$": row()}).svg() == plain and matplotlib.rcParams["font.size"] == 30
    assert "a_$1$" in plain


def test_ids_of_several_pictures_on_a_page_do_not_meet():
    rows = {"team": [record(i) for i in range(3)]}
    ids = [
        e.get("id") for p in run_pictures({"team": row()}, rows) for e in ET.fromstring(p.svg()).iter() if e.get("id")
    ]
    assert len(ids) == len(set(ids)) > 20


def test_without_matplotlib_the_error_names_the_extra_and_reports_go_on(tmp_path, monkeypatch):
    run = made_run(tmp_path / "run", n=2)
    assert Report(run).html().count("<figure><svg") == 4
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"cosee\[pictures\]"): score_picture({"a": row()}).svg()
    assert Report(run).html().count("<figure><svg") == 1


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE[:12])
def test_a_report_of_hostile_names_shows_letters(tmp_path, text):
    page = Report(made_run(tmp_path / "run", question=text, n=2)).html()
    assert (
        "<script" not in page
        and not re.search(r"<(img|iframe|link|a)\b", page)
        and "default-src 'none'" in unescape(page)
    )


def test_colours_stand_out_in_both_themes():
    assert all(contrast(c, page) >= 3 for c in COLOURS for page in ("#ffffff", "#181818"))
    assert math.isclose(contrast("#777777", "#ffffff"), 4.478, abs_tol=.01)


def test_a_picture_shows_itself():
    assert (
        repr(Picture(None, "x", "y")) == "Picture('x')"
        and Picture(None, "\u65e5", "").name
        and Picture(None, "!", "").name == "picture"
    )
