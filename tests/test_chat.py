"""A conversation without a Board: what an agent does not say, nobody hears; what it was asked only grows; the account
stays as it is."""
import random

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from cosee.agents import DetailReaderAgent, ScannerAgent
from cosee.chat import memories, open_and_hidden
from cosee.eval.baselines import multi_agent_chat_no_board
from cosee.policies import Method
from cosee.runs.log import without_times
from cosee.models.client import message_blocks
from cosee.models.usage import Ledger
from cosee.models.testing import ScriptedClient

PAGE = Image.new("RGB", (620, 877), "white")
SAMPLE = {"images": [PAGE], "question": "What is the total?", "meta": {"id": "q"}}
def prompts(client): return [message_blocks(c["messages"], "text")[-1] for c in client.calls]


def past(prompt):
    "The conversation in a prompt"
    head, _, tail = prompt.partition("\nYou are ")
    return head.removeprefix("Conversation so far:\n") if tail else ""


def secretive(rng, turn):
    "A reply with something to hide in it, and the hidden words"
    secret, other = f"secret{turn}a", f"secret{turn}b"
    note = rng.choice(["Private: {}", "**Private:** {}", "- private: {}", "  PRIVATE:{}", "> Private : {}"]).format(
        secret)
    lines = ["Page 1 has a table.", "I agree.", f"Answer: {turn}"]
    lines.insert(rng.randint(0, 3), note)
    think = rng.choice(["<think>{}</think>", "<think>\n{}\n\n</think>\n", "{}</think>",
                        "<think><think>{}</think></think>"]).format(other)
    return think + "\n".join(lines), {secret, other}


@pytest.mark.parametrize("seed", range(12))
def test_what_an_agent_does_not_say_is_in_no_prompt_of_another(seed):
    rng = random.Random(seed)
    replies = [secretive(rng, f"t{i:02}x") for i in range(9)]
    client = ScriptedClient([r for r, _ in replies])
    out = Method("chat", thoughts=True).run(SAMPLE, client)
    asked = prompts(client)
    assert len(asked) == 9
    for i, (_, hidden) in enumerate(replies):
        note, reasoning = sorted(hidden)
        for k, prompt in enumerate(asked):
            assert reasoning not in prompt
            assert (note in prompt) == (k > i and k % 3 == i % 3), "only its author reads a note again"
            assert (f"Answer: t{i:02}x" in past(prompt)) == (k > i), "what is said is heard by all"
    for a, (_, memory) in enumerate(memories(out["trace"])):
        mine = {w for i, (_, hidden) in enumerate(replies) if i % 3 == a for w in hidden}
        others = {w for _, hidden in replies for w in hidden} - mine
        assert all(w in memory.text() for w in mine) and not any(w in memory.text() for w in others)
        assert not any(w in memory.view(exclude_tags=["private", "debug"]).text() for w in mine)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(st.text(st.sampled_from("ab:\n\r\u2028 <>/thinkPrivatedbug"), max_size=60) | st.text(max_size=60),
                min_size=6, max_size=6), st.booleans())
def test_an_agents_past_only_grows_whatever_is_said(replies, thoughts):
    client = ScriptedClient([r + "\nAnswer: 1" for r in replies])
    Method("chat", agents=("scanner", "detail_reader"), thoughts=thoughts).run(SAMPLE, client)
    for a in range(2):
        mine = [past(p) for p in prompts(client)[a::2]]
        assert all(after.startswith(before) for before, after in zip(mine, mine[1:], strict=False))
        assert all(line.startswith(("scanner", "detail_reader")) for p in mine for line in p.splitlines())


@settings(max_examples=200)
@given(st.text(st.sampled_from("Private:\n* <think/>ab"), max_size=80) | st.text(max_size=80), st.booleans())
def test_a_reply_is_taken_apart_without_an_accident(text, thoughts):
    said, notes, reasoning = open_and_hidden(text, thoughts)
    assert "<think>" not in said and "</think>" not in said
    if "think>" not in text and not thoughts: assert (said, notes, reasoning) == (text.strip(), "", "")


