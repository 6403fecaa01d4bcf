"A client of tests that waits until it may answer."
import threading

from cosee.models.client import ask_many
from cosee.models.wrappers import ClientWrapper
from cosee.models.reader_client import OcrClient


class Gated(ClientWrapper):
    "A client that answers once the gate is open."
    def __init__(self, seconds):
        super().__init__(OcrClient())
        self.gate, self.asked, self.seconds = threading.Event(), threading.Event(), seconds

    def _respond_many(self, requests):
        self.asked.set()
        assert self.gate.wait(self.seconds)
        return ask_many(self.client, requests)
