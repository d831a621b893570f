"""E147: the example of exported C calls the function with nothing that was tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jaxtyping import Float64, Int32

import pullback as pb
from pullback import Array
from pullback.errors import ShapeError


@pb.function
def far(x: Float64[Array, "N"], j: Int32[Array, ""]) -> Any:
    return x[j - 1000]


def test_no_inputs_for_the_example(tmp_path: Path) -> None:
    with pytest.raises(ShapeError) as error:
        far.export(tmp_path, N=3)
    assert str(error.value) == """\
ShapeError [E147] far: no inputs were found that the example of its C can call it with
   | far: the index as_i64(data(j) - 1000) = -997 is outside 0 … 2
  try: `example=(...)` with the arguments of a call      See docs/reference/errors.md#E147"""
