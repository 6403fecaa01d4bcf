"""Configuration, data sets and metrics as they are specified; tests are named by the item that they hold."""
import csv
import io
import json
import math
from itertools import count
from pathlib import Path

import pytest
from PIL import Image

from cosee.board import Board
from cosee.cli.entry import main
from cosee.datasets.records import DataError
from cosee.datasets.registry import load
from cosee.policies import METHODS, make_method, method_settings, register_method
from cosee.budgets import Task
from cosee.budgets import DIRECT
from cosee.experiments import run_experiment
from cosee.models.client import prompt_text
from cosee.models.testing import ScriptedClient
from cosee.models.reader_client import OcrClient
from cosee.runs.config import make_config, metrics_of, read_config
from cosee.utils.config import ConfigError

CONFIGS = Path(__file__).parents[1] / "configs"
PAGES = [Image.new("RGB", (64, 64), "white")] * 2
SAMPLE = dict(images=PAGES, question="How much?", answer="3.4", meta={})
MADE = dict(name="made", limit=1, options=dict(kinds=["invoice"], dpi=30, pages=1))
LIMITS = dict(max_cells_per_page=3, max_total_chars=90)
TEAMS = [m for m in METHODS if "agents" in method_settings(m) and m != "chat"
         and method_settings(m).get("otherwise", "team") == "team"]


# --- A45: what the Board shows ---

def teammates():
    "Unsure answers to plain calls, another one each time, and notes of a team"
    answers = count(3)
    def reply(messages):
        text = prompt_text(messages)
        if "HYPOTHESIZE" not in text and "INSPECT" not in text:
            return f"Page: 1\nConfidence: 0.1\nAnswer: {next(answers)}.4"
        if "INSPECT" not in text:
            return dict(action="HYPOTHESIZE", view=dict(page=1), content="There.", answer="3.4", confidence=.2)
        return dict(action="INSPECT", view=dict(page=1), content="A heading in bold " * 4, tags=[])
    return ScriptedClient([reply], cycle=True)


@pytest.mark.parametrize("name", TEAMS)
def test_a45_limits_of_the_board_reach_every_method_that_has_one(name, monkeypatch):
    whole = dict(agreement=9) if "agreement" in method_settings(name) else {}   # nobody's answer ends it
    config = make_config(dict(methods=[dict(type=name, **LIMITS, **whole)]))
    shown, view = [], Board.view
    def watched(board, *args, **kwargs):
        found = view(board, *args, **kwargs)
        if found.text: shown.append((kwargs, found.text))
        return found
    monkeypatch.setattr(Board, "view", watched)
    client = teammates()
    make_method(config.methods[0]).run(SAMPLE, client)
    prompts = [prompt_text(c["messages"]) for c in client.calls]
    assert shown and all(limits == LIMITS and len(text) <= 90 for limits, text in shown)
    assert all(any(text in prompt for prompt in prompts) for _, text in shown)


@pytest.mark.parametrize("name", TEAMS)
@pytest.mark.parametrize("limit", LIMITS)
def test_a45_a_limit_that_shows_nothing_is_refused(name, limit):
    with pytest.raises(ConfigError, match=rf"methods\.0\..*{limit} of method .*greater than or equal to 1"):
        make_config(dict(methods=[dict(type=name, **{limit: 0})]))


# --- A45: generation settings ---

@pytest.mark.parametrize("gen, says", [
    (dict(temperature="hot"), r"gen\.temperature: .*a number from 0 \(greedy\), not 'hot'"),
    (dict(temperature=-.1), r"gen\.temperature: .*not -0\.1"), (dict(temperature=True), r"gen\.temperature"),
    (dict(temperature=[.2]), r"gen\.temperature"), (dict(temperature=float("inf")), r"gen\.temperature"),
    (dict(max_new_tokens=0), r"gen\.max_new_tokens: .*whole number from 1, not 0"),
    (dict(max_new_tokens="many"), r"gen\.max_new_tokens: .*not 'many'"),
    (dict(max_new_tokens=8.5), r"gen\.max_new_tokens"), (dict(max_tokens=0), r"gen\.max_tokens"),
    (dict(max_tokens=8, max_new_tokens=8), r"field gen: max_tokens and max_new_tokens are two names"),
    (dict(top_p=1.5), r"gen\.top_p: .*at most 1"), (dict(top_k=-3), r"gen\.top_k: .*not -3"),
    (dict(repetition_penalty=0), r"gen\.repetition_penalty"), (dict(presence_penalty="x"), r"gen\.presence_penalty"),
    (dict(seed="x"), r"gen\.seed: .*not 'x'"), (dict(stop=5), r"gen\.stop"), (dict(stop=[""]), r"gen\.stop")])
