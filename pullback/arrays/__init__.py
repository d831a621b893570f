"""Functions of arrays, real and complex: the array API and extensions."""

import pullback.arrays.operators  # noqa: F401  puts operators and methods on arrays
