"""`pb.apl`: the text of a verb as a function of Pullback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pullback.apl import errors, system
from pullback.apl.functions import Verb
from pullback.apl.scopes import NativeOperator, Scope, still_true, taking
from pullback.apl.table import Settings
from pullback.apl.values import Value, from_python, is_nested, lifted, settled
from pullback.apl.watch import called, refuse, unwatched
from pullback.apl.workspace import Workspace, read_text
from pullback.calls.function import Function as Traced
from pullback.derivatives import grad, value_and_grad
from pullback.tracing.active import is_tracing


def apl(
    source: str | Path,
    *,
    name: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    io: int = 1,
    names: Mapping[str, Any] | None = None,
    left: bool | None = None,
) -> Any:
    """Make a function of Pullback from a verb in APL; it is traced, differentiated and compiled.

    Args:
        source: the text of a verb, `{…}` or a train; or the path of a file, whose last verb is taken.
        name: the name of the function; by default that of the file's verb, or `apl`.
        annotations: the types of ⍺ and ⍵, called `alpha` and `omega`, as annotations of a Python function.
        io: ⎕IO at the beginning of the text.
        names: values, and functions of Pullback, which are verbs in the text.
        left: whether the verb takes ⍺; by default, whether ⍺ occurs in it. Pass False if it has a default, `⍺←…`.
    Returns:
        A function of one argument, or of two with ⍺ first.
    Raises:
        AplError: [E801] the text is not APL, or not a verb; at tracing, [E802] to [E809] with the place in the text.
    Cost:
        The text is traced and compiled once for each argument type, like every function.
    Derivative:
        The traced program is differentiated; `pb.grad` takes `wrt="alpha"` or `"omega"`.

    >>> import numpy as np, pullback as pb
    >>> mean = pb.apl("{(+/⍵)÷≢⍵}")
    >>> float(mean(np.array([1.0, 2.0, 6.0])))
    3.0
    >>> float(pb.apl("{3+half +/⍵}", names={"half": pb.function(lambda x: x / 2)})(np.array([1.0, 3.0])))
    5.0
    >>> pb.grad(mean)(np.array([1.0, 2.0, 6.0, 7.0])).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if isinstance(source, Path) or (source.endswith(".apl") and "\n" not in source):
        text, file = read_text(Path(source)), str(source)
    else:
        text, file = source, "apl"
    work = Workspace(Settings(io=io, ct=0.0), show=lambda _: None)
    work.update(names or {})
    found = work.evaluate(text, file)
    if not isinstance(found, Verb):
        raise errors.syntax("`pb.apl` takes the text of a verb, and this is a value", remedy="pb.apl('{…}')")
    return function_of(found, name or getattr(found, "called", "") or "apl", annotations, left)


def function_of(verb: Verb, name: str, annotations: Mapping[str, Any] | None = None, left: bool | None = None) -> Any:
    """Convert a verb to a function of Pullback, of ⍵ or of ⍺ and ⍵."""
    if takes_left(verb) if left is None else left:

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
    """Convert a value for a traced function: an array, or a tuple of the elements of a nest."""
    x = settled(x)
    if is_nested(x):
        if x.ndim == 0:
            return to_python(x.item())
        if not x.size and is_tracing():
            raise errors.domain("an empty nest is no result of a compiled function", remedy="⊃ or ↑ of it")
        return tuple(to_python(e) for e in x.ravel()) if x.ndim == 1 else lifted(x)
    return lifted(x) if is_tracing() else x


def narrowed(x: Any) -> Any:
    """Convert the floating-point arrays of a tree to 32 bits."""
    if isinstance(x, tuple):
        return tuple(map(narrowed, x))
    return x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x


def leaves(x: Any) -> list[Any]:
    """The arrays of a tree."""
    return [leaf for e in x for leaf in leaves(e)] if isinstance(x, tuple) else [x]


def floating(x: Any) -> Any:
    """Convert a tree of NumPy arrays to floating point, for derivatives."""
    if isinstance(x, tuple):
        return tuple(map(floating, x))
    return x.astype(float) if isinstance(x, np.ndarray) and x.dtype.kind in "biu" else x


@dataclass
class Compiled(Verb):
    """The verb `f ⎕C`, or with a derivative `f ⎕GRAD` and `f ⎕VGRAD`, compiled when called with values."""

    verb: Verb
    settings: Settings
    derive: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        self.made: dict[bool, Any] = {}
        self.taken: dict[tuple[Scope, str], Any] = {}

    def __call__(self, y: Value, x: Value | None = None) -> Value:
        """Return the results of the compiled function."""
        both = x is not None
        if not still_true(self.taken):
            self.made.clear()
            self.taken.clear()
        made = self.made.get(both)
        if made is None:
            f = function_of(self.verb, getattr(self.verb, "called", "") or "f", left=both)
            made = self.made[both] = f if self.derive is None else self.derive(f, wrt="omega")
        if self.settings.fr == 325:
            refuse("⎕FR")
        arguments = [to_python(y)] if x is None else [to_python(x), to_python(y)]
        if self.derive is not None:
            arguments[-1] = floating(arguments[-1])
        if self.settings.fr == 325 and not is_tracing():
            arguments = list(map(narrowed, arguments))
        with taking(self.taken), unwatched():
            found = made(*arguments)
        for leaf in leaves(found):
            called(leaf)
        return from_python(found)


def compiled(verb: Verb, settings: Settings, derive: Callable[..., Any] | None = None) -> Compiled:
    """The compiled verb, which the verb keeps: a line in a loop makes it once."""
    kept: dict[Any, Compiled] = verb.__dict__.setdefault("_compiled", {})
    key = derive, settings
    if key not in kept:
        kept[key] = Compiled(verb, settings, derive)
    return kept[key]


system.OPERATORS.update(
    {
        "⎕C": NativeOperator(compiled),
        "⎕GRAD": NativeOperator(lambda f, s: compiled(f, s, grad)),
        "⎕VGRAD": NativeOperator(lambda f, s: compiled(f, s, value_and_grad)),
    }
)
