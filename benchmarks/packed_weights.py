"""What a token costs: products of one to four rows with large matrices, against reading as many bytes.

    python benchmarks/packed_weights.py                                              # a table
    python benchmarks/packed_weights.py --json > benchmarks/results/packed_weights.jsonl

Each line is a process of its own on one thread, with memory in huge pages or without: the least CPU milliseconds of a
plain read (a sum of 8-byte numbers), of PyTorch's own product in bfloat16, of the product with packed weights that
local models take, and of PyTorch's product with weights of 8 bits (`_weight_int8pack_mm`, whose bytes are half).
The matrices: the output layer of a model with 151,936 words, and eight layers as wide as those of Qwen3-VL-2B.
`to_read` is the time of the packed product divided by that of the read.
"""
import argparse, json, os, subprocess, sys, time

SHAPES = {'output layer': (151_936, 2048), 'eight layers': (8 * 6144, 2048)}


def least(way, repeat):
    "The least CPU milliseconds that a way takes"
    way()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        way()
        times.append(time.process_time() - start)
    return round(1000 * min(times), 2)


def measure(name, repeat):
    "The figures of one matrix, by rows"
    import torch
    from torch.nn import functional as F
    from cosee.models import fast_layers
    from processor import machine
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if not fast_layers._packs(): raise SystemExit('this processor has no instructions for bfloat16')
    outs, ins = SHAPES[name]
    weight = torch.randn(outs, ins, dtype=torch.bfloat16)
    numbers, packed = weight.view(torch.int64), fast_layers._pack(weight)
    small, scale = torch.randint(-127, 127, (outs, ins), dtype=torch.int8), torch.rand(outs).to(torch.bfloat16)
    read = least(lambda: numbers.sum(), repeat)
    for rows in (1, 2, 3, 4, 17):
        x = torch.randn(rows, ins, dtype=torch.bfloat16)
        ours = least(lambda x=x: fast_layers._multiply_packed(x, packed), repeat)
        yield dict(matrix=name, huge_pages=os.environ['THP_MEM_ALLOC_ENABLE'] == '1', rows=rows, read_ms=read,
                   plain_ms=least(lambda x=x: F.linear(x, weight), repeat), packed_ms=ours,
                   int8_ms=least(lambda x=x: torch._weight_int8pack_mm(x, small, scale), repeat),
                   to_read=round(ours / read, 2), machine=machine())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--json', action='store_true', help='one JSON object a line')
    p.add_argument('--repeat', type=int, default=15, help='of which the least counts')
    p.add_argument('--child', help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.child:
        for line in measure(args.child, args.repeat): print(json.dumps(line), flush=True)
        return
    for name in SHAPES:
        for huge in '01':
            done = subprocess.run([sys.executable, __file__, '--child', name, '--repeat', str(args.repeat)],
                                  capture_output=True, text=True, env=os.environ | {'THP_MEM_ALLOC_ENABLE': huge})
            if done.returncode: raise SystemExit(done.stderr[-2000:])
            for line in map(json.loads, done.stdout.splitlines()):
                said = json.dumps(line) if args.json else '  '.join(f'{k}={v}' for k, v in line.items())
                print(said, flush=True)


if __name__ == '__main__': main()
