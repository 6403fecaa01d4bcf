"""Where an episode's CPU time goes: pages, vision tower, products, attention, cache, grammar, sampling, the rest.

    python benchmarks/parts.py --json > benchmarks/results/parts.json         # this client, 4 and 12 pages
    python benchmarks/parts.py --json --vllm PYTHON > ...                     # vLLM's CPU build as well

Three agents and three steps in turn on one thread, random weights of `benchmarks/episode.py`, each case in a process
of its own. For this client functions are timed on their way in and out, and what one of them calls is counted there
alone; what is left over is called `rest` (norms, embeddings, Python). vLLM is seen through PyTorch's profiler, which
tells operators and their shapes: products are told apart by their sizes. It fills memory with every operator, so two
calls are profiled, the first and one in the middle, which stands for the others. `peak` is the fastest matrix product
measured on the machine, of single precision and on one thread; `share_of_peak` what the products of an episode reach
of it.
`bound_s` is what the arithmetic of products and attention takes at that peak, and reading the weights of all layers
once for each token written at the speed of a product with one row: less no engine needs that computes the same.
Timing costs time itself: shares are meant, not seconds.
"""
import argparse, json, os, subprocess, sys, tempfile, time
from collections import Counter
from contextlib import contextmanager

import episode
from episode import SCHEMA, page, prompts


class Parts:
    "Seconds of CPU time by part; inner parts are not counted in outer ones"
    def __init__(self):
        self.seconds, self.flops, self.stack, self.at = Counter(), 0., [], 0.

    @contextmanager
    def inside(self, name):
        self._tick()
        self.stack.append(name)
        try: yield
        finally:
            self._tick()
            self.stack.pop()

    def _tick(self):
        now = time.thread_time()
        if self.stack: self.seconds[self.stack[-1]] += now - self.at
        self.at = now

    def wrap(self, owner, attr, name):
        "Time a function or method wherever it is called by its owner's name"
        real = getattr(owner, attr)
        def timed(*a, **kw):
            with self.inside(name(*a) if callable(name) else name): return real(*a, **kw)
        setattr(owner, attr, timed)


def product_parts(client):
    "Which part a linear layer belongs to, by its place in the model"
    kinds = dict(q_proj='projections', k_proj='projections', v_proj='projections', o_proj='projections',
                 gate_proj='feed-forward', up_proj='feed-forward', down_proj='feed-forward', lm_head='logits')
    return {m: kinds[n.rpartition('.')[2]] for n, m in client.model.named_modules() if n.rpartition('.')[2] in kinds}


def instrument(client, parts):
    "Time everything that has a name of its own"
    from cosee.models.local import client as local_client
    from cosee.models.qwen import decode, decoder, engine, grammar, prefix, single, tower
    from cosee.models.qwen.products import FastLinear
    known, product = product_parts(client), FastLinear.forward

    def timed(layer, x, *a, **kw):
        parts.flops += 2 * x.numel() * layer.out_features
        with parts.inside(known.get(layer, 'vision tower')): return product(layer, x, *a, **kw)
    FastLinear.forward = timed
    made = decoder.decoder_of(client.model).single   # made now: it keeps what it finds
    rows = {id(product): part for layer in (made.layers if made else ()) for product, part in zip(
        layer.rows, ('projections', 'projections', 'feed-forward', 'feed-forward'), strict=True)}
    by_row = single.RowProduct.__call__

    def timed_row(product, x):
        parts.flops += 2 * product.weight.numel()
        with parts.inside(rows[id(product)]): return by_row(product, x)
    single.RowProduct.__call__ = timed_row
    for owner, attr, name in (
            (engine, 'make_prompt', 'pages and prompt'), (tower, 'scaled', 'pages and prompt'),
            (tower, "patches", "pages and prompt"), (tower, "_looked_up", "pages and prompt"),
            (engine.QwenEngine, '_boundaries', 'pages and prompt'),
            (tower.Tower, 'look', 'vision tower'), (decoder, '_after', 'attention'),
            (decoder, 'shared_attention', 'attention'), (single.SingleStep, '_seen', 'attention'),
            (prefix.PrefixCache, 'update', 'cache'), (prefix.PrefixCache, 'write', 'cache'),
            (prefix.PrefixCache, 'aim', 'cache'), (prefix.PrefixCache, 'batch_select_indices', 'cache'),
            (decoder.Decoder, '_room', 'cache'), (local_client, '_keep_suffixes', 'cache'),
            (grammar.GrammarState, 'step', 'grammar'), (grammar.GrammarState, 'forced', 'grammar'),
            (decode, 'pick', 'sampling')):
        parts.wrap(owner, attr, name)


