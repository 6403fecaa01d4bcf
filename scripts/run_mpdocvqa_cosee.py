"""CoSee's teams on MP-DocVQA: `cosee run configs/mpdocvqa.yaml` with these methods, and its options.

example:
  python scripts/run_mpdocvqa_cosee.py --root ~/data/mpdocvqa --split val --limit 20 \\
      --model-path ~/models/Qwen3-VL-4B-Instruct

Each answer is kept with its trace and Board as a line of records.jsonl in the folder of the run (--output-dir), and
the same command goes on with it. The table at the end has the mean of each metric, counted as `aggregate_metrics`
counts it, but that a right "not answerable" is right, and a question that failed is wrong.
The other script of this data set is run_mpdocvqa_baselines.py.
"""
import sys

from methods import run_methods

if __name__ == "__main__":
    sys.exit(run_methods(__doc__, "mpdocvqa", "cosee_light,cosee_base,cosee_expanded,escalate", sys.argv[1:]))
