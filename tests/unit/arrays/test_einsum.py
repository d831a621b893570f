"""einsum: values as NumPy's, the same C as index notation, orders by cost, errors that point into the subscripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64

import pullback as pb
from pullback import Array, build, sum_over
from pullback.ir.program import Build
from pullback.testing import check_grads

SIZES = {"i": 3, "j": 4, "k": 2, "l": 5, "m": 1}


def operands(subscripts: str, dtype: Any = np.float64) -> list[Any]:
    rng = np.random.default_rng(len(subscripts))
    terms = subscripts.split("->")[0].split(",")
    shapes = [tuple(SIZES[c] for c in t.replace("...", "").replace(" ", "")) for t in terms]
    return [rng.normal(size=s).astype(dtype) for s in shapes]


VALUES = ["ij,jk->ik", "ij->ji", "ii", "ii->i", "iji->j", "ij", "ij->", "i,i", "i,j", "ij,kj->ik", "ij,j", "i,ij,j"]
VALUES += ["ij,jk,kl,l->i", "ij , jk -> k i", "ij,kl->", "iij,jk->k", "i,i,i->i", "ijk,jil->kl", "ij,ij->j", "m,i->i"]
VALUES += ["ij,jk,ki->", "l,lk,kj,ji,i->", "ij,jk,kl,lm,mi,ij,jk,kl,l->"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(dtype: Any) -> None:
    cases = [(s, operands(s, dtype)) for s in VALUES]
    flat = [a for _, given in cases for a in given]
    names = ", ".join(f"a{k}" for k in range(len(flat)))

    def apply(*arrays: Any) -> Any:
        rest = iter(arrays)
        return [pb.einsum(s, *(next(rest) for _ in given)) for s, given in cases]

    space: dict[str, Any] = {"apply": apply}
    exec(f"def every({names}):\n    return apply({names})", space)
    f = pb.function(space["every"])
    for found in (f(*flat), f.interpret(*flat)):
        for (s, given), value in zip(cases, found, strict=True):
            wanted = np.einsum(s, *given)
            assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape), s
            np.testing.assert_allclose(value, wanted, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-5, err_msg=s)


def test_ellipsis(check) -> None:
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(12.0).reshape(4, 3) - 5
    z = np.arange(3.0).reshape(1, 3)

    @pb.function
    def f(x: Float64[Array, "2 3 4"], y: Float64[Array, "4 3"], z: Float64[Array, "1 3"]):
        return (
            pb.einsum("...j,jk->...k", x, y),
            pb.einsum("...j,jk", x, y),
            pb.einsum("...i,...i", x[:, :, :3], z),
            pb.einsum("a...,a...->...", x, x),
            pb.einsum("...,->...", x, 2.0),
            pb.einsum("i...j->j...i", x),
        )

    cut = x[:, :, :3]
    wanted = (
        np.einsum("...j,jk->...k", x, y),
        np.einsum("...j,jk", x, y),
        np.einsum("...i,...i", cut, z),
        np.einsum("a...,a...->...", x, x),
        2 * x,
        np.einsum("i...j->j...i", x),
    )
    check(f, x, y, z, expected=wanted)


def test_integers_keep_their_type(check) -> None:
    @pb.function
    def f(x):
        return pb.einsum("ij,kj->ik", x, x)

    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    check(f, x, expected=x @ x.T)
    assert f(x).dtype == np.int32


M, B, V, W, S = (Float64[Array, d] for d in ("N M", "M K", "M", "N", "N N"))
T = Float64[Array, "L N M"]
PAIRS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "ij,jk->ik": (
        (M, B),
        lambda a, b: build(
            (a.shape[0], b.shape[1]), lambda i, k: sum_over(a.shape[1], lambda j: a[i, j] * b[j, k])
        ),
    ),
    "ij,j->i": ((M, V), lambda a, v: build(a.shape[0], lambda i: sum_over(a.shape[1], lambda j: a[i, j] * v[j]))),
    "ij,i->j": ((M, W), lambda a, w: build(a.shape[1], lambda j: sum_over(a.shape[0], lambda i: a[i, j] * w[i]))),
    "i,i->": ((V, V), lambda a, b: sum_over(a.shape[0], lambda i: a[i] * b[i])),
    "i,j->ij": ((W, V), lambda a, b: build((a.shape[0], b.shape[0]), lambda i, j: a[i] * b[j])),
    "i,i->i": ((V, V), lambda a, b: build(a.shape[0], lambda i: a[i] * b[i])),
    "ij->": ((M,), lambda a: sum_over(a.shape, lambda i, j: a[i, j])),
    "ij->i": ((M,), lambda a: build(a.shape[0], lambda i: sum_over(a.shape[1], lambda j: a[i, j]))),
    "ij->j": ((M,), lambda a: build(a.shape[1], lambda j: sum_over(a.shape[0], lambda i: a[i, j]))),
    "ii->": ((S,), lambda a: sum_over(a.shape[0], lambda i: a[i, i])),
    "ij,ij->": ((M, M), lambda a, b: sum_over(a.shape, lambda i, j: a[i, j] * b[i, j])),
    "ij,ij->i": (
        (M, M),
        lambda a, b: build(a.shape[0], lambda i: sum_over(a.shape[1], lambda j: a[i, j] * b[i, j])),
    ),
    "ij,kj->ik": (
        (M, M),
        lambda a, b: build(
            (a.shape[0], b.shape[0]), lambda i, k: sum_over(a.shape[1], lambda j: a[i, j] * b[k, j])
        ),
    ),
    "lij,jk->lik": (
        (T, B),
        lambda a, b: build(
            (*a.shape[:2], b.shape[1]), lambda l, i, k: sum_over(a.shape[2], lambda j: a[l, i, j] * b[j, k])
        ),
    ),
    "lij,lkj->lik": (
        (T, T),
        lambda a, b: build(
            (*a.shape[:2], b.shape[1]), lambda l, i, k: sum_over(a.shape[2], lambda j: a[l, i, j] * b[l, k, j])
        ),
    ),
    "lij,lij->ij": (
        (T, T),
        lambda a, b: build(a.shape[1:], lambda i, j: sum_over(a.shape[0], lambda l: a[l, i, j] * b[l, i, j])),
    ),
}


@pytest.mark.parametrize("subscripts", PAIRS)
def test_the_c_is_that_of_index_notation(subscripts: str) -> None:
    """Of the function, and of the gradient of the sum of its squares."""
    types, notation = PAIRS[subscripts]
    names = ", ".join(f"x{k}" for k in range(len(types)))
    sources = []
    for form in (lambda *a: pb.einsum(subscripts, *a), notation):
        space: dict[str, Any] = {"form": form, "pb": pb}
        exec(f"def f({names}):\n    return form({names})\ndef g({names}):\n    y = f({names})\n"
             f"    return pb.sum(y * y)", space)
        for f in (space["f"], space["g"]):
            f.__annotations__ = {f"x{k}": t for k, t in enumerate(types)}
        functions = pb.function(space["f"]), pb.grad(pb.function(space["g"]))
        sources.append([f.c_source(names="canonical", comments=False) for f in functions])
    assert sources[0] == sources[1]


@pytest.mark.slow
def test_derivatives() -> None:
    given = operands("ij,jk,kl,l->i")
    check_grads(lambda a, b, c, d: pb.einsum("ij,jk,kl,l->i", a, b, c, d), given, order=2, elements=4)
    check_grads(lambda a: pb.einsum("iij->j", a), (np.arange(12.0).reshape(2, 2, 3),), order=1)


def shapes_of_steps(f: Any) -> list[str]:
    return [str(s.outs[0].shape) for s in f.program().body.statements if isinstance(s, Build)]


def test_the_order_is_that_of_least_cost() -> None:
    @pb.function
    def chain(a: Float64[Array, "N M"], b: Float64[Array, "M K"], v: Float64[Array, "K"]):
        return pb.einsum("ij,jk,k->i", a, b, v)

    assert shapes_of_steps(chain) == ["(M,)", "(N,)"]  # no matrix is made

    @pb.function
    def numbers(a: Float64[Array, "10 100"], b: Float64[Array, "100 5"], c: Float64[Array, "5 50"]):
        return pb.einsum("ij,jk,kl->il", a, b, c)

    assert shapes_of_steps(numbers) == ["(10, 5)", "(10, 50)"]

    @pb.function
    def known(a: Float64[Array, "N 3"], b: Float64[Array, "3 M"], c: Float64[Array, "M 3"]):
        return pb.einsum("ij,jk,kl->il", a, b, c)

    assert shapes_of_steps(known) == ["(3, 3)", "(N, 3)"]  # of degree 1, where the other order has degree 2

    @pb.function
    def apart(a: Float64[Array, "N M"], b: Float64[Array, "K L"]):
        return pb.einsum("ij,kl->i", a, b)

    assert shapes_of_steps(apart) == ["(N,)", "()", "(N,)"]  # each is summed before they meet


WRONG = {
    '"ij,jk->il", x, y': (
        "l of the result is in no operand",
        "ij,jk->il\n   |         ^",
        "take it away, or give it an operand",
    ),
    '"ij->ii", x': ("i is twice in the result", "ij->ii\n   |      ^", "`pb.diag` makes diagonal matrices"),
    '"ij,k", x': (
        "subscripts for 2 operands, and 1 were given",
        "ij,k\n   |    ^",
        "one group of letters for each operand, separated by commas",
    ),
    '"i", x, y': (
        "subscripts for 1 operand, and 2 were given",
        "i\n   |  ^",
        "one group of letters for each operand, separated by commas",
    ),
    '"i+j", x': ("'+' is no letter", "i+j\n   |  ^", "letters, `,`, `->` and one `...` in a group"),
    '"ij, ijk", x, y': (
        "3 letters for an array of 2 axes",
        "ij, ijk\n   |     ^\n   | y : f64[M, K]",
        "a letter for each axis; `...` stands for any others",
    ),
    '"...i->i", x': ("the result lacks the axes of the ellipsis", "...i->i\n   |       ^", "add `...` to the result"),
}


@pytest.mark.parametrize("call", WRONG)
def test_errors(call: str) -> None:
    what, facts, remedy = WRONG[call]
    space: dict[str, Any] = {"pb": pb, "Float64": Float64, "Array": Array}
    exec(
        'def f(x: Float64[Array, "N M"], y: Float64[Array, "M K"]):\n'
        f"    return pb.einsum({call})",
        space,
    )
    with pytest.raises(pb.ShapeError) as caught:
        pb.function(space["f"]).program()
    text = str(caught.value).split("\n")
    lines = [text[0], *(t for t in text[1:] if not t.startswith("  -->"))]
    assert "\n".join(lines) == (
        f"ShapeError [E104] einsum: {what}\n   | {facts}\n  try: {remedy}      See `pullback explain-error E104`"
    )


def test_two_extents_of_a_letter() -> None:
    def f(x: Float64[Array, "N M"], y: Float64[Array, "K N"]):
        return pb.einsum("ij,jk->ik", x, y)

    with pytest.raises(pb.ShapeError) as caught:
        pb.function(f)
    assert caught.value.code == "E102"
    assert caught.value.what == "einsum: j is M in x and K in y"
    assert caught.value.facts == ("ij,jk->ik\n   |    ^\n   | x : f64[N, M]      y : f64[K, N]",)
