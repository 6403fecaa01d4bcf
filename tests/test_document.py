"Behaviours D1-D34 of the specification's text memory, each named by its id."
import copy

import numpy as np
import pytest

from cosee import document as d
from cosee.models.testing import ScriptedClient


class Model:
    "A language model that says what it was told to, and keeps what it was asked."
    def __init__(self, texts=(), choices=()): self.texts, self.choices, self.asked = list(texts), list(choices), []

    def sample_text(self, prompt, *, max_tokens=5000, terminators=(), temperature=1.0, top_p=0.95, top_k=64,
                    timeout=60, seed=None):
        self.asked.append(dict(prompt=prompt, max_tokens=max_tokens, terminators=terminators, temperature=temperature,
                               top_p=top_p, top_k=top_k))
        return self.texts.pop(0)

    def sample_choice(self, prompt, responses, *, seed=None):
        self.asked.append(dict(prompt=prompt, responses=responses))
        i = self.choices.pop(0)
        return i, responses[i], {"sure": 0.5}

    @property
    def prompts(self): return [a["prompt"] for a in self.asked]


class Backwards:
    "A source of chance that reverses and takes the last."
    def permutation(self, n): return np.arange(n)[::-1]
    def integers(self, n): return n - 1


def doc(*texts, choices=(), rng=None): return d.InteractiveDocument(Model(texts, choices), rng=rng)


def test_D1_list_of_contents():
    x = d.Document([d.Content("a", tags=["t"])])
    x.append("b", tags=["u", "v"])
    x.extend([d.Content("c")])
    assert x.contents() == tuple(x) == (d.Content("a", tags={"t"}), d.Content("b", tags={"v", "u"}), d.Content("c"))
    assert str(x.contents()[1]) == "b"


def test_D2_copy_branches():
    x = d.Document([d.Content("a")])
    twin = x.copy()
    assert twin == x and not twin != x  # noqa: SIM202
    twin.append("b")
    assert x.text() == "a" and twin.text() == "ab" and twin != x


def test_D3_view_filters():
    x = d.Document([d.Content("a", tags=["t"]), d.Content("b", tags=["u"])])
    assert (x.view(include_tags=["t"]).text() == "a"
            and x.view(exclude_tags=["t"]).contents() == (d.Content("b", tags=["u"]),))


def test_D4_interactive_document_asks_generates_and_keeps_history():
    x = doc("Paris")
    assert isinstance(x, d.Document) and x.open_question("Capital?") == "Paris"
    assert [set(c.tags) for c in x] == [{"question"}, {"response"}, {"response", "model"}, {"response"}]


def test_D6_needs_only_a_model():
    assert d.InteractiveDocument(Model()).text() == ""
    assert isinstance(Model(), d.LanguageModel)


def test_D7_statement_appends_a_line():
    x = doc()
    x.statement("one")
    x.statement("two", end="!")
    assert x.text() == "one\ntwo!" and x.contents()[0].tags == {"statement"}


def test_D8_prompt_is_the_current_content():
    x = doc("dark")
    x.statement("The room.")
    x.open_question(question="How is it?", max_tokens=7)
    assert (x._model.asked[0]["prompt"] == "The room.\nQuestion: How is it?\nAnswer: "
            and x._model.asked[0]["max_tokens"] == 7)


def test_D9_exchange_is_appended():
    x = doc("dark")
    x.open_question("How is it?")
    assert x.text() == "Question: How is it?\nAnswer: dark\n"


def test_D10_text_renders_all():
    x = doc("yes")
    x.statement("a")
    x.debug("b")
    x.open_question("c?")
    assert x.text() == "a\nb\nQuestion: c?\nAnswer: yes\n"


def test_D11_tags_are_free_strings():
    x = doc()
    for tag in ("debug", "memory", "private", "tool_call", "tool_result", "anything at all"): x.append(tag, tags=[tag])
    assert all(x.view(include_tags=[c.text], exclude_tags=[]).text() == c.text for c in x)


def test_D12_debug_is_hidden_from_the_model():
    x = doc("ok")
    x.debug("5 memories", tags=["debug", "count"])
    x.open_question("?")
    assert x.contents()[0].tags == {"debug", "count"} and x.contents()[0].text == "5 memories\n"
    assert "memories" not in x._model.prompts[0] and "memories" not in x.view().text() and "memories" in x.text()


