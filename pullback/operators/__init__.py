"""Linear operators, matrices of them, and backslash: backpropagation as back substitution.

Elements of a matrix may be numbers, arrays, operators or matrices; `solve` is one substitution for all of them.

>>> import numpy as np
>>> L = strictly_lower(3, {(0, 1): LeftMultiply([[2.0, 0.0], [0.0, 3.0]], "A"), (1, 2): Hadamard([5.0, 7.0], "h")})
>>> print((I - L).T)
[I  -L[Aᵀ]      .]
[.       I  -H[h]]
[.       .      I]
>>> [x.tolist() for x in solve((I - L).T, [ZERO, ZERO, np.array([1.0, 1.0])])]
[[10.0, 21.0], [5.0, 7.0], [1.0, 1.0]]
"""

from pullback.operators.blocks import BlockMatrix, blocks, column, diagonal, identity
from pullback.operators.chains import Bracketing, bracketings, catalan, cheapest_bracketing
from pullback.operators.derivatives import AdjointSolution, Linearized, adjoint_method, newton
from pullback.operators.graph import (
    EliminationOrder,
    add_sink,
    cheapest_order,
    elementary_factors,
    eliminate,
    eliminate_edge,
    eliminate_vertex,
    elimination_cost,
    inner_vertices,
    path_weights,
    strictly_lower,
)
from pullback.operators.hooks import adjoint, inverse, left_divide, pivot_size, product
from pullback.operators.maps import (
    Diagonal,
    Hadamard,
    InnerProduct,
    Kronecker,
    LeftMultiply,
    Multiples,
    RightMultiply,
)
from pullback.operators.operator import ZERO, I, Operator
from pullback.operators.tensors import Dense, Indexed
from pullback.operators.triangular import solve

__all__ = [
    "ZERO",
    "AdjointSolution",
    "BlockMatrix",
    "Bracketing",
    "Dense",
    "Diagonal",
    "EliminationOrder",
    "Hadamard",
    "I",
    "Indexed",
    "InnerProduct",
    "Kronecker",
    "LeftMultiply",
    "Linearized",
    "Multiples",
    "Operator",
    "RightMultiply",
    "add_sink",
    "adjoint",
    "adjoint_method",
    "blocks",
    "bracketings",
    "catalan",
    "cheapest_bracketing",
    "cheapest_order",
    "column",
    "diagonal",
    "elementary_factors",
    "eliminate",
    "eliminate_edge",
    "eliminate_vertex",
    "elimination_cost",
    "identity",
    "inner_vertices",
    "inverse",
    "left_divide",
    "newton",
    "path_weights",
    "pivot_size",
    "product",
    "solve",
    "strictly_lower",
]
