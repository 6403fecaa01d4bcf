"""What CoSee promises, as tables of the page that says so: each made from code, tests, results or settings.

A promise names its tests, and a test sees that they are there; a limit is the constant itself, with the words that
stand beside it in the source; counts are those of benchmarks/results/faults.json; a bound of a version has a reason.
"""
import ast
import importlib
import inspect
import json
import re
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path

from cosee.text import Md, md_code, md_table

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "https://github.com/cosee-org/cosee/blob/main/tests"

# (threat, promise, file of tests: tests)
PROMISES = [
    ("A page that hangs, crashes or takes all memory",
     "It costs that page, said in one line; the others are read, and Ctrl-C works while it is drawn.",
     {"test_hardened_pages": "test_a_page_that_is_a_bomb_costs_that_page test_ctrl_c_ends_the_command "
                             "test_a_hanging_page_does_not_swallow_signals test_the_child_knows_no_keys"}),
    ("A picture that OCR would read for minutes, or with all memory",
     "What is read of a page is bounded by what it holds; a page beyond that is left out, said in one line.",
     {"test_hardened_pages": "test_a_page_of_too_much_print_costs_that_page test_a_strip_is_read_in_bounds "
                             "test_a_line_is_read_in_bounds"}),
    ("Text of documents, models and servers that is markup or a script",
     "It is text in every view: nothing of it runs, nothing is loaded, no element is its own.",
     {"test_hardened_keys": "test_every_class_that_shows_itself_is_tried_with_hostile_text "
                            "test_text_is_escaped_in_one_place test_markdown_of_a_stranger_is_words",
      "test_faults_views": "test_what_notebooks_show test_pages_of_episodes test_reports_and_folders "
                           "test_the_run_viewer"}),
    ("A server that stalls, lies, floods or redirects",
     "A call ends by its deadline with a reply or an error of the client; nothing is sent to another address.",
     {"test_faults_servers": "test_whatever_a_server_does_a_call_ends_in_time_with_a_reply_or_an_error",
      "test_hardened_keys": "test_nothing_follows_a_redirect_to_another_origin test_one_deadline_holds_for_everything "
                            "test_bodies_are_bounded_also_after_unpacking"}),
    ("Keys and passwords", "They are in no file that is written, no message and no exception, packed ones included.",
     {"test_hardened_keys": "test_an_echoed_key_is_in_no_exception test_a_refused_key_is_written_nowhere "
                            "test_nothing_that_a_run_writes_holds_a_secret "
                            "test_records_and_caches_are_for_their_owner_alone"}),
    ("A run folder, a plugin or a checkpoint of somebody else",
     "Nothing in it is imported or run unless that is asked for.",
     {"test_hardened_keys": "test_a_foreign_folder_runs_no_code test_no_code_of_a_checkpoint_is_run "
                            "test_the_name_of_a_run_stays_in_its_folder test_yaml_is_read_in_bounds"}),
    ("Weights that are incomplete, of another shape, or no numbers",
     "They are refused, with the names of the tensors.",
     {"test_hardened_records": "test_a_checkpoint_with_wrong_tensors_is_refused_with_their_names "
                               "test_a_visual_retriever_with_a_missing_tensor_is_refused"}),
    ("A reply of any kind", "It is read, or refused in words that the next turn can use; no reply ends a run.",
     {"test_hardened_records": "test_replies_of_any_kind_are_read test_steps_survive_odd_replies_in_either_order "
                               "test_odd_types_of_any_field_are_errors_that_others_can_stand_in_for"}),
    ("Records that are damaged, or of wrong types",
     "Every command names file and line, counts them and goes on; with `--strict` it refuses.",
     {"test_hardened_records": "test_every_command_names_and_counts_damaged_lines_and_goes_on "
                               "test_strict_refuses_a_damaged_run"}),
    ("A process that is killed, a loss of power, a full disk",
     "What was recorded stays; resumed, the run comes to the records of one that nothing disturbed.",
     {"test_runs": "test_a_run_survives_being_killed_in_the_middle_of_a_line "
                   "test_a_full_disk_stops_the_run_and_loses_nothing",
      "test_faults": "test_a_log_cut_anywhere_is_gone_on_with test_kept_pages_that_were_cut_are_read_anew "
                     "test_a_cut_checkpoint_is_told_or_not_needed",
      "test_core": "test_a_write_that_fails_leaves_the_old_file"}),
    ("A stranger at a door: another site, another host, a guess at a token, a request without an end",
     "It is refused or ended before a document is touched; nothing is told to other sites, nothing is logged of it.",
     {"test_doors": "test_a_request_needs_the_right_host_origin_and_token test_slow_and_endless_requests_are_ended "
                    "test_no_answer_lets_anything_run_or_others_read_it test_two_users_do_not_see_each_other "
                    "test_the_server_says_nothing_of_documents_and_ends_on_ctrl_c",
      "test_doors_mcp": "test_it_listens_over_http_behind_the_guard"}),
    ("A path, a file name or an upload that somebody sends to a door",
     "Nothing beside the named folders is opened; uploads are bounded, and leave nothing where they fail.",
     {"test_doors": "test_nothing_outside_is_opened_whatever_it_is_called "
                    "test_hostile_uploads_are_documents_or_refused_and_leave_nothing "
                    "test_uploads_are_bounded_in_bytes_pages_and_pixels test_hostile_text_is_text_everywhere"}),
    ("A server of questions that is killed, or asked by many at once",
     "Every finished answer is there, every unfinished one is named; callers take turns.",
     {"test_doors": "test_a_kill_loses_no_answer_and_names_what_was_running "
                    "test_fifty_clients_are_all_answered_in_turn"}),
    ("Workers and actors that die", "Their question is given to another; one that kills all of them has failed.",
     {"test_cluster": "test_a_worker_that_dies_once_costs_nothing test_a_question_that_kills_every_worker_is_given_up "
                      "test_ray_actors_die_and_nothing_is_lost"}),
    ("A folder that cannot be written, memory that runs out, a clock that jumps, a second process at work",
     "One line says what to do; results do not depend on the clock; one of two writers waits or is refused.",
     {"test_faults": "test_a_read_only_folder_is_read_and_writing_into_it_is_one_line "
                     "test_a_command_without_memory_ends_without_a_traceback "
                     "test_a_run_under_a_jumping_clock_is_the_same_run "
                     "test_two_commands_at_one_run_one_of_them_works"}),
]

