"""Keys and strangers: what servers, run folders and files from elsewhere may do, tried from the outside in."""
import ast
import base64
import gzip
import json
import os
import re
import stat
import time
import zlib
from http.server import BaseHTTPRequestHandler

import pytest
from cosee.board import Board
from cosee.cli.entry import main
from cosee.utils.config import ConfigError, concealed, load_object, parse_yaml, read_text, redact
from cosee.episode import Episode
from cosee.experiments import run_experiment
from cosee.models.backends import Backend
from cosee.models.wrappers import ResponseCache
from cosee.models.client import build_messages
from cosee.models.usage import Ledger, Usage
from cosee.models.registry import CLIENTS
from cosee.models.remote import RateLimitError, RequestError, ResponseParseError, TimeoutError, VLMClientError
from cosee.runs.config import make_config
from cosee.runs.table import Run, Transcript
from fake_servers import WIRES, FakeServer, LocalServer
from PIL import Image
from test_exports import html as rendered, words

KINDS = ["openai", "anthropic", "google"]
KEY = "planted-0123456789-key"
PAGES = [Image.new("RGB", (96, 64), "white")]


@pytest.fixture(params=KINDS)
def wire(request):
    return request.param


def client_at(url, wire, **fields):
    "The client of a provider for a server at an address."
    fields = {"max_retries": 0, "timeout": 5, **fields}
    address = url + ("/v1" if wire == "openai" else "")
    return load_object(CLIENTS[wire].backend)(Backend(kind=wire, model="m", id=f"{wire}.m", base_url=address,
                                                      **fields), KEY)


def ask(client):
    return client.chat(build_messages(PAGES, "What is the total?"), temperature=0, max_new_tokens=9)


class Strange(LocalServer):
    "A server whose every answer is a function of the handler; it keeps the paths that it was asked for."

    def __init__(self, act):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.server.seen.append(self.path)
                act(self)
            do_GET = do_POST

        self.seen = []
        super().__init__(Handler)


def answer(handler, data, status=200, **headers):
    "Send a whole answer."
    handler.send_response(status)
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    for k, v in {"Content-Type": "application/json", "Content-Length": str(len(data)), **named}.items():
        handler.send_header(k, v)
    handler.end_headers()
    handler.wfile.write(data)


@pytest.mark.parametrize("status", [302, 307, 308])
def test_nothing_follows_a_redirect_to_another_origin(wire, status):
    with FakeServer(wire) as second:
        target = second.url.replace("127.0.0.1", "localhost")
        for address in (second.url, target):
            def away(handler, address=address):
                answer(handler, b"", status, Location=address + handler.path)
            with Strange(away) as first, pytest.raises(RequestError, match="another address") as e:
                ask(client_at(first.url, wire, max_retries=2))
            assert second.requests == [] and len(first.seen) == 1
            assert KEY not in str(e.value)


def test_a_redirect_within_the_origin_is_followed(wire):
    body = json.dumps(WIRES[wire]("42")).encode()

    def onwards(handler):
        moved = handler.path.endswith("/moved")
        answer(handler, body if moved else b"", 200 if moved else 307, Location=handler.path + "/moved")
    with Strange(onwards) as server:
        assert ask(client_at(server.url, wire)).text == "42"


@pytest.mark.parametrize("location", ["http://[", "//\x00", "gopher://127.0.0.1/", "http://a@b@c:99999999/", ""])
def test_a_redirect_to_nowhere_is_an_error_of_the_client(wire, location):
    with Strange(lambda handler: answer(handler, b"", 307, Location=location)) as server:
        pytest.raises(VLMClientError, ask, client_at(server.url, wire))


def test_ping_follows_no_redirect_either(wire):
    with FakeServer(wire) as second, Strange(lambda h: answer(h, b"", 307, Location=second.url + h.path)) as first:
        assert "another address" in client_at(first.url, wire).ping()
        assert second.requests == []



BODIES = {"plain": (b" " * (33 * 2**20), {}),
          "gzip": (gzip.compress(b" " * (64 * 2**20), 1), {"Content_Encoding": "gzip"}),
          "deflate": (zlib.compress(b" " * (64 * 2**20), 1), {"Content_Encoding": "deflate"}),
          "twice": (gzip.compress(gzip.compress(b" " * 2**20)), {"Content_Encoding": "gzip, gzip"}),
          "unasked": (b"xx", {"Content_Encoding": "br"}),
          "torn": (b"\x1f\x8bxxxx", {"Content_Encoding": "gzip"})}


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_are_bounded_also_after_unpacking(wire, kind):
    data, headers = BODIES[kind]
    with Strange(lambda h: answer(h, data, **headers)) as server, pytest.raises(ResponseParseError, match="body"):
        ask(client_at(server.url, wire, timeout=20))


