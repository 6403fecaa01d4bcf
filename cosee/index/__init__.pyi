# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.index.pages import PageIndex as PageIndex

FACE: dict[str, str]
__all__ = [
    "PageIndex"
]
