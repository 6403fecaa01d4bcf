"Whatever a model writes: no exception, every invalid action counted and visible in the trace, and the trace replays."
import json

from hypothesis import HealthCheck, given, settings, strategies as st

from cosee.agents import ACTIONS, action_schema, parse_reply, team
from cosee.controller import CoSeeController, replay
from cosee.models.testing import ScriptedClient

PER_EPISODE = 5        # replies in one episode
EPISODES = 400         # so 2,000 malformed replies go through parser, validation and controller

text = st.text(max_size=60)
number = st.one_of(st.integers(-10**30, 10**30), st.floats(allow_nan=True), st.booleans())
scalar = st.one_of(st.none(), number, text)
anything = st.recursive(
    scalar, lambda c: st.one_of(st.lists(c, max_size=4), st.dictionaries(text, c, max_size=4)), max_leaves=8
)
view = st.one_of(
    anything,
    st.fixed_dictionaries(
        {"page": st.one_of(st.integers(-1, 4), scalar)},
        optional={
            "bbox_2d": st.one_of(anything, st.lists(number, min_size=4, max_size=4)),
            "bbox": anything,
            "description": scalar,
        },
    ),
)
fields = st.fixed_dictionaries(
    {"action": st.one_of(st.sampled_from([*ACTIONS, "inspect", "Hypothesise", "DANCE", ""]), scalar)},
    optional=dict(
        content=scalar,
        answer=scalar,
        view=view,
        tags=anything,
        confidence=st.one_of(scalar, st.sampled_from(["high", "90%"])),
        target_cell_id=st.one_of(st.integers(-2, 6), scalar),
        supporting_cells=st.one_of(st.lists(st.integers(-1, 9), max_size=4), anything),
    ),
)


def broken(draw_from: str, cut: int, style: int) -> str:
    "Break a well-formed reply in one of the ways that models do."
    return [
        draw_from[:cut],
        f"Sure!\n```json\n{draw_from}\n```",
        f"<tool_call>{draw_from}</tool_call>",
        draw_from.replace('"', "'"),
        draw_from[:-1] + ",}",
        draw_from * 2,
        f"{{{draw_from}",
        draw_from[::-1],
        f"[{draw_from}",
        draw_from.replace(":", "", 1),
    ][style]


reply = st.one_of(
    text,
    anything.map(lambda x: json.dumps(x, default=str)),
    st.builds(broken, fields.map(json.dumps), st.integers(0, 80), st.integers(0, 9)),
    fields.map(json.dumps),
)
slow = settings(max_examples=EPISODES, deadline=None, suppress_health_check=list(HealthCheck))


@slow
@given(st.lists(reply, min_size=PER_EPISODE, max_size=PER_EPISODE), st.sampled_from(['sequential', 'parallel']),
       st.booleans())
def test_malformed_replies_never_end_an_episode(replies, order, error_cells):
    client = ScriptedClient(replies)
    controller = CoSeeController(
        team(client), max_steps=2, order=order, error_cells=error_cells, stop_confidence=2.0, agreement=99
    )
    episode = controller.run([None] * 3, 'What is it?')
    events = episode['trace']['events']
    assert len(events) == 6                                     # nobody lost a turn, the sixth reply ran out
    assert len(client.calls) == 6
    for e in events: assert e['valid'] == (e['cell'] is not None) == (not e['error'])
    assert episode['trace']['invalid'] == sum(bool(e['error']) for e in events)
    for c in episode["board"].list_cells():
        assert 1 <= c["view"]["page"] <= 3 and all(0 <= v <= 1 for v in c["view"].get("bbox", ()))
    assert len(episode['board'].to_text()) <= 2000
    again = replay(json.loads(json.dumps(episode['trace'])))
    assert again['board'].to_json() == episode['board'].to_json() and again['answer'] == episode['answer']


@slow
@given(reply)
def test_parser_says_what_it_found(reply):
    found = parse_reply(reply)
    assert (found.how == 'failed') == (found.action['action'] == 'INVALID') == bool(found.error)
    json.dumps(found.action, allow_nan=False).encode()


@given(st.lists(st.sampled_from(ACTIONS), min_size=1, unique=True), st.integers(1, 20), st.integers(0, 30))
def test_schema_follows_document_and_board(actions, pages, cells):
    schema = action_schema(actions, pages, cells)
    for kind in schema.get('anyOf', [schema]):
        props = kind['properties']
        assert list(props) == kind['required'] and props['action']['enum'][0] in schema['properties']['action']['enum']
        if 'view' in props: assert props['view']['properties']['page']['maximum'] == pages
        if 'target_cell_id' in props: assert 1 <= props['target_cell_id']['maximum'] == cells
