# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.screen.call import ToolCall as ToolCall
from cosee.screen.call import format_tool_call as format_tool_call
from cosee.screen.call import parse_tool_call as parse_tool_call
from cosee.screen.call import read_tool_call as read_tool_call
from cosee.screen.call import read_tool_calls as read_tool_calls
from cosee.screen.call import to_pixels as to_pixels
from cosee.screen.call import to_units as to_units
from cosee.screen.call import tool_call_schema as tool_call_schema
from cosee.screen.call import validate_tool_call as validate_tool_call
from cosee.screen.call import within_tolerance as within_tolerance
from cosee.screen.config import ScreenConfig as ScreenConfig
from cosee.screen.config import read_screen_config as read_screen_config
from cosee.screen.config import screen_config as screen_config
from cosee.screen.scenes import Scene as Scene
from cosee.screen.tasks import SCREEN_TASKS as SCREEN_TASKS
from cosee.screen.tasks import ScreenTask as ScreenTask
from cosee.screen.tasks import make_shot as make_shot
from cosee.screen.tasks import screen_task as screen_task
from cosee.screen.make import make_screens as make_screens
from cosee.screen.check import validate_dataset as validate_dataset
from cosee.screen.agent import ScreenAgent as ScreenAgent
from cosee.screen.agent import load_screens as load_screens
from cosee.screen.agent import run_screens as run_screens
from cosee.screen.agent import write_board_records as write_board_records
from cosee.screen.score import score_screens as score_screens
from cosee.screen.score import score_step as score_step
from cosee.screen.reader import ScreenReader as ScreenReader

FACE: dict[str, str]
__all__ = [
    "SCREEN_TASKS", "Scene", "ScreenAgent", "ScreenConfig", "ScreenReader", "ScreenTask", "ToolCall",
    "format_tool_call", "load_screens", "make_screens", "make_shot", "parse_tool_call", "read_screen_config",
    "read_tool_call", "read_tool_calls", "run_screens", "score_screens", "score_step", "screen_config",
    "screen_task", "to_pixels", "to_units", "tool_call_schema", "validate_dataset", "validate_tool_call",
    "within_tolerance", "write_board_records"
]
