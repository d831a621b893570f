"""Linear algebra under the names of the Python array API, and the constructors of the language M̃.

`matrices` has products, norms and M̃; `triangular`, `lu`, `qr`, `spectral`, `singular` and `eigen` have the
decompositions and their uses. All are index notation, for real and complex matrices alike. Decompositions have
derivative rules from the literature, cited beside them.
"""

from pullback.linalg.eigen import eig, eigvals
from pullback.linalg.exponential import expm, sqrtm
from pullback.linalg.lu import det, inv, slogdet, solve
from pullback.linalg.matrices import *  # noqa: F403
from pullback.linalg.matrices import __all__ as _matrices
from pullback.linalg.qr import lstsq, qr
from pullback.linalg.singular import cond, matrix_rank, pinv, svd, svdvals
from pullback.linalg.spectral import eigh, eigvalsh
from pullback.linalg.triangular import cholesky, solve_triangular
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "cholesky",
    "cond",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "sqrtm",
    "svd",
    "svdvals",
]
__all__ += _matrices

del lu  # noqa: F821 the module, where others have the function

_public_module(__name__)
