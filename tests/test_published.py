"""Forms, long reports and page retrieval: files of true form are read, and every broken one is named."""
import gzip
import json
import lzma

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from cosee.datasets.records import DataError
from cosee.datasets.registry import load
from cosee.eval.judge import Case, cases_of, judge_answer
from cosee.eval.metrics import score
from cosee.models.testing import ScriptedClient



def put(path, content=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None: Image.new("RGB", (200, 300), "white").save(path, resolution=72)
    elif isinstance(content, bytes): path.write_bytes(content)
    elif isinstance(content, str): path.write_text(content, newline="")
    else: path.write_text(json.dumps(content))
    return path


# --- receipts ---

@pytest.fixture
def receipts(tmp_path):
    for stem in ("X1", "X2"):
        put(tmp_path / f"test/img/{stem}.jpg")
        put(tmp_path / f"test/entities/{stem}.txt", dict(company="ACME (M) SDN BHD", date="01/02/2018", total="9.00"))
    lines = ["10,10,90,10,90,30,10,30,ACME (M) SDN BHD", "20,250,100,250,100,270,20,270,TOTAL (RM): 9.00, CASH",
             "20,280,100,280,100,290,20,290,59.00"]
    put(tmp_path / "test/box/X1.txt", "\r\n".join(lines) + "\n")
    return tmp_path


def test_a_receipt_gives_a_question_for_each_field_that_is_filled_in(receipts):
    found = {s["meta"]["id"]: s for s in load("sroie", "test", root=receipts)}
    assert list(found) == [f"{x}-{f}" for x in ("X1", "X2") for f in ("company", "date", "total")]
    total = found["X1-total"]
    assert total["answer"] == ["9.00"] and "total" in total["question"] and total["meta"]["field"] == "total"
    assert [[round(v, 3) for v in b["bbox"]] for b in total["meta"]["evidence_boxes"]] == [[.1, .833, .5, .9]]
    assert "evidence_boxes" not in found["X1-date"]["meta"] and "evidence_boxes" not in found["X2-total"]["meta"]
    assert found["X1-company"]["images"] is found["X1-total"]["images"]


@pytest.mark.parametrize("name, content, says", [
    ("entities/X1.txt", "{", "test/entities/X1.txt: broken JSON"), ("entities/X1.txt", "[1]", "expected an object"),
    ("entities/X1.txt", '{"total": 9}', "test/entities/X1.txt: field 'total' should be str, not int: '9'"),
    ("box/X1.txt", "1,2,3,4,5,6,7,8,ok\n1,2,x,4,5,6,7,8,no", "X1.txt, line 2: field 'corners' should be a whole"),
    ("img/X1.jpg", b"no image", "field 'image'")])
def test_a_broken_receipt_is_named_and_the_others_are_read(receipts, name, content, says):
    put(receipts / "test" / name, content)
    with pytest.raises(DataError) as e: list(load("sroie", "test", root=receipts))
    assert says in str(e.value)
    split = load("sroie", "test", root=receipts, errors="skip")
    assert {s["meta"]["doc_id"] for s in split} == {"X2.jpg"} and len(split.skipped) == 1


# --- forms ---

PLACE = [0, .1, .2, .3, .4]


@pytest.fixture
def ads(tmp_path):
    put(tmp_path / "main/pdfs/a.pdf")
    kinds = dict(gross_amount="PriceMatch", signer_rank="NameMatch", sub_amount="PriceMatch")
    put(tmp_path / "main/meta.json", dict(entity_name_to_match_func=kinds,
                                          entity_appearance_pattern=dict(sub_amount="line_item")))
    write_ads(tmp_path, [["gross_amount", [["$5\n", PLACE, [[0, 2]]]]], ["signer_rank", [["A  B", PLACE, [[3, 6]]]]],
                         ["sub_amount", [["$1", PLACE, [[0, 2]]]]], ["unknown", [["x", PLACE, [[0, 1]]]]]])
    return tmp_path


def write_ads(root, annotations):
    put(root / "main/dataset.jsonl", dict(filename="a.pdf", ocr={}, annotations=annotations))


def test_fields_of_a_form_with_their_places(ads):
    amount, rank = load("vrdu", root=ads)
    assert (amount["answer"], amount["meta"]["answer_type"], amount["meta"]["split"]) == (["$5"], "PriceMatch", "all")
    assert amount["meta"]["evidence_boxes"] == [dict(page=1, bbox=(.1, .2, .3, .4))]
    assert rank["question"] == "What is the signer rank?" and rank["answer"] == ["A B"]


def test_a_split_of_a_task(ads):
    put(ads / "few_shot-splits/t.json", dict(train=["b.pdf"], valid=[], test=["a.pdf"]))
    assert [len(list(load("vrdu", s, root=ads, task="t"))) for s in ("train", "test")] == [0, 2]
    with pytest.raises(DataError, match="no such|does not exist"): load("vrdu", "test", root=ads, task="other")
    with pytest.raises(DataError, match="task"): load("vrdu", "test", root=ads, task="../t")


def test_a_compressed_file_that_breaks_off(ads):
    data = gzip.compress((ads / "main/dataset.jsonl").read_bytes())
    (ads / "main/dataset.jsonl").unlink()
    put(ads / "main/dataset.jsonl.gz", data)
    assert len(list(load("vrdu", root=ads))) == 2
    put(ads / "main/dataset.jsonl.gz", data[:-12])
    with pytest.raises(DataError, match=r"dataset.jsonl.gz: cannot be read"): list(load("vrdu", root=ads))


values = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.floats(), st.text(max_size=4),
                                st.sampled_from(["gross_amount", "signer_rank"])),
                      lambda t: st.one_of(st.lists(t, max_size=5), st.dictionaries(st.just("x"), t)), max_leaves=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(values, st.tuples(st.just("gross_amount"), values)), max_size=3))
