"""Models from GGUF files: broken files, the grammar, counts, seeds, the cache, interruption. No weights are needed."""
import json
import signal
import struct
import subprocess
import sys

import pytest

from cosee.utils.config import ConfigError
from cosee.models.client import build_messages
from cosee.models.gguf_client import GgufClient, GgufError, read_gguf
from cosee.models.qwen.together import own_account
from cosee.models.testing import random_gguf
from cosee.models.registry import make_client
from cosee.models.remote import RequestError
from asking import chat_many, raw

pytest.importorskip("xllamacpp")
TEXTS = [{"type": "text", "text": "Some lines of print."}, {"type": "text", "text": "Reply."}]
SAY = [{"role": "user", "content": TEXTS}]
SCHEMA = {"type": "object", "properties": {"line": {"type": "integer", "minimum": 3, "maximum": 1207},
                                           "answer": {"type": "string", "minLength": 1, "maxLength": 12}},
          "required": ["line", "answer"], "additionalProperties": False}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return random_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def client(file):
    return GgufClient(file, threads=1)


def test_a_file_cut_anywhere_is_refused_before_the_engine_sees_it(file, tmp_path):
    data, cut = file.read_bytes(), tmp_path / "cut.gguf"
    for length in [0, 3, 4, 9, 23, 24, 31, 60, 200, 1000, 5000, len(data) // 2, len(data) - 64]:
        cut.write_bytes(data[:length])
        with pytest.raises(GgufError, match="no GGUF file|cut off"): GgufClient(cut)
    assert read_gguf(file).needed <= len(data)


def header(*parts, tensors=0, fields=1):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, fields) + b"".join(parts)


def text(said): return struct.pack("<Q", len(said)) + said.encode()


@pytest.mark.parametrize("data", [
    header(fields=2**63), header(tensors=2**60, fields=0), header(struct.pack("<Q", 2**62)),
    header(text("a") + struct.pack("<I", 99)), header(text("a") + struct.pack("<IIQ", 9, 4, 2**61)),
    header(text("a") + struct.pack("<IIQ", 9, 8, 2**61)), header(text("a") + struct.pack("<IIQ", 9, 9, 5)),
    header(text("a") + struct.pack("<IQ", 8, 2**64 - 1)),
    header(text("t") + struct.pack("<I", 4), tensors=1, fields=0)])
