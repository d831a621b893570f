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
_STATIC: Final = re.compile(r"^static (inline )?", re.MULTILINE)
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
    near: list[str] = []  # what is inlined stands where it is called
    for group in _groups(kernels):
        if group[0] in called and len(group) == 1 and _is_inline(kernels[group[0]]):
            near.append(group[0])
            continue
        shown = (_shown(kernels[n]) if n in called else kernels[n] for n in group)
        buckets[int(group[-1][-4:], 16) % count] += shown
    prototypes = "".join(_prototype(kernels[n]) for n in kernels if n in called and n not in near)
    first = [prototypes, *(kernels[n] for n in near), rest]
    return (_unit(first, preamble), *(_unit(b, preamble) for b in buckets if b))


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


def _is_inline(kernel: str) -> bool:
    found = _STATIC.search(kernel)
    return found is not None and found.group(1) is not None


def _shown(kernel: str) -> str:
    return _STATIC.sub(HIDDEN, kernel, count=1)


def _prototype(kernel: str) -> str:
    start = _STATIC.search(kernel)
    assert start is not None
    return HIDDEN + kernel[start.end() : kernel.index(" {\n", start.end())].removeprefix("PB_APART ") + ";\n"


def _unit(parts: list[str], preamble: Callable[[str], str]) -> str:
    text = "\n".join(p for p in parts if p)
    return f"{preamble(text)}\n{text}"
