"""Multithreading: kernels with enough work become chunk kernels, called in parallel.

    call y(x, w)    with y = for n < N: ..           and iterations that `footprint` proves independent
    -->  parallel for chunk < C: y(x, w, chunk)      with y = for n in the chunk: ..

A chunk is some iterations of one loop, or of two where the outer one has few, or of a nest of open sizes. A loop with
dependent iterations, such as one over blocks of a sum, stays around inner loops that are shared out. Independent
neighbors share one parallel statement. The number of chunks follows from the work alone. So results do not depend on
the number of threads or the schedule; each chunk of a sum has a partial sum (`partial_sums`). Working memory that every
iteration fills anew becomes private to the worker. `splitting` splits one call.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace

from pullback.ir.index import Index, Var
from pullback.ir.traverse import Substitution
from pullback.ir.types import bool_
from pullback.loops.analysis.footprint import Places, Touched, collide, located, touched
from pullback.loops.analysis.work import NEAR, Cycles, cycles, steps
from pullback.loops.program.nodes import Call, For, Function, If, Kernel, Loop, Parallel, Stmt, Task, kernels_of, walk
from pullback.loops.program.values import Binary, Unary, View, scalar
from pullback.loops.threads.chunks import counted, total_work
from pullback.loops.threads.splitting import Form, Splitting
from pullback.machine import Machine

Works = dict[Var, tuple[Cycles, Cycles, bool]]  # the arguments of `counted` for each open chunk count
Known = dict[Form, tuple[Splitting, list[Stmt]]]  # calls that were split


def parallelize(function: Function, sums: bool = True, known: Known | None = None) -> Function:
    """Parallelize the parts of a function where that pays; the function itself if there are none.

    Args:
        sums: whether sums may be split, which changes their order.
        known: split calls of other functions with the same `sums` and machine; those of this one are added.
    """
    sharing = _Sharing.of(function, sums, function.machine, {} if known is None else known)
    body = sharing.body(function.body)
    gain = _gain(body, function.machine, sharing.works)
    works = {t.chunk: sharing.works[t.chunk] for s in walk(body) if isinstance(s, Parallel) for t in s.tasks
             if t.chunk in sharing.works}  # fmt: skip
    if works:
        counts = [x for chunk, work in works.items() for x in counted(chunk, *work, function.machine)]
        body = (total_work(gain), *counts, *body)
    elif float(gain) < function.machine.waking:
        return function
    return replace(function, body=body)


class Early:
    """Splits calls while later statements are lowered, and hands on the kernels of the result.

    Args:
        known: takes the split calls, for `parallelize`.   ready: is called with kernels, and with none at the end.
    """

    def __init__(self, sums: bool, machine: Machine, known: Known, ready: Callable[[Sequence[Kernel]], None]) -> None:
        self._settings = sums, machine, known
        self._ready = ready
        self._sharing: _Sharing | None = None
        self._gain: Cycles = 0.0
        self._waiting: list[Kernel] | None = []  # until it is known that sharing out pays

    def __call__(self, function: Function, statements: Sequence[Stmt]) -> None:
        """Take the next statements of a function."""
        if self._sharing is None:
            self._sharing = _Sharing.of(function, *self._settings)
        machine, works = self._sharing.machine, self._sharing.works
        body = self._sharing.body(statements)
        kernels = kernels_of(body)
        if self._waiting is not None:
            self._waiting += kernels
            self._gain += _gain(body, machine, works)
            if not works and float(self._gain) < machine.waking:
                return
            kernels, self._waiting = self._waiting, None
        self._ready(kernels)

    def end(self) -> None:
        """Say that no more statements follow."""
        if self._waiting is None:
            self._ready(())


def _gain(body: tuple[Stmt, ...], machine: Machine, works: Works) -> Cycles:
    """The cycles of statements that are shared out."""
    total: Cycles = 0.0
    for s in body:
        match s:
            case Parallel():
                for t in s.tasks:
                    total += works[t.chunk][0] if t.chunk in works else cycles((Parallel((t,)),), {}, machine)
            case For():
                total += steps(s, {}) * _gain(s.body, machine, works)
            case Loop():
                total += _gain(s.body, machine, works)
            case If():
                total += max((_gain(b, machine, works) for b in (s.then, s.otherwise)), key=float)
            case _:
                pass
    return total


class _Sharing:
    """Rewrites the statements of a function; `root` says which of its buffers may be the same memory."""

    def __init__(self, root: Places, sums: bool, machine: Machine, known: Known) -> None:
        self.root = root
        self.machine = machine
        self._cycles: dict[Kernel, float] = {}
        self._known = known
        self._within: dict[tuple[Kernel, Var, tuple[Index, ...] | None], Touched] = {}
        self.sums = sums
        self.works: Works = {}

    @staticmethod
    def of(function: Function, sums: bool, machine: Machine, known: Known) -> _Sharing:
        """The sharing of a function's statements."""
        root = {o: View(o) for o in (*function.inputs, *function.outputs)}
        for o, i in function.in_place:
            root[function.outputs[o]] = View(function.inputs[i])
        return _Sharing(root, sums, machine, known)

    def body(self, statements: Iterable[Stmt]) -> tuple[Stmt, ...]:
        """The statements with their calls shared out, and neighbors together."""
        out: list[Stmt] = []
        for s in statements:
            match s:
                case For() | Loop():
                    out.append(replace(s, body=self.body(s.body)))
                case If():
                    out.append(replace(s, then=self.body(s.then), otherwise=self.body(s.otherwise)))
                case Call() if self._pays(s):
                    out += self._split(s)
                case _:
                    out.append(s)
        return self.together(out)

    def _pays(self, s: Call) -> bool:
        """Whether a call may have enough work to pay for a barrier."""
        found = self._cycles.get(s.kernel)
        if found is None:
            found = self._cycles[s.kernel] = float(cycles((s,), {}, self.machine))
        return s.indices is None and found >= self.machine.meeting / NEAR

    def _split(self, s: Call) -> list[Stmt]:
        """Split the call into parallel parts, once per kernel and arrangement of its arrays."""
        call = Splitting(s, self.root, self.sums, self.machine)
        form = call.form
        known = self._known.get(form)
        if known is None:
            known = self._known[form] = call, call.statements()
        self.works |= known[0].works
        made = known[1] if known[0] is call else known[0].again(known[1], s)
        return self._inner(map(_merged, made), {x.kernel for x in walk(s.kernel.body) if isinstance(x, Call)})

    def _inner(self, made: Iterable[Stmt], kernels: Container[Kernel]) -> list[Stmt]:
        """Split the calls of these kernels, such as a choice of plans makes, within the parts of a call."""
        out: list[Stmt] = []
        for s in made:
            match s:
                case For():
                    out.append(replace(s, body=tuple(self._inner(s.body, kernels))))
                case If():
                    then, otherwise = (tuple(self._inner(b, kernels)) for b in (s.then, s.otherwise))
                    out.append(replace(s, then=then, otherwise=otherwise))
                case Call() if s.kernel in kernels and self._pays(s):
                    out += self._split(s)
                case _:
                    out.append(s)
        return out

    def together(self, statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Neighboring parallel statements as one where they are independent."""
        out: list[Stmt] = []
        for s in statements:
            last = out[-1] if out else None
            if isinstance(s, Parallel) and isinstance(last, Parallel) and self._apart(last, s):
                out[-1] = Parallel((*last.tasks, *s.tasks))
            else:
                out.append(s)
        return tuple(out)

    def _apart(self, a: Parallel, b: Parallel) -> bool:
        return not any(collide(self._touched(x), self._touched(y)) for x in a.tasks for y in b.tasks)

    def _touched(self, t: Task) -> Touched:
        """The footprint of all chunks of a task; that of its kernel is found once."""
        k = t.call.kernel
        key = k, t.chunk, t.call.indices
        if key not in self._within:
            alone = replace(t, call=replace(t.call, arguments=tuple(map(View, k.params))))
            self._within[key] = touched((Parallel((alone,)),), {}, {})
        homes = (located(a, self.root, Substitution()) for a in t.call.arguments)
        return self._within[key].moved(dict(zip(k.params, homes, strict=True)))


def _merged(s: Stmt) -> Stmt:
    """A choice with one place for a call that several branches make: its parts are written once.

    if a: f(x); elif b: g(x); else: f(x)  -->  if !a and b: g(x); else: f(x)
    """
    if not isinstance(s, If) or len(s.otherwise) != 1 or not isinstance(inner := _merged(s.otherwise[0]), If):
        return s
    if _same(s.then, inner.then):
        return replace(inner, test=Binary("||", s.test, inner.test, scalar(bool_)))
    if _same(s.then, inner.otherwise):
        return replace(inner, test=Binary("&&", Unary("!", s.test, scalar(bool_)), inner.test, scalar(bool_)))
    return replace(s, otherwise=(inner,))


def _same(a: Sequence[Stmt], b: Sequence[Stmt]) -> bool:
    """Whether both are the same call."""
    if len(a) != 1 or len(b) != 1 or not isinstance(x := a[0], Call) or not isinstance(y := b[0], Call):
        return False
    return x.kernel is y.kernel and x.arguments == y.arguments and x.indices is None is y.indices
