"""Rules for a loop program and its memory plan, checked after lowering if PULLBACK_VERIFY is 1.

Scope: index variables and temporaries are bound where they are used, only mutable ones are assigned, kernels see
nothing but their parameters. States: temporaries that a loop carries take their new values together. So a trip does not
read one after its assignment, except in further steps of the same state. Memory: offsets are aligned and inside the
arena, local arrays stay below 4 KiB, and no buffer is read after another one was written over it. An abstract run
checks the last rule, with every branch, and every loop twice. A write makes a buffer valid, and invalidates those that
share bytes with it.
"""

from __future__ import annotations

from pullback.errors import VerifyError
from pullback.ir.index import Data, DimSymbol, Index, Var
from pullback.loops.memory.plan import SPACES, MemoryPlan, mentioned, uses
from pullback.loops.memory.slots import ALIGNMENT
from pullback.loops.program import nodes
from pullback.loops.program.nodes import Assign, Call, For, Function, If, Kernel, Let, LetIndex, Loop, Stmt
from pullback.loops.program.values import LOCAL, STACK_LIMIT, Buffer, Temp

Named = DimSymbol | Var | Data


def verify_function(function: Function, plan: MemoryPlan | None = None) -> None:
    """Raise VerifyError [E310] for the first rule that is broken."""
    for s in nodes.walk(function.body):
        if isinstance(s, Call):
            _call(s)
    known = frozenset((*function.inputs, *function.outputs))
    _Scopes(known, arena=True).body(function.body, frozenset((*function.dims, nodes.WORKERS)), frozenset())
    if plan is not None:
        _offsets(plan)
        _Memory(plan).body(function.body, {})


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise VerifyError("E310", what)


def _call(s: Call) -> None:
    """Check a call of a kernel, and the kernel."""
    _kernel(s.kernel)
    _require(len(s.arguments) == len(s.kernel.params), f"{s.kernel.name}: {len(s.arguments)} arguments")
    _require(len(s.index_values) == len(s.kernel.indices), f"{s.kernel.name}: {len(s.index_values)} indices")
    for p, a in zip(s.kernel.params, s.arguments, strict=True):
        _require(p.dtype is a.buffer.dtype, f"{s.kernel.name}: {p} is {p.dtype}, {a.buffer} {a.buffer.dtype}")
        _require(not (p.written and a.buffer.space == "input"), f"{s.kernel.name} writes the input {a.buffer}")


def _kernel(k: Kernel) -> None:
    """Check a kernel by itself."""
    written = {p for p in k.params if p.written}
    for s in nodes.walk((*k.body, *(k.portable or ()))):
        if isinstance(s, Call):
            _call(s)
    for body in (k.body, k.portable or ()):
        _Scopes(frozenset(k.params), arena=False).body(body, frozenset(k.indices), frozenset())
    for s in nodes.walk(k.body):
        if isinstance(s, Call):
            for p, a in zip(s.kernel.params, s.arguments, strict=True):
                _require(not p.written or a.buffer in written, f"{k.name} lets {s.kernel.name} write {a.buffer}")
        for b in (a.buffer for a in nodes.accesses(s) if a.write):
            _require(b in written or b.space in LOCAL, f"{k.name} writes {b}, which is const")
            if b.space == "stack":
                _require(b.bytes <= STACK_LIMIT, f"{b} has {b.bytes} bytes on the stack")


