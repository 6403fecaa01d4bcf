"""Every data set of the registry from its files to the official figure: read, run, score, compare, submit.

A client says the gold answer, abstains, or says something wrong, once in prose to a single call and once as an action
of a team. What the run must come to is the official rule's figure, whose source stands beside it in `OFFICIAL`.
"""
import io
import json
import lzma
import pickle

import pytest
from PIL import Image

from cosee.cli.entry import main
from cosee.datasets.records import DataError
from cosee.datasets.registry import LOADERS, load
from cosee.datasets.sample import as_torch, collate, describe_pages
from cosee.datasets.synthetic.document import make_samples
from cosee.datasets.folder import to_jsonl
from cosee.datasets.submissions import FORMS, read_submission, write_submission
from benchmark_files import write_layout
from cosee.eval.answer_types import mmlongbench_f1
from cosee.eval.metrics import score
from cosee.experiments import run_experiment
from cosee.models.client import prompt_text
from cosee.models.testing import ScriptedClient
from cosee.pages import load_pages, page_sizes
from cosee.runs.table import Run, score_records
from cosee.screen.check import make_screens
from cosee.utils.text import abstains

# data set -> what its scorer makes of (the gold answer, an abstention where there is an answer, an abstention where
# there is none, nonsense), and where that is written; None: the data set asks no such question
OFFICIAL = dict(
    mpdocvqa=(1, 0, None, 0, "MP-DocVQA-Framework metrics.py: '' and 'none' score 0, else NLS from 0.5"),
    slidevqa=(1, 0, None, 0, "NTT SlideVQA evaluate_qa.py: F1 of tokens, 0 without a common one"),
    dude=(1, 0, 1, 0, "DUDEeval evaluate_submission.py: no answer is [''], '' and a text are 0, '' and '' are 1"),
    mmlongbench=(1, 0, 1, 0, "MMLongBench-Doc eval_score.py: format None is compared as text"),
    mmlongbench_v2=(1, 0, 1, 0, "MMLongBench-Doc eval_score.py, on the corrected answers"),
    docvqa=(1, 0, None, 0, "RRC get_NLS: similarity from 0.5"),
    infographicvqa=(1, 0, None, 0, "RRC get_NLS: similarity from 0.5"),
    chartqapro=(1, 0, 1, 0, "ChartQAPro evaluate_predictions.py: text by ANLS; its prompts ask for 'unanswerable'"),
    docvqa2026=(1, 0, 1, 0, "DocVQA2026 eval_utils.py: what stands behind FINAL ANSWER:; its prompt: 'Unknown'"),
    longdocurl=(1, 0, 1, 0, "LongDocURL eval: format None is compared as text"),
    financebench=(1, 0, None, 0, "judged by people; here a number is compared at the gold's digits"),
    docscope=(1, 0, 1, 0, "judged by a model, beside the F1 of pages; here ANLS, no answer against no answer is 1"),
    sroie=(1, 0, 1, 0, "SROIE task 3: the same text"),
    mixture=(1, 0, 1, 0, "each part by its own rule, 1 or 0; ANLS from 0.5 where it has none"),
    vrdu=(1, 0, None, 0, "VRDU: the match function of the field"),
    deepform=(1, 0, None, 0, "DeepForm: text without case and space, dollars, dates"),
    kleister_nda=(1, 0, 1, 0, "Kleister GEval: F1 of values"),
    vidore_v3=(1, 0, None, 0, "its answers are not scored officially, only the pages; here ANLS"),
    synthetic=(1, 0, 1, 0, "CoSee's own"), small=(1, 0, 1, 0, "CoSee's own"), long=(1, 0, 1, 0, "CoSee's own"),
    folder=(1, 0, 1, 0, "CoSee's own"), jsonl=(1, 0, 1, 0, "CoSee's own"),
    screens=(1, 0, None, 0, "CoSee's own: the action, the box of tolerance around its place, its keys"))
