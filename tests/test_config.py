"Configuration files as strangers write them: used as they say, or refused by name; and no key in sight."
import pytest
import yaml
from conftest import ROOT
from cosee.utils import config as config_module
from cosee.utils.config import ConfigError, fill_in, redact
from cosee.models.backends import load_config, make_backend, parse_config, usual_backend
from hypothesis import given
from hypothesis import strategies as st

SHIPPED = ROOT / "configs/model_backends.yaml"
KEY = "planted-0123456789-key"


def test_the_shipped_file_names_what_the_planner_specification_names():
    config = load_config(SHIPPED, {})
    assert {"openai.gpt-4o", "anthropic.claude-3.5-sonnet"} <= set(config.ids)
    planner = config.planner
    assert (planner.temperature, planner.top_p, planner.max_tokens, planner.retry_attempts) == (0.0, 0.1, 2048, 3)
    assert {config.backend(i).kind for i in config.ids} == {"openai", "anthropic", "google", "qwen", "gguf"}


def test_every_field_of_the_file_reaches_the_backend():
    raw = yaml.safe_load(SHIPPED.read_text())
    config = load_config(SHIPPED, {})
    for name, fields in raw["backends"].items():
        for alias, own in fields["models"].items():
            backend = config.backend(f"{name}.{alias}")
            own = {"model": own} if isinstance(own, str) else own
            wanted = {k: v for k, v in {**fields, **own}.items() if k not in ("models", "api_key")}
            for field, value in wanted.items():
                got = getattr(backend, field)
                assert got == (tuple(value) if isinstance(value, list) else fill_in(value, {})
                               if isinstance(value, str) else value)


@pytest.mark.parametrize("text, said", [
    ("", "a mapping is expected"), ("- a", "a mapping is expected"), ("a: [", "cannot be read as YAML"),
    ("backend: {}", "backend is not a field"), ("backends: [1]", "backends: a mapping"),
    ("backends: {a: 3}", "backends.a: a mapping"), ("backends: {a: {kind: openai}}", "list at least one model"),
    ("backends: {a.b: {kind: openai, models: {m: m}}}", "no dot"),
    ("backends: {a: {kind: openai, models: {m: 7}}}", "backends.a.models.m"),
    ("backends: {a: {kind: openai, model_name: x, models: {m: m}}}", "a.m: model_name is not a field"),
    ("backends: {a: {kind: openai, id: x, timeout: -1, models: {m: m}}}", "timeout"),
    ("backends: {a: {kind: openai, base_url: 'file:///etc', models: {m: m}}}", "base_url"),
    ("backends: {a: {kind: openai, max_tokens: many, models: {m: m}}}", "max_tokens"),
    ("planner: {retry: 3}", "planner: retry is not a field"),
    ("planner: {retry_attempts: 99}", "retry_attempts"),
    ("backends: !!python/object/apply:os.system [ls]", "cannot be read as YAML"),
    ("backends: {a: {kind: openai, api_key: written-here, models: {m: m}}}", "does not belong in a file"),
    ("backends: {a: {kind: openai, api_key: '${X:-written-here}', models: {m: m}}}", "does not belong in a file"),
    ("a: &a [1]\nb: [*a, *a]", "references"), ("x: 1\nx: 2", "stands twice"),
    ("{[a]: 1}", ""), ("[" * 3000, ""),
])
def test_a_wrong_file_is_refused_in_one_line(text, said):
    with pytest.raises(ConfigError) as e:
        parse_config(text, {}, "my.yaml")
    assert said in str(e.value) and "\n" not in str(e.value) and "my.yaml" in str(e.value)
    assert "written-here" not in str(e.value)


def test_a_variable_that_is_not_set_matters_when_the_backend_is_used():
    config = parse_config("backends: {a: {kind: openai, base_url: '${GONE}', models: {m: m}}}", {}, "my.yaml")
    with pytest.raises(ConfigError, match="a.m.base_url: the environment variable GONE is not set"):
        config.backend("a.m")


def test_the_environment_cannot_add_fields():
    config = parse_config("backends: {a: {kind: openai, models: {m: '${M}'}}}", {"M": "x\napi_key: y"})
    assert config.backend("a").model == "x\napi_key: y"


def test_no_key_in_any_form_of_a_backend():
    text = "backends: {a: {kind: openai, api_key: '${K}', models: {m: m}}}"
    config = parse_config(text, {"K": KEY})
    backend = config.backend("a.m")
    assert backend.api_key.get_secret_value() == KEY
    shown = [repr(config), str(config), repr(backend), backend.model_dump_json(), config.model_dump_json(),
             str(backend.model_dump())]
    assert all(KEY not in s for s in shown)


def test_a_foreign_address_does_not_get_openais_key():
    backend = usual_backend("openai.m", {"OPENAI_API_KEY": KEY}, base_url="http://127.0.0.1:9/v1")
    assert backend.api_key is None and backend.key_variable == "COSEE_API_KEY"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(),
                    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=9), x, max_size=4),
                    max_leaves=12))
def test_any_yaml_is_read_or_refused(data):
    try:
        parse_config(yaml.safe_dump(data, allow_unicode=True), {})
    except ConfigError as e:
        assert "\n" not in str(e)


@given(st.text(max_size=30).filter(lambda s: len(s) >= 6), st.text(max_size=40), st.text(max_size=40))
def test_redaction_leaves_no_key(key, before, after):
    known, key = set(config_module._secrets), key.strip()
    try:
        make_backend({"kind": "openai", "api_key": "${K}"}, {"K": key})
        assert len(key) < 6 or key not in redact(before + key + after) or not key.strip("*")
    finally:  # what this test made up is no secret of the next
        config_module._secrets &= known
