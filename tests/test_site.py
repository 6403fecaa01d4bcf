"The site: what a page says of a name."
import ast
import itertools

import docs
import pytest
from site_fields import Renderer

from cosee.agents import team
from cosee.minds.form import WrittenPage
from cosee.models.backends import Backend, Config, PlannerConfig
from cosee.pages import PageError
from cosee.planner.planning import PlanControlFlags, PlannerOutput
from cosee.runs.config import BudgetConfig, ClientConfig, DataConfig, RunConfig
from cosee.screen.config import ScreenConfig


def shown(name):
    "The code block under the name."
    return Renderer(name)._repr_markdown_().split("```")[1]


def test_classes_of_fields_show_their_fields():
    assert "class WrittenPage(NamedTuple):\n    text: str\n    lines: list[Line]   # what" in shown(WrittenPage)
    assert shown(PageError).strip() == "python\nclass PageError(ValueError)"
    assert "    methods: list[Union[str, dict[str, Any]]] = Field(" in shown(RunConfig)
    assert "def team(" in shown(team)


MODELS = [ClientConfig, DataConfig, BudgetConfig, RunConfig, ScreenConfig, Backend, Config, PlannerConfig,
          PlannerOutput, PlanControlFlags]


@pytest.mark.parametrize("model", MODELS)
def test_fields_of_models_have_types_defaults_and_meanings(model):
    "Each field of what people write in a file, or read in a plan, says what it is for."
    lines = shown(model).splitlines()
    for name, field in model.model_fields.items():
        if name not in vars(model)["__annotations__"]: continue   # of the class below it
        first = next(n for n, line in enumerate(lines) if line.startswith(f"    {name}: "))
        told = lines[first] + "".join(itertools.takewhile(lambda line: line.startswith("     "), lines[first + 1:]))
        assert " # " in told or "description=" in told, f"{name} has no meaning"
        assert field.is_required() or "=" in told, f"{name} has no default"


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
