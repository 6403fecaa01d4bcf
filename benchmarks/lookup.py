"""How many forward passes an action takes: one token at a time, with forced tokens, and with guesses looked up.

    python benchmarks/lookup.py            a table
    python benchmarks/lookup.py --json     one JSON object

Real prompts: every method of the tiny checkpoint's evaluation answers questions on made documents, and what it asks
its client is recorded, batches as they are. Then the same batches are answered again, four ways side by side: `one`
token at a time under the grammar; `forced`, with tokens that the grammar fixes appended at once; `lookup`, with
guesses as far as they were measured to be worth while, which is what a client does; `all`, with every guess checked,
whatever it costs. Each method begins with new clients, so nothing was said before.

Random weights of benchmarks/episode.py's size stand beside it: actions that are gibberish in a frame of JSON, and
free text at temperature 2, in which nothing repeats: there guesses can only cost something.

CPU time is that of the process, on one thread; ways take turns batch by batch, in changing order. `of_one` compares
passes of `lookup` with one token at a time, `cpu_ratio` CPU time of `lookup` with `forced`: the median over batches.
`identical` says how many replies are the same, token by token, with guesses and without.
"""
import argparse, json, platform, statistics, tempfile, time
from collections import defaultdict

WAYS = ('one', 'forced', 'lookup', 'all')


def record(method, questions, seed):
    "What a method asks its client about so many questions: a list of requests for each batch"
    from cosee.datasets.made.small import small_samples
    from cosee.eval.methods import make_method
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    client, asked = QwenVLClient.tiny(), []
    several = client.respond_many
    def batch(requests, errors='raise'):
        asked.append(list(requests))
        return several(requests, errors)
    client.respond_many = batch
    for s in small_samples(questions, per_doc=4, seed=seed): make_method(method).run(s, client)
    return asked


def clients(make):
    "A new client for each way, its replies' tokens kept"
    from cosee.models.qwen.lookup import Lookup
    made = {}
    for way in WAYS:
        c = made[way] = make(lookup=way in ('lookup', 'all'), fast_forward=way != 'one')
        if way == 'all': c.lookup = Lookup({c.processor.image_token_id})
        c.written, reply = [], c._reply
        def kept(p, out, *a, c=c, reply=reply, **k):
            c.written.append(tuple(out))
            return reply(p, out, *a, **k)
        c._reply = kept
    return made


def replay(make, batches):
    "Answer all batches in every way: {way: figures}"
    made, cpu = clients(make), {w: [] for w in WAYS}
    for i, requests in enumerate(batches):
        for k in range(len(WAYS)):
            way = WAYS[(i + k) % len(WAYS)]
            before = time.process_time()
            made[way].respond_many(requests)
            cpu[way].append(time.process_time() - before)
    same = sum(len({made[w].written[i] for w in WAYS[1:]}) == 1 for i in range(len(made['one'].written)))
    return {w: dict(passes=c.passes, cpu_s=cpu[w], tokens=sum(map(len, c.written)), guessed=c.guessed,
                    accepted=c.accepted, same=same) for w, c in made.items()}


def row(work, weights, make, batches, repeat):
    "One line: counts of the first run, medians where they depend on the machine"
    runs = [replay(make, batches) for _ in range(repeat)]
    middle = lambda way, name: statistics.median(r[way][name] for r in runs)
    replies, first = sum(map(len, batches)), runs[0]
    out = dict(work=work, weights=weights, grammar=all(r.schema for requests in batches for r in requests),
               batches=len(batches), replies=replies, tokens=first['forced']['tokens'], repeats=repeat)
    for way in WAYS:
        out[f'passes_{way}'] = int(middle(way, 'passes'))
        out[f'cpu_s_{way}'] = round(statistics.median(sum(r[way]['cpu_s']) for r in runs), 2)
    ratios = [a / b for r in runs for a, b in zip(r['lookup']['cpu_s'], r['forced']['cpu_s'], strict=True)]
    return out | dict(of_one=round(out['passes_lookup'] / out['passes_one'], 3),
                      cpu_ratio=round(statistics.median(ratios), 3),
                      guessed=int(middle('lookup', 'guessed')), accepted=int(middle('lookup', 'accepted')),
                      identical=f"{min(r['forced']['same'] for r in runs)}/{replies}")


def tiny_rows(args):
    "The methods of the tiny checkpoint's evaluation"
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    from cosee.tiny.evaluation import METHODS_CONFIG
    for method in METHODS_CONFIG['methods']:
        name = method if isinstance(method, str) else method['name']
        if args.methods and name not in args.methods: continue
        yield row(name, 'tiny', QwenVLClient.tiny, record(method, args.questions, 'methods'), args.repeat)


def random_rows(args, folder):
    "Gibberish: actions, and text in which nothing repeats"
    from episode import SCHEMA, page, prompts
    from cosee.models.client import Request
    from cosee.models.testing import random_checkpoint
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    path = random_checkpoint(folder, args.size)
    make = lambda **options: QwenVLClient(path, **options)
    steps = prompts(make(), [page(i) for i in range(args.pages)], 3, 3)
    calls = [m for step in steps for m in step][:args.calls]
    settings = dict(max_new_tokens=256, temperature=1., seed=1)
    def asked(m, schema=None, **more):
        return [Request(messages=tuple(m), schema=schema, settings=settings | more)]
    yield row('actions in turn', f'random {args.size}', make, [asked(m, SCHEMA) for m in calls], args.repeat)
    settings = dict(max_new_tokens=args.new, temperature=2., top_k=0, top_p=1., presence_penalty=0.)
    yield row('nothing repeats', f'random {args.size}', make,
              [asked(m, seed=i) for i, m in enumerate(calls * 3)], args.repeat)


def total(rows):
    "All actions of the tiny checkpoint together"
    out = defaultdict(int)
    for r in rows:
        if r['weights'] != 'tiny' or not r['grammar']: continue
        for k, v in r.items():
            if isinstance(v, (int, float)) and k not in ('grammar', 'repeats', 'of_one', 'cpu_ratio'): out[k] += v
    return {k: round(v, 2) for k, v in out.items()} | {f'of_one_{w}': round(out[f'passes_{w}'] / out['passes_one'], 3)
                                                       for w in WAYS[1:]} if out else {}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object')
    p.add_argument('--questions', type=int, default=24, help='asked of each method, four on a document')
    p.add_argument('--methods', nargs='*', help='only these methods')
    p.add_argument('--repeat', type=int, default=3, help='runs of which the median counts')
    p.add_argument('--size', default='bench', help='of the random weights')
    p.add_argument('--pages', type=int, default=4, help='that the random weights are shown')
    p.add_argument('--calls', type=int, default=9, help='of the random weights, at most 9')
    p.add_argument('--new', type=int, default=128, help='tokens of a text in which nothing repeats')
    args = p.parse_args()
    import torch
    from transformers.utils import logging
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for found in (tiny_rows(args), random_rows(args, folder)):
            for r in found:
                rows.append(r)
                if not args.json: print('  '.join(f'{k}={v}' for k, v in r.items()), flush=True)
    out = dict(rows=rows, actions=total(rows), questions=args.questions, python=platform.python_version(),
               processor=processor(), instructions=torch.backends.cpu.get_cpu_capability())
    print(json.dumps(out, indent=1) if args.json else out['actions'])


def processor():
    "What the machine says it is"
    try:
        with open('/proc/cpuinfo') as f: return next(line.split(':')[1].strip() for line in f if 'model name' in line)
    except (OSError, StopIteration): return platform.processor()


if __name__ == '__main__': main()
