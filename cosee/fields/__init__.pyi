# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.fields.episode import Extraction as Extraction
from cosee.fields.episode import extract as extract
from cosee.fields.schema import read_schema as read_schema

FACE: dict[str, str]
__all__ = [
    "Extraction", "extract", "read_schema"
]
