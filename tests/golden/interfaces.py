"""What the server takes and gives: its HTTP schema (OpenAPI) and its MCP tools, as they were recorded.

    python tests/golden/interfaces.py          compare with http_schema.json and mcp_tools.json
    python tests/golden/interfaces.py --write  write them anew, where something changes on purpose; the commit says why
"""
import asyncio
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__": sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

RECORDS = ("http_schema.json", "mcp_tools.json")


def http_schema(service):
    "The schema of `cosee serve`, and the addresses of `cosee app` beside it."
    from cosee.app.server import page
    from cosee.server.http import create_app
    from cosee.server.openai_api import chat
    schema = create_app(service, chat).openapi()
    schema["info"].pop("version")
    hidden = sorted([route.path, sorted(route.methods)] for route in page.routes)
    return dict(schema=schema, app=hidden)


def mcp_tools(service):
    "Everything that an assistant is told at the beginning."
    from mcp import Client
    from cosee.server.mcp import mcp_server

    async def told():
        async with Client(mcp_server(service)) as client:
            tools = (await client.list_tools()).tools
            resources = (await client.list_resources()).resources
            templates = (await client.list_resource_templates()).resource_templates
            said = dict(tools=tools, resources=resources, templates=templates)
            return {k: [x.model_dump(mode="json", exclude_none=True) for x in v] for k, v in said.items()}
    return asyncio.run(told())


def current():
    "Both as they are now."
    from cosee.models.reader_client import OcrClient
    from cosee.server.answering import Clients
    from cosee.server.episodes import EpisodeService
    with tempfile.TemporaryDirectory() as folder, EpisodeService(folder, Clients({"ocr": OcrClient})) as service:
        return dict(zip(RECORDS, (http_schema(service), mcp_tools(service)), strict=True))


def recorded(name):
    "What was recorded under the name of a file."
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def differences(before, after, where=""):
    "The places at which two JSON values differ."
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for n, (b, a) in enumerate(zip(before, after)): yield from differences(b, a, f"{where}/{n}")
    elif before != after: yield f"{where}: {json.dumps(before)[:200]} -> {json.dumps(after)[:200]}"


def main():
    found = current()
    if "--write" in sys.argv:
        for name, value in found.items():
            (HERE / name).write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n",
                                     encoding="utf-8")
        return
    changed = [f"{name}{line}" for name, value in found.items() for line in differences(recorded(name), value)]
    for line in changed: print(line)
    sys.exit(f"{len(changed)} places changed" if changed else 0)


if __name__ == "__main__": main()