NONSENSE = "zzqx wvvk"


def put(path, content=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None: Image.new("RGB", (200, 300), "white").save(path, resolution=72)
    elif isinstance(content, bytes): path.write_bytes(content)
    else: path.write_text(content if isinstance(content, str) else json.dumps(content))


# --- files of the true form ---

def written(name, kind, split):
    def build(root):
        wordings = ["literal", "unanswerable"] if OFFICIAL[name][2] is not None else ["literal"]
        made = list(make_samples(6, seed=5, kinds=["invoice"], per_doc=3, dpi=30, pages=1, wordings=wordings))
        return dict(split=split, root=str(write_layout(name, made, root / name, kind, split)))
    return build


def dude(root):
    found = written("dude", "raw", "val")(root)
    path = next((root / "dude").glob("*.json"))
    data = json.loads(path.read_text())
    first = data["data"][0]
    data["data"] += [
        dict(first, questionId="list", question="Which flights?", answers=["AF0055", "AF1044"], answer_type="list/x"),
        dict(first, questionId="none", question="Who came?", answers=[""], answer_type="not answerable",
             answers_page_bounding_boxes=[])]
    path.write_text(json.dumps(data))
    return found


def chart(root):
    import pyarrow as pa, pyarrow.parquet as pq
    out = io.BytesIO()
    Image.new("RGB", (60, 60), "white").save(out, "PNG")
    base = {"Question Type": "Factoid", "Year": ["NO"], "Paragraph": "", "image": out.getvalue()}
    rows = [{**base, "Question": ["How high?"], "Answer": ["12.5"]},
            {**base, "Question": ["When?"], "Answer": ["2016"], "Year": ["YES"]},
            {**base, "Question": ["First?", "And when?"], "Answer": ["3", "2011"], "Year": ["NO", "YES"],
             "Question Type": "Conversational"},
            {**base, "Question": ["Which three?"], "Answer": ["[Blue, 40, 2019]"], "Year": ["NO", "NO", "YES"]},
            {**base, "Question": ["Who drew it?"], "Answer": ["Unanswerable"]}]
    (root / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), root / "data/test-00000-of-00001.parquet")
    return dict(split="test", root=str(root))


def report_pdf(path): put(path)


def v2(root):
    report_pdf(root / "data/documents/a.pdf")
    rec = dict(doc_id="a.pdf", doc_type="Guide", evidence_pages="[]", evidence_sources="[]")
    asked = [("How many?", "Not answerable", "None"), ("How much?", "Not answerable or none", "None"),
             ("Which?", "['a bee', 'a cow']", "List"), ("Share?", "12.5%", "Float"), ("Count?", "7", "Int")]
    put(root / "data/samples.json", [dict(rec, question=q, answer=a, answer_format=f) for q, a, f in asked])
    return dict(split="test", root=str(root))


def finance(root):
    report_pdf(root / "pdfs/a.pdf")
    evidence = [dict(evidence_doc_name="a", evidence_page_num=0)]
    put(root / "data/financebench_open_source.jsonl",
        dict(financebench_id="f", doc_name="a", question="Ratio?", answer="24.26", evidence=evidence))
    return dict(split="test", root=str(root))


def url(root):
    report_pdf(root / "ccpdf_zip/4000-4999/4000001.pdf")
    rec = dict(doc_no="4000001", start_end_idx=[1, 1], evidence_pages=[1], images=[],
               pdf_path="/x/ccpdf_zip/4000-4999/4000001.pdf")
    asked = [("u1", "Which?", ["a bee", "a cow"], "List"), ("u2", "Count?", 7, "Integer"),
             ("u3", "Who?", "Not answerable", "None"), ("u4", "What?", "rain coat", "String")]
    records = [dict(rec, question_id=i, question=q, answer=a, answer_format=f) for i, q, a, f in asked]
    put(root / "LongDocURL.jsonl", "\n".join(map(json.dumps, records)))
    return dict(split="test", root=str(root))


