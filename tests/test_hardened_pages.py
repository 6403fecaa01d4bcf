"Pages that hang, crash or explode whoever draws them cost that page: the attacks are made here."
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from cosee import pages as module
from cosee.utils.files import image_hash
from cosee.text.ocr import TextExtractor
from cosee.pages import PageError, load_pages, open_image
from cosee.utils import isolation as sandbox
from cosee.utils.isolation import JobError, JobLost, apart, stop_jobs
from raw_pdf import Pdf, say

SECONDS = 3.   # what a page may take here


@pytest.fixture
def hasty(monkeypatch):
    "Little patience, so that no test takes long"
    monkeypatch.setattr(module, "SECONDS", SECONDS)
    monkeypatch.setattr(module, "MEMORY", 500_000_000)
    monkeypatch.setattr(module, "_lost", {})


def trap(path, content, pdf=None, **more):
    "A PDF of three pages with a line each, but that the second draws `content`"
    pdf = pdf or Pdf()
    font = pdf.font()
    for n in (1, 2, 3):
        if n == 2: pdf.page(content, font, **more)
        else: pdf.page(say(f"Invoice number 471{n}", size=20), font)
    return pdf.save(path)


def forms(path):
    "Twelve forms, each of which draws the next ten times: 10^11 rectangles in a few kilobytes"
    pdf, head = Pdf(), "<< /Type /XObject /Subtype /Form /BBox [0 0 400 300]"
    form = pdf.add(f"{head} >>", "0 0 9 9 re f")
    for _ in range(11): form = pdf.add(f"{head} /Resources << /XObject << /X {form} 0 R >> >> >>", "/X Do " * 10)
    return trap(path, "/I Do", pdf, image=form)


def rectangles(path):
    "Millions of rectangles in some kilobytes"
    return trap(path, "0 0 400 300 re f\n" * 2_000_000, packed=True)


def read_with(path):
    "What a reader reads of each page, or why not"
    reader = TextExtractor(workers=1, cache=None)
    with load_pages(path) as document:
        for page in document.infos:
            try: found = reader.read([page])[0]["lines"]
            except PageError as e: yield str(e)
            else: yield " ".join(line["text"] for line in found)


@pytest.mark.slow
@pytest.mark.faults("a page that never ends or takes all memory")
@pytest.mark.parametrize("attack", [forms, rectangles])
def test_a_page_that_is_a_bomb_costs_that_page(tmp_path, hasty, attack):
    path, start = attack(tmp_path / "trap.pdf"), time.monotonic()
    assert path.stat().st_size < 150_000
    pages = load_pages(path)
    with pytest.raises(PageError, match=r"trap.pdf, page 2: it (takes more than \d seconds|crashes)") as e: pages[1]
    assert "\n" not in str(e.value)
    first, second, third = read_with(path)
    assert first.endswith("4711") and "trap.pdf, page 2" in second and third.endswith("4713")
    assert time.monotonic() - start < 60   # of a machine that has other things to do


def test_what_was_lost_is_not_tried_again(tmp_path, hasty):
    pages = load_pages(forms(tmp_path / "trap.pdf"))
    with pytest.raises(PageError): pages[1]
    start = time.monotonic()
    for _ in range(3):
        with pytest.raises(PageError, match="page 2"): pages[1]
    assert time.monotonic() - start < SECONDS and pages[2].size == (800, 600)


def test_a_crash_is_told_and_the_next_job_is_done(monkeypatch):
    with pytest.raises(JobLost, match="ended"): apart(os.abort)
    monkeypatch.setattr(sandbox, "_PATIENCE", 0)
    with pytest.raises(JobLost, match="too long"): apart(time.sleep, 60, seconds=.1)
    with pytest.raises(JobError, match="MemoryError"): apart(bytes, 10**9, memory=10**8)
    assert apart(os.getpid) not in (None, os.getpid())


def test_pictures_are_decoded_apart_and_come_back_the_same(tmp_path, monkeypatch):
    im = Image.effect_mandelbrot((301, 203), (-2, -1.5, 1, 1.5), 40).convert("RGB")
    for kind in ("PNG", "JPEG", "WEBP", "TIFF", "PDF"): im.save(tmp_path / f"a.{kind.lower()}")
    large = {"dpi": 1000, "max_side": None}   # more than the memory for two has at first
    def drawn():
        found = [*load_pages(tmp_path), *load_pages(tmp_path / "a.pdf", **large), *load_pages(tmp_path / "a.png")]
        return [image_hash(p) for p in [*found, open_image((tmp_path / "a.png").read_bytes())]]
    here = drawn()
    monkeypatch.setenv("COSEE_SANDBOX", "off")
    assert drawn() == here
    assert "pypdfium2" in sys.modules


def test_the_child_knows_no_keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    sandbox._keeper.end()
    assert apart(os.getenv, "OPENAI_API_KEY") is None and apart(os.getenv, "PATH") == os.environ["PATH"]


def test_a_stop_reaches_every_thread():
    caught = []
    def wait():
        try: apart(time.sleep, 60)
        except KeyboardInterrupt: caught.append(1)
    threads = [threading.Thread(target=wait) for _ in range(3)]
    for t in threads: t.start()
    until = time.monotonic() + 30
    while len(caught) < 3 and time.monotonic() < until: stop_jobs()
    for t in threads: t.join(5)
    assert len(caught) == 3 and apart(os.getpid)


def test_a_fork_has_a_worker_of_its_own(tmp_path):
    mine = apart(os.getpid)
    if not (child := os.fork()): os._exit(int(apart(os.getpid) == mine))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and apart(os.getpid) == mine


