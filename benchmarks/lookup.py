"""How many forward passes an action takes with guesses looked up, and what these cost at the widths of a real model.

    python benchmarks/lookup.py            a table
    python benchmarks/lookup.py --json     one JSON object

What a pass costs is measured with random weights as wide as those of Qwen3-VL-2B (`wide`, four of its 28 layers):
CPU seconds on one thread by the number of tokens, behind four pages. How many passes there are is counted with real
replies: every method of the tiny checkpoint's evaluation answers questions on made documents, and what it asks its
client is recorded, batches as they are. Then the same batches are answered again, four ways side by side: `one` token
at a time under the grammar; `forced`, with tokens that the grammar fixes appended at once; `lookup`, with guesses as
far as they are worth while at the costs that were measured; `all`, with every guess checked. `seconds_*` is composed:
the passes of the tiny checkpoint at the costs of the wide one. Each method begins with new clients, so nothing was
said before. `identical` says how many replies are the same, token by token, with guesses and without.

At last what guesses cost where nothing repeats: free text of the wide weights at temperature 2, measured.
"""
import argparse, json, statistics, tempfile, time
from bisect import bisect_left
from collections import Counter

from episode import keeping_tokens, page
from processor import machine

METHODS = ('direct', 'cot', 'self_consistency', 'chat', 'single_board', 'cosee_light',
           dict(type='cosee', name='cosee_sequential', max_steps=2),
           dict(type='cosee', name='cosee_parallel', max_steps=2, order='parallel'), 'cosee_tools')
WAYS = ('one', 'forced', 'lookup', 'all')
WIDTHS = 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256


def wide_client(folder):
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    from cosee.models.testing import random_checkpoint
    client = QwenVLClient(random_checkpoint(folder, 'wide'))
    client.ends = {-1}
    return client


def pass_costs(client, repeat):
    "CPU seconds of a pass by its tokens, behind four pages: {tokens: seconds}"
    from cosee.models.client import build_messages
    from cosee.models.prefix_cache import PrefixCache, forward
    prefix, _ = client._prefix(client.prompt(build_messages([page(i) for i in range(4)], 'What is the total?')))
    def once(n):
        cache = PrefixCache(prefix)
        forward(client.model, cache, [list(range(10, 74))], [0])   # a question before it
        before = time.process_time()
        forward(client.model, cache, [list(range(n))], [64], keep=n)
        return time.process_time() - before
    turns = [[once(n) for n in WIDTHS] for _ in range(repeat)]
    return {n: round(statistics.median(turn[i] for turn in turns), 4) for i, n in enumerate(WIDTHS)}


def cost(costs, tokens):
    "Seconds of a pass, between those that were measured on a line"
    i = bisect_left(WIDTHS, min(tokens, WIDTHS[-1]))
    if WIDTHS[i] == tokens or not i: return costs[WIDTHS[i]]
    lower, upper = WIDTHS[i - 1], WIDTHS[i]
    return costs[lower] + (costs[upper] - costs[lower]) * (tokens - lower) / (upper - lower)


def counting(way, skip, costs):
    "What a client is given as its lookup in a way: passes are counted by their tokens"
    from cosee.models.decoding import Draft, Lookup, Pace
    class Known(Pace):
        def cost(self, tokens): return cost(costs, tokens)
    class Counting(Lookup):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.widths = Counter()
        def drafts(self, rows):
            return super().drafts(rows) if way in ('lookup', 'all') else [Draft(len(r.out)) for r in rows]
        def timed(self, tokens, run):
            self.widths[tokens] += 1
            return run()
    return Counting(skip, pace=Known() if way == 'lookup' else None)


def record(method, questions, seed):
    "What a method asks its client about so many questions: a list of requests for each batch"
    from cosee.datasets.synthetic.small import small_samples
    from cosee.policies import make_method
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    client, asked = QwenVLClient.tiny(), []
    several = client.respond_many
    def batch(requests, errors='raise'):
        asked.append(list(requests))
        return several(requests, errors)
    client.respond_many = batch
    for s in small_samples(questions, per_doc=4, seed=seed): make_method(method).run(s, client)
    return asked


def replay(way, batches, costs):
    "Answer all batches in a way: tokens of each reply, and passes by their tokens"
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    client = keeping_tokens(QwenVLClient.tiny(fast_forward=way != 'one'))
    client.lookup = counting(way, {client.processor.image_token_id}, costs)
    for requests in batches: client.respond_many(requests)
    return [reply for _, reply in client.written], client.lookup


def row(method, batches, costs):
    "One line of the table"
    out = dict(work=method, batches=len(batches), replies=sum(map(len, batches)))
    found = {way: replay(way, batches, costs) for way in WAYS}
    out['tokens'] = sum(map(len, found['forced'][0]))
    for way, (_, seen) in found.items():
        out[f'passes_{way}'] = seen.widths.total()
        out[f'seconds_{way}'] = round(sum(n * cost(costs, tokens) for tokens, n in seen.widths.items()), 2)
    _, seen = found['lookup']
    same = sum(len({written[i] for way, (written, _) in found.items() if way != 'one'}) == 1
               for i in range(out['replies']))
    return out | dict(guessed=seen.guessed, accepted=seen.accepted, identical=f"{same}/{out['replies']}")


def nothing_repeats(client, new):
    "CPU seconds of text in which nothing repeats, without guesses and with"
    from cosee.models.client import build_messages
    from cosee.models.decoding import Lookup, Pace
    asked, spent = build_messages([page(0)], 'What is the total?'), {}
    client.chat(asked, max_new_tokens=1)
    for way in ('forced', 'lookup'):
        client.lookup = Lookup({*client.pads}, pace=Pace()) if way == 'lookup' else None
        before = time.process_time()
        for seed in range(3):
            client.chat(asked, max_new_tokens=new, temperature=2., top_k=0, top_p=1., presence_penalty=0., seed=seed)
        spent[way] = round(time.process_time() - before, 2)
    return dict(tokens=3 * new, **{f'cpu_s_{way}': s for way, s in spent.items()})


def total(rows):
    "All methods together"
    names = [k for k, v in rows[0].items() if isinstance(v, (int, float))]
    out = {k: round(sum(r[k] for r in rows), 2) for k in names}
    return out | {f'of_{what}_{way}': round(out[f'{what}_{way}'] / out[f'{what}_one'], 3)
                  for what in ('passes', 'seconds') for way in WAYS[1:]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object')
    p.add_argument('--questions', type=int, default=24, help='asked of each method, four on a document')
    p.add_argument('--methods', nargs='*', help='only these methods')
    p.add_argument('--repeat', type=int, default=7, help='measurements of a pass, of which the median counts')
    p.add_argument('--new', type=int, default=64, help='tokens of a text in which nothing repeats')
    args = p.parse_args()
    import torch
    from transformers.utils import logging
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        client = wide_client(folder)
        costs, plain = pass_costs(client, args.repeat), nothing_repeats(client, args.new)
    rows = []
    for method in METHODS:
        name = method if isinstance(method, str) else method['name']
        if args.methods and name not in args.methods: continue
        rows.append(row(name, record(method, args.questions, 'methods'), costs))
        if not args.json: print('  '.join(f'{k}={v}' for k, v in rows[-1].items()), flush=True)
    out = dict(rows=rows, actions=total(rows), costs=costs, nothing_repeats=plain, questions=args.questions,
               machine=machine())
    print(json.dumps(out, indent=1) if args.json else {k: v for k, v in out.items() if k != 'rows'})


if __name__ == '__main__': main()
