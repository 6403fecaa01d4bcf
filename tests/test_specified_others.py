"""What the planner's and the text memory's specifications print, tried as a user would: each test names its id, and
the code is that of the documents in tests/data/documents."""
import json
import re
from abc import ABC, abstractmethod

import pytest
from cosee import document
from cosee.cli.entry import main
from cosee.document import tool_policy
from cosee.models.providers import AnthropicVLMClient, GoogleVLMClient, OpenAIVLMClient
from cosee.models.backends import Backend, load_config
from cosee.models.qwen_vl_wrapper import QwenVLClient
from cosee.models.registry import make_client
from cosee.models.wrappers import CachedClient, FallbackClient, RetryingClient
from cosee.models.testing import ScriptedClient, random_checkpoint
from cosee.models.clients import reading_client
from cosee.models.text_client import MultimodalClient
from cosee.planner import VLMClient, create_vlm_client, plan, planner_client, planner_graph, planner_node
from cosee.planner.nodes.planner import PLANNER_PROMPT, planner_prompt
from cosee.tools.calculator import Calculate
from cosee.utils.config import ConfigError
from fake_servers import FakeServer, asked
from PIL import Image
from test_document import Model
from test_document_code import PLAN, blocks, ours

PAGE = Image.new("RGB", (64, 48), "white")
REFERENCE = Image.new("RGB", (80, 60), "ivory")
CALL = {"tool": "web_search", "args": {"query": "bitcoin price"}}


# --- the planner ---

def printed_base():
    "The abstract class of the specification, as it is printed there."
    class VLMClient(ABC):
        @abstractmethod
        def generate(self, prompt: str, image: Image, **kwargs) -> str:
            """Generate text response from VLM."""
            pass
    return VLMClient


class Whole(VLMClient):
    def generate(self, prompt, image, **kwargs):
        self.given = image, kwargs
        return json.dumps(PLAN)


class Short(VLMClient):
    def generate(self, prompt, image): return json.dumps(PLAN)


class Typed(VLMClient):
    def generate(self, prompt: str, image: Image, **kwargs) -> str:
        self.size = image.size
        return json.dumps(PLAN)


class Printed(printed_base()):
    def generate(self, prompt: str, image: Image, **kwargs) -> str:
        self.size = image.size
        return json.dumps(PLAN)


@pytest.mark.parametrize("kind", [Whole, Short, Typed, Printed])
def test_P2_a_client_that_implements_generate_alone_plans(kind, tmp_path):
    PAGE.save(tmp_path / "a.png")
    REFERENCE.save(tmp_path / "b.png")
    state = {"query": "Is the stamp blurred?", "image_path": "a.png"}
    out = plan("Is the stamp blurred?", PAGE, client=kind(), cache=None)
    assert out.distortions == PLAN["distortions"] and out.reference_mode == "No-Reference"
    assert planner_node(kind(), root=tmp_path)(state)["plan"] == out
    assert planner_graph(kind(), root=tmp_path).invoke(state)["plan"] == out
    full = planner_node(kind(), root=tmp_path)({**state, "reference_path": "b.png"})
    assert not full["error"] and full["plan"].reference_mode == "Full-Reference"
    down = ScriptedClient([])
    assert plan("Is the stamp blurred?", PAGE, client=down, fallback=kind(), cache=None) == out


def test_P2_generate_is_given_what_a_provider_takes_and_no_more():
    client = Whole()
    plan("Is the stamp blurred?", PAGE, client=client, cache=None)
    image, settings = client.given
    assert image.size == PAGE.size and settings == {"temperature": 0.0, "top_p": 0.1, "max_tokens": 2048}
    plan("Is the stamp blurred?", PAGE, REFERENCE, client=client, cache=None)
    assert [im.size for im in client.given[0]] == [PAGE.size, REFERENCE.size]

    class Schemed(VLMClient):
        def generate(self, prompt, image, schema=None, **kwargs):
            self.schema = schema
            return json.dumps(PLAN)
    client = Schemed()
    plan("Is the stamp blurred?", PAGE, client=client, cache=None)
    assert "query_type" in client.schema["properties"]


