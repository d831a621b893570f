"""The table of names that have changed holds: new ones exist, old ones do not, and errors say which is which."""

from __future__ import annotations

import argparse
import functools
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import pullback as pb
from pullback.cli.main import parser
from pullback.errors import PullbackError, UnknownNameError
from pullback.tracing import elsewhere
from tests.docs import names_page

TABLE = names_page.TABLE
MODULES = ("pullback", "data", "distributions", "fft", "interop", "lazy", "linalg", "nn", "nn.init", "nn.metrics",
           "nn.models", "onnx", "random", "special")  # fmt: skip
NONSTANDARD = frozenset({
    "ceil", "centred", "colour", "deviation", "early_stop", "epsilon", "least", "learn", "longest", "optimiser",
    "probability", "rate_factors", "rate_within", "regularisation", "rising", "smoothing", "specialise",
})  # fmt: skip
"""Words that the table replaced everywhere: in no signature of a public function."""


def module(name: str) -> Any:
    """A public module."""
    return pb if name == "pullback" else import_module(f"pullback.{name}")


def signatures(value: Any) -> Iterator[tuple[str, set[str]]]:
    """The parameters of a callable and of the public methods of a class; fields of a class are parameters."""
    if inspect.isclass(value):
        yield "", set(inspect.signature(value).parameters)
        yield "", {n for k in value.__mro__ for n in getattr(k, "__annotations__", ())} | {*dir(value)}
        for name in vars(value):
            if not name.startswith("_") and callable(getattr(value, name)):
                yield f".{name}", set(inspect.signature(getattr(value, name)).parameters)
    elif callable(value):
        yield "", set(inspect.signature(value).parameters)


def resolved(section: str) -> Any:
    """The callable of a section: of a module, or of a class in one."""
    room = next(m for m in sorted(MODULES, reverse=True) if section.startswith(f"{m}."))
    return functools.reduce(getattr, section.removeprefix(f"{room}.").split("."), module(room))


def _takes(f: Any, parameter: str) -> bool:
    made = inspect.isclass(f) and inspect.isfunction(vars(f).get("__init__"))
    return (made or inspect.isfunction(f)) and parameter in inspect.signature(f).parameters


def known(section: str) -> set[str]:
    """The parameters of a callable of the table, and the attributes of a class."""
    return set().union(*(found for _, found in signatures(resolved(section))))


CALLABLES = [s for s in TABLE if s not in MODULES and " " not in s]


@pytest.mark.parametrize("section", CALLABLES)
def test_parameters(section: str) -> None:
    found = known(section)
    assert {new.partition("=")[0] for new, _ in TABLE[section].values()} <= found
    assert not set(TABLE[section]) & found


@pytest.mark.parametrize("section", [s for s in TABLE if s in MODULES])
def test_names(section: str) -> None:
    space = module(section)
    assert {new for new, _ in TABLE[section].values()} <= set(space.__all__)
    assert not set(TABLE[section]) & set(space.__all__)


def test_options() -> None:
    options = {o for p in _parsers(parser()) for action in p._actions for o in action.option_strings}
    assert {new for new, _ in TABLE["command line"].values()} <= options
    assert not set(TABLE["command line"]) & options


def _parsers(whole: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield whole
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _parsers(inner)


@pytest.mark.parametrize("name", MODULES)
def test_no_parameter_is_nonstandard(name: str) -> None:
    """No signature of a public module has a word that the table replaced everywhere."""
    wrong = []
    for own in module(name).__all__:
        value = getattr(module(name), own)
        if callable(value) and str(getattr(value, "__module__", "")).startswith("pullback"):
            wrong += [(own + method, p) for method, found in signatures(value) for p in found & NONSTANDARD]
    assert not wrong


@pytest.mark.parametrize("section", [s for s in TABLE if s in MODULES])
def test_an_old_name_says_the_new_one(section: str) -> None:
    written = elsewhere.short(f"pullback.{section}".removesuffix(".pullback"))
    for old, (new, _) in TABLE[section].items():
        with pytest.raises(UnknownNameError, match=rf"`{written}\.{old}` is now `{written}\.{new}`"):
            getattr(module(section), old)


@pytest.mark.parametrize("section", CALLABLES)
def test_an_old_parameter_says_the_new_one(section: str) -> None:
    value = resolved(section)
    for old, (new, _) in TABLE[section].items():
        members = [getattr(value, n) for n in vars(value) if not n.startswith("_")]
        taking = [f for f in (value, *members) if _takes(f, new.partition("=")[0])]
        if not taking:
            assert elsewhere.member(value, old) == f"`{old}` is now `{new}`"
        for f in taking[:1]:
            with pytest.raises(PullbackError, match=re.escape(f"`{old}` is now `{new}`")):
                f(*[None] * ("self" in inspect.signature(f).parameters), **{old: 1})


def test_the_page_is_that_of_the_table() -> None:
    assert names_page.PAGE.read_text(encoding="utf-8") == names_page.page(), "python -m tests.docs.names_page writes it"