def test_numbers_in_a_header_are_not_believed(data, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(data)
    with pytest.raises(GgufError, match="cut off or damaged"): read_gguf(tmp_path / "bad.gguf")


def test_what_cannot_be_opened_is_said_in_one_line(file, tmp_path):
    (tmp_path / "old.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))
    for path, words in ((tmp_path, "is a directory"), (tmp_path / "none.gguf", "there is no file"),
                        (tmp_path / "old.gguf", "version 1"),
                        (random_gguf(tmp_path / "base.gguf", template=""), "no chat template")):
        with pytest.raises(ConfigError, match=words): make_client("gguf", model_path=path)


def test_without_the_package_its_extra_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ImportError, match=r"pip install \"cosee\[gguf\]\""): GgufClient(file)


def test_every_reply_follows_the_schema(client):
    for seed in range(40):
        reply = client.chat(SAY, schema=SCHEMA, temperature=1.5, seed=seed)
        said = json.loads(reply.text)
        assert list(said) == ["line", "answer"] and 3 <= said["line"] <= 1207 and 1 <= len(said["answer"]) <= 12
        assert "\n" not in reply.text and reply.finish_reason == "stop"


def test_counts_are_those_of_the_engine_and_known_before(client):
    reply = client.chat(SAY, max_new_tokens=9, temperature=0)
    assert reply.usage.prompt_tokens == client.estimate(raw(SAY)).prompt_tokens
    assert not client.estimate(raw(SAY)).estimated and reply.usage.completion_tokens <= 9
    assert client.count("abc th") == 5


def test_a_seed_decides_and_the_cache_changes_nothing(client):
    first = client.chat(SAY, schema=SCHEMA, temperature=1.0, seed=7)
    again = client.chat(SAY, schema=SCHEMA, temperature=1.0, seed=7)
    assert first.text == again.text and again.usage.cached_tokens == again.usage.prompt_tokens - 1
    assert len({client.chat(SAY, schema=SCHEMA, temperature=1.5, seed=s).text for s in range(5)}) > 1


def test_a_prompt_without_room_for_the_reply_is_refused_with_numbers(file):
    small = GgufClient(file, context=300, threads=1)
    with pytest.raises(RequestError, match=r"has [\d,]+ tokens and the reply may have 290, but the context holds 300"):
        small.chat(SAY, max_new_tokens=290)
    with pytest.raises(RequestError, match="reads text alone"): small.chat(build_messages(["page.png"], "What?"))
    with pytest.raises(ValueError, match="unknown parameter beams"): small.chat(SAY, beams=3)


def test_one_broken_prompt_of_a_batch_leaves_the_others(file):
    several = GgufClient(file, threads=1, slots=2)
    long = [{"role": "user", "content": "x" * 9000}]
    replies = chat_many(several, [SAY, long, SAY], schema=SCHEMA, seed=1, temperature=1.0, errors="return")
    assert [type(r).__name__ for r in replies] == ["Reply", "ContextError", "Reply"]
    assert replies[0].text == replies[2].text


def test_an_interruption_stops_the_engine(client):
    def ring(*_): raise KeyboardInterrupt
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, .15, 5)   # again, where Python drops it, as in a garbage collection
        with pytest.raises(KeyboardInterrupt):
            for _ in range(1000): client.chat(SAY, max_new_tokens=8000, temperature=2.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert client.chat(SAY, max_new_tokens=4).usage.completion_tokens <= 4


def test_a_text_that_ends_a_reply_is_no_part_of_it(client):
    free = client.chat(SAY, max_new_tokens=40, temperature=0).text
    stop = free[6]
    assert client.chat(SAY, max_new_tokens=40, temperature=0, stop=stop).text == free[:free.index(stop)]


def test_engines_that_are_closed_at_once_end(file):
    code = ("import sys\nfrom cosee.models.gguf_client import GgufClient\n"
            "for _ in range(60): GgufClient(sys.argv[1], threads=1)")
    done = subprocess.run([sys.executable, "-c", code, str(file)], timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_reply_says_how_probable_its_tokens_were_where_it_is_asked(client):
    schema = {"type": "object", "properties": {"line": {"type": "integer", "minimum": 1, "maximum": 9}},
              "required": ["line"], "additionalProperties": False}
    said = client.chat([{"role": "user", "content": "Which line?"}], schema=schema, top_logprobs=3)
    assert "".join(t["token"] for t in said.logprobs) == said.text
    assert all(t["logprob"] <= 0 and t["logprob"] <= max(t["top"].values()) for t in said.logprobs)
    assert client.chat([{"role": "user", "content": "Which line?"}], schema=schema).logprobs == []


def test_what_is_cached_is_what_the_episode_itself_has_sent(file, tmp_path):
    another = GgufClient(random_gguf(tmp_path / "another.gguf"), threads=1)
    one, several = GgufClient(file, threads=1), GgufClient(file, threads=1, slots=2)
    other = [{"role": "user", "content": TEXTS[:1] + [{"type": "text", "text": "Another reply, please."}]}]

    def cached(client, *asked):
        with own_account(): return [client.chat(m, max_new_tokens=4).usage.cached_tokens for m in asked]

    first = cached(one, SAY, other, SAY)
    prompt = one.estimate(raw(SAY)).prompt_tokens
    assert first[0] == 0 < first[1] < first[2] == prompt - 1
    assert cached(one, SAY, other, SAY) == first == cached(several, SAY, other, SAY)   # whatever the engine holds
    assert one.chat(SAY, max_new_tokens=4).usage.cached_tokens > first[0]
    with own_account():
        together = chat_many(several, [SAY, other, SAY], max_new_tokens=4)
        assert [r.usage.cached_tokens for r in together] == first
        assert another.chat(SAY, max_new_tokens=4).usage.cached_tokens == 0   # which has not read it
