"""What the workspace values and a compiled function refuses, or both: never another value, never an internal error."""

import numpy as np
import pytest

from pullback import apl

VECTOR = np.array([3.0, 1.0, 2.0])
MATRIX = np.arange(1.0, 7.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("body", "argument", "kind"),
    [
        ("5∧⍵", VECTOR, "DOMAIN ERROR"),  # the least common multiple in the workspace
        ("⍵∨2", VECTOR, "DOMAIN ERROR"),
        ("∧/⍵", VECTOR, "DOMAIN ERROR"),
        ("(⍳3)⌈↓⍵", MATRIX, "LENGTH ERROR"),
        ("(-@1)⊃⍵", VECTOR, "RANK ERROR"),
        ("(⍪@1)⍵", VECTOR, "RANK ERROR"),
        (",⌿⍵", MATRIX, "DOMAIN ERROR"),  # a vector of vectors in the workspace
        ("(2 3⍴⍳6)⊤(⍳3)=⍵", VECTOR, "RANK ERROR"),
    ],
)
def test_refused_when_it_is_compiled(body: str, argument: np.ndarray, kind: str) -> None:
    with pytest.raises(apl.AplError) as caught:
        apl.apl(f"{{{body}}}")(argument)
    assert caught.value.kind == kind
    assert "^" in str(caught.value)