def test_packed_answers_are_read(wire):
    body = gzip.compress(json.dumps(WIRES[wire]("42")).encode())
    with Strange(lambda h: answer(h, body, Content_Encoding="gzip")) as server:
        assert ask(client_at(server.url, wire)).text == "42"


def drip_body(handler):
    answer(handler, b"{", Content_Length="1000000")
    while not handler.server.closing.wait(0.1):
        handler.wfile.write(b" ")


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.closing.wait(0.1):
        handler.wfile.write(b"X-A: 1\r\n")


def silent(handler):
    handler.server.closing.wait(30)


def told(**headers):
    return lambda handler: answer(handler, b"{}", 429, **headers)


SLOW = {"body": drip_body, "headers": drip_headers, "silent": silent,
        **{f"after {k}={v}": told(**{k: v}) for k, v in [
            ("Retry_After", "50"), ("Retry_After", "nan"), ("Retry_After", "Wed, 21 Oct 2099 07:28:00 GMT"),
            ("Retry_After_Ms", "50000")]}}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SLOW)
def test_one_deadline_holds_for_everything(wire, kind):
    with Strange(SLOW[kind]) as server:
        client, start = client_at(server.url, wire, max_retries=10, timeout=20, deadline=0.4), time.monotonic()
        with pytest.raises((TimeoutError, RateLimitError)):
            ask(client)
        assert time.monotonic() - start < 10   # of 20 to 50 that the server, or the timeout, would take
        seen = len(server.seen)
        time.sleep(0.1)
        assert len(server.seen) == seen


def echoing(packed):
    "An answer that quotes the key behind so much text that a cut falls into it"
    def act(handler):
        key = handler.headers.get("Authorization") or handler.headers.get("x-api-key") or KEY
        said = {"plain": key, "base64": base64.b64encode(key.encode()).decode(),
                "basic": base64.b64encode(f"user:{KEY}".encode()).decode(), "hex": KEY.encode().hex()}[packed]
        answer(handler, json.dumps({"error": {"message": "x" * 340 + " " + said}}).encode(), 401)
    return act


@pytest.mark.parametrize("packed", ["plain", "base64", "basic", "hex"])
def test_an_echoed_key_is_in_no_exception(wire, packed):
    with Strange(echoing(packed)) as server, pytest.raises(VLMClientError) as e:
        ask(client_at(server.url, wire))
    assert len(str(e.value)) > 300
    for piece in (KEY[:8], base64.b64encode(KEY.encode()).decode()[4:12], KEY.encode().hex()[:16]):
        assert piece not in str(e.value)


SCRIPTED = {"type": "scripted", "options": {"replies": ["42"]}}


def run_with(folder, **fields):
    return run_experiment({"dataset": {"name": "made", "limit": 1}, "methods": ["direct"], "client": SCRIPTED,
                           **fields}, folder)


@pytest.mark.parametrize("how", [{}, {"workers": 2}])
@pytest.mark.parametrize("client", [
    {"type": "openai", "options": {"model": "m", "api_key": "sk-abcdefghijklmnopqrstuv"}},
    {"type": "backend", "options": {"id": "openai.m", "api_key": "planted-key-0123456"}},
    {"type": "ocr", "options": {"api_key": "planted-key-0123456"}}])
def test_a_refused_key_is_written_nowhere(tmp_path, client, how):
    with pytest.raises(ConfigError):
        run_experiment({"dataset": {"name": "made", "limit": 1}, "methods": ["direct"], "client": client},
                       tmp_path / "run", **how)
    assert not list(tmp_path.iterdir())


def test_nothing_that_a_run_writes_holds_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_API_KEY", KEY)
    with FakeServer("openai", answer=lambda body: f"the key is {KEY}") as server:
        address = server.base_url.replace("//", "//me:pass-word-77@")
        client = {"type": "openai", "options": {"model": "m", "base_url": address, "max_retries": 0, "extra_body": {
            "session": "4f9a6c1e77b0d2e8aa", "auth_token": "short"}}}
        run_with(tmp_path / "run", client=client)
    files = [p for p in (tmp_path / "run").rglob("*") if p.is_file()]
    for secret in (KEY, "pass-word-77", "4f9a6c1e77b0d2e8aa", '"short"'):
        assert not [p.name for p in files if secret in p.read_text(encoding="utf-8")]
    assert main(["run", str(tmp_path / "run")]) == 2


