"""Put methods into their classes: what `make sync` does to the modules that nbdev exports.

In notebooks a class gets its methods one at a time, with fastcore's `@patch`. Editors, type checkers and readers of
the package want plain classes. So, once nbdev has exported, each patched function of a class of the same module moves
to the end of the class body. It works on text: comments and layout stay, nothing is imported or run.

A function that would behave differently inside its class stays where it is; `python tools/fold.py` folds cosee/ and
names those, with the reason.
"""
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "# %% "  # begins the line that nbdev writes above each cell
FUTURE = "from __future__ import annotations"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Methods that Python treats differently where the class body holds them
AT_CREATION = {"__eq__", "__new__", "__init_subclass__", "__class_getitem__", "__set_name__", "__slots__"}
# Bases whose class bodies may not hold methods, or mean something else by them
STRICT_BASES = {"TypedDict", "Protocol"}


# --- what a patch is ---

def patch_of(node):
    "The decorator of a patched function; None for any other statement."
    found = (d for d in getattr(node, "decorator_list", []) if isinstance(node, FUNCTIONS)
             and getattr(getattr(d, "func", d), "id", "") == "patch")
    return next(found, None)


def options(patch):
    "The options of a patch: as_prop, cls_method, set_prop ..."
    return {k.arg for k in getattr(patch, "keywords", [])}


def first_argument(node):
    return (node.args.posonlyargs + node.args.args)[0]


def owner(node):
    "The name of the class that a patched function belongs to, as annotated."
    said = first_argument(node).annotation
    return said.value if isinstance(said, ast.Constant) else ast.unparse(said) if said else ""


def decorator(node):
    "The line that says in a class body what the patch said; an empty one for a plain method."
    said = options(patch_of(node))
    if "as_prop" in said: return "@property"
    if "cls_method" in said: return "@classmethod"
    return f"@{node.name}.setter" if "set_prop" in said else ""


# --- what cannot move ---

def bound(node):
    "The names that a statement gives a meaning."
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)): return {node.name} if patch_of(node) is None else set()
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def used_at_once(node):
    "The names that are looked up when a function is defined: in its defaults and its other decorators."
    parts = [*node.args.defaults, *filter(None, node.args.kw_defaults),
             *(d for d in node.decorator_list if d is not patch_of(node))]
    return {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}


def mangled(node):
    "Names such as `__x`, which mean another name inside a class."
    words = {getattr(n, "attr", getattr(n, "id", getattr(n, "arg", None))) for n in ast.walk(node)}
    return {w for w in words if isinstance(w, str) and w.startswith("__") and not w.endswith("__")}


def class_faults(cls, tree):
    "Why no method may move into this class, one line each."
    at = tree.body.index(cls)
    if sum(cls.name in bound(n) for n in tree.body) > 1: yield f"the module gives {cls.name} another meaning"
    strict = STRICT_BASES & {ast.unparse(base) for base in cls.bases}
    if strict: yield f"{cls.name} is a {strict.pop()}"
    if any(patch_of(n) is not None and owner(n) == cls.name for n in tree.body[:at]):
        yield "a patch stands before its class"


def method_faults(node, cls, tree, before):
    "Why this function may not move into `cls`, one line each; `before` are the names bound in the body so far."
    said, here = options(patch_of(node)), used_at_once(node)
    later = set().union(*(bound(n) for n in tree.body[tree.body.index(cls):]))
    if said - {"as_prop", "cls_method", "set_prop"}: yield f"`{', '.join(sorted(said))}` is not understood"
    if node.decorator_list[0] is not patch_of(node): yield "`@patch` is not its first decorator"
    if node.name in AT_CREATION: yield f"Python treats {node.name} differently in a class body"
    if mangled(node): yield f"{', '.join(sorted(mangled(node)))} would mean another name"
    if here & later: yield f"{', '.join(sorted(here & later))} is not known yet where the class is made"
    if here & before: yield f"{', '.join(sorted(here & before))} means a method inside the class"
    if ("set_prop" in said) != (node.name in before):
        yield "the property stands outside the class" if "set_prop" in said else "the class has one already"


def placed(tree):
    "What moves, as {class name: functions}, and what stays, as (line, name, class, reason)."
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    names = {name: set().union(*map(bound, cls.body)) for name, cls in classes.items()}
    moves, stays = {}, []
    for node in (n for n in tree.body if patch_of(n) is not None):
        cls = classes.get(owner(node))
        reasons = (["the class is of another module"] if cls is None
                   else [*class_faults(cls, tree), *method_faults(node, cls, tree, names[cls.name])])
        if reasons:
            stays.append((node.lineno, node.name, owner(node), "; ".join(reasons)))
        else:
            moves.setdefault(cls.name, []).append(node)
            names[cls.name].add(node.name)
    return moves, stays


# --- moving text ---

def inner_lines(source):
    "The numbers of lines that begin inside a string, so that they must stay as they are."
    found, opened = set(), []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING": found |= set(range(token.start[0] + 1, token.end[0] + 1))
        if kind.endswith("STRING_START"): opened.append(token.start[0])
        if kind.endswith("STRING_END"): found |= set(range(opened.pop() + 1, token.end[0] + 1))
    return found


def docstring_lines(node):
    "The lines of a function's own docstring: they may be indented, as Python's tools take the indent out again."
    first = node.body[0]
    said = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return set(range(first.lineno, first.end_lineno + 1)) if said else set()


