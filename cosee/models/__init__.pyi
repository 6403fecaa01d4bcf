# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.models.client import BudgetExceeded as BudgetExceeded
from cosee.models.client import GEN_DEFAULTS as GEN_DEFAULTS
from cosee.models.client import Ledger as Ledger
from cosee.models.client import Reply as Reply
from cosee.models.client import ScriptedClient as ScriptedClient
from cosee.models.client import Usage as Usage
from cosee.models.client import VLMClient as VLMClient
from cosee.models.client import record as record
from cosee.models.registry import create_vlm_client as create_vlm_client
from cosee.models.registry import make_client as make_client
from cosee.models.registry import register_client as register_client
from cosee.models.registry import resilient as resilient
from cosee.models.local.client import ContextOverflow as ContextOverflow
from cosee.models.local.client import LocalVLMClient as LocalVLMClient
from cosee.models.qwen_vl_wrapper import QwenVLClient as QwenVLClient
from cosee.models.qwen.checkpoint import ModelError as ModelError
from cosee.models.qwen.checkpoint import check_model_path as check_model_path
from cosee.models.qwen.random_weights import random_checkpoint as random_checkpoint
from cosee.models.openai_client import OpenAIVLMClient as OpenAIVLMClient
from cosee.models.anthropic_client import AnthropicVLMClient as AnthropicVLMClient
from cosee.models.google_client import GoogleVLMClient as GoogleVLMClient
from cosee.models.remote import AuthenticationError as AuthenticationError
from cosee.models.remote import RateLimitError as RateLimitError
from cosee.models.remote import RequestError as RequestError
from cosee.models.remote import ResponseParseError as ResponseParseError
from cosee.models.remote import ServerError as ServerError
from cosee.models.remote import TimeoutError as TimeoutError
from cosee.models.remote import VLMClientError as VLMClientError
from cosee.models.retry import FallbackClient as FallbackClient
from cosee.models.retry import RetryingClient as RetryingClient
from cosee.models.cache import CachedClient as CachedClient
from cosee.models.cache import ResponseCache as ResponseCache
from cosee.models.backends import load_config as load_config
from cosee.models.weights import weights_path as weights_path

FACE: dict[str, str]
__all__ = [
    "AnthropicVLMClient", "AuthenticationError", "BudgetExceeded", "CachedClient", "ContextOverflow",
    "FallbackClient", "GEN_DEFAULTS", "GoogleVLMClient", "Ledger", "LocalVLMClient", "ModelError",
    "OpenAIVLMClient", "QwenVLClient", "RateLimitError", "Reply", "RequestError", "ResponseCache",
    "ResponseParseError", "RetryingClient", "ScriptedClient", "ServerError", "TimeoutError", "Usage",
    "VLMClient", "VLMClientError", "check_model_path", "create_vlm_client", "load_config", "make_client",
    "random_checkpoint", "record", "register_client", "resilient", "weights_path"
]
