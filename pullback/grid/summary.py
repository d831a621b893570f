"""The launches of a function as text: the schedule of each kernel, in the host's loops and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pullback.grid.estimates import launches
from pullback.loops.program.nodes import Call, Copy, Fill, For, Function, If, Loop, Stmt, walk
from pullback.loops.program.values import Load, walk_value


def summary(function: Function) -> str:
    """Return the schedules of a function on a device, and the number of launches of a call.

    repeat t 500, by the host:
        state: elements: grid n 1000000 | threads 128
    launches of a call: 500; the host waits for 0 conditions
    """
    looks = sum(isinstance(s, If) for s in walk(function.body))
    count = f"{launches(function.body):,.0f}{' or more' * any(isinstance(s, Loop) for s in walk(function.body))}"
    last = f"launches of a call: {count}; the host waits for {looks} condition{'s' * (looks != 1)}"
    return "\n".join((*_lines(function.body), last))


def _lines(body: Sequence[Stmt], before: str = "") -> Iterator[str]:
    inner = before + "    "
    for s in body:
        match s:
            case Call():
                yield f"{before}{s.kernel.name}: {s.kernel.choice}"
            case Copy():
                yield f"{before}{s.target.buffer}: copy"
            case Fill():
                yield f"{before}{s.buffer}: zeros"
            case For() | Loop():
                trips = f"{s.var.name} {s.upper - s.lower}" if isinstance(s, For) else "until"  # type: ignore[operator]
                yield f"{before}repeat {trips}, by the host:"
                yield from _lines(s.body, inner)
            case If():
                names = ", ".join(str(v.buffer) for v in walk_value(s.test) if isinstance(v, Load))
                yield f"{before}if {names}, for which the host waits:"
                yield from _lines(s.then, inner)
                if s.otherwise:
                    yield f"{before}else:"
                    yield from _lines(s.otherwise, inner)
            case _:
                pass
