"""Hostile texts in every view, shown by headless Chromium: nothing runs, nothing is loaded, no element is theirs.

Each text stands wherever a question, an answer, a note, a name, a tag, a page's description, an error or a method can
stand, in what notebooks show (with no policy: escaping alone has to do), in an episode's page and in its fallback, in
pictures, in a report, in the run viewer and in its folder. COSEE_TEXTS=500 asks for more of them."""
import os
import random

import pytest
from PIL import Image

import test_hardened_keys as keys
from cosee.board import Board
from cosee.runs.log import RunLog, write_about
from cosee.runs.report import Report
from cosee.runs.table import Run
from cosee.runs.viewer import Viewer, export_viewer
from cosee.server.serve import running
from cosee.server.viewer import create_viewer_app
from cosee.view.episode import write_html
from cosee.view.widget import episode_fallback
from test_browser import EVIL, WRAPS
from test_exports import html as rendered
from test_viewer import clean, go

pytestmark = [pytest.mark.slow, pytest.mark.faults("a hostile text, in every view")]
MOST = int(os.environ.get("COSEE_TEXTS", 40))
NAMES = ["img", "svg", "video", "input", "iframe", "details", "body", "math", "object", "marquee", "x", "style"]
EVENTS = ["onerror", "onload", "ontoggle", "onfocus", "onanimationstart", "onpointerenter", "ONERROR", "onerror\x0c"]
ENDS = ["", ">", "\">", "'>", "-->", "]]>", "</p></td></table>", "`", "```\n", "</title></style></textarea>", "\x00",
        "&quot;&gt;", "\u2028", "\\", "${", "{{", "\ud800", "</svg>", "|", "\n\n"]
FORMS = ["<{n} src=x {e}=alert(1) autofocus open>", "<{n}/{e}='alert(1)'/src=x>", "<{n}\t{e}=\nalert`1`>",
         "<svg><{n} {e}=alert(1)></svg>", "<script>alert(1)</script>", "![x](http://example.org/{n}.png)",
         "[{n}](javascript:alert(1))", "<a href=javascript:alert(1)>{n}</a>",
         "<{n} style='background:url(//example.org/)'>",
         "&lt;{n} {e}=alert(1)&gt;", "<{n}><script>alert(1)</script></{n}>", "\" {e}=alert(1) x=\"", "' {e}='alert(1)",
         "<iframe src=//example.org></iframe>", "<base href=//example.org><{n}>",
         "$\\href{{javascript:alert(1)}}{{{n}}}$",
         "<math><mtext></form><form><mglyph><svg><mtext><style><path id='</style><{n} {e}=alert(1) src>'>"]


