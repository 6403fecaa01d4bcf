"""What each role should write, for any document of small pages and any state of the Board.

A lesson is a prompt of the project, exactly as an agent or a baseline would send it, and the reply that is right. The
Boards in the prompts are filled by the controller's own rules, with notes that are right, wrong, beside the point or
corrected already.
"""
import json
import string
from typing import NamedTuple

from model import prompts

from cosee.board import Board
from cosee.controller import CoSeeController
from cosee.datasets.synthetic.small import make_small_value
from cosee.utils.text import NOT_ANSWERABLE, abstains

WHOLE_PAGE = (0, 0, 1000, 1000)   # boxes are in 0-1000 coordinates, rounded to tens
UNREADABLE = 'cannot read this page'
SURE, DOUBT = .95, .2
NAMES = ('scanner', 'detail_reader', 'cross_checker')
WEIGHTS = dict(direct=1.6, read=1., cot=1., chat=1.2, scanner=1., detail_reader=1.4, cross_checker=3.3)


class Truth(NamedTuple):
    "What stands behind a question."
    page: int      # from 1
    box: tuple     # of the whole line
    content: str   # the line as 'Label: value', or why there is none
    answer: str    # the value, or 'not answerable'
    label: str     # as printed; '' where there is none

    @property
    def exists(self): return not abstains(self.answer)


def to_tens(box):
    "A box of numbers from 0 to 1 in 0-1000 coordinates, rounded to tens."
    x0, y0, x1, y1 = (min(1000, max(0, round(v * 100) * 10)) for v in box)
    return x0, y0, max(x1, x0 + 10), max(y1, y0 + 10)


def line_truth(fact, label=None):
    "The truth that a line of a page would be, under its own label or another."
    label = label or fact['shown']
    return Truth(fact['page'], to_tens(fact['row_bbox']), f"{label}: {fact['value']}", fact['value'], label)


def find_truth(question, readable=True):
    "What is right for a question of `small_document`."
    if not readable: return Truth(1, WHOLE_PAGE, UNREADABLE, NOT_ANSWERABLE, '')
    if question['fact']: return line_truth(question['fact'])
    return Truth(question['asked_page'] or 1, WHOLE_PAGE, 'not found', NOT_ANSWERABLE, '')


# --- wrong readings: letters mistaken, another line, a field that was overlooked, one that is not there ---

def misspell(text, rng):
    "Replace, leave out or double one or two letters."
    for _ in range(9):
        letters = list(text)
        for _ in range(rng.choice((1, 1, 2))):
            i, how = rng.randrange(len(letters)), rng.random()
            if how < .8:
                c = letters[i]
                alike = (string.digits if c.isdigit() else
                         string.ascii_lowercase if c.islower() else string.ascii_uppercase)
                letters[i] = rng.choice(alike)
            else: letters[i] = '' if how < .9 and len(letters) > 2 else letters[i] * 2
        new = ' '.join(''.join(letters).split())   # the Board shows no more of spaces
        if new not in ('', text): return new
    return text + '1'


def misspell_truth(t, rng):
    "The truth with a letter or two misread."
    value = misspell(t.answer, rng)
    return t._replace(content=f'{t.label}: {value}', answer=value)


def corrupt(t, doc, rng):
    "A wrong reading of the truth."
    others, how = [f for f in doc.facts if f['value'] != t.answer], rng.random()
    if t.exists and how < .5: return misspell_truth(t, rng)
    if others and how < .9:
        other = rng.choice(others)
        return line_truth(other, t.label if t.exists and rng.random() < .5 else None)
    if t.exists: return Truth(t.page, WHOLE_PAGE, 'not found', NOT_ANSWERABLE, '')
    value = make_small_value(rng)[0]
    return Truth(t.page, WHOLE_PAGE, f'Total: {value}', value, 'Total')


# --- Boards ---

def inspect_action(page, box, content, *tags):
    return dict(action='INSPECT', view=dict(page=page, bbox_2d=list(box)), content=content, tags=list(tags))


def answer_action(t, confidence, **more):
    return dict(action='REVISE' if more else 'HYPOTHESIZE', view=dict(page=t.page, bbox_2d=list(t.box)),
                content=t.content, answer=t.answer, confidence=confidence, **more)


