"""The project keeps its own rules: package, notebooks, README and sidebar agree; imports are light and declared."""
import ast
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from fnmatch import fnmatch
from importlib.metadata import metadata, packages_distributions

import docs
import pytest
import readme
import sync
import yaml
from conftest import ROOT
from try_wheel import NEED_TORCH

MODULES = sorted(p for p in (ROOT / "cosee").rglob("*.py") if p.name != "_modidx.py")
# Loaded only when they are used: each costs from a tenth of a second to ten.
HEAVY = {"torch", "torchvision", "transformers", "accelerate", "bitsandbytes", "onnxruntime", "rapidocr", "cv2",
         "pypdfium2", "pandas", "matplotlib", "reportlab", "ipywidgets", "IPython", "llguidance", "openai",
         "anthropic", "google", "ray", "anywidget", "langgraph", "sentence_transformers"}
OWNERS = packages_distributions()
PACKAGES = ("cosee", "cosee.document", "cosee.planner", "cosee.screen", "cosee.tools")   # those that offer names
# Machine paths have no place in an output: they differ from one machine to the next.
MACHINE_PATH = re.compile(r"(?<![\w./:<-])/(?:home|root|tmp|Users|private|var|opt|mnt)/[\w.-]+|"
                          + re.escape(f"{ROOT}/"))
NOTEBOOKS = {p.relative_to(ROOT): json.loads(p.read_text(encoding="utf-8")) for p in sync.notebooks()}


def run(code):
    "What a fresh Python prints."
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def name(path):
    "The dotted name of the module at `path`."
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def nodes_of(path):
    "All parts of the code of the file at `path`, which may be a notebook's."
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return ast.walk(compile(path.read_text(encoding="utf-8"), path, "exec", flags))


def imports_of(path, package):
    "Every module that the file at `path` imports, inside functions too; `package` is where a relative import starts."
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            yield ".".join([*up, *([node.module] if node.module else [])])


def imports(path):
    "Every module that the module at `path` imports."
    return imports_of(path, name(path) if path.name == "__init__.py" else name(path).rpartition(".")[0])


# --- what is committed is what it is made from ---

@pytest.fixture
def copy(tmp_path):
    "A copy of the project."
    ignore = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for part in ("cosee", "nbs"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignore)
    for part in ("settings.ini", "README.md"):
        shutil.copy(ROOT / part, tmp_path)
    return tmp_path


def test_a_bare_export_gives_the_package_that_is_there(copy):
    "As nbdev's own pages say: `nbdev_export` and `nbdev_clean`, and nothing else."
    def files(root):
        return {p.relative_to(root): p.read_bytes() for folder in ("cosee", "nbs") for p in (root / folder).rglob("*")
                if p.suffix in (".py", ".ipynb") and ".ipynb_checkpoints" not in p.parts}
    sync.delete_exported(copy)
    for command in ("nbdev_export", "nbdev_clean"):
        sync.nbdev(command, copy)
    here, fresh = files(ROOT), files(copy)
    assert [str(p) for p in here.keys() | fresh.keys() if here.get(p) != fresh.get(p)] == []


@pytest.mark.parametrize("name, make", [("README.md", readme.readme), ("nbs/sidebar.yml", sync.sidebar)])
def test_readme_and_sidebar_are_what_the_notebooks_give(name, make):
    assert (ROOT / name).read_text(encoding="utf-8") == make(ROOT), "call make sync"


