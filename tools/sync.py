"""Make everything that is made from the notebooks, without running them: `make sync`.

Title cells hold title and subtitle alone, notebooks are clean, cosee/ is exported and its methods stand in their
classes, nbs/sidebar.yml names every notebook, README.md is the index.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

import architecture
import faces
import fold
import readme

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
# The sections of the sidebar: which notebooks stand there, by the start of their path in nbs/.
# A notebook stands in the first section that fits, so what is left comes last.
SECTIONS = [
    ("Tutorials", ("tutorials/",)),
    ("The book, from model to experiment", tuple("0123456789")),
    ("Text, files and pages", ("core/",)),
    ("Files of strangers, opened apart", ("sandbox/",)),
    ("Models and their providers", ("models/",)),
    ("Any vision model from a folder", ("local/",)),
    ("Qwen3-VL from a folder", ("qwen/",)),
    ("Reading printed text", ("ocr/",)),
    ("Parts of a page", ("layout/",)),
    ("The text that a PDF carries", ("layer/",)),
    ("Pages that a model writes down", ("transcripts/",)),
    ("Finding pages in long documents", ("index/",)),
    ("Language models that read printed text", ("minds/",)),
    ("Fields instead of questions", ("fields/",)),
    ("Looking at episodes", ("view/",)),
    ("Data sets", ("data/",)),
    ("Synthetic documents with known answers", ("made/",)),
    ("Scores, statistics and methods", ("eval/",)),
    ("Teams with rules of their own, and gates", ("rules/",)),
    ("Runs, reports and the viewer", ("runs/",)),
    ("Studies of what methods are worth", ("study/",)),
    ("Fields from many documents", ("extraction/",)),
    ("Text memory and tools", ("tools/",)),
    ("Screens and computer use", ("screen/",)),
    ("Plans and image quality", ("planner/",)),
    ("A tiny model, trained at home", ("tiny/",)),
    ("Doors for people and programs", ("doors/",)),
    ("The page in the browser", ("app/",)),
    ("The command line", ("cli/",)),
    ("What is imported as cosee", ("package/",)),
    ("How it works and what it costs", ("explain/",)),
    ("More", ("",)),
]


def notebooks(root=ROOT):
    "Every notebook, in reading order."
    found = (p for p in (root / "nbs").rglob("*.ipynb") if p.parent.name != ".ipynb_checkpoints")
    return sorted(found, key=lambda p: p.relative_to(root / "nbs").as_posix())


# Tutorials in the order in which they are read; one that is not named comes last.
TUTORIALS = ["first_episode", "app", "real_documents", "fields", "long_report", "compare_methods", "your_own",
             "any_model", "serve", "assistants", "tiny_model", "mpdocvqa", "text_memory_and_tools", "screens"]

# Pages that stand above all sections
FIRST = ["index.ipynb", "explain/questions.ipynb"]


def reading_order(name):
    "Where a notebook stands in its section."
    stem = name.removeprefix("tutorials/").removesuffix(".ipynb")
    return TUTORIALS.index(stem) if stem in TUTORIALS else len(TUTORIALS), name


def sidebar(root=ROOT):
    "The text of nbs/sidebar.yml."
    names = [p.relative_to(root / "nbs").as_posix() for p in notebooks(root)]
    lines = ["# Made by tools/sync.py: make sync", "website:", "  sidebar:", "    contents:",
             *(f"      - {name}" for name in FIRST)]
    names = [name for name in names if name not in FIRST]
    for title, starts in SECTIONS:
        if inside := [name for name in names if name.startswith(starts)]:
            lines += [f"      - section: {title}", "        contents:", 
                      *(f"          - {name}" for name in sorted(inside, key=reading_order))]
            names = [name for name in names if name not in inside]
    return "\n".join(lines) + "\n"


def title_end(cell):
    "How many lines of the first cell are title and subtitle; None where there is nothing else."
    lines = cell["source"]
    return next((n for n, line in enumerate(lines) if line.strip() and line[:2] not in ("# ", "> ")), None)


def split_title(path):
    "Put what follows title and subtitle into a cell of its own: the site drops it where it stands."
    nb = json.loads(path.read_text(encoding="utf-8"))
    first = nb["cells"][0]
    if (end := title_end(first)) is None: return
    rest, first["source"] = first["source"][end:], "".join(first["source"][:end]).strip().splitlines(keepends=True)
    nb["cells"].insert(1, {"cell_type": "markdown", "id": first["id"] + "b", "metadata": {}, "source": rest})
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def nbdev(command, root):
    "Run an nbdev command in `root`; it must not believe that it is inside a test."
    env = {k: v for k, v in os.environ.items() if k != "IN_TEST"}
    subprocess.run([BIN / command], cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)


def export(root=ROOT):
    "Make cosee/ from the notebooks: nbdev exports it, `fold` puts patched methods into their classes."
    nbdev("nbdev_export", root)
    fold.fold_package(root / "cosee")
    faces.write(root / "cosee")


def sync(root=ROOT):
    for path in notebooks(root):
        split_title(path)
    nbdev("nbdev_clean", root)
    export(root)
    (root / "nbs/sidebar.yml").write_text(sidebar(root), encoding="utf-8")
    (root / "README.md").write_text(readme.readme(root), encoding="utf-8")
    architecture.write(root)


if __name__ == "__main__":
    sync()
