# Made by tools/sync.py from the table FACE beside it: make sync
from cosee.doors.desk import Desk as Desk
from cosee.doors.documents import Limits as Limits
from cosee.doors.asking import Clients as Clients
from cosee.doors.roots import Roots as Roots
from cosee.doors.roots import DoorError as DoorError

FACE: dict[str, str]
__all__ = [
    "Clients", "Desk", "DoorError", "Limits", "Roots"
]