def test_any_annotation_is_a_sample_or_a_data_error(ads, annotations):
    write_ads(ads, annotations)
    try: found = list(load("vrdu", root=ads))
    except DataError: return
    assert all(isinstance(a, str) for s in found for a in s["answer"])


def test_deepform_leaves_out_what_has_no_label(tmp_path):
    put(tmp_path / "pdfs/a.pdf")
    head = "file_id,title,contract_num,advertiser,gross_amount,flight_from,flight_to,issues,url\n"
    rows = "a,t,12,,$5,1/2/20,,,u\nb,t,12,x,$5,1/2/20,,,u\n"
    path = put(tmp_path / "fcc-data-2020-labeled-manifest.csv", head + rows)
    split = load("deepform", root=tmp_path, errors="skip")
    assert [s["meta"]["field"] for s in split] == ["contract_num", "gross_amount", "flight_from"]
    assert len(split.skipped) == 1 and "line 3: field 'file_id'" in split.skipped[0]
    path.write_text(head.replace("contract_num", "number"))
    with pytest.raises(DataError, match="column 'contract_num' is missing"): list(load("deepform", root=tmp_path))


def test_contracts_are_read_line_by_line(tmp_path):
    put(tmp_path / "documents/a.pdf")
    put(tmp_path / "dev-0/in.tsv.xz", lzma.compress(b'a.pdf\tparty term\t"quoted\t\t\t\n'))
    gold = put(tmp_path / "dev-0/expected.tsv", "party=A_B party=C\n")
    party, term = load("kleister_nda", "dev-0", root=tmp_path)
    assert party["answer"] == ["A B", "C"] and party["meta"]["answer_type"] == "list"
    assert term["answer"] == ["not answerable"] and term["meta"]["answerable"] is False
    for text, says in [("party\n", "expected key=value, not 'party'"), ("", "has no such line"),
                       ("party=A\nparty=B\n", "2 lines for 1 contracts")]:
        gold.write_text(text)
        with pytest.raises(DataError, match=says): list(load("kleister_nda", "dev-0", root=tmp_path))
    put(tmp_path / "dev-0/in.tsv.xz", b"no xz")
    with pytest.raises(DataError, match="tsv.xz: cannot be read"): list(load("kleister_nda", "dev-0", root=tmp_path))


# --- reports ---

@pytest.fixture
def finance(tmp_path):
    put(tmp_path / "pdfs/A_2020.pdf")
    return tmp_path


def ask_finance(root, **changes):
    evidence = [dict(evidence_doc_name="A_2020", evidence_page_num=0)]
    rec = dict(financebench_id="f", doc_name="A_2020", question="?", answer="5", evidence=evidence, **{})
    put(root / "data/financebench_open_source.jsonl", {**rec, **changes})
    return list(load("financebench", root=root))


def test_pages_of_filings_count_from_one(finance):
    (s,) = ask_finance(finance)
    assert s["meta"]["evidence_pages"] == [1] and s["meta"]["doc_id"] == "A_2020.pdf"


@pytest.mark.parametrize("changes, says", [
    (dict(evidence=["x"]), "field 'evidence'"), (dict(evidence=[dict(evidence_page_num="x")]), "'evidence_page_num'"),
    (dict(doc_name="../A_2020"), "field 'doc_name'"), (dict(answer=None), "field 'answer' should be"),
    (dict(doc_name="B"), "pdfs/B.pdf")])
