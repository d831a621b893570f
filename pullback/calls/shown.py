"""The presentation of a function: its `help`, signature and notebook table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pullback.calls.arguments import MISSING
from pullback.calls.signature import Parameter
from pullback.calls.typetext import TypeText
from pullback.source import is_ours
from pullback.tables import html_note, html_table

if TYPE_CHECKING:
    from pullback.explanation.stages import About

SHOWN = 24  # lines of a program that is not folded
EMPTY = inspect.Parameter.empty
KINDS = {
    "plain": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "rest": inspect.Parameter.VAR_POSITIONAL,
    "keyword": inspect.Parameter.KEYWORD_ONLY,
}


class Shown(Protocol):
    """The interface for presenting a function, or one derived from it."""

    @property
    def name(self) -> str:
        """The name of the function."""

    @property
    def python(self) -> Callable[..., Any]:
        """The function as the user wrote it."""

    @property
    def parameters(self) -> Sequence[Parameter]:
        """The parameters of the function."""

    @property
    def type(self) -> TypeText:
        """The types of the arguments and results."""


def made_of(made: Any, base: Shown, name: str, about: str, wrt: Any = None) -> None:
    """Name a derived function and set its `help`: a description, then the original's documentation.

    In `about`, {f} is the function and {x} the differentiated parameters.
    """
    own = inspect.getdoc(base)
    said = about.format(f=f"`{base.name}`", x=_chosen(base, wrt))
    made.name = made.__name__ = made.__qualname__ = name
    made.__doc__ = f"{said}\n\nAbout `{base.name}`:\n\n{own}" if own else said


def _chosen(base: Shown, wrt: Any) -> str:
    """The differentiated parameters, in words."""
    names = list(_written(base))
    several = wrt if isinstance(wrt, tuple | list) else (0 if wrt is None else wrt,)
    found = [names[k] if isinstance(k, int) and -len(names) <= k < len(names) else k for k in several]
    return " and ".join(f"`{k}`" if isinstance(k, str) else f"parameter {k}" for k in found)


def _written(f: Shown) -> dict[str, inspect.Parameter]:
    """The parameters as the user wrote them."""
    try:
        return dict(inspect.signature(f.python).parameters)
    except (TypeError, ValueError):
        return {}


class ShownSignature:
    """The `__signature__` of a derived function: its own parameters, found on demand.

    Parameters of the original keep their annotations. The result annotation does not carry over.
    """

    def __get__(self, instance: Shown | None, owner: Any = None) -> inspect.Signature:
        """The signature of an instance; a class has none."""
        if instance is None:
            raise AttributeError("__signature__")
        written = _written(instance)
        found: list[inspect.Parameter] = []
        for p in instance.parameters:
            kind = KINDS[p.kind]
            default = EMPTY if p.default is MISSING else p.default
            if found and kind == KINDS["plain"] and default is EMPTY and found[-1].default is not EMPTY:
                kind = KINDS["keyword"]  # keyword-only after a parameter with a default
            annotation = written[p.name].annotation if p.name in written else EMPTY
            found.append(inspect.Parameter(p.name, kind, default=default, annotation=annotation))
        return inspect.Signature(found)


def about(f: Shown) -> About:
    """The description of a function above the stages of its page."""
    from pullback.explanation.stages import About

    try:
        written, first = inspect.getsourcelines(f.python)
        file = inspect.getsourcefile(f.python) or ""
        place = ("", (0, 0)) if is_ours(file) else (file, (first, first + len(written) - 1))
    except (OSError, TypeError):  # defined by text, or by another function
        place = ("", (0, 0))
    try:
        said = str(f.type)
    except Exception:  # unknown before the first call
        said = ""
    return About(f.name, said, inspect.getdoc(f) or "", *place)


def function_html(f: Shown) -> str:
    """A function in a notebook: its documentation, its types, and the program that it computes."""
    first = (inspect.getdoc(f) or "").partition("\n\n")[0]
    caption = f"{f.name}: {first}" if first else f.name
    try:
        types, program = f.type.html(caption), str(getattr(f, "ir", "")).rstrip()
    except Exception:  # unknown before the first call, or invalid, as the call reports
        rows = [("argument", "annotation"), *((n, str(p).partition(":")[2].strip()) for n, p in _written(f).items())]
        return html_table(rows, caption=caption) + html_note("types are known after the first call")
    stages = html_note(f'{f.name}.explain(html="{f.name}.html") writes a page with every stage, down to C')
    unfolded = " open" * (len(program.splitlines()) <= SHOWN)
    shown = f"<details{unfolded}><summary>program</summary>{html_note(program)}</details>"
    return "\n".join([types, shown, stages]) if program else types
