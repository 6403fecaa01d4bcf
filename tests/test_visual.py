"""Pages found by their look: checkpoints of each family, broken folders, vectors that are kept and searched."""
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cosee.focus import make_focus
from cosee.retrieval.index import PageIndex
from cosee.models.testing import RETRIEVERS, WIDE, random_retriever
from cosee.retrieval.embeddings import VisualEncoder, late_interaction
from cosee.models.checkpoint import ModelError
from PIL import Image

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ["Total?", "Which page has the table of the quarterly sales report?"]


def drawn(n, seed=0):
    "Pages of noise in several shapes."
    rng = np.random.default_rng(seed)
    sizes = [(90, 60), (60, 90), (120, 40), (100, 100)]
    return [Image.fromarray(rng.integers(0, 256, (*sizes[i % 4], 3), dtype=np.uint8)) for i in range(n)]


class NoPrint:
    "Reads nothing, as of scans without OCR."
    def read(self, items, text_source=None): return [dict(lines=[]) for _ in items]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("retrievers")
    return {kind: random_retriever(home / kind, kind) for kind in RETRIEVERS}


@pytest.fixture(scope="module")
def encoder(folders): return VisualEncoder(folders["colqwen2"])


def index_of(document, visual, folder=None):
    return PageIndex(document, words=NoPrint(), embeddings=False, visual=visual, folder=folder)


# --- checkpoints ---

@pytest.mark.parametrize("kind", RETRIEVERS)
def test_each_family_gives_the_same_vectors_alone_and_together(kind, folders):
    encoder, pages = VisualEncoder(folders[kind]), drawn(4)
    together = encoder.encode_pages(pages)
    for page, rows in zip(pages, together, strict=True):
        [alone] = encoder.encode_pages([page])
        assert rows.dtype == np.float16 and rows.shape == alone.shape and rows.shape[1] == encoder.width == WIDE
        assert np.abs(rows.astype(float) - alone).max() < 2e-3
        assert np.allclose(np.linalg.norm(rows.astype(float), axis=1), 1, atol=2e-3)   # none is of padding
    for text, rows in zip(QUESTIONS, encoder.encode_questions(QUESTIONS), strict=True):
        assert np.abs(rows - encoder.encode_questions([text])[0]).max() < 1e-5
        assert np.linalg.norm(rows, axis=1).min() > .99


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_each_family_ranks_pages_and_is_not_asked_twice(kind, folders, tmp_path):
    encoder, pages = VisualEncoder(folders[kind]), drawn(5)
    hits = index_of(pages, folders[kind], tmp_path).search("Which page is red?", 5)
    vectors = [encoder.encode_pages([p])[0] for p in pages]
    plain = late_interaction(encoder.encode_questions(["Which page is red?"])[0], vectors)
    assert hits[0].page == plain.argmax() + 1 and all(hit.why == [] for hit in hits)
    encoder.encode_pages = None   # every picture is known by now
    again = index_of(pages, encoder, tmp_path)
    assert again.search("Which page is red?", 5) == hits and again.encode_images() == 0


def test_a_batch_that_does_not_fit_is_halved(folders):
    encoder, pages, seen = VisualEncoder(folders["colpali"]), drawn(5), []
    whole = encoder.encode_pages(pages)

    def full(model, args, given):
        seen.append(len(given["input_ids"]))
        if seen[-1] > 2: raise torch.OutOfMemoryError("out of memory")

    encoder.model.register_forward_pre_hook(full, with_kwargs=True)
    assert all(np.allclose(a, b, atol=2e-3) for a, b in zip(encoder.encode_pages(pages), whole, strict=True))
    assert seen == [5, 2, 3, 1, 2] and 1 <= encoder.batch_size <= 8


# --- folders that are none ---

def changed(folder, tmp_path, **files):
    "A copy of a checkpoint with other files: text, or None for one that is gone."
    copy = shutil.copytree(folder, tmp_path / "copy")
    for name, text in files.items():
        (copy / name).unlink(missing_ok=True)
        if text is not None: (copy / name).write_text(text)
    return copy