def test_a_broken_question_about_a_filing_is_named(finance, changes, says):
    with pytest.raises(DataError) as e: ask_finance(finance, **changes)
    assert says in str(e.value) and "financebench_open_source.jsonl, line 1" in str(e.value)


def url_record(**changes):
    names = [f"/x/pdf_pngs/4000-4999/4000/4000001_{n}.png" for n in (1, 2)]
    return {**dict(question_id="u", doc_no="4000001", start_end_idx=[2, 3], question="?", answer=7, evidence_pages=[3],
                   answer_format="Integer", images=names, pdf_path="/x/ccpdf_zip/4000-4999/4000001.pdf"), **changes}


@pytest.mark.parametrize("home", ["pdf_pngs/4000-4999/4000", "data/pdf_pngs/4000", "4000"])
def test_images_are_found_by_the_end_of_their_path(tmp_path, home):
    for n in (1, 2): put(tmp_path / home / f"4000001_{n}.png")
    put(tmp_path / "data/LongDocURL.jsonl", url_record())
    (s,) = load("longdocurl", root=tmp_path)
    assert len(s["images"]) == 2 and s["images"][0].size == (200, 300)
    assert (s["answer"], s["meta"]["evidence_pages"], s["meta"]["first_page"]) == ("7", [2], 2)


@pytest.mark.parametrize("changes, says", [
    (dict(), "neither all images nor the PDF"), (dict(start_end_idx=[3]), "'start_end_idx' should be first and last"),
    (dict(start_end_idx=[0, 2]), "'start_end_idx'"), (dict(images=7), "field 'images'"),
    (dict(pdf_path=None), "'pdf_path'"), (dict(images=[], pdf_path="../../../etc/passwd"), "neither all images")])
def test_a_broken_stretch_is_named(tmp_path, changes, says):
    put(tmp_path / "LongDocURL.jsonl", url_record(**changes))
    with pytest.raises(DataError) as e: list(load("longdocurl", root=tmp_path))
    assert says in str(e.value) and "LongDocURL.jsonl, line 1" in str(e.value)


def test_a_stretch_of_a_pdf_that_is_too_short(tmp_path):
    put(tmp_path / "pdfs/4000001.pdf")
    put(tmp_path / "LongDocURL.jsonl", url_record())
    with pytest.raises(DataError, match="page 3 of 1"): list(load("longdocurl", root=tmp_path))


def test_regions_of_docscope_are_in_pixels_of_144_dpi(tmp_path):
    put(tmp_path / "pdfs/u.pdf")    # 200 x 300 points
    def ask(**evidence):
        rec = dict(id="q", split="test", question="?", answer=dict(answer_text="x"), pdf=dict(doc_id_str="u"),
                   evidences=[dict(dict(page=1, bbox=[40, 60, 400, 660]), **evidence)])
        put(tmp_path / "benchmark.json", [rec])
        return next(iter(load("docscope", "test", root=tmp_path)))
    assert ask()["meta"]["evidence_boxes"] == [dict(page=1, bbox=(.1, .1, 1, 1))]
    assert ask(bbox=[40, 60, 40, 60])["meta"]["evidence_boxes"] == []
    wrong = [(dict(bbox=[1, 2]), "four numbers"), (dict(page=0), "page 0 of 1"), (dict(bbox="x"), "a list")]
    for evidence, says in wrong:
        with pytest.raises(DataError, match=says): ask(**evidence)


# --- retrieval ---

def test_a_page_of_the_corpus_that_is_no_image_is_named_when_it_is_looked_at(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    def write(part, rows):
        (tmp_path / part).mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / part / "test-00000-of-00001.parquet")
    image = dict(bytes=b"x", path="")
    write("corpus", [dict(corpus_id=5, doc_id="a", image=image, markdown="", page_number_in_doc=0)])
    write("qrels", [dict(query_id=1, corpus_id=5, score=0)])
    write("queries", [dict(query_id=1, query="?", language="english", query_types=[], query_format="question",
                           content_type=[], answer=None)])
    (s,) = load("vidore_v3", root=tmp_path)
    assert s["answer"] == [] and s["meta"]["relevance"] == {} and len(s["images"]) == 1
    with pytest.raises(DataError, match="row group 0, row 1: field 'image'"): s["images"][0]
    write("corpus", [dict(corpus_id=5, doc_id="a")] * 2)
    with pytest.raises(DataError, match="corpus_id twice"): load("vidore_v3", root=tmp_path)
    write("corpus", [dict(corpus_id=5)])
    with pytest.raises(DataError, match="column 'doc_id' is missing"): load("vidore_v3", root=tmp_path)