def test_a45_a_generation_setting_that_cannot_be_is_named_before_the_first_question(gen, says, tmp_path):
    asked = teammates()
    with pytest.raises(ConfigError, match=says):
        run_experiment(dict(dataset=MADE, methods=["cot"], gen=gen), tmp_path / "run", client=asked)
    assert not asked.calls and not (tmp_path / "run").exists()


def test_a45_the_command_line_names_the_setting_too(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: {name: made, limit: 1}\nmethods: [direct]\ngen: {temperature: hot}\n")
    assert main(["run", str(path), "--output-dir", str(tmp_path / "run")]) == 2
    assert "mine.yaml: field gen.temperature: " in capsys.readouterr().err


def test_a45_generation_settings_reach_the_client_also_those_of_its_own():
    gen = dict(temperature=.4, top_p=.9, top_k=5, max_tokens=33, stop=["\n\n"], min_p=.05, logit_bias={"7": 1})
    config, client = make_config(dict(methods=["cot"], gen=gen)), teammates()
    make_method(config.methods[0]).run(SAMPLE, client, gen=config.gen)
    gen["max_new_tokens"] = gen.pop("max_tokens")
    assert {k: client.calls[0][k] for k in gen} == gen


@pytest.mark.parametrize("entry", ["self_consistency", dict(type="self_consistency", num_samples=5)], ids=str)
def test_a45_samples_that_would_be_equal_are_refused(entry):
    raw = dict(methods=[entry], gen=dict(temperature=0))
    with pytest.raises(ConfigError, match=r"gen\.temperature: at 0 .* equal.* set it above 0, or leave it out"):
        make_config(raw)
    make_config(dict(raw, gen=dict(temperature=.3)))


def test_a45_votes_have_a_temperature_of_their_own():
    config = make_config(dict(methods=[dict(type="self_consistency", temperature=.5)], gen=dict(temperature=0)))
    client = teammates()
    make_method(config.methods[0]).run(SAMPLE, client, gen=config.gen)
    assert [c["temperature"] for c in client.calls] == [.5] * 3


def test_a45_a_method_s_own_temperature_is_what_counts():
    with pytest.raises(ConfigError, match=r"methods\.0\.temperature: .*greater than or equal to 0, not '-1"):
        make_config(dict(methods=[dict(type="self_consistency", temperature=-1)]))
    @register_method("own_votes")
    def own_votes(task, num_samples: float = 3, temperature: float = .7): return task.outcome("")
    try:
        make_config(dict(methods=["own_votes"], gen=dict(temperature=0)))
        make_config(dict(methods=[dict(type="own_votes", num_samples=1, temperature=0)]))
        with pytest.raises(ConfigError, match=r"methods\.0\.temperature: at 0 all samples of 'own_votes' are equal"):
            make_config(dict(methods=[dict(type="own_votes", temperature=0)]))
        with pytest.raises(ConfigError, match=r"methods\.0\.temperature: .*valid number, not 'hot'"):
            make_config(dict(methods=[dict(type="own_votes", temperature="hot")]))
    finally: METHODS.pop("own_votes")


@pytest.mark.parametrize("entry", ["direct", "cosee_base", "escalate", dict(type="self_consistency", num_samples=1)],
                         ids=str)
def test_a45_greedy_replies_are_fine_where_nobody_votes(entry):
    make_config(dict(methods=[entry], gen=dict(temperature=0)))


# --- question files of spreadsheets ---

ROWS = [["file", "question", "answer"], ["a.png", "Wie hoch ist der Betrag für Öl?", "13.363,30 €"],
        ["a.png", "Where is l’été in Zürich; the 1st?", "Zürich, Genève|Genf"], ["a.png", "Why?", ""]]


def table(folder, encoding, delimiter, first="", name="q.csv"):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(ROWS)
    Image.new("RGB", (60, 60), "white").save(folder / "a.png")
    (folder / name).write_bytes((first + out.getvalue()).encode(encoding))
    return folder / name


@pytest.mark.parametrize("name", ["q.csv", "q.TSV", "q.txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_reports_a_table_of_questions_is_read_as_it_was_written(encoding, delimiter, name, tmp_path):
    found = list(load("folder", root=table(tmp_path, encoding, delimiter, name=name)))
    assert [s["question"] for s in found] == [r[1] for r in ROWS[1:]]
    assert [s["answer"] for s in found] == [["13.363,30 €"], ["Zürich, Genève", "Genf"], []]
    assert [s["meta"]["id"] for s in found] == [f"{name}, line {n}" for n in (2, 3, 4)]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8"])
def test_reports_the_run_asks_what_the_table_says(encoding, tmp_path):
    path, asked = table(tmp_path, encoding, ";"), teammates()
    run = run_experiment(dict(dataset=dict(name="folder", root=str(path)), methods=["direct"]), tmp_path / "run",
                         client=asked)
    assert [r["gold"] for r in run] == [["13.363,30 €"], ["Zürich, Genève", "Genf"], []]
    prompts = [prompt_text(c["messages"]) for c in asked.calls]
    assert all(r[1] in p and "\ufffd" not in p for r, p in zip(ROWS[1:], prompts, strict=True))


def test_reports_the_line_of_excel_that_names_the_delimiter(tmp_path):
    found = list(load("folder", root=table(tmp_path, "utf-8-sig", ";", first="sep=;\r\n")))
    assert [s["meta"]["id"] for s in found] == [f"q.csv, line {n}" for n in (3, 4, 5)]


@pytest.mark.parametrize("first, wanted", [
    ("Datei;Frage;Antwort;Seite", "13,30 €"), ("File;QUESTION;Answers;Page", "13,30 €"),
    ("path;file;question;page", None)])
def test_columns_may_have_other_names(first, wanted, tmp_path, run):
    "A German spreadsheet, its cells with decimal commas and line ends, from the command line"
    Image.new("RGB", (60, 60), "white").save(tmp_path / "a.png")
    cells = dict(path="b.png", file="a.png", question='"Was kostet\ndie Größe 7?"', page="1")
    other = dict(datei="file", frage="question", seite="page", answers="answer", antwort="answer")
    names = [other.get(n, n) for n in first.lower().split(";")]
    text = first + "\r\n" + ";".join(cells.get(n, "13,30 €") for n in names) + "\r\n"
    (tmp_path / "fragen.csv").write_bytes(text.encode("cp1252"))
    code, _, err = run("run", "--dataset", "folder", "--root", tmp_path / "fragen.csv", "--method", "direct",
                       "--client", "ocr", "--output-dir", tmp_path / "run")
    assert code == 0, err
    (record,) = map(json.loads, (tmp_path / "run/records.jsonl").read_text().splitlines())
    assert (record["question"], record["gold"]) == ("Was kostet\ndie Größe 7?", [wanted] if wanted else [])
    assert record["meta"]["evidence_pages"] == [1]


@pytest.mark.parametrize("name", ["q.xlsx", "q.xls", "q.csv"])
def test_a_workbook_is_to_be_saved_as_a_table(name, tmp_path, run):
    (tmp_path / name).write_bytes((b"\xd0\xcf\x11\xe0" if name == "q.xls" else b"PK\x03\x04") + bytes(100))
    code, _, err = run("run", "--dataset", "folder", "--root", tmp_path / name, "--method", "direct",
                       "--client", "ocr", "--output-dir", tmp_path / "run")
    assert code == 2 and f"{name}: this is a workbook" in err and "CSV UTF-8" in err and "Traceback" not in err


@pytest.mark.parametrize("text, encoding", [
    ("Сколько стоит?", "cp1251"), ("Πόσο κοστίζει;", "cp1253"), ("Größe für Öl", "mac_roman"), ("Größe", "cp850"),
    ("załącznik", "cp1250"), ("合計金額は", "shift_jis"), ("总金额", "gbk")])
def test_reports_an_encoding_that_is_not_known_is_named_and_can_be(text, encoding, tmp_path):
    table(tmp_path, "utf-8", ",")
    (tmp_path / "q.csv").write_bytes(f"file,question\na.png,{text}\n".encode(encoding))
    with pytest.raises(DataError, match=r"q\.csv, line \d: its encoding is not .* dataset\.options\.encoding="):
        list(load("folder", root=tmp_path / "q.csv", errors="skip"))
    (found,) = load("folder", root=tmp_path / "q.csv", encoding=encoding)
    assert found["question"] == text


@pytest.mark.parametrize("content, options, says", [
    ("ordner;frage\na.png;Why?\n", {}, "columns file and question.* as delimiter, not 'ordner;frage'"),
    ("file:question\na.png:Why?\n", {}, "as delimiter, not 'file:question'"),
    ("sep=|\nfile;question\na.png;Why?\n", {}, "as delimiter"),
    ("file,question,answer\na.png,How much?,13,30 €\n", {}, r"q\.csv, line 2: .*'30 €' .*delimiter ',' in"),
    ("file,question\na.png,Öl?\n", dict(encoding="ascii"), r"q\.csv, line 2: its encoding is not ascii"),
    ("file,question\na.png,Why?\n", dict(encoding="utf-99"), "no encoding 'utf-99'")])
def test_reports_a_table_that_cannot_be_read_says_why(content, options, says, tmp_path):
    table(tmp_path, "utf-8", ",")
    (tmp_path / "q.csv").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=says): list(load("folder", root=tmp_path / "q.csv", **options))


# --- A46: what a run is scored by ---

@pytest.mark.parametrize("name", ["mpdocvqa"])
def test_a46_the_configurations_of_mpdocvqa_report_anls_em_and_f1(name):
    assert set(metrics_of(read_config(CONFIGS / f"{name}.yaml"))) == {"anls", "em", "f1"}


# --- DUDE: several values ---

FLIGHTS, FORM = ["AF0055", "AF 1044"], "If the answer has several values, separate them by semicolons."


def dude(folder, **rec):
    "A split of DUDE with one question"
    (folder / "images/val").mkdir(parents=True)
    for i in range(2): Image.new("RGB", (64, 64), "white").save(folder / f"images/val/doc_{i}.jpg")
    known = dict(questionId="doc_1", question="Which flights?", answers=FLIGHTS, answer_type="list/extractive",
                 docId="doc", data_split="val", answers_page_bounding_boxes=[])
    (folder / "DUDE_gt.json").write_text(json.dumps(dict(data=[dict(known, **rec)])))
    return dict(name="dude", split="val", root=str(folder))


def says(answer):
    "A model that says it to a plain call, and proposes it in a team"
    def reply(messages):
        if "HYPOTHESIZE" not in prompt_text(messages): return f"Page: 1\nConfidence: 0.9\nAnswer: {answer}"
        return dict(action="HYPOTHESIZE", view=dict(page=1), content="There.", answer=answer, confidence=.95)
    return ScriptedClient([reply], cycle=True)


@pytest.mark.parametrize("answer, score", [
    ("AF 1044; AF0055", 1), ("AF0055;AF 1044", 1), ('["AF0055", "AF 1044"]', 1), ("AF0055", .5),
    ("AF0055; AF 1044; ZZ9999", 2 / 3), ("not answerable", 0)])
def test_dude_several_values_are_asked_for_and_read_as_its_scorer_takes_them(answer, score, tmp_path):
    methods = ["direct", "cot", dict(type="self_consistency", num_samples=2), dict(type="chat", max_turns=1),
               "single_board", "cosee_plan", "blind", "escalate"]
    client = says(answer)
    run = run_experiment(dict(dataset=dude(tmp_path / "data"), methods=methods), tmp_path / "run", client=client)
    scored = {r["method"]: r["scores"]["anls"] for r in run}
    assert scored == pytest.approx(dict.fromkeys(run.methods, score), abs=1e-5)
    prompts = [prompt_text(c["messages"]) for c in client.calls]
    asked = [t for t in prompts if "HYPOTHESIZE" in t or "Answer: " in t]   # all but the planner's
    assert asked and all(f"Question: Which flights?\n{FORM}\n" in t for t in asked)
    assert {r["question"] for r in run} == {"Which flights?"}


def test_dude_every_question_is_told_so_since_the_type_is_part_of_the_gold(tmp_path):
    client = says("Paris")
    run = run_experiment(dict(dataset=dude(tmp_path / "data", answers=["Paris"], answer_type="extractive"),
                              methods=["direct"]), tmp_path / "run", client=client)
    assert FORM in prompt_text(client.calls[0]["messages"]) and next(iter(run))["scores"]["anls"] == 1


def test_dude_a_submission_holds_the_list(tmp_path):
    run_experiment(dict(dataset=dude(tmp_path / "data"), methods=["direct"]), tmp_path / "run", client=says("A; B"))
    assert main(["report", str(tmp_path / "run"), "--format", "submission", "--method", "direct", "-o",
                 str(tmp_path / "s.json")]) == 0
    assert [r["answers"] for r in json.loads((tmp_path / "s.json").read_text())] == [["A", "B"]]


def test_dude_the_reader_by_rules_and_the_search_for_pages_read_the_bare_question(tmp_path):
    sample = next(iter(load(**dude(tmp_path))))
    assert sample["question"] == "Which flights?" and sample["meta"]["answer_form"] == FORM
    for client, told in ((OcrClient(), False), (says("x"), True)):
        task = Task(sample["images"], sample["question"], client, meta=sample["meta"])
        assert (task.client is not client) is told and task.question == "Which flights?"
        assert task.request("Say it.").question == "Which flights?"


def test_dude_the_form_is_paid_for(tmp_path):
    sample = next(iter(load(**dude(tmp_path))))
    with_form, bare = (Task(sample["images"], sample["question"], says("x"), meta=meta).price(DIRECT)
                       for meta in (sample["meta"], {}))
    assert with_form > bare


# --- the second metric reads what the question asks for ---

def contract(folder):
    "A contract of Kleister-NDA with two parties"
    (folder / "documents").mkdir(parents=True)
    Image.new("RGB", (200, 300), "white").save(folder / "documents/a.pdf", resolution=72)
    (folder / "train").mkdir()
    (folder / "train/in.tsv").write_text("a.pdf\tparty jurisdiction\tt\tt\tt\tt\n")
    (folder / "train/expected.tsv").write_text("jurisdiction=New_York;_USA party=Acme_Inc. party=Bolt_LLC\n")
    return folder


def told(client_answers):
    "A model that answers by what stands in the question"
    def reply(messages):
        text = prompt_text(messages)
        return f"Answer: {next(a for q, a in client_answers.items() if q in text)}"
    return ScriptedClient([reply], cycle=True)


@pytest.mark.parametrize("parties", ["Bolt LLC; Acme Inc.", '["Acme Inc.", "Bolt LLC"]'])
def test_kleister_and_mixed_score_the_list_that_was_asked_for(parties, tmp_path):
    root, client = contract(tmp_path / "kleister_nda"), told({"parties": parties, "law": "New York; USA"})
    alone = run_experiment(dict(dataset=dict(name="kleister_nda", split="train", root=str(root)), methods=["direct"]),
                           tmp_path / "alone", client=client)
    part = dict(name="kleister_nda", split="train")
    data = dict(name="mixed", split="all", root=str(tmp_path), options=dict(parts=[part]))
    mixed = run_experiment(dict(dataset=data, methods=["direct"]), tmp_path / "mixed", client=client)
    for run in (alone, mixed):
        scores = {r["meta"]["field"]: r["scores"] for r in run}
        assert list(run.about["metrics"])[1] == "anls"
        assert scores["party"]["anls"] == scores["jurisdiction"]["anls"] == 1
        found = {m: run.scores(m)["direct"] for m in run.about["metrics"]}
        assert all(found[m][str(r["sample"])] == r["scores"][m] for r in run for m in found)
    assert [r["scores"]["right"] for r in mixed if r["meta"]["field"] == "party"] == [1]


def test_mixed_scores_half_a_list_as_half_a_list(tmp_path):
    root = dude(tmp_path / "dude")["root"]
    assert Path(root).name == "dude"
    for said, anls, right in (("AF 1044; AF0055", 1, 1), ("AF0055", .5, 1), ("ZZZ; QQQ", 0, 0)):
        run = run_experiment(dict(dataset=dict(name="mixed", split="all", root=str(tmp_path), options=dict(
            parts=[dict(name="dude", split="val")])), methods=["direct"]), tmp_path / said[:5], client=says(said))
        assert [(r["scores"]["anls"], r["scores"]["right"]) for r in run] == [(anls, right)]


# --- official metrics of data sets that score pages ---

def scope(folder):
    "Two questions of DocScope, one of them without an answer"
    (folder / "pdfs").mkdir(parents=True)
    pages = [Image.new("RGB", (200, 300), "white")] * 3
    pages[0].save(folder / "pdfs/u.pdf", save_all=True, append_images=pages[1:], resolution=72)
    def asked(id, **answer):
        places = [dict(page=p, bbox=[10, 10, 90, 90]) for p in ((1, 3) if answer["is_answerable"] else ())]
        return dict(id=id, split="dev", question=f"Which {id}?", answer=dict(answer_text="a coat", **answer),
                    pdf=dict(doc_id_str="u"), evidences=places, facts=[])
    found = [asked("one", is_answerable=True), asked("two", is_answerable=False)]
    (folder / "benchmark.json").write_text(json.dumps(found))
    return dict(name="docscope", split="dev", root=str(folder))


def test_docscope_reports_its_f1_of_pages(tmp_path):
    client = ScriptedClient([lambda m: "Page: 3\nAnswer: a coat" if "Which one" in prompt_text(m)
                             else "Answer: not answerable"], cycle=True)
    run = run_experiment(dict(dataset=scope(tmp_path / "data"), methods=["direct"]), tmp_path / "run", client=client)
    assert run.about["metrics"]["evidence_f1"] == "docscope"
    assert [r["scores"]["evidence_f1"] for r in run] == pytest.approx([2 / 3, 1], abs=1e-6)
    assert run.scores("evidence_f1")["direct"] == pytest.approx(dict(one=2 / 3, two=1), abs=1e-6)
    assert run.scores("anls")["direct"] == dict(one=1, two=1)


def test_docscope_a_question_that_failed_finds_no_page(tmp_path):
    run = run_experiment(dict(dataset=scope(tmp_path / "data"), methods=["direct"]), tmp_path / "run",
                         client=ScriptedClient([]))
    assert run.scores("evidence_f1")["direct"] == dict(one=0, two=0)


def corpus(folder):
    "A data set of ViDoRe v3 of three pages and one question"
    import pyarrow as pa
    import pyarrow.parquet as pq
    out = io.BytesIO()
    Image.new("RGB", (40, 50), "white").save(out, "PNG")
    page = dict(image=dict(bytes=out.getvalue(), path=""), doc_id="a", markdown="x")
    query = dict(query_id=0, query="How many?", language="english", query_types=["numerical"], query_format="question",
                 content_type=["Text"], answer="42 boats")
    rows = dict(corpus=[dict(page, corpus_id=10 + i, page_number_in_doc=i) for i in range(3)], queries=[query],
                qrels=[dict(query_id=0, corpus_id=11, score=2), dict(query_id=0, corpus_id=12, score=1)])
    for part, found in rows.items():
        (folder / part).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(found), folder / part / "test-00000-of-00001.parquet")
    return dict(name="vidore_v3", split="test", root=str(folder))


@pytest.mark.parametrize("page, wanted", [
    (2, (2 + 1 / math.log2(4)) / (2 + 1 / math.log2(3))),                    # pages 2, 1, 3
    (1, (2 / math.log2(3) + 1 / math.log2(4)) / (2 + 1 / math.log2(3)))])    # pages 1, 2, 3
def test_vidore_v3_reports_ndcg_of_the_pages_in_the_order_of_what_was_found(page, wanted, tmp_path):
    client = ScriptedClient([f"Page: {page}\nAnswer: 42 boats"], cycle=True)
    run = run_experiment(dict(dataset=corpus(tmp_path / "data"), methods=["direct"]), tmp_path / "run", client=client)
    assert next(iter(run.about["metrics"].items())) == ("evidence_ndcg", "vidore_v3")
    (record,) = run
    assert record["scores"]["evidence_ndcg"] == pytest.approx(wanted, abs=1e-6) and record["scores"]["anls"] == 1
    assert run.scores("evidence_ndcg")["direct"]["0"] == pytest.approx(wanted)
    assert main(["report", str(run.folder), "--json"]) == 0
