"""A script as a user writes it, with nothing but public names: what type checkers say about it is tested.

It is checked, not run: tests/test_typing.py also plants a misspelt method in it.
"""
from pathlib import Path

from cosee import (Board, CoSeeController, Document, Episode, Ledger, OcrClient, QwenVLClient, ScannerAgent,
                   ScriptedClient, VLMClient, aggregate_metrics, load_pages, make_samples, replay, samples_dir, team)


def client(weights: Path | None) -> VLMClient:
    return QwenVLClient(str(weights)) if weights else OcrClient()


def ask(path: Path, question: str, weights: Path | None = None) -> Episode:
    controller = CoSeeController(team(client(weights)), max_steps=2)
    return controller.run(load_pages(path), question, ledger=Ledger(max_tokens=20_000))


def notes(board: Board, page: int) -> list[str]:
    board.add_cell({"page": page, "bbox": (0.1, 0.1, 0.5, 0.2)}, "Subtotal: 12 USD", tags=["number"], author="me")
    return [cell["content"] for cell in board.get_cells(page=page)]


def main() -> None:
    episode = ask(samples_dir() / "invoice.pdf", "How much is the subtotal?")
    print(episode["answer"], episode["page"], episode["board"].to_text())
    assert replay(episode["trace"])["answer"] == episode["answer"]
    print(notes(episode["board"], page=1), ScannerAgent(ScriptedClient(["{}"])).name)
    golds = [sample["answer"] for sample in make_samples(3, seed=1)]
    print(aggregate_metrics(["12 USD", "no", "yes"], golds)["anls"])
    document = Document()
    document.append("What the team found")
    print(document.view().text())


if __name__ == "__main__":
    main()
