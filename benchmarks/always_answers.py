"""What becomes of every method on a budget of one to nine plain calls: no silence, no budget overdrawn.

    python benchmarks/always_answers.py --out benchmarks/results/always_answers.json

Each method answers packaged questions with a client that replies from a script, counts by a real tokenizer and cuts
what is longer than it may be. The script has four moods: agents who propose, who only look,
who call a tool each time, and a model that talks. Shares are those of episodes: a second agent had a turn, a reply had
less room than its settings ask for, an agent was left out, the question alone was asked in the end.
"""
import argparse
import json
from collections import defaultdict
from functools import cache
from importlib.resources import files
from pathlib import Path

from cosee import samples_dir
from cosee.agents import DIRECT_TOKENS
from cosee.budgets import DIRECT, NOT_ASKED, Task
from cosee.models.client import Reply, message_blocks, prompt_text
from cosee.models.testing import ScriptedClient
from cosee.models.usage import Ledger, Usage, image_tokens
from cosee.pages import load_pages
from cosee.policies import METHODS, make_method
from tokenizers import BertWordPieceTokenizer, Tokenizer
from tqdm import tqdm

NAMED = [*(name for name in METHODS if name != "screen"), dict(name="parallel", type="cosee", order="parallel")]
BUDGETS = 1, 1.5, 2, 3, 9   # plain calls
LOOKS = dict(action="INSPECT", view=dict(page=1), content="Table of the items, with a row for each of them.", tags=[])
FINDS = dict(action="HYPOTHESIZE", view=dict(page=1), content="Row Total.", answer="12", supporting_cells=[],
             confidence=.97)
TALKS = "Let me see. " * 40   # no action, and longer than any reply may be
CALLS = dict(tool="ocr", args=dict(page=1))   # a tool each time, and what it finds makes the next call dearer


@cache
def tokenizer(kind):
    if kind == "tiny": return Tokenizer.from_file(str(files("cosee") / "data/tiny/tokenizer.json"))
    return BertWordPieceTokenizer(str(files("cosee") / "data/wordpiece.txt"))


class Counted(ScriptedClient):
    "Replies from a script, counted and cut by a real tokenizer."
    def __init__(self, kind, action, plain="Answer: 12"):
        written = action if isinstance(action, str) else json.dumps(action)
        super().__init__({"JSON": [written], "right or missing": ["right"], "": [plain]}, cycle=True)
        self.tokens = tokenizer(kind)

    def count(self, messages, estimated=False, written=0):
        images = sum(image_tokens(*im.size) for im in message_blocks(messages, "image"))
        text = len(self.tokens.encode(prompt_text(messages)).ids)
        return Usage(text_tokens=text, image_tokens=images, completion_tokens=written, estimated=estimated)

    def estimate(self, request): return self.count(self.render(request).messages, estimated=True)

    def send(self, messages, schema=None, **settings):
        reply, most = super().send(messages, schema, **settings), settings["max_new_tokens"]
        written = len(self.tokens.encode(reply.text).ids)
        text = reply.text if written <= most else reply.text[:most]
        return Reply(text=text, usage=self.count(messages, written=min(most, written)),
                     finish_reason="length" if written > most else "stop")


@cache
def questions():
    "Questions about the packaged documents: of one page, of several, and one without an answer."
    lines = [json.loads(line) for line in (samples_dir() / "questions.jsonl").read_text().splitlines()]
    some = [next(q for q in lines if q["file"] == name) for name in ("invoice.pdf", "report.pdf", "slides.pdf")]
    return [dict(images=load_pages(samples_dir() / q["file"]), question=q["question"], answer=q["answer"], meta={})
            for q in some]


def answer(method, sample, client, calls):
    "One question on a budget of so many plain calls, about the pages that the method looks at: outcome and ledger."
    looks = {k: v for k, v in method.settings.items() if k in ("focus", "k")}
    task = Task(list(sample["images"]), sample["question"], client).look(**looks)
    ledger = Ledger(int(calls * task.price(DIRECT, DIRECT_TOKENS)))
    return method.run(sample, client, ledger, seed=3), ledger


def describe(out, ledger):
    "What is counted of an episode."
    events = out["trace"].get("events") or []
    speakers = {c["agent"] for c in out["trace"].get("calls", [])} - {"fallback"}
    return dict(silent=not out["answer"] and not out["stopped"].startswith(NOT_ASKED),
                not_asked=out["stopped"].startswith(NOT_ASKED), overdrawn=ledger.spent > ledger.max_tokens,
                second_agent=len({e["agent"] for e in events} or speakers) > 1,
                shortened=any(e.get("shortened") for e in events), left_out=bool(out["trace"].get("left_out")),
                fallback=bool(out["trace"].get("fallback")), spent=ledger.spent / ledger.max_tokens)


def main():
    methods = {method.name: method for method in map(make_method, NAMED)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=float, nargs="+", default=BUDGETS, help="budgets, in plain calls")
    parser.add_argument("--methods", nargs="+", choices=methods, default=list(methods), help="as they are called")
    parser.add_argument("--out", type=Path, help="write the rows to this file")
    args, rows = parser.parse_args(), []
    for calls in tqdm(args.calls, "budgets"):
        for method in (methods[name] for name in args.methods):
            found = defaultdict(list)
            for kind in ("tiny", "words"):
                for action in (LOOKS, FINDS, TALKS, CALLS):
                    for sample in questions():
                        counted = describe(*answer(method, sample, Counted(kind, action), calls))
                        for name, value in counted.items(): found[name].append(value)
            means = {name: round(sum(values) / len(values), 3) for name, values in found.items()}
            rows.append(dict(method=method.name, calls=calls, episodes=len(found["silent"]), **means))
    if args.out: args.out.write_text(json.dumps(rows, indent=1) + "\n")
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows: print("| " + " | ".join(map(str, row.values())) + " |")


if __name__ == "__main__": main()