@pytest.mark.parametrize("files, said", [
    ({"config.json": None}, "config.json is missing"), ({"config.json": "{"}, "config.json is damaged"),
    ({"config.json": "[" * 100_000}, "config.json is damaged"), ({"config.json": "[1]"}, "config.json is damaged"),
    ({"config.json": '{"model_type": "bert"}'}, "describes a 'bert' model; a retriever of pages is one of colqwen2"),
    ({"config.json": '{"model_type": ["colpali"]}'}, "config.json is damaged"),
    ({"config.json": '{"model_type": "colqwen9", "auto_map": {}}'}, "code of its own is never run"),
    ({"config.json": None, "adapter_config.json": "{}"}, "is an adapter without its model"),
    ({"model.safetensors": None}, "model.safetensors is missing"),
    ({"model.safetensors": None, "pytorch_model.bin": "x"}, "pytorch_model.bin holds pickled weights"),
    ({"model.safetensors": "version https://git-lfs.github.com/spec/v1"}, "is a Git LFS pointer"),
    ({"model.safetensors": "x" * 100}, "model.safetensors: the table of tensors at its beginning is damaged"),
    ({"tokenizer.json": None}, "tokenizer.json is missing"), ({"tokenizer.json": "{"}, "cannot be loaded"),
    ({"processor_config.json": None}, "preprocessor_config.json is missing")])
def test_a_broken_folder_gets_one_line(folders, tmp_path, files, said):
    folder = changed(folders["colqwen2"], tmp_path, **files)
    with pytest.raises(ModelError) as e: VisualEncoder(folder)
    assert str(e.value).startswith(str(folder)) and said in str(e.value) and "\n" not in str(e.value)


def test_no_folder_no_device_and_no_room(folders, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="no such directory"): VisualEncoder(tmp_path / "nothing")
    with pytest.raises(ModelError, match="is a file"): VisualEncoder(tmp_path / "file")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="'cuda:7' is not there"): VisualEncoder(folders["colpali"], "cuda:7")
    monkeypatch.setattr("cosee.retrieval.embeddings._free_memory", lambda device: 1000)
    with pytest.raises(ModelError, match="its weights take .* are free on cpu"): VisualEncoder(folders["colpali"])


# --- vectors that are kept ---


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:-1], lambda d: d[:-1] + bytes([d[-1] ^ 1]),
                                    lambda d: os.urandom(5000), lambda d: b"\x80\x04cos\nsystem\n." + d])
def test_a_damaged_file_is_noticed_and_made_anew(encoder, tmp_path, damage):
    pages = drawn(3)
    scores = index_of(pages, encoder, tmp_path).visual_scores("Total?")
    path = next(p for p in sorted((tmp_path / "looks").rglob("*.kept")))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(damage(path.read_bytes()))
    again = index_of(pages, encoder, tmp_path)
    assert again.encode_images() == 1 and np.abs(again.visual_scores("Total?") - scores).max() < 1e-3
    assert index_of(pages, encoder, tmp_path).encode_images() == 0


