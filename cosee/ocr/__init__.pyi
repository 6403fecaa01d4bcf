# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.ocr.client import OcrClient as OcrClient
from cosee.ocr.reader import Reader as Reader
from cosee.ocr.engine import WordReader as WordReader
from cosee.ocr.print import PageCache as PageCache
from cosee.ocr.embeddings import SentenceEncoder as SentenceEncoder

FACE: dict[str, str]
__all__ = [
    "OcrClient", "PageCache", "Reader", "SentenceEncoder", "WordReader"
]
