"""What an extra brings is missing until somebody installs it: the core works without, and one line names the remedy.

Here the modules are hidden from processes of the tests' environment; tools/try_wheel.py installs a wheel without them.
"""
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import packages_distributions

import env
import pytest
import try_wheel
from conftest import ROOT

from cosee.utils.config import EXTRA_OF, MissingExtra, extra_of, missing_extra, need

HIDDEN = f"import sys\nfor name in {sorted(EXTRA_OF)!r}: sys.modules[name] = None\n"


def settings():
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    return config["DEFAULT"]


def hidden(code, *args, **variables):
    "Run some code where no module of an extra can be imported."
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run([sys.executable, "-c", HIDDEN + code, *args], capture_output=True, text=True, env=given)


def cosee(*args): return hidden("from cosee.cli.entry import main\nsys.exit(main())", *args)


def plain(name): return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.slow
@pytest.mark.parametrize("module, extra", EXTRA_OF.items())
def test_the_extra_that_is_named_brings_the_module(module, extra):
    words = settings()[f"extras_{extra}"].split()
    brought = {plain(re.split(r"[<>=!~\[]", word)[0]) for word in words}
    owners = {plain(d) for d in packages_distributions().get(module, [])} or {plain(module)}
    assert brought & (owners | {plain(module)})


def test_no_extra_is_part_of_the_core():
    core = {re.split(r"[<>=!~\[]", word)[0] for word in settings()["requirements"].split()}
    assert not {plain(name) for name in core} & {plain(name) for name in EXTRA_OF}


def test_one_line_names_what_is_missing_and_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra) as told: need("a cluster", "os", "ray")
    assert re.fullmatch(r'a cluster needs ray, which is not installed: \S*( -m )?pip install ".*\[ray\]"',
                        str(told.value))
    assert missing_extra(told.value) is told.value


@pytest.mark.parametrize("module, extra", [("torch.nn", "qwen"), ("google.genai.types", "google"), ("google", ""),
                                           ("google.protobuf", ""), ("numpy", ""), ("", "")])
def test_the_extra_of_a_module(module, extra):
    assert extra_of(module) == extra
    found = missing_extra(ModuleNotFoundError(name=module))
    assert bool(found) == bool(extra) and (not found or f'[{extra}]"' in str(found))


def test_other_errors_are_none_of_an_extra():
    assert missing_extra(None) is missing_extra(ImportError(name="torch")) is missing_extra(KeyError("torch")) is None


def test_the_core_asks_scores_and_shows_without_any_extra(tmp_path):
    page = str(tmp_path / "page.html")
    done = cosee("ask", str(ROOT / "cosee/samples/invoice.pdf"), "-q", "What is the subtotal?", "--html", page)
    assert done.returncode == 0 and "36,871.72 USD" in done.stdout, done.stderr


COMMANDS = [("ask {} -q Why? --client tiny", "qwen"), ("ask {} -q Why? --client random", "qwen"),
            ("ask {} -q Why? --client google --model m", "google"), ("mcp {}", "mcp")]


def test_commands_that_need_more_say_so(tmp_path):
    argvs = [command.format(ROOT / "cosee/samples/invoice.pdf").split() for command, _ in COMMANDS]
    done = hidden(f"from cosee.cli.entry import main\nfor argv in {argvs!r}: print(main([*argv, '--quiet']))")
    assert done.stdout.split() == ["2"] * len(argvs)
    for line, (_, extra) in zip(done.stderr.strip().splitlines(), COMMANDS, strict=True):
        assert line.startswith("cosee: ") and line.endswith(f'[{extra}]"')


def test_calls_that_need_more_say_so(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    calls = [call.replace("'run'", repr(str(tmp_path))) for call, _ in try_wheel.CALLS]
    code = "".join(f"try:\n    {call}\nexcept ImportError as e: print(e)\n" for call in calls)
    told = hidden("import cosee\n" + code).stdout.splitlines()
    for line, (_, extra) in zip(told, try_wheel.CALLS, strict=True):
        assert line.endswith(f'[{extra}]"')


# --- the demo ---

OPENED = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"


def in_terminal(tmp_path, *args):
    "Exit code and output of a command in a terminal with a browser, and the file into which this writes an address."
    ours, theirs = os.openpty()
    note, text = tmp_path / "opened", b""
    code = "import sys; from cosee.cli.entry import main; sys.exit(main(sys.argv[1:]))"
    given = {**os.environ, "PYTHONPATH": str(ROOT), "BROWSER": f"{sys.executable} -c '{OPENED}' {note} %s"}
    with subprocess.Popen([sys.executable, "-c", code, *args], cwd=tmp_path, env=given, stdout=theirs,
                          stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as run:
        os.close(theirs)
        while chunk := read(ours): text += chunk
    os.close(ours)
    return run.returncode, text.decode(), note


def read(terminal):
    "What a terminal shows next; nothing where its last user has closed it."
    try: return os.read(terminal, 65536)
    except OSError: return b""


@pytest.mark.slow
def test_the_demo_is_right_and_opens_its_page(tmp_path):
    code, text, note = in_terminal(tmp_path, "demo")
    assert code == 0 and "4 of 4 as expected" in text
    assert note.read_text() == (tmp_path / "cosee-demo.html").as_uri()


@pytest.mark.slow
def test_the_demo_opens_nothing_where_it_is_told_so_or_nobody_looks(tmp_path):
    code, text, note = in_terminal(tmp_path, "demo", "invoice", "--no-open")
    assert code == 0 and "4 of 4 as expected" in text and not note.exists()


# --- the environment of a clone ---

@pytest.fixture
def clone(tmp_path, monkeypatch):
    "An environment that works, in which pip only writes down what it is asked for."
    (tmp_path / ".venv").mkdir()
    asked = []
    for name, value in dict(VENV=tmp_path / ".venv", STAMP=tmp_path / ".venv/installed", works=lambda: True,
                            pip=lambda *args: asked.append(args[-1])).items():
        monkeypatch.setattr(env, name, value)
    return asked


def test_each_command_installs_what_it_lacks_and_nothing_twice(clone, capsys):
    for what in ("core", "core", "dev", "core", "dev"): env.main(what)
    assert clone == [".", ".[dev]"]
    capsys.readouterr()
    env.main("core")
    env.main()
    assert capsys.readouterr().out == ""


def test_an_environment_out_of_date_keeps_what_it_had(clone):
    env.main("dev")
    env.STAMP.write_text("dev of another time")
    env.main("core")
    assert clone == [".[dev]", ".[dev]"]


def test_what_it_costs_is_what_was_measured(clone, capsys, monkeypatch):
    env.main("core")
    env.main("dev")
    told = re.findall(r"It takes about (.+?) and ([\d.]+) GB", capsys.readouterr().out)
    assert len(told) == 1   # what is there already is brought up to date without a word on it
    monkeypatch.setattr(env, "COSTS", env.STAMP)
    assert env.cost("core") == ""
