"""Putting a mutant in the place of a module's functions, in the process that runs."""

from __future__ import annotations

import gc
import importlib
import inspect
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FunctionType

from tests.mutation.mutants import ROOT, Mutant


def install(mutant: Mutant) -> bool:
    """Give the functions that exist the mutant's code; whether there was one to change.

    A module that nothing has imported as yet is imported first: later its functions would be those of the file.

    Equal text compiles to equal code, so that a function is found by the code it has; code that has run may differ
    from what it was, and is found by its name and line where no other has these.
    """
    importlib.import_module(mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    path = str(ROOT / mutant.file)
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    before, after = (compile(text, path, "exec", dont_inherit=True) for text in (source, mutant.apply(source)))
    changed = dict(_changed(before, after))
    gc.unfreeze()  # what is frozen is not listed
    found = [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == path]
    places = Counter(_place(c) for c in changed)
    at = {_place(a): b for a, b in changed.items() if places[_place(a)] == 1}
    new = {f: code for f in found if (code := changed.get(f.__code__) or at.get(_place(f.__code__))) is not None}
    for f, code in new.items():
        f.__code__ = code
    return bool(new)


def distinguish(mutant: Mutant) -> None:
    """Give the libraries that this process compiles another cache key."""
    token = str(mutant)
    importlib.import_module("pullback.runtime.record").fingerprint = lambda: token


def settle() -> None:
    """Let random tests draw the same examples in every process, and not shrink failures."""
    hypothesis = importlib.import_module("hypothesis")  # once pytest rewrites the asserts of its plugin
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutation", derandomize=True, database=None, deadline=None, phases=phases)
    hypothesis.settings.load_profile("mutation")


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _changed(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The functions of two codes that differ, where they stand in the same place and close over the same names."""
    old, new = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (before, after))
    if len(old) != len(new):
        return
    for a, b in zip(old, new):
        if a != b:
            if a.co_flags & inspect.CO_OPTIMIZED and a.co_freevars == b.co_freevars:
                yield a, b
            yield from _changed(a, b)
