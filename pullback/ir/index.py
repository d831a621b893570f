"""Integer expressions: symbolic dims, indices and the conditions between them.

One class serves dims and indices: an `Index` is a polynomial with integer coefficients in *atoms*. An atom is

    DimSymbol    a dim of the program, an unknown extent
    Var          an index variable, 0 <= v < v.extent
    Floor, Mod   floor(E / d) and E - d * floor(E / d), for d > 0
    Data         an integer scalar of the program used as an index, with its extent when that is known

A *dim* is an Index without Var or Data. Terms are kept sorted by a structural key, so equal polynomials are
one node and print alike in every process. A `Cond` is `E >= 0`, `E == 0` or `E != 0`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from math import gcd
from typing import TYPE_CHECKING, Any, Final, Literal

from pullback.ir.intern import Interned, intern

if TYPE_CHECKING:
    from pullback.ir.expr import Scalar

Key = tuple[Any, ...]
Monomial = tuple["Atom", ...]

_SERIAL = count()
_NO_VARIABLES: frozenset[Var] = frozenset()


class DimSymbol(Interned):
    """A dim known by name only. Every dim is a positive integer."""

    __slots__ = ("free", "key", "name")
    _fields = ("name",)
    name: str
    key: Key
    free: frozenset[Var]

    def __new__(cls, name: str) -> DimSymbol:  # noqa: D102
        return intern(cls, name)

    def _prepare(self) -> None:
        self.key = (0, self.name)
        self.free = frozenset()

    def __repr__(self) -> str:
        return self.name


class Var:
    """An index variable with its range 0 <= v < extent. Each binder makes its own; names need not differ."""

    __slots__ = ("__weakref__", "extent", "free", "key", "name", "serial")

    def __init__(self, name: str, extent: Index | int) -> None:
        self.name = name
        self.extent = as_index(extent)
        self.serial = next(_SERIAL)
        self.key: Key = (1, self.serial)
        self.free: frozenset[Var] = frozenset((self,))

    def __repr__(self) -> str:
        return self.name


class Floor(Interned):
    """floor(numerator / denominator), rounded down for negative numerators too."""

    __slots__ = ("denominator", "free", "key", "numerator")
    _fields = ("numerator", "denominator")
    numerator: Index
    denominator: Index
    key: Key
    free: frozenset[Var]

    def _prepare(self) -> None:
        self.key = (2, self.numerator.key, self.denominator.key)
        self.free = self.numerator.free | self.denominator.free

    def __repr__(self) -> str:
        return f"{_operand(self.numerator)} // {_operand(self.denominator)}"


class Mod(Interned):
    """numerator - denominator * floor(numerator / denominator), in [0, denominator)."""

    __slots__ = ("denominator", "free", "key", "numerator")
    _fields = ("numerator", "denominator")
    numerator: Index
    denominator: Index
    key: Key
    free: frozenset[Var]

    def _prepare(self) -> None:
        self.key = (3, self.numerator.key, self.denominator.key)
        self.free = self.numerator.free | self.denominator.free

    def __repr__(self) -> str:
        return f"{_operand(self.numerator)} % {_operand(self.denominator)}"


class Data(Interned):
    """An integer scalar used as an index.

    `extent` bounds it, 0 <= value < extent, where a bound is known; with `checked` that bound is a claim to be
    tested when the program runs (a failure is an IndexError), without it the bound holds by construction.
    """

    __slots__ = ("checked", "extent", "free", "key", "scalar", "serial")
    _fields = ("scalar", "extent", "checked")
    scalar: Scalar
    extent: Index | None
    checked: bool
    key: Key
    free: frozenset[Var]
    serial: int

    def __new__(cls, scalar: Scalar, extent: Index | None = None, checked: bool = False) -> Data:  # noqa: D102
        return intern(cls, scalar, extent, checked)

    def _prepare(self) -> None:
        self.serial = next(_SERIAL)
        self.key = (4, self.serial)
        self.free = self.scalar.free if self.extent is None else self.scalar.free | self.extent.free

    def __repr__(self) -> str:
        return f"<{self.scalar}>"


Atom = DimSymbol | Var | Floor | Mod | Data


class Index(Interned):
    """An integer polynomial: `terms` is a sorted tuple of (monomial, coefficient), a monomial a tuple of atoms.

    Attributes:
        constant: the value where it is a plain number, else None.
        atoms: those that occur outside other atoms, in order.
        data: the data that occur anywhere.
        free: the variables that occur anywhere.
    """

    __slots__ = ("_key", "atoms", "constant", "data", "free", "terms")
    _fields = ("terms",)
    terms: tuple[tuple[Monomial, int], ...]
    atoms: dict[Atom, None]
    constant: int | None
    data: tuple[Data, ...]
    free: frozenset[Var]
    _key: Key | None

    def _prepare(self) -> None:
        terms = self.terms
        self._key = None
        self.constant = None
        self.free = _NO_VARIABLES
        self.atoms = {}
        self.data = ()
        if not terms:
            self.constant = 0
            return
        if len(terms) == 1 and not terms[0][0]:
            self.constant = terms[0][1]
            return
        self.atoms = {a: None for m, _ in terms for a in m}
        self.free = _NO_VARIABLES.union(*[a.free for a in self.atoms])
        for a in self.atoms:
            if isinstance(a, Var):  # nearly all
                continue
            if isinstance(a, Data):
                self.data += (a,)
            elif isinstance(a, Floor | Mod):
                self.data += a.numerator.data + a.denominator.data

    @property
    def key(self) -> Key:
        """What terms are sorted by, computed when first asked for."""
        if self._key is None:
            self._key = tuple((tuple(a.key for a in m), c) for m, c in self.terms)
        return self._key

    @property
    def offset(self) -> int:
        """The constant term."""
        return next((c for m, c in self.terms if not m), 0)

    @property
    def is_dim(self) -> bool:
        """Whether no index variable and no data occurs."""
        return not self.free and not self.data

    @property
    def every_atom(self) -> dict[Atom, None]:
        """All atoms, those inside Floor and Mod included."""
        out: dict[Atom, None] = {}
        for a in self.atoms:
            if isinstance(a, Floor | Mod):
                out |= a.numerator.every_atom | a.denominator.every_atom
            out[a] = None
        return out

    @property
    def symbols(self) -> dict[DimSymbol, None]:
        """The dim symbols that occur anywhere in it."""
        return {a: None for a in self.every_atom if isinstance(a, DimSymbol)}

    @property
    def single(self) -> Atom | None:
        """The atom, where the index is exactly one atom with coefficient 1."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def coefficient(self, atom: Atom) -> Index | None:
        """The factor of `atom`, where the index is linear in it and it is in no other atom; else None."""
        if atom not in self.atoms and (not isinstance(atom, Var) or atom not in self.free):
            return ZERO_INDEX
        out: dict[Monomial, int] = {}
        is_variable = isinstance(atom, Var)
        for m, c in self.terms:
            n = m.count(atom)
            if n > 1:
                return None
            if n == 1:
                rest = tuple([a for a in m if a is not atom])
                if is_variable and any(atom in a.free for a in rest):
                    return None
                out[rest] = out.get(rest, 0) + c
            elif is_variable:
                for a in m:
                    if atom in a.free:
                        return None
        return polynomial(out)

    def __add__(self, other: Index | int) -> Index:
        other = as_index(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        out = dict(self.terms)
        for m, c in other.terms:
            out[m] = out.get(m, 0) + c
        return polynomial(out)

    __radd__ = __add__

    def __neg__(self) -> Index:
        return intern(Index, tuple([(m, -c) for m, c in self.terms]))

    def __sub__(self, other: Index | int) -> Index:
        other = as_index(other)
        if not other.terms:
            return self
        out = dict(self.terms)
        for m, c in other.terms:
            out[m] = out.get(m, 0) - c
        return polynomial(out)

    def __rsub__(self, other: int) -> Index:
        return as_index(other) + (-self)

    def __mul__(self, other: Index | int) -> Index:
        other = as_index(other)
        if other.constant is not None:
            return self if other.constant == 1 else self._scaled(other.constant)
        if self.constant is not None:
            return other if self.constant == 1 else other._scaled(self.constant)
        out: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                product = tuple(sorted(m + n, key=_atom_key))
                out[product] = out.get(product, 0) + c * d
        return polynomial(out)

    def _scaled(self, n: int) -> Index:
        return intern(Index, tuple([(m, c * n) for m, c in self.terms])) if n else ZERO_INDEX

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        return floor_divide(self, as_index(other))

    def __mod__(self, other: Index | int) -> Index:
        return modulo(self, as_index(other))

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        ordered = sorted(self.terms, key=lambda t: (not t[0], t[1] < 0))
        text = ""
        for m, c in ordered:
            names = [f"({a})" if isinstance(a, Floor | Mod) and (len(m) > 1 or abs(c) != 1) else str(a) for a in m]
            if abs(c) != 1 or not m:
                names.insert(0, str(abs(c)))
            sign = "-" if c < 0 else "+"
            text += (f" {sign} " if text else ("-" if c < 0 else "")) + " * ".join(names)
        return text


Dim = Index


def _operand(index: Index) -> str:
    """The text of an operand of // or %."""
    simple = index.constant is not None or isinstance(index.single, DimSymbol | Var | Data)
    return str(index) if simple else f"({index})"


def _atom_key(atom: Atom) -> Key:
    return atom.key


def _term_key(term: tuple[Monomial, int]) -> Key:
    atoms = term[0]
    if len(atoms) == 1:  # nearly all
        return (1, atoms[0].key)
    return (len(atoms), *[a.key for a in atoms])


def polynomial(terms: dict[Monomial, int]) -> Index:
    """The Index with these terms; zero coefficients are dropped, d * (n // d) + n % d becomes n."""
    kept = [t for t in terms.items() if t[1]]
    for m, c in kept:
        for atom in m:
            if type(atom) is Mod:
                merged = _merge_radix(terms, m, c, atom)
                if merged is not None:
                    return merged
    if len(kept) > 1:
        kept.sort(key=_term_key)
    return intern(Index, tuple(kept))


def _merge_radix(terms: dict[Monomial, int], m: Monomial, c: int, mod: Mod) -> Index | None:
    """The sum with c * rest * (d * (n // d) + n % d) written as c * rest * n, where both parts are there."""
    quotient = floor_divide(mod.numerator, mod.denominator)
    if quotient.single is None or len(mod.denominator.terms) != 1:
        return None
    rest = list(m)
    rest.remove(mod)
    factor = polynomial({tuple(rest): c})
    (partner, weight), = (factor * mod.denominator * quotient).terms
    if terms.get(partner) != weight:
        return None
    left = {k: v for k, v in terms.items() if k not in (m, partner)}
    return polynomial(left) + factor * mod.numerator


@lru_cache(maxsize=4096)
def _number(value: int) -> Index:
    return polynomial({(): value})


ZERO_INDEX: Final = _number(0)
ONE_INDEX: Final = _number(1)


def as_index(value: Index | Atom | int) -> Index:
    """`value` as an Index."""
    if isinstance(value, Index):
        return value
    if isinstance(value, int):
        return _number(value)
    return intern(Index, (((value,), 1),))


def symbol(name: str) -> Index:
    """The dim called `name`."""
    return as_index(DimSymbol(name))


def divide_exactly(a: Index, b: Index) -> Index | None:
    """A / b where b is one term that divides every term of a; else None."""
    if len(b.terms) != 1:
        return ONE_INDEX if a is b else (ZERO_INDEX if not a.terms else None)
    (monomial, factor), = b.terms
    out: dict[Monomial, int] = {}
    for m, c in a.terms:
        rest = list(m)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % factor:
            return None
        out[tuple(rest)] = c // factor
    return polynomial(out)


def _split_multiples(a: Index, d: Index) -> tuple[Index, Index]:
    """(q, r) with a = q * d + r, q taking every term that d divides; integer offsets reduced by integer d."""
    q, r = ZERO_INDEX, ZERO_INDEX
    for m, c in a.terms:
        term = polynomial({m: c})
        exact = divide_exactly(term, d)
        if exact is not None:
            q += exact
        elif d.constant is not None:
            q += polynomial({m: c // d.constant})
            r += polynomial({m: c % d.constant})
        else:
            r += term
    return q, r


def floor_divide(a: Index, d: Index) -> Index:
    """floor(a / d) for d > 0: multiples of d leave, a remainder known to lie in [-d, d) becomes a number."""
    if d is ONE_INDEX:
        return a
    if a.constant is not None and d.constant is not None:
        return _number(a.constant // d.constant)
    q, r = _split_multiples(a, d)
    if not r.terms or (prove_nonnegative(r) and prove_nonnegative(d - r - 1)):
        return q
    if prove_nonnegative(-r - 1) and prove_nonnegative(d + r):
        return q - 1
    common = _common_factor(r, d)
    if common > 1:
        r, d = _divide_by(r, common), _divide_by(d, common)
    inner = r.single
    if isinstance(inner, Floor):
        return q + floor_divide(inner.numerator, inner.denominator * d)
    return q + as_index(intern(Floor, r, d))


def modulo(a: Index, d: Index) -> Index:
    """A - d * floor(a / d) for d > 0."""
    if d is ONE_INDEX:
        return ZERO_INDEX
    if a.constant is not None and d.constant is not None:
        return _number(a.constant % d.constant)
    _, r = _split_multiples(a, d)
    if not r.terms or (prove_nonnegative(r) and prove_nonnegative(d - r - 1)):
        return r
    if prove_nonnegative(-r - 1) and prove_nonnegative(d + r):
        return d + r
    inner = r.single
    if isinstance(inner, Mod) and divide_exactly(inner.denominator, d) is not None:
        return modulo(inner.numerator, d)
    return as_index(intern(Mod, r, d))


def _common_factor(a: Index, b: Index) -> int:
    out = 0
    for _, c in (*a.terms, *b.terms):
        out = gcd(out, c)
    return out


def _divide_by(a: Index, n: int) -> Index:
    return intern(Index, tuple((m, c // n) for m, c in a.terms))


# Conditions -----------------------------------------------------------------------------------------------------

CondOp = Literal[">=", "==", "!="]
_NEGATED: Final[dict[str, CondOp]] = {"==": "!=", "!=": "=="}


class Cond(Interned):
    """`index op 0`, normalised by the greatest common divisor of its coefficients."""

    __slots__ = ("free", "index", "key", "op")
    _fields = ("op", "index")
    op: CondOp
    index: Index
    key: Key
    free: frozenset[Var]

    def _prepare(self) -> None:
        self.key = (self.op, self.index.key)
        self.free = self.index.free

    def negate(self) -> Cond | bool:
        """The condition that holds exactly where this one fails."""
        if self.op == ">=":
            return cond(">=", -self.index - 1)
        return cond(_NEGATED[self.op], self.index)

    def __repr__(self) -> str:
        left = polynomial({m: c for m, c in self.index.terms if c > 0})
        right = polynomial({m: -c for m, c in self.index.terms if c < 0})
        return f"{left} {self.op} {right}"


def cond(op: CondOp, index: Index | int) -> Cond | bool:
    """The condition `index op 0`: a Cond, or a bool where ranges alone decide it."""
    index = as_index(index)
    divisor = 0
    for m, c in index.terms:
        divisor = gcd(divisor, c) if m else divisor
    offset = index.offset
    if divisor > 1:
        if offset % divisor and op != ">=":
            return op == "!="
        index = intern(Index, tuple((m, c // divisor) for m, c in index.terms if m)) + offset // divisor
    value = index.constant
    if value is not None:
        return {">=": value >= 0, "==": value == 0, "!=": value != 0}[op]
    ends = _interval(index)
    if ends is not None:
        if ends[0] >= (0 if op == ">=" else 1):
            return op != "=="
        if ends[1] < 0:
            return op == "!="
    elif prove_nonnegative(index if op == ">=" else index - 1):
        return op != "=="
    elif prove_nonnegative(-index - 1):
        return op == "!="
    if op != ">=" and index.terms[-1][1] < 0:
        index = -index
    return intern(Cond, op, index)


# Proofs ---------------------------------------------------------------------------------------------------------
#
# To prove E >= 0 a variable of E is replaced by the bound that makes E smallest: v >= 0 or v <= extent - 1, or a
# bound that a known condition gives. What is left is a polynomial in dims, each at least 1, so non-negative when
# every coefficient is after the shift N = N' + 1; a known condition on dims may be subtracted on the way.
# For floor: s * floor(E / s) lies in [E - s + 1, E]. Sound, not complete; the depth bound keeps it linear in use.

_DEPTH: Final = 10
_STEPS: Final = 500


def _interval(e: Index) -> tuple[int, int] | None:
    """The least and greatest value of a linear index over variables with extents that are numbers: exact, and quick."""
    low = high = 0
    for m, c in e.terms:
        if not m:
            low, high = low + c, high + c
            continue
        if len(m) != 1 or not isinstance(m[0], Var):
            return None
        extent = m[0].extent.constant
        if extent is None or extent < 1:
            return None
        if c > 0:
            high += c * (extent - 1)
        else:
            low += c * (extent - 1)
    return low, high


@lru_cache(maxsize=65536)
def prove_nonnegative(index: Index, known: tuple[Cond, ...] = ()) -> bool:
    """Whether index >= 0 for all values in range for which the `known` conditions hold."""
    ends = _interval(index)
    if ends is not None and (ends[0] >= 0 or ends[1] < 0 or not known):
        return ends[0] >= 0
    return _prove(index, tuple(k for k in known if k.op != "!="), _DEPTH, [_STEPS])


def prove(condition: Cond | bool, known: tuple[Cond, ...] = ()) -> bool:
    """Whether the condition holds wherever the `known` ones do."""
    if isinstance(condition, bool):
        return condition
    if condition in known:
        return True
    index = condition.index
    match condition.op:
        case ">=":
            return prove_nonnegative(index, known)
        case "==":
            return prove_nonnegative(index, known) and prove_nonnegative(-index, known)
        case "!=":
            return prove_nonnegative(index - 1, known) or prove_nonnegative(-index - 1, known)


def _prove(e: Index, known: tuple[Cond, ...], depth: int, steps: list[int]) -> bool:
    if e.constant is not None:
        return e.constant >= 0
    if _shifted_nonnegative(e):
        return True
    steps[0] -= 1
    if depth <= 0 or steps[0] < 0:
        return False
    # variables and what is made of them before quotients of dims: the extent of a variable may hold such a quotient
    for atom in sorted(e.atoms, key=lambda a: (bool(as_index(a).free), a.key), reverse=True):
        if isinstance(atom, DimSymbol):
            continue
        return any(_prove(smaller, known, depth - 1, steps) for smaller in _bounded(e, atom, known, depth, steps))
    for k in known:
        if not k.free and k.index.symbols.keys() & e.symbols.keys():
            for index in (k.index, -k.index) if k.op == "==" else (k.index,):
                scale = _matching_scale(e, index)
                if scale and _prove(e - index * scale, known, depth - 3, steps):
                    return True
    return False


def _matching_scale(e: Index, index: Index) -> int:
    """How often `index` is worth subtracting from `e`: enough to cancel e's first negative term."""
    available = dict(index.terms)
    for m, c in e.terms:
        if c < 0 and available.get(m, 0) < 0:
            return max(1, -(-c // -available[m]))
    return 0


def _sign(e: Index) -> int:
    """1 or -1 where e has that sign (or is zero) for all dims >= 1, 0 where unknown."""
    if all(isinstance(a, DimSymbol) for a in e.atoms):
        if _shifted_nonnegative(e):
            return 1
        if _shifted_nonnegative(-e):
            return -1
    return 0


def _bounded(e: Index, atom: Atom, known: tuple[Cond, ...], depth: int, steps: list[int]) -> list[Index]:
    """Indices not above (a positive multiple of) e with `atom` replaced by one of its bounds."""
    factor = e.coefficient(atom)
    if factor is None:
        return []
    sign = _sign(factor)
    if sign == 0:
        return []
    rest = e - factor * as_index(atom)
    out = []
    for scale, bound in _bounds(atom, sign, known, depth, steps):
        # scale * atom >= bound (sign 1) or <= bound (sign -1), scale > 0
        out.append(rest * scale + factor * bound + (scale - 1))  # integers: s * e >= 1 - s is enough
    return out


def _bounds(atom: Atom, sign: int, known: tuple[Cond, ...], depth: int, steps: list[int]
            ) -> list[tuple[Index, Index]]:
    """Pairs (s, B), s > 0, with s * atom >= B for sign 1 and s * atom <= B for sign -1."""
    out: list[tuple[Index, Index]] = []
    for k in known:
        for index in (k.index, -k.index) if k.op == "==" else (k.index,):
            factor = index.coefficient(atom)  # factor * atom + rest >= 0
            if factor is not None and factor.constant and (factor.constant > 0) == (sign > 0):
                rest = index - factor * as_index(atom)
                out.append((as_index(abs(factor.constant)), -rest if sign > 0 else rest))
    match atom:
        case Var():
            out.append((ONE_INDEX, ZERO_INDEX if sign > 0 else atom.extent - 1))
        case Mod():
            out.append((ONE_INDEX, ZERO_INDEX if sign > 0 else atom.denominator - 1))
        case Floor():
            d, n = atom.denominator, atom.numerator
            out.append((d, n - d + 1 if sign > 0 else n))
            if sign > 0 and _prove(n, known, depth - 2, steps):
                out.insert(0, (ONE_INDEX, ZERO_INDEX))
        case Data() if atom.extent is not None:
            out.append((ONE_INDEX, ZERO_INDEX if sign > 0 else atom.extent - 1))
        case _:
            pass
    return out


@lru_cache(maxsize=65536)
def _shifted_nonnegative(e: Index) -> bool:
    """Whether a polynomial in dims has only non-negative coefficients in N - 1, M - 1, ..."""
    out: dict[Monomial, int] = {}
    for m, c in e.terms:
        if not all(isinstance(a, DimSymbol) for a in m):
            return False
        parts: list[Monomial] = [()]
        for atom in m:  # the product of (a' + 1) over the atoms of m
            parts += [(*p, atom) for p in parts]
        for p in parts:
            out[p] = out.get(p, 0) + c
    return all(c >= 0 for c in out.values())
