"""Calls in a tenth of a microsecond: a small CPython extension between NumPy arrays and compiled code.

A wheel may contain the compiled extension. Otherwise `runtime/c/call.c` is compiled once per interpreter and cached
like any other library. Without `Python.h`, or if compilation fails, entries are in Python (`runtime.entry`).
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pullback.errors import CompilerError
from pullback.records import dataclass, field
from pullback.runtime.load import loaded
from pullback.single_flight import single_flight
from pullback.state import registered

NAME = "_pullback_call"

MOST_TRIED = 16  # most entries compared leaf by leaf; more would cost as much as the slow path

Entry = Callable[..., Any]
Form = Any  # a tree's form: an integer for a leaf, None, or a node (`tracing.tree.form`)


def extension() -> ModuleType | None:
    """The compiled extension, or None if it cannot be built."""
    if not _found:
        with single_flight(NAME):
            if not _found:
                _found.append(_extension())
    return _found[0]


_found: list[ModuleType | None] = registered([], 1, stays="with the process: loaded code")


def _extension() -> ModuleType | None:
    module = _prebuilt() or compiled_module(NAME, "call.c")
    if module is None:
        return None
    module.main_thread(threading.main_thread().ident)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: module.main_thread(threading.get_ident()))
    return module


def _prebuilt() -> ModuleType | None:
    """The extension from a wheel: for the stable ABI from 3.12 on, or for this interpreter version."""
    stable = sys.version_info >= (3, 12) and not sysconfig.get_config_var("Py_GIL_DISABLED")
    path = Path(__file__).parent / f"call.{'abi3' if stable else sysconfig.get_config_var('SOABI')}.so"
    try:
        return _module(str(path)) if path.is_file() else None
    except ImportError:  # NumPy or the C library is too old for it
        return None


def compiled_module(name: str, file: str) -> ModuleType | None:
    """The extension of a file of `runtime/c`, from the cache or compiled; None if it cannot be built."""
    include = Path(sysconfig.get_paths()["include"])
    if not (include / "Python.h").is_file():
        return None
    text = (Path(__file__).parent / "c" / file).read_text(encoding="utf-8")
    # the versions are part of the text, and so of the cache key
    text = f"/* {sysconfig.get_config_var('SOABI')}, NumPy {np.__version__} */\n{text}"
    try:
        return loaded(text, (f"-I{include}", f"-I{np.get_include()}"), partial(_module, name=name))
    except CompilerError:
        return None


def _module(path: str, name: str = NAME) -> ModuleType:
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Look:
    """A description of the arguments that a call expects from Python.

    Attributes:
        form: the form of the tuple of all arguments; None if each is an array or a value of `fixed`.
        names: the parameters, for keyword arguments.
        positional: the number of parameters that may be positional.
        defaults: the default values of parameters.
        fixed: values that the function was compiled for, with their positions among the argument leaves.
        numbers: for each input of rank 0, 1 if it may be a Python number, 2 if it must be one.
        threads: the thread count that the call must request, and the count outside `with` blocks.
    """

    form: Form = None
    names: tuple[str, ...] = ()
    positional: int = sys.maxsize
    defaults: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[tuple[int, Any], ...] = ()
    numbers: tuple[int, ...] = ()
    threads: tuple[int, int] = (1, 1)


def interruptible(function: Entry, arguments: int) -> Entry:
    """Wrap a compiled function with this many arguments so that Ctrl-C can interrupt it.

    Args:
        function: a ctypes function. It must outlive the result.
    """
    module = extension()
    if module is None or arguments > module.MOST_POINTERS or sys.maxsize < 2**63 - 1:
        return function
    address = ctypes.c_void_p.from_buffer(function).value  # type: ignore[arg-type]
    return partial(module.invoke, address)


_quick: dict[type, type] = registered(
    {}, "one for each class of functions", stays="with the process: classes are told apart by identity"
)


def quick_class(base: type) -> type:
    """A subclass of `base` that supports `quicken`; `base` itself without the extension.

    `base` has a slot `_entries` for a list of entries, and a method `_call_slowly` for calls that fit none of them.
    """
    module = extension()
    if module is None:
        return base
    found = _quick.get(base)
    return _quick.setdefault(base, module.quick_class(base)) if found is None else found


def quicken(function: object, threads: ContextVar[int | None], tracing: dict[int, Any]) -> None:
    """Make calls of an instance of a quick class try its entries first.

    Only entries made for the current value of `threads` are tried. A thread that is in `tracing` tries none.
    """
    module = extension()
    if module is not None:
        module.quicken(function, threads, tracing)


def answer_of(
    entries: list[Any], asked: int | None, args: tuple[Any, ...], keywords: Mapping[str, Any], out: Any
) -> Any:
    """Return the result of the first entry that fits a call; NotImplemented if none fits.

    With the extension this returns NotImplemented, because the call has already tried the entries.

    Args:
        asked: the number of threads that the enclosing block requests.
    """
    if extension() is not None:
        return NotImplemented
    first = args[0].shape if args and type(args[0]) is np.ndarray else None
    tried = 0
    for entry in entries:
        if tried == MOST_TRIED:
            break
        shape = entry.first
        if shape is not None and first is not None and shape != first:
            continue
        if entry.threads != (asked or entry.usual_threads):
            continue
        tried += 1
        given = args if len(args) == entry.whole and not keywords else entry.in_order(args, keywords)
        answer = NotImplemented if given is None else entry.run(given, out)
        if answer is not NotImplemented:
            if entries[:1] != [entry]:
                to_front(entries, entry)
            return answer
    return NotImplemented


def to_front(entries: list[Any], entry: Any) -> None:
    """Move an entry to the front of its list."""
    for k, other in enumerate(entries):
        if other is entry:  # no other thread runs before the next line ends
            entries[: k + 1] = [entry, *entries[:k]]
            return
