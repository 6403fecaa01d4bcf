"""QwenVLClient against the plain way of computing, on random weights of the real architecture.

COSEE_CASES=200 pytest tests/test_qwen.py runs the larger comparison."""
import json, os, random, threading
from pathlib import Path
import pytest
from hypothesis import example, given, settings, strategies as st

torch = pytest.importorskip('torch')
from PIL import Image
from cosee.models.client import build_messages
from cosee.models.backends import record
from cosee.models.usage import image_tokens
from cosee.models.transformers_client import ContextOverflow, check_context
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.models.checkpoint import ModelError
from cosee.models.prompts import inputs_of, page_size
from cosee.models.testing import random_checkpoint
from cosee.models.registry import create_vlm_client
from asking import chat_many, raw

PENALTY = 3.  # random weights like to repeat themselves; with it every reply has ten different tokens
CASES = int(os.environ.get('COSEE_CASES', 36))
WORDS = ['total', 'invoice', 'page', '12.50', 'table', '"sales"', 'report?\n', 'what', 'is', 'the', '{amount}', 'é',
         '日本', '<|im_end|>', '<|image_pad|>']


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    return random_checkpoint(tmp_path_factory.mktemp('qwen'))

@pytest.fixture(scope='module')
def plain(path): return QwenVLClient(path, reuse=False)

@pytest.fixture(scope='module')
def client(path): return QwenVLClient(path)


def document(rng):
    "One to four pages of different sizes"
    return [Image.effect_mandelbrot((rng.randint(40, 420), rng.randint(40, 420)), (-2, -1, 1, 1),
                                    rng.randint(5, 60)).convert('RGB')
            for _ in range(rng.randint(1, 4))]

def text(rng, n): return ' '.join(rng.choices(WORDS, k=rng.randint(1, n)))

def ask(rng, docs):
    "A prompt as an episode makes them: same questions and growing boards come back"
    doc = rng.randrange(len(docs))
    board = rng.choice([None, '[Page 1]\n- note', '[Page 1]\n- note\n- ' + text(rng, 20)])
    messages = build_messages(docs[doc], rng.choice(['What is the total?', text(rng, 12)]), board,
                              rng.choice(['You are the scanner.', None, text(rng, 30)]))
    return messages + zoomed(docs[doc][0]) if rng.random() < .3 else messages

def zoomed(page):
    "A tool call and its result: a crop behind the pages"
    return [dict(role='assistant', content='{"tool": "zoom"}'),
            dict(role='user', content=[dict(type='text', text='Result:'),
                                       dict(type='image', image=page.crop((0, 0, 36, 40)).resize((72, 80)))])]

def gap(plain, messages, tokens):
    "How far apart the two best logits are, after `tokens`, computed in full"
    x = inputs_of(plain.processor, plain.prompt(messages))
    extra = torch.tensor([tokens], dtype=torch.long)
    x['input_ids'] = torch.cat([x['input_ids'], extra], 1)
    for k in ('attention_mask', 'mm_token_type_ids'):
        x[k] = torch.cat([x[k], torch.full_like(extra, k == 'attention_mask')], 1)
    with torch.no_grad(): logits = plain.model(**x).logits[0, -1]
    logits[list(set(tokens))] -= PENALTY
    best = logits.topk(2).values
    return float(best[0] - best[1])

def tokens_of(client, calls, monkeypatch):
    "Token ids of greedy replies, taken where they are decoded"
    seen, reply = [], QwenVLClient._reply
    with monkeypatch.context() as m:
        m.setattr(QwenVLClient, '_reply', lambda self, p, out, *a, **k: (seen.append((p.ids, list(out))),
                                                                         reply(self, p, out, *a, **k))[1])
        replies = chat_many(client, calls, temperature=0, presence_penalty=PENALTY, max_new_tokens=10)
    found = {tuple(ids): out for ids, out in seen}
    return [found[tuple(client.prompt(c).ids)] for c in calls], replies

