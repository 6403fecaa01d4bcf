"""The architecture page: picture and ARCHITECTURE.md are what the code gives, the table leads to every part, and what
is said about adding things is short and runs."""
import json
import re
import xml.etree.ElementTree as ET

import architecture
import pytest
from conftest import ROOT
from readme import joined

CELLS = json.loads((ROOT / architecture.PAGE).read_text(encoding="utf-8"))["cells"]
SVG = "{http://www.w3.org/2000/svg}"


def house(root, **files):
    "A package of a few modules below `root`, given as {module: text}."
    (root / "cosee").mkdir(exist_ok=True)
    for name, text in (dict.fromkeys(("__init__", "text", "board", "agents", "models"), "") | files).items():
        (root / f"cosee/{name}.py").write_text(text)
    return root


def drawn(svg):
    "The names in the picture, and how many arrows lead down and up."
    tree = ET.fromstring(svg)
    kinds = [p.get("class") for p in tree.findall(f"{SVG}path")]
    return [t.text for t in tree.iter(f"{SVG}text")][:-1], kinds.count("arrow"), kinds.count("arrow up")


def test_picture_and_text_are_what_the_code_gives():
    for name, made in ((architecture.PICTURE, architecture.picture()), (architecture.TEXT, architecture.text())):
        assert (ROOT / name).read_text(encoding="utf-8") == made, f"{name} is stale: make sync"


def test_the_page_shows_the_layers_as_they_are():
    shown = [joined(out["data"]["text/markdown"]) for cell in CELLS for out in cell.get("outputs", [])
             if "text/markdown" in out.get("data", {})]
    assert shown == [architecture.layers()], f"make refresh NB={architecture.PAGE}"


def test_the_picture_shows_every_part_once_and_no_box_on_another():
    names, down, _ = drawn(architecture.picture())
    assert sorted(names) == sorted(name for row in architecture.parts() for name in row)
    assert down == sum(map(len, architecture.shortest(architecture.imports()).values()))
    rects = [r for r in ET.fromstring(architecture.picture()).findall(f"{SVG}rect") if r.get("class") == "box"]
    places = sorted((int(r.get("y")), int(r.get("x"))) for r in rects)
    for (y, x), (v, u) in zip(places, places[1:], strict=False):
        assert v - y > architecture.HEIGHT or v == y and u - x > architecture.BOX
    assert all(0 <= x <= architecture.WIDTH - architecture.BOX for _, x in places)


def test_a_planted_import_is_drawn(tmp_path):
    assert drawn(architecture.picture(house(tmp_path)))[1:] == (0, 0)
    house(tmp_path, agents="def f():\n    from cosee.board import Board", board="from .text import one_line")
    assert drawn(architecture.picture(tmp_path)) == (["text", "models", "board", "agents"], 2, 0)


def test_a_table_that_names_what_lies_above_is_drawn_dashed(tmp_path, monkeypatch):
    monkeypatch.setattr(architecture.contracts, "UPWARD", {("cosee.models", "cosee.agents"): "asked for by name"})
    house(tmp_path, models="TABLE = 'cosee.agents:team'", agents="import cosee.models")
    assert drawn(architecture.picture(tmp_path))[1:] == (1, 1)


def test_an_arrow_that_another_way_implies_is_left_out():
    arrows = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}}
    assert architecture.shortest(arrows) == {"a": {"b"}, "b": {"c"}, "c": {"d"}}


def test_places_of_a_row_are_near_what_they_want_and_apart():
    assert architecture.spread([0, 500], ["a", "b"]) == [0, 500]
    a, b = architecture.spread([100, 100], ["a", "b"])
    assert b - a == architecture.BOX + architecture.GAP and a + b == 200


def links(text):
    return [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]


def test_links_of_the_text_lead_somewhere():
    found = links(architecture.text())
    assert len(found) > 40 and [link for link in found if not (ROOT / link).exists()] == []


def section(title):
    return architecture.sections(CELLS)[title]


def test_the_table_of_changes_leads_to_every_part():
    table = "".join(joined(cell["source"]) for cell in section("Where to change what"))
    named = {link.removeprefix("../").split("/")[0] for link in links(table)}  # folders, or chapters of the book
    notebooks = [architecture.notebook_of(name) for row in architecture.parts()[1:] for name in row]
    missing = [path for path in notebooks if path.split("/")[0] not in named]
    assert table.count("\n|") > 20 and missing == []


def moved_to(line):
    "The modules that the last column of a line names; `.x` lies beside the one before it."
    found = []
    for name in re.findall(r"`([\w.]+)`", line.rsplit("|", 2)[1]):
        found.append(found[-1].rpartition(".")[0] + name if name.startswith(".") else name)
    return found


def test_what_moved_is_where_the_changes_say():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    named = [name for line in changes if line[:8] == "| `cosee" for name in moved_to(line) if name != "cosee.NAME"]
    assert moved_to("| `cosee.a` | `cosee.b.c`, `.d` |") == ["cosee.b.c", "cosee.b.d"]
    assert len(named) > 60 and sorted(set(named) - architecture.contracts.paths().keys()) == []


HOWTO = {}
for cell in section("How to add"):
    source = joined(cell["source"])
    if source.startswith("### "): title = source.split("\n")[0][4:]
    elif cell["cell_type"] == "code" and "#| hide" not in source: HOWTO.setdefault(title, []).append(source)


@pytest.mark.parametrize("title", ["A client", "A data set", "A metric", "A method", "A tool", "An agent role"])
def test_adding_takes_at_most_twenty_lines(title):
    lines = [line for source in HOWTO[title] for line in source.splitlines() if line.strip()]
    assert 5 < len(lines) <= 20, "\n".join(lines)
