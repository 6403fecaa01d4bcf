"""Guesses change what a reply costs and nothing else: the same tokens, and where it is sampled the same chances.

COSEE_CASES=500 pytest tests/test_lookup.py runs the larger comparison."""
import os, random
from collections import Counter
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip('torch')
from PIL import Image
from scipy.stats import chisquare
from cosee.models.client import build_messages
from cosee.models import prefix_cache as prefix
from cosee.models.decoding import DecodingRow, Draft, Lookup, Sampling
from cosee.models.testing import random_checkpoint
from cosee.models.qwen_vl_wrapper import QwenVLClient
from asking import chat_many

CASES = int(os.environ.get('COSEE_CASES', 100))
SCHEMAS = [None, None, {'enum': ['page', 'pages', 'total', 'report']},
           dict(type='object', required=['action', 'content', 'page'], properties=dict(
               action=dict(enum=['INSPECT', 'LINK', 'INQUIRE']), content=dict(type='string', maxLength=20),
               page=dict(type='integer', minimum=1, maximum=40), more=dict(type='array', items={'type': 'boolean'})))]


class Recalling(Lookup):
    "Guesses what the plain way wrote, now and then with a wrong token in it: much is accepted, and much is not."
    def __init__(self, told, seed):
        super().__init__()
        self.told, self.rng = told, random.Random(seed)

    def drafts(self, rows):
        return [self.draft(r, min(8, r.s.max_new_tokens - len(r.out) - 1)) for r in rows]

    def draft(self, row, most):
        n = len(row.out)
        guess = list(self.told.get((tuple(row.prompt), row.s), [])[n:n + self.rng.randint(0, max(0, most))])
        if guess and self.rng.random() < .5: guess[self.rng.randrange(len(guess))] = self.rng.randrange(256)
        return Draft(n, guess, [1.] * len(guess))

    def learn(self, rows, drafts):
        for row, d in zip(rows, drafts, strict=True):
            came = prefix.shared_length(d.tokens, row.out[d.start:])
            self.guessed, self.accepted = self.guessed + len(d.tokens), self.accepted + came


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    return random_checkpoint(tmp_path_factory.mktemp('qwen'))


def written(client, calls, **kw):
    "Rows of a batch by prompt and settings: {(prompt, settings): tokens}"
    found, rows = {}, client._rows
    def noted(*a):
        found['rows'] = rows(*a)
        return found['rows']
    client._rows = noted
    try:
        replies = chat_many(client, calls, **kw)
    finally: del client._rows
    assert not [r for r in replies if isinstance(r, Exception)], replies
    return {(tuple(r.prompt), r.s): r.out for r in found['rows']}, [(r.text, r.finish_reason) for r in replies]

def case(rng, docs):
    "A batch about one document: free text and schemas, greedy and sampled, long and short"
    doc, n = rng.choice(docs), rng.choice([1, 1, 2, 4])
    words = ['total', 'report', 'page', 'table', '"sales"', 'agent', '12.50']
    text = lambda k: ' '.join(rng.choices(words, k=k))
    calls = [build_messages(doc, f'What is the {text(2)}?', f'[Page 1]\n- {text(rng.choice([3, 12]))}', text(3))
             for _ in range(n)]
    params = [dict(temperature=rng.choice([0, .3, 1.]), seed=rng.randrange(100), top_k=rng.choice([0, 5]),
                   repetition_penalty=rng.choice([1., 1., 1.2]), presence_penalty=rng.choice([0, 0, 1.5]),
                   max_new_tokens=rng.randint(1, 14), stop=rng.choice([(), (), ('a', 're')])) for _ in range(n)]
    schemas = [rng.choice(SCHEMAS) for _ in range(n)]
    for s, p in zip(schemas, params, strict=True):
        if s: p.update(max_new_tokens=rng.choice([30, 34, 60]), stop=())
    return calls, dict(params=params, schema=schemas)

def documents(rng):
    draw = lambda: Image.effect_mandelbrot((rng.randint(40, 200), rng.randint(40, 200)), (-2, -1, 1, 1),
                                           rng.randint(5, 60)).convert('RGB')
    return [[draw() for _ in range(rng.randint(1, 3))] for _ in range(3)]

