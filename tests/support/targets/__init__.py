"""Emitted C on every target: compilers × targets × programs, built, run where possible, compared.

    python -m tests.support.targets                   the table, for what is installed
    python -m tests.support.targets --list            compilers and targets, and which are here
    python -m tests.support.targets --only zig wasm   rows with these words in their names

`programs` has what is compiled, `toolchains` the rows, `table` a cell and the text.
"""

from tests.support.targets.programs import PROGRAMS
from tests.support.targets.table import Cell, build, markdown
from tests.support.targets.toolchains import TOOLCHAINS, Toolchain, selected

__all__ = ["PROGRAMS", "TOOLCHAINS", "Cell", "Toolchain", "build", "markdown", "selected"]
