"""Does iterating a split need memory for its length? Peak memory at 1,000 and at 10,000 samples, each in a process of
its own."""
import argparse, json, subprocess, sys, tempfile
from pathlib import Path

CHILD = '''
import resource, sys
from cosee.datasets.registry import load
n = sum(len(s['images'][0].tobytes()) > 0 for s in load('mpdocvqa', 'val', root=sys.argv[1]))
print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
'''


def make(root: Path, samples: int):
    "A split in the challenge's layout: every question has a document of two pages."
    from PIL import Image
    (root / 'images').mkdir(parents=True)
    Image.new('RGB', (620, 877), 'white').save(root / 'images/d_p0.jpg')
    Image.new('RGB', (620, 877), 'grey').save(root / 'images/d_p1.jpg')
    with (root / 'val.json').open('w') as f:
        f.write('{"dataset_name": "made", "data": [')
        for i in range(samples):
            rec = dict(questionId=i, question=f'What is number {i} of the list on the second page?', doc_id='d',
                       page_ids=['d_p0', 'd_p1'], answers=[str(i), f'{i}.'], answer_page_idx=1)
            f.write((',' if i else '') + json.dumps(rec))
        f.write(']}')


def measure(samples: int) -> dict:
    with tempfile.TemporaryDirectory() as d:
        make(Path(d) / 'mp', samples)
        out = subprocess.run([sys.executable, '-c', CHILD, str(Path(d) / 'mp')], capture_output=True, text=True,
                             check=True).stdout.split()
    assert int(out[0]) == samples
    return dict(samples=samples, peak_mb=round(int(out[1]) / 1024, 1))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument('--json', action='store_true', help='one JSON object a line')
    args.add_argument('--samples', type=int, nargs='+', default=[1000, 10000])
    opt = args.parse_args()
    rows = [measure(n) for n in opt.samples]
    for r in rows: r['ratio'] = round(r['peak_mb'] / rows[0]['peak_mb'], 3)
    for r in rows:
        print(json.dumps(r) if opt.json else f"{r['samples']:>7,} samples: {r['peak_mb']} MB, {r['ratio']} of the "
                                             "first")


if __name__ == '__main__': main()
