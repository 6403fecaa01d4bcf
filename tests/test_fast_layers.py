"""Packed weights give what plain ones give, to the last bit, and take no more memory."""
import copy
import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="the extra `qwen` is not installed")

from cosee.models import checkpoint, fast_layers
from cosee.models.client import Request
from cosee.models.fast_layers import use_fast_products
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.models.testing import random_checkpoint

packs = pytest.mark.skipif(not fast_layers._packs(), reason="this processor has no instructions for bfloat16")
WORDS = 4500   # more than two blocks


class Small(torch.nn.Module):
    "A model of two layers whose output layer may be its embedding."
    def __init__(self, tied: bool, bias: bool):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, 96)
        self.inner = torch.nn.Linear(96, 4096, bias=bias)
        self.narrow = torch.nn.Linear(4096, 96, bias=bias)
        self.output = torch.nn.Linear(96, WORDS, bias=bias and not tied)
        if tied:
            self.output.weight = self.words.weight

    def get_input_embeddings(self): return self.words
    def get_output_embeddings(self): return self.output
    def set_input_embeddings(self, new): self.words = new
    def set_output_embeddings(self, new): self.output = new
    def forward(self, ids): return self.output(self.narrow(torch.relu(self.inner(self.words(ids)))))


@packs
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_layers_give_what_plain_ones_give(tied, bias):
    torch.manual_seed(0)
    model = Small(tied, bias).to(torch.bfloat16)
    fast, ids = copy.deepcopy(model), torch.randint(0, WORDS, (41,))
    use_fast_products(fast)
    kinds = {type(m).__name__ for m in fast.modules()}
    assert {"_PackedLinear"} <= kinds and ("_PackedEmbedding" in kinds) == tied
    assert sum(p.numel() for p in fast.parameters()) == sum(p.numel() for p in model.parameters())
    with torch.inference_mode():
        right = model(ids)
        for n in (1, 2, 3, 4, 5, 17, 41):   # a row is the same, alone and among others
            assert torch.equal(fast(ids[:n]), right[:n])
        assert torch.equal(fast(ids[:6].view(2, 3)), model(ids[:6]).view(2, 3, WORDS))
        assert fast(ids[:0]).shape == (0, WORDS)


@packs
def test_other_layers_stay_as_they_are():
    model = Small(tied=False, bias=True)
    model.inner.to(torch.bfloat16)
    model.small = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
    use_fast_products(model)
    assert type(model.inner) is fast_layers._PackedLinear
    assert type(model.small) is torch.nn.Linear and type(model.words) is torch.nn.Embedding


def test_a_processor_without_bfloat16_packs_nothing(monkeypatch):
    monkeypatch.setattr(fast_layers, "_packs", lambda: False)
    model = Small(tied=True, bias=False).to(torch.bfloat16)
    use_fast_products(model)
    assert type(model.output) is torch.nn.Linear and type(model.words) is torch.nn.Embedding


@packs
def test_a_model_with_packed_weights_replies_the_same(tmp_path, monkeypatch):
    stored = random_checkpoint(tmp_path, "bench", dtype="bfloat16")
    monkeypatch.setattr(fast_layers, "_LARGE", 1 << 12)
    def replies():
        client = QwenVLClient(stored)
        requests = [Request(messages=({"role": "user", "content": f"Count from {n}: "},),
                            settings=dict(max_new_tokens=12, temperature=0)) for n in range(3)]
        return type(client.model.lm_head).__name__, [r.text for r in client.respond_many(requests)]
    kind, packed = replies()
    monkeypatch.setattr(fast_layers, "_packs", lambda: False)
    other, plain = replies()
    assert (kind, other) == ("_SharedOutput", "Linear") and packed == plain


@packs
@pytest.mark.parametrize("tied", [True, False])
def test_the_plain_matrices_are_let_go(tied):
    model = Small(tied, bias=False).to(torch.bfloat16)
    matrices = [weakref.ref(m.weight) for m in (model.inner, model.narrow, model.output)]
    use_fast_products(model)
    gc.collect()
    assert [m() for m in matrices] == [None] * 3


@pytest.mark.parametrize(("text", "forbids"), [("always madvise [never]", True), ("always [madvise] never", False),
                                               ("[always] madvise never", False), (None, False)])
def test_what_the_system_says_of_huge_pages(tmp_path, monkeypatch, text, forbids):
    file = tmp_path / "enabled"
    if text:
        file.write_text(text)
    monkeypatch.setattr(checkpoint, "_HUGE_PAGES", file)
    assert checkpoint.forbids_huge_pages() is forbids