def differences(path, plain, monkeypatch, cases, seed=0, cache_bytes=600_000):
    "Cases in which reuse wrote other tokens than the plain way, ties excepted; and the largest size of the store"
    rng, client, wrong, done, most = random.Random(seed), QwenVLClient(path, cache_bytes=cache_bytes), [], 0, 0
    docs = [document(rng) for _ in range(5)]
    while done < cases:
        calls = [ask(rng, docs) for _ in range(rng.choice([1, 1, 2, 4]))]
        for messages, got, want in zip(calls, tokens_of(client, calls, monkeypatch)[0],
                                       tokens_of(plain, calls, monkeypatch)[0], strict=True):
            done += 1
            at = next((i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), None)
            if at is not None and gap(plain, messages, want[:at]) > 1e-5: wrong.append(messages)
        assert client.prefixes.nbytes <= cache_bytes
        most = max(most, len(client.prefixes))
    return wrong, most, len(docs)


def test_reuse_is_exact(path, plain, monkeypatch):
    wrong, kept, docs = differences(path, plain, monkeypatch, CASES)
    assert not wrong
    assert 0 < kept < docs, 'the store must have been too small for all documents, so that some were evicted'


def test_a_row_does_not_see_its_neighbours(client):
    rng = random.Random(3)
    docs = [document(rng) for _ in range(2)]
    calls, kw = [ask(rng, docs) for _ in range(7)], dict(seed=5, max_new_tokens=12, temperature=.9)
    alone = [QwenVLClient.chat(client, c, **kw).text for c in calls]
    lengths = [dict(max_new_tokens=12 - i) for i in range(7)]
    together = chat_many(client, calls, params=lengths, **{k: v for k, v in kw.items() if k != 'max_new_tokens'})
    for a, b in zip(alone, together, strict=True): assert a.startswith(b.text.rstrip('\ufffd'))
    assert [r.usage.completion_tokens for r in together] <= [12 - i for i in range(7)]

def test_threads(path):
    rng, client = random.Random(1), QwenVLClient(path, cache_bytes=300_000)
    docs = [document(rng) for _ in range(3)]
    calls = [ask(rng, docs) for _ in range(12)]
    want, got = [client.chat(c, temperature=0, max_new_tokens=8).text for c in calls], {}
    def work(k):
        for i in range(k, len(calls), 3): got[i] = client.chat(calls[i], temperature=0, max_new_tokens=8).text
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert [got[i] for i in range(len(calls))] == want

def test_cached_tokens_add_up(path):
    client, docs = QwenVLClient(path), [document(random.Random(2))]
    first, second = (build_messages(docs[0], q, role_prompt='You are the scanner.')
                     for q in ('What is the total?', 'What is the date?'))
    a, b = chat_many(client, [first, second], max_new_tokens=2)
    assert a.usage.cached_tokens == 0 and b.usage.cached_tokens > b.usage.image_tokens
    again = client.chat(first, max_new_tokens=2)
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1
    small = QwenVLClient(path, cache_bytes=10)
    assert ([small.chat(first, max_new_tokens=2).usage.cached_tokens for _ in range(2)] == [0, 0]
            and not len(small.prefixes))

@pytest.mark.parametrize('pages', [1, 3])
def test_a_crop_does_not_make_the_pages_new(path, plain, pages):
    client, doc = QwenVLClient(path), [p for i in range(4) for p in document(random.Random(i))][:pages]
    asked = build_messages(doc, 'What is the total?', None, 'You are the reader.')
    client.chat(asked, max_new_tokens=1)
    known = client.prompt(asked).lead
    first = client.chat(asked + zoomed(doc[0]), max_new_tokens=8, temperature=0)
    assert first.usage.cached_tokens == known > 0
    again = client.chat(asked + zoomed(doc[0]), max_new_tokens=8, temperature=0)
    assert again.usage.cached_tokens > client.prompt(asked + zoomed(doc[0])).cut - 1
    want = plain.chat(asked + zoomed(doc[0]), max_new_tokens=8, temperature=0)
    assert first.text == again.text == want.text
    fresh = QwenVLClient(path)
    fresh.chat(asked + zoomed(doc[0]), max_new_tokens=1)
    assert fresh.chat(asked, max_new_tokens=1).usage.cached_tokens == known   # the pages were kept, too

