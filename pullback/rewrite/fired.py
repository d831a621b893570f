"""Which rules fired: a record that `explain` prints and costs nothing when nobody asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_RECORD: ContextVar[dict[str, int] | None] = ContextVar("pullback_fired_rules", default=None)


@contextmanager
def record_rules() -> Iterator[dict[str, int]]:
    """Collect rule names with how often each fired, while the block runs."""
    record: dict[str, int] = {}
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)


def fired(rule: str) -> None:
    """Note that the named rule was applied."""
    record = _RECORD.get()
    if record is not None:
        record[rule] = record.get(rule, 0) + 1
