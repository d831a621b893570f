"""Functions of arrays: the array API and what goes with it, real and complex."""

import pullback.arrays.operators  # noqa: F401  puts operators and methods on arrays
