r"""Rank verbs: APL's functions and operators on arrays, as Python functions.

They are written in index notation and functions of the array API, so shapes are checked and derivatives exist as
for those. Counts and shapes come first, as in APL. A verb that takes a function returns a function, except `reduce`.

    APL                  here
    ⍴x  ⍴⍴x              shape(x)  len(shape(x))
    s⍴x  ,x              reshape(s, x)  ravel(x)
    n↑x  n↓x             take(n, x)  drop(n, x)
    x,y  x⍪y             catenate(x, y)  catenate(x, y, axis=0)
    n/x  n⌿x             replicate(n, x)  replicate(n, x, axis=0)
    n\x  n⍀x              expand(n, x)  expand(n, x, axis=0)
    ⌽x  ⊖x  n⌽x          reverse(x)  reverse(x, axis=0)  rotate(n, x)
    ⍉x  0 0⍉x            transpose(x)  transpose(x, (0, 0))
    ⍳n  x⍳y              iota(n)  index_of(x, y)
    ⊂x  ⊃x               enclose(x)  disclose(x)
    f⍤1  f⍤(0 1)         rank(f, 1)  rank(f, (0, 1))
    f¨  ∘.f              each(f)  table(f)
    f/x  f⌿x  f/,x       reduce(f, x)  reduce(f, x, axis=0)  reduce(f, x, axis=None)
    f⌺w  f⌺(w,[¯.5]s)    stencil(f, w)  stencil(f, w, s)
    f⍣n                  power(f, n)
"""

from pullback.tracing.public import public_module as _public_module
from pullback.verbs.application import each, power, rank, reduce, stencil, table
from pullback.verbs.nested import Extents, Nested, disclose, enclose, shape
from pullback.verbs.structure import (
    catenate,
    drop,
    expand,
    index_of,
    iota,
    ravel,
    replicate,
    reshape,
    reverse,
    rotate,
    take,
    transpose,
)

__all__ = [
    "Extents",
    "Nested",
    "catenate",
    "disclose",
    "drop",
    "each",
    "enclose",
    "expand",
    "index_of",
    "iota",
    "power",
    "rank",
    "ravel",
    "reduce",
    "replicate",
    "reshape",
    "reverse",
    "rotate",
    "shape",
    "stencil",
    "table",
    "take",
    "transpose",
]

_public_module(__name__)