def test_redaction_leaves_what_is_no_secret():
    said = {"model": "${MODEL}", "max_tokens": 9, "api_key": "${KEY}", "options": {"page_tokens": 4, "keys": ["a"]}}
    assert concealed(said) == said
    assert redact("a bearer bond of the basic kind") == "a bearer bond of the basic kind"
    assert redact("https://example.org/a@b") == "https://example.org/a@b"


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def hostile_board():
    board = Board()
    board.add_cell({"page": 1}, HOSTILE, [HOSTILE], HOSTILE)
    return board


def hostile_ledger():
    ledger = Ledger()
    ledger.add(Usage(text_tokens=1), agent=HOSTILE)
    return ledger


def hostile_episode():
    return Episode(answer=HOSTILE, because=HOSTILE, page=HOSTILE, confidence=0.5, steps=HOSTILE, stopped=HOSTILE,
                   board=hostile_board(), usage={"total_tokens": 1})


def hostile_content():
    from cosee.document import Content
    return Content(HOSTILE, tags=[HOSTILE])


def hostile_document():
    from cosee.document import Document
    doc = Document()
    with doc.edit() as branch:
        branch.append(HOSTILE, tags=[HOSTILE])
    return doc


def hostile_view():
    from cosee.view.episode import EpisodeView
    from cosee.controller import CoSeeController
    from cosee.models.testing import ScriptedClient
    from cosee.agents import ScannerAgent
    client = ScriptedClient([json.dumps({"action": "HYPOTHESIZE", "view": {"page": 1}, "content": HOSTILE,
                                         "answer": HOSTILE, "confidence": 0.9})], cycle=True)
    return EpisodeView(CoSeeController([ScannerAgent(client)], max_steps=1).run(PAGES, HOSTILE), PAGES)


def hostile_report(tmp_path):
    from cosee.runs.log import RunLog, write_about
    from cosee.runs.report import Report
    write_about(tmp_path, dict(methods=[HOSTILE, "b"], metrics=dict(anls="rrc")))
    with RunLog(tmp_path) as log:
        for i in range(4):
            for k, method in enumerate((HOSTILE, "b")):
                log.write(dict(sample=HOSTILE + str(i), index=i, method=method, doc=HOSTILE, question=HOSTILE,
                               gold=[HOSTILE], answer=HOSTILE * k, status="ok", page=1,
                               scores=dict(anls=float(k))))
    return Report(Run(tmp_path), n_resamples=20)


def hostile_scores():
    from cosee.eval.metrics import Aggregate
    from types import SimpleNamespace
    return Aggregate({HOSTILE: SimpleNamespace(flavour=HOSTILE, mean=.5, n=1)})


def hostile_flavours():
    from cosee.eval.metrics import FlavourTable
    return FlavourTable([(HOSTILE, HOSTILE, {HOSTILE: HOSTILE})])


def hostile_official():
    from cosee.eval.metrics import OfficialTable
    return OfficialTable([(HOSTILE, HOSTILE, HOSTILE)])


def hostile_differences():
    from cosee.eval.statistics import compare_runs
    return compare_runs({HOSTILE: [1., 0., 1.], "b": [0., 0., 1.]}, "b", n_resamples=20)


def hostile_screens():
    from cosee.screen.score import ScreenScores
    return type("Scores", (ScreenScores,), {"to_dict": lambda self: {"groups": {HOSTILE: dict(
        n=1, **dict.fromkeys(("score", "low", "high", "valid", "action", "place", "hit", "content"), .5))}}})([])


def hostile_fields():
    from cosee.extraction.scores import FieldScore, FieldScores, Mark
    score = FieldScore(HOSTILE, [Mark(HOSTILE, HOSTILE, HOSTILE, HOSTILE, True, True, 1.)])
    return FieldScores({HOSTILE: score}, score, 1, [HOSTILE])


def hostile_table():
    from cosee.runs.analysis import Table
    return Table(HOSTILE, {HOSTILE: "{}", "n": "{:,}"}, [[HOSTILE, 1]])


def hostile_status():
    from cosee.runs.table import Status
    return Status({HOSTILE: dict(ok=1, silent=0, not_asked=0, failed=0, tokens=1, calls=1, seconds=1.)})


