"""Make .venv with CoSee and what it needs; do nothing when it is there and up to date.

Runs on a bare Python (only the standard library). Called by the Makefile: `python3 tools/env.py core` installs what
the demo, the reader of page text, runs and the viewer need; `python3 tools/env.py book` adds what most notebooks use,
and `python3 tools/env.py` all that tests and notebooks use.
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP, LOG = VENV / "installed", VENV / "install.log"
COSTS = ROOT / "benchmarks/results/setup_cost.json"  # measured by benchmarks/setup_cost.py
WHAT = {"core": ".", "book": ".[book]", "dev": ".[dev]"}  # each holds the ones before it
OLDEST = (3, 11)


def stop(message):
    sys.exit("\n" + message + "\n")


def check_python():
    "Stop with the mend when this Python cannot make the environment."
    version = "%d.%d.%d" % sys.version_info[:3]
    if sys.version_info[:2] < OLDEST:
        stop("CoSee needs Python %d.%d or newer, and %s is %s.\n" % (*OLDEST, sys.executable, version)
             + "Name a newer one: make demo PYTHON=python3.12")
    try:
        import ensurepip, venv
    except ImportError:
        stop("Python %s cannot make virtual environments: its venv module is missing.\n" % version
             + "On Debian and Ubuntu: sudo apt-get install python3-venv, then call make again.")


def fingerprint():
    "Changes when what has to be installed changes, or when the repository is moved."
    text = b"".join((ROOT / name).read_bytes() for name in ("settings.ini", "setup.py"))
    return hashlib.sha256(text + str(ROOT).encode()).hexdigest()


def python():
    return VENV / ("Scripts" if os.name == "nt" else "bin") / "python"


def works():
    "Does the environment's own Python start, and is it new enough?"
    code = "import sys; sys.exit(sys.version_info[:2] < %r)" % (OLDEST,)
    try:
        return subprocess.call([str(python()), "-c", code], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def stamped():
    "What is installed and up to date, a name in `WHAT`; '' if nothing is."
    what, _, of = STAMP.read_text().partition(" ") if STAMP.exists() else ("", "", "")
    return what if of == fingerprint() and works() else ""


def holds(there, asked):
    "Is what is asked for part of what is there?"
    names = list(WHAT)
    return there in names and names.index(there) >= names.index(asked)


def cost(asked):
    "How long it takes and how much disk, in words, as it was measured; '' where nobody has."
    try:
        found = json.loads(COSTS.read_text(encoding="utf-8"))[asked]
        return " It takes about %s and %.1f GB of disk." % (found["took"], found["gb"])
    except (OSError, ValueError, LookupError):
        return ""


class Progress:
    "One moving line in a terminal, a line every 15 seconds elsewhere."

    def __init__(self):
        self.start, self.seen, self.what, self.unpacking = time.monotonic(), 0, "starting", 0
        self.tty, self.done = sys.stdout.isatty(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def read(self, line):
        "Take what is worth telling from a line of pip's output."
        words = line.split()
        if line.startswith("Installing collected packages"):
            self.unpacking = len(line.split(","))
        elif len(words) > 1 and words[0] in ("Collecting", "Processing"):
            self.seen, self.what = self.seen + 1, "reading " + words[1].rsplit("/", 1)[-1]
        elif len(words) > 1 and words[0] in ("Downloading", "Building", "Preparing"):
            self.what = " ".join([words[0].lower(), words[1].rsplit("/", 1)[-1], *words[2:]])

    def line(self):
        minutes, seconds = divmod(int(time.monotonic() - self.start), 60)
        what = "%d packages, %s" % (self.seen, self.what)
        if self.unpacking:
            there = sum(1 for _ in VENV.glob("lib/python*/site-packages/*.dist-info"))
            what = "unpacked %d of %d packages" % (min(there, self.unpacking), self.unpacking)
        return "  %d:%02d  %s" % (minutes, seconds, what)

    def show(self):
        if self.tty:
            print("\r\033[K" + self.line()[:shutil.get_terminal_size().columns - 1], end="", flush=True)
        else:
            print(self.line(), flush=True)

    def run(self):
        while not self.done.wait(0.5 if self.tty else 15):
            self.show()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.done.set()
        self.thread.join()
        self.show()
        print()


def pip(*args):
    "Run pip quietly: progress on the screen, everything it says in the log."
    command = [str(python()), "-m", "pip", *args]
    with open(LOG, "w", encoding="utf-8") as log, Progress() as progress:
        run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, text=True, errors="replace",
                               env={**os.environ, "PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        for line in run.stdout:
            log.write(line)
            progress.read(line)
        code = run.wait()
    if code:
        tail = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        stop("\n".join(line[:300] for line in tail)
             + "\n\nThe installation failed. The whole log is in %s;\n" % LOG.relative_to(ROOT)
             + "call make again to go on where it stopped.")


def prepare(asked):
    "Say what is about to happen; make an environment where none works."
    there = stamped()
    if there:
        print("Adding what notebooks and tests need to .venv, once." + cost(asked), flush=True)
    elif works():
        print("Bringing .venv up to date with settings.ini and setup.py.", flush=True)
    else:
        check_python()
        print("Setting up CoSee in .venv, once." + cost(asked), flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)


def wanted(asked):
    "What to install: what is asked for, and what stands in an environment that is brought up to date."
    before = STAMP.read_text().partition(" ")[0] if STAMP.exists() and works() else ""
    return before if holds(before, asked) else asked


def main(asked="dev"):
    if holds(stamped(), asked):
        return
    asked = wanted(asked)
    prepare(asked)
    if STAMP.exists():
        STAMP.unlink()
    pip("install", "--progress-bar", "off", "--no-compile", "-e", WHAT[asked])  # Python compiles what it imports
    STAMP.write_text("%s %s" % (asked, fingerprint()))
    print("Installed.\n", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        stop("Stopped. Call make again to go on.")
