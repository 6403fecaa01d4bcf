"""What exists is asked for by name: on the command line, in files, in Python; in fresh processes, as users have
them."""
import json
import subprocess
import sys

import pytest
from benchmark_files import write_layout
from cosee.datasets.synthetic.document import make_samples
from cosee.policies import METHODS
from cosee.models.registry import CLIENTS, make_client
from conftest import shell
from fake_servers import FakeServer


# --- clients ---

def answers_of(folder):
    return [json.loads(line)["answer"] for line in (folder / "records.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("wire", ["openai", "anthropic", "google"])
def test_a_run_asks_a_provider_that_the_command_line_names(run, tmp_path, monkeypatch, wire):
    for name in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"): monkeypatch.setenv(name, "planted-0123456789-key")
    with FakeServer(wire, answer=lambda body: "Answer: 42") as server:
        code, _, err = run("run", "--client", wire, "--model", "m", "--base-url", server.base_url, "--method",
                             "direct", "--limit", 2,
                             "--output-dir", tmp_path / "r", "--quiet")
        assert code == 0, err
        assert len(server.requests) == 2
    assert answers_of(tmp_path / "r") == ["42", "42"]


@pytest.mark.parametrize("word", ["kind", "type"])
def test_a_run_asks_a_provider_that_its_file_names(run, tmp_path, word):
    with FakeServer("openai", answer=lambda body: "Answer: 42") as server:
        fields = {"dataset": {"limit": 1}, "methods": ["direct"],
                  "client": {word: "openai", "options": {"model": "m", "base_url": server.base_url}}}
        (tmp_path / "run.yaml").write_text(json.dumps(fields))
        assert run("run", tmp_path / "run.yaml", "--output-dir", tmp_path / "r", "--quiet")[0] == 0
        assert server.requests[0]["body"]["model"] == "m"
    assert answers_of(tmp_path / "r") == ["42"]


def test_a_model_of_random_weights_can_be_asked(run, doc):
    code, out, err = run("ask", doc, "-q", "What is the total?", "--client", "random", "--agents", "detail_reader",
                         "--max-steps", 1, "--json")
    assert code in (0, 3) and json.loads(out)[0]["tokens"]["completion_tokens"] > 0, err


@pytest.mark.parametrize("argv, says", [
    (["run", "--client", "opnai"], "did you mean 'openai'?"),
    (["ask", "DOC", "-q", "?", "--client", "rndom"], "did you mean 'random'?"),
    (["ask", "DOC", "-q", "?", "--client", "opnai.gpt-4o"], "did you mean 'openai.gpt-4o'?"),
    (["run", "--client", "openai"], "needs model"),
    (["run", "--client", "qwen"], "needs model_path"),
    (["ask", "DOC", "-q", "?", "--client", "scripted"], "needs replies"),
    (["ask", "DOC", "-q", "?", "--client", "backend"], "such as openai.gpt-4o"),
    (["run", "--client", "anthropic", "--model", "m"], "ANTHROPIC_API_KEY"),
    (["run", "--client", "opnai.m"], "did you mean 'openai.m'?"),
    (["ask", "DOC", "-q", "?", "--client", "nobody.m"], "write kind.model"),
    (["ask", "DOC", "-q", "?", "--fallback", "nobody"], "there is no client 'nobody'"),
    (["ask", "DOC", "-q", "?", "--client", "a.m", "--config", "none.yaml"], "none.yaml: cannot be read"),
])
def test_a_client_that_cannot_be_had_is_one_clear_line(run, doc, tmp_path, monkeypatch, argv, says):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*(doc if a == "DOC" else a for a in argv), "--quiet")
    assert code == 2 and says in err and err.count("\n") == 1 and not out


def test_a_misspelt_client_leaves_no_run_behind(run, tmp_path):
    assert run("run", "--client", "opnai", "--output-dir", tmp_path / "r", "--limit", 1, "--quiet")[0] == 2
    assert (run("run", "--client", "ocr", "--output-dir", tmp_path / "r", "--limit", 1, "--method", "direct",
                "--quiet")[0] == 0)


def test_every_client_stands_where_the_table_says():
    assert all(callable(e.load()) for e in CLIENTS.values())
    assert make_client("scripted", replies=["yes"]).generate([], "?") == "yes"


# --- methods ---

KNOWN = "from cosee.policies import METHODS; print(*METHODS)"


@pytest.mark.parametrize("module", ["cosee.screen.agent", "cosee.experiments", "cosee.tools.agent"])
def test_no_import_changes_which_methods_exist(module):
    done = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
            for code in (KNOWN, f"import {module}; {KNOWN}")]
    assert done[0] == done[1] and "screen" in done[0]


@pytest.mark.slow
def test_every_method_can_be_run_by_name(tmp_path):
    fields = {"client": {"type": "scripted", "options": {"replies": ["Answer: 42"]}}, "dataset": {"limit": 1}}
    (tmp_path / "run.yaml").write_text(json.dumps(fields))
    code, _, err = shell("run", tmp_path / "run.yaml", "--method", ",".join(METHODS), "--output-dir",
                         tmp_path / "r", "--quiet")
    rows = [json.loads(line) for line in (tmp_path / "r/records.jsonl").read_text().splitlines()]
    assert [r["method"] for r in rows] == list(METHODS) and code == 0, err


@pytest.mark.parametrize("name, says", [("scren", "did you mean 'screen'?"),
                                        ("cosee_bas", "did you mean 'cosee_base'?"),
                                        ("magic", "choose from auto, direct")])
