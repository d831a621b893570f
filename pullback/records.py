"""A decorator like `dataclasses.dataclass` that writes methods when they are first called.

Writing them takes 0.4 ms a class, which was more than half the time to import the compiler. Few of them are called.
"""

from __future__ import annotations

import dataclasses
import reprlib
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, slots=False):
        """Make a class with fields, as `dataclasses.dataclass` does."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, repr=repr, slots=slots)
        own = {name for name, value in vars(cls).items() if (name, value) != ("__hash__", None)}  # beside __eq__
        cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise it becomes the signature, which takes long to find
        derived = frozen and dataclasses.is_dataclass(cls)
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, frozen=derived)
        cls.__dataclass_params__.eq, cls.__dataclass_params__.frozen = eq, frozen
        methods = {"__init__": _later(cls, "__init__", _init)}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods["__eq__"] = _later(cls, "__eq__", _eq)
            methods["__hash__"] = _later(cls, "__hash__", _hash) if frozen else None
        if frozen and not derived:
            methods |= _frozen(cls)
        for name, method in methods.items():
            if name not in own:
                setattr(cls, name, method)
        return cls


def _later(cls: type, name: str, text: Any) -> Any:
    """A method that at its first call compiles this text, and replaces itself by the result."""

    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        fields = dataclasses.fields(cls)
        names: dict[str, Any] = {"_set": object.__setattr__}
        for f in fields:
            names |= {f"_default_{f.name}": f.default, f"_make_{f.name}": f.default_factory}
        exec(text(cls, fields), names)
        made = names[name]
        made.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, made)
        return made(self, *args, **keywords)

    return method


def _init(cls: Any, fields: tuple[dataclasses.Field[Any], ...]) -> str:
    given = [f for f in fields if f.init]
    parameters = ["self", *(_parameter(f) for f in given if not f.kw_only)]
    parameters += ["*", *(_parameter(f) for f in given if f.kw_only)] if any(f.kw_only for f in given) else []
    frozen = "__setattr__" in vars(cls)
    lines = [f"def __init__({', '.join(parameters)}):", "    pass"]
    for f in fields:
        value = f.name
        if f.default_factory is not dataclasses.MISSING:
            value = f"_make_{f.name}()" + (f" if {f.name} is _make_{f.name} else {f.name}" if f.init else "")
        elif not f.init and f.default is dataclasses.MISSING:
            continue
        elif not f.init:
            value = f"_default_{f.name}"
        lines.append(f"    _set(self, {f.name!r}, {value})" if frozen else f"    self.{f.name} = {value}")
    return "\n".join(lines + ["    self.__post_init__()"] * hasattr(cls, "__post_init__"))


def _parameter(f: dataclasses.Field[Any]) -> str:
    if f.default_factory is not dataclasses.MISSING:
        return f"{f.name}=_make_{f.name}"
    return f.name if f.default is dataclasses.MISSING else f"{f.name}=_default_{f.name}"


def _eq(cls: Any, fields: tuple[dataclasses.Field[Any], ...]) -> str:
    mine, theirs = (_values(fields, name) for name in ("self", "other"))
    return ("def __eq__(self, other):\n"
            f"    return {mine} == {theirs} if other.__class__ is self.__class__ else NotImplemented")


def _hash(cls: Any, fields: tuple[dataclasses.Field[Any], ...]) -> str:
    return f"def __hash__(self):\n    return hash({_values(fields, 'self')})"


def _values(fields: tuple[dataclasses.Field[Any], ...], of: str) -> str:
    return "(" + "".join(f"{of}.{f.name}, " for f in fields if f.compare) + ")"


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    values = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _frozen(cls: Any) -> dict[str, Any]:
    """The methods that forbid to assign or delete fields."""

    def check(self: Any, name: str, what: str) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")

    def assign(self: Any, name: str, value: Any) -> None:
        check(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        check(self, name, "delete")
        super(cls, self).__delattr__(name)

    def restore(self: Any, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            for name, value in (part or {}).items():
                object.__setattr__(self, name, value)

    return {"__setattr__": assign, "__delattr__": delete, "__setstate__": restore}