def comments_above(first, lines):
    "The first of the comment lines that stand right above line `first`."
    while first > 1 and lines[first - 2].startswith("#") and not lines[first - 2].startswith(("#|", MARK)): first -= 1
    return first


def comments_below(last, lines):
    "The last of the indented comment lines that follow line `last`."
    while last < len(lines) and re.match(r"\s+#", lines[last]): last += 1
    return last


def span(node, lines):
    "First and last line of a function, with its decorators and comments."
    return comments_above(node.decorator_list[0].lineno, lines), comments_below(node.end_lineno, lines)


def without_annotation(line, argument):
    "The line of a first argument without the class behind it."
    text, said = line.encode(), argument.annotation
    start = argument.col_offset + len(argument.arg.encode())
    return (text[:start] + text[said.end_col_offset:]).decode()


def method(node, lines, fixed):
    "Number and text of the lines of a patched function as a method."
    first, last = span(node, lines)
    fixed = fixed - docstring_lines(node)
    patch, argument = patch_of(node), first_argument(node)
    new = {argument.lineno: without_annotation(lines[argument.lineno - 1], argument)}
    new |= dict.fromkeys(range(patch.lineno, patch.end_lineno + 1), None) | {patch.lineno: decorator(node) or None}
    kept = [(n, new.get(n, lines[n - 1])) for n in range(first, last + 1)]
    return [(n, "    " + line if line.strip() and n not in fixed else line) for n, line in kept if line is not None]


def opened(cls, line):
    "The lines of a class whose body stands behind its colon; a body that only passes goes."
    head, body = line.encode()[:cls.body[0].col_offset].decode(), line.encode()[cls.body[0].col_offset:].decode()
    return [head.rstrip()] + [] if re.fullmatch(r"(pass|\.\.\.)\s*", body) else [head.rstrip(), "    " + body]


def folded_lines(tree, lines, moves, fixed):
    "Text of every line of the folded module, with the number that it had."
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    gone = {n for nodes in moves.values() for node in nodes for n in range(*span(node, lines))}
    gone |= {span(node, lines)[1] for nodes in moves.values() for node in nodes}
    ends = {comments_below(classes[name].end_lineno, lines): name for name in moves}
    one_line = {classes[name].lineno: classes[name] for name in moves
                if classes[name].body[0].lineno == classes[name].lineno}
    for n, line in enumerate(lines, 1):
        if n in gone: continue
        yield from ((n, text) for text in (opened(one_line[n], line) if n in one_line else [line]))
        for node in moves.get(ends.get(n), []):
            yield from [(n, ""), *method(node, lines, fixed)]


def cells(numbered, fixed):
    "The cells of a module, each a list of lines, without those that are empty now."
    found = [[]]
    for n, line in numbered:
        if line.startswith(MARK) and n not in fixed: found.append([])
        found[-1].append(line)
    texts = ["\n".join(cell).strip("\n") for cell in found]
    return [text for text in texts if not (text.startswith(MARK) and "\n" not in text)]


def with_future(source):
    "The module with annotations that are not evaluated: methods may name classes that come later."
    tree = ast.parse(source)
    if any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body): return source
    head, mark, rest = source.partition("\n" + MARK)
    if mark and not ast.parse(head).body[1:]: return f"{head}\n{FUTURE}\n{mark}{rest}"
    at = tree.body[0].end_lineno if ast.get_docstring(tree) is not None else 0
    lines = source.split("\n")
    return "\n".join([*lines[:at], *[""][:at], FUTURE, "", *lines[at:]])


def without_patch(source):
    "The module without the import of `patch`, where nothing uses it any more."
    tree, lines = ast.parse(source), source.split("\n")
    if any(isinstance(n, ast.Name) and n.id == "patch" for n in ast.walk(tree)): return source
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("fastcore"): continue
        kept = [a for a in node.names if (a.asname or a.name) != "patch"]
        if kept == node.names: continue
        node.names = kept
        new = [ast.unparse(node)] if kept else []
        lines[node.lineno - 1:node.end_lineno] = new + [None] * (node.end_lineno - node.lineno + 1 - len(new))
    return "\n".join(line for line in lines if line is not None)


def fold(source):
    "The module with its patched functions in their classes, and what stays: (line, name, class, reason)."
    tree = ast.parse(source)
    moves, stays = placed(tree)
    if not moves: return source, stays
    fixed = inner_lines(source)
    text = "\n\n".join(cells(folded_lines(tree, source.split("\n"), moves, fixed), fixed)) + "\n"
    text = without_patch(with_future(text))
    return "\n\n".join(cells(enumerate(text.split("\n"), 1), inner_lines(text))) + "\n", stays


def modules(package):
    return sorted(p for p in package.rglob("*.py") if p.name != "_modidx.py")


def fold_package(package=ROOT / "cosee"):
    "Fold every module of a package in place; what stays, as (file, line, name, class, reason)."
    stayed = []
    for path in modules(package):
        source = path.read_text(encoding="utf-8")
        text, stays = fold(source)
        if text != source: path.write_text(text, encoding="utf-8")
        stayed += [(path, *stay) for stay in stays]
    return stayed


def main():
    stayed = fold_package()
    for path, line, name, cls, reason in stayed:
        print(f"{path.relative_to(ROOT)}:{line}: {name} of {cls} stays a patch: {reason}")
    counts = Counter(reason for *_, reason in stayed)
    sys.exit(0 if not counts else f"{sum(counts.values())} patches stay; everything else is folded.")


if __name__ == "__main__":
    main()
