"""`pb.apl`: the text of a verb as a function of Pullback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pullback.api.function import Function as Traced
from pullback.apl import errors
from pullback.apl.evaluate import Scope
from pullback.apl.functions import Verb
from pullback.apl.table import Settings
from pullback.apl.values import Value, from_python, is_nested, lifted, settled
from pullback.apl.workspace import Workspace, read_text


def apl(
    source: str | Path, *, name: str | None = None, annotations: Mapping[str, Any] | None = None, io: int = 1
) -> Any:
    """A verb written in APL as a function that is traced, derived and compiled.

    Args:
        source: the text of a verb, `{…}` or a train; or the path of a file whose last verb it is.
        name: the name of the function; by default that of a file's verb, or `apl`.
        annotations: the types of ⍺ and ⍵, called `alpha` and `omega`, as annotations of a Python function.
        io: ⎕IO at the beginning of the text.
    Returns:
        A function of one argument, or of two, ⍺ first, where ⍺ stands in it.
    Raises:
        AplError: [E801] the text is no APL, or no verb.

    >>> import numpy as np, pullback as pb
    >>> mean = pb.apl("{(+/⍵)÷≢⍵}")
    >>> float(mean(np.array([1.0, 2.0, 6.0])))
    3.0
    >>> pb.grad(mean)(np.array([1.0, 2.0, 6.0, 7.0])).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if isinstance(source, Path) or (source.endswith(".apl") and "\n" not in source):
        text, file = read_text(Path(source)), str(source)
    else:
        text, file = source, "apl"
    work = Workspace(Settings(io=io, ct=0.0), show=lambda _: None)
    found = work.evaluate(text, file)
    if not isinstance(found, Verb):
        raise errors.syntax("`pb.apl` takes the text of a verb, and this is a value", remedy="pb.apl('{…}')")
    return function_of(found, name or getattr(found, "called", "") or "apl", annotations)


def function_of(verb: Verb, name: str, annotations: Mapping[str, Any] | None = None) -> Any:
    """A verb as a function of Pullback, of ⍵ or of ⍺ and ⍵."""
    if takes_left(verb):

        def call(alpha: Any, omega: Any) -> Any:
            return to_python(verb(from_python(omega), from_python(alpha)))
    else:

        def call(omega: Any) -> Any:  # type: ignore[misc]
            return to_python(verb(from_python(omega)))

    call.__name__ = call.__qualname__ = name
    call.__annotations__ = dict(annotations or {})
    return Traced(call)


def takes_left(verb: Verb) -> bool:
    """Whether a verb needs a left argument."""
    inner = getattr(verb, "verb", verb)
    found = getattr(inner, "takes_left", None)
    return bool(found)


def to_python(x: Value) -> Any:
    """A value as what a traced function returns: an array, or a tuple of the elements of a nest."""
    x = settled(x)
    if is_nested(x):
        if x.ndim == 0:
            return to_python(x.item())
        return tuple(to_python(e) for e in x.ravel()) if x.ndim == 1 else lifted(x)
    return lifted(x) if not isinstance(x, Scope) else x