def test_D13_statement_with_tags():
    x = doc()
    x.statement("Alice is hungry.", tags=["memory"])
    assert x.contents()[0].tags == {"statement", "memory"}


def test_D14_view_by_tags():
    x = doc()
    x.statement("m", tags=["memory"])
    x.statement("p", tags=["private"])
    assert x.view(exclude_tags=["private"]).text() == "m\n" and x.view(include_tags=["memory"]).text() == "m\n"


def test_D15_view_is_live():
    x = doc()
    view = x.view()
    assert view.text() == "" and view.contents() == ()
    x.statement("later")
    assert view.text() == "later\n"
    x.clear()
    assert view.text() == ""


def test_D16_several_views_at_once():
    x = doc()
    model, supervisor = x.view(exclude_tags=["debug", "private"]), x.view(exclude_tags=["debug"])
    x.statement("seen")
    x.statement("thought", tags=["private"])
    assert model.text() == "seen\n" and supervisor.text() == "seen\nthought\n"


@pytest.mark.parametrize("tags", [dict(exclude_tags=["private"]), dict(include_tags=["memory"])])
def test_D17_a_question_can_keep_private_thoughts_from_the_model(tags):
    x = d.InteractiveDocument(Model(["a", "1. x\n2. y"], [0, 0]), rng=Backwards())
    x.statement("known", tags=["memory"])
    x.statement("secret", tags=["private"])
    x.debug("log")
    view = x.view(**tags)
    x.open_question("q1?", view=view)
    x.open_question_diversified("q2?", num_samples=2, view=view)
    x.multiple_choice_question("q3?", ["u", "v"], view=view)
    x.yes_no_question("q4?", view=view)
    for n, prompt in enumerate(x._model.prompts, 1):
        assert "secret" not in prompt and "log" not in prompt and "known" in prompt and f"q{n}?" in prompt


def test_D17a_model_view_for_the_whole_document():
    x = doc("a", "b")
    x.statement("secret", tags=["private"])
    x.model_view = x.view(exclude_tags=["debug", "private"])
    x.open_question("q?")
    with x.edit() as branch: branch.open_question("r?")
    assert not any("secret" in p for p in x._model.prompts) and "Answer: a" in x._model.prompts[1]
    with pytest.raises(ValueError, match="this very document"): x.model_view = doc().view()


def test_D17_view_of_another_document_still_shows_the_question():
    x, other = doc("a"), d.Document([d.Content("elsewhere ")])
    x.statement("here")
    x.open_question("q?", view=other.view())
    assert x._model.prompts == ["elsewhere Question: q?\nAnswer: "]


def test_D18_contradictory_view_and_frozen_content():
    x = d.Document([d.Content("a", tags=["t", "u"])])
    with pytest.raises(ValueError, match="'t'"): x.view(include_tags=["t"], exclude_tags=["t"])
    assert x.view(include_tags=["t"], exclude_tags=["u"]).text() == ""
    assert isinstance(x.contents()[0].tags, frozenset)
    with pytest.raises(AttributeError): x.contents()[0].text = "b"
    with pytest.raises(TypeError, match="collection"): d.Content("a", tags="tag")


def test_D19_history_is_stable():
    x = doc("a", "b")
    x.statement("s")
    before = x.contents()
    x.open_question("q?")
    with x.edit() as branch: branch.open_question("r?")
    assert x.contents()[:1] == before and x._model.prompts[1].startswith(x._model.prompts[0] + "a\n")


def test_D20_edit_can_ask():
    x = doc("boom")
    with x.edit() as temp:
        assert temp.open_question("And now?") == "boom"
        assert isinstance(temp, d.InteractiveDocument) and x.text() == ""


def test_D21_commit_rollback_and_exception():
    x = d.Document([d.Content("a")])
    with x.edit() as e: e.append("b")
    assert x.text() == "ab" and e.contents() == (d.Content("b"),)
    with x.edit() as e:
        e.append("c")
        e.clear()
    assert x.text() == "ab" and e.contents() == ()
    with pytest.raises(KeyError), x.edit() as e:
        e.append("d")
        raise KeyError("no")
    assert x.text() == "ab"


