"""What commands print on the output stream: tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["print_json", "table"]


def print_json(value: dict[str, Any]) -> None:
    """One object on one line, the last of the output."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def table(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Columns aligned, left or right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
