"""Short branches without the host: the kernels of both sides read the condition from memory.

    if c { launch n: y[n] = a[n] } else { launch n: y[n] = b[n] }
    -->  launch n: if (c[0]) y[n] = a[n];  launch n: if (!c[0]) y[n] = b[n]

All threads take the same side. The launches of the other side do nothing; they cost less than a wait of the host for
the condition. Neither side may change the condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pullback.device import Device
from pullback.grid.estimates import launches
from pullback.grid.groups import copied
from pullback.grid.parts import zeros
from pullback.grid.spread import spread
from pullback.grid.steps import When
from pullback.loops.analysis.footprint import written
from pullback.loops.program.nodes import Call, Comment, Copy, Fill, For, If, Kernel, Stmt
from pullback.loops.program.replacement import Replacement
from pullback.loops.program.schedule import Chosen, Schedule
from pullback.loops.program.values import Buffer, Load, Unary, Value, View, walk_value


def predicated(s: If, device: Device) -> tuple[Stmt, ...] | None:
    """The launches of both sides of a branch, each under its condition; None if the host has to read it."""
    (load,) = (v for v in walk_value(s.test) if isinstance(v, Load))
    sides = (*s.then, *s.otherwise)
    if not all(isinstance(x, Call | Copy | Fill | Comment) for x in sides):
        return None
    if max(launches(s.then), launches(s.otherwise)) * device.launch > device.look:
        return None
    if load.buffer in written(sides, {}):
        return None
    other = s.test.a if isinstance(s.test, Unary) else Unary("!", s.test, s.test.type)
    made = [*_Branch(load, s.test).of(s.then), *_Branch(load, other).of(s.otherwise)]
    return tuple(made)


@dataclass
class _Branch:
    """One side of a branch."""

    load: Load
    test: Value
    made: dict[Kernel, Kernel] = field(default_factory=dict)

    def of(self, body: tuple[Stmt, ...]) -> list[Stmt]:
        """The statements under the condition."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Copy | Fill):
                s = as_call(s)
            if isinstance(s, Call):
                if s.kernel not in self.made:
                    self.made[s.kernel] = self._under(s.kernel)
                view = View(self.load.buffer, self.load.offset)
                out.append(Call(self.made[s.kernel], (view, *s.arguments), s.index_values))
        return out

    def _under(self, k: Kernel) -> Kernel:
        """A kernel whose threads do nothing if the condition is false."""
        b = self.load.buffer
        param = Buffer(b.name, b.dtype, (), "parameter", b.elements, False)
        (test,) = Replacement({b: View(param, -self.load.offset)}, {}).body((If(self.test, ()),))
        assert isinstance(test, If) and k.choice is not None
        body = tuple(replace(g, body=(replace(test, then=g.body),)) for g in k.body if isinstance(g, For))
        named = ("" if isinstance(self.test, Load) else "not ") + b.name
        schedule = Schedule((When(named), *k.choice.schedule.steps))
        choice = replace(k.choice, schedule=schedule)
        return replace(k, params=(param, *k.params), body=body, portable=None, choice=choice, vendor=None)


def as_call(s: Copy | Fill) -> Call:
    """A copy or a fill as a call of a kernel."""
    views = (s.source, s.target) if isinstance(s, Copy) else (View(s.buffer, s.offset),)
    params = tuple(Buffer(v.buffer.name, v.buffer.dtype, (s.count,), "parameter", s.count, v is views[-1])
                   for v in views)  # fmt: skip
    own = replace(s, source=View(params[0]), target=View(params[1])) if isinstance(s, Copy) else s
    loop = copied(own) if isinstance(own, Copy) else zeros(Fill(params[0], s.count - s.count, s.count))
    name = views[-1].buffer.name
    return Call(spread(Kernel(name, params, (), (loop,), choice=Chosen("copy", 0.0))), views, ())