def hostile_picture():
    pytest.importorskip("matplotlib")
    from cosee.runs.figures import ScorePoint, score_picture
    return score_picture([ScorePoint(HOSTILE, HOSTILE, 1000, 50., 40., 60.)])


def hostile_widget():
    pytest.importorskip("anywidget")
    from cosee.view.widget import EpisodeWidget
    return EpisodeWidget(dict(question=HOSTILE, answer=HOSTILE, because=HOSTILE, page=1, board=hostile_board()), PAGES)


# What shows itself in a notebook, with strangers' words in every place that takes some
SHOWN = {"cosee.board.Board": hostile_board, "cosee.models.usage.Ledger": hostile_ledger,
         "cosee.episode.Episode": hostile_episode, "cosee.document.document.Content": hostile_content,
         "cosee.document.document.Document": hostile_document, "cosee.view.episode.EpisodeView": hostile_view,
         "cosee.runs.table.Transcript": lambda: Transcript([dict(agent=HOSTILE, step=HOSTILE, text=HOSTILE)]),
         "cosee.runs.table.Status": hostile_status, "cosee.eval.metrics.Aggregate": hostile_scores,
         "cosee.eval.metrics.FlavourTable": hostile_flavours, "cosee.eval.metrics.OfficialTable": hostile_official,
         "cosee.eval.statistics.Differences": hostile_differences, "cosee.runs.report.Report": hostile_report,
         "cosee.extraction.scores.FieldScores": hostile_fields, "cosee.runs.analysis.Table": hostile_table,
         "cosee.screen.score.ScreenScores": hostile_screens, "cosee.view.drawing.Picture": hostile_picture,
         "cosee.view.widget.EpisodeWidget": hostile_widget}
OURS = {"cosee.view.html.Quote": "a part of a file of the package", "cosee.screen.scenes.Scene": "a picture"}
REPRS = ("_repr_html_", "_repr_markdown_", "_repr_mimebundle_", "_repr_svg_", "_repr_latex_", "_repr_javascript_")


def classes_that_show_themselves(root, form=r"_repr_(?!pretty)[a-z]+_"):
    "Dotted names of the classes of the package with a `_repr_..._` of Jupyter's, in whatever form."
    for path in sorted((root / "cosee").rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "def _repr_" in text else ():
            if isinstance(node, ast.ClassDef) and any(re.fullmatch(form, getattr(f, "name", "")) for f in node.body):
                yield f"{module}.{node.name}"


def test_every_class_that_shows_itself_is_tried_with_hostile_text(root):
    assert {*classes_that_show_themselves(root)} == {*SHOWN, *OURS}


def test_text_is_escaped_in_one_place(root):
    found = {path.relative_to(root).as_posix() for path in (root / "cosee").rglob("*.py")
             if re.search(r"from html import (?!unescape$)|import html\b|html\.escape", path.read_text(), re.M)}
    assert found == {"cosee/utils/text.py"}


def shown_by(name, tmp_path):
    "What a notebook gets of a thing full of hostile text: format -> text."
    make = SHOWN[name]
    shown = make(tmp_path) if make is hostile_report else make()
    found = {method: getattr(shown, method)() for method in REPRS if hasattr(shown, method)}
    bundle = found.pop("_repr_mimebundle_", {})
    return found | {f"_repr_{kind.rpartition('/')[2]}_": text for kind, text in bundle.items() if kind != "text/plain"
                    and isinstance(text, str)}


@pytest.mark.parametrize("name", SHOWN)
def test_hostile_text_is_text_in_a_notebook(name, tmp_path):
    found = shown_by(name, tmp_path)
    assert found
    for method, text in found.items():
        page = rendered(text) if method == "_repr_markdown_" else text
        assert "alert(1)" in page and not re.search("<(script|img src=x|a )", page), method


@pytest.mark.parametrize("evil", ["![x](http://evil.org/x.png)", "[x](javascript:alert(1))", "# a", "```\nx", "| a",
                                  "<http://evil.org>"])
def test_markdown_of_a_stranger_is_words(evil, root, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "HOSTILE", evil)
    for name in {*classes_that_show_themselves(root, "_repr_markdown_")} - {*OURS}:
        page = rendered(shown_by(name, tmp_path)["_repr_markdown_"])
        assert not re.search("<(img|a |pre|h1>a<)", page) and evil.split("\n")[0] in words(page), (name, page)


PLUGIN = "import os\nopen(os.environ['COSEE_PLANTED'], 'w').close()\n"


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    "A run folder that names a plugin, which leaves a mark when it is imported."
    run_with(tmp_path / "run")
    (tmp_path / "planted_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COSEE_PLANTED", str(tmp_path / "mark"))
    monkeypatch.chdir(tmp_path)
    about = json.loads((tmp_path / "run/run.json").read_text())
    about["config"]["plugins"] = ["planted_plugin"]
    return tmp_path / "run", about


def test_a_foreign_folder_runs_no_code(foreign, capsys):
    from cosee.utils.files import digest
    folder, about = foreign
    sample = next(iter(Run(folder)))["sample"]
    (folder / "run.json").write_text(json.dumps(about))
    commands = [["report", "--episode", str(sample), "-o", "x.html"], ["report", "--format", "status"],
                ["report", "--format", "submission", "--method", "direct", "--form", "mpdocvqa"],
                ["report", "--format", "text"], ["report", "-o", "x.csv"], ["report"], ["view", "--export", "site"],
                ["report", "--format", "inspect", "--pages", "-o", "logs"]]
    for command, *rest in commands:
        main([command, str(folder), *rest])
    assert main(["run", str(folder)]) == 2 and "was changed" in capsys.readouterr().err
    (folder / "run.json").write_text(json.dumps({**about, "hash": digest(about["config"])}))
    assert main(["run", str(folder)]) == 2 and "--allow-plugins" in capsys.readouterr().err
    assert not (folder.parent / "mark").exists()
    assert main(["run", str(folder), "--allow-plugins", "--quiet"]) == 0
    assert (folder.parent / "mark").exists()


def test_no_code_of_a_checkpoint_is_run(root):
    calls = [node for path in (root / "cosee").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "from_pretrained"]
    assert len(calls) >= 3
    for call in calls:
        assert [k.value.value for k in call.keywords if k.arg == "trust_remote_code"] == [False]


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "..", "C:\\out", "\\\\server\\out", "~/x",
                                  "", "a\n"])