SCRIPT = """
import os, sys
from cosee.pages import load_pages
from cosee.utils.isolation import apart
print('begin', apart(os.getpid), load_pages(sys.argv[1])[0].size, flush=True)
if sys.argv[2] == 'hang': load_pages(sys.argv[1])[1]
"""


def is_alive(pid):
    try: os.kill(pid, 0)
    except ProcessLookupError: return False
    with open(f"/proc/{pid}/stat", encoding="ascii") as f: return f.read().split()[2] != "Z"


def ends_soon(pid):
    until = time.monotonic() + 15
    while is_alive(pid) and time.monotonic() < until: time.sleep(.02)
    return not is_alive(pid)


def listens(): signal.signal(signal.SIGINT, signal.SIG_DFL)   # a shell's background jobs would not


def is_at_work(pid):
    "Wait until a process has computed for half a second"
    def used():
        with open(f"/proc/{pid}/stat", encoding="ascii") as f: return sum(map(int, f.read().split()[13:15]))
    begin = used()
    while used() - begin < .5 * os.sysconf("SC_CLK_TCK"): time.sleep(.02)


def worker_of(process):
    "The process that draws for `process`, None while there is none"
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return next((int(pid) for path in tasks for pid in path.read_text().split()), None)


def started(tmp_path, way):
    "A script without a guard for its main module, which has drawn its first page"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, script, forms(tmp_path / "trap.pdf"), way], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=listens)
    said = process.stdout.readline().split()
    assert said[0] == "begin" and said[2:] == ["(800,", "600)"]
    return process, int(said[1])


def test_a_script_leaves_no_worker(tmp_path):
    process, worker = started(tmp_path, "end")
    assert process.wait(20) == 0 and not process.stderr.read() and ends_soon(worker)


@pytest.mark.faults("a signal while a page hangs")
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_a_hanging_page_does_not_swallow_signals(tmp_path, blow):
    process, worker = started(tmp_path, "hang")
    is_at_work(worker)
    start = time.monotonic()
    process.send_signal(blow)
    process.wait(20)
    assert time.monotonic() - start < 8 and process.returncode == -blow
    if blow == signal.SIGINT: assert ends_soon(worker)


@pytest.mark.slow
@pytest.mark.faults("a signal while a page hangs")
def test_ctrl_c_ends_the_command(tmp_path):
    path = forms(tmp_path / "trap.pdf")
    code = "import sys; from cosee.cli.start import main; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", code, "ask", path, "-q", "What is the number?", "--no-cache"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=listens)
    while not (worker := worker_of(process)): time.sleep(.02)
    is_at_work(worker)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=20)[1]
    assert process.returncode == 130 and time.monotonic() - start < 8 and "Traceback" not in err


def test_questions_are_bounded(tmp_path):
    from cosee.controller import CoSeeController
    from cosee.models.testing import ScriptedClient
    from cosee.eval.baselines import direct_answer
    im = Image.new("RGB", (200, 200), "white")
    for question in ("total " * 2001, "a" * 20_001):
        with pytest.raises(ValueError, match="at most 2,000 words and 20,000 characters are read"):
            direct_answer(ScriptedClient([]), [im], question)
        with pytest.raises(ValueError, match="the question has"): CoSeeController([]).run([im], question)


def printed(size, height, step, line):
    "A picture with a line of text every `step` pixels"
    im = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(im), ImageFont.load_default(height)
    for i, y in enumerate(range(4, size[1] - height, step)): draw.text((4, y), line(i), 0, font)
    return im


@pytest.mark.slow
@pytest.mark.faults("a picture that OCR would read for minutes")
def test_a_page_of_too_much_print_costs_that_page(tmp_path, monkeypatch, capsys):
    from cosee.cli.start import main
    monkeypatch.setenv("COSEE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pages").mkdir()
    dense = printed((1600, 1600), 7, 8, lambda i: " ".join(str(1000 * i + k) for k in range(120)))
    dense.save(tmp_path / "pages/a.png")
    printed((400, 120), 24, 90, lambda i: "Invoice number: 4711").save(tmp_path / "pages/b.png")
    start = time.process_time()
    code = main(["ask", str(tmp_path / "pages"), "-q", "What is the invoice number?", "--json", "--sure", "0"])
    out, err = capsys.readouterr()
    assert code == 0 and "4711" in out and "Traceback" not in err
    assert [line for line in err.splitlines() if "left out" in line and "letters in small print" in line], err
    assert time.process_time() - start < 30   # of the processor; all of it would be read for two minutes


@pytest.mark.slow
@pytest.mark.faults("a picture that OCR would read for minutes")
@pytest.mark.parametrize("size", [(40, 1600), (200, 8000)])
def test_a_strip_is_read_in_bounds(size):
    from cosee.text.ocr import _get_engine
    reader, seen = TextExtractor(workers=1, cache=None), []
    engine = _get_engine(1, 1600)
    net = engine.detect_and_crop.__self__._load_det_model()
    detector = net.session
    net.session = lambda pixels: seen.append(pixels.shape) or detector(pixels)
    try: page = reader.ocr(printed(size, size[0] // 2, size[0] * 3 // 5, lambda i: str(10 + i)))
    finally: net.session = detector
    assert page["size"] == list(size) and all(line["bbox"][2] <= 1 for line in page["lines"])
    assert len(seen) == 1 and seen[0][2] * seen[0][3] < 4_500_000   # of 27 million, in three gigabytes
    found = [line["text"] for line in page["lines"]]
    assert len({str(10 + i) for i in range(60)} & set(found)) > 50 or size[1] == 8000
