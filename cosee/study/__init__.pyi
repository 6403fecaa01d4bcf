# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.study.answers import read_answers as read_answers

FACE: dict[str, str]
__all__ = [
    "read_answers"
]
