"""Take the pictures of pages that the documentation shows, so that they are current; about five minutes.

  python tools/screenshots.py                    all of them, and the pages that they are of
  python tools/screenshots.py widget-lab.webp    one or more
  python tools/screenshots.py --run FOLDER       a run that is there already, for those of report and viewer

Everything is asked, run and opened as a reader would: with `cosee ask`, `cosee run`, and in JupyterLab. Needs
Chromium; `widget-fallback.webp` is of the site, which `make docs` builds.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from chromium import CHROMIUM, Browser
from lab import IDLE, RUN_ALL, Lab, cell_ready

from cosee.models.client import ask_many
from cosee.models.wrappers import ClientWrapper

ROOT = Path(__file__).resolve().parent.parent
IMAGES, EPISODES, SAMPLES = ROOT / "nbs/images", ROOT / "nbs/episodes", ROOT / "cosee/samples"
ASKED = {"invoice": ["How much is the subtotal?"],
         "report": ["How many people does Facilities look for?", "Who is the head of Bamboo?",
                    "What is the name of the auditor?"]}
RUN = ["run", "configs/equal_tokens.yaml", "--limit", "24", "--method", "direct,chat,cosee_base,cosee_tools",
       "--set", "trace=true", "--output-dir"]
LIVE = ["from cosee import CoSeeController, OcrClient, follow, load_pages, samples_dir, team\n"
        "from cosee.view.widget import explore_board",
        "pages = load_pages(samples_dir() / 'report.pdf', dpi=100)\n"
        "watched = follow(CoSeeController(team(OcrClient())), pages, 'How many people does Facilities look for?',\n"
        "                 height=520)\nwatched",
        "explore_board(watched.result()['board'])"]


def cosee(*argv):
    code = "import sys; from cosee.cli.start import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", code, *map(str, argv)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def ask(name):
    "The page of a sample's questions, written anew"
    questions = [part for question in ASKED[name] for part in ("-q", question)]
    cosee("ask", SAMPLES / f"{name}.pdf", *questions, "--html", EPISODES / f"{name}.html", "--quiet")
    return EPISODES / f"{name}.html"


def notebook(path, cells):
    cells = [{"cell_type": "code", "id": f"c{i}", "source": source, "metadata": {}, "outputs": [],
              "execution_count": None} for i, source in enumerate(cells)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel},
                                "cells": cells}))


class Shots:
    "The pictures by name"
    def __init__(self, browser, work, run):
        self.browser, self.work, self.run, self.kept, self.asked = browser, work, run, set(), {}

    def keep(self, name, **how):
        if name in self.kept: raise ValueError(f"{name} is taken twice")
        self.kept.add(name)
        image = self.browser.picture()
        if "crop" in how: image = image.crop(how["crop"])
        image.save(IMAGES / name, **({"quality": 80} if name.endswith(".webp") else {"optimize": True}))
        print(name, *image.size, flush=True)

    def page(self, name):
        if name not in self.asked: self.asked[name] = ask(name)
        return self.asked[name]

    def answer(self):
        self.browser.open(self.page("invoice"), width=1240, height=1130)
        self.keep("answer.png")

    def episode(self):
        for name, dark in (("light", False), ("dark", True)):
            self.browser.open(self.page("report"), width=1240, height=900, dark=dark)
            self.keep(f"episode-{name}.webp")
        self.browser.open(self.page("report"), width=390, height=844)
        self.keep("episode-phone.webp")
        self.browser.open(self.page("report"), width=1240, height=800)
        self.browser.js("document.querySelector('#q1 figure .mark').closest('.sheet, figure').parentElement"
                        ".querySelector('.enlarge').click()")
        self.browser.wait("document.querySelector('.zoom').open && !!document.querySelector('.stage svg')")
        self.keep("episode-page.webp")

    def runs(self):
        from cosee.runs.viewer import Viewer
        from cosee.server.serve import running
        from cosee.server.viewer import create_viewer_app
        if not self.run: cosee(*RUN, self.work / "compare_made")
        self.run = self.run or self.work / "compare_made"
        cosee("report", self.run)
        self.browser.open((self.run / "report.html").resolve(), width=1280, height=1150)
        self.keep("report.png")
        with running(create_viewer_app(Viewer([self.run]))) as url: self.viewer(url)

    def viewer(self, url):
        rows = "document.querySelectorAll('#rows tbody tr').length > 0"
        shots = {"viewer.png": ("", 1280, 800, False), "viewer_pair.png": ("#view=pair", 1280, 800, True),
                 "viewer_phone.png": ("", 390, 800, True)}
        for name, (view, width, height, dark) in shots.items():
            self.browser("Page.navigate", url="about:blank")
            self.browser.open(url + view, width=width, height=height, dark=dark)
            self.browser.wait(rows)
            self.keep(name)
        self.browser("Page.navigate", url="about:blank")
        self.browser.open(url, width=1280, height=900)
        self.browser.wait(rows)
        self.browser.js("""new Promise(done => {
          document.addEventListener('load', e => e.target.tagName === 'IFRAME' && done(true), true);
          [...document.querySelectorAll('#rows tbody tr')].at(-1).querySelector('a').click(); })""")
        self.keep("viewer_episode.png")

    def app(self):
        from cosee import samples_dir
        from cosee.app.server import create_page_app
        from cosee.server.answering import Clients
        from cosee.server.episodes import EpisodeService
        from cosee.server.documents import AllowedPaths
        from cosee.server.serve import running
        from cosee.models.registry import make_client
        gated = Gated(make_client("ocr"))
        clients = Clients({"ocr": lambda: make_client("ocr"), "gated": lambda: gated})
        with (EpisodeService(self.work / "app", clients, AllowedPaths([samples_dir()])) as service,
              running(create_page_app(service)) as url):
            AppShots(self, url, gated.gate).take()

    def serve(self):
        from cosee.server.http import create_app, protect
        from cosee.server.answering import Clients
        from cosee.server.openai_api import chat
        from cosee.server.episodes import EpisodeService
        from cosee.server.serve import running
        from cosee.models.registry import make_client
        with (EpisodeService(self.work / "served", Clients({"ocr": lambda: make_client("ocr")})) as service,
              running(protect(service, create_app(service, chat))) as url):
            self.browser("Page.navigate", url="about:blank")
            self.browser.open(url, width=1000, height=760)
            self.browser.wait("document.querySelectorAll('code').length > 9")
            self.keep("serve-reference.webp")

    def review(self):
        from cosee.extraction.folder import Extracted
        from cosee.extraction.review import Review
        from cosee.server.serve import running
        from cosee.server.viewer import create_review_app
        cosee("extract", SAMPLES / "invoice.pdf", "--schema", "invoice", "--out", self.work / "read")
        with running(create_review_app(Review(Extracted(self.work / "read")))) as url:
            self.browser("Page.navigate", url="about:blank")
            self.browser.open(url, width=1000, height=760)
            self.browser.wait("[...document.querySelectorAll('#items img')].some(i => i.naturalWidth)")
            self.browser.js("new Promise(done => setTimeout(() => done(1), 900))")   # pictures are drawn
            self.keep("review.webp")

    def lab(self):
        folder = self.work / "notebooks"
        folder.mkdir()
        notebook(folder / "live.ipynb", LIVE)
        for name, dark in (("widget-lab.webp", False), ("widget-dark.webp", True)):
            with Lab(folder, self.work / f"home-{name}", dark) as lab:
                self.browser.open(lab.url("live.ipynb"), width=1240, height=1130)
                cell_ready(self.browser)
                self.browser.js(RUN_ALL + ".then(() => 1)")
                self.browser.wait(IDLE + " && document.querySelectorAll('.jp-OutputArea-output').length > 1")
                self.browser.js("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0; 1")
                self.browser.js("new Promise(done => setTimeout(() => done(1), 3000))")   # frames are drawn
                self.keep(name)

    def site(self):
        page = ROOT / "_docs/view/widget.html"
        if not page.exists(): sys.exit("widget-fallback.webp is of the site: make docs")
        self.browser.open(page, width=1240, height=900)
        box = self.browser.js("""(() => {
          const image = [...document.querySelectorAll('img[alt^="The page of the ev"]')].at(-1);
          image.scrollIntoView({ block: 'end', behavior: 'instant' }); scrollBy({ top: 300, behavior: 'instant' });
          const r = document.querySelector('main').getBoundingClientRect();
          return [r.left, 260, r.right, 880].map(Math.round); })()""")
        self.keep("widget-fallback.webp", crop=tuple(box))


class Gated(ClientWrapper):
    "A client that waits before every call until it may go on"
    def __init__(self, client):
        super().__init__(client)
        self.gate = threading.Semaphore(0)

    def _respond_many(self, requests):
        self.gate.acquire()
        return ask_many(self.client, requests)


class AppShots:
    "The pictures of the app"
    DONE = "!document.getElementById('after').hidden && !!document.querySelector('#answer .text:not(.going)')"

    def __init__(self, shots, url, gate):
        self.shots, self.browser, self.url, self.gate = shots, shots.browser, url, gate

    def opened(self, **how):
        self.browser("Page.navigate", url="about:blank")
        self.browser.open(self.url, **how)
        self.browser.wait("!document.getElementById('start').hidden")
        self.do("[...document.querySelectorAll('#files button')].find(b => b.textContent === 'report.pdf').click()",
                "!document.getElementById('desk').hidden && [...document.images].every(i => i.complete)")

    def do(self, code, until):
        self.browser.js(f"{code}; 0")
        self.browser.wait(until)

    def ask(self, question, client, until):
        self.do(f"document.getElementById('question').value = {question!r}; document.querySelector('#a [name=client]')"
                f".value = {client!r}; document.getElementById('ask').requestSubmit()", until)

    def keep(self, name):
        self.browser.js("new Promise(done => setTimeout(() => done(1), 900))")   # pictures are decoded and drawn
        self.shots.keep(name)

    def take(self):
        question = ASKED["report"][0]
        self.opened(width=1440, height=900)
        self.ask(question, "gated", "document.querySelectorAll('.thumb.looked').length > 0")
        for n in (1, 2):
            self.gate.release()
            self.browser.wait(f"document.querySelectorAll('#page-view .mark .badge').length === {n}")
        self.browser.wait("document.querySelectorAll('.thumb.looked').length > 0")
        self.keep("app-watch.webp")
        self.gate.release()
        self.browser.wait(self.DONE)
        self.keep("app-answer.webp")
        self.do("for (const [id, text] of [['note-text', 'The annex corrects it'], ['note-answer', '21'], "
                "['note-target', '2']]) document.getElementById(id).value = text; "
                "for (const id of ['note', 'note-box']) document.getElementById(id).click(); "
                "document.getElementById('by-hand').scrollIntoView()",
                "!!document.querySelector('.draft')")
        self.keep("app-note.webp")
        self.do("document.getElementById('note-cancel').click(); document.getElementById('compare').click(); "
                "document.querySelector('#a [name=client]').value = 'ocr'; "
                "document.querySelector('#b [name=method]').value = 'direct'; "
                "document.getElementById('ask').requestSubmit()",
                "document.getElementById('pair-said').textContent.startsWith('Both give') && "
                "!!document.querySelector('#one .snippet') && !!document.querySelector('#two .snippet')")
        self.keep("app-pair.webp")
        self.do("document.getElementById('pair-close').click(); document.getElementById('compare').click()", self.DONE)
        self.ask(ASKED["report"][1], "ocr", "document.getElementById('answer').textContent.includes('Bamboo') && "
                 + self.DONE)
        self.do("document.getElementById('right').click()",
                "document.getElementById('right').getAttribute('aria-pressed') === 'true'")
        self.do("document.getElementById('to-history').click()",
                "document.querySelectorAll('#episodes li').length > 3")
        self.keep("app-history.webp")
        for name, how in (("dark", dict(width=1440, height=900, dark=True)), ("phone", dict(width=390, height=844))):
            self.opened(**how)
            self.browser.wait(self.DONE)
            self.keep(f"app-{name}.webp")


NAMES = {"answer": ["answer.png"], "site": ["widget-fallback.webp"], "lab": ["widget-lab.webp", "widget-dark.webp"],
         "episode": ["episode-light.webp", "episode-dark.webp", "episode-phone.webp", "episode-page.webp"],
         "app": [f"app-{name}.webp" for name in ("watch", "answer", "note", "pair", "history", "dark", "phone")],
         "serve": ["serve-reference.webp"], "review": ["review.webp"],
         "runs": ["report.png", "viewer.png", "viewer_pair.png", "viewer_phone.png", "viewer_episode.png"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *sum(NAMES.values(), [])], metavar="NAME")
    parser.add_argument("--run", type=Path, help="the folder of a run with traces")
    args = parser.parse_args()
    if not CHROMIUM: sys.exit("Chromium or Chrome takes the pictures: neither is on this machine.")
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        shots = Shots(browser, Path(folder), args.run)
        try:
            for group, names in NAMES.items():
                if not args.names or set(names) & set(args.names): getattr(shots, group)()
        finally: browser.close()


if __name__ == "__main__":
    main()