def scope(root):
    report_pdf(root / "pdfs/urn1.pdf")
    put(root / "benchmark.json",
        [dict(id=f"q{n}", split="dev", question=f"Which {n}?", answer=dict(answer_text="a coat", is_answerable=ok),
              pdf=dict(doc_id_str="urn1"), evidences=[], facts=[]) for n, ok in enumerate((True, False))])
    return dict(split="dev", root=str(root))


def sroie(root):
    put(root / "test/img/X1.jpg")
    put(root / "test/entities/X1.txt", dict(company="ACME SDN BHD", date="01/02/2018", total="9.00"))
    put(root / "test/box/X1.txt", "10,10,90,10,90,30,10,30,ACME SDN BHD\n")
    return dict(split="test", root=str(root))


def vrdu(root):
    put(root / "main/pdfs/a.pdf")
    kinds = dict(gross_amount="PriceMatch", flight_from="DateMatch", contract="NumericalStringMatch")
    put(root / "main/meta.json", dict(entity_name_to_match_func=kinds, entity_appearance_pattern={}))
    place = [0, .1, .2, .3, .4]
    put(root / "main/dataset.jsonl", dict(filename="a.pdf", ocr={}, annotations=[
        [f, [[v, place, [[0, 2]]]]] for f, v in (("gross_amount", "$5.00"), ("flight_from", "01/02/20"),
                                                  ("contract", "2412"))]))
    return dict(split="all", root=str(root))


def deepform(root):
    put(root / "pdfs/a.pdf")
    head = "file_id,title,contract_num,advertiser,gross_amount,flight_from,flight_to,issues,url\n"
    put(root / "fcc-data-2020-labeled-manifest.csv", head + 'a,t,2412,"BACK, FUND",$450,4/16/20,,,u\n')
    return dict(split="all", root=str(root))


def kleister(root):
    put(root / "documents/a.pdf")
    put(root / "train/in.tsv.xz", lzma.compress(b"a.pdf\tjurisdiction party term\tt\tt\tt\tt\n"))
    put(root / "train/expected.tsv", "jurisdiction=New_York party=Acme_Inc. party=Bolt_LLC\n")
    return dict(split="train", root=str(root))


def vidore(root):
    import pyarrow as pa, pyarrow.parquet as pq
    out = io.BytesIO()
    Image.new("RGB", (40, 50), "white").save(out, "PNG")
    image = dict(bytes=out.getvalue(), path="")
    page = dict(corpus_id=10, image=image, doc_id="a", markdown="x", page_number_in_doc=0)
    query = dict(query_id=0, query="How many?", language="english", query_types=["numerical"], query_format="question",
                 content_type=["Text"], answer="42 boats")
    for part, row in (("corpus", page), ("queries", query), ("qrels", dict(query_id=0, corpus_id=10, score=1))):
        (root / part).mkdir()
        pq.write_table(pa.Table.from_pylist([row]), root / part / "test-00000-of-00001.parquet")
    return dict(split="test", root=str(root))


def drawn(**options):
    return lambda root: dict(limit=3, options=options)


def own(root):
    path = to_jsonl(list(make_samples(6, seed=5, kinds=["invoice"], per_doc=3, dpi=30, pages=1,
                                      wordings=["literal", "unanswerable"])), root / "own")
    return dict(root=str(path))


def mixture(root):
    return dict(split="all", root=str(root), options=dict(parts=[dict(name="jsonl", root=own(root)["root"])]))


def screens(root):
    made = make_screens(dict(name_prefix="s", tasks={"click-button": 3, "press-keys": 1}, test=dict(count=4)), root)
    return dict(split="test", root=str(made))


def folder(root):
    put(root / "a.png")
    asked = enumerate([("How much?", "3.4 million"), ("Who?", "not answerable")])
    records = [dict(id=str(n), file="a.png", question=q, answer=a) for n, (q, a) in asked]
    put(root / "q.jsonl", "\n".join(map(json.dumps, records)))
    return dict(root=str(root / "q.jsonl"))


