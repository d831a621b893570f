"""The active tracer of this thread, and the errors if there is none."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np

from pullback.errors import TraceError
from pullback.ir.types import DType, f32, f64
from pullback.source import Position, called, is_ours, source_text, user_position
from pullback.state import PerThread, registered, setting
from pullback.tracing import elsewhere
from pullback.tracing.public import is_guard


class _Active(PerThread):
    def __init__(self) -> None:
        self.stack: tuple[Any, ...] = ()


_ACTIVE = _Active()

# the threads that trace, for callers in C, to which a thread local costs more than the call
TRACING: dict[int, bool] = registered({}, "threads that trace", stays="with the trace")


def current() -> Any:
    """The active tracer."""
    if not _ACTIVE.stack:
        raise _outside()
    return _ACTIVE.stack[-1]


def _outside() -> TraceError:
    """The error for an operation that needs an active trace."""
    position = user_position()
    frame: FrameType | None = sys._getframe(1)
    given: Sequence[Any] = ()
    arguments: Sequence[Any] = ()
    frames: list[FrameType] = []
    while frame is not None and is_ours(frame.f_code.co_filename):  # the last frame was called by the user
        if not is_guard(frame):
            code, given = frame.f_code, [*frame.f_locals.values()]
            arguments = given[: code.co_argcount + code.co_kwonlyargcount]
        frames.insert(0, frame)
        frame = frame.f_back
    operands = [x for value in given for x in (value if isinstance(value, tuple | list) else (value,))]
    for x in operands:
        if isinstance(getattr(x, "extents", None), tuple):
            return ended(x, position)
    name = called(position) or ((public := elsewhere.running(frames)) and f"pb.{public}")
    at_once = ""
    if name and any(isinstance(x, np.ndarray) for x in operands):
        plain = not any(isinstance(x, tuple | list) for x in arguments)
        text = source_text(position)
        form = f"{name})(...)" if plain else f"lambda: {text if text.endswith(')') else f'{name}(...)'})()"
        at_once = f"; `pb.function({form}` computes it at once"
    return TraceError(
        "E132",
        f"{name or 'this'} is part of the language, and no function is being traced",
        position=position,
        remedy=f"put it inside a function marked `@pb.function`{at_once}",
    )


def ended(x: Any, position: Position | None) -> TraceError:
    """The error for a traced value that is used after its function has ended."""
    return TraceError(
        "E130",
        f"{x.name or 'this'} is a traced value, and the function that it belongs to has ended",
        position=position,
        remedy="return it: the call of the function gives NumPy arrays",
    )


def place() -> tuple[Any, Any, int, bool] | None:
    """The place where an array is made: tracer, scope, depth; False: it is no copy of another."""
    if not _ACTIVE.stack:
        return None
    tracer = _ACTIVE.stack[-1]
    scope = tracer.scopes[-1]
    return tracer, scope, len(scope.lifted), False


def is_tracing() -> bool:
    """Whether a function is being traced in this thread."""
    return bool(_ACTIVE.stack)


class tracing(setting):
    """Make `tracer` the active tracer."""

    __slots__ = ()

    def __init__(self, tracer: Any) -> None:
        super().__init__(_ACTIVE, stack=(*_ACTIVE.stack, tracer))

    def __enter__(self) -> None:
        TRACING[threading.get_ident()] = True
        super().__enter__()

    def __exit__(self, *about: object) -> None:
        super().__exit__(*about)
        if not _ACTIVE.stack:
            TRACING.pop(threading.get_ident(), None)


def untraced() -> setting:
    """Compute eagerly inside, even within a trace."""
    return setting(_ACTIVE, stack=())


def tracing_kept() -> setting:
    """Keep the active tracer even if the block is interrupted."""
    return setting(_ACTIVE, stack=_ACTIVE.stack)


def float_beside(dtypes: Sequence[DType]) -> DType:
    """The dtype of Python floats combined with these dtypes: f32 if all floating ones are f32, else f64."""
    floating = {d.computed for d in dtypes if d.computed.is_floating}
    return f32 if floating == {f32} else f64


def default_float() -> DType:
    """The dtype of a Python float without a partner, in the function being traced."""
    found: DType = current().default_float
    return found
