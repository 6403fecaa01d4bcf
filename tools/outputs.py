"""Say where a notebook shows something else than it stores, but for what differs from run to run by nature.

Addresses, times, durations and temporary paths count as equal, fractions where they differ by less than a hundredth,
and pictures where they look alike. A cell that shows something else each time says so: `#| varies` in its first lines.
"""
import base64
import binascii
import difflib
import io
import re
from itertools import groupby

from PIL import Image, ImageChops

VARIES = "varies"
# What stands for a thing that is another one each time.
STAND_INS = [
    (re.compile(r"\b0x[0-9a-f]{6,16}\b"), "<address>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"(?<![\w./])/(?:tmp|var/folders|private/var)/[\w./-]+|\btmp[a-z0-9_]{8}\b"), "<path>"),
    (re.compile(r"\b(seconds\W{1,4})\d[\d.]*(?:e[+-]?\d+)?"), r"\1<duration>"),
    (re.compile(r"(?<![\w.])\d[\d.,]*(?:e[+-]?\d+)?\s?(?:ns|µs|us|ms|s|seconds?|min|minutes?)(?![\w'])"),
     "<duration>"),
]
EMBEDDED = re.compile(r"data:image/(?:png|jpe?g|webp|gif);base64,([A-Za-z0-9+/=]+)")
FRACTION = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?")
CLOSE = 0.01            # how far apart two fractions may lie; of the larger one where that is above 1
SIDE, ALIKE = 48, 24    # pictures are compared at this width and height; grey levels by which a place may differ
LINES, WIDTH = 6, 150   # how much of a difference is told


def parts(cell):
    "Each thing that a cell shows, as (kind, text); what was printed in pieces is one."
    for stream, outputs in groupby(cell.get("outputs", []), lambda o: o.get("name")):
        if stream:
            yield stream, "".join("".join(o["text"]) for o in outputs)
            continue
        for output in outputs:
            data = output.get("data") or {"error": output.get("evalue", "")}
            yield from ((kind, "".join(data[kind])) for kind in sorted(data))


def shown(cell):
    "What a cell shows: its lines, and its pictures as they are encoded, each of which leaves a place in a line."
    lines, pictures = [], []

    def kept(encoded):
        pictures.append(encoded)
        return f"<picture {len(pictures)}>"

    for kind, text in parts(cell):
        pixels = kind.startswith("image/") and "svg" not in kind
        text = kept(text) if pixels else EMBEDDED.sub(lambda found: kept(found[1]), text)
        for pattern, stand_in in STAND_INS:
            text = pattern.sub(stand_in, text)
        lines += [f"[{kind}]", *text.rstrip().splitlines()]
    return lines, pictures


def close(a, b):
    "Do two lines say the same, but for the last digits of their fractions?"
    if a == b: return True
    if FRACTION.sub("", a) != FRACTION.sub("", b): return False
    pairs = zip(map(float, FRACTION.findall(a)), map(float, FRACTION.findall(b)), strict=True)
    return all(abs(x - y) <= CLOSE * max(1, abs(x), abs(y)) for x, y in pairs)


def grey(encoded):
    "Size of an encoded picture, and the picture small and without colour; None where it is none."
    try: image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    except (OSError, binascii.Error): return None
    return image.size, image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)


def alike(a, b):
    "Do two encoded pictures look alike?"
    if a == b: return True
    first, second = grey(a), grey(b)
    if not first or not second or first[0] != second[0]: return False
    return ImageChops.difference(first[1], second[1]).getextrema()[1] <= ALIKE


def around(a, b):
    "Two lines that differ, cut to the place where they do."
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, same - WIDTH // 3)
    return [("…" if start else "") + line[start:start + WIDTH] for line in (a, b)]


def told(old, new):
    "The lines that differ, those stored with a minus and those shown now with a plus."
    found = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal": continue
        if b - a == d - c:
            pairs = [around(x, y) for x, y in zip(old[a:b], new[c:d], strict=True) if not close(x, y)]
            found += [line for x, y in pairs for line in (f"- {x}", f"+ {y}")]
        else:
            found += [f"- {line[:WIDTH]}" for line in old[a:b]] + [f"+ {line[:WIDTH]}" for line in new[c:d]]
    return found[:LINES] + (["…"] if len(found) > LINES else [])


def difference(old, new):
    "How a cell shows something else than the one that is stored: a few lines, none where it does not."
    if old["cell_type"] != "code": return []
    (lines, pictures), (now, others) = shown(old), shown(new)
    if found := told(lines, now): return found
    pairs = zip(pictures, others, strict=True)
    return [f"picture {n} looks different" for n, (a, b) in enumerate(pairs, 1) if not alike(a, b)]


def varies(cell):
    "Does a cell say that it shows something else each time?"
    first = (line.split() for line in "".join(cell["source"]).splitlines() if line.startswith("#|"))
    return any(words[1:2] == [VARIES] for words in first)


def stale(old, new):
    "The cells of a notebook that show something else than they store, as {number: difference}."
    pairs = enumerate(zip(old["cells"], new["cells"], strict=True))
    found = {n: difference(a, b) for n, (a, b) in pairs if not varies(b)}
    return {n: lines for n, lines in found.items() if lines}
