"How far a long piece of work is: a line for each stage, a line now and then within it, nothing of its children."
import os
import sys
import tempfile
import threading
import time
from contextlib import contextmanager

from cosee.utils.text import time_left


class Stages:
    "Counts the stages of a piece of work and says how far each one is."

    def __init__(self, count, every=10, out=None):
        self.count, self.every, self.n = count, every, 0
        self.out = out or os.fdopen(os.dup(1), "w", encoding="utf-8")   # ours, also while `hushed` holds the other

    def say(self, text):
        print(text, file=self.out, flush=True)

    @contextmanager
    def stage(self, says, total=0, done=lambda: 0):
        "A stage: `done` tells how many of `total` there are."
        self.n += 1
        self.say(f"{self.n} of {self.count}  {says}")
        ended, start = threading.Event(), time.monotonic()
        teller = threading.Thread(target=self.tell, args=(ended, start, total, done), daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()

    def tell(self, ended, start, total, done):
        "A line every few seconds, until the stage has ended."
        while not ended.wait(self.every):
            now = done()
            if not 0 < now < total: continue
            left = time_left((time.monotonic() - start) / now * (total - now))
            self.say(f"        {now} of {total}, {left} left")


@contextmanager
def hushed():
    "What is written within, by child processes too, is shown only where it ends in an error."
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as kept:
        for fd in (1, 2): os.dup2(kept.fileno(), fd)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(before[1], kept.read())
            raise
        finally:
            for fd, old in zip((1, 2), before, strict=True):
                os.dup2(old, fd)
                os.close(old)
