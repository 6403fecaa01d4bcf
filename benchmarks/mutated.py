"""What becomes of broken documents: thousands of them, mutated from ten kinds, opened, drawn and read as users do.

    python benchmarks/mutated.py --documents 3000 --state mutated.jsonl --json benchmarks/results/mutated.json
    python benchmarks/mutated.py --documents 1 --first 471 --keep .        # look at one of them again

Document n is made from the seed n alone: one of ten kinds, changed in one to five ways (bits, bytes, spans, numbers,
names and references of a PDF, what its compressed streams hold, chunks of a PNG with new checksums). A process of its
own opens it, asks for its sizes and contents, draws its first three pages and reads their text layers; in one of ten
the first page is read as `auto` does it, with OCR where the text cannot be trusted. Each document is counted once:
answered, told in one line that it or a page of it is broken, or stopped by a limit of time or memory. Whatever else
happens is a fault and is listed: another exception, a message of several lines, a process that dies or talks on
stderr, one that is left over, a call that takes more than its deadline and two seconds, more memory than a limit. The
process's exit status says whether there was a fault. With `--state` it goes on where it was ended.
"""
import argparse
import ctypes
import io
import json
import os
import random
import re
import resource
import select
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = 'digital', 'scanned', 'encrypted', 'forms', 'fields', 'codecs', 'png', 'jpeg', 'tiff', 'webp'
PASSWORD, PAGES, BATCH = 'sesame', 3, 50   # of the encrypted ones; most that are drawn; documents for one process
JOBS = dict(open=1, sizes=1, contents=1, draw=1, read=2)   # how often a call asks the other process, at most
SLACK, WORKER_MB, OWN_MB = 2, 1850, 1000   # seconds beyond a deadline; 1.5 GB more than the 300 MB of a large worker
EXTREMES = b'0', b'-1', b'1', b'65536', b'2147483647', b'-2147483648', b'4294967296', b'99999999999999', b'1e30', b'.'
WORDS = b'\0\0\0\0', b'\xff\xff\xff\xff', b'\x7f\xff\xff\xff', b'\xff\xff\xff\x7f'


def sheet(seed: int, size=(420, 560)):
    "A picture of a page with a few lines of text"
    from PIL import Image, ImageDraw, ImageFont
    im = Image.new('RGB', size, 'white')
    draw, font = ImageDraw.Draw(im), ImageFont.load_default(20)
    for line in range(6):
        draw.text((30, 40 + 60 * line), f'Invoice {seed}{line}: {137 * line + seed}.50 EUR', 0, font)
    draw.rectangle((30, 420, 200, 520), fill=(seed * 40 % 256, 90, 160))
    return im


def saved(images: list, kind: str, **options) -> bytes:
    "Pictures as a file"
    out = io.BytesIO()
    images[0].save(out, kind, save_all=len(images) > 1, append_images=images[1:], **options)
    return out.getvalue()


def leaf(c, kind: str, page: int):
    "A page of a PDF that is born digital"
    from reportlab.lib.utils import ImageReader
    c.setFont('Times-Roman' if page % 2 else 'Helvetica', 14)
    for line in range(12): c.drawString(40, 480 - 24 * line, f'Item {page}{line} costs {line * 31}.20 EUR in all')
    c.drawImage(ImageReader(sheet(page, (120, 160))), 260, 40, 120, 160, mask=None)
    c.bookmarkPage(f'p{page}')
    c.addOutlineEntry(f'Chapter {page}', f'p{page}')
    if kind == 'forms': c.doForm('f5')
    if kind == 'fields':
        c.acroForm.textfield(name=f't{page}', value='Ottilie Brandt', x=40, y=60, width=150, height=24)
        c.acroForm.checkbox(name=f'c{page}', x=40, y=120, checked=True)
        c.textAnnotation('a note', [40, 160, 80, 200], relative=1)


def digital(kind: str) -> bytes:
    "A PDF that is born digital, encrypted, of nested forms or with fields"
    from reportlab import rl_config
    from reportlab.pdfgen import canvas
    rl_config.useA85, out = 0, io.BytesIO()
    encrypt = PASSWORD if kind == 'encrypted' else None
    c = canvas.Canvas(out, (400, 560), encrypt=encrypt, invariant=1, pageCompression=1)
    for depth in range(6) if kind == 'forms' else ():
        c.beginForm(f'f{depth}', 0, 0, 400, 560)
        c.drawString(220, 300 + 20 * depth, f'Form {depth}')
        for _ in range(3 if depth else 0): c.doForm(f'f{depth - 1}')
        c.endForm()
    for page in range(1, 4):
        leaf(c, kind, page)
        c.showPage()
    c.save()
    return out.getvalue()


