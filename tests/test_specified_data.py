"""Configuration, data sets and metrics as they are specified, seen by a user; tests are named by the item they hold."""
from itertools import count

import pytest
from PIL import Image

from cosee.board import Board
from cosee.eval.methods import METHODS, Method, make_method, method_settings
from cosee.models.client import prompt_text
from cosee.models.testing import ScriptedClient
from cosee.runs.config import make_config
from cosee.utils.config import ConfigError

PAGES = [Image.new("RGB", (64, 64), "white")] * 2
SAMPLE = dict(images=PAGES, question="How much?", answer="3.4", meta={})
LIMITS = dict(max_cells_per_page=3, max_total_chars=90)
GATES = [m for m in METHODS if METHODS[m].settings.get("doubted", "team") == "team" and "team" in method_settings(m)]
TEAMS = [m for m in METHODS if "agents" in method_settings(m) and m != "chat"]
LATER = pytest.mark.xfail(strict=True, raises=ConfigError, reason="has no such settings yet")


# --- A45: what the Board shows ---

def with_limits(name, **limits):
    "An entry of a configuration: a gate hands the limits to the team behind it"
    if name in GATES: return dict(type=name, team=dict(type="weighted", **limits))
    return dict(type=name, **limits)


def teammates():
    "Unsure answers to plain calls, another one each time, and notes of a team"
    answers = count(3)
    def reply(messages):
        text = prompt_text(messages)
        if "HYPOTHESIZE" not in text and "INSPECT" not in text:
            return f"Page: 1\nConfidence: 0.1\nAnswer: {next(answers)}.4"
        if "INSPECT" not in text:
            return dict(action="HYPOTHESIZE", view=dict(page=1), content="There.", answer="3.4", confidence=.2)
        return dict(action="INSPECT", view=dict(page=1), content="A heading in bold " * 4, tags=[])
    return ScriptedClient([reply], cycle=True)


@pytest.mark.parametrize("name", [pytest.param(m, marks=LATER) if m in ("cosee_tools", "gated") else m
                                  for m in (*TEAMS, *GATES)])
def test_a45_limits_of_the_board_reach_every_method_that_has_one(name, monkeypatch):
    config = make_config(dict(methods=[with_limits(name, **LIMITS)]))
    shown, view = [], Board.view
    def watched(board, *args, **kwargs):
        found = view(board, *args, **kwargs)
        if found.text: shown.append((kwargs, found.text))
        return found
    monkeypatch.setattr(Board, "view", watched)
    client = teammates()
    make_method(config.methods[0]).run(SAMPLE, client)
    prompts = [prompt_text(c["messages"]) for c in client.calls]
    assert shown and all(limits == LIMITS and len(text) <= 90 for limits, text in shown)
    assert all(any(text in prompt for prompt in prompts) for _, text in shown)


@pytest.mark.parametrize("name", [m for m in (*TEAMS, *GATES) if m not in ("cosee_tools", "gated")])
@pytest.mark.parametrize("limit", LIMITS)
def test_a45_a_limit_that_shows_nothing_is_refused(name, limit):
    with pytest.raises(ConfigError, match=rf"methods\.0\..*{limit} of method .*at least 1, not 0"):
        make_config(dict(methods=[with_limits(name, **{limit: 0})]))
