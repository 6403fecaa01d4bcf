#!/usr/bin/env bash
# What a GPU has to say about CoSee, within ten minutes: the tests that need one, then an episode about twelve pages by
# plain transformers, in turn and in parallel, and by vLLM where VLLM names the interpreter of an environment with it.
#   make setup && bash benchmarks/gpu.sh results        # then look at results/gpu.json and results/tests.txt
set -u
cd "$(dirname "$0")/.."
out=${1:-gpu_results}
python=${PYTHON:-.venv/bin/python}
mkdir -p "$out"
timeout 200 "$python" -m pytest -m gpu -q --tb=short -n 0 > "$out/tests.txt" 2>&1
tail -n 3 "$out/tests.txt"
timeout 380 "$python" benchmarks/gpu.py --json ${VLLM:+--vllm "$VLLM"} ${GPU_ARGS:-} > "$out/gpu.json" || exit 1
"$python" -c 'import json, sys
for r in json.load(open(sys.argv[1]))["half"]: print("  ".join(f"{k}={v}" for k, v in r.items()))' "$out/gpu.json"
