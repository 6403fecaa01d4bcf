"""What OCR of a page costs and how well it reads: CPU seconds by part, as the package comes and as CoSee has it.

    python benchmarks/ocr_speed.py --json benchmarks/results/ocr_speed.json
    python benchmarks/ocr_speed.py --pages 4 --pdfs ~/reports --pdf-pages 6

All ways read the same pages in the same run, page by page in turn, so that whatever else the machine does falls on
all. `plain` is rapidocr with its usual batches of six padded lines, `cosee` is what `TextExtractor` does, and `whole`
the same without the model in whole numbers. Of made pages the truth is known (character error rate line by line,
share of words found); of PDFs it is their text layer.
"""
import argparse
import json
import random
import sys
import time
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# kind, seed, resolution, what a scanner does to the page
MADE = [('contract', 1, 120, {}), ('invoice', 0, 120, {}), ('form', 4, 120, dict(rotate=1.0, noise=0.02)),
        ('contract', 6, 120, dict(rotate=0.7, noise=0.03)), ('report', 2, 150, {}), ('datasheet', 3, 100, {}),
        ('timetable', 5, 100, dict(noise=0.02)), ('slides', 7, 100, {})]
PLAIN = {'Global.log_level': 'critical', 'Global.use_cls': False, 'Global.max_side_len': 1600,
         'Global.return_word_box': True, 'EngineConfig.onnxruntime.intra_op_num_threads': 1,
         'EngineConfig.onnxruntime.inter_op_num_threads': 1}
PARTS = dict(detect_and_crop='find and crop lines', recognize_txt='recognise lines', build_final_output='put together')


def made_pages(count: int) -> list:
    "(name, image, lines of truth) of made pages; the last page of each document"
    from cosee.datasets.synthetic.document import make_document, render
    out = []
    for kind, seed, dpi, effects in MADE[:count]:
        doc = make_document(kind, seed, 'dev')
        image = render(doc, dpi, [doc.pages], **effects)[0]
        name = f"{kind}, {dpi} dpi{', scanned' if effects else ''}"
        out.append((name, image, [m for m in doc.marks if m['page'] == doc.pages]))
    return out


def pdf_pages(folder: str, count: int) -> list:
    "(name, image, text) of pages with enough text in the PDFs of a folder, by chance but always the same"
    import pypdfium2
    rng, out = random.Random(0), []
    files = sorted(Path(folder).expanduser().rglob('*.pdf'))
    while files and len(out) < count:
        pdf = pypdfium2.PdfDocument(files.pop(rng.randrange(len(files))))
        page = pdf[rng.randrange(len(pdf))]
        text = page.get_textpage().get_text_range()
        if len(text) > 800: out.append(('PDF', page.render(scale=120 / 72).to_pil().convert('RGB'), text))
    return out


def plain(text: str) -> str:
    "Text with one kind of dash and quote, which no reader of pictures can tell apart"
    text = unicodedata.normalize('NFKC', text).translate(str.maketrans('’‘–—−“”', "''---\"\"", '\x02\xad'))
    return ' '.join(text.split())


def words_in(page, box) -> str:
    "What was read within a box"
    x0, y0, x1, y1 = box
    found = [(a, w) for line in page['lines'] if y0 <= (line['bbox'][1] + line['bbox'][3]) / 2 <= y1
             for w, (a, b) in zip(line['text'].split(), line['words'], strict=True) if x0 <= (a + b) / 2 <= x1]
    return ' '.join(w for _, w in sorted(found))


def judge(page, truth) -> Counter:
    "Errors and characters, and words that were found, are there, and were read"
    from rapidfuzz.distance import Levenshtein
    text = truth if isinstance(truth, str) else ' '.join(m['text'] for m in truth)
    there, read = Counter(plain(text).split()), Counter(plain(' '.join(l['text'] for l in page['lines'])).split())
    out = Counter(found=sum((there & read).values()), there=sum(there.values()), read=sum(read.values()))
    for mark in () if isinstance(truth, str) else truth:
        line = plain(mark['text'])
        out['errors'] += min(len(line), Levenshtein.distance(line, plain(words_in(page, mark['bbox']))))
        out['characters'] += len(line)
    return out


class Timed:
    "Adds up the CPU seconds of an engine's parts"
    def __init__(self, engine):
        self.seconds = Counter()
        for name, part in PARTS.items(): setattr(engine, name, self.timed(getattr(engine, name), part))

    def timed(self, work, part):
        def run(*args):
            start = time.thread_time()
            try: return work(*args)
            finally: self.seconds[part] += time.thread_time() - start
        return run


def narrowed(engine, share: float):
    "An engine that is given its lines at a share of their width, but for short ones"
    import cv2
    whole = engine.recognize_txt

    def narrow(crop):
        width = 48 * crop.shape[1] / crop.shape[0]
        return crop if width < 96 else cv2.resize(crop, (round(share * width), 48))

    def recognise(crops):
        lines = whole([narrow(crop) for crop in crops])
        lines.imgs = crops
        return lines
    engine.recognize_txt = recognise
    return engine


