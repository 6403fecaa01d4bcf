"""Build the documentation site into _docs/ and check every link and anchor in it; no Quarto needed.

nbdev prepares the notebooks in a temporary folder (signatures, links of names in backticks), smalldocs
renders them. A page loads nothing from the network: fonts that a theme asks for there are taken out, and what is
left is a fault. `python tools/docs.py --check` only checks the site that is there.
"""
import ast
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from stages import Stages, hushed

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_docs"
ELSEWHERE = r"""["']?(?:https?:)?//"""
NETWORK = re.compile(rf"""@import\s+(?:url\({ELSEWHERE}[^)]*\)|{ELSEWHERE}[^"']*["'])[^;]*;|url\({ELSEWHERE}[^)]*\)""")
NOTEBOOK_LINK = re.compile(r"(\]\(|href=[\"'])([^)\"'\s:#]+(?:\.ipynb|CHANGELOG\.md))")
INNER_LINK = re.compile(r"\[([^\[\]\n]*)\[(`[^`]+`)\]\([^)\s]+\)([^\[\]\n]*)\]\(")   # nbdev links a name in a link
CHANGES = "changelog.ipynb"   # the page that is made of CHANGELOG.md


def types_told(source):
    """The source with what it imports for types alone: a class of that name stands for each, because the page of a
    function shows what its annotations say, and nobody waits for PyTorch to be told that something is a Tensor."""
    def told(m):
        body = ast.parse(m[0].replace("TYPE_CHECKING", "True")).body[0].body
        names = [(n, a, a.asname or a.name) for n in body for a in n.names]
        return "\n".join(f"{name} = type({name!r}, (), {{}})" if isinstance(n, ast.ImportFrom)
                         else ast.unparse(ast.Import([a])) for n, a, name in names)
    return re.sub(r"^if TYPE_CHECKING:(?: .*| *(?:\n[ \t]+.*)+)", told, source, flags=re.M)