def test_documents_share_their_first_pages(path, plain):
    client, doc = QwenVLClient(path), [p for i in range(6) for p in document(random.Random(i))][:5]
    others = document(random.Random(99))[:1]
    known = lambda pages, n: client.prompt(build_messages(pages, 'What?')).ends[n - 1] if n else 0
    for pages, shared in ((doc[:3], 0), (doc[:4], 3), (doc[:2], 2), (doc[:3] + others, 3),
                          (others + doc[1:], 0), (doc, 4)):
        asked = build_messages(pages, f'What is on the last of {len(pages)} pages?', None, 'You are the reader.')
        reply = client.chat(asked, max_new_tokens=8, temperature=0)
        assert reply.text == plain.chat(asked, max_new_tokens=8, temperature=0).text
        assert reply.usage.cached_tokens == known(pages, shared)

def test_a_changed_page_is_another_page(client, plain):
    im = document(random.Random(4))[0]
    messages = build_messages([im], 'What?')
    client.chat(messages, max_new_tokens=2)
    im.paste((255, 0, 0), (0, 0, 30, 30))
    reply = client.chat(messages, temperature=0)
    assert reply.usage.cached_tokens == 0 and reply.text == plain.chat(messages, temperature=0).text
    assert client.chat(messages, max_pixels=16 * 1024, min_pixels=4096, temperature=0).usage.cached_tokens == 0


SCHEMA = dict(type='object', required=['action', 'content', 'view'], properties=dict(
    action=dict(enum=['INSPECT', 'LINK']), content=dict(type='string', maxLength=30),
    view=dict(type='object', required=['page', 'bbox_2d'], properties=dict(
        page=dict(type='integer', minimum=1, maximum=4),
        bbox_2d=dict(type='array', items=dict(type='integer', minimum=0, maximum=1000), minItems=4, maxItems=4)))))

def test_fast_forward_changes_nothing_but_the_cost(path, client):
    messages = build_messages(document(random.Random(6)), 'What is the total?')
    slow, kw = QwenVLClient(path, fast_forward=False, lookup=False), dict(schema=SCHEMA, max_new_tokens=160)
    before, texts = client.passes, []
    for seed in range(3):
        texts.append(client.chat(messages, seed=seed, temperature=0 if seed == 0 else 1., top_p=1.,
                                 top_k=0, **kw).text)
        value = json.loads(texts[-1])
        assert (value['action'] in ('INSPECT', 'LINK') and len(value['content']) <= 30
                and len(value['view']['bbox_2d']) == 4)
    assert texts[0] == slow.chat(messages, temperature=0, **kw).text
    fast = client.passes - before
    for seed in (1, 2): slow.chat(messages, seed=seed, temperature=1., top_p=1., top_k=0, **kw)
    assert fast < slow.passes

@given(st.integers(1, 6000), st.integers(1, 6000), st.integers(4, 3000), st.integers(0, 3000))
@example(351, 351, 144, 0)
@settings(max_examples=300, deadline=None)
def test_sizes_are_those_of_qwen_vl_utils(w, h, low, more):
    from qwen_vl_utils.vision_process import smart_resize
    if max(w, h) > 200 * min(w, h):
        with pytest.raises(ValueError, match='too narrow'): page_size(w, h)
        return
    low, high = low * 1024, (low + more) * 1024
    want_h, want_w = smart_resize(h, w, 32, low, high)
    assert page_size(w, h, low, high) == (max(32, want_w), max(32, want_h))
    assert image_tokens(w, h, high, low) == (max(32, want_w) * max(32, want_h)) // 1024


def test_what_does_not_fit_says_what_would(path):
    client, pages = QwenVLClient(path), [Image.new('L', (1190, 1684))] * 20
    messages = build_messages(pages, 'What is the total?')
    assert client.estimate(raw(messages)).image_tokens == 20 * 988 < client.context
    client.context = 8000
    with pytest.raises(ContextOverflow, match='lower max_pixels to ([0-9,]+)') as e:
        client.chat(messages, max_new_tokens=100)
    fits = int(str(e.value).split('max_pixels to ')[1].split(', or')[0].replace(',', ''))
    check_context(client.prompt(messages, max_pixels=fits), 100, client.context, by_page=True)
    assert len(client.prompt(messages, max_pixels=fits)) <= 7900

