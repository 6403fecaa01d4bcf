"""The promises that the package makes about itself: which module may import which, how many files and names there are.

Every check takes a folder that holds the package and gives a list of faults, one line each, so that tests can also
show it a planted one. Imports inside functions count, and so do modules named in strings ("cosee.board" or
"cosee.models.client:VLMClient"), by which tables load what they name.
"""
import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# From the ground up: a module imports from layers below its own, and from its own part. Parts of one layer know
# nothing of each other, but for those of the ground, which may not form a circle.
LAYERS = [
    {"text", "boxes", "files", "jsonscan", "config", "pages", "registry", "faces", "sandbox"},
    {"models"},
    {"board"},
    {"focus"},
    {"agents"},
    {"controller"},
    {"document"},
    {"ocr"},
    {"index"},
    {"tools", "datasets", "minds"},
    {"eval", "view"},
    {"planner", "fields", "rules"},
    {"screen", "runs"},
    {"experiments", "study"},
    {"tiny", "doors"},
    {"app"},
    {"cli"},
]
# Tables that name a module above their own, which is loaded when somebody asks for it: (from, to): why
UPWARD: dict[tuple[str, str], str] = {
    ("cosee.models.registry", "cosee.ocr.client"): "the table of clients names the one that needs no model",
    ("cosee.models.registry", "cosee.minds.client"): "the table of clients names the one that reads print",
    ("cosee.models.registry", "cosee.minds.sight"): "models behind the table may be given print instead of images",
    ("cosee.models.registry", "cosee.ocr.transcripts.page_reader"): "a configuration names who writes pages down",
    ("cosee.focus", "cosee.index.pages"): "the default index of a document, made when a page is first searched for",
    ("cosee.eval.methods", "cosee.screen.agent"): "the table of methods names the one for screens",
    ("cosee.eval.evidence_scores", "cosee.screen.score"): "the table of scorers has those of screens",
    ("cosee.datasets.core", "cosee.screen.agent"): "the table of data sets names screens",
    ("cosee.models.registry", "cosee.screen.reader"): "the table of clients names the one that reads screens",
    ("cosee.eval.methods", "cosee.planner.planned"): "the table of methods names the team that plans first",
    ("cosee.eval.methods", "cosee.rules.team"): "the table of methods names the teams with rules of their own",
    ("cosee.eval.methods", "cosee.rules.gates"): "the table of methods names the gates before a team",
    ("cosee.controller", "cosee.minds.places"): "when an episode ends, its evidence is put on the print of its pages",
}
MODULES_AT_TOP, FILES_IN_FOLDER = 14, 16
# Modules whose classes extend those of PyTorch or transformers; all others import such libraries inside functions.
NEED_TORCH = {"cosee.models.local.beginnings"} | {
    f"cosee.models.qwen.{m}" for m in ("attention", "decoder", "prefix", "products", "single", "tower")}
NAMES_OF_PACKAGE, NAMES_OF_FACES = 80, 276


def paths(root=ROOT):
    "Path of each module of the package by its dotted name; a package has the name of its folder."
    found = (p for p in sorted((root / "cosee").rglob("*.py")) if p.name != "_modidx.py")
    return {".".join(p.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): p for p in found}


def file_of(name, root=ROOT):
    "The path of the module in which a dotted name stands; of the package where there is no such module."
    modules = paths(root)
    return modules.get(name.rpartition(".")[0], root / "cosee/__init__.py").relative_to(root).as_posix()


@cache
def _tree(text):
    return ast.parse(text)


def tree(path):
    return _tree(path.read_text(encoding="utf-8"))


def start(node, module, path):
    "The dotted name from which an import statement takes its names."
    if not node.level: return node.module
    parts = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    return ".".join([*parts[:len(parts) - node.level + 1], *([node.module] if node.module else [])])


def names_of_modules(node):
    "What a string names, where all of it looks like a module or like module:function."
    said = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return [said.partition(":")[0]] if re.fullmatch(r"cosee(\.\w+)+(:[\w.]+)?", said) else []


