"""What is damaged or odd is said in words: weights, records, settings, caches and the accounts of servers."""
import pytest


# ---------------------------------------------------------------------------------------------------- weights

@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    pytest.importorskip("torch")
    from cosee.models.qwen.random_weights import random_checkpoint
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


def renamed(tensors):
    for name in list(tensors): tensors["wrapped." + name] = tensors.pop(name)


def test_a_checkpoint_with_wrong_tensors_is_refused_with_their_names(random_weights, tmp_path, capfd):
    import torch
    from cosee.models.qwen.checkpoint import ModelError
    from cosee.models.qwen_vl_wrapper import QwenVLClient
    attacks = {
        f"missing: {NORM}": lambda t: t.pop(NORM),
        f"missing: lm_head.weight, {WORDS}": lambda t: t.pop(WORDS),
        "unexpected: extra.weight": lambda t: t.update({"extra.weight": torch.zeros(2)}),
        f"of another shape: {NORM}": lambda t: t.update({NORM: torch.zeros(3)}),
        "more; unexpected: wrapped.": renamed,
    }
    for n, (said, change) in enumerate(attacks.items()):
        folder = damaged_copy(random_weights, tmp_path / str(n), change)
        with pytest.raises(ModelError) as e: QwenVLClient(str(folder))
        assert said in str(e.value) and str(folder) in str(e.value) and len(str(e.value)) < 1500
    assert "LOAD REPORT" not in "".join(capfd.readouterr())


def test_weights_that_are_tied_need_to_be_there_once(random_weights, tmp_path):
    from cosee.models.qwen.checkpoint import load_model
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
    from cosee.index.visual import VisualEncoder
    from cosee.models.qwen.checkpoint import ModelError
    from test_index import random_colqwen2
    whole = random_colqwen2(tmp_path / "whole")
    folder = damaged_copy(whole, tmp_path / "cut", lambda t: t.pop("embedding_proj_layer.weight"))
    with pytest.raises(ModelError, match="cut: .*missing: embedding_proj_layer.weight"): VisualEncoder(folder)
