"""Local models are asked for the numbers that their family writes, and everybody else reads thousandths."""
import json
import random

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
from PIL import Image
from cosee.agents import CrossCheckerAgent, ScannerAgent
from cosee.board import Board
from cosee.utils.boxes import ASKED_THOUSANDTHS
from cosee.utils.json_scan import scan_json
from cosee.models.client import build_messages
from cosee.models.backends import record
from cosee.models.transformers_client import TransformersClient
from cosee.models.replies import IN_PARTS, IN_THOUSANDTHS, in_pixels
from cosee.models.checkpoint import FAMILIES
from cosee.models.prompts import picture_tokens, local_prompt
from cosee.models.testing import RANDOM
from cosee.models.constrained import JsonGrammar
from cosee.screen.agent import ScreenAgent
from cosee.screen.call import tool_call_schema
from cosee.tools.agent import with_tools

SIZES = (290, 410), (520, 180), (90, 640)


def pages():
    return [Image.effect_noise(size, 70).convert("RGB") for size in SIZES]


def written(reply):
    "The object that the model itself wrote"
    return [found for _, _, found in scan_json(reply.raw)][-1]


@pytest.mark.parametrize("kind", RANDOM)
def test_every_family_is_asked_for_its_own_numbers(random_folder, kind):
    from transformers import AutoConfig, AutoProcessor
    processor = AutoProcessor.from_pretrained(random_folder(kind))
    pads = picture_tokens(AutoConfig.from_pretrained(random_folder(kind)))
    family, asked = FAMILIES[kind], build_messages(pages(), "Where?", role_prompt=f"In {ASKED_THOUSANDTHS}.")
    p = local_prompt(processor, pads, asked, True, 10**9, family.template, family.boxes)
    said = processor.tokenizer.decode(p.ids)
    assert (ASKED_THOUSANDTHS in said) == (family.boxes not in ("pixels", "parts"))
    if family.boxes == "pixels":
        patch = processor.image_processor.patch_size
        seen = [(w * patch, h * patch) for _, h, w in p.inputs["image_grid_thw"].tolist()]
        assert list(p.numbers.sides.values()) == seen and "in pixels of the picture, whole numbers" in said
    rng = random.Random(kind)
    for page in (1, 2, 3):
        x, y = rng.randrange(400), rng.randrange(400)
        place = [x, y, x + rng.randrange(50, 600), y + rng.randrange(50, 600)]
        back = p.numbers.house(p.numbers.own(place, page), page)
        right = p.numbers.size(page) * 2
        assert all(abs(a - b) <= 500 / side + .5 for a, b, side in zip(place, back, right, strict=True))


def test_an_action_of_a_model_that_writes_pixels_reaches_the_board(random_folder):
    client, shown, seen = TransformersClient(random_folder("qwen2_5_vl")), pages(), set()
    sides = client.prompt(build_messages(shown, "What?")).numbers.sides
    # What random weights draw differs from processor to processor, and some boxes have no area: as many as it takes.
    for seed in range(60):
        if len(seen) == len(shown): break
        agent, board = ScannerAgent(client), Board()
        drawn = dict(seed=seed, temperature=1.5, top_k=0, max_new_tokens=90)
        with record() as calls: action = agent.act(shown, "What is the total?", board, drawn)
        view = written(calls[-1]["reply"])["view"]
        (w, h), box = sides[view["page"]], view["bbox_2d"]
        most = [max(s[axis] for s in sides.values()) for axis in (0, 1)] * 2
        assert all(0 <= v <= m for v, m in zip(box, most, strict=True))
        own = [min(1, v / side) for v, side in zip(box, (w, h, w, h), strict=True)]
        own = [min(own[0], own[2]), min(own[1], own[3]), max(own[0], own[2]), max(own[1], own[3])]
        if "bbox" not in action["view"]:
            assert own[0] == own[2] or own[1] == own[3]
            continue
        assert action["view"]["bbox"] == pytest.approx(own, abs=.0011)
        cell = board.get_cell(board.add_cell(action["view"], action["content"], "scanner", 1))
        assert cell["view"]["page"] == view["page"] and cell["view"]["bbox"] == pytest.approx(own, abs=.0011)
        seen.add(view["page"])
    assert len(seen) == len(shown)


def test_a_screen_in_pixels(random_folder):
    client, screen = TransformersClient(random_folder("qwen2_5_vl")), Image.effect_noise((640, 360), 70).convert("RGB")
    [(w, h)] = client.prompt(build_messages([screen], "?")).numbers.sides.values()
    points = 0
    for seed in range(60):     # as above: not every call names a point
        if points == 5: break
        agent = ScreenAgent(client, seed=seed, temperature=2., top_k=0, top_p=1.)
        with record() as calls: step = agent.act(screen, "Click on Save.")
        at = written(calls[-1]["reply"])["arguments"].get("coordinate")
        if at is None: continue
        points += 1
        assert 0 <= at[0] <= w and 0 <= at[1] <= h and step["how"] == "strict"
        assert step["call"].coordinate == pytest.approx([1000 * at[0] / w, 1000 * at[1] / h], abs=.5)
    assert points == 5


def test_tools_are_told_of_in_pixels(random_folder):
    client, shown = TransformersClient(random_folder("qwen2_5_vl")), pages()
    sides = client.prompt(build_messages(shown, "What?")).numbers.sides
    agent = with_tools([CrossCheckerAgent(client)], tools=["zoom"], offer=False, look=True, sure=2.)[0]
    with record() as calls:
        done = agent.act(shown, "What?", Board(), dict(seed=1, temperature=1.5, top_k=0, max_new_tokens=120))
    raw = calls[-1]["reply"].raw
    assert done["tools"]
    for call in done["tools"]:
        page, box = call["args"]["page"], call["args"]["bbox"]
        own = in_pixels(sides).own(box, page)
        assert own != box and f'{{"bbox": {own}, "page": {page}}}' in raw
        assert f"page {page}, region {own}, enlarged" in raw


@pytest.mark.parametrize("numbers", [in_pixels({1: (1092, 1456), 2: (700, 560)}), IN_PARTS, IN_THOUSANDTHS])
def test_schemas_can_be_followed_in_all_numbers(random_folder, numbers):
    from transformers import AutoTokenizer
    grammar = JsonGrammar(numbers.schema(tool_call_schema(["left_click"])), AutoTokenizer.from_pretrained(
        random_folder("qwen2_5_vl")))
    rng, scores = random.Random(1), torch.zeros(grammar.vocabulary.size)
    for _ in range(20):
        state = grammar.start(200)
        while not state.done: state.step(scores, lambda s: rng.choice((s == 0).nonzero()[:, 0].tolist()))
        at = json.loads(state.text)["arguments"]["coordinate"]
        w, h = numbers.every or (1092, 1456)
        assert 0 <= at[0] <= w and 0 <= at[1] <= h and [round(v, 3) for v in at] == at
