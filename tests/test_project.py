"""The project keeps its own rules: package, notebooks, README and sidebar agree; imports are light, declared and
point one way. Each check is also shown a planted fault, which it has to find."""
import ast
import json
import shutil
import subprocess
import sys
from configparser import ConfigParser
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path

import check
import docs
import pytest
import sync
from conftest import ROOT

MODULES = sorted(p for p in (ROOT / "cosee").rglob("*.py") if p.name != "_modidx.py")
# Loaded only when they are used: each costs from a tenth of a second to ten.
HEAVY = {"torch", "torchvision", "transformers", "accelerate", "bitsandbytes", "onnxruntime", "rapidocr", "cv2",
         "pypdfium2", "pandas", "matplotlib", "reportlab", "ipywidgets", "IPython", "llguidance", "openai",
         "anthropic", "google", "ray", "anywidget", "langgraph", "sentence_transformers"}
# Modules whose classes extend those of such a library; the others import them inside functions.
HEAVY_BY_NATURE = {"cosee.models.prefix"}
OWNERS = packages_distributions()


def run(code):
    "What a fresh Python prints."
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def name(path):
    "The dotted name of the module at `path`."
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path, package):
    "Every module that the file at `path` imports, inside functions too; `package` is where a relative import starts."
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for node in ast.walk(compile(path.read_text(encoding="utf-8"), path, "exec", flags)):
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
    edit(copy / "nbs/13_init.ipynb", lambda cells: [c.update(execution_count=7, outputs=[shown]) for c in cells
                                                    if c["cell_type"] == "code"])
    for new in ("04_new", "05_new"):
        shutil.copy(copy / "nbs/index.ipynb", copy / f"nbs/{new}.ipynb")
    with (copy / "README.md").open("a") as f:
        f.write("[gone](nbs/gone.ipynb)\n")
    found = "\n".join(check.faults(copy))
    for fault in ("cosee/stale.py: no notebook exports it", "cosee/__init__.py: differs from its notebook",
                  "cosee/board.py: is not folded",
                  "nbs/13_init.ipynb: not clean", "shows a path of a machine, /home/somebody",
                  "nbs/index.ipynb: the first cell",
                  "nbs/04_new.ipynb and nbs/05_new.ipynb: have the same page", "README.md: not what",
                  "nbs/sidebar.yml: not what", "README.md: no such file, nbs/gone.ipynb"):
        assert fault in found


def test_the_sidebar_names_every_notebook_once(copy):
    shutil.copy(copy / "nbs/index.ipynb", copy / "nbs/unforeseen.ipynb")
    named = [line.split("- ")[1] for line in sync.sidebar(copy).splitlines() if line.endswith(".ipynb")]
    assert sorted(named) == sorted(p.relative_to("nbs").as_posix() for p, _ in check.notebooks(copy))


def test_dead_links_and_anchors_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h2 id="here"></h2><a href="b.html#there"></a><a href="#here"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#here"></a><a href="c.html"></a><a href="https://x.org/y#z"></a>')
    assert docs.link_faults(tmp_path) == ["a.html: no such place, b.html#there", "b.html: no such file, c.html"]


# --- imports ---

def test_the_package_is_light():
    loaded = set(run("import sys, cosee; print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert loaded & (HEAVY | {"numpy", "PIL", "pydantic"}) == set()


def test_importing_every_module_loads_nothing_heavy():
    names = [n for n in map(name, MODULES) if n not in HEAVY_BY_NATURE]
    loaded = set(run("import sys, importlib\n"
                     f"for m in {names!r}: importlib.import_module(m)\n"
                     "print(*{m.partition('.')[0] for m in sys.modules})").split())
    assert loaded & HEAVY == set()


def test_every_public_name_can_be_had_from_the_package():
    missing = run("import cosee\nfor n in cosee.__all__:\n    try: getattr(cosee, n)\n"
                  "    except Exception as e: print(n, e)")
    assert missing == ""


def requirements(*keys):
    "The distributions that these keys of settings.ini ask for; a key may end in `*`."
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini")
    values = (v for k, v in config["DEFAULT"].items() if any(fnmatch(k, key) for key in keys))
    return {check.distribution(word) for value in values for word in value.split()}


def undeclared(modules, declared):
    "Modules that no declared distribution brings."
    owners, tops = OWNERS, {m.partition(".")[0] for m in modules}
    foreign = tops - set(sys.stdlib_module_names) - {"cosee", "", *(p.stem for p in ROOT.glob("t*/*.py"))}
    return {m for m in foreign if not {check.distribution(d) for d in owners.get(m, [m])} & declared}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_are_declared(path):
    assert undeclared(imports(path), requirements("requirements", "extras_*")) == set()


def test_imports_of_notebooks_tests_and_tools_are_declared(tmp_path):
    "What the builders' environment has to hold."
    scripts = [*ROOT.glob("tests/*.py"), *ROOT.glob("tools/*.py")]
    for path, nb in check.notebooks(ROOT):
        code = "\n".join(line for c in nb["cells"] if c["cell_type"] == "code"
                         for line in [*"".join(c["source"]).splitlines(), ""] if line[:1] not in ("%", "!"))
        scripts.append(tmp_path / f"{path.stem}.py")
        scripts[-1].write_text(code, encoding="utf-8")
    used = {m for script in scripts for m in imports_of(script, "")}
    assert undeclared(used, requirements("requirements", "dev_requirements", "extras_*")) == set()


# Who may import whom: a module only from its own floor and those below. Rooms that are not named (data sets,
# evaluation, documents, tools) stand above the controller and below the experiments.
FLOORS = [
    {"cosee.text", "cosee.boxes", "cosee.files", "cosee.models", "cosee.registry", "cosee.config", "cosee.pages",
     "cosee.jsonscan"},
    {"cosee.board", "cosee.markup", "cosee.drawing", "cosee.look", "cosee.view"},
    {"cosee.agents"},
    {"cosee.controller"},
    set(),
    {"cosee.experiments", "cosee.runs", "cosee.report", "cosee.viewer", "cosee.cluster", "cosee.tiny_report"},
    {"cosee.cli", "cosee.run_cli", "cosee.screen_cli", "cosee.plan_cli", "cosee.tiny_cli"},
]


def floor(module):
    "The floor of a module, by the part of the package in which it lies."
    part = ".".join(module.split(".")[:2])
    return next((level for level, parts in enumerate(FLOORS) if part in parts), 4)


@pytest.mark.parametrize("path", [p for p in MODULES if name(p) != "cosee"], ids=name)
def test_imports_point_down(path):
    used = {m for m in imports(path) if m.startswith("cosee.")}
    assert {m for m in used if floor(m) > floor(name(path))} == set()