KILLED = """
import os, signal, sys
import numpy as np
from cosee.retrieval.index import PageIndex
from cosee.retrieval.embeddings import VisualEncoder
sys.path.insert(0, sys.argv[1])
from test_visual import NoPrint, drawn
encoder, done, pages = VisualEncoder(sys.argv[2]), [], VisualEncoder.encode_pages
def counted(images):
    if len(done) == 3: os.kill(os.getpid(), signal.SIGKILL)
    done.append(len(images))
    return pages(encoder, images)
VisualEncoder.batch_size, encoder.encode_pages = 2, counted
PageIndex(drawn(9), words=NoPrint(), embeddings=False, visual=encoder, folder=sys.argv[3]).encode_images()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_process_that_is_killed_loses_one_batch(encoder, tmp_path):
    args = [sys.executable, "-c", KILLED, ROOT / "tests", encoder.folder, tmp_path]
    done = subprocess.run(args, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == -signal.SIGKILL, done.stderr
    pages, told = drawn(9), []
    index = index_of(pages, encoder, tmp_path)
    assert index.encode_images(progress=lambda *a: told.append(a)) == 3 and told == [(3, 3)]   # six were kept
    fresh = index_of(pages, encoder, tmp_path / "fresh")
    assert np.abs(index.visual_scores("Total?") - fresh.visual_scores("Total?")).max() < 1e-4
    assert fresh.encode_images() == 0


# --- documents ---

def saved(pages, folder):
    for n, page in enumerate(pages): page.save(folder / f"{n}.png")
    return folder


def test_a_known_document_is_not_drawn_again(encoder, tmp_path, monkeypatch):
    from cosee.pages import Pages, load_pages
    (tmp_path / "scans").mkdir()
    document = load_pages(saved(drawn(5), tmp_path / "scans"))
    first = index_of(document, encoder, tmp_path).visual_scores("Total?")
    with monkeypatch.context() as m:
        m.setattr(Pages, "__getitem__", lambda self, i: pytest.fail("a page was drawn"))
        again = index_of(load_pages(tmp_path / "scans"), encoder, tmp_path)
        assert (again.visual_scores("Total?") == first).all()
    os.utime(tmp_path / "scans/3.png", (0, 0))
    assert load_pages(tmp_path / "scans").mark != document.mark != load_pages(tmp_path / "scans", max_side=50).mark
    assert load_pages(drawn(2)).mark == "" != document[:2].mark != document.mark


def test_a_page_that_cannot_be_drawn_is_told(encoder, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    good = drawn(3)
    index = index_of([good[0], str(tmp_path / "bad.png"), good[2]], encoder, tmp_path)
    scores = index.visual_scores("Total?")
    assert scores[1] == -1 and scores[[0, 2]].min() > -1
    assert list(index.not_drawn) == [2] and index.encode_images() == 0
    assert len(index.search("Total?", 3)) == 3


def test_a_focus_looks_too(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("COSEE_CACHE", str(tmp_path))
    pages = drawn(6)
    best = index_of(pages, folders["colqwen2"]).search("Total?", 2)
    for visual in (folders["colqwen2"], dict(folder=folders["colqwen2"], device="cpu")):
        focus = make_focus(dict(type="top", k=2, visual=visual), words=NoPrint())
        assert sorted(focus.choose(pages, "Total?", None, []).pages) == sorted(h.page for h in best)
    for visual in (7, "", {}, dict(device="cpu")):
        with pytest.raises(ValueError, match="visual must be the folder"): make_focus(dict(type="top", visual=visual))
    for visual, said in ((tmp_path / "nothing", "no such directory"), (dict(folder="x", size=3), "visual: .*size")):
        focus = make_focus(dict(type="top", k=1, visual=visual), words=NoPrint())
        with pytest.raises(ValueError, match=said): focus.choose(pages, "Total?", None, [])
    with pytest.raises(ValueError, match="focus 'all'"): make_focus(dict(type="all", visual="x"))


def test_scans_without_ocr_are_found_from_a_shell(folders, tmp_path, monkeypatch, capsys):
    from cosee.cli.entry import main
    monkeypatch.setenv("COSEE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scans").mkdir()
    scans = str(saved(drawn(5), tmp_path / "scans"))
    ask = ["ask", scans, "-q", "What is the total?", "--client", "tiny", "--text-source", "text", "--focus", "top",
           "--k", "2", "--max-steps", "1", "--json", "--visual"]
    for said in ("5 pages looked at in", "0 pages looked at, 5 from the cache in"):
        main([*ask, folders["colmodernvbert"]])
        assert said in capsys.readouterr().err
    assert main([*ask, str(tmp_path / "nothing")]) == 2 and "nothing: no such directory" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "cache").iterdir() if p.name == "looks"] == ["looks"]
