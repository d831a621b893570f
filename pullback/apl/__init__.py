"""APL: text that is checked and compiled like any function of the language, or run line by line."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pullback.apl.compiled import apl
from pullback.apl.display import display
from pullback.apl.errors import AplError
from pullback.apl.workspace import Workspace

__all__ = ["AplError", "Workspace", "apl", "display"]


class _Callable(ModuleType):
    """A callable package: `pb.apl` names it."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return apl(*arguments, **keywords)


sys.modules[__name__].__class__ = _Callable
