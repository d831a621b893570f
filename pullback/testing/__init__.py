"""Help for tests, of this package and of rules that users add: random programs, and error bounds for them."""

from pullback.testing.bounds import interpret_with_bounds, with_bounds
from pullback.testing.check_grads import Tolerance, check_grads
from pullback.testing.programs import Case, random_program

__all__ = ["Case", "Tolerance", "check_grads", "interpret_with_bounds", "random_program", "with_bounds"]
