"""One C file as several that compile at the same time and are found again one by one.

The first unit holds the function that is called; kernels stand in the others, visible there only inside the library.
Kernels that use one another stay together. A kernel's unit follows from its name, which says what it is: where one
layer of a network changes, one or two units change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

LEAST: Final = 32_000  # characters worth more than one process
UNIT: Final = 24_000  # about 0.2 s of a compiler that takes 0.03 s to start
HIDDEN: Final = '__attribute__((visibility("hidden"))) '


def split(kernels: Mapping[str, str], rest: str, preamble: Callable[[str], str]) -> tuple[str, ...]:
    """The units of a file.

    Args:
        kernels: static functions by name, in an order in which each follows what it uses.
        rest: everything after them.
        preamble: what a text needs before it.
    """
    total = sum(map(len, kernels.values()))
    if total + len(rest) < LEAST:
        return (_unit([*kernels.values(), rest], preamble),)
    called = set(_mentioned(rest, kernels))
    count = 1
    while count * UNIT < total:
        count *= 2
    buckets: list[list[str]] = [[] for _ in range(count)]
    for group in _groups(kernels):
        shown = (_shown(kernels[n]) if n in called else kernels[n] for n in group)
        buckets[int(group[-1][-4:], 16) % count] += shown
    prototypes = "".join(_prototype(kernels[n]) for n in kernels if n in called)
    return (_unit([prototypes, rest], preamble), *(_unit(b, preamble) for b in buckets if b))


def _mentioned(text: str, kernels: Mapping[str, str]) -> list[str]:
    return [n for n in dict.fromkeys(re.findall(r"\b\w+_[0-9a-f]{12}\b", text)) if n in kernels]


def _groups(kernels: Mapping[str, str]) -> list[list[str]]:
    """Kernels that use one another, in order."""
    group = {n: [n] for n in kernels}
    for n, text in kernels.items():
        for m in _mentioned(text, kernels):
            if group[m] is not group[n]:
                joined = [k for k in kernels if k in group[m] or k in group[n]]
                group.update(dict.fromkeys(joined, joined))
    seen: dict[int, list[str]] = {id(g): g for g in group.values()}
    return sorted(seen.values(), key=lambda g: g[-1])


def _shown(kernel: str) -> str:
    return re.sub(r"^static ", HIDDEN, kernel, count=1, flags=re.MULTILINE)


def _prototype(kernel: str) -> str:
    start = re.search(r"^static ", kernel, re.MULTILINE)
    assert start is not None
    return HIDDEN + kernel[start.end() : kernel.index(" {\n", start.end())] + ";\n"


def _unit(parts: list[str], preamble: Callable[[str], str]) -> str:
    text = "\n".join(p for p in parts if p)
    return f"{preamble(text)}\n{text}"
