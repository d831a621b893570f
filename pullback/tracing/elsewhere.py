"""Names of other libraries, and old names of this package, with their replacements.

Messages use the tables `words.toml` and `renamed.toml`. Calls of NumPy functions on traced values are resolved by
the first table.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pullback.errors import UnknownNameError
from pullback.source import user_position
from pullback.state import cached

_ROOT = Path(__file__).parents[1]


@cached(2)
def _read(file: str) -> dict[str, Any]:
    import tomllib  # imported with the first error, not with the package

    return tomllib.loads((_ROOT / file).read_text(encoding="utf-8"))


def renamed_to(section: str, name: str) -> str:
    """The new name of a parameter or an attribute of a callable or its class; empty if unchanged."""
    owner = section.rpartition(".")[0]  # a method has the names of its class
    return (renamed(section).get(name) or renamed(owner).get(name) or [""])[0]


def words(kind: str, section: str = "") -> dict[str, Any]:
    """A table of `words.toml`: `words("names", "nn")`; empty where there is none."""
    table: dict[str, Any] = _read("words.toml")[kind]
    return table.get(section, {}) if section else table


def renamed(section: str) -> dict[str, list[str]]:
    """The old names of a module, or old parameters of a callable, with the new ones and their origin."""
    return _read("renamed.toml").get(section, {})  # type: ignore[no-any-return]


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names most similar to this one, nearest first."""
    import difflib

    return difflib.get_close_matches(name, list(known), n=3, cutoff=0.7)


def one_of(name: str, known: Iterable[str]) -> str:
    """For messages: the nearest known names, or all of them if none is near."""
    names = list(known)
    close = nearest(name, names)
    if close:
        return f"did you mean `{close[0]}`?" + (f" There are {', '.join(names)}" if 1 < len(names) <= 8 else "")
    return "one of " + ", ".join(names) if names else "there are none"


def public_names() -> ModuleType:
    """The public package, whose names are complete after first use."""
    return sys.modules[__name__.partition(".")[0]]


def running(frames: Sequence[FrameType]) -> str | None:
    """The name of the outermost public function among the frames, possibly a wrapper's.

    Functions made by one factory share their code, and are distinguished by `name`.
    """
    package = public_names()
    for frame in frames:
        for name in (frame.f_code.co_name, frame.f_locals.get("name")):
            found = getattr(package, name) if isinstance(name, str) and name in package.__all__ else None
            codes = [getattr(f, "__code__", None) for f in (found, inspect.unwrap(found))] if callable(found) else []
            if frame.f_code in codes and frames[0].f_code in codes:
                return name
    return None


def counterpart(name: str, module: str = "") -> Callable[..., Any] | None:
    """The public function of this or the equivalent name; a module has its own names."""
    package = public_names()
    inner = getattr(package, module, None)
    if inner is not None and name in inner.__all__:
        return getattr(inner, name)  # type: ignore[no-any-return]
    own = name if name in package.__all__ and inner is None else words("names", "pullback").get(name, "")
    return getattr(package, own) if own in package.__all__ else None


def remedy(name: str, misspelled: bool = True) -> str:
    """The replacement for a name that the package lacks; for a misspelling, the nearest name."""
    known = public_names().__all__
    own = name if name in known else words("names", "pullback").get(name, "")
    if own in known:
        return f"`pb.{own}`"
    if found := words("instead", "pullback").get(name):
        return str(found)
    for module in ("linalg", "special", "fft"):
        if name in getattr(public_names(), module).__all__:
            return f"`pb.{module}.{name}`"
    close = nearest(name, known) if misspelled else []
    return "did you mean " + " or ".join(f"`pb.{n}`" for n in close) + "?" if close else "`dir(pb)` lists what there is"


def short(module: str) -> str:
    """The name of a module or its member as users write it: `pb.linalg`, `nn.init`."""
    inner = module.removeprefix("pullback").removeprefix(".")
    return inner if inner.partition(".")[0] in ("nn", "data", "lazy", "onnx", "interop") else f"pb.{inner}".rstrip(".")


def section(written: str) -> str:
    """The section of the tables for a name as users write it: `pb.sum`, `pb.linalg.solve`, or `sum`."""
    module, _, name = written.rpartition(".")
    inner = module.removeprefix("pb").removeprefix(".")
    return f"{inner or 'pullback'}.{name}"


def call(section: str, problem: str) -> str:
    """The remedy for a call with missing or too many arguments, if the tables have one."""
    return str(words("calls").get(section, "")) if problem.startswith(("missing", "takes")) else ""


def parameter(section: str, keyword: str, known: Sequence[str]) -> str:
    """The remedy for an unknown keyword: its new name, its name here, the nearest, or a sentence."""
    if (new := renamed_to(section, keyword)).partition("=")[0] in known:
        return f"`{keyword}` is now `{new}`"
    for name in words("parameters").get(keyword, ()):
        if name in known:
            return f"`{keyword}` is `{name}` here"
    if found := words("arguments", section).get(keyword) or words("arguments").get(keyword):
        return str(found)
    close = nearest(keyword, known)
    return f"`{close[0]}=`" if close else ""


def form(name: str, function: Callable[..., Any]) -> str:
    """The form of a call without annotations, such as `sum(x, axis=None)`."""
    parts: list[str] = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        parts.append(f"{star}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}"))
    return f"{name}({', '.join(p for p in parts if p != 'self')})"


def unknown(name: str, module: str = "pullback") -> UnknownNameError:
    """The error for a name that the package, or a module of it, does not have."""
    return UnknownNameError(
        "E146", f"{module} has no {name!r}", position=user_position(), remedy=_replacement(name, module)
    )


def _replacement(name: str, module: str) -> str:
    """The remedy for a name that a module lacks."""
    from importlib.util import find_spec

    known = sys.modules[module].__all__
    own, written = module.removeprefix("pullback.") or "pullback", short(module)
    found = words("instead", own).get(name, "") if own != "pullback" else ""
    if name in renamed(own):
        return f"`{written}.{name}` is now `{written}.{renamed(own)[name][0]}`" + (found and f"; {found}")
    if found:
        return str(found)
    if own == "pullback":
        package = find_spec(f"pullback.{name}")
        return remedy(name) if package is None else f"`import pullback.{name}`"
    plain = re.sub("[123]d|loss|_", "", name.lower())
    same = words("names", own).get(plain) or next((n for n in known if n.lower().replace("_", "") == plain), None)
    if same is not None:
        return f"`{written}.{same}`"
    close = nearest(name, known)
    text = remedy(name, misspelled=False)
    if close or text.startswith("`dir"):
        return f"did you mean `{written}.{close[0]}`?" if close else f"`dir({written})` lists what there is"
    return text


def attribute(value: object, name: str) -> UnknownNameError:
    """The error for an attribute that an object of the package does not have."""
    known = [n for n in dir(type(value)) if not n.startswith("_")]
    text = next(filter(None, (member(kind, name) for kind in type(value).__mro__)), "") or one_of(name, known)
    what = f"a value of type {type(value).__name__} has no attribute {name!r}"
    return UnknownNameError("E146", what, position=user_position(), remedy=text)


def member(kind: type, name: str) -> str:
    """The remedy for an attribute that a class lacks, from the tables."""
    room = kind.__module__.removeprefix("pullback.").partition(".")[0]
    if new := renamed_to(f"{room}.{kind.__name__}", name):
        return f"`{name}` is now `{new}`"
    return str(words("instead", kind.__name__).get(name, ""))