def own(a):
    "Parts of an episode of this client"
    import torch
    torch.set_num_threads(1)
    from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    client, parts = QwenVLClient(a['model'], lookup=False), Parts()
    client.ends = {-1}
    calls = [m for step in prompts(client, [page(i) for i in range(a['pages'])], 3, 3) for m in step]
    how = dict(schema=SCHEMA, max_new_tokens=256, temperature=1., seed=1) if a['grammar'] else dict(
        temperature=0, presence_penalty=0, max_new_tokens=48)
    instrument(client, parts)
    with parts.inside('rest'): replies = [client.chat(m, **how) for m in calls]
    total = sum(parts.seconds.values())
    products = sum(parts.seconds[k] for k in ('projections', 'feed-forward', 'logits', 'vision tower'))
    return dict(cpu_s=total, shares={k: v / total for k, v in parts.seconds.most_common()},
                share_of_peak=parts.flops / products / 1e9 / a['peak'],
                bound_s=least(client.model, [r.usage for r in replies], parts.flops, a))


def least(model, usages, products, a):
    "Seconds that arithmetic alone takes at the machine's fastest, and reading weights for each pass at its fastest"
    c = model.config.text_config
    per_pair = 4 * c.num_hidden_layers * c.num_attention_heads * c.head_dim
    new = [(u.prompt_tokens - u.cached_tokens, u.cached_tokens, u.completion_tokens) for u in usages]
    pairs = sum(n * (before + n / 2) + out * (before + n + out / 2) for n, before, out in new)
    layers = sum(p.numel() * p.element_size() for p in model.model.language_model.layers.parameters())
    written = sum(u.completion_tokens for u in usages)
    return (products + per_pair * pairs) / 1e9 / a['peak'] + written * layers / 1e9 / a['reading']


def of_vllm(name, shapes, hidden):
    "The part of an operator, by its name and the shapes that it was called with"
    sizes = {n for shape in shapes if isinstance(shape, list) for n in shape[-2:] if isinstance(n, int)}
    if 'attention' in name: return 'attention' if 'paged' in name or 'kv_cache' in name else 'vision tower'
    if any(w in name for w in ('mm', 'linear', 'conv', 'gemm')):
        if 'conv' in name or sizes & {192, 576, 768} and 512 not in sizes or 768 in sizes and hidden not in sizes:
            return 'vision tower'
        return 'feed-forward' if sizes & {2048, 4096} else 'projections'
    if 'cache' in name: return 'cache'
    return 'rest'