# --- scores ---

def test_a_ranking_against_trec_eval_by_hand():
    # grades 2 and 1 at ranks 2 and 4, one more is not found: (2/log2 3 + 1/log2 5) / (2 + 1/log2 3 + 1/2)
    found = score(["x", "a", "y", "b"], dict(a=2, b=1, c=1), "evidence_ndcg", "vidore_v3")
    assert found == pytest.approx(.54059, abs=1e-5)
    assert score(list(range(10)) + ["a"], dict(a=1), "evidence_ndcg") == 0    # behind the tenth
    for pred, gold in (("a", dict(a=1)), (["a"], ["a"])):
        with pytest.raises(TypeError): score(pred, gold, "evidence_ndcg")


@pytest.mark.parametrize("flavour, kind, pred, gold, expected", [
    ("vrdu", "DateMatch", "02/01/2020", "1/2/20", 1), ("vrdu", "DateMatch", "2/1/2021", "1/2/20", 0),
    ("vrdu", "DateMatch", "07/01", "July 1", 0), ("vrdu", "DateMatch", "July 1, 2020", "7-1-20", 1),
    ("vrdu", "PriceMatch", "USD 1,000.01", "1000", 1), ("vrdu", "PriceMatch", "1.000.00", "1.000.00", 0),
    ("vrdu", "NumericalStringMatch", "none", "#", 1), ("vrdu", "GeneralStringMatch", "acme", "ACME", 0),
    ("vrdu", "AddressMatch", "1 Elm Street", "1 Elm St", 0), ("vrdu", "", "a  b", "a b", 1),
    ("deepform", "", "12/31", "12-31-2020", 1), ("deepform", "", "January5/20", "Jan 5, 2020", 1),
    ("deepform", "", "$5", "05.00", 1), ("deepform", "", "1/2/20", "2/1/20", 0), ("sroie", "", "9.0", "9.00", 0)])
def test_single_fields(flavour, kind, pred, gold, expected):
    assert score(pred, gold, "em", flavour, answer_type=kind) == expected


@pytest.mark.parametrize("pred, gold, kind, expected", [
    ("3 kgs", "3", "Integer", 0), ("3kg", "3", "Integer", 1), ("about 3", "3", "Integer", 0),
    ("3", "three", "Integer", 0), ("1,000.5", "1000.5", "Float", 1), ("12%", "0.12", "Float", 1),
    ("n/a", "0.12", "Float", 0),
    ("page 12", "page 11", "String", 0), ("'Tree' (big)", "tree", "String", 1), ("[]", "['a']", "List", 0),
    ("a", "['a']", "List", 1), ("['b', 'a']", "['a', 'b']", "List", 1), ("[1/2]", "['1/2']", "List", .6)])
def test_longdocurl(pred, gold, kind, expected):
    assert score(pred, gold, "accuracy", "longdocurl", answer_format=kind) == pytest.approx(expected)


@pytest.mark.parametrize("pred, gold, expected", [
    ("Revenue was $1.58 billion in 2019", "$1577 million", 0), ("$1,577", "$1577.00 million", 1),
    ("FY2018-2019", "-2019", 0), ("-5%", "5%", 0), ("no number", "5", 0), ("It went down.", "It went down.", 1)])
def test_numbers_of_reports(pred, gold, expected):
    assert score(pred, gold, "accuracy", "numbers") == expected


# --- the judge ---

CASE = Case(question="How\nmany?", gold="5", answer="five")


def verdict(equivalent, abstained=False): return dict(equivalent=equivalent, abstained=abstained, reason="r")


def test_the_judge_gets_rules_case_and_schema_and_no_page():
    client = ScriptedClient([verdict(True)])
    assert judge_answer(client, CASE, seed=3)["equivalent"] is True
    (call,) = client.calls
    assert call["schema"]["required"] == ["equivalent", "abstained", "reason"] and call["seed"] == 3
    said = str(call["messages"])
    assert "How many?" in said and "five" in said and "image" not in said


def test_records_of_a_run_become_cases():
    record = dict(question="?", gold=["5", "five"], answer=None, meta=dict(answer_format="Int"))
    assert cases_of([record, dict(record, gold=[])]) == [dict(question="?", gold="5 or five", answer="",
                                                              answer_format="Int")]
