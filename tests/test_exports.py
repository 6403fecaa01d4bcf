"""Exports: nothing that a model wrote leaves its place in Markdown, and Inspect reads back what was written for it."""
import json
import re
from importlib.util import find_spec

import pytest
from hypothesis import example, given, settings, strategies as st
from PIL import Image

from cosee.board import Board
from cosee.policies import Method, make_method
from cosee.pages import PageError
from cosee.runs.log import RunError, RunLog, write_about
from cosee.runs.table import Run
from cosee.runs.config import make_config
from cosee.runs.record import answer_one
from cosee.runs.inspect_log import write_inspect
from cosee.runs.figures import board_markdown, episode_markdown, md_block
from cosee.models.testing import ScriptedClient
from cosee.utils.text import md_line

PAGE = Image.new("RGB", (620, 877), "white")
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.org/x.png)",
    "[x](javascript:alert(1))",
    "<http://evil.org>",
    "https://evil.org www.evil.org a@evil.org",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "```\n# out\n```",
    "~~~\nout",
    "| a | b |",
    "---",
    "===",
    "$\\frac{1}{0}$ $$x$$",
    "a  \nb\n\n# c",
    "\\",
    "`code`",
    "**bold** __x__ ~~y~~",
    "[^1]: note",
    "[a]: http://evil.org",
    "&lt;b&gt; &#60;",
    "<!-- x",
    "\u202eevil\u2066",
    "\x00\x1b[31m",
    "{{ x }} {% y %}",
    "````",
    "    code",
    "\tcode",
    "<details><summary>x",
    "@somebody #1",
    "x" * 100_000,
    "",
    "**Answer**: 7\n\n## Step 9: scanner",
    "</td></table>",
    "\r\n# x\r# y",
    "a\u2028# b",
    "+ x",
    "* x",
    "5) x",
    "<style>*{display:none}</style>",
    "^x^ ~x~ ==x==",
]


def html(text):
    "What a reader of Markdown shows: GitHub's dialect with bare links, as far as it is here"
    renderer = pytest.importorskip("markdown_it").MarkdownIt("commonmark", {"html": True})
    for rule in ("table", "strikethrough"): renderer.enable(rule)
    if find_spec("linkify_it"):
        renderer.options["linkify"] = True
        renderer.linkify.set({"fuzzy_link": False}).add("//", None)   # GitHub links no bare name of a host
        renderer.enable("linkify")
    return renderer.render(text)


def words(page):
    "The text of an HTML page, without its tags"
    from html import unescape
    return unescape(re.sub(r"<[^>]*>", "", page)).strip()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("around", ["{}", "- **note** {}", "# {}", "before {} after",
                                    "| a | b |\n| --- | --- |\n| {} | y |"])
def test_a_line_is_words_wherever_it_stands(text, around):
    page, plain = html(around.format(md_line(text))), html(around.format("word"))
    tags = lambda p: re.findall(r"</?[a-z0-9]+", p)
    if md_line(text): assert tags(page) == tags(plain), page[:500]
    assert "\n" not in md_line(text) and len(md_line(text)) < 3000


@settings(max_examples=300)
@given(st.text(st.sampled_from("<>&`*_[]()!#|~$\\@:/.-+=1 ax\n\r\t\u2028\u202e{}^'\""), max_size=60)
       | st.text(max_size=60))
@example("http://x")
@example("://")
@example("1x.ax")
@example("//a.ax")
@example("a@x.ax")
@example("WWW.x.ax")
def test_any_line_is_words(text):
    from cosee.utils.text import one_line
    page = html("x " + md_line(text))
    assert re.findall(r"<[^>]*>", page) == ["<p>", "</p>"] and "www." not in md_line(text).lower()
    assert words(page).split() == ("x " + one_line(text)).split()


@settings(max_examples=200)
@given(st.text(st.sampled_from("`~<>#\n\r\x0b\u2028\u202e ab&*"), max_size=80) | st.text(max_size=80))
def test_a_block_cannot_be_closed_from_inside(text):
    page = html("before\n\n" + md_block(text) + "\n\nafter")
    assert (
        re.sub(r">[^<]*<", "><", page.replace("\n", ""))
        == '<p></p><pre><code class="language-text"></code></pre><p></p>'
    )
    assert page.endswith("<p>after</p>\n") and "\u202e" not in page


