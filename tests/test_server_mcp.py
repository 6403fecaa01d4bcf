"""The server for assistants, through the official client: over pipes, over HTTP, with cancellation and wrong names."""
import os
import sys
import time

import anyio
import httpx
import httpx2
import pytest
from conftest import ROOT
from gated import Gated
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from cosee.datasets.synthetic.document import samples_dir
from cosee.server.answering import Clients
from cosee.server.mcp import mcp_app, mcp_server
from cosee.server.episodes import EpisodeService
from cosee.server.documents import AllowedPaths, caller_of
from cosee.server.security import Tokens
from cosee.server.serve import running
from cosee.models.reader_client import OcrClient
from cosee.runs.table import Run

QUESTION = "How much is the subtotal?"
TOKEN = "a long and secret word"
START = "import sys; from cosee.cli.start import main; sys.exit(main())"


def service_in(folder, client=OcrClient):
    return EpisodeService(folder, Clients({"ocr": client}), AllowedPaths([samples_dir()]))


async def conversation(client):
    "A whole conversation about a sample; what came of it."
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert tools == {"open_document", "ask_document", "find_pages", "read_page", "look", "board"}
    opened = await client.call_tool("open_document", dict(path="invoice.pdf"))
    id, steps = opened.structured_content["document"], []
    async def told(progress, total, message): steps.append((progress, message))
    answer = await client.call_tool("ask_document", dict(document=id, question=QUESTION), progress_callback=told)
    said = answer.structured_content
    assert (said["answer"], said["page"]) == ("36,871.72 USD", 1) and len(said["box"]) == 4 and said["because"]
    assert [c.type for c in answer.content] == ["text", "image"] and answer.content[1].mime_type == "image/png"
    assert any("note" in message for _, message in steps) and [p for p, _ in steps] == sorted({p for p, _ in steps})
    notes = await client.call_tool("board", dict(episode=said["episode"]))
    assert len(notes.structured_content["notes"]) == 3
    found = await client.call_tool("find_pages", dict(document="report.pdf", query="revenue"))
    page = found.structured_content["found"][0]["page"]
    printed = await client.call_tool("read_page", dict(document="report.pdf", page=page))
    assert printed.structured_content["lines"][0]["box"]
    seen = await client.call_tool("look", dict(document="report.pdf", page=page, box=[.1, .1, .6, .4]))
    assert [c.type for c in seen.content] == ["image"]
    picture = await client.read_resource(f"cosee://documents/{id}/pages/1")
    assert picture.contents[0].mime_type == "image/png"
    episode = await client.read_resource(f"cosee://episodes/{said['episode']}")
    assert "36,871.72 USD" in episode.contents[0].text
    return said


def test_an_assistant_starts_it_and_talks_over_pipes(tmp_path):
    command = StdioServerParameters(command=sys.executable, env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                                    args=["-c", START, "mcp", str(samples_dir()), "--store", str(tmp_path / "kept")])
    async def talk():
        with open(os.devnull, "w") as nowhere:
            async with Client(stdio_client(command, nowhere)) as client: await conversation(client)
    anyio.run(talk)
    assert [r["answer"] for r in Run(tmp_path / "kept")] == ["36,871.72 USD"]


def test_it_listens_over_http_behind_the_guard(tmp_path):
    with service_in(tmp_path / "kept") as service, running(mcp_app(service, Tokens({"alice": TOKEN}))) as url:
        async def talk():
            async with (httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as web,
                        Client(streamable_http_client(f"{url}mcp", http_client=web)) as client):
                return await conversation(client)
        said = anyio.run(talk)
        assert service.episode(caller_of("alice"), said["episode"])["answer"] == said["answer"]
        body = dict(jsonrpc="2.0", id=1, method="tools/list")
        kinds = {"Accept": "application/json, text/event-stream"}
        assert httpx.post(f"{url}mcp", json=body, headers=kinds).status_code == 401
        known = {**kinds, "Authorization": f"Bearer {TOKEN}"}
        for more in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            assert httpx.post(f"{url}mcp", json=body, headers={**known, **more}).status_code == 403
        assert httpx.post(f"{url}mcp", content=b"x" * 2_000_000, headers=known).status_code == 413


@pytest.mark.parametrize("tool, args, says", [
    ("open_document", dict(path="../../etc/passwd"), "not under the folders"),
    ("open_document", dict(path="/etc/passwd"), "not under the folders"),
    ("open_document", dict(path="nothing.pdf"), "invoice.pdf"),
    ("ask_document", dict(document="invoice.pdf", question=" "), "the question is empty"),
    ("ask_document", dict(document="invoice.pdf", question="?", settings=dict(client="openai")), "not offered here"),
    ("ask_document", dict(document="invoice.pdf", question="?", settings=dict(method="x")), "from auto, direct, "),
    ("read_page", dict(document="invoice.pdf", page=99), "has pages 1 to 1"),
    ("look", dict(document="invoice.pdf", page=1, box=[.5, .1, .2, .3]), "left before"),
    ("board", dict(episode="nothing"), "no such episode"),
])
def test_what_cannot_be_done_is_told_with_the_mend(tmp_path, tool, args, says):
    async def talk(service):
        async with Client(mcp_server(service)) as client: return await client.call_tool(tool, args)
    with service_in(tmp_path / "kept") as service:
        said = anyio.run(talk, service)
        assert said.is_error and says in said.content[0].text


def test_a_call_that_is_given_up_stops_the_episode(tmp_path):
    gated = Gated(60)
    async def talk(service):
        async with Client(mcp_server(service)) as client, anyio.create_task_group() as group:
            async def told(progress, total, message):
                if "looking" in message: group.cancel_scope.cancel()
            asked = dict(document="invoice.pdf", question=QUESTION)
            await client.call_tool("ask_document", asked, progress_callback=told)
    with service_in(tmp_path / "kept", lambda: gated) as service:
        anyio.run(talk, service)
        gated.gate.set()
        (episode,) = service.episodes(caller_of())
        for _ in range(600):   # the agent that was asked ends by itself
            if service.episode(caller_of(), episode["id"])["state"] == "stopped": break
            time.sleep(.1)
        assert service.episode(caller_of(), episode["id"])["state"] == "stopped"
