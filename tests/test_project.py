"""The project keeps its own rules: package, notebooks, README and sidebar agree; imports are light, declared and
point one way. Each check is also shown a planted fault, which it has to find."""
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

import check
import contracts
import docs
import faces as face_tables
import pytest
import sync
from conftest import ROOT

MODULES = sorted(p for p in (ROOT / "cosee").rglob("*.py") if p.name != "_modidx.py")
# Loaded only when they are used: each costs from a tenth of a second to ten.
HEAVY = {"torch", "torchvision", "transformers", "accelerate", "bitsandbytes", "onnxruntime", "rapidocr", "cv2",
         "pypdfium2", "pandas", "matplotlib", "reportlab", "ipywidgets", "IPython", "llguidance", "openai",
         "anthropic", "google", "ray", "anywidget", "langgraph", "sentence_transformers"}
OWNERS = packages_distributions()


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

def test_package_notebooks_readme_and_sidebar_agree():
    faults = check.faults(ROOT)
    assert not faults, "\n".join(faults)


@pytest.fixture
def copy(tmp_path):
    "A copy of the project in which faults may be planted."
    ignore = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for part in ("cosee", "nbs"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignore)
    for part in ("settings.ini", "README.md"):
        shutil.copy(ROOT / part, tmp_path)
    return tmp_path


def edit(path, change):
    "Change the notebook at `path` in place, as an editor would that cleans nothing."
    nb = json.loads(path.read_text(encoding="utf-8"))
    change(nb["cells"])
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def unfolded(copy, module):
    "Put a module of the copy as nbdev alone exports it."
    kept = {p: p.read_bytes() for p in (copy / "cosee").rglob("*.py")}
    sync.nbdev("nbdev_export", copy)
    for p, content in kept.items():
        if p != copy / module: p.write_bytes(content)


def test_planted_faults_are_found(copy):
    (copy / "cosee/stale.py").write_text("left = 'behind'\n")
    with (copy / "cosee/__init__.py").open("a") as f:
        f.write("# edited by hand\n")
    unfolded(copy, "cosee/board.py")
    edit(copy / "nbs/index.ipynb", lambda cells: cells[0]["source"].append("\nMore, behind the subtitle."))
    shown = {"output_type": "stream", "name": "stdout", "text": ["/home/somebody/thing"]}
    edit(copy / "nbs/package/00_cosee.ipynb",
         lambda cells: [c.update(execution_count=7, outputs=[shown]) for c in cells
                        if c["cell_type"] == "code"])
    for new in ("04_new", "05_new"):
        shutil.copy(copy / "nbs/index.ipynb", copy / f"nbs/{new}.ipynb")
    with (copy / "README.md").open("a") as f:
        f.write("[gone](nbs/gone.ipynb)\n")
    found = "\n".join(check.faults(copy))
    for fault in ("cosee/stale.py: no notebook exports it", "cosee/__init__.py: differs from its notebook",
                  "cosee/board.py: is not folded",
                  "nbs/package/00_cosee.ipynb: not clean", "shows a path of a machine, /home/somebody",
                  "nbs/index.ipynb: the first cell",
                  "nbs/04_new.ipynb and nbs/05_new.ipynb: have the same page", "README.md: not what",
                  "nbs/sidebar.yml: not what", "README.md: no such file, nbs/gone.ipynb"):
        assert fault in found


def test_the_sidebar_names_every_notebook_once(copy):
    shutil.copy(copy / "nbs/index.ipynb", copy / "nbs/unforeseen.ipynb")
    named = [line.split("- ")[1] for line in sync.sidebar(copy).splitlines() if line.endswith(".ipynb")]
    assert sorted(named) == sorted(p.relative_to("nbs").as_posix() for p, _ in check.notebooks(copy))


def test_chapters_and_sections_are_named_in_words():
    "The sidebar shows these names alone: no two are the same, and none is that of a module or a folder."
    titles = [nb["cells"][0]["source"][0].strip("# \n") for _, nb in check.notebooks(ROOT)]
    sections = [section for section, _ in sync.SECTIONS]
    modules = {name(path) for path in MODULES} - {"cosee"} | {p.stem for p in MODULES} - {"__init__"}
    assert len({title.lower() for title in titles}) == len(titles) and len(set(sections)) == len(sections)
    assert not {*titles, *sections} & modules


