# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.view.episode import EpisodeView as EpisodeView
from cosee.view.episode import board_html as board_html
from cosee.view.episode import episode_html as episode_html
from cosee.view.episode import write_html as write_html
from cosee.view.drawing import annotate as annotate
from cosee.view.widget import EpisodeWidget as EpisodeWidget
from cosee.view.widget import follow as follow
from cosee.view.figure import Picture as Picture

FACE: dict[str, str]
__all__ = [
    "EpisodeView", "EpisodeWidget", "Picture", "annotate", "board_html", "episode_html", "follow",
    "write_html"
]
