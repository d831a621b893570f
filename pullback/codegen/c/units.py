"""Splitting of a C file into units, which compile in parallel and are cached separately.

The first unit holds the entry function. Kernels are in the others, visible only inside the library. A unit is finished
as soon as it is long enough, so compilers start while later kernels are still lowered. It ends after a kernel whose
name, a digest of its text, says so. So if one layer of a network changes, one or two units change, and the others end
where they did.

Kernels that other kernels call are called across units, too. A static function would only serve its own unit, and
specializing it on the numbers of its calls gains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

SPLIT: Final = 32_000  # least characters of a file that is split
LEAST: Final = 24_000  # least characters of a unit: about 0.2 s of compilation after 0.03 s of startup
MOST: Final = 40_000  # characters after which a unit ends in any case
ENDS: Final = 4  # one kernel in so many may end a unit
_STATIC: Final = re.compile(r"^static (inline )?", re.MULTILINE)
HIDDEN: Final = '__attribute__((visibility("hidden"))) '


class Units:
    """Kernels in units, in the order in which they are added.

    `preamble` returns the definitions that a text needs before it.
    """

    def __init__(self, preamble: Callable[[str], str]) -> None:
        self._finished: list[str] = []
        self._preamble = preamble
        self._length = 0
        self._texts: dict[str, str] = {}
        self._uses: dict[str, list[str]] = {}
        self._open: dict[str, int] = {}  # the kernels of the unit that is not finished, and their lengths

    def add(self, name: str, text: str) -> None:
        """Add a kernel, after those that it calls."""
        self._uses[name] = self._used(text)
        self._texts[name] = text
        self._length += len(text)
        if _is_inline(text):
            return
        self._open[name] = len(text)
        length = sum(self._open.values())
        if length >= LEAST and (length >= MOST or int(name[-4:], 16) % ENDS == 0):
            self._finish()

    @property
    def finished(self) -> list[str]:
        """The units that are finished, once it is certain that the file is split."""
        return self._finished if self._length >= SPLIT else []

    @property
    def rest(self) -> str:
        """The unit that ends if no kernel follows; empty if there is none, or if the file may not be split."""
        return self._text(self._open, "", ()) if self._open and self._length >= SPLIT else ""

    def with_entry(self, rest: str) -> tuple[str, ...]:
        """All units. The first has the entry function and the rest of the file; no kernel may follow."""
        if self._length + len(rest) < SPLIT:
            return (self._unit([*self._texts.values(), rest]),)
        self._finish()
        return (self._text({}, rest, self._used(rest)), *self._finished)

    def _finish(self) -> None:
        """End the open unit."""
        if self._open:
            own, self._open = self._open, {}
            self._finished.append(self._text(own, "", ()))

    def _used(self, text: str) -> list[str]:
        return [n for n in dict.fromkeys(re.findall(r"\bkernel_[0-9a-f]{12}\b", text)) if n in self._texts]

    def _text(self, own: Mapping[str, int], after: str, called: Iterable[str]) -> str:
        """Kernels and their callers, after copies of inlined functions and prototypes that they use."""
        used = set(called).union(*(self._uses[n] for n in own))
        away, here = [], []
        for n, text in self._texts.items():
            if n in own:
                here.append(_STATIC.sub(HIDDEN, text, count=1))
            elif n in used and _is_inline(text):
                here.append(text)
            elif n in used:
                away.append(_prototype(text))
        return self._unit(["".join(away), *here, after])

    def _unit(self, parts: list[str]) -> str:
        text = "\n".join(p for p in parts if p)
        return f"{self._preamble(text)}\n{text}"


def _is_inline(kernel: str) -> bool:
    found = _STATIC.search(kernel)
    return found is not None and found.group(1) is not None


def _prototype(kernel: str) -> str:
    start = _STATIC.search(kernel)
    assert start is not None
    return HIDDEN + kernel[start.end() : kernel.index(" {\n", start.end())].removeprefix("PB_APART ") + ";\n"
