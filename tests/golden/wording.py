"""The golden calls in a house whose prompts all say something else: their structure is the same.

    python tests/golden/wording.py FOLDER WHO ...   prints a line of JSON for each call

Every constant of the package that is called *_PROMPT has its words turned round before the module runs.
"""
import ast
import importlib.abc
import importlib.machinery
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHANGED = []   # names of the constants, with their modules


def turned_round(text):
    "The same text in other words; what stands in braces is filled in later, and stays."
    return re.sub(r"\{[^{}]*\}|[A-Za-z]{3,}", lambda m: m[0] if m[0][0] == "{" else m[0][::-1], text)


class Changer(ast.NodeTransformer):
    "Puts `turned_round` around what is given to a constant that is a prompt."
    def __init__(self, module):
        self.module = module

    def visit_Assign(self, node):
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        if any(name.endswith("_PROMPT") for name in names):
            CHANGED.extend(f"{self.module}.{name}" for name in names)
            change = ast.parse("__import__('wording').turned_round", mode="eval").body
            node.value = ast.Call(func=change, args=[node.value], keywords=[])
        return node


class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, *, _optimize=-1):
        tree = Changer(self.name).visit(ast.parse(data))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def get_code(self, fullname):   # not from compiled files, which hold the usual words
        return self.source_to_code(self.get_data(self.path), self.path)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] != "cosee":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(name, spec.loader.path)
        return spec


def structure(sent):
    "What is sent without its words: turns and their blocks, pictures, the form of the reply, settings."
    if isinstance(sent, dict):
        return {k: structure(v) for k, v in sent.items()}
    if isinstance(sent, list):
        return [structure(v) for v in sent]
    if not isinstance(sent, str):
        return sent
    template = re.findall(r"<\|im_start\|>\w+|Page \d+:|<\|vision_start\|>", sent)
    return template or (sent if sent.startswith("picture of") or " " not in sent else "words")


def main():
    sys.modules["wording"] = sys.modules["__main__"]
    sys.meta_path.insert(0, Finder())
    sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
    from golden import calls
    folder, *names = sys.argv[1:]
    for who in names:
        for row in calls.calls_of(who, Path(folder)):
            print(json.dumps({**row, "sent": structure(row["sent"])}))
    print(json.dumps(CHANGED))


if __name__ == "__main__":
    main()
