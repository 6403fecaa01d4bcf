"""Public functions and classes that nobody uses: `python tools/unused.py`.

Used is what another module, a face, a test, a benchmark, a tutorial or a page of the documentation names. A name's own
module and notebook do not count, but a type that its own module has in an annotation or as a base is used by whoever
calls that module, and so is a function that a table names ("module:function"). tools/unused.txt says of each unused
one that stays why it stays, a line each: `module.name: reason`. A name that is neither used nor there is a fault, and
so is a line that is not needed any more.
"""
import ast
import json
import re
import sys

import contracts
import sync

ROOT = sync.ROOT
WORD = re.compile(r"[A-Za-z]\w*")


def public(path):
    "The public functions and classes that a module defines."
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [n.name for n in contracts.tree(path).body if isinstance(n, kinds) and not n.name.startswith("_")]


def told_to_callers(path):
    "The words in annotations, bases and tables of a module: types that a caller of it meets, functions told by name."
    found = set()
    for node in ast.walk(contracts.tree(path)):
        told = [getattr(node, "annotation", None), getattr(node, "returns", None), *getattr(node, "bases", [])]
        # named by a table of its module
        if contracts.names_of_modules(node): found.add(node.value.rpartition(":")[2])
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Subscript, ast.BinOp)): told.append(node.value)
        found |= {word for part in told if part is not None for word in WORD.findall(ast.unparse(part))}
    return found


def words_of_module(path):
    "The words of a module's code; only in a face does `__all__` count, elsewhere it names everything."
    kept = (n for n in contracts.tree(path).body
            if path.name == "__init__.py" or not ast.unparse(n).startswith("__all__"))
    return {word for node in kept for word in WORD.findall(ast.unparse(node))}


def words_of_notebook(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {word for c in cells if c["cell_type"] == "code" for word in WORD.findall("".join(c["source"]))}


def exports_nothing(path):
    return "#| default_exp" not in path.read_text(encoding="utf-8")


def outside(root=ROOT):
    "The words of tests, benchmarks, and notebooks that export nothing, as tutorials do."
    scripts = [p for folder in ("tests", "benchmarks") for p in sorted((root / folder).rglob("*.py"))]
    words = [set(WORD.findall(p.read_text(encoding="utf-8"))) for p in scripts]
    return set().union(*words, *(words_of_notebook(p) for p in sync.notebooks(root) if exports_nothing(p)))


def unused(root=ROOT):
    "The dotted name of every public function and class that nobody uses."
    modules = contracts.paths(root)
    words = {module: words_of_module(path) for module, path in modules.items()}
    used = outside(root)
    def named(module, name): return any(name in said for other, said in words.items() if other != module)
    return [f"{module}.{name}" for module, path in modules.items() for name in public(path)
            if name not in used and not named(module, name) and name not in told_to_callers(path)]


def justified(root=ROOT):
    "Reason by dotted name."
    lines = (root / "tools/unused.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line.strip() and not line.startswith("#"))


def faults(root=ROOT):
    "Unused names without a reason, and reasons that nobody needs."
    found, reasons = unused(root), justified(root)
    return ([f"{name}: nobody uses it, and tools/unused.txt gives no reason" for name in found if name not in reasons]
            + [f"{name}: is used or gone; take it out of tools/unused.txt" for name in reasons if name not in found])


if __name__ == "__main__":
    sys.exit("\n".join(faults()))
