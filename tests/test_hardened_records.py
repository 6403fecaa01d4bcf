"""What is damaged or odd is said in words: weights, records, settings, caches and the accounts of servers."""
import json, os, shutil, signal, subprocess, sys, time
from contextlib import suppress
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from asking import chat_many


# ---------------------------------------------------------------------------------------------------- weights

@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    pytest.importorskip("torch")
    from cosee.models.testing import random_checkpoint
    return random_checkpoint(tmp_path_factory.mktemp("weights"))


def damaged_copy(folder, target, change):
    "A checkpoint whose tensors went through `change`."
    import shutil
    from safetensors.torch import load_file, save_file
    shutil.copytree(folder, target)
    tensors = load_file(target / "model.safetensors")
    change(tensors)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


WORDS, NORM = "model.language_model.embed_tokens.weight", "model.language_model.norm.weight"


def spoilt(tensors):
    "Put NaN into one place, and infinity into another"
    tensors[WORDS][0, 0], tensors[NORM][1] = -float("inf"), float("nan")


def renamed(tensors):
    for name in list(tensors): tensors["wrapped." + name] = tensors.pop(name)


def test_a_checkpoint_with_wrong_tensors_is_refused_with_their_names(random_weights, tmp_path, capfd):
    import torch
    from cosee.models.checkpoint import ModelError
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    attacks = {
        f"missing: {NORM}": lambda t: t.pop(NORM),
        f"missing: lm_head.weight, {WORDS}": lambda t: t.pop(WORDS),
        "unexpected: extra.weight": lambda t: t.update({"extra.weight": torch.zeros(2)}),
        f"of another shape: {NORM}": lambda t: t.update({NORM: torch.zeros(3)}),
        "more; unexpected: wrapped.": renamed,
        f"NaN or infinity in: {WORDS}, {NORM}": spoilt,
    }
    for n, (said, change) in enumerate(attacks.items()):
        folder = damaged_copy(random_weights, tmp_path / str(n), change)
        with pytest.raises(ModelError) as e: QwenVLClient(str(folder))
        assert said in str(e.value) and str(folder) in str(e.value) and len(str(e.value)) < 1500
    assert "LOAD REPORT" not in "".join(capfd.readouterr())


def test_weights_that_are_tied_need_to_be_there_once(random_weights, tmp_path):
    from cosee.models.checkpoint import load_model
    model, _ = load_model(random_weights)
    both = damaged_copy(random_weights, tmp_path / "both", lambda t: t.update({"lm_head.weight": t[WORDS].clone()}))
    assert (load_model(both)[0].lm_head.weight == model.lm_head.weight).all()


def test_cosee_ask_refuses_a_damaged_checkpoint(random_weights, tmp_path, capsys):
    from PIL import Image
    from cosee.cli.entry import main
    folder = damaged_copy(random_weights, tmp_path / "weights", lambda t: t.pop(NORM))
    Image.new("RGB", (60, 60), "white").save(tmp_path / "page.png")
    code = main(["ask", str(tmp_path / "page.png"), "-q", "What?", "--client", "qwen", "--model-path", str(folder)])
    assert code == 2 and NORM in capsys.readouterr().err


def test_a_visual_retriever_with_a_missing_tensor_is_refused(tmp_path):
    pytest.importorskip("torch")
    from cosee.models.testing import random_retriever
    from cosee.retrieval.embeddings import VisualEncoder
    from cosee.models.checkpoint import ModelError
    whole = random_retriever(tmp_path / "whole")
    folder = damaged_copy(whole, tmp_path / "cut", lambda t: t.pop("embedding_proj_layer.weight"))
    with pytest.raises(ModelError, match="cut: .*missing: embedding_proj_layer.weight"): VisualEncoder(folder)


# ---------------------------------------------------------------------------------------------------- records

