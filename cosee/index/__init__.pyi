# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.index.pages import PageIndex as PageIndex
from cosee.index.visual import VisualEncoder as VisualEncoder

FACE: dict[str, str]
__all__ = [
    "PageIndex", "VisualEncoder"
]
