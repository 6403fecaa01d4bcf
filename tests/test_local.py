"""Local models of many architectures: what is shared changes no token, what is wrong is said in one line."""
import json
import os
import random
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
from PIL import Image
from cosee.cli.entry import main
from cosee.models.client import build_messages
from cosee.models.transformers_client import ContextOverflow, TransformersClient
from cosee.models.checkpoint import FAMILIES, ModelError
from cosee.models.testing import RANDOM, random_model
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.models.registry import create_vlm_client, make_client
from asking import chat_many

EPISODES = int(os.environ.get("COSEE_EPISODES", "3"))   # of each architecture; 50 to look closely
SCHEMA = dict(type="object", required=["action", "page", "content"], properties=dict(
    action=dict(enum=["INSPECT", "HYPOTHESIZE"]), page=dict(type="integer", minimum=1, maximum=2),
    content=dict(type="string", maxLength=12)))


def pages(rng):
    "One to three pages of noise"
    return [Image.effect_noise((rng.randint(90, 260), rng.randint(90, 260)), rng.uniform(40, 100)).convert("RGB")
            for _ in range(rng.randint(1, 3))]


def words(rng, most):
    some = ["total", "page", "table", "report", "7", "quarterly", "sales", "<|end|>", "answer", "(#3, step 1)"]
    return " ".join(rng.choices(some, k=rng.randint(1, most)))


def calls(rng, shown):
    "What three agents of an episode ask in turn"
    board = None
    for role in ("You are the scanner.", "You are the detail reader.", "You are the cross-checker."):
        yield build_messages(shown, words(rng, 6), board, role)
        board = (board or "[Page 1]") + "\n- " + words(rng, 12)


@pytest.mark.parametrize("kind", RANDOM)
def test_nothing_that_is_shared_changes_a_token(random_folder, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        shares = TransformersClient(random_folder(kind))
    alone, rng = TransformersClient(random_folder(kind), reuse=False), random.Random(kind)
    assert shares.how == FAMILIES[kind].reuse
    for episode in range(EPISODES):
        shown, first = pages(rng), True
        for asked in calls(rng, shown):
            how = dict(max_new_tokens=rng.randint(20, 30), **rng.choice(
                [dict(temperature=0), dict(seed=episode), dict(seed=1, temperature=1.2), dict(seed=2, schema=SCHEMA)]))
            ours, theirs = shares.chat(asked, **how), alone.chat(asked, **how)
            assert ours.text == theirs.text and ours.raw == theirs.raw and ours.finish_reason == theirs.finish_reason
            if "schema" in how: assert json.loads(ours.text)["action"] in ("INSPECT", "HYPOTHESIZE")
            a, b = ours.usage, theirs.usage
            assert (a.text_tokens, a.image_tokens, a.completion_tokens) == (
                b.text_tokens, b.image_tokens, b.completion_tokens)
            assert b.cached_tokens == 0 and (first or a.cached_tokens >= a.image_tokens > 0)
            first = False
    asked = [*calls(rng, shown)]
    together = chat_many(shares, asked, temperature=0, max_new_tokens=6)
    assert [r.text for r in together] == [alone.chat(m, temperature=0, max_new_tokens=6).text for m in asked]


@pytest.mark.parametrize("kind", ["gemma3", "qwen3_5", "lfm2_vl"])
def test_a_table_that_claims_too_much_is_noticed(random_folder, kind, monkeypatch):
    monkeypatch.setitem(FAMILIES, kind, replace(FAMILIES[kind], reuse="prefix"))
    with pytest.warns(UserWarning, match="share a copy of their beginning, not the beginning"):
        client = TransformersClient(random_folder(kind))
    assert client.how == "copy"


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "glm4v", "paddleocr_vl"])
def test_wrong_positions_are_noticed(random_folder, kind, monkeypatch):
    from cosee.models import prefix_cache as beginnings
    right = beginnings._position_shift
    monkeypatch.setattr(beginnings, "_position_shift", lambda model: right(model) + 9)
    with pytest.warns(UserWarning, match="with that this checkpoint writes other tokens"):
        assert TransformersClient(random_folder(kind)).how == "none"


def test_an_architecture_that_is_not_in_the_table(random_folder, monkeypatch):
    monkeypatch.delitem(FAMILIES, "internvl")
    client = TransformersClient(random_folder("internvl"))
    assert client.how == "copy" and client.family.title.startswith("an architecture")


@pytest.mark.parametrize("kind", ["internvl", "gemma3", "qwen2_5_vl"])
def test_in_four_bits_the_eyes_stay_precise(kind, tmp_path):
    client = TransformersClient(random_model(tmp_path / kind, kind, scale=4), load_in_4bit=True)
    packed = [n for n, m in client.model.named_modules() if type(m).__name__ == "Linear4bit"]
    assert packed and not [n for n in packed if "vis" in n or "projector" in n or "lm_head" in n]
    shown = pages(random.Random(1))
    first, again = (client.chat(build_messages(shown, q), max_new_tokens=6, temperature=0) for q in ("What?", "Who?"))
    assert first.usage.cached_tokens == 0 and again.usage.cached_tokens > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("kind", ["internvl", "gemma3", "qwen2_5_vl"])