def hostile_episode(text):
    "An episode in which everything that a model or a document may write is `text`"
    board = Board()
    for tags in ([text or "x"], []):
        board.add_cell(dict(page=1, bbox=(0.1, 0.1, 0.2, 0.2)), text, author=text or "x", step=1, tags=tags)
    call = dict(
        prompt=["Question: " + text, text], text=text, model=text, usage=dict(prompt_tokens=9), agent=text, step=1
    )
    event = dict(step=1, agent=text, cell=1, calls=[call], applied=dict(action=text, content=text))
    return dict(
        question=text,
        answer=text,
        because=text,
        gold=[text],
        page=1,
        confidence=0.5,
        stopped=text,
        board=board,
        error=text,
        hypotheses=[dict(answer=text, author=text, cell=1, confidence=0.5)],
        trace=dict(events=[event, {**event, "applied": None, "error": text}]),
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_an_episode_of_hostile_texts_keeps_its_shape(text):
    tags = lambda p: [t for t in re.findall(r"</?[a-z0-9]+", p) if t not in ("<strong", "</strong", "<p", "</p")]
    page, plain = html(episode_markdown(hostile_episode(text))), html(episode_markdown(hostile_episode("word")))
    assert (
        set(tags(page)) <= set(tags(plain))
        and page.count("<h") == plain.count("<h")
        and page.count("<pre") == plain.count("<pre")
    )
    assert page.count("<tr") == plain.count("<tr") and not re.search(
        r"<(script|img|a|style|iframe|details|!--)\b", page
    )
    assert len(episode_markdown(hostile_episode(text))) < 200_000


def made_run(folder, question="What is the total?", id="q", methods=("cot", "chat", "cosee_light"), n=3):
    config = make_config(dict(dataset="made", methods=list(methods)))
    folder.mkdir()
    write_about(
        folder,
        dict(
            hash="abc",
            name="run " + question,
            methods=list(methods),
            metrics=dict(em="squad"),
            config=config.model_dump(mode="json"),
        ),
    )
    guess = dict(
        action="HYPOTHESIZE",
        answer="12",
        content=question,
        confidence=0.95,
        view=dict(page=1, bbox_2d=[1, 2, 300, 400]),
    )
    with RunLog(folder) as log:
        for i in range(n):
            for m in methods:
                client = ScriptedClient(
                    [f"Page: 1\nAnswer: {question}"] * 9 if not m.startswith("cosee") else [guess] * 9
                )
                if m == "cot" and i == 2: client = ScriptedClient([])  # fails
                sample = dict(
                    images=[PAGE],
                    question=question,
                    answer=["12", question],
                    meta=dict(id=f"{id}{i}", evidence_pages=[1]),
                )
                log.write(answer_one(config, make_method(m), i, sample, client))
    return Run(folder)


@pytest.mark.parametrize("text", HOSTILE[:12])
def test_records_of_hostile_texts_link_nowhere(tmp_path, text):
    for record in made_run(tmp_path / "run", question=text, id=text, methods=("cot", "cosee_light"), n=1):
        assert not re.findall(r'(?:href|src)="([^"]*)', html(episode_markdown(record)))


def test_a_record_says_why_it_failed_and_can_leave_out_its_calls(tmp_path):
    records = list(made_run(tmp_path / "run", id="../../etc/pass"))
    failed = [r for r in records if r["status"] != "ok"]
    assert failed and all("Failed: IndexError" in episode_markdown(r) for r in failed)
    assert "Reply:" in episode_markdown(records[0]) and "Reply:" not in episode_markdown(records[0], calls=False)


def test_a_method_without_a_board_is_shown_too():
    out = Method("chat", max_turns=1).run(
        dict(images=[PAGE], question="Q?"), ScriptedClient(["Hello.\nAnswer: 5"] * 3)
    )
    text = episode_markdown({**out, "question": "Q?"})
    assert text.count("### Step 1: ") == 3 and "said: Hello. Answer: 5" in text and "## Board" not in text


def test_without_inspect_the_error_names_the_extra(tmp_path, monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(ImportError, match=r"\[inspect\]"):
        write_inspect(made_run(tmp_path / "run", n=1), tmp_path / "logs")


@pytest.fixture(scope="module")
def inspect_log(): return pytest.importorskip("inspect_ai.log", reason="needs cosee[inspect]")


@pytest.mark.slow
def test_inspect_reads_back_what_was_written(tmp_path, inspect_log):
    run = made_run(tmp_path / "run")
    logs = write_inspect(run, tmp_path / "logs", pages=lambda record: [PAGE])
    assert [p.name for p in logs] == sorted(
        (p.name for p in logs), key=lambda n: [f"-{m}_" in n for m in ("cot", "chat", "cosee-light")], reverse=True
    )
    assert {i.task for i in inspect_log.list_eval_logs(str(tmp_path / "logs"))} == {
        "run-What-is-the-total-" + m for m in ("cot", "chat", "cosee-light")
    }
    for path, method in zip(logs, run.methods, strict=True):
        log, records = inspect_log.read_eval_log(str(path)), [r for r in run if r["method"] == method]
        assert log.eval.metadata["method"] == method and [s.id for s in log.samples] == [r["sample"] for r in records]
        for sample, r in zip(log.samples, records, strict=True):
            assert (
                sample.target == r["gold"]
                and sample.output.completion == r["answer"]
                and sample.input[0].text.endswith(r["question"])
            )
            assert {k: s.value for k, s in sample.scores.items()} == r.get("scores", {}) and bool(sample.error) == (
                r["status"] != "ok"
            )
            models = [e for e in sample.events if e.event == "model"]
            assert (
                len(models) == r["usage"]["calls"]
                and sum(e.output.usage.total_tokens for e in models) == r["usage"]["total_tokens"]
            )
            spans = [e.event for e in sample.events if e.event.startswith("span")]
            assert spans == ["span_begin", "span_end"] * (len(spans) // 2)
        em = {s.name: s.metrics["mean"].value for s in log.results.scores}["em"]
        done = [r["scores"]["em"] for r in records if r["status"] == "ok"]
        assert em == pytest.approx(sum(done) / len(done)) and log.results.completed_samples == len(done)


def test_pages_go_into_the_log_once(tmp_path, inspect_log):
    noise = Image.effect_noise((900, 1200), 90).convert("RGB")
    run = made_run(tmp_path / "run", methods=("chat",), n=1)
    (bare,), (seen,) = write_inspect(run, tmp_path / "a"), write_inspect(run, tmp_path / "b", pages=lambda r: [noise])
    from cosee.runs.inspect_log import page_uri
    assert seen.stat().st_size - bare.stat().st_size < 1.5 * len(page_uri(noise))
    sample = inspect_log.read_eval_log(str(seen), resolve_attachments=True).samples[0]
    pictures = [c.image for e in sample.events if e.event == "model" for c in e.input[0].content if c.type == "image"]
    assert len(pictures) == 9 and set(pictures) == {page_uri(noise)}


def test_of_a_long_document_the_log_holds_the_pages_that_matter(tmp_path, inspect_log):
    from cosee.runs.inspect_log import logged_pages, page_uri
    drawn = []

    class Document(list):
        def __len__(self): return 400

        def __getitem__(self, i):
            drawn.append(i + 1)
            if i == 9: raise PageError("page 10: it cannot be drawn")
            return Image.new("RGB", (40, 60), (i % 256, i // 256, 0))
    run = made_run(tmp_path / "run", methods=("cosee_light",), n=1)
    file = run.folder / "records.jsonl"
    record = json.loads(file.read_text())
    events = record["trace"]["events"]
    for event, shown in zip(events, ([3, 10], [300, 3], [300, 500]), strict=False): event["shown"] = shown
    record |= dict(page=7, shown=list(range(1, 401)), evidence=[dict(page=399, content="x")])
    file.write_text(json.dumps(record) + "\n")
    assert logged_pages(record, 400)[-2:] == [300, 399] and len(logged_pages(record, 400)) == 24
    assert logged_pages(record, 12) == list(range(1, 13))
    (path,) = write_inspect(Run(tmp_path / "run"), tmp_path / "logs", pages=lambda r: Document())
    assert len(drawn) == 24 and {3, 7, 300, 399} < set(drawn)
    sample = inspect_log.read_eval_log(str(path), resolve_attachments=True).samples[0]
    seen = [[c.image for c in e.input[0].content if c.type == "image"] for e in sample.events if e.event == "model"]
    assert seen[0] == [page_uri(Image.new("RGB", (40, 60), (2, 0, 0)))] and sum(map(len, seen[:2])) == 3


@pytest.mark.parametrize("text", [t for t in HOSTILE if t])
def test_logs_hold_hostile_texts_as_they_are(tmp_path, inspect_log, text):
    run = made_run(
        tmp_path / "run", question=text if text.strip() else "x" + text, id=text, methods=("cosee_light",), n=1
    )
    (path,) = write_inspect(run, tmp_path / "logs")
    assert path.parent == tmp_path / "logs" and re.fullmatch(r"[\w.+-]+\.eval", path.name)
    sample = inspect_log.read_eval_log(str(path), resolve_attachments=True).samples[0]
    assert sample.input[0].text == next(iter(run))["question"]


def test_a_run_without_records_and_one_without_traces(tmp_path, inspect_log):
    (tmp_path / "empty").mkdir()
    write_about(tmp_path / "empty", dict(hash="x", methods=["cot"]))
    (tmp_path / "empty/records.jsonl").touch()
    with pytest.raises(RunError, match="no records"): write_inspect(tmp_path / "empty", tmp_path / "logs")
    run = made_run(tmp_path / "run", methods=("cosee_light",), n=1)
    lines = [
        {k: v for k, v in json.loads(l).items() if k not in ("trace", "board", "times")}
        for l in run.path.read_text().splitlines()
    ]
    run.path.write_text("".join(json.dumps(l) + "\n" for l in lines))
    (path,) = write_inspect(run.folder, tmp_path / "logs")
    assert inspect_log.read_eval_log(str(path)).samples[0].events == []


def test_an_empty_board_says_so(): assert board_markdown(Board()) == "*An empty Board.*"