def texts_of(n):
    "Texts that are hostile in as many ways as there are texts; the same in every run."
    rng = random.Random(0)
    found = dict.fromkeys(wrap % text[:500] for wrap in WRAPS for text in EVIL)
    found = dict.fromkeys(rng.sample(list(found), min(n // 3, len(found))))
    while len(found) < n:
        form = rng.choice(FORMS).format(n=rng.choice(NAMES), e=rng.choice(EVENTS))
        found[rng.choice(ENDS) + form + rng.choice(ENDS)] = None
    return list(found)


TEXTS = texts_of(MOST)
NONE_OF_THEIRS = ("document.querySelectorAll('script, object, base, link, meta[http-equiv=refresh], video, marquee, "
                  "math, form, x, iframe:not([sandbox]), img:not([src^=\"data:\"]), "
                  "a[href^=\"javascript:\" i]').length"
                  " + [...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(n => n.startsWith("
                  "'on'))).length")


def fits(browser, width):
    "No hostile text, however long, makes a page wider than its window."
    assert browser.js("document.documentElement.scrollWidth") <= width


def looked_at(browser, path, ours=0, width=None):
    """Open a page, unfold all of it, and see that nothing hostile came to life; `ours` elements of such kinds are
    ours. A page with a style of ours stays within its `width`."""
    browser.open(path, **(dict(width=width) if width else {}))
    browser.js("document.querySelectorAll('details').forEach(e => e.open = true)")
    browser.js("document.querySelectorAll('*').forEach(e => { e.focus && e.focus(); })")
    if width: fits(browser, width)
    clean(browser, path if isinstance(path, str) else path.as_uri())
    assert browser.js(NONE_OF_THEIRS) == ours


def page_of(folder, parts):
    "A page as a notebook makes it: no policy, parts one after the other."
    path = folder / "notebook.html"
    text = "<!doctype html><meta charset=utf-8><body>" + "\n".join(f"<div>{part}</div>" for part in parts)
    path.write_text(text, encoding="utf-8", errors="replace")
    return path


SHOWN = "shown in a view, and not run"
COSTLY = {"cosee.view.episode.EpisodeView": 4, "cosee.view.drawing.Picture": 2, "cosee.runs.report.Report": 4,
          "cosee.view.widget.EpisodeWidget": 4}   # these are shown with more texts by the tests below


@pytest.mark.parametrize("name", keys.SHOWN)
def test_what_notebooks_show(browser, name, tmp_path, monkeypatch, counts):
    parts, texts = [], TEXTS[:COSTLY.get(name, MOST)]
    for i, text in enumerate(texts):
        monkeypatch.setattr(keys, "HOSTILE", text)
        (tmp_path / str(i)).mkdir()
        shown = keys.shown_by(name, tmp_path / str(i))
        parts += [rendered(v) if k == "_repr_markdown_" else v for k, v in shown.items() if k != "_repr_javascript_"]
    looked_at(browser, page_of(tmp_path, parts))
    counts[SHOWN] = len(texts)


def episode(text, other):
    board = Board()
    board.add_cell({"page": 1, "bbox": (.1, .1, .5, .3), "description": text}, text, [text, other], other, 1)
    event = dict(step=1, agent=text, action=dict(action=text), error=text,
                 calls=[dict(prompt=[text, other], text=other, usage={})])
    return dict(question=text, answer=other, because=text, stopped=text, status=other, confidence=.3, page=1,
                board=board, trace=dict(events=[event], config=dict(agents=[dict(client=text)])),
                hypotheses=[dict(answer=other, author=text)],
                evidence=[dict(page=1, bbox=(.1, .1, .3, .3), content=text, cell=1)])


def test_pages_of_episodes(browser, tmp_path, counts):
    pages = [Image.new("RGB", (60, 80))]
    pages[0].info = dict(source=TEXTS[0], page=1)
    episodes = [episode(text, TEXTS[-i]) for i, text in enumerate(TEXTS)]
    path = write_html(tmp_path / "episode.html", episodes, pages, title=TEXTS[1])
    for width in (390, 1280): looked_at(browser, path, ours=1, width=width)
    looked_at(browser, page_of(tmp_path, [episode_fallback(e, pages) for e in episodes]))
    counts[SHOWN] = 2 * MOST


def test_pictures(browser, tmp_path, counts):
    from cosee.runs.figures import ScorePoint, score_picture
    groups = [TEXTS[i:i + 25] for i in range(0, MOST, 25)]
    pictures = [score_picture([ScorePoint(text, text, 1000, 50., 40., 60.) for text in group]) for group in groups]
    looked_at(browser, page_of(tmp_path, [picture.svg() for picture in pictures]))
    counts[SHOWN] = MOST


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    "A run in which the texts stand wherever a text can stand"
    folder = tmp_path_factory.mktemp("runs") / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    methods = ["direct", "<script>alert('m')</script>"]
    about = dict(dataset=dict(name=TEXTS[4], root=TEXTS[5]), client=dict(type=TEXTS[6]), seed=TEXTS[7])
    write_about(folder, dict(methods=methods, metrics=dict(anls="rrc"), shard=TEXTS[2], versions=dict(cosee=TEXTS[1]),
                             git=dict(commit=TEXTS[3]), config=about))
    with RunLog(folder) as log:
        for i, text in enumerate(TEXTS):
            for k, method in enumerate(methods):
                other = TEXTS[(i + 5 * k) % MOST]
                call = dict(agent=text, step=1, prompt=[text, other], text=other, usage=dict(prompt_tokens=1),
                            error=None)
                log.write(dict(sample=f"{i} {text}", index=i, method=method, doc=other, question=text,
                               gold=[text if k else other], data=str(i), answer=text, page=1, error=other,
                               status="failed" if (i + k) % 5 == 0 else "ok", meta=dict(kind=TEXTS[i % 9], split=text),
                               evidence=[dict(page=1, bbox=[.1, .1, .2, .2], content=text)], invalid=0,
                               usage=dict(total_tokens=i + 1, calls=1), times=dict(seconds=1.),
                               scores=dict(anls=float(k)), trace=dict(kind="calls", calls=[call]) if k else None))
    return folder


def test_reports_and_folders(browser, run, tmp_path, counts):
    looked_at(browser, Report(Run(run), n_resamples=50).save(tmp_path / "report.html"), width=390)
    export_viewer(Viewer(run), tmp_path / "site", "none")
    for name, ours in (("index.html", 3), ("report.html", 0)): looked_at(browser, tmp_path / "site" / name, ours, 390)
    counts[SHOWN] = 3 * MOST


def test_the_run_viewer(browser, run, counts):
    with running(create_viewer_app(Viewer([run]))) as url:
        for view in ("answers", "questions", "pair"):
            go(browser, f"{url}#view={view}&size=500", width=390)
            fits(browser, 390)
            assert browser.js("document.querySelectorAll('#rows tbody tr').length") >= min(MOST // 2, 400)
            assert browser.js(NONE_OF_THEIRS) == 3   # its data, its script, its icon
            clean(browser, url)
        for key in browser.js("fetch('data.json').then(r => r.json()).then(d => d.rows.key)")[:2 * MOST:7]:
            looked_at(browser, f"{url}episodes/{key}.html")
        counts[SHOWN] = MOST
