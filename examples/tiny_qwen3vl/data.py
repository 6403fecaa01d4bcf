"""From lessons to tensors: a document with its lessons as one sequence, and the batch that each step sees.

The pages of a document are computed once for all of its lessons: behind them stand the lessons side by side, each of
which sees the pages and itself.
"""
import os
import random
import re
import string
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from lessons import Part, make_lesson, page_lesson
from PIL import Image

from cosee.datasets.synthetic.document import make_document, render, scan
from cosee.datasets.synthetic.small import SMALL_FONTS, letter_places, shift, small_document

LETTERS = string.ascii_letters + string.digits + '.:-/%$'
SLOTS = 3               # letters of an image token
KINDS = ('given', 'form', 'reading', 'sure')   # of `Part`
FIRST, FIRST_WEIGHT = 6, 2.   # the first tokens of a reply, where action and page are decided, count more
IGNORE = -100           # what torch takes for 'not to be learned'
RIGHT, WRONG = 1, 2     # of a token of an answer on the Board: is it right so far?


# --- pages ---

def cut_patches(image):
    "A page as the model's image processor cuts it: uint8, shape (patches, channel * row * column)."
    a = np.asarray(image.convert('RGB'))
    h, w = a.shape[0] // 32, a.shape[1] // 32
    return a.reshape(h, 2, 16, w, 2, 16, 3).transpose(0, 3, 1, 4, 6, 2, 5).reshape(h * w * 4, 768)


def pixel_values(patches):
    "Patches as the model takes them: two equal moments, numbers from -1 to 1."
    x = (patches.float() / 127.5 - 1).view(-1, 3, 1, 256)
    return x.expand(-1, 3, 2, 256).reshape(len(patches), 1536)


