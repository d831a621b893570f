"""The parameters of a function, and the arguments of a call as leaves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, Literal

import numpy as np

from pullback.calls.annotations import function_annotations, python_function, spec_of
from pullback.calls.arguments import MISSING, Leaf, Leaves
from pullback.calls.specs import AnySpec, ArraySpec, OptionalSpec, Spec, StaticSpec
from pullback.errors import DTypeError, TraceError, UndefinedNameError, counted
from pullback.ir import types
from pullback.ir.types import DType
from pullback.records import dataclass
from pullback.source import is_ours, user_position
from pullback.tracing import elsewhere
from pullback.tracing.array import Array
from pullback.tracing.tree import Structure


@dataclass
class Parameter:
    """One parameter of a function.

    Attributes:
        kind: positional or keyword, variadic (`*args`, whose value is a tuple), or keyword-only.
    """

    name: str
    spec: Spec
    default: Any = MISSING
    kind: Literal["plain", "rest", "keyword"] = "plain"


@dataclass(frozen=True)
class Signature:
    """The signature for which a function is traced: structure and leaves of each argument. Hashable."""

    structures: tuple[Structure, ...]
    leaves: tuple[tuple[Leaf, ...], ...]

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:  # several tables use it
        return hash((self.structures, self.leaves))

    @property
    def flat(self) -> list[Leaf]:
        """All leaves in order."""
        return [leaf for group in self.leaves for leaf in group]


def parameters_of(f: Callable[..., Any]) -> list[Parameter]:
    """The parameters of f. Raise NameError if an annotation uses an undefined name.

    Raises:
        TraceError: [E149] f cannot be traced. [E107] A parameter cannot be traced.
    """
    check_traceable(f)
    try:
        annotations = function_annotations(f)
    except NameError as error:
        raise UndefinedNameError(
            "E148",
            f"{name_of(f)}: an annotation names {error.name!r}, which is not defined",
            position=user_position(),
            remedy="import it, or define it before the first call",
        ) from None
    code = code_of(f)
    library = code is not None and is_ours(code.co_filename)  # `pb.sort`: parameters with defaults are options
    out = []
    for p in inspect.signature(f).parameters.values():
        if p.kind is p.VAR_KEYWORD:
            raise TraceError(
                "E107",
                f"{name_of(f)}: a parameter `**{p.name}` of unknown names cannot be traced",
                position=user_position(),
                remedy="pass one dict",
            )
        if p.name == "out":
            raise TraceError(
                "E107",
                f"{name_of(f)}: a parameter is named `out`, which in every call says where the results go",
                position=user_position(),
                remedy="another name, such as `output`",
            )
        option = library and p.default is not p.empty
        spec = StaticSpec() if option else spec_of(annotations.get(p.name, p.empty), p.name)
        default = MISSING if p.default is p.empty else p.default
        if p.kind is p.VAR_POSITIONAL:
            out.append(Parameter(p.name, AnySpec(spec), (), "rest"))
        else:
            out.append(Parameter(p.name, spec, default, "keyword" if p.kind is p.KEYWORD_ONLY else "plain"))
    return out


def check_traceable(f: object) -> None:
    """Refuse an object that is not a Python function of traced values."""
    found, remedy = None, "a Python function, or an object that can be called like one"
    if isinstance(f, np.ufunc):
        found, remedy = f"numpy.{f.__name__}, a function of NumPy", elsewhere.remedy(f.__name__)
    elif isinstance(f, type):
        found, remedy = f"the class {f.__name__}", "decorate a method, or give an object that has `__call__`"
    elif not callable(f):
        found = f"a value of type {type(f).__name__}"
        remedy = "the function itself, not what a call of it gives: `f`, not `f(x)`"
    elif inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f):
        found, remedy = f"{name_of(f)}, which is `async`", "a plain `def`"
    elif inspect.isgeneratorfunction(f):
        found, remedy = f"{name_of(f)}, which is a generator", "`return` in the place of `yield`; `pb.scan` makes rows"
    if found is not None:
        raise TraceError("E149", f"pb.function was given {found}", position=user_position(), remedy=remedy)


def name_of(f: Any) -> str:
    """The name of a callable in messages and programs: a function, partial application or object."""
    while isinstance(f, functools.partial):
        f = f.func
    return str(getattr(f, "__name__", None) or type(f).__name__).strip("<>")


def code_of(f: Any) -> CodeType | None:
    """The code that a call of f runs, if it is written in Python."""
    f = inspect.unwrap(python_function(f))
    code = getattr(f, "__code__", None)
    return code if isinstance(code, CodeType) else None


def called_with(f: Callable[..., Any], parameters: Sequence[Parameter], values: Sequence[Any]) -> Any:
    """Call `f` with a value for each parameter; those after a variadic one are passed by keyword."""
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    variadic = False
    for p, value in zip(parameters, values, strict=True):
        if p.kind == "rest":
            args += value
            variadic = True
        elif variadic or p.kind == "keyword":
            keywords[p.name] = value
        else:
            args.append(value)
    return f(*args, **keywords)


def bind(
    name: str, parameters: Sequence[Parameter], args: Sequence[Any], keywords: Mapping[str, Any], in_order: bool = False
) -> list[Any]:
    """Bind one argument to each parameter, a tuple to `*args`.

    Args:
        in_order: whether the arguments came as one tuple, with keyword-only ones last.

    Raises:
        TraceError: [E145] there are too many or too few arguments, or an unknown one.
    """
    given, rest = list(args), dict(keywords)
    values: list[Any] = []
    variadic = False
    most = len(parameters) if in_order else sum(p.kind == "plain" for p in parameters)
    if len(given) > most and all(p.kind != "rest" for p in parameters):
        raise _wrong(name, parameters, f"{counted(len(given), 'argument')} by position, and takes {most}")
    for p in parameters:
        if p.kind == "rest":
            variadic = True
            later = sum(q.kind == "keyword" for q in parameters) if in_order else 0
            count = max(0, len(given) - later)
            values.append(tuple(given[:count]))
            del given[:count]
        elif given and (in_order or (p.kind == "plain" and not variadic)):
            if p.name in rest:
                raise _wrong(name, parameters, f"two values for {p.name!r}")
            values.append(given.pop(0))
        elif p.name in rest:
            values.append(rest.pop(p.name))
        elif p.default is not MISSING:
            values.append(p.default)
        elif unknown := next((k for k in rest if all(q.name != k for q in parameters)), ""):
            raise _wrong(name, parameters, f"an unknown argument {unknown!r}", unknown)
        else:
            raise _wrong(name, parameters, f"no value for {p.name!r}")
    if rest:
        unknown = next(iter(rest))
        raise _wrong(name, parameters, f"an unknown argument {unknown!r}", unknown)
    return values


def _wrong(name: str, parameters: Sequence[Parameter], found: str, unknown: str | None = None) -> TraceError:
    close = elsewhere.nearest(unknown, [p.name for p in parameters]) if unknown else []
    return TraceError(
        "E145",
        f"{name}() got {found}",
        position=user_position(),
        remedy=(f"`{close[0]}=`: " if close else "") + f"`{_form(name, parameters)}`",
    )


def _form(name: str, parameters: Sequence[Parameter]) -> str:
    """`f(x, y, *, scale=...)`."""
    parts: list[str] = []
    for p in parameters:
        if p.kind == "keyword" and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(f"*{p.name}" if p.kind == "rest" else p.name if p.default is MISSING else f"{p.name}=...")
    return f"{name}({', '.join(parts)})"


def signature_of(parameters: Sequence[Parameter], values: Sequence[Any] | None) -> tuple[Signature, list[Any]]:
    """The signature of a call and its leaves; without a call, from annotations alone (or Undetermined)."""
    structures, groups, flat = [], [], []
    for k, p in enumerate(parameters):
        structure, leaves, found = _by_annotation(p) if values is None else p.spec.leaves(values[k], p.name)
        structures.append(structure)
        groups.append(tuple(leaves))
        flat += found
    if values is not None:
        _same_floating(parameters, groups, flat)
    return Signature(tuple(structures), tuple(groups)), flat


def _by_annotation(p: Parameter) -> Leaves:
    """The leaves from the annotation alone; None if it is optional with default None."""
    return p.spec.leaves(None if p.default is None and isinstance(p.spec, OptionalSpec) else MISSING, p.name)


def _same_floating(parameters: Sequence[Parameter], groups: Sequence[tuple[Leaf, ...]], flat: Sequence[Any]) -> None:
    """Check that `Float` stands for one dtype throughout a call."""
    chosen: tuple[str, DType] | None = None
    for p, group in zip(parameters, groups):
        if isinstance(p.spec, ArraySpec) and set(p.spec.dtypes) == {types.f32, types.f64}:
            for leaf in group:
                assert leaf.dtype is not None
                if chosen is None:
                    chosen = (leaf.path, leaf.dtype)
                elif leaf.dtype is not chosen[1]:
                    raise DTypeError(
                        "E122",
                        f"{leaf.path} is {leaf.dtype} and {chosen[0]} is {chosen[1]}: `Float` is one type in a call",
                        remedy=f"`{leaf.path}.astype(np.{chosen[1].numpy})` converts it",
                    )


def is_traced(values: Sequence[Any]) -> bool:
    """Whether any leaf is a traced value."""
    return any(isinstance(v, Array) for v in values)