def test_without_hidden_words_notes_only_change_what_is_asked():
    replies = [f"Page 1 has it.\nAnswer: {n}" for n in range(9)]
    one, two = (ScriptedClient(list(replies)) for _ in range(2))
    plain, noted = Method("chat").run(SAMPLE, one), Method("chat", thoughts=True).run(SAMPLE, two)
    assert plain["answer"] == noted["answer"] and list(map(past, prompts(one))) == list(map(past, prompts(two)))
    assert all('"Private:"' in p for p in prompts(two)) and not any("Private" in p for p in prompts(one))


def test_every_call_is_on_the_account_of_who_made_it():
    ledger, client = Ledger(), ScriptedClient([f"Answer: {n}" for n in range(6)])
    out = Method("chat", max_turns=2).run(SAMPLE, client, ledger)
    assert len(ledger) == len(client.calls) == 6 and out["usage"]["total_tokens"] == ledger.spent
    assert {a: u.calls for a, u in ledger.by("agent").items()} == dict(scanner=2, detail_reader=2, cross_checker=2)
    assert [(c["agent"], c["step"]) for c in out["trace"]["calls"]] == [
        (a, s) for s in (1, 2) for a in ("scanner", "detail_reader", "cross_checker")]
    assert [c["prompt"][-1] for c in out["trace"]["calls"]] == prompts(client)


@pytest.mark.parametrize("name", ["private", "debug", "model", "heard", "scanner"])
def test_an_agents_name_decides_nothing_about_what_is_heard(name):
    client = ScriptedClient(["It is 5.\nAnswer: 5", "No, 6.\nAnswer: 6"], cycle=True)
    agents = ["detail_reader", dict(name=name, duty="Look.")]
    Method("chat", agents=agents, max_turns=2).run(SAMPLE, client)
    assert f"{name}: No, 6. Answer: 6\n" in prompts(client)[2] and "detail_reader: It is 5." in prompts(client)[1]


def test_two_agents_of_one_name_have_a_memory_and_a_vote_each():
    client = ScriptedClient(["Private: a1\nAnswer: 5", "Private: b1\nAnswer: 5", "Answer: 6"] * 2)
    out = Method("chat", agents=("scanner", "scanner", "detail_reader"), max_turns=2,
                 thoughts=True).run(SAMPLE, client)
    asked = prompts(client)
    assert "a1" in asked[3] and "b1" not in asked[3] and "b1" in asked[4] and "a1" not in asked[4]
    assert out["answer"] == "5" and out["confidence"] == pytest.approx(2 / 3)


def test_a_budget_that_ends_in_the_middle_leaves_memories_whole():
    ledger, client = Ledger(4000), ScriptedClient(["Private: x\nAnswer: 5"], cycle=True)
    out = Method("chat", thoughts=True).run(SAMPLE, client, ledger)
    said = sum("model" in c.tags for _, m in memories(out["trace"]) for c in m.contents())
    assert out["stopped"].startswith("budget") and 0 < said == len(client.calls) and ledger.spent <= 4000


def test_a_message_cut_off_while_thinking_says_nothing():
    client = ScriptedClient(["<think>The total could be 12. Answer: 12", "Answer: 7"], cycle=True)
    assert (multi_agent_chat_no_board([ScannerAgent(client), DetailReaderAgent(client)], [PAGE], "Q?",
                                      max_turns=1) == "7")
    assert "12" not in prompts(client)[1]


def test_a_trace_with_memories_is_replayed_and_the_same_each_time():
    import json
    one, two = (without_times(Method("chat", thoughts=True).run(SAMPLE,
                                                                ScriptedClient(["Private: x\nAnswer: 5"], cycle=True),
                                                                seed=3)) for _ in range(2))
    assert one == two and json.loads(json.dumps(one["trace"])) == one["trace"]
    assert memories(Method("cot").run(SAMPLE, ScriptedClient(["Answer: 5"]))["trace"]) == []
