# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.runs.config import RunConfig as RunConfig
from cosee.runs.config import read_config as read_config
from cosee.runs.log import RunError as RunError
from cosee.runs.log import RunLog as RunLog
from cosee.runs.table import Run as Run
from cosee.runs.table import merge_runs as merge_runs
from cosee.runs.table import replay_record as replay_record
from cosee.runs.table import score_records as score_records
from cosee.runs.report import Report as Report
from cosee.runs.figures import run_pictures as run_pictures
from cosee.runs.markdown import run_markdown as run_markdown
from cosee.runs.inspect_log import write_inspect as write_inspect
from cosee.runs.viewer import Viewer as Viewer
from cosee.runs.viewer import export_viewer as export_viewer
from cosee.runs.server import view_server as view_server

FACE: dict[str, str]
__all__ = [
    "Report", "Run", "RunConfig", "RunError", "RunLog", "Viewer", "export_viewer", "merge_runs",
    "read_config", "replay_record", "run_markdown", "run_pictures", "score_records", "view_server",
    "write_inspect"
]
