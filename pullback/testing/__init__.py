"""Help for tests, of this package and of rules that users add: random programs, and error bounds for them."""

from pullback.testing.bounds import interpret_with_bounds, with_bounds
from pullback.testing.programs import Case, random_program

__all__ = ["Case", "interpret_with_bounds", "random_program", "with_bounds"]