@pytest.mark.parametrize("kind", [Typed, Printed])
def test_P2_one_image_is_one_image_also_where_there_is_a_reference(kind):
    client = kind()
    plan("What was lost?", PAGE, REFERENCE, client=client, cache=None)
    assert client.size == (PAGE.width + REFERENCE.width, REFERENCE.height)


def test_P2_its_replies_are_checked_and_asked_again():
    class Slow(VLMClient):
        prompts = ()

        def generate(self, prompt, image, **kwargs):
            self.prompts = (*self.prompts, prompt)
            return json.dumps(PLAN) if len(self.prompts) == 3 else "I see a stamp."
    client = Slow()
    assert plan("Is the stamp blurred?", PAGE, client=client, cache=None).query_type == "IQA"
    assert "Return valid JSON only" not in client.prompts[0] and "Return valid JSON only" in client.prompts[1]


@pytest.fixture
def keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-some-length")


@pytest.mark.parametrize("id, kind", [("openai.gpt-4o", OpenAIVLMClient), ("google.gemini-2.5-flash", GoogleVLMClient),
                                      ("anthropic.claude-3.5-sonnet", AnthropicVLMClient)])
@pytest.mark.parametrize("form", ["none", "fields", "block", "file"])
def test_P44_the_client_that_was_asked_for(id, kind, form, tmp_path):
    provider, model = id.split(".", 1)
    text = {"backends": {provider: {"kind": provider, "models": {model: model}}}}
    (tmp_path / "b.yaml").write_text(json.dumps(text))
    config = {"none": None, "fields": {"max_tokens": 2048, "temperature": 0.0, "top_p": 0.1}, "block": text,
              "file": tmp_path / "b.yaml"}[form]
    client = create_vlm_client(id, config, api_key="a-key-of-a-program")
    assert type(client) is kind and client.name == id and client.backend.model == model
    if form == "fields": assert (client.backend.max_tokens, client.backend.top_p) == (2048, 0.1)


def test_P44_clients_by_name_ask_for_print(keys):
    for client in (make_client("openai", model="m"), make_client("openai.m"), reading_client("openai.m")):
        assert isinstance(client, MultimodalClient) and type(client.client) is OpenAIVLMClient


def test_P44_fields_may_hold_the_key():
    client = create_vlm_client("openai.gpt-4o", {"api_key": "a-key-of-a-program", "timeout": 5})
    assert client.sdk.api_key == "a-key-of-a-program" and client.backend.timeout == 5
    assert "a-key-of-a-program" not in repr(client.backend)
    with pytest.raises(ConfigError, match="api_key: a text is expected"): create_vlm_client("openai.m", {"api_key": 1})
    with pytest.raises(ValueError, match="modle is not a field"): create_vlm_client("openai.m", {"modle": "x"})


def test_P44_qwen_from_a_folder(tmp_path):
    random_checkpoint(tmp_path)
    assert type(create_vlm_client("qwen.small", {"model_path": str(tmp_path)})) is QwenVLClient


@pytest.mark.parametrize("id", ["mystery.model", "gpt-4o", "", "openia.gpt-4o"])
def test_P44_an_unknown_backend_is_a_ValueError(id):
    with pytest.raises(ValueError, match="there is no backend"): create_vlm_client(id)
    with pytest.raises(ValueError, match="there is no backend"): create_vlm_client(id, {"backends": {
        "a": {"kind": "openai", "models": {"b": "c"}}}})


@pytest.mark.parametrize("fields", [{"images": False}, {"text_source": "auto"}, {"text_source": "image_and_text"},
                                    {"page_tokens": 99}])
def test_P44_print_stands_around_a_client_where_its_backend_asks_for_it(keys, fields):
    for client in (create_vlm_client("openai.m", fields), create_vlm_client("openai.m", **fields),
                   create_vlm_client(Backend(kind="openai", model="m", **fields), api_key="k")):
        assert isinstance(client, MultimodalClient) and type(client.client) is OpenAIVLMClient
    assert type(create_vlm_client("openai.m", images=True)) is OpenAIVLMClient


