"""Decompositions: values against NumPy's, derivatives in every mode, singular matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float, Float32, Float64, Int64

import pullback as pb
from pullback import Array, linalg
from pullback.errors import DTypeError, ShapeError
from pullback.ir.parser import parse_program
from pullback.ir.printer import print_program, structurally_equal
from pullback.ir.program import Call, Fold
from pullback.ir.verify import verify
from pullback.testing import check_grads

pytestmark = pytest.mark.slow

Square = Float64[Array, "N N"]
Tall = Float64[Array, "M N"]
Columns = Float64[Array, "N K"]


def traced(f: Callable[..., Any], *annotations: Any) -> Any:
    """F of one or two arrays as a traced function."""
    if len(annotations) == 1:

        def g(a: Any) -> Any:
            return f(a)

        g.__annotations__ = {"a": annotations[0]}
        return pb.function(g)

    def h(a: Any, b: Any) -> Any:
        return f(a, b)

    h.__annotations__ = dict(zip("ab", annotations))
    return pb.function(h)


@cache
def general(n: int, m: int | None = None) -> Any:
    return np.random.default_rng(n).normal(size=(n, n if m is None else m))


@cache
def definite(n: int) -> Any:
    return general(n) @ general(n).T + np.eye(n)


@cache
def right(n: int) -> Any:
    return np.random.default_rng(n + 1).normal(size=(n, 2))


def triangle(n: int) -> Any:
    return np.tril(general(n)) + 2 * np.eye(n)


def least(a: Any, b: Any) -> Any:
    return np.linalg.lstsq(a, b, rcond=None)[0]


SIZES = [1, 2, 5, 12]

# name: function, arguments for a size, what NumPy says
CASES: dict[str, tuple[Any, Callable[[int], tuple[Any, ...]], Callable[..., Any]]] = {
    "cholesky": (traced(linalg.cholesky, Square), lambda n: (definite(n),), np.linalg.cholesky),
    "solve_triangular": (
        traced(lambda a, b: linalg.solve_triangular(a, b, lower=True), Square, Columns),
        lambda n: (triangle(n) + np.triu(np.ones((n, n)), 1), right(n)),
        lambda a, b: np.linalg.solve(np.tril(a), b),
    ),
    "solve": (traced(linalg.solve, Square, Columns), lambda n: (general(n), right(n)), np.linalg.solve),
    "inv": (traced(linalg.inv, Square), lambda n: (general(n),), np.linalg.inv),
    "det": (traced(linalg.det, Square), lambda n: (general(n),), np.linalg.det),
    "slogdet": (traced(linalg.slogdet, Square), lambda n: (general(n),), np.linalg.slogdet),
    "qr": (traced(linalg.qr, Tall), lambda n: (general(n + 1, n),), np.linalg.qr),
    "lstsq": (
        traced(linalg.lstsq, Tall, Float64[Array, "M K"]),
        lambda n: (general(n + 1, n), right(n + 1)),
        least,
    ),
}


def assert_equal(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    pairs = zip(found, expected) if isinstance(found, tuple) else [(found, expected)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_values_are_numpys(name: str, n: int) -> None:
    f, arguments, reference = CASES[name]
    assert_equal(f(*arguments(n)), reference(*arguments(n)))
    if n == 5:
        assert_equal(f(*arguments(n)), f.interpret(*arguments(n)), 1e-13)


@pytest.mark.parametrize("name", CASES)
def test_factors_multiply_to_the_matrix(name: str) -> None:
    f, arguments, _ = CASES[name]
    a = arguments(12)[0]
    if name == "cholesky":
        factor = f(a)
        assert_equal(factor @ factor.T, a)
        assert not np.triu(factor, 1).any()
        assert_equal(traced(lambda x: linalg.cholesky(x, upper=True), Square)(a), factor.T)
    if name == "qr":
        q, r = f(a)
        assert_equal(q @ r, a)
        assert_equal(q.T @ q, np.eye(12))
        assert not np.tril(r, -1).any()


# D20: determinant, decompositions, solve: each with gradients
@pytest.mark.parametrize("name", CASES)
def test_d20_derivatives_in_every_mode(name: str) -> None:
    f, arguments, _ = CASES[name]
    check_grads(f, arguments(3), order=1)


# D20
@pytest.mark.parametrize("name", ["cholesky", "solve", "det", "lstsq"])
def test_d20_second_derivatives(name: str) -> None:
    f, arguments, _ = CASES[name]
    check_grads(f, arguments(2), ("forward", "reverse") if name == "cholesky" else ("reverse",), elements=4)


# D20
def test_d20_gradients_are_the_textbooks() -> None:
    a = general(5)
    inverse = np.linalg.inv(a)
    assert_equal(pb.grad(CASES["det"][0])(a), np.linalg.det(a) * inverse.T)
    log = traced(lambda x: linalg.slogdet(x).logabsdet, Square)
    assert_equal(pb.grad(log)(a), inverse.T)
    assert_equal(pb.hessian(log)(a), -np.einsum("jk,li->ijkl", inverse, inverse))
    trace = traced(lambda x: linalg.trace(linalg.inv(x)), Square)
    assert_equal(pb.grad(trace)(a), -(inverse @ inverse).T)
    half = traced(lambda x: pb.sum(pb.log(linalg.diagonal(linalg.cholesky(x)))), Square)
    assert_equal(pb.grad(half)(definite(5)), np.linalg.inv(definite(5)) / 2)
    b = right(5)
    quadratic = traced(lambda x, y: pb.sum(y * linalg.solve(x, y)), Square, Columns)
    assert_equal(pb.grad(quadratic)(a, b), -inverse.T @ b @ b.T @ inverse.T)


@pytest.mark.parametrize("name", CASES)
def test_d20_the_rule_is_what_is_used(name: str) -> None:
    """The gradient has the loops of the function and no others outside of calls: none was reversed."""
    f = CASES[name][0]
    annotations = f.python.__annotations__

    def loss(*args: Any) -> Any:
        out = f(*args)
        return sum((pb.sum(pb.sin(x)) for x in (out if isinstance(out, tuple) else (out,))), 0.0)

    f = traced(loss, *annotations.values())
    program = pb.grad(f).program()
    verify(program)
    loops, before = ([len(s.states) for s in p.body.statements if isinstance(s, Fold)] for p in (program, f.program()))
    assert loops == before
    assert any(isinstance(s, Call) for s in program.body.statements)
    again = parse_program(print_program(program))
    verify(again)
    assert structurally_equal(program, again)


@pytest.mark.parametrize("name", CASES)
def test_stacks_and_vmap(name: str) -> None:
    f, arguments, reference = CASES[name]
    stacks = tuple(
        np.stack([a, a[::-1] + 0.5 * a]) if name != "cholesky" else np.stack([a, 2 * a]) for a in arguments(3)
    )
    expected = [reference(*(s[k] for s in stacks)) for k in range(2)]
    mapped = pb.vmap(f)(*stacks)
    annotations = [Float64[Array, f"B {a.dim_str}"] for a in f.python.__annotations__.values()]
    inner = {
        "solve_triangular": lambda a, b: linalg.solve_triangular(a, b, lower=True),
    }.get(name, getattr(linalg, name))
    stacked = traced(inner, *annotations)(*stacks)
    for found in (mapped, stacked):
        for k in range(2):
            assert_equal(tuple(x[k] for x in found) if isinstance(found, tuple) else found[k], expected[k])


def test_vectors_and_leading_axes() -> None:
    a, b = general(3), right(3)
    stack = np.stack([a, a.T + 0.1])
    assert_equal(traced(linalg.solve, Square, Float64[Array, "N"])(a, b[:, 0]), np.linalg.solve(a, b[:, 0]))
    solved = np.stack([np.linalg.solve(x, b) for x in stack])
    assert_equal(traced(linalg.solve, Float64[Array, "B N N"], Columns)(stack, b), solved)
    several = np.stack([b, 2 * b])
    assert_equal(traced(linalg.solve, Square, Float64[Array, "B N K"])(a, several), np.linalg.solve(a, several))
    one = traced(linalg.solve, Float64[Array, "B 1 N N"], Float64[Array, "C N K"])
    assert_equal(one(stack[:, None], several), np.linalg.solve(stack[:, None], several[None]))  # vectors for NumPy 1
    fits = traced(linalg.lstsq, Float64[Array, "B M N"], Float64[Array, "M"])
    talls = np.stack([general(4, 2), general(4, 2)[::-1]])
    assert_equal(fits(talls, right(4)[:, 0]), np.stack([least(t, right(4)[:, 0]) for t in talls]))


def test_solve_triangular_has_the_options_of_scipy() -> None:
    a, b = general(4) + 2 * np.eye(4), right(4)
    for lower in (False, True):
        for trans in (0, 1):
            for unit in (False, True):
                f = traced(
                    lambda m, r: linalg.solve_triangular(m, r, lower=lower, trans=trans, unit_diagonal=unit),
                    Square,
                    Columns,
                )
                read = np.tril(a) if lower else np.triu(a)
                if unit:
                    read = read - np.diag(np.diag(read)) + np.eye(4)
                assert_equal(f(a, b), np.linalg.solve(read.T if trans else read, b))
    check_grads(
        traced(lambda m, r: linalg.solve_triangular(m, r, trans=1, unit_diagonal=True), Square, Columns),
        (a[:2, :2], b[:2]),
        order=1,
    )


@pytest.mark.parametrize("name", ["cholesky", "solve", "det", "qr"])
def test_single_precision(name: str) -> None:
    _, arguments, reference = CASES[name]
    given = tuple(a.astype(np.float32) for a in arguments(5))
    annotations = [Float[Array, "M N"] if name == "qr" else Float[Array, "N N"], Float[Array, "N K"]][: len(given)]
    found = traced(getattr(linalg, name), *annotations)(*given)
    expected = reference(*arguments(5))
    for a, b in zip(found, expected) if isinstance(found, tuple) else [(found, expected)]:
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_inside_build_fold_and_where() -> None:
    @pb.function
    def loss(x: Float64[Array, "B N N"], b: Float64[Array, "N"], chosen: Int64[Array, "B"]):
        rows = pb.build(x.shape[0], lambda i: linalg.solve(x[chosen[i]], b))
        total = pb.fold(x.shape[0], 0.0, lambda s, i: s + linalg.det(x[i]))
        sizes = pb.build(x.shape[0], lambda i: pb.where(linalg.det(x[i]) > 0.0, linalg.slogdet(x[i]).logabsdet, 0.0))
        return pb.sum(rows * rows) + total + pb.sum(sizes)

    x = np.stack([general(3), definite(3), general(3).T])
    arguments = (x, right(3)[:, 0], np.array([2, 0, 0]))
    rows = np.stack([np.linalg.solve(x[k], arguments[1]) for k in arguments[2]])
    determinants = np.linalg.det(x)
    expected = (rows**2).sum() + determinants.sum() + np.log(determinants[determinants > 0]).sum()
    np.testing.assert_allclose(loss(*arguments), expected, rtol=1e-10)
    np.testing.assert_allclose(loss.interpret(*arguments), expected, rtol=1e-10)
    check_grads(loss, arguments, ("reverse",), order=1, elements=8)


def cofactors(a: Any) -> Any:
    n = len(a)
    minor = lambda i, k: np.linalg.det(np.delete(np.delete(a, i, 0), k, 1))
    return np.array([[(-1) ** (i + k) * minor(i, k) for k in range(n)] for i in range(n)])


@pytest.mark.parametrize(
    "a",
    [
        np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]),
        np.array([[0.0, 1, 0], [2, 0, 0], [0, 0, 0]]),
        np.array([[1.0, 1, 2], [1, 1, 3], [2, 2, 5]]),
        np.zeros((3, 3)),
        np.ones((3, 3)),
    ],
)
def test_the_gradient_of_det_at_singular_matrices(a: Any) -> None:
    det = CASES["det"][0]
    np.testing.assert_allclose(det(a), 0.0, atol=1e-15)
    np.testing.assert_allclose(pb.grad(det)(a), cofactors(a), atol=1e-13)


def test_singular_and_indefinite_matrices_raise_nothing() -> None:
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert not np.isfinite(CASES["inv"][0](singular)).any()
    assert not np.isfinite(CASES["solve"][0](singular, right(2))).any()
    sign, log = CASES["slogdet"][0](singular)
    assert sign == 0
    assert log == -np.inf
    factor = CASES["cholesky"][0](np.array([[1.0, 2.0], [2.0, 1.0]]))
    np.testing.assert_array_equal(factor, [[1.0, 0.0], [2.0, np.nan]])
    nan = np.full((3, 3), np.nan)
    for name in ("inv", "det", "cholesky", "qr"):
        found = CASES[name][0](nan)
        assert np.isnan(found[0] if isinstance(found, tuple) else found).any()


def test_pivoting_keeps_small_pivots_out() -> None:
    a = np.array([[1e-20, 1.0], [1.0, 1.0]])
    assert_equal(CASES["solve"][0](a, right(2)), np.linalg.solve(a, right(2)))
    assert_equal(CASES["det"][0](a), -1.0)
    permutation = np.eye(6)[[3, 0, 5, 1, 2, 4]]
    assert_equal(CASES["det"][0](permutation), np.linalg.det(permutation))
    assert_equal(CASES["inv"][0](permutation), permutation.T)


def test_badly_conditioned_least_squares() -> None:
    """Householder's reflections lose the condition number, where the normal equations lose its square."""
    x = np.linspace(0, 1, 20)
    a = np.vander(x, 8)
    b = a @ np.arange(1.0, 9.0)
    np.testing.assert_allclose(CASES["lstsq"][0](a, b[:, None])[:, 0], np.arange(1.0, 9.0), rtol=1e-8)


