"""What the scripts share: methods of a configuration are run on its data set, and `--help` says what that is."""
from collections.abc import Sequence
from pathlib import Path

from cosee.cli.start import main

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
DATA_SETS = {
    "mpdocvqa": "MP-DocVQA as its owners give it: train.json, val.json, test.json and images/ of the challenge, or\n"
                "  the parquet files of the Hugging Face hub (val, test). Its score is ANLS.",
    "slidevqa": "SlideVQA as its authors give it: annotations/ and images/ (train, dev, test), or the parquet files\n"
                "  of the Hugging Face hub. Its scores are exact match and F1.",
}


def run_methods(doc: str, data_set: str, methods: str, argv: Sequence[str]) -> int:
    """Run methods on a data set, and give the exit code.

    `doc` is what `--help` says in front of the options, `methods` what is run where `argv` names no other."""
    if {"-h", "--help"} & set(argv):
        print(f"{doc.strip()}\n\nmethods, where --method names no other:\n  {methods}\n\n"
              f"what --root has to hold (nothing is downloaded):\n  {DATA_SETS[data_set]}\n")
        return main(["run", "--help"])
    named = any(a.startswith("--method") for a in argv)
    return main(["run", str(CONFIGS / f"{data_set}.yaml"), *([] if named else ["--method", methods]), *argv])