LIMITS = {
    "cosee.text": ("MAX_WORDS", "MAX_LETTERS"),
    "cosee.config": ("MAX_CONFIG", "MAX_DEPTH", "MAX_NUMBER"),
    "cosee.pages": ("MAX_PIXELS", "MAX_SIDE", "MAX_PAGES", "KEPT_BYTES", "OPEN_PDFS", "MAX_HEADINGS"),
    "cosee.sandbox.apart": ("SECONDS", "MEMORY"),
    "cosee.ocr.engine": ("MOST_LETTERS",),
    "cosee.ocr.layer.chars": ("MAX_CHARS",),
    "cosee.ocr.layer.ink": ("MAX_OBJECTS",),
    "cosee.models.net.wire": ("MAX_BODY",),
    "cosee.models.remote": ("MOST_TOKENS",),
    "cosee.tools.sight": ("FINEST",),
    "cosee.runs.engines.processes": ("GRACE",),
    "cosee.runs.viewer": ("MOST_PAGES", "MOST_ASKED", "PATIENCE"),
    "cosee.doors.roots": ("MOST_SEEN",),
    "cosee.doors.guard": ("LEAST_TOKEN", "SMALL_BODY"),
    "cosee.doors.server": ("HEAD_SECONDS", "MOST_HEAD", "CONNECTIONS", "LAST_SECONDS"),
}

# Upper bounds of versions: why an upgrade beyond them could change results, or what stands in runs
REASONS = {
    "torch": "sums in another order give other last digits, and another token now and then",
    "transformers": "processors and generation change between major versions, and with them prompts and tokens",
    "numpy": "rounding, promotion of types and random numbers change with major versions only",
    "pillow": "its filters and decoders make the pixels that a model sees",
    "opencv-python-headless": "it scales and straightens lines before they are read",
    "onnxruntime": "its kernels of 8 bits decide what is read of faint print",
    "rapidocr": "the models of print in the package were cut to this version's, and are checked against it",
    "pypdfium2": "it draws the pages and gives their text",
    "rapidfuzz": "similarities of names and answers, in scores and in the reader, are its",
    "snowballstemmer": "the stems are the terms under which pages are found",
    "bm25s": "its scores rank the pages, and its format is that of kept indices",
    "pandas": "tables that are written are its, types and rounding included",
    "pydantic": "it says what a configuration may hold, and its words are those of errors",
    "json-repair": "it mends replies, and what it makes of a broken one is an answer",
    "llguidance": "it decides which tokens a reply may hold",
    "openai": "what is sent, waited for and retried is its business",
    "anthropic": "as openai", "google-genai": "as openai",
    "langgraph": "its checkpoints are read again by a later process",
    "langgraph-checkpoint": "it says which types of a checkpoint are read, and refuses the others",
    "xllamacpp": "it reads GGUF files and draws the tokens", "ray": "its actors' end is told apart by its errors",
    "fastapi": "it checks what is sent, and its description is the interface",
    "starlette": "it says what a request is and how an answer is sent",
    "uvicorn": "its protocol is extended for time limits",
    "h11": "its states say when a request has begun", "mcp": "its second major version has the server that is used",
    "inspect-ai": "the logs that are written are of its format", "anywidget": "the widget's front end is of its form",
}