FILES = dict(
    mpdocvqa=written("mpdocvqa", "raw", "val"), slidevqa=written("slidevqa", "raw", "dev"), dude=dude,
    mmlongbench=written("mmlongbench", "raw", "test"), docvqa=written("docvqa", "raw", "val"),
    infographicvqa=written("infographicvqa", "raw", "val"), chartqapro=chart,
    docvqa2026=written("docvqa2026", "hub", "val"), mmlongbench_v2=v2, financebench=finance, longdocurl=url,
    docscope=scope, sroie=sroie, vrdu=vrdu, deepform=deepform, kleister_nda=kleister, vidore_v3=vidore,
    synthetic=drawn(kinds=["invoice"], dpi=30, pages=1), small=drawn(), long=drawn(pages=5, dpi=20), folder=folder,
    jsonl=own, mixture=mixture, screens=screens)


def test_every_data_set_of_the_registry_is_here():
    assert set(FILES) == set(OFFICIAL) == set(LOADERS)


# --- what a sample is ---

@pytest.mark.parametrize("name", FILES)
def test_a_sample_is_json_and_its_pages_are_a_list(name, tmp_path):
    samples = loaded(dict(name=name, **FILES[name](tmp_path)))
    for sample in samples:
        said, images = json.loads(json.dumps(sample, default=describe_pages)), sample["images"]
        assert {k: v for k, v in said.items() if k != "images"} == json.loads(json.dumps(
            {k: v for k, v in sample.items() if k != "images"})) and len(said["images"]) == len(images)
        assert all(page["page"] >= 1 for page in said["images"])
        n, sizes = len(images), page_sizes(images)
        assert page_sizes(images + images) == page_sizes(list(images) + images) == sizes * 2 and len(images) == n
        assert page_sizes(load_pages(list(images), max_side=None)) == sizes
        assert page_sizes(pickle.loads(pickle.dumps(sample))["images"]) == sizes   # for a loader's workers
    batch = collate(samples)
    assert batch["question"] == [s["question"] for s in samples] and set(batch) == set(samples[0])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_pytorch_takes_samples_in_batches(tmp_path, workers):
    from torch.utils.data import DataLoader
    samples = loaded(dict(name="folder", **folder(tmp_path))) + loaded(dict(name="small"))
    batches = list(DataLoader(as_torch(samples), batch_size=2, collate_fn=collate, num_workers=workers))
    assert [q for batch in batches for q in batch["question"]] == [s["question"] for s in samples]
    assert [im[0].size for batch in batches for im in batch["images"]] == [s["images"][0].size for s in samples]


# --- what is said ---

def said_for(sample, kind):
    "The answer to a question: gold, none or nonsense"
    gold = sample["answer"] if isinstance(sample["answer"], list) else [sample["answer"]]
    if kind == "none": return "not answerable"
    if kind == "nonsense": return NONSENSE
    if "list" in str(sample["meta"].get("answer_type")): return json.dumps(gold) if len(gold) > 1 else gold[0]
    return gold[0]


def reader(samples, kind):
    "A client that gives the wanted answers, to one call in prose and to an agent as an action"
    answers = {s["question"]: said_for(s, kind) for s in samples}
    def reply(messages):
        prompt = prompt_text(messages)
        answer = answers[max((q for q in answers if q in prompt), key=len)]
        if "INSPECT" not in prompt: return f"I looked at the page.\nAnswer: {answer}"
        return dict(action="HYPOTHESIZE", view=dict(page=1), content="It stands there.", answer=answer, confidence=.95)
    return ScriptedClient([reply], cycle=True)


def loaded(data):
    "The samples of a data set that a configuration describes"
    options = dict(data.get("options", {}), **({"n": 3} if LOADERS[data["name"]].kind == "synthetic" else {}))
    return list(load(data["name"], data.get("split"), data.get("root"), **options))


