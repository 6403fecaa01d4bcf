"""Compare what is committed with what it is made from, without running any notebook: `make check`.

The package with the notebooks (stale modules too), the notebooks with their cleaned form, README.md and the
sidebar with what `make sync` would write.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import faces
import fold
import readme
import sync

ROOT = sync.ROOT
# Machine paths have no place in an output: they differ from one machine to the next.
MACHINE_PATH = re.compile(r"(?<![\w./:<-])/(?:home|root|tmp|Users|private|var|opt|mnt)/[\w.-]+|"
                          + re.escape(f"{ROOT}/"))
MEASURE = "import time; t = time.perf_counter(); import cosee; print(time.perf_counter() - t)"


def notebooks(root):
    "Path and content of every notebook."
    return [(p.relative_to(root), json.loads(p.read_text(encoding="utf-8"))) for p in sync.notebooks(root)]


def copied(root, to):
    "A copy of what nbdev works on: settings and notebooks, no package."
    shutil.copy(root / "settings.ini", to)
    shutil.copytree(root / "nbs", to / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return to


def modules(root):
    return {p.relative_to(root): p.read_bytes() for p in (root / "cosee").rglob("*.py*")
            if p.suffix in (".py", ".pyi")}


def export_faults(root, copy):
    "Modules that are not what `sync.export` makes: stale, unfolded, missing, or owned by no notebook."
    sync.nbdev("nbdev_export", copy)
    here, bare = modules(root), modules(copy)
    fold.fold_package(copy / "cosee")
    faces.write(copy / "cosee")
    fresh = modules(copy)
    return ([f"{p}: no notebook exports it" for p in sorted(here.keys() - fresh.keys())]
            + [f"{p}: missing" for p in sorted(fresh.keys() - here.keys())]
            + [f"{p}: {'is not folded' if here[p] == bare[p] else 'differs from its notebook'}"
               for p in sorted(here.keys() & fresh.keys()) if here[p] != fresh[p]])


def clean_faults(root, copy):
    "Notebooks that nbdev_clean would change."
    sync.nbdev("nbdev_clean", copy)
    return [f"{p}: not clean" for p, _ in notebooks(root) if (root / p).read_bytes() != (copy / p).read_bytes()]


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
    "First cells that are no title and subtitle, or hold more: the site would drop the rest."
    return [f"{path}: the first cell must be `# title` and `> subtitle` alone" for path, nb in notebooks(root)
            if not re.fullmatch(r"# [^\n]+\n+> [^\n]+\n*", "".join(nb["cells"][0]["source"]))]


def page_faults(root):
    "Notebooks whose pages would have one name: nbdev leaves out the number in front."
    pages = {}
    for path, _ in notebooks(root):
        pages.setdefault(path.with_name(re.sub(r"^\d+[a-zA-Z0-9]*_", "", path.name.lower())), []).append(str(path))
    return [f"{' and '.join(paths)}: have the same page, {page.stem}.html"
            for page, paths in pages.items() if len(paths) > 1]


def made_faults(root):
    "README.md and sidebar where they are not what the notebooks give."
    made = {"README.md": readme.readme(root), "nbs/sidebar.yml": sync.sidebar(root)}
    return [f"{name}: not what the notebooks give" for name, text in made.items()
            if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text]


def readme_link_faults(root):
    "Files that README.md links to and that are not there."
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (root / "README.md").read_text(encoding="utf-8"))
    return [f"README.md: no such file, {link}" for link in links if "://" not in link and not (root / link).exists()]


def distribution(requirement):
    "The name of the distribution that a requirement asks for, in the form in which names are compared."
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def faults(root=ROOT):
    "Everything that is not as it should be, one line each."
    with tempfile.TemporaryDirectory() as tmp:
        copy = copied(root, Path(tmp))
        found = export_faults(root, copy) + clean_faults(root, copy)
    others = (output_faults, title_faults, page_faults, made_faults, readme_link_faults)
    return found + [fault for faults_of in others for fault in faults_of(root)]


def main():
    if found := faults():
        sys.exit("\n".join([*found, "Call make sync, and look at what it changes."]))
    print("Package, notebooks, README and sidebar agree.")
    best = min(float(subprocess.check_output([sys.executable, "-c", MEASURE], cwd=ROOT)) for _ in range(3))
    print(f"import cosee takes {best:.3f} s (best of 3; aim: below 0.5 s).")


if __name__ == "__main__":
    main()
