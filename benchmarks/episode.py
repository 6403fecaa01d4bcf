"""What an episode costs: one prefill for all calls, against computing every call in full.

    python benchmarks/episode.py                         # a table
    python benchmarks/episode.py --json > results.jsonl  # one JSON object a line
    python benchmarks/episode.py --dtype bfloat16        # weights in another format
    python benchmarks/episode.py --arch gemma3           # another architecture, of random weights; 'all': each
    python benchmarks/episode.py --gguf                  # llama.cpp with GGUF files of the same weights as well
    python benchmarks/episode.py --vllm PYTHON           # vLLM's prefix caching as well

Each way runs in a process of its own on one thread; CPU time is that of the whole process from the first call to the
last (loading excluded), peak memory that of the whole process. Weights are random: the values change no cost. The
usual ones, `wide`, have layers as wide as those of Qwen3-VL-2B, four of its 28, and four of the 24 blocks of its
vision encoder.

The ways: `plain` is transformers' `generate` for each call; `turns` and `parallel` are this project's; `gguf_F16` and
`gguf_Q8_0` are GGUF files (16 bits, and 8 bits a number, the projector always 16), which need the packages gguf and
xllamacpp; `vllm` and `vllm_parallel` get the same prompts and pages from PYTHON, the interpreter of an environment of
its own that has vLLM (run with the CPU build of vLLM 0.32), whose engine runs inside the process that is measured.
Plain calls cost nearly the same each; with --plain-calls 3 that many of an episode are computed and the cost scaled
up: the first of each step, whose Boards are shortest, so rather too little than too much.

`ratio` is the cost of plain calls divided by that of the way; `identical` says how many replies to prompts that both
answered are the same, token by token, `same_counts` of how many prompts both count the same tokens.
"""
import argparse, json, os, random, resource, statistics, subprocess, sys, tempfile, time

NOTE, QUESTION, ROLE, NEW = 32, 24, 120, 48  # tokens of a note, a question, a role prompt, a reply


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


def prompts(client, pages, agents, steps, sequential=True):
    "The messages of an episode; a list of steps, each a list of calls. Notes do not depend on replies."
    q, roles, notes, out = (text(client, QUESTION, 0),
                            [text(client, ROLE, 100 + a) for a in range(agents)], [], [])
    for step in range(steps):
        old, calls = len(notes), []
        for a in range(agents):
            seen = notes if sequential else notes[:old]
            board = '[Page 1]\n' + '\n'.join(seen) if seen else None
            calls.append(client.build_messages(pages, q, board, roles[a]))
            notes.append(f'- (#{len(notes) + 1}, agent {a}, step {step + 1}) '
                         + text(client, NOTE, len(notes)))
        out.append(calls)
    return out


def keeping_tokens(client):
    "Let a client keep what it writes: (tokens of the prompt, tokens of the reply), in order"
    client.written, reply = [], client._reply
    def kept(p, out, *a, **k):
        client.written.append((tuple(p.ids), tuple(out)))
        return reply(p, out, *a, **k)
    client._reply = kept
    return client


def tokens_of(client, messages):
    "The tokens of the latest reply to a prompt"
    return dict(client.written)[tuple(client.prompt(messages).ids)]


def key_of(messages):
    "What stands in a prompt besides pages"
    return json.dumps([b.get('text') for b in messages[0]['content']])


def serve(folder, mode):
    "Run in an environment that has vLLM: answer the prompts in `folder`, and report the cost and the tokens"
    from PIL import Image
    import torch
    from vllm import LLM, SamplingParams
    with open(os.path.join(folder, 'job.json')) as f: job = json.load(f)
    pages = [Image.open(os.path.join(folder, f'{i}.png')).convert('RGB') for i in range(job['pages'])]
    llm = LLM(job['model'], dtype=job['dtype'], enable_prefix_caching=True,
              enforce_eager=not torch.cuda.is_available(), gpu_memory_utilization=.6,
              max_model_len=job['context'],
              limit_mm_per_prompt=dict(image=job['pages'], video=0), max_num_seqs=8, seed=0)
    how = SamplingParams(temperature=0, max_tokens=job['new'], ignore_eos=True, skip_special_tokens=False)
    ask = lambda texts: llm.generate([dict(prompt=t, multi_modal_data=dict(image=pages)) for t in texts], how,
                                     use_tqdm=False)
    steps = job['steps'] if mode == 'vllm_parallel' else [[t] for calls in job['steps'] for t in calls]
    before, start = time.process_time(), time.perf_counter()
    replies = [r for texts in steps for r in ask(texts)]
    cpu, seconds = time.process_time() - before, time.perf_counter() - start
    return dict(cpu_s=cpu, seconds=seconds, peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                ids=[list(r.outputs[0].token_ids) for r in replies],
                cached=sum(r.num_cached_tokens or 0 for r in replies))


