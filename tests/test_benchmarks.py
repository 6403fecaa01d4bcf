"""Every benchmark runs, at its smallest size: what nobody runs breaks when the house around it moves."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
SMALLEST = {
    'scoring': '--json --pairs 3000 --part 300 --repeat 1',
    'runner': '--json --episodes 3 --records 60',
    'together': '--json --questions 2 --per-doc 2 --runs 1 --work self_consistency',
    'grammar': f'--json --runs 20 --tokenizer {ROOT}/cosee/data/tiny',
    'image_quality': '--pages 1',
    'screens': '--json --samples 24 --repeat 1',
    'ocr_reader': '--docs 1 --kinds invoice',
    'episode': '--json --size test --pages 1 --work episode --ways turns --new 8 --plain-calls 1',
    'gpu': '--json --size test --device cpu --pages 1 --new 4',
    'lookup': '--json --questions 1 --methods single_board --repeat 1 --new 2',
    'ocr_speed': '--pages 1',
    'text_layer': f'--json {ROOT}/cosee/samples --most 1',
    'long_documents': '--json --pages 5 --scanned --ocr',
    'focus_budget': '--json --pages 14 --documents 1 --questions 1',
    'setup_cost': '--help',   # needs a package index, and minutes
    'own_documents': '--list --json',   # the documents themselves are fetched on request
    'real_documents': '--help',   # nor are these
    'fields': '--help',   # nor these
    'office': f'--table {ROOT}/benchmarks/results/office.json',
    'sandbox': '--repeats 1',
    'mutated': '--documents 30',
    'snapped_boxes': '--json --made 1',
    'calibrate_print': '--help',   # needs weights
    'calibrate_check': f'--rows {ROOT}/benchmarks/results/calibrate_check.json',
    'role_examples': '--help',   # needs weights
    'visual_index': '--json --pages 3 --repeat 1 --lengths 729',
    'packed_weights': '--help',   # a gigabyte, and not on every processor
    'page_index': '--help',   # its documents are not ours to keep here
    'calibrate_reader': '--help',   # a minute of OCR at its smallest
    'always_answers': '--methods cosee_base --calls 1',
    'silence': '',
    'question_path': '--methods direct --functions',
    'team_cost': f'--before {ROOT} --questions 2 --rounds 1 --methods team@3 --out {os.devnull}',
}


def test_each_has_a_size():
    assert {*SMALLEST, 'processor'} == {p.stem for p in (ROOT / 'benchmarks').glob('*.py')}


@pytest.mark.parametrize('name', SMALLEST)
def test_runs(name, tmp_path):
    env = {**os.environ, 'OMP_NUM_THREADS': '1', 'COSEE_CACHE': 'off', 'TQDM_DISABLE': '1', 'PYTHONPATH': str(ROOT)}
    run = subprocess.run([sys.executable, ROOT / f'benchmarks/{name}.py', *SMALLEST[name].split()],
                         capture_output=True, text=True, cwd=tmp_path, env=env)
    assert run.returncode == 0, run.stderr[-2000:]
    out = run.stdout.strip()
    if '--json' in SMALLEST[name]: json.loads(out.splitlines()[-1] if '\n{' in out else out)
    else: assert out
    assert not list(tmp_path.iterdir())
