"""Install CoSee as its users do, a wheel without extras in an environment of its own, and use it there.

    python tools/try_wheel.py                          what must work without extras, and what is said of them
    python tools/try_wheel.py --python python3.13      where something else is missing
    python tools/try_wheel.py --lowest                 the oldest versions that settings.ini allows
    python tools/try_wheel.py --lowest --extras        those of the extras, with the tests that use them (15 minutes)

The wheel is built from a clean clone of what is committed. Each line of what is printed is a command of a user.
"""
import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INVOICE = "{cosee}/samples/invoice.pdf"
CONFIG = """name: tiny
dataset: {name: made, limit: 3, options: {kinds: [invoice], dpi: 100}}
client: ocr
methods: [direct, cosee_base]
"""
# A command, its exit code, and what stands in what it prints
WORKS = [
    ("cosee --help", 0, "Answers about long visual documents"),
    ("cosee demo --quiet --no-open", 0, "4 of 4 as expected"),
    (f"cosee ask {INVOICE} -q 'What is the subtotal?' --json --quiet --html a.html", 0, "36,871.72 USD"),
    ("cosee run small.yaml --output-dir run --quiet", 0, ""),
    ("cosee report run --format status", 0, "cosee_base"),
    ("cosee report run --format text --baseline direct", 0, "anls"),
    ("cosee report run -o report.html", 0, ""),
    ("cosee report run -o report.md", 0, ""), ("cosee report run -o run.jsonl", 0, ""),
    ("cosee report run -o run.csv", 0, ""), ("cosee report run --summary methods.tex", 0, ""),
    (f"cosee extract {INVOICE} --schema invoice --client none --out values.csv", 0, "values-items.csv"),
    ("cosee report run -o run.pack", 0, ""),
    ("cosee report run --format submission --method direct --form mpdocvqa -o s.json", 0, ""),
    ("cosee view run --export page --quiet", 0, "6 answers"),
    ("cosee plan {cosee}/samples/invoice.pdf", 0, "page"),
    ("cosee models backends", 0, ""), ("cosee models", 0, "qwen"), ("cosee models cache", 0, ""),
    ("cosee models try ocr", 0, "4271: right"),
    ("python -c \"import cosee, sys; assert not {{'numpy', 'PIL', 'torch'}} & set(sys.modules)\"", 0, ""),
]
# A command that needs more, and the extra that it has to name
NEEDS = [
    ("cosee demo small", "qwen"), (f"cosee ask {INVOICE} -q 'How much?' --client random", "qwen"),
    (f"cosee ask {INVOICE} -q 'How much?' --client anthropic --model m", "anthropic"),
    (f"cosee ask {INVOICE} -q 'How much?' --client google --model m", "google"),
    ("cosee run small.yaml --output-dir other --client random --quiet", "qwen"),
    ("cosee run small.yaml --output-dir actors --ray 2 --quiet", "ray"),
    ("cosee report run -o run.xlsx", "office"), ("cosee report run -o run.parquet", "parquet"),
    (f"cosee extract {INVOICE} --schema invoice --out values.xlsx", "office"),
    ("cosee report run --format inspect -o logs", "inspect"),
]
# The same in Python, behind `import cosee`
CALLS = [
    ("cosee.QwenVLClient('folder')", "qwen"), ("cosee.EpisodeWidget('Why?')", "widget"),
    ("cosee.Run('run').to_pandas()", "table"),
    ("cosee.create_vlm_client('anthropic.claude')", "anthropic"),
    ("from cosee.datasets.sample import as_torch; as_torch([])", "qwen"),
    ("from cosee.view.widget import explore_board; explore_board(cosee.Board())", "widget"),
    ("from cosee.planner.graph import planner_graph; planner_graph(cosee.ScriptedClient([]))", "planner"),
    ("from cosee.view.drawing import new_figure; new_figure(1, 1)", "pictures"),
]
# Extras that can be together in their oldest versions, and the tests that use them
TESTED = {
    "qwen,table,parquet,anthropic,google,planner,ray,gguf,widget,pictures":
        "chat cli_models cluster core datasets exports gguf grammar index many pictures planned planner providers "
        "qwen runs tables view weights widget",
    "inspect": "exports",
}
TOOLS = ["fastcore", "nbdev", "execnb", "ipython", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "scipy"]
# Modules whose classes extend those of PyTorch; all others import such libraries inside functions.
NEED_TORCH = {f"cosee.models.{m}" for m in ("prefix_cache", "fast_layers")}
# Every module but those whose classes extend another library's; and no part of an extra is there, so that nothing is
# found by luck
MODULES = f"""
import importlib, pkgutil, cosee
from cosee.utils.config import EXTRA_OF, installed
assert not list(filter(installed, EXTRA_OF)), list(filter(installed, EXTRA_OF))
skip = {NEED_TORCH!r}
skip |= {{"cosee.server.mcp", "cosee.cli.inspect_plugin"}}
for m in pkgutil.walk_packages(cosee.__path__, "cosee."):
    if m.name not in skip: importlib.import_module(m.name)
"""


def settings():
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    return config["DEFAULT"]


def oldest(requirements):
    "Name -> the oldest version that is allowed, of the requirements that name one."
    found = (re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\w.]+).*", word) for word in requirements.split())
    return {match[1]: match[2] for match in found if match}


