"""What an episode costs: one prefill for all calls, against computing every call in full.

    python benchmarks/episode.py                         # a table
    python benchmarks/episode.py --json > results.jsonl  # one JSON object a line
    python benchmarks/episode.py --size 4b --model DIR   # on a GPU, with real weights
    python benchmarks/episode.py --arch gemma3           # another architecture, of random weights; 'all': each

Each way runs in a process of its own on one thread; CPU time is that of the whole process from the first call to the
last (loading excluded), peak memory that of the whole process. Weights are random: the values change no cost.

The ways: `plain` is transformers' `generate` for each call; `quick` the same with this project's products of
weights, but without reuse; `vision` keeps the outputs of the vision tower; `turns` and `parallel` are this
project's. Plain calls cost nearly the same each; with --plain-calls 3 that many of an episode are computed and the
cost scaled up: the first of each step, whose Boards are shortest, so rather too little than too much.

    python benchmarks/episode.py --size wide --gguf --work episode --pages 4 --plain-calls 1 --ways turns

GGUF files of the same weights (16 bits, and 8 bits a number), opened with llama.cpp, are two ways more: `gguf_F16` and
`gguf_Q8_0`; the projector has 16 bits. `wide` has layers as wide as those of Qwen3-VL-2B, four of each kind.
`same_counts` says of how many prompts a way counts the tokens that plain transformers counts. It needs the packages
gguf and xllamacpp.

    python benchmarks/episode.py --vllm PYTHON           # vLLM's prefix caching as well

PYTHON is the interpreter of an environment of its own that has vLLM (run with the CPU build of vLLM 0.32); it gets
the same prompts and pages, in turn and by steps, and writes as many tokens. Its cost is counted in the same way;
its engine runs inside the process that is measured.
"""
import argparse, json, os, random, resource, statistics, subprocess, sys, tempfile, time

NOTE, QUESTION, ROLE, NEW = 32, 24, 120, 48  # tokens of a note, a question, a role prompt, a reply
SCHEMA = dict(type='object', required=['action', 'content', 'view', 'confidence'], properties=dict(
    action=dict(enum=['INSPECT']), content=dict(type='string', minLength=60, maxLength=60),
    view=dict(type='object', required=['page', 'bbox_2d'], properties=dict(
        page=dict(type='integer', minimum=1, maximum=12),
        bbox_2d=dict(type='array', items=dict(type='integer', minimum=100, maximum=999), minItems=4, maxItems=4))),
    confidence=dict(type='number', enum=[0.5, 0.9])))


def page(seed):
    "A page of text of 620x877 pixels: 513 image tokens"
    from PIL import Image, ImageDraw
    rng, im = random.Random(seed), Image.new('RGB', (620, 877), 'white')
    draw = ImageDraw.Draw(im)
    for y in range(30, 850, 16):
        draw.text((30, y), ' '.join(''.join(rng.choices('aeinorst', k=rng.randint(2, 9))) for _ in range(14))[:90],
                  fill='black')
    return im


def text(client, n, seed):
    "About `n` tokens of words"
    rng = random.Random(seed)
    words = ['total', 'page', 'table', 'report', 'invoice', 'number', 'answer', 'quarterly', 'sales', 'note',
             'see', 'row']
    out = rng.choice(words)
    while len(client.tokenizer.encode(out)) < n: out += ' ' + rng.choice(words)
    return out


def prompts(client, pages, agents, steps, question=0, sequential=True):
    "The messages of an episode; a list of steps, each a list of calls. Notes do not depend on replies."
    q, roles, notes, out = (text(client, QUESTION, question),
                            [text(client, ROLE, 100 + a) for a in range(agents)], [], [])
    for step in range(steps):
        old, calls = len(notes), []
        for a in range(agents):
            seen = notes if sequential else notes[:old]
            board = '[Page 1]\n' + '\n'.join(seen) if seen else None
            calls.append(client.build_messages(pages, q, board, roles[a]))
            notes.append(f'- (#{len(notes) + 1}, agent {a}, step {step + 1}) '
                         + text(client, NOTE, 1000 * question + len(notes)))
        out.append(calls)
    return out


def tokens_of(client, reply):
    return reply.text.strip()[-200:], reply.usage.completion_tokens


def key_of(messages):
    "What stands in a prompt besides pages"
    return json.dumps([b.get('text') for b in messages[0]['content']])


