# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.cli.start import main as main

FACE: dict[str, str]
__all__ = [
    "main"
]
