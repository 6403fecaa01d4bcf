# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.minds.client import PrintClient as PrintClient

FACE: dict[str, str]
__all__ = [
    "PrintClient"
]