def vllm_child(a, client, steps):
    "Hand an episode to vLLM and read its tokens as this client does"
    from cosee.models.prompts import scaled
    calls = [client.prompt(m) for step in steps for m in step]
    say = lambda m: client.processor.apply_chat_template(client.prompt(m).messages, tokenize=False,
                                                         add_generation_prompt=True)
    with tempfile.TemporaryDirectory() as folder:
        for i, (im, size) in enumerate(zip(calls[0].images, calls[0].sizes, strict=True)):
            scaled(im, size).save(f'{folder}/{i}.png')
        context = -(-max(len(p) + a['new'] for p in calls) // 256) * 256
        job = dict(model=a['model'], dtype=a['dtype'], pages=a['pages'], new=a['new'], context=context,
                   steps=[[say(m) for m in step] for step in steps])
        with open(f'{folder}/job.json', 'w') as f: json.dump(job, f)
        env = os.environ | dict(VLLM_ENABLE_V1_MULTIPROCESSING='0', VLLM_CPU_KVCACHE_SPACE='1',
                                VLLM_LOGGING_LEVEL='WARNING')
        r = subprocess.run([a['vllm'], os.path.abspath(__file__), '--serve', folder, a['mode']], capture_output=True,
                           text=True, env=env)
        if r.returncode: raise SystemExit(r.stderr[-3000:])
    out = json.loads(r.stdout.splitlines()[-1])
    keys = [key_of(m) for step in steps for m in step]
    return out | dict(passes=0, outs={k: dict(ids=ids) for k, ids in zip(keys, out.pop('ids'), strict=True)})


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
        outs[key_of(m)], counts[key_of(m)] = dict(text=r.text.strip()), r.usage.prompt_tokens
        cached += r.usage.cached_tokens
    cpu, peak = time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    from processor import machine
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
    from cosee.models.transformers_client import TransformersClient
    from cosee.models.prompts import inputs_of
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    plain = a['mode'] == 'plain'
    # random weights repeat themselves: guesses that are looked up would come true far too often (see lookup.py)
    opened = TransformersClient if a.get('arch') else QwenVLClient
    client = keeping_tokens(opened(a['model'], device=a['device'], dtype=a['dtype'], reuse=not plain, lookup=False))
    client.ends, client.model.generation_config.eos_token_id = {-1}, None
    pages = [page(i) for i in range(a['pages'])]
    s = dict(max_new_tokens=a['new'], temperature=0, presence_penalty=0)
    outs, counts = {}, {}

    def ask(batch):
        if a['mode'] == 'parallel':
            replies = client.respond_many([Request(messages=tuple(m), settings=s) for m in batch])
        else: replies = [client.chat(m, **s) for m in batch]
        for m, r in zip(batch, replies, strict=True):
            said = dict(text=r.text.strip(), ids=tokens_of(client, m))
            outs[key_of(m)], counts[key_of(m)] = said, r.usage.prompt_tokens

    steps = prompts(client, pages, a['agents'], a['steps'], sequential=not a['mode'].endswith('parallel'))
    some = []
    if a['work'] == 'samples':
        batch = prompts(client, pages, 1, 1)[0] * 5
        s.update(temperature=1., seed=0)
        def run():
            if not plain: return ask(batch)
            with torch.inference_mode():
                client.model.generate(**inputs_of(client.processor, client.prompt(batch[0])), do_sample=True, top_k=20,
                                      top_p=.8, num_return_sequences=5, max_new_tokens=a['new'])
    elif plain and a['plain_calls']:
        some = [calls[0] for calls in steps][:a['plain_calls']]   # the first agent reads the same in both orders
        run = lambda: ask(some)
    else: run = lambda: [ask(calls) for calls in steps]
    from processor import machine
    if a['mode'].startswith('vllm'): return vllm_child(a, client, steps) | dict(machine=machine())
    before = time.process_time()
    run()
    cpu = time.process_time() - before
    if some: cpu *= a['agents'] * a['steps'] / len(some)
    out = dict(cpu_s=cpu, peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
               passes=client.passes, machine=machine(), outs=outs, counts=counts)
    if a.get('arch'):
        u = client.estimate(Request(messages=tuple(prompts(client, pages, 1, 1)[0][0])))
        out['about'] = dict(arch=a['arch'], how=client.how, image_tokens=u.image_tokens, text_tokens=u.text_tokens)
    return out


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
    def same(x, y):
        if not isinstance(x, dict): return x == y
        return x['ids'] == y['ids'] if x.get('ids') and y.get('ids') else x['text'] == y['text']
    return f'{sum(same(a[k], b[k]) for k in both)}/{len(both)}' if both else ''


WAYS = dict(episode=('plain', 'turns', 'parallel'), samples=('plain', 'parallel'))   # of each work


def bench(args, model, arch=''):
    plain, more = {}, (('vllm', 'vllm_parallel') if args.vllm else ()) + (GGUF if args.gguf else ())
    for work in args.work:
        for n in args.pages if work == 'episode' else args.pages[:1]:
            asked = []
            for mode in WAYS[work] + (more if work == 'episode' else ()):
                if args.ways and mode not in args.ways and mode != 'plain' and mode not in more: continue
                asked.append(dict(work=work, mode=mode, pages=n, agents=args.agents, steps=args.steps, model=model,
                                  arch=arch, device=args.device, dtype=args.dtype, isa=args.isa, threads=args.threads,
                                  new=args.new, plain_calls=args.plain_calls, vllm=args.vllm,
                                  gguf=args.gguf.get(mode, '') if args.gguf else ''))
            rounds = [[measure(**a) for a in asked] for _ in range(args.repeat)]   # the ways in turn
            for a, runs in zip(asked, zip(*rounds, strict=True), strict=True): yield row(a, runs, plain)


def row(a, runs, plain):
    "The median of the runs as a line of the table; `plain` remembers what plain calls cost"
    cpu, key = statistics.median(r['cpu_s'] for r in runs), (a['work'], a['pages'])
    out = dict(work=a['work'], mode=a['mode'], dtype=a['dtype'], pages=a['pages'], agents=a['agents'],
               steps=a['steps'], cpu_s=round(cpu, 2),
               peak_mb=round(statistics.median(r['peak_mb'] for r in runs)), passes=runs[0]['passes'], runs=len(runs),
               least=round(min(r['cpu_s'] for r in runs), 2), most=round(max(r['cpu_s'] for r in runs), 2),
               machine=runs[0]['machine'])
    if a['mode'] == 'plain': plain[key] = cpu, runs[0]['outs'], runs[0]['counts']
    out.update(runs[0].get('about', {}))
    if 'cached' in runs[0]: out['cached_tokens'] = runs[0]['cached']
    base, outs, counts = plain[key]
    out['ratio'] = round(base / cpu, 2)
    if a['work'] == 'episode':
        if a['mode'] == 'plain' and a['plain_calls']: out['calls_computed'] = a['plain_calls']
        out['identical'] = agree(outs, runs[0]['outs'])
        if 'counts' in runs[0]: out['same_counts'] = agree(counts, runs[0]['counts'])
    return out


GGUF = 'gguf_F16', 'gguf_Q8_0'

def gguf_files(model, folder):
    "Way -> a GGUF file of the same weights, made in a process of its own, its projector beside it"
    code = ('import sys; from cosee.models.gguf_file import write_gguf_pair; '
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
    args.work = ['episode']
    for arch in RANDOM if args.arch == 'all' else [args.arch]:
        with tempfile.TemporaryDirectory() as folder:
            code = ('import sys; from cosee.models.testing import random_model; '
                    'random_model(*sys.argv[1:3], scale=8)')
            subprocess.run([sys.executable, '-c', code, folder, arch], capture_output=True, check=True)
            yield from bench(args, folder, arch)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object a line')
    p.add_argument('--size', default='wide', help="random weights: 'wide', 'bench' (37 M parameters), 'test' or '4b'")
    p.add_argument('--model', help='directory of a model instead')
    p.add_argument('--arch', help="an architecture of cosee.models.testing instead, or 'all' of them")
    p.add_argument('--device', default='cpu')
    p.add_argument('--dtype', default='float32', help="of the weights: 'float32' or 'bfloat16'")
    p.add_argument('--threads', type=int, default=1)
    p.add_argument('--isa', choices=list(ISA), help="forbid all libraries the processor's newer instructions")
    p.add_argument('--repeat', type=int, default=1, help='runs of each way, in turn, of which the median counts')
    p.add_argument('--plain-calls', type=int, default=0,
                   help='compute so many plain calls of an episode instead of all')
    p.add_argument('--agents', type=int, default=3)
    p.add_argument('--steps', type=int, default=3)
    p.add_argument('--new', type=int, default=NEW, help='tokens of a reply')
    p.add_argument('--pages', type=int, nargs='+', default=[4, 12], help='of a document; samples take the first')
    p.add_argument('--work', nargs='+', choices=list(WAYS), default=list(WAYS))
    p.add_argument('--ways', nargs='*', help='only these ways beside plain, such as turns parallel')
    p.add_argument('--gguf', action='store_true', help='the GGUF client as well, with 16 and 8 bits')
    p.add_argument('--vllm', metavar='PYTHON', help='interpreter of an environment with vLLM')
    p.add_argument('--child', help=argparse.SUPPRESS)
    p.add_argument('--serve', nargs=2, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.serve: return print('\n' + json.dumps(serve(*args.serve)))
    if args.child: return print(json.dumps(child(json.loads(args.child))))
    with tempfile.TemporaryDirectory() as folder:
        if not args.arch: args.model = args.model or random_model(os.path.join(folder, 'weights'), args.size)
        args.gguf = gguf_files(args.model, folder) if args.gguf and not args.arch else {}
        for line in architectures(args) if args.arch else bench(args, args.model):
            if args.json: print(json.dumps(line), flush=True)
            else: print('  '.join(f'{k}={v}' for k, v in line.items()), flush=True)


if __name__ == '__main__': main()