RUN = ["run", "--limit", "2", "--method", "direct", "--set", "dataset.options.pages=1", "--quiet"]
DAMAGE = [b"\xff\xfe no text\n", b"[1]\n", b'{"sample": "x"}\n', b"[" * 50_000 + b"\n", b'{"sample": NaN}\n']
ODD = [dict(usage=7), dict(usage=dict(total_tokens="many")), dict(usage=dict(calls=-1)), dict(index="first"),
       dict(index="1"), dict(seed="1"), dict(page="2"),
       dict(index=10**400), dict(gold="7"), dict(gold=[None]), dict(answer=["7"]), dict(status="fine"), dict(method=3),
       dict(sample=["a"]), dict(meta=[]), dict(meta=dict(evidence_pages="1")), dict(times=3),
       dict(times=dict(seconds="x")),
       dict(evidence=[dict(bbox=[0, 0, 1, 1])]), dict(evidence=[dict(page=1, bbox=[0, "a", 1, 1])]), dict(page=[1]),
       dict(confidence="high"), dict(scores=dict(anls="x")), dict(board=7), dict(board=dict(cells=[7])),
       dict(trace=dict(calls=7)), dict(trace=dict(ledger=dict(entries=[dict(usage=dict(calls="x"))]))), dict(team=[1]),
       dict(shown="all"), dict(attempt="x"), dict(error=["x"]), dict(question=None), dict(right=2), dict(invalid="x")]


