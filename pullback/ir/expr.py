"""Scalar expressions: the value of one element, as hash-consed nodes.

    Const        a number                     Zero     structural zero: absent from sums, absorbing in products
    FromIndex    an index as a number         Get      an element of an array, proven or checked in range
    Apply        a primitive of `prim`        Add, Mul n-ary, in the user's order
    Cast         dtype conversion             Bracket  Iverson bracket: x where all conditions hold, else 0,
    Select       data-dependent choice                 and x is not evaluated there
    Reduce       sum, prod, max, min, argmax, argmin, any, all over index variables

The functions in lower case build nodes and are the only way to do so: they fold constants, drop structural
zeros, merge brackets and flatten sums. They never cancel a user's terms: x - x, x / x and x * 0.0 stay.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from math import frexp, isfinite
from typing import ClassVar, Final, Literal, get_args

import numpy as np

from pullback.ir import types
from pullback.ir.index import Cond, Data, Index, Key, Var, as_index
from pullback.ir.index.polynomial import Datum
from pullback.ir.intern import intern
from pullback.ir.primitive import PRIMITIVES, Primitive
from pullback.ir.types import DType
from pullback.state import context_variable

_SERIAL = count()
_F32 = struct.Struct("<f")
_NO_REFS: frozenset[Ref] = frozenset()
FORK: Final = 7  # depth added by a choice, besides the node's own

ReduceOp = Literal["sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "search"]
REDUCE_OPS: Final[tuple[ReduceOp, ...]] = get_args(ReduceOp)
POSITIONS: Final = ("argmax", "argmin", "search")  # reductions to a position among the variables' values, an i64


class Ref:
    """A name for an array value: an input, or a statement's result. Compared by identity.

    `bounds` is the half-open range of an integer array's values, where known. For inputs, `in_range` declares it and
    the entry checks it; for argmax it holds by construction. `storage` is the type of an input or a result in memory,
    f16 or bf16 where `dtype` is f32. Before `passes.halves` no element has either type.
    """

    __slots__ = ("__weakref__", "bounds", "dtype", "name", "serial", "shape", "storage")

    def __init__(self, name: str, dtype: DType, shape: Sequence[Index | int],
                 bounds: tuple[Index, Index] | None = None, storage: DType | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.storage = storage or dtype
        self.shape: tuple[Index, ...] = tuple([as_index(d) for d in shape])
        self.bounds = bounds
        self.serial = next(_SERIAL)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return self.name


class Scalar(Datum):
    """Base of scalar nodes. `free` holds the index variables, `refs` the arrays that occur.

    `below` caches the nodes that the first walk found under this one, if they are few. `depth` is the
    number of nodes on the longest path down, including those in indices. A choice counts for more than one, since the
    nodes under it are visited once per path. `nested` is how deep data are nested in indices: 1 for a[x[i]], 2 for
    a[x[y[i]]].
    """

    __slots__ = ("below", "depth", "dtype", "free", "nested", "refs")
    text: ClassVar[Callable[[Scalar], str]] = object.__repr__  # `printer` sets it
    below: tuple[Scalar, ...] | None
    depth: int
    nested: int
    dtype: DType
    free: frozenset[Var]
    refs: frozenset[Ref]

    def _collect(self, *parts: Scalar | Index | Cond) -> None:
        free: frozenset[Var] = frozenset()
        refs = _NO_REFS
        depth = nested = 0
        for part in parts:
            if part.free:
                free = free | part.free if free else part.free
            if isinstance(part, Scalar):
                found, below, level = part.refs, part.depth, part.nested
            else:
                found = index_refs(part)
                below, level = index_depth(part) if found else 0, _data_level(part)  # a datum may be made of indices
            if found:
                refs = refs | found if refs else found
            if below > depth:
                depth = below
            if level > nested:
                nested = level
        self.free, self.refs, self.below, self.depth, self.nested = free, refs, None, depth + 1, nested

    def __add__(self, other: Scalar | float) -> Scalar:
        return add(self, lift(other, self.dtype))

    def __radd__(self, other: float) -> Scalar:
        return add(lift(other, self.dtype), self)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return add(self, negative(lift(other, self.dtype)))

    def __rsub__(self, other: float) -> Scalar:
        return add(lift(other, self.dtype), negative(self))

    def __mul__(self, other: Scalar | float) -> Scalar:
        return mul(self, lift(other, self.dtype))

    def __rmul__(self, other: float) -> Scalar:
        return mul(lift(other, self.dtype), self)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return apply("divide", self, lift(other, self.dtype))

    def __rtruediv__(self, other: float) -> Scalar:
        return apply("divide", lift(other, self.dtype), self)

    def __neg__(self) -> Scalar:
        return negative(self)

    def __repr__(self) -> str:
        return Scalar.text(self)


class Const(Scalar):
    """A number of the given dtype: a Python bool, int or float."""

    __slots__ = ("value",)
    _fields = ("value", "dtype")
    value: bool | int | float

    def _prepare(self) -> None:
        self._collect()


class Zero(Scalar):
    """Structural zero: the value outside brackets, and of derivatives without dependence."""

    __slots__ = ()
    _fields = ("dtype",)

    def _prepare(self) -> None:
        self._collect()


class FromIndex(Scalar):
    """An index as a number of an integer or floating dtype."""

    __slots__ = ("index",)
    _fields = ("index", "dtype")
    index: Index

    def _prepare(self) -> None:
        self._collect(self.index)


class Get(Scalar):
    """An element `ref[indices]`, in range under the surrounding guards."""

    __slots__ = ("indices", "ref")
    _fields = ("ref", "indices")
    ref: Ref
    indices: tuple[Index, ...]

    def _prepare(self) -> None:
        self.dtype = self.ref.dtype
        self._collect(*self.indices)
        self.refs |= {self.ref}


class Apply(Scalar):
    """A primitive applied to operands of one dtype."""

    __slots__ = ("args", "primitive")
    _fields = ("primitive", "args", "dtype")
    primitive: Primitive
    args: tuple[Scalar, ...]

    def _prepare(self) -> None:
        self._collect(*self.args)


class Cast(Scalar):
    """Conversion to another dtype; floating to integer saturates, NaN gives 0; integers wrap."""

    __slots__ = ("arg",)
    _fields = ("arg", "dtype")
    arg: Scalar

    def _prepare(self) -> None:
        self._collect(self.arg)


class Add(Scalar):
    """Sum of two or more terms, in order."""

    __slots__ = ("args",)
    _fields = ("args", "dtype")
    args: tuple[Scalar, ...]

    def _prepare(self) -> None:
        self._collect(*self.args)


class Mul(Scalar):
    """Product of two or more factors, in order."""

    __slots__ = ("args",)
    _fields = ("args", "dtype")
    args: tuple[Scalar, ...]

    def _prepare(self) -> None:
        self._collect(*self.args)


class Bracket(Scalar):
    """The value `arg` where all conditions hold; elsewhere exactly zero, where `arg` is not evaluated."""

    __slots__ = ("arg", "conds")
    _fields = ("conds", "arg", "dtype")
    conds: tuple[Cond, ...]
    arg: Scalar

    def _prepare(self) -> None:
        self._collect(*self.conds, self.arg)


class Select(Scalar):
    """The choice `then if test else otherwise`; only the taken branch is evaluated."""

    __slots__ = ("otherwise", "test", "then")
    _fields = ("test", "then", "otherwise", "dtype")
    test: Scalar
    then: Scalar
    otherwise: Scalar

    def _prepare(self) -> None:
        self._collect(self.test, self.then, self.otherwise)
        self.depth += FORK


class Reduce(Scalar):
    """The reduction by `op` over the variables, row-major; argmax and argmin give the first flat position."""

    __slots__ = ("arg", "op", "vars")
    _fields = ("op", "vars", "arg", "dtype")
    op: ReduceOp
    vars: tuple[Var, ...]
    arg: Scalar

    def _prepare(self) -> None:
        self._collect(self.arg, *(v.extent for v in self.vars))
        self.free -= frozenset(self.vars)


Node = Const | Zero | FromIndex | Get | Apply | Cast | Add | Mul | Bracket | Select | Reduce


def read_by(a: Data) -> Scalar:
    """The scalar that an index reads."""
    assert isinstance(a.scalar, Scalar)
    return a.scalar


def index_refs(index: Index | Cond) -> frozenset[Ref]:
    """The arrays read by data-dependent atoms of an index or condition."""
    if isinstance(index, Cond):
        index = index.index
    return frozenset().union(*[read_by(a).refs for a in index.data]) if index.data else _NO_REFS


def index_depth(index: Index | Cond) -> int:
    """The depth of the data-dependent atoms of an index or condition."""
    if isinstance(index, Cond):
        index = index.index
    return max((read_by(a).depth for a in index.data), default=0)


def tests_places(index: Index) -> bool:
    """Whether a datum in an index is tested when the program runs."""
    return any(isinstance(a, Data) and a.checked for a in index.every_atom)


# Building -------------------------------------------------------------------------------------------------------


def const(value: bool | int | float, dtype: DType) -> Scalar:
    """A number of `dtype`: integers wrap, floats are rounded to the type."""
    if dtype.is_bool:
        value = bool(value)
    elif dtype.is_integer:
        value = dtype.wrap(int(value))
    elif dtype.is_half:
        value = _half(float(value), dtype)
    else:
        value = _rounded(float(value)) if dtype is types.f32 else float(value)
    key = struct.pack("<d", value) if isinstance(value, float) else value
    return intern(Const, value, dtype, key=(key, dtype))


def _rounded(value: float) -> float:
    """The nearest number of 32 bits."""
    if abs(value) < 1e38:
        return float(_F32.unpack(_F32.pack(value))[0])
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _half(value: float, dtype: DType) -> float:
    """The nearest number of 16 bits."""
    from pullback.ir.halves import from_half, to_half

    return float(from_half(to_half(np.float64(value), dtype), dtype))


def zero(dtype: DType) -> Scalar:
    """The structural zero."""
    return intern(Zero, dtype)


def lift(value: Scalar | float, dtype: DType) -> Scalar:
    """A Python number as a constant of `dtype`; Scalars stay as they are."""
    return value if isinstance(value, Scalar) else const(value, dtype)


def from_index(index: Index | Var | int, dtype: DType) -> Scalar:
    """An index as a number; a constant index folds, an integer scalar used as index comes back as itself."""
    index = as_index(index)
    if index.constant is not None:
        return const(index.constant, dtype)
    atom = index.single
    if isinstance(atom, Data) and not atom.checked:
        return cast(read_by(atom), dtype)
    return intern(FromIndex, index, dtype)


def get(ref: Ref, *indices: Index | Var | int) -> Scalar:
    """Return `ref[indices]`; the caller ensures the range."""
    assert len(indices) == ref.rank, f"{ref.name} has rank {ref.rank}, got {len(indices)} indices"
    return intern(Get, ref, tuple([as_index(i) for i in indices]))


def data_index(scalar: Scalar, extent: Index | None = None, checked: bool | Literal["ends"] = False) -> Index:
    """An integer scalar as an index: the index it was made from, if any, else a Data atom."""
    if isinstance(scalar, FromIndex) and not checked:
        return scalar.index
    if isinstance(scalar, Const) and not checked:
        return as_index(int(scalar.value))
    if isinstance(scalar, Cast) and scalar.arg.dtype.is_integer and scalar.dtype is types.i64 and not checked:
        return data_index(scalar.arg, extent)
    return as_index(Data(scalar, extent, checked))


def demand_not(test: Scalar) -> Scalar:
    """The integer 0; a program that needs it stops with an error where the test, a bool, holds."""
    return from_index(data_index(cast(test, types.i64), as_index(1), "ends"), types.i64)


def is_demand(a: Data) -> bool:
    """Whether a checked index comes from `demand_not`."""
    return a.checked == "ends"


def apply(primitive: Primitive | str, *args: Scalar) -> Scalar:
    """A primitive applied; constants fold."""
    row = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
    assert len(args) == row.arity and all(a.dtype is args[0].dtype for a in args), (row.name, [a.dtype for a in args])
    dtype = types.bool_ if row.result == "bool" else args[0].dtype
    if all(isinstance(a, Const) for a in args):
        with np.errstate(all="ignore"):
            value = row.evaluate(*(np.asarray(a.value, a.dtype.numpy) for a in args if isinstance(a, Const)))
        return const(np.asarray(value).item(), dtype)
    if row.name == "divide" and isinstance(args[0], Zero):
        return args[0]
    if row.name == "divide" and isinstance(args[0], Bracket):
        return bracket(args[0].conds, apply(row, args[0].arg, args[1]))
    if row.name == "divide" and isinstance(args[0], Select) and isinstance(args[0].otherwise, Zero):
        return select(args[0].test, apply(row, args[0].then, args[1]), args[0].otherwise)
    return intern(Apply, row, args, dtype)


def cast(x: Scalar, dtype: DType) -> Scalar:
    """Convert `x` to dtype; f16 and bf16 go through f32, but f64 is rounded once."""
    match x:
        case _ if x.dtype is dtype:
            return x
        case Const() if dtype.is_half or x.dtype.is_half:
            return const(x.value, dtype)
        case Const():
            from pullback.ir.semantics import convert

            return const(convert(np.asarray(x.value, x.dtype.numpy), dtype).item(), dtype)
        case Zero():
            return zero(dtype)
        case FromIndex() if x.dtype is types.i64 and not dtype.is_bool and not dtype.is_half:
            return intern(FromIndex, x.index, dtype)
        case Bracket():
            return bracket(x.conds, cast(x.arg, dtype))
        case Select() if isinstance(x.otherwise, Zero):
            return select(x.test, cast(x.then, dtype), zero(dtype))
        case Cast() if x.arg.dtype is dtype and dtype.is_half:  # the wider type holds each number exactly
            return x.arg
        case _ if (dtype.is_half and not x.dtype.is_floating) or (x.dtype.is_half and dtype is not types.f32):
            return cast(cast(x, types.f32), dtype)
        case _:
            return intern(Cast, x, dtype)


def rounded(x: Scalar, storage: DType) -> Scalar:
    """Round `x` as an array of this storage type does: for f16 and bf16."""
    return cast(cast(x, storage), storage.computed)


def negative(x: Scalar) -> Scalar:
    """-x, as a product with -1."""
    return mul(const(-1, x.dtype), x)


_IN_ORDER: ContextVar[bool] = context_variable("in_order", False)


@contextmanager
def in_order(wanted: bool = True) -> Iterator[None]:
    """Keep the written order of floating-point sums and products in the block: y + (x + z) stays.

    This is the one context variable of `ir`: derivatives of primitives and users' operators make sums and cannot pass
    an argument. Code that takes in a program sets it to the program's `settings.exact`.
    """
    token = _IN_ORDER.set(wanted)
    try:
        yield
    finally:
        _IN_ORDER.reset(token)


def is_in_order() -> bool:
    """Whether `in_order` is in force."""
    return _IN_ORDER.get()


def add(*terms: Scalar) -> Scalar:
    """Sum: nested sums flatten, structural zeros vanish, constants fold, like terms merge into a factor.

    Under `in_order` a nested sum flattens only if it is the first term.
    """
    dtype = terms[0].dtype
    flat: list[Scalar] = []
    for t in terms:
        assert t.dtype is dtype, f"sum of {dtype} and {t.dtype}"
        if isinstance(t, Add) and not (flat and dtype.is_floating and _IN_ORDER.get()):
            flat.extend(t.args)
        elif not isinstance(t, Zero):
            flat.append(t)
    if not flat:
        return zero(dtype)
    merged = _merge_constants(_merge_like_terms(flat))
    return merged[0] if len(merged) == 1 else intern(Add, tuple(merged), dtype)


def _merge_constants(terms: list[Scalar]) -> list[Scalar]:
    """Fold integer constants into one at the end (exact); a single floating constant stays in place."""
    if not terms[0].dtype.is_integer:
        return terms
    constants = [t.value for t in terms if isinstance(t, Const)]
    if len(constants) < 2:
        return terms
    rest = [t for t in terms if not isinstance(t, Const)]
    total = const(int(sum(constants)), terms[0].dtype)
    return [*rest, total] if rest and total is not const(0, total.dtype) else rest or [total]


def _merge_like_terms(terms: list[Scalar]) -> list[Scalar]:
    """Merge x + x into 2 * x; under `in_order` only the first two terms, which rounds the same."""
    if terms and terms[0].dtype.is_floating and _IN_ORDER.get():
        double = len(terms) > 1 and terms[0] is terms[1]
        return [mul(const(2, terms[0].dtype), terms[0]), *terms[2:]] if double else terms
    while len(set(terms)) < len(terms):  # a new 2 * x may equal an existing one
        counts: dict[Scalar, int] = {}
        for t in terms:
            counts[t] = counts.get(t, 0) + 1
        terms = [t if n == 1 else mul(const(n, t.dtype), t) for t, n in counts.items()]
    return terms


def mul(*factors: Scalar) -> Scalar:
    """The product: flattened, brackets and guards moved out, factors 1 dropped, structural zero absorbing.

    Under `in_order` a nested product flattens only if it is the first factor, apart from signs.
    """
    dtype = factors[0].dtype
    in_order = dtype.is_floating and _IN_ORDER.get()
    flat: list[Scalar] = []
    conds: dict[Cond, None] = {}
    guards: dict[Scalar, None] = {}
    pending = list(reversed(factors))
    while pending:
        f = pending.pop()
        assert f.dtype is dtype, f"product of {dtype} and {f.dtype}"
        match f:
            case Mul() if not (in_order and not all(map(is_sign, (*flat, *f.args[:-1])))):
                pending.extend(reversed(f.args))
            case Bracket():
                conds.update(dict.fromkeys(f.conds))
                pending.append(f.arg)
            case Select() if isinstance(f.otherwise, Zero):
                guards[f.test] = None
                pending.append(f.then)
            case Zero():
                return f
            case _:
                flat.append(f)
    out = _product(flat, dtype)
    for test in reversed(guards):
        out = select(test, out, zero(dtype))
    return bracket(tuple(conds), out) if conds else out


def _product(flat: list[Scalar], dtype: types.DType) -> Scalar:
    """The product of factors that are neither products nor guarded, constants in front."""
    if dtype.is_floating and _IN_ORDER.get():
        return _product_in_order(flat, dtype)
    number: bool | int | float = 1
    rest = []
    seen = 0
    for f in flat:
        # two floating constants are folded only where that is exact: one of them is a sign or power of two
        if isinstance(f, Const) and (dtype.is_integer or seen == 0 or _is_power_of_two(f.value)
                                     or _is_power_of_two(number)):
            number = const(number * f.value, dtype).value  # type: ignore[attr-defined]
            seen += 1
        else:
            rest.append(f)
    if not rest:
        return const(number, dtype)
    if number != 1:
        rest.insert(0, const(number, dtype))
    return rest[0] if len(rest) == 1 else intern(Mul, tuple(rest), dtype)


def _product_in_order(flat: list[Scalar], dtype: types.DType) -> Scalar:
    """The product with signs and leading numbers first; other numbers too if there are two factors."""
    number: float = 1
    rest: list[Scalar] = []
    for f in flat:
        if isinstance(f, Const) and (is_sign(f) or not rest):
            number = const(number * f.value, dtype).value  # type: ignore[attr-defined]
        else:
            rest.append(f)
    if len(rest) == 2 and isinstance(rest[1], Const) and abs(number) == 1:
        number, rest = const(number * rest[1].value, dtype).value, rest[:1]  # type: ignore[attr-defined]
    if not rest:
        return const(number, dtype)
    if number != 1:
        rest.insert(0, const(number, dtype))
    return rest[0] if len(rest) == 1 else intern(Mul, tuple(rest), dtype)


def is_sign(x: Scalar) -> bool:
    """Whether a scalar is the number 1 or -1."""
    return isinstance(x, Const) and abs(x.value) == 1


def _is_power_of_two(value: bool | int | float) -> bool:
    return isinstance(value, float) and value != 0 and isfinite(value) and abs(frexp(value)[0]) == 0.5


def bracket(conds: Iterable[Cond | bool], x: Scalar) -> Scalar:
    """The value `x` where all conditions hold, else structural zero; data conditions go innermost.

    Conditions that read at data-dependent places are innermost. Conditions that test a place at run time go inside
    guards too, so that the place is tested only where it is used.
    """
    kept: dict[Cond, None] = {}
    for c in conds:
        if c is False:
            return zero(x.dtype)
        if c is not True:
            kept[c] = None
    if isinstance(x, Zero) or (isinstance(x, Const) and x.value is False):
        return x
    while isinstance(x, Bracket):
        kept.update(dict.fromkeys(x.conds))
        x = x.arg
    data = [c for c in kept if c.index.data]
    if data and isinstance(x, Select) and isinstance(x.otherwise, Zero):
        tested = [c for c in data if tests_places(c.index)]
        if tested:
            x = select(x.test, bracket(tested, x.then), x.otherwise)
            return bracket([c for c in kept if c not in tested], x)
    levels: dict[int, list[Cond]] = {}
    for c in kept:
        levels.setdefault(_data_level(c.index), []).append(c)
    for level in sorted(levels, reverse=True):  # read data only where the conditions on its place hold
        x = intern(Bracket, tuple(sorted(levels[level], key=_cond_key)), x, x.dtype)
    return x


def _data_level(index: Index | Cond) -> int:
    """The nesting depth of data in an index or condition: 0 without, 1 for x[i], 2 for x[y[i]]."""
    if isinstance(index, Cond):
        index = index.index
    return 1 + max(read_by(a).nested for a in index.data) if index.data else 0


def _cond_key(c: Cond) -> Key:
    return c.key


def test(conds: Iterable[Cond | bool]) -> Scalar:
    """Index conditions as a bool scalar."""
    return bracket(conds, const(True, types.bool_))


def conditions_of(e: Scalar) -> tuple[Cond, ...] | None:
    """The conditions equivalent to a bool scalar, or None; see `test`."""
    conds: tuple[Cond, ...] = ()
    while isinstance(e, Bracket):
        conds, e = (*conds, *e.conds), e.arg
    return conds if conds and isinstance(e, Const) else None  # true inside: bracket() folds false


def select(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    """The choice of `then` or `otherwise`; a condition on indices alone becomes a bracket."""
    assert condition.dtype is types.bool_ and then.dtype is otherwise.dtype
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    if isinstance(condition, Zero):
        return otherwise
    if then is otherwise:
        return then
    if isinstance(then, Select) and then.test is condition:
        return select(condition, then.then, otherwise)
    conds = conditions_of(condition)
    if conds is not None:
        if isinstance(otherwise, Zero):
            return bracket(conds, then)
        if len(conds) == 1 and not then.dtype.is_bool:
            return add(bracket(conds, then), bracket((conds[0].negate(),), otherwise))
    if isinstance(then, Bracket) and isinstance(otherwise, Zero):
        outer = [c for c in then.conds if not tests_places(c.index)]
        if outer:  # the test may depend on the inner guards
            inner = bracket([c for c in then.conds if c not in outer], then.arg)
            return bracket(outer, select(condition, inner, otherwise))
    return intern(Select, condition, then, otherwise, then.dtype)


def reduce(op: ReduceOp, variables: Sequence[Var], x: Scalar) -> Scalar:
    """Reduce `x` by `op` over the variables. A sum of structural zero, or over no variables, is `x`."""
    if not variables:
        if op == "search":  # over a single place
            return cast(x, types.i64)
        return const(0, types.i64) if op in POSITIONS else x
    if op == "sum" and isinstance(x, Zero):
        return x
    if op == "sum" and isinstance(x, Reduce) and x.op == "sum":
        return reduce(op, (*variables, *x.vars), x.arg)
    dtype = types.i64 if op in POSITIONS else x.dtype
    return intern(Reduce, op, tuple(variables), x, dtype)


def places(e: Reduce) -> Index:
    """The number of positions that a reduction chooses from; a search may also end after the last."""
    out = as_index(1)
    for v in e.vars:
        out = out * v.extent
    return out + 1 if e.op == "search" else out
