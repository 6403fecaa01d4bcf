"""A script as a user writes it, with every public name and nothing else: what type checkers say about it is tested.

Run, it asks one question; tests/test_typing.py also plants a misspelt method in it.
"""
from pathlib import Path

from cosee import (Action, Agent, AnthropicVLMClient, Board, BudgetExceeded, Cell, ConfigError, CoSeeController,
                   CrossCheckerAgent, DataError, DetailReaderAgent, Document, Episode, EpisodeView, EpisodeWidget,
                   Folder, GoogleVLMClient, InteractiveDocument, InteractiveDocumentWithTools, Ledger, OcrClient,
                   OpenAIVLMClient, PageError, QwenVLClient, Report, Run, RunConfig, Sample, ScannerAgent,
                   ScriptedClient, Tool, View, Viewer, VLMClient, VLMClientError, VLMLanguageModel, aggregate_metrics,
                   anls, annotate, bootstrap, compare_runs, create_vlm_client, direct_answer, exact_match, f1_score,
                   follow, load, load_config, load_pages, make_samples, match_budget, multi_agent_chat_no_board,
                   normalize_answer, read_config, register_method, replay, resilient, run_experiment, samples_dir,
                   score_many, self_consistency, single_agent_cot, subset, team, with_tools, write_html,
                   write_submission)

CLIENTS: dict[str, type[VLMClient]] = {
    "openai": OpenAIVLMClient, "anthropic": AnthropicVLMClient, "google": GoogleVLMClient, "qwen": QwenVLClient}
MISTAKES = (BudgetExceeded, ConfigError, DataError, PageError, VLMClientError)


def a_client(id: str) -> VLMClient:
    return resilient(create_vlm_client(id, load_config("backends.yaml")), attempts=2) if id else OcrClient()


def ask(path: Path, question: str, id: str = "") -> Episode:
    try:
        controller = CoSeeController(team(a_client(id)), max_steps=2)
        return controller.run(load_pages(path), question, ledger=Ledger(max_tokens=20_000))
    except MISTAKES as e:
        raise SystemExit(str(e)) from e


def notes(board: Board, page: int) -> list[str]:
    view: View = {"page": page, "bbox": (0.1, 0.1, 0.5, 0.2)}
    board.add_cell(view, "Subtotal: 12 USD", tags=["number"], author="me")
    found: list[Cell] = board.get_cells(page=page)
    return [cell["content"] for cell in found]


def look(episode: Episode, path: Path) -> None:
    pages = load_pages(path)
    write_html("answer.html", episode, pages)
    annotate(pages[0], episode["board"].get_cells(page=1)).save("page.png")
    print(EpisodeView(episode, pages), EpisodeWidget(episode, pages))


def rivals(client: VLMClient, path: Path, question: str) -> list[str]:
    pages, agents = load_pages(path), [ScannerAgent(client), DetailReaderAgent(client), CrossCheckerAgent(client)]
    follow(CoSeeController(with_tools(agents, path)), pages, question)
    return [direct_answer(client, pages, question), single_agent_cot(client, pages, question),
            self_consistency(client, pages, question), multi_agent_chat_no_board(agents, pages, question)]


def study(config: RunConfig, samples: list[Sample]) -> Run:
    print(match_budget("self_consistency", of="cosee_base", samples=samples, client=OcrClient()))
    run = run_experiment(config, "runs/study")
    print(Report(run), Viewer(run.folder), compare_runs({"a": [1.0, 0.0], "b": [1.0, 1.0]}, "a"),
          bootstrap([1.0, 0.0]))
    write_submission("mpdocvqa", [{"questionId": 1, "answer": "12"}], load("mpdocvqa", "val"), "submission.json")
    return run


def scores(answers: list[str], samples: list[Sample]) -> float:
    golds = [sample["answer"] for sample in samples]
    print(anls("12", "12"), exact_match("12", ["12"]), f1_score("a b", "b"), normalize_answer(" Twelve "))
    print(score_many(answers, golds), aggregate_metrics(answers, golds)["anls"])
    return score_many(answers, golds).mean


def memory(client: VLMClient, tools: list[Tool]) -> str:
    model = VLMLanguageModel(client)
    document: Document = InteractiveDocumentWithTools(model, tools) if tools else InteractiveDocument(model)
    document.append("What the team found")
    return document.view().text()


def told(action: Action, agent: Agent) -> str:
    return f"{agent.name}: {action.get('action')} {action.get('content')}"


def main() -> None:
    episode = ask(samples_dir() / "invoice.pdf", "How much is the subtotal?")
    print(episode["answer"], episode["page"], episode["board"].to_text())
    assert replay(episode["trace"])["answer"] == episode["answer"]
    print(notes(episode["board"], page=1), memory(ScriptedClient(["{}"]), []))
    samples = subset(make_samples(3, seed=1), 2)
    print(scores(["12 USD", "no"], samples), told({"action": "INSPECT"}, ScannerAgent(ScriptedClient(["{}"]))))


if __name__ == "__main__":
    main()
    print(read_config("study.yaml") if Path("study.yaml").exists() else RunConfig(), register_method("mine"))
    print(Folder("questions.jsonl") if Path("questions.jsonl").exists() else "")
