"""Compare what is committed with what it is made from, without running any notebook: `make check`.

The package with the notebooks (stale modules too), the notebooks with their cleaned form, README.md with
nbs/index.ipynb, the sidebar with the notebooks there are.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import readme

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
# Machine paths have no place in an output: they differ from one machine to the next.
MACHINE_PATH = re.compile(r"(?<![\w./:<-])/(?:home|root|tmp|Users|private|var|opt|mnt)/[\w.-]+|" + re.escape(f"{ROOT}/"))


def notebooks(root):
    "Path and content of every notebook."
    paths = sorted(p for p in (root / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    return [(p.relative_to(root), json.loads(p.read_text(encoding="utf-8"))) for p in paths]


def copied(root, to):
    "A copy of what nbdev works on: settings and notebooks, no package."
    shutil.copy(root / "settings.ini", to)
    shutil.copytree(root / "nbs", to / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return to


def nbdev(command, root):
    "Run an nbdev command in `root`; it must not believe that it is inside a test."
    env = {k: v for k, v in os.environ.items() if k != "IN_TEST"}
    subprocess.run([BIN / command], cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)


def modules(root):
    return {p.relative_to(root): p.read_bytes() for p in (root / "cosee").rglob("*.py")}


def export_faults(root, copy):
    "Modules that differ from what the notebooks export, that are missing, or that no notebook owns."
    nbdev("nbdev_export", copy)
    here, fresh = modules(root), modules(copy)
    return ([f"{p}: no notebook exports it" for p in sorted(here.keys() - fresh.keys())]
            + [f"{p}: missing, call nbdev_export" for p in sorted(fresh.keys() - here.keys())]
            + [f"{p}: differs from its notebook, call nbdev_export" for p in sorted(here.keys() & fresh.keys())
               if here[p] != fresh[p]])


def clean_faults(root, copy):
    "Notebooks that nbdev_clean would change."
    nbdev("nbdev_clean", copy)
    return [f"{p}: not clean, call nbdev_clean" for p, _ in notebooks(root)
            if (root / p).read_bytes() != (copy / p).read_bytes()]


def output_faults(root):
    "Errors, widgets without a text form, and paths of a machine in stored outputs."
    faults = []
    for path, nb in notebooks(root):
        for n, cell in enumerate(nb["cells"]):
            for out in cell.get("outputs", []):
                where, text = f"{path}, cell {n}", json.dumps({k: v for k, v in out.get("data", out).items()
                                                                if not k.startswith("image/")})
                if out["output_type"] == "error": faults.append(f"{where}: stores an error")
                if "widget-view" in text: faults.append(f"{where}: stores a widget, which shows nothing on the site")
                if found := MACHINE_PATH.search(text): faults.append(f"{where}: shows a path of a machine, {found[0]}")
    return faults


def title_faults(root):
    "Title cells with more than title and subtitle: the site would drop the rest."
    first = ((path, "".join(nb["cells"][0]["source"])) for path, nb in notebooks(root))
    return [f"{path}: the first cell must be `# title` and `> subtitle`, nothing else" for path, text in first
            if not re.fullmatch(r"# [^\n]+\n+> [^\n]+\n*", text)]


def readme_faults(root):
    "Is README.md what nbs/index.ipynb gives?"
    path = root / "README.md"
    same = path.exists() and path.read_text(encoding="utf-8") == readme.readme(root)
    return [] if same else ["README.md: not what nbs/index.ipynb gives, call make readme"]


def leaves(node):
    "Every page that a part of sidebar.yml names."
    if isinstance(node, str): return [node]
    if isinstance(node, list): return [page for part in node for page in leaves(part)]
    return leaves([v for k, v in node.items() if k in ("contents", "href", "sidebar", "website")])


def sidebar_faults(root):
    "Notebooks that nbs/sidebar.yml does not name, and pages it names that are not there."
    named = leaves(yaml.safe_load((root / "nbs/sidebar.yml").read_text(encoding="utf-8")))
    there = {str(p.relative_to("nbs").as_posix()) for p, _ in notebooks(root)}
    return ([f"nbs/sidebar.yml: {p} is missing" for p in sorted(there - set(named))]
            + [f"nbs/sidebar.yml: {p} does not exist" for p in sorted(set(named) - there)]
            + [f"nbs/sidebar.yml: {p} stands there twice" for p in sorted({p for p in named if named.count(p) > 1})])


def distribution(requirement):
    "The name of the distribution that a requirement asks for, in the form in which names are compared."
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def faults(root=ROOT):
    "Everything that is not as it should be, one line each."
    with tempfile.TemporaryDirectory() as tmp:
        copy = copied(root, Path(tmp))
        found = export_faults(root, copy) + clean_faults(root, copy)
    return found + output_faults(root) + title_faults(root) + readme_faults(root) + sidebar_faults(root)


if __name__ == "__main__":
    if found := faults():
        sys.exit("\n".join(found))
    print("Package, notebooks, README and sidebar agree.")