def test_a_method_that_nobody_knows(run, name, says):
    code, _, err = run("run", "--method", name)
    assert code == 2 and f"there is no method {name!r}" in err and says in err and err.count("\n") == 1


# --- YAML ---

TWINS = {
    "run": ("name: a\nname: b\n", ["run", "FILE"], "line 2", "name"),
    "part of a run": ("dataset:\n  limit: 1\n  limit: 2\n", ["run", "FILE"], "line 3", "dataset.limit"),
    "screens": ("name_prefix: a\ntasks: {click-day: 1, click-day: 2}\n", ["screen", "make", "FILE"], "line 2",
                "tasks.click-day"),
    "backends": ("backends:\n  a: {kind: qwen, models: {m: m}}\n  a: {kind: qwen, models: {m: n}}\n",
                 ["models", "backends", "--config", "FILE"],
                 "line 3", "backends.a"),
}


@pytest.mark.parametrize("what", TWINS)
def test_a_field_that_stands_twice_is_refused_by_every_command(run, tmp_path, monkeypatch, what):
    text, argv, line, field = TWINS[what]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(text)
    code, _, err = run(*("c.yaml" if a == "FILE" else a for a in argv))
    assert (code == 2 and "c.yaml" in err and line in err and f"field {field}: " in err and "stands twice" in err
            and err.count("\n") == 1)
    assert [p.name for p in tmp_path.iterdir()] == ["c.yaml"]


def test_a_value_of_the_command_line_is_read_like_the_file(run):
    code, _, err = run("run", "--set", "dataset.options={dpi: 80, dpi: 90}")
    assert code == 2 and "'dpi' stands twice" in err


# --- scorers ---

def test_no_import_changes_which_scorers_exist():
    known = "from cosee.eval.metrics import flavours; print(flavours())"
    said = {subprocess.run([sys.executable, "-c", code + known], capture_output=True, text=True, check=True).stdout
            for code in ("", "import cosee.eval.answer_types; ", "import cosee.eval.registry; ",
                         "import cosee.experiments; ")}
    assert len(said) == 1 and "docvqa2026" in said.pop()


# --- data sets ---

@pytest.mark.parametrize("argv, says", [
    (["--dataset", "mpdocvq"], "did you mean 'mpdocvqa'?"), (["--dataset", "syntetic"], "did you mean 'synthetic'?"),
    (["--dataset", "folder"], "dataset.root"), (["--dataset", "made", "--split", "val"], "choose from dev, held_out"),
    (["--dataset", "mpdocvqa", "--split", "all"], "train, val, test"),
    (["--set", "dataset.options.colour=3"], "colour")])
def test_a_data_set_that_cannot_be_had_is_one_clear_line(run, tmp_path, argv, says):
    code, _, err = run("run", *argv, "--output-dir", tmp_path / "r", "--quiet")
    assert (code == 2 and "field dataset" in err and says in err and err.count("\n") == 1
            and not (tmp_path / "r").exists())


# --- errors say by their type what to do, whatever words their text happens to hold ---

def test_the_name_of_a_folder_says_nothing_about_room(run, tmp_path):
    (tmp_path / "make room").mkdir()
    for argv in (["report", tmp_path / "make room"], ["view", tmp_path / "make room", "--no-browser"]):
        code, _, err = run(*argv)
        assert code == 2 and "is no run folder" in err


@pytest.mark.faults("a disk that is full")
def test_no_room_for_an_export_is_a_failure(run, tmp_path):
    (tmp_path / "run.yaml").write_text(json.dumps({"dataset": {"limit": 1}, "methods": ["direct"],
                                                   "client": {"type": "scripted",
                                                              "options": {"replies": ["Answer: 4"]}}}))
    assert run("run", tmp_path / "run.yaml", "--output-dir", tmp_path / "r", "--quiet")[0] == 0
    full = ("import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
            "from cosee.cli.entry import main; sys.exit(main())")
    done = subprocess.run([sys.executable, "-B", "-c", full, "view", str(tmp_path / "r"), "--export",
                           str(tmp_path / "site"), "--quiet"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "make room" in done.stderr and done.stderr.count("\n") == 1


def test_a_deck_may_be_called_anything(tmp_path, run):
    "The images of a deck whose name reads like an error are looked for in every place, as those of any other."
    samples = [{**s, "images": list(s["images"])}
               for s in make_samples(2, kinds=["slides"], dpi=36, wordings=["literal"])]
    root = write_layout("slidevqa", samples, tmp_path / "data", "raw")
    deck = samples[0]["meta"]["doc_id"]
    notes = root / "annotations/qa/val.jsonl"
    notes = notes if notes.exists() else next((root / "annotations/qa").glob("*.jsonl"))
    notes.write_text(notes.read_text().replace(json.dumps(deck), '"a deck that leads out"'))
    home = next(p for p in (root / "images").rglob("*") if p.is_dir() and p.name == deck)
    home.rename(root / "images" / "a deck that leads out")
    fields = {"dataset": {"name": "slidevqa", "root": str(root), "split": notes.stem, "limit": 1},
              "methods": ["direct"],
              "client": {"type": "scripted", "options": {"replies": ["Answer: 4"]}}}
    (tmp_path / "run.yaml").write_text(json.dumps(fields))
    code, _, err = run("run", tmp_path / "run.yaml", "--output-dir", tmp_path / "r", "--quiet")
    assert code == 0, err
    assert answers_of(tmp_path / "r") == ["4"]
