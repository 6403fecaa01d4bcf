"""README.md from nbs/index.ipynb; `make sync` writes it.

Text and code become Markdown as they are, outputs a text block below their cell. Links to notebooks and
pictures, relative to nbs/ in the notebook, are made relative to the README.
"""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "<!-- Made from nbs/index.ipynb by tools/sync.py: edit the notebook, then call make sync. -->\n\n"
LINK = re.compile(r"""(\]\(|\b(?:src|href)=["'])(?!https?:|mailto:|#|/)([^)"'\s]+)""")


def relink(text):
    "The links of a notebook in nbs/, seen from the folder above."
    return LINK.sub(lambda m: m[1] + (m[2][3:] if m[2].startswith("../") else "nbs/" + m[2]), text)


def joined(text):
    return text if isinstance(text, str) else "".join(text)


def output(out):
    "Markdown for one stored output; a picture belongs into nbs/images/, so it is refused."
    data = out.get("data", {})
    if "text/markdown" in data:
        return joined(data["text/markdown"]).strip()
    if any(kind.startswith("image/") for kind in data):
        raise ValueError("nbs/index.ipynb: a cell shows a picture; save it in nbs/images/ and link it")
    text = joined(data.get("text/plain", out.get("text", "")))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def cell(c):
    "Markdown for one cell: nothing where `hide` is set, the source without its directives otherwise."
    source = joined(c["source"])
    if c["cell_type"] == "markdown":
        return [relink(source.strip())]
    directives = {line[2:].strip() for line in source.splitlines() if line.startswith("#|")}
    if c["cell_type"] != "code" or directives & {"hide", "include: false"}:
        return []
    code = "\n".join(line for line in source.splitlines() if not line.startswith("#|")).strip()
    shown = [f"```python\n{code}\n```"] if code and "echo: false" not in directives else []
    return shown + [text for out in c["outputs"] if (text := output(out))]


def readme(root=ROOT):
    "The text of README.md."
    nb = json.loads((root / "nbs/index.ipynb").read_text(encoding="utf-8"))
    return NOTICE + "\n\n".join(part for c in nb["cells"] for part in cell(c) if part) + "\n"