# Looked at by hand: installed then, what is known of it, the version that mended it, what CoSee does about it
CHECKED = "2026-11-23"
DEPENDENCIES = [
    ("torch", "2.15.0", "CVE-2025-32434: torch.load runs code in spite of weights_only", "2.6.0",
     "asks for 2.6; weights are safetensors alone"),
    ("transformers", "5.23.0", "CVE-2024-11392, -11393, -11394: pickled files of checkpoints", "4.48.0",
     "asks for 5.23; trust_remote_code is False, no pickles"),
    ("pillow", "13.0.0", "CVE-2023-50447, CVE-2024-28219: ImageMath, colour profiles", "10.3.0",
     "asks for 11; pictures are opened in a process apart"),
    ("PyYAML", "6.0.3", "CVE-2020-14343: full_load runs code", "5.4", "only safe loading, in bounds"),
    ("opencv-python-headless", "5.0.0.93", "CVE-2023-4863: its WebP decoder", "4.8.1.78", "is given pixels, no files"),
    ("requests", "2.34.2", "CVE-2024-47081: .netrc sent to another host", "2.32.4",
     "comes with others; CoSee does not call it"),
    ("urllib3", "2.8.0", "CVE-2025-50181: redirects are followed where they were forbidden", "2.5.0", "as requests"),
    ("h11", "0.16.0", "CVE-2025-43859: chunks without an end", "0.16.0", "bodies are bounded"),
    ("Jinja2", "3.1.6", "CVE-2025-27516: a template leaves its sandbox", "3.1.6",
     "no templates but those of checkpoints"),
    ("tqdm", "4.70.1", "CVE-2024-34062: arguments of its command run code", "4.66.3", "its command is not used"),
    ("reportlab", "5.1.0", "CVE-2023-33733: a colour in a stranger's HTML runs code", "3.6.13",
     "draws synthetic documents alone"),
    ("pyarrow", "26.0.1", "CVE-2023-47248: a Parquet file runs code", "14.0.1", "extra `parquet`"),
    ("ray", "2.60.0", "CVE-2023-48022: who reaches its dashboard runs code; disputed, so by design", "",
     "extra `ray`: let nobody reach the cluster"),
    ("langgraph-checkpoint", "4.3.2", "CVE-2025-64439: a checkpoint in JSON makes objects", "3.0.0",
     "extra `planner`: only three types of CoSee's are made from one"),
]


def tests_of(file):
    "The tests of a file."
    tree = ast.parse((ROOT / f"tests/{file}.py").read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def promises():
    "Threats and promises, each with links to its tests; KeyError for a test that is not there."
    rows = []
    for threat, promise, files in PROMISES:
        if gone := [t for file, names in files.items() for t in names.split() if t not in tests_of(file)]:
            raise KeyError(f"{threat}: there is no {gone[0]}")
        links = ", ".join(f"[{file.removeprefix('test_')}]({SOURCE}/{file}.py) ({len(names.split())})"
                          for file, names in files.items())
        rows.append((threat, promise.replace("`", ""), Md(links)))
    return md_table(("threat", "promise", "tests"), rows)


def beside(module, name):
    "The comment beside a constant in its source."
    line = next(s for s in inspect.getsource(module).splitlines() if re.match(rf"(\w+, )*{name}\b.*=", s))
    return line.partition("#")[2].strip()


def limits():
    "Every limit, from its constant."
    rows = []
    for where, names in LIMITS.items():
        module = importlib.import_module(where)
        rows += [(md_code(f"{where}.{name}"), f"{getattr(module, name):,}", beside(module, name)) for name in names]
    return md_table(("constant", "value", "what it bounds"), rows, [1])


def results(file=ROOT / "benchmarks/results/faults.json"):
    "How often each fault was tried, and what came of it."
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return md_table(("fault", "tried", "what came of it", "CPU seconds", "date"),
                    [(r["what"], f"{r['tried']:,}", "; ".join(f"{n:,} {o}" for o, n in sorted(r["outcomes"].items())),
                      f"{r['cpu_s']:,}", r["date"]) for r in rows], [1, 3])


def bounded():
    "The requirements of settings.ini that have an upper bound: name -> bounds."
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    keys = [k for k in config["DEFAULT"] if k == "requirements" or k.startswith("extras_")]
    asked = [word for key in keys for word in config["DEFAULT"][key].split()]
    parts = (re.match(r"([\w.-]+)(.*)", word) for word in asked)
    return {m[1]: m[2] for m in parts if m and "<" in m[2]}


def bounds():
    "Upper bounds with their reasons; KeyError for one without."
    return md_table(("package", "versions", "why not later ones unseen"),
                    [(name, md_code(said), REASONS[name]) for name, said in sorted(bounded().items())])


def dependencies():
    "What was looked at by hand."
    return md_table(("package", "installed", "known", "mended in", "here"), DEPENDENCIES)


def number(text):
    "A version as numbers that can be compared."
    return [int(n) for n in re.findall(r"\d+", text)[:4]]


def faults():
    "What of the tables does not hold: reasons without a bound, bounds without a reason, versions before the mend."
    bare = {*bounded()} ^ {*REASONS}
    old = [name for name, _, _, mended, _ in DEPENDENCIES if mended and number(version(name)) < number(mended)]
    return [f"{name}: a bound without a reason, or a reason without a bound" for name in sorted(bare)] + [
        f"{name}: the version here is older than the one that mended what is known" for name in old]
