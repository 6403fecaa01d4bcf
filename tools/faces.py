"""What follows from the faces of the packages, written after each export.

Each package's `__init__` holds a table `FACE` (module -> names). From it come the stub beside it, `__init__.pyi`,
by which editors and type checkers know what `from cosee import ...` gives, and the `__all__` of every module: a name
that stands on no face is nobody's promise.
"""
import ast
import textwrap
from pathlib import Path

NOTICE = "# Made by tools/sync.py from the table FACE beside it: make sync\n"


def table(path):
    "The table of the face at `path`, read without importing it; empty where the package has none."
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["FACE"]:
            return {module: names.split() for module, names in ast.literal_eval(node.value).items()}
    return {}


def faces(package):
    "The faces of `package`: path of the `__init__.py` -> its table."
    found = {path: table(path) for path in sorted(package.rglob("__init__.py"))}
    return {path: names for path, names in found.items() if names}


def stub(path, names):
    "The text of the stub beside the face at `path`."
    lines = [f"from {module} import {name} as {name}" for module, own in names.items() for name in own]
    version = ["__version__: str"] if "__version__" in path.read_text(encoding="utf-8") else []
    everything = sorted(name for own in names.values() for name in own)
    listed = textwrap.fill(", ".join(f'"{name}"' for name in everything), 110, initial_indent="    ",
                           subsequent_indent="    ", break_long_words=False)
    hidden = ["FACE: dict[str, str]"]
    return "\n".join([NOTICE.rstrip(), *lines, "", *version, *hidden, f"__all__ = [\n{listed}\n]", ""])


def promised(package):
    "Module -> the names of it that stand on a face."
    out = {}
    for names in faces(package).values():
        for module, own in names.items():
            out.setdefault(module, set()).update(own)
    return out


def trimmed(text, keep):
    "A module's text with those names alone in `__all__` that are in `keep`."
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__all__"]:
            if not isinstance(node.value, ast.List):
                return text
            names = [name for name in ast.literal_eval(node.value) if name in keep]
            new = textwrap.fill("__all__ = [" + ", ".join(map(repr, names)) + "]", 118, subsequent_indent=" " * 11,
                                break_long_words=False)
            lines = text.split("\n")
            return "\n".join([*lines[:node.lineno - 1], new, *lines[node.end_lineno:]])
    return text


def write(package):
    "Write the stubs of all faces in `package`, and trim every module's `__all__`."
    package = Path(package)
    for path, names in faces(package).items():
        path.with_suffix(".pyi").write_text(stub(path, names), encoding="utf-8")
    keep = promised(package)
    for path in sorted(package.rglob("*.py")):
        module = ".".join([package.name, *path.relative_to(package).with_suffix("").parts])
        old = path.read_text(encoding="utf-8")
        if path.name not in ("__init__.py", "_modidx.py") and (new := trimmed(old, keep.get(module, ()))) != old:
            path.write_text(new, encoding="utf-8")
