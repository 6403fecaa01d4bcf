"""What an extra brings is missing until somebody installs it: the core works without, and one line names the remedy.

Here the modules are hidden from processes of the tests' environment; tools/try_wheel.py installs a wheel without them.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

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
    assert re.fullmatch(r'a cluster needs ray, which is not installed: \S*( -m )?pip install (-e )?".*\[ray\]"',
                        str(told.value))
    assert missing_extra(told.value) is told.value


@pytest.mark.parametrize("module, extra", [("torch.nn", "qwen"), ("google.genai.types", "google"), ("google", ""),
                                           ("google.protobuf", ""), ("numpy", ""), ("", "")])
def test_the_extra_of_a_module(module, extra):
    assert extra_of(module) == extra
    found = missing_extra(ModuleNotFoundError(name=module))
    assert bool(found) == bool(extra) and (not found or f'[{extra}]"' in str(found))


# --- the command that a hint prints ---

def put_package(folder):
    "Copy the modules of the package into a folder."
    shutil.copytree(ROOT / "cosee", folder / "cosee", ignore=lambda at, names: [
        name for name in names if not (name.endswith(".py") or (Path(at) / name / "__init__.py").is_file())])
    return folder


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    "A clone in a folder whose name a shell would change, and a folder into which a package was installed."
    root = tmp_path_factory.mktemp("places")
    clone = put_package(root / "it's $HOME, `my` clone")
    for name in ("settings.ini", "setup.py", "README.md"): shutil.copy(ROOT / name, clone)
    return clone, put_package(root / "site")


def note_install(site, **about):
    "Write into a folder what pip notes of an installed package."
    info = site / "cosee-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cosee\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("cosee/__init__.py,,\n")
    if about: (info / "direct_url.json").write_text(json.dumps(about))
    return site


def hint(*path, cwd, code="", extra="gguf"):
    "The command that is printed in a folder: its words up to `install`, and those behind it as a shell takes them."
    code += f"\nfrom cosee.utils.config import install_command; print(install_command({extra!r}))"
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONSAFEPATH": "1"}
    text = subprocess.run([sys.executable, "-c", code], cwd=cwd, env=given, capture_output=True, text=True, check=True)
    command, _, rest = text.stdout.strip().partition(" install ")
    # a shell that finds no program: whatever is quoted badly runs nothing
    shell = subprocess.run(["/bin/sh", "-c", f"printf '%s\\n' {rest}"], env=dict(PATH="", HOME="/home"),
                           capture_output=True, text=True, check=True)
    return shlex.split(command), shell.stdout.splitlines()


def folder_of(word, cwd):
    "The folder that pip takes a word for, and the extra; a word without a dot or a slash is a package."
    path, extra = re.fullmatch(r"(.+)\[(\w+)\]", word).groups()
    assert word.startswith(("/", ".")), word
    return (Path(cwd) / path).resolve(), extra


def test_an_editable_install_stays_one_wherever_the_hint_is_printed(places, tmp_path):
    clone, _ = places
    site = note_install(tmp_path / "site", url=clone.as_uri(), dir_info=dict(editable=True))
    build = clone / "cosee.egg-info"
    build.mkdir()
    (build / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: cosee\nVersion: 0.1.0\n")
    for path in ((clone, site), (site, clone), (clone,)):   # the last: not installed from there
        for cwd in (clone, clone / "cosee/utils", clone.parent, tmp_path, Path("/")):
            option, word = hint(*path, cwd=cwd)[1]
            assert option == "-e" and folder_of(word, cwd) == (clone.resolve(), "gguf")
    assert hint(clone, site, cwd=clone)[1] == ["-e", ".[gguf]"]
    assert hint(clone, site, cwd=clone, extra="")[1] == ["-e", "."]


def test_a_copy_of_a_folder_is_made_anew(places, tmp_path):
    clone, site = places
    path = note_install(tmp_path / "site", url=clone.as_uri(), dir_info={}), site
    for cwd in (clone, tmp_path):
        (word,) = hint(*path, cwd=cwd)[1]
        assert folder_of(word, cwd) == (clone.resolve(), "gguf")
    (word,) = hint(clone, *path, cwd=clone)[1]   # the clone runs, and the copy is what is installed
    assert word == ".[gguf]"


GIT = "https://example.org/cosee.git"


@pytest.mark.parametrize("about, word", [
    ({}, "cosee[gguf]"), (dict(url="file:///gone/cosee", dir_info={}), "cosee[gguf]"),
    (dict(url="file:///gone/cosee-0.1.0-py3-none-any.whl", archive_info={}), "cosee[gguf]"),
    (dict(url=GIT, vcs_info=dict(vcs="git", requested_revision="main", commit_id="ab12")),
     f"cosee[gguf] @ git+{GIT}@ab12")])
def test_what_came_from_elsewhere_is_asked_for_by_its_name(places, tmp_path, about, word):
    assert hint(note_install(tmp_path / "site", **about), places[1], cwd=tmp_path)[1] == [word]


@pytest.mark.parametrize("settings, words", [("uv = 0.9.1", ["uv", "pip"]), ("version = 3.11", ["-m", "ensurepip"])])
def test_an_environment_without_pip_gets_a_command_that_works(places, tmp_path, settings, words):
    (tmp_path / "pyvenv.cfg").write_text(f"home = /usr/bin\n{settings}\n")
    code = f"import sys; sys.prefix, sys.modules['pip'] = {str(tmp_path)!r}, None"
    command, rest = hint(places[0], cwd=places[0], code=code)
    assert all(word in command for word in words)
    assert rest[-2:] == ["-e", ".[gguf]"] and (words[0] != "uv" or rest[:2] == ["--python", sys.executable])


@pytest.mark.slow
def test_the_printed_command_leaves_an_editable_install_editable(places, tmp_path):
    clone, code = places[0], "from cosee.utils.config import install_command; print(install_command('gguf'))"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    builder = Path(find_spec("setuptools").origin).parent   # it builds wheels, and an old one asks an index for more
    for old in (*site.glob("setuptools*"), *site.glob("_distutils_hack")): shutil.rmtree(old)
    for new in (builder, *builder.parent.glob("setuptools-*"), builder.parent / "_distutils_hack"):
        shutil.copytree(new, site / new.name)
    given = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_"))} | dict(
        PIP_NO_INDEX="1", PIP_NO_DEPS="1", PIP_NO_BUILD_ISOLATION="0", PATH=f"{python.parent}:{os.environ['PATH']}")
    def call(*command): return subprocess.run(command, cwd=clone, env=given, capture_output=True, text=True)
    first = call(python, "-m", "pip", "install", "-e", ".")
    assert first.returncode == 0, first.stderr
    command = call(python, "-P", "-c", code).stdout.strip()
    assert command == 'pip install -e ".[gguf]"'
    again = call("sh", "-c", command)
    assert again.returncode == 0, again.stderr
    (note,) = site.glob("cosee-*.dist-info/direct_url.json")
    assert json.loads(note.read_text())["dir_info"] == {"editable": True}
    (clone / "cosee/edited.py").write_text("word = 'seen'\n")
    assert call(python, "-P", "-c", "from cosee.edited import word; print(word)").stdout == "seen\n"


def test_documents_name_one_way_to_install_from_a_clone():
    texts = [ROOT / "README.md", *(ROOT / "nbs").rglob("*.ipynb"), *(ROOT / "configs").glob("*.yaml"),
             *(ROOT / "examples").rglob("*.md")]
    said = [(path.name, word) for path in texts
            for word in re.findall(r"pip install (?!-e )[^\n`]*", path.read_text(encoding="utf-8"))
            if re.match(r"""[\\"']*(\.|cosee\b)""", word.removeprefix("pip install "))]
    assert not said


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
