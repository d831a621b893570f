"""Programs of many small expressions, for which the time of a program is shared."""

from __future__ import annotations

from typing import Final

from tests.support.sources._programs import Programs
from tests.support.sources._writer import Dim, Sample

COUNT: Final = 20  # expressions of a program
DERIVED: Final = 0.1  # of programs: derivatives take ten times as long as values


class Expressions(Programs):
    """A function that returns a tuple of numbers over a vector and two numbers."""

    def sample(self) -> Sample:
        self.symbolic = False
        self.dims.append(Dim("3", 3))
        self.input("x", (self.dims[0],))
        self.input("y", ())
        self.input("z", ())
        texts = [self.scalar(int(self.rng.integers(2, 5))) for _ in range(COUNT)]
        args = ", ".join(self.names)
        lines = ["@pb.function", f"def f({args}):", "    return (", *(f"        {t}," for t in texts), "    )", ""]
        tangents = ", ".join(self.direction(n) for n in self.names)
        total = f"lambda {args}: sum(k * e for k, e in enumerate(f({args}), 1))"
        queries = [f"pb.jvp(f)(({args},), ({tangents},))", f"pb.grad({total}, wrt={tuple(self.names)})({args})"]
        if not self.chance(DERIVED):
            queries = [f"f({args})"]
        return Sample("\n".join(lines), self.arguments, queries)


__all__ = ["COUNT", "Expressions"]