def operators(width: int = 1200, times: int = 5) -> dict:
    "Share of the time that the model for lines spends in each kind of operator, for a line of `width` pixels"
    import numpy as np
    import onnxruntime
    import rapidocr
    from tempfile import TemporaryDirectory
    with TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.intra_op_num_threads = True, 1
        options.profile_file_prefix = f'{folder}/lines'
        file = Path(rapidocr.__file__).parent / 'models/PP-OCRv6_rec_small.onnx'
        session, noise = onnxruntime.InferenceSession(str(file), options), np.random.default_rng(0)
        line = noise.standard_normal((1, 3, 48, width), np.float32)
        for _ in range(times): session.run(None, {session.get_inputs()[0].name: line})
        events = json.loads(Path(session.end_profiling()).read_text())
    spent = Counter()
    for e in events:
        if e['name'].endswith('kernel_time'): spent[e['args']['op_name']] += e['dur']
    return {name: round(took / sum(spent.values()), 3) for name, took in spent.most_common(8)}


def engines(shares=()) -> dict:
    "The ways, each loaded and warm"
    import numpy as np
    from rapidocr import RapidOCR
    from cosee.text.ocr import _make_engine
    out = dict(plain=RapidOCR(params=PLAIN), whole=_make_engine(quick=False), cosee=_make_engine())
    out |= {f'lines at {share:g}': narrowed(_make_engine(quick=False), share) for share in shares}
    for engine in out.values():
        engine(np.full((64, 64, 3), 255, np.uint8))
        engine._load_rec_model()
    return out


def read_plainly(engine, image) -> dict:
    "A page of text from the engine as it comes"
    import numpy as np
    from cosee.text.ocr import _blank_solids, _build_page
    return _build_page(engine(_blank_solids(np.asarray(image.convert('RGB')))[:, :, ::-1]), image.size)


def measure(pages: list, shares=()) -> list:
    "A row for each page and way"
    from cosee.text.ocr import _read_page
    made, rows = engines(shares), []
    clocks = {way: Timed(engine) for way, engine in made.items()}
    for name, image, truth in pages:
        for way, engine in made.items():
            clocks[way].seconds.clear()
            start = time.process_time()
            page = (read_plainly if way == 'plain' else _read_page)(engine, image)
            took, parts = time.process_time() - start, dict(clocks[way].seconds)
            rows.append(dict(page=name, way=way, seconds=took, parts={**parts, 'the rest': took - sum(parts.values())},
                             lines=len(page['lines']), **judge(page, truth)))
            print(f'{name:28} {way:14} {took:6.2f} s', file=sys.stderr)
    return rows


def side_by_side(pages: list) -> dict:
    "CPU and elapsed seconds a page when one thread reads, and when two do"
    from cosee.text.ocr import TextExtractor
    out = {}
    for workers in (1, 2):
        reader, start, cpu = TextExtractor(workers=workers, cache=None), time.perf_counter(), time.process_time()
        reader.read([image for _, image, _ in pages])
        out[workers] = dict(cpu=round((time.process_time() - cpu) / len(pages), 2),
                            elapsed=round((time.perf_counter() - start) / len(pages), 2))
    return out


def table(rows: list) -> list:
    "Means by way, over made pages and over PDFs"
    groups = defaultdict(list)
    for r in rows: groups['PDFs' if r['page'] == 'PDF' else 'made', r['way']].append(r)
    out = []
    for (pages, way), g in groups.items():
        sums = sum((Counter({k: v for k, v in r.items() if isinstance(v, int)}) for r in g), Counter())
        parts = {part: round(sum(r['parts'].get(part, 0) for r in g) / len(g), 2) for part in g[0]['parts']}
        errors = round(sums['errors'] / sums['characters'], 4) if sums['characters'] else None
        out.append(dict(pages=pages, way=way, n=len(g), seconds=round(sum(r['seconds'] for r in g) / len(g), 2),
                        parts=parts, character_errors=errors, words_found=round(sums['found'] / sums['there'], 4),
                        words_right=round(sums['found'] / sums['read'], 4)))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--pages', type=int, default=len(MADE), help='made pages (default: all)')
    p.add_argument('--pdfs', default=None, help='folder of PDFs that carry their text')
    p.add_argument('--pdf-pages', type=int, default=6, help='pages out of that folder')
    p.add_argument('--threads', action='store_true', help='compare one thread with two, too')
    p.add_argument('--narrow', type=float, nargs='*', default=[], help='shares of their width at which lines are read')
    p.add_argument('--operators', action='store_true', help='tell what recognising lines spends its time on')
    p.add_argument('--json', default=None, help='write what was measured to this file')
    args = p.parse_args()
    pages = made_pages(args.pages) + (pdf_pages(args.pdfs, args.pdf_pages) if args.pdfs else [])
    rows = measure(pages, args.narrow)
    result = dict(table=table(rows), pages=rows, **(dict(threads=side_by_side(pages[:4])) if args.threads else {}))
    if args.operators: result['operators'] = operators()
    for r in result['table']: print(r)
    for n, r in result.get('threads', {}).items(): print(n, 'at a time:', r)
    if args.json: Path(args.json).write_text(json.dumps(result, ensure_ascii=False, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__': main()
