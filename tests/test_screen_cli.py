"`cosee screen`: what it prints, what it returns, and what it says when things are wrong."
import json
import re

import pytest

from cosee.cli.entry import main
from cosee.models.testing import ScriptedClient
from cosee.models.registry import CLIENTS, ClientEntry
from cosee.screen.call import ToolCall, format_tool_call


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("screens")
    (out / "dataset.yaml").write_text("name_prefix: office\ntasks: {click-button: 3, press-keys: 1}\ntest: {count: "
                                      "3}\noutput: {image_format: jpg}\n")
    assert (main(["screen", "make", str(out / "dataset.yaml"), "--out", str(out), "--timestamp", "20260101_120000",
                  "--quiet", "--workers", "2"]) == 0)
    return out / "office-20260101_120000"


@pytest.fixture
def run(capsys):
    def go(*args):
        capsys.readouterr()
        code = main(["screen", *map(str, args)])
        return code, *capsys.readouterr()
    return go


@pytest.mark.slow
def test_make_says_what_it_made(folder, run):
    code, out, err = run("make", folder.parent / "dataset.yaml", "--out", folder.parent / "more", "--json",
                         "--no-resume")
    told = json.loads(out)
    assert code == 0 and (told["train"], told["val"], told["test"]) == (3, 1, 3) and err == ""


def test_check_lists_faults_and_returns_one(folder, run):
    assert run("check", folder)[:2] == (0, "0 faults\n")
    kept = (folder / "train.jsonl").read_text()
    try:
        (folder / "train.jsonl").write_text(kept.replace("task_type", "kind_of_task"))
        code, out, _ = run("check", folder, "--most", 1)
        assert code == 1 and out.splitlines() == ["train.jsonl:1: metadata.task_type: Field required",
                                                  "6 faults, 5 not shown"]
        assert len(json.loads(run("check", folder, "--json")[1])) == 6
    finally:
        (folder / "train.jsonl").write_text(kept)


def test_show_prints_and_draws(folder, run, tmp_path):
    (tmp_path / "said.jsonl").write_text(json.dumps(dict(id="test_00001", call=ToolCall.left_click((5, 5)).to_dict()))
                                         + "\n")
    code, out, _ = run("show", folder, "--id", "test_00001", "--pictures", tmp_path / "look", "--predictions",
                       tmp_path / "said.jsonl", "--json")
    (told,) = json.loads(out)
    assert (code == 0 and told["predicted"]["arguments"]["coordinate"] == [5, 5]
            and [p.name for p in (tmp_path / "look").iterdir()] == ["00000_test_00001.png"])
    assert run("show", folder, "--split", "train", "--limit", 2)[1].count("sample_") == 2


def test_score_of_a_file_and_of_a_client_agree(folder, run, tmp_path, monkeypatch):
    monkeypatch.setitem(CLIENTS, "scripted",
                        ClientEntry(lambda: ScriptedClient([format_tool_call(ToolCall.left_click((500, 60)))],
                                                           cycle=True)))
    code, out, _ = run("score", folder, "--client", "scripted", "--save", tmp_path / "said.jsonl", "--json")
    asked = json.loads(out)
    assert code == 0 and asked["groups"]["all"]["n"] == 3 and asked["groups"]["all"]["valid"] == 1
    assert json.loads(run("score", folder, "--predictions", tmp_path / "said.jsonl", "--json")[1]) == asked
    assert re.search(r"^all +3 ", run("score", folder, "--predictions", tmp_path / "said.jsonl")[1], re.M)


def test_a_client_that_fails_is_told(folder, run, monkeypatch):
    monkeypatch.setitem(CLIENTS, "scripted", ClientEntry(lambda: ScriptedClient([])))
    code, out, err = run("score", folder, "--client", "scripted", "--limit", 2)
    assert code == 0 and "2 of 2 calls failed: IndexError" in err and re.search(r"^all +2 +0 ", out, re.M)


@pytest.mark.parametrize("args, said", [
    (["check", "nowhere"], "nowhere: no such folder"), (["show", "nowhere"], "nowhere: no such folder"),
    (["make", "nowhere.yaml"], "cannot be read"),
    (["score", "SET"], "either --predictions or --client"),
    (["score", "SET", "--predictions", "none.jsonl"], "none.jsonl"),
    (["show", "SET", "--split", "dev"], "no split 'dev'"),
    (["show", "SET", "--split", "held_out"], "has no held_out.jsonl"), (["show", "SET", "--id", "x"], "no sample 'x'"),
    (["make", "SET/train.jsonl"], "train.jsonl"),
    (["make", "SET/../dataset.yaml", "--out", "SET/train.jsonl"], "is no folder"),
    (["make", "SET/../dataset.yaml", "--timestamp", "../x"], "--timestamp"),
    (["score", "SET", "--client", "nothing"], "'nothing'"),
    (["score", "SET", "--predictions", "SET/train.jsonl"], "field 'call' is missing")])
def test_what_users_can_mend_is_one_line_and_two(folder, run, args, said):
    code, _, err = run(*[a.replace("SET", str(folder)) for a in args])
    assert code == 2 and said in err and err.count("\n") == 1 and "Traceback" not in err, err


def test_help(run):
    assert (run()[0] == 2 and run("--help")[0] == 0 and "cosee screen make" in run("--help")[1]
            and run("score", "--help")[0] == 0)
