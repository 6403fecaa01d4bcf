# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.app.server import app_of as app_of

FACE: dict[str, str]
__all__ = [
    "app_of"
]
