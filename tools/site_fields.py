"""How the site shows classes that are fields and no more: named tuples, typed dictionaries, pydantic models, errors.

nbdev shows what calling a class takes, which for these is `*args, **kwargs`. Their fields, with types, defaults and
the comments beside them, are what a reader wants; they are shown as the module has them.
"""
import ast
import inspect
import re
from functools import cache
from pathlib import Path

from nbdev.showdoc import BasicMarkdownRenderer

PACKAGE = Path(__file__).resolve().parent.parent / "cosee"
EMPTY_CALL = re.compile(r"```python\ndef \w+\(\n    (?:\*args, \*\*kwargs|\*\*data:Any)\n\)[^\n]*\n```")


@cache
def classes():
    "The classes of the package by name, each with the source of its module."
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef): found.setdefault(node.name, []).append((node, source.splitlines()))
    return found


def fields_of(node):
    return [n for n in node.body if isinstance(n, ast.AnnAssign)]


def written(node, lines):
    "A class as its module has it: its bases and its fields, with the comments on the same lines."
    bases = ", ".join(ast.unparse(b) for b in node.bases)
    fields = [line for n in fields_of(node) for line in lines[n.lineno - 1:n.end_lineno]]
    return "\n".join([f"class {node.name}({bases}){':' if fields else ''}", *fields])


def told(sym):
    "What stands in the place of an empty call; None where nobody knows the class."
    if not inspect.isclass(sym) or "__init__" in vars(sym): return None
    names = list(vars(sym).get("__annotations__", {}))
    for node, lines in classes().get(sym.__name__, ()):
        if [n.target.id for n in fields_of(node)] == names: return written(node, lines)
    return None


class Renderer(BasicMarkdownRenderer):
    "What nbdev shows of a name, with the fields of a class that has no more than that."
    def _repr_markdown_(self):
        text, instead = super()._repr_markdown_(), told(self.sym)
        return EMPTY_CALL.sub(lambda m: f"```python\n{instead}\n```", text) if instead else text
