"""Splitting of a C file into units, which compile in parallel and are cached separately.

The first unit holds the entry function. Kernels are in the others, visible only inside the library. A kernel with one
user stays with it. A kernel with several users is called across units; otherwise a few inner loops would draw all their
users into one unit. A kernel's unit follows from its name, a digest of its text. So if one layer of a network changes,
one or two units change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

LEAST: Final = 32_000  # least characters of a file that is split
UNIT: Final = 48_000  # characters per unit: about 0.3 s of compilation after 0.03 s of startup
_STATIC: Final = re.compile(r"^static (inline )?", re.MULTILINE)
HIDDEN: Final = '__attribute__((visibility("hidden"))) '


def split(kernels: Mapping[str, str], rest: str, preamble: Callable[[str], str]) -> tuple[str, ...]:
    """The units of a file.

    Args:
        kernels: static functions by name, each after the functions it uses.
        rest: everything after them.
        preamble: returns the definitions that a text needs before it.
    """
    total = sum(map(len, kernels.values()))
    if total + len(rest) < LEAST:
        return (_unit([*kernels.values(), rest], preamble),)
    uses = {n: _mentioned(text, kernels, n) for n, text in kernels.items()}
    called = _mentioned(rest, kernels)
    homes = _homes(uses, called, kernels)
    count = 1
    while count * UNIT < total:
        count *= 2
    buckets: list[list[str]] = [[] for _ in range(count)]
    for n, home in homes.items():
        buckets[int(home[-4:], 16) % count].append(n)

    def text_of(own: Sequence[str], after: str, used: Iterable[str]) -> str:
        """Kernels and their callers, after copies of inlined functions and prototypes that they use."""
        mine = set(own)
        used = set(used).union(*(uses[n] for n in own))
        away = "".join(_prototype(kernels[n]) for n in kernels if n in used and n not in mine and n in homes)
        here = [n for n in kernels if n in mine or (n in used and n not in homes)]
        return _unit([away, *(_shown(kernels[n]) if homes.get(n) == n else kernels[n] for n in here), after], preamble)

    first = text_of((), rest, called)
    return (first, *(text_of(b, "", ()) for b in buckets if b))


def _mentioned(text: str, kernels: Mapping[str, str], own: str = "") -> list[str]:
    return [n for n in dict.fromkeys(re.findall(r"\bkernel_[0-9a-f]{12}\b", text)) if n in kernels and n != own]


def _homes(uses: Mapping[str, Sequence[str]], called: Sequence[str], kernels: Mapping[str, str]) -> dict[str, str]:
    """The unit of each kernel: its own if several kernels use it, else that of its only user.

    An inlined kernel has none: every unit that uses it has a copy.
    """
    users: dict[str, list[str]] = {n: [] for n in kernels}
    for n, used in uses.items():
        for m in used:
            users[m].append(n)
    homes: dict[str, str] = {}
    for n in reversed(list(kernels)):
        if not _is_inline(kernels[n]):
            alone = n in called or len(users[n]) != 1 or users[n][0] not in homes
            homes[n] = n if alone else homes[users[n][0]]
    return {n: homes[n] for n in kernels if n in homes}


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