# Texts that models are given, and the chapter that shows them
PROMPTS = [("agents:SCANNER_ROLE_PROMPT", "02_agents"), ("agents:DETAIL_READER_ROLE_PROMPT", "02_agents"),
           ("agents:CROSS_CHECKER_ROLE_PROMPT", "02_agents"), ("eval.task:DIRECT_PROMPT", "eval/06_task"),
           ("eval.task:COT_PROMPT", "eval/06_task"), ("eval.judge:JUDGE_RULES", "eval/12_judge"),
           ("minds.pointing:SHARED", "minds/01_pointing"), ("minds.pointing:ANSWER_RULES", "minds/01_pointing"),
           ("planner.planning:PLANNER_PROMPT", "planner/00_planning")]
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


@pytest.mark.parametrize("tutorial", ["any_model", "compare_methods", "first_episode", "text_memory_and_tools"])
def test_tutorials_lead_to_planner_and_screens(tutorial):
    text = (ROOT / f"nbs/tutorials/{tutorial}.ipynb").read_text(encoding="utf-8")
    assert "(../planner/00_planning.ipynb)" in text and "(screens.ipynb)" in text


def test_dead_links_and_anchors_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h2 id="here"></h2><a href="b.html#there"></a><a href="#here"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#here"></a><a href="c.html"></a><a href="https://x.org/y#z"></a>')
    assert docs.link_faults(tmp_path) == ["a.html: no such place, b.html#there", "b.html: no such file, c.html"]


# --- imports ---

