"""An episode about twelve pages on a GPU, with weights of Qwen3-VL-4B's exact shapes: plain, in turn, in parallel.

    python benchmarks/gpu.py --json > benchmarks/results/gpu.json    # some minutes; needs 30 GB of GPU memory
    python benchmarks/gpu.py --vllm PYTHON                           # vLLM as well, of an environment of its own
    python benchmarks/gpu.py --size test --device cpu --pages 2      # whether it runs, without a GPU

Weights are random bfloat16, drawn on the GPU. Seconds are those of the clock from the first call to the last, when the
GPU is done (loading and a first small call excluded); memory is the most that PyTorch had in use. `plain` is
transformers' `generate` for three of the nine calls, scaled up; `turns` and `parallel` are this project's. In bfloat16
sums depend on how many rows a product has, so replies may part from the plain ones where two tokens are nearly as
probable: `identical` counts replies that are the same, `tokens_shared` the tokens before they part. The same on
narrower weights in single precision (`exact`), where all have to be the same.

`tokens_s` are tokens of replies a second of the whole episode; `token_ms` is what one more token of a reply costs: the
same call with many tokens and with one, by their difference. `vllm` and `vllm_parallel` have only the former.

benchmarks/gpu.sh does this and the tests of the GPU (pytest -m gpu) within ten minutes.
"""
import argparse, json, tempfile, time

from episode import NEW, keeping_tokens, key_of, page, prompts, tokens_of, vllm_child
from processor import machine


def clock(way, device):
    "Seconds of the clock until the device is done"
    import torch
    start = time.perf_counter()
    way()
    if device != 'cpu': torch.cuda.synchronize()
    return time.perf_counter() - start


def vllm_ways(python, model_path, device, pages, new):
    "The same episode by vLLM, in turn and in parallel, like `ways`"
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    client = QwenVLClient(model_path, device=device, reuse=False)
    shown, out = [page(i) for i in range(pages)], {}
    for way in ('vllm', 'vllm_parallel'):
        a = dict(model=model_path, dtype='auto', pages=pages, new=new, vllm=python, mode=way)
        done = vllm_child(a, client, prompts(client, shown, 3, 3, sequential=way == 'vllm'))
        said = {k: tuple(r['ids']) for k, r in done['outs'].items()}
        out[way] = dict(seconds=round(done['seconds'], 2), memory_gb=None, said=said, token_ms=None)
    return out


def ways(model_path, device, pages, new, plain_calls):
    "The ways one after the other: {way: figures}, with the tokens of each reply by its prompt"
    import torch
    from cosee.models.client import Request
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    settings = dict(max_new_tokens=new, temperature=0, presence_penalty=0)
    shown, out = [page(i) for i in range(pages)], {}
    for way in ('plain', 'turns', 'parallel'):
        client = keeping_tokens(QwenVLClient(model_path, device=device, reuse=way != 'plain', lookup=False))
        client.ends, client.model.generation_config.eos_token_id = {-1}, None
        steps = prompts(client, shown, 3, 3, sequential=way != 'parallel')
        if way == 'plain': batches = [[calls[0]] for calls in steps][:plain_calls]
        else: batches = steps if way == 'parallel' else [[m] for calls in steps for m in calls]
        client.chat(client.build_messages([page(99)], 'Ready?'), max_new_tokens=2)
        if device != 'cpu': torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        for batch in batches:
            client.respond_many([Request(messages=tuple(m), settings=settings) for m in batch])
        if device != 'cpu': torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        if way == 'plain': seconds *= 9 / len(batches)
        last = [Request(messages=tuple(batches[-1][0]), settings=settings | dict(max_new_tokens=n)) for n in (new, 1)]
        many, one = (clock(lambda ask=ask, client=client: client.respond(ask), device) for ask in last)
        said = {key_of(m): tokens_of(client, m) for batch in batches for m in batch}
        memory = torch.cuda.max_memory_allocated() / 2**30 if device != 'cpu' else None
        out[way] = dict(seconds=round(seconds, 2), memory_gb=memory and round(memory, 2), said=said,
                        token_ms=round(1000 * (many - one) / (new - 1), 2))
        del client
        if device != 'cpu': torch.cuda.empty_cache()
    return out


def compare(found, new):
    "Ratios to plain calls, and how far the replies are the same"
    from cosee.models.prompts import shared_length
    plain, rows = found['plain'], []
    for way, r in found.items():
        both = [(plain['said'][k], tokens) for k, tokens in r['said'].items() if k in plain['said']]
        rows.append(dict(way=way, seconds=r['seconds'], tokens_s=round(9 * new / r['seconds'], 1),
                         token_ms=r['token_ms'], ratio=round(plain['seconds'] / r['seconds'], 2),
                         memory_gb=r['memory_gb'], identical=f"{sum(a == b for a, b in both)}/{len(both)}",
                         tokens_shared=f'{sum(shared_length(a, b) for a, b in both)}/{sum(len(a) for a, _ in both)}'))
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object')
    p.add_argument('--device', default='cuda')
    p.add_argument('--size', default='4b', help="random weights: '4b', 'wide', 'bench' or 'test'")
    p.add_argument('--vllm', metavar='PYTHON', help='interpreter of an environment with vLLM')
    p.add_argument('--pages', type=int, default=12)
    p.add_argument('--new', type=int, default=NEW, help='tokens of a reply')
    args = p.parse_args()
    import torch
    from transformers.utils import logging
    from cosee.models.testing import random_checkpoint
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        path = random_checkpoint(f'{folder}/half', args.size, dtype='bfloat16', device=args.device)
        half = ways(path, args.device, args.pages, args.new, 3)
        if args.vllm: half |= vllm_ways(args.vllm, path, args.device, args.pages, args.new)
        small = 'test' if args.size == 'test' else 'wide'
        path = random_checkpoint(f'{folder}/single', small, device=args.device)
        exact = ways(path, args.device, min(args.pages, 4), args.new, 3)
    name = machine() if args.device == 'cpu' else torch.cuda.get_device_name()
    out = dict(device=name, torch=torch.__version__, size=args.size, pages=args.pages, half=compare(half, args.new),
               exact=compare(exact, args.new))
    if args.json: print(json.dumps(out, indent=1))
    else:
        for r in (*out['half'], *out['exact']): print('  '.join(f'{k}={v}' for k, v in r.items()))


if __name__ == '__main__': main()