@cache
def original(kind: str) -> bytes:
    "A good document"
    sheets = [sheet(i) for i in range(3)]
    if kind in ('digital', 'encrypted', 'forms', 'fields'): return digital(kind)
    if kind == 'scanned': return saved(sheets, 'PDF', resolution=72)
    if kind == 'codecs':
        images = [im.convert(mode) for im, mode in zip(sheets, ('1', 'RGBA', 'P'), strict=True)]
        return saved(images, 'PDF')
    if kind == 'tiff': return saved([sheets[0], sheets[1].convert('1'), sheets[2].convert('L')], 'TIFF')
    return saved(sheets[:1], kind.upper())


def place(data: bytes, rng) -> int: return rng.randrange(len(data) + 1)


def bits(data: bytes, rng) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 4, 32, 256)) if data else 0): out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(data: bytes, rng) -> bytes: return data[:place(data, rng)]


def dropped(data: bytes, rng) -> bytes:
    at = place(data, rng)
    return data[:at] + data[at + rng.choice((1, 3, 40, 1000)):]


def inserted(data: bytes, rng) -> bytes:
    at = place(data, rng)
    return data[:at] + rng.randbytes(rng.choice((1, 3, 40, 1000))) + data[at:]


def repeated(data: bytes, rng) -> bytes:
    at = place(data, rng)
    part = data[at:at + rng.choice((4, 40, 400))]
    return data[:at] + part * min(rng.choice((2, 30, 3000)), 3_000_000 // max(1, len(part))) + data[at:]


def swapped(data: bytes, rng) -> bytes:
    a, b, c = sorted(place(data, rng) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def words(data: bytes, rng) -> bytes:
    "Numbers of 2 or 4 bytes become extreme ones"
    out = bytearray(data)
    for _ in range(rng.choice((1, 3, 10))):
        at, size = place(data, rng) & ~1, rng.choice((2, 4))
        out[at:at + size] = rng.choice(WORDS)[:size]
    return bytes(out)


def exchanged(data: bytes, rng, pattern: bytes, other) -> bytes:
    "Some of what matches becomes something else"
    found = list(re.finditer(pattern, data))
    chosen = {m.start() for m in rng.sample(found, min(len(found), rng.choice((1, 1, 3, 10))))}
    return re.sub(pattern, lambda m: other(found) if m.start() in chosen else m[0], data)


def numbers(data: bytes, rng) -> bytes:
    return exchanged(data, rng, rb'(?<![\w.])-?\d+(?![\w.])', lambda found: rng.choice(EXTREMES))


def names(data: bytes, rng) -> bytes:
    return exchanged(data, rng, rb'/[A-Za-z]\w*', lambda found: rng.choice(found)[0])


def references(data: bytes, rng) -> bytes:
    return exchanged(data, rng, rb'\d+ 0 R', lambda found: rng.choice(found)[0])


def inside(data: bytes, rng) -> bytes:
    "What a compressed stream of a PDF holds is changed"
    streams = [m for m in re.finditer(rb'stream\r?\n(.*?)\r?\n?endstream', data, re.S) if m[1][:1] == b'x']
    if not streams: return bits(data, rng)
    m = rng.choice(streams)
    try: held = zlib.decompressobj().decompress(m[1])
    except zlib.error: return bits(data, rng)
    packed = zlib.compress(rng.choice((bits, dropped, repeated, swapped, numbers, names))(held, rng))
    head = re.sub(rb'/Length \d+(?! \d+ R)(?=[^/]*(?:/[^/]*){0,12}$)', b'/Length %d' % len(packed), data[:m.start()])
    return head + b'stream\n' + packed + b'\nendstream' + data[m.end():]


def pixels(data: bytes, rng) -> bytes:
    "What the chunks of a PNG hold is changed, and packed again"
    start, end = data.find(b'IDAT') - 4, data.rfind(b'IEND') - 4
    try: held = zlib.decompressobj().decompress(data[start + 8:end])
    except zlib.error: return bits(data, rng)
    packed = zlib.compress(rng.choice((bits, dropped, repeated, swapped))(held, rng))
    return data[:start] + len(packed).to_bytes(4, 'big') + b'IDAT' + packed + b'\0\0\0\0' + data[end:]


def rechecked(data: bytes) -> bytes:
    "A PNG with the checksums that its chunks should have"
    out, at = bytearray(data), 8
    while at + 12 <= len(out):
        end = at + 8 + int.from_bytes(out[at:at + 4], 'big')
        if end + 4 > len(out): break
        out[end:end + 4] = zlib.crc32(out[at + 4:end]).to_bytes(4, 'big')
        at = end + 4
    return bytes(out)


ANY = bits, cut, dropped, inserted, repeated, swapped, words
OF_KIND = dict(pdf=(numbers, numbers, names, references, inside, inside, inside), png=(pixels,) * 7)


def document(seed: int) -> tuple:
    "(kind, names of the changes, bytes)"
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    data = original(kind)
    ways = ANY + OF_KIND.get('pdf' if data[:4] == b'%PDF' else kind, ())
    changes = rng.choices(ways, k=rng.choice((1, 1, 2, 3, 5)))
    for change in changes: data = change(data, rng)[:4_000_000]
    if kind == 'png' and rng.random() < .7: data = rechecked(data)
    return kind, [change.__name__ for change in changes], data


# what a process of its own does

def processor(keeper) -> tuple:
    "Seconds that this process used, and its workers"
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = ended.ru_utime + ended.ru_stime
    if keeper.worker and keeper.worker.process.poll() is None:
        used += time.clock_gettime(~keeper.worker.process.pid << 3 | 2)   # the processor's clock of another process
    return time.process_time(), used


def peak(pid) -> float:
    "The most memory that a process had, in MB"
    try: text = Path(f'/proc/{pid}/status').read_text()
    except OSError: return 0
    return int(re.search(r'VmHWM:\s+(\d+)', text)[1]) / 1024 if 'VmHWM' in text else 0


class Visit:
    "What a document gave, and what it cost"
    def __init__(self, keeper):
        self.keeper, self.said, self.faults, self.slowest = keeper, [], [], (0., '')

    def call(self, name: str, do):
        "What `do` gives, None for what is refused; a PageError of one line is as it should be"
        from cosee.pages import PageError
        start, wall = processor(self.keeper), time.monotonic()
        try: return do()
        except PageError as e:
            self.said.append(str(e))
            if len(str(e).splitlines()) != 1 or len(str(e)) > 600:
                self.faults.append(f'{name}: not one line: {str(e)[:300]!r}')
        except Exception as e: self.faults.append(f'{name}: {type(e).__name__}: {str(e)[:200]}')
        finally:
            used = [b - a for a, b in zip(start, processor(self.keeper), strict=True)]
            self.judge(name, used, time.monotonic() - wall)

    def judge(self, name: str, used: list, wall: float):
        "Is a call within its deadline?"
        self.slowest = max(self.slowest, (round(sum(used), 2), name))
        most = JOBS[name] * 10 + SLACK
        if max(used) > most: self.faults.append(f'{name}: {used[0]:.1f} + {used[1]:.1f} seconds of a processor')
        if wall > JOBS[name] * 60 + SLACK: self.faults.append(f'{name}: {wall:.1f} seconds')

    def document(self, path: str, first: str, reader):
        "Open, draw and read; `first` is the way in which the first page is read"
        from cosee.pages import load_pages
        pages = self.call('open', lambda: load_pages(path, password=PASSWORD))
        if pages is None: return
        with pages:
            self.call('contents', lambda: pages.outline)
            for page in (self.call('sizes', lambda: pages.infos) or [])[:PAGES]:
                self.call('sizes', lambda page=page: page.pixels)
                self.call('draw', lambda page=page: page.draw().tobytes())
                way = first if page.number == 1 else 'text'
                self.call('read', lambda page=page, way=way: reader.read([page], way)[0]['lines'])


def visit():
    "Do what comes in at standard input"
    from cosee.text.ocr import TextExtractor
    from cosee.utils import isolation
    from cosee.utils.isolation import apart
    reader = TextExtractor(workers=1, cache=None)
    apart(len, '')
    print('ready', flush=True)
    for line in sys.stdin:
        found = Visit(isolation._keeper)
        found.document(*line.rstrip('\n').split('\t'), reader)
        worker = isolation._keeper.worker
        ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024   # may be this one's own, before a start
        mb = max(ended, peak(worker.process.pid) if worker else 0)
        print(json.dumps(dict(said=found.said, faults=found.faults, slowest=found.slowest, own_mb=round(peak('self')),
                              worker_mb=round(mb))), flush=True)


# what starts and watches it

class Visitor:
    "A process that visits documents"
    def __init__(self, log):
        env = {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1', 'COSEE_CACHE': 'off'}
        self.done, self.log = 0, log
        self.process = subprocess.Popen([sys.executable, __file__, '--visit'], stdin=subprocess.PIPE, env=env,
                                        stdout=subprocess.PIPE, stderr=log, text=True)
        self.heard = select.poll()
        self.heard.register(self.process.stdout, select.POLLIN)
        if self.answer(300) != 'ready': raise SystemExit('the process that opens documents does not start')

    def answer(self, seconds: float) -> str:
        "A line that it says; '' if it ended or says nothing"
        if not self.heard.poll(1000 * seconds): return ''
        return self.process.stdout.readline().strip()

    def visit(self, path: Path, seed: int) -> dict:
        "What a document gave"
        self.process.stdin.write(f'{path}\t{"text" if seed // len(KINDS) % 10 else "auto"}\n')
        self.process.stdin.flush()
        self.done += 1
        line = self.answer(900)
        if line: return json.loads(line)
        late = self.process.poll() is None
        self.process.kill()
        return dict(faults=['it hangs' if late else f'its process ended: {self.process.wait()}'])

    def close(self) -> list:
        "End it; what was left over or said"
        self.process.stdin.close()
        faults = [] if self.process.wait(60) == 0 else [f'its process ended: {self.process.returncode}']
        until = time.monotonic() + 5
        children = Path(f'/proc/self/task/{os.getpid()}/children')
        while (left := children.read_text().split()) and time.monotonic() < until:
            try: os.waitpid(-1, os.WNOHANG)   # what is left over comes to this process
            except ChildProcessError: break
            time.sleep(.02)
        self.log.seek(0)
        if text := self.log.read().strip(): faults.append(f'stderr: {text[-300:]}')
        return faults + [f'{len(left)} processes are left over'] * bool(left)


def outcome(found: dict) -> str:
    "How a document is counted"
    if found['faults']: return 'fault'
    if any('it takes more than' in text for text in found['said']): return 'time'
    if any('memory' in text or 'crashes' in text for text in found['said']): return 'memory or crash'
    return 'told' if found['said'] else 'answered'


def visited(seeds: list, folder: Path, keep):
    "A record of each document, and faults of the process that visited them"
    visitor, log = None, None
    for place, seed in enumerate(seeds):
        if visitor is None:
            log = (folder / 'stderr').open('w+')
            visitor = Visitor(log)
        kind, changes, data = document(seed)
        path = (Path(keep) if keep else folder) / f'd{seed}.{"pdf" if data[:4] == b"%PDF" else kind}'
        path.write_bytes(data)
        found = visitor.visit(path, seed)
        if not keep: path.unlink()
        ended = visitor.process.poll() is not None
        if ended or visitor.done >= BATCH or place == len(seeds) - 1:
            found['faults'] += [] if ended else visitor.close()
            visitor = None
        found = dict(said=[], slowest=[0, ''], own_mb=0, worker_mb=0) | found
        if found['own_mb'] > OWN_MB or found['worker_mb'] > WORKER_MB:
            found['faults'].append('more memory than its limit')
        yield dict(seed=seed, kind=kind, changes=changes, bytes=len(data), outcome=outcome(found), **found)


def summary(records: list) -> dict:
    "What is counted"
    kinds = defaultdict(Counter)
    for r in records: kinds[r['kind']][r['outcome']] += 1
    slowest = max(records, key=lambda r: r['slowest'][0])
    return dict(documents=len(records), outcomes=dict(Counter(r['outcome'] for r in records).most_common()),
                kinds={kind: dict(kinds[kind].most_common()) for kind in KINDS if kind in kinds},
                pages_told=sum(len(r['said']) for r in records),
                slowest_call=dict(seconds=slowest['slowest'][0], call=slowest['slowest'][1], seed=slowest['seed']),
                own_mb=max(r['own_mb'] for r in records), worker_mb=max(r['worker_mb'] for r in records),
                faults=[dict(seed=r['seed'], faults=r['faults']) for r in records if r['faults']])


def main():
    "Visit, count and print"
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--documents', type=int, default=3000)
    p.add_argument('--first', type=int, default=0, metavar='SEED')
    p.add_argument('--state', metavar='FILE', help='a line for each document, which is not visited again')
    p.add_argument('--keep', metavar='FOLDER', help='leave the documents there')
    p.add_argument('--json', metavar='FILE')
    p.add_argument('--visit', action='store_true', help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.visit: return visit()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)   # PR_SET_CHILD_SUBREAPER: orphans come to this process
    state = Path(args.state) if args.state else None
    records = [json.loads(line) for line in state.read_text().splitlines()] if state and state.exists() else []
    known = {r['seed'] for r in records}
    seeds = [n for n in range(args.first, args.first + args.documents) if n not in known]
    with tempfile.TemporaryDirectory() as folder:
        for record in visited(seeds, Path(folder), args.keep):
            records.append(record)
            if state:
                with state.open('a') as f: f.write(json.dumps(record) + '\n')
    found = summary(records)
    print(json.dumps(found, indent=1))
    if args.json: Path(args.json).write_text(json.dumps(found, indent=1) + '\n')
    return bool(found['faults'])


if __name__ == '__main__': sys.exit(main())