def test_P44_the_planner_asks_for_retries_and_the_fallback_itself(tmp_path):
    with FakeServer("openai", [503, 503, 503], answer=lambda body: json.dumps(PLAN)) as server:
        (tmp_path / "b.yaml").write_text(json.dumps({
            "backends": {"house": {"kind": "openai", "base_url": server.base_url, "max_retries": 0,
                                   "models": {"a": "a", "b": "b"}}},
            "planner": {"backend": "house.a", "retry_attempts": 2, "fallback_backend": "house.b"}}))
        config = load_config(tmp_path / "b.yaml")
        client, _ = planner_client(config=config)
        assert isinstance(client, FallbackClient) and all(isinstance(c, RetryingClient) for c in client.clients)
        bare = create_vlm_client("house.a", config)
        assert not isinstance(bare, (FallbackClient, RetryingClient, CachedClient, MultimodalClient))
    with FakeServer("openai", [503], answer=lambda body: json.dumps(PLAN)) as server:
        text = (tmp_path / "b.yaml").read_text().replace(json.loads((tmp_path / "b.yaml").read_text())
                                                         ["backends"]["house"]["base_url"], server.base_url)
        (tmp_path / "b.yaml").write_text(text)
        assert plan("Is it sharp?", PAGE, config=str(tmp_path / "b.yaml"), cache=None).query_type == "IQA"
        assert [r["body"]["model"] for r in server.requests] == ["a", "b"]


OWN = "You are a planner of mine. {schema}\nKeep {braces}. Reference: {reference}\nThe user asks: {query}"


