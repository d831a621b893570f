"""Indices as polynomials of atoms, in normal form."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, Final, Literal

from pullback.ir.intern import Interned, intern, known, the_one
from pullback.state import cached

Key = tuple[Any, ...]
Monomial = tuple["Atom", ...]
Term = tuple[Monomial, int]  # and its coefficient

_SERIAL = count()
_NO_VARIABLES: frozenset[Var] = frozenset()
_ALONE: frozenset[Monomial] = frozenset(((),))  # the monomial of a number


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
    """An index variable with range 0 <= v < extent. Each binder makes its own; names may repeat."""

    __slots__ = ("__weakref__", "extent", "key", "name", "serial")

    def __init__(self, name: str, extent: Index | int) -> None:
        self.name = name
        self.extent = as_index(extent)
        self.serial = next(_SERIAL)
        self.key: Key = (1, self.serial)

    @property
    def free(self) -> frozenset[Var]:
        """The variable itself; made on demand, as storing it would create a cycle."""
        return frozenset((self,))

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
    """The remainder numerator - denominator * quotient, in [0, denominator); `quotient` is the floor."""

    __slots__ = ("denominator", "free", "key", "numerator", "quotient")
    _fields = ("numerator", "denominator")
    numerator: Index
    denominator: Index
    quotient: Index
    key: Key
    free: frozenset[Var]

    def _prepare(self) -> None:
        self.quotient = Index.floor_divided(self.numerator, self.denominator)
        self.key = (3, self.numerator.key, self.denominator.key)
        self.free = self.numerator.free | self.denominator.free

    def __repr__(self) -> str:
        return f"{_operand(self.numerator)} % {_operand(self.denominator)}"


class Datum(Interned):
    """A scalar of the program (`expr.Scalar`) that an index reads; it may contain indices."""

    __slots__ = ()
    free: frozenset[Var]


class Data(Interned):
    """An integer scalar used as an index.

    `extent` bounds it, 0 <= value < extent, where a bound is known. With `checked` the program tests the bound at run
    time (a failure is an IndexError); otherwise it holds by construction. The claim "ends" says that a loop reached its
    end: the scalar is then 0 (a failure is an UnfinishedError).
    """

    __slots__ = ("checked", "extent", "free", "key", "scalar", "serial")
    _fields = ("scalar", "extent", "checked")
    scalar: Datum
    extent: Index | None
    checked: bool | Literal["ends"]
    key: Key
    free: frozenset[Var]
    serial: int

    def __new__(  # noqa: D102
        cls, scalar: Datum, extent: Index | None = None, checked: bool | Literal["ends"] = False
    ) -> Data:
        return intern(cls, scalar, extent, checked)

    def _prepare(self) -> None:
        self.serial = next(_SERIAL)
        self.key = (4, self.serial)
        self.free = self.scalar.free if self.extent is None else self.scalar.free | self.extent.free

    def __repr__(self) -> str:
        return f"<{self.scalar}>"


Atom = DimSymbol | Var | Floor | Mod | Data


class Index(Interned):
    """An integer polynomial: `terms` is a sorted tuple of (monomial, coefficient); monomials hold atoms.

    Attributes:
        constant: the value where it is a plain number, else None.
        atoms: those that occur outside other atoms, in order.
        data: the data that occur anywhere.
        free: the variables that occur anywhere.
        single: the atom, where the index is one atom with coefficient 1; else None.
    """

    __slots__ = ("_key", "atoms", "constant", "data", "free", "single", "terms")
    _fields = ("terms",)
    terms: tuple[tuple[Monomial, int], ...]
    atoms: dict[Atom, None]
    constant: int | None
    data: tuple[Data, ...]
    free: frozenset[Var]
    single: Atom | None
    _key: Key | None
    floor_divided: ClassVar[Callable[[Index, Index], Index]]  # `division` sets both: it uses proofs,
    remainder: ClassVar[Callable[[Index, Index], Index]]  # and proofs use indices

    def _prepare(self) -> None:
        terms = self.terms
        self._key = None
        self.constant = None
        self.free = _NO_VARIABLES
        self.single = None
        self.atoms = {}
        self.data = ()
        if not terms:
            self.constant = 0
            return
        if len(terms) == 1:
            (monomial, coefficient), = terms
            if not monomial:
                self.constant = coefficient
                return
            if coefficient == 1 and len(monomial) == 1:
                self.single = monomial[0]
        self.atoms = {a: None for m, _ in terms for a in m}
        others = [a for a in self.atoms if type(a) is not Var]
        if not others:  # nearly all
            self.free = frozenset(self.atoms)  # type: ignore[arg-type]
            return
        self.free = frozenset([a for a in self.atoms if type(a) is Var]).union(*[a.free for a in others])
        for a in others:
            if isinstance(a, Data):
                self.data += (a,)
            elif isinstance(a, Floor | Mod):
                self.data += a.numerator.data + a.denominator.data

    @property
    def key(self) -> Key:
        """The sort key of terms, computed on first use."""
        if self._key is None:
            self._key = tuple((tuple(a.key for a in m), c) for m, c in self.terms)
        return self._key

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms[0][1] if self.terms and not self.terms[0][0] else 0  # the first, as terms are sorted

    @property
    def is_dim(self) -> bool:
        """Whether no index variable and no data occurs."""
        return not self.free and not self.data

    @property
    def every_atom(self) -> dict[Atom, None]:
        """All atoms, including those inside Floor and Mod."""
        out: dict[Atom, None] = {}
        for a in self.atoms:
            if isinstance(a, Floor | Mod):
                out |= a.numerator.every_atom | a.denominator.every_atom
            out[a] = None
        return out

    @property
    def symbols(self) -> dict[DimSymbol, None]:
        """The dim symbols that occur anywhere in it."""
        if not self.atoms:  # a number
            return {}
        return {a: None for a in self.every_atom if isinstance(a, DimSymbol)}

    def coefficient(self, atom: Atom) -> Index | None:
        """The factor of `atom`, where the index is linear in it and it is in no other atom; else None."""
        if atom not in self.atoms and (not isinstance(atom, Var) or atom not in self.free):
            return ZERO_INDEX
        out: dict[Monomial, int] = {}
        is_variable = isinstance(atom, Var)
        for m, c in self.terms:
            if len(m) == 1 and (m[0] is atom or type(m[0]) is Var):  # nearly all
                if m[0] is atom:
                    out[()] = c
                continue
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
        return number(out[()]) if out.keys() == _ALONE else polynomial(out)

    def without(self, atom: Atom) -> Index:
        """The index less the term that is a multiple of the atom alone."""
        kept = tuple([t for t in self.terms if len(t[0]) != 1 or t[0][0] is not atom])
        return self if len(kept) == len(self.terms) else some_terms(kept)

    def __add__(self, other: Index | int) -> Index:
        if not isinstance(other, Index):
            other = as_index(other)
        if other.constant is not None:
            return self._plus(other.constant)
        if self.constant is not None:
            return other._plus(self.constant)
        out = dict(self.terms)
        for m, c in other.terms:
            out[m] = out.get(m, 0) + c
        return polynomial(out)

    __radd__ = __add__

    def _plus(self, n: int) -> Index:
        """Add a number quickly: its term comes first, without sorting or merging."""
        if not n:
            return self
        terms = self.terms
        if terms and not terms[0][0]:
            n, terms = n + terms[0][1], terms[1:]
        return some_terms((((), n), *terms) if n else terms)

    def __neg__(self) -> Index:
        return some_terms(tuple([(m, -c) for m, c in self.terms]))

    def __sub__(self, other: Index | int) -> Index:
        if not isinstance(other, Index):
            other = as_index(other)
        if other.constant is not None:
            return self._plus(-other.constant)
        out = dict(self.terms)
        for m, c in other.terms:
            out[m] = out.get(m, 0) - c
        return polynomial(out)

    def __rsub__(self, other: int) -> Index:
        return as_index(other) + (-self)

    def __mul__(self, other: Index | int) -> Index:
        if not isinstance(other, Index):
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
        return some_terms(tuple([(m, c * n) for m, c in self.terms])) if n else ZERO_INDEX

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        return Index.floor_divided(self, as_index(other))

    def __mod__(self, other: Index | int) -> Index:
        return Index.remainder(self, as_index(other))

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


def some_terms(terms: tuple[Term, ...]) -> Index:
    """The Index of terms in normal form, such as some terms of another Index; faster than `intern`."""
    key = (Index, terms)
    found = known(key)
    if found is None:
        made = object.__new__(Index)
        made.terms = terms
        made._prepare()
        found = the_one(key, made)
    return found  # type: ignore[no-any-return]


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
    return some_terms(tuple(kept))


def _merge_radix(terms: dict[Monomial, int], m: Monomial, c: int, mod: Mod) -> Index | None:
    """Replace c * rest * (d * (n // d) + n % d) in a sum by c * rest * n if both parts are present."""
    quotient = mod.quotient
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


@cached(4096)
def number(value: int) -> Index:
    """A plain number."""
    return polynomial({(): value})


ZERO_INDEX: Final = number(0)
ONE_INDEX: Final = number(1)


def as_index(value: Index | Atom | int) -> Index:
    """`value` as an Index."""
    if isinstance(value, Index):
        return value
    if isinstance(value, int):
        return number(value)
    return some_terms((((value,), 1),))


def symbol(name: str) -> Index:
    """The dim called `name`."""
    return as_index(DimSymbol(name))
