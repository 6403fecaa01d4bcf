"""Output under a grammar: always valid, always within its budget, whatever the model says.

COSEE_CASES=10000 pytest tests/test_grammar.py draws more; benchmarks/grammar.py does so at Qwen's vocabulary."""
import importlib.util, json, os, random, threading
import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip('torch')
from jsonschema import Draft202012Validator
from cosee.models.constrained import JsonGrammar, Vocabulary, vocabulary_of
from cosee.models.testing import random_tokenizer

CASES = int(os.environ.get('COSEE_CASES', 400))


@pytest.fixture(scope='module')
def bench(root):
    spec = importlib.util.spec_from_file_location('benchmark_grammar', root / 'benchmarks/grammar.py')
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module

TOKENIZER = random_tokenizer()
VOCABULARY = vocabulary_of(TOKENIZER)


def model(size, rows, seed): return torch.randn(rows, size, generator=torch.Generator().manual_seed(seed)) * 2


# -- the guarantee

@pytest.mark.slow
def test_every_output_is_valid_and_within_its_budget(bench):
    schemas = bench.role_schemas() | bench.general_schemas()
    writer, chance = bench.RandomModel(0, size=VOCABULARY.size + 17), random.Random(0)
    for i in range(CASES):
        name, schema = list(schemas.items())[i % len(schemas)]
        grammar = JsonGrammar(schema, TOKENIZER)
        budget = chance.randint(max(16, len(grammar.shortest)), max(256, len(grammar.shortest)))
        state, _ = bench.write(grammar, writer, budget, stuck=chance.randrange(24) if i % 5 == 0 else None)
        assert bench.problem(state, schema, budget) == '', (name, budget, state.text)


def test_the_smallest_budget_gives_the_shortest_instance_and_less_is_refused(bench):
    for name, schema in (bench.role_schemas() | bench.general_schemas()).items():
        grammar = JsonGrammar(schema, TOKENIZER)
        with pytest.raises(ValueError, match='too small for this schema'): grammar.start(len(grammar.shortest) - 1)
        state, _ = bench.write(grammar, bench.RandomModel(1, size=VOCABULARY.size), len(grammar.shortest))
        assert bench.problem(state, schema, len(grammar.shortest)) == '', name

# A model at its worst: whatever it may, it chooses what a stranger's data say.
leaf = st.one_of(
    st.fixed_dictionaries({'type': st.just('string')},
                          optional={'minLength': st.integers(0, 4), 'maxLength': st.integers(4, 9)}),
    st.builds(lambda p: {'type': 'string', 'pattern': p}, st.sampled_from(['^[a-c]+$', r'\d\d', '^x?y{2}$', '[^"]$'])),
    st.fixed_dictionaries({'type': st.sampled_from(['integer', 'number'])},
                          optional={'minimum': st.integers(-20, 5), 'maximum': st.integers(5, 2000)}),
    st.builds(lambda v: {'enum': v}, st.lists(st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
                                              min_size=1, max_size=4)),
    st.sampled_from([{'type': 'boolean'}, {'type': 'null'}, {}, {'type': 'object'}, {'type': 'array'}]))

def objects(inner):
    keys = st.text(st.characters(min_codepoint=32, max_codepoint=0x2fff, exclude_categories=['Cs', 'Cn']), max_size=5)
    return st.dictionaries(keys, inner, max_size=4).flatmap(lambda p: st.builds(
        lambda required: {'type': 'object', 'properties': p, 'required': required},
        st.lists(st.sampled_from(list(p)), unique=True) if p else st.just([])))

schemas = st.recursive(leaf, lambda inner: st.one_of(
    objects(inner), st.builds(lambda s, n: {'type': 'array', 'items': s, 'minItems': n}, inner, st.integers(0, 2)),
    st.builds(lambda s: {'anyOf': s}, st.lists(inner, min_size=1, max_size=3))), max_leaves=8)