def made_run(folder):
    from cosee.cli.entry import main
    assert main([*RUN, "--output-dir", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("runs") / "sound")


@pytest.fixture
def damaged(sound, tmp_path):
    "A run with five damaged lines and a record of wrong types for each field."
    folder = tmp_path / "damaged"
    shutil.copytree(sound, folder)
    good = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    odd = [json.dumps({**json.loads(good[0]), "sample": f"odd {i}", **fields}).encode() + b"\n"
           for i, fields in enumerate(ODD)]
    (folder / "records.jsonl").write_bytes(b"".join([good[0], *DAMAGE, *odd, *good[1:]]))
    return folder


COMMANDS: dict[str, list[str]] = {
    "status": ["report", "--format", "status"], "text": ["report", "--format", "text"], "report": ["report"],
    "table": ["report", "-o", "{}/t.csv"], "run": ["run"], "view": ["view", "--export", "{}/site"],
    "submission": ["report", "--format", "submission", "--method", "direct", "--form", "dude", "-o", "{}/s.json"]}


@pytest.mark.slow
@pytest.mark.faults("a damaged record, read by every command")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_names_and_counts_damaged_lines_and_goes_on(damaged, sound, tmp_path, capsys, name):
    from cosee.cli.entry import main
    command, *more = [a.format(tmp_path) for a in COMMANDS[name]]
    code, told = main([command, str(damaged), *more, "--quiet"]), capsys.readouterr()
    assert code == (1 if name == "status" else 0), told.err
    lines = [line for line in told.err.splitlines() if "records.jsonl" in line]
    assert len(lines) == 1 and f"{len(DAMAGE) + len(ODD)} lines are left out: line 2 (it is no JSON" in lines[0]
    assert main([command, str(sound), *more, "--quiet"]) == 0
    same = capsys.readouterr()
    assert "left out" not in same.err
    if name == "text": assert same.out == told.out


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_strict_refuses_a_damaged_run(damaged, tmp_path, capsys, name):
    from cosee.cli.entry import main
    command, *more = [a.format(tmp_path) for a in COMMANDS[name]]
    before = sorted(tmp_path.rglob("*"))
    assert main([command, str(damaged), *more, "--strict", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert "line 2 (" in err and "records.jsonl" in err and len(err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_status_shows_which_lines_are_damaged(damaged, capsys):
    from cosee.cli.entry import main
    assert main(["report", str(damaged), "--format", "status", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["damaged"]
    assert [d["line"] for d in told] == list(range(2, 2 + len(DAMAGE) + len(ODD)))
    assert "field usage: " in told[len(DAMAGE)]["why"]


@pytest.mark.parametrize("fields", ODD)
def test_a_record_of_wrong_types_is_one_for_no_reader(sound, fields):
    from cosee.runs.log import parse_record
    line = (sound / "records.jsonl").read_bytes().splitlines()[0]
    assert parse_record(line)["status"] == "ok"
    with pytest.raises(ValueError, match=f"field {next(iter(fields))}: |no JSON"):
        parse_record(json.dumps({**json.loads(line), **fields}).encode())


@pytest.mark.parametrize("about", ["", "{", "[]", "7", "null", '{"methods": 3}', '{"methods": [3]}', '{"x": NaN}',
                                   "{}",
                                   '{"config": 7}', '{"metrics": []}', '{"metrics": {"anls": 3}}', '{"versions": 1}'])
@pytest.mark.parametrize("name", ["status", "text", "run", "submission", "report", "episode", "records"])
def test_a_damaged_run_json_is_said_in_a_line(sound, tmp_path, capsys, about, name):
    from cosee.cli.entry import main
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    (folder / "run.json").write_text(about)
    sample = json.loads((folder / "records.jsonl").read_text().splitlines()[0])["sample"]
    more = dict(submission=["--format", "submission", "--method", "direct", "-o", str(tmp_path / "s.json")],
                episode=["--episode", sample], status=["--format", "status"], text=["--format", "text"],
                records=["--format", "records", "-o", str(tmp_path / "joined")]).get(name, [])
    code, told = main(["run" if name == "run" else "report", str(folder), *more]), capsys.readouterr()
    assert code in (0, 2) and "Traceback" not in told.err
    if code: assert "run.json" in told.err and all(l.startswith("cosee") for l in told.err.splitlines())


def test_a_trace_that_cannot_be_replayed_is_said(sound, tmp_path, capsys):
    from cosee.cli.entry import main
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    record = json.loads((folder / "records.jsonl").read_text().splitlines()[0])
    traces = dict(events=[{}]), dict(kind="calls"), dict(kind=7, pages=[], events=[dict(step="x")])
    for i, trace in enumerate(traces):
        (folder / "records.jsonl").write_text(json.dumps({**record, "trace": trace, "board": dict(cells=[])}) + "\n")
        assert main(["report", str(folder), "--episode", record["sample"]]) in (0, 2), i
        assert "Traceback" not in capsys.readouterr().err


# --------------------------------------------------------------------------------------- questions and settings

def questions(folder, *rows):
    "Questions about a page in the package's own layout: JSONL that may hold what JSON may not."
    from PIL import Image, ImageDraw
    (folder / "images").mkdir(parents=True)
    page = Image.new("RGB", (400, 120), "white")
    ImageDraw.Draw(page).text((20, 40), "There are 7 apples.", fill="black", font_size=28)
    page.save(folder / "images/a.png")
    lines = [json.dumps({"images": ["images/a.png"], "question": "How many?", "answer": "7", "meta": {}} | row)
             for row in rows]
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "samples.jsonl"


NAN = float("nan")
UNRECORDABLE = [dict(meta=dict(id=[1, 2])), dict(meta=dict(id={})), dict(meta=dict(id=NAN)), dict(answer=[NAN]),
                dict(answer=["7", None]), dict(answer=[["7"]]), dict(meta=dict(id="x", evidence_pages=[NAN])),
                dict(meta=dict(id="x", evidence_boxes=NAN)), dict(meta=dict(id="x", n_pages="many")),
                dict(meta=dict(id="x", doc_id=[1]))]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["--workers", "1", "--time-limit", "60"]])
def test_what_cannot_be_recorded_is_skipped_by_name(tmp_path, capsys, workers):
    from cosee.cli.entry import main
    path = questions(tmp_path / "data", dict(meta=dict(id="first")), *UNRECORDABLE, dict(meta=dict(id="last")))
    args = ["run", "--dataset", "jsonl", "--root", str(path), "--method", "direct", "--quiet", *workers]
    assert main([*args, "--output-dir", str(tmp_path / "run"), "--json"]) == 1
    told = capsys.readouterr()
    skipped = json.loads(told.out)["skipped"]
    assert len(skipped) == len(UNRECORDABLE) and "Traceback" not in told.err and "not readable" in told.err
    assert sum("id [1, 2] is no text and no number" in s for s in skipped) == 1
    rows = [json.loads(line) for line in (tmp_path / "run/records.jsonl").read_text().splitlines()]
    assert [r["sample"] for r in rows] == ["first", "last"] and all(r["status"] == "ok" for r in rows)


@pytest.mark.parametrize("row", UNRECORDABLE)
def test_what_cannot_be_recorded_ends_a_run_that_skips_nothing(tmp_path, capsys, row):
    from cosee.cli.entry import main
    path = questions(tmp_path / "data", row)
    args = ["run", "--dataset", "jsonl", "--root", str(path), "--method", "direct", "--set", "dataset.errors=raise"]
    assert main([*args, "--output-dir", str(tmp_path / "run"), "--quiet"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("field, value", [
    ("gen.temperature", ".nan"), ("gen.temperature", ".inf"), ("client.options.x", "[1, .nan]"),
    ("dataset.options.dpi", ".nan"), ("methods", "[{type: direct, max_new_tokens: .nan}]"), ("seed", ".nan"),
    ("budget.max_tokens", ".inf")])
def test_settings_that_are_no_numbers_are_refused_before_the_first_question(tmp_path, capsys, field, value):
    from cosee.cli.entry import main
    (tmp_path / "run.yaml").write_text("dataset: {limit: 1}\nmethods: [direct]\n")
    more = ["--set", f"{field}={value}", "--output-dir", str(tmp_path / "run"), "--quiet"]
    assert main(["run", str(tmp_path / "run.yaml"), *more]) == 2
    said = capsys.readouterr().err
    assert field.split(".")[0] in said and len(said.splitlines()) == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["--time-limit", "--gpus-per-actor"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_limits_that_are_no_numbers_are_refused(tmp_path, capsys, option, value):
    from cosee.cli.entry import main
    assert main([*RUN, "--output-dir", str(tmp_path / "run"), f"{option}={value}"]) == 2
    assert "number from 0" in capsys.readouterr().err and not (tmp_path / "run").exists()


@pytest.mark.parametrize("outcome", [dict(answer=["a", "list"]), dict(confidence=NAN), dict(trace={"x": NAN}),
                                     dict(trace={"calls": 7}), dict(page="one"), dict(evidence=[dict(page=None)])])
def test_an_outcome_that_cannot_be_recorded_is_a_failed_question(outcome):
    from types import SimpleNamespace
    from cosee.models.testing import ScriptedClient
    from cosee.runs.config import make_config
    from cosee.runs.log import record_fault, to_line
    from cosee.runs.record import answer_one, samples_of
    config = make_config(dict(dataset=dict(limit=1, options=dict(pages=1)), methods=["direct"]))
    index, sample = next(samples_of(config.dataset))
    said = dict(answer="a", confidence=None, page=1, evidence=[], invalid=0, raised=0, steps=1, stopped="answered",
                usage={}, board=None, trace=None) | outcome
    method = SimpleNamespace(name="own", run=lambda *args: said)
    record = answer_one(config, method, index, sample, ScriptedClient([]))
    assert record["status"] == "failed" and record["error"] and not record_fault(record) and to_line(record)


# ------------------------------------------------------------------------------------------ caches and accounts

def key(client, temperature=0):
    from cosee.models.wrappers import call_key
    from cosee.models.client import page_request
    return call_key(client, page_request([], "What is the total?", settings=dict(temperature=temperature)))


def test_the_key_of_a_reply_holds_what_readers_of_print_are_set_to(monkeypatch):
    import cosee
    from cosee.models.text_client import MultimodalClient, TextClient
    from cosee.models.testing import ScriptedClient
    from cosee.models.reader_client import OcrClient
    from cosee.text.ocr import TextExtractor

    def ocr(**settings): return OcrClient(**{"cache": None} | settings)
    llm = ScriptedClient(["7"])
    makers = [lambda: ocr(), lambda: ocr(text_source="ocr"), lambda: ocr(max_side=800), lambda: ocr(abstain=.5),
              lambda: TextClient(llm), lambda: TextClient(llm, words=TextExtractor(max_side=900)),
              lambda: TextClient(llm, text_source="ocr"), lambda: TextClient(llm, page_tokens=50),
              lambda: MultimodalClient(llm), lambda: MultimodalClient(llm, page_tokens=50),
              lambda: MultimodalClient(llm, text_source="ocr")]
    keys = [key(make()) for make in makers]
    assert len({*keys}) == len(keys) and [key(make()) for make in makers] == keys
    monkeypatch.setattr(cosee, "__version__", "99.0")
    assert not {key(make()) for make in makers} & {*keys}


@pytest.mark.slow
@pytest.mark.parametrize("kind, variable", [("openai", "OPENAI_BASE_URL"), ("anthropic", "ANTHROPIC_BASE_URL"),
                                            ("google", "GOOGLE_GEMINI_BASE_URL")])
def test_the_key_of_a_reply_holds_the_address_that_the_environment_names(monkeypatch, kind, variable):
    from cosee.models.backends import Backend
    from cosee.models.registry import CLIENTS
    from cosee.utils.config import load_object

    def made(**fields):
        return key(load_object(CLIENTS[kind].backend)(Backend(kind=kind, model="m", **fields), "k" * 20))
    usual, own = made(), made(base_url="http://127.0.0.1:9/v1")
    monkeypatch.setenv(variable, "http://127.0.0.1:8/v1")
    assert len({usual, own, made()}) == 3


FIELDS = {"openai": [("usage", n) for n in ("prompt_tokens", "completion_tokens", "prompt_tokens_details")],
          "anthropic": [("usage", n) for n in ("input_tokens", "output_tokens", "cache_read_input_tokens")],
          "google": [("usageMetadata", n) for n in ("promptTokenCount", "candidatesTokenCount")]}
ODD_VALUES = ["many", -5, 10**30, 1e300, 2.5, True, [], {"a": 1}, ["7"], None]


def server_client(server, **fields):
    from cosee.models.backends import Backend
    from cosee.models.registry import CLIENTS
    from cosee.utils.config import load_object
    backend = Backend(kind=server.wire, model="m", id=f"{server.wire}.m", base_url=server.base_url, max_retries=0,
                      timeout=20)
    return load_object(CLIENTS[server.wire].backend)(backend, "planted-0123456789")


def heard(answers, wire):
    "What a client makes of each of several answers of a server: a reply or an error."
    from fake_servers import FakeServer
    with FakeServer(wire, list(answers)) as server:
        client = server_client(server)
        asked = [[dict(role="user", content="How many apples?")]] * len(answers)
        outcomes = []
        for messages in asked: outcomes += chat_many(client, [messages], params=[{}], errors="return")
        return outcomes


@pytest.mark.parametrize("wire", FIELDS)
def test_counts_of_a_server_that_cannot_be_are_not_believed(wire):
    from cosee.models.client import Reply
    from cosee.models.usage import Ledger
    from cosee.models.remote import MOST_TOKENS, VLMClientError
    from fake_servers import WIRES
    answers = []
    for where, name in FIELDS[wire]:
        for value in ODD_VALUES:
            answer = WIRES[wire]("There are seven.")
            answer[where][name] = value
            answers.append(answer)
    for value in ("many", [], 7, True): answers.append(WIRES[wire]("There are seven.") | {FIELDS[wire][0][0]: value})
    ledger = Ledger(max_tokens=10**9)
    for outcome in heard(answers, wire):
        if not isinstance(outcome, Reply):
            assert isinstance(outcome, VLMClientError), repr(outcome)
            continue
        usage = ledger.add(outcome.usage)
        counts = [usage.text_tokens, usage.image_tokens, usage.cached_tokens, usage.completion_tokens]
        assert all(type(n) is int and 0 <= n <= 3 * MOST_TOKENS for n in counts) and usage.completion_tokens, usage
    assert ledger.total.total_tokens < 10**9


def places(x, path=()):
    "The paths of all fields of an answer."
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    return [p for k, v in items for p in ([(*path, k)] + places(v, (*path, k)))]


def put(answer, path, value):
    "An answer with another value in one place."
    answer = json.loads(json.dumps(answer))
    here = answer
    for k in path[:-1]: here = here[k]
    here[path[-1]] = value
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("wire", FIELDS)
def test_odd_types_of_any_field_are_errors_that_others_can_stand_in_for(wire):
    from cosee.models.client import Reply
    from cosee.models.remote import VLMClientError
    from fake_servers import WIRES
    good = WIRES[wire]("There are seven.")
    answers = [put(good, path, value) for path in places(good) for value in ("x", 7, [None], {"a": 1})]
    for outcome in heard(answers, wire):
        read = isinstance(outcome, Reply) and isinstance(outcome.text, str)
        assert read or isinstance(outcome, VLMClientError), outcome


# ------------------------------------------------------------------------------------------------------ replies

# COSEE_REPLIES=50000 pytest tests/test_hardened_records.py -k replies asks for more of them
REPLIES = int(os.environ.get("COSEE_REPLIES", 300))
ODD_JSON = ["Infinity", "-Infinity", "NaN", "1e400", "-1e400", "9" * 400, "-" + "9" * 400, "9" * 5000, "1e-400",
            "0." + "9" * 5000, "true", "null", '"x"', '""', "[]", "{}", "[1,2]", "[null]", '"\\ud800"', '"1e400"',
            f'"{"9" * 400}"', "[Infinity,0,1,1]", f"[{'9' * 400},1,1,1]", '{"page":1e400}', '"\\u0000"', '"²"',
             '"٣"',
            '"1_0"', '{"page": NaN, "bbox_2d":[1e400,1,2,3]}', "[[[[]]]]", "[1e400]", f"[{'9' * 400}]", '["²"]', "-1",
             "0"]
GOOD_JSON = {"action": ['"INSPECT"', '"LINK"', '"HYPOTHESIZE"', '"REVISE"'], "tool": ['"zoom"'],
             "args": ['{"page":1}'],
             "view": ['{"page":1,"bbox_2d":[0,0,500,500]}', '{"page":1}'], "page": ["1"], "bbox_2d": ["[0,0,9,9]"],
             "content": ['"a note"'], "answer": ['"7"'], "target_cell_id": ["1"], "supporting_cells": ["[1]"],
             "confidence": ["0.9", '"high"'], "tags": ['["table"]'], "query_type": ['"IQA"'],
             "query_scope": ['"Global"'],
             "distortion_source": ['"Inferred"'], "distortions": ['{"Global":["Blur"]}', "null"],
             "reference_mode": ['"NR"'], "required_tool": ["null"], "plan": ['{"tool_execution":true}'],
             "pages": ["[1]"],
             "question": ['"What?"'], "tools": ['["zoom"]'], "name": ['"zoom"'], "arguments": ['"{}"', "{}"]}


def reply_of(fields): return "{" + ",".join(f'"{k}":{v}' for k, v in fields.items()) + "}"


def parsed(text):
    "Every parser on a reply; anything but a reading or a plain refusal is an error."
    from cosee.agents import parse_reply
    from cosee.utils.json_scan import read_answer
    from cosee.models.remote import ResponseParseError
    from cosee.planner.document_plan import DocumentPlan
    from cosee.planner.state import PlannerOutput, parse_plan
    from cosee.document.tool import parse_tool_call
    json.dumps(parse_reply(text).action, allow_nan=False)
    json.dumps([read_answer(text)], allow_nan=False)
    parse_tool_call(text)
    for kind in (PlannerOutput, DocumentPlan):
        with suppress(ResponseParseError): parse_plan(text, kind)


odd_values = st.sampled_from(ODD_JSON) | st.text(max_size=12).map(json.dumps) | st.integers().map(str)
values = odd_values | st.lists(odd_values, max_size=3).map(lambda v: f"[{','.join(v)}]")
replies = st.tuples(
    st.sampled_from(["", "<think>x</think>", "```json\n", "Answer: ", "<tool_call>", "{", "[", "\\boxed{"]),
    st.dictionaries(st.sampled_from([*GOOD_JSON]), values | st.just(None), min_size=1, max_size=9).map(
        lambda d: reply_of({k: GOOD_JSON[k][0] if v is None else v for k, v in d.items()})),
    st.sampled_from(["", "\n```", "</tool_call>", "}", " and so on", '{"action":', "\x00"]), st.integers(0, 60)
).map(lambda t: (t[0] + t[1])[:len(t[0] + t[1]) - t[3] if t[3] > 45 else None] + t[2])


@pytest.mark.slow
@pytest.mark.faults("a reply of any kind, through every parser")
@settings(max_examples=REPLIES, deadline=None, derandomize=REPLIES == 300, database=None,
          suppress_health_check=list(HealthCheck))
@example(reply_of({"query_scope": "[[]]", "distortions": '"x"'}))
@given(replies | st.text(max_size=200))
def test_replies_of_any_kind_are_read(counts, text):
    parsed(text)
    counts["read or refused in words"] += 1


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_steps_survive_odd_replies_in_either_order(order):
    from cosee.models.testing import ScriptedClient
    from cosee.runs.config import make_config
    from cosee.runs.record import answer_one, make_method, samples_of
    config = make_config(dict(dataset=dict(limit=1, options=dict(pages=1)),
                              methods=[dict(type="cosee_base", order=order, max_steps=2)]))
    index, sample = next(samples_of(config.dataset))
    usual = {k: v[0] for k, v in GOOD_JSON.items()}
    for field in ("action", "view", "target_cell_id", "supporting_cells", "confidence", "answer"):
        client = ScriptedClient([reply_of(usual | {field: odd}) for odd in ODD_JSON], cycle=True)
        record = answer_one(config, make_method(config.methods[0]), index, sample, client)
        assert record["status"] == "ok", record["error"]


# ------------------------------------------------------------------------------------- viewer, workers and plugins

@pytest.mark.parametrize("field", ["limit", "options", "shuffled"])
def test_a_crafted_run_costs_the_viewer_nothing(sound, tmp_path, field):
    from cosee.runs.viewer import Viewer
    folder = tmp_path / "run"
    shutil.copytree(sound, folder)
    about = json.loads((folder / "run.json").read_text())
    about["config"]["dataset"] |= dict(limit=dict(limit=10**9), options=dict(options=dict(pages=10**9)),
                                       shuffled=dict(limit=10**9, shuffle=1))[field]
    (folder / "run.json").write_text(json.dumps(about))
    record = json.loads((folder / "records.jsonl").read_text().splitlines()[0])
    (folder / "records.jsonl").write_text(json.dumps({**record, "index": 10**9 - 1}) + "\n")
    viewer, start = Viewer(folder), time.monotonic()
    viewer.update()
    page = viewer.episode(viewer.rows()[0].key)
    assert "too large" in page and time.monotonic() - start < 20


def test_a_report_is_written_whole_or_not_at_all(sound, tmp_path, monkeypatch):
    from cosee.runs.report import Report
    report, path = Report(sound), tmp_path / "report.md"
    report.save(path)
    before = path.read_bytes()

    def full(*args): raise OSError(28, "No space left on device")
    with monkeypatch.context() as m:
        m.setattr("os.replace", full)
        with pytest.raises(OSError): report.save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["report.md"]


def test_a_plugin_that_ends_the_program_is_an_error(tmp_path, monkeypatch, capsys):
    from cosee.cli.entry import main
    from cosee.utils.config import load_plugin
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("leaving", "broken"):
        assert main([*RUN, "--output-dir", str(tmp_path / "run"), "--set", f'plugins=["{name}"]']) == 2
        assert name in capsys.readouterr().err and not (tmp_path / "run").exists()
        with pytest.raises(ImportError, match=name): load_plugin(str(tmp_path / f"{name}.py"))


MAIN = "import sys; from cosee.cli.entry import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.slow
@pytest.mark.faults("a signal while workers answer")
@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_workers_without_a_traceback(tmp_path, sent):
    (tmp_path / "sleepy.py").write_text("import os, pathlib, time\nfrom cosee.models.client import VLMClient, Reply\n"
                                        "from cosee.models.registry import register_client\n"
                                        "@register_client('sleepy')\nclass Sleepy(VLMClient):\n    name = 'sleepy'\n"
                                        "    def send(self, messages, schema=None, **params):\n"
                                        f"        pathlib.Path({str(tmp_path)!r}, f'{{os.getpid()}}.asleep').touch()\n"
                                        "        time.sleep(300)\n        return Reply(text='7')\n")
    args = ["run", "--dataset", "made", "--limit", "4", "--method", "direct", "--client", "sleepy", "--workers", "2",
            "--set", 'plugins=["sleepy"]', "--output-dir", str(tmp_path / "run"), "--quiet"]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', os.getcwd())}"}
    run = subprocess.Popen([sys.executable, "-c", MAIN, *args], env=env, stderr=subprocess.PIPE, text=True,
                           start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    def asleep(): return [p.stem for p in tmp_path.glob("*.asleep")]
    while len(asleep()) < 2 and run.poll() is None: time.sleep(.05)
    workers = asleep()
    os.killpg(run.pid, sent) if sent == signal.SIGINT else run.send_signal(sent)
    _, err = run.communicate(timeout=60)
    assert len(workers) == 2 and "Traceback" not in err and run.returncode != 0, err
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