class VisionReuse:
    "transformers' `generate` with the outputs of the vision tower kept: way (b)"
    def __init__(self, client): self.client, self.kept = client, {}

    def __call__(self, messages, s):
        import torch
        from cosee.models.qwen.prompt import inputs_of
        c = self.client
        p = c.prompt(messages)
        key = c._key(p)
        with torch.inference_mode():
            if key not in self.kept:
                x = inputs_of(c.processor, p)
                seen = c.model.get_image_features(x.pop('pixel_values'), x['image_grid_thw'])
                self.kept[key] = seen, x['image_grid_thw']
            seen, grid = self.kept[key]
            ids = torch.tensor([p.ids])
            kinds = (ids == c.processor.image_token_id).int()
            out = c.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=kinds,
                                   image_grid_thw=grid,
                                   mm_encoder_outputs={'image': seen}, do_sample=False,
                                   max_new_tokens=s.max_new_tokens)
        return c._reply(p, out[0, len(p):].tolist(), s)


def serve(folder, mode):
    "Run in an environment that has vLLM: answer the prompts in `folder`, and report the cost and the tokens"
    from PIL import Image
    from vllm import LLM, SamplingParams
    with open(os.path.join(folder, 'job.json')) as f: job = json.load(f)
    pages = [Image.open(os.path.join(folder, f'{i}.png')).convert('RGB') for i in range(job['pages'])]
    llm = LLM(job['model'], dtype='float32', enable_prefix_caching=True, enforce_eager=True,
              max_model_len=job['context'],
              limit_mm_per_prompt=dict(image=job['pages'], video=0), max_num_seqs=8, seed=0)
    how = SamplingParams(temperature=0, max_tokens=job['new'], ignore_eos=True, skip_special_tokens=False)
    ask = lambda texts: llm.generate([dict(prompt=t, multi_modal_data=dict(image=pages)) for t in texts], how,
                                     use_tqdm=False)
    steps = job['steps'] if mode == 'vllm_parallel' else [[t] for calls in job['steps'] for t in calls]
    before = time.process_time()
    replies = [r for texts in steps for r in ask(texts)]
    cpu = time.process_time() - before
    return dict(cpu_s=cpu, peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                ids=[list(r.outputs[0].token_ids) for r in replies],
                cached=sum(r.num_cached_tokens or 0 for r in replies))