ERRORS = [
    (lambda a, b: linalg.cholesky(a), "E104", ShapeError),
    (lambda a, b: linalg.det(b), "E104", ShapeError),
    (lambda a, b: linalg.solve(a @ a.T, pb.zeros(3)), "E102", ShapeError),
    (lambda a, b: linalg.lstsq(a, b), "E102", ShapeError),
    (lambda a, b: linalg.inv(pb.zeros((2, 2), dtype=pb.int64)), "E121", DTypeError),
    (lambda a, b: linalg.solve(a @ a.T, (a @ a.T).astype(pb.int64)), "E121", DTypeError),
    (lambda a, b: linalg.qr(b), "E104", ShapeError),
    (lambda a, b: linalg.solve_triangular(a @ a.T, a, trans=2), "E104", ShapeError),
]


@pytest.mark.parametrize(("f", "code", "kind"), ERRORS)
def test_errors(f: Any, code: str, kind: Any) -> None:
    with pytest.raises(kind, match=code):
        traced(f, Float64[Array, "P Q"], Float64[Array, "Q"]).program()


@pytest.mark.parametrize("name", ["solve", "inv", "det", "slogdet"])
def test_no_index_is_checked_while_it_runs(name: str) -> None:
    def loss(a: Square):
        out = linalg.solve(a, a) if name == "solve" else getattr(linalg, name)(a)
        return pb.sum(out[1] if name == "slogdet" else out)

    source = pb.grad(pb.function(loss)).c_source(N=4)
    assert "fault" not in source
    assert "stop_gradient(" not in source


def test_more_columns_than_rows_are_refused_by_the_call() -> None:
    with pytest.raises(ShapeError, match="E114"):
        CASES["qr"][0](np.ones((2, 3)))


def test_single_precision_gradients() -> None:
    loss = traced(lambda a: pb.sum(pb.sin(linalg.cholesky(a))), Float32[Array, "N N"])
    check_grads(loss, (definite(3).astype(np.float32),), order=1)


@pytest.mark.parametrize("machine", ["", "avx2", "scalar"])
def test_equal_singular_values_leave_vectors_without_a_tangent(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the compiler contracts products: the squares of equal values would differ by a rounding error."""
    monkeypatch.setenv("PULLBACK_MACHINE", machine)
    by = np.array([[1.0, 2.0], [3.0, 4.0]])
    f = pb.function(lambda a: pb.sum(linalg.svd(a, full_matrices=False).U * by))
    for c, s in ((3, 4), (5, 12), (8, 15)):
        slope = pb.grad(f)(np.array([[c, s], [-s, c]]) / np.hypot(c, s) * 1.1)
        np.testing.assert_allclose(slope, np.zeros((2, 2)), atol=1e-12)
