"""The dashboards, one file each: a module of this package registers itself by having ``BOARD``."""

import importlib
import pkgutil
from typing import Final

import gputailor_dashboards.boards as package
from gputailor_dashboards.boards.board import Board


def _found() -> dict[str, Board]:
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    boards = [module.BOARD for module in modules if hasattr(module, "BOARD")]
    return {board.uid: board for board in sorted(boards, key=lambda board: board.place)}


#: By uid, in the order in which the docs tell of them.
BOARDS: Final = _found()