def test_D22_branch_sees_its_base():
    x = doc("a", "b")
    x.statement("base")
    with x.edit() as one:
        one.statement("one")
        with one.edit() as two:
            two.open_question("q?")
            x.statement("meanwhile")
            assert two.text() == "base\nmeanwhile\none\nQuestion: q?\nAnswer: a\n"
        assert len(one.contents()) == 5
        one.clear()
        one.open_question("r?")
    assert x._model.prompts == ["base\none\nQuestion: q?\nAnswer: ", "base\nmeanwhile\nQuestion: r?\nAnswer: "]
    assert x.text() == one.text() == "base\nmeanwhile\nQuestion: r?\nAnswer: b\n"


def test_D23_forced_response():
    x = doc("next")
    assert x.open_question("Who?", forced_response="A dog.") == "A dog."
    assert x._model.asked == [] and x.contents()[2] == d.Content("A dog.", tags={"response", "model"})
    x.open_question("Really?")
    assert "A dog." in x._model.prompts[0]


def test_D24_forced_and_generated_turns_mix():
    x = doc("b")
    assert ([x.open_question("1?", forced_response="a"), x.open_question("2?"),
             x.open_question_diversified("3?", forced_response="c")] == ["a", "b", "c"])
    assert len(x._model.asked) == 1 and x.text().endswith("Question: 3?\nFinal Answer: c\n")


@pytest.mark.parametrize("index,answer", [(0, False), (1, True)])
def test_D25_yes_no(index, answer):
    class InOrder(Backwards):
        def permutation(self, n): return np.arange(n)
    x = doc(choices=[index], rng=InOrder())
    assert x.yes_no_question("2 > 1?") is answer
    assert "  (a) No\n  (b) Yes\n" in x.text()


def test_D26_multiple_choice_returns_the_original_index():
    x = doc(choices=[0, 2], rng=Backwards())
    first, second = (x.multiple_choice_question("?", ["r", "s", "t"]),
                     x.multiple_choice_question("?", ["r", "s", "t"], randomize_choices=False))
    assert (first, second) == (2, 2) and type(first) is int
    with pytest.raises(ValueError, match="at least one"): x.multiple_choice_question("?", [])


def test_D26_any_number_of_answers():
    x = doc(choices=[29])
    assert x.multiple_choice_question("?", [f"n{i}" for i in range(30)], randomize_choices=False) == 29
    assert "  (z) n25\n  (aa) n26\n" in x.text() and x.text().count("Answer: (ad)\n") == 1


def test_D27_diversified_draws_one_of_several():
    x = doc("x\n2. y\n3. z", rng=np.random.default_rng(0))
    assert x.open_question_diversified("?", num_samples=3) in ("x", "y", "z")


def test_D28_rendering_of_a_choice():
    x = doc(choices=[1], rng=Backwards())
    x.multiple_choice_question("Which?", ["x", "y"])
    assert x.text() == "Question: Which?\n  (a) y\n  (b) x\nAnswer: (b)\n[{'sure': 0.5}]\n"
    assert x._model.asked == [dict(prompt="Question: Which?\n  (a) y\n  (b) x\nAnswer: (", responses=["a", "b"])]
    assert [set(c.tags) for c in x] == [{"question"}] * 3 + [{"response"}, {"response", "model"},
                                                             {"response"}, {"debug"}]


def test_D29_defaults():
    x = doc("a", "Well: b")
    x.open_question("?")
    assert {k: v for k, v in x._model.asked[0].items() if k != "prompt"} == dict(
        max_tokens=50, terminators=("\n",), temperature=1.0, top_p=0.95, top_k=64)
    assert (d.DEFAULT_MAX_TOKENS, d.DEFAULT_TEMPERATURE, d.DEFAULT_TOP_P, d.DEFAULT_TOP_K) == (50, 1.0, 0.95, 64)
    assert (x.open_question("?", answer_prefix="Well: ", answer_suffix="!", question_label="Task",
                            answer_label="Reply") == "b")
    assert x.text().endswith("Task: ?\nReply: Well: b!\n") and x._model.prompts[1].endswith("Reply: Well: ")


