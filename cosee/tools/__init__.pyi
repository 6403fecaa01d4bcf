# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.tools.base import DEFAULT_MAX_TOOL_CALLS_PER_QUESTION as DEFAULT_MAX_TOOL_CALLS_PER_QUESTION
from cosee.tools.base import DEFAULT_MAX_TOOL_RESULT_LENGTH as DEFAULT_MAX_TOOL_RESULT_LENGTH
from cosee.tools.base import PolicyAction as PolicyAction
from cosee.tools.base import PolicyDecision as PolicyDecision
from cosee.tools.base import SchemaValidatingPolicy as SchemaValidatingPolicy
from cosee.tools.base import Tool as Tool
from cosee.tools.base import ToolCall as ToolCall
from cosee.tools.base import ToolPolicy as ToolPolicy
from cosee.tools.base import Toolbox as Toolbox
from cosee.tools.base import parse_tool_call as parse_tool_call
from cosee.tools.base import validate_input_schema as validate_input_schema
from cosee.tools.document import InteractiveDocumentWithTools as InteractiveDocumentWithTools
from cosee.tools.calculator import Calculate as Calculate
from cosee.tools.sight import FindPage as FindPage
from cosee.tools.sight import Ocr as Ocr
from cosee.tools.sight import ReadBoard as ReadBoard
from cosee.tools.sight import Sight as Sight
from cosee.tools.sight import SightPolicy as SightPolicy
from cosee.tools.sight import Zoom as Zoom
from cosee.tools.sight import page_tools as page_tools
from cosee.tools.agent import ToolAgent as ToolAgent
from cosee.tools.agent import with_tools as with_tools

FACE: dict[str, str]
__all__ = [
    "Calculate", "DEFAULT_MAX_TOOL_CALLS_PER_QUESTION", "DEFAULT_MAX_TOOL_RESULT_LENGTH", "FindPage",
    "InteractiveDocumentWithTools", "Ocr", "PolicyAction", "PolicyDecision", "ReadBoard",
    "SchemaValidatingPolicy", "Sight", "SightPolicy", "Tool", "ToolAgent", "ToolCall", "ToolPolicy",
    "Toolbox", "Zoom", "page_tools", "parse_tool_call", "validate_input_schema", "with_tools"
]
