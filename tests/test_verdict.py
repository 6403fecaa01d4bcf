"The comparison at equal tokens as its commands run it, behind a server and with weights; and the published records."
import json
from pathlib import Path

import pytest
from fake_servers import FakeServer
from test_analysis import cosee

from cosee.controller import replay
from cosee.experiments import Run
from cosee.models.qwen_vl_wrapper import tiny_folder
from cosee.runs.config import read_config
from cosee.runs.report import Report

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parent.parent / "configs/equal_tokens.yaml"
SMALL = json.dumps(dict(kinds=["invoice"], per_doc=1, dpi=50))
NAMES = [m if isinstance(m, str) else m["name"] for m in read_config(CONFIG).methods]


def study(folder, *client):
    "The study on one small document of this package, in place of those of the data sets."
    return cosee("run", CONFIG, "--dataset", "made", "--set", f"dataset.options={SMALL}", "--limit", 1, "--quiet",
                 "--output-dir", folder, *client)


def whole(folder, exact=True):
    "The records of a study that answered with every method, within its budget; are prices those that are paid?"
    records = list(Run(folder))
    assert [r["method"] for r in records] == NAMES
    assert {r["status"] for r in records} == {"ok"}, [r["error"] for r in records]
    by = {r["method"]: r for r in records}
    direct, three = by["direct"]["usage"], by["votes@3"]["trace"]["ledger"]["max_tokens"]
    for r in records:
        calls, _, count = r["method"].partition("@")[2].partition("_")
        if not calls: continue
        # a direct call's price is what it may cost: the reply's bound comes to what it read
        if exact and not count:
            assert r["usage"]["total_tokens"] <= float(calls) * (direct["prompt_tokens"] + 64), r["method"]
        ledger = r["trace"]["ledger"]   # one page is shown to all alike, so that all have the same price
        assert ledger["max_tokens"] == int(float(calls) * three / 3) and ledger["count"] == (count or "total")
        free = r["usage"]["cached_tokens"] if count else 0
        assert 0 <= r["usage"]["total_tokens"] - free <= ledger["max_tokens"], r["method"]
    return records


def test_the_study_behind_a_server_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with FakeServer("openai") as server:
        how = "--client", "openai", "--model", "m", "--base-url", server.base_url
        code, said = study(tmp_path / "run", *how)
        assert code == 0, said
        whole(tmp_path / "run", exact=False)   # the server counts 200 tokens, whatever it is sent
        asked = len(server.requests)
        assert study(tmp_path / "run", *how)[0] == 0 and len(server.requests) == asked
    code, said = cosee("report", tmp_path / "run", "-o", tmp_path / "report.html", "--resamples", 200)
    assert code == 0, said
    page = (tmp_path / "report.html").read_text()
    assert "Against the same tokens" in page and "What became of first answers" in page and "votes" in page


@pytest.mark.parametrize("client", ["qwen", "local"])
def test_the_study_with_weights_on_this_disk(tmp_path, client):
    code, said = study(tmp_path / "run", "--client", client, "--model-path", tiny_folder())
    assert code == 0, said
    records = whole(tmp_path / "run")
    assert sum(r["usage"]["image_tokens"] for r in records) > 0


# --- what is published ---

PUBLISHED = CONFIG.parent.parent / "benchmarks/results/verdict"
PACKS = sorted(PUBLISHED.glob("fresh_*.pack"))


def test_the_published_tables_are_what_the_records_give():   # those of the third that nothing was chosen by
    assert PACKS and sum(p.stat().st_size for p in PACKS) < 20e6
    published = (PUBLISHED / "tables.json").read_text()
    assert Report(PACKS, n_resamples=10_000).analysis.to_json() == published


@pytest.mark.parametrize("pack", sorted(PUBLISHED.rglob("*.pack")), ids=lambda p: p.stem)
def test_a_published_run_is_whole_and_can_be_replayed(pack):
    run = Run(pack)
    names = [m["name"] for m in run.about["config"]["methods"]]
    asked = {}
    for record in run:
        asked.setdefault(record["sample"], []).append(record["method"])
        if "events" in (record["trace"] or {}): assert replay(record["trace"])["answer"] == record["answer"]
    assert all(methods == names for methods in asked.values()), "every question was put to every method"
    code, said = cosee("report", pack, "--format", "text", "--resamples", 50)
    assert code == 0 and names[0] in said, said
