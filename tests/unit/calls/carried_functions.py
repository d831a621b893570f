"""Functions that tests carry to other processes."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float64

import pullback as pb
from pullback import Array


@pb.function
def energy(x: Float64[Array, "N"], *, scale: float = 1.0) -> Any:
    return scale * pb.sum(x * x)


@pb.function
def squares(x: Float64[Array, "N"]) -> Any:
    return x * x


class Model:
    scale = 3.0

    def run(self, x: Float64[Array, "N"]) -> Any:
        return self.scale * x

    @pb.function
    def traced(self, x: Float64[Array, "N"]) -> Any:
        return self.scale + x


def plain(x: Float64[Array, "N"]) -> Any:
    return x + 1.0


made = pb.function(memory="less")(plain)