def test_the_name_of_a_run_stays_in_its_folder(name):
    with pytest.raises(ConfigError, match="field name"):
        make_config({"name": name})


def test_names_of_runs_may_have_folders():
    assert make_config({"name": "2026/made..small"}).name == "2026/made..small"


def test_devices_and_pipes_are_no_configurations(tmp_path, doc, capsys):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", "/dev/stdin", str(tmp_path / "pipe"), str(tmp_path)):
        with pytest.raises(ConfigError):
            read_text(path)
    for path in ("/dev/zero", str(tmp_path / "pipe")):
        assert main(["ask", doc, "what?", "--config", path, "--client", "some.model"]) == 2
        assert main(["run", path]) == 2


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_records_and_caches_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        folder = tmp_path / "runs/one"
        run_with(folder)
        ResponseCache(tmp_path / "replies.sqlite").put("k", {})
    finally:
        os.umask(before)
    assert mode(folder) == mode(tmp_path / "runs") == 0o700
    assert [mode(folder / n) for n in ("records.jsonl", "run.json")] == [0o600, 0o600]
    assert mode(tmp_path / "replies.sqlite") == 0o600


BOMBS = {"deep lists": "[" * 900 + "]" * 900, "deeper": "[" * 400_000, 
         "deep mapping": "a: " + "{a: " * 200 + "}" * 200,
         "references": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "twins": "a: {b: 1, b: 2}",
         "base 60": "a: 1" + ":1" * 400_000, "digits": "a: " + "9" * 900_000,
         "digits as a name": "9" * 900_000 + ": 1",
         "large": "a: " + "x" * 1_000_001, "code": "a: !!python/object/apply:os.system [ls]", "merge": "<<: *a"}


@pytest.mark.parametrize("bomb", BOMBS)
def test_yaml_is_read_in_bounds(bomb):
    start = time.process_time()
    with pytest.raises(ConfigError):
        parse_yaml(BOMBS[bomb])
    assert time.process_time() - start < 5


def test_yaml_is_read_in_one_place(root):
    found = {p.relative_to(root).as_posix() for p in (root / "cosee").rglob("*.py")
             if any("yaml" in [*(n.name for n in node.names), getattr(node, "module", "")]
                    for node in ast.walk(ast.parse(p.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom)))}
    assert found == {"cosee/utils/config.py"}
