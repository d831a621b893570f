"""Arrays for which there is no memory are E405, however they come about, and before anything runs for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

N = 10**12  # elements
MANY = np.ones(10**6)
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda x: pb.zeros((N,)),
    "ones": lambda x: pb.ones((N,)) * x,
    "eye": lambda x: pb.eye(10**6) * x,
    "build": lambda x: pb.build((N,), lambda i: i * x),
    "random": lambda x: pb.random.normal(pb.random.key(0), (N,)) * x,
    "working memory": lambda x: pb.sort(pb.cumulative_sum(pb.build((N,), lambda i: x * i)))[0],
}
outer = pb.function(lambda x: pb.outer(x, x))
ARRAYS: dict[str, Callable[[], Any]] = {
    "result": lambda: outer(MANY),
    "all sizes": lambda: pb.function(specialize="never")(lambda x: pb.outer(x, x))(MANY),
    "debug": lambda: pb.function(debug=True)(lambda x: pb.outer(x, x))(MANY),
    "threads": lambda: pb.function(threads=2)(lambda x: pb.outer(x, x))(MANY),
    "interpreter": lambda: outer.interpret(MANY),
    "profile": lambda: outer.profile(MANY),
    "jacobian": lambda: pb.jacobian(lambda x: pb.sin(x), mode="reverse")(MANY),
    "hessian": lambda: pb.hessian(lambda x: pb.sum(x) ** 3)(MANY),
    "vmap": lambda: pb.vmap(lambda x: pb.build((10**9,), lambda i: x))(MANY[:1000]),
    "lazy": lambda: np.asarray(pb.lazy.outer(pb.lazy.asarray(MANY), pb.lazy.asarray(MANY))),
    "lazy zeros": lambda: np.asarray(pb.lazy.zeros((N,))),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_of_a_number(name: str) -> None:
    with pytest.raises(pb.errors.OutOfMemoryError, match="E405"):
        pb.function(NUMBERS[name])(1.0)


@pytest.mark.parametrize("name", ARRAYS)
def test_of_arrays(name: str) -> None:
    with pytest.raises(pb.errors.OutOfMemoryError, match="E405"):
        ARRAYS[name]()


MESSAGE = """\
OutOfMemoryError [E405] lazy arrays: there is no memory for what a call with these arguments makes: Unable to allocate \
7.28 TiB for an array with shape (1000000000000,) and data type float64
  try: smaller arrays, or a part of them at a time      See `pullback explain-error E405`"""


def test_the_message_of_lazy_arrays() -> None:
    with pytest.raises(pb.errors.OutOfMemoryError) as caught:
        np.asarray(pb.lazy.zeros((N,)))
    shown = [line for line in str(caught.value).splitlines() if not line.startswith(("  -->", "   |"))]
    assert "\n".join(shown) == MESSAGE
