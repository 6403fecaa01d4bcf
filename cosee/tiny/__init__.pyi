# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.tiny.tokens import tiny_model as tiny_model
from cosee.tiny.tokens import tiny_tokenizer as tiny_tokenizer
from cosee.tiny.train import train as train
from cosee.tiny.evaluate import evaluate as evaluate
from cosee.tiny.evaluate import model_card as model_card
from cosee.tiny.evaluate import summary as summary

FACE: dict[str, str]
__all__ = [
    "evaluate", "model_card", "summary", "tiny_model", "tiny_tokenizer", "train"
]
