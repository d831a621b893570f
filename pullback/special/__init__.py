"""Special functions, elementwise, with derivatives by the Digital Library of Mathematical Functions."""

from pullback.special.bessel import i0, i0e, i1, i1e, j0, j1, k0, k1, y0, y1
from pullback.special.elementary import entr, expit, logit, sinc, xlog1py, xlogy
from pullback.special.gamma import beta, betaln, digamma, lgamma, polygamma, zeta
from pullback.special.incomplete import betainc, gammainc, gammaincc
from pullback.special.normal import erfc, erfcx, erfinv, log_ndtr, ndtr, ndtri
from pullback.tracing.public import public_module as _public_module

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erfc",
    "erfcx",
    "erfinv",
    "expit",
    "gammainc",
    "gammaincc",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "k0",
    "k1",
    "lgamma",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "polygamma",
    "sinc",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]

del gamma  # noqa: F821 the module, where others have the function

_public_module(__name__)