class _Scopes:
    """Check that variables and temporaries are bound where they are used."""

    def __init__(self, buffers: frozenset[Buffer], arena: bool) -> None:
        self.buffers = buffers
        self.arena = arena
        self._mutable: set[Temp] = set()

    def body(self, statements: tuple[Stmt, ...], variables: frozenset[Named], temps: frozenset[Temp],
             carried: frozenset[Temp] = frozenset()) -> None:
        """Check statements with these bound variables and temporaries.

        Args:
            carried: temporaries from outside the innermost loop: the states that it carries.
        """
        assigned: set[Temp] = set()
        for s in statements:
            self._uses(s, variables, temps)
            if assigned:
                self._states(s, assigned)
            match s:
                case For():
                    self.body(s.body, variables | {s.var}, temps, temps)
                case Loop():
                    self.body(s.body, variables, temps, temps)
                case If():
                    self.body(s.then, variables, temps, carried)
                    self.body(s.otherwise, variables, temps, carried)
                case Let():
                    temps |= {s.temp}
                    if s.mutable:
                        self._mutable.add(s.temp)
                case LetIndex():
                    variables |= {s.var}
                case Assign():
                    _require(s.temp in temps, f"{s.temp.name} is assigned before it is declared")
                    _require(s.temp in self._mutable, f"{s.temp.name} is assigned and not mutable")
                    _require(s.temp.type == s.value.type, f"{s.temp.name}: {s.temp.type} = {s.value.type}")
                    assigned |= {s.temp} & carried
                case _:
                    pass

    @staticmethod
    def _states(s: Stmt, assigned: set[Temp]) -> None:
        """Check that states change together: only its own next step reads a newly assigned state."""
        own = s.temp if isinstance(s, Assign) else None
        for inner in nodes.walk((s,)):
            for t in nodes.temps_read(inner) & assigned:
                _require(t is own, f"{t.name} is read after it took its value for the next trip")

    def _uses(self, s: Stmt, variables: frozenset[Named], temps: frozenset[Temp]) -> None:
        for i in nodes.statement_indices(s):
            self._index(i, variables)
        for t in nodes.temps_read(s) - temps:
            raise VerifyError("E310", f"{t.name} is read before it is declared")
        for b in mentioned(s):
            self._buffer(b)

    def _index(self, i: Index, variables: frozenset[Named]) -> None:
        if not i.free <= variables:  # there are many indices: print one only in an error
            unbound = next(v for v in i.free if v not in variables)
            raise VerifyError("E310", f"{unbound.name} in {i} is not bound")
        for a in i.every_atom:
            if isinstance(a, DimSymbol | Data) and a not in variables:
                what = f"the dim {a} has no value" if isinstance(a, DimSymbol) else f"{a} in {i} is not bound"
                raise VerifyError("E310", what)

    def _buffer(self, b: Buffer) -> None:
        if not (b in self.buffers or b.space in LOCAL or (self.arena and b.space in SPACES)):
            raise VerifyError("E310", f"{b} ({b.space}) is not known here")


def _offsets(plan: MemoryPlan) -> None:
    shared = [b for slot in plan.slots for b in slot.buffers]
    _require(len(shared) == len(set(shared)) and not plan.offsets.keys() & set(shared), "a buffer has two places")
    for b, offset in plan.offsets.items():
        _require(offset % ALIGNMENT == 0, f"{b} at {offset} is not aligned")
        _require(offset >= 0 and offset + b.bytes <= plan.bytes, f"{b} at {offset} leaves the arena of {plan.bytes}")


class _Memory:
    """An abstract run of a program that tracks which buffers hold current values."""

    def __init__(self, plan: MemoryPlan) -> None:
        spans = [(b, o, o + b.bytes) for b, o in plan.offsets.items()]
        self.rivals: dict[Buffer, list[Buffer]] = {
            b: [c for c, s, e in spans if c is not b and s < end and start < e] for b, start, end in spans}
        for slot in plan.slots:
            self.rivals |= {b: [c for c in slot.buffers if c is not b] for b in slot.buffers}

    def body(self, statements: tuple[Stmt, ...], valid: dict[Buffer, bool]) -> None:
        """Run statements; `valid` is changed."""
        for s in statements:
            match s:
                case For() | Loop():
                    self._run(s, valid)
                    for _ in range(2):
                        self.body(s.body, valid)
                case If():
                    self._run(s, valid)
                    other = dict(valid)
                    self.body(s.then, valid)
                    self.body(s.otherwise, other)
                    for b in valid.keys() | other.keys():
                        valid[b] = valid.get(b, False) and other.get(b, False)
                case _:
                    self._run(s, valid)

    def _run(self, s: Stmt, valid: dict[Buffer, bool]) -> None:
        reads, writes = uses(s)
        for b in reads:
            if b.space in SPACES:
                _require(valid.get(b, False), f"{b} is read, but its memory holds something else")
        for b in writes:
            for c in self.rivals.get(b, ()):
                _require(c not in reads and c not in writes, f"{b} and {c} share memory in one statement")
                valid[c] = False
            valid[b] = True
