"""`cosee serve` as people start it: its memory under many callers; and a Qwen3-VL behind it, which streams,
counts exactly, is cut while it writes, and whose notes are shown."""
import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
import openai
import pytest
from asking import ask_and_wait
from conftest import ROOT

from cosee.datasets.synthetic.document import samples_dir
from cosee.server.answering import Clients
from cosee.server.episodes import EpisodeService
from cosee.server.documents import AllowedPaths, caller_of
from cosee.episode import answer_words

pytestmark = pytest.mark.slow

QUICK = dict(agents=["detail_reader"], max_steps=1)
QUESTION = "How much is the subtotal?"
START = "import sys; from cosee.cli.start import main; sys.exit(main())"


@contextmanager
def process(store, *args):
    "A server of its own process, and its address."
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", START, "serve", str(samples_dir()), "--store", str(store), "--json", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as server:
        try: yield server, json.loads(server.stdout.readline())["url"]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


# --- memory ---

def resident(pid):
    "Bytes of a process that lie in memory."
    with open(f"/proc/{pid}/statm") as f: return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def crowd(url, n):
    "Fifty callers at once whom the server has not seen before; what they were answered."
    async def one(i):
        async with httpx.AsyncClient(base_url=url, timeout=200, headers={"X-CoSee-Session": f"{n} {i}"}) as mine:
            opened = (await mine.post("/api/documents", json=dict(path="invoice.pdf"))).json()
            path = f"/api/documents/{opened['id']}"
            asked = await mine.post(f"{path}/questions", json=dict(question=QUESTION, settings=QUICK, wait=190))
            assert (await mine.get(f"{path}/pages/1?side=400")).status_code == 200
            return asked.json()["answer"]
    return await asyncio.gather(*(one(i) for i in range(50)))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_callers(tmp_path):
    with process(tmp_path / "kept") as (server, url):
        held = []
        for n in range(3):
            assert set(asyncio.run(crowd(url, n))) == {"36,871.72 USD"}   # no page closes under a team
            held.append(resident(server.pid))
        grown = min(held[1:]) - held[0]   # a page as a picture has 8 MB: keeping one for each caller would be 400
        assert grown < 100e6, held


# --- a model that writes its tokens here ---

def chat(name):
    "A chat with a document of small pages."
    data = base64.b64encode((samples_dir() / "small.pdf").read_bytes()).decode()
    parts = [dict(type="file", file=dict(filename="s.pdf", file_data=f"data:application/pdf;base64,{data}")),
             dict(type="text", text="What is the total on page 1?")]
    return dict(model=name, messages=[dict(role="user", content=parts)])


def test_a_team_of_three_on_qwen_streams_with_exact_usage_and_its_notes(tmp_path):
    pytest.importorskip("torch")
    with process(tmp_path / "kept", "--client", "tiny", "--offer", "random") as (_, url):
        models, mine = openai.OpenAI(base_url=f"{url}v1", api_key="x", max_retries=0), httpx.Client(base_url=url)
        for name in ("tiny", "random"):
            how = dict(stream=True, stream_options=dict(include_usage=True))
            more = dict(cosee=dict(events=True, max_steps=1, method="team"))
            chunks = list(models.chat.completions.create(**chat(name), **how, extra_body=more))
            told = [c.cosee for c in chunks if c.choices and getattr(c, "cosee", None)]
            turns, usage, end = [t for t in told if t.get("kind") == "turn"], chunks[-1].usage, told[-1]
            assert {t["agent"] for t in turns} == {"scanner", "detail_reader", "cross_checker"}
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == answer_words(end)
            record = mine.get(f"/api/episodes/{end['id']}/record").json()
            spent = [e["usage"] for e in record["trace"]["ledger"]["entries"]]
            guess = [c["usage"] for c in record["trace"].get("guess", {"calls": []})["calls"]]   # it is no turn
            proposed = any(t["cell"] and "hypothesis" in t["cell"]["tags"] for t in turns)
            assert proposed or len(guess) == 1
            assert not any(u["estimated"] for u in spent) and len(spent) == len(turns) + len(guess)
            for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
                told = sum(u[key] for u in (*(t["usage"] for t in turns), *guess))
                assert sum(u[key] for u in spent) == getattr(usage, key) == told, key
            assert usage.prompt_tokens_details.cached_tokens > 0   # pages are computed once
            notes = [t["cell"] for t in turns if t["cell"]]
            assert notes and [n["id"] for n in notes] == [c["id"] for c in record["board"]["cells"]]
            page = mine.get(f"/api/episodes/{end['id']}/page").text
            assert len(re.findall(r'class="note\b', page)) == len(notes)


def test_a_reply_is_cut_while_it_is_written(tmp_path):
    pytest.importorskip("torch")
    from cosee.models.registry import make_client
    client, passes = make_client("random"), []
    clients = Clients({"random": lambda: client})
    with EpisodeService(tmp_path / "kept", clients, AllowedPaths([samples_dir()])) as service:
        me = caller_of()
        document = service.library.open_path(me, "small.pdf")
        whole = ask_and_wait(service, me, document.id, "What is it?", QUICK)
        def told(module, args, out):
            passes.append(len(out))
            if len(passes) == 4: service.stop(me, service.episodes(me)[0]["id"])
        hook = client.model.lm_head.register_forward_hook(told)
        cut = ask_and_wait(service, me, document.id, "What is it?", QUICK)
        hook.remove()
        found, before = service.episode(me, cut.id), service.episode(me, whole.id)
        assert (found["state"], found["usage"]["calls"], len(passes)) == ("stopped", 1, 4)
        assert 0 < found["usage"]["completion_tokens"] < before["usage"]["completion_tokens"]
        assert not found["usage"]["estimated"]
        again = ask_and_wait(service, me, document.id, "What is it?", QUICK)   # what was cut leaves nothing behind
        assert service.episode(me, again.id)["usage"]["completion_tokens"] == (
            before["usage"]["completion_tokens"])