def differences(path, cases, seed=0):
    "Batches that a client with guesses answers in another way than one without, and what became of the guesses"
    rng, wrong, count = random.Random(seed), [], Counter()
    docs = documents(rng)
    clients = [(QwenVLClient(path, lookup=False, fast_forward=ff), QwenVLClient(path, fast_forward=ff))
               for ff in (True, False)]
    usual = [Lookup({plain.processor.image_token_id}) for plain, _ in clients]
    for i in range(cases):
        which = rng.random() < .3
        (plain, quick), (calls, kw) = clients[which], case(rng, docs)
        want, texts = written(plain, calls, **kw)
        quick.lookup = Recalling(want, i) if i % 2 else usual[which]
        before = quick.lookup.guessed, quick.lookup.accepted
        if written(quick, calls, **kw) != (want, texts): wrong.append(i)
        count.update(guessed=quick.lookup.guessed - before[0], accepted=quick.lookup.accepted - before[1])
    count.update(plain=sum(p.passes for p, _ in clients), quick=sum(q.passes for _, q in clients))
    return wrong, count


def test_guesses_change_no_token(path):
    wrong, count = differences(path, CASES)
    assert not wrong
    assert CASES < count['accepted'] < count['guessed'] - CASES and count['quick'] < .8 * count['plain'], count


def stepped_back(model, junk):
    "Logits of two rows that go on behind tokens which were read and taken back, if there are any"
    cache = prefix.PrefixCache(prefix.empty_prefix(model))
    prefix.forward(model, cache, [[9, 8, 7, 6], [5, 4]], [0, 0])
    if junk: prefix.forward(model, cache, [junk, junk[:3]], [4, 2], keep=3)
    return prefix.forward(model, cache, [[11], [12, 13]], [4, 2], keep=2)

def test_rejected_tokens_are_not_seen(path, monkeypatch):
    model, junk = QwenVLClient(path).model, [30, 40, 50, 60, 70]
    fresh, again = stepped_back(model, []), stepped_back(model, junk)
    assert fresh.shape[:2] == (2, 2)
    torch.testing.assert_close(again[:, -1], fresh[:, -1], atol=1e-5, rtol=0)
    def careless(self, slots):   # slots that were in use before are seen
        real = aim(self, slots)
        self.width = self.widest = max(getattr(self, 'widest', 0), self.width)
        return torch.nn.functional.pad(real, (0, self.widest - real.shape[-1]))
    aim = prefix.PrefixCache.aim
    monkeypatch.setattr(prefix.PrefixCache, 'aim', careless)
    assert (stepped_back(model, junk) - fresh)[:, -1].abs().max() > .01


def test_the_prompt_is_kept_as_it_was(path):
    "Guesses are read together with the prompt; what later calls begin with is the prompt alone."
    rng, plain, quick = random.Random(7), QwenVLClient(path, lookup=False), QwenVLClient(path)
    quick.lookup = Lookup()
    doc = documents(rng)[0]
    for i in range(4):
        asked = build_messages(doc, 'What is the total?', '[Page 1]\n' + '- a report of the total\n' * i)
        replies = [c.chat(asked, temperature=0, presence_penalty=0, max_new_tokens=20) for c in (plain, quick)]
        assert replies[0].text == replies[1].text
        assert replies[0].usage.cached_tokens == replies[1].usage.cached_tokens
    assert quick.lookup.guessed > quick.accepted > 0 and quick.guessed == quick.lookup.guessed


# -- the same chances

LOGITS = torch.tensor([[1., .2, -.5, .3], [0., 1.5, .4, -1.], [.7, .7, 0., -.3], [0., -1., .5, 1.]])  # by last letter

def reply(seed, draft_of, follow=DecodingRow.follow):
    "Three letters by a model that knows the last one, with drafts"
    row = DecodingRow([0], 0, Sampling(temperature=.9, top_k=0, top_p=1., presence_penalty=.4, seed=seed,
                                       max_new_tokens=3), set())
    while not row.finish:
        row.pending, draft = [], draft_of(row.out)
        follow(row, LOGITS[[(row.prompt + row.out)[-1], *draft]], draft)
    return tuple(row.out)


def chances():
    "Of each of 64 replies, by the rules"
    out = {(): 1.}
    for _ in range(3):
        new = {}
        for said, p in out.items():
            scores = LOGITS[([0] + list(said))[-1]].double()
            scores[list(set(said))] -= .4
            for t, q in enumerate((scores / .9).softmax(-1).tolist()): new[(*said, t)] = p * q
        out = new
    return out

def fit(draft_of, follow=DecodingRow.follow, n=4000, first=0):
    "The p-value of a chi-square test of `n` replies"
    seen, want = Counter(reply(first + i, draft_of, follow) for i in range(n)), chances()
    kinds = sorted(want)
    return chisquare([seen[k] for k in kinds], [want[k] * n for k in kinds]).pvalue

def guesses(out): return [[1, 1], [0], []][len(out)][:2 - len(out)]

def test_samples_have_the_chances_of_plain_samples():
    assert fit(lambda out: []) > .01 and fit(guesses, first=4000) > .01
    assert [reply(i, guesses) for i in range(300)] == [reply(i, lambda out: []) for i in range(300)]