def pinned(versions):
    "Versions as constraints of pip."
    return "".join(f"{name}=={version}\n" for name, version in versions.items())


def lowest(requirements):
    "Constraints that name the oldest version of each requirement; ValueError where one names none."
    versions = oldest(requirements)
    without = [w for w in requirements.split() if re.match(r"[\w.-]+", w)[0] not in versions]
    if without: raise ValueError(f"settings.ini names no oldest version of {', '.join(without)}")
    return pinned(versions)


def try_extras(config, python):
    "Failures of the tests of the extras in their oldest versions; the core is as old as the extras allow."
    core, failed = oldest(config["requirements"]), []
    for extras, tests in TESTED.items():
        wanted = {k: v for e in extras.split(",") for k, v in oldest(config[f"extras_{e}"]).items()}
        with tempfile.TemporaryDirectory() as folder:
            place = Place(folder, python)
            # what needs a newer pydantic than the core says so itself
            place.install(pinned({k: v for k, v in core.items() if k != "pydantic"} | wanted), extras, TOOLS)
            files = [f"tests/test_{name}.py" for name in tests.split()]
            test = [place.bin / "python", "-m", "pytest", "-q", "--tb=short", *files]
            done = subprocess.run(test, cwd=place.folder / "clone", env=place.env)
            failed += [extras] * bool(done.returncode)
    return failed


class Place:
    "A folder with an environment in which a wheel is installed, for commands as a user types them."

    def __init__(self, folder, python):
        self.folder, self.faults, self.done = Path(folder), [], 0
        subprocess.run([python, "-m", "venv", self.folder / "venv"], check=True)
        self.bin, self.work = self.folder / "venv/bin", self.folder / "work"
        self.work.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COSEE_", "VIRTUAL_ENV"))}
        self.env = {**kept, "PATH": f"{self.bin}:{os.environ['PATH']}", "COSEE_CACHE": str(self.folder / "cache")}

    def install(self, constraints="", extras="", beside=()):
        "Build the wheel and install it, with extras and with what else is needed."
        limits = self.folder / "constraints.txt"
        limits.write_text(constraints)
        pip = [self.bin / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run(["git", "clone", "--quiet", ROOT, self.folder / "clone"], check=True)
        subprocess.run([*pip, "wheel", "--no-deps", "-w", self.folder, self.folder / "clone"], check=True)
        wheel = next(self.folder.glob("*.whl"))
        subprocess.run([*pip, "install", "-c", limits, f"{wheel}[{extras}]" if extras else wheel, *beside], check=True)
        subprocess.run([*pip, "check"], check=True)
        where = "import pathlib, cosee; print(pathlib.Path(cosee.__file__).parent)"
        self.cosee = subprocess.check_output([self.bin / "python", "-c", where], text=True, cwd=self.work).strip()

    def call(self, command):
        "Exit code and everything that is printed."
        words = [word.format(cosee=self.cosee) for word in shlex.split(command)]
        run = subprocess.run(words, cwd=self.work, env=self.env, text=True, stdin=subprocess.DEVNULL, timeout=300,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return run.returncode, run.stdout

    def expect(self, command, code, said, lines=None):
        "Run a command, note what is not as it should be."
        got, text = self.call(command)
        told = text.strip().splitlines()
        fine = got == code and said in text and "Traceback" not in text and (lines is None or len(told) <= lines)
        self.done += 1
        print("ok   " if fine else "FAIL ", " ".join(command.split())[:110], flush=True)
        if fine: return
        self.faults.append(f"{command}: exit {got}, {code} is right; {said!r} belongs into\n{text[-1500:]}")


def python(code):
    "The command that runs some code."
    return shlex.join(["python", "-c", code.replace("{", "{{").replace("}", "}}")])


def use(place):
    "All commands, one after the other."
    (place.work / "small.yaml").write_text(CONFIG)
    for command, code, said in WORKS: place.expect(command, code, said)
    for command, extra in NEEDS: place.expect(command, 2, f'pip install "cosee[{extra}]"', lines=3)
    for call, extra in CALLS:
        code = f"import cosee\ntry:\n    {call}\nexcept ImportError as e: print(e)"
        place.expect(python(code), 0, f'pip install "cosee[{extra}]"', lines=1)
    place.expect(python(MODULES), 0, "")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", default=sys.executable, help="the Python that makes the environment")
    p.add_argument("--lowest", action="store_true", help="install the oldest versions that settings.ini allows")
    p.add_argument("--extras", action="store_true", help="with --lowest: those of the extras, with their tests")
    args = p.parse_args()
    if args.extras and not args.lowest: p.error("--extras is asked for together with --lowest")
    if args.extras:
        failed = try_extras(settings(), args.python)
        print("\n".join(f"the tests of {extras} failed" for extras in failed) or "the tests of all extras passed")
        return bool(failed)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, args.python)
        place.install(lowest(settings()["requirements"]) if args.lowest else "")
        use(place)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n".join(place.faults))
    print(f"{place.done - len(place.faults)} passed, {len(place.faults)} failed "
          f"({used.ru_utime + used.ru_stime:.0f} seconds of processor)")
    return bool(place.faults)


if __name__ == "__main__":
    sys.exit(main())
