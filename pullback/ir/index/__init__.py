"""Integer expressions: symbolic dims, indices and the conditions between them.

One class serves dims and indices: an `Index` is a polynomial with integer coefficients in *atoms*. An atom is

    DimSymbol    a dim of the program, an unknown extent
    Var          an index variable, 0 <= v < v.extent
    Floor, Mod   floor(E / d) and E - d * floor(E / d), for d > 0
    Data         an integer scalar of the program used as an index, with its extent when that is known

A *dim* is an Index without Var or Data. Terms are kept sorted by a structural key, so equal polynomials are
one node and print alike in every process. A `Cond` is `E >= 0`, `E == 0` or `E != 0`.
"""

from pullback.ir.index.digits import Digits, digits, quotients
from pullback.ir.index.division import divide_exactly, floor_divide, modulo
from pullback.ir.index.polynomial import (
    ONE_INDEX,
    ZERO_INDEX,
    Atom,
    Data,
    Dim,
    DimSymbol,
    Floor,
    Index,
    Key,
    Mod,
    Monomial,
    Term,
    Var,
    as_index,
    polynomial,
    some_terms,
    symbol,
)
from pullback.ir.index.proofs import Cond, CondOp, cond, extreme, prove, prove_nonnegative

__all__ = [
    "ONE_INDEX",
    "ZERO_INDEX",
    "Atom",
    "Cond",
    "CondOp",
    "Data",
    "Digits",
    "Dim",
    "DimSymbol",
    "Floor",
    "Index",
    "Key",
    "Mod",
    "Monomial",
    "Term",
    "Var",
    "as_index",
    "cond",
    "digits",
    "divide_exactly",
    "extreme",
    "floor_divide",
    "modulo",
    "polynomial",
    "prove",
    "prove_nonnegative",
    "quotients",
    "some_terms",
    "symbol",
]