def test_every_page_stands_in_a_sidebar_and_none_is_longer_than_people_read():
    bars = yaml.safe_load((ROOT / "nbs/sidebar.yml").read_text(encoding="utf-8"))["website"]["sidebar"]
    stand = [set(re.findall(r"[\w/]+\.ipynb", str(bar))) for bar in bars]
    assert set.union(*stand) == {path.relative_to(ROOT / "nbs").as_posix() for path in sync.notebooks()}
    assert max(map(len, stand)) <= 60


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_front_page_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```|<!--.*?-->|!?\[(?=[^]]*\]\()|\]\([^)]*\)", "", text, flags=re.S)
    sentences = re.split(r"(?<=[.])\s|\n\s*\n|\n(?=[-#>])", prose)
    assert len(text.split()) <= 500
    assert [s for s in sentences if len(s.split()) > 25] == []


def test_the_page_on_architecture_has_the_rooms_that_imports_are_checked_by():
    rules = ConfigParser()
    rules.read(ROOT / ".importlinter")
    layers = rules["importlinter:contract:layers"]["layers"].split("\n")[1:]
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = [re.findall("`([a-z_]+)`", row) for row in re.findall(r"^\| (`[a-z_`, ]+) \|", text, re.M)]
    rooms = [layer.split(" | ") for layer in layers]
    assert table == rooms
    drawn = re.findall(r"<br>([a-z_ ·]+)", text.partition("```mermaid")[2].partition("```")[0])
    assert sorted(" · ".join(drawn).split(" · ")) == sorted(room for layer in rooms for room in layer)


def test_stored_outputs_show_no_error_no_bare_widget_and_no_path_of_a_machine():
    faults = []
    for path, nb in NOTEBOOKS.items():
        outputs = [out for cell in nb["cells"] for out in cell.get("outputs", [])]
        texts = [json.dumps({k: v for k, v in out.get("data", out).items() if not k.startswith("image/")})
                 for out in outputs]
        if any(out["output_type"] == "error" for out in outputs): faults.append(f"{path}: stores an error")
        if any("widget-view" in text for text in texts): faults.append(f"{path}: stores a widget")
        faults += [f"{path}: shows a path of a machine, {m[0]}" for m in map(MACHINE_PATH.search, texts) if m]
    assert faults == []


def test_titles_stand_alone_and_no_two_pages_have_one_name():
    first = {path: "".join(nb["cells"][0]["source"]) for path, nb in NOTEBOOKS.items()}
    assert [path for path, text in first.items() if not re.fullmatch(r"# [^\n]+\n+> [^\n]+\n*", text)] == []
    titles = [text.splitlines()[0].lower() for text in first.values()]
    pages = [path.with_name(re.sub(r"^\d+[a-zA-Z0-9]*_", "", path.name.lower())) for path in NOTEBOOKS]
    assert len(set(titles)) == len(titles) and len(set(pages)) == len(pages)


# Texts that models are given, and the chapter that shows them
PROMPTS = [("agents:SCANNER_ROLE_PROMPT", "02_agents"), ("agents:DETAIL_READER_ROLE_PROMPT", "02_agents"),
           ("agents:CROSS_CHECKER_ROLE_PROMPT", "02_agents"), ("agents:DIRECT_PROMPT", "02_agents"),
           ("policies:COT_PROMPT", "core/03_policies"), ("eval.judge:JUDGE_PROMPT", "eval/12_judge"),
           ("models.text_prompts:SHARED_PROMPT", "models/20_text_prompts"),
           ("models.text_prompts:ANSWER_PROMPT", "models/20_text_prompts"),
           ("planner.nodes.planner:PLANNER_PROMPT", "planner/02_planner_node")]
PROMPTS += [(f"screen.config:SYSTEM_PROMPTS.{style}", "screen/01_config") for style in ("compact", "computer-use")]
PROMPTS += [(f"tools.sight:{tool}.description", "tools/05_agent") for tool in ("Zoom", "Ocr", "FindPage", "ReadBoard")]


@pytest.mark.parametrize("prompt, chapter", PROMPTS)
def test_prompts_are_on_the_pages(prompt, chapter):
    "What a model is told is an output of its chapter, letter by letter: exported code is not shown on the site."
    module, _, names = prompt.partition(":")
    told = importlib.import_module(f"cosee.{module}")
    for key in names.split("."):
        told = told[key] if isinstance(told, dict) else getattr(told, key)
    cells = json.loads((ROOT / f"nbs/{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = "".join(line for cell in cells for out in cell.get("outputs", []) for line in out.get("text", []))
    assert all(part in shown for part in re.split(r"\{(?:schema|reference|query)\}", told))


def test_dead_links_and_anchors_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h2 id="here"></h2><a href="b.html#there"></a><a href="#here"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#here"></a><a href="c.html"></a><a href="https://x.org/y#z"></a>')
    assert docs.link_faults(tmp_path) == ["a.html: no such place, b.html#there", "b.html: no such file, c.html"]


# --- imports ---

def private_imports(path):
    "The names with one underscore that the module at `path` takes from others of the package, inside functions too."
    found = [node for node in nodes_of(path) if isinstance(node, ast.ImportFrom)
             and (node.level or (node.module or "").partition(".")[0] == "cosee")]
    return [alias.name for node in found for alias in node.names
            if alias.name.startswith("_") and not alias.name.startswith("__") and alias.name != "_modidx"]


def test_no_module_imports_a_private_name(tmp_path):
    assert {name(path): found for path in MODULES if (found := private_imports(path))} == {}
    (tmp_path / "planted.py").write_text("def f():\n    from cosee.board import _cell, Board\n", encoding="utf-8")
    assert private_imports(tmp_path / "planted.py") == ["_cell"]


def test_the_package_is_light():
    loaded = set(run("import sys, cosee; print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert loaded & (HEAVY | {"numpy", "PIL", "pydantic"}) == set()


def test_importing_every_module_loads_nothing_heavy():
    names = [n for n in map(name, MODULES) if n not in NEED_TORCH]
    loaded = set(run("import sys, importlib\n"
                     f"for m in {names!r}: importlib.import_module(m)\n"
                     "print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_a_package_offers_can_be_had_and_says_what_it_is(package):
    code = ("import importlib, inspect\npackage = importlib.import_module({!r})\n"
            "for n in package.__all__:\n    try: value = getattr(package, n)\n"
            "    except Exception as e: print(n, e); continue\n"
            "    told = not (inspect.isclass(value) or inspect.isroutine(value)) or inspect.getdoc(value)\n"
            "    if not told: print(n, 'says nothing of itself')\n")
    assert run(code.format(package)) == ""


@pytest.mark.parametrize("asked, meant", [
    ("from cosee import CoSeeControler", "CoSeeController"), ("import cosee; cosee.laod", "load"),
    ("from cosee.tools import Toolbx", "Toolbox"),
])
def test_a_misspelt_name_is_told_what_was_meant(asked, meant):
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and f"did you mean {meant!r}?" in done.stderr


@pytest.mark.parametrize("first",
                         ["", "import cosee.pages, cosee.planner.nodes.planner, cosee.cli.entry, cosee.view.drawing"])
def test_no_module_stands_in_the_way_of_a_name(first):
    "A submodule that was imported before takes the place of no name that a package offers."
    code = (f"{first}\nimport importlib, types\n"
            f"for f in {PACKAGES!r}:\n"
            "    package = importlib.import_module(f)\n"
            "    print(*[n for n in package.__all__ if isinstance(getattr(package, n), types.ModuleType)], end='')\n")
    assert run(code) == ""


def test_what_is_installed_holds_every_file_of_the_package(copy):
    "Style sheets, samples and the tiny checkpoint are no modules, and are easily left out."
    for part in ("setup.py", "README.md"):
        shutil.copy(ROOT / part, copy)
    done = subprocess.run([sys.executable, "setup.py", "-q", "build_py", "--build-lib", "built"], cwd=copy,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    def files(folder): return {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}
    assert files(copy / "cosee") - files(copy / "built/cosee") == set()


def distribution(requirement):
    "The name of the distribution that a requirement asks for, in the form in which names are compared."
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def requirements(*keys):
    "The distributions that these keys of settings.ini ask for; a key may end in `*`."
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini")
    values = (v for k, v in config["DEFAULT"].items() if any(fnmatch(k, key) for key in keys))
    return {distribution(word) for value in values for word in value.split()}


def test_no_older_python_would_do():
    "The least Python that is declared is the one that the only dependency without an older form asks for."
    declared = re.search(r"^min_python = (\d+\.\d+)$", (ROOT / "settings.ini").read_text(), re.MULTILINE)
    asked = re.search(r">=\s*(\d+\.\d+)", metadata("transformers")["Requires-Python"])
    assert list(map(int, asked[1].split("."))) >= list(map(int, declared[1].split(".")))


def undeclared(modules, declared):
    "Modules that no declared distribution brings."
    owners, tops = OWNERS, {m.partition(".")[0] for m in modules}
    scripts = {p.stem for folder in ("t*", "examples/*") for p in ROOT.glob(f"{folder}/*.py")}
    foreign = tops - set(sys.stdlib_module_names) - {"cosee", "", "golden", *scripts}
    return {m for m in foreign if not {distribution(d) for d in owners.get(m, [m])} & declared}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_are_declared(path):
    assert undeclared(imports(path), requirements("requirements", "extras_*")) == set()


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    "Files with the code of tests and tools, and of every notebook."
    folder = tmp_path_factory.mktemp("scripts")
    out = [p for d in ("tests", "tools") for p in ROOT.glob(f"{d}/*.py")]
    for path, nb in NOTEBOOKS.items():
        code = "\n".join(line for c in nb["cells"] if c["cell_type"] == "code"
                         for line in [*"".join(c["source"]).splitlines(), ""] if line[:1] not in ("%", "!"))
        out.append(folder / f"{'_'.join(path.with_suffix('').parts)}.py")
        out[-1].write_text(code, encoding="utf-8")
    return out


def test_imports_of_notebooks_tests_and_tools_are_declared(scripts):
    "What the builders' environment has to hold."
    used = {m for script in scripts for m in imports_of(script, "")}
    own = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}   # some tests ask a benchmark
    assert undeclared(used - own, requirements("requirements", "dev_requirements", "extras_*")) == set()


def names_from_cosee(path):
    "(module, name) for each name of the package that the file at `path` imports, inside functions too."
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.partition(".")[0] == "cosee")
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "cosee":
            yield from ((node.module, a.name) for a in node.names if a.name != "*")


def is_there(module, wanted):
    "Can `wanted` be imported from `module`? A submodule counts as well."
    try:
        if not wanted or hasattr(importlib.import_module(module), wanted):
            return bool(importlib.import_module(module))
        return importlib.util.find_spec(f"{module}.{wanted}") is not None
    except ImportError:
        return False


def test_what_tests_tools_and_notebooks_import_from_the_package_is_there(scripts, tmp_path):
    "A module that moves takes along every import of it, those inside functions too, which only run once in a while."
    used = {pair: path for path in [*scripts, *ROOT.glob("benchmarks/*.py")] for pair in names_from_cosee(path)}
    assert len(used) > 500
    assert {f"{path.name}: {'.'.join(pair)}" for pair, path in used.items() if not is_there(*pair)} == set()
    (tmp_path / "planted.py").write_text("def f():\n    from cosee.runs import processes\n", encoding="utf-8")
    assert [is_there(*pair) for pair in names_from_cosee(tmp_path / "planted.py")] == [False]
