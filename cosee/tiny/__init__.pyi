# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.tiny.tokens import tiny_model as tiny_model
from cosee.tiny.tokens import tiny_tokenizer as tiny_tokenizer
from cosee.tiny.training import train as train
from cosee.tiny.evaluation import evaluate as evaluate
from cosee.tiny.evaluation import model_card as model_card
from cosee.tiny.evaluation import summary as summary

FACE: dict[str, str]
__all__ = [
    "evaluate", "model_card", "summary", "tiny_model", "tiny_tokenizer", "train"
]