def mentions(module, path):
    "Every dotted name that a module imports or names, with its line."
    for node in ast.walk(tree(path)):
        found = names_of_modules(node)
        if isinstance(node, ast.Import): found = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            found = [f"{start(node, module, path)}.{alias.name}" for alias in node.names]
        yield from ((name, node.lineno) for name in found if not name.endswith("__"))  # as cosee.__version__


def graph(root=ROOT):
    "The modules of the package that each module imports, as {module: {other: line}}."
    modules, found = paths(root), {}
    for module, path in modules.items():
        found[module] = {}
        for name, line in mentions(module, path):
            target = name if name in modules else name.rpartition(".")[0]
            if target in modules and target != module: found[module].setdefault(target, line)
    return found


# --- which module may import which ---

def part(module):
    "The part of the package in which a module lies: 'models' for cosee.models.client."
    return (module.split(".") + [""])[1]


def layer(module):
    return next((n for n, parts in enumerate(LAYERS) if part(module) in parts), None)


def layer_faults(root=ROOT, upward=None):
    "Imports that lead up, or sideways into another part; parts without a layer; exceptions that nobody needs."
    allowed, found, faults = UPWARD if upward is None else upward, graph(root), []
    for module, targets in found.items():
        if not part(module): continue  # the package's own face stands above everything
        if layer(module) is None: faults.append(f"{module}: no layer holds {part(module)}")
        for target in targets:
            if (module, target) in allowed or not part(target) or part(module) == part(target): continue
            a, b = layer(module), layer(target)
            if a is not None and b is not None and (b > a or b == a > 0):
                faults.append(f"{module}: imports {target}, which is {'above' if b > a else 'beside'} it")
    return faults + [f"{a}: does not name {b} any more" for a, b in allowed if b not in found.get(a, {})]


def circle_faults(root=ROOT):
    "A circle of modules that import each other, if there is one; what a package's own face imports does not count."
    found = {m: set(targets) for m, targets in graph(root).items()}
    faces = {m for m in found if any(other.startswith(m + ".") for other in found)}
    try:
        TopologicalSorter({m: targets - faces for m, targets in found.items() if m not in faces}).prepare()
    except CycleError as e:
        circle = e.args[1][:0:-1]
        first = circle.index(min(circle))
        return ["a circle: " + " -> ".join([*circle[first:], *circle[:first + 1]])]
    return []


def face_faults(root=ROOT):
    "Modules that import the face of a package in which they lie."
    return [f"{module}: imports the face of its own package, {target}" for module, targets in graph(root).items()
            for target in targets if module.startswith(target + ".")]


def private(name):
    return name.startswith("_") and not name.startswith("__")


def private_imports(root=ROOT):
    "Private names of one module that another imports: (path, line, dotted name)."
    for module, path in paths(root).items():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ImportFrom): continue
            source = start(node, module, path)
            if not source.startswith("cosee") or source == module or source.endswith("_modidx"): continue
            for alias in node.names:
                if private(alias.name) and alias.name != "_modidx":
                    yield path.relative_to(root).as_posix(), node.lineno, f"{source}.{alias.name}"


# --- how much there is ---

def size_faults(root=ROOT):
    "Folders with more files than anyone looks through."
    top = [p for p in (root / "cosee").glob("*.py") if not p.name.startswith("_")]
    faults = [f"cosee: {len(top)} modules beside the packages, at most {MODULES_AT_TOP}"] * (len(top) > MODULES_AT_TOP)
    folders = [root / "cosee", *(p for p in sorted((root / "cosee").rglob("*")) if p.is_dir())]
    for folder in folders:
        files = [p for p in folder.iterdir() if p.suffix in (".py", ".pyi")]
        if len(files) > FILES_IN_FOLDER + (folder == root / "cosee"):  # _modidx is nobody's to read
            faults.append(f"{folder.relative_to(root)}: {len(files)} files, at most {FILES_IN_FOLDER}")
    return faults


def name_faults(faces):
    "Faces, as {package: its public names}, that promise more than anyone can learn."
    mine, total = len(faces["cosee"]), sum(map(len, faces.values()))
    return ([f"cosee: {mine} public names, at most {NAMES_OF_PACKAGE}"] * (mine > NAMES_OF_PACKAGE)
            + [f"all faces: {total} public names, at most {NAMES_OF_FACES}"] * (total > NAMES_OF_FACES))
