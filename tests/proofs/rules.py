"""The evidence for each rule: which fire where their results are proven, and where they are compared.

    python -m tests.proofs.rules

writes `pullback/rewrite/rules/evidence.py`, and then `pullback explain --rules --format markdown` the page.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from pullback.errors import PullbackError
from pullback.ir import types
from pullback.rewrite.fired import record_rules
from pullback.rewrite.rules import rules_of
from tests.proofs.programs import compiled, programs
from tests.proofs.test_brackets import test_solved_sums_have_the_terms_that_they_had
from tests.proofs.test_integers import test_integer_expressions_are_what_was_written
from tests.support.equivalence import FOUND

FILE = Path(__file__).resolve().parents[2] / "pullback" / "rewrite" / "rules" / "evidence.py"
HEAD = '''"""The evidence for rules, made by `python -m tests.proofs.rules`; a rule that is not here is assumed.

Proven rules fired in random applications that an SMT solver found equal for all values. Tested ones fired in programs
that were compared, before and after, for all inputs of small sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Evidence = Literal["proven", "tested", "assumed"]

EVIDENCE: Final[Mapping[str, Evidence]] = {
'''


def rules_proven() -> set[str]:
    """The rules that fire where the solver is asked about the result."""
    with record_rules() as names:
        test_solved_sums_have_the_terms_that_they_had()
        for dtype in (types.u8, types.i64):
            test_integer_expressions_are_what_was_written(dtype)
    return {r.id for r in rules_of(names)}


def rules_compared(few: bool = False) -> set[str]:
    """The rules that fire in programs which are compared."""
    out: set[str] = set()
    for _, p, dims in programs(few):
        FOUND.clear()
        with record_rules() as names, suppress(PullbackError):
            compiled(p, dims)
        if FOUND and all(f.outcome != "out of reach" for f in FOUND):
            out |= {r.id for r in rules_of(names)}
    return out


def text() -> str:
    """The module."""
    first, second = rules_proven(), rules_compared()
    rows = [f'    "{i}": "{"proven" if i in first else "tested"}",' for i in sorted(first | second)]
    return HEAD + "\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    words = [sys.executable, "-m", "pullback", "explain", "--rules", "--format", "markdown"]
    page = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (FILE.parents[3] / "docs" / "reference" / "rules.md").write_text(page, encoding="utf-8")
