"""How users annotate: `mypy --strict` takes this file as it is."""

from __future__ import annotations

from typing import Annotated, Any

from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def steps(n: pb.Size["N"], x: Float64[Array, "M"], y: Float64[Array, "M"] | None = None) -> Float64[Array, "N M"]:
    made: Array = pb.build((n, *x.shape), lambda i, m: x[m] * i)
    return made if y is None else made + y


@pb.function
def table(n: Annotated[int, pb.Size["N"]], *rows: Float64[Array, "M"], scale: float = 1.0) -> Any:
    return pb.build(n + 1, lambda i: rows[0][0] * scale)


gradient = pb.grad(steps, wrt="x")
value: Any = gradient(3, [1.0, 2.0])