class Trajectory:
    "A Board in the making, and what is known about its notes."
    def __init__(self, doc, truth, rng):
        self.doc, self.truth, self.rng, self.board, self.step = doc, truth, rng, Board(), 1
        self.rules = CoSeeController([])
        self.right = []           # numbers of notes that say the truth
        self.wrong = []           # of notes that nobody has corrected
        self.headings = set()     # pages whose heading is noted
        self.is_located = False   # has the scanner noted the line?
        self.is_confirmed = False # does the cross-checker's own answer stand on the Board?

    def add(self, author, action):
        "Apply an action; return the number of its note."
        valid = self.rules.validate_action(action)
        cell = self.rules.apply_action(self.board, valid, self.step, author) if valid else None
        if cell is None: raise ValueError(f'this action makes no note: {action}')
        return cell

    def scan(self):
        "Add the scanner's note: the line, or a heading, or another line."
        t, rng = self.truth, self.rng
        if t.exists and rng.random() < .8:
            self.right.append(self.add('scanner', inspect_action(t.page, t.box, t.label, 'field')))
            self.is_located = True
            return
        page = t.page if not t.exists and rng.random() < .7 else rng.randint(1, self.doc.pages)
        self.headings.add(page)
        head = self.doc.heads[page - 1]
        self.add('scanner', inspect_action(page, to_tens(head['bbox']), head['text'], 'section'))

    def read(self, p_wrong=.4, letters_only=False):
        "Add the detail reader's note, right or wrong."
        rng, t, confidence = self.rng, self.truth, SURE
        wrong = rng.random() < p_wrong
        if wrong:
            t = misspell_truth(t, rng) if letters_only else corrupt(t, self.doc, rng)
            confidence = rng.choice((SURE, SURE, DOUBT))
        cell = self.add('detail_reader', answer_action(t, confidence))
        (self.wrong if wrong else self.right).append(cell)

    def check(self):
        "Add the cross-checker's note: it corrects what is wrong, or confirms, or (seldom) errs."
        t, name = self.truth, 'cross_checker'
        if self.wrong:
            self.right.append(self.add(name, answer_action(t, SURE, target_cell_id=self.wrong.pop(0))))
        elif self.rng.random() < .2:
            self.wrong.append(self.add(name, answer_action(corrupt(t, self.doc, self.rng), DOUBT)))
        else:
            self.right.append(self.add(name, answer_action(t, SURE)))
            self.is_confirmed = True


def simulate(doc, truth, rng, role):
    "A Board as a role may find it at its turn."
    s = Trajectory(doc, truth, rng)
    if rng.random() < .25: return s
    scanned = role != 'scanner' or rng.random() < .5
    if scanned and rng.random() < .9: s.scan()
    if role == 'cross_checker' and rng.random() < .9: s.read(.5)
    while rng.random() < .3 and s.step < 3:
        if role != 'cross_checker': s.read(.3)
        s.check()
        s.step += 1
        if rng.random() < .6: s.scan()
        if role == 'cross_checker': s.read(.3)
    return s


def simulate_slips(doc, truth, rng):
    "A Board on which one line was read several times, three times in five with misread letters."
    s = Trajectory(doc, truth, rng)
    if rng.random() < .5: s.scan()
    for _ in range(rng.randint(2, 5)): s.read(.6, letters_only=True)
    return s


# --- replies ---

class Part(NamedTuple):
    "A piece of a reply."
    text: str
    kind: str = 'form'   # 'reading': what was read; 'sure': how sure that is; 'given': shown, and not to be learned


def dumps(value): return json.dumps(value, separators=(',', ':'))


def answer_parts(t, cells=(), target=None, misreading=None):
    "A HYPOTHESIZE, or a REVISE of the note `target`; `misreading` is shown, and doubted."
    r, confidence, form, reading = t, SURE, 'form', 'reading'
    if misreading: r, confidence, form, reading = misreading, DOUBT, 'given', 'given'
    head = 'HYPOTHESIZE"' if target is None else f'REVISE","target_cell_id":{target}'
    cells = f',"supporting_cells":{dumps(cells)}' if target is None else ''
    return [Part(f'{{"action":"{head},"view":{{"page":', form), Part(str(t.page), reading),
            Part(f',"bbox_2d":{dumps(t.box)}}},"content":"', form),
            Part(f'{r.content}","answer":"{r.answer}', reading),
            Part(f'"{cells},"confidence":'), Part(str(confidence), 'sure'), Part('}')]


def scanner_reply(s):
    "The line, once; if it is noted already, or there is none, the heading of the page that comes next."
    t, doc = s.truth, s.doc
    if t.content == UNREADABLE: return [Part(dumps(inspect_action(1, WHOLE_PAGE, UNREADABLE)))]
    if t.exists and not s.is_located: return [Part(dumps(inspect_action(t.page, t.box, t.label, 'field')))]
    page = t.page % doc.pages + 1 if t.exists or t.page in s.headings else t.page
    head = doc.heads[page - 1]
    return [Part(dumps(inspect_action(page, to_tens(head['bbox']), head['text'], 'section')))]


def reader_reply(s, misreading=None):
    "The answer, or that there is none."
    return answer_parts(s.truth, s.right[:6] if s.truth.exists else (), misreading=misreading)


def checker_reply(s, misreading=None):
    "A correction of the first wrong note, else a link of what belongs together, else an answer."
    if s.wrong: return answer_parts(s.truth, target=s.wrong[0])
    if s.is_confirmed and len(s.right) > 1 and s.truth.exists:
        return [Part(dumps(dict(action='LINK', target_cell_id=s.right[0], supporting_cells=s.right[1:7],
                                content='same field')))]
    return reader_reply(s, misreading)


