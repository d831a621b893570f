"""E146 of lazy arrays: attributes that those of other libraries have."""

from __future__ import annotations

import numpy as np
import pytest

from pullback import lazy
from pullback.errors import UnknownNameError


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("backward", "`lazy.backward(x)`: it is a function"),
        ("exp", "`lazy.exp(x)`: it is a function"),
        ("requires_grad", "`lazy.Weight(array)` is a cell that has a gradient"),
        ("unsqueeze", "`lazy.expand_dims`"),
    ],
)
def test_an_attribute_of_elsewhere(name: str, remedy: str) -> None:
    x = lazy.asarray(np.ones(3))
    with pytest.raises(UnknownNameError) as caught:
        getattr(x, name)
    first, *_, last = str(caught.value).splitlines()
    assert first == f"UnknownNameError [E146] a lazy array has no attribute {name!r}"
    assert last.strip().startswith(f"try: {remedy}      See")
    assert not hasattr(x, name)
