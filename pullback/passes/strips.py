"""Strips: statements along a long axis run for a stretch at a time, so that intermediates stay small.

Before    c = build n < N, i < I { .. x[n, i] .. }
          s = build n < N { .. c[n, j] .. }
          g = build k < K { sum n < N { .. s[n] .. c[n, k] .. } }
After     g = fold b < N / B (g = zeros) {
            c = build n < B, i < I { .. x[b B + n, i] .. }
            s = build n < B { .. c[n, j] .. }
            yield build k < K { g[k] + sum n < B { .. s[n] .. c[n, k] .. } } }

A batch of training examples then needs the memory of B of them. This is micro-batching, found automatically. A scatter
runs along the axis if each of its rows takes its own row's data, as labels of a batch do. Arrays that are read at
another index than the axis' own variable, or after a sum over it, are stored whole. The pass runs before operands of
contractions become arrays, and has two forms. `strip_mine` is for the mode of least memory. `strip_for_caches` runs in
all modes, where unfused arrays would leave the second cache and few operations per byte are computed, so memory waits
dominate. Sums over the axis are reassociated, so `exact` programs stay as they are.

An axis that all factors of a product share, such as the components of a mixture, has strips of its own. Products are
then as large in a strip as for the whole axis, so a strip may have one step. What a later loop over the same axis
reads stays in strips (`stacked`), each of them a stretch of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, prod

from pullback.ir import expr
from pullback.ir import nodes as ir
from pullback.ir.index import Cond, Index, Var, as_index, cond
from pullback.ir.program import scalars_of, with_fields
from pullback.ir.traverse import Substitution, rewrite, walk
from pullback.ir.walks import each_block
from pullback.machine import Machine
from pullback.passes.axes import Axis, Cut, axes, bytes_of, factors, gets
from pullback.passes.cost import has_data_index, has_reduction
from pullback.records import dataclass, replace
from pullback.rewrite.fired import fired

SMALL = 256 * 1024  # bytes below which arrays along an axis are not worth a loop
SHARE = 8  # a strip needs about this fraction (1 / n) of the memory for the whole axis
LEAST = 4  # rows of a strip, at least
WHOLE = 16  # the row multiple of a strip if no divisor fits: whole vectors
LEAVING = 2  # bytes of arrays that leave the second cache, as a multiple of its size
STAYING = 2  # arrays that stay take this fraction (1 / n) of the second cache
ENOUGH = 32  # rows of a strip for which kernels are as fast as for all rows
LIGHT = 8  # operations per byte of an array, below which memory waits dominate
EVEN = 20  # the same, where a strip's products are as large as those for the whole axis
AGAIN = 4  # operations of such a strip for each byte that all strips read
TURNED = 16  # bytes that are read for each byte of an array that is put together along another axis than its first


def strip_mine(program: ir.Program) -> ir.Program:
    """The program with strips wherever they save memory."""
    return each_block(program, partial(_block, strips=_Strips.of))


def strip_for_caches(program: ir.Program, machine: Machine) -> ir.Program:
    """The program with strips where they save waiting for memory."""
    return each_block(program, partial(_block, strips=partial(_Strips.near, cache=machine.caches[1])))


def _block(block: ir.Block, strips: Callable[[ir.Block, Axis], _Strips | None]) -> ir.Block:
    best: _Strips | None = None
    for axis in axes(block, 2 * LEAST):
        found = strips(block, axis)
        if found is not None and (best is None or found.saved > best.saved):
            best = found
    if best is None:
        return block
    fired("strips.axis")
    return best.block()


# Roles ----------------------------------------------------------------------------------------------------------


@dataclass
class _Role:
    """The role of a statement in strips: it runs along `var`, or sums over the axis in `sums`.

    Attributes:
        rest: its values without the sums.
        phase: the number of passes over the axis before it can run.
    """

    var: Var | None
    sums: dict[ir.Reduce, Var]
    rest: tuple[ir.Scalar, ...] = ()
    phase: int = 0


class _Strips:
    """Strips along an axis of a block.

    Attributes:
        roles: the roles of the statements in strips, by position.
        levels: for the other statements, the number of passes over the axis before they can run.
        whole: arrays along the axis that are stored whole.
        stacked: those of them that only later passes over the axis read, strip by strip, so that they stay in strips.
        saved: bytes of the other arrays.

    Args:
        block: the block.
        axis: the axis.
        ahead: whether to compute one number per row for the whole axis first, if it reads no array in strips.
            With label weights, for example, the sum of all weights is then known before the first strip.
        large: only statements that touch an array of so many bytes run in strips; arrays may be stacked then.
    """

    def __init__(self, block: ir.Block, axis: Axis, ahead: bool = False, large: int = 0) -> None:
        self.original = block
        self.large = large
        self.axis = axis
        self.roles: dict[int, _Role] = {}
        self.levels: dict[int, int] = {}
        self.whole: set[ir.Ref] = set()
        self.stacked: set[ir.Ref] = set()
        self.stacks: dict[ir.Ref, tuple[ir.Ref, ir.Ref | None]] = {}  # with the array of the rows after all strips
        self.rows = 0
        self.reads = axis.reads
        for k in sorted({k for k, _ in axis.variables}):
            role = self._role(k, block.statements[k])
            if role is not None:
                self.roles[k] = role
        for k in self._numbers() if ahead else ():
            del self.roles[k]
        while self._settle():
            pass
        self.local = [
            o for k, r in self.roles.items() if r.var for o in block.statements[k].outs if o not in self.whole
        ]
        self.saved = sum(map(bytes_of, self.local))

    @staticmethod
    def of(block: ir.Block, axis: Axis) -> _Strips | None:
        """The strips; None where they would save little."""
        if sum(map(bytes_of, axis.of_array)) < 2 * SMALL:
            return None
        made = _Strips(block, axis)
        if any(r.phase for r in made.roles.values()):
            made = max(made, _Strips(block, axis, ahead=True), key=lambda s: s.saved)
        if made.saved < 2 * SMALL:
            return None
        row = made._row_bytes()
        return made._in_rows(LEAST, max(SMALL, axis.extent * row // SHARE) // max(row, 1))

    @staticmethod
    def near(block: ir.Block, axis: Axis, cache: int) -> _Strips | None:
        """Strips whose arrays fit a cache of this size; None if they fit anyway, or it does not pay."""
        if sum(map(bytes_of, axis.of_array)) < LEAVING * cache:
            return None
        made = _Strips(block, axis)
        if made._waits(cache, LIGHT):
            return made._in_rows(ENOUGH, cache // STAYING // max(made._row_bytes(), 1))
        made = _Strips(block, axis, large=cache)
        if made._waits(cache, EVEN) and made._is_batch() and (row := made._row_bytes()) <= LEAVING * cache:
            least = ceil(AGAIN * made._read_again() * axis.extent / made._work())
            return made._in_rows(least, max(cache // STAYING // row, 1))
        return None

    def _waits(self, cache: int, light: int) -> bool:
        """Whether arrays would leave the cache, with less than `light` operations for each of their bytes."""
        stored = sum(map(bytes_of, self._stored()))
        return stored >= LEAVING * cache and self._work() <= light * stored

    def _in_rows(self, least: int, most: int) -> _Strips | None:
        """Strips of `least` to `most` rows, preferably a divisor of the axis; None if they are too few."""
        most = min(most, self.axis.extent // 2)
        fitting = [n for n in range(max(least, most // 2), most + 1) if self.axis.extent % n == 0]
        self.rows = max(fitting, default=most // WHOLE * WHOLE or most)
        return self if self.rows >= least else None

    def _stored(self) -> list[ir.Ref]:
        """Local arrays that one loop cannot keep: their values are sums, or rows that data name; no updates."""
        out: dict[ir.Ref, None] = {}
        for k in self.roles:
            s = self._statement(k)
            if _is_update(s):
                continue
            if isinstance(s, ir.Scatter) or any(has_reduction(v) or has_data_index(v) for v in s.values):
                out |= dict.fromkeys(o for o in s.outs if (o in self.local or o in self.stacked) and o.rank > 1)
        return list(out)

    def _is_batch(self) -> bool:
        """Whether products are as large for one step along the axis: all of their factors change with it."""
        for k, role in self.roles.items():
            for n in dict.fromkeys(n for v in scalars_of(self._statement(k)) for n in walk(v)):
                if isinstance(n, ir.Reduce) and len(different := set(factors(n.arg))) > 1:
                    if not all(role.var in f.free for f in different):
                        return False
        return True

    def _work(self) -> int:
        """Operations of the statements in strips."""
        total = 0
        for k in self.roles:
            s = self._statement(k)
            for v in scalars_of(s):
                steps = [prod(x.extent.constant or 1 for x in n.vars) for n in walk(v) if isinstance(n, ir.Reduce)]
                total += prod(x.extent.constant or 1 for x in s.vars) * max(steps, default=1)
        return total

    def _read_again(self) -> int:
        """Bytes of the arrays that every strip reads as a whole."""
        members = {k: self._statement(k) for k in self.roles}
        whole = {g.ref for k, s in members.items() for g in gets(s)
                 if not any((k, v) in self.axis.variables for v in g.free)}  # fmt: skip
        return sum(map(bytes_of, whole))

    def _role(self, k: int, s: ir.Statement) -> _Role | None:
        """The role of a single statement; None if it sees the axis as a whole."""
        if not isinstance(s, Cut):
            return None
        own = [v for v in s.vars if (k, v) in self.axis.variables]
        if own:
            places = s.indices if isinstance(s, ir.Scatter) else tuple(map(as_index, s.vars))
            along = [places[self.axis.of_array[o]].single if o in self.axis.of_array else None for o in s.outs]
            return _Role(own[0], {}) if self._is_whole(own[0]) and all(v is own[0] for v in along) else None
        if isinstance(s, ir.Scatter):
            return None
        sums: dict[ir.Reduce, Var] = {}
        for n in dict.fromkeys(n for v in s.values for n in walk(v, into_indices=False)):
            if isinstance(n, ir.Reduce) and n.op == "sum":
                over = [v for v in n.vars if (k, v) in self.axis.variables]
                if over and self._is_whole(over[0]):
                    sums[n] = over[0]
        totals: dict[ir.Scalar, ir.Scalar] = {r: expr.get(ir.Ref("total", r.dtype, ())) for r in sums}
        return _Role(None, sums, tuple(rewrite(v, totals.get) for v in s.values)) if sums else None

    def _numbers(self) -> list[int]:
        """Statements that compute a number per row, or sums of such, and read no other arrays along the axis."""
        cut = {o: k for k, r in self.roles.items() if r.var for o in self._statement(k).outs}
        found: list[int] = []
        for k, role in self.roles.items():
            alone = all(cut[r] in found for r in self.reads[k] if r in cut)
            if alone and (role.var is None or all(o.rank == 1 for o in self._statement(k).outs)):
                found.append(k)
        return found

    def _is_whole(self, v: Var) -> bool:
        """Whether a variable takes every place along the axis: a sum of `x[:-1]` leaves one out."""
        return v.extent.constant == self.axis.extent

    def _statement(self, k: int) -> Cut:
        """The statement at a position that has a role."""
        s = self.original.statements[k]
        assert isinstance(s, Cut)
        return s

    def _matches(self, k: int, ref: ir.Ref) -> bool:
        """Whether statement k, in its role, reads an array along the axis at its own place only."""
        s, role = self._statement(k), self.roles[k]
        axis = self.axis.of_array[ref]
        if role.var is not None:
            return all(g.indices[axis].single is role.var for g in gets(s) if g.ref is ref)
        for r, v in role.sums.items():
            if any(isinstance(n, ir.Get) and n.ref is ref and n.indices[axis].single is not v for n in walk(r.arg)):
                return False
        return not any(isinstance(n, ir.Get) and n.ref is ref for v in role.rest for n in walk(v))

    def _settle(self) -> bool:
        """Find phases, levels and whole arrays; True if statements lost roles and it must be repeated."""
        statements = self.original.statements
        cut = {o: k for k, r in self.roles.items() if r.var for o in statements[k].outs}
        level: dict[ir.Ref, int] = {}  # for complete arrays: after how many passes
        whole = {r for r in self.original.results if r in cut}
        for k, s in enumerate(statements):
            role = self.roles.get(k)
            now = 0
            for r in self.reads[k]:
                if r not in cut:
                    now = max(now, level.get(r, 0))
                elif role is not None and self._matches(k, r):
                    now = max(now, self.roles[cut[r]].phase)
                else:
                    whole.add(r)
                    now = max(now, self.roles[cut[r]].phase + 1)
            if role is None:
                self.levels[k] = now
                level |= dict.fromkeys(s.outs, now)
            else:
                role.phase = now
                if role.var is None:
                    level |= dict.fromkeys(s.outs, now + 1)
        later = {
            r
            for k, role in self.roles.items()
            for r in self.reads[k]
            if r in cut and self.roles[cut[r]].phase < role.phase
        }
        self.whole = whole | later
        self.stacked = {r for r in later - whole if self.large and self.axis.of_array[r] != 0}
        lost = [k for k in self.roles if not self._belongs(k, cut)]
        for k in lost:
            del self.roles[k]
        return bool(lost)

    def _belongs(self, k: int, cut: Mapping[ir.Ref, int]) -> bool:
        """Whether a statement touches an array that strips keep small, and can compute its whole arrays."""
        s, role = self.original.statements[k], self.roles[k]
        if role.var is not None and any(self._is_turned(o) for o in s.outs):
            read = sum(bytes_of(r) for r in self.reads[k] if r in cut)
            if not self.large or TURNED * sum(map(bytes_of, s.outs)) > read:
                return False
        touched = (*self.reads[k], *(s.outs if role.var is not None else ()))
        return any(
            r in cut and bytes_of(r) >= self.large and (r not in self.whole or r in self.stacked) for r in touched
        )

    def _is_turned(self, o: ir.Ref) -> bool:
        """Whether strips of an array must be put together along another axis than its first."""
        return o in self.whole and o not in self.stacked and self.axis.of_array[o] != 0

    def _row_bytes(self) -> int:
        """Bytes of the arrays alive at once, for one step along the axis."""
        statements = self.original.statements
        last = {r: k for k in self.roles for r in self.reads[k]}
        kept = self.stacked.union(self.local)
        alive = peak = 0
        for k in self.roles:
            alive += sum(bytes_of(o) for o in statements[k].outs if o in kept)
            peak = max(peak, alive)
            alive -= sum(bytes_of(r) for r in self.reads[k] if r in kept and last[r] == k)
        return peak // self.axis.extent

    # The program with strips --------------------------------------------------------------------------------------

    def block(self) -> ir.Block:
        """The block with a loop for each phase; other statements come as early as possible."""
        out: list[ir.Statement] = []
        last = max([*(r.phase for r in self.roles.values()), *self.levels.values()])
        for phase in range(last + 1):
            out += [
                s for k, s in enumerate(self.original.statements) if self.levels.get(k) == phase and k not in self.roles
            ]
            members = [k for k, r in self.roles.items() if r.phase == phase]
            if members:
                out += _Loop(self, members).statements()
        return with_fields(self.original, statements=tuple(out))


class _Stretch:
    """The members for `rows` steps along the axis from `start` on."""

    def __init__(self, strips: _Strips, start: Index, rows: int) -> None:
        self.strips = strips
        self.start = start
        self.rows = rows
        self.small: dict[ir.Ref, ir.Ref] = {}
        self.earlier: dict[ir.Ref, tuple[ir.Ref, tuple[Index, ...]]] = {}  # stacks, and this strip's indices in them
        self.body: list[ir.Statement] = []

    def _substitution(self, variables: Mapping[Var, Index]) -> Substitution:
        """A substitution of variables that also reads arrays along the axis from this stretch."""

        def element(ref: ir.Ref, indices: tuple[Index, ...]) -> ir.Scalar:
            small, strip = (self.small[ref], ()) if ref in self.small else self.earlier.get(ref, (None, ()))
            if small is None:
                return expr.get(ref, *indices)
            axis = self.strips.axis.of_array[ref]
            return expr.get(small, *strip, *(i - self.start if a == axis else i for a, i in enumerate(indices)))

        return Substitution(variables=variables, get=element)

    def along(self, s: Cut, var: Var) -> None:
        """A statement along the axis."""
        own = Var(var.name, as_index(self.rows))
        variables = tuple(own if v is var else Var(v.name, v.extent) for v in s.vars)
        at = {v: as_index(w) for v, w in zip(s.vars, variables, strict=True)} | {var: self.start + as_index(own)}
        m = self._substitution(at)
        values = tuple(map(m.scalar, scalars_of(s)))
        self.small |= {o: ir.Ref(o.name, o.dtype, self._shape(o), o.bounds) for o in s.outs}
        outs = tuple(self.small[o] for o in s.outs)
        if isinstance(s, ir.Build):
            self.body.append(replace(s, outs=outs, vars=variables, values=values))
            return
        written = m.scalar(expr.get(s.out, *s.indices))  # at its place in this stretch
        assert isinstance(written, ir.Get)
        self.body.append(replace(s, out=outs[0], vars=variables, indices=written.indices, value=values[0]))

    def _shape(self, ref: ir.Ref) -> tuple[Index, ...]:
        """The shape of an array along the axis in this stretch."""
        axis = self.strips.axis.of_array[ref]
        return (*ref.shape[:axis], as_index(self.rows), *ref.shape[axis + 1 :])

    def add(self, s: ir.Build, r: ir.Reduce, var: Var, free: tuple[Var, ...], before: ir.Ref, after: ir.Ref) -> None:
        """Add the sum over the stretch to the accumulated one."""
        variables = tuple(Var(v.name, v.extent) for v in free)
        own = Var(var.name, as_index(self.rows))
        at = dict(zip(free, map(as_index, variables), strict=True)) | {var: self.start + as_index(own)}
        over = tuple(own if v is var else v for v in r.vars)
        part = expr.reduce("sum", over, self._substitution(at).scalar(r.arg))
        self.body.append(ir.Build((after,), variables, (expr.add(expr.get(before, *variables), part),), s.positions))


class _Loop:
    """The loop over the strips of one phase, and the remainder of the axis."""

    def __init__(self, strips: _Strips, members: Sequence[int]) -> None:
        self.strips = strips
        self.members = members
        count, rest = divmod(strips.axis.extent, strips.rows)
        self.strip = Var("strip", as_index(count))
        self.each = _Stretch(strips, as_index(self.strip) * strips.rows, strips.rows)
        self.rest = _Stretch(strips, as_index(count * strips.rows), rest) if rest else None
        for o, (stack, rest_of_stack) in strips.stacks.items():
            self.each.earlier[o] = stack, (as_index(self.strip),)
            if self.rest is not None and rest_of_stack is not None:
                self.rest.earlier[o] = rest_of_stack, ()
        self.before: list[ir.Statement] = []
        self.after: list[ir.Statement] = []
        self.states: list[tuple[ir.Ref, ir.Ref, ir.Ref, ir.Ref]] = []  # out, state, init, new

    def statements(self) -> list[ir.Statement]:
        """The statements that replace the members."""
        stacked: list[tuple[ir.Ref, ir.Ref]] = []
        for k in self.members:
            s, role = self.strips.original.statements[k], self.strips.roles[k]
            if role.var is None:
                assert isinstance(s, ir.Build)
                self._sum(s, role)
                continue
            assert isinstance(s, Cut)
            for stretch in filter(None, (self.each, self.rest)):
                stretch.along(s, role.var)
            for o in s.outs:
                if o in self.strips.whole:
                    small = self.each.small[o]
                    stack = ir.Ref(o.name, o.dtype, (self.strip.extent, *small.shape), o.bounds)
                    stacked.append((stack, small))
                    if o in self.strips.stacked:
                        self.strips.stacks[o] = stack, self.rest.small[o] if self.rest is not None else None
                    else:
                        self.after.append(self._together(o, stack))
        results = (*(new for _, _, _, new in self.states), *(small for _, small in stacked))
        outs = (*(out for out, _, _, _ in self.states), *(stack for stack, _ in stacked))
        if not outs:
            return []  # the results have no readers
        fold = ir.Fold(
            outs,
            self.strip,
            tuple(state for _, state, _, _ in self.states),
            tuple(init for _, _, init, _ in self.states),
            ir.Block(tuple(self.each.body), results),
        )
        return [*self.before, fold, *(self.rest.body if self.rest else ()), *self.after]

    def _sum(self, s: ir.Build, role: _Role) -> None:
        """Accumulate a statement's sums over the axis from strip to strip."""
        totals: dict[ir.Scalar, ir.Scalar] = {}
        alone = len(s.outs) == 1 and len(role.sums) == 1 and s.values[0] in role.sums
        for r, var in role.sums.items():
            free = tuple(v for v in s.vars if v in r.free) if not alone else s.vars
            shape = tuple(v.extent for v in free)
            state, new, init, out = (ir.Ref(s.outs[0].name, r.dtype, shape) for _ in range(4))
            total = s.outs[0] if alone else out
            self.each.add(s, r, var, free, state, new)
            zeros = tuple(Var(v.name, v.extent) for v in free)
            self.before.append(ir.Build((init,), zeros, (expr.const(0, r.dtype),), s.positions))
            if self.rest is None:
                self.states.append((total, state, init, new))
            else:
                strips = ir.Ref(s.outs[0].name, r.dtype, shape)
                self.states.append((strips, state, init, new))
                self.rest.add(s, r, var, free, strips, total)
            totals[r] = expr.get(total, *free)
        if not alone:
            self.after.append(replace(s, values=tuple(rewrite(v, totals.get) for v in s.values)))

    def _together(self, out: ir.Ref, stack: ir.Ref) -> ir.Build:
        """An array stored by strips, under its own name and shape; strips of first axes need no move."""
        axis, rows = self.strips.axis.of_array[out], self.strips.rows
        variables = [Var(n, d) for n, d in zip("tijklmnpqrs", out.shape)]
        t = as_index(variables[axis])

        def element(a: ir.Ref, *strip: Index, row: Index) -> ir.Scalar:
            return expr.get(a, *strip, *variables[:axis], row, *variables[axis + 1 :])

        value = element(stack, t // rows, row=t % rows)
        if self.rest is not None:
            border = self.rest.start
            tail = element(self.rest.small[out], row=t - border)
            value = expr.add(
                expr.bracket([c for c in (cond(">=", border - 1 - t),) if isinstance(c, Cond)], value),
                expr.bracket([c for c in (cond(">=", t - border),) if isinstance(c, Cond)], tail),
            )
        return ir.Build((out,), tuple(variables), (value,))


def _is_update(s: Cut) -> bool:
    """Whether the values are an array's, changed where conditions hold: its memory serves for both."""
    if not isinstance(s, ir.Build) or not isinstance(s.values[0], ir.Add):
        return False
    places = tuple(map(as_index, s.vars))
    others = [t for t in s.values[0].args if not isinstance(t, ir.Bracket)]
    return len(others) == 1 and isinstance(others[0], ir.Get) and others[0].indices == places