@pytest.fixture(scope="module", params=FILES)
def runs(request, tmp_path_factory):
    "The data set's name, its samples, and a run for each kind of answer"
    name, root = request.param, tmp_path_factory.mktemp(request.param)
    data = dict(name=name, **FILES[name](root))
    samples, out = loaded(data), {}
    for kind in ("gold", "none", "nonsense"):
        methods = [dict(type="direct", name=f"one_{kind}"),
                   dict(type="single_board", name=f"team_{kind}", max_steps=1)]
        out[kind] = run_experiment(dict(dataset=data, methods=methods), root / f"run_{kind}",
                                   client=reader(samples, kind))
    return name, samples, out


@pytest.mark.slow
def test_the_figure_of_every_answer_is_the_official_one(runs):
    name, samples, out = runs
    right, wrong_none, right_none, nonsense, _ = OFFICIAL[name]
    none = {str(s["meta"]["id"]): abstains((s["answer"] if isinstance(s["answer"], list) else [s["answer"]])[0])
            for s in samples}
    assert any(none.values()) or right_none is None or name in ("sroie", "synthetic", "small", "long")
    for kind, run in out.items():
        for metric in (m for m in run.about["metrics"] if not m.startswith("evidence_")):   # of what is said
            for method, scores in run.scores(metric).items():
                wanted = {i: dict(gold=right, none=right_none if none[i] else wrong_none, nonsense=nonsense)[kind]
                          for i in none}
                assert scores == pytest.approx(wanted), (kind, metric, method)
        assert all(r["scores"][m] == run.scores(m)[r["method"]][str(r["sample"])] for r in run
                   for m in run.about["metrics"])


