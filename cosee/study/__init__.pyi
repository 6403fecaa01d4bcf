# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.study.tables import Study as Study

FACE: dict[str, str]
__all__ = [
    "Study"
]
