"""Constrained decoding from random logits: is every output valid, and what does a token cost?

    python benchmarks/grammar.py                              a made vocabulary of Qwen's size, 10,000 outputs
    python benchmarks/grammar.py --tokenizer Qwen/Qwen3-VL-4B-Instruct   any tokenizer of transformers, name or folder
    python benchmarks/grammar.py --runs 600 --json            one JSON object a line

Each output is drawn at temperature 1 with a budget of 16 to 256 tokens (from the schema's shortest instance, where
that is longer). Every tenth output comes from a model that is stuck: the same logits at every step. An output counts
as valid if Python's json reads it strictly (no NaN, no Infinity) and jsonschema validates it against the schema *as
given*. Times are CPU milliseconds on one thread: mask_ms of a mask, state_ms of all else that a pass costs.
"""
import argparse, json, random, sys, time
from collections import defaultdict

TOKENS, LOGITS = 151_643, 151_936   # Qwen's tokens without the special ones, and the rows of its output layer

def general_schemas() -> dict:
    "Schemas with what JSON schemas have, most of them not narrowed by hand."
    obj = lambda required=(), **p: dict(type='object', properties=p, required=list(required))
    text, whole, number = dict(type='string'), dict(type='integer'), dict(type='number')
    part = obj(['x', 'label'], x=number, label=dict(type='string', minLength=3))
    tree = {'$defs': {'node': obj(['v'], v=whole, kids=dict(type='array', items={'$ref': '#/$defs/node'}))},
            '$ref': '#/$defs/node'}
    shape = [obj(['kind', 'r'], kind={'const': 'circle'}, r=dict(type='number', exclusiveMinimum=0)),
             obj(['kind', 'points'], kind={'const': 'polygon'}, points=dict(type='array', minItems=3, items=dict(
                 type='array', items=dict(type='number', minimum=0, maximum=1), minItems=2, maxItems=2)))]
    return dict(
        note=obj(['kind', 'text'], kind={'enum': ['figure', 'table']}, text=text,
                 page=dict(whole, minimum=1, maximum=20), tags=dict(type='array', items=dict(text, maxLength=20))),
        nested=obj(['a'], a=obj(['b'], b=obj(['c'], c=obj(['d'], d=text)))),
        optional=obj(**dict.fromkeys('abcdef', part)),
        enum={'enum': ['yes', 'no', 1, None, {'why': 'a\nb'}]},
        const=obj(['v'], v={'const': [1, 'é', {'deep': True}]}),
        any_of={'anyOf': [whole, text, {'type': 'null'}]}, one_of={'oneOf': shape}, tree=tree, anything={},
        number=number, fraction=dict(number, exclusiveMinimum=0, exclusiveMaximum=1),
        multiple=dict(whole, multipleOf=7, minimum=10),
        pattern=obj(['id', 'file'], id=dict(text, pattern=r'^[A-Z]{2}-\d{3}$'),
                    file=dict(text, pattern=r'\.pdf$', maxLength=60), day=dict(text, format='date')),
        mapping=dict(type='object', additionalProperties=number, minProperties=1),
        tuple=dict(type='array', prefixItems=[{'type': 'boolean'}, text], items=False, minItems=2),
        mixed=dict(type=['string', 'number', 'null', 'array'], items=whole, maxLength=12))

def role_schemas() -> dict:
    "The action schemas of CoSee's roles."
    from cosee.agents import ACTIONS, CHECKER_ACTIONS, READER_ACTIONS, SCANNER_ACTIONS, action_schema
    roles = dict(scanner=SCANNER_ACTIONS, reader=READER_ACTIONS, checker=CHECKER_ACTIONS, all=ACTIONS)
    return {f'role {k}': action_schema(v, num_pages=12, num_cells=7) for k, v in roles.items()}

def made_tokenizer(size: int = TOKENS, seed: int = 0):
    "A byte-level BPE tokenizer of Qwen's size: real merges of a small corpus, then random ones."
    from transformers import Qwen2Tokenizer
    from cosee.models.testing import SPECIAL, random_tokenizer
    small, chance = random_tokenizer(), random.Random(seed)
    model = json.loads(small.backend_tokenizer.to_str())['model']
    vocab, merges = dict(model['vocab']), [tuple(m) for m in model['merges']]
    tokens = list(vocab)
    while len(vocab) < size:
        a, b = chance.choice(tokens), chance.choice(tokens)
        if len(a + b) <= 12 and a + b not in vocab:
            vocab[a + b] = len(vocab)
            merges.append((a, b))
            tokens.append(a + b)
    tok = Qwen2Tokenizer(vocab=vocab, merges=merges, eos_token='<|im_end|>')
    tok.add_special_tokens({'additional_special_tokens': SPECIAL})
    return tok

class RandomModel:
    "Logits from nowhere: normal, new at each step, or stuck on one row."
    def __init__(self, seed: int, size: int = LOGITS, rows: int = 24):
        import torch
        self.source = torch.Generator().manual_seed(seed)
        self.rows = torch.randn(rows, size, generator=self.source)

    def logits(self, stuck=None):
        import torch
        return self.rows[int(torch.randint(len(self.rows), (1,), generator=self.source)) if stuck is None else stuck]

    def pick(self, logits) -> int:
        "A draw at temperature 1: by rejection, which is cheap where much is allowed, else from the cumulated masses"
        import torch
        top = logits.max()
        for _ in range(4):
            some = torch.randint(len(logits), (2048,), generator=self.source)
            hits = (torch.rand(2048, generator=self.source) < (logits[some] - top).exp()).nonzero()
            if len(hits): return int(some[hits[0, 0]])
        allowed = (logits > float('-inf')).nonzero().flatten()
        return int(allowed[torch.multinomial((logits[allowed] - top).exp(), 1, generator=self.source)])