def test_D30_diversified_format():
    x = doc("x\n2. y!z\n3. w", rng=type("Second", (), {"integers": lambda self, n: 1})())
    assert x.open_question_diversified("Which?", num_samples=3, max_tokens=5, terminators=("!",)) == "y"
    assert x._model.asked[0]["max_tokens"] == 15 and list(x._model.asked[0]["terminators"]) == []
    assert x.text() == ("Task: generate 3 Answers to the following Question:\nQuestion: Which?\n"
                        "Answers:\n1. x\n2. y!z\n3. w\nFinal Answer: y\n")


def test_D30_diversified_counts():
    x = doc("x\n2. y", "only one", rng=Backwards())
    assert x.open_question_diversified("?") == "y"
    assert x.view(include_tags=["debug"], exclude_tags=[]).text() == "LLM generated 2 answers instead of 10\n"
    with pytest.raises(Warning, match="only 1"): x.open_question_diversified("?")


def test_D31_one_document_each():
    model = Model(["a", "b"])
    alice, bob = d.InteractiveDocument(model), d.InteractiveDocument(model)
    alice.open_question("Alice?")
    bob.open_question("Bob?")
    assert "Alice" not in model.prompts[1]


def test_D32_views_are_lazy():
    x = doc()
    passed_on = x.view(include_tags=["public"])
    x.statement("said afterwards", tags=["public"])
    assert passed_on.text() == "said afterwards\n"


def test_D33_scoped_edit_for_temporary_reasoning():
    x = doc("thinking")
    x.statement("given")
    with x.edit() as branch:
        branch.open_question("Think:")
        branch.clear()
    assert x.text() == "given\n"


def test_D34_views_for_others_hide_the_mechanics():
    x = doc()
    x.append("[Tool Call: a({})]\n", tags=["tool_call"])
    x.statement("public")
    assert x.view(exclude_tags=["debug", "tool_call", "tool_result"]).text() == "public\n"


def test_new_and_copy_keep_model_and_settings():
    x = doc("a")
    x.statement("s")
    x.model_view = x.view(exclude_tags=["private"])
    for twin in (x.new(), x.copy(), copy.copy(x)): assert twin._model is x._model and twin._model_tags == x._model_tags
    assert x.new().text() == "" and d.Document([d.Content("a")]).new() == d.Document()


def test_a_model_without_all_settings_still_serves():
    class Small:
        def sample_text(self, prompt, *, max_tokens=1, terminators=(), temperature=1.0, timeout=1, seed=None):
            return "ok"
        def sample_choice(self, prompt, responses, *, seed=None): return 0, responses[0], {}
    assert d.InteractiveDocument(Small()).open_question("?") == "ok"


def test_representations_escape():
    x = d.Document([d.Content("<b>\nx", tags=["<i>"])] * 25)
    for shown in (x._repr_html_(), x._repr_markdown_(), x.contents()[0]._repr_html_()):
        assert "<b>\nx" not in shown and "<i>" not in shown.replace("<i>...", "")
    assert "... and 5 more content" in x._repr_html_() and "... and 5 more content" in x._repr_markdown_()
    assert ("Empty document" in d.Document()._repr_html_() + d.Document()._repr_markdown_()
            and "25 content(s)" in repr(x))


class Constrained(ScriptedClient): constrains = True


def test_any_client_is_a_model():
    client = Constrained([" Answer: it is red.\nmore", {"choice": "b"}, {"choice": "nonsense"}, {"choice": "a"}])
    model = d.VLMLanguageModel(client, images=["p.png"])
    assert isinstance(model, d.LanguageModel)
    assert (model.sample_text("Question: ?\nAnswer: ", terminators=("\n",), seed=3) == "it is red."
            and client.calls[0]["seed"] == 3)
    assert (model.sample_choice("(", ["a", "b"])[:2] == (1, "b")
            and model.sample_choice("(", ["a", "b"])[2]["attempts"] == 2)
    assert [b["type"] for b in client.calls[0]["messages"][0]["content"]] == ["image", "text"]
    with pytest.raises(ValueError, match="nothing to choose"): model.sample_choice("(", [])
