"""Every block of Python in the specifications runs as it is printed, but for the package's name: `concordia` is
`cosee`, `agentic` is `cosee.planner`. Those that no interpreter can run are listed below by name.

The blocks stand in tests/data/documents; `COSEE_DOCUMENTS=folder` runs those of the documents themselves."""
import ast
import re
from importlib import import_module
from typing import Literal, get_type_hints

import pytest
from conftest import ROOT
from cosee.document import InteractiveDocument
from cosee.models.testing import ScriptedClient
from cosee.planner import state, vlm_client
from cosee.tools import Calculate
from test_document_code import DOCUMENTS, blocks, ours

NAMES = sorted(p.stem for p in (ROOT / "tests/data/documents").glob("*.md"))
CODE = {(name, n): ours(code) for name in NAMES for n, code in enumerate(blocks(name))}
# (document, the first class of the block) -> the error of Python, and why. A block that runs leaves the list.
FRAGMENTS = {
    ("agenticiqa_planner", "VLMClient"): (SyntaxError, "two of its classes have a comment for a body"),
    ("agenticiqa_planner", "PlannerOutput"): (NameError, "imports nothing, and names a class before it is made"),
}


def called(key):
    "A block as the list names it."
    first = re.search(r"^class (\w+)", CODE[key], re.M)
    return key[0], first[1] if first else key[1]


def imports_of(code):
    "The import statements of a block; the lines that begin like one where it is no Python."
    try: return [ast.unparse(n) for n in ast.parse(code).body if isinstance(n, (ast.Import, ast.ImportFrom))]
    except SyntaxError: return re.findall(r"^(?:from|import) .+", code, re.M)


class Search:
    "A tool as the documents describe one: nothing of ours."
    name, description = "web_search", "Look something up. Args: query (str)"

    def execute(self, *, query: str) -> str: return f"nothing about {query}"


def given(document):
    "What a block takes for granted: its document's imports and all that `cosee` offers, a model, and tools."
    model = ScriptedClient(["It is dark."], cycle=True)
    names = dict(model=model, doc=InteractiveDocument(model), search_web=str, web_search_tool=Search(),
                 calculator_tool=Calculate())
    if document == "cosee_api":
        exec("from cosee import *", names)
        for key, code in CODE.items():
            if key[0] == document: exec("\n".join(imports_of(code)), names)
    return names


@pytest.mark.parametrize("line", sorted({line for code in CODE.values() for line in imports_of(code)}))
def test_every_import_of_a_document_leads_somewhere(line): exec(line, {})


@pytest.mark.parametrize("key", [k for k in CODE if called(k) not in FRAGMENTS], ids=str)
def test_each_block_of_the_documents_runs(key): exec(CODE[key], given(key[0]))


@pytest.mark.parametrize("name", FRAGMENTS, ids=str)
def test_what_cannot_run_is_listed_and_nothing_else(name):
    kind, _ = FRAGMENTS[name]
    (key,) = [k for k in CODE if called(k) == name]
    with pytest.raises(kind): exec(CODE[key], given(key[0]))


def test_a_planted_import_and_a_planted_block_are_seen():
    with pytest.raises(ImportError): exec(*imports_of("from cosee.document import interactive_documents"), {})
    assert ours("from concordia.document import tool\nimport concordia\nx = 'from concordia'") == (
        "from cosee.document import tool\nimport cosee\nx = 'from concordia'")
    assert imports_of("class A:\n    # nothing\nfrom a import b") == ["from a import b"]


# --- the planner: modules, classes and fields have the names of its document ---

def printed_modules():
    "The modules of the tree in the planner's document, dotted."
    tree, at = (DOCUMENTS / "agenticiqa_planner.md").read_text(encoding="utf-8"), list[str]()
    for indent, name, kind in re.findall(r"^([│ ]*)[├└]── (\w+)(/|\.py)", tree, re.M):
        at = [*at[:len(indent) // 4], name]
        if kind == ".py": yield ".".join(at)


def test_P1_the_planner_has_the_modules_of_its_document():
    modules = {name: import_module(f"cosee.planner.{name}") for name in printed_modules()}
    assert sorted(modules) == ["graph", "nodes.planner", "state", "vlm_client"]
    assert modules["nodes.planner"].PLANNER_PROMPT.startswith("You are a planner")
    assert modules["nodes.planner"].planner_node and modules["graph"].planner_graph


def test_P2_its_clients_are_where_it_says():
    (code,) = [c for k, c in CODE.items() if called(k) == ("agenticiqa_planner", "VLMClient")]
    declared = re.findall(r"^class (\w+)\((\w+)\)", code, re.M)
    assert len(declared) == 3
    for name, base in declared:
        assert base == "ABC" or issubclass(getattr(vlm_client, name), getattr(vlm_client, base))
    assert vlm_client.GoogleVLMClient and vlm_client.create_vlm_client


def test_P11_its_states_have_the_fields_and_types_that_it_prints():
    (code,) = [c for k, c in CODE.items() if called(k) == ("agenticiqa_planner", "PlannerOutput")]
    names, checked = {**vars(import_module("typing")), **vars(state)}, 0
    for node in ast.parse(code).body:
        assert isinstance(node, ast.ClassDef)
        mine = get_type_hints(getattr(state, node.name), {**names, "Literal": Literal})
        for field in node.body:
            assert isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            assert mine[field.target.id] == eval(ast.unparse(field.annotation), names)
            checked += 1
    assert checked >= 15
