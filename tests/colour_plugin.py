"A client for tests of many documents: the number that it reads is the colour of a page; no text is read."
from cosee.models.client import Reply, VLMClient
from cosee.models.usage import Usage
from cosee.models.registry import register_client
from cosee.text.ocr import TextExtractor


def colour_of(number): return number % 256, number // 256, 7


@register_client("colour")
class Colour(VLMClient):
    name, constrains = "colour", True

    def __init__(self):
        super().__init__()
        self.words = TextExtractor(text_source="text")

    def send(self, messages, schema=None, seed=None, **params):
        block = next(b for m in messages for b in m["content"] if b.get("type") == "image")
        red, green, _ = block["image"].convert("RGB").getpixel((5, 5))
        said = f'{{"number": {{"answer": "{red + 256 * green}", "page": 1}}}}'
        return Reply(said, usage=Usage(text_tokens=20, image_tokens=4, completion_tokens=9))