def test_the_comparison_shows_the_same_figures(runs, capsys):
    *_, out = runs
    folders = [str(run.folder) for run in out.values()]
    assert main(["report", *folders, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    for run in out.values():
        for method, scores in run.scores(*next(iter(shown["metric"].items()))).items():
            mean = 100 * sum(scores.values()) / len(scores)
            assert shown["methods"][method]["score"] == pytest.approx(mean, abs=.06)
    assert shown["methods"]["one_gold"]["score"] == 100 == shown["methods"]["team_gold"]["score"]


def test_the_submission_says_what_was_said(runs, tmp_path, capsys):
    name, samples, out = runs
    for kind, run in out.items():
        path = tmp_path / f"{kind}.json"
        code = main(["report", str(run.folder), "--format", "submission", "--method", f"team_{kind}", "-o",
                     str(path)])
        if name not in FORMS:
            assert code == 2 and "no submission form" in capsys.readouterr().err
            continue
        assert code == 0, capsys.readouterr().err
        for p, s in zip(read_submission(name, path), samples, strict=True):
            said = said_for(s, kind)
            assert p["id"] == s["meta"]["id"]
            if abstains(said): assert p["answer"] == "not answerable"
            else: assert p["answer"] == (json.loads(said) if said.startswith("[") else said)


# --- what lies between the gold and nonsense, by the rules' own words ---

def scored(flavour, answer, gold, metric, **meta):
    record = dict(sample="1", method="m", question="Which?", gold=gold, answer=answer, meta=meta)
    return score_records([record], {metric: flavour})["m"][metric][0]


@pytest.mark.parametrize("flavour, metric, answer, gold, meta, figure", [
    # DUDE: no answer is the empty text, so what merely sounds like CoSee's word scores nothing
    ("dude", "anls", "not available", ["not answerable"], dict(answer_type="not-answerable"), 0),
    ("dude", "anls", "not answerable", ["not answerable"], dict(answer_type="not-answerable"), 1),
    ("dude", "anls", "", ["not answerable"], dict(answer_type="not-answerable"), 0),   # silence is no answer
    ("dude", "anls", "The question cannot be answered.", ["not answerable"], dict(answer_type="not-answerable"), 1),
    ("dude", "anls", '["AF1044", "AF0055"]', ["AF0055", "AF1044"], dict(answer_type="list/extractive"), 1),
    ("dude", "anls", "['AF0055']", ["AF0055", "AF1044"], dict(answer_type="list/extractive"), .5),
    ("dude", "anls", "AF1044, AF0055", ["AF0055", "AF1044"], dict(answer_type="list/extractive"), 1),
    ("dude", "anls", "AF1044, AF0056", ["AF0055", "AF1044"], dict(answer_type="list/abstractive"), (1 + 5 / 6) / 2),
    ("dude", "anls", "Paris, Texas; Rome", ["Rome", "Paris, Texas"], dict(answer_type="list/extractive"), 1),
    ("dude", "anls", "Paris, Texas", ["Paris, Texas"], dict(answer_type="extractive"), 1),
    ("own", "anls", "AF1044, AF0055", ["AF0055", "AF1044"], dict(answer_type="list/extractive"), 1),
    ("dude", "anls", "1,894", ["1894"], dict(answer_type="extractive"), .8),
    # DocVQA-2026: the marker is the border's business; number and unit strictly
    ("docvqa2026", "accuracy", "12 kg", ["12 kg"], {}, 1),
    ("docvqa2026", "accuracy", "FINAL ANSWER: 12 kg", ["12 kg"], {}, 1),
    ("docvqa2026", "accuracy", "12 g", ["12 kg"], {}, 0),
    ("docvqa2026", "accuracy", "unanswerable", ["not answerable"], {}, 1),
    ("docvqa2026", "accuracy", "not answerable", ["12 kg"], {}, 0),
    # ChartQAPro: 5 % off is right, but not in a year; the flags of a list are its values' own
    ("chartqapro", "accuracy", "2015", ["2016"], dict(year_flag=["YES"]), 0),
    ("chartqapro", "accuracy", "2015", ["2016"], dict(year_flag=["NO"]), 1),
    ("chartqapro", "accuracy", "['Blue', '41', '2018']", ["[Blue, 40, 2019]"],
     dict(year_flag=["NO", "NO", "YES"]), 2 / 3),
    ("chartqapro", "accuracy", "not answerable", ["Unanswerable"], dict(year_flag=["NO"]), 1),
    # MMLongBench-Doc: an abstention in any of our spellings is its own; silence is none
    ("mmlongbench", "accuracy", "", ["Not answerable"], dict(answer_format="None"), 0),
    ("mmlongbench", "accuracy", "unanswerable", ["Not answerable"], dict(answer_format="None"), 1),
    ("mmlongbench", "accuracy", "unanswerable", ["7"], dict(answer_format="Int"), 0),
    # the authors' framework of MP-DocVQA gives an empty answer nothing
    ("mpdocvqa", "anls", "not answerable", ["not answered"], {}, 0),
    ("rrc", "anls", "not answerable", ["not answered"], {}, 0),
    ("rrc", "anls", "", ["not answerable"], {}, 0),
    ("vrdu", "em", "", ["not answerable"], dict(answer_type="PriceMatch"), 0),
])
def test_an_answer_crosses_the_border(flavour, metric, answer, gold, meta, figure):
    assert scored(flavour, answer, gold, metric, **meta) == pytest.approx(figure)


def test_f1_of_mmlongbench_knows_every_abstention():
    # recall 1 of 1, precision 1 of 1: two of three questions have no answer, and none was given
    assert mmlongbench_f1([1, 1, 1], ["7", "Not answerable", "Not answerable"], ["7", "not answerable", ""]) == 1


# --- files of others ---

ORGANISERS = [   # the shape of the sample submissions in DUDEeval: no answers_abstain, a list for a list question
    dict(questionId="q1", answers=["Yes"], answers_confidence=[1]),
    dict(questionId="q2", answers=[""], answers_confidence=[0.3]),
    dict(questionId="q3", answers=["AF0055", "AF1044"], answers_confidence=[0.7]), dict(questionId="q4", answers=[])]


def test_submissions_of_the_organisers_of_dude_are_read(tmp_path):
    put(tmp_path / "s.json", ORGANISERS)
    found = read_submission("dude", tmp_path / "s.json")
    assert [p["answer"] for p in found] == ["Yes", "not answerable", ["AF0055", "AF1044"], "not answerable"]
    assert [p.get("confidence") for p in found] == [1, .3, .7, None]
    again = write_submission("dude", found, [r["questionId"] for r in ORGANISERS], tmp_path / "again.json")
    assert [r["answers"] for r in json.loads(again.read_text())] == [["Yes"], [""], ["AF0055", "AF1044"], [""]]


def test_a_submission_without_a_page_is_read(tmp_path):
    put(tmp_path / "s.json", [dict(questionId=1, answer="7", answer_page=None), dict(questionId=2, answer="8")])
    assert read_submission("mpdocvqa", tmp_path / "s.json") == [dict(id=1, answer="7"), dict(id=2, answer="8")]


@pytest.mark.parametrize("answer", [7, None, ["a", 7]])
def test_what_is_no_answer_is_refused(answer, tmp_path):
    with pytest.raises(DataError, match="needs id and answer"):
        write_submission("dude", [dict(id=1, answer=answer)], [1], tmp_path / "s.json")


def test_a_list_with_commas_is_scored_as_it_is_handed_in(tmp_path):
    data, said = dict(name="dude", **dude(tmp_path)), "AF1044, AF0055"
    run = run_experiment(dict(dataset=data, methods=["direct"]), tmp_path / "run",
                         client=ScriptedClient([f"Answer: {said}"], cycle=True))
    path = tmp_path / "s.json"
    assert main(["report", str(run.folder), "--format", "submission", "--method", "direct", "-o", str(path)]) == 0
    handed_in = {r["questionId"]: r["answers"] for r in json.loads(path.read_text())}
    assert handed_in.pop("list") == ["AF1044", "AF0055"] and set(map(tuple, handed_in.values())) == {(said,)}
    kind, gold = dict(answer_type="list/x"), ["AF0055", "AF1044"]
    by_hand = [score(answer, gold, "anls", "dude", **kind) for answer in (said, said.split(", "))]
    assert [run.scores("anls")["direct"]["list"], *by_hand] == [1, 1, 1]
    assert score([said], gold, "anls", "dude", **kind) == 0   # a list of one is what it is


def test_variants_of_dude_are_no_gold(tmp_path):
    found = dude(tmp_path)
    path = next((tmp_path / "dude").glob("*.json"))
    data = json.loads(path.read_text())
    data["data"][0]["answers_variants"] = ["another"]
    path.write_text(json.dumps(data))
    first = next(iter(load("dude", **found)))
    assert "another" not in first["answer"] and first["meta"]["answers_variants"] == ["another"]


def test_a_page_that_counts_from_elsewhere_is_mended_by_the_named_setting(tmp_path):
    found = dude(tmp_path)
    path = next((tmp_path / "dude").glob("*.json"))
    data = json.loads(path.read_text())
    for rec in data["data"]:
        for box in (b for group in rec["answers_page_bounding_boxes"] for b in group): box["page"] -= 1
    path.write_text(json.dumps(data))
    with pytest.raises(DataError, match=r"dataset\.options\.page_base=0"): list(load("dude", **found))
    mended = list(load("dude", **found, page_base=0))
    assert {tuple(s["meta"].get("evidence_pages", [1])) for s in mended} == {(1,)}
    run = run_experiment(dict(dataset=dict(name="dude", **found, options=dict(page_base=0)), methods=["direct"]),
                         tmp_path / "run", client=ScriptedClient(["Answer: x"], cycle=True))
    assert isinstance(run, Run) and not run.skipped
