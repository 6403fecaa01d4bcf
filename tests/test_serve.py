"""A real server that speaks OpenAI's language: `transformers serve` with a tiny checkpoint. It drops schemas without
a word."""
import os
import socket
import subprocess
import sys
import threading

import pytest
from cosee.agents import team
from cosee.models.backends import Backend
from cosee.controller import CoSeeController
from cosee.models.client import build_messages
from cosee.models.providers import OpenAIVLMClient
from cosee.models.remote import ResponseParseError
from cosee.models.wrappers import resilient
from cosee.models.testing import random_checkpoint
from PIL import Image

pytestmark = pytest.mark.slow

PAGES = [Image.new("RGB", (96, 64), c) for c in ("white", "navy")]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    "A client of a server that runs as long as this module's tests."
    checkpoint = str(random_checkpoint(tmp_path_factory.mktemp("serve") / "tiny"))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve", checkpoint,
               "--host", "127.0.0.1", "--port", port, "--device", "cpu", "--log-level", "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}) as server:
        said = []
        for line in server.stdout:
            said.append(line)
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail("transformers serve did not start:\n" + "".join(said[-20:]))
        threading.Thread(target=server.stdout.read, daemon=True).start()
        yield OpenAIVLMClient(Backend(kind="openai", model=checkpoint, id="serve.tiny",
                                      base_url=f"http://127.0.0.1:{port}/v1",
                                      timeout=120, max_retries=0, extra_sampling=False, in_flight=2))
        server.kill()


@pytest.mark.timeout(300)
def test_replies_come_with_the_servers_own_counts(client):
    short, long = (client.chat(build_messages(PAGES[:n], "What is it?"), max_new_tokens=n + 4, temperature=0)
                   for n in (1, 2))
    assert not short.usage.estimated and short.usage.prompt_tokens < long.usage.prompt_tokens
    assert (short.usage.completion_tokens, long.usage.completion_tokens, long.finish_reason) == (5, 6, "length")
    again = client.chat(build_messages(PAGES[:1], "What is it?"), max_new_tokens=5, temperature=0)
    assert (again.text, again.usage.prompt_tokens) == (short.text, short.usage.prompt_tokens)


def test_a_schema_that_is_dropped_is_noticed(client):
    with pytest.raises(ResponseParseError, match="attempt 2") as e:
        resilient(client, attempts=2).chat(build_messages(PAGES[:1], "What is it?"), schema=SCHEMA, max_new_tokens=8,
                                           temperature=0)
    assert e.value.usage.calls == 2 and e.value.usage.completion_tokens == 16


def test_an_episode_runs_to_its_end_and_invalid_replies_are_counted(client):
    episode = CoSeeController(team(client), max_steps=1, order="parallel",
                              default_gen_kwargs={"max_new_tokens": 6}).run(PAGES, "What is it?")
    trace = episode["trace"]   # noise of a few letters may read as an answer in plain words
    assert episode["usage"]["calls"] == 3 == trace["invalid"] + trace["plain"] and not episode["usage"]["estimated"]
