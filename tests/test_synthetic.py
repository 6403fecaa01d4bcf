"Made documents: deterministic, on the page, and their answers stand where they say"
import itertools
from collections import defaultdict
import pytest
from hypothesis import given, settings, strategies as st
from cosee.datasets.synthetic import document as made
from cosee.datasets.synthetic.sheet import FIELD_LAYOUTS, TABLE_LAYOUTS
from cosee.datasets.synthetic.document import make_document, render, samples_dir
from cosee.utils.text import NOT_ANSWERABLE
from golden import synthetic

pytestmark = pytest.mark.slow

CASES = [(k, style, seed) for k in made.DOCUMENT_TYPES for style in ("dev", "held_out") for seed in (0, 1, 2)]
_docs = {}
def doc_of(case):
    kind, style, seed = case
    if case not in _docs: _docs[case] = make_document(kind, seed, style, small_print=True)
    return _docs[case]
def inside(b): return 0 <= b[0] < b[2] <= 1 and 0 <= b[1] < b[3] <= 1
@pytest.mark.parametrize("case", CASES, ids=str)
def test_facts_stand_in_their_boxes(case):
    import pypdfium2
    doc = doc_of(case)
    pdf = pypdfium2.PdfDocument(doc.pdf)
    assert len(pdf) == doc.pages
    pages, sizes = [p.get_textpage() for p in pdf], [p.get_size() for p in pdf]
    def under(page, b):
        (w, h) = sizes[page-1]
        return " ".join(pages[page-1].get_text_bounded(b[0]*w-.5, h-b[3]*h-.5, b[2]*w+.5, h-b[1]*h+.5).split())
    for q in doc.questions:
        for e in q["evidence"]:
            assert inside(e["bbox"]) and 1 <= e["page"] <= doc.pages
            assert " ".join(e["text"].split()) in under(e["page"], e["bbox"]), (q["question"], e)
        if q["verbatim"]: assert q["evidence"][0]["text"] in q["answers"], q
    for f in doc.facts:
        assert inside(f["bbox"]) and f["value"].split()[0] in under(f["page"], f["bbox"]), f
        if f.get("label_bbox"): assert f["label"].lower() in under(f["page"], f["label_bbox"]).lower(), f

def core(b):
    h = b[3]-b[1]
    return b[0]+.002, b[1]+.12*h, b[2], b[3]-.12*h

def tidy(doc):
    "Nothing leaves its page, no two lines of text overlap"
    by = defaultdict(list)
    for m in doc.marks:
        by[m["page"]].append(m)
        assert min(m["bbox"]) > .003 and max(m["bbox"]) < .997, m
    for a, b in (ab for ms in by.values() for ab in itertools.combinations(ms, 2)):
        (x0, y0, x1, y1), (u0, v0, u1, v1) = core(a["bbox"]), core(b["bbox"])
        assert x1 <= u0 or u1 <= x0 or y1 <= v0 or v1 <= y0, (a["text"], b["text"])


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(made.DOCUMENT_TYPES)), st.integers(0, 10**6), st.sampled_from(["dev", "held_out"]),
       st.integers(1, 6), st.booleans())
def test_any_document_is_tidy(kind, seed, style, pages, conflict):
    tidy(make_document(kind, seed, style, pages=pages, conflict=conflict))

@pytest.mark.parametrize("case", CASES, ids=str)
def test_literal_questions_have_one_answer(case):
    doc, seen = doc_of(case), {}
    for q in doc.questions:
        if q["wording"] == "conflict": continue
        assert seen.setdefault(q["question"], q["answers"]) == q["answers"], q
        if q["wording"] == "unanswerable": assert q["answers"] == [NOT_ANSWERABLE] and not q["evidence"]
        if q["wording"] == "literal" and q["answers"][0] != q["row"]:
            asked = q["label"].lower(), q["row"]
            rivals = {f["value"] for f in doc.facts if (f["label"].lower(), f["row"]) == asked}
            assert rivals == {q["answers"][0]}, (q["question"], rivals)

def test_unanswerable_questions_ask_for_labels_that_are_not_there():
    for case in CASES:
        for q in doc_of(case).questions:
            if q["wording"] != "unanswerable": continue
            if "near" in q: assert q["near"] in {f["row"] for f in doc_of(case).facts}
            else: assert not [f["label"] for f in doc_of(case).facts if f'"{f["label"]}"' in q["question"]], q

def test_every_wording_turns_up():
    got = {q["wording"] for c in CASES for q in doc_of(c).questions}
    assert got == {"literal", "paraphrase", "unanswerable", "two_pages", "computed", "conflict"}

def test_styles_share_no_label_and_no_layout():
    def labels(style):
        docs = [make_document(kind, i, style) for kind in made.DOCUMENT_TYPES for i in range(4)]
        return {f["label"].lower() for doc in docs for f in doc.facts}
    seen = {s: labels(s) for s in ("dev", "held_out")}
    assert min(map(len, seen.values())) > 200 and not seen["dev"] & seen["held_out"]
    for layouts in (FIELD_LAYOUTS, TABLE_LAYOUTS): assert not set(layouts["dev"]) & set(layouts["held_out"])


def test_samples_folder_is_remade_to_the_byte(tmp_path):
    for p in synthetic.write_samples(tmp_path): assert p.read_bytes() == (samples_dir()/p.name).read_bytes(), p.name

def test_scan_effects_are_seeded():
    d, kw = make_document("receipt", 1), dict(noise=.05, rotate=.5, blur=.3, jpeg=60)
    a, b, c = (render(d, 50, seed=s, **kw)[0].tobytes() for s in (1, 1, 2))
    assert a == b != c

def test_bad_arguments():
    form = dict(kind="form")
    wrong = dict(kind="novel"), {**form, "style": "test"}, {**form, "pages": 0}, {**form, "pages": 40}
    for a in wrong:
        with pytest.raises(ValueError): make_document(**a)
