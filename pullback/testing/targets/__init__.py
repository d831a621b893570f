"""The emitted C on every target: compilers × targets × programs, built, run where they can be, and compared.

    python -m pullback.testing.targets                   the table, for what is installed
    python -m pullback.testing.targets --list            compilers and targets, and which are here
    python -m pullback.testing.targets --only zig wasm   rows with these words in their names

`programs` has what is compiled, `toolchains` the rows, `table` a cell and the text.
"""

from pullback.testing.targets.programs import PROGRAMS
from pullback.testing.targets.table import Cell, build, markdown
from pullback.testing.targets.toolchains import TOOLCHAINS, Toolchain, selected

__all__ = ["PROGRAMS", "TOOLCHAINS", "Cell", "Toolchain", "build", "markdown", "selected"]