def write(grammar, model: RandomModel, budget: int, stuck=None):
    "One output: (its state, passes of the model)."
    state, passes = grammar.start(budget), 0
    state.forced()
    while not state.done:
        state.step(model.logits(stuck), model.pick)
        passes += 1
    return state, passes

def problem(state, schema: dict, budget: int) -> str:
    "What is wrong with a finished output; '' if nothing."
    import jsonschema
    def constant(name): raise ValueError(f'{name} is not strict JSON')
    try: jsonschema.Draft202012Validator(schema).validate(json.loads(state.text, parse_constant=constant))
    except (ValueError, jsonschema.ValidationError) as e: return str(e).splitlines()[0]
    if len(state.ids) > budget: return f'{len(state.ids)} tokens in a budget of {budget}'
    if {*state.ids} & {*state.grammar.vocabulary.special.values()}: return 'a special token'
    if any(ord(c) < 32 for c in state.text): return 'a control character'
    return ''

def clocked(times: dict, cls, *names):
    "Note the CPU milliseconds of every call of these methods from now on."
    def wrap(name, method):
        def timed(*args):
            start = time.thread_time()
            try: return method(*args)
            finally: times[name].append((time.thread_time() - start) * 1e3)
        return timed
    for n in names: setattr(cls, n, wrap(n, getattr(cls, n)))
    return times

def measure(name: str, schema: dict, tok, runs: int, times: dict, seed: int) -> dict:
    "Many outputs under one schema."
    from cosee.models.constrained import JsonGrammar
    start = time.thread_time()
    grammar = JsonGrammar(schema, tok)
    out = dict(schema=name, compile_ms=(time.thread_time() - start) * 1e3, shortest=len(grammar.shortest), runs=runs,
               valid=0, tokens=0, passes=0, closed=0, problems=[])
    model, chance = RandomModel(seed), random.Random(seed)
    for t in times.values(): t.clear()
    for i in range(runs):
        budget = chance.randint(max(16, out['shortest']), max(256, out['shortest']))
        state, passes = write(grammar, model, budget, stuck=chance.randrange(24) if i % 10 == 9 else None)
        wrong = problem(state, schema, budget)
        done = dict(valid=not wrong, tokens=len(state.ids), passes=passes, closed=state.closed)
        for key, value in done.items(): out[key] += value
        if wrong: out['problems'].append(f'{wrong}: {state.text[:200]}')
    mask, rest = sorted(times['mask']), sum(times['step']) - sum(times['mask']) - sum(times['pick'])
    n = max(1, len(mask))   # a constant needs no mask
    return out | dict(mask_ms=sum(mask) / n, mask_p99_ms=mask[int(n * .99)] if mask else 0., state_ms=rest / n)

COLUMNS = ('schema', 'shortest', 'runs', 'valid', 'tokens', 'passes', 'closed', 'compile_ms', 'mask_ms', 'mask_p99_ms',
           'state_ms')

def row(r: dict) -> str:
    "A line of the table"
    show = lambda v: f'{v:.3g}' if isinstance(v, float) else f'{v:,}' if isinstance(v, int) else v
    return '| ' + ' | '.join(show(r[k]) for k in COLUMNS) + ' |'

def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--tokenizer', help='name or folder; default: a made vocabulary')
    p.add_argument('--runs', type=int, default=10_000, help='outputs in all')
    p.add_argument('--seed', type=int, default=0)
    p.add_argument('--json', action='store_true', help='one JSON object a line')
    a = p.parse_args()
    import torch
    torch.set_num_threads(1)
    from cosee.models.constrained import GrammarState, vocabulary_of
    if a.tokenizer:
        from transformers import AutoTokenizer
        tok = AutoTokenizer.from_pretrained(a.tokenizer)
    else: tok = made_tokenizer()
    start = time.thread_time()
    print(f'# {vocabulary_of(tok)}, made in {time.thread_time() - start:.1f} s', file=sys.stderr)
    times, schemas = defaultdict(list), role_schemas() | general_schemas()
    clocked(times, GrammarState, 'mask', 'step')
    clocked(times, RandomModel, 'pick')
    rows = []
    if not a.json: print('| ' + ' | '.join(COLUMNS) + ' |\n' + '|---' * len(COLUMNS) + '|')
    for i, (name, schema) in enumerate(schemas.items()):
        r = measure(name, schema, tok, a.runs // len(schemas) + (i < a.runs % len(schemas)), times, a.seed + i)
        rows.append(r)
        print(json.dumps(r) if a.json else row(r), flush=True)
    valid, runs = sum(r['valid'] for r in rows), sum(r['runs'] for r in rows)
    print(f'# {valid:,} of {runs:,} outputs are valid', file=sys.stderr)
    for r in rows:
        for text in r['problems'][:3]: print(f"# {r['schema']}: {text}", file=sys.stderr)
    sys.exit(valid < runs)

if __name__ == '__main__': main()
