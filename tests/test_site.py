"The site: what a page says of a name."
import ast

import docs
from site_fields import Renderer

from cosee.agents import team
from cosee.minds.form import WrittenPage
from cosee.pages import PageError
from cosee.runs.config import RunConfig


def shown(name):
    "The code block under the name."
    return Renderer(name)._repr_markdown_().split("```")[1]


def test_classes_of_fields_show_their_fields():
    assert "class WrittenPage(NamedTuple):\n    text: str\n    lines: list[Line]   # what" in shown(WrittenPage)
    assert shown(PageError).strip() == "python\nclass PageError(ValueError)"
    assert "    methods: list[Union[str, dict[str, Any]]] = Field(" in shown(RunConfig)
    assert "def team(" in shown(team)


def test_methods_of_private_classes_have_no_entry():
    private = "#| export\n@patch\ndef draw(self: _Document, number: int): return number"
    public = "#| export\n@patch\ndef draw(self: Pages, number: int): return number"
    cells = [dict(cell_type="code", id=str(i), source=s) for i, s in enumerate((private, public))]
    assert [c["source"].splitlines()[0] for c in docs.imports_alone(cells)] == ["#| exporti", "#| export"]


def test_a_page_knows_the_classes_that_stand_further_down():
    cells = [dict(cell_type="code", source="#| default_exp pages"),
             dict(cell_type="code", source="#| export\nclass Page:\n    document: Pages"),
             dict(cell_type="code", source="#| export\nclass Pages(list): pass")]
    hidden, = docs.classes_known(cells)
    imported, = ast.parse(hidden["source"]).body
    assert (imported.module, [a.name for a in imported.names]) == ("cosee.pages", ["Page", "Pages"])
    assert docs.classes_known(cells[:1]) == docs.classes_known(cells[1:]) == []
