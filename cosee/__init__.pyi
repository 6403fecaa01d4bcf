# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.pages import PageError as PageError
from cosee.pages import Pages as Pages
from cosee.pages import load_pages as load_pages
from cosee.board import AgentName as AgentName
from cosee.board import AnswerText as AnswerText
from cosee.board import BBox as BBox
from cosee.board import Board as Board
from cosee.board import Cell as Cell
from cosee.board import CellID as CellID
from cosee.board import PageIndex as PageIndex
from cosee.board import StepIndex as StepIndex
from cosee.board import Tag as Tag
from cosee.board import View as View
from cosee.agents import Action as Action
from cosee.agents import Agent as Agent
from cosee.agents import CrossCheckerAgent as CrossCheckerAgent
from cosee.agents import DetailReaderAgent as DetailReaderAgent
from cosee.agents import ScannerAgent as ScannerAgent
from cosee.agents import team as team
from cosee.controller import CoSeeController as CoSeeController
from cosee.controller import Episode as Episode
from cosee.controller import replay as replay
from cosee.models.client import BudgetExceeded as BudgetExceeded
from cosee.models.client import Ledger as Ledger
from cosee.models.client import ScriptedClient as ScriptedClient
from cosee.models.client import VLMClient as VLMClient
from cosee.ocr.client import OcrClient as OcrClient
from cosee.models.local.client import LocalVLMClient as LocalVLMClient
from cosee.models.qwen_vl_wrapper import QwenVLClient as QwenVLClient
from cosee.models.openai_client import OpenAIVLMClient as OpenAIVLMClient
from cosee.models.anthropic_client import AnthropicVLMClient as AnthropicVLMClient
from cosee.models.google_client import GoogleVLMClient as GoogleVLMClient
from cosee.models.remote import VLMClientError as VLMClientError
from cosee.models.registry import create_vlm_client as create_vlm_client
from cosee.models.registry import resilient as resilient
from cosee.models.backends import load_config as load_config
from cosee.config import ConfigError as ConfigError
from cosee.view.episode import EpisodeView as EpisodeView
from cosee.view.episode import write_html as write_html
from cosee.view.drawing import annotate as annotate
from cosee.view.widget import EpisodeWidget as EpisodeWidget
from cosee.view.widget import follow as follow
from cosee.datasets.core import load as load
from cosee.datasets.sample import Sample as Sample
from cosee.datasets.sample import subset as subset
from cosee.datasets.checks import DataError as DataError
from cosee.datasets.own import Folder as Folder
from cosee.datasets.made.document import make_samples as make_samples
from cosee.datasets.made.document import samples_dir as samples_dir
from cosee.datasets.submissions import write_submission as write_submission
from cosee.eval.metrics import aggregate_metrics as aggregate_metrics
from cosee.eval.metrics import anls as anls
from cosee.eval.metrics import exact_match as exact_match
from cosee.eval.metrics import f1_score as f1_score
from cosee.eval.metrics import normalize_answer as normalize_answer
from cosee.eval.metrics import score_many as score_many
from cosee.eval.statistics import bootstrap as bootstrap
from cosee.eval.statistics import compare_runs as compare_runs
from cosee.eval.baselines import direct_answer as direct_answer
from cosee.eval.baselines import self_consistency as self_consistency
from cosee.eval.baselines import single_agent_cot as single_agent_cot
from cosee.eval.chat import multi_agent_chat_no_board as multi_agent_chat_no_board
from cosee.eval.methods import register_method as register_method
from cosee.eval.matching import match_budget as match_budget
from cosee.experiments import run_experiment as run_experiment
from cosee.runs.config import RunConfig as RunConfig
from cosee.runs.config import read_config as read_config
from cosee.runs.table import Run as Run
from cosee.runs.report import Report as Report
from cosee.runs.viewer import Viewer as Viewer
from cosee.document import Document as Document
from cosee.document import InteractiveDocument as InteractiveDocument
from cosee.document import VLMLanguageModel as VLMLanguageModel
from cosee.tools.base import Tool as Tool
from cosee.tools.document import InteractiveDocumentWithTools as InteractiveDocumentWithTools
from cosee.tools.agent import with_tools as with_tools

__version__: str
FACE: dict[str, str]
__all__ = [
    "Action", "Agent", "AgentName", "AnswerText", "AnthropicVLMClient", "BBox", "Board", "BudgetExceeded",
    "Cell", "CellID", "CoSeeController", "ConfigError", "CrossCheckerAgent", "DataError", "DetailReaderAgent",
    "Document", "Episode", "EpisodeView", "EpisodeWidget", "Folder", "GoogleVLMClient", "InteractiveDocument",
    "InteractiveDocumentWithTools", "Ledger", "LocalVLMClient", "OcrClient", "OpenAIVLMClient", "PageError",
    "PageIndex", "Pages", "QwenVLClient", "Report", "Run", "RunConfig", "Sample", "ScannerAgent",
    "ScriptedClient", "StepIndex", "Tag", "Tool", "VLMClient", "VLMClientError", "VLMLanguageModel", "View",
    "Viewer", "aggregate_metrics", "anls", "annotate", "bootstrap", "compare_runs", "create_vlm_client",
    "direct_answer", "exact_match", "f1_score", "follow", "load", "load_config", "load_pages", "make_samples",
    "match_budget", "multi_agent_chat_no_board", "normalize_answer", "read_config", "register_method",
    "replay", "resilient", "run_experiment", "samples_dir", "score_many", "self_consistency",
    "single_agent_cot", "subset", "team", "with_tools", "write_html", "write_submission"
]
