"The page of questions: its commands do what it says, and the search of the site finds it."
import json
import re
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import smalldocs
import yaml

from cosee.cli import entry
from cosee.cli.start import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "nbs/explain/questions.ipynb"
# What needs weights, a key or a server is read by the command line, and not run
READ_ALONE = re.compile(r"cosee models fetch \S|--client |--model-path |--base-url |--transcriber-path ")
ABSTAINS = 3


def sources(path):
    "The Markdown of a notebook, cell by cell."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]


def commands():
    "Every command of the page, in order."
    blocks = re.findall(r"^```sh\n(.*?)^```", "\n".join(sources(PAGE)), flags=re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


def drawn(path, pages):
    "A PDF of pages, each a list of lines with words at places of their own: [(x, text), ...]"
    from reportlab.pdfgen import canvas
    pdf = canvas.Canvas(str(path), pagesize=(595, 842), invariant=1)
    for lines in pages:
        pdf.setFont("Helvetica", 14)
        for i, line in enumerate(lines):
            for x, text in line: pdf.drawString(x, 760 - 28 * i, text)
        pdf.showPage()
    pdf.save()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "The files that the page speaks of"
    at = tmp_path_factory.mktemp("questions")
    drawn(at / "invoice.pdf", [[[(72, "Description"), (250, "Unit price"), (400, "Amount")],
                                [(72, "Paper"), (250, "4.50 EUR"), (400, "45.00 EUR")],
                                [(72, "Ink"), (250, "20.00 EUR"), (400, "40.00 EUR")],
                                [(72, "Total due: 85.00 EUR")]]])
    drawn(at / "report.pdf", [[[(72, "Contractor: Kestrel Foods")]], [[(72, "Client: Oakfield Mills")]],
                                 [[(72, "Date: 4 May 2026")]]])
    (at / "questions.csv").write_text("file,question,answer,page\n"
                                      "invoice.pdf,What is the total due?,85.00 EUR,1\n"
                                      "report.pdf,Who is the contractor?,Kestrel Foods,1\n")
    (at / "study.yaml").write_text("name: study\ndataset: {name: folder, root: questions.csv}\n"
                                   "methods: [direct, cosee_light]\n")
    return at


def interrupt(run):
    "What a power cut leaves: the last answer is missing, and half of a line is there."
    records = run / "records.jsonl"
    *kept, last = records.read_text().splitlines()
    records.write_text("\n".join([*kept, last[:40]]))


def test_every_command_of_the_page_works(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COSEE_CACHE", str(folder / "cache"))
    monkeypatch.setenv("COSEE_MODELS", str(folder / "models"))
    said = {}
    for command in commands():
        if not command.startswith("cosee "): continue
        argv = shlex.split(command)[1:]
        entry._parse(argv)
        if READ_ALONE.search(command): continue
        if command == "cosee run runs/study": interrupt(folder / "runs/study")
        code = main(argv)
        said[command] = capsys.readouterr().out
        assert code == (ABSTAINS if "captain" in command else 0), command
    answers = {c: json.loads(out) for c, out in said.items() if "--json" in c}
    assert answers['cosee ask invoice.pdf -q "Who is the captain?" --json'][0]["answer"] is None
    both, = answers['cosee ask report.pdf invoice.pdf -q "What is the total due?" --json']
    assert (both["answer"], both["page"], both["file"], both["file_page"]) == ("85.00 EUR", 4, "invoice.pdf", 1)
    assert "4.50 EUR" in said['cosee ask invoice.pdf -q "What is the unit price of paper?"']
    assert "4 of 4 answers" in said["cosee run runs/study"]
    assert "4 of 4" in said["cosee report runs/study --format status"]
    assert (folder / "site/index.html").is_file() and (folder / "answer.html").is_file()
    assert "removed" in said["cosee models cache --clear"]


# --- search ---

NODE = shutil.which("node")
FUSE = Path(smalldocs.__file__).parent / "assets/vendor/fuse/fuse.min.js"
RANK = """
const Fuse = require(process.argv[1]), [entries, queries] = JSON.parse(require('fs').readFileSync(0))
const fuse = new Fuse(entries, {keys: [{name: 'title', weight: 2}, {name: 'section', weight: 2}, {name: 'text'}],
                                ignoreLocation: true, threshold: 0.3, minMatchCharLength: 2})
console.log(JSON.stringify(queries.map(q => fuse.search(q, {limit: 2}).map(hit => hit.item))))
"""


def exported(nb):
    "The public functions and classes that a page has entries for."
    cells = ["".join(c["source"]) for c in nb["cells"] if c["cell_type"] == "code"]
    return [(name, cell) for cell in cells if re.match(r"#\|\s*export\s*\n", cell)
            for name in re.findall(r"^(?:class|def) ([^\W_]\w*)", cell, flags=re.M)]


def entries():
    "What the search of the site looks through: a page's text, section by section, and its names."
    for path in sorted((ROOT / "nbs").rglob("*.ipynb")):
        head, *parts = re.split(r"^#{1,4} +", "\n".join(sources(path)), flags=re.M)[1:]
        title, _, text = head.partition("\n")
        yield dict(title=title, section="", text=text)
        found = [part.partition("\n")[::2] for part in parts] + exported(json.loads(path.read_text(encoding="utf-8")))
        yield from (dict(title=title, section=name, text=text) for name, text in found)


ASKED = {"resume an interrupted run": "Resume an interrupted run", "how long does it take": "How long does it take?",
         "interrupted": "Resume an interrupted run", "how much disk": "How much disk does it take?",
         "what does it cost": "What does it cost?", "delete cache": "Delete caches and everything that is kept",
         "which model": "Which model should I take?", "answer is null": "Why is the answer null?",
         "several processes": "Use several processes or GPUs", "page in the file": "Get the page in the file",
         "does anything leave my machine": "Does anything leave my machine?", "cite": "How do I cite it?",
         "windows": "Windows and macOS", "handwriting": "Handwriting", "long documents": "Long documents",
         "languages": "Which languages?", "GPU": "Do I need a GPU?", "export to csv": "Export to CSV",
         "use my own model": "Use my own model", "use Ollama": "Ollama", "LM Studio": "LM Studio"}


@pytest.mark.skipif(NODE is None, reason="no Node on this machine")
def test_search_finds_the_page_first_or_second():
    "By the library that ranks on the site, with its settings"
    found = subprocess.run([NODE, "-e", RANK, str(FUSE)], input=json.dumps([list(entries()), list(ASKED)]), text=True,
                           capture_output=True, check=True)
    best = dict(zip(ASKED, json.loads(found.stdout), strict=True))
    assert {q: s for q, s in ASKED.items() if s not in [hit["section"] for hit in best[q]]} == {}


def test_the_ranking_here_is_that_of_the_site():
    script = (FUSE.parent.parent.parent / "smalldocs.js").read_text(encoding="utf-8")
    for setting in ("ignoreLocation: true", "threshold: 0.3", "minMatchCharLength: 2", 'name: "section", weight: 2'):
        assert setting in script


def test_how_to_cite_agrees_with_the_settings():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    settings = ConfigParser(inline_comment_prefixes=("#",))
    settings.read(ROOT / "settings.ini", encoding="utf-8")
    told = settings["DEFAULT"]
    assert cited["repository-code"] == told["git_url"]
    assert cited["authors"] == [{"name": told["author"]}]
    assert told["git_url"] in "".join(sources(PAGE)) and told["author"] in "".join(sources(PAGE))