def vllm_child(a, client, steps, s):
    "Hand an episode to vLLM and read its tokens as this client does"
    from cosee.models.qwen.decode import Sampling
    from cosee.models.qwen.prompt import scaled
    calls = [client.prompt(m) for step in steps for m in step]
    say = lambda m: client.processor.apply_chat_template(client.prompt(m).messages, tokenize=False,
                                                         add_generation_prompt=True)
    with tempfile.TemporaryDirectory() as folder:
        for i, (im, size) in enumerate(zip(calls[0].images, calls[0].sizes, strict=True)):
            scaled(im, size).save(f'{folder}/{i}.png')
        context = -(-max(len(p) + a['new'] for p in calls) // 256) * 256
        job = dict(model=a['model'], pages=a['pages'], new=a['new'], context=context,
                   steps=[[say(m) for m in step] for step in steps])
        with open(f'{folder}/job.json', 'w') as f: json.dump(job, f)
        env = os.environ | dict(VLLM_ENABLE_V1_MULTIPROCESSING='0', VLLM_CPU_KVCACHE_SPACE='1',
                                VLLM_LOGGING_LEVEL='WARNING')
        r = subprocess.run([a['vllm'], os.path.abspath(__file__), '--serve', folder, a['mode']], capture_output=True,
                           text=True, env=env)
        if r.returncode: raise SystemExit(r.stderr[-3000:])
    out = json.loads(r.stdout.splitlines()[-1])
    replies = [client._reply(p, ids, Sampling(**s)) for p, ids in zip(calls, out.pop('ids'), strict=True)]
    texts = [key_of(m) for step in steps for m in step]
    return out | dict(passes=0, outs={t: tokens_of(client, r) for t, r in zip(texts, replies, strict=True)})


def gguf_child(a):
    "An episode through GGUF files of the same weights, in a process without PyTorch"
    from tokenizers import Tokenizer
    from cosee.models import gguf_client
    gguf_client._QUIET['ignore_eos'] = True   # every way writes as many tokens
    client = gguf_client.GgufClient(a['gguf'], context=a['pages'] * 600 + 4096, threads=a['threads'])
    client.tokenizer = Tokenizer.from_file(os.path.join(a['model'], 'tokenizer.json'))
    pages, outs, counts, cached = [page(i) for i in range(a['pages'])], {}, {}, 0
    calls = [m for step in prompts(client, pages, a['agents'], a['steps']) for m in step]
    before = time.process_time()
    for m in calls:
        r = client.chat(m, max_new_tokens=a['new'], temperature=0)
        outs[key_of(m)], counts[key_of(m)] = tokens_of(client, r), r.usage.prompt_tokens
        cached += r.usage.cached_tokens
    cpu, peak = time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    from cosee.models.qwen.products import machine
    return dict(cpu_s=cpu, peak_mb=peak, passes=0, machine=machine(), outs=outs, counts=counts, cached=cached)


def child(a):
    "Run one way and report its cost"
    if a['mode'].startswith('gguf'): return gguf_child(a)
    import torch
    torch.set_num_threads(a['threads'])
    from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    from cosee.models.client import Request
    from cosee.models.local.client import LocalVLMClient
    from cosee.models.qwen.decode import Sampling
    from cosee.models.qwen.products import use_fast_linear
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    plain = a['mode'] in ('plain', 'quick', 'vision')
    # random weights repeat themselves: guesses that are looked up would come true far too often (see lookup.py)
    opened = LocalVLMClient if a.get('arch') else QwenVLClient
    client = opened(a['model'], device=a['device'], reuse=not plain, lookup=False,
                    fast_forward=a['mode'] != 'slow_forward')
    if a['mode'] == 'quick': use_fast_linear(client.model)
    client.ends, client.model.generation_config.eos_token_id = {-1}, None
    pages = [page(i) for i in range(a['pages'])]
    s = dict(max_new_tokens=a['new'], temperature=0, presence_penalty=0)
    vision, outs, counts = VisionReuse(client), {}, {}

    def together(batch, **settings):
        schema = settings.pop('schema', None)
        return client.respond_many([Request(messages=tuple(m), schema=schema, settings=settings) for m in batch])

    def ask(batch, **kw):
        if a['mode'] == 'vision': replies = [vision(m, Sampling(**s)) for m in batch]
        elif a['mode'] == 'parallel': replies = together(batch, **s | kw)
        else: replies = [client.chat(m, **s | kw) for m in batch]
        for m, r in zip(batch, replies, strict=True):
            outs[key_of(m)], counts[key_of(m)] = tokens_of(client, r), r.usage.prompt_tokens

    work = a['work']
    if work == 'samples':
        batch = prompts(client, pages, 1, 1)[0] * 5
        def run():
            s.update(temperature=1., seed=0)
            if not plain: return together(batch, **s)
            from cosee.models.qwen.prompt import inputs_of
            with torch.inference_mode():
                client.model.generate(**inputs_of(client.processor, client.prompt(batch[0])), do_sample=True, top_k=20,
                                      top_p=.8, num_return_sequences=5, max_new_tokens=a['new'])
    elif work == 'questions':
        batch = [prompts(client, pages, 1, 1, q)[0][0] for q in range(10)]
        run = lambda: ask(batch)
    elif work == 'actions':
        steps = prompts(client, pages, a['agents'], a['steps'])
        run = lambda: [ask(calls, schema=SCHEMA, max_new_tokens=256, temperature=1., seed=1) for calls in steps]
    elif work == 'episode' and plain and a['plain_calls']:
        # the first agent of a step reads the same in both orders
        steps = prompts(client, pages, a['agents'], a['steps'])
        some = [calls[0] for calls in steps][:a['plain_calls']]
        run = lambda: ask(some)
    else:
        episodes = [prompts(client, pages, a['agents'], a['steps'], e, not a['mode'].endswith('parallel'))
                    for e in range(a['episodes'])]
        run = lambda: [ask(calls) for ep in episodes for calls in ep]
    from cosee.models.qwen.products import machine
    if a['mode'].startswith('vllm'): return vllm_child(a, client, episodes[0], s) | dict(machine=machine())
    before = time.process_time()
    run()
    cpu = time.process_time() - before
    if work == 'episode' and plain and a['plain_calls']: cpu *= a['agents'] * a['steps'] / len(some)
    out = dict(cpu_s=cpu, peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
               passes=client.passes, machine=machine(), outs=outs, counts=counts)
    if a.get('arch'):
        u = client.estimate(Request(messages=tuple(prompts(client, pages, 1, 1)[0][0])))
        out['about'] = dict(arch=a['arch'], how=client.how, image_tokens=u.image_tokens, text_tokens=u.text_tokens)
    elif a['mode'] == 'plain' and work == 'episode': out['shares'] = shares(client, pages, a, s, cpu)
    return out


def shares(client, pages, a, s, cpu):
    "CPU time of pages, of the rest of the prompt and of decoding in one plain call"
    from cosee.models.qwen.prefix import prefill
    from cosee.models.qwen.prompt import inputs_of
    import torch
    calls = a['agents'] * a['steps']
    m = prompts(client, pages, a['agents'], a['steps'])[a['steps'] // 2][0]
    def took(f):
        before = time.process_time()
        f()
        return time.process_time() - before
    p = client.prompt(m)
    with torch.inference_mode():
        pages_s = took(lambda: prefill(client.model, inputs_of(client.processor, p).to(client.device), p.cut))
    prompt_s = took(lambda: client.chat(m, **s | dict(max_new_tokens=1)))
    call = cpu / calls
    P, S, D = pages_s, max(0., prompt_s - pages_s), call - max(prompt_s, pages_s)
    return dict(share_pages=P / call, share_prompt=S / call, share_decode=D / call,
                bound=calls * call / (P + calls * (S + D)), pages_s=P, prompt_s=S, decode_s=D)


ISA = dict(avx2=dict(ATEN_CPU_CAPABILITY='avx2', ONEDNN_MAX_CPU_ISA='AVX2', MKL_ENABLE_INSTRUCTIONS='AVX2',
                      OPENBLAS_CORETYPE='Haswell', NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL AVX512_SPR'))


def measure(**a):
    "One way in a fresh process"
    env = os.environ | dict(OMP_NUM_THREADS=str(a['threads']), TOKENIZERS_PARALLELISM='false', HF_HUB_OFFLINE='1')
    env |= ISA.get(a.get('isa'), {})
    r = subprocess.run([sys.executable, __file__, '--child', json.dumps(a)], capture_output=True, text=True, env=env)
    if r.returncode: raise SystemExit(r.stderr[-3000:])
    return json.loads(r.stdout.splitlines()[-1])


def agree(a, b):
    "How many prompts that both ways answered were answered alike: 'same/all'"
    both = [k for k in a if k in b]
    return f'{sum(a[k] == b[k] for k in both)}/{len(both)}' if both else ''


PLAN = {  # work: (pages, ways)
    'samples': ((4,), ('plain', 'turns')),
    'episode': ((12, 4, 1, 20), ('plain', 'quick', 'vision', 'turns', 'parallel')),
    'episodes': ((12,), ('parallel', 'turns')),
    'actions': ((4,), ('slow_forward', 'turns')),
    'questions': ((12,), ('turns', 'parallel')),
}


def bench(args, model, arch=''):
    plain = {}
    for work, (pages, ways) in PLAN.items():
        if args.work and work not in args.work: continue
        for n in [n for n in pages if n in (args.pages or pages)]:
            more = (('vllm', 'vllm_parallel') if args.vllm else ()) + (GGUF if args.gguf else ())
            for mode in ways + (more if work == 'episode' else ()):
                if args.ways and mode not in args.ways and mode != 'plain' and mode not in more: continue
                a = dict(work=work, mode=mode, pages=n, agents=args.agents, steps=args.steps, model=model, arch=arch,
                         device=args.device, isa=args.isa,
                         threads=args.threads, new=args.new, plain_calls=args.plain_calls, vllm=args.vllm,
                         gguf=args.gguf.get(mode, '') if args.gguf else '',
                         episodes=10 if work == 'episodes' else 1)
                once = args.quick and (n in (1, 20) or work in ('episodes', 'questions', 'actions'))
                runs = [measure(**a) for _ in range(1 if once else args.repeat)]
                yield row(a, runs, plain)


def row(a, runs, plain):
    "The median of the runs as a line of the table; `plain` remembers what plain calls cost"
    cpu, work, n = statistics.median(r['cpu_s'] for r in runs), a['work'], a['pages']
    out = dict(work=work, mode=a['mode'], pages=n, agents=a['agents'], steps=a['steps'], cpu_s=round(cpu, 2),
               peak_mb=round(statistics.median(r['peak_mb'] for r in runs)), passes=runs[0]['passes'], runs=len(runs),
               machine=runs[0]['machine'])
    if a['mode'] == 'plain': plain[work, n] = cpu, runs[0]['outs'], runs[0].get('counts', {})
    out.update(runs[0].get('about', {}))
    if a['mode'] == 'plain' and 'shares' in runs[0]: out.update({k: round(v, 3) for k, v in runs[0]['shares'].items()})
    base, outs, counts = plain.get((work, n)) or (None, {}, {})
    calls = a['agents'] * a['steps']
    # as many plain calls as these, of the same length
    if ('episode', n) in plain and work in ('episodes', 'questions'):
        base = plain['episode', n][0] * (10 if work == 'episodes' else 10 / calls)
    if 'cached' in runs[0]: out['cached_tokens'] = runs[0]['cached']
    if base: out['ratio'] = round(base / cpu, 2)
    if a['mode'] in ('plain', 'quick', 'vision') and work == 'episode' and a['plain_calls']:
        out['calls_computed'] = a['plain_calls']
    if outs and work != 'samples':
        out['identical'] = agree(outs, runs[0]['outs'])
        if 'counts' in runs[0]: out['same_counts'] = agree(counts, runs[0]['counts'])
    return out


GGUF = 'gguf_F16', 'gguf_Q8_0'

def gguf_files(model, folder):
    "Way -> a GGUF file of the same weights, made in a process of its own, its projector beside it"
    code = ('import sys; from cosee.models.gguf_pair import write_gguf_pair; '
            'print(write_gguf_pair(*sys.argv[1:4])[0])')
    made = {}
    for way in GGUF:
        asked = [sys.executable, '-c', code, model, os.path.join(folder, way), way.removeprefix('gguf_')]
        made[way] = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    return made


def random_model(folder, size='bench'):
    "A checkpoint of random weights, made in `folder` by a process of its own"
    code = f'from cosee.models.testing import *; print(random_checkpoint({folder!r}, {size!r}))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def architectures(args):
    "An episode with random weights of an architecture, or of each: plain, in turn, in parallel"
    from cosee.models.testing import RANDOM
    args.work, args.ways, args.pages = ['episode'], ['turns', 'parallel'], args.pages or [4]
    for arch in RANDOM if args.arch == 'all' else [args.arch]:
        with tempfile.TemporaryDirectory() as folder:
            code = ('import sys; from cosee.models.testing import random_model; '
                    'random_model(*sys.argv[1:3], scale=8)')
            subprocess.run([sys.executable, '-c', code, folder, arch], capture_output=True, check=True)
            yield from bench(args, folder, arch)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object a line')
    p.add_argument('--size', default='bench', help="random weights: 'test', 'bench' (37 M parameters), 'wide' or '4b'")
    p.add_argument('--model', help='directory of a model instead')
    p.add_argument('--arch', help="an architecture of cosee.models.testing instead, or 'all' of them")
    p.add_argument('--device', default='cpu')
    p.add_argument('--threads', type=int, default=1)
    p.add_argument('--isa', choices=list(ISA), help="forbid all libraries the processor's newer instructions")
    p.add_argument('--repeat', type=int, default=3, help='runs of which the median counts')
    p.add_argument('--plain-calls', type=int, default=0,
                   help='compute so many plain calls of an episode instead of all')
    p.add_argument('--quick', action='store_true', help='one run of what takes longest, and --plain-calls 3')
    p.add_argument('--agents', type=int, default=3)
    p.add_argument('--steps', type=int, default=3)
    p.add_argument('--new', type=int, default=NEW, help='tokens of a reply')
    p.add_argument('--pages', type=int, nargs='*', help='only these of 1, 4, 12 and 20')
    p.add_argument('--work', nargs='*', choices=list(PLAN), help='only this work')
    p.add_argument('--ways', nargs='*', help='only these ways beside plain, such as turns parallel')
    p.add_argument('--gguf', action='store_true', help='the GGUF client as well, with 16 and 8 bits')
    p.add_argument('--vllm', metavar='PYTHON', help='interpreter of an environment with vLLM')
    p.add_argument('--child', help=argparse.SUPPRESS)
    p.add_argument('--serve', nargs=2, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.quick: args.plain_calls = args.plain_calls or 3
    if args.serve: return print('\n' + json.dumps(serve(*args.serve)))
    if args.child: return print(json.dumps(child(json.loads(args.child))))
    with tempfile.TemporaryDirectory() as folder:
        if not args.arch: args.model = args.model or random_model(os.path.join(folder, 'weights'), args.size)
        args.gguf = gguf_files(args.model, folder) if args.gguf and not args.arch else {}
        for line in architectures(args) if args.arch else bench(args, args.model):
            if args.json: print(json.dumps(line), flush=True)
            else: print('  '.join(f'{k}={v}' for k, v in line.items()), flush=True)


if __name__ == '__main__': main()