def test_the_package_is_light():
    loaded = set(run("import sys, cosee; print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert loaded & (HEAVY | {"numpy", "PIL", "pydantic"}) == set()


def test_importing_every_module_loads_nothing_heavy():
    names = [n for n in map(name, MODULES) if n not in contracts.NEED_TORCH]
    loaded = set(run("import sys, importlib\n"
                     f"for m in {names!r}: importlib.import_module(m)\n"
                     "print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("face", sorted(face_tables.faces(ROOT / "cosee")), ids=name)
def test_every_name_on_a_face_can_be_had_and_says_what_it_is(face):
    code = ("import importlib, inspect\nface = importlib.import_module({!r})\n"
            "for n in face.__all__:\n    try: value = getattr(face, n)\n"
            "    except Exception as e: print(n, e); continue\n"
            "    told = not (inspect.isclass(value) or inspect.isroutine(value)) or inspect.getdoc(value)\n"
            "    if not told: print(n, 'says nothing of itself')\n")
    assert run(code.format(name(face))) == ""


@pytest.mark.parametrize("face", sorted(face_tables.faces(ROOT / "cosee")), ids=name)
def test_no_name_on_a_face_is_that_of_a_module_beside_it(face):
    "Whoever had imported such a module would get it instead of what the face names."
    beside = {p.stem for p in face.parent.glob("*.py")} | {p.parent.name for p in face.parent.glob("*/__init__.py")}
    assert beside & set(run(f"import {name(face)} as face; print(*face.__all__)").split()) == set()


def test_faces_are_told_to_editors(tmp_path):
    "The stub beside a face names what the table names, and a module's `__all__` is what stands on a face."
    package = tmp_path / "cosee"
    package.mkdir()
    (package / "__init__.py").write_text("FACE = {'cosee.board': 'Board Cell'}\n__version__ = '1'\n")
    (package / "board.py").write_text("__all__ = ['Board',\n           'Cell', 'helper']\nclass Board: pass\n")
    face_tables.write(package)
    stub = (package / "__init__.pyi").read_text()
    for line in ("from cosee.board import Board as Board", "from cosee.board import Cell as Cell", '"Board", "Cell"',
                 "__version__: str"):
        assert line in stub
    assert (package / "board.py").read_text() == "__all__ = ['Board', 'Cell']\nclass Board: pass\n"


@pytest.mark.parametrize("asked, meant", [
    ("from cosee import CoSeeControler", "CoSeeController"), ("import cosee; cosee.laod", "load"),
    ("from cosee.eval import permutaton_test", "permutation_test"), ("from cosee.tools import Toolbx", "Toolbox"),
])
def test_a_misspelt_name_is_told_what_was_meant(asked, meant):
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and f"did you mean {meant!r}?" in done.stderr


@pytest.mark.parametrize("first",
                         ["", "import cosee.pages, cosee.planner.planning, cosee.cli.entry, cosee.view.figure"])
def test_no_module_stands_in_the_way_of_a_name(first):
    "A submodule that was imported before takes no name of a face."
    code = (f"{first}\nimport importlib, types\n"
            "for f in ('cosee', 'cosee.planner', 'cosee.cli', 'cosee.view', 'cosee.runs', 'cosee.eval', "
            "'cosee.tools'):\n"
            "    face = importlib.import_module(f)\n"
            "    print(*[n for n in face.__all__ if isinstance(getattr(face, n), types.ModuleType)], end='')\n")
    assert run(code) == ""


def test_what_is_installed_holds_every_file_of_the_package(copy):
    "Stubs, style sheets, samples and the tiny checkpoint are no modules, and are easily left out."
    for part in ("setup.py", "README.md"):
        shutil.copy(ROOT / part, copy)
    done = subprocess.run([sys.executable, "setup.py", "-q", "build_py", "--build-lib", "built"], cwd=copy,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    def files(folder): return {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}
    assert files(copy / "cosee") - files(copy / "built/cosee") == set()


def requirements(*keys):
    "The distributions that these keys of settings.ini ask for; a key may end in `*`."
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini")
    values = (v for k, v in config["DEFAULT"].items() if any(fnmatch(k, key) for key in keys))
    return {check.distribution(word) for value in values for word in value.split()}


def test_no_older_python_would_do():
    "The least Python that is declared is the one that the only dependency without an older form asks for."
    declared = re.search(r"^min_python = (\d+\.\d+)$", (ROOT / "settings.ini").read_text(), re.MULTILINE)
    asked = re.search(r">=\s*(\d+\.\d+)", metadata("transformers")["Requires-Python"])
    assert list(map(int, asked[1].split("."))) >= list(map(int, declared[1].split(".")))


def undeclared(modules, declared):
    "Modules that no declared distribution brings."
    owners, tops = OWNERS, {m.partition(".")[0] for m in modules}
    foreign = tops - set(sys.stdlib_module_names) - {"cosee", "", *(p.stem for p in ROOT.glob("t*/*.py"))}
    return {m for m in foreign if not {check.distribution(d) for d in owners.get(m, [m])} & declared}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_are_declared(path):
    assert undeclared(imports(path), requirements("requirements", "extras_*")) == set()


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    "Files with the code of tests and tools, and of every notebook."
    folder = tmp_path_factory.mktemp("scripts")
    out = [p for d in ("tests", "tools") for p in ROOT.glob(f"{d}/*.py")]
    for path, nb in check.notebooks(ROOT):
        code = "\n".join(line for c in nb["cells"] if c["cell_type"] == "code"
                         for line in [*"".join(c["source"]).splitlines(), ""] if line[:1] not in ("%", "!"))
        out.append(folder / f"{'_'.join(path.with_suffix('').parts)}.py")
        out[-1].write_text(code, encoding="utf-8")
    return out


def test_imports_of_notebooks_tests_and_tools_are_declared(scripts):
    "What the builders' environment has to hold."
    used = {m for script in scripts for m in imports_of(script, "")}
    assert undeclared(used, requirements("requirements", "dev_requirements", "extras_*")) == set()


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


# --- contracts: each holds, and finds the fault that is planted ---

@pytest.fixture
def house(tmp_path):
    "A small package without a fault, as {file: text} written by calling it."
    def write(files):
        sound = {"__init__.py": "from cosee.board import Board\n", "board.py": "class Board: pass\n",
                 "agents.py": "from .board import Board\n", "models/__init__.py": "", "eval/__init__.py": "",
                 "models/client.py": "", "eval/metrics.py": "def score():\n    from cosee.agents import Board\n"}
        for file, text in {**sound, **files}.items():
            (tmp_path / "cosee" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "cosee" / file).write_text(text)
        return tmp_path
    return write


def all_faults(root):
    others = (contracts.circle_faults, contracts.face_faults, contracts.size_faults)
    return contracts.layer_faults(root, {}) + [fault for faults_of in others for fault in faults_of(root)]


def test_a_sound_house_has_no_faults(house):
    root = house({})
    assert all_faults(root) == [] and list(contracts.private_imports(root)) == []


@pytest.mark.parametrize("file, text, fault", [
    ("board.py", "from cosee.agents import team", "cosee.board: imports cosee.agents, which is above it"),
    ("board.py", "def f():\n    from .agents import team", "cosee.board: imports cosee.agents, which is above it"),
    ("board.py", "from . import agents", "cosee.board: imports cosee.agents, which is above it"),
    ("board.py", "TABLE = ('cosee.agents:team',)", "cosee.board: imports cosee.agents, which is above it"),
    ("board.py", "import_module('cosee.agents')", "cosee.board: imports cosee.agents, which is above it"),
    ("view/page.py", "import cosee.eval.metrics", "cosee.view.page: imports cosee.eval.metrics, which is beside it"),
    ("rest.py", "", "cosee.rest: no layer holds rest"),
    ("models/x.py", "import cosee.models", "cosee.models.x: imports the face of its own package, cosee.models"),
    ("models/x.py", "from cosee import Board", "cosee.models.x: imports the face of its own package, cosee"),
])
def test_a_planted_import_is_found(house, file, text, fault):
    assert fault in all_faults(house({file: text}))


@pytest.mark.parametrize("files, fault", [
    ({"eval/a.py": "import cosee.eval.b", "eval/b.py": "from .a import x"}, "cosee.eval.a -> cosee.eval.b"),
    ({"text.py": "import cosee.boxes", "boxes.py": "def f(): import cosee.text"}, "cosee.boxes -> cosee.text"),
    ({"eval/a.py": "T = 'cosee.eval.b:f'", "eval/b.py": "def f(): from .a import T"}, "cosee.eval.a -> cosee.eval.b"),
])
def test_a_planted_circle_is_found(house, files, fault):
    assert contracts.circle_faults(house(files)) == [f"a circle: {fault} -> {fault.split()[0]}"]


def test_a_table_may_name_what_is_above_it_where_that_is_written_down(house):
    root = house({"board.py": "TABLE = ('cosee.agents:team',)"})
    why = {("cosee.board", "cosee.agents"): "loaded when asked for"}
    assert contracts.layer_faults(root, why) == []
    assert contracts.layer_faults(house({"board.py": ""}), why) == ["cosee.board: does not name cosee.agents any more"]


def test_a_planted_private_import_is_found(house):
    root = house({"agents.py": "def f():\n    from cosee.board import _cell, Board\n"})
    assert list(contracts.private_imports(root)) == [("cosee/agents.py", 2, "cosee.board._cell")]


def test_a_planted_crowd_is_found(house):
    root = house({f"eval/m{n}.py": "" for n in range(15)})
    assert contracts.size_faults(root) == ["cosee/eval: 17 files, at most 16"]
    root = house({f"m{n}.py": "" for n in range(13)})
    assert "cosee: 15 modules beside the packages, at most 14" in contracts.size_faults(root)
    assert contracts.name_faults({"cosee": ["x"] * 81, "cosee.models": ["y"] * 196}) == [
        "cosee: 81 public names, at most 80", "all faces: 277 public names, at most 276"]


def test_modules_import_only_from_below():
    assert contracts.layer_faults() == []


def test_no_circles():
    assert contracts.circle_faults() == []


def test_no_module_imports_the_face_of_its_own_package():
    assert contracts.face_faults() == []


def test_no_module_imports_a_private_name():
    assert list(contracts.private_imports()) == []


def test_no_folder_is_crowded():
    assert contracts.size_faults() == []


def faces():
    "The public names of every package, by its dotted name."
    names = [module for module, path in contracts.paths().items() if path.name == "__init__.py"]
    return json.loads(run("import json, importlib\n"
                          f"face = lambda m: list(getattr(importlib.import_module(m), '__all__', []))\n"
                          f"print(json.dumps({{m: face(m) for m in {names!r}}}))"))


def test_public_names_are_few():
    assert contracts.name_faults(faces()) == []


# Seconds of one processor that `import cosee` may take
QUICK = .02
CLOCK = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"


def import_seconds(module):
    "The best of five, in fresh processes."
    return min(float(run(CLOCK.format(module))) for _ in range(5))


def test_the_package_is_imported_at_once():
    assert import_seconds("cosee") < QUICK


def test_a_slow_import_is_noticed():
    assert import_seconds("numpy") > QUICK