@settings(max_examples=max(60, CASES // 5))
@given(schemas, st.integers(0, 60), st.integers(0, 2**32))
def test_any_schema_any_budget(schema, room, seed):
    try: grammar = JsonGrammar(schema, TOKENIZER)
    except ValueError as e:
        assert 'no grammar for this schema' in str(e) or 'special token' in str(e)
        return
    state = grammar.start(len(grammar.shortest) + room)
    rows, chance = model(VOCABULARY.size, 6, seed), random.Random(seed)
    state.forced()
    while not state.done: state.step(rows[chance.randrange(6)], torch.argmax)
    Draft202012Validator(schema).validate(json.loads(state.text))
    assert len(state.ids) <= len(grammar.shortest) + room


# -- endings


# -- fast-forward


def test_an_action_spelt_by_the_tokenizer_is_reproduced():
    text = '{"kind":"table","text":"the total of the invoice","page":12,"tags":["total","sales"]}'
    schema = dict(type='object', required=['kind', 'text'], properties=dict(
        kind={'enum': ['figure', 'table']}, text={'type': 'string'}, page={'type': 'integer'},
        tags={'type': 'array', 'items': {'type': 'string'}}))
    want, state = TOKENIZER.encode(text, add_special_tokens=False), JsonGrammar(schema, TOKENIZER).start()
    state.forced()
    while not state.done: state.step(torch.zeros(VOCABULARY.size), lambda _: want[len(state.ids)])
    assert state.ids == want and state.text == text


# -- what can never be written

def test_no_special_token_and_no_control_character_in_a_string():
    tok = random_tokenizer()
    tok.add_tokens(['<think>', '<tool_call>'])   # added, but not marked as special
    state, v = JsonGrammar({'type': 'string'}, tok).start(), vocabulary_of(tok)
    assert {'<think>', '<tool_call>', '<|im_end|>', '<|image_pad|>'} <= set(v.special)
    state.advance(v.ids[b'"'])
    allowed = state.mask()
    assert allowed[v.ids[b'a']] and not allowed[list(v.special.values())].any()
    assert not any(allowed[v.ids[bytes([b])]] for b in range(32))
    with pytest.raises(ValueError, match='not allowed'): state.advance(v.special['<think>'])
    for token in v.spell(b'<think>'): assert state.advance(token)

def test_literals_with_control_characters_are_spelt_as_the_schema_has_them():
    for value in ('a\nb', '\x00', 'tab\t"\\', '\x7f'):
        assert json.loads(JsonGrammar({'const': value}, TOKENIZER).ending) == value
        assert json.loads(JsonGrammar({'type': 'object', 'properties': {value: {'type': 'null'}}, 'required': [value]},
                                      TOKENIZER).ending) == {value: None}


# -- schemas

@pytest.mark.parametrize('schema, word', [
    ({'type': 'array', 'uniqueItems': True}, 'uniqueItems'), ({'not': {'type': 'string'}}, 'not'),
    ({'type': 'colour'}, 'colour'),
    ({'type': 'integer', 'minimum': 4, 'maximum': 3}, 'minimum'), ({'type': 'string', 'pattern': '('}, 'grammar'),
    ({'type': 'string', 'format': 'nonsense'}, 'nonsense'), ({'$ref': 'https://example.org/x.json'}, 'grammar'),
    ({'const': '<|im_end|>'}, 'im_end'), ([], 'dict'), (True, 'dict'), ({'type': 'number', 'minimum': 'a'}, 'minimum'),
    ({'properties': 5, 'type': 'object'}, 'grammar'), ({'type': 5}, 'grammar'),
    ({'type': 'string', 'minLength': 'a'}, 'minLength'), ({'anyOf': []}, 'grammar')])
def test_schemas_that_cannot_be_honoured_are_refused(schema, word):
    with pytest.raises(ValueError, match=word): JsonGrammar(schema, TOKENIZER)

def test_a_schema_without_a_short_instance_is_refused():
    with pytest.raises(ValueError, match='no instance of at most'): JsonGrammar({'$ref': '#'}, TOKENIZER)
    with pytest.raises(ValueError, match='no instance of at most'): JsonGrammar({'const': 'x' * 3000}, TOKENIZER)


def test_tokenizers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match='no fast tokenizer'): Vocabulary(object())
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast
    small = Tokenizer(models.BPE(vocab={'a': 0, 'b': 1, '</s>': 2}, merges=[]))
    small.decoder = decoders.ByteLevel()
    with pytest.raises(ValueError, match='cannot spell every text'):
        Vocabulary(PreTrainedTokenizerFast(tokenizer_object=small, eos_token='</s>'))

def test_threads_share_a_grammar(bench):
    schema = bench.role_schemas()['role reader']
    def run(seed, out):
        grammar = JsonGrammar(schema, TOKENIZER)
        out[seed] = bench.write(grammar, bench.RandomModel(seed, size=VOCABULARY.size), 90)[0].ids
    alone, together = {}, {}
    for seed in range(6): run(seed, alone)
    threads = [threading.Thread(target=run, args=(seed, together)) for seed in range(6)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert alone == together
