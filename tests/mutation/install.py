"""Putting a mutant in the place of a module's functions, in the process that runs."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType

from tests.mutation.mutants import ROOT, Mutant


def install(mutant: Mutant) -> bool:
    """Give the functions that exist the mutant's code; whether there was one to change.

    Equal text compiles to equal code, so that a function is found by the code it has.
    """
    path = str(ROOT / mutant.file)
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    before, after = (compile(text, path, "exec", dont_inherit=True) for text in (source, mutant.apply(source)))
    changed = dict(_changed(before, after))
    gc.unfreeze()  # what is frozen is not listed
    found = [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == path]
    found = [f for f in found if f.__code__ in changed]
    for f in found:
        f.__code__ = changed[f.__code__]
    return bool(found)


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