def test_models_that_cannot_be_loaded(path, tmp_path):
    for bad in (dict(device='gpu'), dict(dtype='int3'), dict(load_in_4bit=True, load_in_8bit=True)):
        with pytest.raises(ModelError) as e: QwenVLClient(path, **bad)
        assert '\n' not in str(e.value)
    with pytest.raises(ModelError, match='hf download'): QwenVLClient(str(tmp_path))
    with pytest.raises(ValueError, match='min_pixels'): QwenVLClient(path, max_pixels=1)
    for f in os.listdir(path): (tmp_path / f).write_bytes(Path(path, f).read_bytes())
    (tmp_path / 'model.safetensors').write_bytes(b'\0' * 100)
    with pytest.raises(ModelError, match='cannot be loaded.*hf download'): QwenVLClient(str(tmp_path))
    for folder, says in ((tmp_path, 'cannot be loaded'), (tmp_path / 'nowhere', 'no such directory')):
        with pytest.raises(ModelError, match=f'{says}.*tiny_qwen3vl/train.py') as e: QwenVLClient.tiny(folder)
        assert 'hf download' not in str(e.value)

@pytest.mark.parametrize('dtype', ['bfloat16', 'float16'])
def test_half_precision(path, dtype):
    client = QwenVLClient(path, dtype=dtype)
    messages = build_messages(document(random.Random(8)), 'What is the total?')
    _, again = (client.chat(messages, temperature=0, max_new_tokens=6) for _ in range(2))
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1 and again.usage.completion_tokens == 6
    assert client.model.dtype == getattr(torch, dtype)

@pytest.mark.parametrize('fast', [True, False])
def test_who_names_no_format_gets_the_fast_one(tmp_path, monkeypatch, fast):
    from cosee.models import checkpoint
    monkeypatch.setattr(checkpoint, 'computes_bfloat16', lambda device: fast)
    stored = random_checkpoint(tmp_path, dtype='bfloat16')
    assert QwenVLClient(stored).model.dtype == (torch.bfloat16 if fast else torch.float32)
    assert QwenVLClient(stored, dtype='bfloat16').model.dtype == torch.bfloat16
    monkeypatch.setattr(checkpoint, 'free_bytes', lambda device: 100)
    said = 'GB, and .* use quantised weights' if fast else 'GB in float32, and .* use quantised weights'
    with pytest.raises(ModelError, match=said): QwenVLClient(stored)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA GPU')
@pytest.mark.parametrize('kw', [dict(device='cuda'), dict(device='auto'), dict(device='cuda:0', dtype='bfloat16'),
                                dict(device='cuda', load_in_4bit=True), dict(device='cuda', load_in_8bit=True)])
def test_on_a_gpu(path, kw):
    client, messages = QwenVLClient(path, **kw), build_messages(document(random.Random(9)), 'What is the total?')
    batch = chat_many(client, [messages] * 3, temperature=0, max_new_tokens=8)
    assert len({r.text for r in batch}) == 1 and batch[1].usage.cached_tokens > 0
    if kw == dict(device='cuda'):
        slow = QwenVLClient(path, reuse=False, **kw)
        assert batch[0].text == slow.chat(messages, temperature=0, max_new_tokens=8).text


def test_a_reply_names_the_checkpoint_that_was_asked(path, client, tmp_path):
    asked = [dict(role='user', content='One.')]
    assert client.name == 'qwen' and client.chat(asked, max_new_tokens=1).model == Path(path).name
    config = {'backends': {'lab': {'kind': 'qwen', 'model_path': str(path), 'models': {'small': 'small'}}}}
    assert create_vlm_client('lab.small', config).chat(asked, max_new_tokens=1).model == 'lab.small'
    small = QwenVLClient.tiny()
    assert small.chat(asked, max_new_tokens=1).model == 'tiny'
    with record() as calls:
        chat_many(small, [asked], max_new_tokens=1)
    assert calls[0]['reply'].model == 'tiny'
    elsewhere = tmp_path / 'my-tiny'
    elsewhere.symlink_to(small.model_path)
    assert QwenVLClient(elsewhere).chat(asked, max_new_tokens=1).model == 'my-tiny'
