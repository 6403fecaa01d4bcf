# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.rules.proofs import Prints as Prints
from cosee.rules.team import Rules as Rules
from cosee.rules.team import TeamController as TeamController

FACE: dict[str, str]
__all__ = [
    "Prints", "Rules", "TeamController"
]