def letter_grid(marks, size):
    "Which letters stand where, shape (image tokens, SLOTS): 0 or the number of a letter in LETTERS, from 1."
    grid = np.zeros((size[1] // 32, size[0] // 32 * SLOTS), dtype=np.int64)
    for m in marks:
        for letter, row, column in letter_places(m):
            if letter in LETTERS: grid[row, column] = LETTERS.index(letter) + 1
    return grid.reshape(-1, SLOTS)


def add_scan_noise(images, rng):
    "Give pages noise, grey paper and blur, and move them by up to three pixels."
    noise, blur = rng.choice((0, .01, .02, .04)), rng.choice((0, 0, 0, .4, .6))
    paper = rng.choice((255, 255, 245, 235))
    scans = (scan(im, rng, noise=noise, blur=blur, paper=paper) for im in images)
    return [shift(im, rng.randint(-3, 3), rng.randint(-3, 3)) for im in scans]


@cache
def ordinary_pages():
    kinds = ('invoice', 'report', 'slides', 'form', 'contract')
    docs = [make_document(k, 9000 + i) for i in range(3) for k in kinds]
    return [im.convert('L') for d in docs for im in render(d, 40)]


def draw_unreadable_page(rng, size):
    "An ordinary page made much too small, or noise."
    if rng.random() < .75:
        return rng.choice(ordinary_pages()).resize(size, Image.Resampling.BICUBIC).convert('RGB')
    source = np.random.default_rng(rng.getrandbits(32))
    noise = source.integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, rng.choice((Image.Resampling.BICUBIC, Image.Resampling.NEAREST)))


# --- tokens ---

class Token(NamedTuple):
    "A token of a sequence, and all that is learned at its place."
    id: int
    position: tuple        # time, height, width
    branch: int = 0        # 0 for the pages, then the number of the lesson
    label: int = IGNORE    # the token that follows, if that is to be learned
    weight: float = 1.     # how much it counts
    kind: int = 0          # of the token to be learned: number in KINDS
    line: int = 0          # `line_id` of a token of a page; -1 for the first token, 0 for text
    look: int = 0          # the line to look at from here, or 0
    verdict: int = 0       # in answers on the Board: RIGHT so far or WRONG; else 0
    expected: int = IGNORE # in answers on the Board: the token that should follow
    error: int = -1        # where a cross-checker decides: the place of the first wrong token, 0 if none is wrong


class Row(NamedTuple):
    "A document with its lessons as one sequence."
    tokens: list
    patches: list    # of each page
    grids: list      # (rows, columns) of patches of each page
    letters: list    # `letter_grid` of each page
    lessons: list


def line_id(page, row): return 64 * page + row


def text_tokens(tok, text, at): return [Token(t, (at + n,) * 3) for n, t in enumerate(tok.encode(text))]


def page_tokens(tok, sizes):
    "The tokens of the pages, in the words of the client's prompt, and the position that follows."
    tokens = text_tokens(tok, '<|im_start|>user\n', 0)
    tokens[0] = tokens[0]._replace(line=-1)
    at, pad = len(tokens), tok.convert_tokens_to_ids('<|image_pad|>')
    def add(text):
        nonlocal at
        tokens.extend(new := text_tokens(tok, text, at))
        at += len(new)
    for page, (width, height) in enumerate(sizes, 1):
        if len(sizes) > 1: add(('\n' if page > 1 else '') + f'Page {page}:\n')
        add('<|vision_start|>')
        tokens += [Token(pad, (at, at + y, at + x), line=line_id(page, y))
                   for y in range(height // 32) for x in range(width // 32)]
        at += max(width, height) // 32   # text goes on from the longer side
        add('<|vision_end|>')
    return tokens, at


ANSWERS = re.compile(
    r'^- \(#\d+, (?:detail_reader|cross_checker), step \d+\) (?:Corrects #\d+: )?(?!Links #)(.*)$', re.M)


def compare_notes(tok, text, note, target=0):
    """Compare the answers on the Board of a prompt with a right note.

    Returns the prompt's tokens; of each its verdict; of each the token that should follow, up to the first mistake;
    and the place of the first wrong token of the note `target`, or 0."""
    encoded = tok(text, return_offsets_mapping=True)
    ids, spans, right = encoded['input_ids'], encoded['offset_mapping'], tok.encode(note)
    verdicts, expected, error = [0] * len(ids), [IGNORE] * len(ids), 0
    for m in ANSWERS.finditer(text):
        start, end = m.span(1)
        wrong = float('inf') if m[1] == note else start + len(os.path.commonprefix([m[1], note]))
        for i, (a, b) in enumerate(spans):
            if start <= a <= end: verdicts[i] = WRONG if b > wrong else RIGHT
        if m[0].startswith(f'- (#{target},'): error = next(i for i, (_, b) in enumerate(spans) if b > wrong)
        first = next(i for i, (a, _) in enumerate(spans) if a >= start)
        for i, t in enumerate(right, first):
            expected[i - 1] = t
            if i >= len(ids) or ids[i] != t: break
    return ids, verdicts, expected, error


def lesson_tokens(tok, lesson, sizes, position, before):
    "A lesson from `position` on, with `before` tokens before it."
    question = f'\nQuestion: {lesson.question}'
    board = f'\n\nShared board (summary):\n{lesson.board}' if lesson.board else ''
    prompt = f'{question}{board}\n\n{lesson.prompt}<|im_end|>\n<|im_start|>assistant\n'
    ids, verdicts, expected, error = compare_notes(tok, prompt, lesson.note, lesson.target)
    look = 0
    if lesson.place:   # from the end of the question on it looks at the line, or at the first token
        page, y = lesson.place
        look = line_id(page, int(y / 1000 * sizes[page - 1][1] / 32)) if page else -1
    asked, first = len(tok.encode(question)), len(ids)
    tokens = [Token(t, (position + i,) * 3, look=look if i >= asked else 0, verdict=v, expected=e)
              for i, (t, v, e) in enumerate(zip(ids, verdicts, expected))]
    kinds = []
    for part in [*lesson.reply, Part('<|im_end|>')]:
        new = tok.encode(part.text)
        tokens += [Token(t, (position + len(tokens) + i,) * 3, look=look) for i, t in enumerate(new)]
        kinds += [KINDS.index(part.kind)] * len(new)
    if lesson.kind == 'cross_checker' and any(verdicts):
        tokens[first] = tokens[first]._replace(error=before + error if error else 0)
    for n, kind in enumerate(kinds):   # each token before one of the reply learns that one, unless it is given
        i = first + n - 1
        tokens[i] = tokens[i]._replace(label=tokens[i + 1].id if kind else IGNORE, kind=kind,
                                       weight=FIRST_WEIGHT if n < FIRST else 1.)
    if len(kinds) < FIRST: tokens[-1] = tokens[-1]._replace(weight=FIRST_WEIGHT)
    return tokens


def make_row(tok, images, lessons, letters=()):
    "Pages and lessons as one sequence."
    sizes = [image.size for image in images]
    tokens, position = page_tokens(tok, sizes)
    for n, lesson in enumerate(lessons, 1):
        tokens += [t._replace(branch=n) for t in lesson_tokens(tok, lesson, sizes, position, len(tokens))]
    grids = [(image.height // 16, image.width // 16) for image in images]
    return Row(tokens, [cut_patches(image) for image in images], grids, list(letters), lessons)


def collate(rows, pad):
    "Rows as one batch; what is filled up with the token `pad` sees itself and teaches nothing."
    length, filler = max(len(r.tokens) for r in rows), Token(pad, (0, 0, 0), branch=-1, weight=0.)
    padded = [[*r.tokens, *[filler] * (length - len(r.tokens))] for r in rows]
    batch = {field: torch.tensor([[getattr(t, field) for t in tokens] for tokens in padded])
             for field in Token._fields}
    branch = batch['branch']
    is_seen = (branch[:, None] == 0) | (branch[:, None] == branch[:, :, None])   # on the pages or in its own lesson
    is_seen = is_seen & torch.ones(length, length, dtype=torch.bool).tril() | torch.eye(length, dtype=torch.bool)
    no_letters = torch.zeros(0, SLOTS, dtype=torch.long)
    return batch | dict(
        mask=is_seen[:, None], position=batch['position'].permute(2, 0, 1).contiguous(),
        patches=torch.cat([torch.from_numpy(p.copy()) for r in rows for p in r.patches]),
        image_grid_thw=torch.tensor([(1, *g) for r in rows for g in r.grids]),
        letters=torch.cat([torch.from_numpy(g) for r in rows for g in r.letters] or [no_letters]))


# --- the curriculum: first reading, then questions and roles beside reading, in the end on six pages ---

class Stage(NamedTuple):
    "A stage of the curriculum."
    pages: tuple   # least and most
    lines: tuple   # least and most on a page
    aim: str       # 'read' pages; 'both': read and answer; 'act': answer and play roles
    until: float   # share of the training at which it ends


STAGES = (
    Stage((1, 1), (1, 1), 'read', .0134), Stage((1, 1), (1, 4), 'read', .0467), Stage((1, 1), (1, 7), 'read', .107),
    Stage((1, 1), (1, 7), 'both', .227), Stage((1, 2), (1, 7), 'act', .293), Stage((1, 3), (1, 7), 'act', .36),
    Stage((1, 6), (1, 7), 'act', 1.))
ROWS = {1: 14, 2: 12, 3: 10, 4: 9, 5: 8, 6: 7}   # documents of a batch by their pages
READ_ROWS = 32                # documents of a batch that is only read
GROW_FROM = .625              # share of the training from which notes are compared letter by letter
SLIPS, SLIPS_UNTIL = .4, .875 # share of cross-checkers' lessons on a Board of many slips, and until when
HARD_FONTS = ('Helvetica-Oblique', 'Helvetica-Oblique', 'Times-BoldItalic')   # drawn more often from then on
MOVED_FROM = .9375            # from when on nearly all pages are moved
CLEAN, CLEAN_LATE = .4, .1    # share of documents without noise, before and after


def document_row(tok, seed, pages, lines=(1, 7), style='dev', p_unreadable=.04, aim='act', p_slips=0.,
                 fonts=SMALL_FONTS, p_clean=CLEAN):
    "One document with its lessons, drawn from `seed`; those of one line are clean and in one family of fonts."
    rng, is_first = random.Random(seed), lines[1] < 2
    doc = small_document(seed, pages, style, lines, SMALL_FONTS[:2] if is_first else fonts, 6, unanswerable=.26)
    images, readable = render(doc, 72), rng.random() >= p_unreadable
    if not is_first and readable and rng.random() >= p_clean: images = add_scan_noise(images, rng)
    letters = [letter_grid([m for m in doc.marks if m['page'] == p], im.size) for p, im in enumerate(images, 1)]
    if aim == 'read': return make_row(tok, images, [page_lesson(doc)], letters)
    if aim == 'both' and readable:
        lessons = [page_lesson(doc), *(make_lesson(doc, q, rng) for q in doc.questions[:4])]
        return make_row(tok, images, lessons, letters)
    if not readable:
        images = [draw_unreadable_page(rng, im.size) for im in images]
        letters = [0 * g for g in letters]
    return make_row(tok, images, [make_lesson(doc, q, rng, readable, p_slips) for q in doc.questions], letters)


def make_batch(tok, step, steps, seed=0):
    "What a step of the training learns from; it depends on nothing but these numbers."
    rng, share = random.Random(f'{seed}/{step}'), step / steps
    stage = next(s for s in STAGES if share <= s.until)
    pages, slips = rng.randint(*stage.pages), GROW_FROM <= share < SLIPS_UNTIL
    fonts = (*SMALL_FONTS, *HARD_FONTS) if share >= SLIPS_UNTIL else SMALL_FONTS
    rows = READ_ROWS if stage.aim == 'read' else ROWS[pages] - slips
    return collate([
        document_row(tok, f'{seed}-{step}-{i}', pages, stage.lines, aim=stage.aim, p_slips=SLIPS * slips, fonts=fonts,
                     p_clean=CLEAN_LATE if share >= MOVED_FROM else CLEAN)
        for i in range(rows)], tok.pad_token_id)