def chat_reply(t, last=None):
    "A chain of thought; in a conversation it says whether it agrees with `last`, what was said before."
    agrees = last is not None and (last.answer, last.page) == (t.answer, t.page)
    verdict = '' if last is None else ' I agree.' if agrees else ' I disagree.'
    read = f'Page {t.page} says {t.content}.{verdict}\nPage: {t.page}'
    return [Part(read, 'reading'), Part('\nConfidence: '), Part(str(SURE), 'sure'), Part(f'\nAnswer: {t.answer}')]


def simulate_chat(doc, truth, rng):
    "A conversation as a prompt shows it, and what was said last."
    last, lines = None, []
    for i in range(rng.choice((0, 0, 1, 1, 2, 2, 3, 4, 5))):
        now = corrupt(truth, doc, rng) if rng.random() < .3 else truth
        lines.append(f'{NAMES[i % 3]}: ' + ' '.join(to_text(chat_reply(now, last)).split()) + '\n')
        last = now
    return ('Conversation so far:\n' + ''.join(lines) + '\n' if lines else ''), last


def to_text(reply): return ''.join(part.text for part in reply)


# --- lessons ---

class Lesson(NamedTuple):
    "A prompt behind the pages, and its reply."
    kind: str           # a key of `WEIGHTS`, or 'page'
    question: str
    board: str          # the Board's text, or ''
    prompt: str
    reply: list
    place: tuple | None = None   # where to look: (page, middle of the line); (0, 0) nowhere; None: not taught
    note: str = ''      # what a right answer on the Board would say
    target: int = 0     # the note that is revised, or 0


def place_of(t): return (t.page, (t.box[1] + t.box[3]) / 2) if t.exists else (0, 0)


def lines_of(doc, page):
    "Text and box of the lines of a page, the heading first."
    head = doc.heads[page - 1]
    facts = [f for f in doc.facts if f['page'] == page]
    return [(head['text'], head['bbox']), *((f"{f['shown']}: {f['value']}", f['row_bbox']) for f in facts)]


def page_lesson(doc):
    "Reading: all lines of the first page."
    lines = ' / '.join(text for text, _ in lines_of(doc, 1))
    return Lesson('page', 'What stands on page 1?', '', prompts()['direct'], [Part(f'Answer: {lines}')])


def line_lesson(doc, rng):
    "Reading: a line of a page by its number."
    page = rng.randint(1, doc.pages)
    lines = lines_of(doc, page)
    i = rng.randrange(len(lines))
    text, box = lines[i]
    where = f' on page {page}' if doc.pages > 1 else ''
    return Lesson('read', f'What stands in line {i + 1}{where}?', '', prompts()['direct'], [Part(f'Answer: {text}')],
                  (page, 500 * (box[1] + box[3])))


def agent_lesson(kind, question, doc, t, rng, p_slips):
    "A Board as an agent may find it, and the reply that is right."
    slips = kind == 'cross_checker' and t.exists and p_slips and rng.random() < p_slips
    s = simulate_slips(doc, t, rng) if slips else simulate(doc, t, rng, kind)
    misreading = corrupt(t, doc, rng) if t.exists and rng.random() < .12 else None
    if misreading and not misreading.exists: misreading = None
    if kind == 'scanner': reply = scanner_reply(s)
    else: reply = (reader_reply if kind == 'detail_reader' else checker_reply)(s, misreading)
    prompt = prompts()[kind + ('+tools' if rng.random() < .15 else '')]
    is_heading = kind == 'scanner' and '"field"' not in to_text(reply)
    place = None if misreading or is_heading else place_of(t)
    note = t.content if t.exists else f'Answer: {t.answer}. {t.content}'
    target = s.wrong[0] if kind == 'cross_checker' and s.wrong else 0
    return Lesson(kind, question, s.board.to_text(), prompt, reply, place, note, target)


def make_lesson(doc, question, rng, readable=True, p_slips=0.):
    "One lesson on a question of the document; `p_slips`: share of cross-checkers' lessons with `simulate_slips`."
    kind, t = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0], find_truth(question, readable)
    asked = question['question']
    if kind in NAMES: return agent_lesson(kind, asked, doc, t, rng, p_slips)
    if kind == 'read' and readable: return line_lesson(doc, rng)
    if kind in ('direct', 'read'):
        return Lesson('direct', asked, '', prompts()['direct'], [Part(f'Answer: {t.answer}')], place_of(t))
    if kind == 'cot': return Lesson(kind, asked, '', prompts()['cot'], chat_reply(t), place_of(t))
    past, last = simulate_chat(doc, t, rng)
    return Lesson(kind, asked, '', past + prompts()[f'{rng.choice(NAMES)}+chat'], chat_reply(t, last), place_of(t))