def imports_alone(cells):
    """The cells as the site may run them: nbdev runs what is exported and every cell with an import in it, so a
    cell that imports and does more is not run, and its imports go into a hidden cell before it."""
    for cell in cells:
        source = types_told(joined(cell["source"]))
        cell = {**cell, "source": source}
        kept = re.search(r"^#\|\s*(export|exec_doc)|^show_doc", source, flags=re.M)
        try:
            body = ast.parse(source).body if cell["cell_type"] == "code" and not kept else []
        except SyntaxError:  # a magic, or a top-level await
            body = []
        lines = [ast.unparse(node) for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
        if len(lines) < len(body) and re.search(r"^\s*(import|from) ", source, flags=re.M):
            yield {**cell, "id": cell["id"] + "i", "source": "\n".join(["#| hide", *lines]), "outputs": []}
            cell = {**cell, "source": "#| eval: false\n" + source}
        yield cell


def classes_known(cells):
    """A hidden cell that imports the classes of a notebook from their modules: the page of a class may name one that
    its notebook writes further down."""
    sources = [joined(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    own = next((m[1] for s in sources if (m := re.match(r"#\|\s*default_exp\s+(\S+)", s))), None)
    found = {}
    for source in sources:
        target = re.match(r"#\|\s*exports?i?(?:[ \t]+(\S+))?", source)   # a notebook may add to another's module
        module = target and (target[1] or own)
        if module: found.setdefault(module, []).extend(re.findall(r"^class (\w+)", source, flags=re.M))
    lines = [f"from cosee.{module} import {', '.join(names)}" for module, names in found.items() if names]
    if not lines: return []
    told = "\n".join(["#| hide", *lines])
    return [dict(cell_type="code", id="classes", metadata={}, execution_count=None, outputs=[], source=told)]


def changelog(text):
    "The notebook of a page that shows CHANGELOG.md, whose links begin at the repository."
    head, _, rest = text.replace("](ARCHITECTURE.md)", "](nbs/explain/architecture.ipynb)").partition("\n## ")
    title, _, told = head.partition("\n")
    sources = [f"{title}\n\n> What users notice, version by version.", told.strip(), f"## {rest}"]
    cells = [dict(cell_type="markdown", id=f"changes{n}", metadata={}, source=s.replace("](nbs/", "]("))
             for n, s in enumerate(sources)]
    return dict(cells=cells, metadata={}, nbformat=4, nbformat_minor=5)


def add_changelog(nbs):
    "Put the page of changes into the copied notebooks, and into the sidebar as its last line."
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (nbs / CHANGES).write_text(json.dumps(changelog(text)), encoding="utf-8")
    with (nbs / "sidebar.yml").open("a", encoding="utf-8") as out: out.write(f"        - {CHANGES}\n")


def staged(folder, stages):
    "The notebooks as nbdev prepares them for the site, under `folder`."
    from nbdev.quarto import refresh_quarto_yml
    from nbdev.serve import proc_nbs
    settings = (ROOT / "settings.ini").read_text(encoding="utf-8")
    (folder / "settings.ini").write_text(settings.rstrip() + "\nrenderer = site_fields.Renderer\n", encoding="utf-8")
    shutil.copytree(ROOT / "nbs", folder / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    for path in (folder / "nbs").rglob("*.ipynb"):
        nb = json.loads(path.read_text(encoding="utf-8"))
        cells = [*nb["cells"][:1], *classes_known(nb["cells"]), *imports_alone(nb["cells"][1:])]
        path.write_text(json.dumps({**nb, "cells": cells}), encoding="utf-8")
    add_changelog(folder / "nbs")
    os.chdir(folder)
    # For the processes that run the imports of the notebooks: this package, and no warnings about them
    sys.path.insert(0, str(ROOT))
    os.environ |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}", "PYTHONWARNINGS": "ignore"}
    refresh_quarto_yml()
    tree = folder / "_proc"
    count = len(list((folder / "nbs").rglob("*.ipynb")))
    try:
        with stages.stage(f"prepare {count} notebooks", count, lambda: len(list(tree.rglob("*.ipynb")))), hushed():
            return proc_nbs(force=True, n_workers=min(2, os.cpu_count() or 1))
    except Exception as e:
        sys.exit(f"{e}\n\nThe site is built by running what is exported, and imports: this is one of them.")


def joined(text):
    return text if isinstance(text, str) else "".join(text)


def texts(cell):
    "The parts of a cell that may hold links: (holder, key) pairs."
    if cell["cell_type"] == "markdown":
        yield cell, "source"
    for out in cell.get("outputs", []):
        yield from ((out["data"], kind) for kind in ("text/markdown", "text/html") if kind in out.get("data", {}))


def page_name(nb, path):
    "The name that nbdev gives the page: 01_board.ipynb becomes board.ipynb; taken out of the front matter."
    front = yaml.safe_load(joined(nb["cells"][0]["source"]).strip().strip("-"))
    name = front.pop("output-file")
    nb["cells"][0]["source"] = f"---\n{yaml.safe_dump(front)}---\n"
    return path.with_name(name).with_suffix(".ipynb")


def anchors(nb):
    "The names that `show_doc` puts as headings on a page, as in the links of nbdev."
    shown = (joined(holder[key]) for cell in nb["cells"] for holder, key in texts(cell))
    # A heading's id begins at its first letter, so a name with an underscore in front cannot be reached.
    return {name.lower() for text in shown for name in re.findall(r"^### ([^\W_][\w.]*)\s*$", text, flags=re.M)}


def relink(text, at, names, known, home):
    "Links of a page `at`: notebooks by their page names; names of the package, where a page shows them, relative."
    def notebook(m):
        target = posixpath.normpath(posixpath.join(at.parent.as_posix(), m[2]))
        return m[1] + (posixpath.relpath(names[target], at.parent) if target in names else m[2])

    def shown(m):
        return m[0] if m[3] in known.get(m[2], ()) else m[1]

    def relative(m):
        return posixpath.relpath(m[1], at.parent)
    page = re.escape(home) + r"/([\w./-]+\.html)"
    text = re.sub(r"\[(`[^`]+`)\]\(" + page + r"#([\w.-]+)\)", shown, NOTEBOOK_LINK.sub(notebook, text))
    return re.sub(page, relative, text)


def mended(text):
    "Markdown of nbdev where it shows wrongly: links inside links and code, names like `__str__` in headings."
    text = INNER_LINK.sub(r"[\1\2\3](", text)
    text = re.sub(r"^```.*?^```", lambda m: re.sub(r"\[(`[^`]+`)\]\([^)]+\)", r"\1", m[0]), text, flags=re.M | re.S)
    return re.sub(r"^### [\w.]+$", lambda m: m[0].replace("_", r"\_"), text, flags=re.M)


def rename(tree):
    "Give the staged pages their own names, and let every link and the sidebar follow."
    from nbdev.config import get_config
    home = get_config().doc_host + get_config().doc_baseurl
    pages = {p.relative_to(tree): json.loads(p.read_text(encoding="utf-8")) for p in sorted(tree.rglob("*.ipynb"))}
    names = {p.as_posix(): page_name(nb, p).as_posix() for p, nb in pages.items()}
    names["../CHANGELOG.md"] = names[CHANGES]
    known = {names[p.as_posix()].replace(".ipynb", ".html"): anchors(nb) for p, nb in pages.items()}
    for path, nb in pages.items():
        for cell in nb["cells"]:
            for holder, key in texts(cell):
                holder[key] = relink(mended(joined(holder[key])), path, names, known, home)
        (tree / path).unlink()
        (tree / names[path.as_posix()]).write_text(json.dumps(nb), encoding="utf-8")
    for config in (tree / "_quarto.yml", tree / "sidebar.yml"):
        text = config.read_text(encoding="utf-8")
        config.write_text(re.sub(r"[\w/.-]+\.ipynb", lambda m: names.get(m[0], m[0]), text), encoding="utf-8")


def smalldocs(*args):
    run = subprocess.run([sys.executable, "-c", "from smalldocs.cli import main; raise SystemExit(main())", *args],
                         capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"smalldocs {args[0]} failed:\n{run.stdout}{run.stderr}")


def offline(site):
    "Take out of style sheets what they would load from the network; the fonts of the machine stand in."
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        if (alone := NETWORK.sub("", text)) != text: path.write_text(alone, encoding="utf-8")


def build():
    "Render the site into _docs/."
    stages = Stages(4)
    with tempfile.TemporaryDirectory() as tmp:
        tree = staged(Path(tmp).resolve(), stages)
        with stages.stage("join pages and names by links"):
            rename(tree)
        count = len(list(tree.rglob("*.ipynb")))
        with stages.stage(f"render {count} pages", count, lambda: len(list((tree / "_docs").rglob("*.html")))):
            smalldocs("render", "--strict", "--quiet", str(tree))
        with stages.stage("check every link"):
            smalldocs("check", str(tree))
            offline(tree / "_docs")
        os.chdir(ROOT)
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.copytree(tree / "_docs", SITE)


BROKEN_LINK = re.compile(r"\]\([\w./]+\.(?:ipynb|html|md)")
QUOTES = ("code", "pre", "script", "style")   # what may show Markdown as it is written
LOADING = ("href", "src", "srcset", "poster", "data")   # what a browser fetches unasked, but for links of `a`


class Page(HTMLParser):
    "The ids of a page, its links, what it loads, and text that was meant to be a link."

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.broken, self.quotes = set(), [], [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        self.links += [attrs[k] for k in ("href", "src") if attrs.get(k)]
        self.quotes += tag in QUOTES
        if tag != "a": self.loads += [attrs[k] for k in LOADING if attrs.get(k)]

    def handle_endtag(self, tag):
        self.quotes -= tag in QUOTES

    def handle_data(self, data):
        if BROKEN_LINK.search(data) and not self.quotes: self.broken.append(data.strip())


def link_faults(site=SITE):
    "Links inside the site that lead to no file or to no such place in a page, or show as Markdown."
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in sorted(site.rglob("*.html"))}
    faults = []
    for path, page in pages.items():
        faults += [f"{path.relative_to(site)}: no link but text, {text[:60]}" for text in page.broken]
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc: continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if target.is_dir(): target = target / "index.html"
            anchor = unquote(url.fragment)
            if not target.is_file(): faults.append(f"{path.relative_to(site)}: no such file, {link}")
            elif anchor and target in pages and anchor not in pages[target].ids:
                faults.append(f"{path.relative_to(site)}: no such place, {link}")
    return faults if pages else [f"{site.name}: no page"]


def network_faults(site=SITE):
    "What pages and style sheets of the site would load from somewhere else."
    pages = [(p, Page(p.read_text(encoding="utf-8")).loads) for p in sorted(site.rglob("*.html"))]
    sheets = [(p, NETWORK.findall(p.read_text(encoding="utf-8"))) for p in sorted(site.rglob("*.css"))]
    loaded = [(p, link) for p, links in pages for link in links if urlsplit(link).netloc] + \
             [(p, rule) for p, rules in sheets for rule in rules]
    return [f"{p.relative_to(site)}: loads from the network, {what}" for p, what in loaded]


def main():
    if "--check" not in sys.argv:
        build()
    if faults := link_faults() + network_faults():
        sys.exit("\n".join(faults))
    print(f"{len(list(SITE.rglob('*.html')))} pages in _docs/, every link and anchor leads somewhere, and nothing is"
          " loaded from the network. Open _docs/index.html.")


if __name__ == "__main__":
    main()
