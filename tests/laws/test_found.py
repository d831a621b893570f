"""The smallest forms of what random programs have found, held to the oracle in the interpreter and in C."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pullback
from pullback.errors import IndexRangeError
from pullback.runtime.compile import compiler_command
from tests.support.agreement import Program

X, Y, Z = np.array([1.5, 0.5]), np.array([2.0]), np.array([0.0, 0.5, 2.0])
# Name, function, arguments, query; and what is wrong, as long as it is.
FOUND: Final[list[tuple[str, str, dict[str, Any], str, str]]] = [
    (
        "second derivatives where nothing is left",
        "lambda x, z: pb.sin(pb.reshape(pb.build(1, lambda i: x[0] * z.set(0, 0)[pb.clip(i, 0, 1)]), ()))",
        {"x": X, "z": X},
        "pb.grad(lambda x, z: pb.sum(pb.sin(pb.grad(f, wrt='z')(x, z))), wrt=('x', 'z'))(x, z)",
        "",
    ),
    (
        "a closure over indices in range, derived",
        "lambda x: (lambda order: pb.jvp(lambda y: y * x[order[0]])((x,), (x,)))(pb.argsort(x))[1]",
        {"x": X},
        "f(x)",
        "",
    ),
    (
        "a closure over what such indices choose, derived",
        "lambda x: (lambda u: pb.jvp(lambda y: u * y)((x,), (x,)))(pb.random.permutation(pb.random.key(0), x))[1]",
        {"x": X},
        "f(x)",
        "",
    ),
    (
        "sums of quotients",
        "lambda x: pb.sum_over(2, lambda i: 0.5 / x[i])",
        {"x": X},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "products of roots",
        "lambda x: pb.prod_over(2, lambda i: pb.sqrt(x[i]))",
        {"x": X},
        "pb.hessian(f)(x)",
        "",
    ),
    (
        "an index that folds to a negative number",
        "lambda x: pb.build(2, lambda i: x.at(i // 2 - 2, fill=0.5))",
        {"x": X},
        "f(x)",
        "",
    ),
    (
        "a fold inside build from a checked element",
        "lambda x, p: pb.build(2, lambda j: pb.fold(3, x[p[j]], lambda s, t: s * 0.5))",
        {"x": X, "p": np.array([1, 0])},
        "f(x, p)",
        "",
    ),
    (
        "a pattern of reads outside",
        "lambda x, p: pb.fold(2, pb.build((2, 2), lambda i, j: 1.0), "
        "lambda s, t: pb.build((2, 2), lambda j, k: x[j] + s.at(p[k], t + 1, fill=0.5)))",
        {"x": X, "p": np.array([1, 0])},
        'pb.jacobian(f, sparse="colored")(x, p)',
        "",
    ),
    (
        "a guard in a second tangent",
        "lambda x, y: pb.sum_over(3, lambda i: y.at(i) * (x[0] / x[0]))",
        {"x": X, "y": Y},
        "pb.jvp(pb.jvp(f))(((x, y), (x, y)), ((x, y), None))",
        "",
    ),
    (
        "a guard in a second tangent of stored quotients",
        "lambda x: pb.build((2, 2), lambda i, j: "
        "pb.build(2, lambda k: x[k] / (1.5 + pb.square(x[i // 2] * j)))[i // 2])",
        {"x": X},
        'pb.jacobian(pb.jacobian(f, mode="reverse"), mode="forward")(x)',
        "",
    ),
    (
        "a guard around a test",
        "lambda x: pb.sin(pb.sum_over(2, lambda i: pb.where(x[i] > 0.7, x[i], x.at(i + 1))))",
        {"x": X},
        'pb.jacobian(pb.grad(f), mode="reverse")(x)',
        "",
    ),
    (
        "a sum of rows by data",
        "lambda x, p: pb.sum_over(2, lambda i: pb.outer(x, x)[p[i]])",
        {"x": X, "p": np.array([1, 0])},
        "f(x, p)",
        "",
    ),
    (
        "the position of an extreme of extremes",
        "lambda x: pb.min(pb.build((2, 3), lambda i, j: pb.min_over(2, lambda k: x[i])))",
        {"x": X},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "the position of an extreme behind a clipped index",
        "lambda x: pb.build(5, lambda i: pb.concat([x, pb.build(3, lambda i: pb.max_over(2, lambda k: x[k]))])"
        "[pb.clip(i, 0, 2)])",
        {"x": X},
        'pb.jacobian(f, mode="forward")(x)',
        "",
    ),
    (
        "the columns of a largest element",
        "lambda x: pb.max_over((2, 2), lambda k, l: x[k]) * x[0]",
        {"x": X},
        "pb.hessian(f, sparse=True)(x)",
        "",
    ),
    (
        "a power of exponent 0 that moves",
        "lambda x, y: pb.power(x, y)",
        {"x": X, "y": np.array([0.0, 2.0])},
        "pb.jvp(pb.jvp(f))(((x, y), (x, x)), ((x, x), None))",
        "",
    ),
    (
        "residuals that a lambda gives",
        "lambda x: pb.cos(pb.vmap(lambda r: x * r)(x))",
        {"x": X},
        "pb.forward_backward(f)[1](pb.forward_backward(f)[0](x)[1], np.ones((2, 2)))",
        "",
    ),
    (
        "a pattern of rows of which the last is constant",
        "lambda x: pb.fold(5, (x[0], 2.0), lambda s, t: (pb.tanh(s[1]), s[0]))[1]",
        {"x": X},
        'pb.hessian(f, sparse="colored")(x)',
        "",
    ),
    (
        "an array under two guards of data",
        "lambda x: (lambda u: pb.sum(pb.where(x > 0, u, 0.0) + pb.where(x > 1, 2 * u, 0.0)))(pb.log(x))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "an array under a condition on indices",
        "lambda x: (lambda u: pb.sum(pb.build(3, lambda i: pb.where(i > 0, u[i], 0.0))))"
        "(pb.build(3, lambda i: pb.sum_over(2, lambda k: k / x[i])))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "a loop's result under a guard",
        "lambda x: pb.where(x[0] > 0, pb.fold(3, pb.sum(x[:1]), lambda s, t: pb.sqrt(s)), 0.0)",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "elements of a loop's result under guards of their own",
        "lambda x: pb.sum(pb.where(x > 0, pb.fold(3, x, lambda s, t: pb.sqrt(s)), 0.0))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "a step that leaves out the steps before",
        "lambda x: pb.sum(pb.fold(2, x, lambda s, t: pb.where(t == 0, pb.sqrt(s), 1.0)))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "rows of a loop under a guard",
        "lambda x: pb.sum(pb.where(pb.build(3, lambda i: i > 0), "
        "pb.scan(3, 1.0, lambda s, t: (s * 0.5, s * pb.sqrt(x[t])))[1], 0.0))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "what a loop under a guard reads",
        "lambda x: (lambda u: pb.where(x[1] > 2, pb.fold(2, 1.0, lambda s, t: s * s + pb.sum(u)), 0.0))(pb.log(x))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "what one branch alone reads",
        "lambda x: (lambda u: pb.cond(x[1] > 2, lambda v: pb.sum(v), lambda v: 0.0, u))(pb.log(x))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "a bounded while under a guard",
        "lambda x: pb.where(x[0] > 0, "
        "pb.while_loop(lambda s: s < 0.9, lambda s: 0.5 + pb.sqrt(s), x[0], max_trips=9), 0.0)",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "a checkpoint under a guard",
        "lambda x: pb.where(x[0] > 0, pb.checkpoint(lambda v: pb.sum(pb.sqrt(v)))(x), 0.0)",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "elements at places from data under a guard",
        "lambda x, p: (lambda u: pb.sum(pb.build(2, lambda i: pb.where(x[i] > 0, u[p[i]], 0.0))))(pb.log(x))",
        {"x": Z, "p": np.array([0, 2])},
        "pb.grad(f)(x, p)",
        "",
    ),
    (
        "a sum under a guard without its indices",
        "lambda x: pb.sum(pb.build(3, lambda i: pb.where(x[i] < 0, pb.sum_over(3, lambda j: pb.log(x[j])), 0.0)))",
        {"x": Z},
        "pb.grad(f)(x)",
        "",
    ),
    (
        "neighbors in parts of blocks, which the verifier did not prove to be in range",
        "lambda x: pb.sum(pb.build((x.shape[0] // 10, 3), lambda i, j: x[10 * i + 2 * j] * x[10 * i + 2 * j + 1]))",
        {"x": np.arange(1.0, 31.0)},
        "pb.grad(f)(x)",
        "",
    ),
]


def parameters() -> list[Any]:
    return [
        pytest.param(f"f = pb.function({function})\n", arguments, query, id=name,
                     marks=[pytest.mark.xfail(reason=reason, strict=True)] if reason else [])
        for name, function, arguments, query, reason in FOUND
    ]  # fmt: skip


@pytest.mark.parametrize("backend", ["interpreter", "c"])
@pytest.mark.parametrize(("source", "arguments", "query"), parameters())
def test_found(source: str, arguments: dict[str, Any], query: str, backend: str,
               monkeypatch: pytest.MonkeyPatch) -> None:
    if backend == "c" and compiler_command() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("PULLBACK_BACKEND", backend)
    verdict = Program(source, arguments).judge(query)
    assert not verdict.faults and verdict.compared, verdict


EMPTY = (
    "pb.sum_over(x.shape[0], lambda j: pb.sin(x[pb.clip(2 * i - 1, 0, x.shape[0] - 1)]) * x[j]) * y[i]",
    "pb.sum_over(x.shape[0], lambda j: x[(i + j) % x.shape[0]]) * y[i]",
    "pb.sum_over(x.shape[0], lambda j: pb.fold(2, y[i], lambda s, t: s * x[pb.clip(t, 0, x.shape[0] - 1)] + x[j]))",
)


@pytest.mark.parametrize("element", EMPTY)
def test_elements_that_nothing_needs(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read at places that an index over nothing does not change, and shared by the derivative: no error."""
    monkeypatch.setenv("PULLBACK_BACKEND", "interpreter")
    kinds = 'x: Float64[pb.Array, "N"], y: Float64[pb.Array, "M"]'
    body = f"    return pb.sum(pb.build(y.shape[0], lambda i: {element}))"
    program = Program(f"@pb.function\ndef f({kinds}):\n{body}\n", {"x": np.ones(0), "y": np.ones(2)})
    for query in ("f(x, y)", "pb.grad(lambda x, y: pb.sum(pb.sin(pb.grad(f, wrt='y')(x, y))), wrt=('x', 'y'))(x, y)"):
        verdict = program.judge(query)
        assert verdict.compared and not verdict.faults, verdict
    needed = Program(program.source.replace(element, "x[i % x.shape[0]]"), program.arguments)
    with pytest.raises(IndexRangeError):
        needed.ask(pullback, "f(x, y)")
