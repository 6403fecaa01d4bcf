# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.datasets.core import as_torch as as_torch
from cosee.datasets.core import load as load
from cosee.datasets.core import register as register
from cosee.datasets.sample import Sample as Sample
from cosee.datasets.sample import Split as Split
from cosee.datasets.sample import set_root as set_root
from cosee.datasets.sample import subset as subset
from cosee.datasets.checks import DataError as DataError
from cosee.datasets.own import Folder as Folder
from cosee.datasets.own import from_jsonl as from_jsonl
from cosee.datasets.own import to_jsonl as to_jsonl
from cosee.datasets.mpdocvqa import load_mpdocvqa_split as load_mpdocvqa_split
from cosee.datasets.slidevqa import load_slidevqa_split as load_slidevqa_split
from cosee.datasets.submissions import check_predictions as check_predictions
from cosee.datasets.submissions import write_submission as write_submission
from cosee.datasets.writers import write_layout as write_layout
from cosee.datasets.made.document import make_document as make_document
from cosee.datasets.made.document import make_samples as make_samples
from cosee.datasets.made.document import render as render
from cosee.datasets.made.document import samples_dir as samples_dir
from cosee.datasets.made.document import scan as scan
from cosee.datasets.made.small import small_document as small_document
from cosee.datasets.made.small import small_samples as small_samples

FACE: dict[str, str]
__all__ = [
    "DataError", "Folder", "Sample", "Split", "as_torch", "check_predictions", "from_jsonl", "load",
    "load_mpdocvqa_split", "load_slidevqa_split", "make_document", "make_samples", "register", "render",
    "samples_dir", "scan", "set_root", "small_document", "small_samples", "subset", "to_jsonl",
    "write_layout", "write_submission"
]
