"""The verbs of the language, each in the module of its family; importing them fills the table."""

from pullback.apl.verbs import (
    arrange,
    calculate,
    formatting,
    indexing,
    joining,
    nesting,
    partitions,
    scalar,
    search,
)

__all__ = ["arrange", "calculate", "formatting", "indexing", "joining", "nesting", "partitions", "scalar", "search"]