def test_on_a_gpu(random_folder, kind):
    shares, alone = (TransformersClient(random_folder(kind), device="cuda", reuse=r) for r in (True, False))
    assert shares.how == FAMILIES[kind].reuse
    for asked in calls(random.Random(2), pages(random.Random(3))):
        for how in (dict(temperature=0), dict(seed=1, schema=SCHEMA)):
            assert shares.chat(asked, max_new_tokens=24, **how).text == alone.chat(
                asked, max_new_tokens=24, **how).text


def test_one_door(tmp_path, random_folder):
    from cosee.models.testing import random_checkpoint
    path = random_checkpoint(tmp_path / "q")
    qwen, asked = make_client("local", model_path=path, max_pixels=65536), build_messages([], "What is the total?")
    assert type(qwen) is QwenVLClient and qwen.max_pixels == 65536
    other = TransformersClient(path)   # not the faster one, but the same model
    assert other.how == "prefix" and other.chat(asked, temperature=0).text == qwen.chat(asked, temperature=0).text
    client = make_client("local", model_path=random_folder("llava"))
    assert type(client) is TransformersClient and client.signature == Path(random_folder("llava")).name
    known = create_vlm_client("house.small", {"backends": {"house": {
        "kind": "local", "model_path": random_folder("llava"), "models": {"small": "llava"}}}})
    assert type(known) is TransformersClient and known.name == "house.small"
    with pytest.raises(ContextOverflow, match="show fewer pages"):
        client.context = 60
        client.chat(build_messages([Image.new("RGB", (99, 99))] * 9, "What?"))


def broken(kind, random_folder, at):
    "A directory with something wrong in it"
    at.mkdir()
    for path in Path(random_folder("llava")).iterdir(): (at / path.name).write_bytes(path.read_bytes())
    config = json.loads((at / "config.json").read_text())
    if kind == "no processor": (at / "processor_config.json").unlink()
    elif kind == "half": (at / "model.safetensors").write_bytes((at / "model.safetensors").read_bytes()[:5000])
    elif kind == "pickle": (at / "model.safetensors").rename(at / "pytorch_model.bin")
    elif kind == "huge":
        head = json.dumps(dict(a=dict(dtype="BF16", shape=[2**24, 2**20], data_offsets=[0, 1]))).encode()
        (at / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    elif kind == "template": (at / "chat_template.jinja").unlink()
    else: (at / "config.json").write_text(json.dumps(config | {
        "unknown": dict(model_type="seer_9000"), "text": dict(model_type="llama"),
        "own code": dict(model_type="seer_9000", auto_map={"AutoModel": "seer.Seer"})}[kind]))
    return str(at)


@pytest.mark.parametrize("kind, says", [
    ("no processor", "preprocessor_config.json is missing"), ("half", "cannot be loaded"),
    ("pickle", "pickled weights, which are never opened; convert them to safetensors"),
    ("huge", r"its weights take [\d.]+ GB( in float32)?, and [\d.]+ GB are free; use quantised weights"),
    ("unknown", "'seer_9000' model, which is no"),
    ("text", "'llama' model, which is no vision-language model"), ("own code", "needs code of its own, and that is"),
    ("template", "has no chat template")])
def test_directories_that_cannot_be_used(random_folder, tmp_path, kind, says):
    path = broken(kind, random_folder, tmp_path / "m")
    with pytest.raises(ModelError, match=says) as e: TransformersClient(path)
    assert "\n" not in str(e.value)
    assert not [n for n in sys.modules if "seer" in n]


def test_the_command_line(random_folder, capsys, tmp_path, doc):
    said = random_folder("smolvlm")
    assert main(["models", "show", said]) == 0
    out = capsys.readouterr().out
    assert "SmolVLM (smolvlm)" in out and f"--client local --model-path {said}" in out
    assert main(["models", "show", said, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["reuse"], told["client"], told["dtype"]) == ("prefix", "local", "F32")
    assert main(["models", "show", broken("own code", random_folder, tmp_path / "m")]) != 0
    assert "code of its own" in capsys.readouterr().err
    done = subprocess.run([Path(sys.executable).with_name("cosee"), "ask", str(doc), "-q", "What is the total?",
                           "--client", "local", "--model-path", said, "--method", "team", "--json"],
                          capture_output=True, text=True)
    result = json.loads(done.stdout)[0]
    assert result["tokens"]["image_tokens"] > 0 and result["tokens"]["cached_tokens"] > 0, done.stderr


def test_weights_of_another_architecture_are_sent_to_the_client_that_opens_them(random_folder):
    folder = random_folder("qwen2_5_vl")
    with pytest.raises(ModelError, match=r"'qwen2_5_vl' model, not qwen3_vl; the client `local` opens it"):
        create_vlm_client("qwen.m", {"model_path": folder})
    assert create_vlm_client("local.m", model_path=folder).family is FAMILIES["qwen2_5_vl"]
    with pytest.raises(ModelError, match="no such directory.*get the weights"):
        create_vlm_client("qwen.m", {"model_path": f"{folder}/none"})