def serve(folder, mode):
    "In an environment with vLLM: an episode under PyTorch's profiler"
    from PIL import Image
    from torch.profiler import ProfilerActivity, profile
    from vllm import LLM, SamplingParams
    with open(os.path.join(folder, 'job.json')) as f: job = json.load(f)
    pages = [Image.open(os.path.join(folder, f'{i}.png')).convert('RGB') for i in range(job['pages'])]
    llm = LLM(job['model'], dtype='float32', enable_prefix_caching=True, enforce_eager=True,
              max_model_len=job['context'], limit_mm_per_prompt=dict(image=job['pages'], video=0), max_num_seqs=8)
    how = SamplingParams(temperature=0, max_tokens=job['new'], ignore_eos=True, skip_special_tokens=False)
    parts, calls = Counter(), [t for step in job['steps'] for t in step]
    for t, times in ((calls[0], 1), (calls[len(calls) // 2], len(calls) - 1)):   # the prefill, and one that reuses it
        start = time.process_time()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
            llm.generate([dict(prompt=t, multi_modal_data=dict(image=pages))], how, use_tqdm=False)
        cpu, own = time.process_time() - start, Counter()
        for e in seen.key_averages(group_by_input_shape=True):
            own[of_vllm(e.key.lower(), e.input_shapes, job['hidden'])] += e.self_cpu_time_total / 1e6
        own['rest'] += max(0., cpu - sum(own.values()))
        for part, seconds in own.items(): parts[part] += times * seconds
    total = sum(parts.values())
    return dict(cpu_s=total, shares={k: v / total for k, v in parts.most_common()}, profiled=2)


def served(a):
    "Hand an episode to vLLM"
    from cosee.models.qwen.prompt import scaled
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    client = QwenVLClient(a['model'])
    calls = [client.prompt(m) for step in prompts(client, [page(i) for i in range(a['pages'])], 3, 3) for m in step]
    say = lambda p: client.processor.apply_chat_template(p.messages, tokenize=False, add_generation_prompt=True)
    with tempfile.TemporaryDirectory() as folder:
        for i, (im, size) in enumerate(zip(calls[0].images, calls[0].sizes, strict=True)):
            scaled(im, size).save(f'{folder}/{i}.png')
        context = -(-max(len(p) + 48 for p in calls) // 256) * 256
        job = dict(model=a['model'], pages=a['pages'], new=48, context=context, steps=[[say(p) for p in calls]],
                   hidden=client.model.config.text_config.hidden_size)
        with open(f'{folder}/job.json', 'w') as f: json.dump(job, f)
        env = os.environ | dict(VLLM_ENABLE_V1_MULTIPROCESSING='0', VLLM_CPU_KVCACHE_SPACE='1',
                                VLLM_LOGGING_LEVEL='WARNING')
        r = subprocess.run([a['vllm'], os.path.abspath(__file__), '--serve', folder], capture_output=True, text=True,
                           env=env)
        if r.returncode: raise SystemExit(r.stderr[-3000:])
    return json.loads(r.stdout.splitlines()[-1])


def reading():
    "Billions of bytes a second that a product with one row reads of a matrix too large for caches, on one thread"
    import torch
    torch.set_num_threads(1)
    matrix, row, best = torch.randn(16384, 4096), torch.randn(4096), 0.
    for _ in range(8):
        start = time.thread_time()
        matrix @ row
        best = max(best, matrix.numel() * 4 / 1e9 / (time.thread_time() - start))
    return best


def peak():
    "Billions of operations a second of the fastest square product in single precision, on one thread"
    import torch
    from cosee.models.qwen.products import has_onednn, packed
    torch.set_num_threads(1)
    best, op = 0., torch.ops.mkldnn._linear_pointwise if has_onednn() else None
    with torch.inference_mode():
        for n in (512, 1024, 2048):
            x, w = torch.randn(n, n), torch.randn(n, n)
            laid = packed(w) if op else None
            ways = [lambda x=x, w=w: x @ w] + ([lambda x=x, w=laid: op(x, w, None, 'none', [], '')] if op else [])
            for f in ways * 5:
                start = time.thread_time()
                f()
                best = max(best, 2 * n ** 3 / (time.thread_time() - start) / 1e9)
    return best


def measure(a):
    "One case in a process of its own"
    env = os.environ | dict(OMP_NUM_THREADS='1', TOKENIZERS_PARALLELISM='false', HF_HUB_OFFLINE='1')
    r = subprocess.run([sys.executable, __file__, '--child', json.dumps(a)], capture_output=True, text=True, env=env)
    if r.returncode: raise SystemExit(r.stderr[-3000:])
    return json.loads(r.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object')
    p.add_argument('--vllm', metavar='PYTHON', help='interpreter of an environment with vLLM')
    p.add_argument('--model', help='directory of a model instead of random weights')
    p.add_argument('--size', default='bench', help="of random weights: 'test', 'bench' or '4b'")
    p.add_argument('--pages', type=int, nargs='*', default=[4, 12])
    p.add_argument('--child', help=argparse.SUPPRESS)
    p.add_argument('--serve', help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.serve: return print('\n' + json.dumps(serve(args.serve, 'vllm')))
    if args.child:
        a = json.loads(args.child)
        return print('\n' + json.dumps(served(a) if a['vllm'] else own(a)))
    from cosee.models.qwen.products import machine
    with tempfile.TemporaryDirectory() as folder:
        model, top, pace = args.model or episode.random_model(folder, args.size), peak(), reading()
        cases = [dict(pages=n, grammar=g, vllm=v) for n in args.pages for v in [None] + [args.vllm] * bool(args.vllm)
                 for g in ((False, True) if not v else (False,))]
        rows = [dict(engine='vllm' if c['vllm'] else 'cosee', pages=c['pages'], grammar=c['grammar'],
                     **measure(c | dict(model=model, peak=top, reading=pace))) for c in cases]
    found = dict(machine=machine(), peak_gflops=round(top, 1), reading_gbs=round(pace, 1), rows=rows)
    if args.json: return print(json.dumps(found, indent=1))
    print(f'{machine()}, peak {top:.0f} GFLOP/s')
    for r in rows: print(r['engine'], r['pages'], 'grammar' if r['grammar'] else 'free', f"{r['cpu_s']:.1f} s",
                         {k: f'{v:.2f}' for k, v in r['shares'].items()}, f"{r.get('share_of_peak', 0):.2f}")


if __name__ == '__main__': main()
