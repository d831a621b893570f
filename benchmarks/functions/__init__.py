"""Two hundred functions from the documentation of SciPy and JAX, in idiomatic Pullback."""

from benchmarks.functions.cases import CASES, Case
from benchmarks.functions.subjects import arrays, densities, matrices, networks, numerics, signals, special

__all__ = ["CASES", "Case", "arrays", "densities", "matrices", "networks", "numerics", "signals", "special"]
