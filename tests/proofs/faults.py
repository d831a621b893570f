"""Faults planted in passes, rewrites and loops: each must be found by the comparison of what is compiled.

    python -m tests.proofs.faults
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

from pullback.errors import PullbackError
from tests.mutation.install import install
from tests.proofs.programs import WISHES, compiled, programs


@dataclass(frozen=True)
class Fault:
    """A text of a file, which stands there once, and what is planted in its place."""

    file: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """The source with the fault."""
        assert source.count(self.old) == 1, (self.file, self.old, source.count(self.old))
        return source.replace(self.old, self.new)


FAULTS: Final = (
    # wrong signs
    Fault("pullback/rewrite/brackets.py", "-rest if c.constant == 1 else rest", "rest if c.constant == 1 else -rest"),
    Fault("pullback/passes/pad.py", "as_index(v) + low for v, low", "as_index(v) - low for v, low"),
    Fault("pullback/passes/windows.py", "v: at}", "v: -at}"),
    Fault("pullback/passes/stretches.py", "as_index(w) + bounds[v][0]", "as_index(w) - bounds[v][0]"),
    # off by one
    Fault("pullback/passes/windows.py", "-1 if backward else 1, width + 1,", "-1 if backward else 1, width,"),
    Fault("pullback/loops/plain/bounds.py", "floor_divide(r, as_index(-sign)) + 1", "floor_divide(r, as_index(-sign))"),
    Fault("pullback/loops/plain/bounds.py", "floor_divide(-r + (sign - 1), as_index(sign))",
          "floor_divide(-r + sign, as_index(sign))"),
    Fault("pullback/loops/program/cover.py", "For(loop, as_index(begin), as_index(end),",
          "For(loop, as_index(begin), as_index(end - step),"),
    Fault("pullback/loops/product/packing.py", "full = extent - extent % g.chunk",
          "full = extent - extent % g.chunk - 1"),
    Fault("pullback/loops/threads/partial_sums.py", "for c in range(1, chunks):", "for c in range(2, chunks):"),
    Fault("pullback/loops/strategies/interleaved.py", "as_index(number) * steps + as_index(place)",
          "as_index(number) * steps"),
    # dropped guards
    Fault("pullback/rewrite/brackets.py", "self.conds += [cond(\">=\", value), cond(\">=\", v.extent - 1 - value)]",
          "self.conds += [cond(\">=\", v.extent - 1 - value)]"),
    Fault("pullback/passes/windows.py", "*(m.condition(c) for c in b.conds if c not in found.met)", ""),
    Fault("pullback/passes/stretches.py", "expr.bracket(inside, element)", "element"),
    Fault("pullback/loops/vectors/writer.py", 'Binary("<" if step < 0 else ">=", Steps',
          'Binary("<=" if step < 0 else ">=", Steps'),
    # swapped operands and branches
    Fault("pullback/loops/product/multiply.py", "- 1), added, stored)", "- 1), stored, added)"),
    Fault("pullback/loops/product/edge.py", "stores(True), stores(False))", "stores(False), stores(True))"),
    Fault("pullback/loops/vectors/position.py", 'Binary("|", Binary(">" if self.op == "max" else "<", x, old, mask)',
          'Binary("|", Binary("<" if self.op == "max" else ">", x, old, mask)'),
    Fault("pullback/loops/plain/updates.py", "return changes, added", "return changes, not added"),
    Fault("pullback/passes/steps.py", "expr.add(expr.get(s.inits[c.state], *c.made.vars), total)", "total"),
    Fault("pullback/loops/plain/scalar.py", 'Binary(">" if largest_wanted else "<", value',
          'Binary("<" if largest_wanted else ">", value'),
)


@contextmanager
def _silent() -> Iterator[None]:
    with open(os.devnull, "w", encoding="ascii") as nothing:
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = nothing
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def noticed(fault: Fault, few: bool = False) -> str:
    """The error by which a fault is found, in a process of its own; nothing where it is not.

    Args:
        few: whether only the programs of this folder are compiled.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with _silent():
            found = _noticed(fault, few)
        os.write(writing, found.encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found


def _noticed(fault: Fault, few: bool) -> str:
    if not install(SimpleNamespace(file=fault.file, apply=fault.apply)):  # type: ignore[arg-type]
        return ""
    cases = [(name, p, dims, "") for name, p, dims in programs(few)]
    wished = [(f"{name} as {wish}", p, dims, wish) for name, p, dims in programs(few=True) for wish in WISHES[1:]]
    for name, p, dims, wish in (*cases, *wished):
        try:
            compiled(p, dims, wish=wish)
        except PullbackError as error:
            return f"{name}: {error.code} {str(error).splitlines()[0]}"
        except Exception as error:
            return f"{name}: {type(error).__name__} {error}"
    return ""


if __name__ == "__main__":
    count = 0
    for fault in FAULTS:
        found = noticed(fault)
        count += bool(found)
        print(f"{fault.file}: {fault.old}\n    {found or 'NOT FOUND'}", flush=True)
    print(f"{count} of {len(FAULTS)} found")
