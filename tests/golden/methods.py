"""One question answered by every method: what its client was asked, and what came of it.

    python tests/golden/methods.py            compare with methods.jsonl
    python tests/golden/methods.py --write    write it anew, after a change that is meant

The client answers from a list, and reads pages whose text is typed. A line holds the method, the replies it was given,
a hash of the texts of each call, and answer, page, confidence, ending and tokens of the outcome.
"""
import argparse
import hashlib
import json
import sys
from pathlib import Path

from PIL import Image


from cosee.agents import DIRECT_TOKENS
from cosee.budgets import DIRECT, Task
from cosee.policies import make_method
from cosee.models.usage import Ledger
from cosee.models.client import message_blocks
from cosee.models.testing import ScriptedClient
from cosee.text.layout import typed_page
from cosee.text.ocr import TextExtractor

FILE = Path(__file__).with_name("methods.jsonl")
TYPED = {100: "CORNER SHOP LTD\nBread      2     3.40\nTOTAL            8.00\nPAID            10.00",
         200: "Thank you, and come back on 12 May 2021."}
METHODS = ("direct", "cot", "self_consistency", "chat", "cosee_base", "cosee_light", "cosee_expanded", "single_board",
           "cosee_tools", "blind", "require_evidence", "min_confidence", "self_check", "rules_first",
           "rules_first_self_check", "escalate", "cosee_pages", "cosee_plan",
           dict(name="parallel", type="cosee", order="parallel"))
PLAIN = {"right": "Page: 1\nConfidence: 0.9\nAnswer: 8.00", "unsure": "Page: 1\nConfidence: 0.3\nAnswer: 8.00",
         "wrong": "Page: 1\nConfidence: 0.9\nAnswer: 99.10", "none": "Answer: not answerable"}
QUESTIONS = ("How much is the total?", "What was charged for delivery?")


class Typed(TextExtractor):
    "Knows a page by the width of its picture"
    def read(self, items, text_source=None): return [typed_page(TYPED[im.width]) for im in items]


def turn(answer): return json.dumps(dict(action="HYPOTHESIZE", view=dict(page=1), content="As printed.", answer=answer,
                                         supporting_cells=[], confidence=.8))


LOOKS = json.dumps(dict(action="INSPECT", view=dict(page=1), content="A receipt.", tags=[]))   # says nothing


def asked(method, told, question, calls=None):
    "One line: a method on one question, on a budget of so many plain calls; a team that is `silent` proposes nothing"
    plain = PLAIN["right" if told == "silent" else told]
    action = LOOKS if told == "silent" else turn(plain.rpartition(": ")[2])
    check = "right" if told in ("right", "silent") else "missing"
    client = ScriptedClient({"JSON": [action], "right or missing": [check], question: [plain]}, cycle=True)
    client.words = Typed(cache=None)
    pages, method = [Image.new("RGB", (w, 150), "white") for w in TYPED], make_method(method)
    ledger = Ledger(calls and int(calls * Task(pages, question, client).price(DIRECT, DIRECT_TOKENS)))
    out = method.run(dict(images=pages, question=question), client, ledger, seed=3)
    sent = ["\n".join(message_blocks(c["messages"], "text")) for c in client.calls]
    return dict(method=method.name, told=told, question=question, **({"calls": calls} if calls else {}),
                answer=out["answer"], page=out["page"], confidence=out["confidence"], stopped=out["stopped"],
                tokens=out["usage"]["text_tokens"], sent=[hashlib.sha256(t.encode()).hexdigest()[:12] for t in sent])


def lines():
    "All lines, in order"
    return [*(asked(m, told, q) for m in METHODS for told in PLAIN for q in QUESTIONS),
            *(asked(m, "silent", QUESTIONS[0]) for m in METHODS),
            *(asked(m, told, QUESTIONS[0], n) for m in METHODS for told in ("right", "silent") for n in (1, 3))]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--write", action="store_true", help="write the file anew")
    args, found = p.parse_args(), [json.dumps(line) for line in lines()]
    if args.write: return FILE.write_text("\n".join(found) + "\n")
    known = FILE.read_text().splitlines()
    for old, new in zip(known, found, strict=True):
        if old != new: print(f"- {old}\n+ {new}")
    sys.exit(known != found)


if __name__ == "__main__": main()
