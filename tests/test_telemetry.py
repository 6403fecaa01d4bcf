"""Nothing is reported: no package that CoSee stands on leaves files of its own, looks up a name, or connects to
anybody but the server that was named."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import anyio
import httpx
import pytest
from conftest import ROOT
from fake_servers import FOUND, FakeServer
from mcp import Client, StdioServerParameters, stdio_client
from PIL import Image, ImageDraw, ImageFont
from reportlab.pdfgen import canvas

from cosee.datasets.synthetic.document import samples_dir
from cosee.utils.isolation import apart

FOLDERS = "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TMPDIR"
LINES = "Invoice 4711", "Subtotal: 1,100.00 EUR", "Total due: 1,250.00 EUR"
QUESTION = "What is the total due?"
# The command, and then what it has loaded, on standard error; the process stays for some seconds
START = """
import sys, time
from cosee.cli.start import main
code = main()
print(*sorted({'onnxruntime', 'rapidocr', 'cosee.text.encoder'} & sys.modules.keys()), file=sys.stderr)
time.sleep(%s)
sys.exit(code)
"""
LINGER = 12   # seconds: unless it is switched off, onnxruntime looks its server up some eight seconds after its start


@pytest.fixture
def env(tmp_path):
    "The surroundings of somebody who has used nothing yet: all folders are empty, no variable is set."
    for name in FOLDERS: (tmp_path / "user" / name).mkdir(parents=True)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COSEE_SERVERS": "none",
            **{name: str(tmp_path / "user" / name) for name in FOLDERS}}


def left_behind(folder):
    "Files in the folders of the user that do not lie in one of CoSee's own"
    files = [path.relative_to(folder / "user") for path in (folder / "user").rglob("*") if not path.is_dir()]
    return [str(file) for file in files if file.parts[1] != "cosee"]


@pytest.fixture
def text(tmp_path):
    "A PDF with text."
    drawn = canvas.Canvas(str(tmp_path / "text.pdf"), pagesize=(595, 842), invariant=1)
    drawn.setFont("Helvetica", 16)
    for i, line in enumerate(LINES): drawn.drawString(72, 760 - 30 * i, line)
    drawn.save()
    return tmp_path / "text.pdf"


@pytest.fixture
def picture(tmp_path):
    "A page that only OCR can read."
    page = Image.new("RGB", (600, 300), "white")
    for i, line in enumerate(LINES):
        ImageDraw.Draw(page).text((40, 40 + 60 * i), line, "black", ImageFont.load_default(28))
    page.save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def python(code, *argv, env):
    "Run Python code in a process of its own; what it wrote."
    done = subprocess.run([sys.executable, "-c", code, *map(str, argv)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


# --- what is switched off ---

CHANGED = """
import json, os
old = dict(os.environ)
import cosee
print(json.dumps(dict(os.environ.items() - old.items())))
"""


@pytest.fixture
def switches(env):
    "The variables by which `import cosee` ends reports; it sets another, for faster memory."
    found = json.loads(python(CHANGED, env=env).stdout)
    assert found.pop("THP_MEM_ALLOC_ENABLE") == "1"
    return found


def test_the_switches_are_those_of_the_table_that_users_read(switches):
    rows = re.findall(r"^\| ([^|]+) \| `([A-Z_]+)=(\w+)` \|", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    assert {name: value for _, name, value in rows} == switches != {}


def test_who_has_decided_otherwise_keeps_it(switches, env):
    mine = dict.fromkeys([*switches, "THP_MEM_ALLOC_ENABLE"], "mine")
    assert json.loads(python(CHANGED, env={**env, **mine}).stdout) == {}


def test_the_process_apart_has_them_too(switches):
    assert {name: apart(os.getenv, name) for name in switches} == switches


def test_reading_leaves_nothing_in_the_folders_of_others(tmp_path, env, text, picture):
    asked = python(START % 0, "ask", picture, text, "-q", QUESTION, "--json", env=env)
    assert "1,250.00 EUR" in asked.stdout
    assert asked.stderr.splitlines()[-1] == "cosee.text.encoder onnxruntime rapidocr"   # so there was a chance to
    assert left_behind(tmp_path) == []


# --- what comes out of a process, seen from outside ---

TRACE = "strace", "-f", "-qq", "--seccomp-bpf", "-s", "200", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o"


@pytest.fixture
def trace(tmp_path):
    "The file of a trace; without strace, or where it may not look, the test skips."
    if not shutil.which("strace"): pytest.skip("no strace on this machine: apt-get install strace")
    if subprocess.run([*TRACE, os.devnull, "true"], capture_output=True).returncode:
        pytest.skip("strace may not look at processes here")
    return tmp_path / "trace"


def contacts(trace):
    "Whom the processes of a trace turned to: address and port, or a socket of the machine that looks names up."
    said = trace.read_text(errors="replace")
    addresses = re.findall(r'sin6?_port=htons\((\d+)\)[^}]*?"([\da-f.:]+)"', said)
    return {f"{address}:{port}" for port, address in addresses} | set(re.findall(r'sun_path="(.*?resolve.*?)"', said))


@pytest.mark.slow
@pytest.mark.parametrize("code, seen", [
    ("socket.socket().connect_ex(('127.0.0.1', 9))", r"127\.0\.0\.1:9"),
    ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))", r"127\.0\.0\.1:9"),
    ("socket.socket(socket.AF_INET6).connect_ex(('::1', 9))", r"::1:9"),
    ("socket.getaddrinfo('nobody.invalid', 80)", r".*:53|.*resolve.*"),
])
def test_a_trace_sees_who_calls(trace, code, seen):
    subprocess.run([*TRACE, trace, sys.executable, "-c", f"import socket; {code}"], capture_output=True)
    assert any(re.fullmatch(seen, one) for one in contacts(trace))


@contextmanager
def traced(trace, env, *argv):
    "A command as a process that is looked at; Ctrl-C ends it."
    with subprocess.Popen([*TRACE, trace, sys.executable, "-c", START % LINGER, *map(str, argv)],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=trace.parent,
                          start_new_session=True) as process:
        try: yield process
        finally:
            if process.poll() is None: os.killpg(process.pid, signal.SIGINT)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("command", [
    "ask {text} -q total?", "ask {picture} -q total?", "ask {small} -q {easy} --client tiny",
    "demo report --no-open --html demo.html", "extract {text} {picture} --schema invoice",
])
def test_a_command_turns_to_nobody(tmp_path, trace, env, text, picture, command):
    if "tiny" in command: pytest.importorskip("transformers", reason="the extra `qwen` is not installed")
    easy = json.loads((samples_dir() / "small.jsonl").read_text().splitlines()[0])["question"]
    said = dict(text=text, picture=picture, small=samples_dir() / "small.pdf", easy=easy)
    argv = [part.format(**said) for part in command.split()]
    with traced(trace, env, *argv) as process: assert process.stdout.read() and process.wait() == 0
    assert (contacts(trace), left_behind(tmp_path)) == (set(), [])


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("command", ["ask {text} -q total?", "extract {text} --schema invoice"])
def test_a_command_turns_to_the_server_that_is_named(tmp_path, trace, env, text, command):
    with FakeServer(answer=lambda body: FOUND) as server:
        argv = command.format(text=text).split()
        with traced(trace, env, *argv, "--base-url", server.base_url, "--model", "m") as process:
            assert process.stdout.read() and process.wait() == 0
        assert server.requests and contacts(trace) == {f"127.0.0.1:{server.server_port}"}
    assert left_behind(tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("command", ["app --no-browser", "serve"])
def test_a_server_turns_to_nobody(tmp_path, trace, env, text, picture, command):
    with traced(trace, env, *command.split(), tmp_path, "--json") as process:
        url, _, token = json.loads(process.stdout.readline())["url"].partition("?token=")
        known = {"Authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(base_url=url, headers=known, timeout=100) as caller:
            for file in (text, picture):
                opened = caller.post("api/documents", json=dict(path=file.name)).json()
                asked = caller.post(f"api/documents/{opened['id']}/questions", json=dict(question=QUESTION, wait=90))
                assert asked.json()["answer"] == "1,250.00 EUR"
            time.sleep(LINGER)
    assert (contacts(trace), left_behind(tmp_path)) == (set(), [])


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_what_an_assistant_starts_turns_to_nobody(tmp_path, trace, env, picture):
    arguments = [*TRACE[1:], str(trace), sys.executable, "-c", START % 0, "mcp", str(tmp_path)]
    async def talk():
        with open(os.devnull, "w") as nowhere:
            command = StdioServerParameters(command=TRACE[0], args=arguments, env=env)
            async with Client(stdio_client(command, nowhere)) as client:
                opened = await client.call_tool("open_document", dict(path=picture.name))
                id = opened.structured_content["document"]
                asked = await client.call_tool("ask_document", dict(document=id, question=QUESTION))
                assert asked.structured_content["answer"] == "1,250.00 EUR"
                await anyio.sleep(LINGER)
    anyio.run(talk)
    assert (contacts(trace), left_behind(tmp_path)) == (set(), [])