@pytest.mark.parametrize("how", ["text", "path", "name"])
def test_P8_another_prompt_takes_the_place_of_ours(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper.txt").write_text(OWN)
    prompt = {"text": OWN, "path": tmp_path / "paper.txt", "name": "paper.txt"}[how]
    PAGE.save("a.png")
    client = ScriptedClient([json.dumps(PLAN)] * 3)
    plan("Is {it} sharp?", PAGE, client=client, prompt=prompt, cache=None)
    planner_node(client, prompt=prompt)({"query": "Is {it} sharp?", "image_path": "a.png"})
    planner_graph(client, prompt=prompt, cache=None).invoke({"query": "Is {it} sharp?", "image_path": "a.png"})
    for call in client.calls:
        said = call["messages"][0]["content"][-1]["text"]
        assert said.startswith("You are a planner of mine. {\"type\"") and "Keep {braces}. Reference: no" in said
        assert said.endswith('The user asks: "Is {it} sharp?"') and "query_scope" in said


def test_P8_ours_stays_the_default_and_says_that_it_is_ours():
    assert planner_prompt("?").startswith("You are a planner in an image quality assessment (IQA) system")
    assert planner_prompt("?") == planner_prompt("?", prompt=PLANNER_PROMPT)
    assert "CoSee's own wording" in planner_prompt.__doc__


@pytest.mark.parametrize("prompt, says", [
    ("none.txt", "none.txt: cannot be read"), ("You plan. Answer in JSON.", "cannot be read"), ("", "cannot be read"),
    ("You plan.\nIn JSON.", "{query} is missing"), ("empty.txt", "{query} is missing"), (".", "cannot be read")])
def test_P8_a_prompt_that_cannot_be_used_is_one_clear_error(prompt, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="prompt of the planner: ") as e:
        plan("?", PAGE, client=ScriptedClient([]), prompt=prompt)
    assert says in str(e.value) and ("a text file that holds one" in str(e.value) or "write it where" in str(e.value))


def test_P8_a_plan_is_kept_for_its_prompt(tmp_path):
    client = ScriptedClient([json.dumps(PLAN)] * 9)
    file = tmp_path / "p.txt"
    for text in (OWN, OWN, OWN.replace("mine", "ours")):
        file.write_text(text)
        plan("Is it kept?", PAGE, client=client, prompt=file)
    assert len(client.calls) == 2


def test_P8_from_the_block_of_the_planner_and_the_shell(capsys, tmp_path):
    def run(*argv): return main(list(argv)), capsys.readouterr().err
    (tmp_path / "paper.txt").write_text(OWN)
    PAGE.save(tmp_path / "a.png")
    with FakeServer("openai", answer=lambda body: json.dumps(PLAN)) as server:
        config = tmp_path / "b.yaml"
        config.write_text(json.dumps({
            "backends": {"house": {"kind": "openai", "base_url": server.base_url, "models": {"a": "a"}}},
            "planner": {"backend": "house.a", "prompt": str(tmp_path / "paper.txt")}}))
        argv = ["plan", str(tmp_path / "a.png"), "-q", "Sharp?", "--config", str(config)]
        assert run(*argv)[0] == run(*argv, "--prompt", "Mine: {query}")[0] == 0
        texts = [asked(r["body"]) for r in server.requests]
        assert "a planner of mine" in texts[0] and texts[1].endswith('Mine: "Sharp?"')
        code, err = run(*argv, "--prompt", str(tmp_path / "none.txt"))
        assert code == 2 and "prompt of the planner" in err and "none.txt: cannot be read" in err


# --- the text memory ---

def printed(words):
    "The block of the document's page in which these words stand."
    return next(c for c in blocks("concordia_document") if words in c)


def page(words, **names):
    "Run a block of the page with names; its imports lead to ours."
    exec(ours(printed(words)), names)
    return names


def test_D17_private_thoughts_as_the_page_tags_them():
    "By default debug alone is hidden, as in the original; `model_view`, set to the page's view, keeps its promise."
    model = Model(["I leave it.", "I look."])
    names = page("model_view = doc.view", doc=document.InteractiveDocument(model))
    doc, view, supervisor = names["doc"], names["model_view"], names["supervisor_view"]
    log, context, seen, thought, *_ = (c.text for c in doc)
    assert model.prompts[0].startswith(context + seen + thought + "Question: ") and log not in model.prompts[0]
    assert thought not in view.text() and thought in supervisor.text()
    doc.model_view = view
    doc.open_question("And now?")
    assert model.prompts[1].startswith(context + seen + "Question: ") and thought not in model.prompts[1]
    assert model.prompts[1] + "I look.\n" == view.text()
    doc._model.texts.append("I wait.")
    doc.model_view = doc.view()
    doc.open_question("And for once?", view=view)
    assert thought not in model.prompts[2]


def test_D22_the_page_throws_the_branch_away():
    "By default the branch is committed; `edit(commit=False)` is what the page's example implies."
    code = printed("with doc.edit()")
    step, bad = re.search(r'temp_doc.statement\("(.+)"\)', code)[1] + "\n", re.search(r'if "(.+)" in outcome', code)[1]

    def tried(code, outcome):
        doc = document.InteractiveDocument(model := Model([outcome]))
        doc.statement("Before.")
        exec(code, {"doc": doc})
        assert model.prompts[0].startswith(f"Before.\n{step}Question: ")
        return doc.text()
    tried_out = code.replace("doc.edit()", "doc.edit(commit=False)")
    assert tried(tried_out, f"A {bad}.") == "Before.\n" and tried(tried_out, "Well.") == f"Before.\n{step}"
    branch = step + "Question: What happens next?\nAnswer: "
    assert tried(code, f"A {bad}.") == f"Before.\n{branch}A {bad}.\n"
    assert tried(code, "Well.") == f"Before.\n{step}{branch}Well.\n"


def test_D22_a_branch_that_is_not_committed_stays_readable():
    doc = document.Document([document.Content("a")])
    with doc.edit(commit=False) as outer:
        outer.append("b")
        with outer.edit() as inner: inner.append("c")
        assert outer.text() == "abc" and doc.text() == "a"
    doc.append("d")
    assert (doc.text(), outer.text(), inner.text()) == ("ad", "abc", "abc")


def asked_with_tools(*replies):
    "The page's document, asked its question."
    tool = page("class WebSearchTool", search_web=lambda query: "Bitcoin is currently trading at $45,000...")
    return page("max_tool_calls_per_question=3", web_search_tool=tool["WebSearchTool"](), calculator_tool=Calculate(),
                model=Model(replies))


def test_D34_views_without_the_tags_of_tools_show_nothing_of_a_call(capsys):
    doc = asked_with_tools(json.dumps(CALL), "Bitcoin is trading at approximately $45,000.")["doc"]
    told = capsys.readouterr().out
    assert 'Answer: {"tool": "web_search", "args": {"query": "bitcoin price"}}\n[Tool Call: web_search(' in told
    assert "]\n[Tool Result: Bitcoin is currently trading at $45,000...]\nAnswer: Bitcoin is" in told
    opening, _, question, *_ = (c.text for c in doc)
    left = f"{opening}{question}Answer: Bitcoin is trading at approximately $45,000.\n"
    assert question.startswith("Question: ")
    assert doc.view(exclude_tags=["tool_call", "tool_result"]).text() == left
    assert doc.view(exclude_tags=["debug", "tool_call", "tool_result"]).text() == left
    request = json.dumps(CALL)
    for shown in (doc.view(), doc.view(exclude_tags=["tool_call"]), doc.view(exclude_tags=["tool_result"]),
                  doc.view(include_tags=["tool_talk"], exclude_tags=["tool_call", "tool_result"])):
        assert request in shown.text()
    assert doc.view().text() == doc.text()


@pytest.mark.parametrize("replies", [[json.dumps(CALL)] * 3 + ["Unknown."], [json.dumps(CALL), "Unknown."]])
def test_D34_nor_of_a_policy_or_of_used_up_calls(replies, capsys):
    class Denies:
        def evaluate(self, call, available_tools):
            return tool_policy.PolicyDecision(tool_policy.PolicyAction.DENY, reason="no")
    names = asked_with_tools(json.dumps(CALL), "x")
    doc = names["doc"].new()
    doc._model = Model(replies)
    doc._box = tool_policy.Toolbox([names["web_search_tool"]], Denies(), "enforce")
    doc.open_question("How much?")
    assert "denied by policy" in doc.text()
    assert doc.view(exclude_tags=["tool_call", "tool_result"]).text() == "Question: How much?\nAnswer: Unknown.\n"


def test_D34_the_same_for_choices(capsys):
    names = asked_with_tools(json.dumps(CALL), "x")
    for replies, choices in (([json.dumps(CALL), "(b)"], []), ([json.dumps(CALL)] * 3, [1])):
        doc = names["doc"].new()
        doc._model = Model(replies, choices)
        assert doc.multiple_choice_question("Which?", ["up", "down"], randomize_choices=False) == 1
        left = doc.view(exclude_tags=["debug", "tool_call", "tool_result"]).text()
        assert left == "Question: Which?\n  (a) up\n  (b) down\nAnswer: (b)\n"


def test_D34_the_model_itself_still_sees_its_calls():
    names = asked_with_tools(json.dumps(CALL), "It is $45,000.")
    prompts = names["model"].prompts
    assert json.dumps(CALL) in prompts[1] and "[Tool Result: Bitcoin" in prompts[1]


# --- D11 and D25: what a user of the document types first ---

def test_D11_one_bare_string_is_no_list_of_tags():
    doc = document.InteractiveDocument(ScriptedClient([]))
    for write in (doc.statement, doc.debug):
        with pytest.raises(TypeError, match=r"write \['private'\]"): write("secret", tags="private")
    assert doc.text() == ""


@pytest.mark.parametrize("reply, chosen", [("Yes", True), ("No.", False), ("yes", True), ("(b)", False), ("a", True)])
def test_D25_a_choice_may_be_named_by_its_letter_or_its_words(reply, chosen):
    doc = document.InteractiveDocument(ScriptedClient([reply], cycle=True))
    assert doc.multiple_choice_question("Is it?", ["Yes", "No"], randomize_choices=False) == int(not chosen)
    if len(reply.strip("().")) > 1: assert doc.yes_no_question("Is it?") is chosen
