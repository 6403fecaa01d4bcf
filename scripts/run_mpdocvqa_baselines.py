"""The rivals of the teams on MP-DocVQA: `cosee run configs/mpdocvqa.yaml` with these methods, and what else is given.

  python scripts/run_mpdocvqa_baselines.py --root ~/data/mpdocvqa --model-path ~/models/Qwen3-VL-4B-Instruct

`--help` names the other arguments: split, number of questions, steps, agents, budget, workers, folder of the run.
"""
import sys
from pathlib import Path

from cosee.cli.start import main

CONFIG = Path(__file__).resolve().parent.parent / "configs/mpdocvqa.yaml"
METHODS = "direct,cot,self_consistency,chat,single_board"

if __name__ == "__main__":
    methods = [] if any(a.startswith("--method") for a in sys.argv) else ["--method", METHODS]
    sys.exit(main(["run", str(CONFIG), *methods, *sys.argv[1:]]))
