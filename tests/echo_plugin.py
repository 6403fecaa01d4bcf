"""A plugin for runs under test: a client whose replies depend on the prompt and the seed alone, and traps.

Traps are set by environment variables, so that they reach processes of any kind: COSEE_TRAP=KIND:WORD[:FILE]  on
questions with WORD: `raise`, `hang`, `stuck` (a hang that no timer ends), `die`; with FILE only once, as long as
FILE does not exist COSEE_KILL_AT=N              the process kills itself in the middle of writing its N-th record
COSEE_FILE_LIMIT=N           files cannot grow beyond N bytes, as on a full disk
"""
import errno
import hashlib
import os
import signal
import stat
import time
from pathlib import Path

from cosee.models.client import Reply, VLMClient, prompt_text
from cosee.models.usage import Usage
from cosee.models.registry import register_client


def draw(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


def trap(text):
    kind, word, mark = (os.environ.get("COSEE_TRAP", "") + "::").split(":")[:3]
    if not kind or word not in text or mark and Path(mark).exists(): return
    if mark: Path(mark).touch()
    if kind == "raise": raise ConnectionError("the server went away")
    if kind == "stuck": signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    if kind == "die": os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(3600)


@register_client("echo")
class Echo(VLMClient):
    name, constrains = "echo", True

    def send(self, messages, schema=None, seed=None, **params):
        text = prompt_text(messages)
        trap(text)
        n = draw(text, seed)
        answer, sure = f"value {n % 3}", n // 3 % 90 / 100
        allowed = ((schema or {}).get("properties", {}).get("action", {}).get("enum") or [None])
        view = f'{{"page": 1, "bbox_2d": [{n % 500}, 10, 900, 600]}}'
        said = f"Page: 1\nConfidence: {sure}\nAnswer: {answer}"
        if "INSPECT" in allowed: said = f'{{"action": "INSPECT", "content": "note {n % 7}", "view": {view}}}'
        if "HYPOTHESIZE" in allowed and n % 5:
            said = (f'{{"action": "HYPOTHESIZE", "answer": "{answer}", "content": "c", "confidence": {sure}, "view": '
                    f'{view}}}')
        return Reply(said, usage=Usage(text_tokens=len(text) // 4, image_tokens=4, completion_tokens=len(said) // 4))


def kill_at(n, write=os.write):
    "From now on the process dies half-way through the n-th line that it appends to a log."
    seen = 0
    def torn(fd, data):
        nonlocal seen
        seen += bytes(data[:10]) == b'{"sample":'
        if seen < n: return write(fd, data)
        write(fd, data[:len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    os.write = torn


def fill_at(most):
    "From now on no file can be written beyond `most` bytes; a last write may succeed in part, as on a disk"
    write = os.write

    def limited(fd, data):
        room = most - os.fstat(fd).st_size if stat.S_ISREG(os.fstat(fd).st_mode) else len(data)
        if data and room <= 0: raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:room])
    os.write = limited


# Workers inherit the environment; only the driver, which alone writes, arms these.
if os.environ.get("COSEE_ARMED") == str(os.getppid()):
    if "COSEE_KILL_AT" in os.environ: kill_at(int(os.environ["COSEE_KILL_AT"]))
    if "COSEE_FILE_LIMIT" in os.environ: fill_at(int(os.environ["COSEE_FILE_LIMIT"]))
