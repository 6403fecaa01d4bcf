"""What run.yaml names besides the methods of the package: a metric, a prompt, a tool, two methods and a model."""
import re

from cosee.controller import CoSeeController
from cosee.policies import register_method
from cosee.eval.registry import answer_text, gold_texts, scorer
from cosee.policies import build_team
from cosee.utils.json_scan import read_answer
from cosee.models.client import Reply, VLMClient, content_blocks
from cosee.models.registry import register_client
from cosee.text.ocr import TextExtractor
from cosee.text.values import to_number
from cosee.tools import Tool, with_tools

PROMPT = "Answer with the value alone, as it is printed. Say 'not answerable' where no page answers the question."


@scorer("amount", "mine")
def amount(pred, gold, **context):
    "1 where the amounts are equal, whatever the currency and the marks between thousands; else the texts decide."
    said, golds = answer_text(pred), gold_texts(gold)
    numbers = {to_number(g) for g in golds} - {None}
    return float(to_number(said) in numbers if numbers else said.casefold() in map(str.casefold, golds))


class WithTax(Tool):
    "Adds tax: `execute` gets what the model wrote, and what it returns is shown to the model."
    name = "with_tax"
    description = "with_tax. Args: amount (str), percent (str). The amount with so many percent on top"

    def execute(self, *, amount: str, percent: str) -> str:
        return f"{(to_number(amount) or 0) * (1 + (to_number(percent) or 0) / 100):.2f}"


@register_method("short_answer")
def short_answer(task, max_new_tokens=48):
    "One call with a prompt of one's own."
    return task.outcome(**read_answer(task.ask(PROMPT, max_new_tokens=max_new_tokens)[0].text))


@register_method("tax_team")
def tax_team(task, agents=("scanner", "detail_reader"), max_steps=1):
    "A team whose agents may call a tool of one's own besides the usual ones."
    crew = with_tools(build_team(task.client, agents), tools=["zoom", "ocr", WithTax()])
    return CoSeeController(crew, max_steps).run(task.images, task.question, ledger=task.ledger)


@register_client("largest_amount", "answers with the largest amount on the pages")
class LargestAmount(VLMClient):
    "A model is whatever answers messages; this one reads the text of the page and knows one answer."
    name = "largest_amount"

    def __init__(self):
        super().__init__()
        self.words = TextExtractor()

    def send(self, messages, schema=None, **params):
        blocks = [block for message in messages for block in content_blocks(message)]
        shown = [block["image"] for block in blocks if block["type"] == "image"]
        text = " ".join(line["text"] for page in self.words.read(shown) for line in page["lines"])
        found = re.findall(r"\d[\d,.]*\.\d\d(?: [A-Z]{3})?", text)
        return Reply(text=max(found, key=lambda text: to_number(text) or 0, default="not answerable"))
