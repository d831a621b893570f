"""What users write: index notation, the array API, loops; traced into programs of the core."""

from pullback.lang.array import Array
from pullback.lang.methods import OPERATIONS

Array._do = OPERATIONS
